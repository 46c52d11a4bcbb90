/*
 * cancel.c: weft_pool_cancel cancels the running tasks of a pool, and nothing else. The pool's
 * context, which tasks are bound to.
 */
#include <weft/pools.h>
#include <weft/schedule.h>

#include "tasks.h"

/* Tasks that wait for their cancellation. */

static struct {
    atomic_u32 begun, ended;
} waits;

static int wait_for_cancel(void *arg)
{
    CHECK(weft_context_current() != NULL);
    CHECK_EQ(weft_context_error(weft_context_current()), 0);
    atomic_u32_add_seq_cst(&waits.begun, 1);
    int error = weft_sleep(LONG);
    CHECK_EQ(error, -ECANCELED);
    CHECK_EQ(weft_context_error(weft_context_current()), -ECANCELED);
    CHECK_EQ(weft_sleep(WEFT_US), -ECANCELED); /* and every later wait */
    atomic_u32_add_seq_cst(&waits.ended, 1);
    return error;
}

static void plain_wait(void *arg)
{
    (void)wait_for_cancel(arg);
}

static atomic_u32 ran;

static void count_uncancelled(void *arg)
{
    CHECK(weft_context_current() != NULL);
    CHECK_EQ(weft_context_error(weft_context_current()), 0);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    atomic_u32_add_seq_cst(&ran, 1);
}

static void begin(void)
{
    memset(&waits, 0, sizeof waits);
    atomic_u32_store_relaxed(&ran, 0);
}

/* One of each kind, under contexts that have fail_if_given to do with the pool's. */

enum { KINDS = 6, WAITING = 10 };

static void start_each_kind(weft_pool *pool, weft_context *other, weft_task **task,
                            weft_group **group)
{
    int number = 1;
    weft_submit_options copied = {.copy = sizeof number, .priority = WEFT_HIGH}, keyed = {.key = 1},
                        own = {.context = other, .key = 2};
    CHECK_EQ(weft_pool_submit(pool, plain_wait, NULL), 0);
    CHECK_EQ(weft_pool_submit_with(pool, plain_wait, &number, &copied), 0);
    CHECK_EQ(weft_pool_submit_with(pool, plain_wait, NULL, &keyed), 0);
    CHECK_EQ(weft_task_start(task, pool, wait_for_cancel, NULL, &own), 0);
    CHECK_EQ(weft_pool_group(group, pool, &(weft_group_options){.context = other}), 0);
    CHECK_EQ(weft_group_go(*group, wait_for_cancel, NULL), 0);
    CHECK_EQ(weft_pool_submit_after(pool, plain_wait, NULL, 0, NULL), 0);
    await(&waits.begun, KINDS);
}

static void cancel_ends_the_waits_of_all_that_runs(void *arg)
{
    weft_task *task;
    weft_group *group;
    weft_pool *pool = POOL_OPEN(.capacity = KINDS, .queue = WEFT_UNLIMITED, .cancellable = 1);
    weft_context *other = new_context();
    for (int round = 0; round < 3; round++) { /* each with a new context of the pool's */
        begin();
        start_each_kind(pool, other, &task, &group);
        submit_many(pool, count_uncancelled, NULL, WAITING);
        CHECK_EQ(weft_pool_cancel(pool), 0);
        await(&waits.ended, KINDS);
        CHECK_EQ(end_task(task), -ECANCELED);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        await(&ran, WAITING); /* tasks in the queue are not cancelled */
    }
    CHECK_EQ(weft_context_error(other), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.completed, 3 * (KINDS + WAITING));
    CHECK_EQ(stats.failed, 6); /* the task with a handle, and that of the group */
    weft_context_close(other);
    pool_close(pool);
}

static int fail_if_given(void *arg)
{
    return arg != NULL;
}

/* A group that has fail_if_given running is not cancelled. */
static void cancel_leaves_others_alone(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = WEFT_UNLIMITED, .cancellable = 1);
    begin();
    weft_group *group = group_over(pool, NULL);
    CHECK_EQ(weft_pool_cancel(pool), 0); /* fail_if_given runs */
    CHECK_EQ(weft_pool_submit(pool, plain_wait, NULL), 0);
    await(&waits.begun, 1);
    CHECK_EQ(weft_group_go(group, fail_if_given, NULL), 0);
    weft_task *task = start_task(pool, fail_if_given, NULL);
    CHECK_EQ(weft_pool_cancel(pool), 0);
    CHECK_EQ(task_result(task), 0);
    CHECK_EQ(weft_group_close(group), 0);
    weft_task_release(task);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_cancel(pool), 0);
    CHECK_EQ(weft_pool_reopen(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, count_uncancelled, NULL), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 1);
}

static void cancel_needs_the_option(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    CHECK_EQ(weft_pool_cancel(pool), -ENOTSUP);
    CHECK_EQ(weft_pool_cancel(NULL), -EINVAL);
    pool_close(pool);
    CHECK_EQ(weft_pool_cancel(weft_pool_default()), -ENOTSUP);
}

/* A stop whose deadline has passed; then a cancel. */
static void cancel_ends_a_stop(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 2, .cancellable = 1);
    begin();
    CHECK_EQ(weft_pool_submit(pool, plain_wait, NULL), 0);
    await(&waits.begun, 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_pool_cancel(pool), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&waits.ended), 1);
}

/* By a task of the pool, and tasks that wait for tasks they started. */

static weft_pool *own_pool;

static int await_sub_task(void *arg)
{
    weft_task *task = start_task(own_pool, wait_for_cancel, NULL);
    atomic_u32_add_seq_cst(&ran, 1);
    int error = weft_task_wait(task, NULL);
    CHECK(error == 0 || error == -ECANCELED); /* both are cancelled */
    CHECK_EQ(weft_context_error(weft_context_current()), -ECANCELED);
    weft_task_release(task);
    return 0;
}

static void plain_await_sub_task(void *arg)
{
    (void)await_sub_task(arg);
}

static void cancel_own_pool(void *arg)
{
    CHECK_EQ(weft_pool_cancel(own_pool), 0);
    CHECK_EQ(weft_context_error(weft_context_current()), -ECANCELED);
    CHECK_EQ(weft_sleep(WEFT_US), -ECANCELED);
}

static void tasks_may_cancel_their_pool(void)
{
    own_pool = POOL_OPEN(.capacity = 3, .queue = 10, .cancellable = 1);
    begin();
    CHECK_EQ(weft_pool_submit(own_pool, plain_await_sub_task, NULL), 0);
    weft_task *task = start_task(own_pool, await_sub_task, NULL);
    await(&waits.begun, 2);
    CHECK_EQ(weft_pool_submit(own_pool, cancel_own_pool, NULL), 0);
    CHECK_EQ(end_task(task), 0);
    await(&waits.ended, 2);
    CHECK_EQ(weft_pool_submit(own_pool, count_uncancelled, NULL), 0);
    pool_close(own_pool);
}

/* In a submitter that runs the task itself. */

static weft_context *submitters;

static void check_bound(void *arg)
{
    weft_context *current = weft_context_current();
    CHECK(current != NULL && current != submitters);
    CHECK_EQ(weft_pool_cancel(arg), 0);
    CHECK_EQ(weft_sleep(LONG), -ECANCELED);
}

static int check_own(void *arg)
{
    CHECK_EQ(weft_context_error(weft_context_current()), 0);
    check_bound(arg);
    return 5;
}

static void cancel_reaches_a_task_in_its_submitter(void *arg)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 1, .when_full = WEFT_CALLER_RUNS, .cancellable = 1);
    submitters = new_context();
    gate_shut(&gate);
    gate_fill_firmly(&gate, pool, 1);
    CHECK_EQ(weft_context_bind(submitters, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, check_bound, pool), 0);
    CHECK_PTR(weft_context_current(), submitters);
    weft_task *task = start_task(pool, check_own, pool);
    CHECK_PTR(weft_context_current(), submitters);
    CHECK_EQ(weft_context_error(submitters), 0);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, check_bound, pool), 0); /* the submitter is bound to nothing */
    CHECK_PTR(weft_context_current(), NULL);
    gate_open(&gate);
    CHECK_EQ(end_task(task), 5);
    weft_context_close(submitters);
    pool_close(pool);
}

/* A task begins bound to the pool's context, whatever earlier tasks and the options bound. */

static weft_context *foreign;

static void bind_another(void *arg)
{
    CHECK_EQ(weft_context_bind(foreign, NULL), 0);
}

static void bind_none(void *arg)
{
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void panic_bound(void *arg)
{
    bind_another(arg);
    weft_panic("bound to another");
}

static void drop_panic(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
    CHECK(function == panic_bound);
}

static int start_bound(void **state, void *data)
{
    CHECK_PTR(weft_context_current(), NULL);
    bind_another(NULL);
    return 0;
}

static void exit_unbound(void *state, void *data)
{
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_sleep(WEFT_US), 0); /* it can wait, though its last task was cancelled */
    atomic_u32_add_seq_cst(&ran, 100);
}

static void every_task_begins_with_the_pools_context(void)
{
    void (*const tasks[])(void *) = {bind_another, bind_none, panic_bound, plain_wait};
    foreign = new_context();
    weft_context_cancel(foreign);
    weft_pool *pool =
        POOL_OPEN(.capacity = 1, .queue = WEFT_UNLIMITED, .cancellable = 1, .on_panic = drop_panic,
                  .on_worker_start = start_bound, .on_worker_exit = exit_unbound);
    begin();
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(weft_pool_submit(pool, count_uncancelled, NULL), 0);
        CHECK_EQ(weft_pool_submit(pool, tasks[i], NULL), 0);
        CHECK_EQ(weft_pool_submit(pool, count_uncancelled, NULL), 0);
        if (tasks[i] == plain_wait) {
            await(&waits.begun, 1);
            CHECK_EQ(weft_pool_cancel(pool), 0);
        }
        await(&ran, 2 * i + 2);
    }
    CHECK_EQ(weft_pool_submit(pool, plain_wait, NULL), 0);
    await(&waits.begun, 2);
    CHECK_EQ(weft_pool_cancel(pool), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 108);
    weft_context_close(foreign);
}

/* A function that has left its group is bound to the pool's context, and is cancelled without its
 * group. */

static int leave_and_wait(void *arg)
{
    CHECK_EQ(weft_group_leave(), 0);
    return wait_for_cancel(arg);
}

/* Leaves the group inside a task of another pool, which the function runs as its submitter. */
static void leave_inside(void *arg)
{
    CHECK_EQ(weft_group_leave(), 0);
}

static weft_wg left;

static int leave_elsewhere(void *other)
{
    CHECK_EQ(weft_pool_submit(other, leave_inside, NULL), 0);
    atomic_u32_add_seq_cst(&waits.begun, 1);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_wg_wait(&left), 0);
    return 0;
}

static void cancel_reaches_a_function_that_left_its_group(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 4, .cancellable = 1),
              *other = POOL_OPEN(.capacity = 1, .when_full = WEFT_CALLER_RUNS);
    static struct gate gate;
    begin();
    gate_shut_and_fill(&gate, other, 1);
    CHECK_EQ(weft_wg_init(&left, 1), 0);
    weft_group *group = group_over(pool, NULL);
    CHECK_EQ(weft_group_go(group, leave_and_wait, NULL), 0);
    CHECK_EQ(weft_group_go(group, leave_elsewhere, other), 0);
    await(&waits.begun, 2);
    CHECK_EQ(weft_group_wait(group, NULL), 0);
    CHECK_EQ(weft_pool_cancel(pool), 0);
    await(&waits.ended, 1);
    CHECK_EQ(weft_group_close(group), 0);
    CHECK_EQ(weft_pool_cancel(pool), 0); /* of the group fail_if_given is left */
    weft_wg_done(&left);
    gate_open_and_close(&gate, other);
    pool_close(pool);
}

/* Repeated cancels: no call cancels a task that was submitted after the call returned. */

static struct {
    weft_pool *pool;
    atomic_u32 begun, returned, ran; /* calls, and tasks */
} storm;

/* So many calls had returned when it was submitted. */
static void check_not_before(uintptr_t returned)
{
    CHECK(weft_context_current() != NULL);
    if (weft_context_error(weft_context_current()) != 0)
        CHECK(count_of(&storm.begun) > returned);
}

static void short_task(void *returned)
{
    check_not_before((uintptr_t)returned);
    atomic_u32_add_seq_cst(&storm.ran, 1);
}

static void yielding_task(void *returned)
{
    weft_yield();
    short_task(returned);
}

static int task_with_handle(void *returned)
{
    check_not_before((uintptr_t)returned);
    weft_yield();
    check_not_before((uintptr_t)returned);
    atomic_u32_add_seq_cst(&storm.ran, 1);
    return 0;
}

static void submit_amid_cancels(void *arg)
{
    int64_t count = test_scale(20000);
    for (int64_t i = 0; i < count; i++) {
        void *returned = (void *)(uintptr_t)count_of(&storm.returned);
        if (i % 50 == 0) {
            weft_task *task = start_task(storm.pool, task_with_handle, returned);
            weft_task_release(task);
        } else {
            CHECK_EQ(
                weft_pool_submit(storm.pool, i % 20 == 1 ? yielding_task : short_task, returned),
                0);
        }
        if (i % 64 == 0)
            weft_yield();
    }
}

static void cancel_often(void *arg)
{
    uint32_t all = *(uint32_t *)arg;
    while (count_of(&storm.ran) < all) {
        atomic_u32_add_seq_cst(&storm.begun, 1);
        CHECK_EQ(weft_pool_cancel(storm.pool), 0);
        atomic_u32_add_seq_cst(&storm.returned, 1);
        weft_yield();
    }
}

static void no_task_is_cancelled_by_an_earlier_call(void)
{
    uint32_t all = (uint32_t)(2 * test_scale(20000));
    memset(&storm, 0, sizeof storm);
    storm.pool = POOL_OPEN(.queue = WEFT_UNLIMITED, .cancellable = 1);
    struct body bodies[] = {{.function = submit_amid_cancels},
                            {.function = submit_amid_cancels, .thread = true},
                            {.function = cancel_often, .arg = &all},
                            {.function = cancel_often, .arg = &all, .thread = true}};
    bodies_run(bodies, 4);
    pool_close(storm.pool);
    CHECK_EQ(count_of(&storm.ran), all);
}

int main(void)
{
    RUN_AT(cancel_ends_the_waits_of_all_that_runs, EVERYWHERE, 1);
    RUN_BOTH(cancel_leaves_others_alone);
    RUN_BOTH(cancel_needs_the_option);
    RUN_BOTH(cancel_ends_a_stop);
    RUN_BOTH(tasks_may_cancel_their_pool);
    RUN_EVERYWHERE(cancel_reaches_a_task_in_its_submitter);
    RUN_BOTH(every_task_begins_with_the_pools_context);
    RUN_BOTH(cancel_reaches_a_function_that_left_its_group);
    RUN_BOTH(no_task_is_cancelled_by_an_earlier_call);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
