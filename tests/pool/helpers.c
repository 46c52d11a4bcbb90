/*
 * helpers.c: where task after task parks, workers are made some at once (pool/settle.c).
 *
 * Whether helpers are made depends on who is faster; what must hold does not: all tasks run, no more at once than the capacity, as
 * many at once as that where all wait for each other, and nothing stays counted of workers that could not be made.
 */
#include "failing.h"
#include "pool/pool.h"
#include "seeds.h"
#include "tasks.h"

enum { CAPACITY = 300 };

static struct {
    atomic_u32 inside, most, ran, starts;
    weft_wg all; /* of the first CAPACITY */
} tasks;

static void begin_tasks(void)
{
    atomic_u32_store_relaxed(&tasks.inside, 0);
    atomic_u32_store_relaxed(&tasks.most, 0);
    atomic_u32_store_relaxed(&tasks.ran, 0);
    atomic_u32_store_relaxed(&tasks.starts, 0);
    CHECK_EQ(weft_wg_init(&tasks.all, CAPACITY), 0);
}

static void enter(void)
{
    uint32_t inside = atomic_u32_add_seq_cst(&tasks.inside, 1) + 1;
    uint32_t most = atomic_u32_load_relaxed(&tasks.most);
    while (inside > most && !atomic_u32_cas_seq_cst(&tasks.most, &most, inside))
        continue;
}

static void leave(void)
{
    atomic_u32_add_seq_cst(&tasks.inside, (uint32_t)-1);
    atomic_u32_add_seq_cst(&tasks.ran, 1);
}

/* Waits until all places are taken. */
static void meet(void *arg)
{
    (void)arg;
    enter();
    weft_wg_done(&tasks.all);
    CHECK_EQ(weft_wg_wait(&tasks.all), 0);
    leave();
}

static void doze_off(void *arg)
{
    (void)arg;
    enter();
    CHECK_EQ(weft_sleep(WEFT_MS / 10), 0);
    leave();
}

/* Every third task only. */
static void doze_or_not(void *arg)
{
    if ((uintptr_t)arg % 3 == 0) {
        doze_off(NULL);
        return;
    }
    enter();
    leave();
}

static void submit_to(weft_pool *pool, int count, void (*function)(void *))
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(weft_pool_submit(pool, function, (void *)(uintptr_t)i), 0);
}

static void end(weft_pool *pool, uint32_t ran)
{
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&tasks.ran), ran);
    CHECK(atomic_u32_load_acquire(&tasks.most) <= CAPACITY);
    CHECK(pool_stats(pool).most_workers <= CAPACITY);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    latch_acquire(&pool->latch);
    int64_t away = pool->away, workers = pool->workers, starting = pool->starting;
    latch_release(&pool->latch);
    CHECK_EQ(away, 0);
    CHECK_EQ(workers, 0);
    CHECK_EQ(starting, 0);
    pool_close(pool);
}

static void all_places_are_taken(void)
{
    begin_tasks();
    weft_pool *pool = pool_open((weft_pool_options){.capacity = CAPACITY});
    submit_to(pool, CAPACITY, meet);
    submit_to(pool, CAPACITY, doze_off);
    end(pool, 2 * CAPACITY);
    CHECK_EQ(atomic_u32_load_acquire(&tasks.most), CAPACITY);
}

static void some_park_and_some_do_not(void)
{
    begin_tasks();
    weft_pool *pool = pool_open((weft_pool_options){.capacity = CAPACITY, .queue = 10 * CAPACITY});
    submit_to(pool, 10 * CAPACITY, doze_or_not);
    end(pool, 10 * CAPACITY);
}

/* Every fifth that starts fails once. */
static int start_or_not(void **state, void *data)
{
    (void)state, (void)data;
    return atomic_u32_add_seq_cst(&tasks.starts, 1) % 5 == 4 ? -ENOMEM : 0;
}

static void quiet(const char *line, void *data)
{
    (void)line, (void)data;
}

static void some_cannot_start(void)
{
    begin_tasks();
    weft_pool *pool = pool_open(
        (weft_pool_options){.capacity = CAPACITY, .on_worker_start = start_or_not, .log = quiet});
    submit_to(pool, CAPACITY, meet);
    end(pool, CAPACITY);
}

/* There is memory for some, not for others, and then for all. */
static void some_cannot_be_made(void)
{
    static const enum weft__sys_call calls[] = {SYS_ALLOC, SYS_MAP};
    for (uint32_t nth = 1; nth < 40; nth++)
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            begin_tasks();
            weft_pool *pool =
                pool_open((weft_pool_options){.capacity = CAPACITY, .queue = 10 * CAPACITY});
            submit_to(pool, 4 * CAPACITY, doze_off);
            weft__sys_fail(calls[i], nth, true);
            int error = weft_pool_wait(pool, weft_after(2 * WEFT_MS));
            CHECK(error == 0 || error == -ETIMEDOUT);
            weft__sys_fail(calls[i], 0, false);
            end(pool, 4 * CAPACITY);
        }
}

/* Those who have not come yet have a task each: no more are made for that. */
static void few_tasks_bring_few_workers(void)
{
    enum { FEW = 40 };
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1000});
    gate_fill(&gate, pool, FEW);
    CHECK(pool_stats(pool).most_workers <= 2 * FEW);
    gate_open(&gate);
    pool_close(pool);
}

/* Who is made begins before many more are made: of the workers there are, few have not begun their first task. */
enum { MANY = 1000 };
static struct {
    weft_pool *pool;
    weft_wg all;
    int64_t begun, most_waiting;
} crowd;

static void stand_by(void *arg)
{
    (void)arg;
    int64_t waiting = pool_stats(crowd.pool).most_workers - ++crowd.begun; /* on one processor */
    if (waiting > crowd.most_waiting)
        crowd.most_waiting = waiting;
    weft_wg_done(&crowd.all);
    CHECK_EQ(weft_wg_wait(&crowd.all), 0);
}

static int64_t most_that_wait_to_begin(void)
{
    crowd.begun = crowd.most_waiting = 0;
    CHECK_EQ(weft_wg_init(&crowd.all, MANY), 0);
    crowd.pool = pool_open((weft_pool_options){.capacity = MANY});
    submit_to(crowd.pool, MANY, stand_by);
    CHECK_EQ(weft_pool_wait(crowd.pool, WEFT_NEVER), 0);
    CHECK_EQ(crowd.begun, MANY);
    pool_close(crowd.pool);
    return crowd.most_waiting;
}

static void begin_soon(void *arg)
{
    (void)arg;
    CHECK(most_that_wait_to_begin() <= 64);
}

static void workers_begin_soon(void)
{
    on_one_machine(begin_soon, NULL);
}

static void yield_on(void *arg)
{
    while (!atomic_u32_load_relaxed(arg))
        weft_yield();
}

/* Where many others are ready few are made at once. */
static void begin_in_a_crowd(void *arg)
{
    enum { OTHERS = 100 };
    atomic_u32 done;
    weft_fiber *others[OTHERS];
    (void)arg;
    atomic_u32_store_relaxed(&done, 0);
    for (int i = 0; i < OTHERS; i++)
        CHECK_EQ(weft_spawn(&others[i], yield_on, &done, NULL), 0);
    CHECK(most_that_wait_to_begin() <= 8);
    atomic_u32_store_relaxed(&done, 1);
    for (int i = 0; i < OTHERS; i++)
        CHECK_EQ(weft_join(others[i]), 0);
}

static void few_are_made_in_a_crowd(void)
{
    on_one_machine(begin_in_a_crowd, NULL);
}

/* One that is being made has not had its turn yet: a task is given to one who rests. */
static void call_one_who_rests(void *arg)
{
    (void)arg;
    begin_tasks();
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 4});
    submit_to(pool, 1, doze_off);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    while (pool_stats(pool).idle == 0)
        weft_yield();
    latch_acquire(&pool->latch);
    pool->starting++;
    latch_release(&pool->latch);
    submit_to(pool, 1, doze_off);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    latch_acquire(&pool->latch);
    pool->starting--;
    latch_release(&pool->latch);
    end(pool, 2);
}

static void one_who_rests_is_called_all_the_same(void)
{
    on_one_machine(call_one_who_rests, NULL);
}

int main(void)
{
    RUN_BOTH(all_places_are_taken);
    RUN_BOTH(some_park_and_some_do_not);
    RUN_BOTH(some_cannot_start);
    RUN_BOTH(few_tasks_bring_few_workers);
    RUN_PLAIN(workers_begin_soon, "is about the ring of one processor, in its order");
    RUN_PLAIN(few_are_made_in_a_crowd, "is about the ring of one processor, in its order");
    RUN_PLAIN(one_who_rests_is_called_all_the_same, "is about one processor");
    RUN_PLAIN(some_cannot_be_made, "lets calls of the whole process fail");
    return 0;
}
