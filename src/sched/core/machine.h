/*
 * machine.h: a machine, which is a thread that runs fibers, and its loop. See machine.c.
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
    bool open; /* a context may end the wait */
    /* A fiber that parked and switched straight to the next fiber, which finishes the park. */
    struct weft_fiber *parked;

    bool runs_hook;     /* runs the hook of weft__idle_set_hooks when it has a processor */
    bool assigned_hook; /* the same, set by the thread that assigned the processor */
    bool spinning;      /* counted in weft__sched.spinning */
    bool notify_timer;  /* it armed a timer and has not told the watcher yet */
    bool idle;          /* in the list of idle machines; under the scheduler's lock */
    bool surplus;       /* it has left the lists, and ends */
    bool by_clock;      /* it left its sleep for a timer, and for nothing else */
    struct machine *idle_next, **idle_link;
    struct processor *assigned; /* set by the thread that wakes it, before `wake` */
    atomic_u32 wake;            /* futex */

    /* In the list of all machines, of those that have ended, or of free records. */
    struct machine *next, **link;
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

/* Starts a thread with this processor; the caller has counted it as spinning. Returns 0, -ENOMEM,
 * -EUSERS if max_machines exist, or the error of the system. */
int weft__machine_start(struct processor *processor, bool run_hook);
/* Joins the machines that have ended as surplus and whose threads are gone; waits for none. Returns
 * when to try again, WEFT_NEVER if none is left. */
int64_t weft__machine_reap_ended(int64_t now);
/* Takes the machines that have ended as surplus; the caller must join them. */
struct machine *weft__machine_take_ended(void);
/* Waits for the threads of these machines, with their thread-specific destructors; warns if that
 * takes long. Keeps the records until the runtime stops if the monitor runs, else frees them. */
void weft__machine_join(struct machine *machines, bool monitored);
/* Runs fibers until the machine must end: the runtime stops, or the machine is surplus. */
void weft__machine_loop(struct machine *machine);
/* Switches from the running fiber to its machine, which does `action`; returns when the fiber is
 * resumed, perhaps on another machine. */
void weft__machine_switch(struct machine *machine, enum action action);
/* Completes the park of a fiber whose context is saved: arms the deadline, opens the wait to the
 * fiber's context, unlocks. */
void weft__finish_park(struct machine *machine, struct weft_fiber *fiber);
/* Completes the park of machine->parked, which switched straight to the fiber `arrived`. */
void weft__finish_direct(struct machine *machine, struct weft_fiber *arrived);
/* Makes a fiber ready. On a machine inside the runtime: on its own processor, as runnext if `next`,
 * else at the end of the ring. On another thread: through the inject queue. */
void weft__ready(struct weft_fiber *fiber, bool next);

/* Called by a fiber whose panic has come to its first frame: continues there, to its end. */
_Noreturn void weft__machine_land(struct weft_fiber *fiber);
/* Makes the first context of a fiber, on the stack that it has. */
void weft__machine_begin(struct weft_fiber *fiber);
/* Gives a fiber a stack and its first context. False: no memory, or the fiber is compact. */
bool weft__machine_prepare(struct processor *processor, struct weft_fiber *fiber);

/* Gives a fiber that was made and not started its stack already, and returns `size` bytes of it, in
 * the page of the first frames. They live as long as the fiber. NULL: no memory. Not for a compact
 * fiber. */
void *weft__machine_front(struct weft_fiber *fiber, size_t size);

#endif
