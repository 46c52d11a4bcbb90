/*
 * submit.c: the calls that submit tasks: one, or many, with options or without.
 *
 * Most offers need nothing of what admission.c does: a plain task, for a pool that has room,
 * workers enough, and no submitter in line. Such a task goes into the queue under the latch; or, if
 * a fiber submits, into the outbox of its processor without the latch (shard.c). All others are
 * offered to admission.c.
 *
 * A task with a key, a priority or a copied argument has a record. It is made before the task is
 * offered, so admission cannot fail for want of memory after the submitter has waited.
 */
#include "pool/submit.h"

#include <errno.h>
#include <string.h>

#include "pool/shard.h"
#include "sched/fiber/compact.h"

/* Plain tasks. */

/* Under the latch: admits a plain task, if that has no other consequence. */
static bool put_latched(weft_pool *pool, void (*function)(void *), void *arg)
{
    if (pool->state != POOL_OPEN || pool->line.length > 0 ||
        pool->in_flight + 1 >= pool_limit(pool) || weft__pool_lacks_worker(pool, false) ||
        !queue_push_quickly(&pool->queues[NORMAL], function, arg))
        return false;
    pool->in_flight++;
    pool->stats.submitted++;
    pool_change_ready(pool, 1);
    return true;
}

/* For a fiber whose processor has no outbox that is open and has room. */
static noinline bool put_in_new_outbox(weft_pool *pool, void (*function)(void *), void *arg)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    latch_acquire(pool->latch);
    bool done = weft__outbox_renew(pool) ? weft__outbox_put(pool, function, arg)
                                         : put_latched(pool, function, arg);
    if (!done)
        weft__pool_dispatch(pool, &wakes); /* an outbox was closed, perhaps */
    weft__pool_unlatch(pool, &wakes);
    return done;
}

/* Submits from a fiber. */
static bool put_in_outbox(weft_pool *pool, void (*function)(void *), void *arg)
{
    (void)runtime_enter(thread_self());
    bool done = weft__outbox_put(pool, function, arg) || put_in_new_outbox(pool, function, arg);
    runtime_leave(thread_self());
    return done;
}

static bool put_quickly(weft_pool *pool, void (*function)(void *), void *arg)
{
    if (weft__runtime_forked())
        return false;
    if (weft_self() != NULL)
        return put_in_outbox(pool, function, arg);
    if (!latch_try(pool->latch))
        return false;
    bool done = put_latched(pool, function, arg);
    latch_release(pool->latch);
    return done;
}

static int submit_plain(weft_pool *pool, void (*function)(void *), void *arg, int64_t deadline,
                        bool tries)
{
    if (unlikely(pool == NULL || function == NULL))
        return -EINVAL;
    compact_check_task(arg);
    if (likely(put_quickly(pool, function, arg)))
        return 0;
    struct offer offer = {.plain = {function, arg}, .deadline = deadline, .tries = tries};
    return weft__pool_offer(pool, &offer);
}

int weft_pool_submit(weft_pool *pool, void (*function)(void *), void *arg)
{
    return submit_plain(pool, function, arg, WEFT_NEVER, false);
}

int weft_pool_submit_until(weft_pool *pool, void (*function)(void *), void *arg, int64_t deadline)
{
    return submit_plain(pool, function, arg, deadline, false);
}

int weft_pool_try_submit(weft_pool *pool, void (*function)(void *), void *arg)
{
    return submit_plain(pool, function, arg, WEFT_NOW, true);
}

static void (*bound_function(const weft_pool *pool))(void *)
{
    return pool != NULL ? pool->options.function : NULL;
}

int weft_pool_invoke(weft_pool *pool, void *arg)
{
    return submit_plain(pool, bound_function(pool), arg, WEFT_NEVER, false);
}

int weft_pool_invoke_until(weft_pool *pool, void *arg, int64_t deadline)
{
    return submit_plain(pool, bound_function(pool), arg, deadline, false);
}

int weft_pool_try_invoke(weft_pool *pool, void *arg)
{
    return submit_plain(pool, bound_function(pool), arg, WEFT_NOW, true);
}

/* With options. */

bool weft__options_valid(const weft_submit_options *options, const void *arg)
{
    static const weft_submit_options none;
    return options->priority >= WEFT_LOW && options->priority <= WEFT_HIGH &&
           options->copy <= WEFT_COPY_MAX && (options->copy == 0 || arg != NULL) &&
           options->timeout >= 0 && options->run_timeout >= 0 &&
           memcmp(options->reserved, none.reserved, sizeof none.reserved) == 0;
}

void weft__task_fill(struct task *task, const struct task_kind *kind, void *copy, const void *arg,
                     const weft_submit_options *options)
{
    task->kind = kind;
    task->priority = (int8_t)options->priority;
    task->key = options->key;
    task->arg = options->copy != 0 ? memcpy(copy, arg, options->copy) : (void *)(uintptr_t)arg;
}

void weft__offer_fill(struct offer *offer, struct task *task, const weft_submit_options *options)
{
    *offer = (struct offer){.plain = {task->function, task->arg},
                            .record = task,
                            .deadline =
                                options->timeout != 0 ? weft_after(options->timeout) : WEFT_NEVER};
}

/* A task with a record, and with neither a handle nor a group. */
struct copied {
    struct task task;
    _Alignas(max_align_t) unsigned char copy[];
};

static void run_copied(struct task *task)
{
    task->function(task->arg);
}

static void release_copied(struct task *task)
{
    weft__os_free(container_of(task, struct copied, task));
}

static const struct task_kind copied_kind = {.run = run_copied, .release = release_copied};

int weft_pool_submit_with(weft_pool *pool, void (*function)(void *), void *arg,
                          const weft_submit_options *options)
{
    static const weft_submit_options defaults;
    struct offer offer;
    if (options == NULL)
        options = &defaults;
    int error = call_error(pool != NULL && function != NULL && weft__options_valid(options, arg));
    if (error != 0)
        return error;
    if (options->copy == 0)
        compact_check_task(arg);
    if (options->priority == WEFT_NORMAL && options->key == 0 && options->copy == 0)
        return submit_plain(pool, function, arg,
                            options->timeout != 0 ? weft_after(options->timeout) : WEFT_NEVER,
                            false);
    struct copied *copied = weft__os_alloc_zeroed(sizeof *copied + options->copy);
    if (copied == NULL)
        return -ENOMEM;
    copied->task.function = function;
    weft__task_fill(&copied->task, &copied_kind, copied->copy, arg, options);
    weft__offer_fill(&offer, &copied->task, options);
    error = weft__pool_offer(pool, &offer);
    if (error != 0)
        weft__os_free(copied);
    return error;
}

/* Admits as many as there is room for, in one hold of the latch. Returns how many. */
static int64_t submit_many(weft_pool *pool, void (*function)(void *), void *const *args,
                           int64_t count)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    int64_t done = 0;
    bool fiber = enter_if_fiber();
    latch_acquire(pool->latch);
    weft__shards_collect(pool);
    while (done < count && pool->workers > 0 && pool->state == POOL_OPEN &&
           pool->line.length == 0 && pool->in_flight < pool_limit(pool)) {
        struct offer offer = {.plain = {function, args[done]}};
        compact_check_task(args[done]);
        if (weft__pool_admit(pool, &offer) != 0)
            break;
        done++;
    }
    weft__pool_finish(pool, &wakes, fiber);
    return done;
}

int64_t weft_pool_submit_batch(weft_pool *pool, void (*function)(void *), void *const *args,
                               int64_t count, int64_t deadline)
{
    if (function == NULL)
        function = bound_function(pool);
    int64_t done = 0;
    int error =
        call_error(pool != NULL && function != NULL && count >= 0 && (args != NULL || count == 0));
    if (error != 0)
        return error;
    latch_acquire(pool->latch);
    pool->pins++; /* the pool may be stopped meanwhile */
    latch_release(pool->latch);
    /* A task that runs in the caller may fork, and return in the child. */
    while (done < count && error == 0 && !weft__runtime_forked()) {
        done += submit_many(pool, function, args + done, count - done);
        if (done < count &&
            (error = submit_plain(pool, function, args[done], deadline, false)) == 0)
            done++;
    }
    weft__pool_unpin(pool);
    return done > 0 || error == 0 ? done : error;
}
