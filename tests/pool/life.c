/*
 * life.c: stop, close and reopen: which submits they refuse, which tasks they wait for, and that
 * nothing is left of a closed pool. The default pool, which is never closed.
 */
#include <dirent.h>

#include "base/compiler.h"
#include "pool/admission.h"
#include "pool/pool.h"
#include "system.h"
#include "tasks.h"

static atomic_u32 ran;

static void count_slowly(void *arg)
{
    CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
    weft_yield();
    count_task(arg);
}

static void close_waits_for_all(void *arg)
{
    for (int64_t queue = 0; queue < 200; queue += 64) {
        weft_pool *pool = POOL_OPEN(.capacity = 5, .queue = queue);
        atomic_u32_store_relaxed(&ran, 0);
        for (int i = 0; i < 100; i++)
            CHECK_EQ(weft_pool_submit(pool, i % 3 == 0 ? count_slowly : count_task, &ran), 0);
        pool_close(pool);
        CHECK_EQ(count_of(&ran), 100);
    }
    pool_close(POOL_OPEN(.capacity = 1)); /* never used */
    pool_close(POOL_OPEN(.capacity = 8, .prestart = 8));
    pool_close(pool_open(weft_pool_fixed(4)));
    pool_close(pool_open(weft_pool_scalable(2, 8, WEFT_MS)));
}

static void close_has_a_deadline(void *arg)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 10);
    gate_shut_and_fill(&gate, pool, 2);
    atomic_u32_store_relaxed(&ran, 0);
    submit_counts(pool, &ran, 5);
    CHECK_EQ(weft_pool_close_until(pool, WEFT_NOW), -ETIMEDOUT);
    int64_t deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_pool_close_until(pool, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_pool_stop(pool, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -ESHUTDOWN);
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), -ESHUTDOWN);
    CHECK_EQ(weft_pool_reopen(pool), -EBUSY);
    CHECK_EQ(pool_stats(pool).running, 2);
    gate_open(&gate);
    CHECK_EQ(weft_pool_close_until(pool, weft_after(LONG)), 0);
    CHECK_EQ(count_of(&ran), 5);
}

struct stopper {
    weft_pool *pool;
    weft_context *context;
    atomic_u32 begun;
};

static void stop_in_context(void *arg)
{
    struct stopper *stopper = arg;
    CHECK_EQ(weft_context_bind(stopper->context, NULL), 0);
    count_task(&stopper->begun);
    CHECK_EQ(weft_pool_stop(stopper->pool, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_pool_stop(stopper->pool, WEFT_NEVER), -ECANCELED); /* cancelled before the call */
    CHECK_EQ(weft_pool_close_until(stopper->pool, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void a_context_ends_stop_but_not_close(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct gate gate;
        struct stopper stopper = {.pool = POOL_OPEN(.capacity = 2), .context = new_context()};
        gate_shut_and_fill(&gate, stopper.pool, 2);
        struct body body = {.function = stop_in_context, .arg = &stopper, .thread = thread};
        body_start(&body);
        await_count(&stopper.begun, 1);
        weft_context_cancel(stopper.context);
        body_join(&body);
        gate_open_and_close(&gate, stopper.pool);
        weft_context_close(stopper.context);
    }
}

/* Stop and reopen. */

static void a_stopped_pool_may_be_opened_again(void *arg)
{
    static const weft_pool_options all[] = {
        {.capacity = 3, .queue = 10},
        {.capacity = 3, .queue = 10, .prestart = 3},
        {.capacity = 3, .shrink = 2, .expiry = WEFT_MS},
    };
    for (int i = 0; i < 3; i++) {
        weft_pool *pool = pool_open(all[i]);
        CHECK_EQ(weft_pool_reopen(pool), -EBUSY); /* it is open */
        for (int round = 1; round <= 5; round++) {
            atomic_u32_store_relaxed(&ran, 0);
            submit_counts(pool, &ran, 50);
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
            CHECK_EQ(count_of(&ran), 50);
            CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), 0); /* it is stopped */
            CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -ESHUTDOWN);
            CHECK_FIGURES(pool, IS(completed, round * 50), IS(rejected, round), IS(workers, 0),
                          IS(idle, 0), IS(running, 0), IS(queued, 0));
            CHECK_EQ(weft_pool_reopen(pool), 0);
        }
        pool_close(pool);
    }
}

enum { BLOCKED = 6 };

/* A submitter in the line of a full pool is refused when the pool stops or is closed. */
static void turn_away(bool close)
{
    static struct gate gate;
    struct submission own[BLOCKED];
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&ran, 0);
    for (int i = 0; i < BLOCKED; i++) {
        submission_start_with(
            &own[i],
            (struct submission){.pool = pool,
                                .function = count_task,
                                .arg = &ran,
                                .deadline = i % 3 == 0 ? weft_after(LONG) : WEFT_NEVER},
            i % 2 == 0);
    }
    AWAIT_FIGURE(pool, blocked, BLOCKED);
    CHECK_EQ(close ? weft_pool_close_until(pool, WEFT_NOW) : weft_pool_stop(pool, WEFT_NOW),
             -ETIMEDOUT);
    for (int i = 0; i < BLOCKED; i++)
        CHECK_EQ(submission_end(&own[i]), -ESHUTDOWN);
    CHECK_FIGURES(pool, IS(blocked, 0), IS(running, 1));
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran), 0);
}

static void the_end_refuses_the_line(void)
{
    turn_away(false);
    turn_away(true);
}

/* A submitter gives up at the moment at which the pool is closed: close waits until it has left the
 * line. */

struct closer {
    weft_pool *pool;
    atomic_u32 closed;
};

static void close_all(void *arg)
{
    struct closer *closer = arg;
    pool_close(closer->pool);
    atomic_u32_store_release(&closer->closed, 1);
}

/* A thread first looks by itself for a while, and only then can be woken. */
static void await_asleep(weft_pool *pool)
{
    for (bool asleep = false; !asleep; weft_yield()) {
        latch_acquire(pool->latch);
        asleep = pool->line.length == 1 && pool->napping == 0;
        latch_release(pool->latch);
    }
}

static void a_submitter_that_gives_up_sees_the_end(void)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    gate_shut_and_fill(&gate, pool, 1);
    struct submission own = {
        .pool = pool, .function = count_task, .arg = &ran, .deadline = weft_after(LONG)};
    struct body body = {.function = submission_main, .arg = &own, .thread = true};
    struct closer closer = {.pool = pool};
    struct body closing = {.function = close_all, .arg = &closer, .thread = true};
    body_start(&body);
    await_asleep(pool);

    /* As the clock would: it has lost, but does not know it yet. */
    latch_acquire(pool->latch);
    struct waiter *waiter = ((struct submitter *)(void *)pool->line.first)->waiter;
    CHECK(waiter_claim(waiter, -ETIMEDOUT));
    latch_release(pool->latch);
    body_start(&closing);
    while (weft_pool_state(pool) == WEFT_POOL_OPEN)
        weft_yield();
    gate_open(&gate);
    await(&gate.gauge.now, 0);
    for (int i = 0; i < 100; i++)
        weft_yield(); /* close goes as far as it can */
    wake_ended(waiter);
    body_join(&body);
    body_join(&closing);
    CHECK_EQ(own.result, -ETIMEDOUT);
}

/* Submits against a stop: each is run to its end before the stop returns, or fails. */

enum { RACERS = 4 };

static struct {
    weft_pool *pool;
    atomic_u32 admitted, ran, go, late;
    atomic_u32 stopped;
} race;

static void race_task(void *arg)
{
    if (arg != NULL)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    if (count_of(&race.stopped))
        atomic_u32_add_seq_cst(&race.late, 1);
    atomic_u32_add_seq_cst(&race.ran, 1);
}

static void race_submit(void *arg)
{
    static char sleeps;
    while (!count_of(&race.go))
        weft_yield();
    for (int64_t i = 0;; i++) {
        int error = weft_pool_submit(race.pool, race_task, i % 7 == 0 ? &sleeps : NULL);
        if (error != 0) {
            CHECK_EQ(error, -ESHUTDOWN);
            return;
        }
        atomic_u32_add_seq_cst(&race.admitted, 1);
    }
}

static void race_with_the_end(void *arg)
{
    int64_t rounds = test_scale(150);
    for (int64_t round = 0; round < rounds; round++) {
        struct body bodies[RACERS];
        memset(&race, 0, sizeof race);
        race.pool = POOL_OPEN(.capacity = 1 + round % 4, .queue = round % 3 * 10);
        for (int i = 0; i < RACERS; i++) {
            bodies[i] = (struct body){.function = race_submit, .thread = i % 2 == round % 2};
            body_start(&bodies[i]);
        }
        atomic_u32_store_release(&race.go, 1);
        await_at_least(&race.ran, (uint32_t)(round % 50));
        CHECK_EQ(weft_pool_stop(race.pool, WEFT_NEVER), 0);
        atomic_u32_store_release(&race.stopped, 1);
        uint32_t at_the_end = count_of(&race.ran);
        for (int i = 0; i < RACERS; i++)
            body_join(&bodies[i]);
        CHECK_EQ(count_of(&race.admitted), at_the_end); /* none was lost */
        CHECK_EQ(count_of(&race.ran), at_the_end);      /* none came later */
        CHECK_EQ(count_of(&race.late), 0);
        pool_close(race.pool);
    }
}

static void a_submit_is_before_the_end_or_fails(void)
{
    race_with_the_end(NULL);
    on_processors(1, race_with_the_end, NULL);
    on_processors(3, race_with_the_end, NULL);
}

/* The tasks of a pool that stops may submit. */

static struct {
    weft_pool *pool;
    struct gate gate;
    atomic_u32 ran;
} family;

static void generation(void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    atomic_u32_add_seq_cst(&family.ran, 1);
    if (left % 3 == 0)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    if (left > 0)
        CHECK_EQ(weft_pool_submit(family.pool, generation, (void *)(left - 1)), 0);
}

static void ancestor(void *arg)
{
    void *batch[3] = {NULL, NULL, NULL};
    gate_task(&family.gate);
    CHECK_EQ(weft_pool_submit_batch(family.pool, generation, batch, 3, WEFT_NEVER), 3);
    generation(arg);
}

static void tasks_may_submit_to_the_end(void *arg)
{
    for (int64_t capacity = 1; capacity <= 3; capacity++)
        for (int64_t queue = 0; queue <= 10; queue += 10) {
            family.pool = POOL_OPEN(.capacity = capacity, .queue = queue);
            atomic_u32_store_relaxed(&family.ran, 0);
            gate_shut(&family.gate);
            CHECK_EQ(weft_pool_submit(family.pool, ancestor, (void *)(uintptr_t)100), 0);
            await(&family.gate.gauge.now, 1);
            CHECK_EQ(weft_pool_close_until(family.pool, WEFT_NOW), -ETIMEDOUT);
            gate_open_and_close(&family.gate, family.pool);
            CHECK_EQ(count_of(&family.ran), 104);
        }
}

static void end_from_inside(void *arg)
{
    weft_pool *pool = arg;
    CHECK_EQ(weft_pool_close(pool), -EDEADLK);
    CHECK_EQ(weft_pool_close_until(pool, WEFT_NOW), -EDEADLK);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0); /* nothing has happened */
}

static void close_other(void *arg)
{
    CHECK_EQ(weft_pool_close(arg), 0);
}

static void close_from_its_own_task_is_refused(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 10);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit(pool, end_from_inside, pool), 0);
    await(&ran, 1);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    weft_pool *other = POOL_OPEN(.capacity = 2, .queue = 10);
    submit_counts(other, &ran, 5);
    CHECK_EQ(weft_pool_submit(pool, close_other, other), 0); /* another's is fine */
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 7);
}

/* Nothing is left. */

static int threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    int count = 0;
    CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static atomic_u32 workers_now;

static int worker_starts(void **state, void *data)
{
    *state = data;
    atomic_u32_add_seq_cst(&workers_now, 1);
    return 0;
}

static void worker_exits(void *state, void *data)
{
    CHECK_PTR(state, data);
    atomic_u32_sub_seq_cst(&workers_now, 1);
}

static void live(int64_t number)
{
    weft_pool_options options = {.capacity = 1 + number % 20,
                                 .queue = number % 3 * 10,
                                 .prestart = number % 5 == 0,
                                 .keep = number % 4,
                                 .shrink = number % 6 == 0 ? 4 : 0,
                                 .expiry = number % 2 == 0 ? WEFT_US : LONG,
                                 .on_worker_start = worker_starts,
                                 .on_worker_exit = worker_exits,
                                 .data = &workers_now};
    weft_pool *pool = pool_open(options);
    for (int i = 0; i < 60; i++) {
        weft_submit_options submit = {.key = (uint64_t)(i % 4), .priority = i % 3 - 1};
        CHECK_EQ(weft_pool_submit_with(pool, i % 5 == 0 ? count_slowly : count_task, &ran, &submit),
                 0);
    }
    pool_close(pool);
    CHECK_EQ(count_of(&workers_now), 0);
}

static void nothing_is_left_after_close(void)
{
    int64_t rounds = test_scale(150);
    for (int64_t i = 0; i < 60; i++) /* memory that libc and the runtime keep */
        live(i);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    int threads_before = threads();
    size_t before = heap_in_use();
    for (int64_t i = 0; i < rounds; i++)
        live(i);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* no fiber is left, and no timer */
    size_t after = heap_in_use();
    printf("  memory in use: %zu before, %zu after\n", before, after);
    if (!WEFT_ASAN && !WEFT_TSAN) /* they have allocators of their own, and look for leaks */
        CHECK(after < before + 4096);
    while (threads() > threads_before) /* the kernel may take a moment to forget one */
        CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
}

/* The default pool. */

static atomic_ptr found;

static void find_default(void *arg)
{
    void *none = NULL;
    weft_pool *pool = weft_pool_default();
    CHECK(pool != NULL);
    CHECK(atomic_ptr_cas_acq_rel(&found, &none, pool) || none == pool); /* the same for all */
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
}

static void the_default_pool_is_there(void)
{
    enum { MANY = 8 };
    atomic_u32_store_relaxed(&ran, 0);
    run_many(find_default, NULL, MANY);
    await(&ran, MANY);
    CHECK_EQ(pool_stats(weft_pool_default()).capacity, 10000);
    CHECK_EQ(weft_pool_stop(weft_pool_default(), WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_close(weft_pool_default()), -EBUSY);
    CHECK_EQ(weft_pool_reopen(weft_pool_default()), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* and is so when the runtime has started again */
    find_default(NULL);
    await(&ran, MANY + 1);
    CHECK_EQ(weft_pool_stop(weft_pool_default(), WEFT_NEVER), 0);
}

/* Idle workers of the default pool expire after a second; a shut-down ends them at once. There are
 * several tries: a slow machine may need a second for one, not for all. */
static void a_shut_down_does_not_wait_for_idle_workers(void)
{
    for (int i = 0; i < 10; i++) {
        atomic_u32_store_relaxed(&ran, 0);
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

/* The default pool outlives a shut-down, and the runtime may start again with more processors, or
 * fewer. */

static atomic_u32 met, ended;

static void wait_a_little(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    atomic_u32_add_seq_cst(&ended, 1);
}

/* And keeps its processor until another does the same: so they are on two. */
static void meet_another(void *arg)
{
    wait_a_little(arg);
    uint32_t number = atomic_u32_add_seq_cst(&met, 1);
    while (count_of(&met) < (number | 1) + 1)
        cpu_relax();
}

static void run_on(int processors)
{
    enum { TASKS = 40 };
    CHECK_EQ(weft_configure(&(weft_config){.processors = processors}), 0);
    weft_pool *pool = weft_pool_default();
    CHECK(pool != NULL);
    CHECK_EQ(weft_processors(), processors);
    atomic_u32_store_relaxed(&met, 0);
    atomic_u32_store_relaxed(&ended, 0);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(weft_pool_submit(pool, processors > 1 ? meet_another : wait_a_little, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ended), TASKS);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_reopen(pool), 0); /* starts the runtime */
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void with_other_processors(void)
{
    run_on(1);
    run_on(2);
    run_on(4);
    run_on(1);
}

int main(void)
{
    RUN_EVERYWHERE(close_waits_for_all);
    RUN_EVERYWHERE(close_has_a_deadline);
    RUN_BOTH(a_context_ends_stop_but_not_close);
    RUN_EVERYWHERE(a_stopped_pool_may_be_opened_again);
    RUN_BOTH(the_end_refuses_the_line);
    RUN_BOTH(a_submitter_that_gives_up_sees_the_end);
    RUN_BOTH(a_submit_is_before_the_end_or_fails);
    RUN_EVERYWHERE(tasks_may_submit_to_the_end);
    RUN_BOTH(close_from_its_own_task_is_refused);
    RUN_PLAIN(nothing_is_left_after_close, "stops or configures the runtime");
    RUN_PLAIN(a_shut_down_does_not_wait_for_idle_workers, "it stops the runtime");
    RUN_PLAIN(the_default_pool_is_there, "stops or configures the runtime");
    CHECK_EQ(weft_pool_reopen(weft_pool_default()), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    RUN_PLAIN(with_other_processors, "stops or configures the runtime");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
