/*
 * subpools.c: pools that share the capacity of a parent: places go round, and nothing else is
 * shared. Waits for tasks of other pools of the tree are in subpools_wait.c.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tasks.h"

static weft_pool *subpool(weft_pool *parent, int64_t capacity)
{
    return POOL_OPEN(.parent = parent, .capacity = capacity, .queue = WEFT_UNLIMITED,
                     .name = "sub");
}

static weft_pool *root(int64_t capacity)
{
    return POOL_OPEN(.capacity = capacity, .queue = WEFT_UNLIMITED, .name = "root");
}

/* Opening and closing. */

static void trees_have_two_levels(void)
{
    weft_pool *parent = root(2), *sub = subpool(parent, 1), *none = POOL_POISON;
    CHECK_EQ(weft_pool_open(&none, &(weft_pool_options){.parent = sub}), -EINVAL);
    CHECK(none == POOL_POISON);
    CHECK_EQ(weft_pool_close(parent), -EBUSY);
    CHECK_EQ(weft_pool_close_until(parent, WEFT_NOW), -EBUSY);
    CHECK_EQ(weft_pool_state(parent), WEFT_POOL_OPEN);
    weft_pool *other = subpool(parent, 1);
    pool_close(sub);
    CHECK_EQ(weft_pool_close(parent), -EBUSY);
    pool_close(other);
    sub = subpool(parent, 1);
    pool_close(sub);
    CHECK_EQ(weft_pool_stop(parent, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_open(&none, &(weft_pool_options){.parent = parent}), -ESHUTDOWN);
    CHECK(none == POOL_POISON);
    pool_close(parent);
}

/* A stopped parent runs nothing itself; its capacity is there as long as it is not closed. */
static void sub_pools_outlast_a_stop_of_the_parent(void)
{
    atomic_u32 ran = {0};
    weft_pool *parent = root(1), *sub = subpool(parent, 1);
    CHECK_EQ(weft_pool_stop(parent, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_submit(parent, count_task, &ran), -ESHUTDOWN);
    submit_counts(sub, &ran, 10);
    CHECK_EQ(weft_pool_wait(sub, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_reopen(parent), 0);
    submit_counts(parent, &ran, 10);
    pool_close(sub);
    pool_close(parent);
    CHECK_EQ(ran.value, 20);
}

struct counted {
    struct gauge *own, *all;
};

static void busy_task(void *arg)
{
    const struct counted *counted = arg;
    gauge_enter(counted->own);
    gauge_enter(counted->all);
    (void)weft_sleep(WEFT_US);
    gauge_leave(counted->all);
    gauge_leave(counted->own);
}

enum { PARENT, ONE, OTHER, POOLS };

struct tree {
    weft_pool *pools[POOLS];
};

static struct tree tree_open(int64_t capacity, int64_t one, int64_t other)
{
    weft_pool *parent = root(capacity);
    return (struct tree){{parent, subpool(parent, one), subpool(parent, other)}};
}

static void tree_close(const struct tree *tree)
{
    for (int i = POOLS - 1; i >= PARENT; i--)
        pool_close(tree->pools[i]);
}

static void both_capacities_bound_what_runs(void)
{
    struct gauge gauges[POOLS + 1] = {{{0}, {0}, {0}}};
    struct counted counted[POOLS];
    struct tree tree = tree_open(3, 2, 2);
    int tasks = test_scale(500);
    for (int i = 0; i < POOLS; i++)
        counted[i] = (struct counted){&gauges[i], &gauges[POOLS]};
    for (int i = 0; i < tasks; i++)
        for (int k = 0; k < POOLS; k++)
            CHECK_EQ(weft_pool_submit(tree.pools[k], busy_task, &counted[k]), 0);
    tree_close(&tree);
    for (int k = 0; k < POOLS; k++)
        CHECK_EQ(gauge_total(&gauges[k]), tasks);
    CHECK(gauge_most(&gauges[POOLS]) <= 3);
    CHECK(gauge_most(&gauges[ONE]) <= 2 && gauge_most(&gauges[OTHER]) <= 2);
}

/* One pool alone has all that it may have, with tasks that wait. */
static void what_others_do_not_use_is_there(void)
{
    struct gate gate, more;
    gate_shut(&more);
    struct tree tree = tree_open(5, 4, 5);
    gate_shut_and_fill(&gate, tree.pools[ONE], 4);
    CHECK_FIGURES(tree.pools[PARENT], IS(below, 4), IS(running, 0));
    CHECK_EQ(weft_pool_submit(tree.pools[OTHER], gate_task, &gate), 0);
    await_at_gate(&gate, 5);
    CHECK_EQ(pool_stats(tree.pools[PARENT]).below, 5);
    for (int i = 0; i < POOLS; i++)
        CHECK_EQ(weft_pool_submit(tree.pools[i], gate_task, &more), 0);
    for (int i = 0; i < 100; i++)
        weft_yield();
    CHECK_EQ(gauge_total(&more.gauge), 0);
    gate_open(&gate);
    await_at_gate(&more, 3);
    gate_open(&more);
    tree_close(&tree);
}

static struct {
    struct journal journal;
    struct tree tree;
    bool waits;
    atomic_u32 over;
} turns;

static void note_pool(void *index)
{
    journal_add(&turns.journal, (int)(intptr_t)index);
    if (turns.waits)
        (void)weft_sleep(WEFT_US);
}

static void places_go_round(void)
{
    for (int waits = 0; waits < 2; waits++) {
        int tasks = test_scale(60), counts[POOLS] = {0};
        turns.journal.length.value = 0;
        turns.waits = waits != 0;
        turns.tree = tree_open(1, 1, 3);
        CHECK_EQ(weft_pool_pause(turns.tree.pools[PARENT]), 0);
        for (int k = 0; k < POOLS; k++)
            for (int i = 0; i < tasks; i++)
                CHECK_EQ(weft_pool_submit(turns.tree.pools[k], note_pool, (void *)(intptr_t)k), 0);
        CHECK_EQ(weft_pool_resume(turns.tree.pools[PARENT]), 0);
        tree_close(&turns.tree);
        CHECK_EQ(turns.journal.length.value, POOLS * tasks);
        for (int i = 0; i < POOLS * tasks; i++) {
            counts[turns.journal.entries[i]]++;
            for (int k = 0; k < POOLS; k++) /* strictly in turn, after the first round */
                CHECK(i < POOLS || (counts[k] - i / POOLS >= -1 && counts[k] - i / POOLS <= 2));
        }
    }
}

/* Tasks without end in one pool do not keep out one task of another. */
static void keep_going(void *arg)
{
    weft_pool *pool = arg;
    weft_yield(); /* under a seed a task that computes takes no time, and its turn is never over */
    if (!count_of(&turns.over))
        CHECK_EQ(weft_pool_submit(pool, keep_going, pool), 0);
}

static void end_it(void *arg)
{
    atomic_u32_store_release(&turns.over, 1);
}

static void no_pool_is_kept_out(void)
{
    for (int greedy = 0; greedy < POOLS; greedy++)
        for (int other = 0; other < POOLS; other++) {
            if (greedy == other)
                continue;
            struct tree tree = tree_open(2, 2, 2);
            atomic_u32_store_relaxed(&turns.over, 0);
            submit_many(tree.pools[greedy], keep_going, tree.pools[greedy], 4);
            CHECK_EQ(weft_pool_submit(tree.pools[other], end_it, NULL), 0);
            tree_close(&tree);
        }
}

/* Changing: pause, tune. */

static void a_pause_of_the_parent_is_for_all(void)
{
    atomic_u32 ran = {0};
    struct gate gate;
    weft_context *context;
    for (int by_context = 0; by_context < 2; by_context++) {
        ran.value = 0;
        struct tree tree = tree_open(3, 2, 2);
        gate_shut_and_fill(&gate, tree.pools[ONE], 1);
        context = new_context();
        if (by_context)
            CHECK_EQ(weft_pool_pause_until(tree.pools[PARENT], context), 0);
        else
            CHECK_EQ(weft_pool_pause(tree.pools[PARENT]), 0);
        for (int k = 0; k < POOLS; k++)
            submit_counts(tree.pools[k], &ran, 5);
        gate_open(&gate); /* the running task goes on, and its place stays free */
        AWAIT_FIGURE(tree.pools[ONE], completed, 1);
        for (int i = 0; i < 100; i++)
            weft_yield();
        CHECK_EQ(ran.value, 0);
        if (by_context)
            weft_context_cancel(context);
        else
            CHECK_EQ(weft_pool_resume(tree.pools[PARENT]), 0);
        await_count(&ran, 15);
        weft_context_close(context);
        tree_close(&tree);
    }
}

static void a_pause_of_a_sub_pool_is_its_own(void)
{
    atomic_u32 ran = {0}, paused = {0};
    struct tree tree = tree_open(1, 1, 1);
    CHECK_EQ(weft_pool_pause(tree.pools[ONE]), 0);
    submit_counts(tree.pools[ONE], &paused, 5);
    submit_counts(tree.pools[OTHER], &ran, 5);
    submit_counts(tree.pools[PARENT], &ran, 5);
    await_count(&ran, 10);
    CHECK_EQ(paused.value, 0);
    CHECK_EQ(weft_pool_resume(tree.pools[ONE]), 0);
    await_count(&paused, 5);
    tree_close(&tree);
}

static void both_can_be_tuned(void)
{
    struct gate gate;
    gate_shut(&gate);
    struct tree tree = tree_open(1, 1, 1);
    for (int k = 0; k < POOLS; k++)
        submit_many(tree.pools[k], gate_task, &gate, 3);
    await_at_gate(&gate, 1);
    CHECK_EQ(weft_pool_tune(tree.pools[ONE], 3), 0);
    CHECK_EQ(weft_pool_tune(tree.pools[PARENT], 4), 0);
    await_at_gate(&gate, 4);
    CHECK_EQ(weft_pool_tune(tree.pools[OTHER], 3), 0);
    for (int i = 0; i < 100; i++)
        weft_yield();
    CHECK_EQ(gauge_total(&gate.gauge), 4);
    CHECK_EQ(weft_pool_tune(tree.pools[PARENT], 9), 0);
    await_at_gate(&gate, 9);
    CHECK_EQ(weft_pool_tune(tree.pools[PARENT], 1), 0);
    gate_open(&gate);
    tree_close(&tree);
}

/* Tasks leave the queue while their pool waits for a place. */

static void a_task_that_leaves_the_queue_holds_no_place(void)
{
    atomic_u32 ran = {0};
    struct gate gate;
    for (int how = 0; how < 3; how++) {
        struct tree tree = tree_open(1, 1, 1);
        weft_pool *one = tree.pools[ONE];
        ran.value = 0;
        gate_shut_and_fill(&gate, tree.pools[PARENT], 1);
        weft_task *task = start_task(one, gate_handle, &gate);
        submit_counts(tree.pools[OTHER], &ran, 3);
        submit_counts(tree.pools[PARENT], &ran, 3);
        if (how == 0)
            CHECK_EQ(weft_task_cancel(task), 0);
        else if (how == 1)
            CHECK_EQ(weft_pool_abort(one), 1);
        else
            CHECK_EQ(weft_pool_pause(one), 0);
        gate_open(&gate);
        await_count(&ran, 6);
        CHECK_EQ(weft_pool_resume(one), 0);
        CHECK_EQ(end_task(task), how == 2 ? 0 : -ECANCELED);
        tree_close(&tree);
    }
}

static void sleep_plainly(void *ended)
{
    CHECK(weft_sleep_until(WEFT_NEVER) < 0);
    count_task(ended);
}

static void contexts_end_what_is_under_them(void)
{
    for (int above = 0; above < 2; above++) {
        atomic_u32 ended = {0}, ran = {0};
        weft_context *context, *own;
        context = new_context();
        own = new_context();
        weft_pool *parent = POOL_OPEN(.capacity = 4, .context = context);
        weft_pool *first = subpool(parent, 2);
        weft_pool *other = POOL_OPEN(.capacity = 2, .queue = 9, .parent = parent, .context = own);
        CHECK_EQ(weft_pool_submit(first, sleep_plainly, &ended), 0);
        CHECK_EQ(weft_pool_submit(other, sleep_plainly, &ended), 0);
        AWAIT_FIGURE(first, running, 1);
        AWAIT_FIGURE(other, running, 1);
        weft_context_cancel(above ? context : own);
        await_count(&ended, 1);
        CHECK_EQ(weft_pool_submit(above ? first : other, count_task, &ran), -ESHUTDOWN);
        CHECK_EQ(weft_pool_submit(above ? other : first, count_task, &ran), 0);
        await_count(&ran, 1); /* the capacity is there all the same */
        weft_context_cancel(above ? own : context);
        await_count(&ended, 2);
        pool_close(other);
        pool_close(first);
        pool_close(parent);
        weft_context_close(own);
        weft_context_close(context);
    }
}

static void cancel_is_for_one_pool(void)
{
    weft_pool *parent = POOL_OPEN(.capacity = 4, .cancellable = 1);
    weft_pool *sub = POOL_OPEN(.parent = parent, .cancellable = 1);
    weft_task *above = start_task(parent, sleep_for_ever, NULL);
    weft_task *below = start_task(sub, sleep_for_ever, NULL);
    AWAIT_FIGURE(parent, running, 1);
    AWAIT_FIGURE(sub, running, 1);
    CHECK_EQ(weft_pool_cancel(parent), 0);
    CHECK_EQ(end_task(above), -ECANCELED);
    CHECK(!weft_task_ended(below));
    CHECK_EQ(weft_pool_cancel(sub), 0);
    CHECK_EQ(end_task(below), -ECANCELED);
    pool_close(sub);
    pool_close(parent);
}

/* Workers and policies are each pool's own. */

static int give_state(void **state, void *data)
{
    *state = data;
    return 0;
}

static void check_state(void *data)
{
    CHECK_PTR(weft_pool_worker_state(), data);
}

static void workers_are_each_pool_s_own(void)
{
    int marks[2];
    weft_pool *parent = POOL_OPEN(.capacity = 1, .queue = WEFT_UNLIMITED,
                                  .on_worker_start = give_state, .data = &marks[0]);
    weft_pool *sub = POOL_OPEN(.parent = parent, .queue = WEFT_UNLIMITED,
                               .on_worker_start = give_state, .data = &marks[1]);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(weft_pool_submit(parent, check_state, &marks[0]), 0);
        CHECK_EQ(weft_pool_submit(sub, check_state, &marks[1]), 0);
    }
    pool_close(sub);
    pool_close(parent);
}

/* A task of the tree never waits in a plain submit to any pool of it, and must not close one. */
static void submit_to_full(void *arg)
{
    const struct tree *tree = arg;
    for (int k = 0; k < POOLS; k++) {
        CHECK_EQ(weft_pool_submit(tree->pools[k], count_task, &turns.over), 0);
        CHECK_EQ(weft_pool_stop(tree->pools[k], WEFT_NEVER), -EDEADLK);
        CHECK_EQ(weft_pool_wait(tree->pools[k], WEFT_NEVER), -EDEADLK);
    }
    CHECK_EQ(weft_pool_close(tree->pools[ONE]), -EDEADLK);
}

static void tasks_of_a_tree_never_wait_to_submit(void)
{
    weft_pool *parent = POOL_OPEN(.capacity = 1);
    weft_pool_options options = {.parent = parent, .capacity = 1};
    struct tree tree = {{parent, pool_open(options), pool_open(options)}};
    turns.over.value = 0;
    for (int k = 0; k < POOLS; k++)
        CHECK_EQ(weft_pool_submit(tree.pools[k], submit_to_full, &tree), 0);
    for (int k = 0; k < POOLS; k++)
        AWAIT_FIGURE(tree.pools[k], completed, 4);
    CHECK_EQ(turns.over.value, 9);
    CHECK(pool_stats(parent).beyond > 0);
    tree_close(&tree);
}

/* With policies and a rate of its own, under a parent that is full. */
static void policies_are_each_pool_s_own(void)
{
    struct gate gate;
    atomic_u32 ran = {0};
    weft_limiter *limiter;
    CHECK_EQ(weft_limiter_open(&limiter, &(weft_limiter_options){.rate = 100000, .burst = 1}), 0);
    weft_pool *parent = POOL_OPEN(.capacity = 1, .limiter = limiter);
    weft_pool *sub =
        POOL_OPEN(.parent = parent, .capacity = 2, .queue = 1, .when_full = WEFT_REJECT);
    gate_shut_and_fill(&gate, parent, 1);
    submit_counts(sub, &ran, 3); /* its own limit decides */
    CHECK_EQ(weft_pool_submit(sub, count_task, &ran), -EAGAIN);
    CHECK_EQ(pool_waiting(sub), 3);
    gate_open(&gate);
    await_count(&ran, 3);
    pool_close(sub);
    sub = POOL_OPEN(.parent = parent, .limiter = limiter, .queue = 9);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(sub, count_task, &ran), 0);
        CHECK_EQ(weft_pool_submit(parent, count_task, &ran), 0);
    }
    await_count(&ran, 9);
    pool_close(sub);
    pool_close(parent);
    weft_limiter_close(limiter);
}

/* A forked child has none of them. */
static void fork_in_a_tree(void *arg)
{
    const struct tree *tree = arg;
    weft_pool *none = POOL_POISON;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQ(weft_pool_open(&none, &(weft_pool_options){.parent = tree->pools[PARENT]}),
                 -ECHILD);
        for (int k = 0; k < POOLS; k++) {
            CHECK_EQ(weft_pool_submit(tree->pools[k], gate_task, NULL), -ECHILD);
            CHECK_EQ(weft_pool_close(tree->pools[k]), -ECHILD);
        }
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void a_child_has_no_tree(void)
{
    struct tree tree = tree_open(1, 1, 1);
    CHECK_EQ(weft_pool_submit(tree.pools[ONE], fork_in_a_tree, &tree), 0);
    tree_close(&tree);
}

int main(void)
{
    RUN_BOTH(trees_have_two_levels);
    RUN_BOTH(sub_pools_outlast_a_stop_of_the_parent);
    RUN_BOTH(both_capacities_bound_what_runs);
    RUN_BOTH(what_others_do_not_use_is_there);
    RUN_BOTH(places_go_round);
    RUN_BOTH(no_pool_is_kept_out);
    RUN_BOTH(a_pause_of_the_parent_is_for_all);
    RUN_BOTH(a_pause_of_a_sub_pool_is_its_own);
    RUN_BOTH(both_can_be_tuned);
    RUN_BOTH(a_task_that_leaves_the_queue_holds_no_place);
    RUN_BOTH(contexts_end_what_is_under_them);
    RUN_BOTH(cancel_is_for_one_pool);
    RUN_BOTH(workers_are_each_pool_s_own);
    RUN_BOTH(tasks_of_a_tree_never_wait_to_submit);
    RUN_BOTH(policies_are_each_pool_s_own);
    RUN_PLAIN(a_child_has_no_tree, "forks");
    return 0;
}
