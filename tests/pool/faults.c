/*
 * faults.c: what goes wrong in other pools, and must not here: one test for each.
 */
#include <dirent.h>

#include "base/compiler.h"
#include "seeds.h"
#include "sync/lines.h"
#include "system.h"
#include "tasks.h"

/* 1. A task that submits to its own full pool does not hang. */

static struct {
    weft_pool *pool;
    atomic_u32 ran;
    bool waits;
} nest;

static void recurse(void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    atomic_u32_add_seq_cst(&nest.ran, 1);
    if (nest.waits && left % 10 == 0)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    if (left > 1)
        CHECK_EQ(weft_pool_submit(nest.pool, recurse, (void *)(left - 1)), 0);
    if (nest.waits && left % 10 == 5)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
}

/* Two at each level. */
static void branch(void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    atomic_u32_add_seq_cst(&nest.ran, 1);
    for (int i = 0; i < 2 && left > 0; i++)
        CHECK_EQ(weft_pool_submit(nest.pool, branch, (void *)(left - 1)), 0);
}

static void nested_submit(void *arg)
{
    enum { DEPTH = 1000, LEVELS = 9 };
    static const int policies[] = {WEFT_BLOCK, WEFT_CALLER_RUNS};
    for (int policy = 0; policy < 2; policy++)
        for (int64_t capacity = 1; capacity <= 4; capacity++) {
            nest.waits = capacity % 2 == 0;
            nest.pool = pool_open((weft_pool_options){
                .capacity = capacity, .when_full = policies[policy], .queue = capacity / 3});
            atomic_u32_store_relaxed(&nest.ran, 0);
            CHECK_EQ(weft_pool_submit(nest.pool, recurse, (void *)(uintptr_t)DEPTH), 0);
            await_at_least(&nest.ran, DEPTH);
            CHECK_EQ(weft_pool_submit(nest.pool, branch, (void *)(uintptr_t)LEVELS), 0);
            pool_close(nest.pool);
            CHECK_EQ(count_of(&nest.ran), DEPTH + (1 << (LEVELS + 1)) - 1);
        }
}

static void fault_1_nested_submit_does_not_hang(void)
{
    everywhere(nested_submit);
    on_processors(1, nested_submit, NULL);
}

/* The same where the first one is run by a submitter that is no worker, on an ordinary stack. */
static void fault_1_nor_in_the_caller(void *arg)
{
    enum { DEPTH = 1000 };
    static struct gate gate;
    nest.waits = false;
    nest.pool = pool_open((weft_pool_options){.capacity = 1, .when_full = WEFT_CALLER_RUNS});
    atomic_u32_store_relaxed(&nest.ran, 0);
    gate_shut_and_fill(&gate, nest.pool, 1);
    CHECK_EQ(weft_pool_submit(nest.pool, recurse, (void *)(uintptr_t)DEPTH), 0);
    gate_open(&gate);
    pool_close(nest.pool);
    CHECK_EQ(count_of(&nest.ran), DEPTH);
}

/* 2. No function is an error, and does no harm. */

static void fault_2_submit_of_nothing_is_an_error(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_submit(pool, NULL, &ran), -EINVAL);
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    }
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 10);
}

/* 3. Tuned down, it holds from the next start on, idle workers or not. */

static struct gauge short_ones;

static void short_task(void *arg)
{
    gauge_enter(&short_ones);
    if (arg != NULL)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    else
        weft_yield();
    gauge_leave(&short_ones);
}

static void tune_downward(void *arg)
{
    static struct gate gate;
    static char sleeps;
    int64_t count = test_scale(200);
    weft_pool *pool = pool_open(
        (weft_pool_options){.capacity = 10, .queue = WEFT_UNLIMITED, .expiry = WEFT_NEVER});
    for (int64_t capacity = 5; capacity >= 1; capacity -= 2) {
        CHECK_EQ(weft_pool_tune(pool, 10), 0);
        gate_shut_and_fill(&gate, pool, 10);
        CHECK_EQ(weft_pool_tune(pool, capacity), 0); /* while ten run */
        memset(&short_ones, 0, sizeof short_ones);
        for (int64_t i = 0; i < count; i++)
            CHECK_EQ(weft_pool_submit(pool, short_task, i % 2 == 0 ? &sleeps : NULL), 0);
        CHECK_EQ(pool_stats(pool).running, 10);
        CHECK_EQ(gauge_total(&short_ones), 0); /* none begins until fewer run */
        gate_open(&gate);
        while (gauge_total(&short_ones) < (uint32_t)count) {
            (void)pool_stats(pool); /* nothing is negative */
            weft_yield();
        }
        AWAIT_FIGURE(pool, running, 0);
        CHECK(gauge_most(&short_ones) <= capacity);

        while (pool_stats(pool).idle < 10) /* now ten are idle */
            weft_yield();
        memset(&short_ones, 0, sizeof short_ones);
        submit_many(pool, short_task, &sleeps, count);
        await_at_least(&short_ones.total, (uint32_t)count);
        AWAIT_FIGURE(pool, running, 0);
        CHECK(gauge_most(&short_ones) <= capacity);
    }
    pool_close(pool);
}

static void fault_3_tune_downward_holds(void)
{
    everywhere(tune_downward);
    on_processors(1, tune_downward, NULL);
    on_processors(3, tune_downward, NULL);
}

/* 4. A submit against a close runs to its end before that returns, or fails. (More in life.c.) */

static struct {
    weft_pool *pool;
    atomic_u32 admitted, begun, ended;
} late;

static void late_task(void *arg)
{
    atomic_u32_add_seq_cst(&late.begun, 1);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    atomic_u32_add_seq_cst(&late.ended, 1);
}

static void submit_until_refused(void *arg)
{
    int error;
    while ((error = weft_pool_submit(late.pool, late_task, NULL)) == 0)
        atomic_u32_add_seq_cst(&late.admitted, 1);
    CHECK_EQ(error, -ESHUTDOWN);
}

static void fault_4_a_submit_against_close_is_not_lost_and_not_late(void)
{
    enum { MANY = 4 };
    for (int64_t round = test_scale(200); round-- > 0;) {
        struct body bodies[MANY];
        memset(&late, 0, sizeof late);
        late.pool = pool_open((weft_pool_options){.capacity = 2, .queue = round % 4});
        for (int i = 0; i < MANY; i++) {
            bodies[i] = (struct body){.function = submit_until_refused, .thread = i % 2 == 0};
            body_start(&bodies[i]);
        }
        await_at_least(&late.begun, (uint32_t)(round % 8));
        CHECK_EQ(weft_pool_stop(late.pool, WEFT_NEVER), 0);
        uint32_t ended = count_of(&late.ended);
        CHECK_EQ(count_of(&late.begun), ended);
        for (int i = 0; i < MANY; i++)
            body_join(&bodies[i]);
        CHECK_EQ(count_of(&late.admitted), ended);
        CHECK_EQ(count_of(&late.begun), ended);
        pool_close(late.pool);
    }
}

/* 5. Workers whose tasks panic go on: who waits is served at once, not when somebody expires. */

static struct {
    weft_pool *pool;
    struct gate gate;
    atomic_u32 told, ran;
} panics;

static void panic_at_gate(void *arg)
{
    gate_task(arg);
    weft_panic("as planned");
}

static void count_panic(const weft_panic_info *info, void (*function)(void *), void *arg,
                        void *data)
{
    CHECK_PTR(data, &panics);
    CHECK_STR(info->message, "as planned");
    CHECK(function == panic_at_gate);
    CHECK_PTR(arg, &panics.gate);
    atomic_u32_add_seq_cst(&panics.told, 1);
}

static void panic_all(void *arg)
{
    enum { WORKERS = 4, WAITERS = 12 };
    struct submission own[WAITERS];
    memset(&panics, 0, sizeof panics);
    weft_pool *pool =
        pool_open((weft_pool_options){.capacity = WORKERS,
                                      .expiry = WEFT_NEVER, /* nobody is freed by that */
                                      .on_panic = count_panic,
                                      .data = &panics});
    gate_shut(&panics.gate);
    submit_many(pool, panic_at_gate, &panics.gate, WORKERS);
    await(&panics.gate.gauge.now, WORKERS);
    for (int i = 0; i < WAITERS; i++) {
        submission_start(&own[i], pool, i % 2 == 0 ? panic_at_gate : count_task,
                         i % 2 == 0 ? (void *)&panics.gate : &panics.ran, i % 3 == 0);
        AWAIT_FIGURE(pool, blocked, i + 1);
    }
    gate_open(&panics.gate); /* all workers panic */
    for (int i = 0; i < WAITERS; i++) {
        await(&own[i].returned, 1); /* to join a thread would block the processor */
        CHECK_EQ(submission_end(&own[i]), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_FIGURES(stats, FIGURE(panicked, WORKERS + WAITERS / 2),
                  FIGURE(completed, WORKERS + WAITERS), FIGURE(handlers_panicked, 0));
    CHECK(stats.most_workers <= WORKERS);
    CHECK_EQ(count_of(&panics.told), WORKERS + WAITERS / 2);
    CHECK_EQ(count_of(&panics.ran), WAITERS / 2);
    pool_close(pool);
}

static void fault_5_all_workers_panicking_stalls_nobody(void)
{
    everywhere(panic_all);
    on_processors(1, panic_all, NULL);
    on_processors(3, panic_all, NULL);
}

/* 6. What runs is counted, not who is there: idle workers are counted by themselves. */

static void fault_6_idle_workers_do_not_run(void *arg)
{
    static struct gate gate;
    weft_pool *pool = pool_open(
        (weft_pool_options){.capacity = 8, .queue = 8, .prestart = 5, .expiry = WEFT_NEVER});
    AWAIT_FIGURE(pool, idle, 5);
    CHECK_FIGURES(pool_stats(pool), FIGURE(running, 0), FIGURE(workers, 5));
    gate_shut_and_fill(&gate, pool, 2);
    AWAIT_FIGURE(pool, idle, 3); /* one of them may still look for more */
    CHECK_FIGURES(pool_stats(pool), FIGURE(running, 2), FIGURE(workers, 5));
    submit_many(pool, gate_task, &gate, 6);
    await(&gate.gauge.now, 8);
    gate_open(&gate);
    AWAIT_FIGURE(pool, running, 0);
    AWAIT_FIGURE(pool, idle, 8);
    CHECK_FIGURES(pool_stats(pool), FIGURE(running, 0), FIGURE(workers, 8));
    pool_close(pool);
}

/* 7. A panic in on_panic itself is counted and reported, and the worker goes on. */

static void panic_plainly(void *arg)
{
    weft_panic("in the task");
}

static void panic_in_handler(const weft_panic_info *info, void (*function)(void *), void *arg,
                             void *data)
{
    CHECK_STR(info->message, "in the task");
    atomic_u32_add_seq_cst(data, 1);
    weft_panic("in the handler");
}

static void panic_in_all_handlers(void)
{
    enum { TASKS = 20 };
    atomic_u32 told = {0}, ran = {0};
    weft_pool *pool = pool_open((weft_pool_options){
        .capacity = 1, .queue = TASKS, .on_panic = panic_in_handler, .data = &told});
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(weft_pool_submit(pool, panic_plainly, NULL), 0);
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_FIGURES(stats, FIGURE(panicked, TASKS), FIGURE(handlers_panicked, TASKS),
                  FIGURE(completed, 2 * TASKS), FIGURE(most_workers, 1));
    CHECK_EQ(count_of(&told), TASKS);
    CHECK_EQ(count_of(&ran), TASKS);
    pool_close(pool);
}

static void fault_7_a_panic_in_the_panic_handler_is_survived(void)
{
    const char *text = test_stderr_of(panic_in_all_handlers);
    CHECK(strstr(text, ": in the handler (in on_panic, which was told of: in the task)\n") != NULL);
}

/* 8. No worker expires before its time. */

static struct {
    struct gate gate;
    atomic_u32 workers, exits, early;
    int64_t expiry;
} expire;

/* A worker's state: when it had something to do last. */
static int start_clock(void **state, void *data)
{
    int64_t *last = malloc(sizeof *last);
    CHECK(last != NULL);
    *last = weft_now();
    *state = last;
    atomic_u32_add_seq_cst(&expire.workers, 1);
    return 0;
}

static void check_clock(void *state, void *data)
{
    int64_t *last = state;
    if (weft_now() - *last < expire.expiry)
        atomic_u32_add_seq_cst(&expire.early, 1);
    free(last);
    atomic_u32_add_seq_cst(&expire.exits, 1);
}

static void note_time(void *arg)
{
    gate_task(arg);
    CHECK(weft_pool_worker_state() != NULL);
    *(int64_t *)weft_pool_worker_state() = weft_now();
}

static void expire_after(int64_t expiry, int64_t keep)
{
    enum { WORKERS = 5 };
    expire.expiry = expiry;
    atomic_u32_store_relaxed(&expire.workers, 0);
    atomic_u32_store_relaxed(&expire.exits, 0);
    atomic_u32_store_relaxed(&expire.early, 0);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = WORKERS,
                                                    .keep = keep,
                                                    .expiry = expiry,
                                                    .on_worker_start = start_clock,
                                                    .on_worker_exit = check_clock});
    gate_shut(&expire.gate);
    submit_many(pool, note_time, &expire.gate, WORKERS);
    await(&expire.gate.gauge.now, WORKERS);
    gate_open(&expire.gate);
    while (pool_stats(pool).workers != keep) /* they do expire */
        CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
    CHECK_EQ(pool_stats(pool).most_workers, WORKERS);
    /* One may have expired, and another been made, before all were at the gate. */
    uint32_t made = count_of(&expire.workers);
    CHECK_EQ(count_of(&expire.exits), made - keep);
    CHECK_EQ(count_of(&expire.early), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&expire.exits), made);
}

static void fault_8_no_worker_expires_early(void)
{
    for (int round = 0; round < 3; round++)
        for (int64_t expiry = WEFT_US; expiry <= 10 * WEFT_MS; expiry *= 10) {
            expire_after(expiry, 0);
            expire_after(expiry, 2);
        }
}

/* 9. When it is closed nothing of it is left: no thread, no fiber, no memory. */

static int threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    int count = 0;
    CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void live(int64_t rounds)
{
    for (int64_t i = 0; i < rounds; i++) {
        static struct gate gate;
        weft_pool *pool = pool_open((weft_pool_options){.capacity = 16, .queue = 100, .keep = 8});
        gate_shut_and_fill(&gate, pool, 16);
        submit_many(pool, gate_task, &gate, 100);
        gate_open(&gate);
        pool_close(pool);
    }
}

static void fault_9_nothing_is_left_after_close(void)
{
    live(20);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    int threads_before = threads();
    size_t before = heap_in_use();
    live(test_scale(200));
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* would wait for a fiber or a timer */
    while (threads() > threads_before)      /* the kernel may take a moment to forget one */
        CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
    size_t after = heap_in_use();
    printf("  memory in use: %zu before, %zu after\n", before, after);
    if (!WEFT_ASAN && !WEFT_TSAN) /* they have allocators of their own, and look for leaks */
        CHECK(after < before + 4096);
}

/* 10. Nobody overtakes one who waits, however many come later. */

static struct {
    weft_pool *pool;
    atomic_u32 over, first, others;
} overtaking;

static void other_task(void *arg)
{
    weft_yield();
    atomic_u32_add_seq_cst(&overtaking.others, 1);
}

static void first_task(void *arg)
{
    atomic_u32_store_release(&overtaking.first, 1);
}

/* Submits without pause. */
static void push(void *arg)
{
    while (!count_of(&overtaking.over))
        CHECK_EQ(weft_pool_submit(overtaking.pool, other_task, NULL), 0);
}

static void wait_in_the_crowd(void *arg)
{
    enum { PUSHERS = 6 };
    struct body bodies[PUSHERS];
    int64_t rounds = test_scale(200);
    overtaking.pool = pool_open((weft_pool_options){.capacity = 1});
    atomic_u32_store_relaxed(&overtaking.over, 0);
    for (int i = 0; i < PUSHERS; i++) {
        bodies[i] = (struct body){.function = push, .thread = i % 3 == 0};
        body_start(&bodies[i]);
    }
    for (int64_t i = 0; i < rounds; i++) {
        atomic_u32_store_relaxed(&overtaking.first, 0);
        CHECK_EQ(weft_pool_submit(overtaking.pool, first_task, NULL), 0);
        await(&overtaking.first, 1);
    }
    atomic_u32_store_release(&overtaking.over, 1);
    for (int i = 0; i < PUSHERS; i++)
        body_join(&bodies[i]);
    pool_close(overtaking.pool);
}

/* The order of the line is the order of the tasks, also when those in front give up. */

enum { LINE = 24 };

static struct {
    uintptr_t order[LINE];
    atomic_u32 length;
} line;

static void note_order(void *arg)
{
    line.order[atomic_u32_add_seq_cst(&line.length, 1)] = (uintptr_t)arg;
}

static void stand_in_line(void *arg)
{
    static struct gate gate;
    struct submission own[LINE];
    weft_context *context = new_context();
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&line.length, 0);
    for (int i = 0; i < LINE; i++) {
        submission_start_in(&own[i], pool, note_order, (void *)(uintptr_t)i,
                            i % 4 == 0 ? context : NULL, i % 3 == 0);
        AWAIT_FIGURE(pool, blocked, i + 1);
    }
    weft_context_cancel(context);
    AWAIT_FIGURE(pool, blocked, LINE - LINE / 4);
    CHECK_EQ(weft_pool_try_submit(pool, note_order, NULL), -EAGAIN);
    gate_open(&gate);
    for (int i = 0; i < LINE; i++)
        CHECK_EQ(submission_end(&own[i]), i % 4 == 0 ? -ECANCELED : 0);
    pool_close(pool);
    weft_context_close(context);
    CHECK_EQ(count_of(&line.length), LINE - LINE / 4);
    for (uint32_t i = 0; i < LINE - LINE / 4; i++)
        CHECK_EQ(line.order[i], i / 3 * 4 + i % 3 + 1);
}

static void fault_10_nobody_overtakes(void)
{
    everywhere(stand_in_line);
    everywhere(wait_in_the_crowd);
}

int main(void)
{
    RUN_PLAIN(fault_1_nested_submit_does_not_hang,
              "holds a processor while others run on another one");
    RUN_EVERYWHERE(fault_1_nor_in_the_caller);
    RUN_EVERYWHERE(fault_2_submit_of_nothing_is_an_error);
    RUN_BOTH(fault_3_tune_downward_holds);
    RUN_BOTH(fault_4_a_submit_against_close_is_not_lost_and_not_late);
    RUN_BOTH(fault_5_all_workers_panicking_stalls_nobody);
    RUN_EVERYWHERE(fault_6_idle_workers_do_not_run);
    RUN_BOTH(fault_7_a_panic_in_the_panic_handler_is_survived);
    RUN_BOTH(fault_8_no_worker_expires_early);
    RUN_PLAIN(fault_9_nothing_is_left_after_close, "stops or configures the runtime");
    RUN_BOTH(fault_10_nobody_overtakes);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
