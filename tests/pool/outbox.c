/*
 * outbox.c: inboxes and outboxes of processors (pool/shard.c): fibers put short tasks into the
 * outbox of their processor, workers take tasks from its inbox.
 *
 * Each admitted task runs once and in order. Places of an outbox make no submit fail and are not
 * lost. A task in an outbox runs though its fiber does nothing more. Where it depends on the
 * schedule whether an outbox is open, a test goes on until it has seen an open one.
 */
#include "failing.h"
#include "pool/shard.h"
#include "tasks.h"

enum { CAPACITY = OUTBOX_LIMIT };

static atomic_u32 ran;

static bool outbox_is_open(weft_pool *pool)
{
    latch_acquire(pool->latch);
    bool open = pool->outboxes > 0;
    latch_release(pool->latch);
    return open;
}

/* An active worker that does not get on as long as it is held. */
static atomic_u32 held, holds;

static void hold_task(void *computes)
{
    atomic_u32_store_release(&holds, 1);
    while (count_of(&held))
        if (computes == NULL)
            weft_yield();
}

static void await_all(weft_pool *pool)
{
    while (pool_stats(pool).completed < pool_stats(pool).submitted)
        weft_yield();
}

/* From here on only this task runs, on one processor; it computes, or yields to other fibers. */
static void hold(weft_pool *pool, void *computes)
{
    atomic_u32_store_release(&held, 1);
    atomic_u32_store_release(&holds, 0);
    CHECK_EQ(weft_pool_submit(pool, hold_task, computes), 0);
    await(&holds, 1);
}

/* Submits until some are in an outbox, which failure.c may close at any time; how many. */
static uint32_t put_some(weft_pool *pool, atomic_u32 *counter)
{
    uint32_t count = 0;
    do {
        submit_counts(pool, counter, 3);
        count += 3;
    } while (!outbox_is_open(pool));
    return count;
}

static void let_go(weft_pool *pool)
{
    atomic_u32_store_release(&held, 0);
    await_all(pool);
}

/* Full is full: not before, because of places that outboxes have, and not after. */

static void no_place_is_missed(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = CAPACITY);
    atomic_u32_store_release(&ran, 0);
    for (int round = 1; round <= 3; round++) {
        int64_t admitted = 1, opened = 0;
        int error;
        hold(pool, NULL);
        for (; (error = weft_pool_try_submit(pool, count_task, &ran)) == 0; admitted++)
            opened += outbox_is_open(pool);
        CHECK_EQ(error, -EAGAIN);
        CHECK_EQ(admitted, CAPACITY);
        CHECK(opened > CAPACITY / 2 && !outbox_is_open(pool));
        CHECK_EQ(pool_stats(pool).running + pool_waiting(pool), CAPACITY);
        let_go(pool);
        CHECK_EQ(pool_stats(pool).completed, count_of(&ran) + round);
    }
    pool_close(pool);
}

/* The tasks of a fiber begin in order, also if a task of another kind follows an outbox. */

enum { ITEMS = 2000 };

static uint32_t begun;

static void item_task(void *arg)
{
    uint32_t number;
    memcpy(&number, arg, sizeof number);
    CHECK_EQ(number, begun);
    begun++;
}

static void tasks_stay_in_order(void *arg)
{
    static uint32_t items[ITEMS];
    bool seen = false;
    weft_pool *pool = POOL_OPEN(.capacity = CAPACITY);
    while (!seen) {
        await_all(pool);
        begun = 0;
        for (uint32_t i = 0; i < ITEMS; i++) {
            items[i] = i;
            if (i % 41 == 40) {
                weft_submit_options options = {.copy = sizeof items[i]};
                CHECK_EQ(weft_pool_submit_with(pool, item_task, &items[i], &options), 0);
            } else {
                CHECK_EQ(weft_pool_submit(pool, item_task, &items[i]), 0);
            }
            seen |= outbox_is_open(pool);
            if (i % 53 == 0)
                weft_yield();
        }
    }
    pool_close(pool);
    CHECK_EQ(begun, ITEMS);
}

/* Tasks in an outbox come before a task of lower priority from elsewhere. */

static weft_pool *for_low;
static atomic_u32 normal_ran;
static uint32_t before_low;

static void low_task(void *arg)
{
    before_low = count_of(&normal_ran);
}

static void submit_low(void *arg)
{
    weft_submit_options options = {.priority = WEFT_LOW};
    CHECK_EQ(weft_pool_submit_with(for_low, low_task, NULL, &options), 0);
}

static void low_ones_come_after(void *arg)
{
    for_low = POOL_OPEN(.capacity = CAPACITY);
    hold(for_low, NULL);
    atomic_u32_store_release(&normal_ran, 0);
    uint32_t normal = put_some(for_low, &normal_ran);
    on_thread(submit_low);
    CHECK(!outbox_is_open(for_low));
    submit_counts(for_low, &normal_ran, 3); /* later ones do not wait in an outbox either */
    let_go(for_low);
    CHECK_EQ(before_low, normal + 3);
    pool_close(for_low);
}

/* Without memory for an outbox, or for where its tasks are to go, the task goes into the queue. */

static void memory_for_it_may_fail(void *arg)
{
    for (uint32_t nth = 1; nth <= 2; nth++) { /* the outbox; its chunk */
        weft_pool *pool = POOL_OPEN(.capacity = CAPACITY);
        atomic_u32_store_release(&ran, 0);
        hold(pool, NULL);
        for (int round = 0; round < 2; round++) {
            submit_counts(pool, &ran, 1);
            (void)pool_stats(pool); /* closes it */
            CHECK((pool->shards[0].outbox == NULL) == (round == 0));
            failing_on(OS_ALLOC, round == 0 ? nth : 1, false);
            CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
            failing_off();
            CHECK(failing.calls >= 1 && !outbox_is_open(pool));
            CHECK_EQ(pool_waiting(pool), pool_stats(pool).submitted - 1);
            (void)put_some(pool, &ran);
        }
        let_go(pool);
        CHECK_EQ(pool_stats(pool).completed, count_of(&ran) + 1);
        pool_close(pool);
    }
}

/* A check by failure.c closes an outbox that was open at the check before; the figures count its
 * tasks. */

static void look(weft_pool *pool)
{
    latch_acquire(pool->latch);
    weft__shards_close_still(pool);
    latch_release(pool->latch);
}

static void an_old_one_is_closed(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = CAPACITY);
    hold(pool, NULL);
    int64_t queued = 0;
    for (int i = 0; i < 5; i++) {
        queued += put_some(pool, &ran);
        look(pool);
        submit_counts(pool, &ran, 1);
        queued++;
        look(pool);
        CHECK(!outbox_is_open(pool));
    }
    queued += put_some(pool, &ran);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.starting + stats.queued, queued);
    CHECK_EQ(stats.running, 1);
    let_go(pool);
    pool_close(pool);
}

/* A worker that starts may wait instead of looking for tasks: then no outbox is open. */

static struct gate start_gate;

static int start_at_gate(void **state, void *data)
{
    CHECK_EQ(weft_wg_wait(&start_gate.shut), 0);
    return 0;
}

static void one_that_starts_and_waits_closes_it(void *arg)
{
    gate_shut(&start_gate);
    weft_pool *pool = POOL_OPEN(.capacity = CAPACITY, .on_worker_start = start_at_gate);
    for (int i = 0; i < 10; i++) {
        submit_counts(pool, &ran, 1);
        do
            weft_yield();
        while (outbox_is_open(pool));
    }
    gate_open(&start_gate);
    await_all(pool);
    pool_close(pool);
}

/* Of three processors one has the held worker, one a fiber that fills its outbox and computes. The
 * third, which is never given up either, can have all other places. */

static atomic_u32 waiting, filled;

static void put_and_compute(void *arg)
{
    (void)put_some(arg, &ran);
    atomic_u32_store_release(&waiting, 1);
    while (!count_of(&filled))
        cpu_relax();
}

static void fill_up(void *arg)
{
    weft_pool *pool = arg;
    int error;
    while (!count_of(&waiting)) /* with an idle processor no outbox would be open */
        cpu_relax();
    while ((error = weft_pool_try_submit(pool, count_task, &ran)) == 0)
        continue;
    weft_pool_stats stats = pool_stats(pool);
    atomic_u32_store_release(&filled, 1);
    CHECK_EQ(error, -EAGAIN);
    CHECK_EQ(stats.running + stats.starting + stats.queued, CAPACITY);
}

static void fill_beside(void *arg)
{
    weft_wg done = WEFT_WG_INIT;
    weft_pool *pool = POOL_OPEN(.capacity = CAPACITY);
    hold(pool, pool);
    for (int64_t rounds = test_scale(100); rounds > 0; rounds--) {
        atomic_u32_store_release(&waiting, 0);
        atomic_u32_store_release(&filled, 0);
        CHECK_EQ(weft_wg_go(&done, fill_up, pool), 0);
        CHECK_EQ(weft_wg_go(&done, put_and_compute, pool), 0);
        CHECK_EQ(weft_wg_wait(&done), 0);
        while (pool_waiting(pool) > 0)
            weft_yield();
    }
    let_go(pool);
    pool_close(pool);
}

static void places_of_others_count(void)
{
    weft_fiber *fiber;
    processors_begin(3);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 3, .max_machines = 3}), 0);
    CHECK_EQ(weft_spawn(&fiber, fill_beside, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    processors_end();
}

/* A fiber fills its outbox and computes from then on: other processors run the tasks. */

static void submit_and_compute(void *arg)
{
    bool seen = false;
    weft_pool *pool = POOL_OPEN(.capacity = CAPACITY);
    atomic_u32_store_release(&ran, 0);
    int64_t rounds = test_scale(3000);
    for (uint32_t count = 0; rounds > 0 || !seen; rounds--) {
        uint32_t more = 1 + (uint32_t)(rounds & 63);
        submit_counts(pool, &ran, more);
        seen |= outbox_is_open(pool);
        count += more;
        while (count_of(&ran) < count)
            cpu_relax();
    }
    pool_close(pool);
}

static void what_is_in_one_runs(void)
{
    weft_fiber *fiber;
    processors_begin(2);
    CHECK_EQ(weft_spawn(&fiber, submit_and_compute, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    processors_end();
}

/* Many fibers submit, one reads the figures, one stops the pool: all admitted tasks have run by
 * then. */

enum { FEEDERS = 4 };

static weft_pool *fed;
static atomic_u32 admitted, seen_open;

static void feed(void *arg)
{
    int error;
    while ((error = weft_pool_submit(fed, count_task, &ran)) == 0)
        atomic_u32_add_seq_cst(&admitted, 1);
    CHECK_EQ(error, -ESHUTDOWN);
}

static void watch(void *arg)
{
    while (pool_stats(fed).workers > 0 || count_of(&admitted) == 0) {
        for (int i = 0; i < 20; i++) {
            if (outbox_is_open(fed))
                atomic_u32_store_release(&seen_open, 1);
            weft_yield();
        }
    }
}

static void feed_and_stop(uint32_t least)
{
    weft_wg done = WEFT_WG_INIT;
    atomic_u32_store_release(&ran, 0);
    atomic_u32_store_release(&admitted, 0);
    for (int i = 0; i < FEEDERS; i++)
        CHECK_EQ(weft_wg_go(&done, feed, NULL), 0);
    CHECK_EQ(weft_wg_go(&done, watch, NULL), 0);
    await_at_least(&admitted, least);
    CHECK_EQ(weft_pool_stop(fed, WEFT_NEVER), 0);
    uint32_t had_run = count_of(&ran);
    CHECK_EQ(weft_wg_wait(&done), 0);
    CHECK_EQ(had_run, count_of(&admitted));
    CHECK_EQ(count_of(&ran), had_run);
    CHECK_EQ(pool_stats(fed).completed, pool_stats(fed).submitted);
    CHECK_EQ(weft_pool_reopen(fed), 0);
}

static void a_stop_finds_them(void)
{
    processors_begin(2);
    fed = POOL_OPEN(.capacity = CAPACITY);
    atomic_u32_store_release(&seen_open, 0);
    int64_t rounds = test_scale(100);
    for (uint32_t round = 0; round < rounds || !count_of(&seen_open); round++)
        feed_and_stop(1 + round * 37 % 3000);
    pool_close(fed);
    processors_end();
}

/* Tasks in an inbox keep their order when figures are read, and when a more important task is
 * submitted. */

static struct {
    weft_pool *pool;
    uint32_t numbers[ITEMS];
    uint32_t next, filled, before_high;
} inbox;

static void high_task(void *arg)
{
    inbox.before_high = inbox.next;
}

static void inbox_task(void *arg)
{
    uint32_t number;
    memcpy(&number, arg, sizeof number);
    CHECK_EQ(number, inbox.next);
    inbox.next++;
    latch_acquire(inbox.pool->latch);
    inbox.filled += weft__inboxes_length(inbox.pool) > 0;
    latch_release(inbox.pool->latch);
    if (number % 7 == 6)
        CHECK_EQ(pool_waiting(inbox.pool), ITEMS - inbox.next); /* closes it */
    if (number % 13 == 12)
        CHECK_EQ(weft_pool_tune(inbox.pool, 2 + number % 3), 0);
    if (number == ITEMS / 2) {
        weft_submit_options high = {.priority = WEFT_HIGH};
        CHECK_EQ(weft_pool_submit_with(inbox.pool, high_task, NULL, &high), 0);
        CHECK_EQ(weft__inboxes_length(inbox.pool), 0);
    }
}

static void an_inbox_keeps_its_order(void *arg)
{
    inbox.next = inbox.filled = inbox.before_high = 0;
    inbox.pool = POOL_OPEN_PAUSED(.capacity = 2, .queue = ITEMS);
    for (uint32_t i = 0; i < ITEMS; i++) {
        inbox.numbers[i] = i;
        CHECK_EQ(weft_pool_submit(inbox.pool, inbox_task, &inbox.numbers[i]), 0);
    }
    CHECK_EQ(weft_pool_resume(inbox.pool), 0);
    pool_close(inbox.pool);
    CHECK_EQ(inbox.next, ITEMS);
    CHECK_EQ(inbox.before_high, ITEMS / 2 + 1); /* the very next */
    CHECK(inbox.filled > ITEMS / 2);
}

/* One of its tasks waits; the tasks behind it do not wait for that. */

static struct gate stuck;

static void an_inbox_is_for_all_workers(void *arg)
{
    enum { BEHIND = 100 };
    gate_shut(&stuck);
    atomic_u32_store_release(&ran, 0);
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 2, .queue = BEHIND);
    CHECK_EQ(weft_pool_submit(pool, gate_task, &stuck), 0);
    submit_counts(pool, &ran, BEHIND);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await(&ran, BEHIND);
    gate_open_and_close(&stuck, pool);
}

int main(void)
{
    RUN_AT(no_place_is_missed, ONE_MACHINE);
    RUN_AT(tasks_stay_in_order, ONE_MACHINE);
    PLAIN_AT(low_ones_come_after, "a thread", ONE_MACHINE);
    PLAIN_AT(memory_for_it_may_fail, "lets its own memory fail", ONE_MACHINE);
    RUN_AT(an_old_one_is_closed, ONE_MACHINE);
    RUN_AT(one_that_starts_and_waits_closes_it, ONE_MACHINE);
    RUN_PLAIN(places_of_others_count, "each has a processor to itself");
    RUN_PLAIN(what_is_in_one_runs, "computes until another processor has run them");
    RUN_AT(an_inbox_keeps_its_order, ONE_MACHINE);
    RUN_AT(an_inbox_is_for_all_workers, ONE_MACHINE, 2);
    RUN_PLAIN(a_stop_finds_them, "goes on until it has seen one");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
