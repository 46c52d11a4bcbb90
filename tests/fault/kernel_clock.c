/*
 * kernel_clock.c: who naps, and what happens meanwhile: the clock, and the sleep until a time, are the test's.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "lacking.h"

/* Of one thread each: what the clock says, if not 0; and what is done in the place of a sleep. */
static _Thread_local int64_t clock_says;
static _Thread_local bool (*in_sleep)(void);

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock_says == 0 || clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, time);
    *time = (struct timespec){clock_says / WEFT_S, clock_says % WEFT_S};
    return 0;
}

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

/* A submitter naps in line, since tasks have ended fast. When it has slept it is admitted; and it is to see to a worker
 * for what is ready, which cannot be made. */

enum { CAPACITY = 2, QUEUE = 198, FULL = CAPACITY + QUEUE };

static weft_pool *pool;
static pthread_t resumer;
static bool slept;

static void fill(void)
{
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), 0);
    for (int i = 1; i < FULL; i++)
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
}

static void *resume_without_memory(void *arg)
{
    CHECK(weft__foreign_self() != NULL);
    lack(true);
    CHECK_EQ(weft_pool_resume(pool), 0); /* and runs the tasks */
    return arg;
}

/* There is one place more, and another has begun to run what is ready. */
static bool admit_it(void)
{
    if (pool_stats(pool).blocked == 0)
        return false; /* it only waits for the latch */
    in_sleep = NULL;
    CHECK_EQ(weft_pool_tune(pool, CAPACITY + 1), 0);
    CHECK_EQ(pool_stats(pool).blocked, 0);
    CHECK_EQ(pthread_create(&resumer, NULL, resume_without_memory, NULL), 0);
    await_at_gate(&gate, 1);
    return slept = true;
}

static void nobody_after_a_nap(void)
{
    pool = begin((weft_pool_options){.capacity = CAPACITY, .queue = QUEUE, .expiry = WEFT_MS});
    gate_open(&gate);
    fill();
    int64_t now = weft_now();
    clock_says = now;
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, now + 1), -ETIMEDOUT);
    clock_says = 0;
    CHECK_EQ(weft_pool_resume(pool), 0);
    AWAIT_FIGURE(pool, completed, FULL);
    AWAIT_FIGURE(pool, workers, 0);
    gate_shut(&gate);
    fill();
    clock_says = now + 25 * WEFT_MS / 10; /* so many ended in that time: 24 in a nap */
    in_sleep = admit_it;
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    clock_says = 0;
    CHECK(slept);
    lack(false);
    gate_open(&gate);
    CHECK_EQ(pthread_join(resumer, NULL), 0);
    pool_close(pool);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 2 * FULL - 2 + 1);
}

int main(void)
{
    RUN(a_lock_that_is_held_long);
    RUN(nobody_after_a_nap);
    return 0;
}
