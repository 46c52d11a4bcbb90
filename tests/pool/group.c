/*
 * group.c: groups whose functions run as tasks of a pool.
 */
#include <weft/weft.h>

#include "tasks.h"

static int succeed(void *counter)
{
    if (counter != NULL)
        count_task(counter);
    return 0;
}

static void *error_arg(int error)
{
    return (void *)(intptr_t)error;
}

/* Sleeps until it is cancelled. */
static int sleep_on(void *counter)
{
    if (counter != NULL)
        count_task(counter);
    return weft_sleep_until(WEFT_NEVER);
}

static void arguments(void)
{
    weft_group *const poison = (weft_group *)(uintptr_t)0xdead;
    weft_group *group = poison;
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    CHECK_EQ(weft_pool_group(NULL, pool, NULL), -EINVAL);
    CHECK_EQ(weft_pool_group(&group, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_pool_group(&group, pool, &(weft_group_options){.limit = -1}), -EINVAL);
    CHECK_EQ(weft_pool_group(&group, pool, &(weft_group_options){.reserved = {1}}), -EINVAL);
    CHECK_PTR(group, poison);
    group = group_over(pool, NULL);
    CHECK_EQ(weft_group_go(group, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_running(group), 0);
    CHECK_EQ(group_error(group), 0);
    CHECK_EQ(weft_group_close(group), 0);
    pool_close(pool);
}

/* Waiting for all. */

static int write_after_a_while(void *place)
{
    CHECK(weft_context_current() != NULL);
    weft_yield();
    CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    *(int *)place = 1; /* plain: the wait orders it */
    return 0;
}

static void waits_for_all(void *arg)
{
    enum { MEMBERS = 100 };
    for (int limit = 0; limit < 2; limit++) {
        weft_pool *pool = POOL_OPEN(.capacity = 5, .queue = 10);
        weft_group *group = group_over(pool, &(weft_group_options){.limit = limit * 3});
        for (int round = 0; round < 3; round++) {
            int written[MEMBERS] = {0};
            for (int i = 0; i < MEMBERS; i++)
                CHECK_EQ(weft_group_go(group, write_after_a_while, &written[i]), 0);
            CHECK_EQ(round < 2 ? group_error(group) : weft_group_close(group), 0);
            for (int i = 0; i < MEMBERS; i++)
                CHECK_EQ(written[i], 1);
        }
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(pool_stats(pool).completed, 3 * MEMBERS);
        pool_close(pool);
    }
}

/* They are tasks: the pool's bound is theirs, and they run in its workers. */
static void members_are_tasks(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = POOL_OPEN(.capacity = 3, .queue = 4);
    weft_group *group = group_over(pool, NULL);
    for (int i = 0; i < 7; i++)
        CHECK_EQ(weft_group_go(group, gate_handle, &gate), 0);
    await_at_gate(&gate, 3);
    CHECK_EQ(pool_stats(pool).queued, 4);
    CHECK_EQ(weft_group_running(group), 7);
    CHECK_EQ(weft_group_try_go(group, gate_handle, &gate), -EAGAIN); /* the pool is full */
    CHECK_EQ(weft_group_running(group), 7);
    CHECK_EQ(weft_group_wait_until(group, weft_after(WEFT_MS), NULL), -ETIMEDOUT);
    gate_open(&gate);
    CHECK_EQ(weft_group_go(group, gate_handle, &gate), 0); /* waits as a submit does */
    CHECK_EQ(weft_group_close(group), 0);
    CHECK_EQ(gauge_total(&gate.gauge), 8);
    CHECK_EQ(gauge_most(&gate.gauge), 3);
    pool_close(pool);
}

static void first_error_cancels(void *arg)
{
    for (int limit = 0; limit < 2; limit++) {
        weft_pool *pool = POOL_OPEN(.capacity = 20);
        weft_group *group = group_over(pool, &(weft_group_options){.limit = limit * 50});
        atomic_u32 begun = {0};
        for (int i = 0; i < 10; i++)
            CHECK_EQ(weft_group_go(group, sleep_on, &begun), 0);
        await_count(&begun, 10);
        CHECK_EQ(weft_group_go(group, return_error, error_arg(-EIO)), 0);
        CHECK_EQ(group_error(group), -EIO);
        CHECK_EQ(weft_group_running(group), 0);
        CHECK_EQ(weft_group_go(group, succeed, &begun), -ECANCELED);
        CHECK_EQ(weft_group_try_go(group, succeed, &begun), -ECANCELED);
        CHECK_EQ(weft_group_close(group), -EIO);
        CHECK_EQ(count_of(&begun), 10);
        pool_close(pool);
    }
}

static void keep_going(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 20);
    weft_group *group = group_over(pool, &(weft_group_options){.keep_going = 1});
    atomic_u32 ran = {0};
    CHECK_EQ(weft_group_go(group, return_error, error_arg(-EIO)), 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_group_go(group, succeed, &ran), 0);
    CHECK_EQ(weft_group_close(group), -EIO);
    CHECK_EQ(count_of(&ran), 10);
    pool_close(pool);
}

/* The worker that ran a member is bound to nothing afterwards. */

static void check_unbound(void *counter)
{
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_group_leave(), -EINVAL);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    count_task(counter);
}

static void a_worker_is_free_afterwards(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 10);
    for (int i = 0; i < 10; i++) {
        atomic_u32 begun = {0};
        weft_group *group = group_over(pool, NULL);
        CHECK_EQ(weft_group_go(group, sleep_on, &begun), 0);
        await_count(&begun, 1);
        weft_group_cancel(group);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        CHECK_EQ(weft_pool_submit(pool, check_unbound, &begun), 0); /* by the same worker */
        await_count(&begun, 2);
    }
    pool_close(pool);
}

static void cancel_ends_the_waits(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = 10, .queue = 10);
    for (int timed = 0; timed < 2; timed++) {
        weft_group *group =
            group_over(pool, &(weft_group_options){.timeout = timed ? 5 * WEFT_MS : 0});
        int result = 0;
        for (int i = 0; i < 15 && result == 0; i++) /* more than can run */
            result = weft_group_go(group, sleep_on, NULL);
        CHECK(result == 0 || (timed && result == -ETIMEDOUT)); /* a slow machine */
        if (!timed)
            weft_group_cancel(group);
        CHECK_EQ(weft_group_close(group), timed ? -ETIMEDOUT : -ECANCELED);
    }
    pool_close(pool);
}

/* By an option or by the binding of its opener; running members, or members that never begin. */
static void a_parent_cancels_too(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = 4);
    for (int i = 0; i < 4; i++) {
        bool bound = i % 2, begun = i / 2;
        int64_t cancelled = pool_stats(pool).cancelled;
        weft_context *parent = new_context();
        if (bound)
            CHECK_EQ(weft_context_bind(parent, NULL), 0);
        weft_group *group =
            group_over(pool, &(weft_group_options){.context = bound ? NULL : parent});
        CHECK_EQ(weft_context_bind(NULL, NULL), 0);
        atomic_u32 count = {0};
        if (!begun)
            CHECK_EQ(weft_pool_pause(pool), 0);
        for (int k = 0; k < 4; k++)
            CHECK_EQ(weft_group_go(group, sleep_on, &count), 0);
        if (begun)
            await_count(&count, 4);
        weft_context_cancel(parent);
        CHECK_EQ(weft_pool_resume(pool), 0);
        CHECK_EQ(group_error(group), -ECANCELED);
        CHECK_EQ(pool_stats(pool).cancelled - cancelled, begun ? 0 : 4);
        CHECK_EQ(weft_group_go(group, succeed, NULL), -ECANCELED);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        weft_context_close(parent);
    }
    pool_close(pool);
}

static void a_cancelled_group_starts_nothing(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 2);
    weft_context *context = new_context();
    for (int parent = 0; parent < 2; parent++) { /* its own context, or its parent */
        weft_group *group = group_over(pool, &(weft_group_options){.context = context});
        if (parent)
            weft_context_cancel(context);
        else
            weft_group_cancel(group);
        CHECK_EQ(weft_group_go(group, count_handle, &ran), -ECANCELED);
        CHECK_EQ(weft_group_try_go(group, count_handle, &ran), -ECANCELED);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
    }
    weft_context_close(context);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 0);
}

/* Cancelled while weft_group_go waits for a place in the pool. */

static struct {
    weft_group *group;
    atomic_u32 ran;
    int result;
} goer;

static void go_and_wait(void *arg)
{
    goer.result = weft_group_go(goer.group, count_handle, &goer.ran);
}

static void a_group_is_cancelled_while_a_go_waits(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct gate gate;
        weft_pool *pool = POOL_OPEN(.capacity = 1);
        gate_shut_and_fill(&gate, pool, 1);
        memset(&goer, 0, sizeof goer);
        goer.group = group_over(pool, NULL);
        struct body body = {.function = go_and_wait, .thread = thread};
        body_start(&body);
        AWAIT_FIGURE(pool, blocked, 1);
        weft_group_cancel(goer.group);
        body_join(&body); /* though the pool is still full */
        CHECK_EQ(goer.result, -ECANCELED);
        gate_open(&gate);
        CHECK_EQ(weft_group_close(goer.group), -ECANCELED);
        pool_close(pool);
        CHECK_EQ(count_of(&goer.ran), 0);
    }
}

static void an_error_skips_what_has_not_begun(void *arg)
{
    enum { MEMBERS = 1000 };
    for (int keep_going = 0; keep_going < 2; keep_going++) {
        atomic_u32 ran = {0};
        weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = WEFT_UNLIMITED);
        weft_group *group = group_over(pool, &(weft_group_options){.keep_going = keep_going});
        CHECK_EQ(weft_pool_pause(pool), 0);
        CHECK_EQ(weft_group_go(group, return_error, (void *)(intptr_t)-EIO), 0);
        for (int i = 0; i < MEMBERS; i++)
            CHECK_EQ(weft_group_go(group, count_handle, &ran), 0);
        CHECK_EQ(weft_pool_resume(pool), 0);
        CHECK_EQ(weft_group_close(group), -EIO);
        weft_pool_stats stats = pool_stats(pool);
        CHECK_EQ(count_of(&ran), keep_going ? MEMBERS : 0);
        CHECK_STATS(stats, IS(completed, keep_going ? MEMBERS + 1 : 1),
                    IS(cancelled, keep_going ? 0 : MEMBERS), IS(failed, 1));
        pool_close(pool);
    }
}

/* A task of the pool, whose context is the parent of the group's. */

static int run_group_inside(void *pool)
{
    weft_group *group = group_over(pool, NULL);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_group_go(group, sleep_for_ever, NULL), 0);
    return weft_group_close(group);
}

static void a_cancelled_task_ends_its_group(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = 2);
    weft_task *task = start_task(pool, run_group_inside, pool);
    AWAIT_FIGURE(pool, lending, 1);
    CHECK_EQ(weft_task_cancel(task), 1);
    CHECK_EQ(end_task(task), -ECANCELED);
    pool_close(pool);
}

/* The limit is the group's own, beside the pool's. */

static struct gauge load;

static int measure(void *arg)
{
    gauge_enter(&load);
    weft_yield();
    if ((uintptr_t)arg % 8 == 0)
        CHECK_EQ(weft_sleep(20 * WEFT_US), 0);
    gauge_leave(&load);
    return 0;
}

static void never_more_than_the_limit(void *arg)
{
    static const int64_t limits[] = {1, 3, 16};
    for (int l = 0; l < 3; l++) {
        weft_pool *pool = POOL_OPEN(.capacity = 8, .queue = 4);
        weft_group *group = group_over(pool, &(weft_group_options){.limit = limits[l]});
        memset(&load, 0, sizeof load);
        for (uintptr_t i = 0; i < (uintptr_t)test_scale(500); i++)
            CHECK_EQ(weft_group_go(group, measure, (void *)i), 0);
        CHECK_EQ(weft_group_close(group), 0);
        CHECK(gauge_most(&load) <= (uint32_t)(limits[l] < 8 ? limits[l] : 8));
        CHECK_EQ(gauge_total(&load), test_scale(500));
        pool_close(pool);
    }
}

/* Members that the pool does not take, or forgets. */

static void rejected_members(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = POOL_OPEN(.capacity = 1, .when_full = WEFT_REJECT);
    weft_group *group = group_over(pool, &(weft_group_options){.collect = 1});
    CHECK_EQ(weft_group_go(group, gate_handle, &gate), 0);
    await_at_gate(&gate, 1);
    CHECK_EQ(weft_group_go(group, gate_handle, &gate), -EAGAIN);
    CHECK_EQ(weft_group_running(group), 1);
    CHECK_EQ(weft_group_count(group), 1); /* the refused one is not recorded */
    gate_open(&gate);
    CHECK_EQ(weft_group_close(group), 0); /* it was told at once, so it is no error of the group */
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    group = group_over(pool, NULL);
    CHECK_EQ(weft_group_go(group, succeed, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_group_close(group), 0);
    pool_close(pool);
}

static void dropped_members_do_not_hang_the_group(void *arg)
{
    static const int policies[] = {WEFT_BLOCK, WEFT_DROP_NEWEST, WEFT_DROP_OLDEST};
    for (int i = 0; i < 3; i++)
        for (int limit = 0; limit < 2; limit++) {
            struct gate gate;
            gate_shut(&gate);
            atomic_u32 ran = {0};
            bool aborts = policies[i] == WEFT_BLOCK;
            weft_pool *pool =
                POOL_OPEN(.capacity = 1, .queue = 5, .when_full = policies[i], .on_drop = no_drop);
            weft_group *group = group_over(pool, &(weft_group_options){.limit = limit * 100});
            CHECK_EQ(weft_group_go(group, firm_gate_handle, &gate), 0);
            await_at_gate(&gate, 1);
            /* Once one is dropped the group is cancelled, and takes no more. */
            int more = 0;
            for (int k = 0; k < 10 - 5 * aborts && more == 0; k++)
                more = weft_group_go(group, succeed, &ran);
            CHECK_EQ(more, aborts ? 0 : -ECANCELED);
            if (aborts)
                CHECK_EQ(weft_pool_abort(pool), 5);
            gate_open(&gate);
            CHECK_EQ(weft_group_close(group), -ECANCELED);
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
            CHECK_FIGURES(pool, IS(dropped, aborts ? 5 : 1), IS(cancelled, aborts ? 0 : 5));
            CHECK_EQ(count_of(&ran), 0);
            pool_close(pool);
        }
}

static void the_caller_runs_members(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN(.capacity = 1, .when_full = WEFT_CALLER_RUNS);
    weft_group *group = group_over(pool, NULL);
    CHECK_EQ(weft_group_go(group, firm_gate_handle, &gate), 0);
    await_at_gate(&gate, 1);
    weft_context *before = weft_context_current();
    CHECK_EQ(weft_group_go(group, succeed, &ran), 0);
    CHECK_EQ(count_of(&ran), 1); /* it has run when go returns */
    CHECK_PTR(weft_context_current(), before);
    CHECK_EQ(weft_group_running(group), 1);
    CHECK_EQ(weft_group_go(group, return_error, error_arg(-EIO)), 0);
    gate_open(&gate);
    CHECK_EQ(weft_group_close(group), -EIO);
    pool_close(pool);
}

/* Leaving on purpose. */

static int leave_and_stay(void *gate)
{
    CHECK_EQ(weft_group_leave(), 0);
    CHECK_EQ(weft_group_leave(), -EINVAL);
    CHECK_PTR(weft_context_current(), NULL);
    gate_task(gate);
    return -EIO; /* no group's error */
}

static void a_member_that_leaves(void *arg)
{
    for (int limit = 0; limit < 2; limit++) {
        struct gate gate;
        gate_shut(&gate);
        weft_pool *pool = POOL_OPEN(.capacity = 2);
        weft_group *group = group_over(pool, &(weft_group_options){.limit = limit});
        CHECK_EQ(weft_group_go(group, leave_and_stay, &gate), 0);
        await_at_gate(&gate, 1);
        CHECK_EQ(weft_group_running(group), 0);
        CHECK_EQ(weft_group_go(group, succeed, NULL), 0);
        weft_group_cancel(group);
        CHECK_EQ(weft_group_close(group), -ECANCELED); /* does not wait for it */
        AWAIT_FIGURE(pool, running, 1);                /* the pool does */
        gate_open_and_close(&gate, pool);
    }
}

/* Members that start more in their group. */

struct tree {
    weft_group *group;
    atomic_u32 ran;
};

static struct tree tree;

static int grow(void *depth)
{
    count_task(&tree.ran);
    for (int i = 0; i < 2 && (uintptr_t)depth > 0; i++)
        CHECK_EQ(weft_group_go(tree.group, grow, (void *)((uintptr_t)depth - 1)), 0);
    return 0;
}

static void members_start_members(void)
{
    static const int64_t queues[] = {0, 3, WEFT_UNLIMITED};
    for (int i = 0; i < 3; i++)
        for (int capacity = 1; capacity <= 3; capacity++) {
            weft_pool *pool = POOL_OPEN(.capacity = capacity, .queue = queues[i]);
            tree = (struct tree){.group = group_over(pool, NULL)};
            CHECK_EQ(weft_group_go(tree.group, grow, (void *)(uintptr_t)7), 0);
            CHECK_EQ(weft_group_close(tree.group), 0);
            CHECK_EQ(count_of(&tree.ran), 255);
            pool_close(pool);
        }
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_EVERYWHERE(waits_for_all);
    RUN_EVERYWHERE(members_are_tasks);
    RUN_EVERYWHERE(first_error_cancels);
    RUN_EVERYWHERE(keep_going);
    RUN_BOTH(a_worker_is_free_afterwards);
    RUN_EVERYWHERE(cancel_ends_the_waits);
    RUN_EVERYWHERE(a_parent_cancels_too);
    RUN_EVERYWHERE(a_cancelled_group_starts_nothing);
    RUN_BOTH(a_group_is_cancelled_while_a_go_waits);
    RUN_EVERYWHERE(an_error_skips_what_has_not_begun);
    RUN_EVERYWHERE(a_cancelled_task_ends_its_group);
    RUN_EVERYWHERE(never_more_than_the_limit);
    RUN_EVERYWHERE(rejected_members);
    RUN_EVERYWHERE(dropped_members_do_not_hang_the_group);
    RUN_EVERYWHERE(the_caller_runs_members);
    RUN_EVERYWHERE(a_member_that_leaves);
    RUN_BOTH(members_start_members);
    return 0;
}
