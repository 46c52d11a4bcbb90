/*
 * submit.c: admission: who gets in, who waits, who is turned away.
 *
 * At most capacity + queue tasks are inside: admitted and not ended. A submitter of a full pool that is to
 * wait stands in a line with its task; whoever makes room puts the task into the queue in its place and
 * wakes it: so the order of the line is the order of the tasks, and nobody overtakes.
 *
 * To wake a thread costs more than most tasks do, for the one who wakes and for the one woken; and to wake a fiber for each
 * place is a turn for each task. So where places come fast a submitter naps before it sleeps: it stands in line, but who admits it need not wake it; it
 * looks when its nap is over, and finds many places by then. How fast they come is known from the tasks that
 * have ended since one last had to wait. Nobody looks between two tasks for the sake of those who nap.
 *
 * A task of the pool that submits to its own pool must not wait for it: its place is what others wait for.
 * If the pool is full it runs the new task itself, at once, inside its own; and from some depth on, and for
 * tasks with a key, which must wait for their turn, the task is admitted beyond the limit.
 */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "pool/group.h"
#include "pool/panic.h"
#include "pool/pool.h"
#include "pool/task.h"
#include "sched/compact.h"

#define THREAD_NAP (300 * WEFT_US)
#define FIBER_NAP (50 * WEFT_US)
#define SHORT_NAP (25 * WEFT_US) /* of a fiber, where tasks wait: workers rest meanwhile */
#define FLOW_TIME (20 * WEFT_MS) /* how far back the flow of tasks says something of what comes */

enum { NAP_PLACES = 16, SPIN_MOST = 1000 };

/* The line of those who wait; under the latch. */

/* The task with a copy of its argument, which it owns from then on. */
static noinline bool put_copied(weft_pool *pool, const struct offer *offer)
{
    struct task task = offer->task;
    task.arg = weft__sys_alloc(offer->copy);
    if (task.arg == NULL)
        return false;
    memcpy(task.arg, offer->task.arg, offer->copy);
    task.copied = true;
    bool put = weft__pool_put(pool, &task, offer->key);
    if (!put)
        task_free_copy(&task);
    return put;
}

int weft__pool_admit_one(weft_pool *pool, const struct offer *offer)
{
    bool put = likely(offer->copy == 0) ? weft__pool_put(pool, &offer->task, offer->key)
                                        : put_copied(pool, offer);
    if (!put)
        return -ENOMEM;
    pool->inside++;
    pool->stats.submitted++;
    return 0;
}

static void call_submitter(weft_pool *pool, struct submitter *submitter, struct errands *errands)
{
    if (!submitter->naps)
        errands_wake(errands, submitter->waiter);
    pool->napping -= submitter->naps;
    submitter->naps = false;
}

/* One that has given up stays in line until it leaves by itself: so the pool is there as long as it needs
 * it. */
void weft__pool_admit(weft_pool *pool, struct errands *errands)
{
    struct submitter *next;
    if (pool->blocked.length == 0 || pool->inside >= pool_limit(pool))
        return;
    for (struct submitter *one = submitter_of(pool->blocked.first); one != NULL; one = next) {
        next = submitter_of(one->link.next);
        if (pool->inside >= pool_limit(pool))
            return;
        if (!one->naps && !waiter_claim(one->waiter, 0))
            continue;
        line_leave(&pool->blocked, &one->link);
        one->error = weft__pool_admit_one(pool, one->offer);
        call_submitter(pool, one, errands);
    }
}

void weft__pool_refuse(weft_pool *pool, int error, struct errands *errands)
{
    struct submitter *next;
    for (struct submitter *one = submitter_of(pool->blocked.first); one != NULL; one = next) {
        next = submitter_of(one->link.next);
        if (!one->naps && !waiter_claim(one->waiter, 0))
            continue;
        line_leave(&pool->blocked, &one->link);
        one->error = error;
        pool->stats.rejected++;
        call_submitter(pool, one, errands);
    }
}

/* Submitting. */

static void unlock_pool(void *pool)
{
    latch_release(&((weft_pool *)pool)->latch);
}

struct dropped {
    const weft_pool_options *options;
    const struct task *task;
};

static void call_drop(void *arg)
{
    struct dropped *dropped = arg;
    dropped->options->on_drop(dropped->task->function, dropped->task->arg, dropped->options->data);
}

void weft__pool_tell_drop(weft_pool *pool, struct task *task)
{
    struct dropped dropped = {&pool->options, task};
    if (task->handle != NULL)
        weft__task_dropped(task->handle);
    else if (task->function == weft__pool_group_run)
        weft__pool_group_dropped(task->arg);
    else if (pool->options.on_drop != NULL)
        (void)weft__pool_call_option(pool, call_drop, &dropped);
    task_free_copy(task);
}

/* Whether the caller may run the task itself: not too many inside each other, and not out of the order of
 * its key. */
static bool callable(const struct offer *offer)
{
    return offer->key == 0 && weft__pool_may_stand_in();
}

/* What happens to an offer. */
enum verdict { ADMITTED, REFUSED, WAITS, CALLS, DROPS };

/* Under the latch, in a full pool that waits. `own`: the caller is one of its tasks. Who stands in for another pool may
 * have what those wait for who have the places of this one. */
static enum verdict judge_waiting(weft_pool *pool, const struct offer *offer, bool own, int *error)
{
    if (own || weft__pool_stands_in())
        return callable(offer) ? CALLS : ADMITTED;
    if (pool->options.max_blocked > 0 && pool->blocked.length >= pool->options.max_blocked)
        return REFUSED;
    if (offer->deadline > WEFT_NOW)
        return WAITS;
    if (!offer->tries)
        *error = -ETIMEDOUT;
    return REFUSED;
}

/* Under the latch; the error is for REFUSED. */
static enum verdict judge(weft_pool *pool, const struct offer *offer, bool own, int *error)
{
    *error = -ESHUTDOWN;
    /* The tasks of a pool that stops may still submit: what was admitted runs to its end. */
    if (pool->state == POOL_STOPPED || (pool->state == POOL_STOPPING && !own))
        return REFUSED;
    *error = -EAGAIN;
    if (pool->inside >= pool_limit(pool))
        weft__pool_collect(pool);
    if (pool->inside < pool_limit(pool) && (pool->blocked.length == 0 || own))
        return ADMITTED;
    switch (pool->options.when_full) {
    case WEFT_REJECT:
        return REFUSED;
    case WEFT_DROP_NEWEST:
    case WEFT_DROP_OLDEST:
        return DROPS;
    case WEFT_CALLER_RUNS:
        if (callable(offer))
            return CALLS;
        break;
    default:
        break;
    }
    return judge_waiting(pool, offer, own, error);
}

/* Bytes for the argument of a task that was not admitted: it does not own them. */
struct copy {
    _Alignas(max_align_t) unsigned char bytes[WEFT_COPY_MAX];
};

static struct task task_with(const struct offer *offer, struct copy *copy)
{
    struct task task = offer->task;
    if (offer->copy != 0)
        task.arg = memcpy(copy->bytes, task.arg, offer->copy);
    return task;
}

/* What is left to be done for an offer when the latch is released and the runtime is left. */
struct aftermath {
    uint32_t todo; /* of the following */
    struct task victim, next;
    struct copy copy; /* the victim's, if it is what was offered */
};

enum {
    AFTER_CALL = 1,  /* `next` is to be called here: there was no memory to queue it */
    AFTER_DROP = 2,  /* `victim` is to be told; the caller is a visitor */
    AFTER_ALONE = 4, /* no worker could be made */
    TOLD = 8,        /* the caller's own pool knows that it waits */
    SPUN = 16,       /* the caller has spun for room */
};

/* Under the latch, before one waits: from here the workers look between two tasks, and what they had ended
 * before that is counted. */
static void ask_attention(weft_pool *pool, struct errands *errands)
{
    atomic_u32_exchange_seq_cst(&pool->attention, AT_ONCE);
    weft__pool_collect(pool);
    weft__pool_admit(pool, errands);
}

/* With the latch held, and held again after it, as a visitor: wakes those who were admitted, or are called. */
static void run_wakes(weft_pool *pool, struct errands *errands)
{
    latch_release(&pool->latch);
    if (weft__pool_run(pool, errands))
        weft__pool_give_up(pool);
    *errands = (struct errands){.first = NULL};
    latch_acquire(&pool->latch);
}

/* Asks for attention; true if that made room, for this one or for those before it. */
static bool look_again(weft_pool *pool, struct errands *errands)
{
    ask_attention(pool, errands);
    return errands->first != NULL || (pool->blocked.length == 0 && pool->inside < pool_limit(pool));
}

/* How long who has to wait naps first; 0: not at all. Places come so fast that it would be woken for every few of
 * them, and in the time of a nap not so many that those who run tasks could miss them. Under the latch. */
static int64_t nap_time(weft_pool *pool)
{
    int64_t now = weft_now(), passed = now - pool->flow_at;
    int64_t ended = pool->stats.completed - pool->flow_ended;
    int64_t time = weft_self() != NULL ? FIBER_NAP : THREAD_NAP;
    pool->flow_at = now;
    pool->flow_ended = pool->stats.completed;
    if (passed > FLOW_TIME || (weft_self() == NULL && seeded()) || weft__cancelled() != 0)
        return 0;
    int64_t places = ended * time / (passed + 1); /* that a nap will bring */
    if (places <= NAP_PLACES || places >= pool_limit(pool) / 4)
        return 0;
    if (weft_self() == NULL)
        return time;
    pool->flow = places;
    return pool->quick ? time : SHORT_NAP;
}

/* A fiber naps firmly: a context has to wait for so long. One that `looks` is not late where all others are: as long as it naps
 * workers rest, and the later they are called again the more is late. */
static void sleep_until(struct submitter *submitter, int64_t until, bool looks)
{
    if (submitter->waiter->is_fiber)
        (void)weft__park(submitter->waiter,
                         (looks ? WAIT_POOL_NAP : WAIT_POOL_SUBMIT) | WAIT_FIRM | WAIT_TOLD, NULL,
                         NULL, until);
    else
        weft__sys_sleep_until(until);
}

/* Naps in line, with the latch held, which is held again after it: who admits it meanwhile need not wake it, and
 * nobody need look between two tasks for its sake. True: it was admitted, or turned away; or there is room after the nap. */
static bool nap(weft_pool *pool, struct submitter *submitter, int64_t time, struct errands *errands)
{
    int64_t until = weft_after(time);
    bool looks = submitter->waiter->is_fiber && !pool->put_off;
    pool->put_off |= looks;
    submitter->naps = true;
    pool->napping++;
    pool->visitors++;
    weft__pool_set_attention(pool);
    latch_release(&pool->latch);
    sleep_until(submitter, until < submitter->offer->deadline ? until : submitter->offer->deadline,
                looks);
    latch_acquire(&pool->latch);
    weft__pool_collect(pool); /* most often that will do, and no worker is disturbed */
    weft__pool_admit(pool, errands);
    pool->put_off &= !looks;
    if (looks && submitter->naps)
        weft__pool_call_wanted(pool, errands);
    for (bool asked = false; submitter->naps && (!asked || errands_any(errands)); asked = true) {
        if (errands_any(errands))
            run_wakes(pool, errands);
        ask_attention(pool, errands);
    }
    pool->visitors--;
    if (!submitter->naps)
        return true;
    pool->napping--;
    submitter->naps = false;
    return false;
}

/* Waits in line, after a nap of that time if it is not 0; with the latch held, which is released. */
static int wait_as(weft_pool *pool, struct submitter *submitter, const struct offer *offer,
                   int64_t time, struct aftermath *after)
{
    struct waiter own;
    *submitter = (struct submitter){.waiter = weft__waiter_begin(&own), .offer = offer};
    line_add(&pool->blocked, &submitter->link);
    struct errands errands = {.first = NULL};
    if (time != 0 && nap(pool, submitter, time, &errands)) {
        weft__pool_settle(pool, &errands);
        latch_release(&pool->latch);
        if (unlikely(weft__pool_run(pool, &errands)))
            after->todo |= AFTER_ALONE;
        return submitter->error;
    }
    int error = weft__park(submitter->waiter, WAIT_POOL_SUBMIT | WAIT_TOLD, unlock_pool, pool,
                           offer->deadline);
    if (!wait_gave_up(error))
        return submitter->error;
    latch_acquire(&pool->latch);
    line_leave(&pool->blocked, &submitter->link);
    pool->stats.rejected++;
    weft__pool_settle(pool, &errands);
    latch_release(&pool->latch);
    if (unlikely(weft__pool_run(pool, &errands)))
        after->todo |= AFTER_ALONE;
    return error;
}

/* What those who admit it look at while it waits, if it is a compact fiber. */
struct elsewhere {
    struct submitter submitter;
    struct offer offer;
    struct copy copy;
};

static noinline int wait_elsewhere(weft_pool *pool, const struct offer *offer, int64_t time,
                                   struct aftermath *after)
{
    struct elsewhere *other = weft__stash(sizeof *other);
    if (other == NULL) {
        pool->stats.rejected++;
        latch_release(&pool->latch);
        return -ENOMEM;
    }
    other->offer = *offer;
    other->offer.task = task_with(offer, &other->copy);
    int error = wait_as(pool, &other->submitter, &other->offer, time, after);
    weft__unstash(other);
    return error;
}

static int wait_in_line(weft_pool *pool, const struct offer *offer, int64_t time,
                        struct aftermath *after)
{
    struct submitter own;
    return likely(!on_compact()) ? wait_as(pool, &own, offer, time, after)
                                 : wait_elsewhere(pool, offer, time, after);
}

static int drop(weft_pool *pool, const struct offer *offer, struct aftermath *after)
{
    bool calls = false;
    after->todo |= AFTER_DROP;
    pool->visitors++;
    if (pool->options.when_full == WEFT_DROP_OLDEST &&
        weft__pool_forget(pool, &after->victim, &after->next, &calls)) {
        after->todo |= calls ? AFTER_CALL : 0;
        return weft__pool_admit_one(pool, offer);
    }
    after->victim = task_with(offer, &after->copy);
    pool->stats.submitted++;
    pool->stats.dropped++;
    return 0;
}

/* The offer is called by the caller. */
static void call_here(weft_pool *pool, const struct offer *offer)
{
    struct copy copy;
    struct task task = task_with(offer, &copy);
    weft__pool_call(pool, &task);
}

static void finish(weft_pool *pool, struct aftermath *after)
{
    if (after->todo & AFTER_DROP)
        weft__pool_tell_drop(pool, &after->victim);
    if (weft__runtime_forked())
        return; /* by on_drop: the rest is the parent's */
    if (after->todo & AFTER_CALL)
        weft__pool_call(pool, &after->next);
    if (after->todo & AFTER_ALONE)
        weft__pool_do_without(pool);
    if (after->todo & AFTER_DROP)
        weft__pool_leave(pool);
}

static bool is_worker(void)
{
    weft_fiber *fiber = weft_self();
    return fiber != NULL && fiber->tells;
}

/* What decide may return beside 0 and an error: the caller is to call the task; or it is a worker of another
 * pool, and has to pass its baton there before it waits here (not under this latch: another may do the
 * same the other way round). */
enum { CALL_HERE = 1, PASS_BATON, SPIN };

/* A thread that would have to sleep looks for a moment whether there is room soon: to sleep and to be woken
 * costs more. */
static void spin_for_room(const weft_pool *pool)
{
    for (int i = 0; i < SPIN_MOST && !atomic_u32_load_relaxed(&pool->room); i++)
        cpu_relax();
}

/* What the caller, who has to wait, has to do before that; or 0. Under the latch. */
static int before_wait(const weft_pool *pool, const struct aftermath *after)
{
    if (!(after->todo & SPUN) && weft_self() == NULL && pool->blocked.length == 0 &&
        atomic_i64_load_relaxed(&pool->ready) == 0 && weft__sched.processor_count > 1)
        return SPIN;
    return !(after->todo & TOLD) && is_worker() ? PASS_BATON : 0;
}

/* What the caller has laid on its tray comes before what it offers now. */
static void close_tray_here(weft_pool *pool)
{
    struct hand *hand = weft_self() != NULL ? hand_here(pool) : NULL;
    if (hand != NULL)
        weft__tray_close(pool, hand);
}

/* Judges and acts under the latch; the caller has entered the runtime. `again`: it said SPIN or PASS_BATON
 * before, and counts as a visitor. */
static int decide(weft_pool *pool, const struct offer *offer, bool own, struct aftermath *after,
                  bool again)
{
    struct errands errands = {.first = NULL};
    int error = 0;
    int64_t time = 0;
    latch_acquire(&pool->latch);
    pool->visitors -= again;
    if (unlikely(pool->trays_open > 0))
        close_tray_here(pool);
    enum verdict verdict = judge(pool, offer, own, &error);
    while (verdict == WAITS && (before_wait(pool, after) != 0 || (time = nap_time(pool)) == 0) &&
           look_again(pool, &errands)) {
        pool->visitors++;
        run_wakes(pool, &errands);
        pool->visitors--;
        verdict = judge(pool, offer, own, &error);
    }
    switch (verdict) {
    case ADMITTED:
        error = weft__pool_admit_one(pool, offer);
        break;
    case WAITS:
        error = before_wait(pool, after);
        if (error == 0)
            return wait_in_line(pool, offer, time, after); /* releases the latch */
        pool->visitors++;
        latch_release(&pool->latch);
        return error;
    case DROPS:
        error = drop(pool, offer, after);
        break;
    case CALLS:
        pool->inside++;
        pool->stats.submitted++;
        error = CALL_HERE;
        break;
    default: /* REFUSED */
        pool->stats.rejected++;
        break;
    }
    weft__pool_settle(pool, &errands);
    latch_release(&pool->latch);
    if (unlikely(weft__pool_run(pool, &errands)))
        after->todo |= AFTER_ALONE;
    return error;
}

bool weft__caller_is_known(void)
{
    return likely(thread_self() != NULL) || weft__foreign_self() != NULL;
}

int weft__pool_offer(weft_pool *pool, const struct offer *offer)
{
    struct aftermath after;
    after.todo = 0;
    if (weft__runtime_forked())
        return -ECHILD;
    if (unlikely(!weft__caller_is_known()))
        return -ENOMEM;
    bool own = weft__pool_role(pool) != ROLE_STRANGER;
    bool fiber = enter_if_fiber();
    int error = decide(pool, offer, own, &after, false);
    if (error == SPIN) {
        spin_for_room(pool);
        after.todo |= SPUN;
        error = decide(pool, offer, own, &after, true);
    }
    if (error == PASS_BATON) {
        weft__worker_tells();
        after.todo |= TOLD;
        error = decide(pool, offer, own, &after, true);
    }
    leave_if_fiber(fiber);
    if (unlikely(after.todo & (AFTER_CALL | AFTER_DROP | AFTER_ALONE)))
        finish(pool, &after);
    if (error == CALL_HERE) {
        call_here(pool, offer);
        error = 0;
    }
    return error;
}

int64_t weft__pool_inside(weft_pool *pool)
{
    latch_acquire(&pool->latch);
    weft__pool_count(pool);
    int64_t inside = pool->inside - weft__trays_unused(pool);
    latch_release(&pool->latch);
    return inside;
}

bool weft__pool_has_room(weft_pool *pool)
{
    int64_t inside = weft__pool_inside(pool);
    latch_acquire(&pool->latch);
    bool room = inside < pool_limit(pool) && pool->blocked.length == 0;
    latch_release(&pool->latch);
    return room;
}
