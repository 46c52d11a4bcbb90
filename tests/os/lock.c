/*
 * lock.c: one holder at a time, and every thread that sleeps is woken.
 */
#include "os/lock.h"

#include <pthread.h>
#include <sched.h>

#include "test.h"

enum { THREADS = 4 };

static struct lock lock;
static int64_t rounds;

/* Under the lock; plain on purpose. */
static int64_t counter;
static int inside;

static void one_holder(void)
{
    CHECK(lock_try(&lock));
    CHECK(!lock_try(&lock));
    lock_release(&lock);
    CHECK(lock_try(&lock));
    lock_release(&lock);
    lock_acquire(&lock);
    CHECK(!lock_try(&lock));
    lock_release(&lock);
    CHECK_EQ(atomic_u32_load_relaxed(&lock.state), 0);
}

static void *count_up(void *arg)
{
    for (int64_t i = 0; i < rounds; i++) {
        if (i % 8 != 0 || !lock_try(&lock)) /* now and then by a try */
            lock_acquire(&lock);
        CHECK_EQ(inside, 0);
        inside = 1;
        counter++;
        if (i % 1024 == 0)
            sched_yield(); /* so that the others sleep */
        inside = 0;
        lock_release(&lock);
    }
    return arg;
}

static void run_threads(int count, void *(*function)(void *), pthread_t *threads)
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, function, NULL), 0);
}

static void join_threads(int count, const pthread_t *threads)
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void excludes(void)
{
    pthread_t threads[THREADS];
    rounds = test_scale(200000);
    counter = 0;
    run_threads(THREADS, count_up, threads);
    join_threads(THREADS, threads);
    CHECK_EQ(counter, THREADS * rounds);
    CHECK_EQ(atomic_u32_load_relaxed(&lock.state), 0);
}

static void *count_one(void *arg)
{
    lock_acquire(&lock);
    counter++;
    lock_release(&lock);
    return arg;
}

/* The lock is held until a thread has announced that it sleeps; after that each gets its turn. */
static void wakes_sleepers(void)
{
    for (int64_t round = 0; round < test_scale(200); round++) {
        pthread_t threads[THREADS];
        counter = 0;
        lock_acquire(&lock);
        run_threads(THREADS, count_one, threads);
        while (atomic_u32_load_relaxed(&lock.state) != 2)
            sched_yield();
        CHECK_EQ(counter, 0);
        lock_release(&lock);
        join_threads(THREADS, threads);
        CHECK_EQ(counter, THREADS);
        lock_acquire(&lock);
        lock_release(&lock);
        CHECK_EQ(atomic_u32_load_relaxed(&lock.state), 0);
    }
}

int main(void)
{
    RUN_ALL_PLAIN("about plain threads", one_holder, excludes, wakes_sleepers);
    return 0;
}
