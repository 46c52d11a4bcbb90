/*
 * steal.c: how a hungry processor gets fibers from a busy one.
 *
 * A run queue is private to its processor, so that pushing and popping cost plain loads and stores.
 * The price is paid here, by the one who has nothing to do, in two steps:
 *
 * Ask. The thief sets WANTED on a processor that has fibers to spare. The owner sees it the next
 * time it enters the runtime or chooses a fiber, and sheds half of its ring into the inject queue,
 * where the thief is looking. Owners pass such a point every few hundred nanoseconds.
 *
 * Claim. An owner that does not answer runs a fiber that does not call weft: computing, or blocked
 * in C code. The thief takes the processor for a moment:
 *
 *     thief                                       owner
 *     owner->requests |= CLAIMED                 inside = 1           (runtime_enter)
 *     barrier_heavy                               barrier_light
 *     if owner->inside: give the claim back       if requests & CLAIMED: wait
 *     take half of the ring                       ... private state is its own ...
 *     owner->requests &= ~CLAIMED                inside = 0           (runtime_leave)
 *
 * By the two barriers at least one sees the other: either the thief sees `inside` and backs off, or
 * the owner sees CLAIMED and waits until the thief is done, showing `inside` 0 meanwhile. Each
 * hand-over is a release and an acquire (requests one way, inside the other), so both see the ring
 * as the other left it.
 *
 * The claim is on the owner, not on the processor: the word that the owner looks at stays the same
 * whoever gets the processor meanwhile, and the records of machines are never freed while the runtime
 * runs. The monitor takes the whole processor by the same claim (handoff.c).
 *
 * Interleavings that matter:
 *  - The owner gives the processor up while it is being claimed: it does so inside the runtime. The
 *    thief that reads inside == 0 later checks that the owner it looked at still holds the processor;
 *    from then on that one cannot come in.
 *  - The owner is between two fibers when it finds the claim: it waits like one that comes back, and
 *    shows `inside` 0 meanwhile. So also a machine that runs no fiber can find its processor gone.
 *  - Two thieves: the one whose or-operation found CLAIMED set already backs off. If it found GONE the
 *    owner has lost this processor to the monitor, and has not noticed yet.
 *  - WANTED set and nobody hungry any more (the thief takes it back too late): the owner sheds into the inject queue and
 *    wakes as for any ready fiber.
 *
 * runnext is not given away on request if it is nearly all there is: it is about to run here, where its data is warm. Only
 * a claim takes it then, when the ring is empty and the processor has not changed fibers for a while. But if
 * some others wait behind it, it goes first: it has just been woken, often by those whom it had spawned, and takes along the work that
 * it will hand out. Without that the thief gets what such a fiber has spawned, never the fiber, and is hungry again
 * soon: two that spawn would stay on one processor.
 *
 * A compact fiber that runs elsewhere uses the hot stack that it is bound to, of the processor it came from, for one turn at least: many lines go there and
 * back, far more than a short turn costs. So where compact fibers run they are asked for, and their timers fired, only when they have waited for
 * 50 us; until then the thief stays awake. For the same reason it first looks at its own timers, and does not go to sleep when
 * one of them is due soon: else each processor of a pool of many sleepers would live on the others' whenever its own are late by a moment.
 *
 * A thief that has found something takes back what it asked others for: nobody needs their answer.
 *
 * Rejected: the usual shared ring, popped by the owner with a compare-and-swap: it costs every
 * switch 6 ns (a locked instruction) to make a steal, which is rare, cheaper.
 */
#include "sched/core/steal.h"

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "os/membarrier.h"
#include "os/os.h"
#include "sched/check/test_point.h"
#include "sched/core/handoff.h"
#include "sched/core/idle.h"
#include "sched/core/inject.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/chain.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"
#include <weft/runtime.h>

#define SEARCH_TIME (20 * WEFT_US)      /* then the thief gives up */
#define SEARCH_MOST (40 * WEFT_US)      /* the same, if somebody's time is nearly over */
#define COMPACT_ASK_AFTER (50 * WEFT_US) /* before compact fibers are asked for */
#define OWN_MOST (200 * WEFT_US)        /* for which it waits for its own timers */

enum {
    LOOK_PAUSES =
        16, /* between two looks at others: their lines are what they write; doubled up to */
    LOOK_CAP = 128,
    CLAIM_SPINS = 1000, /* of the owner, before it yields its thread to the thief */
};

/* Owner's side. */

/* Gives half of what waits to the inject queue: the larger half if a fiber runs here beside it, and runnext with it. */
static void shed(struct thread *thread)
{
    struct processor *processor = thread->processor;
    uint32_t give = (ring_length(processor) + (thread->fiber != NULL)) / 2;
    struct chain chain = {NULL, NULL, 0};
    struct weft_fiber *next = give > 1 ? runnext_swap_owner(processor, NULL) : NULL;
    if (next != NULL)
        chain_add(&chain, next);
    while (chain.count < give)
        chain_add(&chain, ring_pop_owner(processor));
    weft__inject_push_any(chain);
    if (chain.count > 0)
        wake_if_idle();
}

static void wait_for_claim(struct thread *thread)
{
    runtime_leave(thread);
    for (int spins = 0; atomic_u32_load_relaxed(&thread->requests) & REQUEST_CLAIMED; spins++)
        if (spins < CLAIM_SPINS)
            cpu_relax();
        else
            weft__os_yield();
    atomic_u32_store_relaxed(&thread->inside, 1);
    barrier_light();
}

noinline struct thread *weft__handle_requests(struct thread *thread)
{
    uint32_t requests;
    /* Pairs with the release in weft__claim_end and weft__retake. */
    while ((requests = atomic_u32_load_acquire(&thread->requests)) & REQUEST_CLAIMED)
        wait_for_claim(thread);
    if (requests & REQUEST_GONE)
        return weft__processor_gone(thread);
    if (requests & REQUEST_SHED) {
        atomic_u32_and_acq_rel(&thread->requests, ~(uint32_t)REQUEST_SHED);
        shed(thread);
    }
    if (requests & REQUEST_POINTS && thread->fiber != NULL)
        return weft__test_enter(thread);
    return thread;
}

void weft__enter_crashed(struct thread *thread)
{
    atomic_u32_store_relaxed(&thread->inside, 1);
    barrier_light();
    /* Pairs with the release in weft__claim_end and weft__retake. */
    while (atomic_u32_load_acquire(&thread->requests) & REQUEST_CLAIMED)
        wait_for_claim(thread);
}

/* Thief's side. */

void weft__claim_end(struct thread *owner)
{
    atomic_u32_and_release(&owner->requests, ~(uint32_t)REQUEST_CLAIMED);
}

struct thread *weft__claim(struct processor *victim)
{
    struct thread *owner = atomic_ptr_load_acquire(&victim->owner);
    if (owner == NULL)
        return NULL;
    uint32_t before = atomic_u32_or_seq_cst(&owner->requests, REQUEST_CLAIMED);
    if (before & REQUEST_CLAIMED)
        return NULL;
    barrier_heavy();
    if (!(before & REQUEST_GONE) && atomic_u32_load_acquire(&owner->inside) == 0 &&
        atomic_ptr_load_acquire(&victim->owner) == owner)
        return owner;
    weft__claim_end(owner);
    return NULL;
}

/* Takes half of the victim's ring, or its runnext if that is all it has: one to run, the rest into
 * the thief's ring. */
static struct weft_fiber *take_claimed(struct processor *thief, struct processor *victim)
{
    uint32_t length = ring_length(victim);
    if (length == 0) {
        atomic_u32_store_relaxed(&victim->wasted_wakes, 0);
        return runnext_swap_owner(victim, NULL);
    }
    struct weft_fiber *first = ring_pop_owner(victim);
    for (uint32_t taken = 1; taken < (length + 1) / 2; taken++)
        must(ring_push_owner(thief, ring_pop_owner(victim)));
    return first;
}

static void want(struct processor *victim)
{
    struct thread *owner = atomic_ptr_load_acquire(&victim->owner);
    if (owner != NULL && !(atomic_u32_load_relaxed(&owner->requests) & REQUEST_SHED))
        atomic_u32_or_relaxed(&owner->requests, REQUEST_SHED);
}

/* What a thief has seen of a victim. */
struct seen {
    uint32_t turn;
    int64_t since; /* when it was first seen in this turn, with fibers waiting; 0: never */
    int64_t
        waiting; /* since when fibers were seen to wait there at each look; 0: not at the last */
};

/* How long the fibers of a victim are left to it. */
static int64_t ask_delay(const struct processor *victim)
{
    bool busy = atomic_ptr_load_relaxed(&victim->owner) != NULL;
    return busy && runs_compact(victim) ? COMPACT_ASK_AFTER : 0;
}

/* Asks the others for fibers, and fires their timers if those are due: a processor may be busy with
 * one fiber for longer than its timers can wait. *close: some are left to their processor for now. */
static struct weft_fiber *ask(struct processor *thief, struct seen *seen, int64_t now, bool *close)
{
    uint32_t count = processor_count();
    uint32_t start = prng_below(&thief->prng, count);
    *close = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (start + i) % count;
        struct processor *victim = &weft__sched.processors[index];
        if (victim == thief)
            continue;
        bool waits = ring_length(victim) > 0;
        bool due = atomic_i64_load_relaxed(&victim->wheel.next) <= now;
        int64_t patience = waits || due ? ask_delay(victim) : 0;
        if (!waits || seen[index].waiting == 0)
            seen[index].waiting = waits ? now : 0;
        if (waits && now - seen[index].waiting >= patience)
            want(victim);
        *close |= patience != 0;
        if (due && weft__timers_fire(thief, victim, now - patience))
            return dequeue(thief);
    }
    return NULL;
}

/* Claims fibers of one who has not changed fibers for the time of patience. *close: one has not, but
 * the time is not over. */
static struct weft_fiber *demand(struct processor *thief, struct seen *seen, uint32_t count,
                                 int64_t now, bool *close)
{
    struct thread *owner;
    *close = false;
    for (uint32_t i = 0; i < count; i++) {
        struct processor *victim = &weft__sched.processors[i];
        uint32_t turn = atomic_u32_load_relaxed(&victim->turn);
        if (victim == thief || !has_fibers(victim))
            continue;
        bool changed = turn != seen[i].turn;
        if (changed || seen[i].since == 0) {
            *close |= !changed;
            seen[i].turn = turn;
            seen[i].since = now;
        } else if (now - seen[i].since < CLAIM_AFTER) {
            *close = true;
        } else if ((owner = weft__claim(victim)) != NULL) {
            struct weft_fiber *fiber = take_claimed(thief, victim);
            weft__claim_end(owner);
            if (fiber != NULL)
                return fiber;
        }
    }
    return NULL;
}

/* The thief has found something: who was asked, and has not answered, need not. If another asked as well, it does so again. */
static void unwant(const struct processor *thief)
{
    for (uint32_t i = 0; i < processor_count(); i++) {
        struct processor *victim = &weft__sched.processors[i];
        struct thread *owner = victim != thief ? atomic_ptr_load_acquire(&victim->owner) : NULL;
        if (owner != NULL && (atomic_u32_load_relaxed(&owner->requests) & REQUEST_SHED))
            (void)atomic_u32_and_acq_rel(&owner->requests, ~(uint32_t)REQUEST_SHED);
    }
}

/* What makes a thief go on looking when its time is over: to sleep and to be woken would cost more. */
struct hopes {
    bool close;  /* somebody's time is nearly over */
    bool left;   /* compact fibers wait, and will be asked for */
    int64_t own; /* its own next timer, at the last look */
};

static bool goes_on(const struct hopes *hopes, int64_t spent, int64_t now)
{
    return spent < SEARCH_TIME || (hopes->close && spent < SEARCH_MOST) ||
           (hopes->left && spent < SEARCH_TIME + COMPACT_ASK_AFTER) ||
           (hopes->own - now < SEARCH_TIME && spent < OWN_MOST);
}

static struct weft_fiber *look_at_own(struct processor *thief, int64_t now, int64_t *next)
{
    *next = atomic_i64_load_relaxed(&thief->wheel.next);
    return *next <= now && weft__timers_fire(thief, thief, now) ? dequeue(thief) : NULL;
}

struct weft_fiber *weft__steal(struct machine *machine)
{
    struct processor *thief = machine->thread.processor;
    struct seen seen[WEFT_PROCS_MAX];
    uint32_t count = processor_count();
    int64_t start = weft__os_now(), now = start;
    struct hopes hopes = {false, false, WHEEL_EMPTY};
    int pauses = LOOK_PAUSES;
    for (uint32_t i = 0; i < count; i++)
        seen[i] = (struct seen){atomic_u32_load_relaxed(&weft__sched.processors[i].turn), 0, 0};
    while (goes_on(&hopes, now - start, now)) {
        struct weft_fiber *fiber = weft__take_injected(thief);
        if (fiber == NULL)
            fiber = look_at_own(thief, now, &hopes.own);
        if (fiber == NULL)
            fiber = ask(thief, seen, now, &hopes.left);
        if (fiber == NULL)
            fiber = demand(thief, seen, count, now, &hopes.close);
        if (fiber != NULL) {
            unwant(thief);
            return fiber;
        }
        for (int i = 0; i < pauses; i++)
            cpu_relax();
        if (pauses < LOOK_CAP)
            pauses *= 2;
        now = weft__os_now();
    }
    weft__os_yield(); /* in case that an owner was preempted inside the runtime, to us */
    return NULL;
}
