/*
 * panic.c: tasks that panic: handles, groups and on_panic are told, workers and submitters go on,
 * and the figures count it.
 */
#include "tasks.h"

#define TEXT(text) ((void *)(uintptr_t)(text)) /* as an argument */

static void panic_task(void *text)
{
    weft_panic("%s", (const char *)text);
}

static void yield_and_panic(void *text)
{
    weft_yield();
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    panic_task(text);
}

/* The last call of on_panic, and the number of calls. */
static struct {
    atomic_u32 count;
    weft_mutex mutex;
    weft_panic_info info;
    void (*function)(void *);
    void *arg;
} told;

static void note_panic(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0); /* it may wait */
    weft_mutex_lock(&told.mutex);
    told.info = *info;
    told.function = function;
    told.arg = arg;
    weft_mutex_unlock(&told.mutex);
    atomic_u32_add_seq_cst(&told.count, 1);
}

static weft_pool *open_told(weft_pool_options options)
{
    memset(&told, 0, sizeof told);
    options.on_panic = note_panic;
    return pool_open(options);
}

/* Many, in chunks, among tasks that do not panic. */

static void many(void *arg)
{
    int64_t count = test_scale(3000);
    atomic_u32 ran = {0};
    weft_pool *pool = open_told((weft_pool_options){.capacity = 3, .queue = WEFT_UNLIMITED});
    for (int64_t i = 0; i < count; i++) {
        void (*function)(void *) = i % 3 == 0 ? panic_task : count_task;
        if (i % 30 == 0)
            function = yield_and_panic;
        CHECK_EQ(weft_pool_submit(pool, function, i % 3 == 0 ? TEXT("one of many") : &ran), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_FIGURES(pool, IS(completed, count), IS(panicked, (count + 2) / 3));
    CHECK_EQ(count_of(&ran), count - (count + 2) / 3);
    CHECK_EQ(count_of(&told.count), (count + 2) / 3);
    CHECK_STR(told.info.message, "one of many");
    pool_close(pool);
}

static void workers_go_on(void)
{
    everywhere(many);
    on_processors(1, many, NULL);
}

/* All workers panic while submitters wait: the line is served at once. */

static struct {
    weft_pool *pool;
    struct gate gate;
    atomic_u32 told, ran;
} all;

static void panic_at_gate(void *arg)
{
    gate_task(arg);
    weft_panic("as planned");
}

static void count_panic(const weft_panic_info *info, void (*function)(void *), void *arg,
                        void *data)
{
    CHECK_PTR(data, &all);
    CHECK_STR(info->message, "as planned");
    CHECK(function == panic_at_gate);
    CHECK_PTR(arg, &all.gate);
    atomic_u32_add_seq_cst(&all.told, 1);
}

static void all_workers_may_panic(void *arg)
{
    enum { WORKERS = 4, WAITERS = 12 };
    struct submission own[WAITERS];
    memset(&all, 0, sizeof all);
    weft_pool *pool = POOL_OPEN(.capacity = WORKERS, .expiry = WEFT_NEVER,
                                /* no worker ends by that */ .on_panic = count_panic, .data = &all);
    gate_shut(&all.gate);
    submit_many(pool, panic_at_gate, &all.gate, WORKERS);
    await(&all.gate.gauge.now, WORKERS);
    for (int i = 0; i < WAITERS; i++) {
        submission_start(&own[i], pool, i % 2 == 0 ? panic_at_gate : count_task,
                         i % 2 == 0 ? (void *)&all.gate : &all.ran, i % 3 == 0);
        AWAIT_FIGURE(pool, blocked, i + 1);
    }
    gate_open(&all.gate); /* all workers panic */
    for (int i = 0; i < WAITERS; i++) {
        await(&own[i].returned, 1); /* to join a thread would block the processor */
        CHECK_EQ(submission_end(&own[i]), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_STATS(stats, IS(panicked, WORKERS + WAITERS / 2), IS(completed, WORKERS + WAITERS),
                IS(handlers_panicked, 0));
    CHECK(stats.most_workers <= WORKERS);
    CHECK_EQ(count_of(&all.told), WORKERS + WAITERS / 2);
    CHECK_EQ(count_of(&all.ran), WAITERS / 2);
    pool_close(pool);
}

/* Without on_panic it is reported. */

static void panic_untold(void)
{
    weft_pool *pool = POOL_OPEN(.name = "quiet");
    CHECK_EQ(weft_pool_submit(pool, panic_task, TEXT("to stderr")), 0);
    pool_close(pool);
}

static void what_no_handler_is_told_is_reported(void)
{
    const char *text = test_stderr_of(panic_untold);
    CHECK(strstr(text, "\"quiet\": to stderr\n") != NULL);
}

static int panic_result(void *text)
{
    panic_task(text);
    return 0;
}

static void wait_for_panicked(void *arg)
{
    weft_pool *pool = arg != NULL ? arg : open_told((weft_pool_options){.capacity = 2});
    weft_panic_info info;
    weft_task *calm = start_task(pool, nothing, NULL);
    CHECK_EQ(weft_task_panic(calm, NULL), -EINVAL);
    CHECK_EQ(task_result(calm), 0);
    CHECK_EQ(weft_task_panic(calm, &info), -ENOENT);
    weft_task_release(calm);
    weft_task *task = start_task(pool, panic_result, TEXT("handled"));
    CHECK_EQ(task_result(task), -EOWNERDEAD);
    CHECK_EQ(weft_task_panic(task, &info), 0);
    CHECK_STR(info.message, "handled");
    weft_task_release(task);
    if (arg != NULL)
        return;
    CHECK_EQ(weft_pool_submit(pool, wait_for_panicked, pool), 0); /* waits in the pool */
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_FIGURES(pool, IS(panicked, 2), IS(failed, 0));
    CHECK_EQ(count_of(&told.count), 2);
    CHECK_PTR((void *)(uintptr_t)told.function, (void *)(uintptr_t)panic_result);
    pool_close(pool);
}

static void release_unasked(void)
{
    weft_panic_info info;
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 2);
    weft_task *task = start_task(pool, panic_result, TEXT("unasked"));
    CHECK_EQ(weft_task_panic(task, &info), -ENOENT); /* not yet */
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(end_task(task), -EOWNERDEAD);
    CHECK_EQ(weft_task_panic(NULL, &info), -EINVAL);
    pool_close(pool);
}

static void a_handle_gets_the_error(void)
{
    everywhere(wait_for_panicked);
    CHECK(strstr(test_stderr_of(release_unasked), ": unasked\n") != NULL);
}

static void panic_in_group(void *arg)
{
    weft_panic_info info;
    weft_pool *pool = open_told((weft_pool_options){.capacity = 2});
    weft_group *group = group_over(pool, &(weft_group_options){.keep_going = 1});
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_group_go(group, panic_result, TEXT("grouped")), 0);
    CHECK_EQ(group_error(group), -EOWNERDEAD);
    CHECK_EQ(weft_group_panic(group, &info), 0);
    CHECK_STR(info.message, "grouped");
    CHECK_EQ(weft_group_close(group), -EOWNERDEAD);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).panicked, 10);
    CHECK_EQ(count_of(&told.count), 10);
    pool_close(pool);
}

/* on_panic is also told of a function that has left its group, which is closed by then. */

static struct gate closed;

static int leave_and_panic(void *text)
{
    CHECK_EQ(weft_group_leave(), 0);
    gate_task(&closed);
    panic_task(text);
    return 0;
}

static void panic_after_group(void *arg)
{
    gate_shut(&closed);
    weft_pool *pool = open_told((weft_pool_options){.capacity = 2});
    weft_group *group = group_over(pool, NULL);
    CHECK_EQ(weft_group_go(group, leave_and_panic, TEXT("alone")), 0);
    CHECK_EQ(weft_group_close(group), 0);
    gate_open(&closed);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).panicked, 1);
    CHECK_STR(told.info.message, "alone");
    CHECK_PTR((void *)(uintptr_t)told.function, (void *)(uintptr_t)leave_and_panic);
    CHECK_PTR(told.arg, TEXT("alone"));
    pool_close(pool);
}

static int return_given(void *error)
{
    return *(int *)error;
}

static void count_failed(void *arg)
{
    int errors[3] = {0, -EIO, -EDOM};
    weft_pool *pool = POOL_OPEN(.capacity = 2);
    weft_group *group = group_over(pool, &(weft_group_options){.keep_going = 1});
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_group_go(group, return_given, &errors[i]), 0);
    int error = weft_group_close(group);
    CHECK(error == -EIO || error == -EDOM);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_FIGURES(pool, IS(failed, 2), IS(panicked, 0));
    pool_close(pool);
}

static void a_group_gets_the_error(void)
{
    everywhere(panic_in_group);
    everywhere(panic_after_group);
    everywhere(count_failed);
}

/* Keys: the next of the key goes on. */

static void the_next_of_its_key_goes_on(void *arg)
{
    enum { TASKS = 50 };
    atomic_u32 ran = {0};
    weft_pool *pool = open_told((weft_pool_options){.capacity = 4, .queue = WEFT_UNLIMITED});
    for (int i = 0; i < TASKS; i++) {
        weft_submit_options options = {.key = 7};
        CHECK_EQ(weft_pool_submit_with(pool, i % 4 == 0 ? yield_and_panic : panic_task,
                                       TEXT("keyed"), &options),
                 0);
        CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &options), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).panicked, TASKS);
    CHECK_EQ(count_of(&ran), TASKS);
    pool_close(pool);
}

/* A task that its submitter runs (WEFT_CALLER_RUNS) does not unwind the submitter. */

static weft_pool *full;

static void submit_and_go_on(void *arg)
{
    CHECK_EQ(weft_pool_submit(full, panic_task, TEXT("nested")), 0);
    atomic_u32_add_seq_cst(arg, 1);
}

static void a_submitter_goes_on(void *arg)
{
    static struct gate gate;
    atomic_u32 ran = {0};
    full = open_told((weft_pool_options){.capacity = 1, .when_full = WEFT_CALLER_RUNS});
    gate_shut_and_fill(&gate, full, 1);
    submit_and_go_on(&ran); /* the caller runs it */
    CHECK_EQ(count_of(&told.count), 1);
    gate_open(&gate);
    AWAIT_FIGURE(full, running, 0);
    CHECK_EQ(weft_pool_submit(full, submit_and_go_on, &ran), 0); /* the task runs it, in its own */
    CHECK_EQ(weft_pool_stop(full, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 2);
    CHECK_FIGURES(full, IS(panicked, 2), IS(running, 0));
    pool_close(full);
}

/* The functions of the options. */

static atomic_u32 starts, exits, drops;

static int start_panics(void **state, void *data)
{
    if (atomic_u32_add_seq_cst(&starts, 1) == 0)
        weft_panic("start");
    return 0;
}

static void exit_panics(void *state, void *data)
{
    atomic_u32_add_seq_cst(&exits, 1);
    weft_panic("exit");
}

static void drop_panics(void (*function)(void *), void *arg, void *data)
{
    atomic_u32_add_seq_cst(&drops, 1);
    weft_panic("drop");
}

static void log_panics(const char *line, void *data)
{
    CHECK(strstr(line, "it panicked") != NULL);
    weft_panic("log");
}

static void use_options(void)
{
    static struct gate gate;
    weft_pool *pool =
        POOL_OPEN(.capacity = 1, .when_full = WEFT_DROP_NEWEST, .on_worker_start = start_panics,
                  .on_worker_exit = exit_panics, .on_drop = drop_panics, .log = log_panics);
    gate_shut_and_fill(&gate, pool, 1);
    submit_many(pool, gate_task, &gate, 3);
    CHECK_EQ(count_of(&drops), 3);
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK(count_of(&starts) >= 2);
    CHECK_EQ(count_of(&exits), pool_stats(pool).most_workers);
    CHECK_FIGURES(pool, IS(handlers_panicked, 1 + 1 + 3 + count_of(&exits)), IS(panicked, 0));
    pool_close(pool);
}

static void no_function_of_the_options_does_harm(void)
{
    const char *text = test_stderr_of(use_options);
    CHECK(strstr(text, ": start\n") != NULL);
    CHECK(strstr(text, ": drop\n") != NULL);
}

/* A panic in on_panic is counted and reported, and the worker goes on. */

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
    atomic_u32 calls = {0}, ran = {0};
    weft_pool *pool =
        POOL_OPEN(.capacity = 1, .queue = TASKS, .on_panic = panic_in_handler, .data = &calls);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(weft_pool_submit(pool, panic_plainly, NULL), 0);
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_STATS(stats, IS(panicked, TASKS), IS(handlers_panicked, TASKS), IS(completed, 2 * TASKS),
                IS(most_workers, 1));
    CHECK_EQ(count_of(&calls), TASKS);
    CHECK_EQ(count_of(&ran), TASKS);
    pool_close(pool);
}

static void a_panic_in_on_panic_is_survived(void)
{
    const char *text = test_stderr_of(panic_in_all_handlers);
    CHECK(strstr(text, ": in the handler (in on_panic, which was told of: in the task)\n") != NULL);
}

/* Deferred calls of a task end with it. */

static weft_deferred record;

static void defer_task(void *arg)
{
    weft_defer(&record, count_task, arg);
}

static void check_deferred(void *arg)
{
    CHECK_EQ(count_of(arg), 1);
}

static void what_is_deferred_ends_with_the_task(void)
{
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 1);
    CHECK_EQ(weft_pool_submit(pool, defer_task, &ran), 0);
    CHECK_EQ(weft_pool_submit(pool, check_deferred, &ran), 0);
    pool_close(pool);
}

int main(void)
{
    RUN_BOTH(workers_go_on);
    RUN_AT(all_workers_may_panic, EVERYWHERE, 1, 3);
    RUN_PLAIN(what_no_handler_is_told_is_reported, "a panic that is not recovered fails a run");
    RUN_PLAIN(a_handle_gets_the_error, "a panic that is not recovered fails a run");
    RUN_BOTH(a_group_gets_the_error);
    RUN_EVERYWHERE(the_next_of_its_key_goes_on);
    RUN_EVERYWHERE(a_submitter_goes_on);
    RUN_PLAIN(no_function_of_the_options_does_harm, "a panic that is not recovered fails a run");
    RUN_BOTH(a_panic_in_on_panic_is_survived);
    RUN_BOTH(what_is_deferred_ends_with_the_task);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
