/*
 * idle.c: idle processors and machines: no ready fiber is forgotten, and an idle process uses no
 * CPU.
 *
 * A machine without work searches for some microseconds (steal.c), unless half as many machines as
 * there are busy processors search already. If it finds nothing it retires: it gives its processor
 * to the idle list and sleeps. One sleeping machine is the watcher: it sleeps in the poller. The
 * others doze: they sleep on a futex until they are woken. One dozing machine may be in charge of
 * the next event (a timer, or maintenance) and wake up for it: doze_until is the event's time.
 *
 * No fiber is forgotten. A thread that makes a fiber ready publishes the fiber, and only then looks
 * for idle processors. A machine that retires shows its processor as idle, and only then looks for
 * work once more:
 *
 *     ready:   publish in a queue;  barrier_light;  if idle > 0 and spinning == 0: wake a machine
 *     retire:  idle + 1, spinning - 1;  barrier_heavy;  if any queue is not empty: come back
 *
 * At least one side sees the other. If a machine spins, no other is woken, because that machine
 * will look again: when it retires, or when it lowers the count of spinners after it has found a
 * fiber. The last spinner then wakes another machine if there is more work anywhere, so that work
 * spreads as fast as machines wake. A thread that finds an idle processor wakes an idle machine
 * for it, or starts one.
 *
 * More idle machines than idle processors. A machine that came back from C code and found its
 * processor gone (handoff.c) is idle without a processor: it sleeps like the others, until a thread
 * that wakes it gives it one. While no processor is idle there is no watcher: machines that run
 * fibers look at timers and at the poller now and then, and the monitor finds the stuck ones
 * (monitor.c). A watcher that finds that all processors have been taken stands down. (It clears
 * `watcher`, runs barrier_heavy, and looks for idle processors. A machine that retires shows its
 * processor first and then competes to be the watcher. So either that machine watches, or the old
 * watcher wakes one.) A processor can also become idle without a machine that retires
 * (weft__idle_give): its machine goes on in C code. Then the queues and the watcher are looked at
 * as after a wake-up that failed. A machine that is idle for long while there are more machines
 * than processors ends.
 *
 * A wake-up fails if no thread can be started, or if the idle processor was taken meanwhile. The
 * count of spinners was raised for a moment then, and other threads may have relied on it. So it
 * is lowered, and after a barrier_heavy the queues and the watcher are looked at again, if any
 * machine sleeps. If none sleeps, each machine comes to the queues by itself, or is stuck in C
 * code, and then the monitor tries again.
 *
 * This pair of barriers protects timers too: sleep_until takes the place of the idle count, and
 * the wheels that of the queues (firing.c). A machine that stops sleeping for a timer because it
 * found work makes sure that another one does: it pokes the watcher, or wakes a machine if there
 * is no watcher.
 *
 * Who wakes up for an event. A fiber that sleeps again and again leaves its machine without work
 * each time. If the watcher had to wake up for it, it would come back to run the fiber, and another
 * machine would have to be woken to watch: two threads woken, and two searches, for each sleep. So
 * a machine that begins to doze takes charge of the next event, unless a dozing machine has charge
 * of one as early, and the watcher sleeps past it by 10 ms. The fiber runs again on that machine,
 * and no other is woken. A machine in charge that is woken for anything else gives the charge up,
 * and only then looks at sleep_until, as above:
 *
 *     dozer:    doze_until = none;  barrier_light;  an event before sleep_until: poke the watcher
 *     watcher:  sleep_until = WHEEL_EMPTY;  barrier_heavy;  read doze_until and the wheels; sleep
 *
 * At least one side sees the other. (WHEEL_EMPTY is later than any event.) If a machine finds work
 * and there is no watcher, but nothing else is ready, a dozing machine is woken to watch: it gets
 * no processor and does not search. A machine that woke up for a timer and has run the fiber does
 * not search if no other processor is busy: then only a foreign thread can make a fiber ready, and
 * that thread wakes a machine.
 *
 * Stuck processors. While a processor is busy the watcher wakes up every 10 ms. If fibers wait on a
 * busy processor it wakes up after 50 us, then after twice as long each time, up to 10 ms. It looks
 * whether fibers are stuck behind one that does not come back to the runtime: in a ring, or in a
 * runnext, which a machine that retires does not look at. While all processors are idle it sleeps
 * on.
 *
 * Wake-ups for runnext. A fiber alone in a runnext is about to run. A machine woken for it usually
 * comes too late, and fetches the cache lines that the processor writes. So a processor counts
 * such wasted wake-ups in a row, and from the 16th on wakes no machine for runnext. Instead the
 * watcher looks there at least every 400 us, and takes a fiber that waits there for 10 us, as a
 * thief would; that clears the count. A look that finds no fiber waiting, and the processor in the
 * same turn as the look before, clears it as well: the hand-overs between its fibers are over. (If
 * the owner counts at that moment, one of the two stores is lost: some wake-ups more or fewer.)
 * When a processor stops waking, the watcher may have just begun to sleep for 10 ms, since it is
 * not the machine that was woken: so it is poked. If there is no watcher at that moment, nothing is
 * lost, by invariant 2 in machine.c: some machine is awake, and the next one that retires becomes
 * the watcher.
 *
 * Lock order: weft__sched.lock comes after all other locks, except that of the inject queue.
 *
 * Rejected: a dozing machine that pokes the watcher instead of keeping the time itself: each sleep
 * of a lone fiber costs two more wake-ups. A woken machine that always wakes the next one, as in
 * Go: the same cost, and 20 us of spinning.
 */
#include "sched/core/idle.h"

#include <errno.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "os/membarrier.h"
#include "os/os.h"
#include "sched/check/deadlock.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/inject.h"
#include "sched/core/machine.h"
#include "sched/core/monitor.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/core/steal.h"
#include "sched/fiber/fiber.h"
#include "sched/poll/poller.h"
#include "sched/runtime/maintenance.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"
#include "stack/stack.h"

#define WATCH_FIRST (50 * WEFT_US) /* if fibers wait on a busy processor; doubled each time */
#define WATCH_EVERY (10 * WEFT_MS)
#define WATCH_ALONE (400 * WEFT_US) /* if a processor wakes no machine for its runnext */
/* Between two wake-ups for timers, at least: 10,000 timers within 200 ms cost 42 % less CPU than
 * with a wake-up for each (timers_100k in bench), and lateness does not change. */
#define EVENT_SPACE (50 * WEFT_US)

/* Lists; under the lock. */

void weft__idle_push(struct processor *processor)
{
    processor->idle_next = weft__sched.idle_processors;
    weft__sched.idle_processors = processor;
    atomic_u32_add_relaxed(&weft__sched.idle_count, 1);
}

struct processor *weft__idle_pop(void)
{
    struct processor *processor = weft__sched.idle_processors;
    if (processor != NULL) {
        weft__sched.idle_processors = processor->idle_next;
        if (atomic_u32_add_relaxed(&weft__sched.idle_count, (uint32_t)-1) == 1)
            weft__monitor_poke();
    }
    return processor;
}

static void push_idle_machine(struct machine *machine)
{
    machine->idle = true;
    machine->idle_next = weft__sched.idle_machines;
    machine->idle_link = &weft__sched.idle_machines;
    if (machine->idle_next != NULL)
        machine->idle_next->idle_link = &machine->idle_next;
    weft__sched.idle_machines = machine;
}

static void remove_idle_machine(struct machine *machine)
{
    *machine->idle_link = machine->idle_next;
    if (machine->idle_next != NULL)
        machine->idle_next->idle_link = machine->idle_link;
    machine->idle = false;
    weft__sched.wakes++;
}

/* Waking. */

/* What a sleeping machine is woken for: `wake`. */
enum { WAKE_NOT, WAKE_ASSIGNED, WAKE_TO_WATCH };

static void signal_machine(struct machine *machine)
{
    /* Pairs with the order in which the watcher shows itself, then looks at `wake`. */
    atomic_u32_exchange_seq_cst(&machine->wake, WAKE_ASSIGNED);
    if (atomic_ptr_load_seq_cst(&weft__sched.watcher) == machine)
        weft__poller_wake();
    else
        weft__os_futex_wake(&machine->wake, 1);
}

/* Called with the count of spinners raised for the new machine. */
static bool start_machine(struct processor *processor, bool run_hook)
{
    static atomic_u32 warned, warned_bound;
    int error = weft__machine_start(processor, run_hook);
    if (error != 0)
        atomic_u32_store_relaxed(&weft__sched.refused, (uint32_t)-error);
    if (error == -EUSERS && atomic_u32_exchange_acq_rel(&warned_bound, 1) == 0)
        weft__warn(
            "all %u threads that there may be are in use: fibers wait until one comes back from "
            "the C "
            "code that it runs (WEFT_MAX_MACHINES or weft_config.max_machines raises the bound)",
            weft__sched.max_machines);
    if (error != 0 && error != -EUSERS && atomic_u32_exchange_acq_rel(&warned, 1) == 0)
        weft__warn("cannot start a thread (%s): going on with fewer", weft_strerror(error));
    return error == 0;
}

/* A machine to wake; the watcher only if no other sleeps, since it would have to be replaced. Under
 * the lock. */
static struct machine *sleeper(void)
{
    struct machine *machine = weft__sched.idle_machines;
    if (machine != NULL && machine->idle_next != NULL &&
        machine == atomic_ptr_load_seq_cst(&weft__sched.watcher))
        machine = machine->idle_next;
    return machine;
}

/* Wakes a machine for an idle processor, unless one spins. False: no machine could be woken, and
 * meanwhile other threads may have relied on the count of spinners. */
static bool try_wake_one(void)
{
    uint32_t none = 0;
    if (!atomic_u32_cas_seq_cst(&weft__sched.spinning, &none, 1))
        return true;
    lock_acquire(&weft__sched.lock);
    struct processor *processor = weft__idle_pop();
    struct machine *machine = processor != NULL ? sleeper() : NULL;
    if (machine != NULL) {
        remove_idle_machine(machine);
        machine->assigned = processor;
        machine->spinning = true;
    }
    lock_release(&weft__sched.lock);
    if (machine != NULL) {
        signal_machine(machine);
        return true;
    }
    if (processor != NULL) {
        if (start_machine(processor, false))
            return true;
        lock_acquire(&weft__sched.lock);
        weft__idle_push(processor);
        weft__monitor_poke(); /* it tries again */
        lock_release(&weft__sched.lock);
    }
    atomic_u32_sub_seq_cst(&weft__sched.spinning, 1);
    barrier_heavy(); /* a fiber made ready meanwhile in reliance on that count is seen after this */
    return false;
}

bool weft__idle_queues_empty(void)
{
    if (weft__inject_length() > 0)
        return false;
    for (uint32_t i = 0; i < processor_count(); i++)
        if (ring_length(&weft__sched.processors[i]) > 0)
            return false;
    return true;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The next time at which a machine must be awake: for a timer, or for maintenance. */
static int64_t next_event(void)
{
    return earlier(weft__timers_next(), atomic_i64_load_relaxed(&weft__sched.maintenance_time));
}

/* True if a machine sleeps that could run what is ready, or must become the watcher. Otherwise
 * pokes the watcher if it would sleep past a timer, as the last spinner does (weft__idle_found):
 * that spinner may have relied on the count that the caller raised. */
static bool wake_needed(void)
{
    lock_acquire(&weft__sched.lock);
    bool asleep = weft__sched.idle_machines != NULL && weft__sched.idle_processors != NULL;
    lock_release(&weft__sched.lock);
    int64_t until = atomic_i64_load_relaxed(&weft__sched.sleep_until);
    if (asleep && (until == NO_WATCHER || !weft__idle_queues_empty()))
        return true;
    if (asleep && next_event() < until)
        weft__poller_wake();
    return false;
}

noinline void weft__wake_one(void)
{
    if (seeded() && weft__seeded_wake())
        return;
    while (!try_wake_one() && wake_needed())
        continue;
}

/* Nothing is ready and no machine watches: wakes a machine to watch, without a processor. If none
 * sleeps, one that is started finds nothing and becomes the watcher. */
static void call_watcher(void)
{
    uint32_t none = WAKE_NOT;
    lock_acquire(&weft__sched.lock);
    struct machine *machine = weft__sched.idle_machines;
    if (machine != NULL && atomic_u32_cas_seq_cst(&machine->wake, &none, WAKE_TO_WATCH))
        weft__os_futex_wake(&machine->wake, 1); /* under the lock: a listed machine has not ended */
    lock_release(&weft__sched.lock);
    if (machine == NULL)
        weft__wake_one();
}

/* Makes sure that the watcher looks at the busy processors soon. */
static void watch_soon(void)
{
    int64_t until = atomic_i64_load_relaxed(&weft__sched.sleep_until);
    if (until != NO_WATCHER && until > weft__os_now() + WATCH_EVERY)
        weft__poller_wake();
}

noinline bool weft__wake_if_idle(void)
{
    /* A machine that spins will look again, unless it has just found another fiber. The
     * read-modify-write orders this look and its change of the count: either that machine sees what
     * the caller has published, or the count is seen without it. */
    if (atomic_u32_load_relaxed(&weft__sched.spinning) > 0 &&
        atomic_u32_add_acq_rel(&weft__sched.spinning, 0) > 0)
        return false;
    struct thread *thread = thread_self();
    if (thread != NULL && thread->fiber != NULL)
        thread->wake_wanted = true;
    else
        weft__wake_one();
    return true;
}

/* Processors that leave their machine, and machines that come back without one. */

bool weft__idle_assign(struct processor *processor, bool run_hook)
{
    atomic_u32_add_seq_cst(&weft__sched.spinning, 1);
    lock_acquire(&weft__sched.lock);
    struct machine *machine = sleeper();
    if (machine != NULL) {
        remove_idle_machine(machine);
        machine->assigned = processor;
        machine->assigned_hook = run_hook;
        machine->spinning = true;
    }
    lock_release(&weft__sched.lock);
    if (machine != NULL) {
        signal_machine(machine);
        return true;
    }
    if (start_machine(processor, run_hook))
        return true;
    atomic_u32_sub_seq_cst(&weft__sched.spinning, 1);
    barrier_heavy(); /* as in try_wake_one */
    if (wake_needed())
        weft__wake_one();
    return false;
}

struct processor *weft__idle_take(void)
{
    lock_acquire(&weft__sched.lock);
    struct processor *processor = weft__idle_pop();
    lock_release(&weft__sched.lock);
    if (processor != NULL)
        watch_soon(); /* one more machine may get stuck, and one more fiber may wait behind it */
    return processor;
}

void weft__idle_give(struct processor *processor)
{
    lock_acquire(&weft__sched.lock);
    weft__idle_push(processor);
    lock_release(&weft__sched.lock);
    weft__idle_pushed();
}

void weft__idle_pushed(void)
{
    barrier_heavy(); /* a thread with a ready fiber sees the processor, or this sees the fiber */
    int64_t until = atomic_i64_load_relaxed(&weft__sched.sleep_until);
    if (until == NO_WATCHER || !weft__idle_queues_empty())
        weft__wake_one();
    else if (next_event() < until)
        weft__poller_wake();
}

/* Spinning. */

/* Whether a search could find something: no other processor is busy, and no timer is due soon. */
static bool is_worthless(const struct machine *machine, uint32_t busy)
{
    return machine->by_clock && busy == 1 &&
           atomic_i64_load_relaxed(&machine->thread.processor->wheel.next) >
               weft__os_now() + EVENT_SPACE;
}

bool weft__idle_may_spin(struct machine *machine)
{
    if (seeded())
        return false; /* there is one processor, and the seed must choose all that runs */
    if (machine->spinning)
        return true;
    uint32_t busy = processors_in_use() - atomic_u32_load_relaxed(&weft__sched.idle_count);
    if (2 * atomic_u32_load_relaxed(&weft__sched.spinning) >= busy || is_worthless(machine, busy))
        return false;
    atomic_u32_add_seq_cst(&weft__sched.spinning, 1);
    machine->spinning = true;
    return true;
}

void weft__idle_found(struct machine *machine)
{
    machine->spinning = false;
    if (atomic_u32_sub_seq_cst(&weft__sched.spinning, 1) != 1 ||
        atomic_u32_load_relaxed(&weft__sched.idle_count) == 0)
        return;
    int64_t until = atomic_i64_load_relaxed(&weft__sched.sleep_until);
    if (!weft__idle_queues_empty())
        weft__wake_one();
    else if (until == NO_WATCHER)
        call_watcher();
    else if (next_event() < until)
        weft__poller_wake(); /* this machine may have been the one to sleep until then */
    else
        watch_soon();
}

/* Retiring. */

void weft__processor_acquire(struct machine *machine, struct processor *processor)
{
    machine->thread.processor = processor;
    machine->thread.fibers = &processor->fibers;
    processor->stamp = (uint32_t)(weft__os_now_coarse() >> STAMP_SHIFT);
    /* Pairs with the acquire in weft__claim: a thief that sees this owner sees it inside. */
    atomic_ptr_store_release(&processor->owner, &machine->thread);
}

/* Takes the calling machine out of the idle list, with an idle processor. False: no processor is
 * idle, or another thread has taken the machine out and wakes it. */
static bool rejoin(struct machine *machine)
{
    struct processor *processor = NULL;
    lock_acquire(&weft__sched.lock);
    if (machine->idle && (processor = weft__idle_pop()) != NULL)
        remove_idle_machine(machine);
    lock_release(&weft__sched.lock);
    if (processor == NULL)
        return false;
    atomic_u32_add_seq_cst(&weft__sched.spinning, 1);
    machine->spinning = true;
    machine->assigned = processor;
    return true;
}

/* What the watcher finds at the busy processors, in ascending order of urgency. */
enum found { ALL_WELL, FIBERS_WAIT, WAKES_OFF, FIBERS_STUCK };

/* Whether the fiber in the processor's runnext waits for CLAIM_AFTER. */
static bool waits_on(const struct processor *processor, uint32_t turn)
{
    int64_t start = weft__os_now();
    while (atomic_u32_load_relaxed(&processor->turn) == turn &&
           atomic_ptr_load_relaxed(&processor->runnext) != NULL) {
        if (weft__os_now() - start > CLAIM_AFTER)
            return true;
        cpu_relax();
    }
    return false;
}

/* Fibers that wait on a processor are stuck if it has not changed fibers since the last look; or if
 * it wakes no machine for its runnext, and the fiber there waits for CLAIM_AFTER. */
static enum found look_at(struct processor *processor)
{
    uint32_t turn = atomic_u32_load_relaxed(&processor->turn), before = processor->watched_turn;
    bool wait = has_fibers(processor);
    processor->watched_turn = turn;
    if (wait && turn == before)
        return FIBERS_STUCK;
    if (turn == before)
        atomic_u32_store_relaxed(&processor->wasted_wakes, 0); /* the hand-overs are over */
    if (runnext_wakes_off(processor))
        return waits_on(processor, turn) ? FIBERS_STUCK : WAKES_OFF;
    return wait ? FIBERS_WAIT : ALL_WELL;
}

static enum found look_at_busy(void)
{
    enum found worst = ALL_WELL;
    for (uint32_t i = 0; i < processor_count(); i++) {
        enum found found = look_at(&weft__sched.processors[i]);
        if (found > worst)
            worst = found;
    }
    return worst;
}

/* How long to sleep until the next look, after one that slept for `interval`. */
static int64_t watch_interval(int64_t interval, enum found found)
{
    if (found == ALL_WELL)
        return WATCH_EVERY;
    return earlier(interval * 2, found == FIBERS_WAIT ? WATCH_EVERY : WATCH_ALONE);
}

static struct {
    bool (*look)(void);
    void (*act)(void);
    atomic_u32 set;
} hooks;

void weft__idle_set_hooks(bool (*look)(void), void (*act)(void))
{
    hooks.look = look;
    hooks.act = act;
    atomic_u32_store_release(&hooks.set, 1); /* pairs with weft__idle_hook_pending */
}

bool weft__idle_hook_pending(void)
{
    return atomic_u32_load_acquire(&hooks.set) != 0 && hooks.look();
}

/* Whether the user of the hooks waits for memory, not only for a fiber to end. */
static bool hook_starves(void)
{
    return (atomic_u32_load_relaxed(&weft__sched.starving) & STARVING_OTHERS) != 0;
}

/* Called by the watcher: whether the hook must run. Clears the bit of starving if its user does not
 * starve any more. */
static bool hook_wants(bool busy)
{
    bool starve = hook_starves();
    if (starve)
        (void)atomic_u32_and_acq_rel(&weft__sched.starving, ~(uint32_t)STARVING_OTHERS);
    bool want = (busy || starve) && weft__idle_hook_pending();
    if (want && starve) /* until the hook has run */
        (void)atomic_u32_or_relaxed(&weft__sched.starving, STARVING_OTHERS);
    return want;
}

void weft__idle_run_hook(void)
{
    (void)atomic_u32_and_acq_rel(&weft__sched.starving,
                                 ~(uint32_t)(STARVING_OTHERS | STARVING_LIMITED));
    if (atomic_u32_load_acquire(&hooks.set) != 0)
        hooks.act();
}

static int64_t spaced(int64_t event)
{
    int64_t least = weft__os_now() + EVENT_SPACE;
    return event < least ? least : event;
}

/* Whether a dozing machine wakes up for the event. For one that never comes it does not matter. */
static bool is_kept(int64_t event)
{
    return event < WHEEL_EMPTY - WATCH_EVERY &&
           atomic_i64_load_relaxed(&weft__sched.doze_until) <= event;
}

/* When the watcher wakes up for the next event: with a dozing machine in charge, later. */
static int64_t watch_until(void)
{
    int64_t event = next_event();
    return spaced(is_kept(event) ? event + WATCH_EVERY : event);
}

/* Whether timers are due that no dozing machine is about to fire. */
static bool timers_wait(int64_t now)
{
    int64_t next = weft__timers_next();
    return next <= now && (!is_kept(next) || next + WATCH_EVERY <= now);
}

/* Sleeps in the poller until the machine is woken, has work to come back for, or no processor is
 * idle; false in the last case. Before each look that precedes a sleep, sleep_until is WHEEL_EMPTY
 * and a barrier_heavy has passed: a thread that arms a timer either sees that and pokes the
 * watcher, or its timer is seen. */
static bool watch(struct machine *machine)
{
    int64_t interval = look_at_busy() != ALL_WELL ? WATCH_FIRST : WATCH_EVERY;
    while (atomic_u32_load_acquire(&machine->wake) != WAKE_ASSIGNED) {
        uint32_t idle = atomic_u32_load_relaxed(&weft__sched.idle_count);
        bool busy = idle < processors_in_use();
        if (idle == 0)
            return false;
        int64_t until = watch_until();
        if (busy)
            until = earlier(until, weft__os_now() + interval);
        else if (weft__sched.deadlock_check && weft__timers_next() == WHEEL_EMPTY)
            until = earlier(until, weft__deadlock_check());
        atomic_i64_store_relaxed(&weft__sched.sleep_until, until);
        weft__poller_wait(until);
        int64_t now = weft__os_now();
        weft__maintenance_run(now);
        if (busy)
            weft__processors_remind(now);
        enum found busy_ones = look_at_busy();
        bool run_hook = hook_wants(busy), queued = !weft__idle_queues_empty();
        bool stuck = busy_ones == FIBERS_STUCK;
        if ((timers_wait(now) || stuck || run_hook || queued) && rejoin(machine)) {
            machine->by_clock = !stuck && !run_hook && !queued;
            machine->runs_hook =
                run_hook; /* not before: an idle machine may be assigned a processor */
            return true;
        }
        interval = watch_interval(interval, busy_ones);
        atomic_i64_store_relaxed(&weft__sched.sleep_until, WHEEL_EMPTY);
        barrier_heavy();
    }
    return true;
}

int64_t weft__idle_surplus_after = 5 * WEFT_S;

/* True: the machine has left the lists, and must end. */
static bool leave_if_surplus(struct machine *machine)
{
    lock_acquire(&weft__sched.lock);
    if (machine->idle && weft__sched.machine_count > processors_in_use() && !weft__sched.closing &&
        !atomic_u32_load_relaxed(&weft__sched.stopping)) {
        remove_idle_machine(machine);
        *machine->link = machine->next;
        if (machine->next != NULL)
            machine->next->link = machine->link;
        weft__sched.machine_count--;
        machine->surplus = true;
        machine->next = weft__sched.ended;
        weft__sched.ended = machine;
        weft__sched.reap_pause = WEFT_MS;
    }
    lock_release(&weft__sched.lock);
    if (machine->surplus) { /* maintenance joins it */
        int64_t soon = weft__os_now() + WEFT_MS;
        weft__maintenance_by(soon);
        weft__timers_notify(soon);
    }
    return machine->surplus;
}

/* Takes charge of the next event, unless a dozing machine has an earlier one. Returns when to wake
 * up for it; WEFT_NEVER: the machine is not in charge. */
static int64_t doze_begin(void)
{
    int64_t until = next_event();
    int64_t kept = atomic_i64_load_relaxed(&weft__sched.doze_until);
    while (until < kept && atomic_u32_load_relaxed(&weft__sched.idle_count) > 0)
        if (atomic_i64_cas_acq_rel(&weft__sched.doze_until, &kept, until))
            return until;
    return WEFT_NEVER;
}

static void doze_end(int64_t until)
{
    if (until == WEFT_NEVER)
        return;
    /* Fails if a machine with an earlier event has taken charge. */
    (void)atomic_i64_cas_acq_rel(&weft__sched.doze_until, &until, WEFT_NEVER);
    barrier_light();
}

/* Sleeps until the machine is woken, until an event that it is in charge of, or until the machine
 * is surplus. True: it is to watch. */
static bool doze(struct machine *machine)
{
    uint32_t wake;
    int64_t leave = WEFT_NEVER;
    if (atomic_u32_load_relaxed(&weft__sched.idle_count) < processors_in_use())
        watch_soon();
    if (atomic_u32_load_relaxed(&weft__sched.surplus))
        leave = weft__os_now() + weft__idle_surplus_after;
    while ((wake = atomic_u32_load_acquire(&machine->wake)) == WAKE_NOT) { /* signal_machine */
        int64_t until = doze_begin();
        int error = weft__os_futex_wait(&machine->wake, WAKE_NOT, earlier(spaced(until), leave));
        doze_end(until);
        if (error != -ETIMEDOUT)
            continue;
        int64_t now = weft__os_now();
        if (now >= leave) {
            if (leave_if_surplus(machine))
                return false;
            leave = WEFT_NEVER;
        }
        weft__maintenance_run(now);
        bool run_hook = hook_starves();
        if ((weft__timers_next() <= now || run_hook) && rejoin(machine)) {
            machine->by_clock = !run_hook;
            machine->runs_hook = run_hook;
            return false;
        }
    }
    return wake == WAKE_TO_WATCH && atomic_u32_cas_acq_rel(&machine->wake, &wake, WAKE_NOT);
}

/* No processor is idle, so no watcher is needed. */
static void stand_down(void)
{
    atomic_i64_store_relaxed(&weft__sched.sleep_until, NO_WATCHER);
    atomic_ptr_exchange_seq_cst(&weft__sched.watcher, NULL);
    barrier_heavy();
    if (atomic_u32_load_relaxed(&weft__sched.idle_count) > 0)
        weft__wake_one(); /* one became idle meanwhile, and its machine relied on this watcher */
}

/* Lists the machine as the watcher if there is none, and sleeps. `without`: the machine had no
 * processor when it retired, and does not look at the queues. True: it is to watch. */
static bool sleep_once(struct machine *machine, bool without)
{
    void *none = NULL;
    bool watching = !without && atomic_ptr_cas_seq_cst(&weft__sched.watcher, &none, machine);
    if (watching)
        atomic_i64_store_relaxed(&weft__sched.sleep_until, WHEEL_EMPTY);
    if (!without)
        barrier_heavy();
    if (atomic_u32_load_relaxed(&weft__sched.draining))
        weft__runtime_quiet();
    if (without)
        weft__deadlock_recheck(); /* the watcher may have checked before this machine was idle */
    bool back = !without && !weft__idle_queues_empty() && rejoin(machine);
    if (watching && !back && !watch(machine)) {
        stand_down();
        watching = false;
    }
    if (watching) {
        atomic_i64_store_relaxed(&weft__sched.sleep_until, NO_WATCHER);
        atomic_ptr_exchange_seq_cst(&weft__sched.watcher, NULL);
    }
    return !watching && !back && doze(machine);
}

/* Sleeps until a processor is assigned to the machine, the runtime stops, or the machine is
 * surplus. */
static void sleep_idle(struct machine *machine, bool without)
{
    while (sleep_once(machine, without))
        without = false;
    atomic_u32_store_relaxed(&machine->wake, WAKE_NOT);
}

bool weft__idle_retire(struct machine *machine)
{
    struct processor *processor = machine->thread.processor;
    if (processor != NULL) {
        weft__stack_cache_flush(&processor->stacks);
        weft__maintenance_plan();
        atomic_u32_store_relaxed(&processor->wasted_wakes, 0);
        atomic_ptr_store_release(&processor->owner, NULL);
        machine->thread.processor = NULL;
    }
    machine->notify_timer = false; /* all wheels are looked at before a machine sleeps */
    bool spun = machine->spinning;
    machine->spinning =
        false; /* in the idle list it belongs to the thread that wakes the machine */
    lock_acquire(&weft__sched.lock);
    machine->assigned = NULL;
    machine->by_clock = false;
    if (processor != NULL)
        weft__idle_push(processor);
    push_idle_machine(machine);
    atomic_u32_store_relaxed(&weft__sched.surplus, weft__sched.machine_count > processors_in_use());
    lock_release(&weft__sched.lock);
    if (spun)
        atomic_u32_sub_seq_cst(&weft__sched.spinning, 1);
    if (!atomic_u32_load_acquire(&weft__sched.stopping))
        sleep_idle(machine, processor == NULL);
    if (atomic_u32_load_acquire(&weft__sched.stopping) || machine->surplus)
        return false;
    weft__idle_begin(machine);
    return true;
}

void weft__idle_begin(struct machine *machine)
{
    weft__processor_acquire(machine, machine->assigned);
    if (machine->runs_hook || machine->assigned_hook) {
        machine->runs_hook = machine->assigned_hook = false;
        weft__idle_run_hook();
    }
}

void weft__idle_stop(void)
{
    atomic_u32_exchange_seq_cst(&weft__sched.stopping, 1);
    lock_acquire(&weft__sched.lock);
    for (struct machine *machine = weft__sched.machines; machine != NULL; machine = machine->next)
        atomic_u32_exchange_seq_cst(&machine->wake, WAKE_ASSIGNED);
    lock_release(&weft__sched.lock);
    weft__poller_wake();
    for (struct machine *machine = weft__sched.machines; machine != NULL; machine = machine->next)
        weft__os_futex_wake(&machine->wake, 1);
}
