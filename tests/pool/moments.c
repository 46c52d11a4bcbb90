/*
 * moments.c: events that coincide or are rare: ends at a deadline, slow and failing starts of
 * workers, drops of cancelled tasks, pauses between two tasks of one worker.
 */
#include <weft/task.h>

#include "os/failure.h"
#include "os/os.h"
#include "pool/queue.h"
#include "tasks.h"

static atomic_u32 ran;

/* A task ends at the deadline of the wait for it. */

static int64_t moment;

static int end_then(void *arg)
{
    CHECK_EQ(weft_sleep_until(moment), 0);
    return 3;
}

static void ends_at_a_deadline(void)
{
    for (int i = 0; i < 20; i++) {
        int result = 0;
        weft_pool *pool = POOL_OPEN(.capacity = 1);
        moment = weft_after(100 * WEFT_US);
        weft_task *task = start_task(pool, end_then, NULL);
        int error = weft_task_wait_until(task, &result, moment);
        CHECK(error == 0 || error == -ETIMEDOUT);
        CHECK_EQ(result, error == 0 ? 3 : 0); /* all of it, or nothing */
        if (test_seeded && error == -ETIMEDOUT)
            CHECK(!weft_task_ended(task)); /* no fiber runs in between */
        CHECK_EQ(end_task(task), 3);
        pool_close(pool);
    }
}

/* A stop, too. */
static void stops_at_a_deadline(void)
{
    for (int i = 0; i < 20; i++) {
        weft_pool *pool = POOL_OPEN(.capacity = 1);
        moment = weft_after(100 * WEFT_US);
        weft_task *task = start_task(pool, end_then, &ran);
        int error = weft_pool_stop(pool, moment);
        CHECK(error == 0 || error == -ETIMEDOUT);
        CHECK(error != 0 || weft_task_ended(task));
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        weft_task_release(task);
        pool_close(pool);
    }
}

static atomic_u32 starts, fails, lines;

static int start_slowly(void **state, void *data)
{
    atomic_u32_add_seq_cst(&starts, 1);
    CHECK_EQ(weft_sleep(WEFT_MS), 0); /* the pool may make others meanwhile */
    return 0;
}

static void starts_that_wait(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 3, .queue = 20, .on_worker_start = start_slowly);
    atomic_u32_store_relaxed(&starts, 0);
    atomic_u32_store_relaxed(&ran, 0);
    submit_counts(pool, &ran, 10);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 10);
    CHECK(count_of(&starts) >= 1 && count_of(&starts) <= 3);
}

static int start_at_last(void **state, void *data)
{
    return atomic_u32_add_seq_cst(&fails, 1) < 10 ? -EIO : 0;
}

static void count_line(const char *line, void *data)
{
    CHECK(strstr(line, "could not start") != NULL);
    atomic_u32_add_seq_cst(&lines, 1);
}

/* Tried again ever more rarely, at most once a second: more than two seconds of made-up time. */
static void starts_that_fail_for_long(void)
{
    int64_t before = weft_now();
    weft_pool *pool =
        POOL_OPEN(.capacity = 1, .queue = 4, .on_worker_start = start_at_last, .log = count_line);
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&fails, 0);
    atomic_u32_store_relaxed(&lines, 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 1);
    CHECK_EQ(count_of(&lines), 10);
    CHECK(weft_now() - before >= 2 * WEFT_S && weft_now() - before < 6 * WEFT_S);
}

static int start_second(void **state, void *data)
{
    return atomic_u32_add_seq_cst(&fails, 1) == 0 ? -EIO : 0;
}

static void fail_once(void)
{
    weft_pool *pool =
        POOL_OPEN(.capacity = 1, .queue = 4, .name = "hesitant", .on_worker_start = start_second);
    atomic_u32_store_relaxed(&fails, 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    pool_close(pool);
}

static void without_a_log_it_is_said(void)
{
    const char *said = test_stderr_of(fail_once);
    CHECK(strstr(said, "weft: pool \"hesitant\": a worker could not start: ") != NULL);
}

static void what_was_cancelled_is_dropped(void)
{
    struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 1, .when_full = WEFT_DROP_OLDEST);
    atomic_u32_store_relaxed(&ran, 0);
    gate_shut_and_fill(&gate, pool, 1);
    weft_task *task = start_task(pool, count_handle, &ran);
    CHECK_EQ(weft_task_cancel(task), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0); /* in its place */
    CHECK_EQ(task_result(task), -ECANCELED);
    CHECK_EQ(pool_stats(pool).dropped, 0); /* nothing had to go for it */
    weft_task_release(task);
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran), 1);
}

/* A pause while the inbox of a processor has tasks, and there is no memory: none of them begins. */

static weft_pool *paused;
static atomic_u32 in_first, after_pause;

static void pause_first(void *arg)
{
    if (atomic_u32_exchange_acq_rel(&in_first, 1) != 0) {
        atomic_u32_add_seq_cst(&after_pause, 1);
        return;
    }
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_pool_pause(paused), 0);
    weft__os_fail(OS_ALLOC, 0, false);
}

static void paused_between_two(void *arg)
{
    enum { MANY = 100 };
    paused = POOL_OPEN(.capacity = 2, .queue = MANY);
    atomic_u32_store_relaxed(&in_first, 0);
    atomic_u32_store_relaxed(&after_pause, 0);
    CHECK_EQ(weft_pool_pause(paused), 0);
    submit_many(paused, pause_first, NULL, MANY);
    CHECK_EQ(weft_pool_resume(paused), 0);
    await_count(&in_first, 1);
    AWAIT_FIGURE(paused, running, 0);
    CHECK_EQ(count_of(&after_pause), 0);
    CHECK_EQ(pool_waiting(paused), MANY - 1);
    CHECK_EQ(weft_pool_resume(paused), 0);
    pool_close(paused);
    CHECK_EQ(count_of(&after_pause), MANY - 1);
}

/* The capacity falls below the number of workers: one waits, the other takes from the inbox. */

static struct {
    weft_pool *pool;
    struct gate gate;
    atomic_u32 begun;
} tuned;

enum { TUNES = 3 * CHUNK_PLAIN + 5, TUNED_MANY = 5 * CHUNK_PLAIN }; /* in the middle of a chunk */

static void tune_at_last(void *arg)
{
    if (atomic_u32_add_seq_cst(&tuned.begun, 1) != TUNES)
        return;
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_pool_tune(tuned.pool, 1), 0);
    weft__os_fail(OS_ALLOC, 0, false);
}

static void tuned_between_two(void *arg)
{
    tuned.pool = POOL_OPEN(.capacity = 2, .queue = TUNED_MANY);
    atomic_u32_store_relaxed(&tuned.begun, 0);
    gate_shut_and_fill(&tuned.gate, tuned.pool, 1);
    submit_many(tuned.pool, tune_at_last, NULL, TUNED_MANY);
    await_at_least(&tuned.begun, TUNES + 1);
    AWAIT_FIGURE(tuned.pool, running, 1);        /* at the gate */
    CHECK_EQ(count_of(&tuned.begun), TUNES + 1); /* none after that one */
    CHECK_EQ(pool_stats(tuned.pool).queued, TUNED_MANY - TUNES - 1);
    gate_open_and_close(&tuned.gate, tuned.pool);
    CHECK_EQ(count_of(&tuned.begun), TUNED_MANY);
}

static void pauses_between_two_tasks(void)
{
    on_one_machine(paused_between_two, NULL);
    on_one_machine(tuned_between_two, NULL);
}

int main(void)
{
    RUN_BOTH(ends_at_a_deadline);
    RUN_BOTH(stops_at_a_deadline);
    RUN_BOTH(starts_that_wait);
    RUN_SEEDS(starts_that_fail_for_long);
    RUN_PLAIN(without_a_log_it_is_said, "looks at what is written");
    RUN_BOTH(what_was_cancelled_is_dropped);
    RUN_PLAIN(pauses_between_two_tasks, "no allocation succeeds meanwhile");
    return 0;
}
