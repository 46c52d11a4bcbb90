/*
 * stand.c: no worker can be made while all who are there wait for the next task: it is run later, as soon as one can be. And
 * who runs tasks in place of a worker is in the pool like one.
 */
#include <weft/task.h>

#include "faults.h"
#include "lacking.h"
#include "pool/queue.h"

/* With so many fibers at most, the test's own included if it is one. */
static void with_limit(int processors, int64_t limit, void (*test)(void))
{
    processors_begin(processors);
    CHECK_EQ(weft_configure(&(weft_config){.processors = processors, .max_fibers = limit}), 0);
    test();
    processors_end();
}

/* A task that waits for the one behind it. */

static struct gate behind; /* that the first waits at, and the next opens */
static struct gate other;  /* that a fiber waits at which is none of the pool's */
static atomic_u32 waits;

static void wait_for_next(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&waits, 1);
    gate_task(&behind);
    count_task(&ran);
}

static void open_for_first(void *arg)
{
    gate_open(&behind);
    count_task(arg);
}

static weft_pool *begin_with_one(bool isolates)
{
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&waits, 0);
    gate_shut(&behind);
    gate_shut(&other);
    weft_pool *pool = pool_open(
        (weft_pool_options){.capacity = 4, .queue = 8, .prestart = 1, .isolate_crashes = isolates});
    AWAIT_FIGURE(pool, idle, 1);
    return pool;
}

static void end_of_both(weft_pool *pool)
{
    await_count(&ran, 2);
    pool_close(pool);
}

/* The other fiber has the second of two places, until the first task waits. */
static void limited_when_it_parks(void)
{
    weft_pool *pool = begin_with_one(false);
    CHECK_EQ(weft_go(gate_task, &other), 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, wait_for_next, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, open_for_first, &ran), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_count(&waits, 1);
    await_idle_processor();
    gate_open(&other);
    end_of_both(pool);
}

static void limited_when_it_comes(void)
{
    weft_pool *pool = begin_with_one(false);
    CHECK_EQ(weft_go(gate_task, &other), 0);
    CHECK_EQ(weft_pool_submit(pool, wait_for_next, NULL), 0);
    await_count(&waits, 1);
    await_idle_processor();
    CHECK_EQ(weft_pool_submit(pool, open_for_first, &ran), 0);
    gate_open(&other);
    end_of_both(pool);
}

/* Nobody ends: only time can tell that there is memory again. */
static void lacks_memory_when_it_parks(void *arg)
{
    (void)arg;
    weft_pool *pool = begin_with_one(true);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, wait_for_next, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, open_for_first, &ran), 0);
    lack(true);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_count(&waits, 1);
    (void)weft_sleep(2 * WEFT_MS);
    lack(false);
    end_of_both(pool);
}

static void later(void)
{
    for (int processors = 1; processors <= 3; processors++) {
        with_limit(processors, 2, limited_when_it_parks);
        with_limit(processors, 2, limited_when_it_comes);
        on_machines(processors, lacks_memory_when_it_parks);
    }
}

/* In place of a worker: the only fiber that there may be is not the pool's. */

static weft_pool *full;
static weft_fiber *keeper; /* of the place */

static void submit_inside(void *deadline)
{
    CHECK(weft_self() == NULL);
    CHECK_EQ(weft_pool_submit_until(full, count_task, &ran, *(int64_t *)deadline), 0);
    CHECK_EQ(weft_pool_wait(full, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_pool_stop(full, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_pool_close(full), -EDEADLK);
    atomic_u32_add_seq_cst(&waits, 1);
}

static void open_beside_another(weft_pool_options options)
{
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&waits, 0);
    gate_shut(&other);
    full = pool_open(options);
    CHECK_EQ(weft_spawn(&keeper, gate_task, &other, NULL), 0);
}

static void end_beside_another(void)
{
    CHECK_EQ(weft_join(keeper), 0);
    pool_close(full);
}

static void submits_to_its_own(void)
{
    int64_t deadlines[] = {WEFT_NEVER, weft_after(LONG)};
    open_beside_another((weft_pool_options){.capacity = 1});
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_submit(full, submit_inside, &deadlines[i]), 0);
        CHECK_EQ(atomic_u32_load_acquire(&ran), i + 1);
        CHECK_EQ(atomic_u32_load_acquire(&waits), i + 1);
    }
    gate_open(&other);
    end_beside_another();
}

static void submits_while_it_stops(void)
{
    int64_t deadline = WEFT_NEVER;
    open_beside_another((weft_pool_options){.capacity = 4, .queue = 10});
    CHECK_EQ(weft_pool_pause(full), 0);
    CHECK_EQ(weft_pool_submit(full, submit_inside, &deadline), 0);
    CHECK_EQ(weft_pool_stop(full, WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
    gate_open(&other);
    end_beside_another();
}

/* A task that has a place waits for another: it runs it, or, since that has a key, lends its place to who does. */
static void wait_inside(void *key)
{
    weft_task *task;
    weft_submit_options options = {.key = *(uint64_t *)key};
    CHECK_EQ(weft_task_start(&task, full, handle_task, &ran, &options), 0);
    if (options.key != 0)
        gate_open(&other); /* there can be a worker from here on */
    CHECK_EQ(weft_task_wait(task, NULL), 0);
    weft_task_release(task);
    if (options.key == 0)
        gate_open(&other);
}

static void waits_for_its_own(void)
{
    for (uint64_t key = 0; key < 2; key++) {
        open_beside_another((weft_pool_options){.capacity = 1, .queue = 2});
        CHECK_EQ(weft_pool_submit(full, wait_inside, &key), 0);
        CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
        end_beside_another();
    }
}

/* A fiber that has no memory to keep record of that. There is some again when the task submits. */
static void submit_without_record(void *pool)
{
    lack(false);
    CHECK(weft_self() != NULL);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), -EDEADLK);
    lack(true);
}

static void without_a_record(void *arg)
{
    weft_fiber *passer;
    (void)arg;
    weft_pool *pool = begin((weft_pool_options){.capacity = 1});
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, submit_without_record, pool), 0);
    CHECK_EQ(weft_spawn(&passer, resume, pool, NULL), 0);
    CHECK_EQ(weft_join(passer), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0); /* it stands in no more */
    pool_close(pool);
}

static void in_place_of_a_worker(void)
{
    for (int processors = 1; processors <= 2; processors++) {
        with_limit(processors, 1, submits_to_its_own);
        with_limit(processors, 1, submits_while_it_stops);
        with_limit(processors, 1, waits_for_its_own);
        on_machines(processors, without_a_record);
    }
}

static void gate_task_and_count(void *arg)
{
    gate_task(&behind);
    count_task(arg);
}

/* One that is made, and has not come yet, will come: nobody runs its task in its place, who may be the one that the task waits for. */
static void submits_behind_one_who_comes(void)
{
    atomic_u32_store_relaxed(&ran, 0);
    gate_shut(&behind);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = 4});
    CHECK_EQ(weft_pool_submit(pool, gate_task_and_count, &ran), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    gate_open(&behind);
    end_of_both(pool);
}

static void beside_one_who_comes(void)
{
    for (int64_t i = 0; i < test_scale(400); i++)
        with_limit(1 + (int)(i % 2), 1, submits_behind_one_who_comes);
}

/* At times a machine that becomes idle tries to make a worker at the same time: it could not run what is ready. */
static void beside_an_idle_machine(void)
{
    for (int64_t i = 0; i < test_scale(4000); i++)
        with_limit(1 + (int)(i % 2), 1, submits_while_it_stops);
}

/* Out of the hand of a processor: a pause without memory to empty it. */

enum { MANY = 40 * CHUNK_PLAIN };

static weft_pool *paused;
static atomic_u32 begun;

static void sleep_and_count(void *arg)
{
    atomic_u32_add_seq_cst(&begun, 1);
    (void)weft_sleep(WEFT_US);
    count_task(arg);
}

static void pauses(void *arg)
{
    (void)arg;
    paused = pool_open((weft_pool_options){.capacity = 8, .queue = MANY});
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&begun, 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(weft_pool_submit(paused, sleep_and_count, &ran), 0);
    for (uint32_t round = 1; round < 20; round++) { /* some of them in the middle of a chunk */
        await_at_least(&begun, round * MANY / 25);
        lack(true);
        CHECK_EQ(weft_pool_pause(paused), 0);
        lack(false);
        uint32_t before = atomic_u32_load_acquire(&begun);
        AWAIT_FIGURE(paused, running, 0);
        /* On each processor one may have been taken by then, and one more is before the rest is put back. */
        CHECK(atomic_u32_load_acquire(&begun) - before <= 2 * weft__sched.processor_count);
        CHECK_EQ(weft_pool_resume(paused), 0);
    }
    pool_close(paused);
    CHECK_EQ(atomic_u32_load_acquire(&ran), MANY);
}

static void pauses_without_memory(void)
{
    on_machines(1, pauses);
    on_machines(2, pauses);
}

int main(void)
{
    RUN(later);
    RUN(in_place_of_a_worker);
    RUN(beside_one_who_comes);
    RUN(beside_an_idle_machine);
    RUN(pauses_without_memory);
    return 0;
}
