/*
 * machine_thread.c: the threads of machines: how they start, end and are joined.
 *
 * A record of a machine is in one of these places, under the scheduler's lock:
 *
 *     records    free: the thread was joined, or could not be started
 *     starting   held by weft__machine_start, counted in machines_starting
 *     machines   the thread runs; counted in machine_count
 *     ended      the machine was surplus and has left the lists (idle.c); its thread ends
 *     reaped     held by a thread that has taken `ended` and joins what it can
 *
 * Maintenance reaps the machines that ended as surplus. It must not wait: before a thread is gone
 * it runs thread-specific destructors of the program, which may take any time. So it asks each
 * thread whether it is gone, puts the others back, and tries again after 1 ms, then after twice as
 * long each time. A stop of the runtime takes all machines, and waits for their threads.
 *
 * Invariants:
 *  - machine_count + machines_starting <= max_machines.
 *  - A thread is started and listed in one hold of the lock, so a stop finds every thread that
 *    runs.
 *  - Threads are joined without the lock. While `reaping` is set, a thread holds some of the ended
 *    machines, and weft__machine_take_ended waits for their return.
 *  - A record is reused, but not freed while a thief or the monitor may look at it.
 */
#include <errno.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/check/test_point.h"
#include "sched/core/idle.h"
#include "sched/core/machine.h"
#include "sched/core/scheduler.h"
#include "sched/core/switch.h"
#include "sched/fiber/cxx.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"

/* Counts one more machine as starting; -EUSERS if max_machines exist. */
static int reserve_machine(void)
{
    lock_acquire(&weft__sched.lock);
    bool full =
        weft__sched.machine_count + weft__sched.machines_starting >= weft__sched.max_machines;
    weft__sched.machines_starting += !full;
    lock_release(&weft__sched.lock);
    return full ? -EUSERS : 0;
}

/* The record of a machine that has ended and was joined, or a new one. NULL without memory. */
static struct machine *machine_record(void)
{
    lock_acquire(&weft__sched.lock);
    struct machine *machine = weft__sched.records;
    if (machine != NULL)
        weft__sched.records = machine->next;
    lock_release(&weft__sched.lock);
    if (machine == NULL)
        return weft__os_alloc_zeroed(sizeof *machine);
    /* Not all of it is cleared: a thief may still look at this record (steal.c). */
    machine->surplus = false;
    machine->fault_stack = NULL;
    machine->thread.wake_wanted = false;
    atomic_u32_store_relaxed(&machine->wake, 0);
    return machine;
}

static void keep_record(struct machine *machine)
{
    lock_acquire(&weft__sched.lock);
    machine->next = weft__sched.records;
    weft__sched.records = machine;
    lock_release(&weft__sched.lock);
}

int64_t weft__machine_reap_ended(int64_t now)
{
    lock_acquire(&weft__sched.lock);
    struct machine *ended = weft__sched.ended, *left = NULL;
    weft__sched.ended = NULL;
    weft__sched.reaping = ended != NULL;
    lock_release(&weft__sched.lock);
    while (ended != NULL) {
        struct machine *machine = ended;
        ended = machine->next;
        if (weft__os_thread_join_within(machine->handle, 0)) {
            keep_record(machine);
        } else {
            machine->next = left;
            left = machine;
        }
    }
    int64_t again = WEFT_NEVER;
    lock_acquire(&weft__sched.lock);
    while (left != NULL) {
        struct machine *machine = left;
        left = machine->next;
        machine->next = weft__sched.ended;
        weft__sched.ended = machine;
    }
    weft__sched.reaping = false;
    if (weft__sched.ended != NULL) {
        again = now + weft__sched.reap_pause;
        weft__sched.reap_pause *= 2;
    }
    lock_release(&weft__sched.lock);
    return again;
}

struct machine *weft__machine_take_ended(void)
{
    for (;;) {
        lock_acquire(&weft__sched.lock);
        bool reaping = weft__sched.reaping;
        struct machine *ended = reaping ? NULL : weft__sched.ended;
        if (!reaping)
            weft__sched.ended = NULL;
        lock_release(&weft__sched.lock);
        if (!reaping)
            return ended;
        weft__os_yield(); /* the thread that reaps waits for nothing */
    }
}

void weft__machine_join(struct machine *machines, bool monitored)
{
    bool warned = false;
    while (machines != NULL) {
        struct machine *machine = machines;
        while (!weft__os_thread_join_within(machine->handle, WEFT_S)) {
            if (!warned)
                weft__warn("weft_shutdown waits for a thread of weft's that has ended: its "
                           "thread-specific destructors have not returned for a second");
            warned = true;
        }
        machines = machine->next;
        if (monitored)
            keep_record(machine); /* the monitor may be about to look at it */
        else
            weft__os_free(machine);
    }
}

static void *machine_main(void *arg)
{
    struct machine *machine = arg;
    weft__os_thread_begin();
    machine->thread.errno_address = weft__os_errno_address();
    lock_acquire(&weft__sched.lock); /* stall.c reads cpu_clock under it */
    machine->cpu_clock = weft__os_thread_clock();
    lock_release(&weft__sched.lock);
    machine->thread.cxx = weft__cxx_state();
    if (weft__os_fault_stack_enter(&machine->fault_stack) != 0)
        machine->fault_stack = NULL; /* a stack overflow kills the process without a report */
    thread_word_set(machine);
    switch_machine_made(machine);
    weft__idle_begin(machine);
    weft__machine_loop(machine);
    thread_word_set(NULL);
    if (machine->fault_stack != NULL)
        weft__os_fault_stack_leave(machine->fault_stack);
    /* What remains are thread-specific destructors of the program, which may take long and may call
     * weft. On a surplus machine they run while the runtime does, as on any thread; otherwise after
     * the runtime has stopped. */
    if (!machine->surplus)
        weft__runtime_depart();
    return NULL;
}

int weft__machine_start(struct processor *processor, bool run_hook)
{
    int error = reserve_machine();
    if (error != 0)
        return error;
    struct machine *machine = machine_record();
    if (machine == NULL) {
        lock_acquire(&weft__sched.lock);
        weft__sched.machines_starting--;
        lock_release(&weft__sched.lock);
        return -ENOMEM;
    }
    machine->cpu_clock = -1; /* set when the thread runs */
    machine->assigned = processor;
    machine->assigned_hook = run_hook;
    machine->spinning = true; /* the caller has counted it */
    if (test_points())
        (void)atomic_u32_or_relaxed(&machine->thread.requests, REQUEST_POINTS);
    atomic_u32_store_relaxed(&machine->thread.inside, 1);
    /* Listed before it runs: a stop that comes now must join the thread. */
    lock_acquire(&weft__sched.lock);
    error = weft__os_thread_start(&machine->handle, machine_main, machine);
    weft__sched.machines_starting--;
    if (error == 0) {
        machine->next = weft__sched.machines;
        machine->link = &weft__sched.machines;
        if (machine->next != NULL)
            machine->next->link = &machine->next;
        weft__sched.machines = machine;
        weft__sched.machine_count++;
    }
    lock_release(&weft__sched.lock);
    if (error != 0)
        keep_record(machine);
    return error;
}
