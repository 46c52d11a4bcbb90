/*
 * kernel_clock.c: threads that nap, and what happens meanwhile: the sleep until a time is the
 * test's.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "pool/lacking.h"

/* Of one thread each: what is done in the place of a sleep. */
static _Thread_local bool (*in_sleep)(void);

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    if (in_sleep != NULL && in_sleep())
        return 0;
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) == 0 ? 0 : errno;
}

/* A spin lock is held for longer than in a forked child it could be: who waits for it waits on. */

enum { ROUNDS = 1100 }; /* more than spin.c has for a child */

static weft_spin spin;
static atomic_u32 naps;

static bool count_nap(void)
{
    atomic_u32_add_seq_cst(&naps, 1);
    sched_yield();
    return true;
}

static void *lock_spin(void *arg)
{
    in_sleep = count_nap;
    weft_spin_lock(&spin);
    CHECK(atomic_u32_load_acquire(&naps) >= ROUNDS);
    weft_spin_unlock(&spin);
    return arg;
}

static void a_lock_that_is_held_long(void)
{
    pthread_t thread;
    weft_spin_lock(&spin);
    CHECK_EQ(pthread_create(&thread, NULL, lock_spin, NULL), 0);
    while (atomic_u32_load_acquire(&naps) < ROUNDS)
        sched_yield();
    weft_spin_unlock(&spin);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* A thread naps in line before it sleeps. It is served meanwhile, and need not be woken; and if it
 * is not, it sleeps until it is. */

enum { CAPACITY = 2, QUEUE = 8, FULL = CAPACITY + QUEUE };

static weft_pool *pool;
static uint32_t slept;

/* In the place of its nap. */
static bool make_room(void)
{
    if (pool_stats(pool).blocked == 0)
        return false; /* it only waits for the latch */
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

/* The nap is over before anything has happened. */
static bool make_room_after(void)
{
    if (pool_stats(pool).blocked == 0)
        return false;
    in_sleep = NULL;
    slept++;
    return true;
}

static void one_naps_in_line(void)
{
    pthread_t thread;
    pool = begin((weft_pool_options){.capacity = CAPACITY, .queue = QUEUE});
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < FULL; i++)
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    in_sleep = make_room;
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(slept, 1);
    in_sleep = make_room_after;
    CHECK_EQ(pthread_create(&thread, NULL, make_room_later, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(atomic_u32_load_acquire(&ran), FULL + 2);
}

int main(void)
{
    RUN(a_lock_that_is_held_long);
    RUN(one_naps_in_line);
    return 0;
}
