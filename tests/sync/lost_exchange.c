/*
 * lost_exchange.c: what another party does before each atomic exchange of an operation (steps.h):
 * compare-and-swaps that fail, and state that has changed when it is read again.
 */
#include "sync/steps.h"

#include <pthread.h>
#include <sched.h>

#include "bodies.h"
#include "everywhere.h"
#include "os/failure.h"
#include "os/os.h"
#include "pool/shard.h"
#include "sched/core/park.h"
#include "sched/core/scheduler.h"
#include "sched/runtime/maintenance.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"
#include "sync/lock_order.h"

/* Wait groups: two parties add. */

static void add_one(void *wg)
{
    CHECK_EQ(weft_wg_add(wg, 1), 0);
}

static void two_add(void)
{
    weft_wg wg;
    uint32_t at = 0;
    bool met;
    do {
        CHECK_EQ(weft_wg_init(&wg, 0), 0);
        met = steps_at(add_one, &wg, ++at, add_one, &wg);
        CHECK_EQ(weft_wg_count(&wg), 1 + met);
    } while (met);
}

/* Mutexes: another party locks first. */

enum { MUTEX_LOCKED = 1 }; /* as mutex.c has it */

static struct {
    weft_mutex mutex;
    int result;
    bool taken, held, lost; /* of the other party */
} contended;

static atomic_u32 *contended_word(void)
{
    return (atomic_u32 *)(void *)&contended.mutex.word;
}

static void try_it(void *arg)
{
    contended.result = weft_mutex_try_lock(&contended.mutex);
}

static void lock_first(void *arg)
{
    uint32_t free = 0;
    contended.taken = atomic_u32_cas_acquire(contended_word(), &free, MUTEX_LOCKED);
}

static void another_thread_locks_first(void)
{
    uint32_t lost = 0, at = 0;
    bool met;
    do {
        contended.mutex = (weft_mutex)WEFT_MUTEX_INIT;
        contended.taken = false;
        met = steps_at(try_it, NULL, ++at, lock_first, NULL);
        CHECK_EQ(contended.result, contended.taken ? -EBUSY : 0);
        lost += contended.taken;
        if (contended.result == 0)
            weft_mutex_unlock(&contended.mutex);
    } while (met);
    CHECK_EQ(lost, 1);
}

static void lock_it(void *arg)
{
    weft_mutex_lock(&contended.mutex);
}

/* The other party has the mutex at first, unlocks it after the first exchange, and locks it once
 * more for the next one. */
static void locks_again(void *arg, uint32_t step, uint32_t exchange)
{
    uint32_t free = 0;
    if (contended.held) {
        contended.lost = atomic_u32_exchange_acq_rel(contended_word(), 0) == MUTEX_LOCKED;
        steps_enough();
    } else if (exchange > 1) {
        contended.held = atomic_u32_cas_acquire(contended_word(), &free, MUTEX_LOCKED);
    } else if (exchange == 0 && steps.exchanges == 1) {
        atomic_u32_store_release(contended_word(), 0);
    }
}

static void another_thread_locks_again(void)
{
    /* In the first round the dynamic linker has exchanges of its own. */
    for (int round = 0; round < 2; round++) {
        contended.mutex = (weft_mutex)WEFT_MUTEX_INIT;
        contended.held = contended.lost = false;
        atomic_u32_store_relaxed(contended_word(), MUTEX_LOCKED);
        steps_run(lock_it, NULL, locks_again, NULL);
        CHECK(contended.lost);
        CHECK_EQ(weft_mutex_try_lock(&contended.mutex), -EBUSY);
        weft_mutex_unlock(&contended.mutex);
    }
}

/* Maintenance: two threads plan it, and the earlier time counts. */

static void plan(void *time)
{
    weft__maintenance_by(*(int64_t *)time);
}

static void two_threads_plan_maintenance(void)
{
    int64_t before = atomic_i64_load_relaxed(&weft__sched.maintenance_time);
    int64_t soon = weft_after(3600 * WEFT_S), late = soon + 1, met = 0;
    for (int way = 0; way < 2; way++) {
        int64_t *first = way == 0 ? &soon : &late, *second = way == 0 ? &late : &soon;
        atomic_i64_store_relaxed(&weft__sched.maintenance_time, WEFT_NEVER);
        met += steps_at(plan, second, 1, plan, first);
        CHECK_EQ(atomic_i64_load_relaxed(&weft__sched.maintenance_time), soon);
    }
    CHECK_EQ(met, 2);
    atomic_i64_store_relaxed(&weft__sched.maintenance_time, before);
}

/* A once: the owner ends it while another caller begins to wait. */

enum { ONCE_RUNNING = 1, ONCE_DONE = 2 }; /* as once.c has them */

static struct {
    weft_once once;
    uint32_t at;
    bool ended;
    sigjmp_buf back;
} one;

static void do_once(void *once)
{
    weft_once_do(once, do_once, once); /* not called */
}

/* Ends the once before exchange number one.at. If the caller has gone to the list before that, the
 * try is abandoned: no party would wake it. */
static void ends_it(void *arg, uint32_t step, uint32_t exchange)
{
    uint32_t running = ONCE_RUNNING;
    if (exchange == one.at) {
        one.ended =
            atomic_u32_cas_acq_rel((atomic_u32 *)(void *)&one.once.word, &running, ONCE_DONE);
        steps_enough();
    } else if (one.once.word != ONCE_RUNNING) {
        steps_leave(one.back);
    }
}

static void the_owner_ends_the_once(void)
{
    one.at = 0;
    do {
        one.once = (weft_once)WEFT_ONCE_INIT;
        one.once.word = ONCE_RUNNING;
        one.at++;
        one.ended = false;
        if (sigsetjmp(one.back, 1) == 0)
            steps_run(do_once, &one.once, ends_it, NULL);
        CHECK(!one.ended || one.once.word == ONCE_DONE);
    } while (one.ended);
    CHECK(one.at > 2); /* before and after it has seen that the function runs */
}

/* A spin lock that is free when it is read, and held when it is taken. */

enum { FREE_AT = 200, HELD_FOR = 100 };

static struct {
    weft_spin spin;
    uint32_t taken_at; /* a second time; or 0 */
} held;

static void lock_spin(void *spin)
{
    weft_spin_lock(spin);
}

static void other_holds_it(void *arg, uint32_t step, uint32_t exchange)
{
    atomic_u32 *word = (atomic_u32 *)(void *)&held.spin.word;
    if (step == FREE_AT)
        atomic_u32_store_release(word, 0);
    if (step > FREE_AT && held.taken_at == 0 && exchange > 0) {
        CHECK_EQ(atomic_u32_exchange_acq_rel(word, 1), 0);
        held.taken_at = step;
    }
    if (held.taken_at != 0 && step == held.taken_at + HELD_FOR) {
        atomic_u32_store_release(word, 0);
        steps_enough();
    }
}

static void a_lock_is_taken_again(void)
{
    held.taken_at = 0;
    held.spin.word = 1;
    steps_run(lock_spin, &held.spin, other_holds_it, NULL);
    CHECK(held.taken_at != 0 && steps.count == held.taken_at + HELD_FOR);
    CHECK_EQ(weft_spin_try_lock(&held.spin), -EBUSY);
    weft_spin_unlock(&held.spin);
}

/* A readers-writer mutex: a reader gives up while the writer that it waits for unlocks. */

static struct {
    weft_rwmutex mutex;
    struct waiter record, *reader;
    bool gave_up;
} rw;

static void write_unlock(void *mutex)
{
    weft_rwmutex_write_unlock(mutex);
}

/* Gives up, unless the writer has the latch, or the reader is not in the list any more. */
static void gives_up(void *arg)
{
    if (rw.mutex.latch != 0 || rw.mutex.readers == NULL)
        return;
    rw.gave_up = true;
    object_latch_acquire(&rw.mutex.latch);
    CHECK(waiter_claim(rw.reader, -ETIMEDOUT));
    CHECK(waiters_remove(&rw.mutex.readers, rw.reader));
    object_latch_release(&rw.mutex.latch);
}

static void a_reader_gives_up(void)
{
    uint32_t at = 0;
    bool met;
    do {
        weft_rwmutex_write_lock(&rw.mutex);
        rw.reader = weft__waiter_begin(&rw.record);
        atomic_u32_store_relaxed(&rw.reader->state, WAITER_SHARED);
        waiters_add_last(&rw.mutex.readers, rw.reader);
        rw.gave_up = false;
        met = steps_at(write_unlock, &rw.mutex, ++at, gives_up, NULL);
        if (!rw.gave_up) {
            CHECK_EQ(rw.reader->result, 0);
            weft_rwmutex_read_unlock(&rw.mutex); /* for that reader */
        }
        CHECK_EQ(weft_rwmutex_try_write_lock(&rw.mutex), 0);
        weft_rwmutex_write_unlock(&rw.mutex);
    } while (met);
    CHECK(at > 2);
}

/* Locks whose order is checked: two callers number a lock at the same time. */

#ifdef WEFT_DEBUG

static uint32_t number;

static void take_lock(void *arg)
{
    weft__lock_order_taken(arg, &number, NULL);
}

static void number_it(void *given)
{
    if (number == 0)
        *(uint32_t *)given = number = 1u << 30;
}

static void two_threads_number_a_lock(void)
{
    uint32_t at = 0, given;
    CHECK(weft__held_locks() != NULL && *weft__held_locks() == NULL);
    bool met;
    do {
        number = given = 0;
        met = steps_at(take_lock, &number, ++at, number_it, &given);
        CHECK(given == 0 || number == given);
        weft__lock_order_released(&number);
        CHECK_PTR(*weft__held_locks(), NULL); /* it was held by the number that it has */
    } while (met);
}

#endif

/* An inbox: the last task is taken while the inbox is closed, or the task stolen. */

static struct {
    struct plain_task stolen, taken;
    bool was_stolen, was_taken;
    weft_pool pool;
    struct shard shard;
} last;

static void begin_last(void)
{
    memset(&last, 0, sizeof last);
    CHECK(weft__queue_push(&last.pool.queues[NORMAL], add_one, &last));
    last.shard.inbox = weft__queue_take_chunk(&last.pool.queues[NORMAL]);
    last.shard.spare = weft__chunk_new(false);
    CHECK(last.shard.inbox != NULL && last.shard.spare != NULL);
    last.pool.shards = &last.shard;
    last.pool.shard_count = last.pool.inboxes = 1;
}

static void end_last(void)
{
    weft__chunk_free(last.pool.queues[NORMAL].first);
    weft__chunk_free(last.shard.inbox);
    weft__chunk_free(last.shard.spare);
}

static void take_last(void *arg)
{
    last.was_taken = shard_take(&last.shard, &last.taken);
    CHECK(!last.was_taken || last.taken.arg == &last);
}

static void close_inbox(void *arg)
{
    weft__shards_close_inboxes(&last.pool);
}

static void a_closed_inbox_returns_its_task(void)
{
    uint32_t at = 0;
    bool met;
    begin_last(); /* the slab exists from here on */
    end_last();
    weft__os_live_count();
    int64_t before = weft__os_live(LIVE_MEMORY);
    do {
        begin_last();
        met = steps_at(close_inbox, NULL, ++at, take_last, NULL);
        int64_t back = last.pool.queues[NORMAL].length;
        CHECK_EQ(back + last.was_taken, 1); /* one of them has it */
        CHECK_EQ(atomic_i64_load_relaxed(&last.pool.ready), back);
        end_last();
        /* With sanitizers; else objects are in a slab. */
        CHECK_EQ(weft__os_live(LIVE_MEMORY), before);
    } while (met);
}

static void steal_last(void *arg)
{
    last.was_stolen = weft__inboxes_steal(&last.pool, &last.stolen);
    CHECK(!last.was_stolen || last.stolen.arg == &last);
}

static void one_thread_gets_the_last_task(void)
{
    uint32_t at = 0;
    bool met;
    do {
        begin_last();
        met = steps_at(steal_last, NULL, ++at, take_last, NULL);
        CHECK_EQ(last.was_stolen + last.was_taken, 1);
        CHECK_EQ(last.pool.stats.stolen, last.was_stolen);
        end_last();
    } while (met);
}

/* An object pool is closed, and its clock ticks. */

#define PERIOD (10 * WEFT_MS) /* more than it takes to reach the exchange in question */

static atomic_u32 turns, enough, destroyed;

static void take_turns(void *arg)
{
    for (; !atomic_u32_load_acquire(&enough); weft_yield())
        atomic_u32_add_seq_cst(&turns, 1);
}

static weft_object_pool *objects;

static void use_object(void)
{
    void *object;
    CHECK_EQ(weft_object_pool_get(objects, &object), 0);
    weft_object_pool_put(objects, object);
}

/* Needs another for that. */
static void destroy(void *object, void *arg)
{
    if (atomic_u32_add_seq_cst(&destroyed, 1) == 0)
        use_object();
}

static void close_objects(void *arg)
{
    CHECK_EQ(weft_object_pool_close(objects), 0);
}

/* Before the clock is taken: without objects it has stopped by then. A try in which it had stopped
 * earlier, on a slow machine, does not count. */
static void let_it_stop(void *arg)
{
    *(bool *)arg = atomic_u32_load_acquire(&destroyed) == 0;
    while (atomic_u32_load_acquire(&destroyed) < 2)
        sched_yield();
}

/* Before the timer's lock is taken: the clock is gone, and a tick does nothing. There is one
 * processor: when the timer has fired and another fiber has had some turns since, the tick is as
 * far as it can get. */
static void let_it_tick(void *arg)
{
    enum { TURNS = 20 };
    uint32_t since = atomic_u32_load_acquire(&turns);
    *(bool *)arg = weft__timers_next() != WHEEL_EMPTY;
    while (atomic_u32_load_acquire(&turns) - since < TURNS) {
        if (weft__timers_next() != WHEEL_EMPTY)
            since = atomic_u32_load_acquire(&turns);
        sched_yield();
    }
}

static void objects_are_closed_at_a_tick(void)
{
    weft_fiber *other;
    weft_object_pool_options options = {.size = 8, .destroy = destroy, .idle_period = PERIOD};
    processors_begin(1);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_spawn(&other, take_turns, NULL, NULL), 0);
    for (uint32_t at = 1; at <= 2;) {
        bool ticked = false;
        atomic_u32_store_relaxed(&destroyed, 0);
        CHECK_EQ(weft_object_pool_open(&objects, &options), 0);
        use_object();
        CHECK(steps_at(close_objects, NULL, at, at == 1 ? let_it_stop : let_it_tick, &ticked));
        CHECK_EQ(atomic_u32_load_acquire(&destroyed), 2);
        at += ticked;
    }
    atomic_u32_store_release(&enough, 1);
    CHECK_EQ(weft_join(other), 0);
    processors_end();
}

int main(void)
{
    if (!STEPS_WORK)
        test_skip("no traps after each instruction, or they would be in the code of a sanitizer");
    RUN_PLAIN(two_add, "by one thread");
    RUN_PLAIN(another_thread_locks_first, "by one thread");
    RUN_PLAIN(another_thread_locks_again, "by one thread");
    RUN_PLAIN(two_threads_plan_maintenance, "by one thread");
    RUN_PLAIN(the_owner_ends_the_once, "by one thread");
    RUN_PLAIN(a_lock_is_taken_again, "by one thread");
    RUN_PLAIN(a_reader_gives_up, "by one thread");
#ifdef WEFT_DEBUG
    RUN_PLAIN(two_threads_number_a_lock, "by one thread");
#endif
    RUN_PLAIN(a_closed_inbox_returns_its_task, "by one thread");
    RUN_PLAIN(one_thread_gets_the_last_task, "by one thread");
    RUN_PLAIN(objects_are_closed_at_a_tick, "stops or configures the runtime");
    return 0;
}
