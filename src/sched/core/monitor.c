/*
 * monitor.c: the thread that finds machines which are stuck in C code while fibers wait.
 *
 * While a processor is idle there is a watcher, an idle machine that finds fibers behind a machine
 * that does not come back (idle.c). While no processor is idle the monitor does this. It runs no
 * code of the program, and has a thread of its own because every machine may be stuck.
 *
 *     ASLEEP   a processor is idle, there is a watcher, and nothing waits: sleeps without a timeout
 *     AWAKE    looks after 20 us, then after twice as long each time, up to 10 ms; or up to 1 ms if
 *              it had to retake a processor in the last second. If a machine is suspected, it also
 *              looks at the next timer.
 *     STOPPED  the runtime stops
 *
 * The thread that takes the last idle processor pokes the monitor if it is asleep. The monitor
 * falls asleep only after an interval of 1 ms or more, so that a program whose processors are idle
 * and busy in turns pays for it at most some hundred times a second.
 *
 * What waits: for one processor, the fibers in its ring and runnext and the timers that are due on
 * its wheel; for any processor, the fibers in the inject queue, events in the poller, and what the
 * hook of the idle machines reports (weft__idle_hook_pending).
 *
 * What is stuck: a machine is a suspect if it was outside the runtime and in the same turn at two
 * looks while something waits. The CPU time of its thread tells whether it blocks or computes. If
 * it used less than a quarter of the time between two looks, it blocks, and loses its processor at
 * once. If it computes, it keeps the processor for a slice of 10 ms: if it lost it as early, each
 * fiber that computes for 100 us would cost a thread switch. (A thread that lost its CPU to
 * another process looks as if it blocked, and loses its processor too. That costs some
 * microseconds, and lets the other fibers run.)
 *
 * The monitor also keeps the time for machines that are not stuck. Processors look at the inject
 * queue and the poller every 61st turn, or when weft__sched.epoch has changed, which the monitor
 * changes at each look.
 *
 * If no machine could be had for a retaken processor, the monitor tries again at the longest
 * interval, and polls itself, since threads may wait for descriptors as well. If that lasts for a
 * second it is reported (stall.c).
 *
 * Rejected: the state of the thread in /proc. It is exact, but costs 4 us a look, and some
 * containers do not have it. Also rejected: the slice alone. 64 fibers that block at the same time
 * on 2 processors would delay all others by 320 ms.
 */
#include "sched/core/monitor.h"

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/check/stall.h"
#include "sched/core/handoff.h"
#include "sched/core/idle.h"
#include "sched/core/inject.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/poll/poller.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include <weft/runtime.h>

#define LOOK_FIRST (20 * WEFT_US)
#define LOOK_MOST (10 * WEFT_MS)
#define LOOK_MOST_HOT WEFT_MS /* for some time after a processor was retaken */
#define HOT_TIME WEFT_S
#define SLICE (10 * WEFT_MS)
#define START_AGAIN WEFT_S

enum { AWAKE, ASLEEP, STOPPED };

/* What the monitor has seen of a processor. */
struct seen {
    struct thread *owner;
    uint32_t turn;
    bool measured;         /* `used` is set */
    int64_t since;         /* when the processor was first seen in this turn */
    int64_t used, used_at; /* CPU time of the owner's thread, and when it was read */
};

static struct {
    atomic_u32 state; /* futex; ASLEEP is entered and left under the scheduler's lock */
    bool runs;        /* the thread exists; under the scheduler's lock */
    int64_t tried;    /* when its start was last tried */
    weft__os_thread handle;
    int64_t retook; /* when a processor was last retaken */
    struct seen seen[WEFT_PROCS_MAX];
} monitor;

/* The result of one look at all processors. */
struct found {
    bool suspects, retaken, failed;
};

static bool waits_here(const struct processor *processor, int64_t now)
{
    return has_fibers(processor) || atomic_i64_load_relaxed(&processor->wheel.next) <= now;
}

/* True if the processor is where it was at the last look, with its machine outside the runtime. */
static bool has_not_moved(struct processor *processor, struct seen *seen, int64_t now)
{
    struct thread *owner = atomic_ptr_load_acquire(&processor->owner);
    uint32_t turn = atomic_u32_load_relaxed(&processor->turn);
    bool same = owner != NULL && owner == seen->owner && turn == seen->turn;
    if (!same)
        *seen = (struct seen){.owner = owner, .turn = turn, .since = now};
    return same && atomic_u32_load_relaxed(&owner->inside) == 0;
}

/* Whether a suspect blocks, or has computed for a slice. */
static bool is_stuck(struct seen *seen, int64_t now)
{
    int64_t used = weft__os_thread_time(((struct machine *)seen->owner)->cpu_clock);
    bool blocks = seen->measured && used >= 0 && 4 * (used - seen->used) < now - seen->used_at;
    seen->measured = used >= 0;
    seen->used = used;
    seen->used_at = now;
    return blocks || now - seen->since >= SLICE;
}

/* How much waits for any processor: at most so many processors are retaken for it. */
static uint32_t waits_anywhere(void)
{
    return weft__inject_length() + weft__idle_hook_pending() + weft__poller_ready();
}

static void look_at(struct processor *processor, struct seen *seen, int64_t now, uint32_t *anywhere,
                    struct found *found)
{
    bool here = waits_here(processor, now);
    if (!here && *anywhere == 0)
        return;
    found->suspects = true;
    if (!is_stuck(seen, now))
        return;
    enum retaken retaken = weft__retake(processor, seen->turn);
    found->retaken |= retaken == RETAKEN;
    found->failed |= retaken == NO_MACHINE;
    if (retaken == RETAKEN && !here)
        --*anywhere;
}

static struct found look(int64_t now)
{
    struct found found = {false, false, false};
    bool asked = false;
    uint32_t anywhere = 0;
    for (uint32_t i = 0; i < processor_count(); i++) {
        struct processor *processor = &weft__sched.processors[i];
        struct seen *seen = &monitor.seen[i];
        if (!has_not_moved(processor, seen, now))
            continue;
        if (!asked)
            anywhere = waits_anywhere();
        asked = true;
        look_at(processor, seen, now, &anywhere, &found);
    }
    return found;
}

/* While a processor is idle: true if no machine watches, or fibers wait. Then no machine could be
 * woken for them, or to watch; or a machine is about to come, and this look was too early to see
 * it. */
static bool work_unattended(void)
{
    return atomic_i64_load_relaxed(&weft__sched.sleep_until) == NO_WATCHER ||
           !weft__idle_queues_empty();
}

/* Threads may wait for descriptors, and need no machine to continue. */
static void poll_for_threads(void)
{
    if (poller_used())
        (void)weft__poller_poll();
}

/* Sleeps until the monitor is poked, if it is not needed. True: it slept. */
static bool sleep_if_not_needed(void)
{
    lock_acquire(&weft__sched.lock);
    bool needed = atomic_u32_load_relaxed(&weft__sched.idle_count) == 0 || work_unattended();
    if (!needed && atomic_u32_load_relaxed(&monitor.state) == AWAKE)
        atomic_u32_store_relaxed(&monitor.state, ASLEEP);
    lock_release(&weft__sched.lock);
    if (needed)
        return false;
    while (atomic_u32_load_acquire(&monitor.state) == ASLEEP)
        (void)weft__os_futex_wait(&monitor.state, ASLEEP, WEFT_NEVER);
    return true;
}

/* When to look next, after a look that has found this. */
static int64_t next_look(struct found found, int64_t now, int64_t *interval)
{
    int64_t most = now - monitor.retook < HOT_TIME ? LOOK_MOST_HOT : LOOK_MOST;
    if (found.retaken)
        *interval = LOOK_FIRST;
    else if (found.failed)
        *interval = LOOK_MOST;
    else
        *interval = 2 * *interval < most ? 2 * *interval : most;
    int64_t next = now + *interval, timer = weft__timers_next();
    if (found.suspects && !found.failed && timer < next)
        next = timer > now + LOOK_FIRST ? timer : now + LOOK_FIRST;
    return next;
}

static void *monitor_main(void *arg)
{
    (void)arg;
    weft__os_thread_begin_quiet("weft-monitor");
    int64_t interval = LOOK_FIRST;
    int64_t next = weft__os_now() + interval;
    weft__stall_begin();
    while (atomic_u32_load_acquire(&monitor.state) != STOPPED) {
        (void)weft__os_futex_wait(&monitor.state, AWAKE, next);
        int64_t now = weft__os_now();
        struct found found = {false, false, false};
        int64_t retired = WHEEL_EMPTY;
        bool alone = false;
        if (atomic_u32_load_relaxed(&weft__sched.idle_count) == 0) {
            atomic_u32_add_relaxed(&weft__sched.epoch, 1);
            found = look(now);
            if (found.failed)
                poll_for_threads();
            retired = weft__timers_fire_retired(now);
        } else if (work_unattended()) {
            weft__wake_one();
            poll_for_threads();
            alone = work_unattended() && (!weft__idle_queues_empty() || weft__timers_next() <= now);
        }
        weft__stall_look(now, found.failed || alone);
        weft__processors_look(now);
        if (found.retaken)
            monitor.retook = now;
        if (interval >= LOOK_MOST_HOT && !found.suspects && sleep_if_not_needed()) {
            interval = LOOK_FIRST / 2;
            now = weft__os_now();
        }
        next = next_look(found, now, &interval);
        if (retired < next)
            next = retired;
    }
    return NULL;
}

/* Under the scheduler's lock, or while nothing runs. */
static void start_thread(void)
{
    static atomic_u32 warned;
    int error = weft__os_thread_start(&monitor.handle, monitor_main, NULL);
    monitor.runs = error == 0;
    monitor.tried = weft__os_now();
    if (error != 0 && atomic_u32_exchange_acq_rel(&warned, 1) == 0)
        weft__warn(
            "cannot start the thread that looks after blocking code (%s): until there is one, a "
            "fiber that blocks its thread keeps its processor",
            weft_strerror(error));
}

void weft__monitor_start(void)
{
    atomic_u32_store_relaxed(&monitor.state, AWAKE);
    monitor.retook = INT64_MIN / 2;
    lock_acquire(&weft__sched.lock);
    start_thread();
    lock_release(&weft__sched.lock);
}

void weft__monitor_stop(void)
{
    lock_acquire(&weft__sched.lock);
    atomic_u32_store_release(&monitor.state, STOPPED); /* pairs with monitor_main */
    bool runs = monitor.runs;
    monitor.runs = false;
    monitor.tried = WEFT_NEVER; /* not again */
    lock_release(&weft__sched.lock);
    weft__os_futex_wake(&monitor.state, 1);
    if (runs)
        weft__os_thread_join(monitor.handle);
}

void weft__monitor_poke(void)
{
    if (unlikely(!monitor.runs)) {
        if (monitor.tried != WEFT_NEVER && weft__os_now() - monitor.tried >= START_AGAIN)
            start_thread();
    } else if (atomic_u32_load_relaxed(&monitor.state) == ASLEEP) {
        atomic_u32_store_relaxed(&monitor.state, AWAKE);
        weft__os_futex_wake(&monitor.state, 1);
    }
}

uint32_t weft__monitor_threads(void)
{
    return monitor.runs;
}
