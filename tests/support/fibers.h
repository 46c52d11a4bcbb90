/*
 * fibers.h: starts and ends fibers, threads and the runtime, with each result checked.
 *
 * Its names are short and may be those of a test's own functions: bodies.h, everywhere.h and the
 * other headers that all tests use do not include it.
 */
#ifndef WEFT_TEST_FIBERS_H
#define WEFT_TEST_FIBERS_H

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "test.h"

/* Functions that fibers run. */

static inline void nothing(void *arg)
{
}

static inline void count_up(void *word)
{
    atomic_u32_add_seq_cst(word, 1);
}

static inline void wait_for_group(void *wg)
{
    CHECK_EQ(weft_wg_wait(wg), 0);
}

static inline void done_later(void *wg)
{
    CHECK_EQ(weft_sleep(2 * WEFT_MS), 0);
    weft_wg_done(wg);
}

/* Fibers. */

static inline weft_fiber *spawn(void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, arg, NULL), 0);
    return fiber;
}

static inline void run_fiber(void (*function)(void *), void *arg)
{
    CHECK_EQ(weft_join(spawn(function, arg)), 0);
}

static inline void spawn_all(weft_fiber **fibers, int64_t count, void (*function)(void *),
                             void *arg)
{
    for (int64_t i = 0; i < count; i++)
        fibers[i] = spawn(function, arg);
}

static inline void go_many(int64_t count, void (*function)(void *), void *arg)
{
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_go(function, arg), 0);
}

/* Each fiber gets its index as argument. */
static inline void spawn_each(weft_fiber **fibers, int64_t count, void (*function)(void *))
{
    for (int64_t i = 0; i < count; i++)
        fibers[i] = spawn(function, (void *)(intptr_t)i);
}

static inline void join_all(weft_fiber **fibers, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

/* Runs that many fibers at the same time; with run_each each gets its index as argument. */
static inline void run_fibers(int64_t count, void (*function)(void *), void *arg)
{
    weft_fiber **fibers = calloc((size_t)count, sizeof(weft_fiber *));
    CHECK(fibers != NULL);
    spawn_all(fibers, count, function, arg);
    join_all(fibers, count);
    free(fibers);
}

static inline void run_each(int64_t count, void (*function)(void *))
{
    weft_fiber **fibers = calloc((size_t)count, sizeof(weft_fiber *));
    CHECK(fibers != NULL);
    spawn_each(fibers, count, function);
    join_all(fibers, count);
    free(fibers);
}

/* The panic with which the fiber ends; its message is `message`. */
static inline weft_panic_info join_panicked(weft_fiber *fiber, const char *message)
{
    weft_panic_info info;
    CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NEVER), -EOWNERDEAD);
    CHECK_STR(info.message, message);
    return info;
}

/* Objects. */

static inline weft_chan *make_chan(size_t element, size_t capacity)
{
    weft_chan *chan;
    CHECK_EQ(weft_chan_make(&chan, element, capacity), 0);
    return chan;
}

static inline weft_timer *open_timer(void (*function)(void *), void *arg)
{
    weft_timer *timer;
    CHECK_EQ(weft_timer_open(&timer, function, arg), 0);
    return timer;
}

static inline struct prng prng_from(uint64_t seed)
{
    struct prng prng;
    prng_seed(&prng, seed);
    return prng;
}

/* The runtime. */

static inline void configure(int processors)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = processors}), 0);
}

static inline void shut_down(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Shuts down, and forgets the configuration. */
static inline void reset_runtime(void)
{
    shut_down();
    CHECK_EQ(weft_configure(NULL), 0);
}

/* Threads. */

static inline pthread_t thread_start(void *(*function)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, function, arg), 0);
    return thread;
}

static inline void thread_join(pthread_t thread)
{
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* A function of a fiber, run on a thread. */

struct thread_call {
    void (*function)(void *);
    void *arg;
};

static inline void *thread_call(void *arg)
{
    struct thread_call *call = arg;
    call->function(call->arg);
    return NULL;
}

static inline void run_thread(void (*function)(void *), void *arg)
{
    thread_join(thread_start(thread_call, &(struct thread_call){function, arg}));
}

/* Blocks the calling thread, without a call of weft. */
static inline void nap(long microseconds)
{
    nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000}, NULL);
}

/* Blocks the calling thread until the word is at least so much. */
static inline void nap_until(const atomic_u32 *word, uint32_t least)
{
    while (atomic_u32_load_acquire(word) < least)
        nap(100);
}

/* Gives up the CPU until the word is at least so much; a fiber keeps its processor. */
static inline void spin_until(const atomic_u32 *word, uint32_t least)
{
    while (atomic_u32_load_acquire(word) < least)
        sched_yield();
}

/* Computes for a moment. */
static inline void relax_for(uint32_t pauses)
{
    while (pauses-- > 0)
        cpu_relax();
}

/* Yields until the word is at least so much. */
static inline void yield_until(const atomic_u32 *word, uint32_t least)
{
    while (atomic_u32_load_acquire(word) < least)
        weft_yield();
}

#endif
