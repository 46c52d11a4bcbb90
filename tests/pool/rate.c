/*
 * rate.c: tasks that begin at a rate (weft_pool_options.limiter). The limiters here gain one token
 * an hour, so exactly as many tasks begin as there are tokens, until the rate is raised.
 */
#include <weft/weft.h>

#include "base/prng.h"
#include "sync/limiter.h"
#include "sync/object_latch.h"
#include "tasks.h"

static weft_limiter *tokens_open(int64_t burst)
{
    weft_limiter *limiter = NULL;
    weft_limiter_options options = {.rate = 1, .period = LONG, .burst = burst};
    CHECK_EQ(weft_limiter_open(&limiter, &options), 0);
    return limiter;
}

/* From now on tokens do not matter. */
static void tokens_flow(weft_limiter *limiter)
{
    CHECK_EQ(weft_limiter_set(limiter, WEFT_LIMITER_MAX, WEFT_LIMITER_MAX), 0);
}

/* There are so many, and not one more. */
static void check_tokens(weft_limiter *limiter, int64_t count)
{
    if (count > 0)
        CHECK_EQ(weft_limiter_try_take(limiter, count), 0);
    CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
}

/* How many wait for tokens. */
static int tickets(weft_limiter *limiter)
{
    int count = 0;
    object_latch_acquire(&limiter->latch);
    for (const struct take *take = limiter->first; take != NULL; take = take->next)
        count++;
    object_latch_release(&limiter->latch);
    return count;
}

static void await_tickets(weft_limiter *limiter, int count)
{
    for (int times = 0; tickets(limiter) != count;)
        look_again(&times);
}

static weft_pool *rated(weft_limiter *limiter, weft_pool_options options)
{
    options.limiter = limiter;
    return pool_open(options);
}

static void begins_with_tokens(weft_pool_options options)
{
    atomic_u32 ran = {0};
    weft_limiter *limiter = tokens_open(3);
    weft_pool *pool = rated(limiter, options);
    submit_counts(pool, &ran, 10);
    await_count(&ran, 3);
    await_tickets(limiter, 1);
    AWAIT_FIGURE(pool, completed, 3);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.running, 0);
    CHECK_EQ(stats.starting, 7); /* nothing holds a place */
    CHECK_EQ(count_of(&ran), 3);
    tokens_flow(limiter);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 10);
    weft_limiter_close(limiter);
}

static void a_task_begins_with_a_token(void *arg)
{
    begins_with_tokens((weft_pool_options){.capacity = 10});
    begins_with_tokens((weft_pool_options){.capacity = 10, .compact = 1});
    begins_with_tokens((weft_pool_options){.capacity = WEFT_UNLIMITED, .prestart = 4});
}

static void a_begin_takes_one_token(void *arg)
{
    atomic_u32 ran = {0};
    weft_limiter *limiter = tokens_open(5);
    weft_pool *pool = rated(limiter, (weft_pool_options){.capacity = 4});
    submit_counts(pool, &ran, 3);
    pool_close(pool);
    check_tokens(limiter, 2);
    weft_limiter_close(limiter);
}

/* Two pools, and a call of weft_limiter_take. */
static void a_limiter_is_shared(void *arg)
{
    atomic_u32 ran = {0};
    weft_limiter *limiter = tokens_open(10);
    CHECK_EQ(weft_limiter_take(limiter, 3), 0);
    weft_pool *one = rated(limiter, (weft_pool_options){.capacity = 20});
    weft_pool *other = rated(limiter, (weft_pool_options){.capacity = 2, .queue = 20});
    submit_counts(one, &ran, 20);
    submit_counts(other, &ran, 20);
    await_count(&ran, 7);
    await_tickets(limiter, 2);
    CHECK_EQ(count_of(&ran), 7);
    tokens_flow(limiter);
    pool_close(one);
    pool_close(other);
    CHECK_EQ(count_of(&ran), 40);
    weft_limiter_close(limiter);
}

static struct {
    struct journal journal;
} order;

static void note(void *number)
{
    journal_add(&order.journal, (int)(intptr_t)number);
}

static void submit_note(weft_pool *pool, int number, int priority)
{
    weft_submit_options options = {.priority = priority};
    CHECK_EQ(weft_pool_submit_with(pool, note, (void *)(intptr_t)number, &options), 0);
}

/* A more important task that arrives during the wait for a token goes first. */
static void the_token_is_for_the_next_task(void *arg)
{
    weft_limiter *limiter = tokens_open(1);
    weft_pool *pool = rated(limiter, (weft_pool_options){.capacity = 1, .queue = 20});
    CHECK_EQ(weft_limiter_take(limiter, 1), 0);
    memset(&order, 0, sizeof order);
    submit_note(pool, 3, WEFT_NORMAL);
    submit_note(pool, 4, WEFT_NORMAL);
    await_tickets(limiter, 1);
    submit_note(pool, 5, WEFT_LOW);
    submit_note(pool, 1, WEFT_HIGH);
    submit_note(pool, 2, WEFT_HIGH);
    tokens_flow(limiter);
    pool_close(pool);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(order.journal.entries[i], i + 1);
    weft_limiter_close(limiter);
}

static void an_abort_does_not_wait(void *arg)
{
    for (int stops_first = 0; stops_first < 2; stops_first++) {
        atomic_u32 ran = {0};
        weft_limiter *limiter = tokens_open(1);
        weft_pool *pool = rated(limiter, (weft_pool_options){.capacity = 4, .queue = 4});
        submit_counts(pool, &ran, 8);
        await_tickets(limiter, 1);
        AWAIT_FIGURE(pool, completed, 1);
        if (stops_first)
            CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), -ETIMEDOUT);
        CHECK_EQ(weft_pool_abort(pool), 7);
        CHECK_EQ(tickets(limiter), 0);
        pool_close(pool);
        CHECK_EQ(count_of(&ran), 1);
        check_tokens(limiter, 0);
        weft_limiter_close(limiter);
    }
}

static void a_cancelled_task_leaves_the_line(void *arg)
{
    weft_limiter *limiter = tokens_open(1);
    weft_pool *pool = rated(limiter, (weft_pool_options){.capacity = 4});
    weft_task *tasks[2];
    CHECK_EQ(weft_limiter_take(limiter, 1), 0);
    for (int i = 0; i < 2; i++)
        tasks[i] = start_task(pool, nothing, NULL);
    await_tickets(limiter, 1);
    CHECK_EQ(weft_task_cancel(tasks[0]), 0);
    CHECK_EQ(tickets(limiter), 1);
    CHECK_EQ(weft_task_cancel(tasks[1]), 0);
    CHECK_EQ(tickets(limiter), 0);
    for (int i = 0; i < 2; i++)
        weft_task_release(tasks[i]);
    pool_close(pool);
    weft_limiter_close(limiter);
}

static void a_pause_leaves_the_line(void *arg)
{
    atomic_u32 ran = {0};
    weft_limiter *limiter = tokens_open(1);
    weft_pool *pool = rated(limiter, (weft_pool_options){.capacity = 4});
    CHECK_EQ(weft_limiter_take(limiter, 1), 0);
    submit_counts(pool, &ran, 2);
    await_tickets(limiter, 1);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(tickets(limiter), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_tickets(limiter, 1);
    tokens_flow(limiter);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 2);
    weft_limiter_close(limiter);
}

/* Tasks that were taken and did not run: their context was over, or their group had failed. */
static void a_skipped_task_costs_no_token(void *arg)
{
    weft_limiter *limiter = tokens_open(4);
    weft_pool *pool = rated(limiter, (weft_pool_options){.capacity = 1, .queue = 10});
    weft_task *task;
    CHECK_EQ(weft_pool_pause(pool), 0);
    weft_context *context = new_context();
    weft_submit_options options = {.context = context};
    CHECK_EQ(weft_task_start(&task, pool, nothing, NULL, &options), 0);
    weft_context_cancel(context);
    weft_group *group = group_over(pool, NULL);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_group_go(group, nothing, NULL), 0);
    weft_group_cancel(group);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(task_result(task), -ECANCELED);
    CHECK_EQ(weft_group_close(group), -ECANCELED);
    weft_task_release(task);
    weft_context_close(context);
    pool_close(pool);
    check_tokens(limiter, 4);
    weft_limiter_close(limiter);
}

/* The submitter of a full pool calls the task if there is a token. */
static void a_caller_needs_a_token(void *arg)
{
    struct gate gate;
    atomic_u32 ran = {0};
    weft_limiter *limiter = tokens_open(2);
    weft_pool *pool =
        rated(limiter, (weft_pool_options){.capacity = 1, .when_full = WEFT_CALLER_RUNS});
    gate_shut_and_fill(&gate, pool, 1);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(count_of(&ran), 1);
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(count_of(&ran), 1);
    gate_open_and_close(&gate, pool);
    check_tokens(limiter, 0);
    weft_limiter_close(limiter);
}

/* One task waits for another: with one place and two tokens. */
static int start_and_wait(void *pool)
{
    weft_task *task = start_task(pool, nothing, NULL);
    return end_task(task);
}

static void a_task_that_waits_lends(void *arg)
{
    weft_limiter *limiter = tokens_open(2);
    weft_pool *pool = rated(limiter, (weft_pool_options){.capacity = 1});
    CHECK_EQ(start_and_wait(pool), 0);
    CHECK_EQ(weft_limiter_set(limiter, 1, 3), 0);
    weft_task *task = start_task(pool, start_and_wait, pool);
    await_tickets(limiter, 1); /* for the inner one */
    CHECK_EQ(pool_stats(pool).lending, 1);
    tokens_flow(limiter);
    CHECK_EQ(end_task(task), 0);
    pool_close(pool);
    weft_limiter_close(limiter);
}

enum { POOLS = 3 };

/* All that a limiter can reserve is reserved: the pool waits behind it all the same. */

struct greedy {
    weft_limiter *limiter;
    weft_context *context;
};

static void take_all(void *arg)
{
    struct greedy *greedy = arg;
    CHECK_EQ(weft_context_bind(greedy->context, NULL), 0);
    CHECK_EQ(weft_limiter_take(greedy->limiter, WEFT_LIMITER_MAX), -ECANCELED);
}

static void a_full_line_is_waited_for(void *arg)
{
    atomic_u32 ran = {0};
    weft_fiber *fiber;
    struct greedy greedy;
    weft_limiter_options options = {.rate = 1, .period = 1, .burst = WEFT_LIMITER_MAX};
    CHECK_EQ(weft_limiter_open(&greedy.limiter, &options), 0);
    CHECK_EQ(weft_limiter_take(greedy.limiter, WEFT_LIMITER_MAX), 0);
    greedy.context = new_context();
    CHECK_EQ(weft_spawn(&fiber, take_all, &greedy, NULL), 0);
    await_tickets(greedy.limiter, 1);
    weft_pool *pools[POOLS];
    for (int i = 0; i < POOLS; i++) {
        pools[i] = rated(greedy.limiter, (weft_pool_options){.capacity = 1});
        submit_counts(pools[i], &ran, 1);
        await_tickets(greedy.limiter, 2 + i);
    }
    CHECK_EQ(count_of(&ran), 0);
    object_latch_acquire(&greedy.limiter->latch);
    CHECK_EQ(greedy.limiter->reserved, WEFT_LIMITER_MAX);
    object_latch_release(&greedy.limiter->latch);
    weft_context_cancel(greedy.context);
    CHECK_EQ(weft_join(fiber), 0);
    for (int i = 0; i < POOLS; i++)
        pool_close(pools[i]);
    CHECK_EQ(count_of(&ran), POOLS);
    weft_context_close(greedy.context);
    weft_limiter_close(greedy.limiter);
}

/* Workers are bound to a context that is over: it is not the pool's that waits. */

static int bind_context(void **state, void *context)
{
    return weft_context_bind(context, NULL);
}

static void no_context_ends_the_wait(void *arg)
{
    atomic_u32 ran = {0};
    weft_limiter *limiter = tokens_open(1);
    CHECK_EQ(weft_limiter_take(limiter, 1), 0);
    weft_context *context = new_context();
    weft_pool *pool =
        rated(limiter,
              (weft_pool_options){.capacity = 1, .on_worker_start = bind_context, .data = context});
    submit_counts(pool, &ran, 1);
    await_tickets(limiter, 1);
    weft_context_cancel(context);
    for (int i = 0; i < 200; i++) {
        weft_yield();
        CHECK_EQ(tickets(limiter), 1);
    }
    tokens_flow(limiter);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 1);
    weft_context_close(context);
    weft_limiter_close(limiter);
}

/* Each task that begins costs one token, and no other does, whatever happens to them. */

enum { ROUNDS = 300, TOKENS = 400 };

static struct {
    weft_pool *pools[POOLS];
    atomic_u32 ran;
} chaos;

static int count_run(void *arg)
{
    if ((uintptr_t)arg % 2 != 0)
        weft_yield();
    atomic_u32_add_seq_cst(&chaos.ran, 1);
    return 0;
}

static void count_plain(void *arg)
{
    (void)count_run(arg);
}

static void disturb(weft_pool *pool, struct prng *prng)
{
    void *arg = (void *)(uintptr_t)prng_next(prng);
    weft_task *task;
    switch (prng_next(prng) % 8) {
    case 0:
        (void)weft_pool_abort(pool);
        break;
    case 1:
        (void)weft_pool_pause(pool);
        break;
    case 2:
    case 3:
        (void)weft_pool_resume(pool);
        break;
    case 4:
    case 5:
        if (weft_task_try_start(&task, pool, count_run, arg, NULL) == 0) {
            (void)weft_task_cancel(task);
            weft_task_release(task);
        }
        break;
    default:
        CHECK(weft_pool_try_submit(pool, count_plain, arg) <= 0);
        break;
    }
}

static void disturb_all(void *arg)
{
    struct prng prng;
    prng_seed(&prng, (uint32_t)(uintptr_t)arg);
    for (int i = 0; i < ROUNDS; i++) {
        disturb(chaos.pools[prng_next(&prng) % POOLS], &prng);
        if (prng_next(&prng) % 4 == 0)
            weft_yield();
    }
}

static void no_token_is_lost(void *arg)
{
    for (uint32_t seed = 1; seed <= 10; seed++) {
        weft_limiter *limiter = tokens_open(TOKENS);
        weft_fiber *fibers[4];
        memset(&chaos, 0, sizeof chaos);
        for (int i = 0; i < POOLS; i++)
            chaos.pools[i] = rated(limiter, (weft_pool_options){.capacity = 1 + i, .queue = 4});
        for (uintptr_t i = 0; i < 4; i++)
            CHECK_EQ(weft_spawn(&fibers[i], disturb_all, (void *)(seed * 4 + i), NULL), 0);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(weft_join(fibers[i]), 0);
        for (int i = 0; i < POOLS; i++) {
            (void)weft_pool_abort(chaos.pools[i]);
            pool_close(chaos.pools[i]);
        }
        uint32_t ran = count_of(&chaos.ran);
        CHECK(ran <= TOKENS);
        check_tokens(limiter, TOKENS - (int64_t)ran);
        weft_limiter_close(limiter);
    }
}

int main(void)
{
    RUN_EVERYWHERE(a_task_begins_with_a_token);
    RUN_EVERYWHERE(a_begin_takes_one_token);
    RUN_EVERYWHERE(a_limiter_is_shared);
    RUN_EVERYWHERE(the_token_is_for_the_next_task);
    RUN_EVERYWHERE(an_abort_does_not_wait);
    RUN_EVERYWHERE(a_cancelled_task_leaves_the_line);
    RUN_EVERYWHERE(a_pause_leaves_the_line);
    RUN_EVERYWHERE(a_skipped_task_costs_no_token);
    RUN_EVERYWHERE(a_caller_needs_a_token);
    RUN_EVERYWHERE(a_task_that_waits_lends);
    RUN_EVERYWHERE(a_full_line_is_waited_for);
    RUN_EVERYWHERE(no_context_ends_the_wait);
    RUN_EVERYWHERE(no_token_is_lost);
    return 0;
}
