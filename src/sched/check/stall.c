/*
 * stall.c: reports that fibers wait while every thread that there may be is in C code.
 *
 * At the bound of threads (max_machines, RLIMIT_NPROC, pids.max of the cgroup) a ready fiber has to
 * wait until a thread comes back. If the threads wait for that very fiber, none does, and the
 * program hangs. Whether they do cannot be known. But it is worth a report if for a second
 *
 *   - each look of the monitor found fibers or events that wait, and no thread to be had for them,
 *   - no processor has begun a turn, and
 *   - the threads have used next to no CPU time (a computation ends by itself).
 *
 * The report says how many threads are in C code, in which fibers, and what to raise. Nothing is
 * changed, and no fiber is ended. There is one report for each stall, and at most one in a minute.
 *
 * All of this runs in the monitor. Machines are read under the scheduler's lock; the fiber of one
 * that comes back at that moment may be another or none. The memory of fibers stays until the
 * runtime stops, and the monitor ends before that. The objects through which the name of a fiber is
 * found may be gone, so that part is tried (weft__os_try).
 */
#include "sched/check/stall.h"

#include <errno.h>

#include "base/atomic.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/text.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/fiber.h"

#define STALL_TIME WEFT_S
#define REPORT_EVERY (60 * WEFT_S)

enum { SHOWN_MOST = 16, LINE_SIZE = 384, USED_SHARE = 20 };

#define UNORDERED __attribute__((no_sanitize("thread", "address")))

static struct {
    int64_t since; /* 0: no stall */
    bool reported_this;
    uint64_t turns;   /* of all processors, at `since` */
    int64_t used;     /* CPU time of all machines, at `since` */
    int64_t reported; /* time of the last report */
} stall;

static uint64_t turns(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < processor_count(); i++)
        sum += atomic_u32_load_relaxed(&weft__sched.processors[i].turn);
    return sum;
}

/* CPU time of all machines. One whose time cannot be read counts as 0. */
static int64_t cpu_time(void)
{
    int64_t sum = 0;
    lock_acquire(&weft__sched.lock);
    for (const struct machine *machine = weft__sched.machines; machine != NULL;
         machine = machine->next) {
        int64_t used = weft__os_thread_time(machine->cpu_clock);
        sum += used > 0 ? used : 0;
    }
    lock_release(&weft__sched.lock);
    return sum;
}

struct shown {
    const struct machine *machine;
    struct text *text;
};

UNORDERED static void show_fiber(void *arg)
{
    struct shown *shown = arg;
    const struct weft_fiber *fiber = shown->machine->thread.fiber;
    if (fiber == NULL)
        return; /* the thread has just come back */
    weft__text_add(shown->text, "weft:   fiber %llu \"%s\"", (unsigned long long)fiber->id,
                   weft_fiber_name(fiber));
    weft__text_add_code(shown->text, ", spawned at ", fiber->spawn_site);
}

UNORDERED static bool in_c_code(const struct machine *machine)
{
    return machine->thread.fiber != NULL && atomic_u32_load_relaxed(&machine->thread.inside) == 0;
}

static void add_remedy(struct text *text)
{
    int error = -(int)atomic_u32_load_relaxed(&weft__sched.refused);
    if (error == -EUSERS)
        weft__text_add(text,
                       "weft: if those wait for a fiber that is ready, they wait for ever: raise "
                       "weft_config.max_machines (WEFT_MAX_MACHINES), now %u\n",
                       weft__sched.max_machines);
    else
        weft__text_add(
            text,
            "weft: if those wait for a fiber that is ready, they wait for ever: no thread can be "
            "started "
            "(%s), so raise RLIMIT_NPROC (ulimit -u), pids.max of the cgroup, or the memory\n",
            weft_strerror(error));
}

static void report(void)
{
    char bytes[LINE_SIZE];
    struct text text = {bytes, sizeof bytes, 0};
    uint32_t threads = 0, count = 0, shown = 0;
    lock_acquire(&weft__sched.lock);
    for (struct machine *machine = weft__sched.machines; machine != NULL; machine = machine->next) {
        threads++;
        count += in_c_code(machine);
    }
    weft__text_add(&text,
                   "weft: no fiber has run for a second: %u of %u threads sit in C code, in\n",
                   count, threads);
    weft__text_write(&text);
    for (struct machine *machine = weft__sched.machines; machine != NULL && shown < SHOWN_MOST;
         machine = machine->next) {
        struct shown one = {machine, &text};
        if (!in_c_code(machine))
            continue;
        shown++;
        if (!weft__os_try(show_fiber, &one))
            weft__text_add(&text, "\n");
        weft__text_write(&text);
    }
    lock_release(&weft__sched.lock);
    if (count > shown)
        weft__text_add(&text, "weft:   and %u more\n", count - shown);
    add_remedy(&text);
    weft__text_write(&text);
}

void weft__stall_begin(void)
{
    stall.since = 0;
    stall.reported = INT64_MIN / 2;
}

void weft__stall_look(int64_t now, bool refused)
{
    uint64_t sum = refused ? turns() : 0;
    if (!refused) {
        stall.since = 0;
        return;
    }
    if (stall.since == 0 || sum != stall.turns) {
        stall.since = now;
        stall.turns = sum;
        stall.reported_this = false;
        stall.used = cpu_time();
        return;
    }
    if (stall.reported_this || now - stall.since < STALL_TIME ||
        now - stall.reported < REPORT_EVERY)
        return;
    int64_t used = cpu_time();
    if (USED_SHARE * (used - stall.used) < now - stall.since) {
        stall.reported_this = true;
        stall.reported = now;
        report();
    } else { /* a thread computes: no stall */
        stall.since = now;
        stall.used = used;
    }
}
