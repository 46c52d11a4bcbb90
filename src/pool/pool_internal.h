/*
 * pool_internal.h: the structures of the pool, and what must always hold of them. What each file
 * offers is in its header:
 *
 *   pool.c       open, stop, close, reopen, tune, pause      submit.c     the calls and their fast path
 *   admission.c  the limit, the line of submitters           dispatch.c   which worker is woken or made
 *   worker.c     a worker's life; start.c: how it is made    shard.c      inbox, outbox and counter of a processor
 *   queue.c      tasks that have not begun                   keys.c       serial order by key
 *   task.c       handles                                     group.c      groups over a pool
 *   lending.c    places of workers that wait for tasks of their own pool
 *   failure.c    panics, crashes, workers that are stuck     stats.c      figures
 *   schedule.c   tasks that are submitted later              context.c    contexts of a whole pool
 *   rate.c       tasks that begin at a rate              subpools.c   pools that share a capacity
 *
 * One latch per pool, which sub-pools share with their parent, guards everything but what a shard's owner does alone (shard.c). Under the
 * latch:
 *
 *   inside     tasks admitted and not ended, but for those that shards have counted as ended and nobody has collected:
 *              inside - sum over the shards of (ended - counted) - unused places of open outboxes
 *   inside     is at most capacity + queue when a task is admitted, unless one of the pool's own tasks submits
 *   busy       workers that hold a place: active + starting + blocked - lent; of a pool with sub-pools those of
 *              these too
 *   capacity   no task begins while busy > capacity: whoever begins one holds a place already, and a place is
 *              given to a worker only while busy < capacity
 *   progress   if a task is ready, nothing is paused and busy < capacity, then some worker is active, or starting, or
 *              has been woken; with sub-pools: subpools.c
 *
 * A worker is
 *
 *   STARTING   made or woken, and has not looked for a task yet; holds a place
 *   ACTIVE     runs tasks that have not parked, and looks for more; there are at most as many as processors
 *   BLOCKED    its task has parked at least once; it holds its place, and when the task ends it takes the next
 *   IDLE       parked in the list of idle workers; holds no place
 *   LOOSE      in transition: on no list
 *
 *          woken           looks                      the task parks
 *     IDLE ----> STARTING -> ACTIVE <--------------------------------------> BLOCKED
 *       ^                  |       the next task did not park                   |
 *       |__________________|____________________________________________________|
 *                        nothing is ready, or busy > capacity
 *
 * Waiting for tasks to end. A submitter of a full pool sets `attention`, collects what shards have
 * counted, and parks. A worker counts a task as ended and takes its next, by a sequentially
 * consistent operation. It looks at `attention` when that parks; when the inbox is empty it comes
 * to the latch in any case:
 *
 *     submitter, under the latch            worker
 *     attention = 1 (seq_cst)               ended + 1
 *     collect; room? then go on             take the next (a seq_cst operation)
 *     park                                  it parks: attention? then latch, collect, serve the line
 *
 * At least one of them sees the other. If the next task neither parks nor ends, failure.c collects
 * and serves in place of the worker.
 *
 * Lock order: the latch of a handle, a schedule or a tie, then a pool's latch. No two pools' latches are
 * ever held together.
 */
#ifndef WEFT_POOL_POOL_INTERNAL_H
#define WEFT_POOL_POOL_INTERNAL_H

#include <errno.h>
#include <weft/pool.h>

#include "base/line.h"
#include "os/latch.h"
#include "pool/queue.h"
#include "pool/tuning.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/cancel.h"
#include "sched/core/handoff.h"
#include "sched/core/idle.h"
#include "sched/core/machine.h"
#include "sched/core/park.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/fiber/local.h"
#include "sched/runtime/maintenance.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/limiter.h"
#include "sync/waiters.h"

/* Why no task begins. */
enum {
    PAUSED_CALL = 1,    /* weft_pool_pause */
    PAUSED_CONTEXT = 2, /* weft_pool_pause_until */
    PAUSED_ENDED = 4,   /* the pool's context has ended: for good */
};

enum pool_state { POOL_OPEN, POOL_STOPPING, POOL_STOPPED };

/* Whether a worker has lent its place, and whether that of a sub-pool is for others that are waited
 * for alone: subpools.c. */
enum lending { LENDS_NOT, LENDS, LENDS_ACROSS };

enum worker_state { WORKER_UNLISTED, WORKER_STARTING, WORKER_ACTIVE, WORKER_BLOCKED, WORKER_IDLE };

/* Where the record of a worker is: before a private stack, before what a compact fiber keeps, or
 * with what a crash needs. */
enum worker_kind { WORKER_PRIVATE, WORKER_COMPACT, WORKER_ISOLATED };

/* Never in a frame of the worker's fiber: others look at it while its task waits, and a panic
 * begins the stack anew. */
struct worker {
    struct link link; /* in the line of active or of idle workers; first: worker_of */
    weft_pool *pool;
    struct weft_fiber *fiber;
    struct plain_task now; /* what it runs */
    struct task *record;   /* the same if it is more than a plain task; else NULL */
    void *user_state;      /* on_worker_start's */
    weft_context *context; /* every task begins with it: the pool's, with a reference; or, if the
                              pool has none, what on_worker_start has bound */
    uint8_t
        state; /* enum worker_state; changed under the latch by its owner, or from IDLE by its waker */
    uint8_t kind;  /* enum worker_kind */
    bool in_task;  /* the user's code runs, not the pool's */
    bool armed;    /* the task's own code runs: a fault in it is the task's (failure.c) */
    bool moves;    /* it begins anew on another hot stack, and has started already */
    uint8_t lends; /* enum lending; latch */
    bool parked;   /* its task has parked; the worker's */
};

/* The worker that the fiber is, or NULL. */
static inline struct worker *fiber_worker(const struct weft_fiber *fiber)
{
    return fiber_client(fiber);
}

/* Refuses an argument that is on the stack of a compact fiber. */
static inline void compact_check_task(const void *arg)
{
    compact_check(arg, "the argument of a task",
                  "have it in the heap, or copied by the pool (weft_submit_options.copy)");
}

/* A processor's part of the pool: shard.c. */
struct shard {
    /* A chunk to run from. Changed by the owner of the processor under the latch: with either it
     * may be read. */
    _Alignas(CACHE_LINE) struct chunk *inbox;
    atomic_u64 ended;      /* tasks that ended here; written by the owner of the processor alone */
    uint64_t counted;      /* of those: taken from `inside`; latch */
    uint64_t seen_ended;   /* `ended` at the last look of failure.c; latch */
    int64_t turn_began;    /* of workers, here; 0: they let other fibers go first; the owner's */
    struct chunk *spare;   /* what is left of a closed inbox goes there; latch */
    struct outbox *outbox; /* NULL: never opened; set by the owner under the latch */
};

/* Of a pool whose tasks begin at a rate: rate.c. Under the latch. */
struct rate {
    weft_limiter *limiter; /* NULL: none */
    int64_t tokens;        /* taken for tasks that have not begun */
    bool lacks;            /* the last look found none; for the rest of that hold of the latch */
    bool awaits;           /* a worker waits for a token, or is about to */
    bool in_line;          /* it stands in the limiter's line, with: */
    struct take take;
};

struct weft_pool {
    _Alignas(CACHE_LINE) struct latch own_latch;
    uint8_t state;  /* enum pool_state */
    uint8_t paused; /* bits: PAUSED_CALL and so on; 0: tasks begin */
    bool singly;    /* each task is taken under the latch: no inboxes, no outboxes */
    bool in_tree;   /* it is a sub-pool, or has some: subpools.c */
    bool asks;      /* it stands in its tree's line `asking` */
    bool urgent;    /* it stands in its tree's line `urgents` */
    uint8_t since_high, since_normal; /* tasks taken since one of lower priority was */
    int64_t in_flight;
    atomic_i64 ready;      /* tasks in the queues; read without the latch as a hint */
    struct line active;    /* workers */
    struct line idle;      /* workers */
    int64_t blocked;       /* workers */
    int64_t starting;      /* workers */
    int64_t lent;          /* places of workers that wait for tasks of this pool or its tree */
    int64_t lent_across;   /* of those: LENDS_ACROSS */
    int64_t below;         /* places that workers of its sub-pools hold */
    int64_t granted;       /* of `starting`: whose place was given to the pool by its turn */
    uint32_t inboxes;      /* shards that have a chunk */
    uint32_t outboxes;     /* that are open */
    struct line line;      /* submitters that wait */
    struct line schedules; /* that are not over: schedule.c */
    struct line pauses;    /* that end with a context: context.c */
    struct line running;   /* tasks that run and have a context of their own: context.c */
    uint64_t begun;        /* tasks that ever stood there */
    struct tie *tie;       /* to the context of the options; NULL: none */
    int64_t napping;       /* of those: threads that look by themselves */

    int64_t capacity, queue_size;
    struct queue queues[QUEUES];
    int64_t held;             /* tasks that wait for another of their key */
    struct line ages[QUEUES]; /* records that have not begun, by priority and age */
    struct task **keys;       /* hash table of the first task of each key */
    uint32_t key_slots, key_count;

    int64_t workers;     /* that exist, or are being made */
    int64_t failing;     /* of those: could not start, and will try again */
    int64_t next_share;  /* when idle workers may be given back next, in shares */
    int64_t pins;        /* calls that still need the pool: it is not stopped before they end */
    int64_t caller_runs; /* tasks that their submitter runs at this moment */
    void *stop_waiters;  /* waiters: for the pool to be stopped */
    void *quiet_waiters; /* waiters: for all tasks to have ended */

    int64_t children;     /* sub-pools that are not closed */
    struct line asking;   /* of its tree: pools that want a place, by ask_link */
    struct link ask_link; /* in that of its root */
    struct line urgents;  /* of its tree: pools with tasks that others wait for, by urgent_link */
    struct link urgent_link;
    uint64_t urgent_order; /* of its tree: such tasks that there ever were */

    weft_pool_stats stats; /* the totals */
    atomic_i64 crashes_left;

    /* Read by workers between two tasks, without the latch; changed rarely. */
    _Alignas(CACHE_LINE)
        atomic_u32 drain_request; /* submitters wait in line, and are to be woken */
    atomic_u32
        binds; /* tasks that are bound to a context have come: workers need extras for that */
    uint32_t shard_count;
    struct shard *shards;
    struct latch *latch; /* its own, or its parent's */
    weft_pool *parent;   /* NULL: it is no sub-pool */
    atomic_ptr context;  /* that plain tasks are bound to; NULL: none; changed under the latch */
    weft_pool_options options;
    struct rate rate;
    bool is_default; /* the default pool: its idle workers end when the runtime shuts down */
    char name[FIBER_NAME_SIZE];
    int stack_class;        /* -1: the default */
    void *site;             /* where the pool was opened */
    struct link pools_link; /* all pools: failure.c */
    atomic_ptr family;      /* the weft_pools that it belongs to; NULL: none */
    atomic_u32 *room;       /* there: a hint that it has room; NULL: none */
    bool kept;              /* it is not stopped before the others of its family are quiet; latch */
};

/* A call of the user's that runs a task for the pool in the caller (WEFT_CALLER_RUNS); on the
 * caller's stack. */
struct caller_run {
    weft_pool *pool;
    struct task *record; /* NULL: a plain task */
    struct caller_run *outer;
};

static inline struct worker *worker_of(struct link *link)
{
    return (struct worker *)(void *)link; /* or NULL */
}

/* How a call of the public interface begins: 0; -EINVAL if an argument is wrong; -ECHILD in a forked
 * child, where no call works. */
static inline int call_error(bool valid)
{
    return !valid ? -EINVAL : weft__runtime_forked() ? -ECHILD : 0;
}

/* As an argument of weft__park. */
static inline void pool_unlock(void *pool)
{
    latch_release(((weft_pool *)pool)->latch);
}

/* Under the latch. */
static inline void pool_change_ready(weft_pool *pool, int64_t by)
{
    atomic_i64_add_owner(&pool->ready, by); /* its owner is the holder of the latch */
}

/* Its processor was taken away. */
static inline bool worker_lost(const struct worker *worker)
{
    return (atomic_u32_load_relaxed(&worker->fiber->outside) & OUTSIDE_LOST) != 0;
}

static inline int64_t pool_limit(const weft_pool *pool)
{
    int64_t limit;
    return __builtin_add_overflow(pool->capacity, pool->queue_size, &limit) ? INT64_MAX : limit;
}

/* Places that are taken: by its own workers, and those of its sub-pools. Under the latch. */
static inline int64_t pool_busy(const weft_pool *pool)
{
    return pool->active.length + pool->starting + pool->blocked - pool->lent + pool->below +
           (unlikely(pool->lent_across > 0) && pool->queues[URGENT].length == 0 ? pool->lent_across
                                                                                : 0);
}

/* A worker of the pool takes so many places, or gives them back. Under the latch. */
static inline void pool_take_places(weft_pool *pool, int64_t count)
{
    if (unlikely(pool->parent != NULL))
        pool->parent->below += count;
}

/* A worker is made, or woken, and holds a place from here on. Under the latch. And: it will not
 * come. */
static inline void pool_add_starting(weft_pool *pool)
{
    pool->starting++;
    pool_take_places(pool, 1);
}

static inline void pool_drop_starting(weft_pool *pool)
{
    pool->starting--;
    if (unlikely(pool->granted > pool->starting))
        pool->granted = pool->starting;
    pool_take_places(pool, -1);
}

/* A place is free for one more worker. Under the latch. */
static inline bool pool_has_place(const weft_pool *pool)
{
    return pool_busy(pool) < pool->capacity &&
           (likely(pool->parent == NULL) || pool_busy(pool->parent) < pool->parent->capacity);
}

/* Its context has: nothing is admitted, and nothing begins. Under the latch. */
static inline bool pool_has_ended(const weft_pool *pool)
{
    return (pool->paused & PAUSED_ENDED) != 0;
}

/* A task that is waited for has no worker yet: its pool asks for one in any case, since the place
 * that is lent for it would go to another pool of the tree. Under the latch. */
static inline bool pool_is_urgent(const weft_pool *pool)
{
    return unlikely(pool->in_tree) && pool->queues[URGENT].length > pool->starting;
}

/* Nothing begins in a tree whose root is paused. The end of the root's context is its own: a
 * sub-pool has a context of its own, under that. Under the latch. */
static inline bool pool_rests(const weft_pool *root)
{
    return (root->paused & ~PAUSED_ENDED) != 0;
}

/* A worker that holds a place may begin a task. Under the latch. */
static inline bool pool_may_begin(const weft_pool *pool)
{
    const weft_pool *parent = pool->parent;
    return !pool->paused && pool_busy(pool) <= pool->capacity &&
           (likely(parent == NULL) ||
            (!pool_rests(parent) && pool_busy(parent) <= parent->capacity));
}

/* Nothing is inside, and no call is about to put a task in. Under the latch, after a collect. */
static inline bool pool_is_quiet(const weft_pool *pool)
{
    return pool->in_flight == 0 && pool->pins == 0 && pool->line.length == 0;
}

#endif
