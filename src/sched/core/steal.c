/*
 * steal.c: how a processor without fibers gets some from a busy one.
 *
 * A run queue is private to its owner, the machine that holds the processor, so that push and pop
 * are plain loads and stores. The thief, a machine that has nothing else to do, pays for that, in
 * two steps.
 *
 * Ask. The thief sets the request SHED on the owner of a processor that has fibers to spare. The
 * owner sees the request when it next enters the runtime or chooses a fiber, and sheds half of its
 * ring into the inject queue, where the thief looks. In most programs an owner passes such a point
 * every few hundred nanoseconds. A thief that has found a fiber withdraws its unanswered requests.
 *
 * Claim. A processor on which fibers wait, and which has not changed fibers for CLAIM_AFTER, most
 * likely runs one that does not call weft: it computes, or is blocked in C code. The thief takes
 * the processor for a moment:
 *
 *     thief                                       owner
 *     owner->requests |= CLAIMED                  inside = 1           (runtime_enter)
 *     barrier_heavy                               barrier_light
 *     if owner->inside: give the claim back       if requests & CLAIMED: wait
 *     take half of the ring                       ... private state is its own ...
 *     owner->requests &= ~CLAIMED                 inside = 0           (runtime_leave)
 *
 * By the two barriers at least one side sees the other. Either the thief sees `inside` and backs
 * off, or the owner sees CLAIMED and waits until the claim ends, with `inside` 0 meanwhile. Each
 * hand-over is a release and an acquire (of `requests` in one direction, of `inside` in the
 * other), so each side sees the ring as the other left it.
 *
 * The claim is on the owner, not on the processor: the owner always looks at the same word,
 * whichever processor it holds. The records of machines are not freed while the runtime runs, so a
 * thief may write to a machine that has just lost the processor. The monitor takes a whole
 * processor by the same claim (handoff.c).
 *
 * Interleavings that matter:
 *  - The owner gives its processor up while a thief claims it. It does that inside the runtime. A
 *    thief that reads inside == 0 then checks that the owner still holds the processor; if it
 *    does, the owner cannot enter again until the claim ends.
 *  - The owner finds the claim between two fibers. It waits with `inside` 0, as when it enters. So
 *    a machine that runs no fiber can also find that its processor is gone.
 *  - Two thieves. The one whose fetch-or finds CLAIMED already set backs off.
 *  - The fetch-or finds GONE: the owner has lost this processor to the monitor and has not noticed
 *    yet. The thief gives the claim back.
 *  - SHED is set and no thief needs it any more (it was withdrawn too late). The owner sheds into
 *    the inject queue and wakes a machine as for any ready fiber.
 *
 * Which fibers go. An owner that sheds one fiber keeps its runnext: that fiber is about to run
 * here, where its data is warm. Only a claim takes it then, when the ring is empty and the
 * processor has not changed fibers for a while. An owner that sheds two or more sheds runnext
 * first. The fiber there was just woken, often by fibers that it had spawned, and will spawn more:
 * the thief gets a source of work. Otherwise it would get only fibers that runnext has spawned, and
 * soon need more: two spawners would stay on one processor.
 *
 * Compact fibers. A compact fiber that runs elsewhere still uses the hot stack that it is bound
 * to, on the processor that it came from, for at least one turn. Many cache lines move to the
 * thief and back, which costs far more than a short turn. So fibers of a processor that runs
 * compact ones are asked for, and its timers fired by a thief, only after they have waited for
 * 50 us; the thief stays awake until then. (A claim does not wait for that.) A thief also looks at
 * its own timers before those of others, and does not go to sleep if one of its own is due soon.
 * Otherwise each processor of a pool of many sleepers would run the others' timers whenever its own
 * are late by a moment.
 *
 * Rejected: the usual shared ring, from which the owner pops with a compare-and-swap. It costs 6
 * ns (a locked instruction) at each switch to make a steal cheaper, and steals are rare.
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

#define SEARCH_TIME (20 * WEFT_US)       /* then the thief gives up */
#define SEARCH_MOST (40 * WEFT_US)       /* the same if a victim can be claimed soon */
#define COMPACT_ASK_AFTER (50 * WEFT_US) /* compact fibers are left to their processor for this */
#define OWN_MOST (200 * WEFT_US)         /* the thief stays awake this long for its own timers */

enum {
    /* Pauses between two looks at the other processors, whose owners write the lines that the looks
     * fetch: doubled after each look, from the first number to the second. */
    LOOK_PAUSES = 16,
    LOOK_CAP = 128,
    CLAIM_SPINS = 1000, /* of an owner that waits for a claim to end, before it yields its CPU */
};

/* Owner's side. */

/* Moves half of the waiting fibers to the inject queue; the larger half if a fiber runs here beside
 * them. runnext is the first of them if at least two go. */
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

/* Takes half of the victim's ring, or its runnext if the ring is empty. Returns the first fiber and
 * puts the rest into the thief's ring. */
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

static void request_shed(struct processor *victim)
{
    struct thread *owner = atomic_ptr_load_acquire(&victim->owner);
    if (owner != NULL && !(atomic_u32_load_relaxed(&owner->requests) & REQUEST_SHED))
        atomic_u32_or_relaxed(&owner->requests, REQUEST_SHED);
}

/* What a thief has seen of a victim. */
struct seen {
    uint32_t turn;
    int64_t since;   /* when it was first seen in this turn with fibers waiting; 0: never */
    int64_t waiting; /* since when every look has seen its ring not empty; 0: empty at the last */
};

/* For how long the fibers and timers of a victim must wait before a thief may ask for them. */
static int64_t ask_delay(const struct processor *victim)
{
    bool busy = atomic_ptr_load_relaxed(&victim->owner) != NULL;
    return busy && runs_compact(victim) ? COMPACT_ASK_AFTER : 0;
}

/* Asks the other processors for fibers, and fires their timers that are due: one fiber may keep a
 * processor busy for longer than its timers can wait. Sets *ask_soon if some victim is spared for
 * now because it runs compact fibers. */
static struct weft_fiber *ask(struct processor *thief, struct seen *seen, int64_t now,
                              bool *ask_soon)
{
    uint32_t count = processor_count();
    uint32_t start = prng_below(&thief->prng, count);
    *ask_soon = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (start + i) % count;
        struct processor *victim = &weft__sched.processors[index];
        if (victim == thief)
            continue;
        bool waits = ring_length(victim) > 0;
        bool due = atomic_i64_load_relaxed(&victim->wheel.next) <= now;
        int64_t delay = waits || due ? ask_delay(victim) : 0;
        if (!waits || seen[index].waiting == 0)
            seen[index].waiting = waits ? now : 0;
        if (waits && now - seen[index].waiting >= delay)
            request_shed(victim);
        *ask_soon |= delay != 0;
        if (due && weft__timers_fire(thief, victim, now - delay))
            return dequeue(thief);
    }
    return NULL;
}

/* Claims fibers of a processor that has not changed fibers for CLAIM_AFTER. Sets *claim_soon if
 * some processor has not changed fibers, but not for that long yet. */
static struct weft_fiber *claim_stuck(struct processor *thief, struct seen *seen, uint32_t count,
                                      int64_t now, bool *claim_soon)
{
    struct thread *owner;
    *claim_soon = false;
    for (uint32_t i = 0; i < count; i++) {
        struct processor *victim = &weft__sched.processors[i];
        uint32_t turn = atomic_u32_load_relaxed(&victim->turn);
        if (victim == thief || !has_fibers(victim))
            continue;
        bool changed = turn != seen[i].turn;
        if (changed || seen[i].since == 0) {
            *claim_soon |= !changed;
            seen[i].turn = turn;
            seen[i].since = now;
        } else if (now - seen[i].since < CLAIM_AFTER) {
            *claim_soon = true;
        } else if ((owner = weft__claim(victim)) != NULL) {
            struct weft_fiber *fiber = take_claimed(thief, victim);
            weft__claim_end(owner);
            if (fiber != NULL)
                return fiber;
        }
    }
    return NULL;
}

/* The thief has found a fiber: it withdraws its requests that no owner has answered. A request of
 * another thief may be withdrawn with them; that thief repeats it. */
static void withdraw_requests(const struct processor *thief)
{
    for (uint32_t i = 0; i < processor_count(); i++) {
        struct processor *victim = &weft__sched.processors[i];
        struct thread *owner = victim != thief ? atomic_ptr_load_acquire(&victim->owner) : NULL;
        if (owner != NULL && (atomic_u32_load_relaxed(&owner->requests) & REQUEST_SHED))
            (void)atomic_u32_and_acq_rel(&owner->requests, ~(uint32_t)REQUEST_SHED);
    }
}

/* Reasons to search on when SEARCH_TIME is over: to sleep and be woken would cost more. */
struct search {
    bool claim_soon;   /* a victim has not answered; it can be claimed within CLAIM_AFTER */
    bool ask_soon;     /* compact fibers wait; they can be asked for within COMPACT_ASK_AFTER */
    int64_t own_timer; /* the next timer of the thief's own wheel, at the last look */
};

static bool keeps_searching(const struct search *search, int64_t spent, int64_t now)
{
    return spent < SEARCH_TIME || (search->claim_soon && spent < SEARCH_MOST) ||
           (search->ask_soon && spent < SEARCH_TIME + COMPACT_ASK_AFTER) ||
           (search->own_timer - now < SEARCH_TIME && spent < OWN_MOST);
}

static struct weft_fiber *fire_own_timers(struct processor *thief, int64_t now, int64_t *next)
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
    struct search search = {false, false, WHEEL_EMPTY};
    int pauses = LOOK_PAUSES;
    for (uint32_t i = 0; i < count; i++)
        seen[i] = (struct seen){atomic_u32_load_relaxed(&weft__sched.processors[i].turn), 0, 0};
    while (keeps_searching(&search, now - start, now)) {
        struct weft_fiber *fiber = weft__take_injected(thief);
        if (fiber == NULL)
            fiber = fire_own_timers(thief, now, &search.own_timer);
        if (fiber == NULL)
            fiber = ask(thief, seen, now, &search.ask_soon);
        if (fiber == NULL)
            fiber = claim_stuck(thief, seen, count, now, &search.claim_soon);
        if (fiber != NULL) {
            withdraw_requests(thief);
            return fiber;
        }
        for (int i = 0; i < pauses; i++)
            cpu_relax();
        if (pauses < LOOK_CAP)
            pauses *= 2;
        now = weft__os_now();
    }
    weft__os_yield(); /* an owner may have been preempted inside the runtime, in favour of this */
    return NULL;
}
