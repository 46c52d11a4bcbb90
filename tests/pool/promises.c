/*
 * promises.c: what pool.h, pools.h and task.h promise and once did not keep: groups over a pool, drops, aborts, priorities, cancels,
 * pools that close together, figures, the states of a pool and its options.
 */
#include <weft/weft.h>

#include "seeds.h"
#include "tasks.h"

/* Groups over a pool are as groups of fibers. */

static void a_cancelled_group_starts_nothing(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = 2});
    weft_context *context = new_context();
    for (int parent = 0; parent < 2; parent++) { /* its own context, or the one above */
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

static void a_group_is_cancelled_while_one_waits_to_go(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct gate gate;
        weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
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
        weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = WEFT_UNLIMITED});
        weft_group *group = group_over(pool, &(weft_group_options){.keep_going = keep_going});
        CHECK_EQ(weft_pool_pause(pool), 0);
        CHECK_EQ(weft_group_go(group, return_error, (void *)(intptr_t)-EIO), 0);
        for (int i = 0; i < MEMBERS; i++)
            CHECK_EQ(weft_group_go(group, count_handle, &ran), 0);
        CHECK_EQ(weft_pool_resume(pool), 0);
        CHECK_EQ(weft_group_close(group), -EIO);
        weft_pool_stats stats = pool_stats(pool);
        CHECK_EQ(count_of(&ran), keep_going ? MEMBERS : 0);
        CHECK_FIGURES(stats, FIGURE(completed, keep_going ? MEMBERS + 1 : 1),
                      FIGURE(cancelled, keep_going ? 0 : MEMBERS), FIGURE(failed, 1));
        pool_close(pool);
    }
}

static void a_context_above_ends_a_group(void *arg)
{
    enum { MEMBERS = 10 };
    for (int begun = 0; begun < 2; begun++) {
        weft_pool *pool = pool_open((weft_pool_options){.capacity = MEMBERS});
        weft_context *context = new_context();
        weft_group *group = group_over(pool, &(weft_group_options){.context = context});
        if (!begun)
            CHECK_EQ(weft_pool_pause(pool), 0);
        for (int i = 0; i < MEMBERS; i++)
            CHECK_EQ(weft_group_go(group, sleep_for_ever, NULL), 0);
        if (begun)
            AWAIT_FIGURE(pool, running, MEMBERS);
        weft_context_cancel(context);
        CHECK_EQ(weft_pool_resume(pool), 0);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        CHECK_EQ(pool_stats(pool).cancelled, begun ? 0 : MEMBERS);
        weft_context_close(context);
        pool_close(pool);
    }
}

/* From inside: a task of the pool whose context is above the group. */

static int run_group_inside(void *pool)
{
    weft_group *group = group_over(pool, NULL);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_group_go(group, sleep_for_ever, NULL), 0);
    return weft_group_close(group);
}

static void a_cancelled_task_ends_its_group(void *arg)
{
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2});
    weft_task *task = start_task(pool, run_group_inside, pool);
    AWAIT_FIGURE(pool, lending, 1);
    CHECK_EQ(weft_task_cancel(task), 1);
    CHECK_EQ(end_task(task), -ECANCELED);
    pool_close(pool);
}

/* Pools that close together: what their tasks submit, to whichever, still runs. */

static struct {
    weft_pools *pools;
    struct gate gate;
    atomic_u32 ran;
} family;

static void submit_on(void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    if (left == 5)
        CHECK_EQ(weft_wg_wait(&family.gate.shut), 0);
    for (int i = 0; left > 0 && i < 2; i++)
        CHECK_EQ(weft_pool_submit(weft_pools_pick(family.pools), submit_on, (void *)(left - 1)), 0);
    count_task(&family.ran);
}

static void close_family(void *arg)
{
    CHECK_EQ(weft_pools_close(family.pools), 0);
}

static void await_state(weft_pool *pool, int state)
{
    for (int times = 0; weft_pool_state(pool) != state;)
        look_again(&times);
}

static void pools_close_when_all_have_run(void)
{
    static const int strategies[] = {WEFT_ROUND_ROBIN, WEFT_LEAST_BUSY};
    for (int i = 0; i < 4; i++) {
        memset(&family, 0, sizeof family);
        gate_shut(&family.gate);
        weft_pool_options each = {.capacity = 1};
        CHECK_EQ(weft_pools_open(&family.pools, 4, strategies[i % 2], &each), 0);
        for (int k = 0; k < 2; k++)
            CHECK_EQ(
                weft_pool_submit(weft_pools_get(family.pools, k), submit_on, (void *)(uintptr_t)5),
                0);
        weft_pool *idle = weft_pools_get(family.pools, 3);
        struct body closer = {.function = close_family, .thread = i >= 2};
        body_start(&closer);
        await_state(idle, WEFT_POOL_STOPPING); /* and not stopped: the others may need it */
        CHECK_EQ(weft_pool_submit(idle, count_task, &family.ran), -ESHUTDOWN);
        gate_open(&family.gate);
        body_join(&closer);
        CHECK_EQ(count_of(&family.ran), 2 * 63);
    }
}

/* A submit to several pools finds the one that has room, also after that was full for a time. */
static void pools_with_room_are_found(void *arg)
{
    static const int strategies[] = {WEFT_ROUND_ROBIN, WEFT_LEAST_BUSY};
    enum { POOLS = 5, QUEUE = 4 };
    for (int s = 0; s < 2; s++)
        for (int turn = 0; turn < POOLS; turn++) {
            struct gate all, first, second;
            atomic_u32 ran = {0};
            weft_pools *pools;
            weft_pool_options each = {.capacity = 1, .queue = QUEUE, .when_full = WEFT_REJECT};
            gate_shut(&all);
            gate_shut(&first);
            gate_shut(&second);
            CHECK_EQ(weft_pools_open(&pools, POOLS, strategies[s], &each), 0);
            for (int i = 0; i < turn; i++) /* begin the round elsewhere */
                CHECK(weft_pools_pick(pools) != NULL);
            /* One is full, and then one task stands at a gate. */
            weft_pool *room = weft_pools_get(pools, 2);
            CHECK_EQ(weft_pool_submit(room, gate_task, &first), 0);
            submit_counts(room, &ran, QUEUE - 1);
            CHECK_EQ(weft_pool_submit(room, gate_task, &second), 0);
            CHECK_EQ(weft_pool_submit(room, gate_task, &second), -EAGAIN);
            for (int i = 0; i < POOLS; i++)
                for (int k = 0; i != 2 && k < 1 + QUEUE; k++)
                    CHECK_EQ(weft_pool_submit(weft_pools_get(pools, i), gate_task, &all), 0);
            CHECK_EQ(weft_pool_try_submit(weft_pools_pick(pools), gate_task, &all), -EAGAIN);
            gate_open(&first);
            await_at_gate(&second, 1);
            for (int i = 0; i < QUEUE; i++)
                CHECK_EQ(weft_pool_submit(weft_pools_pick(pools), gate_task, &second), 0);
            CHECK_EQ(weft_pool_submit(weft_pools_pick(pools), gate_task, &second), -EAGAIN);
            gate_open(&second);
            gate_open(&all);
            CHECK_EQ(weft_pools_close(pools), 0);
        }
}

/* Drops: of the lowest priority, the oldest. */

static struct journal dropped, journal;

static void note(void *number)
{
    journal_add(&journal, (int)(intptr_t)number);
}

static void note_dropped(void (*function)(void *), void *arg, void *data)
{
    journal_add(&dropped, (int)(intptr_t)arg);
}

static void submit_note(weft_pool *pool, int number, int priority, uint64_t key)
{
    weft_submit_options options = {.priority = priority, .key = key};
    CHECK_EQ(weft_pool_submit_with(pool, note, (void *)(intptr_t)number, &options), 0);
}

static void expect_journal(const struct journal *of, const int *numbers, uint32_t count)
{
    CHECK_EQ(count_of(&of->length), count);
    for (uint32_t i = 0; i < count; i++)
        CHECK_EQ(of->entries[i], numbers[i]);
}

static void the_oldest_of_the_lowest_is_dropped(void *arg)
{
    static const struct {
        int priority;
        uint64_t key;
    } tasks[] = {{WEFT_HIGH, 0},   {WEFT_LOW, 5},    {WEFT_HIGH, 5}, {WEFT_NORMAL, 0},
                 {WEFT_LOW, 0},    {WEFT_LOW, 5},    {WEFT_HIGH, 6}, {WEFT_NORMAL, 5},
                 {WEFT_NORMAL, 0}, {WEFT_NORMAL, 6}, {WEFT_LOW, 6}};
    static const int expected[] = {1, 4, 5, 10, 3, 7, 8, 9, 0, 2, 6};
    enum { TASKS = sizeof tasks / sizeof tasks[0] };
    memset(&dropped, 0, sizeof dropped);
    memset(&journal, 0, sizeof journal);
    weft_pool *pool = pool_open((weft_pool_options){
        .capacity = 1, .queue = TASKS - 1, .when_full = WEFT_DROP_OLDEST, .on_drop = note_dropped});
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < TASKS; i++)
        submit_note(pool, i, tasks[i].priority, tasks[i].key);
    for (int i = 0; i < TASKS;
         i++) /* what comes now is of the highest: it is not dropped before the others */
        submit_note(pool, 100 + i, WEFT_HIGH, 0);
    expect_journal(&dropped, expected, TASKS);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&journal.length), TASKS);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(journal.entries[i], 100 + i);
}

/* An abort: all that was admitted before it, and nothing that was admitted later. */

static struct {
    weft_pool *pool;
    atomic_u32 dropped, late;
} abortion;

static void submit_during_abort(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == note);
    uint32_t number = atomic_u32_add_seq_cst(&abortion.dropped, 1);
    submit_with(
        abortion.pool, count_task, &abortion.late,
        (weft_submit_options){.priority = (int)(number % 3) - 1, .key = number % 2 ? 8 : 0});
}

static void an_abort_drops_what_was_there(void *arg)
{
    enum { TASKS = 1000 };
    memset(&abortion, 0, sizeof abortion);
    memset(&journal, 0, sizeof journal);
    abortion.pool = pool_open((weft_pool_options){
        .capacity = 1, .queue = WEFT_UNLIMITED, .on_drop = submit_during_abort});
    CHECK_EQ(weft_pool_pause(abortion.pool), 0);
    for (int i = 0; i < TASKS; i++)
        submit_note(abortion.pool, i, i % 3 - 1, i % 5 == 0 ? 8 : 0);
    CHECK_EQ(weft_pool_abort(abortion.pool), TASKS);
    CHECK_EQ(count_of(&abortion.dropped), TASKS);
    CHECK_EQ(pool_waiting(abortion.pool), TASKS);
    CHECK_EQ(weft_pool_resume(abortion.pool), 0);
    pool_close(abortion.pool);
    CHECK_EQ(count_of(&abortion.late), TASKS);
    CHECK_EQ(count_of(&journal.length), 0);
}

/* Priorities: of nine one is not high, of ninety one is low. */

static void check_shares(void)
{
    int since_other = 0, since_low = 0;
    int others = 0, lows = 0;
    uint32_t length = count_of(&journal.length);
    for (uint32_t i = 0; i < length; i++) {
        others += journal.entries[i] != WEFT_HIGH;
        lows += journal.entries[i] == WEFT_LOW;
    }
    for (uint32_t i = 0; i < length; i++) {
        int priority = journal.entries[i];
        since_other = priority == WEFT_HIGH ? since_other + 1 : 0;
        since_low = priority != WEFT_LOW ? since_low + 1 : 0;
        CHECK(others == 0 || since_other <= 8);
        CHECK(lows == 0 || since_low <= 89);
        others -= priority != WEFT_HIGH;
        lows -= priority == WEFT_LOW;
    }
}

static void each_priority_has_its_share(void *arg)
{
    memset(&journal, 0, sizeof journal);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = WEFT_UNLIMITED});
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < 1000; i++)
        submit_note(pool, WEFT_HIGH, WEFT_HIGH, 0);
    for (int i = 0; i < 60; i++) {
        if (i % 2) /* plain, and with a record */
            CHECK_EQ(weft_pool_submit(pool, note, (void *)(intptr_t)WEFT_NORMAL), 0);
        else
            submit_note(pool, WEFT_NORMAL, WEFT_NORMAL, 3);
    }
    for (int i = 0; i < 10; i++)
        submit_note(pool, WEFT_LOW, WEFT_LOW, 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&journal.length), 1070);
    check_shares();
}

/* Also of those that come while others run. */

static struct {
    weft_pool *pool;
    int64_t begun, submitted_at;
    atomic_u32 over;
    int low;
} share;

static void begin_normal(void *arg)
{
    CHECK(share.begun - share.submitted_at <= (share.low ? 89 : 8));
    atomic_u32_store_release(&share.over, 1);
}

static void begin_high(void *arg)
{
    share.begun++;
    if (share.begun == 200) {
        share.submitted_at = share.begun;
        submit_with(share.pool, begin_normal, NULL,
                    (weft_submit_options){.priority = share.low ? WEFT_LOW : 0});
    }
    if (!count_of(&share.over))
        submit_with(share.pool, begin_high, arg, (weft_submit_options){.priority = WEFT_HIGH});
}

static void a_normal_task_among_high_ones(void *arg)
{
    for (int low = 0; low < 2; low++) {
        memset(&share, 0, sizeof share);
        share.low = low;
        share.pool = pool_open((weft_pool_options){.capacity = 1});
        CHECK_EQ(weft_pool_pause(share.pool), 0);
        CHECK_EQ(weft_pool_tune_queue(share.pool, 50), 0);
        for (int i = 0; i < 30; i++)
            submit_with(share.pool, begin_high, NULL, (weft_submit_options){.priority = WEFT_HIGH});
        CHECK_EQ(weft_pool_resume(share.pool), 0);
        pool_close(share.pool);
        CHECK_EQ(count_of(&share.over), 1);
    }
}

/* Cancelling. */

static void a_task_that_never_ran_is_cancelled(void *arg)
{
    enum { TASKS = 20 };
    atomic_u32 ran = {0};
    weft_task *tasks[TASKS];
    for (int keyed = 0; keyed < 2; keyed++) {
        weft_pool *pool = pool_open(
            (weft_pool_options){.capacity = 4, .queue = TASKS - 4, .when_full = WEFT_REJECT});
        CHECK_EQ(weft_pool_pause(pool), 0);
        for (int i = 0; i < TASKS; i++)
            tasks[i] = start_task_with(pool, count_handle, &ran,
                                       (weft_submit_options){.key = keyed ? 7 : 0});
        for (int i = 0; i < TASKS; i++) {
            CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -EAGAIN);
            CHECK_EQ(weft_task_cancel(tasks[i]), 0); /* it will not run, by this call */
            CHECK_EQ(weft_task_cancel(tasks[i]), 2);
            CHECK_EQ(end_task(tasks[i]), -ECANCELED);
            CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0); /* its place is free at once */
        }
        CHECK_EQ(count_of(&ran), keyed * TASKS);
        CHECK_EQ(pool_stats(pool).cancelled, TASKS);
        CHECK_EQ(weft_pool_resume(pool), 0);
        pool_close(pool);
        CHECK_EQ(count_of(&ran), (keyed + 1) * TASKS);
    }
}

static void a_task_that_is_waited_for_is_cancelled(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = 2});
    CHECK_EQ(weft_pool_pause(pool), 0);
    weft_task *awaited = start_task(pool, count_handle, &ran);
    CHECK_EQ(weft_task_cancel(awaited), 0);
    weft_task *waiter = start_task(pool, wait_for, awaited);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(end_task(waiter), -ECANCELED); /* the result of the other, not an error of the wait */
    CHECK_EQ(end_task(awaited), -ECANCELED);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 0);
}

/* Figures: totals never go back, and what is queued fits into the queue. */

static struct {
    weft_pool *pool;
    int64_t queue;
    atomic_u32 over, ran;
} watched;

static void check_totals(const weft_pool_stats *before, const weft_pool_stats *now)
{
    CHECK(now->submitted >= before->submitted);
    CHECK(now->beyond >= before->beyond);
    CHECK(now->completed >= before->completed);
    CHECK(now->failed >= before->failed && now->failed <= now->completed);
    CHECK(now->panicked >= before->panicked);
    CHECK(now->rejected >= before->rejected);
    CHECK(now->dropped >= before->dropped);
    CHECK(now->cancelled >= before->cancelled);
    CHECK(now->most_workers >= before->most_workers);
    CHECK(now->queued <= watched.queue + now->beyond);
}

static void watch(void *arg)
{
    weft_pool_stats before = {.submitted = 0};
    while (!count_of(&watched.over)) {
        weft_pool_stats now = pool_stats(watched.pool);
        check_totals(&before, &now);
        before = now;
        weft_yield();
    }
}

static void yield_and_count(void *arg)
{
    weft_yield();
    count_task(arg);
}

static int fail_after_a_yield(void *arg)
{
    weft_yield();
    count_task(arg);
    return -EIO;
}

static void panic_quietly(void *arg)
{
    count_task(arg);
    weft_panic("as it should");
}

static void submit_all_kinds(void *arg)
{
    int64_t turns = test_scale(300);
    for (int64_t i = 0; i < turns; i++) {
        weft_task *task = NULL;
        (void)!weft_pool_submit(watched.pool, yield_and_count, &watched.ran);
        (void)!weft_pool_submit(watched.pool, count_task, &watched.ran);
        (void)!weft_pool_try_submit(watched.pool, panic_quietly, &watched.ran);
        if (weft_task_try_start(&task, watched.pool, fail_after_a_yield, &watched.ran, NULL) == 0) {
            if (i % 3 == 0)
                (void)weft_task_cancel(task);
            CHECK_EQ(weft_task_wait(task, NULL), 0);
            weft_task_release(task);
        }
        if (i % 50 == 0)
            (void)weft_pool_abort(watched.pool);
    }
}

static void totals_never_go_back(void)
{
    static const int policies[] = {WEFT_BLOCK, WEFT_REJECT, WEFT_CALLER_RUNS, WEFT_DROP_NEWEST,
                                   WEFT_DROP_OLDEST};
    for (int i = 0; i < 5; i++) {
        atomic_u32_store_relaxed(&watched.over, 0);
        watched.queue = 3;
        watched.pool = pool_open((weft_pool_options){.capacity = 2,
                                                     .queue = watched.queue,
                                                     .when_full = policies[i],
                                                     .on_panic = ignore_panic});
        struct body watcher = {.function = watch, .thread = true};
        struct body submitters[4];
        body_start(&watcher);
        for (int k = 0; k < 4; k++)
            submitters[k] = (struct body){.function = submit_all_kinds, .thread = k % 2};
        bodies_run(submitters, 4);
        CHECK_EQ(weft_pool_wait(watched.pool, WEFT_NEVER), 0);
        atomic_u32_store_release(&watched.over, 1);
        body_join(&watcher);
        weft_pool_stats stats = pool_stats(watched.pool);
        CHECK_EQ(stats.running + stats.starting + stats.queued, 0);
        CHECK_EQ(stats.beyond, 0);
        pool_close(watched.pool);
    }
}

/* What a free worker is about to take is not queued. */
static void what_can_begin_is_not_queued(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 5, .queue = 2});
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < 7; i++) {
        CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), 0);
        CHECK_FIGURES(pool_stats(pool), FIGURE(starting, i < 5 ? i + 1 : 5),
                      FIGURE(queued, i < 5 ? 0 : i - 4));
    }
    CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), -EAGAIN);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_at_gate(&gate, 5);
    CHECK_FIGURES(pool_stats(pool), FIGURE(starting, 0), FIGURE(queued, 2));
    gate_open(&gate);
    pool_close(pool);
}

/* A task that returned an error is told apart from a wait that did. */
static void errors_are_told_apart(void *arg)
{
    int result = 77;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .on_panic = ignore_panic});
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
    CHECK_FIGURES(pool_stats(pool), FIGURE(failed, 2), FIGURE(completed, 2));
    pool_close(pool);
}

/* The states of a pool. */

static void a_pause_is_remembered(void *arg)
{
    struct gate gate;
    atomic_u32 ran = {0};
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = 1});
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_OPEN);
    gate_shut_and_fill(&gate, pool, 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_STOPPING);
    CHECK_EQ(weft_pool_pause(pool), -ESHUTDOWN);
    CHECK_EQ(weft_pool_stop(pool, weft_after(WEFT_MS)), -ETIMEDOUT); /* waits as the first does */
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_STOPPED);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_reopen(pool), 0);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_OPEN);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(weft_pool_wait(pool, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(pool_stats(pool).starting, 1);
    CHECK_EQ(weft_pool_pause(pool), 0); /* once more: one resume ends it */
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 1);
    pool_close(pool);
}

static void the_queue_is_tuned(void *arg)
{
    struct gate gate;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
    CHECK_EQ(weft_pool_tune_queue(pool, -1), -EINVAL);
    CHECK_EQ(weft_pool_tune_queue(NULL, 1), -EINVAL);
    gate_shut_and_fill(&gate, pool, 1);
    struct submission submitter;
    submission_start(&submitter, pool, gate_task, &gate, true);
    AWAIT_FIGURE(pool, blocked, 1);
    CHECK_EQ(weft_pool_tune_queue(pool, 3), 0);
    CHECK_EQ(submission_end(&submitter), 0); /* admitted at once */
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), 0);
    CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), -EAGAIN);
    CHECK_EQ(weft_pool_tune_queue(pool, 1), 0);
    CHECK_EQ(pool_stats(pool).queue, 1);
    CHECK_EQ(pool_stats(pool).queued, 3); /* those in the pool stay */
    CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), -EAGAIN);
    gate_open(&gate);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    pool_close(pool);
    CHECK_EQ(gauge_total(&gate.gauge), 4);
}

/* Calls that would wait for themselves. */

static struct {
    weft_pool *pool;
    atomic_u32 started, ended;
} hooks;

static void try_to_end(void)
{
    CHECK_EQ(weft_pool_close(hooks.pool), -EDEADLK);
    CHECK_EQ(weft_pool_close_until(hooks.pool, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_pool_stop(hooks.pool, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_pool_wait(hooks.pool, WEFT_NEVER), -EDEADLK);
}

static int start_and_end(void **state, void *data)
{
    if (hooks.pool != NULL)
        try_to_end();
    count_task(&hooks.started);
    return 0;
}

static void exit_and_end(void *state, void *data)
{
    try_to_end();
    count_task(&hooks.ended);
}

static void end_in_task(void *arg)
{
    try_to_end();
}

static void no_worker_waits_for_its_own_end(void *arg)
{
    memset(&hooks, 0, sizeof hooks);
    hooks.pool = pool_open((weft_pool_options){
        .capacity = 2, .on_worker_start = start_and_end, .on_worker_exit = exit_and_end});
    CHECK_EQ(weft_pool_submit(hooks.pool, end_in_task, NULL), 0);
    pool_close(hooks.pool);
    CHECK(count_of(&hooks.started) >= 1);
    CHECK_EQ(count_of(&hooks.ended), count_of(&hooks.started));
}

/* Options. */

static void options_out_of_range(void)
{
    weft_pool *pool = POOL_POISON;
    weft_pool_options fixed = weft_pool_fixed(0), scalable = weft_pool_scalable(0, 0, WEFT_S);
    CHECK_EQ(weft_pool_open(&pool, &fixed), -EINVAL); /* not the default */
    CHECK_EQ(weft_pool_open(&pool, &scalable), -EINVAL);
    fixed = weft_pool_fixed(-1);
    CHECK_EQ(weft_pool_open(&pool, &fixed), -EINVAL);
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.prestart = WEFT_UNLIMITED}), -EINVAL);
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = WEFT_UNLIMITED,
                                                        .prestart = WEFT_UNLIMITED}),
             -EINVAL);
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = 3, .prestart = 4}), -EINVAL);
    CHECK_PTR(pool, POOL_POISON);
}

/* As soon as the fibers of workers that have left their pool are gone. */
static weft_pool *open_at_last(weft_pool_options options)
{
    weft_pool *pool = NULL;
    int error, times = 0;
    while ((error = weft_pool_open(&pool, &options)) == -EAGAIN)
        look_again(&times);
    CHECK_EQ(error, 0);
    return pool;
}

static void a_failed_prestart_says_why(void)
{
    weft_pool *pool = POOL_POISON;
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(&(weft_config){.max_fibers = 10}), 0);
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.prestart = 11}), -EAGAIN);
    CHECK_PTR(pool, POOL_POISON);
    pool = open_at_last((weft_pool_options){.prestart = 10});
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    weft_pool *other = open_at_last((weft_pool_options){.prestart = 1});
    CHECK_EQ(weft_pool_reopen(pool), -EAGAIN);
    pool_close(other);
    pool_close(pool);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

/* Idle workers of the default pool expire after a second; a shut-down ends them at once. It is given some tries: a slow machine may
 * need a second for one, not for all. */
static void a_shut_down_does_not_wait_for_idle_workers(void)
{
    for (int i = 0; i < 10; i++) {
        atomic_u32 ran = {0};
        CHECK_EQ(weft_pool_submit(weft_pool_default(), count_task, &ran), 0);
        await_count(&ran, 1);
        AWAIT_FIGURE(weft_pool_default(), running, 0);
        int64_t before = weft_now();
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        if (weft_now() - before < WEFT_S / 2)
            return;
    }
    CHECK(!"a shut-down is done before idle workers expire");
}

int main(void)
{
    RUN_EVERYWHERE(a_cancelled_group_starts_nothing);
    RUN_BOTH(a_group_is_cancelled_while_one_waits_to_go);
    RUN_EVERYWHERE(an_error_skips_what_has_not_begun);
    RUN_EVERYWHERE(a_context_above_ends_a_group);
    RUN_EVERYWHERE(a_cancelled_task_ends_its_group);
    RUN_BOTH(pools_close_when_all_have_run);
    RUN_EVERYWHERE(pools_with_room_are_found);
    RUN_EVERYWHERE(the_oldest_of_the_lowest_is_dropped);
    RUN_EVERYWHERE(an_abort_drops_what_was_there);
    RUN_EVERYWHERE(each_priority_has_its_share);
    RUN_EVERYWHERE(a_normal_task_among_high_ones);
    RUN_EVERYWHERE(a_task_that_never_ran_is_cancelled);
    RUN_EVERYWHERE(a_task_that_is_waited_for_is_cancelled);
    RUN_BOTH(totals_never_go_back);
    RUN_EVERYWHERE(what_can_begin_is_not_queued);
    RUN_EVERYWHERE(errors_are_told_apart);
    RUN_EVERYWHERE(a_pause_is_remembered);
    RUN_EVERYWHERE(the_queue_is_tuned);
    RUN_EVERYWHERE(no_worker_waits_for_its_own_end);
    RUN_PLAIN(options_out_of_range, "nothing waits");
    RUN_PLAIN(a_failed_prestart_says_why, "it configures the runtime");
    RUN_PLAIN(a_shut_down_does_not_wait_for_idle_workers, "it stops the runtime");
    return 0;
}
