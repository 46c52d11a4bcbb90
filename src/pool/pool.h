/*
 * pool.h: what the files of the pool share.
 *
 *   queue.c    tasks that wait
 *   order.c    which task is next: priorities and keys
 *   calls.c    the calls by which tasks come
 *   submit.c   admission: who gets in, who waits, who is turned away
 *   settle.c   what follows from a change: who is called, admitted, woken or made
 *   worker.c   execution: workers, who runs the next task
 *   hand.c     tasks in hand
 *   tray.c     what fibers submit, laid aside by their processor
 *   stand.c    who runs tasks in place of a worker
 *   start.c    how a worker starts and ends
 *   rescue.c   tasks in the hand of a worker that does not come back
 *   pool.c     the life of a pool: options, open, stop, close, tune, pause, figures
 *   task.c     tasks with a handle
 *   panic.c    panics of tasks
 *   crash.c    workers that can be abandoned in their task
 *
 * Everything is under the pool's latch, except that a worker runs the tasks of a chunk it has in hand
 * without it (queue.h) and counts those that ended by itself, and that fibers lay tasks on a tray (tray.c), whose places
 * are inside from the beginning:
 *
 *     admitted and not ended  ==  inside - sum over the workers and the hands of (ended - counted)
 *                                        - places of open trays that are not used
 *
 * so whoever needs the exact number collects first: adds up what the workers have counted, and closes the trays. Whoever has
 * to wait until a task ends (a submitter of a full pool, a stop) says so in `attention`, which workers
 * look at between two tasks (who waits for all of them asks for less, WHEN_DONE: the worker that ends the last one comes
 * to the latch in any case):
 *
 *     who waits, under the latch           worker
 *     attention = AT_ONCE (seq_cst)        ended + 1
 *     collect; enough? then go on          take the next (a seq_cst operation)
 *     park                                 attention? then latch, collect, serve those who wait
 *
 * At least one sees the other.
 */
#ifndef WEFT_POOL_POOL_H
#define WEFT_POOL_POOL_H

#include <weft/pool.h>
#include <weft/timer.h>

#include "base/latch.h"
#include "base/line.h"
#include "pool/queue.h"
#include "sched/sched.h"
#include "sync/waiters.h"

enum { PRIORITIES = 3, SERIAL_BUCKETS = 64 };

enum attention {
    NO_ATTENTION,
    WHEN_DONE,  /* when there is no more to take */
    WHEN_ENDED, /* between two tasks, by who has ended one: many may just begin */
    AT_ONCE,    /* between two tasks */
};

enum pool_state { POOL_OPEN, POOL_STOPPING, POOL_STOPPED };

enum worker_state {
    WORKER_LOOSE,  /* none of these, for a moment */
    WORKER_STARTS, /* in on_worker_start: counted in `starting` */
    WORKER_IDLE,   /* parked, in the list of idle ones */
    WORKER_TAKES,  /* takes task after task: in the list of takers */
    WORKER_AWAY,   /* its task waits, or has waited: others take the tasks that come next */
    WORKER_HELPS,  /* a helper that has not come yet; counts as away */
};

/* Where the worker stands: in front of a private stack, before what a compact fiber keeps, or with what a crash needs. */
enum worker_kind { WORKER_PRIVATE, WORKER_COMPACT, WORKER_ISOLATED };

/* Never in a frame of the worker's: others look at it while its task waits, and a panic in a task begins the stack anew.
 * What a turn touches stands together. */
struct worker {
    struct link link; /* in the line of idle ones, or of takers; first: see worker_of */
    weft_pool *pool;
    struct weft_fiber *fiber;
    struct chunk *chunk; /* in hand */
    atomic_u32 ended; /* tasks that it ran to the end, modulo 2^32; written by the worker alone */
    uint32_t counted; /* of those, under the latch: taken from `inside` */
    uint16_t watched; /* `ended`, the lower half of it, when rescue.c last looked */
    uint8_t state;    /* changed under the latch by its owner, or from IDLE by who wakes it */
    bool in_task;     /* the user's code runs, not the pool's */
    bool called;      /* counted in the pool's `called` */
    bool armed;       /* the task's own code runs, for the signal handler of its thread: crash.c */
    uint8_t kind;     /* enum worker_kind */
    bool moves;       /* to another hot stack: it begins anew, and has its state */
    void *user_state; /* on_worker_start's */
    struct task task;
};

/* What a processor has in hand for the workers whose task has waited: hand.c. */
struct hand {
    _Alignas(CACHE_LINE) struct chunk *chunk; /* NULL: nothing */
    atomic_u64 ended;                         /* written by the owner of the processor alone */
    uint64_t counted;                         /* of those, under the latch: taken from `inside` */
    atomic_u64 came; /* helpers that came to this processor; written by its owner alone */
    struct tray
        *tray; /* what is submitted here: tray.c; NULL: never opened. Changed as the chunk is */
};

static inline struct worker *worker_of(struct link *link)
{
    return (struct worker *)(void *)link; /* or NULL */
}

/* The task has ended, or will never run, and everybody who is told of it has been. In a forked child it is left. */
static inline void task_free_copy(struct task *task)
{
    if (likely(!task->copied) || weft__runtime_forked())
        return;
    weft__sys_free(task->arg);
    task->copied = false;
}

/* What is offered to the pool. */
struct offer {
    struct task task;
    uint64_t key;
    int64_t deadline;
    uint16_t copy; /* not 0: bytes of the argument that are copied when it is admitted */
    bool tries;    /* -EAGAIN, where -ETIMEDOUT would be said */
};

/* A submitter that waits; on its stack. */
struct submitter {
    struct link link; /* first: see submitter_of */
    struct waiter *waiter;
    const struct offer *offer;
    bool naps; /* it will look by itself, soon */
    int error; /* once it was claimed */
};

static inline struct submitter *submitter_of(struct link *link)
{
    return (struct submitter *)(void *)link; /* or NULL */
}

/* Tasks of one key: one of them is in the pool's queue, or runs; the others wait here. */
struct serial {
    struct serial *next;
    uint64_t key;
    struct queue queue;
};

struct weft_pool {
    /* What is written when a worker comes to rest stands in two lines, but for the totals. */
    _Alignas(CACHE_LINE) struct latch latch;
    atomic_u32 room; /* a hint: there is room for one more */
    uint8_t state;   /* enum pool_state */
    bool paused;
    bool quick;                       /* the last chunk was run through: tasks are short */
    bool mixed;                       /* tasks of different priorities have come */
    uint8_t since_high, since_normal; /* tasks taken since one of lower priority was */
    uint8_t since_parked;             /* tasks to take one by one, since some have parked lately */
    uint8_t
        parked_in_row; /* takers whose task has parked, since one has ended its; no more than PARKED_MOST */
    int64_t inside;
    atomic_i64 ready;    /* tasks in the queues; looked at without the latch */
    struct line idle;    /* workers */
    uint32_t hands_used; /* hands that have a chunk */
    uint32_t trays_open;
    int64_t away;
    struct line blocked;  /* submitters */
    struct line takers;   /* workers */
    bool hands_uncounted; /* tasks may have ended in hands since they were last counted */

    int64_t capacity, queue_most;
    struct queue queues[PRIORITIES]; /* high, normal, low */
    int64_t held_back;               /* tasks that wait for another of their key */

    int64_t workers;      /* that exist, or are being made */
    int64_t starting;     /* of those: not yet there */
    int64_t failing;      /* of those: could not start, and will try again */
    int64_t called;       /* takers that were woken and have not come yet */
    uint32_t hand_visits; /* workers that had the latch, and might have looked at one */
    uint32_t hand_looked; /* the last one that was looked at */
    uint64_t helpers;     /* that were made, or are being made */
    int64_t
        visitors; /* calls that still have to do with the pool: it does not stop before they end */
    int64_t lent; /* places of workers that wait for tasks of this pool */

    int64_t napping;             /* of the blocked: who nap */
    bool rescue_makes;           /* rescue.c makes a worker: it could not run a task in its place */
    bool put_off;                /* a fiber that naps will see to it who is called: settle.c */
    int64_t flow_at, flow_ended; /* the time, and the tasks ended, when one last had to wait */
    int64_t flow;                /* places that a fiber's nap brings, by that */
    void *stoppers;              /* waiters: who wait for it to be stopped */
    void *watchers;              /* the same: for all tasks to have ended */
    int64_t watchers_coming;     /* who will be there soon, or find that it is so */

    struct serial *serials[SERIAL_BUCKETS];
    weft_pool_stats stats; /* the totals */
    atomic_i64 crashes_left;

    /* Read by workers between two tasks, without the latch; changed rarely. */
    _Alignas(CACHE_LINE) atomic_u32 attention; /* enum attention: what workers are to look for */
    atomic_u32 uses_trays;                     /* a hint for fibers that submit */
    uint32_t hand_count;
    struct hand *hands; /* of the processors */
    atomic_u32
        binds; /* tasks that are bound to a context have come: workers need extras for that */
    weft_pool_options options;
    weft_timer *shrinker; /* NULL: each worker has its own clock */
    bool shrink_armed;
    char name[FIBER_NAME_SIZE];
    int stack_class;                     /* -1: the default */
    void *site;                          /* where the pool was opened */
    weft_pool *pools_next, **pools_link; /* all pools: rescue.c */
};

/* What is to be done after the latch is released. */
struct errands {
    struct waiter *first, *last; /* to be woken, linked by `next` */
    uint8_t make_helpers;        /* so many, counted already */
    bool make_worker;            /* behind those */
};

static inline bool errands_any(const struct errands *errands)
{
    return errands->first != NULL || errands->make_worker || errands->make_helpers > 0;
}

static inline void errands_wake(struct errands *errands, struct waiter *waiter)
{
    waiter->next = NULL;
    if (errands->first == NULL)
        errands->first = waiter;
    else
        errands->last->next = waiter;
    errands->last = waiter;
}

/* What an idle worker is woken with. */
enum { WORKER_WORK = 0, WORKER_EXIT = 1 };

/* settle.c */

/* Under the latch: takes from `inside` what the worker has ended since the last time, and returns it. */
uint32_t weft__pool_count_ended(weft_pool *pool, struct worker *worker);
/* Under the latch: how many places are taken. */
int64_t weft__pool_busy(const weft_pool *pool);
/* worker.c: what calls a task, and those of its key that could not be queued: no panic leaves it. */
void weft__pool_call_task(weft_pool *pool, struct task *task);

/* Around the user's code that a worker runs. A worker that does not take any more has nothing to tell. */
void weft__worker_begin_task(struct worker *worker);
void weft__worker_end_task(struct worker *worker);
/* Under the latch: a worker that comes from on_worker_start, or from a task, is counted nowhere. */
void weft__worker_come_loose(weft_pool *pool, struct worker *worker);
/* Runs tasks until the worker is not needed any more. And: its whole life. */
void weft__worker_run_tasks(struct worker *worker);
void weft__worker_live(struct worker *worker);
struct panic;
/* A panic has ended its task. */
void weft__worker_panicked(struct worker *worker, struct panic *panic);
/* In the heir of a worker's fiber that is gone: ends its task as crashed; the worker starts anew. */
void weft__worker_crashed(struct worker *worker, struct weft_fiber *gone, struct panic *panic);

/* start.c */

/* Makes a worker, which is counted already, as one that starts or as one that is away, who runs next or behind all that is ready: 0 or
 * an error. And: only its fiber, not started. */
int weft__worker_make(weft_pool *pool, enum worker_state state, bool next);
int weft__worker_fiber(weft_pool *pool, struct weft_fiber **fiber, void (*function)(void *),
                       void *arg);
/* In who runs a task that is bound to a context, before that: a worker that was made before any such task came may have
 * to wait for memory. */
void weft__worker_can_bind(void);
/* The beginning of a worker that is WORKER_STARTS, in its fiber; false: it is not needed any more. What it does at its end, whether
 * it could start or not; and of that only what concerns the pool. */
bool weft__worker_begin(struct worker *worker);
void weft__worker_finish(struct worker *worker, bool started);
void weft__worker_end(struct worker *worker);
/* The same from where a panic in a task has brought it. */
void weft__worker_lives_on(struct worker *worker, struct panic *panic);

/* worker.c */

/* The worker that the caller runs in, in a task of its; NULL if there is none. */
struct worker *weft__worker_self(void);
/* The worker's task, or its start, is about to park: others may take what is ready. */
void weft__pool_pass_baton(struct worker *worker);
/* If the caller is a worker, its pool learns that its task is about to wait: for waits that park with
 * WAIT_TOLD. Not under the latch of any pool; the caller has entered the runtime. */
void weft__worker_tells(void);
/* Under the latch: takes from `inside` what the workers have ended since the last time; the second closes the trays as well,
 * so that it is exact. */
void weft__pool_count(weft_pool *pool);
void weft__pool_collect(weft_pool *pool);
/* Under the latch, after something changed: sees to it that there are workers enough for what is ready,
 * that submitters that fit are admitted, and that a stopping pool gets stopped. */
void weft__pool_settle(weft_pool *pool, struct errands *errands);
/* Under the latch: what workers are to look for. */
void weft__pool_set_attention(weft_pool *pool);
/* Under the latch: whether one more is wanted who takes tasks; so many of those who do are suspected to be
 * stuck. */
bool weft__pool_wants_taker(const weft_pool *pool, int64_t stuck);
/* Under the latch: takers that are known to have lost their processor to others. */
static inline bool worker_lost(const struct worker *worker)
{
    return (atomic_u32_load_relaxed(&worker->fiber->outside) & OUTSIDE_LOST) != 0;
}
int64_t weft__pool_lost(const weft_pool *pool);
/* Under the latch: those who will be takers. One that is being made may take long to begin: while others rest, who could be called, it
 * does not count. */
static inline int64_t weft__pool_starting(const weft_pool *pool)
{
    return pool->idle.length > 0 ? 0 : pool->starting;
}
/* Under the latch: takers, and those who will be, that have a processor as far as is known. */
static inline int64_t weft__pool_takers(const weft_pool *pool)
{
    int64_t takers = pool->takers.length + weft__pool_starting(pool);
    return likely(atomic_u32_load_relaxed(&weft__sched.lost) == 0) ? takers
                                                                   : takers - weft__pool_lost(pool);
}
/* Under the latch, with so many tasks ready: one more taker than there are pays only where it would have a
 * processor, and if tasks are short, only where there are many: more of them contend for the latch. (If a
 * processor becomes idle later, or tasks are not so short, rescue.c sees to it.) */
enum { BACKLOG = 256 };
static inline bool weft__pool_takers_suffice(const weft_pool *pool, int64_t ready)
{
    int64_t takers = weft__pool_takers(pool);
    return takers > 0 && (atomic_u32_load_relaxed(&weft__sched.idle_count) == 0 ||
                          (pool->quick && ready <= takers * BACKLOG));
}
/* Under the latch: wakes one or makes one if one more is wanted, now; and: whether that is put off. */
void weft__pool_call_wanted(weft_pool *pool, struct errands *errands);
bool weft__pool_puts_off(const weft_pool *pool);
/* Under the latch: wakes one, or makes one. */
void weft__pool_call_taker(weft_pool *pool, struct errands *errands);
/* Under the latch, when a taker's task parks: has some helpers made, where many are needed. */
enum { PARKED_MOST = 30 };
void weft__pool_call_helpers(weft_pool *pool, struct errands *errands);
/* After the latch is released; a fiber must have entered the runtime. True: no worker could be made. Then
 * the caller, who is counted as a visitor, has to call weft__pool_do_without when it has left the
 * runtime. */
WEFT_MUST_USE bool weft__pool_run(weft_pool *pool, struct errands *errands);
/* Runs what is ready, as long as there is no worker to do it; the visit ends. */
void weft__pool_do_without(weft_pool *pool);
/* Inside the runtime, in place of that: calls an idle one if there is one by now, or has it tried again later; the visit ends. */
void weft__pool_give_up(weft_pool *pool);
/* With the latch held, after a change: settles, releases the latch, runs the errands and leaves the runtime, if it was
 * a fiber that had entered it; and does without a worker if none can be made. */
void weft__pool_finish(weft_pool *pool, struct errands *errands, bool fiber);
/* Ends a visit; the second, inside the runtime. */
void weft__pool_leave(weft_pool *pool);
void weft__pool_leave_inside(weft_pool *pool);
/* Under the latch: ends the worker that is idle longest. */
bool weft__pool_end_oldest(weft_pool *pool, struct errands *errands);
/* Raises the capacity by so many places, while workers wait for tasks of their own pool. */
void weft__pool_lend(weft_pool *pool, int64_t places);
/* Makes `count` workers that are idle until they are needed; 0 or an error. */
int weft__pool_prestart(weft_pool *pool, int64_t count);
/* Calls a task in the caller, which is not one of the pool's workers or runs it inside another task. */
void weft__pool_call(weft_pool *pool, struct task *task);

/* Under the latch: how many tasks may be inside. */
static inline int64_t pool_limit(const weft_pool *pool)
{
    int64_t limit;
    return __builtin_add_overflow(pool->capacity, pool->queue_most, &limit) ? INT64_MAX : limit;
}

static inline void change_ready(weft_pool *pool, int64_t by)
{
    atomic_i64_add_owner(&pool->ready, by); /* its owner is who has the latch */
}

/* hand.c */

/* Of the caller's processor, inside the runtime; NULL: there are more processors than when the pool was opened. */
static inline struct hand *hand_here(const weft_pool *pool)
{
    uint32_t index = thread_self()->processor->index;
    return likely(index < pool->hand_count) ? &pool->hands[index] : NULL;
}

/* What is left of a chunk that was in hand is the first of its queue again. */
void weft__pool_return_chunk(weft_pool *pool, struct chunk *chunk);

/* A helper has come, inside the runtime. And, under the latch: how many of them have not yet, at most. */
void weft__helper_comes(struct worker *worker);
int64_t weft__helpers_coming(const weft_pool *pool);
bool weft__hands_make(weft_pool *pool);
void weft__hands_free(weft_pool *pool);
/* The next task out of the hand of the processor, for a worker that is away, or has the latch, and has entered the
 * runtime; what it has ended is counted in the hand. False: there is none. */
bool weft__hand_take(struct worker *worker, struct task *task);
/* The following under the latch. The same out of a chunk that is taken in hand; false: there is none. */
bool weft__hand_fill(weft_pool *pool, struct task *task);
/* Inside the runtime: forgets the chunk of the processor's hand if it is empty. */
void weft__hand_clear(weft_pool *pool);
/* The same: what is left in it goes back to the queue. */
void weft__hand_put_back(weft_pool *pool);
/* How many tasks are in the hands of the processors. */
int64_t weft__hands_length(const weft_pool *pool);
/* Takes from `inside` what was ended there since the last time. */
void weft__hands_count(weft_pool *pool);
/* Looks at the next of these hands, or at all: if nothing was taken since the last look it is emptied. */
void weft__hands_look(weft_pool *pool, bool all);
/* A chunk to be taken in hand; NULL if there is not enough for that. */
struct chunk *weft__pool_take_chunk(weft_pool *pool);
/* A task out of the hand of a processor, or of another taker. */
bool weft__pool_steal(weft_pool *pool, struct task *task);
/* What is in a chunk in hand goes back to the queue; the same if nothing was taken out of it since the last look;
 * and of all hands, if their priority comes after that. */
void weft__pool_empty_chunk(weft_pool *pool, struct chunk *chunk);
void weft__pool_empty_if_still(weft_pool *pool, struct chunk *chunk);
void weft__pool_empty_hands(weft_pool *pool, int above);
/* Whether more than so many tasks wait for a worker: in the queue, or in hands that no worker is bound to. */
static inline bool weft__pool_waits(const weft_pool *pool, int64_t more_than)
{
    int64_t ready = atomic_i64_load_relaxed(&pool->ready);
    return ready > more_than || ready + weft__hands_length(pool) > more_than;
}

/* tray.c */

void weft__tray_free(struct tray *tray);
/* Inside the runtime: lays a plain task on the tray of the processor; false: it is full, or not open. */
bool weft__tray_lay(weft_pool *pool, void (*function)(void *), void *arg);
/* The following under the latch. Inside the runtime: closes the tray of the processor, and opens it anew; false: it may not be. */
bool weft__tray_renew(weft_pool *pool);
/* Closes the tray of a hand; the same if it was open at the last look; and all. */
void weft__tray_close(weft_pool *pool, struct hand *hand);
void weft__tray_look(weft_pool *pool, struct hand *hand);
void weft__trays_close_all(weft_pool *pool);
static inline void trays_close(weft_pool *pool)
{
    if (unlikely(pool->trays_open > 0))
        weft__trays_close_all(pool);
}
/* How many places that count as inside have no task yet; a guess. */
int64_t weft__trays_unused(const weft_pool *pool);
/* Whether tasks are as those that trays are for, and the pool is so large that it is not full most of the time. */
enum { PLACES_LEAST = 8, TRAY_LIMIT = 1000 };
static inline bool weft__pool_suits_trays(const weft_pool *pool)
{
    return pool->quick && !pool->mixed && !pool->paused && pool->state == POOL_OPEN &&
           pool->capacity > 1 && pool_limit(pool) >= TRAY_LIMIT &&
           pool_limit(pool) >= 4 * PLACES_LEAST * (int64_t)pool->hand_count;
}

/* pool.c */

/* Stops it, whatever happens to the caller's context; 0, or -EDEADLK. */
int weft__pool_stop_firmly(weft_pool *pool);

void weft__pool_log(weft_pool *pool, const char *line);
/* Under the latch, when a worker has come to rest: true if idle workers are to be given back in a while;
 * then the caller starts the clock when it has released the latch. */
bool weft__pool_shrinks_now(weft_pool *pool);
void weft__pool_shrink_later(weft_pool *pool);

/* order.c */

static inline int queue_of(int priority)
{
    return 1 - priority; /* high, normal, low */
}
/* Under the latch: a task goes into the queue of its priority, or waits for those of its key before it;
 * false without memory. */
bool weft__pool_put(weft_pool *pool, const struct task *task, uint64_t key);
/* Under the latch: a task with a key has ended, or will never run: the next of its key may. True: there is
 * no memory to queue that, and it is in *task, for the caller to run. */
bool weft__pool_serial_next(weft_pool *pool, struct serial *serial, struct task *task);
/* Under the latch: the next task by priority. */
bool weft__pool_pop(weft_pool *pool, struct task *task);
/* Under the latch: takes a task that has not begun, to be dropped: the one that waits longest, of the lowest
 * priority. *calls: as weft__pool_serial_next said, of *next. */
bool weft__pool_forget(weft_pool *pool, struct task *task, struct task *next, bool *calls);

/* Under the latch: no task is inside, none waits to be, and nobody is told of one that was dropped. */
static inline bool weft__pool_is_quiet(const weft_pool *pool)
{
    return pool->inside == 0 && pool->visitors == 0 && pool->blocked.length == 0;
}

/* submit.c */

/* Under the latch: admits the submitters that wait and now fit. */
void weft__pool_admit(weft_pool *pool, struct errands *errands);
/* Under the latch: puts a task inside for which there is room; 0, or -ENOMEM. */
int weft__pool_admit_one(weft_pool *pool, const struct offer *offer);
/* Whoever submits may have to run tasks, if no worker can be made: a panic must not leave them, and their contexts
 * are to bind it. So a thread must be known; false without memory for that. */
bool weft__caller_is_known(void);
/* Offers a task; 0 or an error. */
int weft__pool_offer(weft_pool *pool, const struct offer *offer);
/* What the options say; false if they make no sense. */
bool weft__offer_from(struct offer *offer, const weft_submit_options *options);
/* Outside the latch: a task will not run. What it owns is freed. */
void weft__pool_tell_drop(weft_pool *pool, struct task *task);
/* Under the latch: turns all who wait away. */
void weft__pool_refuse(weft_pool *pool, int error, struct errands *errands);

/* stand.c */

/* The caller runs a task of the pool in place of a worker; on its stack. */
struct stand_in {
    weft_pool *pool;
    struct stand_in *outer, *next;
    const void *who;
    uint32_t depth; /* one inside the other; no more than DEPTH_MOST where there is a choice */
    bool has_place; /* it counts as one of the workers that are away */
    bool recorded;
};
enum { DEPTH_MOST = 8 };
/* Whether the caller may run one more; false also without memory to tell how many it runs. And: whether it runs any. */
bool weft__pool_may_stand_in(void);
bool weft__pool_stands_in(void);
/* Around such a task. */
void weft__stand_in_begin(struct stand_in *own, weft_pool *pool, bool has_place);
void weft__stand_in_end(const struct stand_in *own);
/* What the caller is to the pool: nothing; in a task of it, beyond its places; or in one that has a place. */
enum role { ROLE_STRANGER, ROLE_GUEST, ROLE_HOLDER };
enum role weft__pool_role(const weft_pool *pool);

/* A guess, without the latch of the caller's: how many tasks are inside; whether one more would be admitted
 * at once. */
int64_t weft__pool_inside(weft_pool *pool);
bool weft__pool_has_room(weft_pool *pool);

/* rescue.c */

void weft__pools_add(weft_pool *pool);
void weft__pools_remove(weft_pool *pool);

#endif
