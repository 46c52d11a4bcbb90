/*
 * machine.h: the threads that run fibers, and the loop of each: see machine.c.
 */
#ifndef WEFT_SCHED_CORE_MACHINE_H
#define WEFT_SCHED_CORE_MACHINE_H

#include "arch/stack_switch.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"

enum action { ACTION_YIELD, ACTION_PARK, ACTION_END, ACTION_QUEUE, ACTION_MOVE, ACTION_CRASH };

/* A thread of weft's own. */
struct machine {
    struct thread thread;
    struct context context; /* its own stack, saved while a fiber runs */

    /* What the fiber that just switched away asks for. */
    enum action action;
    void (*unlock)(void *);
    void *object;
    int64_t deadline;
    bool open; /* the wait may be ended by a context */
    struct weft_fiber
        *parked; /* left by going straight to the next fiber, which has to finish it */

    bool runs_hook;     /* as soon as it has a processor: see weft__idle_set_hooks; by its own decision */
    bool assigned_hook;   /* the same, by that of the one who woke it */
    bool spinning; /* counted in weft__sched.spinning */
    bool notify_timer; /* it armed a timer and has not told the watcher yet */
    bool idle;       /* in the list of idle machines; under the scheduler's lock */
    bool surplus;    /* it has left the lists, and ends */
    struct machine *idle_next, **idle_link;
    struct processor *assigned; /* by the one who woke it, before `wake` */
    atomic_u32 wake;            /* futex */

    struct machine *next,
        **link; /* all machines; those that have ended; or records without a thread */
    weft__os_thread handle;
    int cpu_clock; /* of its thread, for the monitor */
    void *fault_stack;
#if WEFT_ASAN
    void *fake_stack;
    const void *stack_low;
    size_t stack_size;
#endif
#if WEFT_TSAN
    void *tsan_fiber;
#endif
};

/* A thread with this processor; the caller has counted it as spinning. -EUSERS: there are as
 * many as there may be. */
int weft__machine_start(struct processor *processor, bool run_hook);
/* Joins those that have ended as surplus and whose threads are gone; never waits for one.
 * Returns when to look again, WEFT_NEVER if none is left. */
int64_t weft__machine_reap_ended(int64_t now);
/* Those that have ended as surplus, to be joined by the caller. */
struct machine *weft__machine_take_ended(void);
/* Waits for the threads of these machines, thread-specific destructors included; says so if that
 * takes long. While the monitor runs the records are kept until the runtime stops, else freed. */
void weft__machine_join(struct machine *machines, bool monitored);
/* Switches from the running fiber to its machine, which does `action`; returns when the fiber is
 * resumed, perhaps on another machine. */
void weft__machine_switch(struct machine *machine, enum action action);
/* Does what a fiber asked for that has parked. */
void weft__finish_park(struct machine *machine, struct weft_fiber *fiber);
/* The same for one that left by going straight to the next fiber. */
void weft__finish_direct(struct machine *machine, struct weft_fiber *arrived);
/* Makes a fiber ready. From a machine inside the runtime: on its own processor, next in line if
 * `next`; from elsewhere: through the inject queue. */
void weft__ready(struct weft_fiber *fiber, bool next);

/* A panic has come to the first frame of the fiber that calls: it goes on from there to its end. */
_Noreturn void weft__machine_land(struct weft_fiber *fiber);
/* A first context on the fiber's stack. */
void weft__machine_begin(struct weft_fiber *fiber);
/* The same with a stack of its own; false if there is none to be had, or it shall be compact. */
bool weft__machine_prepare(struct processor *processor, struct weft_fiber *fiber);

/* In one that makes a fiber, which is not started yet: it has its stack now, and so much memory
 * of it, as long as it lives, in the page of its first frames. NULL if there is none. Not for a
 * compact one. */
void *weft__machine_front(struct weft_fiber *fiber, size_t size);

#endif
