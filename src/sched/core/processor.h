/*
 * processor.h: the right to run fibers, and the state that goes with it.
 *
 * Only the owner touches the state of a processor, except what stands under "Shared". The owner is
 * the machine that holds the processor, while that machine is inside the runtime; or a thief that
 * has claimed the processor (sched/core/steal.c). So the run queue needs no atomic
 * read-modify-write. head, tail and runnext are atomics only because other threads read them as
 * hints.
 */
#ifndef WEFT_SCHED_CORE_PROCESSOR_H
#define WEFT_SCHED_CORE_PROCESSOR_H

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/time/wheel.h"
#include "stack/stack.h"

enum {
    RING_SIZE = 256,
    INJECT_EVERY = 61,      /* turns between looks at the inject queue, however full the ring is */
    STREAK_LOOK = 32,       /* turns in a row of runnext, then the ring may have its turn */
    DEFER_MOST = 32,        /* looks at the inject queue in a row that defer a fiber */
    JOIN_LOOK = 16,         /* last places of the ring in which a joiner looks for its fiber */
    WASTED_WAKES_MOST = 16, /* wasted wake-ups for runnext, then no machine is woken for it */
};

struct processor {
    /* Shared. */
    _Alignas(CACHE_LINE) atomic_ptr owner;   /* struct thread: the holder; NULL while idle */
    _Alignas(CACHE_LINE) struct wheel wheel; /* has a latch of its own */

    /* The owner's. Atomics are read by other threads as hints. */
    _Alignas(CACHE_LINE) atomic_u32 head; /* of the ring: the next to run */
    atomic_u32 tail;                      /* the next free place */
    atomic_ptr runnext;                   /* a fiber that runs before the ring */
    atomic_u32 turn;                      /* grows with each fiber that gets the processor */
    /* Wake-ups in a row for runnext alone that were wasted: the fiber ran here. */
    atomic_u32 wasted_wakes;
    atomic_i64 fd_waits; /* waits for descriptors that began here, less those that ended here */
    struct weft_fiber *ring[RING_SIZE];
    uint32_t streak;           /* turns in a row of runnext */
    uint32_t deferred;         /* looks in a row at which a fiber was deferred */
    uint64_t streak_since;     /* ticks, when the streak was first looked at */
    uint32_t index;            /* in weft__sched.processors */
    uint64_t timer_look_ticks; /* ticks, when the clock was last read for timers */
    int64_t timer_look_time;   /* the time of the last look at timers */
    uint32_t due_end;          /* place in the ring behind the fibers that are due: run_queue.c */
    uint32_t due_row;          /* due fibers in a row, since the last place for another */
    uint32_t mark;             /* place in the ring: behind it, what came since the turn-over */
    uint64_t turn_over_ticks;  /* ticks, when that was */
    bool yielded;              /* a fiber has yielded since then */
    uint64_t poll_ticks;       /* ticks, when the poller was last looked at */
    uint32_t epoch;            /* weft__sched.epoch at the last look around */
    uint32_t stamp;            /* for weft_fiber.parked_at: at most INJECT_EVERY turns old */
    struct prng prng;
    struct stack_cache stacks;
    struct hot_stack *hot;    /* the hot stack on which a fiber last began: sched/fiber/compact.c */
    uint32_t hot_stacks;      /* number of hot stacks */
    atomic_u32 compact_until; /* the turn up to which it counts as running compact fibers */
    atomic_u64 moved_out, bytes_out, waited; /* statistics of compact fibers */
    struct fiber_cache fibers;
    struct processor *idle_next; /* in a list under the scheduler's lock */
    atomic_u32 retired;          /* not in use; changed under that lock */
    uint32_t watched_turn;       /* the watcher's: the turn at its last look */
};

/* Whether a compact fiber has run in one of the last COMPACT_TURNS turns. */
enum { COMPACT_TURNS = 64 };
static inline bool runs_compact(const struct processor *processor)
{
    return atomic_u32_load_relaxed(&processor->compact_until) -
               atomic_u32_load_relaxed(&processor->turn) - 1 <
           COMPACT_TURNS;
}

/* Called by the owner when a compact fiber runs. */
static inline void note_compact_owner(struct processor *processor)
{
    atomic_u32_store_relaxed(&processor->compact_until,
                             atomic_u32_load_relaxed(&processor->turn) + COMPACT_TURNS);
}

/* How many processors exist, and how many are in use: processor.c. */

static inline uint32_t processor_count(void)
{
    /* Pairs with the release that publishes a new processor. */
    return atomic_u32_load_acquire(&weft__sched.processor_count);
}

static inline uint32_t processors_in_use(void)
{
    return atomic_u32_load_relaxed(&weft__sched.in_use);
}

/* True if more processors are in use than should be. */
static inline bool processors_too_many(void)
{
    return processors_in_use() > atomic_u32_load_relaxed(&weft__sched.in_use_most);
}

/* Makes `count` processors, all in use, all but the first idle, with room for up to `room`. Returns
 * 0 or -ENOMEM. */
int weft__processors_start(uint32_t count, uint32_t room);
/* Frees all processors; no machine is left. */
void weft__processors_stop(void);

/* Sets how many processors are to be in use. */
void weft__processors_set(uint32_t most);

/* Called by the monitor: counts the CPUs once in weft__processors_every, and adjusts the number of
 * processors, unless the configuration fixes it. */
void weft__processors_look(int64_t now);
extern int64_t weft__processors_every;

/* Called by the watcher while a processor is busy: wakes the monitor if a count of the CPUs is
 * due. */
void weft__processors_remind(int64_t now);

/* Retires the processor of the calling machine, which is between two fibers and does not spin. */
struct machine;
void weft__processor_retire(struct machine *machine);

#endif
