/*
 * nested.c: submits by a pool's own tasks: none waits for a place that only it could free, none
 * runs inside another, and every policy and deadline means what it says.
 */
#include <weft/weft.h>

#include "tasks.h"

static void drop_handle(weft_task *task)
{
    CHECK_EQ(weft_task_wait(task, NULL), 0);
    weft_task_release(task);
}

/* One pool, and a task of it that does the work of a scene. */
static struct {
    weft_pool *pool;
    atomic_u32 ran, dropped, done;
    struct gate gate;
    weft_mutex mutex;
    weft_chan *chan;
    weft_task *task;
} scene;

static void scene_open(weft_pool_options options)
{
    atomic_u32_store_relaxed(&scene.ran, 0);
    atomic_u32_store_relaxed(&scene.dropped, 0);
    atomic_u32_store_relaxed(&scene.done, 0);
    gate_shut(&scene.gate);
    scene.pool = pool_open(options);
}

/* Runs the work as a task of the pool, and waits for all. */
static void scene_play(void (*work)(void *))
{
    CHECK_EQ(weft_pool_submit(scene.pool, work, NULL), 0);
    await_count(&scene.done, 1);
    CHECK_EQ(weft_pool_stop(scene.pool, WEFT_NEVER), 0);
}

static void scene_close(void)
{
    pool_close(scene.pool);
}

static uint32_t ran(void)
{
    return count_of(&scene.ran);
}

static void done(void)
{
    atomic_u32_store_release(&scene.done, 1);
}

/* Plain submits go beyond the limit. */

enum { PLAIN = 8 };

static void submit_in_every_way(void *arg)
{
    void *args[] = {&scene.ran, &scene.ran};
    CHECK_EQ(weft_pool_submit(scene.pool, count_task, &scene.ran), 0);
    CHECK_EQ(weft_pool_invoke(scene.pool, &scene.ran), 0);
    CHECK_EQ(weft_pool_submit_until(scene.pool, count_task, &scene.ran, WEFT_NEVER), 0);
    SUBMIT_WITH(scene.pool, count_task, &scene.ran, .key = 7);
    SUBMIT_WITH(scene.pool, count_task, &scene.ran, .priority = WEFT_LOW);
    CHECK_EQ(weft_pool_submit_batch(scene.pool, count_task, args, 2, WEFT_NEVER), 2);
    scene.task = start_task(scene.pool, count_handle, &scene.ran);
    CHECK_FIGURES(scene.pool, IS(running, 1), IS(starting, 0), IS(queued, PLAIN), IS(beyond, PLAIN),
                  IS(blocked, 0));
    CHECK_EQ(ran(), 0); /* none ran inside this one */
    done();
}

static void a_plain_submit_goes_beyond_the_limit(void *arg)
{
    scene_open((weft_pool_options){.capacity = 1, .function = count_task});
    scene_play(submit_in_every_way);
    drop_handle(scene.task);
    CHECK_EQ(ran(), PLAIN);
    CHECK_FIGURES(scene.pool, IS(beyond, PLAIN), IS(completed, PLAIN + 1));
    scene_close();
}

/* It does not wait behind others, and is not counted as blocked. */

static void submit_past_the_line(void *arg)
{
    AWAIT_FIGURE(scene.pool, blocked, 1);
    CHECK_EQ(weft_pool_submit(scene.pool, count_task, &scene.ran), 0);
    CHECK_FIGURES(scene.pool, IS(beyond, 1), IS(blocked, 1), IS(rejected, 0));
    done();
}

static void a_plain_submit_does_not_stand_in_line(void)
{
    for (int thread = 0; thread < 2; thread++) {
        scene_open((weft_pool_options){.capacity = 1, .max_blocked = 1});
        CHECK_EQ(weft_pool_submit(scene.pool, submit_past_the_line, NULL), 0);
        struct submission submitter = {
            .pool = scene.pool, .function = count_task, .arg = &scene.ran, .deadline = WEFT_NEVER};
        body_run(submission_main, &submitter, thread);
        CHECK_EQ(submitter.result, 0);
        scene_close();
        CHECK_EQ(ran(), 2);
        CHECK_EQ(count_of(&scene.done), 1);
    }
}

/* A limit of any size: tasks that submit tasks that submit tasks. */

static void grow(void *arg)
{
    uintptr_t depth = (uintptr_t)arg;
    for (int i = 0; depth > 0 && i < 2; i++)
        CHECK_EQ(weft_pool_submit(scene.pool, grow, (void *)(depth - 1)), 0);
    count_task(&scene.ran);
}

/* Each task submits the next, and some wait before or after that. */
static void submit_the_next(void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    bool waits = pool_stats(scene.pool).capacity % 2 == 0;
    if (waits && left % 10 == 0)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    if (left > 1)
        CHECK_EQ(weft_pool_submit(scene.pool, submit_the_next, (void *)(left - 1)), 0);
    if (waits && left % 10 == 5)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    count_task(&scene.ran);
}

static void a_tree_of_submits(void *arg)
{
    enum { DEPTH = 1000 };
    static const int policies[] = {WEFT_BLOCK, WEFT_CALLER_RUNS};
    for (int capacity = 1; capacity <= 4; capacity++)
        for (int i = 0; i < 4; i++) {
            scene_open((weft_pool_options){
                .capacity = capacity, .queue = i / 2 * 3, .when_full = policies[i % 2]});
            CHECK_EQ(weft_pool_submit(scene.pool, submit_the_next, (void *)(uintptr_t)DEPTH), 0);
            await_count(&scene.ran, DEPTH);
            CHECK_EQ(weft_pool_submit(scene.pool, grow, (void *)(uintptr_t)9), 0);
            scene_close(); /* submits of own tasks are admitted while it closes */
            CHECK_EQ(ran(), DEPTH + 1023);
        }
}

static void a_tree_of_submits_on_one_processor(void)
{
    on_processors(1, a_tree_of_submits, NULL);
}

static void submit_with_deadlines(void *arg)
{
    void *args[] = {&scene.ran};
    weft_pool *pool = scene.pool;
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &scene.ran), -EAGAIN);
    CHECK_EQ(weft_pool_try_invoke(pool, &scene.ran), -EAGAIN);
    CHECK_EQ(weft_task_try_start(&scene.task, pool, count_handle, &scene.ran, NULL), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &scene.ran, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, args, 1, WEFT_NOW), -ETIMEDOUT);
    int64_t deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &scene.ran, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    weft_submit_options timed = {.timeout = 100 * WEFT_US};
    weft_submit_options keyed = {.timeout = 100 * WEFT_US, .key = 3};
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &scene.ran, &timed), -ETIMEDOUT);
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &scene.ran, &keyed), -ETIMEDOUT);
    CHECK_EQ(weft_task_start(&scene.task, pool, count_handle, &scene.ran, &timed), -ETIMEDOUT);
    CHECK_EQ(ran(), 0);
    CHECK_FIGURES(pool, IS(beyond, 0), IS(rejected, 9));
    done();
}

static void tries_and_deadlines_mean_what_they_say(void *arg)
{
    scene_open((weft_pool_options){.capacity = 1, .function = count_task});
    scene_play(submit_with_deadlines);
    CHECK_EQ(ran(), 0);
    CHECK_EQ(pool_stats(scene.pool).submitted, 1);
    scene_close();
}

/* With a deadline it stands in line as other submitters do. */

static void submit_with_a_deadline(void *arg)
{
    CHECK_EQ(weft_pool_submit_until(scene.pool, count_task, &scene.ran, weft_after(LONG)), 0);
    CHECK_EQ(pool_stats(scene.pool).beyond, 0);
    done();
}

static void a_deadline_is_waited_for(void)
{
    for (int stops = 0; stops < 2; stops++) {
        scene_open((weft_pool_options){.capacity = 2});
        gate_fill(&scene.gate, scene.pool, 1);
        CHECK_EQ(weft_pool_submit(scene.pool, submit_with_a_deadline, NULL), 0);
        AWAIT_FIGURE(scene.pool, blocked, 1);
        CHECK_EQ(count_of(&scene.done), 0);
        if (stops) /* own tasks that wait are not turned away */
            CHECK_EQ(weft_pool_stop(scene.pool, WEFT_NOW), -ETIMEDOUT);
        gate_open(&scene.gate);
        await_count(&scene.done, 1);
        scene_close();
        CHECK_EQ(ran(), 1);
    }
}

static void note_dropped(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == count_task);
    CHECK_PTR(data, &scene);
    atomic_u32_add_seq_cst(&scene.dropped, 1);
}

static void submit_and_be_rejected(void *arg)
{
    CHECK_EQ(weft_pool_submit(scene.pool, count_task, &scene.ran), 0); /* into the queue */
    CHECK_EQ(weft_pool_submit(scene.pool, count_task, &scene.ran), -EAGAIN);
    CHECK_EQ(weft_task_start(&scene.task, scene.pool, count_handle, &scene.ran, NULL), -EAGAIN);
    CHECK_EQ(ran(), 0);
    done();
}

static void submit_and_drop(void *arg)
{
    submit_counts(scene.pool, &scene.ran, 4);
    CHECK_EQ(count_of(&scene.dropped), 3); /* the queue has room for one */
    CHECK_EQ(pool_stats(scene.pool).queued, 1);
    CHECK_EQ(ran(), 0);
    done();
}

static void policies_mean_what_they_say(void *arg)
{
    static const int policies[] = {WEFT_REJECT, WEFT_DROP_NEWEST, WEFT_DROP_OLDEST};
    for (int i = 0; i < 3; i++) {
        scene_open((weft_pool_options){.capacity = 1,
                                       .queue = 1,
                                       .when_full = policies[i],
                                       .on_drop = note_dropped,
                                       .data = &scene});
        scene_play(policies[i] == WEFT_REJECT ? submit_and_be_rejected : submit_and_drop);
        CHECK_EQ(ran(), 1);
        CHECK_EQ(pool_stats(scene.pool).beyond, 0);
        scene_close();
    }
}

/* WEFT_CALLER_RUNS: the submitter calls the task, which sees nothing of it. */

static struct {
    const weft_fiber *fiber;
    weft_context *context;
    void *state;
    int depth, most;
} caller;

static int give_state(void **state, void *data)
{
    *state = data;
    return 0;
}

static void see_nothing_of_the_caller(void *arg)
{
    CHECK_PTR(weft_self(), caller.fiber); /* it runs in it */
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_PTR(weft_pool_worker_state(), NULL);
    weft_pool_stats stats = pool_stats(scene.pool);
    CHECK_EQ(stats.running, 2); /* with the task at the gate */
    CHECK_EQ(stats.queued + stats.starting, 0);
    count_task(&scene.ran);
}

static int see_nothing_with_a_handle(void *arg)
{
    CHECK_PTR(weft_self(), caller.fiber);
    CHECK(weft_context_current() != NULL && weft_context_current() != caller.context);
    CHECK_PTR(weft_pool_worker_state(), NULL);
    count_task(&scene.ran);
    return 5;
}

static void let_the_caller_run(void *arg)
{
    int result = 0;
    caller.fiber = weft_self();
    caller.context = weft_context_current();
    CHECK(caller.context != NULL);
    CHECK_EQ(weft_pool_submit(scene.pool, see_nothing_of_the_caller, NULL), 0);
    CHECK_PTR(weft_context_current(), caller.context);
    CHECK_PTR(weft_pool_worker_state(), caller.state);
    weft_task *task = start_task(scene.pool, see_nothing_with_a_handle, NULL);
    CHECK_PTR(weft_context_current(), caller.context);
    CHECK_EQ(weft_task_ended(task), 1);
    CHECK_EQ(weft_task_wait(task, &result), 0);
    CHECK_EQ(result, 5);
    weft_task_release(task);
}

static void let_a_bound_caller_run(void *arg)
{
    weft_context *context = new_context();
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    let_the_caller_run(arg);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    done();
}

/* By a fiber, a thread, and a task of another pool, whose worker has a state of another type. */
static void a_task_in_its_caller_sees_nothing_of_it(void)
{
    for (int who = 0; who < 3; who++) {
        int other_state = 0, own_state = 0;
        scene_open((weft_pool_options){.capacity = 1,
                                       .when_full = WEFT_CALLER_RUNS,
                                       .on_worker_start = give_state,
                                       .data = &own_state});
        gate_fill(&scene.gate, scene.pool, 1);
        caller.state = NULL;
        if (who < 2) {
            body_run(let_a_bound_caller_run, NULL, who == 1);
        } else {
            weft_pool *other =
                POOL_OPEN(.capacity = 1, .on_worker_start = give_state, .data = &other_state);
            caller.state = &other_state;
            CHECK_EQ(weft_pool_submit(other, let_a_bound_caller_run, NULL), 0);
            pool_close(other);
        }
        CHECK_EQ(count_of(&scene.done), 1);
        CHECK_EQ(ran(), 2);
        CHECK_FIGURES(scene.pool, IS(completed, 2), IS(running, 1));
        gate_open(&scene.gate);
        scene_close();
    }
}

/* The calls do not nest: a submit by a task in its caller is admitted beyond the limit. */

static void submit_deeper(void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    if (++caller.depth > caller.most)
        caller.most = caller.depth;
    if (left > 0)
        CHECK_EQ(weft_pool_submit(scene.pool, submit_deeper, (void *)(left - 1)), 0);
    caller.depth--;
    count_task(&scene.ran);
}

static void tasks_in_their_callers_do_not_nest(void *arg)
{
    enum { DEEP = 500 };
    scene_open((weft_pool_options){.capacity = 1, .when_full = WEFT_CALLER_RUNS});
    gate_fill(&scene.gate, scene.pool, 1);
    caller.depth = caller.most = 0;
    CHECK_EQ(weft_pool_submit(scene.pool, submit_deeper, (void *)(uintptr_t)DEEP), 0);
    CHECK_EQ(ran(), 1); /* the second waits in the queue */
    CHECK_EQ(pool_stats(scene.pool).beyond, 1);
    gate_open(&scene.gate);
    /* From here on the running task finds its pool full and calls the next task, which submits
     * beyond. */
    scene_close();
    CHECK_EQ(ran(), DEEP + 1);
    CHECK(caller.most <= 2);
}

/* Not in a paused pool, and not with a key: then it waits. */

static void submit_with_key(void *key)
{
    weft_submit_options options = {.key = *(uint64_t *)key};
    CHECK_EQ(weft_pool_submit_with(scene.pool, count_task, &scene.ran, &options), 0);
}

static void a_caller_that_must_not_run_waits(void)
{
    for (uint64_t key = 0; key < 2; key++)
        for (int thread = 0; thread < 2; thread++) {
            scene_open((weft_pool_options){.capacity = 1, .when_full = WEFT_CALLER_RUNS});
            gate_fill(&scene.gate, scene.pool, 1);
            if (key == 0)
                CHECK_EQ(weft_pool_pause(scene.pool), 0);
            struct body body = {.function = submit_with_key, .arg = &key, .thread = thread};
            body_start(&body);
            AWAIT_FIGURE(scene.pool, blocked, 1);
            CHECK_EQ(ran(), 0);
            gate_open(&scene.gate);
            body_join(&body); /* it was admitted */
            if (key == 0) {
                CHECK_EQ(ran(), 0);
                CHECK_EQ(pool_stats(scene.pool).starting, 1);
                CHECK_EQ(weft_pool_resume(scene.pool), 0);
            }
            scene_close();
            CHECK_EQ(ran(), 1);
        }
}

/* A pool that its own task has paused. */

static void submit_and_wait_paused(void *arg)
{
    weft_pool *pool = scene.pool;
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &scene.ran), 0);
    weft_task *task = start_task(pool, count_handle, &scene.ran);
    CHECK_EQ(weft_task_wait_until(task, NULL, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_group *group = group_over(pool, NULL);
    CHECK_EQ(weft_group_go(group, count_handle, &scene.ran), 0);
    CHECK_EQ(ran(), 0);
    CHECK_EQ(pool_stats(pool).running, 1);
    CHECK_EQ(weft_pool_resume(pool), 0);
    drop_handle(task);
    CHECK_EQ(weft_group_close(group), 0);
    done();
}

static void nothing_begins_in_a_paused_pool(void *arg)
{
    for (int capacity = 1; capacity <= 4; capacity += 3) {
        scene_open((weft_pool_options){.capacity = capacity});
        scene_play(submit_and_wait_paused);
        CHECK_EQ(ran(), 3);
        scene_close();
    }
}

/* The limits of two pools. */

static struct {
    weft_pool *callers, *other;
    struct gauge gauge;
} two;

static void be_few(void *arg)
{
    gauge_enter(&two.gauge);
    weft_yield();
    CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    gauge_leave(&two.gauge);
}

static void submit_to_other(void *arg)
{
    CHECK_EQ(weft_pool_submit(two.other, be_few, arg), 0);
}

static void caller_runs_does_not_pass_another_limit(void)
{
    enum { SUBMITTERS = 50 };
    struct gate gate;
    struct submission submitters[SUBMITTERS];
    struct body bodies[SUBMITTERS];
    memset(&two, 0, sizeof two);
    two.callers = POOL_OPEN(.capacity = 1, .when_full = WEFT_CALLER_RUNS);
    two.other = POOL_OPEN(.capacity = 2);
    gate_shut_and_fill(&gate, two.callers, 1);
    for (int i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (struct submission){
            .pool = two.callers, .function = submit_to_other, .deadline = WEFT_NEVER};
        bodies[i] = (struct body){.function = submission_main, .arg = &submitters[i]};
    }
    bodies_run(bodies, SUBMITTERS);
    pool_close(two.other);
    gate_open_and_close(&gate, two.callers);
    CHECK_EQ(gauge_total(&two.gauge), SUBMITTERS);
    CHECK(gauge_most(&two.gauge) <= 2);
}

/* A lock that the submitter holds. */

static void lock_and_count(void *arg)
{
    weft_mutex_lock(&scene.mutex);
    count_task(&scene.ran);
    weft_mutex_unlock(&scene.mutex);
}

static void submit_under_lock(void *arg)
{
    weft_mutex_lock(&scene.mutex);
    submit_many(scene.pool, lock_and_count, NULL, 10);
    weft_yield();
    CHECK_EQ(ran(), 0);
    weft_mutex_unlock(&scene.mutex);
    done();
}

static void a_lock_is_held_while_submitting(void *arg)
{
    for (int capacity = 1; capacity <= 3; capacity++) {
        scene_open((weft_pool_options){.capacity = capacity});
        scene.mutex = (weft_mutex)WEFT_MUTEX_INIT;
        scene_play(submit_under_lock);
        CHECK_EQ(ran(), 10);
        scene_close();
    }
}

/* A task that submits its consumer and then feeds it; the pool is full at that moment. */

enum { FED = 100 };

static void consume(void *arg)
{
    int number = 0;
    for (int i = 0; i < FED; i++) {
        CHECK_EQ(weft_chan_receive(scene.chan, &number), 0);
        CHECK_EQ(number, i);
    }
    count_task(&scene.ran);
}

static void submit_and_feed(void *arg)
{
    CHECK_EQ(weft_pool_submit(scene.pool, consume, NULL), 0);
    CHECK_EQ(pool_stats(scene.pool).beyond, 1);
    gate_open(&scene.gate);
    for (int i = 0; i < FED; i++)
        CHECK_EQ(weft_chan_send(scene.chan, &i), 0);
    done();
}

static void a_consumer_is_submitted_and_fed(void *arg)
{
    scene_open((weft_pool_options){.capacity = 2});
    CHECK_EQ(weft_chan_make(&scene.chan, sizeof(int), 0), 0);
    gate_fill(&scene.gate, scene.pool, 1);
    scene_play(submit_and_feed);
    CHECK_EQ(ran(), 1);
    scene_close();
    weft_chan_destroy(scene.chan);
}

/* A large frame, on the default stack of 64 KiB. */

static void submit_itself(void *arg)
{
    volatile char frame[12 * 1024];
    uintptr_t left = (uintptr_t)arg;
    frame[0] = (char)left;
    if (left > 0)
        CHECK_EQ(weft_pool_submit(scene.pool, submit_itself, (void *)(left - 1)), 0);
    CHECK_EQ(frame[0], (char)left);
    count_task(&scene.ran);
}

static void a_large_frame_submits_itself(void *arg)
{
    static const int64_t capacities[] = {1, 4, 1000};
    for (int i = 0; i < 3; i++) {
        scene_open((weft_pool_options){.capacity = capacities[i]});
        for (int64_t k = 0; k < capacities[i] && k < 4; k++)
            CHECK_EQ(weft_pool_submit(scene.pool, submit_itself, (void *)(uintptr_t)200), 0);
        scene_close();
        CHECK_EQ(ran(), 201 * (capacities[i] < 4 ? capacities[i] : 4));
    }
}

int main(void)
{
    RUN_EVERYWHERE(a_plain_submit_goes_beyond_the_limit);
    RUN_BOTH(a_plain_submit_does_not_stand_in_line);
    RUN_EVERYWHERE(a_tree_of_submits);
    RUN_PLAIN(a_tree_of_submits_on_one_processor, "a seed has one processor");
    RUN_EVERYWHERE(tries_and_deadlines_mean_what_they_say);
    RUN_BOTH(a_deadline_is_waited_for);
    RUN_EVERYWHERE(policies_mean_what_they_say);
    RUN_BOTH(a_task_in_its_caller_sees_nothing_of_it);
    RUN_EVERYWHERE(tasks_in_their_callers_do_not_nest);
    RUN_BOTH(a_caller_that_must_not_run_waits);
    RUN_EVERYWHERE(nothing_begins_in_a_paused_pool);
    RUN_BOTH(caller_runs_does_not_pass_another_limit);
    RUN_EVERYWHERE(a_lock_is_held_while_submitting);
    RUN_EVERYWHERE(a_consumer_is_submitted_and_fed);
    RUN_EVERYWHERE(a_large_frame_submits_itself);
    return 0;
}
