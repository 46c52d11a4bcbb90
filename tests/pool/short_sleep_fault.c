/*
 * short_sleep_fault.c: short sleeps of threads that wait for a spin lock, or in the line of a full
 * pool. The test replaces the sleep.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "pool/lacking.h"

/* Called by the thread instead of a sleep; false: sleep all the same. */
static _Thread_local bool (*in_sleep)(void);

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    if (in_sleep != NULL && in_sleep())
        return 0;
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) == 0 ? 0 : errno;
}

/* A spin lock is held for longer than a forked child waits for one: the waiter goes on waiting. */

enum { ROUNDS = 1100 }; /* more than spin.c allows a forked child */

static weft_spin spin;
static atomic_u32 sleeps;

static bool count_sleep(void)
{
    atomic_u32_add_seq_cst(&sleeps, 1);
    sched_yield();
    return true;
}

static void *lock_spin(void *arg)
{
    in_sleep = count_sleep;
    weft_spin_lock(&spin);
    CHECK(count_of(&sleeps) >= ROUNDS);
    weft_spin_unlock(&spin);
    return arg;
}

static void a_lock_that_is_held_long(void)
{
    pthread_t thread;
    weft_spin_lock(&spin);
    CHECK_EQ(pthread_create(&thread, NULL, lock_spin, NULL), 0);
    while (count_of(&sleeps) < ROUNDS)
        sched_yield();
    weft_spin_unlock(&spin);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* A thread in line sleeps for a moment before it sleeps for good. If it is served meanwhile, it
 * need not be woken; otherwise it sleeps until it is. */

enum { CAPACITY = 2, QUEUE = 8, FULL = CAPACITY + QUEUE };

static weft_pool *pool;
static uint32_t slept;

/* Instead of its short sleep. */
static bool make_room(void)
{
    if (pool_stats(pool).blocked == 0)
        return false; /* a wait for the latch */
    in_sleep = NULL;
    slept++;
    CHECK_EQ(weft_pool_tune(pool, CAPACITY + 1), 0);
    CHECK_EQ(pool_stats(pool).blocked, 0);
    return true;
}

static void *make_room_later(void *arg)
{
    AWAIT_FIGURE(pool, blocked, 1);
    CHECK_EQ(weft_pool_tune(pool, CAPACITY + 2), 0);
    return arg;
}

/* The short sleep ends before anything has happened. */
static bool make_room_after(void)
{
    if (pool_stats(pool).blocked == 0)
        return false;
    in_sleep = NULL;
    slept++;
    return true;
}

static void a_thread_sleeps_in_line(void)
{
    pthread_t thread;
    pool = begin((weft_pool_options){.capacity = CAPACITY, .queue = QUEUE});
    CHECK_EQ(weft_pool_pause(pool), 0);
    submit_counts(pool, &ran, FULL);
    in_sleep = make_room;
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(slept, 1);
    in_sleep = make_room_after;
    CHECK_EQ(pthread_create(&thread, NULL, make_room_later, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), FULL + 2);
}

int main(void)
{
    RUN(a_lock_that_is_held_long);
    RUN(a_thread_sleeps_in_line);
    return 0;
}
