/*
 * sys.h: the one seam between libweft-http and the system, as os/os.h is that of libweft, which this library knows
 * only by its public headers.
 *
 * Everything returns 0 or a count, or a negative errno value. Nothing here waits.
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
/* Whole pages of zeros, which the system has again when they are unmapped; NULL without memory. */
void *weft__http_map(size_t size);
void weft__http_unmap(void *memory, size_t size);

/* ---- sets of descriptors ---- */

enum {
    HTTP_READABLE = 1, /* there is something to read, or to accept, or its end */
    HTTP_ENDED = 2,    /* the peer sends no more, or is gone */
    HTTP_WRITABLE = 4,
    HTTP_RESET = 8, /* with HTTP_ENDED: it takes no more either */
};

struct http_event {
    void *what; /* as given when it was added */
    uint32_t events;
};

int weft__http_set_open(void);
/* Told once of every change (edge): connections. */
int weft__http_set_add(int set, int fd, void *what);
/* The same also when it becomes writable. */
int weft__http_set_both(int set, int fd, void *what);
/* Of one that was added by either: told once more if it is ready now, after the others that are. */
void weft__http_set_again(int set, int fd, void *what, bool both);
/* Told as long as it is readable, of several sets one: listeners, and the bell. */
int weft__http_set_add_shared(int set, int fd, void *what);
void weft__http_set_remove(int set, int fd);
int weft__http_set_look(int set, struct http_event *events, int most);

/* A descriptor that is readable after a ring, until it is quiet again. */
int weft__http_bell_open(void);
void weft__http_bell_ring(int bell);
void weft__http_bell_quiet(int bell);

/* ---- sockets ---- */

struct peer;
/* The next connection, non-blocking; and who it is. */
int weft__http_accept(int listener, struct peer *peer);
int weft__http_no_delay(int listener); /* what it accepts sends small pieces at once */
/* What it accepts holds at most so many bytes that may not be sent yet. Else the kernel takes up to
 * 4 MiB for a client that does not read, and a thousand such are all the memory that it has for
 * TCP: then it delays everything. */
enum { HTTP_UNSENT = 128 * 1024 };
int weft__http_send_little_ahead(int listener);
int64_t weft__http_receive(int fd, void *data, size_t size);
/* The same, and leaves the bytes where they are. */
int64_t weft__http_peek(int fd, void *data, size_t size);
int64_t weft__http_send(int fd, const struct iovec *pieces, int count);
int64_t weft__http_send_from_file(int fd, int file, int64_t offset, size_t size);
int64_t weft__http_read_file(int file, void *data, size_t size, int64_t offset);
int weft__http_duplicate(int file);
void weft__http_end_sending(int fd);
void weft__http_cut(int fd); /* both directions: who waits for it is told */
void weft__http_close_fd(int fd);

/* ---- descriptors ---- */

/* How many the process may have; raised to `wanted` before, as far as that goes, if that is more than there may be. */
int64_t weft__http_descriptors(int64_t wanted);
/* Makes room in the kernel's table of descriptors for so many, or HTTP_SPREAD_MOST (8 bytes each).
 * It doubles when it is full, and with several threads each time stops whoever opens one for a
 * grace period of RCU: 10,000 new connections would be stopped eight times, for 5 to 20 ms.
 * `fd`: any. */
enum { HTTP_SPREAD_MOST = 65536 };
void weft__http_descriptors_spread(int fd, int64_t count);

/* ---- time and chance ---- */

int64_t weft__http_seconds(void); /* since 1970 */
/* Nanoseconds of a clock that does not jump, late by some milliseconds: cheaper than weft_now. */
int64_t weft__http_ticks(void);
uint64_t weft__http_random(void);
/* "Sun, 06 Nov 1994 08:49:37 GMT" */
enum { HTTP_DATE = 30 };
void weft__http_date(int64_t seconds, char *text);
/* HTTP_NO_DATE if it is not such a text (of any of the three forms of RFC 9110). */
#define HTTP_NO_DATE INT64_MIN
int64_t weft__http_date_parse(const char *text);

/* ---- death ---- */

extern const int weft__http_ends[2]; /* the signals that end a program, SIGINT and SIGTERM */

_Noreturn void weft__http_failed(const char *condition, const char *file, int line);
#define must(condition)                           \
    (__builtin_expect(!!(condition), 1) ? (void)0 \
                                        : weft__http_failed(#condition, __FILE__, __LINE__))

#endif
