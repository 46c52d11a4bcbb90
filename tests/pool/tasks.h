/*
 * tasks.h: for tests of the pool: pools, tasks, submitters, gates that tasks wait at, waits for
 * figures of the pool, and counts that tasks keep themselves.
 */
#ifndef WEFT_TEST_TASKS_H
#define WEFT_TEST_TASKS_H

#include <limits.h>
#include <sched.h>

#include "bodies.h"
#include "seeds.h"
#include <weft/weft.h>

/* RUN_AT(scene, EVERYWHERE, 1, 3): runs static void scene(void *) at each of the places, and then
 * as often under seeds. PLAIN_AT does not run it under seeds and takes the reason. */

enum {
    EVERYWHERE = 0,   /* on main, on another thread and in a fiber */
    ONE_MACHINE = -1, /* in a fiber, with one processor and one machine */
    NO_PLACE = -2     /* n > 0: in a fiber, with n processors */
};
#define OUTSIDE(processors) (1000 + (processors)) /* in the caller, with that many processors */

#define RUN_AT(scene, ...) scene_run(#scene, scene, (const int[]){__VA_ARGS__, NO_PLACE}, true)
#define PLAIN_AT(scene, why, ...)                                                                \
    scene_run(#scene " (not under seeds: " why ")", scene, (const int[]){__VA_ARGS__, NO_PLACE}, \
              false)

struct scene_run {
    void (*scene)(void *);
    const int *places;
};

static inline void scene_run_at(void *arg)
{
    const struct scene_run *run = arg;
    for (const int *place = run->places; *place != NO_PLACE; place++)
        if (*place == EVERYWHERE) {
            everywhere(run->scene);
        } else if (*place == ONE_MACHINE) {
            on_one_machine(run->scene, NULL);
        } else if (*place < OUTSIDE(0)) {
            on_processors(*place, run->scene, NULL);
        } else {
            processors_begin(*place - OUTSIDE(0));
            run->scene(NULL);
            processors_end();
        }
}

static inline void scene_run(const char *name, void (*scene)(void *), const int *places,
                             bool seeded)
{
    struct scene_run run = {scene, places};
    printf("%s\n", name);
    fflush(stdout);
    scene_run_at(&run);
    if (seeded)
        seeds_run_with(name, scene_run_at, &run, TEST_SEEDS);
}

#define POOL_POISON ((weft_pool *)(uintptr_t)0xdead)
#define LONG (3600 * WEFT_S) /* does not pass in a test */

static inline weft_pool *pool_open(weft_pool_options options)
{
    weft_pool *pool = POOL_POISON;
    CHECK_EQ(weft_pool_open(&pool, &options), 0);
    CHECK(pool != NULL && pool != POOL_POISON);
    return pool;
}

/* A pool in which nothing begins until weft_pool_resume. */
static inline weft_pool *pool_open_paused(weft_pool_options options)
{
    weft_pool *pool = pool_open(options);
    CHECK_EQ(weft_pool_pause(pool), 0);
    return pool;
}

/* POOL_OPEN(.capacity = 1, .queue = 2) */
#define POOL_OPEN(...) pool_open((weft_pool_options){__VA_ARGS__})
#define POOL_OPEN_PAUSED(...) pool_open_paused((weft_pool_options){__VA_ARGS__})

static inline void pool_close(weft_pool *pool)
{
    CHECK_EQ(weft_pool_close(pool), 0);
}

static inline weft_context *new_context(void)
{
    weft_context *context = NULL;
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    return context;
}

/* ---- figures ---- */

/* The figures. They must agree with each other. */
static inline weft_pool_stats pool_stats(weft_pool *pool)
{
    weft_pool_stats stats;
    memset(&stats, 0x55, sizeof stats);
    CHECK_EQ(weft_pool_stats_get(pool, &stats), 0);
    CHECK(stats.capacity > 0);
    CHECK(stats.running >= 0 && stats.starting >= 0 && stats.queued >= 0 && stats.blocked >= 0);
    CHECK(stats.lending >= 0 && stats.lending <= stats.running);
    CHECK(stats.beyond >= 0 && stats.beyond <= stats.submitted);
    CHECK(stats.failed >= 0 && stats.failed <= stats.completed);
    CHECK(stats.completed >= 0 && stats.rejected >= 0 && stats.dropped >= 0);
    CHECK(stats.cancelled >= 0 && stats.stolen >= 0 && stats.handlers_panicked >= 0);
    CHECK(stats.panicked >= 0 && stats.panicked <= stats.submitted);
    CHECK(stats.idle >= 0 && stats.idle <= stats.workers && stats.workers <= stats.most_workers);
    CHECK_EQ(stats.submitted, stats.completed + stats.running + stats.starting + stats.queued +
                                  stats.dropped + stats.cancelled);
    return stats;
}

/* Tasks that were admitted and have not begun. */
static inline int64_t pool_waiting(weft_pool *pool)
{
    weft_pool_stats stats = pool_stats(pool);
    return stats.starting + stats.queued;
}

/* CHECK_FIGURES(pool, IS(running, 2), IS(queued, 0)): figures of one moment. CHECK_STATS takes a
 * weft_pool_stats. */
struct figure {
    const char *name;
    size_t offset;
    int64_t value;
};

#define IS(field, expected)                                \
    (struct figure)                                        \
    {                                                      \
#field, offsetof(weft_pool_stats, field), expected \
    }
#define CHECK_FIGURES(pool, ...) CHECK_STATS(pool_stats(pool), __VA_ARGS__)
#define CHECK_STATS(stats, ...)                                                       \
    check_figures_at(__FILE__, __LINE__, stats, (const struct figure[]){__VA_ARGS__}, \
                     sizeof(struct figure[]){__VA_ARGS__} / sizeof(struct figure))

static inline int64_t figure_of(const weft_pool_stats *stats, size_t offset)
{
    int64_t value;
    memcpy(&value, (const char *)stats + offset, sizeof value);
    return value;
}

static inline void check_figures_at(const char *file, int line, weft_pool_stats stats,
                                    const struct figure *figures, size_t count)
{
    for (size_t i = 0; i < count; i++)
        test_check_eq(file, line, figures[i].name, "expected", figure_of(&stats, figures[i].offset),
                      figures[i].value);
}

static inline uint32_t count_of(const atomic_u32 *counter)
{
    return atomic_u32_load_acquire(counter);
}

/* Lets other fibers run, and after some calls other processes. */
static inline void look_again(int *times)
{
    if (++*times < 20)
        weft_yield();
    else
        (void)weft_sleep(50 * WEFT_US);
}

/* Waits until a figure of the pool has that value. */
#define AWAIT_FIGURE(pool, field, value) await_figure(pool, offsetof(weft_pool_stats, field), value)

static inline void await_figure(weft_pool *pool, size_t offset, int64_t value)
{
    for (int times = 0;; look_again(&times)) {
        weft_pool_stats stats = pool_stats(pool);
        if (figure_of(&stats, offset) == value)
            return;
    }
}

/* Waits until the count has that value. */
static inline void await_count(const atomic_u32 *word, uint32_t value)
{
    for (int times = 0; count_of(word) != value;)
        look_again(&times);
}

static inline void await_at_least(const atomic_u32 *word, uint32_t value)
{
    while (count_of(word) < value)
        weft_yield();
}

/* ---- what tasks count ---- */

/* The number of tasks that are inside at once, counted by the tasks. */
struct gauge {
    atomic_u32 now, most, total;
};

static inline void gauge_enter(struct gauge *gauge)
{
    uint32_t now = atomic_u32_add_seq_cst(&gauge->now, 1) + 1;
    uint32_t most = atomic_u32_load_relaxed(&gauge->most);
    while (now > most && !atomic_u32_cas_acq_rel(&gauge->most, &most, now))
        continue;
    atomic_u32_add_seq_cst(&gauge->total, 1);
}

static inline void gauge_leave(struct gauge *gauge)
{
    atomic_u32_sub_seq_cst(&gauge->now, 1);
}

static inline uint32_t gauge_most(const struct gauge *gauge)
{
    return atomic_u32_load_acquire(&gauge->most);
}

static inline uint32_t gauge_total(const struct gauge *gauge)
{
    return atomic_u32_load_acquire(&gauge->total);
}

/* Events, in their order. */
enum { JOURNAL_MOST = 4096 };

struct journal {
    atomic_u32 length;
    int entries[JOURNAL_MOST];
};

static inline void journal_add(struct journal *journal, int entry)
{
    uint32_t place = atomic_u32_add_acq_rel(&journal->length, 1);
    CHECK(place < JOURNAL_MOST);
    journal->entries[place] = entry;
}

/* ---- tasks ---- */

static inline void count_task(void *counter)
{
    atomic_u32_add_seq_cst(counter, 1);
}

/* As the function of a group, or of a task with a handle. */
static inline int count_handle(void *counter)
{
    count_task(counter);
    return 0;
}

static inline int nothing(void *arg)
{
    return 0;
}

static inline int sleep_for_ever(void *arg)
{
    return weft_sleep_until(WEFT_NEVER);
}

static inline int return_error(void *error)
{
    return (int)(intptr_t)error;
}

static inline void submit_many(weft_pool *pool, void (*function)(void *), void *arg, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_pool_submit(pool, function, arg), 0);
}

/* Submits tasks that count themselves. */
static inline void submit_counts(weft_pool *pool, atomic_u32 *ran, int64_t count)
{
    submit_many(pool, count_task, ran, count);
}

#define SUBMIT_WITH(pool, function, arg, ...) \
    submit_with(pool, function, arg, (weft_submit_options){__VA_ARGS__})
#define START_WITH(pool, function, arg, ...) \
    start_task_with(pool, function, arg, (weft_submit_options){__VA_ARGS__})

static inline void submit_with(weft_pool *pool, void (*function)(void *), void *arg,
                               weft_submit_options options)
{
    CHECK_EQ(weft_pool_submit_with(pool, function, arg, &options), 0);
}

static inline weft_task *start_task_with(weft_pool *pool, int (*function)(void *), void *arg,
                                         weft_submit_options options)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_task_start(&task, pool, function, arg, &options), 0);
    CHECK(task != NULL);
    return task;
}

static inline weft_task *start_task(weft_pool *pool, int (*function)(void *), void *arg)
{
    return start_task_with(pool, function, arg, (weft_submit_options){.key = 0});
}

/* Waits for the task; returns its result. */
static inline int task_result(weft_task *task)
{
    int result = INT_MIN;
    CHECK_EQ(weft_task_wait(task, &result), 0);
    CHECK(result != INT_MIN);
    return result;
}

static inline int wait_for(void *task)
{
    return task_result(task);
}

/* Waits for the task and gives its handle back; returns the result. */
static inline int end_task(weft_task *task)
{
    int result = task_result(task);
    weft_task_release(task);
    return result;
}

static inline weft_group *group_over(weft_pool *pool, const weft_group_options *options)
{
    weft_group *group = NULL;
    CHECK_EQ(weft_pool_group(&group, pool, options), 0);
    CHECK(group != NULL);
    return group;
}

/* Functions of a pool's options that a scene sets and does not check. */

static inline void ignore_panic(const weft_panic_info *info, void (*function)(void *), void *arg,
                                void *data)
{
}

static inline void ignore_line(const char *line, void *data)
{
}

/* on_drop of a pool whose drops a handle or a group reports. */
static inline void no_drop(void (*function)(void *), void *arg, void *data)
{
    CHECK(!"a drop that a handle or a group tells of is told to on_drop");
}

/* ---- gates ---- */

/* Tasks wait at a gate until it opens. */
struct gate {
    weft_wg shut;
    struct gauge gauge;
};

static inline void gate_shut(struct gate *gate)
{
    memset(&gate->gauge, 0, sizeof gate->gauge);
    CHECK_EQ(weft_wg_init(&gate->shut, 1), 0);
}

static inline void gate_open(struct gate *gate)
{
    weft_wg_done(&gate->shut);
}

static inline void gate_task(void *arg)
{
    struct gate *gate = arg;
    gauge_enter(&gate->gauge);
    CHECK_EQ(weft_wg_wait(&gate->shut), 0);
    gauge_leave(&gate->gauge);
}

static inline int gate_handle(void *gate)
{
    gate_task(gate);
    return 0;
}

/* As gate_task; the end of the task's context does not end the wait. */
static inline void firm_gate_task(void *gate)
{
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    gate_task(gate);
}

static inline int firm_gate_handle(void *gate)
{
    firm_gate_task(gate);
    return 0;
}

static inline void gate_fill_firmly(struct gate *gate, weft_pool *pool, uint32_t count)
{
    submit_many(pool, firm_gate_task, gate, count);
    await(&gate->gauge.now, count);
}

/* Submits tasks that wait at the gate, and returns when all do. */
static inline void gate_fill(struct gate *gate, weft_pool *pool, uint32_t count)
{
    submit_many(pool, gate_task, gate, count);
    await(&gate->gauge.now, count);
}

static inline void gate_shut_and_fill(struct gate *gate, weft_pool *pool, uint32_t count)
{
    gate_shut(gate);
    gate_fill(gate, pool, count);
}

static inline void gate_open_and_close(struct gate *gate, weft_pool *pool)
{
    gate_open(gate);
    pool_close(pool);
}

/* Waits until that many tasks have come to the gate since it was shut. */
static inline void await_at_gate(const struct gate *gate, uint32_t count)
{
    await_count(&gate->gauge.total, count);
}

/* ---- bodies ---- */

/* Calls function(arg) in that many fibers and threads in turn. */
static inline void run_many(void (*function)(void *), void *arg, int count)
{
    struct body bodies[16];
    CHECK(count <= 16);
    for (int i = 0; i < count; i++)
        bodies[i] = (struct body){.function = function, .arg = arg, .thread = i % 2 == 0};
    bodies_run(bodies, count);
}

/* A call of weft_pool_submit_until by a fiber or a thread of its own. */
struct submission {
    weft_pool *pool;
    void (*function)(void *);
    void *arg;
    int64_t deadline;
    weft_context *context;
    int result;
    atomic_u32 returned;
    struct body body;
};

static inline void submission_main(void *arg)
{
    struct submission *own = arg;
    if (own->context != NULL)
        CHECK_EQ(weft_context_bind(own->context, NULL), 0);
    own->result = weft_pool_submit_until(own->pool, own->function, own->arg, own->deadline);
    if (own->context != NULL)
        CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    atomic_u32_store_release(&own->returned, 1);
}

static inline void submission_start_with(struct submission *own, struct submission with,
                                         bool thread)
{
    *own = with;
    own->result = 1;
    own->body = (struct body){.function = submission_main, .arg = own, .thread = thread};
    body_start(&own->body);
}

static inline void submission_start_in(struct submission *own, weft_pool *pool,
                                       void (*function)(void *), void *arg, weft_context *context,
                                       bool thread)
{
    struct submission with = {
        .pool = pool, .function = function, .arg = arg, .deadline = WEFT_NEVER, .context = context};
    submission_start_with(own, with, thread);
}

static inline void submission_start(struct submission *own, weft_pool *pool,
                                    void (*function)(void *), void *arg, bool thread)
{
    submission_start_in(own, pool, function, arg, NULL, thread);
}

/* Waits until the call has returned; its result. */
static inline int submission_end(struct submission *own)
{
    body_join(&own->body);
    return own->result;
}

/* Tasks that keep their processor from when they have `begun` until it is `over`. */

static struct {
    atomic_u32 begun, over;
} holder __attribute__((unused));

static inline void hold_processor(void *arg)
{
    atomic_u32_add_seq_cst(&holder.begun, 1);
    while (!atomic_u32_load_acquire(&holder.over))
        sched_yield();
}

#endif
