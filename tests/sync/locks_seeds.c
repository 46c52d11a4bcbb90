/*
 * locks.c: mutex, read-write mutex, condition, semaphore, barrier, once, wait group and object pool under many seeds:
 * who has what is counted, some give up, some are cancelled, and at the end nobody and nothing is left.
 */
#include "seeds.h"

enum { FIBERS = 6, ROUNDS = 6 };

static struct prng lots;
static weft_wg wg;

static void start(void (*function)(void *), int count)
{
    wg = (weft_wg)WEFT_WG_INIT;
    for (int i = 0; i < count; i++)
        CHECK_EQ(weft_wg_go(&wg, function, (void *)(uintptr_t)i), 0);
}

static void finish(void)
{
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(weft_wg_count(&wg), 0);
}

static bool one_in(uint32_t times)
{
    return prng_below(&lots, times) == 0;
}

static int64_t soon(void)
{
    return weft_after((int64_t)prng_below(&lots, 4) * WEFT_MS);
}

/* What is done with a lock held. */
static void work(void)
{
    if (one_in(2))
        weft_yield();
    if (one_in(4))
        CHECK_EQ(weft_sleep((int64_t)prng_below(&lots, 3) * WEFT_MS), 0);
}

/* Mutex. */

static weft_mutex mutex;
static int inside, entered, gave_up;

static bool lock_somehow(void)
{
    int error = 0;
    switch (prng_below(&lots, 3)) {
    case 0:
        weft_mutex_lock(&mutex);
        break;
    case 1:
        error = weft_mutex_lock_until(&mutex, soon());
        CHECK(error == 0 || error == -ETIMEDOUT);
        break;
    default:
        error = weft_mutex_try_lock(&mutex);
        CHECK(error == 0 || error == -EBUSY);
    }
    return error == 0;
}

static void use_mutex(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (!lock_somehow()) {
            gave_up++;
            continue;
        }
        CHECK_EQ(inside++, 0);
        work();
        CHECK_EQ(--inside, 0);
        entered++;
        weft_mutex_unlock(&mutex);
    }
}

static void mutex_excludes(void)
{
    lots = seeds_prng();
    mutex = (weft_mutex)WEFT_MUTEX_INIT;
    inside = entered = gave_up = 0;
    start(use_mutex, FIBERS);
    finish();
    CHECK_EQ(entered + gave_up, FIBERS * ROUNDS);
    weft_mutex_destroy(&mutex);
}

/* Read-write mutex. */

static weft_rwmutex rwmutex;
static int readers, writers;

static void read_once(void)
{
    if (one_in(2))
        weft_rwmutex_read_lock(&rwmutex);
    else if (weft_rwmutex_read_lock_until(&rwmutex, soon()) != 0)
        return;
    readers++;
    CHECK_EQ(writers, 0);
    work();
    CHECK_EQ(writers, 0);
    readers--;
    weft_rwmutex_read_unlock(&rwmutex);
}

static void write_once(void)
{
    if (one_in(2))
        weft_rwmutex_write_lock(&rwmutex);
    else if (weft_rwmutex_write_lock_until(&rwmutex, soon()) != 0)
        return;
    CHECK_EQ(writers++, 0);
    CHECK_EQ(readers, 0);
    work();
    CHECK_EQ(readers, 0);
    CHECK_EQ(--writers, 0);
    weft_rwmutex_write_unlock(&rwmutex);
}

static void use_rwmutex(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++)
        if (one_in(3))
            write_once();
        else
            read_once();
}

static void rwmutex_excludes(void)
{
    lots = seeds_prng();
    rwmutex = (weft_rwmutex)WEFT_RWMUTEX_INIT;
    readers = writers = 0;
    start(use_rwmutex, FIBERS);
    finish();
    weft_rwmutex_destroy(&rwmutex);
}

/* Condition: a store of bounded size, some of whose users give up. */

static weft_cond not_empty, not_full;
static int stored, put, taken;

enum { ROOM = 2 };

static void put_some(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        work(); /* so that a signal meets a deadline */
        weft_mutex_lock(&mutex);
        while (stored == ROOM)
            CHECK_EQ(weft_cond_wait(&not_full, &mutex), 0);
        CHECK(++stored <= ROOM);
        put++;
        weft_cond_signal(&not_empty);
        weft_mutex_unlock(&mutex);
    }
}

static void take_some(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS;) {
        weft_mutex_lock(&mutex);
        int error = 0;
        while (stored == 0 && error == 0)
            error = weft_cond_wait_until(&not_empty, &mutex, one_in(2) ? WEFT_NEVER : soon());
        CHECK(error == 0 || error == -ETIMEDOUT);
        if (stored > 0) {
            stored--;
            taken++;
            i++;
            weft_cond_signal(&not_full);
        }
        weft_mutex_unlock(&mutex);
        if (error != 0)
            CHECK_EQ(weft_sleep(WEFT_MS), 0);
    }
}

static void put_or_take(void *arg)
{
    if ((uintptr_t)arg % 2 == 0)
        put_some(arg);
    else
        take_some(arg);
}

static void no_signal_is_lost(void)
{
    lots = seeds_prng();
    mutex = (weft_mutex)WEFT_MUTEX_INIT;
    not_empty = not_full = (weft_cond)WEFT_COND_INIT;
    stored = put = taken = 0;
    start(put_or_take, FIBERS);
    finish();
    CHECK_EQ(put, taken);
    CHECK_EQ(stored, 0);
    weft_cond_destroy(&not_empty);
    weft_cond_destroy(&not_full);
    weft_mutex_destroy(&mutex);
}

/* Semaphore, with units of different sizes. */

static weft_sem sem;
static int64_t in_use;

enum { UNITS = 4 };

static void use_sem(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t units = 1 + prng_below(&lots, UNITS);
        if (one_in(2))
            weft_sem_acquire(&sem, units);
        else if (weft_sem_acquire_until(&sem, units, soon()) != 0)
            continue;
        in_use += units;
        CHECK(in_use <= UNITS);
        work();
        in_use -= units;
        weft_sem_release(&sem, units);
    }
}

static void sem_bounds(void)
{
    lots = seeds_prng();
    CHECK_EQ(weft_sem_init(&sem, UNITS), 0);
    in_use = 0;
    start(use_sem, FIBERS);
    finish();
    CHECK_EQ(weft_sem_available(&sem), UNITS);
    weft_sem_destroy(&sem);
}

/* One in line gives up: those behind it, who want less, are let in at once. Who holds the rest waits for that. */

static void wants_all(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sem_acquire_until(&sem, UNITS, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_rwmutex_write_lock_until(&rwmutex, weft_after(WEFT_MS)), -ETIMEDOUT);
}

static void wants_little(void *arg)
{
    (void)arg;
    work();
    weft_sem_acquire(&sem, 1);
    weft_rwmutex_read_lock(&rwmutex);
    weft_rwmutex_read_unlock(&rwmutex);
    weft_sem_release(&sem, 1);
}

static void all_or_little(void *arg)
{
    if ((uintptr_t)arg < 2)
        wants_all(arg);
    else
        wants_little(arg);
}

static void giving_up_lets_others_in(void)
{
    lots = seeds_prng();
    CHECK_EQ(weft_sem_init(&sem, UNITS), 0);
    rwmutex = (weft_rwmutex)WEFT_RWMUTEX_INIT;
    weft_sem_acquire(&sem, 1);
    weft_rwmutex_read_lock(&rwmutex);
    start(all_or_little, FIBERS);
    finish();
    weft_rwmutex_read_unlock(&rwmutex);
    weft_sem_release(&sem, 1);
    weft_rwmutex_destroy(&rwmutex);
    weft_sem_destroy(&sem);
}

/* Barrier. */

static weft_barrier barrier;
static int arrived[ROUNDS];

static void meet(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        work();
        arrived[i]++;
        CHECK(weft_barrier_wait(&barrier) >= 0);
        CHECK_EQ(arrived[i], FIBERS);
    }
}

static void barrier_holds(void)
{
    lots = seeds_prng();
    memset(arrived, 0, sizeof arrived);
    CHECK_EQ(weft_barrier_init(&barrier, FIBERS), 0);
    start(meet, FIBERS);
    finish();
    weft_barrier_destroy(&barrier);
}

/* Once. */

static weft_once once;
static int done;

static void do_it(void *arg)
{
    (void)arg;
    work();
    done++;
}

static void use_once(void *arg)
{
    (void)arg;
    work();
    weft_once_do(&once, do_it, NULL);
    CHECK_EQ(done, 1);
}

static void once_is_once(void)
{
    lots = seeds_prng();
    once = (weft_once)WEFT_ONCE_INIT;
    done = 0;
    start(use_once, FIBERS);
    finish();
}

/* Wait group: waiters with deadlines; a wait that succeeds means zero. */

static weft_wg others;

static void count_down(void *arg)
{
    (void)arg;
    work();
    weft_wg_done(&others);
}

static void wait_for_others(void *arg)
{
    (void)arg;
    int error = weft_wg_wait_until(&others, one_in(2) ? WEFT_NEVER : soon());
    CHECK(error == 0 || error == -ETIMEDOUT);
    if (error == 0)
        CHECK_EQ(weft_wg_count(&others), 0);
}

static void down_or_wait(void *arg)
{
    if ((uintptr_t)arg % 2 == 0)
        count_down(arg);
    else
        wait_for_others(arg);
}

static void wg_counts(void)
{
    lots = seeds_prng();
    CHECK_EQ(weft_wg_init(&others, FIBERS / 2), 0);
    start(down_or_wait, FIBERS);
    finish();
    CHECK_EQ(weft_wg_count(&others), 0);
}

int main(void)
{
    RUN_SEEDS_MANY(mutex_excludes);
    RUN_SEEDS_MANY(rwmutex_excludes);
    RUN_SEEDS_MANY(no_signal_is_lost);
    RUN_SEEDS_MANY(sem_bounds);
    RUN_SEEDS_MANY(giving_up_lets_others_in);
    RUN_SEEDS_MANY(barrier_holds);
    RUN_SEEDS_MANY(once_is_once);
    RUN_SEEDS_MANY(wg_counts);
    return 0;
}
