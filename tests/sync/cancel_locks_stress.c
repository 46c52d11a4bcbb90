/*
 * cancel_locks.c: waits for locks and their kin that contexts end: semaphore, mutexes, condition, barrier. How:
 * cancelling.h.
 */
#include "cancelling.h"

/* Semaphore: never more held than there are, and all back at the end. */

enum { UNITS = 4 };

static struct {
    weft_sem sem;
    atomic_u32 held;
    uint32_t wanted[WORKERS];
} units;

static int acquire(struct worker *worker, int64_t deadline)
{
    return weft_sem_acquire_until(&units.sem, units.wanted[worker->index], deadline);
}

static void sem_work(struct worker *worker)
{
    for (int64_t i = 0; i < stage.rounds;) {
        uint32_t wanted = 1 + prng_below(&worker->prng, UNITS);
        units.wanted[worker->index] = wanted;
        if (wait_bound(worker, acquire) < 0)
            continue;
        i++;
        CHECK(atomic_u32_add_seq_cst(&units.held, wanted) + wanted <= UNITS);
        if (chance(worker, 4))
            weft_yield();
        atomic_u32_sub_seq_cst(&units.held, wanted);
        weft_sem_release(&units.sem, wanted);
    }
}

static void semaphore(void)
{
    CHECK_EQ(weft_sem_init(&units.sem, UNITS), 0);
    run("semaphore", sem_work, test_scale(600));
    CHECK_EQ(weft_sem_available(&units.sem), UNITS);
    CHECK_EQ(weft_sem_try_acquire(&units.sem, UNITS), 0);
    weft_sem_destroy(&units.sem);
}

/* Mutexes. */

static struct {
    weft_mutex mutex;
    weft_rwmutex rwmutex;
    uint64_t count; /* under the mutex, or written under the write lock */
    atomic_u32 readers, writers;
} locked;

static int lock(struct worker *worker, int64_t deadline)
{
    (void)worker;
    return weft_mutex_lock_until(&locked.mutex, deadline);
}

static void mutex_work(struct worker *worker)
{
    for (int64_t i = 0; i < stage.rounds;) {
        if (wait_bound(worker, lock) < 0)
            continue;
        i++;
        uint64_t count = locked.count;
        if (chance(worker, 8))
            weft_yield();
        locked.count = count + 1;
        weft_mutex_unlock(&locked.mutex);
    }
}

static int read_lock(struct worker *worker, int64_t deadline)
{
    (void)worker;
    return weft_rwmutex_read_lock_until(&locked.rwmutex, deadline);
}

static int write_lock(struct worker *worker, int64_t deadline)
{
    (void)worker;
    return weft_rwmutex_write_lock_until(&locked.rwmutex, deadline);
}

static void rwmutex_work(struct worker *worker)
{
    for (int64_t i = 0; i < stage.rounds;) {
        if (chance(worker, 2)) {
            if (wait_bound(worker, read_lock) < 0)
                continue;
            atomic_u32_add_seq_cst(&locked.readers, 1);
            CHECK_EQ(atomic_u32_load_seq_cst(&locked.writers), 0);
            if (chance(worker, 8))
                weft_yield();
            atomic_u32_sub_seq_cst(&locked.readers, 1);
            weft_rwmutex_read_unlock(&locked.rwmutex);
            continue;
        }
        if (wait_bound(worker, write_lock) < 0)
            continue;
        i++;
        CHECK_EQ(atomic_u32_add_seq_cst(&locked.writers, 1), 0);
        CHECK_EQ(atomic_u32_load_seq_cst(&locked.readers), 0);
        locked.count++;
        if (chance(worker, 8))
            weft_yield();
        atomic_u32_sub_seq_cst(&locked.writers, 1);
        weft_rwmutex_write_unlock(&locked.rwmutex);
    }
}

static void mutexes(void)
{
    int64_t rounds = test_scale(600);
    locked.count = 0;
    run("mutex", mutex_work, rounds);
    CHECK_EQ(locked.count, WORKERS * rounds);
    weft_mutex_destroy(&locked.mutex);
    locked.count = 0;
    run("read-write mutex", rwmutex_work, rounds);
    CHECK_EQ(locked.count, WORKERS * rounds);
    weft_rwmutex_destroy(&locked.rwmutex);
}

/* Condition: one signal for each token. The first half of the workers takes what the other half
 * makes; among the takers is one that is never cancelled, which would wait for ever if a signal
 * were lost to one that was. */

static struct {
    weft_mutex mutex;
    weft_cond cond;
    int64_t tokens, taken, made;
} stock;

static int await_token(struct worker *worker, int64_t deadline)
{
    (void)worker;
    int result = 0;
    weft_mutex_lock(&stock.mutex);
    while (stock.tokens == 0 && result == 0)
        result = weft_cond_wait_until(&stock.cond, &stock.mutex, deadline);
    if (stock.tokens > 0) {
        if (result < 0) { /* the token stays; so does its signal, with somebody else */
            weft_mutex_unlock(&stock.mutex);
            return result;
        }
        stock.tokens--;
        stock.taken++;
    }
    weft_mutex_unlock(&stock.mutex);
    return result;
}

static void cond_work(struct worker *worker)
{
    if (worker->index % 2 == 0) {
        for (int64_t i = 0; i < stage.rounds; i++) {
            weft_mutex_lock(&stock.mutex);
            stock.tokens++;
            stock.made++;
            weft_mutex_unlock(&stock.mutex);
            weft_cond_signal(&stock.cond);
            if (chance(worker, 8)) /* so that the takers do wait */
                CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
        }
        return;
    }
    for (int64_t i = 0; i < stage.rounds;) {
        if (worker->index == 1 || worker->index == WORKERS - 1)
            i += await_token(worker, WEFT_NEVER) == 0;
        else
            i += wait_bound(worker, await_token) == 0;
    }
}

static void condition(void)
{
    int64_t rounds = test_scale(600);
    memset(&stock, 0, sizeof stock);
    run("condition", cond_work, rounds);
    CHECK_EQ(stock.tokens, 0);
    CHECK_EQ(stock.taken, WORKERS / 2 * rounds);
    CHECK_EQ(stock.made, stock.taken);
    weft_cond_destroy(&stock.cond);
}

/* Barrier: an arrival that was ended does not count. */

static struct {
    weft_barrier barrier;
    atomic_u32 last;
    atomic_u32 rounds[WORKERS];
} meeting;

static int meet(struct worker *worker, int64_t deadline)
{
    (void)worker;
    return weft_barrier_wait_until(&meeting.barrier, deadline);
}

static void barrier_work(struct worker *worker)
{
    for (uint32_t round = 1; round <= stage.rounds; round++) {
        int result;
        atomic_u32_store_release(&meeting.rounds[worker->index], round);
        while ((result = wait_bound(worker, meet)) < 0)
            continue;
        atomic_u32_add_relaxed(&meeting.last, (uint32_t)result);
        for (int i = 0; i < WORKERS; i++)
            CHECK(atomic_u32_load_acquire(&meeting.rounds[i]) >= round);
    }
}

static void barrier(void)
{
    int64_t rounds = test_scale(200);
    CHECK_EQ(weft_barrier_init(&meeting.barrier, WORKERS), 0);
    atomic_u32_store_relaxed(&meeting.last, 0);
    for (int i = 0; i < WORKERS; i++)
        atomic_u32_store_relaxed(&meeting.rounds[i], 0);
    run("barrier", barrier_work, rounds);
    CHECK_EQ(atomic_u32_load_relaxed(&meeting.last), rounds);
    weft_barrier_destroy(&meeting.barrier);
}

int main(void)
{
    static const int processors[] = {1, 4};
    for (int i = 0; i < 2; i++) {
        printf("%d processors\n", processors[i]);
        CHECK_EQ(weft_configure(&(weft_config){.processors = processors[i]}), 0);
        RUN(semaphore);
        RUN(mutexes);
        RUN(condition);
        RUN(barrier);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
    RUN_SEEDS(semaphore);
    RUN_SEEDS(mutexes);
    RUN_SEEDS(condition);
    RUN_SEEDS(barrier);
    return 0;
}
