/*
 * os_io.h: the part of the seam (os/os.h) that deals with files, the ring, pipes, processes,
 * signals and names. The same rules: a negative errno, errno itself untouched, and a test can let the
 * nth call of a kind fail.
 */
#ifndef WEFT_OS_OS_IO_H
#define WEFT_OS_OS_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct addrinfo;
struct iovec;
struct stat;

/* One operation on a file, the same for a plain call and for the ring. */
enum weft__os_io_kind { IO_READ, IO_WRITE, IO_READV, IO_WRITEV, IO_SYNC, IO_DATASYNC };

struct weft__os_io {
    enum weft__os_io_kind kind;
    int fd;
    void *memory;   /* bytes, or an array of struct iovec */
    size_t length;  /* bytes, or vectors */
    int64_t offset; /* -1: where the file stands */
};

/* Does it now, however long that takes. Starts again after signals. */
int64_t weft__os_io(const struct weft__os_io *io);
/* Reads or writes only if that needs no waiting: else -EAGAIN; -EOPNOTSUPP where the file cannot tell. */
int64_t weft__os_io_nowait(const struct weft__os_io *io);
/* 1: reads and writes of it never wait for another party; 0: they may (a pipe, a terminal). */
int weft__os_is_regular(int fd);
int weft__os_open(const char *path, int flags, unsigned mode); /* closed on exec */
int weft__os_stat(const char *path, struct stat *out);
int weft__os_unlink(const char *path);
int weft__os_rename(const char *from, const char *to);
int weft__os_file_close(int fd);

/* The ring (io_uring). Pushing and popping is for one thread at a time. */
struct weft__os_ring {
    int fd;
    void *memory, *entries; /* as mapped */
    size_t memory_size, entries_size;
    uint32_t *submit_head, *submit_tail, *submit_array, *complete_head, *complete_tail;
    void *completions;
    uint32_t submit_mask, complete_mask;
    uint32_t capacity; /* that many operations may be in flight, with a cancellation for each */
    uint32_t pushed;   /* and not yet taken by the kernel */
};

/* 0; -ENOSYS, -EPERM and such where the kernel does not have it, forbids it, or has an older one than
 * weft can use. */
int weft__os_ring_open(struct weft__os_ring *ring, uint32_t entries);
void weft__os_ring_close(struct weft__os_ring *ring);
/* False if there is no room before the next submit. */
bool weft__os_ring_push(struct weft__os_ring *ring, const struct weft__os_io *io, uint64_t tag);
bool weft__os_ring_push_cancel(struct weft__os_ring *ring, uint64_t which, uint64_t tag);
/* One that does nothing but complete. */
bool weft__os_ring_push_empty(struct weft__os_ring *ring, uint64_t tag);
/* Hands what was pushed to the kernel: how many it took, or -errno and it took none. */
int weft__os_ring_submit(struct weft__os_ring *ring);
/* Takes back the last that was pushed and not taken; false if there is none. */
bool weft__os_ring_unpush(struct weft__os_ring *ring, uint64_t *tag);
/* The next completion; false if there is none. */
bool weft__os_ring_pop(struct weft__os_ring *ring, uint64_t *tag, int32_t *result);

/* Descriptors. */
int weft__os_pipe(int ends[2]); /* close-on-exec, blocking */
int weft__os_set_nonblocking(int fd);
int weft__os_dup_above(int fd, int least); /* close-on-exec */
int weft__os_open_null(bool writing);      /* close-on-exec */
ssize_t weft__os_fd_read(int fd, void *memory, size_t size);
ssize_t weft__os_fd_write(int fd, const void *memory, size_t size);

/* Processes. */
struct weft__os_spawn {
    const char *const *argv;
    const char *const *env; /* NULL: this process's */
    const char *directory;  /* NULL: this process's */
    int fds[3];             /* what becomes its 0, 1, 2; -1: inherit */
    bool keep_descriptors, new_group;
};
int weft__os_spawn(pid_t *pid, const struct weft__os_spawn *how);
int weft__os_pidfd_open(pid_t pid);
int weft__os_process_await(pid_t pid); /* until it has ended; it stays to be reaped */
/* 1 and *status as waitpid gives it; 0: it has not ended; -errno. */
int weft__os_process_reap(pid_t pid, int *status);
pid_t weft__os_getpid(void);
enum { OS_SIGKILL = 9 };
int weft__os_kill(pid_t pid, int signal);

/* Signals. The handler is called in signal context. Restore puts back what was there before, unless
 * somebody has installed another handler since. */
enum { OS_SIGNALS_MOST = 65 };
bool weft__os_signal_allowed(int signal);
int weft__os_signal_catch(int signal, void (*handler)(int));
void weft__os_signal_restore(int signal, void (*handler)(int));
/* In the handler: lets the signal do what it would have done before it was caught. */
void weft__os_signal_as_before(int signal);

/* Names: getaddrinfo, as it is; for tests, another function in its place (NULL: the real one). */
typedef int weft__os_lookup(const char *host, const char *service, const struct addrinfo *hints,
                            struct addrinfo **list);
/* 0 or EAI_*; *error is what errno says then, negative. */
int weft__os_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                         struct addrinfo **list, int *error);
void weft__os_freeaddrinfo(struct addrinfo *list);
void weft__os_getaddrinfo_by(weft__os_lookup *lookup);

#endif
