/*
 * sys.h: the one seam between libweft-http and the system, as os/os.h is that of libweft, of which
 * this library uses the public headers only.
 *
 * Every call returns 0 or a count, or a negative errno value. None waits.
 */
#ifndef WEFT_HTTP_SYS_H
#define WEFT_HTTP_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <weft/address.h>

int weft__http_errno(void); /* for sys*.c only */

/* ---- memory ---- */

void *weft__http_allocate(size_t size); /* NULL without memory */
void *weft__http_resize(void *memory, size_t size);
void weft__http_free(void *memory);
/* Whole pages of zeros, which unmap gives back to the system. NULL without memory. */
void *weft__http_map(size_t size);
void weft__http_unmap(void *memory, size_t size);

/* ---- sets of descriptors (epoll) ---- */

enum {
    HTTP_READABLE = 1, /* there is something to read, or to accept, or the end */
    HTTP_ENDED = 2,    /* the peer sends no more, or is gone */
    HTTP_WRITABLE = 4,
    HTTP_RESET = 8, /* with HTTP_ENDED: the peer takes no more either */
};

struct http_event {
    void *what; /* as given when it was added */
    uint32_t events;
};

int weft__http_set_open(void);
/* Adds a connection: an event for each change (edge-triggered). */
int weft__http_set_add(int set, int fd, void *what);
/* Adds a connection, with an event also when it becomes writable. */
int weft__http_set_both(int set, int fd, void *what);
/* Requests another event for a connection, if it is ready now; it comes after the events of others
 * that are ready. `both`: as weft__http_set_both. */
void weft__http_set_again(int set, int fd, void *what, bool both);
/* Adds a listener or a wake-up: an event as long as it is readable, in one of the sets that have
 * it. */
int weft__http_set_add_shared(int set, int fd, void *what);
void weft__http_set_remove(int set, int fd);
int weft__http_set_look(int set, struct http_event *events, int max);

/* A wake-up: a descriptor that is readable after a send, until it is cleared. */
int weft__http_wakeup_open(void);
void weft__http_wakeup_send(int wakeup);
void weft__http_wakeup_clear(int wakeup);

/* ---- sockets ---- */

struct peer;
/* Accepts a connection, non-blocking, and sets its peer. */
int weft__http_accept(int listener, struct peer *peer);
int weft__http_no_delay(int listener); /* its connections send small pieces at once */
/* Bounds the bytes that each of its connections holds and may not send yet. Otherwise the kernel
 * takes up to 4 MiB for a client that does not read; a thousand such clients take all its memory
 * for TCP, and then it delays every connection. */
enum { HTTP_UNSENT = 128 * 1024 };
int weft__http_limit_unsent(int listener);
int64_t weft__http_receive(int fd, void *data, size_t size);
/* Receives, and leaves the bytes in the socket. */
int64_t weft__http_peek(int fd, void *data, size_t size);
int64_t weft__http_send(int fd, const struct iovec *pieces, int count);
int64_t weft__http_send_from_file(int fd, int file, int64_t offset, size_t size);
int64_t weft__http_read_file(int file, void *data, size_t size, int64_t offset);
int weft__http_duplicate(int file);
void weft__http_end_sending(int fd);
void weft__http_cut(int fd); /* shuts down both directions: ends every wait for it */
void weft__http_close_fd(int fd);

/* ---- descriptors ---- */

/* Raises the limit of descriptors to `wanted`, or as far as the process may, and returns it. Never
 * lowers it. */
int64_t weft__http_descriptors(int64_t wanted);
/* Makes room for `count` descriptors, at most HTTP_DESCRIPTOR_TABLE_MAX, in the kernel's table (8
 * bytes each). The table doubles when it is full. In a process with several threads each doubling
 * stops the thread that opens a descriptor for a grace period of RCU: 10,000 new connections would
 * stop it eight times, for 5 to 20 ms. `fd`: any descriptor. */
enum { HTTP_DESCRIPTOR_TABLE_MAX = 65536 };
void weft__http_descriptor_table_reserve(int fd, int64_t count);

/* ---- time and random numbers ---- */

int64_t weft__http_seconds(void); /* since 1970 */
/* Nanoseconds of a monotonic clock with a resolution of some milliseconds: cheaper than
 * weft_now. */
int64_t weft__http_ticks(void);
uint64_t weft__http_random(void);

/* ---- the end of the process ---- */

extern const int weft__http_ends[2]; /* the signals that end a program: SIGINT, SIGTERM */

_Noreturn void weft__http_failed(const char *condition, const char *file, int line);
#define must(condition)                           \
    (__builtin_expect(!!(condition), 1) ? (void)0 \
                                        : weft__http_failed(#condition, __FILE__, __LINE__))

#endif
