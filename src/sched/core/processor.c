/*
 * processor.c: how many processors are in use.
 *
 * The number of CPUs that a process may use changes while it runs: its affinity (taskset, cpusets)
 * changes, or the CPU quota of its cgroup. With more processors than CPUs the kernel takes CPUs
 * away from fibers at any moment; with fewer, CPUs are left unused. So unless the configuration
 * fixes the number of processors, it follows that of the CPUs (cpus.c).
 *
 *     new  --->  idle  <--->  busy            in use
 *                 ^  \          |
 *                 |   \         | its machine, between two fibers
 *                 |    v        v
 *                 +---- retired
 *
 * The monitor counts the CPUs once a second and sets `in_use_most`. If more processors are in use,
 * it retires idle ones. If that is not enough, the next machine that looks around (machine.c:
 * every 61st turn, or when the monitor says so) retires its own processor and sleeps. If fewer are
 * in use, retired processors become idle, or new ones are made, and a machine is woken if any
 * fiber is ready. All lists and numbers change under the scheduler's lock.
 *
 * The monitor sleeps while a processor is idle. More processors are of no use then. Too many do
 * harm only if several are busy; so the watcher, which wakes from time to time while a processor
 * is busy, wakes the monitor once a second. In an idle process the CPUs are not counted.
 *
 * Invariants:
 *
 *  - A processor is in exactly one place: the list of idle processors, the list of retired ones,
 *    or held by one thread (its machine, or a thread that moves it). idle_count is the length of
 *    the first list; in_use is the number of processors that are not retired. All are idle if the
 *    two are equal.
 *  - A retired processor has no owner and no fibers: its machine has put them into the inject
 *    queue. So a thief or the monitor that looks at it finds nothing to take.
 *  - The timers of a retired processor stay in its wheel, and are fired like those of an idle
 *    processor: by any machine that looks for work, or by the watcher. If no processor is idle,
 *    the monitor fires them into the inject queue. Only a thread that chose the wheel before can
 *    arm a new timer there.
 *  - Its hot stacks (compact.c) are used by the fibers bound to them, as if it were busy
 *    elsewhere.
 *  - The processors that were ever made are the first processor_count of the array, which has room
 *    for as many as the computer has CPUs. The number only grows, and is stored after the
 *    processor is complete. A pool of tasks or of objects that keeps something for each processor
 *    has nothing for those that are made after it was opened; it serves them like foreign threads.
 *
 * Interleavings that matter:
 *
 *  - A machine retires its processor while other threads make fibers ready. It does not spin then,
 *    so no thread relied on it. It pushes the fibers that it had, runs barrier_light and looks for
 *    idle processors, as for any fiber that becomes ready.
 *  - An idle processor is retired while its machine is about to come back for work that it has
 *    seen. The machine finds no idle processor, as if another one had taken it (idle.c). The
 *    processors in use are busy then, and look at the inject queue by themselves.
 *  - The last idle processor is retired: the monitor is poked, and the watcher stands down at its
 *    next look.
 *  - Two machines look around at once, and one processor is too many. The second machine finds
 *    in_use lowered under the lock, and has given its fibers away. Its processor becomes idle, and
 *    since fibers are ready a machine is woken for it.
 *
 * Rejected: moving the timers to another wheel. A fiber that disarms a timer would have to look
 * twice for its wheel, and a thread that has chosen a wheel could arm a timer there after the
 * move. Also rejected: retiring the processors with the highest numbers. Their machines may be in
 * C code for long.
 */
#include "sched/core/processor.h"

#include <errno.h>

#include "base/assert.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/idle.h"
#include "sched/core/inject.h"
#include "sched/core/machine.h"
#include "sched/core/monitor.h"
#include "sched/core/run_queue.h"
#include "sched/poll/poller.h"
#include "sched/runtime/cpus.h"
#include "sched/time/firing.h"

int64_t weft__processors_every = WEFT_S;

static struct {
    atomic_i64 looked; /* when the CPUs were last counted */
} cpus;

/* Makes the next processor, and publishes it. */
static void make(uint32_t index)
{
    struct processor *processor = &weft__sched.processors[index];
    int64_t now = weft__now();
    *processor = (struct processor){.index = index};
    weft__wheel_init(&processor->wheel, now);
    prng_seed(&processor->prng, index + (seeded() ? weft__seeded_prng_seed() : (uint64_t)now));
    processor->stacks.class = weft__sched.stack_class;
    atomic_u32_store_release(&weft__sched.processor_count, index + 1); /* see processor_count */
}

int weft__processors_start(uint32_t count, uint32_t room)
{
    weft__sched.processors =
        weft__os_alloc_aligned(CACHE_LINE, room * sizeof *weft__sched.processors);
    if (weft__sched.processors == NULL)
        return -ENOMEM;
    weft__sched.processor_room = room;
    for (uint32_t i = 0; i < count; i++)
        make(i);
    for (uint32_t i = count; i-- > 1;) /* the first machine gets processor 0 */
        weft__idle_push(&weft__sched.processors[i]);
    atomic_u32_store_relaxed(&weft__sched.in_use, count);
    atomic_u32_store_relaxed(&weft__sched.in_use_most, count);
    atomic_i64_store_relaxed(&cpus.looked, weft__os_now());
    return 0;
}

void weft__processors_stop(void)
{
    weft__os_free(weft__sched.processors);
    weft__sched.processors = NULL;
    atomic_u32_store_relaxed(&weft__sched.processor_count, 0);
}

/* Under the lock. */
static void retire_locked(struct processor *processor)
{
    atomic_u32_store_relaxed(&processor->retired, 1);
    processor->idle_next = weft__sched.retired;
    weft__sched.retired = processor;
    atomic_u32_add_relaxed(&weft__sched.in_use, (uint32_t)-1);
}

/* Puts one more processor into use, as an idle one; false if there is no room. Under the lock. */
static bool use_one_more_locked(void)
{
    struct processor *processor = weft__sched.retired;
    uint32_t count = processor_count();
    if (processor != NULL) {
        weft__sched.retired = processor->idle_next;
        atomic_u32_store_relaxed(&processor->retired, 0);
    } else if (count < weft__sched.processor_room) {
        make(count);
        processor = &weft__sched.processors[count];
    } else {
        return false;
    }
    atomic_u32_add_relaxed(&weft__sched.in_use, 1);
    weft__idle_push(processor);
    return true;
}

void weft__processors_set(uint32_t most)
{
    struct processor *processor;
    bool more = false;
    lock_acquire(&weft__sched.lock);
    atomic_u32_store_relaxed(&weft__sched.in_use_most, most);
    while (processors_too_many() && (processor = weft__idle_pop()) != NULL)
        retire_locked(processor);
    while (processors_in_use() < most && use_one_more_locked())
        more = true;
    lock_release(&weft__sched.lock);
    if (more)
        weft__idle_pushed();
    weft__poller_wake(); /* the watcher looks again whether a processor is idle, or all are */
}

void weft__processors_look(int64_t now)
{
    uint32_t most = atomic_u32_load_relaxed(&weft__sched.in_use_most), count = most;
    if (!weft__sched.follows_cpus)
        return;
    if (now - atomic_i64_load_relaxed(&cpus.looked) >= weft__processors_every) {
        atomic_i64_store_relaxed(&cpus.looked, now);
        int cpus_now = weft__cpus_now(weft__cpus_root);
        if (cpus_now > 0) /* else the number stays as it is */
            count = (uint32_t)cpus_now;
        if (count > weft__sched.processor_room)
            count = weft__sched.processor_room;
    }
    if (count != most || processors_too_many())
        weft__processors_set(count);
}

void weft__processors_remind(int64_t now)
{
    if (!weft__sched.follows_cpus ||
        now - atomic_i64_load_relaxed(&cpus.looked) < weft__processors_every)
        return;
    lock_acquire(&weft__sched.lock);
    weft__monitor_poke();
    lock_release(&weft__sched.lock);
}

void weft__processor_retire(struct machine *machine)
{
    struct processor *processor = machine->thread.processor;
    struct chain chain = {NULL, NULL, 0};
    struct weft_fiber *fiber = runnext_swap_owner(processor, NULL);
    should(!machine->spinning);
    if (fiber != NULL)
        chain_add(&chain, fiber);
    while ((fiber = ring_pop_owner(processor)) != NULL)
        chain_add(&chain, fiber);
    weft__stack_cache_flush(&processor->stacks);
    atomic_u32_store_relaxed(&processor->wasted_wakes, 0);
    processor->streak = 0;
    weft__inject_push_any(chain);
    atomic_ptr_store_release(&processor->owner, NULL);
    machine->thread.processor = NULL;
    machine->thread.fibers = NULL;
    lock_acquire(&weft__sched.lock);
    bool idle = !processors_too_many();
    if (idle)
        weft__idle_push(processor);
    else
        retire_locked(processor);
    lock_release(&weft__sched.lock);
    if (idle)
        weft__idle_pushed();
    else if (chain.count > 0)
        (void)wake_if_idle();
    int64_t timer = atomic_i64_load_relaxed(&processor->wheel.next);
    if (timer != WHEEL_EMPTY)
        weft__timers_notify(timer);
}
