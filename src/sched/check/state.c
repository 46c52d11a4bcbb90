/*
 * state.c: the state of the runtime, for the crash output of a process: when an assertion fails or
 * weft's own code faults.
 *
 * Other threads run on meanwhile, and what is read may be what is broken. So no lock is taken, the
 * figures may be of slightly different moments, each list is followed for a bounded number of
 * steps, and a part that faults is left out (weft__os_try). The state is written once: an assertion
 * that fails while it is written, or in a second thread, writes nothing.
 *
 * Each part leaves in a write of its own, from a small buffer: the caller may be a fiber near the
 * end of its stack.
 */
#include "sched/check/state.h"

#include "base/atomic.h"
#include "os/os.h"
#include "os/text.h"
#include "sched/check/seeded.h"
#include "sched/core/inject.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/poll/descriptor.h"
#include "sched/runtime/maintenance.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sched/time/wheel.h"

enum { PROCESSORS_MOST = 64, MACHINES_MOST = 4096, RUNNING_MOST = 32, LINE_SIZE = 384 };

/* For functions that read what other threads write, for a report that may be inexact. */
#define UNORDERED __attribute__((no_sanitize("thread", "address")))

UNORDERED static void show_whole(struct text *text)
{
    weft__text_add(text,
                   "weft: the runtime: %u processors (%u idle), %u machines (%u looking for work), "
                   "%u fibers in "
                   "the inject queue\n",
                   processors_in_use(), atomic_u32_load_relaxed(&weft__sched.idle_count),
                   weft__sched.machine_count, atomic_u32_load_relaxed(&weft__sched.spinning),
                   weft__inject_length());
    weft__text_write(text);
    weft__text_add(
        text,
        "weft:   %s the poller, %lld waits for descriptors; fibers on machines that lost "
        "their processor: %u%s%s\n",
        atomic_ptr_load_relaxed(&weft__sched.watcher) != NULL ? "a machine sleeps in"
                                                              : "no machine sleeps in",
        (long long)weft__descriptor_waits(), atomic_u32_load_relaxed(&weft__sched.lost),
        atomic_u32_load_relaxed(&weft__sched.starving) & STARVING_FIBERS ? "; some wait for a stack"
                                                                         : "",
        atomic_u32_load_relaxed(&weft__sched.stopping) ? "; it stops" : "");
    weft__text_write(text);
}

UNORDERED static void add_timers(struct text *text, const struct processor *processor)
{
    int64_t next = atomic_i64_load_relaxed(&processor->wheel.next);
    if (next == WHEEL_EMPTY)
        weft__text_add(text, "no timers");
    else
        weft__text_add(text, "the next timer in %lld us", (long long)((next - weft__now()) / 1000));
}

UNORDERED static void show_processor(struct text *text, const struct processor *processor)
{
    const struct thread *owner = atomic_ptr_load_relaxed(&processor->owner);
    const struct weft_fiber *fiber = owner != NULL ? owner->fiber : NULL;
    weft__text_add(text, "weft:   processor %u: ", processor->index);
    if (owner == NULL)
        weft__text_add(text, atomic_u32_load_relaxed(&processor->retired) ? "retired" : "idle");
    else if (fiber == NULL)
        weft__text_add(text, "between two fibers");
    else
        weft__text_add(text, "runs fiber %llu%s", (unsigned long long)fiber->id,
                       atomic_u32_load_relaxed(&owner->inside) ? " (inside weft)" : "");
    weft__text_add(text, "; %u ready%s, turn %u, ", ring_length(processor),
                   atomic_ptr_load_relaxed(&processor->runnext) != NULL ? " and one next" : "",
                   atomic_u32_load_relaxed(&processor->turn));
    add_timers(text, processor);
    weft__text_add(text, "\n");
    weft__text_write(text);
}

UNORDERED static void show_fibers(struct text *text)
{
    uint64_t counts[FIBER_STATES];
    bool all = weft__fiber_count(counts);
    weft__text_add(
        text,
        "weft:   fibers: %llu ready, %llu running, %llu parked, %llu ended and not "
        "joined, %llu crashed%s; free or new: %llu\n",
        (unsigned long long)counts[FIBER_READY] + counts[FIBER_YIELDED],
        (unsigned long long)counts[FIBER_RUNNING], (unsigned long long)counts[FIBER_PARKED],
        (unsigned long long)counts[FIBER_ENDED], (unsigned long long)counts[FIBER_CRASHED],
        all ? "" : " and more", (unsigned long long)counts[FIBER_NEW]);
    weft__text_write(text);
}

UNORDERED static void show_running(struct text *text)
{
    int steps = 0, shown = 0;
    for (const struct machine *machine = weft__sched.machines;
         machine != NULL && steps < MACHINES_MOST && shown < RUNNING_MOST;
         machine = machine->next, steps++) {
        const struct weft_fiber *fiber = machine->thread.fiber;
        if (fiber == NULL)
            continue;
        shown++;
        weft__text_add(text, "weft:   fiber %llu \"%s\" runs%s", (unsigned long long)fiber->id,
                       weft_fiber_name(fiber),
                       machine->thread.processor == NULL ? " without a processor" : "");
        weft__text_add_code(text, ", spawned at ", fiber->spawn_site);
        weft__text_write(text);
    }
}

UNORDERED static void show(void *arg)
{
    char bytes[LINE_SIZE];
    struct text text = {bytes, sizeof bytes, 0};
    (void)arg;
    show_whole(&text);
    for (uint32_t i = 0; i < processor_count() && i < PROCESSORS_MOST; i++)
        show_processor(&text, &weft__sched.processors[i]);
    show_fibers(&text);
    show_running(&text);
}

void weft__state_show(void)
{
    static atomic_u32 shown;
    static const char broken[] = "weft:   the rest cannot be read\n";
    /* Pairs with the start. */
    if (!atomic_u32_load_acquire(&weft__runtime_running) ||
        atomic_u32_exchange_acq_rel(&shown, 1) != 0)
        return;
    if (!weft__os_try(show, NULL))
        weft__os_write_stderr(broken, sizeof broken - 1);
}
