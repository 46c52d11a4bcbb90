/*
 * os.h: the one seam to the operating system.
 *
 * Memory, mappings, threads, the clock, futexes, epoll and descriptors: everything that weft asks
 * of libc or the kernel goes through here, returns 0 (or a value) or a negative errno, and can be
 * made to fail by a test: weft__os_fail(call, n) lets the n-th call of that kind fail from now on
 * (once, or it and all after it).
 *
 * errno is a thread's, and a fiber moves between threads; so nobody above this file reads it, and
 * no call here changes it. weft__os_errno_address gives the address for the calling thread; a
 * machine keeps it and uses it to carry errno across a switch.
 */
#ifndef WEFT_OS_OS_H
#define WEFT_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/atomic.h"

/* Memory. Allocations are freed by weft__os_free; alignment is a power of two. */
void *weft__os_alloc(size_t size);
/* For memory that is had from elsewhere, and may be refused like this: counts as an allocation; true if a test has it fail. */
bool weft__os_alloc_fails(void);
void *weft__os_alloc_zeroed(size_t size);
void *weft__os_alloc_aligned(size_t alignment, size_t size);
void weft__os_free(void *memory);

/* Mappings. Reserve gives readable, writable, lazily committed memory that no swap is kept for;
 * NULL on failure. */
size_t weft__os_page_size(void);
void *weft__os_map(size_t size);
void weft__os_unmap(void *memory, size_t size);
int weft__os_guard_install(void *memory, size_t size); /* MADV_GUARD_INSTALL */
/* The same for several that are `stride` apart, in one call; not 0: some may have been made. */
enum { OS_GUARDS_MOST = 16 };
int weft__os_guard_install_many(char *first, size_t stride, size_t size, uint32_t count);
int weft__os_guard_mprotect(void *memory, size_t size);
/* Address space that faults when touched, for which nothing is kept; and makes a part of it memory as weft__os_map gives it.
 * Unmapped as a whole. */
void *weft__os_reserve(size_t size);
int weft__os_open_reserved(void *memory, size_t size);
bool weft__os_readable(const void *memory); /* asked of the kernel; true if it cannot be asked */
int weft__os_decommit(void *memory, size_t size); /* pages go back; reads give zero after it */
/* Has all its pages there, in one go, where the system can do that (Linux 5.14): for what will be touched soon. */
void weft__os_populate(void *memory, size_t size);
void weft__os_no_huge_pages(void *memory, size_t size);
void weft__os_huge_pages(void *memory,
                         size_t size); /* if the system likes: they are of use there */

/* The monotonic clock in nanoseconds. */
int64_t weft__os_now(void);
/* The same, some milliseconds behind, for less than half the price. */
int64_t weft__os_now_coarse(void);
/* Sleeps the thread until then. */
void weft__os_sleep_until(int64_t deadline);
void weft__os_yield(void);

#ifdef WEFT_DEBUG
/* For tests of debug builds: how often a second the counter runs; 0: as the CPU's does. */
extern atomic_u64 weft__os_ticks_given;
uint64_t weft__os_ticks_at(uint64_t rate);
#endif

/* A counter that is cheap to read and grows with time, for "has enough time passed to look at the
 * clock"; a few units a nanosecond at most. It decides how often, never what. */
static inline uint64_t weft__os_ticks(void)
{
#ifdef WEFT_DEBUG
    uint64_t given = atomic_u64_load_relaxed(&weft__os_ticks_given);
    if (given != 0)
        return weft__os_ticks_at(given);
#endif
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

/* A guess how often a second it runs. */
uint64_t weft__os_tick_rate(void);

/* Futexes. Wait returns 0 when woken (also for no reason), -EAGAIN if *word != expected, or
 * -ETIMEDOUT; the deadline is on the monotonic clock, INT64_MAX for none. */
int weft__os_futex_wait(atomic_u32 *word, uint32_t expected, int64_t deadline);
void weft__os_futex_wake(atomic_u32 *word, int count);

/* Threads. Machines have the signal mask that the caller of weft__os_threads_inherit had: what they run
 * is the program's code, and what that code starts (system, popen) inherits it. */
void weft__os_threads_inherit(void);
typedef unsigned long weft__os_thread;
int weft__os_thread_start(weft__os_thread *thread, void *(*function)(void *), void *arg);
void weft__os_thread_join(weft__os_thread thread);
/* Waits at most so many nanoseconds: true if the thread has ended, its thread-specific destructors
 * included, and is joined. True also for the calling thread, which is detached instead. */
bool weft__os_thread_join_within(weft__os_thread thread, int64_t patience);
/* The first thing that a machine calls in its own thread. */
void weft__os_thread_begin(void);
/* The same for a thread that runs nothing of the program's: no signal is handled on it. */
void weft__os_thread_begin_quiet(const char *name);
/* The CPU time that a thread has used: a number for it, given to the thread itself (-1: there is none);
 * and the time in ns, for anyone, -1 if it cannot be known (any more). */
int weft__os_thread_clock(void);
int64_t weft__os_thread_time(int clock);
/* Those of the process, 0 if that cannot be known. One that has ended, and was joined, may still count for a moment. */
uint32_t weft__os_thread_count(void);
/* Numbers of all but the caller, as many as there is room for; and whether one of them still counts. */
uint32_t weft__os_other_threads(int *ids, uint32_t room);
bool weft__os_thread_lives(int id);
int *weft__os_errno_address(void);
int weft__os_error(void); /* the negative errno of the calling thread; for the seam itself */
void weft__os_thread_stack(const void **low, size_t *size);

/* Calls function(arg) when the calling thread ends, once per thread. */
int weft__os_thread_at_exit(void (*function)(void *), void *arg);
void weft__os_thread_at_exit_cancel(void);

/* Calls the functions around each fork, the last one in the child; registered once. */
int weft__os_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

/* Debug builds, if linked statically: calls the function when the program has locked (change 1) or unlocked
 * (-1) a pthread mutex, in the thread that did, with the place in the code. */
void weft__os_mutex_listen(void (*function)(void *mutex, int change, void *site));

/* membarrier: 0 if the private expedited command can be used from now on. */
int weft__os_membarrier_register(void);
void weft__os_membarrier(void);

/* Polling. What a descriptor is, or is to be watched for. An error or a hang-up counts as both of the
 * first two: whoever reads or writes then learns of it. */
enum {
    OS_READABLE = 1,
    OS_WRITABLE = 2,
    OS_EDGE = 4,    /* told once for each change */
    OS_ONESHOT = 8, /* told once */
};
struct weft__os_event {
    uint64_t tag;
    uint32_t events; /* OS_READABLE, OS_WRITABLE */
};
int weft__os_epoll_create(void);
int weft__os_epoll_add(int epoll, int fd, uint32_t events, uint64_t tag);
int weft__os_epoll_change(int epoll, int fd, uint32_t events, uint64_t tag);
void weft__os_epoll_remove(int epoll, int fd);
/* Waits until `deadline` (INT64_MAX: no deadline, one that has passed: not at all) and returns the
 * number of events stored, 0 at the deadline or after a signal. Waits by epoll_pwait2, or if there is
 * no such call, -ENOSYS. */
int weft__os_epoll_wait_exact(int epoll, struct weft__os_event *events, int capacity,
                              int64_t deadline);
/* The same by the older call, without a deadline, or without waiting. */
int weft__os_epoll_wait(int epoll, struct weft__os_event *events, int capacity, bool wait);
/* What of `events` the descriptor is ready for at this moment, 0 for none; -EBADF if it is not open. */
int weft__os_poll_now(int fd, uint32_t events);
int weft__os_eventfd(void);
int weft__os_timerfd(void);
int weft__os_timerfd_set(int fd, int64_t deadline);
bool weft__os_fd_ready(int fd);      /* at this moment; takes nothing away */
void weft__os_counter_drain(int fd); /* eventfd or timerfd */
void weft__os_eventfd_signal(int fd);
void weft__os_close(int fd);

/* Sockets: non-blocking and close-on-exec. Calls that would block return -EAGAIN, a connect -EINPROGRESS;
 * none returns -EINTR, none raises SIGPIPE. */
struct iovec;
int weft__os_socket(int family, int type);
int weft__os_socket_adopt(int fd, int *type); /* somebody's socket becomes non-blocking */
int weft__os_bind(int fd, const void *address, size_t size);
int weft__os_listen(int fd, int backlog);
int weft__os_connect(int fd, const void *address, size_t size);
int weft__os_connected(int fd); /* what became of the connect; -EAGAIN: nothing yet */
int weft__os_accept(int fd);
int weft__os_socket_set(int fd, int level, int option, int value);
int weft__os_socket_shutdown(int fd, bool reading, bool writing);
int weft__os_socket_name(int fd, bool peer, void *address, size_t *size);
ssize_t weft__os_receive(int fd, void *data, size_t size);
ssize_t weft__os_send(int fd, const void *data, size_t size);
ssize_t weft__os_receive_pieces(int fd, const struct iovec *pieces, size_t count, void *from,
                                size_t *from_size);
ssize_t weft__os_send_pieces(int fd, const struct iovec *pieces, size_t count, const void *to,
                             size_t to_size);
ssize_t weft__os_sendfile(int fd, int file, int64_t offset, size_t size);
uint32_t weft__os_link_number(const char *name); /* of a network link; 0 if there is none */
/* Which file the path of a socket leads to; false if there is none. */
struct weft__os_file_id {
    uint64_t device, inode;
};
bool weft__os_socket_id(const char *path, struct weft__os_file_id *id);
/* If it is a socket, and that one; NULL: any. */
void weft__os_socket_unlink(const char *path, const struct weft__os_file_id *id);

/* Files: reads at most size - 1 bytes and ends them with a zero; the number of bytes, or -errno. */
ssize_t weft__os_read_file(const char *path, char *text, size_t size);
void weft__os_write_stderr(const char *text, size_t size);

/* The process. */
_Noreturn void weft__os_abort(void);
/* In builds that count what runs: so that it is counted also if it ends in a death that a test expects. */
void weft__os_save_coverage(void);
_Noreturn void weft__os_exit_now(int status);
const char *weft__os_getenv(const char *name);
int weft__os_affinity_count(void); /* CPUs that the calling thread may use, or -errno */
const char *weft__os_strerror(int error);

/* Faults (os/os_fault.h) are handled on a stack of its own per thread: for the calling one. */
int weft__os_fault_stack_enter(void **stack);
void weft__os_fault_stack_leave(void *stack);
/* Writes the call chain (or one address) with symbols to stderr; for the fault handler. */
void weft__os_print_backtrace(void);
void weft__os_print_address(void *address);
/* The code addresses of the call chain, the caller's first; how many. */
int weft__os_backtrace(void **frames, int most);
/* Whether the code at an address is weft's; libc's, if that is a library of its own. */
bool weft__os_own_code(const void *address);
bool weft__os_libc_code(const void *address);
/* The same words as those two write, of one address, into the text; their length. */
size_t weft__os_address_text(const void *address, char *text, size_t size);

/* What is written to stderr if the process dies from here on by abort, a fault, a sanitizer or exit; once. It must
 * stay there until this is called with NULL, which ends it. And: writes it now. */
void weft__os_last_words(const char *text, size_t size);
void weft__os_last_words_now(void);

/* Fault injection. What is not here cannot fail for lack of anything, or nobody could tell: reading clocks,
 * futexes, arming a timerfd, taking out of epoll, names of sockets, signal actions and masks, closing what is not
 * a file. */
enum weft__os_call {
    OS_ALLOC,
    OS_MAP,
    OS_GUARD,
    OS_DECOMMIT,
    OS_THREAD,
    OS_REGISTER, /* to be told of a thread's end, to use membarrier */
    OS_BARRIER,  /* a membarrier that the kernel has no memory for at that moment */
    OS_EPOLL,
    OS_EVENTFD, /* and timerfd */
    OS_SOCKET,  /* all that makes one ready for use: its options, bind, listen, connect */
    OS_ACCEPT,
    OS_READ,  /* of a socket or a pipe */
    OS_WRITE, /* to a socket or a pipe, sendfile too */
    OS_RING,
    OS_FILE,
    OS_PIPE, /* and the other descriptors that a child needs */
    OS_SPAWN,
    OS_RESOLVE,
    OS_CALLS,
};
/* Lets the nth call (1: the next one) of that kind fail; with `persistent`, all after it too. 0
 * turns it off. */
void weft__os_fail(enum weft__os_call call, uint32_t nth, bool persistent);
/* How many calls of that kind there have been since weft__os_fail was last called for it; 0 if it
 * never was. */
uint32_t weft__os_calls(enum weft__os_call call);

/* What is held of the system at this moment, for tests that must leave nothing: counted from the call of
 * weft__os_live_count on, so what is given back of earlier things counts below zero. */
enum weft__os_live {
    LIVE_MEMORY, /* allocations, and lists of getaddrinfo */
    LIVE_MAPS,
    LIVE_KINDS,
};
void weft__os_live_count(void);
int64_t weft__os_live(enum weft__os_live what);

#endif
