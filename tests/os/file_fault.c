/*
 * file_fault.c: files, pipes, processes and the ring where the kernel refuses, or a signal arrives:
 * interrupted calls begin again, errors are passed on, errno is kept.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "kernel.h"
#include "os/failure.h"
#include "os/os.h"

FAKE(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
FAKE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
FAKE(ssize_t, preadv2, (int fd, const struct iovec *list, int count, off_t offset, int flags),
     (fd, list, count, offset, flags))
FAKE(ssize_t, pwritev2, (int fd, const struct iovec *list, int count, off_t offset, int flags),
     (fd, list, count, offset, flags))
FAKE(int, close, (int fd), (fd))
FAKE(int, pipe2, (int ends[2], int flags), (ends, flags))
FAKE(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
FAKE(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options), (type, id, info, options))
FAKE(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset))
FAKE_RETURNS(int, posix_spawn_file_actions_init, (posix_spawn_file_actions_t * actions), (actions))
FAKE_RETURNS(int, posix_spawn_file_actions_adddup2,
             (posix_spawn_file_actions_t * actions, int fd, int to), (actions, fd, to))
FAKE_RETURNS(int, posix_spawn_file_actions_addchdir_np,
             (posix_spawn_file_actions_t * actions, const char *path), (actions, path))
FAKE_RETURNS(int, posix_spawnattr_init, (posix_spawnattr_t * attributes), (attributes))
FAKE_RETURNS(int, posix_spawnattr_setflags, (posix_spawnattr_t * attributes, short flags),
             (attributes, flags))

static struct fake fake_open, fake_syscall;
FAKE_FCNTL
static atomic_u32 fewer_features; /* io_uring_setup answers as an older kernel does */

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    int mode = va_arg(list, int);
    va_end(list);
    if (fake_due(&fake_open)) {
        errno = fake_open.error;
        return -1;
    }
    return ((int (*)(const char *, int, ...))(uintptr_t)fake_real("open"))(path, flags, mode);
}

/* Makes a descriptor look like a disk. */
static struct fake fake_fstat;

int fstat(int fd, struct stat *status)
{
    int result = fstatat(fd, "", status, AT_EMPTY_PATH);
    if (fake_due(&fake_fstat))
        status->st_mode = S_IFBLK;
    return result;
}

/* Answers the calls of the ring. */
static long answer_syscall(long number, const long *a)
{
    if ((number == SYS_io_uring_setup || number == SYS_io_uring_enter) && fake_due(&fake_syscall)) {
        errno = fake_syscall.error;
        return -1;
    }
    long result = fake_real_syscall(number, a);
    if (number == SYS_io_uring_setup && result >= 0 && atomic_u32_load_relaxed(&fewer_features))
        ((struct io_uring_params *)(uintptr_t)a[1])->features &= ~(uint32_t)IORING_FEAT_NODROP;
    return result;
}

FAKE_SYSCALL(answer_syscall)

static char path[] = "/tmp/weft-kernel-XXXXXX";

static int temporary(void)
{
    strcpy(path + sizeof path - 7, "XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    return fd;
}

static void interrupted_calls_begin_again(void)
{
    int ends[2], file = temporary();
    char bytes[] = "abc", got[sizeof bytes] = "";
    CHECK_EQ(weft__os_pipe(ends), 0);

    KERNEL_SAYS(write, EINTR, 3);
    CHECK_EQ(KEPT(weft__os_fd_write(ends[1], bytes, sizeof bytes)), sizeof bytes);
    KERNEL_SAID(write);
    KERNEL_SAYS(read, EINTR, 3);
    CHECK_EQ(KEPT(weft__os_fd_read(ends[0], got, sizeof got)), sizeof got);
    KERNEL_SAID(read);
    CHECK_STR(got, bytes);

    struct weft__os_io put = {IO_WRITE, file, bytes, sizeof bytes, -1};
    struct weft__os_io get = {IO_READ, file, got, sizeof got, -1};
    KERNEL_SAYS(write, EINTR, 2);
    CHECK_EQ(KEPT(weft__os_io(&put)), sizeof bytes);
    KERNEL_SAID(write);
    CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
    memset(got, 0, sizeof got);
    KERNEL_SAYS(read, EINTR, 2);
    CHECK_EQ(KEPT(weft__os_io(&get)), sizeof got);
    KERNEL_SAID(read);
    CHECK_STR(got, bytes);

    fake_plan(&fake_open, 0, EINTR, 2);
    int fd = (int)KEPT(weft__os_open(path, O_RDONLY, 0));
    CHECK(fd >= 0);
    CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    memset(got, 0, sizeof got);
    KERNEL_SAYS(read, EINTR, 2);
    CHECK_EQ(KEPT(weft__os_read_file(path, got, sizeof got)), sizeof got - 1);
    KERNEL_SAID(read);
    CHECK_STR(got, bytes);

    /* Linux closes the descriptor before it returns EINTR: no second close, the number may be in
     * use. */
    KERNEL_SAYS(close, EINTR, 1);
    CHECK_EQ(KEPT(weft__os_file_close(fd)), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&fake_close.calls), 1);
    CHECK_EQ(close(fd), 0);
    CHECK_EQ(unlink(path), 0);
    for (int i = 0; i < 2; i++)
        weft__os_close(ends[i]);
    weft__os_close(file);
}

static void errors_are_passed_on(void)
{
    int ends[2] = {-7, -7}, file = temporary();
    char byte = 'x', text[8];
    struct weft__os_io read_one = {IO_READ, file, &byte, 1, -1};
    KERNEL_SAYS(read, EIO, 1);
    CHECK_EQ(KEPT(weft__os_io(&read_one)), -EIO);
    KERNEL_SAYS(read, EISDIR, 1);
    CHECK_EQ(KEPT(weft__os_fd_read(file, &byte, 1)), -EISDIR);
    KERNEL_SAYS(write, ENOSPC, 1);
    CHECK_EQ(KEPT(weft__os_fd_write(file, &byte, 1)), -ENOSPC);
    fake_plan(&fake_open, 0, ENFILE, 1);
    CHECK_EQ(KEPT(weft__os_open(path, O_RDONLY, 0)), -ENFILE);
    fake_plan(&fake_open, 0, ENFILE, 1);
    CHECK_EQ(KEPT(weft__os_open_null(true)), -ENFILE);
    KERNEL_SAYS(read, EIO, 1); /* what was read before is the result */
    CHECK_EQ(KEPT(weft__os_read_file(path, text, sizeof text)), 0);
    CHECK_STR(text, "");
    KERNEL_SAYS(close, EIO, 1);
    CHECK_EQ(KEPT(weft__os_file_close(file)), -EIO);
    KERNEL_SAYS(pipe2, ENFILE, 1);
    CHECK_EQ(KEPT(weft__os_pipe(ends)), -ENFILE);
    CHECK(ends[0] == -7 && ends[1] == -7);
    CHECK_EQ(KEPT(weft__os_dup_above(-1, 3)), -EBADF);
    CHECK_EQ(KEPT(weft__os_set_nonblocking(-1)), -EBADF);
    fake_plan(&fake_fcntl, 1, EPERM, 1);
    CHECK_EQ(KEPT(weft__os_set_nonblocking(file)), -EPERM);
    CHECK_EQ(KEPT(weft__os_is_regular(-1)), -EBADF);
    CHECK_EQ(KEPT(weft__os_rename("/no/such", "/no/other")), -ENOENT);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(close(file), 0);
}

static void what_is_regular(void)
{
    int ends[2], folder = open("/", O_RDONLY | O_DIRECTORY), file = temporary();
    CHECK_EQ(weft__os_pipe(ends), 0);
    CHECK_EQ(weft__os_is_regular(file), 1);
    CHECK_EQ(weft__os_is_regular(folder), 1);
    CHECK_EQ(weft__os_is_regular(ends[0]), 0);
#if __GLIBC_PREREQ(2, 33) /* before that fstat had another name */
    fake_plan(&fake_fstat, 0, 0, 1);
    CHECK_EQ(weft__os_is_regular(ends[0]), 1); /* a disk */
#endif
    CHECK_EQ(unlink(path), 0);
    close(file), close(folder), close(ends[0]), close(ends[1]);
}

/* Each kind, at an offset and at the position of the file. */
static void every_kind_of_operation(void)
{
    int file = temporary();
    char bytes[] = "abcdef", got[8];
    struct iovec put[] = {{bytes, 2}, {bytes + 2, 4}}, get[] = {{got, 3}, {got + 3, 3}};
    for (int64_t offset = -1; offset <= 0; offset++)
        for (int nowait = 0; nowait < 2; nowait++) {
            struct weft__os_io writes = {IO_WRITEV, file, put, 2, offset};
            struct weft__os_io reads = {IO_READV, file, get, 2, offset};
            int64_t (*run)(const struct weft__os_io *) = nowait ? weft__os_io_nowait : weft__os_io;
            CHECK_EQ(ftruncate(file, 0), 0);
            CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
            int64_t wrote = run(&writes);
            if (nowait && wrote == -EAGAIN) /* a file system that would wait for room */
                wrote = weft__os_io(&writes);
            if (nowait && wrote == -EOPNOTSUPP)
                wrote = weft__os_io(&writes);
            CHECK_EQ(wrote, 6);
            CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
            memset(got, 0, sizeof got);
            int64_t read_bytes = run(&reads);
            if (nowait && (read_bytes == -EAGAIN || read_bytes == -EOPNOTSUPP))
                read_bytes = weft__os_io(&reads);
            CHECK_EQ(read_bytes, 6);
            CHECK_STR(got, bytes);
        }
    CHECK_EQ(weft__os_io(&(struct weft__os_io){.kind = IO_SYNC, .fd = file}), 0);
    CHECK_EQ(weft__os_io(&(struct weft__os_io){.kind = IO_DATASYNC, .fd = file}), 0);
    CHECK_EQ(weft__os_io_nowait(&(struct weft__os_io){.kind = IO_SYNC, .fd = file}), -EOPNOTSUPP);
    CHECK_EQ(unlink(path), 0);
    close(file);
}

/* An interrupted call that must not wait does not begin again. */
static void without_waiting(void)
{
    int file = temporary();
    char byte = 'x';
    struct weft__os_io get = {IO_READ, file, &byte, 1, 0}, put = {IO_WRITE, file, &byte, 1, 0};
    KERNEL_SAYS(preadv2, EINTR, 1);
    CHECK_EQ(KEPT(weft__os_io_nowait(&get)), -EAGAIN);
    KERNEL_SAYS(preadv2, ENOSYS, 1);
    CHECK_EQ(KEPT(weft__os_io_nowait(&get)), -EOPNOTSUPP);
    KERNEL_SAYS(pwritev2, ENOSPC, 1);
    CHECK_EQ(KEPT(weft__os_io_nowait(&put)), -ENOSPC);
    CHECK_EQ(unlink(path), 0);
    close(file);
}

static void stderr_that_is_full_or_gone(void)
{
    static const char text[] = "what is said, whole\n";
    char got[sizeof text] = "";
    int ends[2], before = dup(STDERR_FILENO);
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    KERNEL_SAYS(write, EINTR, 2);
    weft__os_write_stderr(text, sizeof text - 1);
    KERNEL_SAID(write);
    CHECK_EQ(read(ends[0], got, sizeof got), sizeof text - 1);
    CHECK_STR(got, text);
    KERNEL_SAYS(write, EIO, 1); /* the error has nowhere to go */
    errno = EDOM;
    weft__os_write_stderr(text, sizeof text - 1);
    CHECK_EQ(errno, EDOM);
    KERNEL_SAID(write);
    CHECK_EQ(dup2(before, STDERR_FILENO), STDERR_FILENO);
    close(before), close(ends[0]), close(ends[1]);
}

static int spawn_true(pid_t *pid, const char *directory)
{
    const char *argv[] = {"true", NULL};
    struct weft__os_spawn how = {.argv = argv, .fds = {0, 1, 2}, .directory = directory};
    return weft__os_spawn(pid, &how);
}

static void a_child_that_cannot_start(void)
{
    pid_t pid = -7;
    KERNEL_SAYS(posix_spawn_file_actions_init, ENOMEM, 1);
    CHECK_EQ(KEPT(spawn_true(&pid, NULL)), -ENOMEM);
    KERNEL_SAYS(posix_spawnattr_init, ENOMEM, 1);
    CHECK_EQ(KEPT(spawn_true(&pid, NULL)), -ENOMEM);
    for (uint32_t i = 0; i < 3; i++) {
        KERNEL_SAYS_AFTER(posix_spawn_file_actions_adddup2, i, ENOMEM, 1);
        CHECK_EQ(KEPT(spawn_true(&pid, NULL)), -ENOMEM);
    }
    KERNEL_SAYS(posix_spawn_file_actions_addchdir_np, ENOMEM, 1);
    CHECK_EQ(KEPT(spawn_true(&pid, "/")), -ENOMEM);
    KERNEL_SAYS(posix_spawnattr_setflags, EINVAL, 1);
    CHECK_EQ(KEPT(spawn_true(&pid, NULL)), -EINVAL);
    CHECK_EQ(pid, -7);
}

static void a_child_that_is_waited_for(void)
{
    pid_t pid;
    int status = -1;
    CHECK_EQ(spawn_true(&pid, "/"), 0);
    KERNEL_SAYS(waitid, EINTR, 2);
    CHECK_EQ(KEPT(weft__os_process_await(pid)), 0);
    KERNEL_SAID(waitid);
    KERNEL_SAYS(waitpid, EINTR, 2);
    CHECK_EQ(KEPT(weft__os_process_reap(pid, &status)), 1);
    KERNEL_SAID(waitpid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* After it was reaped. */
    CHECK_EQ(KEPT(weft__os_process_await(pid)), -ECHILD);
    CHECK_EQ(KEPT(weft__os_process_reap(pid, &status)), -ECHILD);
    CHECK_EQ(KEPT(weft__os_pidfd_open(-1)), -EINVAL);
    CHECK_EQ(KEPT(weft__os_kill(getpid(), -1)), -EINVAL);
}

static void a_ring_that_cannot_open(void)
{
    struct weft__os_ring ring = {.fd = -7};
    int error = weft__os_ring_open(&ring, 8);
    if (error != 0) {
        printf("no io_uring here: %d\n", error);
        return;
    }
    weft__os_ring_close(&ring);
    ring.fd = -7;
    fake_plan(&fake_syscall, 0, EPERM, 1); /* as a seccomp filter does */
    CHECK_EQ(KEPT(weft__os_ring_open(&ring, 8)), -EPERM);
    atomic_u32_store_relaxed(&fewer_features, 1);
    CHECK_EQ(KEPT(weft__os_ring_open(&ring, 8)), -ENOSYS);
    atomic_u32_store_relaxed(&fewer_features, 0);
    for (uint32_t i = 0; i < 2; i++) {
        KERNEL_SAYS_AFTER(mmap, i, ENOMEM, 1);
        CHECK_EQ(KEPT(weft__os_ring_open(&ring, 8)), -ENOMEM);
        KERNEL_SAID(mmap);
    }
    CHECK_EQ(ring.fd, -7);
}

static void a_ring_that_is_full(void)
{
    enum { ENTRIES = 8 };
    struct weft__os_ring ring;
    struct weft__os_io sync = {.kind = IO_SYNC, .fd = STDOUT_FILENO};
    uint64_t tag;
    int32_t result;
    if (weft__os_ring_open(&ring, ENTRIES) != 0)
        return;
    CHECK(!weft__os_ring_unpush(&ring, &tag));
    for (uint64_t i = 0; i < ENTRIES; i++)
        CHECK(weft__os_ring_push_empty(&ring, i));
    CHECK(!weft__os_ring_push_empty(&ring, ENTRIES));
    CHECK(!weft__os_ring_push(&ring, &sync, ENTRIES));
    CHECK(!weft__os_ring_push_cancel(&ring, 0, ENTRIES));
    fake_plan(&fake_syscall, 0, EBUSY, 1);
    CHECK_EQ(KEPT(weft__os_ring_submit(&ring)), -EBUSY);
    CHECK_EQ(ring.pushed, ENTRIES);
    CHECK(weft__os_ring_unpush(&ring, &tag));
    CHECK_EQ(tag, ENTRIES - 1);
    fake_plan(&fake_syscall, 0, EINTR, 2);
    CHECK_EQ(KEPT(weft__os_ring_submit(&ring)), ENTRIES - 1);
    for (uint64_t i = 0; i < ENTRIES - 1; i++) {
        CHECK(weft__os_ring_pop(&ring, &tag, &result));
        CHECK_EQ(tag, i);
        CHECK_EQ(result, 0);
    }
    CHECK(!weft__os_ring_pop(&ring, &tag, &result));
    /* A planned failure replaces the result of an operation that succeeded, not that of one that
     * failed. */
    CHECK(weft__os_ring_push_empty(&ring, 1));
    CHECK(weft__os_ring_push_cancel(&ring, 77, 2)); /* no operation has that tag */
    CHECK_EQ(weft__os_ring_submit(&ring), 2);
    weft__os_fail(OS_FILE, 1, true);
    CHECK(weft__os_ring_pop(&ring, &tag, &result) && tag == 1 && result == -EIO);
    CHECK(weft__os_ring_pop(&ring, &tag, &result) && tag == 2 && result == -ENOENT);
    weft__os_fail(OS_FILE, 0, false);
    /* A length over what the kernel takes at once is cut to that. */
    sync = (struct weft__os_io){.kind = IO_READ, .fd = -1, .length = SIZE_MAX};
    CHECK(weft__os_ring_push(&ring, &sync, 3));
    CHECK_EQ(((struct io_uring_sqe *)ring.entries)[*ring.submit_head & ring.submit_mask].len,
             0x7ffff000);
    CHECK(weft__os_ring_unpush(&ring, &tag) && tag == 3);
    weft__os_ring_close(&ring);
}

int main(void)
{
    RUN_ALL(interrupted_calls_begin_again, errors_are_passed_on, what_is_regular,
            every_kind_of_operation, without_waiting, stderr_that_is_full_or_gone,
            a_child_that_cannot_start, a_child_that_is_waited_for, a_ring_that_cannot_open,
            a_ring_that_is_full);
    return 0;
}
