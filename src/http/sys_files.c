/*
 * sys_files.c: the part of the seam for files and folders: see sys_files.h.
 */
#include "http/sys_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "http/sys.h"

/* From Linux 5.6 on; older headers define neither the call nor its constants. */
#ifndef SYS_openat2
#define SYS_openat2 437
#endif

struct how_to_open {
    uint64_t flags, mode, resolve;
};

enum { NO_MAGIC_LINKS = 0x02, BENEATH = 0x08 };

static const int flags_of[] = {
    [OPEN_LOOK] = O_PATH | O_CLOEXEC,
    [OPEN_READ] = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
    [OPEN_LIST] = O_RDONLY | O_CLOEXEC | O_DIRECTORY,
};

int weft__http_open_folder(const char *path)
{
    int fd;
    do
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (fd < 0 && weft__http_errno() == EINTR);
    return fd < 0 ? -weft__http_errno() : fd;
}

int weft__http_open_beneath(int folder, const char *path, enum file_open how)
{
    struct how_to_open to = {(uint64_t)flags_of[how], 0, NO_MAGIC_LINKS | BENEATH};
    long fd;
    do
        fd = syscall(SYS_openat2, folder, path, &to, sizeof to);
    while (fd < 0 && weft__http_errno() == EINTR);
    return fd < 0 ? -weft__http_errno() : (int)fd;
}

int weft__http_open_in(int folder, const char *name, enum file_open how)
{
    int fd;
    do
        fd = openat(folder, name, flags_of[how] | O_NOFOLLOW);
    while (fd < 0 && weft__http_errno() == EINTR);
    return fd < 0 ? -weft__http_errno() : fd;
}

int64_t weft__http_read_link(int link, char *text, size_t size)
{
    ssize_t length = readlinkat(link, "", text, size);
    if (length < 0)
        return -weft__http_errno();
    if ((size_t)length == size)
        return -ENAMETOOLONG;
    text[length] = '\0';
    return length;
}

int weft__http_file_status(int file, struct file_status *status)
{
    struct stat said;
    if (fstat(file, &said) != 0)
        return -weft__http_errno();
    mode_t mode = said.st_mode;
    *status = (struct file_status){
        .kind = S_ISREG(mode)   ? FILE_REGULAR
                : S_ISDIR(mode) ? FILE_FOLDER
                : S_ISLNK(mode) ? FILE_LINK
                                : FILE_OTHER,
        .inode = said.st_ino,
        .size = said.st_size,
        .modified = said.st_mtim.tv_sec,
        .modified_ns = said.st_mtim.tv_nsec,
    };
    return 0;
}

/* ---- lists ---- */

static DIR *stream_of(struct file_list *list)
{
    return (DIR *)list;
}

int weft__http_list_open(int folder, struct file_list **list)
{
    DIR *stream = fdopendir(folder);
    if (stream == NULL)
        return -weft__http_errno();
    *list = (struct file_list *)stream;
    return 0;
}

static enum file_kind kind_of(unsigned char type)
{
    switch (type) {
    case DT_REG:
        return FILE_REGULAR;
    case DT_DIR:
        return FILE_FOLDER;
    case DT_LNK:
        return FILE_LINK;
    case DT_UNKNOWN:
        return FILE_UNKNOWN;
    default:
        return FILE_OTHER;
    }
}

/* Sets errno, so it is never inlined: see sys.c. */
__attribute__((noinline)) int weft__http_list_next(struct file_list *list, const char **name,
                                                   enum file_kind *kind)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(stream_of(list));
        if (entry == NULL)
            return -weft__http_errno();
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *name = entry->d_name;
        *kind = kind_of(entry->d_type);
        return 1;
    }
}

void weft__http_list_close(struct file_list *list)
{
    closedir(stream_of(list));
}
