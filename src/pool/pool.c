/*
 * pool.c: the life of a pool: options, open, stop, close, tune, pause, figures.
 *
 *     open ---- stop, close ----> stopping ---- nothing inside, no worker left ----> stopped
 *      ^                                                                               |
 *      |________________________________ reopen _______________________________________|
 *
 * A stopping pool admits nothing but what its own tasks submit, runs what it has to the end, and ends its
 * workers. Whoever finds that nothing is left (worker.c: settle) makes it stopped and wakes those who
 * wait; that is the last that anybody does to it, so it can be freed then.
 */
#include <errno.h>
#include <string.h>
#include <weft/mutex.h>

#include "base/assert.h"
#include "pool/panic.h"
#include "pool/pool.h"

#define CAPACITY_DEFAULT 10000
#define EXPIRY_DEFAULT WEFT_S
#define CRASHES_DEFAULT 1000
enum { SHRINK_MOST = 1000000 };

/* Options. */

weft_pool_options weft_pool_fixed(int64_t workers)
{
    return (weft_pool_options){.capacity = workers,
                               .queue = workers,
                               .prestart = workers,
                               .keep = workers,
                               .expiry = WEFT_NEVER};
}

weft_pool_options weft_pool_scalable(int64_t idle, int64_t most, int64_t period)
{
    return (weft_pool_options){.capacity = most, .keep = idle, .expiry = period, .shrink = 4};
}

static bool valid(const weft_pool_options *options)
{
    static const weft_pool_options none;
    return options->capacity >= 0 && options->queue >= 0 && options->max_blocked >= 0 &&
           options->keep >= 0 && options->prestart >= 0 && options->expiry >= 0 &&
           options->shrink >= 0 && options->shrink <= SHRINK_MOST && options->max_crashes >= 0 &&
           options->when_full >= WEFT_BLOCK && options->when_full <= WEFT_DROP_OLDEST &&
           options->reuse >= WEFT_LIFO && options->reuse <= WEFT_FIFO &&
           options->prestart <= (options->capacity != 0 ? options->capacity : CAPACITY_DEFAULT) &&
           (options->stack_size == 0 || weft__stack_class(options->stack_size) >= 0) &&
           memcmp(options->reserved, none.reserved, sizeof none.reserved) == 0;
}

struct log {
    const weft_pool_options *options;
    const char *line;
};

static void call_log(void *arg)
{
    struct log *log = arg;
    log->options->log(log->line, log->options->data);
}

void weft__pool_log(weft_pool *pool, const char *line)
{
    struct log log = {&pool->options, line};
    if (pool->options.log != NULL)
        (void)weft__pool_call_option(pool, call_log, &log);
    else
        weft__warn("pool \"%s\": %s", pool->name, line);
}

/* Giving workers back in shares. */

/* Called by the timer. */
static void shrink(void *arg)
{
    weft_pool *pool = arg;
    struct errands errands = {.first = NULL};
    bool fiber = enter_if_fiber();
    latch_acquire(&pool->latch);
    int64_t surplus = pool->idle.length - pool->options.keep;
    int64_t share = surplus / pool->options.shrink;
    for (int64_t i = 0; surplus > 0 && i < (share > 0 ? share : 1); i++)
        (void)weft__pool_end_oldest(pool, &errands);
    pool->shrink_armed = pool->idle.length > pool->options.keep;
    bool again = pool->shrink_armed;
    latch_release(&pool->latch);
    bool failed = weft__pool_run(pool, &errands);
    must(!failed); /* it makes none */
    leave_if_fiber(fiber);
    if (again)
        (void)weft_timer_start(pool->shrinker, weft_after(pool->options.expiry), 0);
}

bool weft__pool_shrinks_now(weft_pool *pool)
{
    if (pool->shrinker == NULL || pool->shrink_armed || pool->idle.length < pool->options.keep ||
        pool->options.expiry == WEFT_NEVER)
        return false;
    pool->shrink_armed = true;
    return true;
}

void weft__pool_shrink_later(weft_pool *pool)
{
    (void)weft_timer_start(pool->shrinker, weft_after(pool->options.expiry), 0);
}

/* Opening. */

static void free_pool(weft_pool *pool)
{
    if (pool->shrinker != NULL)
        (void)weft_timer_close(pool->shrinker);
    weft__hands_free(pool);
    weft__sys_free(pool);
}

static weft_pool *make(const weft_pool_options *options, void *site)
{
    weft_pool *pool = weft__sys_alloc_aligned(_Alignof(weft_pool), sizeof *pool);
    if (pool == NULL)
        return NULL;
    memset(pool, 0, sizeof *pool);
    if (!weft__hands_make(pool)) {
        weft__sys_free(pool);
        return NULL;
    }
    pool->options = *options;
    pool->site = site;
    pool->capacity = options->capacity != 0 ? options->capacity : CAPACITY_DEFAULT;
    pool->queue_most = options->queue;
    pool->stack_class = options->stack_size != 0 ? weft__stack_class(options->stack_size) : -1;
    atomic_i64_store_relaxed(&pool->crashes_left,
                             options->max_crashes != 0 ? options->max_crashes : CRASHES_DEFAULT);
    if (options->expiry == 0)
        pool->options.expiry = EXPIRY_DEFAULT;
    if (options->prestart > options->keep)
        pool->options.keep = options->prestart;
    if (options->name != NULL)
        memcpy(pool->name, options->name, strnlen(options->name, FIBER_NAME_SIZE - 1));
    pool->options.name = NULL; /* the caller's memory */
    return pool;
}

static int open_pool(weft_pool **out, const weft_pool_options *options, void *site)
{
    int error = runtime_ensure();
    if (error == 0 && options->isolate_crashes && !weft__sched.handles_faults)
        error = -ENOTSUP;
    if (error != 0)
        return error;
    weft_pool *pool = make(options, site);
    if (pool == NULL)
        return -ENOMEM;
    if (options->shrink != 0)
        error = weft_timer_open(&pool->shrinker, shrink, pool);
    if (error != 0) {
        free_pool(pool);
        return error;
    }
    weft__pools_add(pool);
    error = weft__pool_prestart(pool, options->prestart);
    if (error != 0) {
        (void)weft_pool_close(pool);
        return error;
    }
    *out = pool;
    return 0;
}

int weft_pool_open(weft_pool **out, const weft_pool_options *options)
{
    static const weft_pool_options defaults;
    if (options == NULL)
        options = &defaults;
    if (out == NULL || !valid(options))
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    return open_pool(out, options, __builtin_return_address(0));
}

static atomic_ptr default_pool;

weft_pool *weft_pool_default(void)
{
    static weft_mutex mutex = WEFT_MUTEX_INIT; /* not a lock: opening enters the runtime */
    weft_pool *opened = atomic_ptr_load_acquire(&default_pool); /* pairs with the release below */
    if (weft__runtime_forked())
        return opened;
    if (opened != NULL) /* it may have outlived a shut-down, and needs processors again */
        return runtime_ensure() == 0 ? opened : NULL;
    static const weft_pool_options defaults = {.name = "default"};
    weft_mutex_lock(&mutex);
    opened = atomic_ptr_load_relaxed(&default_pool);
    if (opened == NULL && open_pool(&opened, &defaults, __builtin_return_address(0)) == 0)
        atomic_ptr_store_release(&default_pool, opened);
    weft_mutex_unlock(&mutex);
    return opened;
}

/* Changing. */

/* Changes something under the latch and sees to the consequences. */
static int change(weft_pool *pool, void (*how)(weft_pool *, int64_t), int64_t number)
{
    struct errands errands = {.first = NULL};
    if (pool == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    bool fiber = enter_if_fiber();
    latch_acquire(&pool->latch);
    how(pool, number);
    weft__pool_empty_hands(pool, -1); /* so that none of it begins after this */
    weft__pool_collect(pool);
    weft__pool_finish(pool, &errands, fiber);
    return 0;
}

static void set_capacity(weft_pool *pool, int64_t capacity)
{
    pool->capacity = capacity;
}

static void set_paused(weft_pool *pool, int64_t paused)
{
    pool->paused = paused != 0 && pool->state == POOL_OPEN;
}

int weft_pool_tune(weft_pool *pool, int64_t capacity)
{
    return capacity >= 1 ? change(pool, set_capacity, capacity) : -EINVAL;
}

int weft_pool_pause(weft_pool *pool)
{
    return change(pool, set_paused, true);
}

int weft_pool_resume(weft_pool *pool)
{
    return change(pool, set_paused, false);
}

/* Figures. */

/* Under the latch, after a collect: tasks that have not begun. */
static int64_t count_queued(const weft_pool *pool)
{
    int64_t queued =
        atomic_i64_load_relaxed(&pool->ready) + pool->held_back + weft__hands_length(pool);
    for (const struct worker *worker = worker_of(pool->takers.first); worker != NULL;
         worker = worker_of(worker->link.next))
        if (worker->chunk != NULL)
            queued += chunk_left(worker->chunk);
    return queued;
}

int weft_pool_stats_get(weft_pool *pool, weft_pool_stats *stats)
{
    if (pool == NULL || stats == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    latch_acquire(&pool->latch);
    /* First what is still in hand, then what has ended: so nothing is in neither. */
    trays_close(pool);
    int64_t queued = count_queued(pool);
    weft__pool_count(pool);
    *stats = pool->stats;
    stats->capacity = pool->capacity;
    stats->queued = queued < pool->inside ? queued : pool->inside;
    stats->running = pool->inside - stats->queued;
    stats->blocked = pool->blocked.length;
    stats->workers = pool->workers;
    stats->idle = pool->idle.length;
    latch_release(&pool->latch);
    return 0;
}

void *weft_pool_worker_state(void)
{
    struct worker *worker = weft__worker_self();
    return worker != NULL ? worker->user_state : NULL;
}

/* The end. */

int64_t weft_pool_abort(weft_pool *pool)
{
    weft_pool_stats now;
    int error = weft_pool_stats_get(pool, &now);
    if (error != 0)
        return error;
    int64_t count = 0; /* no more than there are now: others may come meanwhile */
    for (; count < now.queued; count++) {
        struct errands errands = {.first = NULL};
        struct task task, next;
        bool calls = false;
        bool fiber = enter_if_fiber();
        latch_acquire(&pool->latch);
        bool found = weft__pool_forget(pool, &task, &next, &calls);
        pool->visitors++;
        weft__pool_settle(pool, &errands);
        latch_release(&pool->latch);
        bool alone = weft__pool_run(pool, &errands);
        leave_if_fiber(fiber);
        if (found)
            weft__pool_tell_drop(pool, &task);
        if (weft__runtime_forked())
            return count + 1; /* by on_drop: the rest is the parent's */
        if (calls)
            weft__pool_call(pool, &next);
        if (alone)
            weft__pool_do_without(pool);
        weft__pool_leave(pool);
        if (!found)
            break;
    }
    return count;
}

static void unlock_pool(void *pool)
{
    latch_release(&((weft_pool *)pool)->latch);
}

static bool is_stopped(const weft_pool *pool)
{
    return pool->state == POOL_STOPPED;
}

/* Waits in the list until that is so; with the latch held, which is released. */
static int wait_until(weft_pool *pool, void **list, bool (*is_so)(const weft_pool *), uint32_t what,
                      int64_t deadline)
{
    bool so = is_so(pool);
    if (so || deadline <= WEFT_NOW) {
        latch_release(&pool->latch);
        return so ? 0 : -ETIMEDOUT;
    }
    struct waiter own, *waiter = weft__waiter_begin(&own);
    waiters_add_last(list, waiter);
    int error = weft__park(waiter, what | WAIT_TOLD, unlock_pool, pool, deadline);
    if (!wait_gave_up(error))
        return error;
    latch_acquire(&pool->latch);
    so = is_so(pool);
    (void)waiters_remove(list, waiter);
    latch_release(&pool->latch);
    return so ? 0 : error;
}

static int stop(weft_pool *pool, uint32_t what, int64_t deadline)
{
    struct errands errands = {.first = NULL};
    if (weft__pool_role(pool) != ROLE_STRANGER)
        return -EDEADLK;
    bool fiber = enter_if_fiber();
    latch_acquire(&pool->latch);
    if (pool->state == POOL_OPEN) {
        pool->state = POOL_STOPPING;
        pool->paused = false;
        weft__pool_refuse(pool, -ESHUTDOWN, &errands);
    }
    weft__pool_collect(pool);
    weft__pool_finish(pool, &errands, fiber);
    fiber = enter_if_fiber();
    weft__worker_tells(); /* its own pool that it waits; not under this latch, as in submit.c */
    latch_acquire(&pool->latch);
    int error = wait_until(pool, &pool->stoppers, is_stopped, what, deadline);
    leave_if_fiber(fiber);
    return error;
}

int weft_pool_stop(weft_pool *pool, int64_t deadline)
{
    if (pool == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    return stop(pool, WAIT_POOL_STOP, deadline);
}

int weft__pool_stop_firmly(weft_pool *pool)
{
    return stop(pool, WAIT_POOL_STOP | WAIT_FIRM, WEFT_NEVER);
}

int weft_pool_wait(weft_pool *pool, int64_t deadline)
{
    struct errands errands = {.first = NULL};
    if (pool == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    if (weft__pool_role(pool) != ROLE_STRANGER)
        return -EDEADLK;
    bool fiber = enter_if_fiber();
    latch_acquire(&pool->latch);
    pool->watchers_coming++; /* from here the worker that ends the last task counts them all */
    weft__pool_collect(pool);
    weft__pool_finish(pool, &errands, fiber);
    fiber = enter_if_fiber();
    weft__worker_tells(); /* as in stop */
    latch_acquire(&pool->latch);
    pool->watchers_coming--;
    int error = wait_until(pool, &pool->watchers, weft__pool_is_quiet, WAIT_POOL_TASKS, deadline);
    leave_if_fiber(fiber);
    return error;
}

int weft_pool_reopen(weft_pool *pool)
{
    if (pool == NULL)
        return -EINVAL;
    int error = weft__runtime_forked() ? -ECHILD : runtime_ensure();
    if (error != 0)
        return error;
    latch_acquire(&pool->latch);
    error = pool->state == POOL_STOPPED ? 0 : -EBUSY;
    if (error == 0)
        pool->state = POOL_OPEN;
    latch_release(&pool->latch);
    return error != 0 ? error : weft__pool_prestart(pool, pool->options.prestart);
}

int weft_pool_close_until(weft_pool *pool, int64_t deadline)
{
    if (pool == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    if (pool == atomic_ptr_load_acquire(&default_pool))
        return -EBUSY; /* others may use it at any time */
    int error = stop(pool, WAIT_POOL_STOP | WAIT_FIRM, deadline);
    if (error != 0)
        return error;
    weft__pools_remove(pool);
    free_pool(pool);
    return 0;
}

int weft_pool_close(weft_pool *pool)
{
    return weft_pool_close_until(pool, WEFT_NEVER);
}
