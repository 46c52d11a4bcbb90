/*
 * lending.c: a task that waits for a task or a group of its own pool lends its place, to the
 * awaited task first. It has the place back before another task begins, and never waits for it.
 */
#include <weft/weft.h>

#include "os/failure.h"
#include "os/os.h"
#include "tasks.h"

/* Returns the error of the wait. */
static int wait_until_cancelled(void *task)
{
    return weft_task_wait(task, NULL);
}

/* Chains: each waits for the next. */

enum { CHAIN = 100 };

struct link_of_chain {
    weft_pool *pool;
    struct link_of_chain *next;
    weft_task *task;
    int number;
};

static int follow(void *arg)
{
    struct link_of_chain *link = arg;
    return link->next != NULL ? task_result(link->next->task) + 1 : 1;
}

static void a_chain_of_waits(void *arg)
{
    static const int64_t capacities[] = {1, 2, 7};
    for (int k = 0; k < 6; k++) {
        bool backwards = k % 2;
        struct link_of_chain links[CHAIN];
        weft_pool *pool = POOL_OPEN_PAUSED(.capacity = capacities[k / 2], .queue = WEFT_UNLIMITED);
        for (int i = 0; i < CHAIN; i++)
            links[i] = (struct link_of_chain){.next = i + 1 < CHAIN ? &links[i + 1] : NULL};
        for (int i = 0; i < CHAIN; i++) {
            struct link_of_chain *link = &links[backwards ? CHAIN - 1 - i : i];
            link->task = start_task(pool, follow, link);
        }
        CHECK_EQ(weft_pool_resume(pool), 0);
        CHECK_EQ(task_result(links[0].task), CHAIN);
        for (int i = 0; i < CHAIN; i++)
            weft_task_release(links[i].task);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        weft_pool_stats stats = pool_stats(pool);
        CHECK_STATS(stats, IS(completed, CHAIN), IS(cancelled, 0), IS(lending, 0));
        if (!backwards) /* each lends its place to the next: no task runs inside another */
            CHECK(stats.most_workers >= CHAIN);
        pool_close(pool);
    }
}

/* Made on the way: by handles, and by groups. */

static int make_next(void *arg)
{
    struct link_of_chain *link = arg;
    struct link_of_chain next = {.pool = link->pool, .number = link->number - 1};
    return link->number > 0 ? end_task(start_task(link->pool, make_next, &next)) + 1 : 1;
}

static int make_next_group(void *arg)
{
    struct link_of_chain *link = arg;
    if (link->number == 0)
        return 0;
    struct link_of_chain next = {.pool = link->pool, .number = link->number - 1};
    weft_group *group = group_over(link->pool, NULL);
    CHECK_EQ(weft_group_go(group, make_next_group, &next), 0);
    return weft_group_close(group);
}

static void a_chain_that_is_made_on_the_way(void *arg)
{
    static const int64_t queues[] = {0, 1, WEFT_UNLIMITED};
    for (int i = 0; i < 3; i++) {
        weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = queues[i]);
        struct link_of_chain first = {.pool = pool, .number = CHAIN - 1};
        CHECK_EQ(end_task(start_task(pool, make_next, &first)), CHAIN);
        if (queues[i] == 0) /* all but the first */
            CHECK_EQ(pool_stats(pool).beyond, CHAIN - 1);
        CHECK_EQ(end_task(start_task(pool, make_next_group, &first)), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(pool_stats(pool).completed, 2 * CHAIN);
        pool_close(pool);
    }
}

/* The waiting task A holds a lock that C wants; C begins in the place of A. */

enum how { ENDS, DEADLINE, CANCELLED, GROUP_ENDS, GROUP_DEADLINE, HOWS };

static struct {
    weft_pool *pool;
    enum how how;
    weft_mutex mutex;
    struct gate gate;
    weft_task *a, *b;
    weft_group *group;
    atomic_u32 locked, wants, has;
} lock;

/* 0: none runs, and none has failed. */
static int group_wait_until(weft_group *group, int64_t deadline)
{
    int error = 0, result = weft_group_wait_until(group, deadline, &error);
    CHECK_EQ(error, 0);
    return result;
}

static int lock_and_wait(void *arg)
{
    int result = 0;
    weft_mutex_lock(&lock.mutex);
    atomic_u32_store_release(&lock.locked, 1);
    switch (lock.how) {
    case ENDS:
        CHECK_EQ(weft_task_wait(lock.b, &result), 0);
        break;
    case DEADLINE:
        while (!count_of(&lock.wants)) /* C has A's place, and waits for A */
            CHECK_EQ(weft_task_wait_until(lock.b, &result, weft_after(WEFT_MS)), -ETIMEDOUT);
        break;
    case CANCELLED:
        CHECK_EQ(weft_task_wait(lock.b, &result), -ECANCELED);
        break;
    case GROUP_DEADLINE:
        while (!count_of(&lock.wants))
            CHECK_EQ(group_wait_until(lock.group, weft_after(WEFT_MS)), -ETIMEDOUT);
        break;
    default:
        CHECK_EQ(group_wait_until(lock.group, WEFT_NEVER), 0);
    }
    CHECK_EQ(count_of(&lock.has), 0);
    weft_mutex_unlock(&lock.mutex);
    return 0;
}

static void want_lock(void *arg)
{
    atomic_u32_store_release(&lock.wants, 1);
    weft_mutex_lock(&lock.mutex);
    atomic_u32_store_release(&lock.has, 1);
    weft_mutex_unlock(&lock.mutex);
}

static void a_waiting_task_may_hold_a_lock(void)
{
    for (int how = 0; how < HOWS; how++) {
        memset(&lock, 0, sizeof lock);
        lock.how = (enum how)how;
        gate_shut(&lock.gate);
        lock.pool = POOL_OPEN(.capacity = 2, .queue = WEFT_UNLIMITED);
        lock.group = group_over(lock.pool, NULL);
        if (how < GROUP_ENDS)
            lock.b = start_task(lock.pool, gate_handle, &lock.gate);
        else
            CHECK_EQ(weft_group_go(lock.group, gate_handle, &lock.gate), 0);
        await_at_gate(&lock.gate, 1);
        lock.a = start_task(lock.pool, lock_and_wait, NULL);
        await_count(&lock.locked, 1);
        CHECK_EQ(weft_pool_submit(lock.pool, want_lock, NULL), 0);
        await_count(&lock.wants, 1); /* in the place of A */
        if (how == CANCELLED)
            CHECK_EQ(weft_task_cancel(lock.a), 1);
        if (how == ENDS || how == GROUP_ENDS)
            gate_open(&lock.gate);
        else /* B goes on, and keeps its place: C ends all the same */
            await_count(&lock.has, 1);
        CHECK_EQ(end_task(lock.a), 0);
        await_count(&lock.has, 1);
        if (how != ENDS && how != GROUP_ENDS)
            gate_open(&lock.gate);
        CHECK_EQ(weft_group_close(lock.group), 0);
        weft_task_release(lock.b);
        pool_close(lock.pool);
    }
}

/* A wait that gives up goes on at once, above the capacity; nothing begins until that is not so. */

static struct {
    weft_pool *pool;
    weft_task *b;
    struct gate b_gate, a_gate, c_gate;
    atomic_u32 gave_up, d_begun;
} above;

static int give_up(void *arg)
{
    while (count_of(&above.c_gate.gauge.total) == 0)
        CHECK_EQ(weft_task_wait_until(above.b, NULL, weft_after(WEFT_MS)), -ETIMEDOUT);
    atomic_u32_store_release(&above.gave_up, 1);
    gate_task(&above.a_gate);
    return 0;
}

static void nothing_begins_above_the_capacity(void)
{
    memset(&above, 0, sizeof above);
    gate_shut(&above.a_gate);
    gate_shut(&above.b_gate);
    gate_shut(&above.c_gate);
    above.pool = POOL_OPEN(.capacity = 2, .queue = WEFT_UNLIMITED);
    above.b = start_task(above.pool, gate_handle, &above.b_gate);
    await_at_gate(&above.b_gate, 1);
    weft_task *a = start_task(above.pool, give_up, NULL);
    CHECK_EQ(weft_pool_submit(above.pool, gate_task, &above.c_gate), 0);
    await_count(&above.gave_up, 1);
    await_at_gate(&above.a_gate, 1);
    /* A, B and C run. */
    CHECK_FIGURES(above.pool, IS(running, 3), IS(lending, 0));
    CHECK_EQ(weft_pool_submit(above.pool, count_task, &above.d_begun), 0);
    gate_open(&above.c_gate);
    AWAIT_FIGURE(above.pool, completed, 1);
    for (int i = 0; i < 100; i++) { /* its worker has time to take D */
        CHECK_EQ(pool_stats(above.pool).queued, 1);
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    }
    CHECK_EQ(count_of(&above.d_begun), 0);
    gate_open(&above.a_gate);
    await_count(&above.d_begun, 1); /* in the place of A, while B stands at its gate */
    CHECK_EQ(end_task(a), 0);
    gate_open(&above.b_gate);
    CHECK_EQ(end_task(above.b), 0);
    pool_close(above.pool);
}

/* Tasks count how many are active. A task is not active while it waits for its own pool. */

static struct {
    weft_pool *pool;
    struct gauge active;
    uint32_t capacity;
    bool groups;
    atomic_u32 over;
} fib;

static void begin_active(void)
{
    gauge_enter(&fib.active);
    CHECK(atomic_u32_load_seq_cst(&fib.active.now) <= fib.capacity);
}

struct number {
    int of, result;
};

static int compute(void *arg);

static void compute_both(struct number *parts)
{
    weft_group *group = fib.groups ? group_over(fib.pool, NULL) : NULL;
    weft_task *tasks[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (fib.groups)
            CHECK_EQ(weft_group_go(group, compute, &parts[i]), 0);
        else
            tasks[i] = start_task(fib.pool, compute, &parts[i]);
    gauge_leave(&fib.active);
    if (fib.groups)
        CHECK_EQ(weft_group_close(group), 0);
    for (int i = 0; !fib.groups && i < 2; i++)
        CHECK_EQ(end_task(tasks[i]), 0);
    begin_active();
}

static int compute(void *arg)
{
    struct number *number = arg;
    begin_active();
    number->result = number->of;
    if (number->of > 1) {
        struct number parts[2] = {{.of = number->of - 1}, {.of = number->of - 2}};
        compute_both(parts);
        number->result = parts[0].result + parts[1].result;
    }
    gauge_leave(&fib.active);
    return 0;
}

/* The figures, meanwhile. */
static void watch_active(void *arg)
{
    while (!count_of(&fib.over)) {
        weft_pool_stats stats = pool_stats(fib.pool);
        CHECK(stats.running - stats.lending <= fib.capacity);
        (void)weft_sleep(10 * WEFT_US);
    }
}

static void capacity_bounds_the_active(void)
{
    static const uint32_t capacities[] = {1, 2, 4};
    for (int i = 0; i < 6; i++) {
        memset(&fib, 0, sizeof fib);
        fib.capacity = capacities[i / 2];
        fib.groups = i % 2 == 0;
        fib.pool = POOL_OPEN(.capacity = fib.capacity);
        struct body watcher = {.function = watch_active, .thread = true};
        body_start(&watcher);
        struct number root = {.of = test_seeded ? 8 : 16};
        CHECK_EQ(end_task(start_task(fib.pool, compute, &root)), 0);
        CHECK_EQ(root.result, test_seeded ? 21 : 987);
        atomic_u32_store_release(&fib.over, 1);
        body_join(&watcher);
        CHECK(gauge_most(&fib.active) <= fib.capacity);
        CHECK_EQ(weft_pool_stop(fib.pool, WEFT_NEVER), 0);
        CHECK_EQ(pool_stats(fib.pool).completed, test_seeded ? 67 : 3193);
        pool_close(fib.pool);
    }
}

/* A loop of start, wait, release: nothing grows. */

static struct {
    weft_pool *pool;
    int64_t turns, before, after;
} loop;

static int turn_around(void *arg)
{
    for (int64_t i = 0; i < loop.turns; i++) {
        if (i == loop.turns / 10)
            loop.before = weft__os_live(LIVE_MEMORY);
        CHECK_EQ(end_task(start_task(loop.pool, return_error, (void *)(intptr_t)7)), 7);
        weft_pool_stats stats = pool_stats(loop.pool);
        CHECK_EQ(stats.queued + stats.starting, 0);
        CHECK_EQ(stats.lending, 0);
        CHECK_EQ(stats.running, 1); /* the awaited task has left */
    }
    loop.after = weft__os_live(LIVE_MEMORY);
    return 0;
}

static void a_loop_of_waits_grows_nothing(void)
{
    static const int policies[] = {WEFT_BLOCK, WEFT_REJECT};
    weft__os_live_count();
    for (int i = 0; i < 2; i++) {
        loop.turns = test_scale(10000);
        loop.pool = POOL_OPEN(.capacity = 1, .queue = i, .when_full = policies[i]);
        CHECK_EQ(end_task(start_task(loop.pool, turn_around, NULL)), 0);
        CHECK(loop.after - loop.before < 100); /* pieces of memory */
        pool_close(loop.pool);
    }
}

/* When the wait is over the awaited task has left: there is room for another, and its fiber-locals
 * have ended. */

static weft_local_key key;

static int set_local(void *counter)
{
    CHECK_PTR(weft_local_get(key), NULL);
    CHECK_EQ(weft_local_set(key, counter), 0);
    return 0;
}

static void what_was_waited_for_has_left(void *arg)
{
    atomic_u32 ended = {0};
    CHECK_EQ(weft_local_create(&key, count_task), 0);
    weft_pool *pool = POOL_OPEN(.capacity = 1, .when_full = WEFT_REJECT);
    weft_group *group = group_over(pool, NULL);
    int64_t turns = test_scale(1000);
    for (int64_t i = 0; i < turns; i++) {
        CHECK_EQ(end_task(start_task(pool, set_local, &ended)), 0);
        CHECK_EQ(count_of(&ended), 2 * i + 1);
        CHECK_EQ(weft_group_go(group, set_local, &ended), 0);
        CHECK_EQ(group_wait_until(group, WEFT_NEVER), 0);
        CHECK_EQ(count_of(&ended), 2 * i + 2);
        CHECK_EQ(pool_stats(pool).running, 0);
    }
    CHECK_EQ(weft_group_close(group), 0);
    pool_close(pool);
    CHECK_EQ(weft_local_delete(key), 0);
}

/* WEFT_NOW never waits, and runs nothing. */

static struct {
    weft_pool *pool;
    weft_task *self, *awaited;
    atomic_u32 ran, waits;
    int error;
} now;

static int count_run(void *arg)
{
    count_task(&now.ran);
    return 0;
}

static int look_now(void *arg)
{
    int result = 77;
    weft_task *task = start_task(now.pool, count_run, NULL);
    weft_group *group = group_over(now.pool, NULL);
    CHECK_EQ(weft_group_go(group, count_run, NULL), 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_task_wait_until(task, &result, WEFT_NOW), -ETIMEDOUT);
        CHECK_EQ(group_wait_until(group, WEFT_NOW), -ETIMEDOUT);
    }
    CHECK_EQ(result, 77);
    CHECK_EQ(count_of(&now.ran), 0); /* this task has the only place, and lent it to none */
    CHECK_EQ(weft_task_ended(task), 0);
    CHECK_EQ(end_task(task), 0);
    CHECK_EQ(weft_group_close(group), 0);
    return 0;
}

static void a_wait_until_now_does_not_wait(void *arg)
{
    atomic_u32_store_relaxed(&now.ran, 0);
    now.pool = POOL_OPEN(.capacity = 1);
    CHECK_EQ(end_task(start_task(now.pool, look_now, NULL)), 0);
    CHECK_EQ(count_of(&now.ran), 2);
    pool_close(now.pool);
}

/* A cancel of the waiting task ends its wait for a running task, and for one that cannot begin. */
static void cancelled_during_the_wait(void)
{
    for (int begun = 0; begun < 2; begun++) {
        struct gate gate;
        gate_shut(&gate);
        weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = WEFT_UNLIMITED);
        if (!begun)
            gate_fill(&gate, pool, 1);
        /* If it is not to begin: another one has its key. */
        weft_submit_options keyed = {.key = 5};
        if (!begun)
            CHECK_EQ(weft_pool_submit_with(pool, gate_task, &gate, &keyed), 0);
        weft_task *awaited;
        CHECK_EQ(weft_task_start(&awaited, pool, gate_handle, &gate, &keyed), 0);
        await_at_gate(&gate, begun ? 1 : 2);
        if (!begun)
            CHECK_EQ(weft_pool_tune(pool, 3), 0);
        weft_task *waiter = start_task(pool, wait_until_cancelled, awaited);
        AWAIT_FIGURE(pool, lending, 1);
        CHECK_EQ(weft_task_cancel(waiter), 1);
        CHECK_EQ(end_task(waiter), -ECANCELED);
        CHECK_EQ(weft_task_ended(awaited), 0); /* which goes on */
        CHECK_EQ(pool_stats(pool).lending, 0);
        gate_open(&gate);
        CHECK_EQ(end_task(awaited), 0);
        pool_close(pool);
    }
}

/* The awaited task goes first, and the waiting one goes on before all others. */

static struct {
    weft_pool *pool;
    struct journal journal;
} order;

enum { OTHERS = 1000, WAITED = 2000 };

static int note(void *number)
{
    journal_add(&order.journal, (int)(intptr_t)number);
    return 0;
}

static void note_other(void *number)
{
    (void)note(number);
}

static void expect(uint32_t place, int entry)
{
    CHECK_EQ(order.journal.entries[place], entry);
}

static void start_others(int count)
{
    for (int i = 0; i < count; i++) /* some that are before all normal ones */
        SUBMIT_WITH(order.pool, note_other, (void *)(intptr_t)(OTHERS + i),
                    .priority = i % 2 ? WEFT_HIGH : WEFT_NORMAL);
}

static int wait_one_by_one(void *arg)
{
    weft_task *tasks[20];
    start_others(20);
    for (int i = 0; i < 20; i++)
        tasks[i] = start_task(order.pool, note, (void *)(intptr_t)i);
    for (int i = 19; i >= 0; i--) { /* the last first */
        CHECK_EQ(end_task(tasks[i]), 0);
        (void)note((void *)(intptr_t)(WAITED + i));
    }
    return 0;
}

static int wait_for_group(void *arg)
{
    weft_group *group = group_over(order.pool, NULL);
    start_others(20);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(weft_group_go(group, note, (void *)(intptr_t)i), 0);
    CHECK_EQ(weft_group_close(group), 0);
    (void)note((void *)(intptr_t)WAITED);
    return 0;
}

/* Other tasks of its key are before it and behind it. */
static int wait_for_key(void *arg)
{
    weft_task *tasks[4];
    start_others(20);
    for (int i = 0; i < 4; i++)
        tasks[i] =
            START_WITH(order.pool, note, (void *)(intptr_t)i, .key = 9, .priority = WEFT_LOW);
    CHECK_EQ(end_task(tasks[2]), 0);
    (void)note((void *)(intptr_t)WAITED);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            CHECK_EQ(end_task(tasks[i]), 0);
    return 0;
}

static void play_order(int (*work)(void *))
{
    memset(&order.journal, 0, sizeof order.journal);
    order.pool = POOL_OPEN(.capacity = 1);
    CHECK_EQ(end_task(start_task(order.pool, work, NULL)), 0);
    pool_close(order.pool);
}

static void the_place_is_for_what_is_waited_for(void *arg)
{
    play_order(wait_one_by_one);
    for (int i = 0; i < 20; i++) {
        expect((uint32_t)(2 * i), 19 - i);
        expect((uint32_t)(2 * i + 1), WAITED + 19 - i);
    }
    CHECK_EQ(count_of(&order.journal.length), 60);
    play_order(wait_for_group);
    for (int i = 0; i < 20; i++)
        expect((uint32_t)i, i);
    expect(20, WAITED);
    CHECK_EQ(count_of(&order.journal.length), 41);
    play_order(wait_for_key);
    for (int i = 0; i < 3; i++)
        expect((uint32_t)i, i);
    expect(3, WAITED);
    CHECK_EQ(count_of(&order.journal.length), 25);
}

/* Several tasks wait for a running one, which waits for another in turn: each lends its place, and
 * each has it back. */

static struct {
    weft_pool *pool;
    struct gate gate;
} several;

static int wait_after_the_gate(void *arg)
{
    gate_task(&several.gate);
    return end_task(start_task(several.pool, nothing, NULL));
}

static void several_wait_for_one(void)
{
    enum { WAITERS = 5 };
    struct gate crowd;
    gate_shut(&several.gate);
    gate_shut(&crowd);
    weft_pool *pool = several.pool = POOL_OPEN(.capacity = WAITERS + 1, .queue = WEFT_UNLIMITED);
    weft_task *awaited = start_task(pool, wait_after_the_gate, NULL), *waiters[WAITERS];
    await_at_gate(&several.gate, 1);
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = start_task(pool, wait_for, awaited);
    AWAIT_FIGURE(pool, lending, WAITERS);
    submit_many(pool, gate_task, &crowd, 2 * WAITERS);
    await_at_gate(&crowd, WAITERS); /* in their places */
    CHECK_FIGURES(pool, IS(running, 2 * WAITERS + 1), IS(queued, WAITERS));
    gate_open(&several.gate);
    CHECK_EQ(task_result(awaited), 0);
    CHECK_EQ(pool_stats(pool).lending, 0); /* whether or not they have gone on */
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(end_task(waiters[i]), 0);
    weft_task_release(awaited);
    await_at_gate(&crowd, WAITERS + 1); /* the waiting tasks have ended: six places */
    CHECK_EQ(pool_stats(pool).running, WAITERS + 1);
    gate_open_and_close(&crowd, pool);
    CHECK_EQ(gauge_most(&crowd.gauge), WAITERS + 1);
}

static int go_at_the_limit(void *arg)
{
    weft_pool *pool = arg;
    weft_group *group = group_over(pool, &(weft_group_options){.limit = 1});
    for (int i = 0; i < 20; i++)
        CHECK_EQ(weft_group_go(group, return_error, NULL), 0);
    return weft_group_close(group);
}

static void a_wait_at_a_groups_limit_lends(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    CHECK_EQ(end_task(start_task(pool, go_at_the_limit, pool)), 0);
    pool_close(pool);
}

/* None waits for itself. */

static int wait_for_oneself(void *arg)
{
    int result = 77;
    weft_task **self = arg;
    CHECK_EQ(weft_task_wait(*self, &result), -EDEADLK);
    CHECK_EQ(weft_task_wait_until(*self, &result, WEFT_NOW), -EDEADLK);
    CHECK_EQ(result, 77);
    return 0;
}

static int wait_for_own_group(void *group)
{
    CHECK_PTR(weft_context_current(), weft_group_context(group));
    CHECK_EQ(weft_group_wait(group, NULL), -EDEADLK);
    CHECK_EQ(group_wait_until(group, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_group_close(group), -EDEADLK);
    return 0;
}

static struct {
    weft_pool *pool;
    weft_group *outer;
} rings;

/* Runs in the worker that runs a function of the outer group, at the wish of WEFT_CALLER_RUNS. */
static int wait_for_outer(void *inner)
{
    CHECK_EQ(group_wait_until(rings.outer, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(group_wait_until(inner, WEFT_NEVER), -EDEADLK);
    return 0;
}

static int open_inner(void *arg)
{
    weft_group *inner = group_over(rings.pool, NULL);
    CHECK_EQ(weft_group_go(inner, wait_for_outer, inner), 0);
    return weft_group_close(inner);
}

static void none_waits_for_itself(void *arg)
{
    weft_task *task = NULL;
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = 1);
    task = start_task(pool, wait_for_oneself, &task);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(end_task(task), 0);
    weft_group *group = group_over(pool, NULL);
    CHECK_EQ(weft_group_go(group, wait_for_own_group, group), 0);
    CHECK_EQ(weft_group_close(group), 0);
    pool_close(pool);
}

static void none_waits_for_an_outer_group(void *arg)
{
    rings.pool = POOL_OPEN(.capacity = 1, .when_full = WEFT_CALLER_RUNS);
    rings.outer = group_over(rings.pool, NULL);
    CHECK_EQ(weft_group_go(rings.outer, open_inner, NULL), 0);
    CHECK_EQ(weft_group_close(rings.outer), 0);
    pool_close(rings.pool);
}

int main(void)
{
    RUN_EVERYWHERE(a_chain_of_waits);
    RUN_EVERYWHERE(a_chain_that_is_made_on_the_way);
    RUN_BOTH(a_waiting_task_may_hold_a_lock);
    RUN_BOTH(nothing_begins_above_the_capacity);
    RUN_BOTH(capacity_bounds_the_active);
    RUN_BOTH(a_loop_of_waits_grows_nothing);
    RUN_EVERYWHERE(what_was_waited_for_has_left);
    RUN_EVERYWHERE(a_wait_until_now_does_not_wait);
    RUN_BOTH(cancelled_during_the_wait);
    RUN_EVERYWHERE(the_place_is_for_what_is_waited_for);
    RUN_BOTH(several_wait_for_one);
    RUN_EVERYWHERE(a_wait_at_a_groups_limit_lends);
    RUN_EVERYWHERE(none_waits_for_itself);
    RUN_EVERYWHERE(none_waits_for_an_outer_group);
    return 0;
}
