/*
 * pool_internal.h: the structures of the pool, and their invariants.
 *
 * Problem. A pool runs any number of tasks, at most `capacity` at a time. They come from any fiber
 * or thread; some are empty, some wait for hours. A latch for each task, or a wake-up for each,
 * would cost several times an empty task.
 *
 * Pattern. Three mechanisms: a queue of tasks under one latch; a shard for each processor, through
 * which plain tasks pass without the latch; the duty to look for tasks, which about one worker per
 * processor has. Each file opens with its protocol, its header says what it offers:
 *
 *   pool.c       open, stop, close, reopen, tune, pause
 *   submit.c     the calls that submit, and their fast path
 *   admission.c  the limit, the line of submitters, the policies
 *   dispatch.c   which worker is woken or made
 *   worker.c     the life of a worker; start.c: how it is made, starts and ends
 *   queue.c      tasks that have not begun; keys.c: serial order by key
 *   shard.c      inbox, outbox and counter of a processor
 *   task.c       handles; group.c: groups over a pool
 *   lending.c    places of workers that wait for tasks of their own pool
 *   failure.c    panics, crashes, stuck workers
 *   context.c    contexts of a whole pool
 *   schedule.c   tasks that are submitted later
 *   rate.c       tasks that begin at a rate
 *   subpools.c   pools that share a capacity; pools.c: several pools of one kind
 *   stats.c      figures
 *
 * docs/design/pool.md has the designs that were rejected.
 *
 * Invariants. One latch per pool, which sub-pools share with their parent, guards everything except
 * what a shard's owner does alone (shard.c). Under it:
 *
 *   in_flight  the tasks admitted and not ended, plus the ends that shards have counted and that
 *              were not collected yet, plus the unused places of open outboxes
 *   limit      in_flight is at most capacity + queue after a task was admitted, unless one of the
 *              pool's own tasks submitted it
 *   busy       the workers that hold a place: active + starting + blocked - lent; in a pool with
 *              sub-pools, theirs as well
 *   capacity   no task begins while busy > capacity. A worker that begins a task holds a place, and
 *              takes one only while busy < capacity
 *   progress   if a task is ready, nothing is paused and busy < capacity, some worker is active,
 *              starting, or about to be woken or made; with sub-pools: subpools.c
 *   pins       a pool is not stopped, and so not freed, while pins > 0: a call in progress needs it
 *
 * States of a worker:
 *
 *   STARTING   woken or made, and has not looked for a task yet; holds a place
 *   ACTIVE     runs tasks that have not parked, and looks for more; no worker is started while as
 *              many are active as there are processors
 *   BLOCKED    its task has parked at least once; keeps its place, and takes the next task when
 *              this one ends
 *   IDLE       parked in the list of idle workers; holds no place
 *   UNLISTED   on no list, holds no place: in a transition, or about to end
 *
 *   IDLE -> STARTING               it is woken
 *   STARTING -> ACTIVE             it looks for a task, and a place is free
 *   STARTING, ACTIVE -> BLOCKED    its task, or on_worker_start, parks
 *   BLOCKED -> ACTIVE              it looks for a task after one that did not park
 *   any but IDLE -> IDLE           it finds no task that may begin, or busy > capacity
 *
 * Waiting for room. A submitter of a full pool sets `drain_request`, collects what shards have
 * counted, and parks. A worker counts its task as ended and takes the next one by a sequentially
 * consistent operation. It reads `drain_request` when that task parks; when the inbox is empty it
 * takes the latch in any case:
 *
 *     submitter, under the latch            worker
 *     drain_request = 1 (seq_cst)           ended + 1
 *     collect; room? then go on             take the next task (seq_cst)
 *     park                                  the task parks: drain_request? then latch, collect,
 *                                           serve the line
 *
 * At least one of them sees what the other wrote. If the next task neither parks nor ends,
 * failure.c collects and serves in place of the worker.
 *
 * Lock order: the lock of the list of pools (failure.c), or the latch of a handle, a schedule or a
 * tie; then a pool's latch; then a limiter's (rate.c). No two pools' latches are held together.
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

/* Why no task begins: bits of weft_pool.paused. */
enum {
    PAUSED_CALL = 1,    /* weft_pool_pause */
    PAUSED_CONTEXT = 2, /* weft_pool_pause_until */
    PAUSED_ENDED = 4,   /* the pool's context has ended: for good */
};

enum pool_state { POOL_OPEN, POOL_STOPPING, POOL_STOPPED };

/* Whether a worker has lent its place; LENDS_ACROSS: its place in a sub-pool is lent to urgent
 * tasks only (subpools.c). */
enum lending { LENDS_NOT, LENDS, LENDS_ACROSS };

enum worker_state { WORKER_UNLISTED, WORKER_STARTING, WORKER_ACTIVE, WORKER_BLOCKED, WORKER_IDLE };

/* Where the record of a worker is: in front of a private stack, in front of what a compact fiber
 * keeps, or in the heap beside what a crash needs. */
enum worker_kind { WORKER_PRIVATE, WORKER_COMPACT, WORKER_ISOLATED };

/* A worker: a fiber that runs tasks. The record is not in a frame of that fiber: other threads read
 * it while its task waits, and a panic unwinds the stack. */
struct worker {
    struct link link; /* in the line of active or of idle workers; first: worker_of */
    weft_pool *pool;
    struct weft_fiber *fiber;
    struct plain_task now; /* the task that it runs */
    struct task *record;   /* of that task; NULL: it is a plain task */
    void *user_state;      /* on_worker_start's */
    /* Bound when a task begins: the pool's context, with a reference; or, if the pool has none, the
     * one that on_worker_start has bound. */
    weft_context *context;
    /* enum worker_state. Changed under the latch: by the worker; from IDLE, by its waker. */
    uint8_t state;
    uint8_t kind;  /* enum worker_kind */
    bool in_task;  /* user code runs, not the pool's */
    bool armed;    /* the task's own code runs: a fault in it is the task's (failure.c) */
    bool moves;    /* has started, and begins anew on another hot stack */
    uint8_t lends; /* enum lending; latch */
    bool parked;   /* the task has parked; used by the worker alone */
};

/* The worker that runs in the fiber; NULL: none. */
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

/* The part of the pool that belongs to a processor: shard.c. */
struct shard {
    /* A chunk to run from. The processor's owner changes it under the latch; either of the two is
     * enough to read it. */
    _Alignas(CACHE_LINE) struct chunk *inbox;
    atomic_u64 ended;      /* tasks that ended here; only the processor's owner writes it */
    uint64_t counted;      /* of `ended`, subtracted from in_flight; latch */
    uint64_t seen_ended;   /* `ended` at the last look of failure.c; latch */
    int64_t turn_began;    /* of active workers here; 0: other fibers go first; the owner's */
    struct chunk *spare;   /* takes what is left when the inbox is closed; latch */
    struct outbox *outbox; /* NULL: never opened; set by the owner under the latch */
};

/* The rate at which tasks begin: rate.c. Under the latch. */
struct rate {
    weft_limiter *limiter; /* NULL: none */
    int64_t tokens;        /* taken, and not used by a task yet */
    bool lacks;            /* no token was there; valid during this hold of the latch */
    bool awaits;           /* a worker waits for a token, or is about to */
    bool in_line;          /* that worker stands in the limiter's line, with `take` */
    struct take take;
};

struct weft_pool {
    _Alignas(CACHE_LINE) struct latch own_latch;
    uint8_t state;  /* enum pool_state */
    uint8_t paused; /* bits: PAUSED_CALL and so on; 0: tasks begin */
    bool singly;    /* each task is taken under the latch: no inboxes, no outboxes */
    bool in_tree;   /* a sub-pool, or a pool that has sub-pools: subpools.c */
    bool asks;      /* stands in its tree's line `asking` */
    bool urgent;    /* stands in its tree's line `urgents` */
    uint8_t since_high, since_normal; /* tasks taken since one of lower priority was */
    int64_t in_flight;                /* see above */
    atomic_i64 ready;      /* tasks in the queues; without the latch it may be read as a hint */
    struct line active;    /* the active workers */
    struct line idle;      /* the idle workers */
    int64_t blocked;       /* number of workers */
    int64_t starting;      /* number of workers */
    int64_t lent;          /* places lent by workers that wait for tasks of this pool or its tree */
    int64_t lent_across;   /* of `lent`: LENDS_ACROSS */
    int64_t below;         /* places held by workers of sub-pools */
    int64_t granted;       /* of `starting`: workers started because it was the pool's turn */
    uint32_t inboxes;      /* shards that have a chunk */
    uint32_t outboxes;     /* open ones */
    struct line line;      /* submitters that wait */
    struct line schedules; /* not over: schedule.c */
    struct line pauses;    /* that end with a context: context.c */
    struct line running;   /* tasks that run and have a context of their own: context.c */
    uint64_t begun;        /* how many tasks were ever added to `running` */
    struct tie *tie;       /* to the context of the options; NULL: none */
    int64_t napping;       /* threads in `line` that are not to be woken: admission.c */

    int64_t capacity, queue_size;
    struct queue queues[QUEUES];
    int64_t held;             /* tasks held back by another one of their key */
    struct line ages[QUEUES]; /* records that have not begun, by priority and age */
    struct task **keys;       /* hash table: the first task of each key */
    uint32_t key_slots, key_count;

    int64_t workers;     /* that exist, or are about to be made */
    int64_t failing;     /* of `workers`: on_worker_start failed, and is called again later */
    int64_t next_share;  /* not before this time the next share of idle workers ends */
    int64_t pins;        /* calls in progress that need the pool */
    int64_t caller_runs; /* tasks that run in their submitters */
    void *stop_waiters;  /* waiters for the pool to be stopped */
    void *quiet_waiters; /* waiters for all tasks to have ended */

    int64_t children;     /* sub-pools that are not closed */
    struct line asking;   /* of a root: pools of its tree that want a place, by ask_link */
    struct link ask_link; /* in `asking` of its root */
    struct line urgents;  /* of a root: pools of its tree with urgent tasks, by urgent_link */
    struct link urgent_link;
    uint64_t urgent_order; /* of a root: how many tasks of its tree ever became urgent */

    weft_pool_stats stats; /* the totals */
    atomic_i64 crashes_left;

    /* Read by workers between two tasks, without the latch; changed rarely. */
    _Alignas(CACHE_LINE) atomic_u32 drain_request; /* submitters in `line` are to be woken */
    atomic_u32 binds; /* tasks with a context were submitted: workers need extras */
    uint32_t shard_count;
    struct shard *shards;
    struct latch *latch; /* own_latch, or the parent's */
    weft_pool *parent;   /* NULL: not a sub-pool */
    atomic_ptr context;  /* plain tasks are bound to it; NULL: none; changed under the latch */
    weft_pool_options options;
    struct rate rate;
    bool is_default; /* its idle workers end when the runtime shuts down */
    char name[FIBER_NAME_SIZE];
    int stack_class;        /* -1: the default */
    void *site;             /* where the pool was opened */
    struct link pools_link; /* all pools: failure.c */
    atomic_ptr family;      /* the weft_pools that it belongs to; NULL: none */
    atomic_u32 *room;       /* in `family`: a hint that the pool has room; NULL: none */
    bool kept;              /* not stopped before all pools of its family are quiet; latch */
};

/* A submit that runs its task in the caller (WEFT_CALLER_RUNS); on the caller's stack. */
struct caller_run {
    weft_pool *pool;
    struct task *record; /* NULL: a plain task */
    struct caller_run *outer;
};

static inline struct worker *worker_of(struct link *link)
{
    return (struct worker *)(void *)link; /* or NULL */
}

/* How a call of the public interface begins: 0; -EINVAL if an argument is wrong; -ECHILD in a
 * forked child, where no call works. */
static inline int call_error(bool valid)
{
    return !valid ? -EINVAL : weft__runtime_forked() ? -ECHILD : 0;
}

/* Unlocks for weft__park. */
static inline void pool_unlock(void *pool)
{
    latch_release(((weft_pool *)pool)->latch);
}

/* Under the latch. */
static inline void pool_change_ready(weft_pool *pool, int64_t by)
{
    atomic_i64_add_owner(&pool->ready, by); /* the holder of the latch owns it */
}

/* The processor of the worker was taken away. */
static inline bool worker_lost(const struct worker *worker)
{
    return (atomic_u32_load_relaxed(&worker->fiber->outside) & OUTSIDE_LOST) != 0;
}

static inline int64_t pool_limit(const weft_pool *pool)
{
    int64_t limit;
    return __builtin_add_overflow(pool->capacity, pool->queue_size, &limit) ? INT64_MAX : limit;
}

/* Places taken by the pool's workers and those of its sub-pools. Under the latch. */
static inline int64_t pool_busy(const weft_pool *pool)
{
    return pool->active.length + pool->starting + pool->blocked - pool->lent + pool->below +
           (unlikely(pool->lent_across > 0) && pool->queues[URGENT].length == 0 ? pool->lent_across
                                                                                : 0);
}

/* Workers of the pool take `count` places, or give them back if it is negative. Under the latch. */
static inline void pool_take_places(weft_pool *pool, int64_t count)
{
    if (unlikely(pool->parent != NULL))
        pool->parent->below += count;
}

/* Under the latch: a worker is woken or about to be made, and holds a place from here on
 * (pool_add_starting); one that was counted so could not be made, or has looked
 * (pool_drop_starting). */
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

/* The context of the options has ended: nothing is admitted and nothing begins. Under the latch. */
static inline bool pool_has_ended(const weft_pool *pool)
{
    return (pool->paused & PAUSED_ENDED) != 0;
}

/* An urgent task has no worker yet. Its pool asks for one however many are active: the place that
 * was lent for the task would go to another pool of the tree. Under the latch. */
static inline bool pool_is_urgent(const weft_pool *pool)
{
    return unlikely(pool->in_tree) && pool->queues[URGENT].length > pool->starting;
}

/* The root of a tree is paused, so nothing begins in the tree. The end of the root's context is not
 * a pause of the tree: each sub-pool has a context under it, which ends as well. Under the
 * latch. */
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

/* Nothing is in flight, and no call is about to admit a task. Under the latch, after a collect. */
static inline bool pool_is_quiet(const weft_pool *pool)
{
    return pool->in_flight == 0 && pool->pins == 0 && pool->line.length == 0;
}

#endif
