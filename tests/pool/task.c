/*
 * task.c: tasks with a handle: results, waits, cancels.
 */
#include <weft/weft.h>

#include "failing.h"
#include "tasks.h"

#define TASK_POISON ((weft_task *)(uintptr_t)0xdead)
#define RESULT_POISON INT_MIN

static int twice(void *number)
{
    return 2 * *(int *)number;
}

static void result_and_error(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = 4, .queue = 1);
    int many = (int)test_scale(1000);
    for (int i = -many; i <= many; i++) { /* any number, and errors */
        weft_task *task = start_task(pool, twice, &i);
        int result = RESULT_POISON;
        CHECK_EQ(weft_task_wait(task, &result), 0);
        CHECK_EQ(result, 2 * i);
        CHECK_EQ(weft_task_ended(task), 1);
        CHECK_EQ(weft_task_wait(task, NULL), 0); /* again, without the result */
        result = RESULT_POISON;
        CHECK_EQ(weft_task_wait_until(task, &result, WEFT_NOW), 0);
        CHECK_EQ(result, 2 * i);
        CHECK_EQ(weft_task_cancel(task), 2);
        weft_task_release(task);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_FIGURES(pool, IS(completed, 2 * many + 1), IS(failed, many));
    pool_close(pool);
}

static void arguments(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    weft_task *task = TASK_POISON;
    CHECK_EQ(weft_task_start(NULL, pool, twice, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_start(&task, NULL, twice, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_start(&task, pool, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_start(&task, pool, twice, NULL, &(weft_submit_options){.copy = 8}), -EINVAL);
    CHECK_EQ(weft_task_start(&task, pool, twice, pool,
                             &(weft_submit_options){.copy = WEFT_COPY_MAX + 1}),
             -EINVAL);
    CHECK_EQ(weft_task_start(&task, pool, twice, NULL, &(weft_submit_options){.timeout = -1}),
             -EINVAL);
    CHECK_EQ(weft_task_start(&task, pool, twice, NULL, &(weft_submit_options){.run_timeout = -1}),
             -EINVAL);
    CHECK_EQ(weft_task_try_start(NULL, pool, twice, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_try_start(&task, NULL, twice, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_try_start(&task, pool, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_start(&task, pool, twice, NULL, &(weft_submit_options){.priority = 2}),
             -EINVAL);
    CHECK_EQ(
        weft_task_start(&task, pool, twice, NULL, &(weft_submit_options){.reserved = {0, 0, 0, 1}}),
        -EINVAL);
    CHECK_PTR(task, TASK_POISON);
    CHECK_EQ(weft_task_wait(NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_wait_until(NULL, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_task_cancel(NULL), -EINVAL);
    CHECK_EQ(weft_task_ended(NULL), 0);
    CHECK_PTR(weft_task_arg(NULL), NULL);
    weft_chan *done = NULL;
    CHECK_EQ(weft_task_done(NULL, &done), -EINVAL);
    CHECK_PTR(done, NULL);
    int number = 4;
    task = start_task(pool, twice, &number);
    CHECK_EQ(weft_task_done(task, NULL), -EINVAL);
    CHECK_EQ(end_task(task), 8);
    weft_task_release(NULL);
    pool_close(pool);
}

/* A task that the pool has no room for has no handle. */
static void no_room(void *arg)
{
    static const int policies[] = {WEFT_BLOCK, WEFT_REJECT};
    for (int i = 0; i < 2; i++) {
        struct gate gate;
        weft_pool *pool = POOL_OPEN(.capacity = 1, .when_full = policies[i]);
        gate_shut_and_fill(&gate, pool, 1);
        weft_task *task = TASK_POISON;
        weft_submit_options options = {.timeout = WEFT_MS};
        int64_t deadline = weft_after(WEFT_MS);
        CHECK_EQ(weft_task_start(&task, pool, twice, NULL, &options),
                 policies[i] == WEFT_BLOCK ? -ETIMEDOUT : -EAGAIN);
        CHECK(policies[i] != WEFT_BLOCK || weft_now() >= deadline);
        CHECK_EQ(weft_task_try_start(&task, pool, twice, NULL, NULL), -EAGAIN);
        CHECK_EQ(pool_stats(pool).rejected, 2);
        CHECK_PTR(task, TASK_POISON);
        gate_open(&gate);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(weft_task_start(&task, pool, twice, NULL, NULL), -ESHUTDOWN);
        CHECK_EQ(weft_task_try_start(&task, pool, twice, NULL, NULL), -ESHUTDOWN);
        CHECK_PTR(task, TASK_POISON);
        pool_close(pool);
    }
}

enum { PASSED = 5 };

static int pass_gate(void *gate)
{
    gate_task(gate);
    return PASSED;
}

static void wait_with_a_deadline(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 1);
    weft_task *running = start_task(pool, pass_gate, &gate);
    await_at_gate(&gate, 1);
    int number = 21, result = RESULT_POISON;
    weft_task *queued = start_task(pool, twice, &number);
    int64_t deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_task_wait_until(running, &result, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_task_wait_until(running, &result, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_task_wait_until(queued, &result, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(result, RESULT_POISON);
    CHECK_EQ(weft_task_ended(running), 0);
    CHECK_EQ(weft_task_ended(queued), 0);
    gate_open(&gate);
    CHECK_EQ(weft_task_wait_until(running, &result, weft_after(LONG)), 0);
    CHECK_EQ(result, PASSED);
    CHECK_EQ(task_result(queued), 42);
    weft_task_release(running);
    weft_task_release(queued);
    pool_close(pool);
}

struct waiting {
    weft_task *task;
    weft_context *context;
    int result, error;
    atomic_u32 *begun;
};

static void wait_for_task(void *arg)
{
    struct waiting *waiting = arg;
    CHECK_EQ(weft_context_bind(waiting->context, NULL), 0);
    atomic_u32_add_seq_cst(waiting->begun, 1);
    waiting->error = weft_task_wait(waiting->task, &waiting->result);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void many_wait(void)
{
    enum { WAITERS = 20 };
    for (int cancel = 0; cancel < 2; cancel++)
        for (int64_t round = test_scale(50); round > 0; round--) {
            struct gate gate, block;
            gate_shut(&gate);
            weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 1);
            gate_shut_and_fill(&block, pool, 1);
            weft_task *task = start_task(pool, pass_gate, &gate);
            atomic_u32 begun = {0};
            struct waiting waiting[WAITERS];
            struct body bodies[WAITERS];
            for (int i = 0; i < WAITERS; i++) {
                waiting[i] = (struct waiting){
                    .task = task, .result = RESULT_POISON, .error = 1, .begun = &begun};
                bodies[i] = (struct body){
                    .function = wait_for_task, .arg = &waiting[i], .thread = i % 4 == 0};
                body_start(&bodies[i]);
            }
            if (round % 2 == 0) /* all have come, or just some */
                await_count(&begun, WAITERS);
            if (cancel)
                CHECK_EQ(weft_task_cancel(task), 0);
            gate_open(&block);
            gate_open(&gate);
            for (int i = 0; i < WAITERS; i++) {
                body_join(&bodies[i]);
                CHECK_EQ(waiting[i].error, 0);
                CHECK_EQ(waiting[i].result, cancel ? -ECANCELED : PASSED);
            }
            weft_task_release(task);
            pool_close(pool);
            CHECK_EQ(gauge_total(&gate.gauge), !cancel);
        }
}

static void the_callers_context_ends_the_wait(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct gate gate;
        gate_shut(&gate);
        weft_context *context = new_context();
        weft_pool *pool = POOL_OPEN(.capacity = 1);
        atomic_u32 begun = {0};
        struct waiting waiting = {.task = start_task(pool, pass_gate, &gate),
                                  .context = context,
                                  .result = RESULT_POISON,
                                  .begun = &begun};
        struct body body = {.function = wait_for_task, .arg = &waiting, .thread = thread};
        body_start(&body);
        await_count(&begun, 1);
        weft_context_cancel(context);
        body_join(&body);
        CHECK_EQ(waiting.error, -ECANCELED);
        CHECK_EQ(waiting.result, RESULT_POISON);
        CHECK_EQ(weft_task_ended(waiting.task), 0);
        gate_open(&gate);
        CHECK_EQ(end_task(waiting.task), PASSED);
        weft_context_close(context);
        pool_close(pool);
    }
}

static void cancelled_before_it_begins(void *arg)
{
    enum { TASKS = 20 };
    for (int keyed = 0; keyed < 2; keyed++) {
        atomic_u32 never = {0}, ran = {0};
        weft_task *tasks[TASKS];
        weft_pool *pool =
            POOL_OPEN_PAUSED(.capacity = 4, .queue = TASKS - 4, .when_full = WEFT_REJECT);
        for (int i = 0; i < TASKS; i++)
            tasks[i] = START_WITH(pool, count_handle, &never, .key = keyed ? 7 : 0);
        for (int i = 0; i < TASKS; i++) {
            CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -EAGAIN);
            CHECK_EQ(weft_task_cancel(tasks[i]), 0);
            CHECK_EQ(weft_task_ended(tasks[i]), 1); /* at once, not when its turn comes */
            CHECK_EQ(weft_task_cancel(tasks[i]), 2);
            CHECK_EQ(end_task(tasks[i]), -ECANCELED);
            CHECK_FIGURES(pool, IS(cancelled, i + 1));
            CHECK_EQ(pool_waiting(pool), TASKS - 1);
            CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0); /* in its place */
        }
        CHECK_EQ(weft_pool_resume(pool), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_FIGURES(pool, IS(cancelled, TASKS), IS(completed, TASKS), IS(submitted, 2 * TASKS));
        CHECK_EQ(count_of(&never), 0);
        CHECK_EQ(count_of(&ran), TASKS);
        pool_close(pool);
    }
}

static void a_task_that_is_waited_for_is_cancelled(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 2, .queue = 2);
    weft_task *awaited = start_task(pool, count_handle, &ran);
    CHECK_EQ(weft_task_cancel(awaited), 0);
    weft_task *waiter = start_task(pool, wait_for, awaited);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(end_task(waiter),
             -ECANCELED); /* the result of the awaited task, not an error of the wait */
    CHECK_EQ(end_task(awaited), -ECANCELED);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 0);
}

/* A task that returned an error is told apart from a wait that did. */
static void errors_are_told_apart(void *arg)
{
    int result = 77;
    weft_pool *pool = POOL_OPEN(.capacity = 2, .on_panic = ignore_panic);
    weft_task *task = start_task(pool, return_error, (void *)(intptr_t)-ETIMEDOUT);
    CHECK_EQ(weft_task_wait(task, &result), 0);
    CHECK_EQ(result, -ETIMEDOUT);
    weft_task_release(task);
    task = start_task(pool, sleep_for_ever, NULL);
    AWAIT_FIGURE(pool, running, 1);
    result = 77;
    CHECK_EQ(weft_task_wait_until(task, &result, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(result, 77);
    CHECK_EQ(weft_task_cancel(task), 1);
    CHECK_EQ(end_task(task), -ECANCELED);
    CHECK_FIGURES(pool, IS(failed, 2), IS(completed, 2));
    pool_close(pool);
}

static int sleep_on(void *arg)
{
    CHECK(weft_context_current() != NULL); /* it has one of its own */
    count_task(arg);
    return weft_sleep_until(WEFT_NEVER) == -ECANCELED ? 33 : 0;
}

static void cancelled_while_it_runs(void *arg)
{
    atomic_u32 begun = {0};
    weft_pool *pool = POOL_OPEN(.capacity = 2);
    weft_task *task = start_task(pool, sleep_on, &begun);
    await_count(&begun, 1);
    CHECK_EQ(weft_task_cancel(task), 1);
    CHECK_EQ(end_task(task), 33); /* its own result */
    /* The worker goes on, bound to nothing. */
    int number = 1;
    task = start_task(pool, twice, &number);
    CHECK_EQ(end_task(task), 2);
    CHECK_EQ(pool_stats(pool).cancelled, 0);
    pool_close(pool);
}

static void check_unbound(void *arg)
{
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    count_task(arg);
}

static void a_context_does_not_outlive_its_task(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 10);
    for (int i = 0; i < 20; i++) {
        atomic_u32 begun = {0}, ran = {0};
        weft_task *task = start_task(pool, sleep_on, &begun);
        CHECK_EQ(weft_pool_submit(pool, check_unbound, &ran), 0); /* by the same worker */
        await_count(&begun, 1);
        CHECK_EQ(weft_task_cancel(task), 1);
        await_count(&ran, 1);
        weft_task_release(task);
    }
    pool_close(pool);
}

struct cancelling {
    weft_task *task;
    int said;
};

static void cancel_task(void *arg)
{
    struct cancelling *cancelling = arg;
    cancelling->said = weft_task_cancel(cancelling->task);
}

/* The task has run, or it has not, and all agree. */
static void cancel_races_with_the_begin(void)
{
    for (int64_t round = test_scale(2000); round > 0; round--) {
        weft_pool *pool = weft_pool_default();
        int number = 1000;
        weft_task *task = start_task(pool, twice, &number);
        struct cancelling cancelling = {task, -1};
        struct body body = {.function = cancel_task, .arg = &cancelling, .thread = round % 64 == 0};
        body_start(&body);
        int result = task_result(task);
        CHECK(result == 2000 || result == -ECANCELED);
        body_join(&body);
        CHECK(cancelling.said >= 0 && cancelling.said <= 2);
        CHECK_EQ(result == -ECANCELED, cancelling.said == 0);
        CHECK_EQ(end_task(task), result);
    }
    AWAIT_FIGURE(weft_pool_default(), running, 0);
}

/* Handles that are given up. */

static int count_result(void *counter)
{
    count_task(counter);
    return 11;
}

static void released_before_the_end(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 2, .queue = 100);
    for (int i = 0; i < 100; i++)
        weft_task_release(start_task(pool, count_result, &ran));
    CHECK_EQ(count_of(&ran), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    for (int64_t i = test_scale(5000); i > 0; i--)
        weft_task_release(start_task(pool, count_result, &ran));
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 100 + test_scale(5000));
    pool_close(pool);
}

static void released_after_the_pool(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    int number = 3;
    weft_chan *done;
    weft_task *task = start_task(pool, twice, &number);
    CHECK_EQ(weft_task_done(task, &done), 0);
    pool_close(pool);
    CHECK_EQ(weft_task_ended(task), 1);
    CHECK_EQ(weft_chan_try_receive(done, NULL), -ESHUTDOWN);
    CHECK_EQ(task_result(task), 6);
    CHECK_EQ(weft_task_cancel(task), 2);
    weft_task_release(task);
}

static void dropped_ones_end(void *arg)
{
    static const int policies[] = {WEFT_DROP_NEWEST, WEFT_DROP_OLDEST};
    for (int i = 0; i < 2; i++)
        for (int abort = 0; abort < 2; abort++) {
            struct gate gate;
            atomic_u32 ran = {0};
            weft_pool *pool =
                POOL_OPEN(.capacity = 1, .queue = 1, .when_full = policies[i], .on_drop = no_drop);
            gate_shut_and_fill(&gate, pool, 1);
            weft_task *first = start_task(pool, count_result, &ran);
            weft_task *second = abort ? NULL : start_task(pool, count_result, &ran);
            weft_task *dropped = abort || policies[i] == WEFT_DROP_OLDEST ? first : second;
            weft_task *other = abort ? NULL : dropped == first ? second : first;
            if (abort)
                CHECK_EQ(weft_pool_abort(pool), 1);
            CHECK_EQ(weft_task_ended(dropped), 1);
            CHECK_EQ(task_result(dropped), -ECANCELED);
            CHECK_EQ(weft_task_ended(other), 0);
            gate_open(&gate);
            if (other != NULL)
                CHECK_EQ(task_result(other), 11);
            weft_task_release(first);
            weft_task_release(second);
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
            CHECK_EQ(pool_stats(pool).dropped, 1);
            CHECK_EQ(count_of(&ran), !abort);
            pool_close(pool);
        }
}

/* The end as a channel. */

static void the_end_can_be_selected(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 2);
    weft_task *running = start_task(pool, pass_gate, &gate),
              *queued = start_task(pool, pass_gate, &gate);
    weft_chan *done[2], *again;
    CHECK_EQ(weft_task_done(running, &done[0]), 0);
    CHECK_EQ(weft_task_done(queued, &done[1]), 0);
    CHECK_EQ(weft_task_done(running, &again), 0);
    CHECK_PTR(again, done[0]); /* one for all calls */
    weft_case cases[2] = {{.chan = done[0], .op = WEFT_RECEIVE},
                          {.chan = done[1], .op = WEFT_RECEIVE}};
    CHECK_EQ(weft_select_try(cases, 2), -EAGAIN);
    CHECK_EQ(weft_task_cancel(queued), 0);
    CHECK_EQ(weft_select(cases, 2), 1);
    CHECK_EQ(cases[1].result, -ESHUTDOWN);
    cases[1].chan = NULL;
    gate_open(&gate);
    CHECK_EQ(weft_select(cases, 2), 0);
    CHECK_EQ(cases[0].result, -ESHUTDOWN);
    CHECK_EQ(weft_task_ended(running), 1);
    CHECK_EQ(end_task(running), PASSED);
    weft_task_release(queued);
    pool_close(pool);
}

struct job {
    int from, to;
    char rest[WEFT_COPY_MAX - 2 * sizeof(int)];
};

static int answer_in_copy(void *arg)
{
    struct job *job = arg;
    weft_yield();
    job->to = 3 * job->from;
    return 0;
}

static void a_copy_is_there_until_the_release(void *arg)
{
    enum { JOBS = 20 };
    weft_task *tasks[JOBS];
    weft_submit_options options = {.copy = sizeof(struct job)};
    weft_pool *pool = POOL_OPEN(.capacity = 3, .queue = JOBS);
    for (int i = 0; i < JOBS; i++) {
        struct job job = {.from = i};
        CHECK_EQ(weft_task_start(&tasks[i], pool, answer_in_copy, &job, &options), 0);
        CHECK(weft_task_arg(tasks[i]) != &job);
        memset(&job, 0x55, sizeof job);
    }
    pool_close(pool);
    for (int i = 0; i < JOBS; i++) {
        const struct job *job = weft_task_arg(tasks[i]);
        CHECK_EQ(task_result(tasks[i]), 0);
        CHECK_EQ(job->from, i);
        CHECK_EQ(job->to, 3 * i);
        weft_task_release(tasks[i]);
    }
}

static void an_argument_is_given_back(void)
{
    int number = 5;
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    weft_task *task = start_task(pool, twice, &number);
    CHECK_PTR(weft_task_arg(task), &number);
    CHECK_EQ(task_result(task), 10);
    CHECK_PTR(weft_task_arg(task), &number);
    weft_task_release(task);
    pool_close(pool);
}

static int sleep_and_tell(void *arg)
{
    atomic_u32_add_seq_cst(arg, 1);
    return weft_sleep_until(WEFT_NEVER);
}

/* The context of the option, or else that of the submitter, cancels the task, running or not. */
static void a_context_above_cancels(void *arg)
{
    for (int bound = 0; bound < 2; bound++) {
        atomic_u32 begun = {0};
        weft_context *context, *other;
        weft_task *tasks[2];
        context = new_context();
        other = new_context();
        CHECK_EQ(weft_context_bind(bound ? context : other, NULL), 0);
        weft_submit_options options = {.context = bound ? NULL : context};
        weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 1);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(weft_task_start(&tasks[i], pool, sleep_and_tell, &begun, &options), 0);
        CHECK_EQ(weft_context_bind(NULL, NULL), 0);
        await_count(&begun, 1);
        CHECK_EQ(weft_pool_pause(pool), 0); /* so that the second begins after all are cancelled */
        weft_context_cancel(context);
        CHECK_EQ(task_result(tasks[0]), -ECANCELED);
        CHECK_EQ(weft_pool_resume(pool), 0);
        CHECK_EQ(task_result(tasks[1]), -ECANCELED);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(count_of(&begun), 1);
        CHECK_FIGURES(pool, IS(completed, 1), IS(cancelled, 1));
        for (int i = 0; i < 2; i++)
            weft_task_release(tasks[i]);
        weft_context_close(context);
        weft_context_close(other);
        pool_close(pool);
    }
}

/* From its beginning: not while it waits in the queue. */
static void a_time_to_run(void *arg)
{
    struct gate gate;
    weft_task *task;
    weft_submit_options options = {.run_timeout = 2 * WEFT_MS};
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 1);
    gate_shut_and_fill(&gate, pool, 1);
    CHECK_EQ(weft_task_start(&task, pool, sleep_for_ever, NULL, &options), 0);
    CHECK_EQ(weft_sleep(4 * WEFT_MS), 0);
    CHECK_EQ(weft_task_ended(task), 0);
    int64_t opened = weft_now();
    gate_open(&gate);
    CHECK_EQ(task_result(task), -ETIMEDOUT);
    CHECK(weft_now() - opened >= 2 * WEFT_MS);
    CHECK_EQ(pool_stats(pool).cancelled, 0); /* it has run */
    weft_task_release(task);
    pool_close(pool);
}

static void start_without_memory(void)
{
    weft_pool *pool = NULL;
    weft_task *task = TASK_POISON;
    atomic_u32 ran = {0};
    int error = weft_pool_open(&pool, NULL);
    failing_check(error, failing_start);
    if (error == 0) {
        error = weft_task_start(&task, pool, count_result, &ran, NULL);
        failing_check(error, failing_spawn);
    }
    failing_off();
    if (error == 0) {
        CHECK_EQ(end_task(task), 11); /* it runs, whatever could not be made */
    } else {
        CHECK_PTR(task, TASK_POISON);
    }
    if (pool != NULL)
        pool_close(pool);
    CHECK_EQ(count_of(&ran), error == 0);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_EVERYWHERE(result_and_error);
    RUN_EVERYWHERE(no_room);
    RUN_EVERYWHERE(wait_with_a_deadline);
    RUN_BOTH(many_wait);
    RUN_BOTH(the_callers_context_ends_the_wait);
    RUN_EVERYWHERE(cancelled_before_it_begins);
    RUN_EVERYWHERE(a_task_that_is_waited_for_is_cancelled);
    RUN_EVERYWHERE(errors_are_told_apart);
    RUN_EVERYWHERE(cancelled_while_it_runs);
    RUN_BOTH(a_context_does_not_outlive_its_task);
    RUN_BOTH(cancel_races_with_the_begin);
    RUN_EVERYWHERE(released_before_the_end);
    RUN_BOTH(released_after_the_pool);
    RUN_EVERYWHERE(dropped_ones_end);
    RUN_EVERYWHERE(the_end_can_be_selected);
    RUN_EVERYWHERE(a_copy_is_there_until_the_release);
    RUN_BOTH(an_argument_is_given_back);
    RUN_EVERYWHERE(a_context_above_cancels);
    RUN_EVERYWHERE(a_time_to_run);
    CHECK(failing_each(start_without_memory, 30) > 0);
    return 0;
}
