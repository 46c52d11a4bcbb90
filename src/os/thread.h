/*
 * thread.h: threads, what runs at their ends and around forks, and a barrier for all of them. Rules
 * of all calls: os/os.h.
 */
#ifndef WEFT_OS_THREAD_H
#define WEFT_OS_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- starting and joining ---- */

typedef unsigned long weft__os_thread;

/* Notes the signal mask of the calling thread: weft__os_thread_begin gives it to machines, since
 * these run the program's code and what that code starts (system, popen) inherits the mask. Called
 * while no thread of weft's exists. */
void weft__os_threads_inherit(void);

/* Starts a thread that calls function(arg), with all signals blocked until it begins (below). It
 * has to be joined. [OS_THREAD] */
int weft__os_thread_start(weft__os_thread *thread, void *(*function)(void *), void *arg);

/* The first call of a thread that runs fibers: takes the noted mask. */
void weft__os_thread_begin(void);

/* The first call of a thread that runs none of the program's code: gives it the name, and leaves
 * all signals blocked. */
void weft__os_thread_begin_quiet(const char *name);

/* Waits until the thread has ended, its destructors of thread-specific data included. */
void weft__os_thread_join(weft__os_thread thread);

/* weft__os_thread_join that waits at most about that many nanoseconds: true if the thread
 * was joined. The calling thread is detached instead, which returns true. */
bool weft__os_thread_join_within(weft__os_thread thread, int64_t nanoseconds);

/* Lets other threads of the CPU run, where that is of use to them. */
void weft__os_yield(void);

/* ---- what is known of threads ---- */

/* A number by which weft__os_thread_time knows the calling thread; -1 if there is none. */
int weft__os_thread_clock(void);

/* The CPU time of that thread in nanoseconds, asked by any thread; -1 if it has ended, or it cannot
 * be known. */
int64_t weft__os_thread_time(int clock);

/* The threads of the process; 0 if that cannot be known. One that has ended and was joined may be
 * counted for a moment more. */
uint32_t weft__os_thread_count(void);

/* Stores the numbers of up to `room` threads other than the caller: how many. 0 if they cannot be
 * known. */
uint32_t weft__os_other_threads(int *ids, uint32_t room);

/* Whether a thread of such a number exists, or is counted for a moment more. */
bool weft__os_thread_lives(int id);

/* The lowest byte and the size of the calling thread's stack. */
void weft__os_thread_stack(const void **low, size_t *size);

/* Where errno of the calling thread is. The address is the same for the life of the thread: a
 * machine keeps it, to carry a fiber's errno across a switch. Never inlined: a compiler may not
 * keep the address of one thread's errno for another. */
int *weft__os_errno_address(void);

/* The negative errno of the calling thread, for the implementation of the seam. */
int weft__os_error(void);

/* ---- ends and forks ---- */

/* Has function(arg) called when the calling thread ends, in that thread. A thread has one such
 * call: a second one of the same thread replaces its `arg`. The function is the same for all
 * threads. [OS_REGISTER] */
int weft__os_thread_at_exit(void (*function)(void *), void *arg);

/* Takes the calling thread's call back. */
void weft__os_thread_at_exit_cancel(void);

/* Has the functions called around each fork of the process, in the thread that forks: `before` and
 * `in_parent` in the parent, `in_child` in the child. Made once; it cannot be taken back. */
int weft__os_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

/* ---- a barrier for all threads ---- */

/* Asks for weft__os_membarrier: 0 if it may be used from now on, an error where the system does not
 * have it or forbids it. [OS_REGISTER] */
int weft__os_membarrier_register(void);

/* Has each thread of the process pass a full memory barrier between the beginning and the end of
 * this call. Only after a successful registration. [OS_BARRIER: the kernel lacks memory, and is
 * asked again] */
void weft__os_membarrier(void);

#endif
