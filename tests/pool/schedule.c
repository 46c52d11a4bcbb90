/*
 * schedule.c: delayed and periodic submits. The times of runs are checked to the nanosecond, in
 * the time of seeds.
 */
#include "faults.h"
#include "schedules.h"

#define TICK (10 * WEFT_MS)

/* Runs and their times. Under a seed there is one processor, so there are no concurrent writes. */
static struct {
    int64_t start;
    int count;
    struct {
        int64_t time;
        const void *what;
    } entries[64];
} story;

/* The names of tasks. */
static char a_third[1], a_second[1], a_first[1], a_half[1], a_at_once[1], a_other[1], a_periodic[1],
    a_submitter[1], a_tried[1], a_too_many[1], a_scheduled[1], a_run[1], a_keyed[1], a_normal[1],
    a_high[1], a_late[1], a_later[1], a_line[1], a_never[1], a_again[1], a_panics[1];

static int drops;

static void begin(void)
{
    memset(&story, 0, sizeof story);
    story.start = weft_now();
    drops = 0;
}

static void note(void *arg)
{
    CHECK(story.count < 64);
    story.entries[story.count].time = weft_now() - story.start;
    story.entries[story.count++].what = arg;
}

static void note_and_take(void *arg)
{
    note(arg);
    CHECK_EQ(weft_sleep(*(const int64_t *)arg), 0);
}

static void note_drop(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == note);
    drops++;
}

static void until(int64_t time)
{
    CHECK_EQ(weft_sleep_until(story.start + time), 0);
}

static void happened(int number, int64_t time, const void *what)
{
    CHECK(number < story.count);
    CHECK_EQ(story.entries[number].time, time);
    CHECK_PTR(story.entries[number].what, what);
}

static void arguments_in_child(void)
{
    weft_schedule *schedule = SCHEDULE_POISON;
    CHECK_EQ(weft_pool_submit_after((weft_pool *)&story, note, NULL, 0, &schedule), -ECHILD);
    CHECK_PTR(schedule, SCHEDULE_POISON);
}

static void arguments(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    weft_schedule *schedule = SCHEDULE_POISON;
    char byte = 0;
    CHECK_EQ(weft_pool_submit_after(NULL, note, NULL, 0, &schedule), -EINVAL);
    CHECK_EQ(weft_pool_submit_after(pool, NULL, NULL, 0, &schedule), -EINVAL);
    CHECK_EQ(weft_pool_submit_after(pool, note, NULL, -1, &schedule), -EINVAL);
    CHECK_EQ(weft_pool_submit_every(pool, note, NULL, 0, &schedule), -EINVAL);
    CHECK_EQ(weft_pool_submit_every(pool, note, NULL, -1, &schedule), -EINVAL);
    const weft_schedule_options wrong[] = {{.delay = -1},
                                           {.period = -1},
                                           {.priority = 2},
                                           {.priority = -2},
                                           {.copy = WEFT_COPY_MAX + 1},
                                           {.reserved = {[3] = 1}}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(weft_pool_schedule(pool, note, &byte, &wrong[i], &schedule), -EINVAL);
    CHECK_EQ(weft_pool_schedule(pool, note, NULL, &(weft_schedule_options){.copy = 1}, &schedule),
             -EINVAL);
    CHECK_PTR(schedule, SCHEDULE_POISON);
    CHECK_EQ(weft_schedule_cancel(NULL), -EINVAL);
    CHECK_EQ(weft_schedule_stats_get(NULL, &(weft_schedule_stats){0}), -EINVAL);
    schedule = after(pool, note, NULL, LONG);
    CHECK_EQ(weft_schedule_stats_get(schedule, NULL), -EINVAL);
    weft_schedule_release(NULL);
    in_fork(arguments_in_child);
    pool_close(pool);
    weft_schedule_release(schedule);
}

static void once_at_their_times(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 2);
    begin();
    weft_schedule *third = after(pool, note, a_third, 3 * TICK);
    CHECK_EQ(weft_pool_submit_after(pool, note, a_second, TICK, NULL), 0);
    CHECK_EQ(pool_stats(pool).schedules, 2);
    CHECK_EQ(weft_pool_submit_after(pool, note, a_first, 0, NULL), 0);
    CHECK_EQ(stats_of(third).next, story.start + 3 * TICK);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0); /* not for tasks that are not due */
    CHECK(weft_now() < story.start + TICK);
    until(4 * TICK);
    CHECK_EQ(story.count, 3);
    happened(0, 0, a_first);
    happened(1, TICK, a_second);
    happened(2, 3 * TICK, a_third);
    CHECK_EQ(stats_of(third).runs, 1);
    CHECK_EQ(stats_of(third).next, WEFT_NEVER);
    CHECK_EQ(weft_schedule_cancel(third), 2);
    CHECK_EQ(pool_stats(pool).schedules, 0);
    CHECK_EQ(pool_stats(pool).completed, 3);
    pool_close(pool);
    weft_schedule_release(third);
}

static void no_drift(void)
{
    static int64_t takes = 3 * WEFT_MS;
    weft_pool *pool = POOL_OPEN(.capacity = 3);
    weft_schedule *at_once = SCHEDULE_POISON;
    begin();
    weft_schedule *one = every(pool, note_and_take, &takes, TICK);
    for (int i = 1; i <= 4; i++) {
        until(i * TICK + WEFT_MS);
        CHECK_EQ(story.count, i);
        happened(i - 1, i * TICK, &takes);
        CHECK_EQ(stats_of(one).next, story.start + (i + 1) * TICK);
    }
    until(5 * TICK - 1);
    CHECK_EQ(weft_schedule_cancel(one), 0);
    CHECK_EQ(stats_of(one).runs, 4);
    CHECK_EQ(stats_of(one).skipped, 0);
    begin();
    weft_schedule_options options = {.period = TICK};
    CHECK_EQ(weft_pool_schedule(pool, note, a_at_once, &options, &at_once), 0);
    options.delay = TICK / 2;
    CHECK_EQ(weft_pool_schedule(pool, note, a_half, &options, NULL), 0);
    until(TICK + TICK / 2 + 1);
    CHECK_EQ(story.count, 4);
    happened(0, 0, a_at_once);
    happened(1, TICK / 2, a_half);
    happened(2, TICK, a_at_once);
    happened(3, TICK + TICK / 2, a_half);
    CHECK_EQ(stats_of(at_once).skipped, 0);
    pool_close(pool);
    CHECK_EQ(story.count, 4);
    weft_schedule_release(one);
    weft_schedule_release(at_once);
}

/* A run that takes longer than the period. */
static void runs_do_not_overlap(void)
{
    static int64_t takes = 2 * TICK + TICK / 2;
    weft_pool *pool = POOL_OPEN(.capacity = 3);
    begin();
    weft_schedule *one = every(pool, note_and_take, &takes, TICK);
    until(6 * TICK + TICK / 4);
    CHECK_EQ(story.count, 2);
    happened(0, TICK, &takes);
    happened(1, 4 * TICK, &takes);
    CHECK_EQ(stats_of(one).skipped, 4);
    CHECK_EQ(stats_of(one).runs, 1);
    pool_close(pool);
    CHECK_EQ(weft_now(),
             story.start + 6 * TICK + TICK / 2); /* waited for the run that was under way */
    CHECK_EQ(stats_of(one).runs, 2);
    weft_schedule_release(one);
}

/* The only thread computes: no worker can read the clock. */
static void missed_times_are_not_made_up_for(void *arg)
{
    static atomic_u32 ran;
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    atomic_u32_store_relaxed(&ran, 0);
    weft_schedule *one = every(pool, count_task, &ran, WEFT_MS);
    int64_t first = stats_of(one).next;
    compute_until(first + 3 * WEFT_MS + WEFT_MS / 2);
    while (stats_of(one).runs == 0)
        weft_yield();
    weft_schedule_stats stats = stats_of(one);
    CHECK(stats.skipped >= 2);
    CHECK_EQ((stats.next - first) % WEFT_MS, 0); /* no drift, however late */
    int64_t under_way = (stats.next - first) / WEFT_MS - stats.runs - stats.skipped;
    CHECK(under_way == 0 || under_way == 1);
    pool_close(pool);
    weft_schedule_release(one);
}

/* A full pool. */

static void submit_late(void *pool)
{
    until(TICK + TICK / 2);
    CHECK_EQ(weft_pool_submit(pool, note, a_submitter), 0);
}

static void in_line_whatever_the_policy(void)
{
    static int64_t takes = 5 * TICK;
    for (int policy = WEFT_BLOCK; policy <= WEFT_DROP_OLDEST; policy++) {
        weft_pool *pool =
            POOL_OPEN(.capacity = 1, .when_full = policy, .max_blocked = 3, .on_drop = note_drop);
        weft_pool *other = POOL_OPEN(.capacity = 1);
        weft_fiber *fiber = NULL;
        begin();
        CHECK_EQ(weft_pool_submit(pool, note_and_take, &takes), 0);
        CHECK_EQ(weft_pool_submit_after(pool, note, a_first, TICK, NULL), 0);
        if (policy == WEFT_BLOCK)
            CHECK_EQ(weft_spawn(&fiber, submit_late, pool, NULL), 0);
        CHECK_EQ(weft_pool_submit_after(pool, note, a_second, 2 * TICK, NULL), 0);
        weft_schedule *periodic = every(pool, note, a_periodic, TICK + 1);
        CHECK_EQ(weft_pool_submit_after(other, note, a_other, 3 * TICK, NULL), 0);
        until(4 * TICK);
        CHECK_EQ(pool_stats(pool).blocked, policy == WEFT_BLOCK ? 4 : 3);
        CHECK_EQ(pool_stats(pool).schedules, 3);
        CHECK_EQ(stats_of(periodic).skipped, 2);
        CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0); /* for tasks that are due */
        CHECK_EQ(weft_now(), story.start + takes);
        int next = 2;
        happened(1, 3 * TICK, a_other); /* in time */
        happened(next++, takes, a_first);
        happened(next++, takes, a_periodic);
        if (policy == WEFT_BLOCK)
            happened(next++, takes, a_submitter);
        happened(next++, takes, a_second);
        CHECK_EQ(story.count, next);
        until(5 * (TICK + 1) + 1);
        pool_close(pool);
        pool_close(other);
        happened(next++, 5 * (TICK + 1), a_periodic);
        CHECK_EQ(story.count, next);
        CHECK_EQ(stats_of(periodic).skipped, 3);
        CHECK_EQ(drops, 0);
        weft_schedule_release(periodic);
        if (fiber != NULL)
            CHECK_EQ(weft_join(fiber), 0);
    }
}

static void try_submit(void *pool)
{
    CHECK_EQ(weft_pool_try_submit(pool, note, a_tried), 0);
}

/* A pool that rejects when it is full admits the line first when it has room, and then other
 * submits. */
static void a_line_makes_no_submit_fail(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 4, .when_full = WEFT_REJECT);
    begin();
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(weft_pool_submit(pool, i == 3 ? try_submit : note, pool), 0);
    CHECK_EQ(weft_pool_try_submit(pool, note, a_too_many), -EAGAIN);
    CHECK_EQ(weft_pool_submit_after(pool, note, a_scheduled, TICK, NULL), 0);
    until(2 * TICK);
    CHECK_EQ(pool_stats(pool).blocked, 1);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(story.count, 7);
    pool_close(pool);
}

static void schedule_at_once(void *pool)
{
    weft_schedule *one = after(pool, note, a_scheduled, 0);
    while (stats_of(one).next != WEFT_NEVER)
        weft_yield();
    CHECK_EQ(pool_stats(pool).blocked, 0);
    weft_schedule_release(one);
}

/* Tasks have ended, and their worker goes on with the next without telling. */
static void a_place_that_is_free_is_found(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 2);
    begin();
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_pool_submit(pool, i == 2 ? schedule_at_once : note, pool), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(story.count, 4);
    pool_close(pool);
}

static void a_paused_pool_admits(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 1);
    begin();
    CHECK_EQ(weft_pool_pause(pool), 0);
    weft_schedule *one = every(pool, note, a_run, TICK);
    until(3 * TICK + TICK / 2);
    CHECK_EQ(story.count, 0);
    CHECK_EQ(pool_stats(pool).starting, 1);
    CHECK_EQ(stats_of(one).skipped, 2);
    CHECK_EQ(weft_pool_resume(pool), 0);
    until(4 * TICK + 1);
    happened(0, 3 * TICK + TICK / 2, a_run);
    happened(1, 4 * TICK, a_run);
    CHECK_EQ(story.count, 2);
    pool_close(pool);
    weft_schedule_release(one);
}

struct counter {
    int64_t calls;
    char rest[40];
};

static void count_calls(void *arg)
{
    struct counter *counter = arg;
    CHECK_STR(counter->rest, "copied");
    story.entries[0].time = ++counter->calls;
}

static void the_copy_lives_as_long_as_the_schedule(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    weft_schedule *schedule = NULL;
    struct counter counter = {.rest = "copied"};
    weft_schedule_options options = {.period = TICK, .copy = sizeof counter};
    begin();
    CHECK_EQ(weft_pool_schedule(pool, count_calls, &counter, &options, &schedule), 0);
    memset(&counter, 0x55, sizeof counter);
    weft_schedule_release(schedule);
    until(2 * TICK + 1);
    CHECK_EQ(story.entries[0].time, 3);
    pool_close(pool);
}

static void priority_and_key(void)
{
    static int64_t takes = TICK;
    weft_pool *pool = POOL_OPEN(.capacity = 3, .queue = 10);
    begin();
    SUBMIT_WITH(pool, note_and_take, &takes, .key = 7);
    CHECK_EQ(weft_pool_schedule(pool, note, a_keyed, &(weft_schedule_options){.key = 7}, NULL), 0);
    until(1);
    CHECK_EQ(story.count, 1);
    until(TICK + 1);
    happened(1, TICK, a_keyed);
    begin();
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_tune(pool, 1), 0);
    CHECK_EQ(weft_pool_submit_after(pool, note, a_normal, 0, NULL), 0);
    until(1);
    CHECK_EQ(weft_pool_schedule(pool, note, a_high, &(weft_schedule_options){.priority = WEFT_HIGH},
                                NULL),
             0);
    until(2);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    happened(0, 2, a_high);
    happened(1, 2, a_normal);
    pool_close(pool);
}

static void cancelled_before_it_is_admitted(void)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 1, .on_drop = note_drop);
    begin();
    gate_shut(&gate);
    weft_schedule *early = after(pool, note, NULL, TICK);
    CHECK_EQ(weft_schedule_cancel(early), 0);
    CHECK_EQ(weft_schedule_cancel(early), 2);
    CHECK_EQ(stats_of(early).next, WEFT_NEVER);
    CHECK_EQ(pool_stats(pool).schedules, 0);
    CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), 0);
    weft_schedule *line = after(pool, note, NULL, TICK), *periodic = every(pool, note, NULL, TICK);
    until(2 * TICK + 1);
    CHECK_EQ(pool_stats(pool).blocked, 2);
    CHECK_EQ(weft_schedule_cancel(line), 0);
    CHECK_EQ(pool_stats(pool).blocked, 1);
    CHECK_EQ(weft_schedule_cancel(periodic), 0);
    CHECK_EQ(pool_stats(pool).blocked, 0);
    CHECK_EQ(pool_stats(pool).schedules, 0);
    gate_open(&gate);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    until(5 * TICK);
    CHECK_EQ(story.count, 0);
    CHECK_EQ(pool_stats(pool).submitted, 1);
    pool_close(pool);
    CHECK_EQ(drops, 0);
    CHECK_EQ(weft_schedule_cancel(line), 2);
    weft_schedule_release(early);
    weft_schedule_release(line);
    weft_schedule_release(periodic);
}

/* Scheduled tasks in the queue: their places are free at once. */
static void cancelled_in_the_queue(void)
{
    weft_pool *pool =
        POOL_OPEN(.capacity = 1, .queue = 1, .when_full = WEFT_REJECT, .on_drop = note_drop);
    begin();
    CHECK_EQ(weft_pool_pause(pool), 0);
    weft_schedule *one = after(pool, note, NULL, TICK), *periodic = every(pool, note, NULL, TICK);
    until(2 * TICK + 1);
    CHECK_EQ(weft_pool_try_submit(pool, note, a_late), -EAGAIN);
    CHECK_EQ(weft_schedule_cancel(one), 0);
    CHECK_EQ(weft_pool_try_submit(pool, note, a_late), 0);
    CHECK_EQ(weft_schedule_cancel(periodic), 0);
    CHECK_EQ(pool_stats(pool).cancelled, 2);
    CHECK_EQ(weft_pool_resume(pool), 0);
    until(5 * TICK);
    pool_close(pool);
    CHECK_EQ(story.count, 1);
    happened(0, 2 * TICK + 1, a_late);
    CHECK_EQ(drops, 0);
    CHECK_EQ(stats_of(periodic).runs, 0);
    weft_schedule_release(one);
    weft_schedule_release(periodic);
}

static void a_cancel_lets_a_submitter_in(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    weft_fiber *fiber;
    begin();
    CHECK_EQ(weft_pool_pause(pool), 0);
    weft_schedule *one = after(pool, note, NULL, TICK);
    CHECK_EQ(weft_spawn(&fiber, submit_late, pool, NULL), 0);
    until(2 * TICK);
    CHECK_EQ(pool_stats(pool).blocked, 1);
    CHECK_EQ(weft_schedule_cancel(one), 0);
    CHECK_EQ(pool_stats(pool).blocked, 0); /* at once */
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(story.count, 1);
    weft_schedule_release(one);
}

static void cancel_itself(void *schedule)
{
    note(schedule);
    if (story.count == 3)
        CHECK_EQ(weft_schedule_cancel(*(weft_schedule **)schedule), 1);
}

static void cancelled_while_it_runs(void)
{
    static int64_t takes = TICK;
    weft_pool *pool = POOL_OPEN(.capacity = 2);
    weft_schedule *own = NULL;
    begin();
    weft_schedule *one = after(pool, note_and_take, &takes, TICK);
    until(TICK + 1);
    CHECK_EQ(weft_schedule_cancel(one), 1);
    CHECK_EQ(weft_schedule_cancel(one), 1);
    until(2 * TICK + 1);
    CHECK_EQ(weft_schedule_cancel(one), 2);
    CHECK_EQ(stats_of(one).runs, 1);
    begin();
    CHECK_EQ(weft_pool_submit_every(pool, cancel_itself, &own, TICK, &own), 0);
    until(10 * TICK);
    CHECK_EQ(story.count, 3);
    CHECK_EQ(stats_of(own).runs, 3);
    CHECK_EQ(weft_schedule_cancel(own), 2);
    CHECK_EQ(pool_stats(pool).schedules, 0);
    pool_close(pool);
    weft_schedule_release(one);
    weft_schedule_release(own);
}

/* The end of the pool. */

static void schedule_in_stopping(void *pool)
{
    weft_schedule *schedule = SCHEDULE_POISON;
    until(3 * TICK);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_STOPPING);
    CHECK_EQ(weft_pool_submit_after(pool, note, NULL, 0, &schedule), -ESHUTDOWN);
    CHECK_PTR(schedule, SCHEDULE_POISON);
}

static void stopped(void)
{
    static int64_t takes = 2 * TICK;
    weft_pool *pool = POOL_OPEN(.capacity = 2, .on_drop = note_drop);
    begin();
    CHECK_EQ(weft_pool_submit(pool, schedule_in_stopping, pool), 0);
    weft_schedule *running = every(pool, note_and_take, &takes, TICK);
    weft_schedule *later = after(pool, note, a_later, LONG);
    weft_schedule *line = after(pool, note, a_line, TICK + 1);
    weft_schedule *periodic_line = every(pool, note, a_periodic, TICK + 2);
    weft_schedule *periodic = every(pool, note, a_never, LONG);
    until(2 * TICK);
    CHECK_EQ(pool_stats(pool).blocked, 2);
    CHECK_EQ(pool_stats(pool).schedules, 5);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(drops, 2); /* told before it waits */
    CHECK_EQ(pool_stats(pool).schedules, 0);
    CHECK_EQ(weft_schedule_cancel(later), 2);
    CHECK_EQ(weft_schedule_cancel(line), 2);
    CHECK_EQ(weft_schedule_cancel(periodic), 2);
    CHECK_EQ(weft_schedule_cancel(running), 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_now(), story.start + 3 * TICK);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_STATS(stats, IS(submitted, 4), IS(completed, 2), IS(dropped, 2), IS(rejected, 1));
    CHECK_EQ(stats_of(running).runs, 1);
    CHECK_EQ(weft_pool_submit_after(pool, note, NULL, 0, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_submit_every(pool, note, NULL, TICK, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_reopen(pool), 0);
    CHECK_EQ(weft_pool_submit_after(pool, note, a_again, TICK, NULL), 0);
    until(10 * TICK);
    happened(1, 4 * TICK, a_again);
    CHECK_EQ(story.count, 2);
    pool_close(pool);
    CHECK_EQ(drops, 2);
    weft_schedule *all[] = {running, later, line, periodic_line, periodic};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK_EQ(weft_schedule_cancel(all[i]), 2);
        CHECK_EQ(stats_of(all[i]).next, WEFT_NEVER);
        weft_schedule_release(all[i]);
    }
}

static void of_several_pools(void)
{
    weft_pools *pools;
    weft_pool_options options = {.capacity = 1, .on_drop = note_drop};
    begin();
    CHECK_EQ(weft_pools_open(&pools, 3, WEFT_ROUND_ROBIN, &options), 0);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(weft_pool_submit_after(weft_pools_pick(pools), note, NULL, i < 3 ? 0 : LONG, NULL),
                 0);
    until(1);
    weft_pool_stats stats;
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_EQ(stats.schedules, 3);
    CHECK_EQ(weft_pools_close(pools), 0);
    CHECK_EQ(story.count, 3);
    CHECK_EQ(drops, 3);
}

static void fork_off(void (*function)(void *), void *arg, void *data)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        return; /* into the call that stops the pool */
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    drops++;
}

static void on_drop_forks(void)
{
    pid_t parent = getpid();
    weft_pool *pool = POOL_OPEN(.capacity = 1, .on_drop = fork_off);
    drops = 0;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_submit_after(pool, note, NULL, LONG, NULL), 0);
    int error = weft_pool_stop(pool, WEFT_NEVER);
    if (getpid() != parent)
        _exit(error != -ECHILD);
    CHECK_EQ(error, 0);
    CHECK_EQ(drops, 2);
    pool_close(pool);
}

/* Runs that fail. */

static void note_and_panic(void *arg)
{
    note(arg);
    weft_panic("each time");
}

static void note_panic(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
    CHECK(function == note_and_panic);
    CHECK_PTR(arg, a_panics);
}

static void goes_on_after_a_panic(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1, .on_panic = note_panic);
    begin();
    weft_schedule *one = every(pool, note_and_panic, a_panics, TICK);
    until(3 * TICK + 1);
    CHECK_EQ(story.count, 3);
    CHECK_EQ(stats_of(one).runs, 3);
    CHECK_EQ(stats_of(one).skipped, 0);
    CHECK_EQ(pool_stats(pool).panicked, 3);
    pool_close(pool);
    weft_schedule_release(one);
}

static void count_and_crash(void *arg)
{
    count_task(arg);
    fault_null_write();
}

static void say_nothing(const weft_panic_info *info, void (*function)(void *), void *arg,
                        void *data)
{
    CHECK(function == count_and_crash);
}

static void goes_on_after_a_crash(void)
{
    static atomic_u32 ran;
    if (WEFT_ASAN || WEFT_TSAN)
        return; /* nothing is isolated */
    weft_pool *pool = POOL_OPEN(.capacity = 1, .isolate_crashes = 1, .on_panic = say_nothing);
    CHECK_EQ(weft_pool_submit_every(pool, count_and_crash, &ran, WEFT_MS, NULL), 0);
    await_at_least(&ran, 3);
    pool_close(pool);
}

static void goes_on_after_an_abort(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1, .on_drop = note_drop);
    begin();
    CHECK_EQ(weft_pool_pause(pool), 0);
    weft_schedule *one = every(pool, note, a_run, TICK);
    until(TICK + 1);
    CHECK_EQ(weft_pool_abort(pool), 1);
    CHECK_EQ(drops, 1);
    CHECK_EQ(weft_pool_resume(pool), 0);
    until(2 * TICK + 1);
    CHECK_EQ(stats_of(one).runs, 1);
    CHECK_EQ(stats_of(one).skipped, 0);
    happened(0, 2 * TICK, a_run);
    pool_close(pool);
    CHECK_EQ(drops, 1);
    weft_schedule_release(one);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits, and it forks");
    RUN_SEEDS(once_at_their_times);
    RUN_SEEDS(no_drift);
    RUN_SEEDS(runs_do_not_overlap);
    PLAIN_AT(missed_times_are_not_made_up_for, "time stands still for one who computes",
             ONE_MACHINE);
    RUN_SEEDS(in_line_whatever_the_policy);
    RUN_SEEDS(a_line_makes_no_submit_fail);
    RUN_SEEDS(a_place_that_is_free_is_found);
    RUN_SEEDS(a_paused_pool_admits);
    RUN_SEEDS(the_copy_lives_as_long_as_the_schedule);
    RUN_SEEDS(priority_and_key);
    RUN_SEEDS(cancelled_before_it_is_admitted);
    RUN_SEEDS(cancelled_in_the_queue);
    RUN_SEEDS(a_cancel_lets_a_submitter_in);
    RUN_SEEDS(cancelled_while_it_runs);
    RUN_SEEDS(stopped);
    RUN_SEEDS(of_several_pools);
    RUN_PLAIN(on_drop_forks, "it forks");
    RUN_SEEDS(goes_on_after_a_panic);
    RUN_PLAIN(goes_on_after_a_crash, "it faults");
    RUN_SEEDS(goes_on_after_an_abort);
    return 0;
}
