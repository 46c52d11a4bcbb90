/*
 * cancel_stress.c: waits that contexts end: wait groups, joins, sleeps, groups, and many at once
 * (cancelling.h). Channels are in chan_stress.c, locks in locks_stress.c.
 */
#include "cancelling.h"

/* Wait group and join: the object may be freed as soon as the wait has returned 0. */

static struct {
    weft_wg wg[WORKERS];
    weft_fiber *fiber[WORKERS];
} ending;

static int wait_for_group(struct worker *worker, int64_t deadline)
{
    return weft_wg_wait_until(&ending.wg[worker->index], deadline);
}

static int join(struct worker *worker, int64_t deadline)
{
    return weft_join_until(ending.fiber[worker->index], deadline);
}

static void finish(void *wg)
{
    weft_wg_done(wg);
}

static void sleep_and_finish(void *wg)
{
    (void)weft_sleep(1 + (int64_t)((uintptr_t)wg / sizeof(weft_wg) % 7) * WEFT_US);
    weft_wg_done(wg);
}

static void end_work(struct worker *worker)
{
    /* What the memory of a group is filled with when it is gone: a late done would change it. */
    static const weft_wg gone = {.word = 2};
    weft_wg *wg = &ending.wg[worker->index];
    for (int64_t i = 0; i < stage.rounds; i++) {
        CHECK_EQ(weft_wg_init(wg, 2), 0);
        CHECK_EQ(weft_spawn(&ending.fiber[worker->index],
                            chance(worker, 2) ? finish : sleep_and_finish, wg, NULL),
                 0);
        if (chance(worker, 2))
            weft_yield();
        weft_wg_done(wg);
        while (wait_bound(worker, wait_for_group) < 0)
            continue;
        CHECK_EQ(weft_wg_count(wg), 0);
        *wg = gone;
        while (wait_bound(worker, join) < 0)
            continue;
        CHECK_EQ(memcmp(wg, &gone, sizeof gone), 0);
    }
}

static void ends(void)
{
    run("wait group and join", true, end_work, test_scale(500));
}

/* Sleep, and a select that nothing but a context or a deadline can end. */

static int sleep_a_moment(struct worker *worker, int64_t deadline)
{
    if (deadline == WEFT_NEVER && chance(worker, 2))
        deadline = weft_now() + 1 + prng_below(&worker->prng, 10000);
    int result = weft_sleep_until(deadline);
    if (result == 0)
        CHECK(weft_now() >= deadline);
    return result;
}

static int select_nothing(struct worker *worker, int64_t deadline)
{
    weft_case disabled = {.chan = NULL};
    return weft_select_until(&disabled, (int)prng_below(&worker->prng, 2), deadline);
}

static int await_done(struct worker *worker, int64_t deadline)
{
    weft_chan *done;
    CHECK_EQ(weft_context_done(worker->context, &done), 0);
    int result = weft_chan_receive_until(done, NULL, deadline);
    return result == -ESHUTDOWN ? 0 : result; /* or its own context was faster */
}

static void sleep_work(struct worker *worker)
{
    for (int64_t i = 0; i < stage.rounds; i++) {
        uint32_t way = prng_below(&worker->prng, 4);
        (void)wait_bound(worker, way == 0   ? await_done
                                 : way == 1 ? select_nothing
                                            : sleep_a_moment);
    }
}

static void sleeps(void)
{
    run("sleep", true, sleep_work, test_scale(300));
}

/* Groups: when the group is closed all its functions have ended, whatever cancelled it. */

static struct {
    atomic_u32 started[WORKERS], over[WORKERS];
} members;

static int run_member(void *arg)
{
    uintptr_t owner = (uintptr_t)arg;
    int error = weft_sleep(5 * WEFT_US);
    atomic_u32_add_relaxed(&members.over[owner], 1);
    return error;
}

static int run_group(struct worker *worker, int64_t deadline)
{
    int64_t left = deadline - weft_now();
    weft_group_options options = {.limit = prng_below(&worker->prng, 3),
                                  .timeout = deadline != WEFT_NEVER && left > 0 ? left : 0,
                                  .keep_going = chance(worker, 2)};
    weft_group *group;
    int error = 0;
    CHECK_EQ(weft_group_open(&group, &options), 0);
    for (int i = 0; i < 4 && error == 0; i++) {
        error = weft_group_go(group, run_member, (void *)(uintptr_t)worker->index);
        atomic_u32_add_relaxed(&members.started[worker->index], error == 0);
    }
    if (chance(worker, 8))
        weft_group_cancel(group);
    (void)weft_group_close(group);
    uint32_t started = atomic_u32_load_relaxed(&members.started[worker->index]);
    uint32_t over = atomic_u32_load_relaxed(&members.over[worker->index]);
    CHECK(options.keep_going ? over == started : over <= started); /* some were skipped */
    atomic_u32_store_relaxed(&members.over[worker->index], started);
    return 0;
}

static void group_work(struct worker *worker)
{
    for (int64_t i = 0; i < stage.rounds; i++)
        (void)wait_bound(worker, run_group);
}

static void groups(void)
{
    run("groups", true, group_work, test_scale(100));
}

/* The cancellation comes as the wait begins: one of the two sees the other. A missed cancellation
 * leaves the waiter waiting for ever. */

struct meeting_point {
    atomic_ptr context; /* from the waiter to the canceller */
    weft_wg never;
    bool thread;
};

static void wait_at_point(void *arg)
{
    struct meeting_point *point = arg;
    struct prng prng;
    prng_seed(&prng, (uint64_t)weft_now());
    for (int64_t round = test_scale(point->thread ? 3000 : 12000); round > 0; round--) {
        weft_context *context;
        CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
        CHECK_EQ(weft_context_bind(context, NULL), 0);
        atomic_ptr_store_release(&point->context, context);
        for (uint32_t pause = prng_below(&prng, 400); pause > 0; pause--)
            compiler_barrier();
        if (round % 3 == 0)
            CHECK_EQ(weft_sleep_until(WEFT_NEVER), -ECANCELED);
        else if (round % 3 == 1)
            CHECK_EQ(weft_wg_wait(&point->never), -ECANCELED);
        else
            CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
        CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    }
    atomic_ptr_store_release(&point->context, point); /* the end */
}

static void cancel_at_point(void *arg)
{
    struct meeting_point *point = arg;
    struct prng prng;
    prng_seed(&prng, (uint64_t)weft_now());
    for (uint32_t spins = 0;; spins++) {
        void *context = atomic_ptr_load_acquire(&point->context);
        if (context == point)
            return;
        if (context == NULL) {
            if (spins % 4096 == 0)
                weft_yield();
            continue;
        }
        atomic_ptr_store_release(&point->context, NULL);
        for (uint32_t pause = prng_below(&prng, 400); pause > 0; pause--)
            compiler_barrier();
        weft_context_close(context);
    }
}

static void at_the_same_time(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct meeting_point point = {.thread = thread};
        CHECK_EQ(weft_wg_init(&point.never, 1), 0);
        struct body bodies[] = {{.function = wait_at_point, .arg = &point, .thread = thread},
                                {.function = cancel_at_point, .arg = &point, .thread = true}};
        bodies_run(bodies, 2);
    }
}

/* Many fibers are bound to one context, in batches, while some bind themselves elsewhere. */

enum { CROWD = 300 };

static struct {
    weft_context *context, *other;
    weft_wg ready;
    atomic_u32 ended;
} crowd;

static void join_crowd(void *arg)
{
    uintptr_t own = (uintptr_t)arg;
    weft_wg_done(&crowd.ready);
    if (own % 3 == 0) {
        CHECK_EQ(weft_context_bind(crowd.other, NULL), 0);
        weft_yield();
        CHECK_EQ(weft_context_bind(crowd.context, NULL), 0);
    }
    if (own % 2 == 0)
        CHECK_EQ(weft_sleep_until(WEFT_NEVER), -ECANCELED);
    else
        CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
    atomic_u32_add_relaxed(&crowd.ended, 1);
}

static void crowds(void)
{
    for (int64_t round = test_scale(60); round > 0; round--) {
        weft_fiber *fibers[CROWD];
        CHECK_EQ(weft_context_open(&crowd.context, NULL, NULL), 0);
        CHECK_EQ(weft_context_open(&crowd.other, NULL, NULL), 0);
        CHECK_EQ(weft_wg_init(&crowd.ready, CROWD), 0);
        atomic_u32_store_relaxed(&crowd.ended, 0);
        weft_spawn_options options = {.context = crowd.context};
        for (uintptr_t i = 0; i < CROWD; i++)
            CHECK_EQ(weft_spawn(&fibers[i], join_crowd, (void *)i, &options), 0);
        CHECK_EQ(weft_wg_wait_until(&crowd.ready, WEFT_NEVER), 0);
        weft_context_cancel(crowd.context); /* the handle is needed until all are bound to it */
        for (int i = 0; i < CROWD; i++)
            CHECK_EQ(weft_join(fibers[i]), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&crowd.ended), CROWD);
        weft_context_close(crowd.context);
        weft_context_close(crowd.other);
    }
}

static void scenes(void)
{
    RUN(ends);
    RUN(sleeps);
    RUN(groups);
    RUN(at_the_same_time);
    RUN(crowds);
}

int main(void)
{
    run_with_processors(scenes);
    RUN_SEEDS(ends);
    RUN_SEEDS(sleeps);
    RUN_SEEDS(groups);
    RUN_SEEDS(at_the_same_time);
    RUN_SEEDS(crowds);
    return 0;
}
