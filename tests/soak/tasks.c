/*
 * tasks.c: tasks through pools: every way to submit, to wait and to interfere.
 *
 * A round opens a pool with random options. A crew submits in all forms; meanwhile a controller
 * tunes, pauses, aborts, stops and reopens the pool and reads its figures. Then the pool is closed,
 * and each job has run once, was dropped by the rules, or was refused.
 *
 * The drop of a job without a waiter of its own (a released handle, a member of a group) is
 * reported to no code: if such a job has not run it counts as dropped, but only if the round
 * dropped something; otherwise it is lost.
 */
#include "soak.h"

enum { EACH = 48, LANES = 3, BATCH = 8, LATE = 8 };

/* Tasks with the same key. */
struct lane {
    atomic_u32 running;
    uint32_t sequence; /* of the last task that ran */
};

struct job {
    uint64_t id;
    struct round *round;
    struct lane *lane;
    struct job *nested; /* which the job may submit itself */
    uint32_t sequence;  /* within its key */
    uint32_t dice;
};
_Static_assert(sizeof(struct job) <= WEFT_COPY_MAX, "it can be copied into the pool");

struct round {
    weft_pool *pool;
    weft_pools *pools;
    struct job *jobs; /* two for each submit of a member: the job and its nested one */
    bool *loose;      /* by job: see above */
    atomic_u32 drops, submitting;
    uint32_t members;
    struct lane lanes[CREW_MOST][LANES];
};

/* Jobs. */

static void run_nested(struct job *job, struct prng *prng);

static void enter_lane(struct job *job)
{
    if (job->lane == NULL)
        return;
    CHECK_EQ(atomic_u32_add_seq_cst(&job->lane->running, 1), 0);
    CHECK(job->sequence > job->lane->sequence);
    job->lane->sequence = job->sequence;
}

static void leave_lane(struct job *job)
{
    if (job->lane != NULL)
        CHECK_EQ(atomic_u32_sub_seq_cst(&job->lane->running, 1), 1);
}

static void leave_lane_deferred(void *arg)
{
    leave_lane(arg);
}

static void run(void *arg)
{
    struct job copy = *(struct job *)arg, *job = &copy;
    struct prng prng;
    weft_deferred deferred;
    prng_seed(&prng, job->dice);
    enter_lane(job);
    weft_defer(&deferred, leave_lane_deferred, job);
    ledger_book_out(job->id, HAPPENED);
    soak_pause(&prng);
    if (job->nested != NULL && one_in(&prng, 16))
        run_nested(job->nested, &prng);
    if (one_in(&prng, 100))
        weft_panic("planned");
    weft_deferred_run(&deferred);
}

enum { RAN = 17 };

static int run_with_result(void *arg)
{
    run(arg);
    return RAN;
}

static int run_in_group(void *arg)
{
    weft_panic_info info;
    int error = weft_recover(run, arg, &info);
    CHECK(error == 0 || error == -EOWNERDEAD);
    return 0;
}

static size_t place_of(const struct job *job)
{
    return (size_t)(job - job->round->jobs);
}

/* `what` names the place that entered it. */
static void enter(struct job *job, const char *what)
{
    job->id = ledger_enter(BOOK_TASKS, what);
}

static void refused_if(struct job *job, int error)
{
    CHECK(error == 0 || error == -EAGAIN || error == -ESHUTDOWN || error == -ETIMEDOUT ||
          error == -ECANCELED);
    if (error != 0)
        ledger_book_out(job->id, REFUSED);
}

/* A task of the pool submits to the pool; its context may be cancelled at any time. */
static void run_nested(struct job *job, struct prng *prng)
{
    weft_task *task;
    weft_pool *pool = job->round->pool;
    if (pool == NULL)
        return;
    if (one_in(prng, 2)) {
        enter(job, "nested submit");
        refused_if(job, weft_pool_submit(pool, run, job));
        return;
    }
    enter(job, "nested task");
    int error = weft_task_start(&task, pool, run_with_result, job, NULL);
    refused_if(job, error);
    if (error != 0)
        return;
    int result = 0;
    error = weft_task_wait(task, &result);
    CHECK(error == 0 || error == -ECANCELED || error == -ETIMEDOUT);
    if (error == 0 && (result == -ECANCELED || result == -ETIMEDOUT)) {
        ledger_book_out(
            job->id,
            DROPPED); /* by the pool, or by the context of this task, which is the parent */
    } else if (error != 0) {
        job->round->loose[place_of(job)] =
            true; /* the context was cancelled during the wait: the job may not run */
        (void)atomic_u32_add_relaxed(&job->round->drops, 1);
    }
    weft_task_release(task);
}

/* on_drop of the pool. */

static void dropped(void (*function)(void *), void *arg, void *data)
{
    struct round *round = data;
    const struct job *job = arg;
    CHECK(function == run);
    (void)atomic_u32_add_relaxed(&round->drops, 1);
    ledger_book_out(job->id, DROPPED);
}

static void panicked(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
    CHECK_STR(info->message, "planned");
}

static int worker_starts(void **state, void *data)
{
    *state = data;
    return 0;
}

static void worker_exits(void *state, void *data)
{
    CHECK_PTR(state, data);
}

/* Submitting. */

static void submit_handle(struct job *job, struct prng *prng, weft_task **late)
{
    weft_pool *pool = job->round->pool;
    weft_submit_options options = {.priority = (int)below(prng, 3) - 1};
    weft_task *task;
    int result = 0;
    enter(job, "task with a handle");
    int error = weft_task_start(&task, pool, run_with_result, job, &options);
    refused_if(job, error);
    if (error != 0)
        return;
    if (one_in(prng, 4)) { /* released, without a wait */
        job->round->loose[place_of(job)] = true;
        weft_task_release(task);
        return;
    }
    if (one_in(prng, 3) && *late == NULL) {
        *late = task;
        return;
    }
    if (one_in(prng, 3))
        CHECK(weft_task_cancel(task) >= 0);
    do
        error = weft_task_wait_until(task, &result, soak_soon(prng));
    while (error == -ETIMEDOUT);
    CHECK_EQ(error, 0);
    CHECK(weft_task_ended(task));
    CHECK_PTR(weft_task_arg(task), job);
    CHECK(result == RAN || result == -EOWNERDEAD || result == -ECANCELED);
    if (result == -ECANCELED)
        ledger_book_out(job->id, DROPPED);
    weft_task_release(task);
}

static void wait_for_late(struct job *job, weft_task *task)
{
    int result;
    CHECK_EQ(weft_task_wait(task, &result), 0);
    CHECK(result == RAN || result == -EOWNERDEAD || result == -ECANCELED);
    if (result == -ECANCELED)
        ledger_book_out(job->id, DROPPED);
    weft_task_release(task);
}

static void submit_with(struct job *job, struct prng *prng, struct lane *lanes, uint32_t sequence)
{
    weft_submit_options options = {.timeout = one_in(prng, 2) ? 1 + below(prng, WEFT_MS) : 0};
    if (one_in(prng, 2)) {
        uint32_t lane = below(prng, LANES);
        job->lane = &lanes[lane];
        job->sequence = sequence;
        options.key = (uint64_t)(uintptr_t)job->lane;
    } else {
        options.priority = (int)below(prng, 3) - 1;
    }
    if (one_in(prng, 2))
        options.copy = sizeof *job;
    enter(job, "submit with options");
    refused_if(job, weft_pool_submit_with(job->round->pool, run, job, &options));
}

/* Returns how many of the `count` jobs, each with its nested one, were used. */
static uint32_t submit_batch(struct job *jobs, uint32_t count, struct prng *prng)
{
    void *args[BATCH];
    uint32_t used = count < BATCH ? count : BATCH;
    for (uint32_t i = 0; i < used; i++) {
        args[i] = &jobs[2 * i];
        enter(&jobs[2 * i], "batch");
    }
    int64_t admitted = weft_pool_submit_batch(jobs->round->pool, one_in(prng, 2) ? run : NULL, args,
                                              used, soak_soon(prng));
    CHECK(admitted == -EAGAIN || admitted == -ESHUTDOWN || admitted == -ETIMEDOUT ||
          (admitted > 0 && admitted <= (int64_t)used));
    for (int64_t i = admitted > 0 ? admitted : 0; i < (int64_t)used; i++)
        ledger_book_out(jobs[2 * i].id, REFUSED);
    return used;
}

static uint32_t submit_group(struct job *jobs, uint32_t count, struct prng *prng)
{
    weft_group *group;
    struct round *round = jobs->round;
    uint32_t used = count < BATCH ? count : BATCH;
    weft_group_options options = {.limit = below(prng, 4)};
    CHECK_EQ(weft_pool_group(&group, round->pool, &options), 0);
    for (uint32_t i = 0; i < used; i++) {
        struct job *job = &jobs[2 * i];
        enter(job, "group over a pool");
        int error = one_in(prng, 3) ? weft_group_try_go(group, run_in_group, job)
                                    : weft_group_go(group, run_in_group, job);
        refused_if(job, error);
        round->loose[place_of(job)] = error == 0;
        if (one_in(prng, 32)) {
            weft_group_cancel(group);
            (void)atomic_u32_add_relaxed(&round->drops, 1);
        }
    }
    int error = weft_group_close(group);
    CHECK(error == 0 || error == -ECANCELED);
    return used;
}

static void submit_plainly(struct job *job, struct prng *prng)
{
    weft_pool *pool = job->round->pool;
    int error = 0;
    enter(job, "submit");
    switch (below(prng, 6)) {
    case 0:
        error = weft_pool_submit(pool, run, job);
        break;
    case 1:
        error = weft_pool_submit_until(pool, run, job, soak_soon(prng));
        break;
    case 2:
        error = weft_pool_try_submit(pool, run, job);
        break;
    case 3:
        error = weft_pool_invoke(pool, job);
        break;
    case 4:
        error = weft_pool_invoke_until(pool, job, soak_soon(prng));
        break;
    default:
        error = weft_pool_try_invoke(pool, job);
    }
    refused_if(job, error);
}

static void submitter(struct member *member)
{
    struct round *round = member->shared;
    struct prng *prng = &member->prng;
    struct job *jobs = &round->jobs[(size_t)member->index * 2 * EACH], *late_job = NULL;
    weft_task *late = NULL;
    for (uint32_t i = 0; i < EACH;) {
        struct job *job = &jobs[2 * i];
        uint32_t used = 1;
        bool waited = late != NULL;
        switch (below(prng, 16)) {
        case 0:
            used = submit_batch(job, EACH - i, prng);
            break;
        case 1:
            used = submit_group(job, EACH - i, prng);
            break;
        case 2:
        case 3:
        case 4:
            submit_handle(job, prng, &late);
            if (!waited && late != NULL)
                late_job = job;
            break;
        case 5:
        case 6:
        case 7:
            submit_with(job, prng, round->lanes[member->index], i + 1);
            break;
        default:
            submit_plainly(job, prng);
        }
        i += used;
        soak_pause(prng);
    }
    if (late != NULL)
        wait_for_late(late_job, late);
    (void)atomic_u32_sub_seq_cst(&round->submitting, 1);
}

/* Several pools (weft/pools.h), with fewer ways to submit. */
static void submitter_to_many(struct member *member)
{
    struct round *round = member->shared;
    struct job *jobs = &round->jobs[(size_t)member->index * 2 * EACH];
    for (uint32_t i = 0; i < EACH; i++) {
        struct job *job = &jobs[2 * i];
        enter(job, "submit to several pools");
        refused_if(job, one_in(&member->prng, 2)
                            ? weft_pool_submit(weft_pools_pick(round->pools), run, job)
                            : weft_pool_submit_until(weft_pools_pick(round->pools), run, job,
                                                     soak_soon(&member->prng)));
        soak_pause(&member->prng);
    }
}

/* Interfering. */

static void check_figures(weft_pool *pool)
{
    weft_pool_stats stats;
    CHECK_EQ(weft_pool_stats_get(pool, &stats), 0);
    CHECK_EQ(stats.submitted, stats.completed + stats.running + stats.starting + stats.queued +
                                  stats.dropped + stats.cancelled);
}

static void interfere(struct round *round, struct prng *prng)
{
    int64_t aborted;
    switch (below(prng, 16)) {
    case 0:
        CHECK_EQ(weft_pool_pause(round->pool), 0);
        soak_pause(prng);
        CHECK_EQ(weft_pool_resume(round->pool), 0);
        break;
    case 1:
        aborted = weft_pool_abort(round->pool);
        CHECK(aborted >= 0);
        (void)atomic_u32_add_relaxed(&round->drops, (uint32_t)aborted);
        break;
    case 2:
        if (weft_pool_stop(round->pool, soak_soon(prng)) == -ETIMEDOUT)
            CHECK_EQ(weft_pool_stop(round->pool, WEFT_NEVER), 0);
        CHECK_EQ(weft_pool_reopen(round->pool), 0);
        break;
    case 3:
    case 4:
        CHECK_EQ(weft_pool_tune(round->pool, between(prng, 1, 40)), 0);
        break;
    default:
        check_figures(round->pool);
    }
}

/* Rounds. */

static weft_pool_options draw_options(struct round *round, struct prng *prng)
{
    weft_pool_options options = {.name = "soak",
                                 .capacity = between(prng, 1, 20),
                                 .queue = one_in(prng, 6) ? WEFT_UNLIMITED : below(prng, 30),
                                 .when_full = (int)below(prng, 5),
                                 .reuse = (int)below(prng, 2),
                                 .max_blocked = one_in(prng, 4) ? between(prng, 1, 3) : 0,
                                 .function = run,
                                 .keep = below(prng, 3),
                                 .expiry = between(prng, 1, 20) * WEFT_MS,
                                 .shrink = one_in(prng, 3) ? 4 : 0,
                                 .compact = one_in(prng, 3),
                                 .on_worker_start = worker_starts,
                                 .on_worker_exit = worker_exits,
                                 .on_drop = dropped,
                                 .on_panic = panicked,
                                 .data = round};
    options.prestart = below(prng, 2) ? 0 : below(prng, (uint32_t)options.capacity + 1);
    if (one_in(prng, 8))
        options.capacity = 0; /* the default */
    if (options.when_full == WEFT_DROP_NEWEST || options.when_full == WEFT_DROP_OLDEST)
        atomic_u32_store_relaxed(&round->drops, 1);
    return options;
}

static void begin(struct round *round, struct prng *prng)
{
    memset(round, 0, sizeof *round);
    round->members = between(prng, 1, 5);
    size_t count = (size_t)round->members * 2 * EACH;
    round->jobs = calloc(count, sizeof *round->jobs);
    round->loose = calloc(count, sizeof *round->loose);
    CHECK(round->jobs != NULL && round->loose != NULL);
    for (size_t i = 0; i < count; i++)
        round->jobs[i] = (struct job){.round = round,
                                      .nested = i % 2 == 0 ? &round->jobs[i + 1] : NULL,
                                      .dice = prng_next(prng)};
    atomic_u32_store_relaxed(&round->submitting, round->members);
}

/* The pool is closed. */
static void end(struct round *round)
{
    for (size_t i = 0; i < (size_t)round->members * 2 * EACH; i++)
        if (round->loose[i] && !ledger_is_booked_out(round->jobs[i].id) &&
            atomic_u32_load_relaxed(&round->drops) > 0)
            ledger_book_out(round->jobs[i].id, DROPPED);
    free(round->jobs);
    free(round->loose);
}

static void one_pool(struct actor *actor)
{
    struct prng *prng = &actor->prng;
    struct round round;
    struct crew crew;
    begin(&round, prng);
    weft_pool_options options = draw_options(&round, prng);
    CHECK_EQ(weft_pool_open(&round.pool, &options), 0);
    crew_start(&crew, prng, round.members, submitter, &round);
    while (atomic_u32_load_seq_cst(&round.submitting) > 0) {
        actor->doing = "interferes with a pool";
        interfere(&round, prng);
        soak_pause(prng);
        weft_yield();
    }
    actor->doing = "joins those who submit";
    crew_join(&crew);
    actor->doing = "closes a pool";
    while (weft_pool_close_until(round.pool, soak_soon(prng)) == -ETIMEDOUT)
        continue;
    end(&round);
}

static void several_pools(struct actor *actor)
{
    struct prng *prng = &actor->prng;
    struct round round;
    struct crew crew;
    weft_pool_stats stats;
    begin(&round, prng);
    weft_pool_options options = draw_options(&round, prng);
    actor->doing = "submits to several pools";
    CHECK_EQ(weft_pools_open(&round.pools, (int)between(prng, 1, 4), (int)below(prng, 2), &options),
             0);
    crew_start(&crew, prng, round.members, submitter_to_many, &round);
    CHECK_EQ(weft_pools_stats(round.pools, &stats), 0);
    crew_join(&crew);
    actor->doing = "closes several pools";
    CHECK_EQ(weft_pools_close(round.pools), 0);
    end(&round);
}

void tasks_round(struct actor *actor)
{
    if (one_in(&actor->prng, 6))
        several_pools(actor);
    else
        one_pool(actor);
}
