/*
 * admission.c: the limit, the line of submitters, the policies.
 *
 * Problem. At most capacity + queue tasks are in flight. Submitters of a full pool are to be served
 * in the order in which they came, may give up at any time, and come in any number. Waking a thread
 * costs some microseconds on both sides, more than most tasks take.
 *
 * Pattern. A submitter that waits stands in a line together with its task. The call that makes room
 * puts the task into the queue and wakes the submitter, which has nothing left to do. So the order
 * of the line is the order of the tasks, and no submitter overtakes another.
 *
 *   own tasks    A plain submit by one of the pool's own tasks never waits: the tasks in flight may
 *                wait for this one. Beyond the limit it is admitted all the same, and counted in
 *                stats.beyond. All other submits get what their policy and deadline say.
 *   schedules    A task whose time has come (schedule.c) stands in the line by its record alone: no
 *                fiber waits for it, and serving it wakes none.
 *   giving up    A submitter that gives up (deadline, context) leaves the line itself, under the
 *                latch. If the line is served before that, the submitter, which clock or context
 *                has claimed, is taken out (`left`) and pins the pool until it has seen that. So
 *                serving costs O(1) for each, and the pool is there while a submitter needs it.
 *   threads      A thread in line naps for THREAD_NAP before it sleeps. Serving it in that time
 *                takes no wake-up, and no drain request is made for it. After the nap it serves the
 *                line itself, and its next submits find room.
 *   fibers       A fiber is woken at once, but behind all that is ready on its processor. Until it
 *                runs other tasks end, so its next submits find room.
 *   caller runs  With WEFT_CALLER_RUNS the submitter of a full pool calls the task itself, bound to
 *                the pool's context or to none, without worker state. The task is in flight, but
 *                holds no place. A task that is submitted to the same pool from inside such a task
 *                is admitted beyond the limit: the calls do not nest.
 *
 * Invariant. After weft__line_serve the line is empty or the pool is full.
 *
 * A submit: weft__pool_offer repeats `decide` until the task is admitted, dropped or refused.
 * `decide` takes the latch, lets `judge` choose, and acts:
 *
 *     ADMIT, DROP, REFUSE    done in this hold of the latch
 *     WAIT                   the submitter stands in line and parks
 *     CALL                   the submitter runs the task, without the latch
 *     MAKE_FIRST             the pool's first worker is made, then decides again
 *     AGAIN                  deferred wakes are done and the caller's own pool is notified of the
 *                            park, then decides again
 *
 * Rejected: docs/design/pool.md.
 */
#include "pool/admission.h"

#include <errno.h>

#include "base/assert.h"
#include "pool/context.h"
#include "pool/failure.h"
#include "pool/lending.h"
#include "pool/rate.h"
#include "pool/shard.h"
#include "pool/worker.h"
#include "sched/fiber/compact.h"
#include "sync/context.h"
#include "sync/group.h"

WAIT_KIND(weft__wait_submit, .text = "submits to a pool");

static struct submitter *submitter_of(struct link *link)
{
    return (struct submitter *)(void *)link; /* or NULL */
}

/* The caller. */

/* Where the record of the caller has the innermost task that it runs by WEFT_CALLER_RUNS; NULL: the
 * caller has no record. */
static struct caller_run **caller_runs(struct upper *upper)
{
    enum { WORD = GROUP_UPPER_WORDS };
    _Static_assert((int)WORD < (int)UPPER_WORDS, "there is room");
    return upper != NULL ? (struct caller_run **)(void *)&upper->words[WORD] : NULL;
}

struct caller_run *weft__caller_run(void)
{
    struct caller_run **first = caller_runs(upper_self());
    return first != NULL ? *first : NULL;
}

static bool is_related(const weft_pool *one, const weft_pool *other)
{
    const void *family = atomic_ptr_load_acquire(&one->family); /* pairs with weft_pools_open */
    return one->latch == other->latch || /* the same pool, or the same tree */
           (family != NULL && family == atomic_ptr_load_acquire(&other->family));
}

static bool caller_runs_for(const weft_pool *pool)
{
    for (const struct caller_run *run = weft__caller_run(); run != NULL; run = run->outer)
        if (is_related(run->pool, pool))
            return true;
    return false;
}

struct worker *weft__pool_place(const struct latch *tree)
{
    struct worker *worker = weft__worker_self();
    bool holds = worker != NULL && worker->pool->latch == tree &&
                 worker->state != WORKER_UNLISTED; /* else in on_worker_exit */
    return holds ? worker : NULL;
}

bool weft__pool_is_own(const weft_pool *pool)
{
    const struct worker *worker = weft__worker_self();
    return (worker != NULL && is_related(worker->pool, pool)) || caller_runs_for(pool);
}

/* The line; under the latch. */

static void update_drain_request(weft_pool *pool)
{
    uint32_t requested = pool->line.length > pool->napping;
    if (requested != atomic_u32_load_relaxed(&pool->drain_request))
        atomic_u32_exchange_seq_cst(&pool->drain_request, requested); /* pairs with chunk_take */
}

int weft__pool_admit(weft_pool *pool, const struct offer *offer)
{
    if (offer->record != NULL)
        weft__pool_put(pool, offer->record);
    else if (!weft__pool_put_plain(pool, offer->plain.function, offer->plain.arg))
        return -ENOMEM;
    pool->in_flight++;
    pool->stats.submitted++;
    return 0;
}

/* The group of the task that is offered; NULL: none. */
static struct awaited *group_of(const struct offer *offer)
{
    struct awaited *awaited = offer->record != NULL ? offer->record->awaited : NULL;
    return awaited != NULL && awaited->refuses ? awaited : NULL;
}

static void enter_line(weft_pool *pool, struct submitter *submitter)
{
    struct awaited *group = group_of(&submitter->offer);
    line_add(&pool->line, &submitter->link);
    if (group != NULL)
        line_add(&group->submitters, &submitter->group_link);
}

static void leave_line(weft_pool *pool, struct submitter *submitter)
{
    struct awaited *group = group_of(&submitter->offer);
    line_leave(&pool->line, &submitter->link);
    if (group != NULL)
        line_leave(&group->submitters, &submitter->group_link);
}

/* Takes a submitter out of the line; false: it has given up. */
static bool claim(weft_pool *pool, struct submitter *submitter)
{
    leave_line(pool, submitter);
    if (submitter->naps || submitter->waiter == NULL || waiter_claim(submitter->waiter, 0))
        return true;
    submitter->left = true;
    pool->pins++;
    return false;
}

/* Takes the first submitter that has not given up out of the line; NULL: there is none. */
static struct submitter *claim_first(weft_pool *pool)
{
    struct submitter *first;
    while ((first = submitter_of(pool->line.first)) != NULL)
        if (claim(pool, first))
            return first;
    return NULL;
}

/* The task of a submitter in line was admitted (0) or refused. */
static void answer(weft_pool *pool, struct submitter *submitter, int error,
                   struct deferred_wakes *wakes)
{
    submitter->error = error;
    submitter->served = true;
    if (submitter->naps)
        pool->napping--;
    else if (submitter->waiter != NULL)
        woken_add(&wakes->woken, submitter->waiter);
}

void weft__line_serve(weft_pool *pool, struct deferred_wakes *wakes)
{
    struct submitter *first;
    if (likely(pool->line.length == 0))
        return;
    while (pool->in_flight < pool_limit(pool) && (first = claim_first(pool)) != NULL)
        answer(pool, first, weft__pool_admit(pool, &first->offer), wakes);
    update_drain_request(pool);
}

void weft__line_refuse(weft_pool *pool, int error, struct deferred_wakes *wakes)
{
    for (struct link *link = pool->line.first, *next; link != NULL; link = next) {
        struct submitter *submitter = submitter_of(link);
        next = link->next;
        if ((submitter->own && !pool_has_ended(pool)) || !claim(pool, submitter))
            continue;
        if (submitter->waiter == NULL) {
            submitter->left = true; /* the pool's schedules are ended next */
            continue;
        }
        pool->stats.rejected++;
        answer(pool, submitter, error, wakes);
    }
    update_drain_request(pool);
}

void weft__line_refuse_group(weft_pool *pool, struct awaited *group, int error,
                             struct deferred_wakes *wakes)
{
    for (struct link *link = group->submitters.first, *next; link != NULL; link = next) {
        struct submitter *submitter = container_of(link, struct submitter, group_link);
        next = link->next;
        if (!claim(pool, submitter))
            continue;
        pool->stats.rejected++;
        answer(pool, submitter, error, wakes);
    }
    update_drain_request(pool);
}

void weft__line_join(weft_pool *pool, struct submitter *submitter, struct deferred_wakes *wakes)
{
    line_add(&pool->line, &submitter->link);
    /* Pairs with chunk_take, as in look_again. */
    atomic_u32_exchange_seq_cst(&pool->drain_request, 1);
    weft__shards_collect(pool);
    weft__line_serve(pool, wakes);
}

void weft__line_withdraw(weft_pool *pool, struct submitter *submitter)
{
    if (!submitter->left)
        line_leave(&pool->line, &submitter->link);
    update_drain_request(pool);
}

/* A thread in line naps before it parks. The latch is held, and held again after it. True: the
 * submitter was served, and the latch is released. */
static bool nap(weft_pool *pool, struct submitter *submitter)
{
    int64_t until = weft_after(THREAD_NAP), deadline = submitter->offer.deadline;
    submitter->naps = true;
    pool->napping++;
    pool->pins++;
    update_drain_request(pool);
    latch_release(pool->latch);
    weft__os_sleep_until(until < deadline ? until : deadline);
    latch_acquire(pool->latch);
    do {
        struct deferred_wakes wakes = NO_WAKES(wakes);
        weft__shards_collect(pool);
        weft__line_serve(pool, &wakes);
        bool served = submitter->served;
        pool->pins -= served;
        weft__pool_dispatch(pool, &wakes);
        if (served || wakes_any(&wakes)) {
            weft__pool_unlatch(pool, &wakes);
            if (served)
                return true;
            latch_acquire(pool->latch);
        }
        atomic_u32_exchange_seq_cst(&pool->drain_request, 1); /* as in look_again */
        weft__shards_collect(pool);
    } while (submitter->served || pool->in_flight < pool_limit(pool));
    submitter->naps = false;
    pool->napping--;
    pool->pins--;
    return false;
}

/* Waits in line. The latch is held, and released. */
static int wait_as(weft_pool *pool, struct submitter *submitter, const struct offer *offer)
{
    struct waiter own;
    *submitter = (struct submitter){
        .waiter = weft__waiter_begin(&own), .offer = *offer, .own = weft__pool_is_own(pool)};
    enter_line(pool, submitter);
    if (weft_self() == NULL && !seeded() && nap(pool, submitter))
        return submitter->error;
    int error = weft__park(submitter->waiter, wait_id(&weft__wait_submit) | WAIT_NOTIFIED,
                           pool_unlock, pool, offer->deadline);
    if (!wait_gave_up(error))
        return submitter->error;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    latch_acquire(pool->latch);
    if (submitter->left)
        pool->pins--;
    else
        leave_line(pool, submitter);
    pool->stats.rejected++;
    update_drain_request(pool);
    weft__pool_dispatch(pool, &wakes);
    weft__pool_unlatch(pool, &wakes);
    return error;
}

static noinline int wait_elsewhere(weft_pool *pool, const struct offer *offer)
{
    struct submitter *submitter = weft__stash(sizeof *submitter);
    if (submitter == NULL) {
        pool->stats.rejected++;
        latch_release(pool->latch);
        return -ENOMEM;
    }
    int error = wait_as(pool, submitter, offer);
    weft__unstash(submitter);
    return error;
}

static noinline int wait_in_line(weft_pool *pool, const struct offer *offer)
{
    struct submitter own;
    return likely(!on_compact()) ? wait_as(pool, &own, offer) : wait_elsewhere(pool, offer);
}

/* Policies. */

struct dropped {
    const weft_pool_options *options;
    struct plain_task plain;
};

static void call_drop(void *arg)
{
    struct dropped *dropped = arg;
    dropped->options->on_drop(dropped->plain.function, dropped->plain.arg, dropped->options->data);
}

void weft__pool_notify_drop(weft_pool *pool, const struct plain_task *plain, struct task *record)
{
    struct dropped dropped = {&pool->options,
                              record != NULL ? (struct plain_task){record->function, record->arg}
                                             : *plain};
    if (record != NULL && record->kind->drop != NULL)
        record->kind->drop(pool, record);
    else if (pool->options.on_drop != NULL)
        (void)weft__pool_call_option(pool, call_drop, &dropped);
    if (record != NULL && !weft__runtime_forked())
        record->kind->release(record);
}

/* What happens to an offer: see above. */
enum verdict { ADMIT, REFUSE, WAIT, CALL, DROP, MAKE_FIRST, AGAIN };

/* Under the latch, for a full pool that makes submitters wait. */
static enum verdict judge_waiting(const weft_pool *pool, const struct offer *offer, bool own,
                                  int *error)
{
    if (own && offer->deadline == WEFT_NEVER)
        return ADMIT;
    if (pool->options.max_blocked > 0 && pool->line.length >= pool->options.max_blocked)
        return REFUSE;
    if (offer->deadline > WEFT_NOW)
        return WAIT;
    if (!offer->tries)
        *error = -ETIMEDOUT;
    return REFUSE;
}

/* Under the latch; the error is for REFUSE. */
static enum verdict judge(weft_pool *pool, const struct offer *offer, bool own,
                          struct deferred_wakes *wakes, int *error)
{
    *error = -ESHUTDOWN;
    own &= !pool_has_ended(pool);
    /* Own tasks of a stopping pool may still submit: what was admitted runs to its end. */
    if (pool->state == POOL_STOPPED || (pool->state == POOL_STOPPING && !own))
        return REFUSE;
    /* A cancellation that comes later finds the submitter in line: weft__line_refuse_group. */
    const struct awaited *group = group_of(offer);
    int cancelled = group != NULL ? weft_context_error(offer->record->context) : 0;
    if (unlikely(cancelled != 0)) {
        *error = cancelled;
        return REFUSE;
    }
    if (unlikely(pool->workers == 0))
        return MAKE_FIRST;
    *error = -EAGAIN;
    if (pool->in_flight >= pool_limit(pool) || pool->line.length > 0)
        weft__shards_collect(pool);
    /* There may be a line whatever the policy: scheduled tasks stand in it. */
    weft__line_serve(pool, wakes);
    if (pool->in_flight < pool_limit(pool))
        return ADMIT; /* the line is empty: it was served */
    switch (pool->options.when_full) {
    case WEFT_REJECT:
        return REFUSE;
    case WEFT_DROP_NEWEST:
    case WEFT_DROP_OLDEST:
        return DROP;
    case WEFT_CALLER_RUNS:
        if (caller_runs_for(pool))
            return ADMIT;
        if (!pool->paused && (offer->record == NULL || offer->record->key == 0) &&
            (!pool_has_rate(pool) || weft__rate_take_for_caller(pool)))
            return CALL;
        break;
    default:
        break;
    }
    return judge_waiting(pool, offer, own, error);
}

/* Under the latch, before a submitter waits: requests that workers drain, and collects what had
 * ended before that. True: there is room after all, or there are wakes to be done first. `starts`:
 * a worker may be started; only at the first look, so a submitter waits even if none can be
 * made. */
static bool look_again(weft_pool *pool, bool starts, struct deferred_wakes *wakes)
{
    atomic_u32_exchange_seq_cst(&pool->drain_request, 1); /* pairs with chunk_take */
    weft__shards_collect(pool);
    weft__line_serve(pool, wakes);
    if (starts)
        weft__pool_start_wanted(pool, wakes, false); /* for what was in outboxes */
    bool again = wakes_any(wakes) || pool->in_flight < pool_limit(pool);
    if (again)
        update_drain_request(pool);
    return again;
}

/* A task that was dropped, to be reported when the latch is released. */
struct after {
    bool drops;
    struct plain_task plain;
    struct task *record;
};

static int drop(weft_pool *pool, const struct offer *offer, struct after *after)
{
    after->drops = true;
    pool->pins++;
    if (pool->options.when_full == WEFT_DROP_OLDEST) {
        weft__shards_close_inboxes(pool);
        if (weft__pool_pop_oldest(pool, NULL, &after->plain, &after->record)) {
            pool->in_flight--;
            pool->stats.dropped++;
            return weft__pool_admit(pool, offer);
        }
    }
    if (offer->record != NULL && offer->record->awaited != NULL)
        weft__awaited_removed(offer->record->awaited);
    after->plain = offer->plain;
    after->record = offer->record;
    pool->stats.submitted++;
    pool->stats.dropped++;
    return 0;
}

/* The caller's worker has not told its own pool that its task is about to park. */
static bool must_notify_park(void)
{
    const weft_fiber *fiber = weft_self();
    return fiber != NULL && fiber->notify_park;
}

/* The outbox of the caller's processor has earlier tasks of the caller: they go before this one. */
static void close_outbox_here(weft_pool *pool)
{
    struct shard *shard = weft_self() != NULL ? shard_here(pool) : NULL;
    if (shard != NULL)
        weft__outbox_close(pool, shard);
}

/* Judges and acts under the latch; a fiber has entered the runtime. Returns what is left to be done
 * without the latch: CALL, MAKE_FIRST or AGAIN, for which the call pins the pool; or ADMIT: the
 * offer is decided, with *error. `before` is what the last call returned; ADMIT: this is the
 * first. */
static enum verdict decide(weft_pool *pool, const struct offer *offer, bool own,
                           enum verdict before, struct after *after, int *error)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    latch_acquire(pool->latch);
    pool->pins -= before != ADMIT;
    if (unlikely(pool->outboxes > 0))
        close_outbox_here(pool);
    enum verdict verdict = judge(pool, offer, own, &wakes, error);
    if (verdict == WAIT) {
        /* A worker, of any pool, notifies its own pool first: not under this latch. */
        if (!must_notify_park() && !look_again(pool, before != AGAIN, &wakes)) {
            *error = wait_in_line(pool, offer); /* releases the latch */
            return ADMIT;
        }
        verdict = AGAIN;
    }
    switch (verdict) {
    case ADMIT:
        pool->stats.beyond += pool->in_flight >= pool_limit(pool);
        *error = weft__pool_admit(pool, offer);
        break;
    case DROP:
        *error = drop(pool, offer, after);
        verdict = ADMIT;
        break;
    case CALL:
        pool->pins++;
        if (offer->record != NULL) {
            offer->record->in_caller = true;
            running_add(pool, offer->record);
            task_begin(offer->record);
        }
        pool->in_flight++;
        pool->caller_runs++;
        pool->stats.submitted++;
        break;
    case MAKE_FIRST:
        weft__pool_count_new(pool);
        pool->pins++;
        latch_release(pool->latch);
        return verdict;
    case REFUSE:
        pool->stats.rejected++;
        verdict = ADMIT;
        break;
    default: /* AGAIN */
        pool->pins++;
        break;
    }
    weft__pool_dispatch(pool, &wakes);
    weft__pool_unlatch(pool, &wakes);
    return verdict;
}

/* Makes the first worker of a pool, which is counted: without one the task would be admitted and
 * never run. 0 or an error. */
static int make_first(weft_pool *pool)
{
    int error = weft__pool_make_counted(pool);
    if (error == 0)
        return 0;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    latch_acquire(pool->latch);
    pool->pins--;
    pool->stats.rejected++;
    weft__pool_dispatch(pool, &wakes);
    weft__pool_unlatch(pool, &wakes);
    return error;
}

/* WEFT_CALLER_RUNS. */

static void run_in_caller(weft_pool *pool, const struct offer *offer)
{
    struct caller_run own = {.pool = pool, .record = offer->record, .outer = weft__caller_run()};
    weft_context *before = weft_context_current(), *context = weft__pool_context_hold(pool);
    struct deferred_wakes wakes = NO_WAKES(wakes);
    *caller_runs(upper_self()) = &own;
    if (before != NULL)
        weft__context_hold(before);
    (void)weft_context_bind(context, NULL); /* weft__upper_make has made the memory */
    if (context != NULL)
        weft__context_drop(context);
    bool counted = weft__pool_call_task(pool, &offer->plain, offer->record);
    if (weft__runtime_forked())
        return;                            /* the caller's record is the parent's */
    (void)weft_context_bind(before, NULL); /* bound before: the memory is there */
    if (before != NULL)
        weft__context_drop(before);
    *caller_runs(upper_self()) = own.outer;
    bool fiber = enter_if_fiber();
    latch_acquire(pool->latch);
    pool->pins--;
    if (!counted) {
        pool->in_flight--;
        pool->caller_runs--;
        pool->stats.completed++;
    }
    weft__pool_finish(pool, &wakes, fiber);
}

int weft__pool_offer(weft_pool *pool, const struct offer *offer)
{
    struct after after = {.drops = false};
    int error = 0;
    if (weft__runtime_forked())
        return -ECHILD;
    if (pool->options.when_full == WEFT_CALLER_RUNS && weft__upper_make() == NULL)
        return -ENOMEM;
    bool own = weft__pool_is_own(pool), fiber = enter_if_fiber();
    enum verdict verdict = ADMIT;
    while ((verdict = decide(pool, offer, own, verdict, &after, &error)) != ADMIT &&
           verdict != CALL) {
        if (verdict == AGAIN)
            weft__worker_notify_park();
        if (verdict == MAKE_FIRST && (error = make_first(pool)) != 0)
            break;
    }
    leave_if_fiber(fiber);
    if (unlikely(after.drops)) {
        weft__pool_notify_drop(pool, &after.plain, after.record);
        weft__pool_unpin(pool);
    }
    if (verdict == CALL) {
        run_in_caller(pool, offer);
        error = 0;
    }
    return error;
}
