/*
 * processor.h: the right to run fibers, and the state that goes with it.
 *
 * Everything in a processor but what stands under "shared" is touched by its owner only: the
 * machine that holds it while that machine is inside the runtime, or a thief that has claimed it
 * (sched/core/steal.c). So the run queue needs no atomic read-modify-write: head, tail and runnext
 * are atomics only so that others may look at them from afar.
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
    INJECT_EVERY = 61, /* turns between looks at the inject queue under full local load */
    STREAK_LOOK =
        32, /* turns in a row of runnext, then it is asked whether the ring has its turn */
    DEFER_MOST = 32, /* looks at the inject queue at which one that can wait is put off */
    JOIN_LOOK = 16,    /* places of the ring in which a joiner looks for whom it joins */
    WASTED_WAKES_MOST = 16,    /* calls in vain for runnext alone; then it calls nobody */
};

struct processor {
    /* Shared. */
    _Alignas(CACHE_LINE) atomic_ptr owner;   /* struct thread: who holds it, or NULL while idle */
    _Alignas(CACHE_LINE) struct wheel wheel; /* has a lock of its own */

    /* The owner's; read by others from afar. */
    _Alignas(CACHE_LINE) atomic_u32 head; /* of the ring: the next to run */
    atomic_u32 tail;                      /* the next free place */
    atomic_ptr runnext;                   /* a fiber that runs before the ring */
    atomic_u32 turn;                      /* grows with each fiber that gets the processor */
    atomic_u32 wasted_wakes; /* times in a row that others were called for runnext alone, and it ran here */
    atomic_i64 fd_waits; /* waits for descriptors that began here, less those that ended here */
    struct weft_fiber *ring[RING_SIZE];
    uint32_t streak;       /* turns in a row that runnext had */
    uint32_t deferred;      /* looks at which one that can wait was put off, since one was taken */
    uint64_t streak_since; /* ticks, when the streak was first looked at */
    uint32_t index;
    uint64_t looked;   /* ticks, when the clock was last read for timers */
    int64_t looked_at; /* the time, then or later, when timers were last looked at */
    uint32_t due_end;  /* place in the ring behind those that are due: run_queue.c */
    uint32_t due_row;  /* of them in a row, since the last place for another */
    uint32_t mark; /* place in the ring: behind it stand those who came since the last turn-over */
    uint64_t turned; /* ticks, when that was */
    bool yielded;    /* some have yielded since */
    uint64_t polled; /* ticks, when the poller was last looked at */
    uint32_t epoch;    /* weft__sched.epoch, when it last looked around */
    uint32_t stamp;  /* for weft_fiber.parked_at: not older than INJECT_EVERY turns */
    struct prng prng;
    struct stack_cache stacks;
    struct hot
        *hot; /* the one of its hot stacks that a fiber last began on: sched/fiber/compact.c */
    uint32_t hots;
    atomic_u32 compact_until; /* the turn up to which it counts as one that runs compact fibers */
    atomic_u64 moved_out, bytes_out, waited; /* figures of compact fibers */
    struct fiber_cache fibers;
    struct processor *idle_next; /* in a list under the scheduler's lock */
    atomic_u32 retired;          /* not in use; changed under that lock */
    uint32_t watched_turn;       /* the watcher's: the turn at its last look */
};

/* Whether a compact fiber had one of the last turns; the owner says that one has this. */
enum { COMPACT_TURNS = 64 };
static inline bool runs_compact(const struct processor *processor)
{
    return atomic_u32_load_relaxed(&processor->compact_until) -
               atomic_u32_load_relaxed(&processor->turn) - 1 <
           COMPACT_TURNS;
}

static inline void note_compact_owner(struct processor *processor)
{
    atomic_u32_store_relaxed(&processor->compact_until,
                             atomic_u32_load_relaxed(&processor->turn) + COMPACT_TURNS);
}

/* How many there are, and how many are in use: processor.c. */

static inline uint32_t processor_count(void)
{
    /* Pairs with the release of a processor that is new. */
    return atomic_u32_load_acquire(&weft__sched.processor_count);
}

static inline uint32_t processors_in_use(void)
{
    return atomic_u32_load_relaxed(&weft__sched.in_use);
}

/* True if a processor must be retired. */
static inline bool processors_too_many(void)
{
    return processors_in_use() > atomic_u32_load_relaxed(&weft__sched.in_use_most);
}

/* Makes `count` processors, all in use, all but the first idle; there may be up to `room`. Returns
 * 0 or -ENOMEM. */
int weft__processors_start(uint32_t count, uint32_t room);
void weft__processors_stop(void);

/* From now on so many processors are to be in use. */
void weft__processors_set(uint32_t most);

/* By the monitor: looks at the number of CPUs once in weft__processors_every, and follows it if the
 * configuration does not fix the number of processors. */
void weft__processors_look(int64_t now);
extern int64_t weft__processors_every;

/* By the watcher while a processor is busy: wakes the monitor if such a look is due. */
void weft__processors_remind(int64_t now);

/* Retires the processor of a machine that is between two fibers, and not spinning. */
struct machine;
void weft__processor_retire(struct machine *machine);

#endif
