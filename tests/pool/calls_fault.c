/*
 * calls_fault.c: groups, all kinds of pools, tasks with handles and several pools, with each call
 * of the system failing in turn (scenario.h). Each admitted task runs exactly once, and no other
 * task does.
 */
#include "bodies.h"
#include "scenario.h"

static atomic_u32 ran, dropped, panicked;
static uint32_t admitted, falling; /* how many of the admitted panic */

static void begin(void)
{
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&dropped, 0);
    atomic_u32_store_relaxed(&panicked, 0);
    admitted = falling = 0;
}

static void check_all_ran(void)
{
    CHECK_EQ(atomic_u32_load_acquire(&ran), admitted);
}

static void task(void *arg)
{
    int slept = weft_sleep(WEFT_US);
    CHECK(slept == 0 || slept == -ECANCELED); /* of a task that is cancelled */
    atomic_u32_add_seq_cst(&ran, 1);
}

/* Errors of a submit; the runtime runs by then. */
#define MAY_SUBMIT(call) MAY(call, -ENOMEM)

/* Groups. */

static int member(void *arg)
{
    CHECK(weft_context_current() != NULL);
    task(arg);
    return 0;
}

static int leaver(void *arg)
{
    CHECK_EQ(weft_group_leave(), 0);
    task(arg);
    return 0;
}

static int faller(void *arg)
{
    atomic_u32_add_seq_cst(&ran, 1);
    weft_panic("fell %p", arg);
}

static int scope_body(weft_group *group, void *arg)
{
    admitted += MAY_GO(weft_group_go(group, member, arg)) == 0;
    return 0;
}

static void use_group(void)
{
    weft_group_options options = {.limit = 2, .keep_going = 1};
    weft_group *group = POISON;
    begin();
    if (OPENED_GO(weft_group_open(&group, &options), group)) {
        for (int i = 0; i < 4; i++)
            admitted += MAY_GO(weft_group_go(group, i == 0 ? leaver : member, NULL)) == 0;
        int64_t tried = weft_group_try_go(group, member, NULL);
        admitted += tried == 0;
        if (tried != -EAGAIN)
            (void)MAY_GO(tried);
        CHECK(weft_group_running(group) <= 2);
        CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
        CHECK_EQ(group_error(group), 0);
        bool fell = MAY_GO(weft_group_go(group, faller, NULL)) == 0;
        admitted += fell;
        int error = 1;
        CHECK_EQ(weft_group_wait_until(group, WEFT_NEVER, &error), 0);
        CHECK_EQ(error, fell ? -EOWNERDEAD : 0);
        weft_panic_info info;
        CHECK_EQ(weft_group_panic(group, &info), fell ? 0 : -ENOENT);
        weft_group_cancel(group);
        CHECK_EQ(weft_group_close(group), fell ? -EOWNERDEAD : -ECANCELED);
    }
    (void)MAY_GO(weft_group_scope(&options, scope_body, NULL));
    while (atomic_u32_load_acquire(&ran) < admitted) /* one has left its group */
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    check_all_ran();
}

/* The pool: every way in. */

static void batch_task(void *arg)
{
    task(arg);
}

static void copied(void *arg)
{
    CHECK_EQ(*(uint64_t *)arg, 12345);
    task(arg);
}

static void panicking(void *arg)
{
    task(arg);
    weft_panic("it must not leave the task");
}

static void on_panic(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
    CHECK(function == panicking);
    CHECK_PTR(data, &ran);
    atomic_u32_add_seq_cst(&panicked, 1);
}

static void try_to_submit(int tried)
{
    admitted += tried == 0;
    if (tried != -EAGAIN)
        (void)MAY_SUBMIT(tried);
}

/* Begins a scenario with a pool; NULL if it could not be opened. */
static weft_pool *begin_with(weft_pool_options options)
{
    weft_pool *pool = POISON;
    begin();
    return OPENED_GO(weft_pool_open(&pool, &options), pool) ? pool : NULL;
}

static void submit_all_ways(weft_pool *pool)
{
    uint32_t panics = MAY_SUBMIT(weft_pool_submit(pool, panicking, NULL)) == 0;
    admitted += panics;
    falling += panics;
    uint64_t number = 12345;
    weft_submit_options high = {.priority = WEFT_HIGH}, keyed = {.key = 7},
                        copy = {.copy = sizeof number, .priority = WEFT_LOW};
    void *args[5] = {NULL};
    admitted += MAY_SUBMIT(weft_pool_submit(pool, task, NULL)) == 0;
    admitted += MAY_SUBMIT(weft_pool_submit_until(pool, task, NULL, WEFT_NEVER)) == 0;
    try_to_submit(weft_pool_try_submit(pool, task, NULL));
    admitted += MAY_SUBMIT(weft_pool_submit_with(pool, task, NULL, &high)) == 0;
    for (int i = 0; i < 3; i++)
        admitted += MAY_SUBMIT(weft_pool_submit_with(pool, task, NULL, &keyed)) == 0;
    admitted += MAY_SUBMIT(weft_pool_submit_with(pool, copied, &number, &copy)) == 0;
    admitted += MAY_SUBMIT(weft_pool_invoke(pool, NULL)) == 0;
    admitted += MAY_SUBMIT(weft_pool_invoke_until(pool, NULL, WEFT_NEVER)) == 0;
    try_to_submit(weft_pool_try_invoke(pool, NULL));
    int64_t count = MAY_SUBMIT(weft_pool_submit_batch(pool, batch_task, args, 5, WEFT_NEVER));
    if (count < 5 && count >= 0)
        atomic_u32_add_relaxed(&scene.errors, 1); /* it tells no error if some were admitted */
    admitted += count > 0 ? (uint32_t)count : 0;
}

static void check_stats(weft_pool *pool)
{
    weft_pool_stats stats;
    CHECK_EQ(weft_pool_stats_get(pool, &stats), 0);
    CHECK_EQ(stats.submitted, admitted);
    CHECK_EQ(stats.completed + stats.dropped, admitted);
    CHECK_EQ(stats.dropped, atomic_u32_load_acquire(&dropped));
    CHECK_EQ(stats.running, 0);
    CHECK_EQ(stats.starting, 0);
    CHECK_EQ(stats.queued, 0);
    CHECK_EQ(stats.blocked, 0);
    CHECK_EQ(stats.workers, 0);
}

static int worker_start(void **state, void *data)
{
    *state = data;
    return 0;
}

static void worker_exit(void *state, void *data)
{
    CHECK_PTR(state, data);
}

static void stateful(void *arg)
{
    CHECK_PTR(weft_pool_worker_state(), &ran);
    task(arg);
}

static void use_pool_with(weft_pool_options options)
{
    options.function = stateful;
    options.on_worker_start = worker_start;
    options.on_worker_exit = worker_exit;
    options.on_panic = on_panic;
    options.data = &ran;
    weft_pool *pool = begin_with(options);
    if (pool == NULL)
        return;
    submit_all_ways(pool);
    CHECK_EQ(weft_pool_tune(pool, 3), 0);
    CHECK_EQ(weft_pool_tune_queue(pool, 1), 0);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_OPEN);
    submit_all_ways(pool);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_STOPPED);
    check_all_ran();
    CHECK_EQ(atomic_u32_load_acquire(&panicked), falling);
    check_stats(pool);
    int late = weft_pool_submit(pool, task, NULL);
    CHECK(late == -ESHUTDOWN || late == -ENOMEM);
    if (MAY_GO(weft_pool_reopen(pool)) == 0)
        admitted += MAY_SUBMIT(weft_pool_submit(pool, task, NULL)) == 0;
    CHECK_EQ(weft_pool_close_until(pool, WEFT_NEVER), 0);
    check_all_ran();
}

static void use_pool(void)
{
    use_pool_with((weft_pool_options){.capacity = 1});
}

static void use_fixed(void)
{
    use_pool_with(weft_pool_fixed(2));
}

static void use_scalable(void)
{
    use_pool_with(weft_pool_scalable(1, 4, 100 * WEFT_US));
}

/* Pools that share a capacity, with tasks that wait across them. */

static int nothing(void *arg)
{
    return 0;
}

static void wait_in(void *pool)
{
    weft_task *one = POISON;
    if (OPENED_GO(weft_task_start(&one, pool, nothing, NULL, NULL), one)) {
        CHECK_EQ(weft_task_wait(one, NULL), 0);
        weft_task_release(one);
    }
    atomic_u32_add_seq_cst(&ran, 1);
}

static void use_sub_pools(void)
{
    weft_pool *sub = POISON, *parent = begin_with((weft_pool_options){.capacity = 1, .queue = 8});
    if (parent == NULL)
        return;
    weft_pool_options options = {.parent = parent, .capacity = 1, .queue = 8};
    if (OPENED_GO(weft_pool_open(&sub, &options), sub)) {
        CHECK_EQ(weft_pool_close(parent), -EBUSY);
        for (int i = 0; i < 2; i++) {
            admitted += MAY_SUBMIT(weft_pool_submit(parent, wait_in, sub)) == 0;
            admitted += MAY_SUBMIT(weft_pool_submit(sub, wait_in, parent)) == 0;
            admitted += MAY_SUBMIT(weft_pool_submit(sub, task, NULL)) == 0;
        }
        CHECK_EQ(weft_pool_wait(parent, WEFT_NEVER), 0);
        CHECK_EQ(weft_pool_wait(sub, WEFT_NEVER), 0);
        CHECK_EQ(weft_pool_wait(parent, WEFT_NEVER), 0);
        CHECK_EQ(weft_pool_close(sub), 0);
    }
    CHECK_EQ(weft_pool_close(parent), 0);
    check_all_ran();
}

/* Paused, then aborted, with tasks in the queue. */

static void drop(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == task);
    atomic_u32_add_seq_cst(&dropped, 1);
}

static void use_abort(void)
{
    weft_pool *pool =
        begin_with((weft_pool_options){.capacity = 1, .queue = WEFT_UNLIMITED, .on_drop = drop});
    if (pool == NULL)
        return;
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < 100; i++) /* more than one chunk of the queue */
        admitted += MAY_SUBMIT(weft_pool_submit(pool, task, NULL)) == 0;
    CHECK_EQ(atomic_u32_load_acquire(&ran), 0);
    CHECK_EQ(weft_pool_abort(pool), admitted);
    CHECK_EQ(atomic_u32_load_acquire(&dropped), admitted);
    for (int i = 0; i < 5; i++)
        admitted += MAY_SUBMIT(weft_pool_submit(pool, task, NULL)) == 0;
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran) + atomic_u32_load_acquire(&dropped), admitted);
    check_stats(pool);
    CHECK_EQ(weft_pool_close(pool), 0);
}

/* Paused until a context ends; cancelled; ended by its context. */

static void use_contexts(void)
{
    weft_pool *pool = POISON;
    weft_context *above = POISON, *pause = POISON;
    weft_pool_options options = {.capacity = 1, .queue = WEFT_UNLIMITED, .on_drop = drop};
    begin();
    if (!OPENED(weft_context_open(&above, NULL, NULL), above, -ENOMEM))
        return;
    options.context = above;
    if (OPENED(weft_context_open(&pause, above, NULL), pause, -ENOMEM)) {
        if (OPENED_GO(weft_pool_open(&pool, &options), pool)) {
            (void)MAY(weft_pool_pause_until(pool, pause), -ENOMEM);
            admitted += MAY_SUBMIT(weft_pool_submit(pool, task, NULL)) == 0;
            (void)MAY(weft_pool_cancel(pool), -ENOMEM);
            admitted += MAY_SUBMIT(weft_pool_submit(pool, task, NULL)) == 0;
            weft_context_cancel(pause);
            CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
            check_all_ran();
            (void)MAY(weft_pool_cancel(pool), -ENOMEM);
            for (int i = 0; i < 5; i++)
                admitted += MAY_SUBMIT(weft_pool_submit(pool, task, NULL)) == 0;
            weft_context_cancel(above);
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
            check_stats(pool);
            CHECK_EQ(weft_pool_close(pool), 0);
        }
        weft_context_close(pause);
    }
    weft_context_close(above);
    CHECK_EQ(atomic_u32_load_acquire(&ran) + atomic_u32_load_acquire(&dropped), admitted);
}

/* Tasks with handles. */

enum { FETCHED = 12 };

static int fetch(void *arg)
{
    CHECK(weft_context_current() != NULL);
    task(arg);
    return FETCHED;
}

static int fetch_copy(void *arg)
{
    uint64_t *number = arg;
    ++*number;
    return fetch(arg);
}

static int fall(void *arg)
{
    task(arg);
    weft_panic("fell");
}

static void use_tasks(void)
{
    weft_pool *pool = begin_with((weft_pool_options){.capacity = 2, .queue = 8});
    if (pool == NULL)
        return;
    for (int i = 0; i < 4; i++) {
        weft_task *one = POISON;
        int result = 0;
        if (!OPENED(weft_task_start(&one, pool, i == 3 ? fall : fetch, &ran, NULL), one, -ENOMEM))
            continue;
        admitted++;
        if (i == 0) {
            CHECK_EQ(weft_task_wait(one, &result), 0);
            CHECK_EQ(result, FETCHED);
            CHECK_PTR(weft_task_arg(one), &ran);
            CHECK_EQ(weft_task_ended(one), 1);
        } else if (i == 1) {
            CHECK_EQ(weft_task_wait_until(one, NULL, WEFT_NEVER), 0);
        } else if (i == 2) {
            int cancelled = weft_task_cancel(one);
            admitted -= cancelled == 0;
            CHECK_EQ(weft_task_wait(one, &result), 0);
            CHECK_EQ(result, cancelled == 0 ? -ECANCELED : FETCHED);
        } else {
            weft_panic_info info;
            CHECK_EQ(weft_task_wait(one, &result), 0);
            CHECK_EQ(result, -EOWNERDEAD);
            CHECK_EQ(weft_task_panic(one, &info), 0);
        }
        weft_task_release(one);
    }
    CHECK_EQ(weft_pool_close(pool), 0);
    check_all_ran();
}

/* Started if there is room, with a copy and a time to run; its end as a channel. */
static void use_try_tasks(void)
{
    weft_pool *pool = begin_with((weft_pool_options){.capacity = 1, .queue = 1});
    if (pool == NULL)
        return;
    for (int i = 0; i < 4; i++) {
        weft_task *one = POISON;
        weft_chan *done = POISON;
        uint64_t number = (uint64_t)i;
        weft_submit_options with = {.copy = sizeof number, .run_timeout = 3600 * WEFT_S};
        int error = weft_task_try_start(&one, pool, fetch_copy, &number, &with);
        if (error == -EAGAIN) { /* earlier tasks may still be there */
            CHECK_PTR(one, POISON);
            CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
            continue;
        }
        if (!OPENED(error, one, -ENOMEM))
            continue;
        admitted++;
        if (OPENED(weft_task_done(one, &done), done, -ENOMEM)) {
            CHECK_EQ(weft_chan_receive(done, NULL), -ESHUTDOWN);
            CHECK_EQ(weft_task_ended(one), 1);
            CHECK_EQ(*(uint64_t *)weft_task_arg(one), number + 1);
        }
        weft_task_release(one);
    }
    CHECK_EQ(weft_pool_close(pool), 0);
    check_all_ran();
}

static void use_pool_group(void)
{
    weft_group *group = POISON;
    weft_pool *pool = begin_with((weft_pool_options){.capacity = 2});
    if (pool == NULL)
        return;
    if (OPENED_GO(weft_pool_group(&group, pool, NULL), group)) {
        for (int i = 0; i < 5; i++)
            admitted += MAY_GO(weft_group_go(group, member, NULL)) == 0;
        CHECK_EQ(weft_group_close(group), 0);
        check_all_ran();
    }
    CHECK_EQ(weft_pool_close(pool), 0);
}

/* Several pools. */

static void use_pools(void)
{
    for (int strategy = WEFT_ROUND_ROBIN; strategy <= WEFT_LEAST_BUSY; strategy++) {
        weft_pools *pools = POISON;
        weft_pool_options options = {.capacity = 1};
        weft_pool_stats stats;
        begin();
        if (!OPENED_GO(weft_pools_open(&pools, 3, strategy, &options), pools))
            continue;
        CHECK_EQ(weft_pools_count(pools), 3);
        CHECK(weft_pools_get(pools, 2) != NULL);
        for (int i = 0; i < 6; i++) {
            weft_pool *pool = weft_pools_pick(pools);
            CHECK(pool != NULL);
            admitted += MAY_SUBMIT(weft_pool_submit(pool, task, NULL)) == 0;
        }
        CHECK_EQ(weft_pools_stats(pools, &stats), 0);
        CHECK_EQ(stats.submitted, admitted);
        CHECK_EQ(weft_pools_close(pools), 0);
        check_all_ran();
    }
}

/* Delayed and periodic submits: a scheduled task needs no more memory. */
static void use_schedules(void)
{
    weft_pool *pool = POISON;
    weft_schedule *once = POISON, *often = POISON, *later = POISON;
    weft_schedule_stats stats = {.runs = 0};
    weft_pool_options options = {.capacity = 1, .on_drop = drop};
    begin();
    if (!OPENED_GO(weft_pool_open(&pool, &options), pool))
        return;
    if (OPENED_GO(weft_pool_submit_after(pool, task, NULL, WEFT_US, &once), once)) {
        while (stats.runs == 0) { /* whatever could not be made */
            CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
            CHECK_EQ(weft_schedule_stats_get(once, &stats), 0);
        }
        admitted++;
        CHECK_EQ(weft_schedule_cancel(once), 2);
        weft_schedule_release(once);
    }
    if (OPENED_GO(weft_pool_submit_every(pool, task, NULL, WEFT_MS, &often), often)) {
        do {
            CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
            CHECK_EQ(weft_schedule_stats_get(often, &stats), 0);
        } while (stats.runs == 0);
        (void)weft_schedule_cancel(often);
        CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
        CHECK_EQ(weft_schedule_stats_get(often, &stats), 0);
        admitted += (uint32_t)stats.runs;
        weft_schedule_release(often);
    }
    weft_schedule_options hour = {.delay = 3600 * WEFT_S};
    uint32_t drops = OPENED_GO(weft_pool_schedule(pool, task, NULL, &hour, &later), later);
    if (drops)
        weft_schedule_release(later);
    CHECK_EQ(weft_pool_close(pool), 0);
    check_all_ran();
    CHECK_EQ(atomic_u32_load_acquire(&dropped), drops);
}

/* The default pool is never closed, but holds the runtime only while it has workers. */
static void use_default(void)
{
    begin();
    weft_pool *pool = weft_pool_default();
    if (pool == NULL) {
        atomic_u32_add_relaxed(&scene.errors, 1);
        return;
    }
    /* So small that it has no outboxes: their memory stays with the pool, which is not closed. */
    CHECK_EQ(weft_pool_tune(pool, 100), 0);
    for (int i = 0; i < 3; i++)
        admitted += MAY_SUBMIT(weft_pool_submit(pool, task, NULL)) == 0;
    CHECK_EQ(weft_pool_close(pool), -EBUSY);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    check_all_ran();
    (void)MAY_GO(weft_pool_reopen(pool));
}

int main(void)
{
    static const struct scenario all[] = {
        {"group", use_group},         {"pool", use_pool},
        {"fixed", use_fixed},         {"scalable", use_scalable},
        {"abort", use_abort},         {"tasks", use_tasks},
        {"try tasks", use_try_tasks}, {"pool group", use_pool_group},
        {"sub-pools", use_sub_pools}, {"pools", use_pools},
        {"default", use_default},     {"schedules", use_schedules},
        {"contexts", use_contexts},
    };
    scenarios_run(all, sizeof all / sizeof all[0]);
    return 0;
}
