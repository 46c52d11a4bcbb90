/*
 * admission.c: how many tasks of a pool run at once: at most its capacity, whatever the tasks do.
 * And options and arguments that a pool refuses.
 */
#include "sync/lines.h"
#include "tasks.h"

static atomic_u32 ran;

static void refuse_options(weft_pool_options options)
{
    weft_pool *pool = POOL_POISON;
    CHECK_EQ(weft_pool_open(&pool, &options), -EINVAL);
    CHECK_PTR(pool, POOL_POISON);
}

static void check_options(void *arg)
{
    CHECK_EQ(weft_pool_open(NULL, NULL), -EINVAL);
    refuse_options((weft_pool_options){.capacity = -1});
    refuse_options((weft_pool_options){.capacity = INT64_MIN});
    refuse_options((weft_pool_options){.queue = -1});
    refuse_options((weft_pool_options){.max_blocked = -1});
    refuse_options((weft_pool_options){.when_full = -1});
    refuse_options((weft_pool_options){.when_full = WEFT_DROP_OLDEST + 1});
    refuse_options((weft_pool_options){.reuse = -1});
    refuse_options((weft_pool_options){.reuse = WEFT_FIFO + 1});
    refuse_options((weft_pool_options){.keep = -1});
    refuse_options((weft_pool_options){.prestart = -1});
    refuse_options((weft_pool_options){.capacity = 2, .prestart = 3});
    refuse_options((weft_pool_options){.prestart = 10001});
    refuse_options((weft_pool_options){.prestart = WEFT_UNLIMITED});
    refuse_options((weft_pool_options){.capacity = WEFT_UNLIMITED, .prestart = WEFT_UNLIMITED});
    refuse_options(weft_pool_fixed(0)); /* not the default */
    refuse_options(weft_pool_fixed(-1));
    refuse_options(weft_pool_scalable(0, 0, WEFT_S));
    refuse_options((weft_pool_options){.shrink = 1000001});
    refuse_options((weft_pool_options){.expiry = -1});
    refuse_options((weft_pool_options){.shrink = -1});
    refuse_options((weft_pool_options){.max_crashes = -1});
    refuse_options((weft_pool_options){.stack_size = 1});
    refuse_options((weft_pool_options){.stack_size = SIZE_MAX});
    weft_pool_options options = {.capacity = 1};
    for (size_t i = 0; i < sizeof options.reserved / sizeof options.reserved[0]; i++) {
        options.reserved[i] = 1;
        refuse_options(options);
        options.reserved[i] = 0;
    }
}

static void refuse_submit(weft_pool *pool, weft_submit_options options)
{
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &options), -EINVAL);
}

static void check_submits(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    void *args[] = {&ran, &ran};
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit(NULL, count_task, &ran), -EINVAL);
    CHECK_EQ(weft_pool_submit(pool, NULL, &ran), -EINVAL);
    CHECK_EQ(weft_pool_submit_until(NULL, count_task, &ran, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_until(pool, NULL, &ran, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_try_submit(NULL, count_task, &ran), -EINVAL);
    CHECK_EQ(weft_pool_try_submit(pool, NULL, &ran), -EINVAL);
    CHECK_EQ(weft_pool_invoke(NULL, &ran), -EINVAL);
    CHECK_EQ(weft_pool_invoke(pool, &ran), -EINVAL); /* it has no function */
    CHECK_EQ(weft_pool_invoke_until(pool, &ran, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_try_invoke(pool, &ran), -EINVAL);
    CHECK_EQ(weft_pool_submit_with(NULL, count_task, &ran, NULL), -EINVAL);
    CHECK_EQ(weft_pool_submit_with(pool, NULL, &ran, NULL), -EINVAL);
    refuse_submit(pool, (weft_submit_options){.priority = WEFT_HIGH + 1});
    refuse_submit(pool, (weft_submit_options){.priority = WEFT_LOW - 1});
    refuse_submit(pool, (weft_submit_options){.copy = WEFT_COPY_MAX + 1});
    for (int i = 0; i < 4; i++) {
        weft_submit_options options = {.priority = WEFT_NORMAL};
        options.reserved[i] = 1;
        refuse_submit(pool, options);
    }
    CHECK_EQ(weft_pool_submit_with(pool, count_task, NULL, &(weft_submit_options){.copy = 1}),
             -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(NULL, count_task, args, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(pool, NULL, args, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, NULL, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, args, -1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, NULL, 0, WEFT_NEVER), 0);

    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.submitted, 0);
    CHECK_EQ(weft_pool_stats_get(NULL, &stats), -EINVAL);
    CHECK_EQ(weft_pool_stats_get(pool, NULL), -EINVAL);
    CHECK_EQ(weft_pool_tune(NULL, 1), -EINVAL);
    CHECK_EQ(weft_pool_tune(pool, 0), -EINVAL);
    CHECK_EQ(weft_pool_tune(pool, -1), -EINVAL);
    CHECK_EQ(weft_pool_pause(NULL), -EINVAL);
    CHECK_EQ(weft_pool_resume(NULL), -EINVAL);
    CHECK_EQ(weft_pool_abort(NULL), -EINVAL);
    CHECK_EQ(weft_pool_wait(NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_stop(NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_reopen(NULL), -EINVAL);
    CHECK_EQ(weft_pool_close(NULL), -EINVAL);
    CHECK_EQ(weft_pool_close_until(NULL, WEFT_NEVER), -EINVAL);
    CHECK_PTR(weft_pool_worker_state(), NULL);
    CHECK_EQ(pool_stats(pool).capacity, 1);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0); /* the refused calls did no harm */
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 1);
}

static void wrong_arguments_are_refused(void)
{
    everywhere(check_options);
    everywhere(check_submits);
}

struct kind {
    struct gauge gauge;
    weft_chan *chan;
    int64_t turns;
};

static void sleeps(void *arg)
{
    struct kind *kind = arg;
    gauge_enter(&kind->gauge);
    CHECK_EQ(weft_sleep(20 * WEFT_US), 0);
    gauge_leave(&kind->gauge);
}

/* Each receives an element that another has sent. */
static void exchanges(void *arg)
{
    struct kind *kind = arg;
    int value = 1;
    gauge_enter(&kind->gauge);
    CHECK_EQ(weft_chan_send(kind->chan, &value), 0);
    weft_yield();
    CHECK_EQ(weft_chan_receive(kind->chan, &value), 0);
    gauge_leave(&kind->gauge);
}

static void computes(void *arg)
{
    struct kind *kind = arg;
    gauge_enter(&kind->gauge);
    for (int64_t i = 0; i < kind->turns; i++)
        cpu_relax();
    gauge_leave(&kind->gauge);
}

static void mixes(void *arg)
{
    static void (*const kinds[])(void *) = {sleeps, exchanges, computes};
    struct kind *kind = arg;
    kinds[gauge_total(&kind->gauge) % 3](arg);
}

static void hold_capacity(void (*function)(void *), int64_t capacity, int64_t queue)
{
    struct kind kind = {.chan = make_chan(sizeof(int), 1), .turns = 200};
    int64_t count = test_scale(2000);
    weft_pool *pool = POOL_OPEN(.capacity = capacity, .queue = queue);
    submit_many(pool, function, &kind, count);
    pool_close(pool);
    CHECK_EQ(gauge_total(&kind.gauge), count);
    CHECK_EQ(count_of(&kind.gauge.now), 0);
    CHECK(gauge_most(&kind.gauge) <= capacity);
    weft_chan_destroy(kind.chan);
}

static void hold_capacities(void *arg)
{
    static void (*const kinds[])(void *) = {sleeps, exchanges, computes, mixes};
    for (int i = 0; i < 4; i++)
        for (int64_t capacity = 1; capacity <= 9; capacity *= 3)
            hold_capacity(kinds[i], capacity, i % 2 == 0 ? 0 : WEFT_UNLIMITED);
}

static void no_more_run_than_the_capacity(void)
{
    hold_capacities(NULL);
    on_processors(1, hold_capacities, NULL);
    on_processors(3, hold_capacities, NULL);
}

static void as_many_run_as_the_capacity(void *arg)
{
    static struct gate gate;
    for (uint32_t capacity = 1; capacity <= 64; capacity *= 4) {
        weft_pool *pool = POOL_OPEN(.capacity = capacity, .queue = WEFT_UNLIMITED);
        gate_shut(&gate);
        submit_many(pool, gate_task, &gate, 3 * capacity);
        await(&gate.gauge.now, capacity);
        CHECK_FIGURES(pool, IS(running, capacity), IS(queued, 2 * capacity), IS(workers, capacity),
                      IS(idle, 0));
        gate_open_and_close(&gate, pool);
        CHECK_EQ(gauge_most(&gate.gauge), capacity);
        CHECK_EQ(gauge_total(&gate.gauge), 3 * capacity);
    }
}

/* Tasks that keep their processor until one runs on each. */

static struct {
    atomic_u32 begun, all;
} spinners;

static void spin_together(void *arg)
{
    atomic_u32_add_seq_cst(&spinners.begun, 1);
    while (count_of(&spinners.begun) < count_of(&spinners.all))
        sched_yield();
}

static void tasks_that_compute_share_the_processors(void)
{
    int64_t rounds = test_scale(60);
    for (uint32_t processors = 2; processors <= 4; processors++) {
        weft_config config = {.processors = (int)processors};
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(weft_configure(&config), 0);
        atomic_u32_store_relaxed(&spinners.all, processors);
        weft_pool *pool = POOL_OPEN(.queue = WEFT_UNLIMITED);
        for (int64_t i = 0; i < rounds; i++) {
            atomic_u32_store_relaxed(&spinners.begun, 0);
            submit_many(pool, spin_together, NULL, processors);
            AWAIT_FIGURE(pool, completed, (i + 1) * processors);
        }
        pool_close(pool);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(weft_configure(NULL), 0);
    }
}

static void the_default_is_ten_thousand(void)
{
    weft_pool *pool;
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_open(&pool, NULL), 0);
    CHECK_FIGURES(pool, IS(capacity, 10000), IS(workers, 0), IS(most_workers, 0));
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < 10000; i++)
        CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), 0);
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), -EAGAIN);
    CHECK_EQ(count_of(&ran), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 10000);
}

static void unlimited_has_no_limit(void)
{
    static struct gate gate;
    uint32_t count = (uint32_t)test_scale(test_seeded ? 2000 : 20000);
    weft_pool *pool = POOL_OPEN(.capacity = WEFT_UNLIMITED);
    CHECK_EQ(pool_stats(pool).capacity, WEFT_UNLIMITED);
    gate_shut_and_fill(&gate, pool, count);
    gate_open_and_close(&gate, pool);

    pool = POOL_OPEN(.capacity = 1, .queue = WEFT_UNLIMITED);
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&ran, 0);
    for (uint32_t i = 0; i < 5 * count; i++)
        CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), 0);
    CHECK_EQ(pool_stats(pool).queued, 5 * count);
    CHECK_EQ(count_of(&ran), 0);
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran), 5 * count);
}

/* Opens a pool once the fibers of the workers of a closed one are gone. */
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

int main(void)
{
    RUN_PLAIN(wrong_arguments_are_refused, "nothing waits");
    RUN_BOTH(no_more_run_than_the_capacity);
    RUN_AT(as_many_run_as_the_capacity, EVERYWHERE, 1);
    RUN_PLAIN(tasks_that_compute_share_the_processors,
              "holds a processor while others run on another one");
    RUN_BOTH(the_default_is_ten_thousand);
    RUN_BOTH(unlimited_has_no_limit);
    RUN_PLAIN(a_failed_prestart_says_why, "it configures the runtime");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
