/*
 * calls_fault.c: the calls of src/sync with each system call and allocation that they need failing
 * in turn (scenario.h): channels, select, locks, the rate limiter, contexts, groups that collect,
 * tickers, the object pool.
 */
#include "scenario.h"

/* Starts another fiber for the other side of an operation, if that does not fail. */
static bool with_other(void (*function)(void *), void *arg, weft_fiber **fiber)
{
    *fiber = POISON;
    return OPENED_GO(weft_spawn(fiber, function, arg, NULL), *fiber);
}

/* Channels and select. */

static void send_two(void *chan)
{
    int number = 1;
    CHECK_EQ(weft_chan_send(chan, &number), 0);
    number = 2;
    CHECK_EQ(weft_chan_send_until(chan, &number, WEFT_NEVER), 0);
}

static void use_chan(void)
{
    weft_chan *chan = POISON, *buffered = POISON;
    weft_fiber *fiber;
    int number = 0;
    if (OPENED(weft_chan_make(&chan, sizeof number, 0), chan, -ENOMEM)) {
        if (with_other(send_two, chan, &fiber)) {
            CHECK_EQ(weft_chan_receive(chan, &number), 0);
            CHECK_EQ(number, 1);
            CHECK_EQ(weft_chan_receive_until(chan, &number, WEFT_NEVER), 0);
            CHECK_EQ(number, 2);
            CHECK_EQ(weft_join(fiber), 0);
        }
        CHECK_EQ(weft_chan_receive_until(chan, &number, weft_after(WEFT_US)), -ETIMEDOUT);
        weft_chan_destroy(chan);
    }
    if (OPENED(weft_chan_make(&buffered, sizeof number, 1), buffered, -ENOMEM)) {
        CHECK_EQ(weft_chan_capacity(buffered), 1);
        CHECK_EQ(weft_chan_try_send(buffered, &number), 0);
        CHECK_EQ(weft_chan_length(buffered), 1);
        CHECK_EQ(weft_chan_try_receive(buffered, &number), 0);
        CHECK_EQ(weft_chan_close(buffered), 0);
        CHECK_EQ(weft_chan_closed(buffered), 1);
        weft_chan_destroy(buffered);
    }
}

enum { CASES = 20 }; /* more than select has room for on the stack */

static void use_select(void)
{
    weft_chan *chan = POISON;
    weft_fiber *fiber;
    weft_case cases[CASES];
    int number = 0;
    if (!OPENED(weft_chan_make(&chan, sizeof number, 0), chan, -ENOMEM))
        return;
    for (int i = 0; i < CASES; i++)
        cases[i] = (weft_case){.chan = chan, .op = WEFT_RECEIVE, .element = &number, .result = 1};
    CHECK_EQ(weft_select_try(cases, 2), -EAGAIN);
    CHECK_EQ(weft_select_until(cases, 2, weft_after(WEFT_US)), -ETIMEDOUT);
    if (with_other(send_two, chan, &fiber)) {
        if (MAY(weft_select(cases, CASES), -ENOMEM) < 0) {
            CHECK_EQ(number, 0);
            CHECK(weft_select(cases, 16) >= 0);
        }
        CHECK_EQ(number, 1);
        CHECK(weft_select_until(cases, 16, WEFT_NEVER) >= 0);
        CHECK_EQ(number, 2);
        CHECK_EQ(weft_join(fiber), 0);
    }
    weft_chan_destroy(chan);
}

/* Locks. Nothing of theirs can fail; fibers that wait for them may have to wait for a stack. */

static struct {
    weft_mutex mutex;
    weft_rwmutex rwmutex;
    weft_cond cond;
    weft_spin spin;
    int turn;
} locks;

static void take_turn(void *arg)
{
    weft_mutex_lock(&locks.mutex);
    while (locks.turn != 1)
        CHECK_EQ(weft_cond_wait(&locks.cond, &locks.mutex), 0);
    locks.turn = 2;
    weft_mutex_unlock(&locks.mutex);
    weft_cond_broadcast(&locks.cond);
}

static void use_mutex(void)
{
    weft_fiber *fiber;
    bool other;
    memset(&locks, 0, sizeof locks);
    weft_mutex_lock(&locks.mutex);
    CHECK_EQ(weft_mutex_try_lock(&locks.mutex), -EBUSY);
    other = with_other(take_turn, NULL, &fiber);
    CHECK_EQ(weft_cond_wait_until(&locks.cond, &locks.mutex, weft_after(100 * WEFT_US)),
             -ETIMEDOUT);
    locks.turn = 1;
    weft_cond_signal(&locks.cond);
    while (other && locks.turn != 2)
        CHECK_EQ(weft_cond_wait(&locks.cond, &locks.mutex), 0);
    weft_mutex_unlock(&locks.mutex);
    if (other)
        CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_mutex_lock_until(&locks.mutex, weft_after(WEFT_S)), 0);
    weft_mutex_unlock(&locks.mutex);
    weft_mutex_destroy(&locks.mutex);
    weft_cond_destroy(&locks.cond);
    weft_spin_lock(&locks.spin);
    CHECK_EQ(weft_spin_try_lock(&locks.spin), -EBUSY);
    weft_spin_unlock(&locks.spin);
}

static void read_turn(void *arg)
{
    weft_rwmutex_read_lock(&locks.rwmutex);
    CHECK_EQ(locks.turn, 1);
    weft_rwmutex_read_unlock(&locks.rwmutex);
    CHECK_EQ(weft_rwmutex_read_lock_until(&locks.rwmutex, WEFT_NEVER), 0);
    weft_rwmutex_read_unlock(&locks.rwmutex);
    CHECK_EQ(weft_rwmutex_write_lock_until(&locks.rwmutex, WEFT_NEVER), 0);
    locks.turn = 2;
    weft_rwmutex_write_unlock(&locks.rwmutex);
}

static void use_rwmutex(void)
{
    weft_fiber *fiber;
    memset(&locks, 0, sizeof locks);
    weft_rwmutex_write_lock(&locks.rwmutex);
    bool other = with_other(read_turn, NULL, &fiber);
    CHECK_EQ(weft_sleep(50 * WEFT_US), 0);
    locks.turn = 1;
    weft_rwmutex_write_unlock(&locks.rwmutex);
    if (other)
        CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(locks.turn, other ? 2 : 1);
    CHECK_EQ(weft_rwmutex_try_read_lock(&locks.rwmutex), 0);
    CHECK_EQ(weft_rwmutex_try_write_lock(&locks.rwmutex), -EBUSY);
    weft_rwmutex_read_unlock(&locks.rwmutex);
    weft_rwmutex_destroy(&locks.rwmutex);
}

/* Semaphore, barrier, once, wait group. */

static struct {
    weft_sem sem;
    weft_barrier barrier;
    weft_once once;
    weft_wg wg;
    atomic_u32 ran;
} meet;

static void do_once(void *arg)
{
    CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    atomic_u32_add_seq_cst(&meet.ran, 1);
}

static void meet_others(void *arg)
{
    weft_sem_acquire(&meet.sem, 1);
    weft_once_do(&meet.once, do_once, NULL);
    CHECK(weft_barrier_wait(&meet.barrier) >= 0);
}

static void use_meetings(void)
{
    weft_fiber *fiber;
    memset(&meet, 0, sizeof meet);
    CHECK_EQ(weft_sem_init(&meet.sem, 0), 0);
    CHECK_EQ(weft_barrier_init(&meet.barrier, 2), 0);
    bool other = with_other(meet_others, NULL, &fiber);
    weft_sem_release(&meet.sem, 2);
    CHECK_EQ(weft_sem_acquire_until(&meet.sem, 1, weft_after(WEFT_S)), 0);
    weft_once_do(&meet.once, do_once, NULL);
    if (other) {
        CHECK(weft_barrier_wait_until(&meet.barrier, WEFT_NEVER) >= 0);
        CHECK_EQ(weft_join(fiber), 0);
    } else {
        CHECK_EQ(weft_barrier_wait_until(&meet.barrier, weft_after(WEFT_US)), -ETIMEDOUT);
    }
    CHECK_EQ(atomic_u32_load_acquire(&meet.ran), 1);
    CHECK_EQ(weft_sem_available(&meet.sem), other ? 0 : 1);
    CHECK_EQ(weft_sem_try_acquire(&meet.sem, 1), other ? -EAGAIN : 0);
    weft_barrier_destroy(&meet.barrier);
    weft_sem_destroy(&meet.sem);
}

static void add_one(void *arg)
{
    weft_yield();
    atomic_u32_add_seq_cst(&meet.ran, 1);
}

static void use_wg(void)
{
    uint32_t started = 0;
    memset(&meet, 0, sizeof meet);
    CHECK_EQ(weft_wg_init(&meet.wg, 1), 0);
    for (int i = 0; i < 4; i++)
        started += MAY_GO(weft_wg_go(&meet.wg, add_one, NULL)) == 0;
    CHECK(weft_wg_count(&meet.wg) <= started + 1);
    CHECK_EQ(weft_wg_add(&meet.wg, 1), 0);
    CHECK_EQ(weft_wg_wait_until(&meet.wg, weft_after(WEFT_US)), -ETIMEDOUT);
    weft_wg_done(&meet.wg);
    weft_wg_done(&meet.wg);
    CHECK_EQ(weft_wg_wait(&meet.wg), 0);
    CHECK_EQ(atomic_u32_load_acquire(&meet.ran), started);
}

/* The rate limiter. */

static void take_two(void *limiter)
{
    CHECK_EQ(weft_limiter_take(limiter, 2), 0);
}

static void use_limiter(void)
{
    weft_limiter *limiter = POISON;
    weft_limiter_options options = {.rate = 1, .period = 10 * WEFT_US, .burst = 2};
    weft_fiber *fiber;
    if (!OPENED(weft_limiter_open(&limiter, &options), limiter, -ENOMEM))
        return;
    CHECK_EQ(weft_limiter_try_take(limiter, 2), 0);
    bool other = with_other(take_two, limiter, &fiber);
    CHECK_EQ(weft_limiter_take_until(limiter, 1, weft_after(3600 * WEFT_S)), 0);
    CHECK_EQ(weft_limiter_set(limiter, 2, 3), 0);
    CHECK_EQ(weft_limiter_take(limiter, 3), 0);
    if (other)
        CHECK_EQ(weft_join(fiber), 0);
    weft_limiter_close(limiter);
}

/* Contexts. */

static void sleep_bound(void *arg)
{
    CHECK_EQ(weft_sleep(3600 * WEFT_S), -ECANCELED);
}

static void use_context(void)
{
    static int key;
    weft_context *parent = POISON, *child = POISON, *before = POISON;
    weft_chan *done = POISON;
    weft_context_options options = {.timeout = 3600 * WEFT_S, .key = &key, .value = &key};
    if (!OPENED_GO(weft_context_open(&parent, NULL, &options), parent))
        return;
    CHECK(weft_context_deadline(parent) <= weft_after(options.timeout));
    if (OPENED(weft_context_open(&child, parent, NULL), child, -ENOMEM)) {
        weft_spawn_options bound = {.context = child};
        weft_fiber *fiber = POISON;
        bool spawned = OPENED_GO(weft_spawn(&fiber, sleep_bound, NULL, &bound), fiber);
        CHECK_PTR(weft_context_value(child, &key), &key);
        bool has_done = OPENED(weft_context_done(child, &done), done, -ENOMEM);
        if (OPENED(weft_context_bind(child, &before), before, -ENOMEM)) {
            CHECK_PTR(weft_context_current(), child);
            weft_context_cancel(parent);
            CHECK_EQ(weft_sleep(WEFT_S), -ECANCELED);
            CHECK_EQ(weft_context_bind(before, NULL), 0);
        }
        weft_context_cancel(parent);
        CHECK_EQ(weft_context_error(child), -ECANCELED);
        if (has_done)
            CHECK_EQ(weft_chan_receive(done, NULL), -ESHUTDOWN);
        if (spawned)
            CHECK_EQ(weft_join(fiber), 0);
        weft_context_close(child);
    }
    weft_context_close(parent);
}

/* Groups that collect. */

static int double_it(void *arg)
{
    *(int *)arg *= 2;
    return weft_sleep(WEFT_US);
}

static void use_group_results(void)
{
    weft_group *group = POISON;
    weft_chan *done = POISON;
    weft_group_options options = {.collect = 1, .limit = 1};
    if (!OPENED_GO(weft_group_open(&group, &options), group))
        return;
    CHECK_EQ(weft_group_set_limit(group, 2), 0);
    int64_t started = 0;
    int numbers[40]; /* more records than the first allocation holds */
    for (int i = 0; i < 40; i++)
        if (MAY_GO(weft_group_go_copy(group, double_it, &i, sizeof i)) == 0)
            numbers[started++] = i;
    CHECK_EQ(weft_group_count(group), started);
    if (OPENED(weft_group_done(group, &done), done, -ENOMEM))
        CHECK_EQ(weft_chan_receive(done, NULL), -ESHUTDOWN);
    int error = 1;
    CHECK_EQ(weft_group_wait(group, &error), 0);
    CHECK_EQ(error, 0);
    for (int64_t i = 0; i < started; i++) {
        void *copy = POISON;
        CHECK_EQ(weft_group_result(group, i, &error, &copy), 0);
        CHECK_EQ(error, 0);
        CHECK_EQ(*(int *)copy, 2 * numbers[i]);
    }
    CHECK_EQ(weft_group_close(group), 0);
}

/* Tickers. */

static void use_ticker(void)
{
    weft_ticker *ticker = POISON;
    int64_t tick;
    if (!OPENED_GO(weft_ticker_open(&ticker, weft_after(3600 * WEFT_S), 0), ticker))
        return;
    CHECK_EQ(weft_ticker_stop(ticker), 0);
    CHECK_EQ(weft_ticker_reset(ticker, weft_after(10 * WEFT_US), 10 * WEFT_US), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), &tick), 0);
    CHECK_EQ(weft_ticker_close(ticker), 0);
}

/* Objects. */

static int make_object(void *object, void *arg)
{
    return *(int *)arg;
}

static void drop_object(void *object, void *arg)
{
    atomic_u32_add_seq_cst(&meet.ran, 1);
    CHECK_EQ(*(int *)arg, 0);
}

static void use_objects(void)
{
    static int result;
    weft_object_pool_options options = {.size = 100,
                                        .construct = make_object,
                                        .destroy = drop_object,
                                        .arg = &result,
                                        .idle_period = 100 * WEFT_US};
    weft_object_pool *pool = POISON;
    weft_object_pool_counts counts;
    atomic_u32_store_relaxed(&meet.ran, 0);
    if (!OPENED_GO(weft_object_pool_open(&pool, &options), pool))
        return;
    void *objects[3] = {POISON, POISON, POISON};
    uint32_t made = 0;
    for (int i = 0; i < 3; i++)
        made += OPENED(weft_object_pool_get(pool, &objects[i]), objects[i], -ENOMEM);
    CHECK_EQ(weft_object_pool_count(pool, &counts), 0);
    CHECK_EQ(counts.out, made);
    if (made > 0)
        CHECK_EQ(weft_object_pool_close(pool), -EBUSY);
    for (int i = 0; i < 3; i++)
        if (objects[i] != POISON)
            weft_object_pool_put(pool, objects[i]);
    if (made > 0) /* idle objects are destroyed, in a fiber of the pool */
        while (atomic_u32_load_acquire(&meet.ran) == 0)
            CHECK_EQ(weft_sleep(50 * WEFT_US), 0);
    CHECK_EQ(weft_object_pool_close(pool), 0);
    CHECK_EQ(atomic_u32_load_acquire(&meet.ran), made);
}

int main(void)
{
    static const struct scenario all[] = {
        {"chan", use_chan},
        {"select", use_select},
        {"mutex", use_mutex},
        {"rwmutex", use_rwmutex},
        {"meetings", use_meetings},
        {"wg", use_wg},
        {"limiter", use_limiter},
        {"context", use_context},
        {"ticker", use_ticker},
        {"objects", use_objects},
        {"group_results", use_group_results},
    };
    scenarios_run(all, sizeof all / sizeof all[0]);
    return 0;
}
