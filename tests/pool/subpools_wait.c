/*
 * subpools_wait.c: tasks that wait for tasks and groups of other pools of their tree: they lend
 * their places in both pools, the awaited task goes first, and a place comes back before another
 * task begins.
 */
#include <errno.h>
#include <weft/weft.h>

#include "base/prng.h"
#include "tasks.h"

enum { PARENT, ONE, OTHER, POOLS };

struct tree {
    weft_pool *pools[POOLS];
};

static struct tree tree_open(int64_t capacity, int64_t one, int64_t other, int64_t queue)
{
    weft_pool *parent = POOL_OPEN(.capacity = capacity, .queue = queue);
    weft_pool_options options = {.parent = parent, .capacity = one, .queue = queue};
    struct tree tree = {{parent, pool_open(options)}};
    options.capacity = other;
    tree.pools[OTHER] = pool_open(options);
    return tree;
}

static void tree_close(const struct tree *tree)
{
    for (int k = POOLS - 1; k >= PARENT; k--) {
        CHECK_EQ(weft_pool_stop(tree->pools[k], WEFT_NEVER), 0);
        CHECK_EQ(pool_stats(tree->pools[k]).below, 0);
    }
    for (int k = POOLS - 1; k >= PARENT; k--)
        pool_close(tree->pools[k]);
}

/* Chains through all pools, each of one task. */

enum { CHAIN = 60 };

struct link_of_chain {
    const struct tree *tree;
    const int *order; /* of the pools; -1 at its end */
    int at, left;
};

static weft_pool *next_pool(struct link_of_chain *link)
{
    if (link->order[link->at] < 0)
        link->at = 0;
    return link->tree->pools[link->order[link->at]];
}

static struct link_of_chain next_link(const struct link_of_chain *link)
{
    return (struct link_of_chain){link->tree, link->order, link->at + 1, link->left - 1};
}

static int follow(void *arg)
{
    struct link_of_chain next = next_link(arg);
    return next.left > 0 ? end_task(start_task(next_pool(&next), follow, &next)) + 1 : 1;
}

static int follow_group(void *arg)
{
    struct link_of_chain next = next_link(arg);
    if (next.left == 0)
        return 0;
    weft_group *group = group_over(next_pool(&next), NULL);
    CHECK_EQ(weft_group_go(group, follow_group, &next), 0);
    return weft_group_close(group);
}

static void a_chain_through_the_tree(void)
{
    static const int orders[][5] = {{PARENT, ONE, -1},
                                    {ONE, OTHER, -1},
                                    {ONE, OTHER, PARENT, -1},
                                    {ONE, ONE, PARENT, OTHER, -1}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        for (int64_t capacity = 1; capacity < 3; capacity++) {
            struct tree tree = tree_open(capacity, 1, capacity, capacity - 1);
            struct link_of_chain first = {&tree, orders[i], 0, CHAIN};
            CHECK_EQ(end_task(start_task(next_pool(&first), follow, &first)), CHAIN);
            CHECK_EQ(end_task(start_task(next_pool(&first), follow_group, &first)), 0);
            tree_close(&tree);
        }
}

/* A waits for B with a lock held, while tasks that want the lock are ready in all pools. */

static struct {
    struct tree tree;
    weft_mutex mutex;
    weft_task *b;
    weft_group *group;
    struct gate start;
    int a_in, b_in;
    bool by_group, begins_late;
    atomic_u32 has, b_ran, inside, most;
} lock;

static void want_lock(void *arg)
{
    weft_mutex_lock(&lock.mutex);
    count_task(&lock.has);
    weft_mutex_unlock(&lock.mutex);
}

static int awaited(void *arg)
{
    CHECK_EQ(lock.has.value, 0); /* none has the lock before A gives it back */
    (void)weft_sleep(WEFT_US);
    count_task(&lock.b_ran);
    return 7;
}

static int awaited_member(void *arg)
{
    return awaited(arg) - 7;
}

static void hold_and_wait(void *arg)
{
    weft_mutex_lock(&lock.mutex);
    for (int k = 0; k < POOLS; k++)
        submit_many(lock.tree.pools[k], want_lock, NULL, 3);
    weft_pool *where = lock.tree.pools[lock.b_in];
    if (lock.by_group) {
        weft_group *group = group_over(where, NULL);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(weft_group_go(group, awaited_member, NULL), 0);
        CHECK_EQ(weft_group_close(group), 0);
    } else {
        CHECK_EQ(end_task(start_task(where, awaited, NULL)), 7);
    }
    CHECK(lock.b_ran.value > 0);
    weft_mutex_unlock(&lock.mutex);
}

static void what_is_waited_for_goes_first(void)
{
    for (lock.a_in = 0; lock.a_in < POOLS; lock.a_in++)
        for (lock.b_in = 0; lock.b_in < POOLS; lock.b_in++)
            for (int more = 0; more < 4; more++) {
                lock.by_group = more % 2 != 0;
                lock.has.value = lock.b_ran.value = 0;
                lock.mutex = (weft_mutex)WEFT_MUTEX_INIT;
                lock.tree = tree_open(1, more < 2 ? 1 : 2, 2, WEFT_UNLIMITED);
                CHECK_EQ(weft_pool_submit(lock.tree.pools[lock.a_in], hold_and_wait, NULL), 0);
                CHECK_EQ(weft_pool_wait(lock.tree.pools[lock.a_in], WEFT_NEVER), 0);
                tree_close(&lock.tree);
                CHECK_EQ(lock.has.value, 3 * POOLS);
            }
}

/* A place of a sub-pool that is lent across pools is for the awaited task alone. */

static int start_in_one(void *arg)
{
    return end_task(start_task(lock.tree.pools[ONE], awaited, NULL));
}

static void wait_across(void *arg)
{
    weft_mutex_lock(&lock.mutex);
    submit_many(lock.tree.pools[ONE], want_lock, NULL, 3);
    CHECK_EQ(end_task(start_task(lock.tree.pools[lock.b_in], start_in_one, NULL)), 7);
    weft_mutex_unlock(&lock.mutex);
}

static void a_place_lent_across_is_kept(void)
{
    for (lock.b_in = 0; lock.b_in < POOLS; lock.b_in += OTHER) {
        lock.has.value = lock.b_ran.value = 0;
        lock.mutex = (weft_mutex)WEFT_MUTEX_INIT;
        lock.tree = tree_open(10, 1, 1, WEFT_UNLIMITED);
        CHECK_EQ(weft_pool_submit(lock.tree.pools[ONE], wait_across, NULL), 0);
        CHECK_EQ(weft_pool_wait(lock.tree.pools[ONE], WEFT_NEVER), 0);
        tree_close(&lock.tree);
        CHECK_EQ(lock.has.value, 3);
        CHECK_EQ(lock.b_ran.value, 1);
    }
}

/* A wait that ends by its deadline has its place back at once, and nothing begins until there is
 * one. */

static struct {
    struct tree tree;
    struct gate gate;
    atomic_u32 waited, ran;
    weft_task *awaited;
} given_up;

static void give_up(void *arg)
{
    given_up.awaited = start_task(given_up.tree.pools[OTHER], gate_handle, &given_up.gate);
    CHECK_EQ(weft_task_wait_until(given_up.awaited, NULL, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(given_up.gate.gauge.total.value, 1);
    for (int k = 0; k < POOLS; k++)
        submit_counts(given_up.tree.pools[k], &given_up.ran, 2);
    count_task(&given_up.waited);
    for (int i = 0; i < 20; i++)
        weft_yield();
    CHECK_EQ(given_up.ran.value, 0);
}

static void a_wait_that_gives_up_goes_on(void)
{
    for (int k = 0; k < POOLS; k++) {
        given_up.waited.value = given_up.ran.value = 0;
        gate_shut(&given_up.gate);
        given_up.tree = tree_open(1, 1, 1, WEFT_UNLIMITED);
        CHECK_EQ(weft_pool_submit(given_up.tree.pools[k], give_up, NULL), 0);
        await_count(&given_up.waited, 1);
        AWAIT_FIGURE(given_up.tree.pools[k], completed, 1);
        for (int i = 0; i < 20; i++)
            weft_yield();
        CHECK_EQ(given_up.ran.value, 0); /* the awaited task has the only place */
        gate_open(&given_up.gate);
        CHECK_EQ(end_task(given_up.awaited), 0);
        await_count(&given_up.ran, 2 * POOLS);
        tree_close(&given_up.tree);
    }
}

/* Handles and groups that outlive a sub-pool. */

static void look_back(void *arg)
{
    CHECK_EQ(end_task(arg), 7);
}

static int seven(void *arg)
{
    return 7;
}

static void close_group(void *group)
{
    CHECK_EQ(weft_group_wait(group, NULL), 0);
    CHECK_EQ(weft_group_close(group), 0);
}

static void handles_outlive_sub_pools(void)
{
    weft_pool *parent = POOL_OPEN(.capacity = 1, .queue = 9);
    weft_pool *sub = POOL_OPEN(.parent = parent, .queue = 9);
    weft_task *task = start_task(sub, seven, NULL);
    weft_group *group = group_over(sub, NULL);
    CHECK_EQ(weft_group_go(group, nothing, NULL), 0);
    CHECK_EQ(task_result(task), 7);
    pool_close(sub);
    CHECK_EQ(weft_pool_submit(parent, look_back, task), 0);
    CHECK_EQ(weft_pool_submit(parent, close_group, group), 0);
    pool_close(parent);
}

/* At random: tasks of three pools start, wait and cancel; and give up, or hold a lock that others
 * want, while they wait. (Not both: after a wait was given up more tasks are active than there are
 * places, and a task that must run for the holder of the lock may have none.) */

static struct {
    struct tree tree;
    weft_mutex mutex;
    bool locks;
    atomic_u32 seed, started, ended;
} wild;

/* It may have children so many generations deep. */
static void *wild_arg(int depth)
{
    return (void *)(intptr_t)depth;
}

static int run_wild(void *arg);

/* It waits for a task that does not want the lock, in the parent: there its place is free for that.
 * (In its own pool it need not be: while it waited across pools another urgent task may have begun
 * in its place.) */
static void wait_with_lock(void)
{
    weft_mutex_lock(&wild.mutex);
    CHECK_EQ(end_task(start_task(wild.tree.pools[PARENT], nothing, NULL)), 0);
    weft_mutex_unlock(&wild.mutex);
}

static void wait_wildly(struct prng *prng, int depth)
{
    weft_task *task =
        start_task(wild.tree.pools[prng_next(prng) % POOLS], run_wild, wild_arg(depth - 1));
    uint32_t how = (uint32_t)prng_next(prng) % 8;
    atomic_u32_add_seq_cst(&wild.started, 1);
    if (how == 0 && weft_task_cancel(task) == 0)
        atomic_u32_sub_seq_cst(&wild.started, 1);
    if (how == 1 && !wild.locks)
        CHECK(weft_task_wait_until(task, NULL, weft_after(20 * WEFT_US)) <= 0);
    CHECK_EQ(weft_task_wait(task, NULL), 0);
    weft_task_release(task);
}

static int run_wild(void *arg)
{
    int depth = (int)(intptr_t)arg;
    struct prng prng;
    CHECK_EQ(weft_context_bind(NULL, NULL), 0); /* a task that is cancelled while it runs goes on */
    prng_seed(&prng, atomic_u32_add_seq_cst(&wild.seed, 1));
    for (uint32_t i = (uint32_t)prng_next(&prng) % 3; i > 0 && depth > 0; i--)
        wait_wildly(&prng, depth);
    if (wild.locks && prng_next(&prng) % 3 == 0)
        wait_with_lock();
    if (prng_next(&prng) % 4 == 0)
        (void)weft_sleep(WEFT_US);
    atomic_u32_add_seq_cst(&wild.ended, 1);
    return 0;
}

static void run_wild_plainly(void *arg)
{
    (void)run_wild(arg);
}

static void at_random(void)
{
    uint64_t seed = 0;
    if (weft_test_seed(&seed) != 0)
        seed = 0;
    wild.seed.value = (uint32_t)seed * 7919;
    for (int64_t i = 0; i < 6; i++) {
        int64_t capacity = 1 + i / 2;
        int tasks = test_scale(300);
        wild.locks = i % 2 != 0;
        wild.started.value = wild.ended.value = 0;
        wild.mutex = (weft_mutex)WEFT_MUTEX_INIT;
        wild.tree = tree_open(capacity, 1, 2, WEFT_UNLIMITED);
        for (int n = 0; n < tasks; n++) {
            weft_pool *paused = wild.tree.pools[n / 64 % POOLS];
            CHECK_EQ(weft_pool_submit(wild.tree.pools[n % POOLS], run_wild_plainly, wild_arg(3)),
                     0);
            atomic_u32_add_seq_cst(&wild.started, 1);
            if (n % 64 == 20)
                CHECK_EQ(weft_pool_pause(paused), 0);
            if (n % 64 == 40)
                CHECK_EQ(weft_pool_resume(paused), 0);
        }
        for (int k = 0; k < POOLS; k++)
            CHECK_EQ(weft_pool_resume(wild.tree.pools[k]), 0);
        while (count_of(&wild.ended) != count_of(&wild.started))
            (void)weft_sleep(50 * WEFT_US);
        tree_close(&wild.tree);
        CHECK_EQ(wild.ended.value, wild.started.value);
    }
}

int main(void)
{
    RUN_BOTH(a_chain_through_the_tree);
    RUN_BOTH(what_is_waited_for_goes_first);
    RUN_BOTH(a_place_lent_across_is_kept);
    RUN_BOTH(a_wait_that_gives_up_goes_on);
    RUN_BOTH(handles_outlive_sub_pools);
    RUN_BOTH(at_random);
    return 0;
}
