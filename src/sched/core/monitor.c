/*
 * monitor.c: the thread that finds machines which are stuck in C code, while others wait.
 *
 * As long as a processor is idle its machine, the watcher, sees to those who wait behind a machine that does
 * not come back (idle.c). When no processor is idle nobody would look: that is when the monitor does. It runs
 * nothing of the program's, and is a thread of its own since every machine may be stuck.
 *
 *     ASLEEP   a processor is idle, somebody watches, and nothing waits: sleeps without an end
 *     AWAKE    looks, after 20 us first, then after twice as long each time, to 10 ms; or to 1 ms if it had
 *              to retake a processor in the last second. If a machine is suspected, at the next timer too.
 *     STOPPED  the runtime stops
 *
 * Who takes the last idle processor pokes it, if it is asleep. It falls asleep only after a look at its
 * longest interval, so that a program whose processors are idle and busy in turns does not pay for it more
 * than some hundred times a second.
 *
 * What waits: fibers in the ring or the runnext of the processor itself, and timers that are due on its
 * wheel; and for any processor: fibers in the inject queue, events in the poller, and what the pools say.
 *
 * Who is stuck: a machine that was outside the runtime and in the same turn at two looks, while something
 * waits, is a suspect. Whether it blocks or computes is told by the CPU time of its thread. One that used less
 * than a quarter of the time between two looks blocks, and loses its processor at once. One that computes may
 * do so for a slice of 10 ms: if it were taken as early, each fiber that computes for 100 us would cost a thread
 * switch. (A thread that lost its CPU to another process looks as if it blocked. It then loses its processor too,
 * which costs some microseconds, and gives the others a chance to go on.)
 *
 * It also keeps the time for those who are not stuck: all processors look at the inject queue and at the poller
 * every 61st turn only, or when it says that some milliseconds have passed.
 *
 * If there was no machine to be had, it is tried again at the longest interval; and the monitor polls in its
 * place, since threads may wait for descriptors as well. If that lasts a second it is reported (stall.c).
 *
 * Rejected: the state of the thread in /proc: exact, but 4 us a look, and not there in every container. The
 * slice alone: 64 fibers that block at the same time on 2 processors would hold the others up for 320 ms.
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

/* What it has seen of a processor. */
struct seen {
    struct thread *owner;
    uint32_t turn;
    bool measured;         /* `used` is set */
    int64_t since;         /* it was first seen in this turn */
    int64_t used, used_at; /* CPU time of its thread, and when that was read */
};

static struct {
    atomic_u32 state; /* futex; ASLEEP is entered and left under the scheduler's lock */
    bool runs;        /* the thread exists; under the scheduler's lock */
    int64_t tried;    /* to start it, when that last failed */
    weft__os_thread handle;
    int64_t retook; /* when it last did */
    struct seen seen[WEFT_PROCS_MAX];
} monitor;

/* What one look found. */
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

/* A suspect: whether it has had its time. */
static bool is_stuck(struct seen *seen, int64_t now)
{
    int64_t used = weft__os_thread_time(((struct machine *)seen->owner)->cpu_clock);
    bool blocks = seen->measured && used >= 0 && 4 * (used - seen->used) < now - seen->used_at;
    seen->measured = used >= 0;
    seen->used = used;
    seen->used_at = now;
    return blocks || now - seen->since >= SLICE;
}

/* What waits for any processor: how many of them it is worth to retake for it. */
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

/* While a processor is idle: true if that is to be remedied. Nobody could be woken for what is ready, or to wake
 * up for timers and events. (It may also be that somebody is about to, and was not looked at in that moment.) */
static bool work_unattended(void)
{
    return atomic_i64_load_relaxed(&weft__sched.sleep_until) == NO_WATCHER ||
           !weft__idle_queues_empty();
}

/* Threads may wait for descriptors, and they need no machine to go on. */
static void poll_for_threads(void)
{
    if (poller_used())
        (void)weft__poller_poll();
}

/* True: it was asleep, or is to look or stop now. */
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

/* When to look next, if the last look found this. */
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
    static atomic_u32 said;
    int error = weft__os_thread_start(&monitor.handle, monitor_main, NULL);
    monitor.runs = error == 0;
    monitor.tried = weft__os_now();
    if (error != 0 && atomic_u32_exchange_acq_rel(&said, 1) == 0)
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
