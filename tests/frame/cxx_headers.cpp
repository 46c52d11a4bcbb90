// cxx_headers.cpp: uses the main calls, initialisers and constants of each header from C++.

#include <weft/weft.h>

#include <cerrno>

static_assert(WEFT_VERSION_AT_LEAST(0, 0, 0) && WEFT_VERSION_AT_LEAST(0, 1, 99), "an older one");
static_assert(WEFT_VERSION_AT_LEAST(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH),
              "this one");
static_assert(!WEFT_VERSION_AT_LEAST(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR,
                                     WEFT_VERSION_PATCH + 1) &&
                  !WEFT_VERSION_AT_LEAST(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR + 1, 0) &&
                  !WEFT_VERSION_AT_LEAST(WEFT_VERSION_MAJOR + 1, 0, 0),
              "a later one");

static void set_to_seven(void *number)
{
    weft_yield();
    *static_cast<int *>(number) = 7;
}

static void finish(void *wg)
{
    weft_wg_done(static_cast<weft_wg *>(wg));
}

static bool fibers()
{
    int number = 0;
    weft_spawn_options options = {};
    options.name = "from C++";

    weft_fiber *fiber = nullptr;
    if (weft_spawn(&fiber, set_to_seven, &number, &options) != 0)
        return false;
    return weft_join(fiber) == 0 && number == 7;
}

static bool wait_groups()
{
    weft_wg wg = WEFT_WG_INIT;
    int number = 0;
    if (weft_wg_add(&wg, 1) != 0 || weft_go(finish, &wg) != 0)
        return false;
    if (weft_wg_wait_until(&wg, WEFT_NEVER) != 0)
        return false;
    return weft_wg_go(&wg, set_to_seven, &number) == 0 && weft_wg_wait(&wg) == 0 && number == 7;
}

static bool channels()
{
    weft_chan *chan = nullptr;
    int number = 7, received = 0;
    if (weft_chan_make(&chan, sizeof number, 1) != 0)
        return false;
    bool good = weft_chan_send(chan, &number) == 0 &&
                weft_chan_try_send(chan, &number) == -EAGAIN && weft_chan_length(chan) == 1 &&
                weft_chan_receive_until(chan, &received, weft_after(WEFT_S)) == 0 &&
                received == 7 && weft_chan_close(chan) == 0 &&
                weft_chan_receive(chan, nullptr) == -ESHUTDOWN;
    weft_chan_destroy(chan);
    return good;
}

static bool selects()
{
    weft_chan *chan = nullptr;
    int number = 7, received = 0;
    if (weft_chan_make(&chan, sizeof number, 1) != 0)
        return false;
    weft_case cases[2] = {{chan, WEFT_SEND, 0, &number}, {nullptr, WEFT_RECEIVE, 0, &received}};
    bool good = weft_select(cases, 2) == 0 && cases[0].result == 0;
    cases[0].chan = nullptr;
    cases[1].chan = chan;
    good = good && weft_select_until(cases, 2, WEFT_NEVER) == 1 && received == 7 &&
           weft_select_try(cases, 2) == -EAGAIN;
    weft_chan_destroy(chan);
    return good;
}

static bool tickers()
{
    weft_ticker *ticker = nullptr;
    int64_t time = 0;
    if (weft_ticker_open(&ticker, WEFT_NEVER, 0) != 0)
        return false;
    bool good = weft_ticker_reset(ticker, weft_after(WEFT_US), WEFT_MS) == 0 &&
                weft_chan_receive(weft_ticker_chan(ticker), &time) == 0 && time > 0 &&
                weft_ticker_stop(ticker) == 0;
    return weft_ticker_close(ticker) == 0 && good;
}

static bool contexts()
{
    static const char key = 0;
    int value = 7;
    weft_context_options options = {};
    options.timeout = 3600 * WEFT_S;
    options.key = &key;
    options.value = &value;
    weft_context *parent = nullptr, *context = nullptr, *before = nullptr;
    weft_chan *done = nullptr;
    if (weft_context_open(&parent, nullptr, &options) != 0)
        return false;
    if (weft_context_open(&context, parent, nullptr) != 0)
        return false;
    bool good = weft_context_value(context, &key) == &value &&
                weft_context_deadline(context) <= weft_after(options.timeout) &&
                weft_context_done(context, &done) == 0 && weft_context_error(context) == 0 &&
                weft_context_bind(context, &before) == 0 && weft_context_current() == context;
    weft_context_cancel(parent);
    good = good && weft_sleep(3600 * WEFT_S) == -ECANCELED &&
           weft_context_error(context) == -ECANCELED &&
           weft_chan_try_receive(done, nullptr) == -ESHUTDOWN &&
           weft_context_bind(before, nullptr) == 0;
    weft_context_close(context);
    weft_context_close(parent);
    return good;
}

static int fail(void *error)
{
    return *static_cast<int *>(error);
}

static int start_two(weft_group *group, void *error)
{
    int none = weft_group_go(group, fail, error);
    return none != 0 ? none : weft_group_try_go(group, fail, error);
}

static bool groups()
{
    int none = 0, error = -EIO;
    weft_group_options options = {};
    options.limit = 2;
    options.keep_going = 1;
    weft_group *group = nullptr;
    if (weft_group_open(&group, &options) != 0)
        return false;
    bool good = weft_group_go(group, fail, &none) == 0 && weft_group_wait(group, nullptr) == 0 &&
                weft_group_running(group) == 0 &&
                weft_context_error(weft_group_context(group)) == 0;
    weft_group_cancel(group);
    return weft_group_close(group) == -ECANCELED && good &&
           weft_group_scope(&options, start_two, &error) == -EIO;
}

static bool locks()
{
    weft_mutex mutex = WEFT_MUTEX_INIT;
    weft_rwmutex rwmutex = WEFT_RWMUTEX_INIT;
    weft_spin spin = WEFT_SPIN_INIT;
    weft_cond cond = WEFT_COND_INIT;
    weft_mutex_lock(&mutex);
    bool good = weft_mutex_try_lock(&mutex) == -EBUSY &&
                weft_cond_wait_until(&cond, &mutex, weft_after(WEFT_US)) == -ETIMEDOUT;
    weft_cond_signal(&cond);
    weft_cond_broadcast(&cond);
    weft_mutex_unlock(&mutex);
    weft_rwmutex_read_lock(&rwmutex);
    good = good && weft_rwmutex_try_write_lock(&rwmutex) == -EBUSY;
    weft_rwmutex_read_unlock(&rwmutex);
    weft_rwmutex_write_lock(&rwmutex);
    weft_rwmutex_write_unlock(&rwmutex);
    weft_spin_lock(&spin);
    good = good && weft_spin_try_lock(&spin) == -EBUSY;
    weft_spin_unlock(&spin);
    weft_cond_destroy(&cond);
    weft_rwmutex_destroy(&rwmutex);
    weft_mutex_destroy(&mutex);
    return good;
}

static bool semaphores_and_barriers()
{
    weft_sem sem = WEFT_SEM_INIT(3);
    weft_sem_acquire(&sem, 2);
    bool good = weft_sem_try_acquire(&sem, 2) == -EAGAIN && weft_sem_available(&sem) == 1;
    weft_sem_release(&sem, 2);
    weft_sem_destroy(&sem);

    weft_barrier barrier;
    good = weft_barrier_init(&barrier, 1) == 0 && weft_barrier_wait(&barrier) == 1 && good;
    weft_barrier_destroy(&barrier);

    weft_once once = WEFT_ONCE_INIT;
    int number = 0;
    weft_once_do(&once, set_to_seven, &number);
    return good && number == 7;
}

static bool limiters()
{
    weft_limiter_options options = {};
    options.rate = 1;
    options.burst = 3;
    weft_limiter *limiter = nullptr;
    if (weft_limiter_open(&limiter, &options) != 0)
        return false;
    bool good = weft_limiter_take(limiter, 1) == 0 &&
                weft_limiter_try_take(limiter, 3) == -EAGAIN &&
                weft_limiter_take_until(limiter, 2, WEFT_NOW) == 0 &&
                weft_limiter_set(limiter, 2, 2) == 0 && weft_limiter_take(limiter, 3) == -EINVAL;
    weft_limiter_close(limiter);
    return good;
}

static bool object_pools()
{
    weft_object_pool_options options = {};
    options.size = 64;
    weft_object_pool *pool = nullptr;
    void *object = nullptr;
    weft_object_pool_counts counts;
    if (weft_object_pool_open(&pool, &options) != 0)
        return false;
    if (weft_object_pool_get(pool, &object) != 0)
        return false;
    weft_object_pool_put(pool, object);
    bool good = weft_object_pool_count(pool, &counts) == 0 && counts.made == 1;
    return weft_object_pool_close(pool) == 0 && good;
}

static bool tasks_of(weft_pool *pool)
{
    int number = 7, result = 0;
    weft_task *task = nullptr;
    weft_chan *done = nullptr;
    weft_group *group = nullptr;
    weft_submit_options options = {};
    options.copy = sizeof number;
    options.run_timeout = 3600 * WEFT_S;
    if (weft_task_start(&task, pool, fail, &number, &options) != 0)
        return false;
    bool good = weft_task_wait(task, &result) == 0 && result == 7 &&
                *static_cast<int *>(weft_task_arg(task)) == 7 && weft_task_done(task, &done) == 0 &&
                weft_chan_try_receive(done, nullptr) == -ESHUTDOWN && weft_task_ended(task) == 1 &&
                weft_task_cancel(task) == 2;
    weft_task_release(task);
    if (weft_task_try_start(&task, pool, fail, &number, nullptr) != 0)
        return false;
    good = weft_task_wait(task, nullptr) == 0 && good;
    weft_task_release(task);
    int none = 0;
    return weft_pool_group(&group, pool, nullptr) == 0 && weft_group_go(group, fail, &none) == 0 &&
           weft_group_close(group) == 0 && good;
}

static bool pools()
{
    int numbers[4] = {};
    void *args[] = {&numbers[2], &numbers[3]};
    weft_pool_options options = {};
    options.name = "from C++";
    options.capacity = 2;
    options.queue = WEFT_UNLIMITED;
    options.when_full = WEFT_REJECT;
    options.function = set_to_seven;
    weft_pool *pool = nullptr;
    weft_pool_stats stats;
    if (weft_pool_open(&pool, &options) != 0)
        return false;
    weft_submit_options high = {};
    high.priority = WEFT_HIGH;
    high.key = 1;
    bool good = weft_pool_submit_with(pool, set_to_seven, &numbers[0], &high) == 0 &&
                weft_pool_invoke(pool, &numbers[1]) == 0 &&
                weft_pool_submit_batch(pool, nullptr, args, 2, WEFT_NEVER) == 2 &&
                weft_pool_tune(pool, 3) == 0 && weft_pool_tune_queue(pool, 100) == 0 &&
                weft_pool_state(pool) == WEFT_POOL_OPEN && tasks_of(pool) &&
                weft_pool_wait(pool, WEFT_NEVER) == 0 && weft_pool_stop(pool, WEFT_NEVER) == 0 &&
                weft_pool_stats_get(pool, &stats) == 0 && stats.completed == 7 &&
                weft_pool_submit(pool, set_to_seven, args) == -ESHUTDOWN &&
                weft_pool_reopen(pool) == 0;
    for (int number : numbers)
        good = good && number == 7;
    return weft_pool_close(pool) == 0 && good;
}

static bool many_pools()
{
    int number = 0;
    weft_pool_options options = weft_pool_fixed(1);
    weft_pools *pools = nullptr;
    weft_pool_stats stats;
    if (weft_pools_open(&pools, 2, WEFT_LEAST_BUSY, &options) != 0)
        return false;
    bool good = weft_pool_submit(weft_pools_pick(pools), set_to_seven, &number) == 0 &&
                weft_pools_count(pools) == 2 && weft_pools_get(pools, 2) == nullptr &&
                weft_pools_stats(pools, &stats) == 0 && stats.submitted == 1;
    return weft_pools_close(pools) == 0 && good && number == 7;
}

int main()
{
    bool (*const parts[])() = {
        fibers,       wait_groups, channels,
        selects,      tickers,     contexts,
        groups,       locks,       semaphores_and_barriers,
        object_pools, pools,       many_pools,
        limiters,
    };
    int part = 0;
    for (auto good : parts) {
        part++;
        if (!good())
            return part;
    }
    return weft_shutdown(WEFT_NEVER) == 0 ? 0 : part + 1;
}
