/*
 * idle.c: idle processors and machines: nothing that is ready is forgotten, and nobody burns CPU.
 *
 * A machine without work searches for some microseconds (steal.c), then retires: it gives its
 * processor to the idle list and sleeps. One of the sleepers is the watcher: it sleeps in the
 * poller until the next timer of any processor. The others doze: until they are woken, or until a
 * timer that came after the watcher had gone to sleep.
 *
 * Nothing is forgotten. Whoever makes a fiber ready first publishes it and then looks for idle
 * processors; whoever retires first shows itself as idle and then looks for work once more:
 *
 *     ready:   publish in a queue;  barrier_light;   idle > 0 and nobody spins: wake one
 *     retire:  idle + 1, spinning - 1;  barrier_heavy;  any queue not empty: come back
 *
 * At least one of them sees the other. If somebody spins, that one looks again: at the retire, or if
 * it finds something, when it lowers the count; the last spinner then wakes another if there is more
 * anywhere, so that work spreads as fast as machines wake. Whoever sees an idle processor wakes an idle
 * machine for it, or makes one.
 *
 * There may be more idle machines than idle processors: those that came back from C code and found their
 * processor gone (handoff.c). Such a one sleeps until it is given a processor. While no processor is idle
 * nobody watches: timers are looked at by those who run fibers, or by the monitor; a watcher that finds
 * that all processors were taken meanwhile stands down. (It clears the watch, barrier_heavy, looks for
 * idle processors; a machine that retires shows its processor first and then competes for the watch: so
 * there is one, or it is woken.) A processor that is given up without its machine (weft__idle_give) is
 * treated as if somebody had just been woken for it in vain. Machines that are idle for long, while there
 * are more of them than processors, end.
 *
 * If nobody can be woken (no thread can be made, or the idle processor was taken meanwhile), the
 * count of spinners was raised for nothing for a moment, and others may have relied on it: so it is
 * lowered, and after a barrier_heavy the queues and the watch are looked at again, if there is anyone
 * asleep. If all machines are awake there is not, and each of them comes to the queues by itself; or it
 * is stuck in C code, and the monitor tries again.
 *
 * The same pair of barriers keeps timers from being forgotten: sleep_until is what is shown, the
 * wheels are what is looked at (firing.c). Who stops sleeping for a timer, because it found work,
 * makes sure that another does: it pokes the watcher, or wakes one if there is none.
 *
 * While some processor is busy the watcher wakes up from time to time (after 50 us if fibers wait
 * there, doubled each time to 10 ms) and looks whether they are stuck behind one that does not come
 * back to the runtime: in a ring, or in a runnext, which is not looked at otherwise. When all are idle
 * it does not.
 *
 * A fiber in a runnext, alone, is about to run: whoever is called for it comes too late, most often, and takes the lines that its
 * processor writes. So a processor counts how often that was in vain, and calls nobody from the 16th time on. Instead
 * the watcher looks there every 400 us at least, and if the same fiber waits for 10 us it takes it, as any thief would; that sets the count
 * back. So does a look that finds the processor in the same turn, with nobody waiting: the hand-overs are over. (If its owner counts
 * at that moment the one or the other is lost: some more calls, or fewer.) The watcher may sleep for 10 ms when a processor ceases to
 * call, since it was not the one who was called: so it is poked. Nothing is lost if there is no watcher at that moment, as invariant 2 in
 * machine.c has it: some machine is awake then, and the next that retires watches.
 *
 * Lock order: weft__sched.lock is the last but for that of the inject queue.
 *
 * Rejected: a dozer that pokes the watcher instead of keeping the time itself: each sleep of a lone
 * fiber then costs two more wake-ups. A woken machine that always wakes the next one, as Go has it:
 * the same, and 20 us of spinning.
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
#define WATCH_ALONE (400 * WEFT_US) /* if nobody else is called */

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

static void signal_machine(struct machine *machine)
{
    /* Pairs with the watcher's order: it shows itself, then looks at `wake`. */
    atomic_u32_exchange_seq_cst(&machine->wake, 1);
    if (atomic_ptr_load_seq_cst(&weft__sched.watcher) == machine)
        weft__poller_wake();
    else
        weft__os_futex_wake(&machine->wake, 1);
}

/* Called with the count of spinners raised for the new machine. */
static bool start_machine(struct processor *processor, bool run_hook)
{
    static atomic_u32 said, said_bound;
    int error = weft__machine_start(processor, run_hook);
    if (error != 0)
        atomic_u32_store_relaxed(&weft__sched.refused, (uint32_t)-error);
    if (error == -EUSERS && atomic_u32_exchange_acq_rel(&said_bound, 1) == 0)
        weft__warn(
            "all %u threads that there may be are in use: fibers wait until one comes back from "
            "the C "
            "code that it runs (WEFT_MAX_MACHINES or weft_config.max_machines raises the bound)",
            weft__sched.max_machines);
    if (error != 0 && error != -EUSERS && atomic_u32_exchange_acq_rel(&said, 1) == 0)
        weft__warn("cannot start a thread (%s): going on with fewer", weft_strerror(error));
    return error == 0;
}

/* A machine to wake, the watcher last, since its place would have to be filled; under the lock. */
static struct machine *sleeper(void)
{
    struct machine *machine = weft__sched.idle_machines;
    if (machine != NULL && machine->idle_next != NULL &&
        machine == atomic_ptr_load_seq_cst(&weft__sched.watcher))
        machine = machine->idle_next;
    return machine;
}

/* False: nobody could be woken, and while this was tried others may have relied on it. */
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
    barrier_heavy(); /* who made a fiber ready meanwhile took us for a spinner, or we see it now */
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

/* The next time that somebody must be awake: for a timer, or for housekeeping. */
static int64_t next_event(void)
{
    return earlier(weft__timers_next(), atomic_i64_load_relaxed(&weft__sched.maintenance_time));
}

/* True if a machine sleeps that could run what is ready, or must watch. What a last spinner would do
 * (weft__idle_found) is done here too: it may have left it to us. */
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

/* Makes sure that the watcher looks soon at those who are busy. */
static void watch_soon(void)
{
    int64_t until = atomic_i64_load_relaxed(&weft__sched.sleep_until);
    if (until != NO_WATCHER && until > weft__os_now() + WATCH_EVERY)
        weft__poller_wake();
}

noinline bool weft__wake_if_idle(void)
{
    /* If somebody spins, that one will look again; unless it has just found something else. Its change
     * of the count and this one are in some order: either it sees what we published, or we see that
     * it is gone. */
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
        watch_soon(); /* there is one more who may be stuck, and one more who may end up waiting */
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
    barrier_heavy(); /* who makes a fiber ready sees that it is idle, or we see the fiber */
    int64_t until = atomic_i64_load_relaxed(&weft__sched.sleep_until);
    if (until == NO_WATCHER || !weft__idle_queues_empty())
        weft__wake_one();
    else if (next_event() < until)
        weft__poller_wake();
}

/* Spinning. */

bool weft__idle_may_spin(struct machine *machine)
{
    if (seeded())
        return false; /* there is no other processor, and what it found would pass by the choice */
    if (machine->spinning)
        return true;
    uint32_t busy = processors_in_use() - atomic_u32_load_relaxed(&weft__sched.idle_count);
    if (2 * atomic_u32_load_relaxed(&weft__sched.spinning) >= busy)
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
    if (until == NO_WATCHER || !weft__idle_queues_empty())
        weft__wake_one();
    else if (next_event() < until)
        weft__poller_wake(); /* this machine may have slept for that, and will not now */
    else
        watch_soon();
}

/* Retiring. */

void weft__processor_acquire(struct machine *machine, struct processor *processor)
{
    machine->thread.processor = processor;
    machine->thread.fibers = &processor->fibers;
    processor->stamp = (uint32_t)(weft__os_now_coarse() >> STAMP_SHIFT);
    /* Pairs with the acquire in weft__claim: who sees us as the owner sees us inside. */
    atomic_ptr_store_release(&processor->owner, &machine->thread);
}

/* Takes the machine back from the idle list, with a processor. False: somebody else has taken it
 * and wakes it. */
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

/* What the watcher finds at the busy processors, the worst last. */
enum found { ALL_WELL, FIBERS_WAIT, WAKES_OFF, FIBERS_STUCK };

/* Whether the fiber that the processor has next waits for as long as a thief would let it. */
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

/* Fibers that wait on a processor are stuck if it has not changed fibers since the last look; or if nobody else is called for
 * them, for some time now. */
static enum found look_at(struct processor *processor)
{
    uint32_t turn = atomic_u32_load_relaxed(&processor->turn), before = processor->watched_turn;
    bool wait = has_fibers(processor);
    processor->watched_turn = turn;
    if (wait && turn == before)
        return FIBERS_STUCK;
    if (turn == before)
        atomic_u32_store_relaxed(&processor->wasted_wakes, 0); /* no hand-overs any more: it calls again */
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

/* Until the next look. */
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

/* Whether they wait for more than a fiber to end. */
static bool hook_starves(void)
{
    return (atomic_u32_load_relaxed(&weft__sched.starving) & STARVING_OTHERS) != 0;
}

/* By the watcher: whether they have something to do. If they do not starve any more, it is forgotten that they did. */
static bool hook_wants(bool busy)
{
    bool starve = hook_starves();
    if (starve)
        (void)atomic_u32_and_acq_rel(&weft__sched.starving, ~(uint32_t)STARVING_OTHERS);
    bool want = (busy || starve) && weft__idle_hook_pending();
    if (want && starve) /* until it is done */
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

/* Sleeps in the poller until woken, or until there is something to come back for, or no processor is idle.
 * sleep_until shows WHEEL_EMPTY, and a barrier_heavy has passed, whenever it looks before it sleeps: who
 * arms a timer then sees that and pokes, or is seen. False: no processor is idle. */
static bool watch(struct machine *machine)
{
    int64_t interval = look_at_busy() != ALL_WELL ? WATCH_FIRST : WATCH_EVERY;
    while (!atomic_u32_load_acquire(&machine->wake)) {
        uint32_t idle = atomic_u32_load_relaxed(&weft__sched.idle_count);
        bool busy = idle < processors_in_use();
        if (idle == 0)
            return false;
        int64_t until = next_event();
        if (busy)
            until = earlier(until, weft__os_now() + interval);
        else if (weft__sched.deadlock_check && weft__timers_next() == WHEEL_EMPTY)
            until = earlier(until, weft__deadlock_check());
        atomic_i64_store_relaxed(&weft__sched.sleep_until, until);
        weft__poller_wait(until);
        int64_t now = weft__os_now();
        weft__housekeep(now);
        if (busy)
            weft__processors_remind(now);
        enum found busy_ones = look_at_busy();
        bool run_hook = hook_wants(busy);
        bool work = weft__timers_next() <= now || busy_ones == FIBERS_STUCK || run_hook ||
                    !weft__idle_queues_empty();
        if (work && rejoin(machine)) {
            machine->runs_hook = run_hook; /* not before: until then others may assign it something to do */
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
    if (machine->surplus) { /* somebody is to join it */
        int64_t soon = weft__os_now() + WEFT_MS;
        weft__housekeep_by(soon);
        weft__timers_notify(soon);
    }
    return machine->surplus;
}

/* Sleeps until woken, or until something that the watcher would sleep past; or until the machine is surplus. */
static void doze(struct machine *machine)
{
    int64_t leave = WEFT_NEVER;
    if (atomic_u32_load_relaxed(&weft__sched.idle_count) < processors_in_use())
        watch_soon();
    if (atomic_u32_load_relaxed(&weft__sched.surplus))
        leave = weft__os_now() + weft__idle_surplus_after;
    while (!atomic_u32_load_acquire(&machine->wake)) { /* pairs with signal_machine */
        int64_t until = next_event();
        if (until >= atomic_i64_load_relaxed(&weft__sched.sleep_until) ||
            atomic_u32_load_relaxed(&weft__sched.idle_count) == 0)
            until = WEFT_NEVER;
        if (weft__os_futex_wait(&machine->wake, 0, earlier(until, leave)) != -ETIMEDOUT)
            continue;
        int64_t now = weft__os_now();
        if (now >= leave) {
            if (leave_if_surplus(machine))
                return;
            leave = WEFT_NEVER;
        }
        weft__housekeep(now);
        bool run_hook = hook_starves();
        if ((weft__timers_next() <= now || run_hook) && rejoin(machine)) {
            machine->runs_hook = run_hook;
            return;
        }
    }
}

/* No processor is idle: nobody needs to watch. */
static void stand_down(void)
{
    atomic_i64_store_relaxed(&weft__sched.sleep_until, NO_WATCHER);
    atomic_ptr_exchange_seq_cst(&weft__sched.watcher, NULL);
    barrier_heavy();
    if (atomic_u32_load_relaxed(&weft__sched.idle_count) > 0)
        weft__wake_one(); /* one became idle meanwhile, and its machine relied on this one */
}

/* Sleeps until there is a processor assigned to the machine, or the runtime stops, or the machine is
 * surplus. `without`: it brought no processor with it. */
static void sleep_idle(struct machine *machine, bool without)
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
        weft__deadlock_ask(); /* the watcher may have looked when this one was not idle yet */
    bool back = !without && !weft__idle_queues_empty() && rejoin(machine);
    if (watching && !back && !watch(machine)) {
        stand_down();
        watching = false;
    }
    if (watching) {
        atomic_i64_store_relaxed(&weft__sched.sleep_until, NO_WATCHER);
        atomic_ptr_exchange_seq_cst(&weft__sched.watcher, NULL);
    } else if (!back) {
        doze(machine);
    }
    atomic_u32_store_relaxed(&machine->wake, 0);
}

bool weft__idle_retire(struct machine *machine)
{
    struct processor *processor = machine->thread.processor;
    if (processor != NULL) {
        weft__stack_cache_flush(&processor->stacks);
        weft__housekeep_plan();
        atomic_u32_store_relaxed(&processor->wasted_wakes, 0);
        atomic_ptr_store_release(&processor->owner, NULL);
        machine->thread.processor = NULL;
    }
    machine->notify_timer = false; /* all wheels are looked at before it sleeps */
    bool spun = machine->spinning;
    machine->spinning = false; /* once it is listed this belongs to the one who wakes it */
    lock_acquire(&weft__sched.lock);
    machine->assigned = NULL;
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
        atomic_u32_exchange_seq_cst(&machine->wake, 1);
    lock_release(&weft__sched.lock);
    weft__poller_wake();
    for (struct machine *machine = weft__sched.machines; machine != NULL; machine = machine->next)
        weft__os_futex_wake(&machine->wake, 1);
}
