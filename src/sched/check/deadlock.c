/*
 * deadlock.c: detects that no fiber and no thread can ever go on, reports what each waits for,
 * aborts.
 *
 * A deadlock is proven if at one moment
 *   1. every machine is idle: no fiber runs or is ready, none waits for a stack;
 *   2. no timer is armed, and no descriptor is waited for;
 *   3. every other thread of the process waits in weft, without a deadline and not woken yet.
 * Signal handlers do not count: they may not call weft.
 *
 * The watcher checks when it is about to sleep without a deadline. A thread that begins to wait
 * while all machines are idle wakes the watcher to check again. (The thread lists itself,
 * barrier_light, looks for idle processors; the machine marks itself idle, barrier_heavy, looks at
 * the list: the later one of the two sees the other.)
 *
 * "At one moment". A machine leaves the idle list under the scheduler's lock and counts that in
 * `wakes`:
 *
 *     all idle, wakes = n                only foreign threads can act
 *     threads of the process = t         a thread that acts later than this is in t
 *     those listed, unclaimed = t - machines
 *     all idle, queues empty, no timer, wakes = n still
 *
 * If the last line holds, no machine ran in between. A thread that woke a waiter before it listed
 * itself has changed what the last line reads; a thread that is not listed, or is woken, makes the
 * numbers differ. So there is no false report.
 *
 * There is no report without /proc, nor while a thread exists that does not wait in weft, since
 * that thread might wake a waiter. (A main thread that has called pthread_exit remains and counts
 * as a thread, so there is none after that.) The end of such a thread raises no event: while other
 * threads wait in weft, the watcher checks again at growing intervals.
 *
 * Lock order: that of the waits, then the scheduler's or the depot's.
 *
 * Backtraces. Only the fiber itself can read its backtrace, from its own stack. So each parked
 * fiber is resumed for a moment to do that (switch.h). For a compact fiber its frames are put in
 * place first; its hot stack is free, since no fiber runs.
 *
 * Groups. Fibers with the same name, spawn site, kind of wait and frames are shown once, so that
 * the report of a deadlock of 1,000 workers fits on a screen. A first walk over the fibers assigns
 * each to a group, then the first fiber of each group is printed.
 */
#include "sched/check/deadlock.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "os/membarrier.h"
#include "os/os.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/idle.h"
#include "sched/core/machine.h"
#include "sched/core/monitor.h"
#include "sched/core/park.h"
#include "sched/core/scheduler.h"
#include "sched/core/switch.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/poll/descriptor.h"
#include "sched/poll/poller.h"
#include "sched/runtime/maintenance.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"

/* Picked out of thin air: more groups than a reader looks at, as many fibers as can be read in a
 * second. */
enum { GROUPS_MOST = 256, LOOKED_AT_MOST = 100000, FRAMES_MOST = 48 };

#define LOOK_AGAIN_FIRST WEFT_S
#define LOOK_AGAIN_MOST (64 * WEFT_S)

static struct {
    struct lock lock;
    struct thread_wait *first;
} waits;

void weft__thread_wait_begin(struct thread_wait *wait)
{
    wait->since = weft__os_now();
    lock_acquire(&waits.lock);
    wait->next = waits.first;
    wait->link = &waits.first;
    if (wait->next != NULL)
        wait->next->link = &wait->next;
    waits.first = wait;
    lock_release(&waits.lock);
    /* Pairs with the start. A machine that read the list before this wait was in it has had the
     * lock before this thread: then the load sees that the runtime runs. */
    if (!atomic_u32_load_acquire(&weft__runtime_running))
        return;
    barrier_light();
    weft__deadlock_recheck();
}

void weft__deadlock_recheck(void)
{
    if (weft__sched.deadlock_check &&
        atomic_u32_load_relaxed(&weft__sched.idle_count) == processors_in_use() &&
        weft__timers_next() == WHEEL_EMPTY)
        weft__poller_wake();
}

void weft__thread_wait_end(struct thread_wait *wait)
{
    lock_acquire(&waits.lock);
    *wait->link = wait->next;
    if (wait->next != NULL)
        wait->next->link = wait->link;
    lock_release(&waits.lock);
}

void weft__thread_wait_fork(enum fork_step step)
{
    if (step == FORK_BEFORE) {
        lock_acquire(&waits.lock);
        return;
    }
    if (step == FORK_CHILD)
        waits.first = NULL; /* threads of the parent */
    lock_release(&waits.lock);
}

/* Returns the number of weft's own threads if all machines are idle and no fiber is ready or will
 * become ready by a timer or an event; else 0. */
static uint32_t idle_machines(uint32_t *wakes)
{
    bool idle = true;
    lock_acquire(&weft__sched.lock);
    uint32_t machines = weft__monitor_threads();
    for (struct machine *machine = weft__sched.machines; machine != NULL; machine = machine->next) {
        machines++;
        idle &= machine->idle;
    }
    *wakes = weft__sched.wakes;
    idle &= atomic_u32_load_relaxed(&weft__sched.idle_count) == processors_in_use() &&
            !(atomic_u32_load_relaxed(&weft__sched.starving) & STARVING_TIMED) &&
            !atomic_u32_load_relaxed(&weft__sched.stopping);
    lock_release(&weft__sched.lock);
    idle &= weft__idle_queues_empty() && weft__timers_next() == WHEEL_EMPTY &&
            weft__descriptor_waits() == 0;
    return idle ? machines : 0;
}

/* Returns how many threads wait; 0 if one of them is woken already. Under the lock of the waits. */
static uint32_t threads_stuck(bool *draining)
{
    uint32_t stuck = 0;
    *draining = false;
    for (struct thread_wait *wait = waits.first; wait != NULL; wait = wait->next) {
        if (wait->waiter == NULL)
            *draining = true;
        else if (atomic_u32_load_acquire(&wait->waiter->state) >= WAITER_CLAIMED)
            return 0;
        stuck++;
    }
    return stuck;
}

static void count_parked(struct weft_fiber *fiber, void *context)
{
    (void)fiber;
    ++*(uint64_t *)context;
}

/* The backtrace of the fiber that read_frames has resumed. */
static struct {
    void *at[FRAMES_MOST];
    int count;
} frames;

noinline void weft__deadlock_read_frames(struct machine *machine)
{
    struct weft_fiber *fiber = machine->thread.fiber;
    frames.count = weft__os_backtrace(frames.at, FRAMES_MOST);
    switch_to_machine(machine, fiber, false);
    must(!"a fiber was resumed that has shown its frames");
}

static void show_wait(const char *subject, const struct waiter *waiter, void *object, int64_t since)
{
    char where[32] = "";
    double seconds = (double)(weft__os_now() - since) / (double)WEFT_S;
    const struct wait_kind *kind = wait_kind_of(waiter);
    if (object != NULL && !kind->anonymous)
        snprintf(where, sizeof where, " %p", object);
    weft__warn("%s %s%s, for %.1f s", subject, kind->text, where, seconds);
}

/* Resumes the fiber so that it reads its backtrace. */
static void read_frames(struct weft_fiber *fiber)
{
    struct machine *machine = (struct machine *)thread_self();
    struct hot_stack *hot = NULL;
    bool starves;
    frames.count = 0;
    if (fiber->compact &&
        (hot = weft__compact_enter(&weft__sched.processors[0], fiber, &starves)) == NULL)
        return; /* no memory to save the frames of the resident */
    machine->thread.fiber = fiber;
    machine->parked = fiber;
    switch_to_fiber(machine, fiber);
    machine->thread.fiber = NULL;
    if (hot != NULL)
        weft__compact_leave(hot, fiber, ACTION_PARK);
}

static struct fiber_group {
    struct weft_fiber *first, *last;
    uint64_t count, frames_hash;
    bool one_object; /* all wait for the same object */
} groups[GROUPS_MOST];
static uint32_t group_count;
static uint64_t looked_at, not_shown;

static uint64_t hash_frames(void)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a, a word at a time */
    for (int i = 0; i < frames.count; i++)
        hash = (hash ^ (uintptr_t)frames.at[i]) * 1099511628211u;
    return hash;
}

static bool is_equal(const struct weft_fiber *a, const struct weft_fiber *b)
{
    return a->spawn_site == b->spawn_site && a->waiter.what == b->waiter.what &&
           strcmp(weft_fiber_name(a), weft_fiber_name(b)) == 0;
}

static void add_to_group(struct weft_fiber *fiber, void *context)
{
    (void)context;
    if (looked_at == LOOKED_AT_MOST) {
        not_shown++;
        return;
    }
    looked_at++;
    read_frames(fiber);
    uint64_t hash = hash_frames();
    for (uint32_t i = 0; i < group_count; i++) {
        struct fiber_group *group = &groups[i];
        if (group->frames_hash != hash || !is_equal(group->first, fiber))
            continue;
        group->count++;
        group->last = fiber;
        group->one_object &= fiber->object == group->first->object;
        return;
    }
    if (group_count == GROUPS_MOST)
        not_shown++;
    else
        groups[group_count++] = (struct fiber_group){
            .first = fiber, .last = fiber, .count = 1, .frames_hash = hash, .one_object = true};
}

static void show_group(const struct fiber_group *group)
{
    static const char spawned[] = "weft:   spawned at ", calls[] = "weft:   and waits in\n";
    struct weft_fiber *fiber = group->first;
    char subject[96];
    int64_t now = weft__os_now() >> STAMP_SHIFT;
    int64_t age = (int64_t)(uint32_t)((uint32_t)now - fiber->parked_at);
    const char *name = weft_fiber_name(fiber);
    snprintf(subject, sizeof subject, *name != '\0' ? "fiber %llu \"%s\"" : "fiber %llu",
             (unsigned long long)fiber->id, name);
    show_wait(subject, &fiber->waiter, fiber->object, (now - age) << STAMP_SHIFT);
    if (group->count > 1)
        weft__warn("  and %llu more do the same%s, the last of them fiber %llu",
                   (unsigned long long)(group->count - 1),
                   group->one_object ? "" : ", not all on one object",
                   (unsigned long long)group->last->id);
    weft__os_write_stderr(spawned, sizeof spawned - 1);
    weft__os_print_address(fiber->spawn_site);
    weft__os_write_stderr(calls, sizeof calls - 1);
    read_frames(fiber);
    for (int i = 0; i < frames.count; i++)
        weft__os_print_address(frames.at[i]);
}

_Noreturn static void report(uint64_t parked, uint32_t threads)
{
    weft__warn("deadlock: nothing is left that could wake a waiting fiber or thread (fibers: %llu, "
               "threads: %u)",
               (unsigned long long)parked, threads);
    weft__fiber_each_parked(add_to_group, NULL);
    for (uint32_t i = 0; i < group_count; i++)
        show_group(&groups[i]);
    if (not_shown > 0)
        weft__warn("and %llu fibers more", (unsigned long long)not_shown);
    for (struct thread_wait *wait = waits.first; wait != NULL; wait = wait->next)
        if (wait->waiter != NULL)
            show_wait("a thread", wait->waiter, wait->object, wait->since);
        else
            weft__warn("a thread is in weft_shutdown");
    if (seeded())
        fatal("aborting: the test run cannot end");
    fatal("aborting; WEFT_DEADLOCK_CHECK=0 or weft_config.no_deadlock_check waits on instead");
}

/* Returns the number of threads of the process, in a test run without those from before the run.
 * (These are counted last: one that ends in between makes the result too large, never too
 * small.) */
static uint32_t threads_that_count(void)
{
    uint32_t all = weft__os_thread_count();
    if (!seeded())
        return all;
    uint32_t others = weft__seeded_other_threads();
    return all > others ? all - others : 0;
}

/* Does the check, with the machines idle since `wakes`. Reports if there is a deadlock; else
 * returns whether a thread that could act keeps it from being one. */
static bool look(uint32_t wakes)
{
    uint32_t wakes_then;
    bool draining;
    uint64_t parked = 0;
    uint32_t known = weft__foreign_count();
    lock_acquire(&waits.lock);
    /* Saves the system call if a thread that weft knows does not wait. */
    bool possible = seeded() || known <= threads_stuck(&draining);
    uint32_t all = possible ? threads_that_count() : 0;
    uint32_t stuck = threads_stuck(&draining);
    uint32_t machines = idle_machines(&wakes_then);
    /* There is always a thread that is not weft's own: if none of these waits, the count is
     * wrong. */
    if (all != 0 && machines != 0 && wakes == wakes_then && stuck != 0 && all == machines + stuck) {
        weft__fiber_each_parked(count_parked, &parked);
        if (parked > 0 || !draining)
            report(parked, stuck);
        if (seeded() && weft__fiber_alive() > 0)
            fatal("a timer was left open: the test run cannot end");
    }
    bool again = waits.first != NULL && machines != 0 && (!possible || all > machines + stuck);
    lock_release(&waits.lock);
    return again;
}

int64_t weft__deadlock_check(void)
{
    static int64_t pause, again; /* the watcher's */
    uint32_t wakes;
    if (idle_machines(&wakes) == 0 || !look(wakes)) {
        pause = 0;
        /* The end of a thread's wait for a descriptor does not wake the watcher. */
        return weft__descriptor_thread_waits() ? weft__os_now() + LOOK_AGAIN_MOST : WEFT_NEVER;
    }
    int64_t now = weft__os_now();
    if (pause == 0)
        pause = LOOK_AGAIN_FIRST;
    else if (now >= again && pause < LOOK_AGAIN_MOST)
        pause *= 2;
    again = now + pause;
    return again;
}
