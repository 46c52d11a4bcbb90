/*
 * pool.c: the life of a pool: options, open, stop, close, tune, pause, abort.
 *
 *     open ---- stop, close ----> stopping ---- nothing in flight, no worker left ----> stopped
 *      ^                                                                                  |
 *      |__________________________________ reopen ________________________________________|
 *
 * A stopping pool admits only what its own tasks submit, runs what it has to the end, and ends its
 * workers. The call that finds that nothing is left (weft__pool_dispatch) makes the pool stopped
 * and wakes the calls that wait for that; that is its last access to the pool, which may be freed
 * then.
 *
 * A change (weft__pool_change) closes the inboxes first, so that none of the tasks in them begins
 * after it.
 *
 * Lock order: as in pool_internal.h; user code (on_drop, log) runs under no latch.
 */
#include <errno.h>
#include <string.h>
#include <weft/mutex.h>

#include "base/assert.h"
#include "pool/admission.h"
#include "pool/context.h"
#include "pool/failure.h"
#include "pool/keys.h"
#include "pool/pool.h"
#include "pool/schedule.h"
#include "pool/shard.h"
#include "pool/subpools.h"

static WAIT_KIND(wait_stop, .text = "waits for a pool to stop");
static WAIT_KIND(wait_tasks, .text = "waits for the tasks of a pool");

/* Options. */

weft_pool_options weft_pool_fixed(int64_t workers)
{
    if (workers <= 0)
        return (weft_pool_options){.capacity = -1}; /* 0 would be the default */
    return (weft_pool_options){.capacity = workers,
                               .queue = workers,
                               .prestart = workers,
                               .keep = workers,
                               .expiry = WEFT_NEVER};
}

weft_pool_options weft_pool_scalable(int64_t idle, int64_t most, int64_t period)
{
    return (weft_pool_options){
        .capacity = most > 0 ? most : -1, .keep = idle, .expiry = period, .shrink = 4};
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
           options->prestart != WEFT_UNLIMITED &&
           (options->stack_size == 0 || weft__stack_class(options->stack_size) >= 0) &&
           (options->parent == NULL || options->parent->parent == NULL) &&
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

/* Opening. */

static void free_pool(weft_pool *pool)
{
    weft__shards_close(pool);
    weft__keys_free(pool);
    weft__os_free(pool);
}

static weft_pool *make(const weft_pool_options *options, void *site)
{
    weft_pool *pool = weft__os_alloc_aligned(_Alignof(weft_pool), sizeof *pool);
    if (pool == NULL)
        return NULL;
    memset(pool, 0, sizeof *pool);
    pool->keys = weft__os_alloc_zeroed(KEY_SLOTS * sizeof(struct task *));
    pool->key_slots = KEY_SLOTS;
    if (pool->keys == NULL || !weft__shards_open(pool)) {
        weft__os_free(pool->keys);
        weft__os_free(pool);
        return NULL;
    }
    pool->options = *options;
    pool->parent = options->parent;
    pool->latch = pool->parent != NULL ? pool->parent->latch : &pool->own_latch;
    pool->site = site;
    pool->capacity = options->capacity != 0 ? options->capacity : CAPACITY_DEFAULT;
    pool->queue_size = options->queue;
    pool->rate.limiter = options->limiter;
    pool->singly = options->limiter != NULL;
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
    error = weft__tree_join(pool);
    if (error != 0) {
        free_pool(pool);
        return error;
    }
    pool->pins = 1; /* as in weft_pool_reopen */
    weft__pools_add(pool);
    error = weft__pool_context_open(pool);
    if (error == 0)
        error = weft__pool_prestart(pool, options->prestart);
    weft__pool_unpin(pool);
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
    int error = call_error(out != NULL && valid(options));
    return error != 0 ? error : open_pool(out, options, __builtin_return_address(0));
}

static atomic_ptr default_pool;

/* A shut-down waits for all fibers, and the default pool cannot be closed: its idle workers are
 * ended before they expire. A worker that is about to rest later ends by itself (choose_rest). */
static void end_idle_workers(void)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    weft_pool *pool = atomic_ptr_load_acquire(&default_pool);
    if (pool == NULL)
        return;
    latch_acquire(pool->latch);
    while (weft__pool_end_oldest(pool, &wakes))
        continue;
    weft__pool_unlatch(pool, &wakes);
}

weft_pool *weft_pool_default(void)
{
    static weft_mutex mutex = WEFT_MUTEX_INIT; /* not a struct lock: opening enters the runtime */
    weft_pool *opened = atomic_ptr_load_acquire(&default_pool); /* pairs with the release below */
    if (weft__runtime_forked())
        return opened;
    if (opened != NULL) /* after a shut-down it needs processors again */
        return runtime_ensure() == 0 ? opened : NULL;
    static const weft_pool_options defaults = {.name = "default"};
    weft_mutex_lock(&mutex);
    opened = atomic_ptr_load_relaxed(&default_pool);
    if (opened == NULL && open_pool(&opened, &defaults, __builtin_return_address(0)) == 0) {
        opened->is_default = true;
        atomic_ptr_store_release(&default_pool, opened);
        atomic_ptr_store_release(&weft__runtime_on_drain, (void *)(uintptr_t)end_idle_workers);
    }
    weft_mutex_unlock(&mutex);
    return opened;
}

/* Changing. */

int weft__pool_change(weft_pool *pool, int (*how)(weft_pool *, void *), void *arg)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    int error = call_error(pool != NULL);
    if (error != 0)
        return error;
    bool fiber = enter_if_fiber();
    latch_acquire(pool->latch);
    weft__shards_close_inboxes(pool); /* so that none of it begins after this */
    weft__shards_collect(pool);
    error = how(pool, arg);
    weft__pool_finish(pool, &wakes, fiber);
    return error;
}

static int set_capacity(weft_pool *pool, void *capacity)
{
    pool->capacity = *(int64_t *)capacity;
    return 0;
}

static int set_queue(weft_pool *pool, void *queue)
{
    pool->queue_size = *(int64_t *)queue;
    return 0;
}

static int pause(weft_pool *pool, void *arg)
{
    (void)arg;
    if (pool->state == POOL_STOPPING)
        return -ESHUTDOWN;
    pool->paused |= PAUSED_CALL;
    return 0;
}

static int resume(weft_pool *pool, void *arg)
{
    (void)arg;
    pool->paused &= (uint8_t)~PAUSED_CALL;
    return 0;
}

int weft_pool_tune(weft_pool *pool, int64_t capacity)
{
    return capacity >= 1 ? weft__pool_change(pool, set_capacity, &capacity) : -EINVAL;
}

int weft_pool_tune_queue(weft_pool *pool, int64_t queue)
{
    return queue >= 0 ? weft__pool_change(pool, set_queue, &queue) : -EINVAL;
}

int weft_pool_pause(weft_pool *pool)
{
    return weft__pool_change(pool, pause, NULL);
}

int weft_pool_resume(weft_pool *pool)
{
    int error = weft__pool_change(pool, resume, NULL);
    if (error == 0)
        weft__pauses_end(pool);
    return error;
}

/* The end. */

/* What an abort takes out in one hold of the latch. */
struct slice {
    struct plain_task plain[ABORT_SLICE];
    struct task *records[ABORT_SLICE]; /* NULL: the plain one */
    int count;
};

/* Under the latch: takes tasks that have not begun and are older than `before`. */
static void cut(weft_pool *pool, const uint64_t *before, struct slice *slice)
{
    weft__shards_close_inboxes(pool);
    weft__outboxes_close(pool);
    for (slice->count = 0; slice->count < ABORT_SLICE; slice->count++)
        if (!weft__pool_pop_oldest(pool, before, &slice->plain[slice->count],
                                   &slice->records[slice->count]))
            break;
    pool->in_flight -= slice->count;
    pool->stats.dropped += slice->count;
}

/* Reports the drops. False: in a child that on_drop has forked; the rest is the parent's. */
static bool notify_slice(weft_pool *pool, const struct slice *slice)
{
    for (int i = 0; i < slice->count && !weft__runtime_forked(); i++)
        weft__pool_notify_drop(pool, &slice->plain[i], slice->records[i]);
    return !weft__runtime_forked();
}

int64_t weft_pool_abort(weft_pool *pool)
{
    struct slice slice;
    uint64_t before[QUEUES];
    int64_t count = 0;
    int error = call_error(pool != NULL);
    if (error != 0)
        return error;
    latch_acquire(pool->latch);
    weft__outboxes_close(pool);
    for (int i = 0; i < QUEUES; i++)
        before[i] = pool->queues[i].next_order; /* what is admitted later stays */
    pool->pins++;
    latch_release(pool->latch);
    do {
        struct deferred_wakes wakes = NO_WAKES(wakes);
        bool fiber = enter_if_fiber();
        latch_acquire(pool->latch);
        cut(pool, before, &slice);
        weft__pool_finish(pool, &wakes, fiber);
        count += slice.count;
        if (!notify_slice(pool, &slice))
            return count;
    } while (slice.count == ABORT_SLICE);
    weft__pool_unpin(pool);
    return count;
}

static bool is_stopped(const weft_pool *pool)
{
    return pool->state == POOL_STOPPED;
}

/* Waits in `list` until `is_so`. The latch is held, and released. */
static int wait_until(weft_pool *pool, void **list, bool (*is_so)(const weft_pool *), uint32_t what,
                      int64_t deadline)
{
    bool so = is_so(pool);
    if (so || deadline <= WEFT_NOW) {
        latch_release(pool->latch);
        return so ? 0 : -ETIMEDOUT;
    }
    struct waiter own, *waiter = weft__waiter_begin(&own);
    waiters_add_last(list, waiter);
    int error = weft__park(waiter, what | WAIT_NOTIFIED, pool_unlock, pool, deadline);
    if (!wait_gave_up(error))
        return error;
    latch_acquire(pool->latch);
    so = is_so(pool);
    (void)waiters_remove(list, waiter);
    latch_release(pool->latch);
    return so ? 0 : error;
}

bool weft__pool_shut(weft_pool *pool, struct deferred_wakes *wakes)
{
    if (pool->state != POOL_OPEN)
        return false;
    pool->state = POOL_STOPPING;
    pool->paused &= PAUSED_ENDED;
    weft__line_refuse(pool, -ESHUTDOWN, wakes);
    return true;
}

void weft__pool_begin_stop(weft_pool *pool, bool kept)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    bool fiber = enter_if_fiber();
    latch_acquire(pool->latch);
    pool->kept = kept;
    bool first = weft__pool_shut(pool, &wakes);
    pool->pins += first;
    weft__shards_collect(pool);
    weft__pool_finish(pool, &wakes, fiber);
    if (first) {
        weft__pauses_end(pool);
        weft__schedules_stop(pool);
        weft__pool_unpin(pool);
    }
}

static int stop(weft_pool *pool, uint32_t what, int64_t deadline)
{
    if (weft__pool_is_own(pool))
        return -EDEADLK;
    weft__pool_begin_stop(pool, false);
    if (weft__runtime_forked())
        return -ECHILD; /* on_drop has forked */
    bool fiber = enter_if_fiber();
    weft__worker_notify_park(); /* to its own pool: not under this latch */
    latch_acquire(pool->latch);
    weft__shards_collect(pool);
    int error = wait_until(pool, &pool->stop_waiters, is_stopped, what, deadline);
    leave_if_fiber(fiber);
    return error;
}

int weft_pool_stop(weft_pool *pool, int64_t deadline)
{
    int error = call_error(pool != NULL);
    return error != 0 ? error : stop(pool, wait_id(&wait_stop), deadline);
}

/* Waits until nothing is in flight. */
static int wait_quiet(weft_pool *pool, uint32_t what, int64_t deadline)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    bool fiber = enter_if_fiber();
    latch_acquire(pool->latch);
    weft__shards_collect(pool);
    weft__pool_finish(pool, &wakes, fiber); /* tasks of outboxes may want a worker */
    fiber = enter_if_fiber();
    weft__worker_notify_park(); /* as in stop */
    latch_acquire(pool->latch);
    weft__shards_collect(pool); /* from here on the worker that ends the last task collects */
    int error = wait_until(pool, &pool->quiet_waiters, pool_is_quiet, what, deadline);
    leave_if_fiber(fiber);
    return error;
}

void weft__pool_wait_firmly(weft_pool *pool)
{
    must(wait_quiet(pool, wait_id(&wait_tasks) | WAIT_FIRM, WEFT_NEVER) == 0);
}

int weft_pool_wait(weft_pool *pool, int64_t deadline)
{
    int error = call_error(pool != NULL);
    if (error == 0 && weft__pool_is_own(pool))
        error = -EDEADLK;
    return error != 0 ? error : wait_quiet(pool, wait_id(&wait_tasks), deadline);
}

int weft_pool_state(weft_pool *pool)
{
    int error = call_error(pool != NULL);
    if (error != 0)
        return error;
    latch_acquire(pool->latch);
    int state = pool->state;
    latch_release(pool->latch);
    return state;
}

int weft_pool_reopen(weft_pool *pool)
{
    int error = call_error(pool != NULL);
    if (error == 0)
        error = runtime_ensure();
    if (error != 0)
        return error;
    latch_acquire(pool->latch);
    error = pool->state == POOL_STOPPED ? weft__pool_context_error(pool) : -EBUSY;
    if (error == 0) {
        pool->state = POOL_OPEN;
        pool->pins++; /* if its context ends, it is not stopped before its workers are made */
    }
    latch_release(pool->latch);
    if (error != 0)
        return error;
    error = weft__pool_prestart(pool, pool->options.prestart);
    weft__pool_unpin(pool);
    return error;
}

int weft_pool_close_until(weft_pool *pool, int64_t deadline)
{
    int error = call_error(pool != NULL);
    if (error == 0 &&
        (pool == atomic_ptr_load_acquire(&default_pool) || /* others may use it at any time */
         weft__tree_has_children(pool)))
        error = -EBUSY;
    if (error == 0)
        error = stop(pool, wait_id(&wait_stop) | WAIT_FIRM, deadline);
    if (error != 0)
        return error;
    weft__pools_remove(pool);
    weft__pool_context_close(pool);
    weft__tree_leave(pool); /* the last use of its latch, which may be gone then */
    free_pool(pool);
    return 0;
}

int weft_pool_close(weft_pool *pool)
{
    return weft_pool_close_until(pool, WEFT_NEVER);
}
