/*
 * task.c: tasks with a handle: results, waiting, cancelling.
 */
#include <weft/weft.h>

#include "failing.h"
#include "figures.h"
#include "seeds.h"

#define TASK_POISON ((weft_task *)(uintptr_t)0xdead)
#define RESULT_POISON ((void *)(uintptr_t)0xbeef)

static weft_task *start(weft_pool *pool, int (*function)(void *, void **), void *arg)
{
    weft_task *task = TASK_POISON;
    CHECK_EQ(weft_task_start(&task, pool, function, arg, NULL), 0);
    CHECK(task != NULL && task != TASK_POISON);
    return task;
}

/* Results. */

static int twice(void *arg, void **result)
{
    *result = (void *)((uintptr_t)arg * 2);
    return 0;
}

static int fail(void *arg, void **result)
{
    *result = arg;
    return -EIO;
}

static int say_nothing(void *arg, void **result)
{
    (void)arg, (void)result;
    return 77;
}

static void result_and_error(void *arg)
{
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 4, .queue = 1});
    for (uintptr_t i = 1; i <= (uintptr_t)test_scale(1000); i++) {
        weft_task *task = start(pool, twice, (void *)i);
        void *result = RESULT_POISON;
        CHECK_EQ(weft_task_wait(task, &result), 0);
        CHECK_EQ((uintptr_t)result, 2 * i);
        CHECK_EQ(weft_task_ended(task), 1);
        CHECK_EQ(weft_task_wait(task, NULL), 0); /* again, without the result */
        CHECK_EQ(weft_task_wait_until(task, &result, WEFT_NOW), 0);
        CHECK_EQ(weft_task_cancel(task), 2);
        weft_task_release(task);
    }
    weft_task *task = start(pool, fail, &task);
    void *result = RESULT_POISON;
    CHECK_EQ(weft_task_wait(task, &result), -EIO);
    CHECK_PTR(result, &task); /* an error may have a result too */
    weft_task_release(task);
    task = start(pool, say_nothing, NULL);
    CHECK_EQ(weft_task_wait(task, &result), 77); /* any number */
    CHECK_PTR(result, NULL);
    weft_task_release(task);
    pool_close(pool);
    (void)arg;
}

static void arguments(void)
{
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
    weft_task *task = TASK_POISON;
    CHECK_EQ(weft_task_start(NULL, pool, twice, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_start(&task, NULL, twice, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_start(&task, pool, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_task_start(&task, pool, twice, pool, &(weft_submit_options){.copy = 8}), -EINVAL);
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
    weft_task_release(NULL);
    pool_close(pool);
}

/* A task that the pool has no room for has no handle. */
static void no_room(void *arg)
{
    static const int policies[] = {WEFT_BLOCK, WEFT_REJECT};
    for (int i = 0; i < 2; i++) {
        struct gate gate;
        gate_shut(&gate);
        weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .when_full = policies[i]});
        gate_fill(&gate, pool, 1);
        weft_task *task = TASK_POISON;
        weft_submit_options options = {.deadline = weft_after(WEFT_MS)};
        CHECK_EQ(weft_task_start(&task, pool, twice, NULL, &options),
                 policies[i] == WEFT_BLOCK ? -ETIMEDOUT : -EAGAIN);
        CHECK_PTR(task, TASK_POISON);
        gate_open(&gate);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(weft_task_start(&task, pool, twice, NULL, NULL), -ESHUTDOWN);
        CHECK_PTR(task, TASK_POISON);
        pool_close(pool);
    }
    (void)arg;
}

/* Waiting. */

static int pass_gate(void *gate, void **result)
{
    gate_task(gate);
    *result = gate;
    return 0;
}

static void wait_with_a_deadline(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = 1});
    weft_task *running = start(pool, pass_gate, &gate);
    await_at_gate(&gate, 1);
    weft_task *queued = start(pool, twice, &gate);
    void *result = RESULT_POISON;
    int64_t deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_task_wait_until(running, &result, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_task_wait_until(running, &result, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_task_wait_until(queued, &result, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_PTR(result, RESULT_POISON);
    CHECK_EQ(weft_task_ended(running), 0);
    CHECK_EQ(weft_task_ended(queued), 0);
    gate_open(&gate);
    CHECK_EQ(weft_task_wait_until(running, &result, weft_after(LONG)), 0);
    CHECK_PTR(result, &gate);
    CHECK_EQ(weft_task_wait(queued, NULL), 0);
    weft_task_release(running);
    weft_task_release(queued);
    pool_close(pool);
    (void)arg;
}

struct waiting {
    weft_task *task;
    weft_context *context;
    void *result;
    int error;
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
            gate_shut(&block);
            weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = 1});
            gate_fill(&block, pool, 1);
            weft_task *task = start(pool, pass_gate, &gate);
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
                CHECK_EQ(waiting[i].error, cancel ? -ECANCELED : 0);
                CHECK_PTR(waiting[i].result, cancel ? RESULT_POISON : (void *)&gate);
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
        weft_context *context;
        CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
        weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
        atomic_u32 begun = {0};
        struct waiting waiting = {.task = start(pool, pass_gate, &gate),
                                  .context = context,
                                  .result = RESULT_POISON,
                                  .begun = &begun};
        struct body body = {.function = wait_for_task, .arg = &waiting, .thread = thread};
        body_start(&body);
        await_count(&begun, 1);
        weft_context_cancel(context);
        body_join(&body);
        CHECK_EQ(waiting.error, -ECANCELED);
        CHECK_PTR(waiting.result, RESULT_POISON);
        CHECK_EQ(weft_task_ended(waiting.task), 0); /* which tells it from a cancelled task */
        gate_open(&gate);
        CHECK_EQ(weft_task_wait(waiting.task, NULL), 0);
        weft_task_release(waiting.task);
        weft_context_close(context);
        pool_close(pool);
    }
}

/* Cancelling. */

static void cancelled_before_it_begins(void *arg)
{
    struct gate gate, never;
    gate_shut(&gate);
    gate_shut(&never);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = 10});
    gate_fill(&gate, pool, 1);
    weft_task *tasks[5];
    for (int i = 0; i < 5; i++)
        tasks[i] = start(pool, pass_gate, &never);
    for (int i = 0; i < 5; i++) {
        void *result = RESULT_POISON;
        CHECK_EQ(weft_task_cancel(tasks[i]), 0);
        CHECK_EQ(weft_task_ended(tasks[i]), 1); /* at once, not when its turn comes */
        CHECK_EQ(weft_task_wait(tasks[i], &result), -ECANCELED);
        CHECK_PTR(result, RESULT_POISON);
        CHECK_EQ(weft_task_cancel(tasks[i]), 2);
        weft_task_release(tasks[i]);
    }
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.cancelled, 5);
    CHECK_EQ(stats.completed, 1);
    CHECK_EQ(stats.submitted, 6);
    CHECK_EQ(gauge_total(&never.gauge), 0);
    pool_close(pool);
    (void)arg;
}

static int sleep_on(void *arg, void **result)
{
    *result = weft_context_current();
    count_task(arg);
    return weft_sleep_until(WEFT_NEVER);
}

static void cancelled_while_it_runs(void *arg)
{
    atomic_u32 begun = {0};
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2});
    weft_task *task = start(pool, sleep_on, &begun);
    await_count(&begun, 1);
    CHECK_EQ(weft_task_cancel(task), 1);
    void *context = NULL;
    CHECK_EQ(weft_task_wait(task, &context), -ECANCELED); /* what it returned */
    CHECK(context != NULL);                               /* it has run, and had one of its own */
    weft_task_release(task);
    /* The worker goes on, bound to nothing. */
    task = start(pool, twice, &begun);
    CHECK_EQ(weft_task_wait(task, NULL), 0);
    weft_task_release(task);
    CHECK_EQ(pool_stats(pool).cancelled, 0);
    pool_close(pool);
    (void)arg;
}

static void check_unbound(void *arg)
{
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    count_task(arg);
}

static void a_context_does_not_outlive_its_task(void)
{
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = 10});
    for (int i = 0; i < 20; i++) {
        atomic_u32 begun = {0}, ran = {0};
        weft_task *task = start(pool, sleep_on, &begun);
        CHECK_EQ(weft_pool_submit(pool, check_unbound, &ran), 0); /* by the same worker */
        await_count(&begun, 1);
        CHECK_EQ(weft_task_cancel(task), 1);
        await_count(&ran, 1);
        weft_task_release(task);
    }
    pool_close(pool);
}

static void cancel_task(void *task)
{
    int result = weft_task_cancel(task);
    CHECK(result >= 0 && result <= 2);
}

/* Whoever is first, the task has run, or it has not, and all agree. */
static void cancel_races_with_the_begin(void)
{
    for (int64_t round = test_scale(2000); round > 0; round--) {
        weft_pool *pool = weft_pool_default();
        weft_task *task = start(pool, twice, &pool);
        struct body body = {.function = cancel_task, .arg = task, .thread = round % 64 == 0};
        body_start(&body);
        void *result = RESULT_POISON;
        int error = weft_task_wait(task, &result);
        CHECK(error == 0 ? (uintptr_t)result == 2 * (uintptr_t)&pool
                         : error == -ECANCELED && result == RESULT_POISON);
        body_join(&body);
        weft_task_release(task);
    }
    AWAIT_FIGURE(weft_pool_default(), running, 0);
}

/* Handles that are given up. */

static int count_result(void *counter, void **result)
{
    count_task(counter);
    *result = counter;
    return 0;
}

static void released_before_the_end(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = 100});
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < 100; i++)
        weft_task_release(start(pool, count_result, &ran));
    CHECK_EQ(atomic_u32_load_relaxed(&ran), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    for (int64_t i = test_scale(5000); i > 0; i--)
        weft_task_release(start(pool, count_result, &ran));
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&ran), 100 + test_scale(5000));
    pool_close(pool);
    (void)arg;
}

static void released_after_the_pool(void)
{
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
    weft_task *task = start(pool, twice, pool);
    pool_close(pool);
    void *result;
    CHECK_EQ(weft_task_ended(task), 1);
    CHECK_EQ(weft_task_wait(task, &result), 0);
    CHECK_EQ((uintptr_t)result, 2 * (uintptr_t)pool);
    weft_task_release(task);
}

/* Dropped ones. */

static void no_drop(void (*function)(void *), void *arg, void *data)
{
    (void)function, (void)arg, (void)data;
    CHECK(!"a task with a handle is told by the handle");
}

static void dropped_ones_end(void *arg)
{
    static const int policies[] = {WEFT_DROP_NEWEST, WEFT_DROP_OLDEST};
    for (int i = 0; i < 2; i++)
        for (int abort = 0; abort < 2; abort++) {
            struct gate gate;
            gate_shut(&gate);
            atomic_u32 ran = {0};
            weft_pool *pool = pool_open((weft_pool_options){
                .capacity = 1, .queue = 1, .when_full = policies[i], .on_drop = no_drop});
            gate_fill(&gate, pool, 1);
            weft_task *first = start(pool, count_result, &ran);
            weft_task *second = abort ? NULL : start(pool, count_result, &ran);
            weft_task *dropped = abort || policies[i] == WEFT_DROP_OLDEST ? first : second;
            weft_task *other = abort ? NULL : dropped == first ? second : first;
            if (abort)
                CHECK_EQ(weft_pool_abort(pool), 1);
            void *result = RESULT_POISON;
            CHECK_EQ(weft_task_ended(dropped), 1);
            CHECK_EQ(weft_task_wait(dropped, &result), -ECANCELED);
            CHECK_PTR(result, RESULT_POISON);
            CHECK_EQ(weft_task_ended(other), 0);
            gate_open(&gate);
            if (other != NULL)
                CHECK_EQ(weft_task_wait(other, NULL), 0);
            weft_task_release(first);
            weft_task_release(second);
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
            CHECK_EQ(pool_stats(pool).dropped, 1);
            CHECK_EQ(atomic_u32_load_relaxed(&ran), !abort);
            pool_close(pool);
        }
    (void)arg;
}

/* Without memory. */

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
    void *result = RESULT_POISON;
    if (error == 0) {
        CHECK_EQ(weft_task_wait(task, &result), 0); /* it runs, whatever could not be made */
        CHECK_PTR(result, &ran);
        weft_task_release(task);
    } else {
        CHECK_PTR(task, TASK_POISON);
    }
    if (pool != NULL)
        pool_close(pool);
    CHECK_EQ(atomic_u32_load_relaxed(&ran), error == 0);
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
    RUN_EVERYWHERE(cancelled_while_it_runs);
    RUN_BOTH(a_context_does_not_outlive_its_task);
    RUN_BOTH(cancel_races_with_the_begin);
    RUN_EVERYWHERE(released_before_the_end);
    RUN_BOTH(released_after_the_pool);
    RUN_EVERYWHERE(dropped_ones_end);
    CHECK(failing_each(start_without_memory, 30) > 0);
    return 0;
}
