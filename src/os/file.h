/*
 * file.h: files, pipes and plain descriptors. Rules of all calls: os/os.h.
 */
#ifndef WEFT_OS_FILE_H
#define WEFT_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stat;

/* ---- files; these calls may wait for a disk or a file server ---- */

/* One operation on a file, for a plain call and for the ring (os/ring.h) alike. */
enum weft__os_io_kind { IO_READ, IO_WRITE, IO_READV, IO_WRITEV, IO_SYNC, IO_DATASYNC };

struct weft__os_io {
    enum weft__os_io_kind kind;
    int fd;
    void *memory;   /* bytes, or an array of struct iovec */
    size_t length;  /* bytes, or vectors */
    int64_t offset; /* -1: at the position of the file, which moves */
};

/* Does the operation, however long that takes: bytes transferred, or 0 for a sync. [OS_FILE] */
int64_t weft__os_io(const struct weft__os_io *io);

/* weft__os_io if that needs no waiting; else -EAGAIN, and nothing was transferred. -EOPNOTSUPP
 * where the file cannot tell, and for a sync. [OS_FILE] */
int64_t weft__os_io_nowait(const struct weft__os_io *io);

/* 1 if reads and writes of the descriptor never wait for another party (a file, a disk, a folder);
 * 0 if they may (a pipe, a terminal, a socket). [OS_FILE] */
int weft__os_is_regular(int fd);

/* Opens a path with O_... flags, and the mode for a file that it creates. [OS_FILE] */
int weft__os_open(const char *path, int flags, unsigned mode);

/* Closes a file; it is closed also on failure, which says that earlier writes were lost.
 * [OS_FILE] */
int weft__os_file_close(int fd);

/* [OS_FILE] */
int weft__os_stat(const char *path, struct stat *out);
int weft__os_unlink(const char *path);
int weft__os_rename(const char *from, const char *to);

/* Reads at most size - 1 bytes of the file at the path and ends them with a zero: how many.
 * [OS_FILE] */
ssize_t weft__os_read_file(const char *path, char *text, size_t size);

/* Writes the text to stderr, all of it unless that fails. Works in signal handlers. */
void weft__os_write_stderr(const char *text, size_t size);

/* ---- pipes and plain descriptors ---- */

/* A new pipe that blocks: ends[0] reads what ends[1] writes. [OS_PIPE] */
int weft__os_pipe(int ends[2]);

/* Makes the descriptor non-blocking, and with it all copies that share its open file. */
int weft__os_set_nonblocking(int fd);

/* A copy of the descriptor, of a number of at least `least`. [OS_PIPE] */
int weft__os_dup_above(int fd, int least);

/* A descriptor that reads as empty, or takes and drops what is written. [OS_PIPE] */
int weft__os_open_null(bool writing);

/* As read and write, and blocking if the descriptor is. Work in signal handlers. [OS_READ,
 * OS_WRITE] */
ssize_t weft__os_fd_read(int fd, void *memory, size_t size);
ssize_t weft__os_fd_write(int fd, const void *memory, size_t size);

#endif
