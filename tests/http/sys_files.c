/*
 * sys_files.c: the seam for files and folders when the kernel refuses a call or is older, or a
 * signal comes: interrupted calls are repeated, errors are passed on, and files are found without
 * openat2.
 */
#include "http/sys_files.h"

#include <sys/syscall.h>

#include "folder_tree.h"
#include "http/safe_open.h"
#include "kernel.h"
#include "system.h"

static struct fake fake_open, fake_openat, fake_syscall;

static int refuse(const struct fake *fake)
{
    errno = fake->error;
    return -1;
}

static mode_t mode_in(va_list list, int flags)
{
    return flags & O_CREAT ? va_arg(list, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_in(list, flags);
    va_end(list);
    if (fake_due(&fake_open))
        return refuse(&fake_open);
    return ((int (*)(const char *, int, ...))(uintptr_t)fake_real("open"))(path, flags, mode);
}

/* Only to open: to look at something goes on. */
int openat(int folder, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_in(list, flags);
    va_end(list);
    if ((flags & O_PATH) == 0 && fake_due(&fake_openat))
        return refuse(&fake_openat);
    return ((int (*)(int, const char *, int, ...))(uintptr_t)fake_real("openat"))(folder, path,
                                                                                  flags, mode);
}

/* Only openat2. */
static long answer_syscall(long number, const long *a)
{
    if (number == SYS_openat2 && fake_due(&fake_syscall))
        return refuse(&fake_syscall);
    return fake_real_syscall(number, a);
}

FAKE_SYSCALL(answer_syscall)

static struct safe_root folder;

static void open_root(bool without_openat2)
{
    CHECK_EQ(weft__http_safe_root_open(&folder, tree_path("root")), 0);
    folder.without_openat2 |= without_openat2;
}

/* That the path leads to the file with that text. */
static void find(const char *path, const char *text)
{
    char bytes[64];
    int fd = weft__http_safe_open(&folder, path, OPEN_READ);
    CHECK(fd >= 0);
    ssize_t size = read(fd, bytes, sizeof bytes - 1);
    CHECK(size >= 0);
    bytes[size] = '\0';
    CHECK_STR(bytes, text);
    close(fd);
}

static void interrupted_calls_begin_again(void)
{
    KERNEL_SAYS(open, EINTR, 2);
    KERNEL_SAYS(syscall, EINTR, 2);
    open_root(false);
    KERNEL_SAID(open);
    KERNEL_SAID(syscall);
    bool has_openat2 = !folder.without_openat2;
    KERNEL_SAYS(syscall, EINTR, has_openat2 ? 3 : 0);
    find("sub/b.txt", "B");
    KERNEL_SAID(syscall);
    folder.without_openat2 = true;
    KERNEL_SAYS(openat, EINTR, 4);
    find("sub/b.txt", "B");
    KERNEL_SAID(openat);
    weft__http_safe_root_close(&folder);
}

/* Before Linux 5.6, and under filters of system calls, which have words of their own for it. */
static void kernels_without_openat2(void)
{
    static const int words[] = {ENOSYS, EPERM, EINVAL};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        KERNEL_SAYS(syscall, words[i], KERNEL_ALWAYS);
        open_root(false);
        CHECK(folder.without_openat2);
        find("sub/b.txt", "B");
        find("link", "B");
        CHECK_EQ(weft__http_safe_open(&folder, "out", OPEN_READ), -EXDEV);
        KERNEL_SAYS(syscall, 0, 0);
        weft__http_safe_root_close(&folder);
    }
}

static void folders_that_cannot_be_opened(void)
{
    struct safe_root opened = {.fd = 12345};
    int descriptors = open_descriptors();
    KERNEL_SAYS(open, ENFILE, 1);
    CHECK_EQ(weft__http_safe_root_open(&opened, tree_path("root")), -ENFILE);
    KERNEL_SAYS(syscall, EMFILE, 1);
    CHECK_EQ(weft__http_safe_root_open(&opened, tree_path("root")), -EMFILE);
    CHECK_EQ(opened.fd, 12345);
    CHECK_EQ(open_descriptors(), descriptors);
}

/* EAGAIN while files are renamed, which another process may do for ever. */
static void a_kernel_that_cannot_tell(void)
{
    open_root(false);
    if (!folder.without_openat2) {
        KERNEL_SAYS(syscall, EAGAIN, 3);
        find("sub/b.txt", "B");
        KERNEL_SAID(syscall);
        KERNEL_SAYS(syscall, EAGAIN, KERNEL_ALWAYS);
        find("sub/b.txt", "B");
        CHECK_EQ(weft__http_safe_open(&folder, "out", OPEN_READ), -EXDEV);
        CHECK_EQ(weft__http_safe_open(&folder, "gone", OPEN_READ), -ENOENT);
        KERNEL_SAYS(syscall, 0, 0);
    }
    weft__http_safe_root_close(&folder);
}

/* What was no link when it was looked at is one when it is opened: it is looked at again, but not
 * forever. */
static void links_that_appear_between(void)
{
    int descriptors = open_descriptors();
    open_root(true);
    KERNEL_SAYS(openat, ELOOP, 40);
    find("sub/b.txt", "B");
    KERNEL_SAID(openat);
    KERNEL_SAYS(openat, ELOOP, KERNEL_ALWAYS);
    CHECK_EQ(weft__http_safe_open(&folder, "sub/b.txt", OPEN_READ), -ELOOP);
    KERNEL_SAYS(openat, 0, 0);
    weft__http_safe_root_close(&folder);
    CHECK_EQ(open_descriptors(), descriptors);
}

static void links_as_texts(void)
{
    char text[16] = "poison";
    open_root(false);
    int link = weft__http_open_in(folder.fd, "link", OPEN_LOOK);
    int file = weft__http_open_in(folder.fd, "a.txt", OPEN_LOOK);
    CHECK(link >= 0 && file >= 0);
    CHECK(weft__http_read_link(file, text, sizeof text) < 0);
    CHECK_STR(text, "poison");
    CHECK_EQ(weft__http_read_link(link, text, 9), -ENAMETOOLONG); /* no room for the zero */
    memset(text, '!', sizeof text);
    CHECK_EQ(weft__http_read_link(link, text, 10), 9);
    CHECK_STR(text, "sub/b.txt");
    CHECK_EQ(text[10], '!');
    close(link);
    close(file);
    weft__http_safe_root_close(&folder);
}

static void what_is_no_file_and_no_folder(void)
{
    struct file_status status = {.kind = FILE_OTHER, .size = 12345};
    struct file_list *poison = (struct file_list *)&poison, *list = poison;
    int closed = open(tree_path("root/a.txt"), O_RDONLY);
    CHECK(closed >= 0);
    CHECK_EQ(weft__http_list_open(closed, &list), -ENOTDIR);
    CHECK_PTR(list, poison);
    CHECK_EQ(weft__http_file_status(closed, &status), 0); /* it is still the caller's */
    CHECK_EQ(status.kind, FILE_REGULAR);
    close(closed);
    status = (struct file_status){.kind = FILE_OTHER, .size = 12345};
    CHECK_EQ(weft__http_file_status(closed, &status), -EBADF);
    CHECK_EQ(status.size, 12345);
}

int main(void)
{
    tree_begin();
    tree_folder("root");
    tree_folder("root/sub");
    tree_file("secret", "secret");
    tree_file("root/a.txt", "A");
    tree_file("root/sub/b.txt", "B");
    tree_link("root/link", "sub/b.txt");
    tree_link("root/out", "../secret");
    RUN_PLAIN(interrupted_calls_begin_again, "nothing here is a fiber");
    RUN_PLAIN(kernels_without_openat2, "nothing here is a fiber");
    RUN_PLAIN(folders_that_cannot_be_opened, "nothing here is a fiber");
    RUN_PLAIN(a_kernel_that_cannot_tell, "nothing here is a fiber");
    RUN_PLAIN(links_that_appear_between, "nothing here is a fiber");
    RUN_PLAIN(links_as_texts, "nothing here is a fiber");
    RUN_PLAIN(what_is_no_file_and_no_folder, "nothing here is a fiber");
    tree_end();
    return 0;
}
