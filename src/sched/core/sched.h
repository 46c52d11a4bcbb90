/*
 * sched.h: what the files of the scheduler share, and the calls between them.
 *
 *   machine.c   the loop: choose a fiber, run it, finish what it asked for
 *   runq.c      the order in which ready fibers run
 *   idle.c      idle processors and machines, sleeping and waking: nothing ready is forgotten
 *   steal.c     how a hungry processor gets fibers from a busy one
 *   compact.c   fibers that share a stack
 *   fault.c     says who faulted; crash.c: abandons it, and has another go on
 *   state.c     what the runtime is doing, when it aborts
 *   handoff.c   a processor leaves a machine that is stuck in C code; the way back
 *   monitor.c   the thread that finds such machines
 *   stall.c     its report that all threads sit in C code
 *   firing.c    firing the wheels
 *   deadlock.c  noticing that nobody will ever wake anybody
 *   seeded.c    the same in a test run: a seed decides who runs
 *   chaos.c     points where a fiber is made to yield, for tests
 *   descriptor.c  waiting for descriptors
 *   poller.c    the set of those that are waited for, and where the watcher sleeps
 *   runtime.c   start, configuration, shut-down, fork
 */
#ifndef WEFT_SCHED_CORE_SCHED_H
#define WEFT_SCHED_CORE_SCHED_H

#include <weft/runtime.h>

#include "os/os.h"
#include "sched/check/seeded.h"
#include "sched/core/inject.h"
#include "sched/runtime/thread.h"
#include "sched/time/ticks.h"

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

    bool acts;     /* as soon as it has a processor: see weft__idle_look_too; by its own decision */
    bool to_act;   /* the same, by that of the one who woke it */
    bool spinning; /* counted in weft__sched.spinning */
    bool timer_news; /* it armed a timer and has not told the watcher yet */
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

struct sched {
    struct processor *processors;
    uint32_t processor_count;
    uint8_t stack_class; /* of fibers that do not ask */
    int64_t max_fibers;  /* 0: no limit */
    bool deadlock_check;
    bool handles_faults;
    bool io_uring, file_nowait, pidfd; /* allowed: for the floor io */

    _Alignas(CACHE_LINE) struct lock lock;
    struct processor *idle_processors;
    struct machine *idle_machines;
    struct machine *machines;
    uint32_t machine_count, max_machines;
    uint32_t machines_starting; /* not counted yet, but each has its place below the bound */
    struct machine *ended;      /* those that ended as surplus, and are not joined */
    int64_t bury_pause;         /* until they are looked at again; doubled each time */
    bool burying;               /* some of them are in somebody's hand */
    bool closing;               /* a weft_shutdown waits: none ends as surplus */
    struct machine *records;    /* of machines that were joined */
    uint32_t wakes;             /* how often one was taken out of the idle list */
    struct chain starved;       /* fibers for which there was no stack */
    atomic_u32 starving;        /* enum starving, of those that there are */

    /* Read by everyone who makes a fiber ready; changed only when machines sleep and wake. */
    _Alignas(CACHE_LINE) atomic_u32 idle_count; /* idle processors */
    atomic_u32 spinning;
    atomic_i64 sleep_until; /* when the watcher wakes by itself; NO_WATCHER if there is none */
    atomic_ptr watcher;     /* struct machine: who sleeps in the poller */
    atomic_u32 stopping;
    atomic_u32 era;      /* grows while no processor is idle, every 10 ms at least: the monitor */
    atomic_u32 crowd;    /* there are more machines than processors */
    atomic_u32 refused;  /* why no thread could be started, the last time: a positive errno */
    atomic_u32 lost;     /* fibers that run on a machine which has lost its processor */
    atomic_u32 draining; /* somebody waits in weft_shutdown */
    atomic_u32 quiet;    /* futex: grows when a machine retires while draining */
    atomic_i64 housekeeping; /* the next time there is something to do */

    _Alignas(CACHE_LINE) atomic_i64 limited; /* fibers alive, kept only if there is a limit */
};

#define NO_WATCHER INT64_MIN

/* Who waits for something that may be there later. */
enum starving {
    STARVING_FIBERS = 1,  /* fibers: for a stack; in `starved` */
    STARVING_OTHERS = 2,  /* others: for memory */
    STARVING_LIMITED = 4, /* others: for a fiber to end, since there are as many as there may be */
    STARVING_TIMED = STARVING_FIBERS | STARVING_OTHERS, /* are tried again every STARVED_RETRY */
};

extern struct sched weft__sched;

/* runtime.c */

/* 0 once the runtime runs; starts it if need be. */
int weft__runtime_start(void);
extern atomic_u32 weft__runtime_running;
static inline int runtime_ensure(void)
{
    /* Pairs with the release at the end of the start. */
    return likely(atomic_u32_load_acquire(&weft__runtime_running)) ? 0 : weft__runtime_start();
}
/* The same for a test run; -EBUSY if the runtime runs already. */
int weft__runtime_start_seeded(uint64_t seed, bool chaos);
/* True in a forked child, where nothing of weft works. */
extern atomic_u32 weft__forked;
static inline bool weft__runtime_forked(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__forked) != 0);
}
/* Calls the function each time the runtime stops, when no fiber and no machine is left. Registered once,
 * by a floor above, at any time; few may be. */
void weft__runtime_at_stop(void (*function)(void));
/* Called when a weft_shutdown begins to wait; set by a floor above, at any time. */
extern atomic_ptr weft__runtime_drains;
/* Tells a weft_shutdown that waits to look again. */
void weft__runtime_quiet(void);
/* In a machine that ends because the runtime stops, and has no more use for its record: returns when the runtime has
 * stopped. */
void weft__runtime_depart(void);

/* What a worker of a pool does before its task parks; set by the pool. Both the flag and the worker stand in
 * the part of the fiber's record that every park touches (weft_fiber.tells). */
extern void (*weft__worker_parks)(struct worker *worker);
/* How a worker goes on when a panic in its task has come to the fiber's first frame; returns when the worker ends. */
extern void (*weft__worker_lands)(struct worker *worker, struct panic *panic);
/* The name of its pool. */
extern const char *(*weft__worker_name)(const struct worker *worker);

/* machine.c */

/* A thread with this processor; the caller has counted it as spinning. -EUSERS: there are as many as
 * there may be. */
int weft__machine_start(struct processor *processor, bool acts);
/* Joins those that have ended as surplus and whose threads are gone; never waits for one. Returns when to look
 * again, WEFT_NEVER if none is left. */
int64_t weft__machine_bury_ended(int64_t now);
/* Those that have ended as surplus, to be joined by the caller. */
struct machine *weft__machine_take_ended(void);
/* Waits for the threads of these machines, thread-specific destructors included; says so if that takes long. The
 * records are freed. */
void weft__machine_join(struct machine *machines);
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

/* runq.c */

/* Puts a ready fiber in the ring, or what the ring cannot hold in the inject queue; wakes nobody.
 */
void weft__enqueue(struct processor *processor, struct weft_fiber *fiber);
/* If the fiber has not begun and is among the last in the ring: it runs next. */
void weft__expedite(struct processor *processor, struct weft_fiber *fiber);
/* After some turns of runnext in a row: the next fiber, which may be the ring's; then this one is behind it. */
struct weft_fiber *weft__streak_look(struct processor *processor, struct weft_fiber *fiber);
/* The next fiber that the processor has itself, or NULL: runnext, but not more than STREAK_LOOK
 * times in a row while others wait that cannot; then the ring. */
static inline struct weft_fiber *dequeue(struct processor *processor)
{
    struct weft_fiber *fiber = atomic_ptr_load_relaxed(&processor->runnext);
    if (fiber != NULL) {
        atomic_ptr_store_relaxed(&processor->runnext, NULL);
        if (likely(++processor->streak % STREAK_LOOK != 0))
            return fiber;
        return weft__streak_look(processor, fiber);
    }
    processor->streak = 0;
    return ring_pop_owner(processor);
}
/* Time for the inject queue and the poller, before the fibers that the processor has itself: every 61st turn, and
 * if turns are long, when the monitor says so. */
static inline bool looks_around(const struct processor *processor, uint32_t turn)
{
    return unlikely(turn % INJECT_EVERY == 0 ||
                    atomic_u32_load_relaxed(&weft__sched.era) != processor->era);
}
/* Takes a share of the inject queue: one to run, the rest into the ring. */
struct weft_fiber *weft__take_injected(struct processor *processor);
/* Looks at the poller and at the inject queue; those in the ring that have had their turn may
 * change places with others in the latter. The next fiber to run, or NULL. */
struct weft_fiber *weft__look_around(struct processor *processor);
/* Makes fibers due. The first says how many there is room for; the caller puts these in the ring,
 * and nothing else; the second is told how many they were, and moves them before those that are not
 * due. */
uint32_t weft__due_begin(struct processor *processor);
void weft__due_done(struct processor *processor, uint32_t count);
/* The same for a chain, which is empty then. */
void weft__due_put(struct processor *processor, struct chain *fibers);
/* Whether some that are due have not had their turn. */
bool weft__due_wait(const struct processor *processor);

/* machine.c */

/* A panic has come to the first frame of the fiber that calls: it goes on from there to its end. */
_Noreturn void weft__machine_land(struct weft_fiber *fiber);
/* A first context on the fiber's stack. */
void weft__machine_begin(struct weft_fiber *fiber);
/* The same with a stack of its own; false if there is none to be had, or it shall be compact. */
bool weft__machine_prepare(struct processor *processor, struct weft_fiber *fiber);

/* In one that makes a fiber, which is not started yet: it has its stack now, and so much memory of it, as long as it lives, in the
 * page of its first frames. NULL if there is none. Not for a compact one. */
void *weft__machine_front(struct weft_fiber *fiber, size_t size);

/* idle.c */

/* To be called after a fiber became ready: keeps invariant 2 of the scheduler. In fiber code the
 * waking itself waits until the thread leaves the runtime: the one who is woken may take its CPU at
 * once, and would find the processor's fibers out of reach for as long. */
bool weft__wake_if_idle(void);
/* True if one is called; false if there is none, or one looks around anyway. */
static inline bool wake_if_idle(void)
{
    barrier_light(); /* with barrier_heavy in idle.c: publish, look at idlers | idle, look at queues
                      */
    return unlikely(atomic_u32_load_relaxed(&weft__sched.idle_count) > 0) && weft__wake_if_idle();
}
void weft__processor_acquire(struct machine *machine, struct processor *processor);
/* The machine's thread begins, with the processor that it was started for. */
void weft__idle_begin(struct machine *machine);
/* Gives a processor that is in the caller's hand to another machine, or makes one for it. False: there is
 * none to be had, and the processor is still in the caller's hand. */
bool weft__idle_assign(struct processor *processor, bool acts);
/* An idle processor, for a machine that is awake, or NULL. */
struct processor *weft__idle_take(void);
/* Puts a processor that has no fibers into the idle list, without a machine. */
void weft__idle_give(struct processor *processor);
/* How long a machine is idle before it ends, if there are more than processors. */
extern int64_t weft__idle_surplus_after;
/* The machine found a fiber while it was spinning. */
void weft__idle_found(struct machine *machine);
bool weft__idle_may_spin(struct machine *machine);
/* The machine found nothing: gives its processor up, if it has one, and sleeps. True: it has a processor
 * again; false: the runtime stops, or the machine is not needed any more. */
bool weft__idle_retire(struct machine *machine);
bool weft__idle_queues_empty(void);
/* What others do when a processor is busy and another idle. `look` is called by the watcher from time to
 * time, or by the monitor; if it says so, `act` is called by a machine with a processor. Also by one that gets
 * a processor which was taken from a machine that is stuck. */
void weft__idle_look_too(bool (*look)(void), void (*act)(void));
bool weft__idle_looks(void);
/* Calls `act`, on a machine with a processor and its own stack. Who starves, and fails once more, says so again. */
void weft__idle_act(void);
/* They could not make a fiber: `act` is called when one has ended, and every STARVED_RETRY if it was for want of memory. */
void weft__starve_outside(void);
/* Bounded clean-up work (stacks, starved fibers, threads that ended) if its time has come. */
void weft__housekeep(int64_t now);
void weft__housekeep_by(int64_t time);
/* The same in STARVED_RETRY, and somebody will be awake. */
void weft__retry_soon(void);
/* Plans it if there is something to do. */
void weft__housekeep_plan(void);
/* Lets up to `most` fibers that wait for a stack try again; and others, if the caller has a processor. */
#define STARVED_RETRY (10 * WEFT_MS)
void weft__unstarve(uint32_t most);
static inline void unstarve_one(void)
{
    barrier_light(); /* pairs with weft__starve_outside */
    if (unlikely(atomic_u32_load_relaxed(&weft__sched.starving)))
        weft__unstarve(1);
}
void weft__idle_stop(void);

/* steal.c */

#define STEAL_PATIENCE (10 * WEFT_US) /* for one who does not answer; then it is claimed */

struct weft_fiber *weft__steal(struct machine *machine);
/* Claims a processor whose machine is outside the runtime: its private state is the caller's until
 * weft__claim_end. Returns the owner, or NULL. */
struct thread *weft__claim(struct processor *victim);
void weft__claim_end(struct thread *owner);
/* Enters the runtime in the place of a fiber that does not: waits for who has claimed the processor, and leaves
 * everything else that is asked for to weft__attend. */
void weft__enter_crashed(struct thread *thread);

/* handoff.c */

/* Takes a processor away from a machine that is outside the runtime and still in that turn, for another
 * machine. */
enum retaken { RETAKEN, NOT_STUCK, NO_MACHINE };
enum retaken weft__retake(struct processor *processor, uint32_t turn);
/* In a thread that came into the runtime and finds that its processor is gone: as weft__attend. */
struct thread *weft__processor_gone(struct thread *thread);
/* Puts a fiber that came back without a processor into the inject queue. */
void weft__lost_queue(struct weft_fiber *fiber);
/* The fiber will not come back to the runtime: it does not count as lost. */
void weft__lost_no_more(struct weft_fiber *fiber);
/* How many calls of weft_blocking_enter the caller has not undone; and to undo those beyond `to`, which a panic has
 * left. */
uint32_t weft__blocking_depth(void);
void weft__blocking_unwind(uint32_t to);

/* monitor.c */

/* Starts the thread, if it can be had; else it is tried again by weft__monitor_poke. */
void weft__monitor_start(void);
void weft__monitor_stop(void);
/* No processor is idle any more, or there was no thread for one that is: the monitor must look. Under the
 * scheduler's lock. */
void weft__monitor_poke(void);
/* stall.c: called by the monitor at each look; `refused`: fibers or events wait, and there is no thread for them. */
void weft__stall_begin(void);
void weft__stall_look(int64_t now, bool refused);
uint32_t weft__monitor_threads(void); /* 1 if it runs; under the scheduler's lock */

/* firing.c */

enum timer_kind { TIMER_WAIT, TIMER_CALL };
/* Fires what is due on the wheel of `from` into the ring of `processor`, or its runnext; true if that made
 * any ready. */
bool weft__timers_fire(struct processor *processor, struct processor *from, int64_t now);
/* The same on its own wheel to the nanosecond, for a clock that jumps: see weft__wheel_fire_exact. */
uint32_t weft__timers_fire_exact(struct processor *processor, int64_t *now, bool jump);
/* Fires the processor's own timers, if it has any that may be due. `clock`: the time, if it is known; else 0. */
void weft__timers_look(struct processor *processor, int64_t clock);
static inline void timers_look(struct thread *thread)
{
    int64_t clock = thread->clock;
    thread->clock = 0;
    if (atomic_i64_load_relaxed(&thread->processor->wheel.next) != WHEEL_EMPTY)
        weft__timers_look(thread->processor, clock);
}
/* The earliest time that any wheel needs; in a test run one that has passed. */
int64_t weft__timers_next(void);
/* A timer with this deadline was armed: makes sure that somebody wakes up for it. */
void weft__timers_news(int64_t deadline);

/* timer.c: a timer of the user's has expired (under the wheel's lock); its fiber, if that must be
 * made ready. And: its fiber has ended; whether it must run again. */
struct weft_fiber *weft__timer_expired(struct timer *timer);
bool weft__timer_rest(struct weft_fiber *fiber);
/* How many were ever opened, and closed: an open timer counts as alive (weft__fiber_alive). */
uint64_t weft__timers_opened(void);
uint64_t weft__timers_closed(void);

/* poller.c */

int weft__poller_start(bool allow_pwait2);
void weft__poller_stop(void);
/* Sleeps until the deadline, weft__poller_wake, or an event; fibers that events make ready are in the inject
 * queue then. For the watcher. */
void weft__poller_wait(int64_t deadline);
void weft__poller_wake(void);
/* Takes what events there are, without waiting, and makes ready who waits for them: on the processor of a
 * machine that has one and is inside the runtime, else through the inject queue. True if there were any.
 * Any thread may call it that is not running a fiber outside the runtime, while the runtime runs. One
 * system call if there are none. */
bool weft__poller_poll(void);
/* Whether anybody has ever waited for a descriptor. */
extern atomic_u32 weft__poller_used;
static inline void weft__poller_used_now(void)
{
    if (unlikely(atomic_u32_load_relaxed(&weft__poller_used) == 0))
        atomic_u32_store_relaxed(&weft__poller_used, 1);
}
static inline bool poller_used(void)
{
    return atomic_u32_load_relaxed(&weft__poller_used) != 0;
}
/* The same for a busy machine: only if nobody watches, and some time has passed. */
void weft__poller_look(struct processor *processor);
/* Puts a descriptor in the set (add), or changes what it is there for; or takes it out. */
int weft__poller_watch(int fd, uint32_t events, uint64_t tag, bool add);
void weft__poller_unwatch(int fd);
struct ready;
/* Makes them ready, with one wake-up for all. A fiber must have entered the runtime. */
void weft__poller_make_ready(struct ready *ready);
/* True if somebody who waits in the poller would not wait now. */
bool weft__poller_ready(void);

/* deadlock.c */

/* Reports and aborts if no fiber can ever go on. Called by the watcher when it finds nothing to wait
 * for but being woken. Returns when to ask again. */
int64_t weft__deadlock_check(void);
/* Has the watcher ask again, if all machines are idle. */
void weft__deadlock_ask(void);
/* In a fiber that was resumed to show where it waits. */
void weft__deadlock_show(struct machine *machine);
/* A thread that waits in weft without a deadline; on its stack. */
struct thread_wait {
    struct thread_wait *next, **link;
    struct waiter *waiter; /* NULL: in weft_shutdown */
    void *object;
    int64_t since;
};
void weft__thread_waits(struct thread_wait *wait);
void weft__thread_waits_no_more(struct thread_wait *wait);
void weft__thread_waits_fork(enum fork_step step);

/* mutex_check.c: says that the fiber holds a pthread mutex, which it should not. */
#ifdef WEFT_DEBUG
void weft__held_report(struct weft_fiber *fiber, const char *does);
#endif
static inline void held_check(struct weft_fiber *fiber, const char *does)
{
#ifdef WEFT_DEBUG
    if (unlikely(fiber->mutex_count + fiber->mutexes_other != 0))
        weft__held_report(fiber, does);
#else
    (void)fiber, (void)does;
#endif
}

/* fault.c */

/* Ends the program if the running fiber, at its stack pointer, is in the stack of another one. */
void weft__depth_check(const struct weft_fiber *fiber);

int weft__fault_start(void);
void weft__fault_stop(void);

/* local.c */

void weft__locals_end(struct locals **locals);
void weft__locals_fork(enum fork_step step);

/* cpus.c: CPUs that this process may use; `root` is "" or, in tests, a folder to read proc and sys
 * in. */
int weft__cpus_quota(const char *root);
int weft__cpus(const char *root);

#endif
