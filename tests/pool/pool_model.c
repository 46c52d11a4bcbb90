/*
 * pool_model.c: the pool (src/pool): submit against stop; the line of a full pool, with drain
 * requests and collects (pool/pool_internal.h); inbox and outbox (pool/shard.c); places that are
 * lent (pool/lending.c), and shared with a sub-pool (pool/subpools.c).
 *
 * Submitters are threads, which nap, or fibers. Every fiber, also a worker, has a thread of the
 * model and a processor of its own, and parks as threads do: machines are not part of this model. A
 * task that parks notifies the pool first, as weft__park would. Pools are opened as if there were a
 * processor for each fiber, so that each has a shard; after that there is one, so one worker is
 * active and others are woken only when its task parks.
 *
 * What must hold: the task of a submit that returned 0 runs, once, before a stop returns; that of a
 * submit that returned an error never runs; no more tasks are active at once than the capacity; no
 * thread waits for ever.
 */
#include <errno.h>

#include "pool/dispatch.h"
#include "pool/lending.h"
#include "pool/shard.h"
#include "pool_tasks.h"

static void one_against_stop(void)
{
    open_pool(1, 0);
    model_thread("submitter", run_submitter, number(0), true);
    stopper();
}

static void two_against_stop(void)
{
    open_pool(1, 0);
    submitting_fiber("submitter 1", run_submitter, 0);
    submitting_fiber("submitter 2", run_submitter, 1);
    stopper();
}

static void thread_against_stop(void)
{
    open_pool(1, 0);
    must_submit(task, 0);
    model_thread("submitter", run_submitter, number(1), true);
    stopper();
}

/* Workers become idle, or expire, during a submit. */

static bool first_two_are_in(void)
{
    return admitted[0] && admitted[1];
}

static void expiry_against_submit(void)
{
    open_pool(1, 1);
    pool->options.keep = 0;
    must_submit(task, 0);
    submitting_fiber("submitter", run_submitter, 1);
    stopper_after(first_two_are_in);
}

static bool all_are_in(void)
{
    return admitted[0] && admitted[1] && admitted[2];
}

static void run_submitter_of_two(void *arg)
{
    submit((int)(intptr_t)arg);
    submit((int)(intptr_t)arg + 1);
}

static void rest_against_submit(void)
{
    open_pool(2, 2);
    have_processors(2);
    weft__sched.idle_count.value = 1;
    must_submit(task, 0);
    submitting_fiber("submitter", run_submitter_of_two, 1);
    stopper_after(all_are_in);
}

/* A full pool, whose workers have tasks in an inbox and have parked before: task 0 has one place,
 * tasks 1 and 2 are in the inbox of the other worker. Task 2 does not end before the last task is
 * admitted, so the place of task 1 must be passed on when task 2 parks. */

static bool last_is_in(void)
{
    return admitted[3];
}

FLAG(first_parked, first_is_parked)

static void long_task(void *arg)
{
    task_begins();
    first_parked |= arg == number(0);
    park_until(last_is_in);
    task_ends((int)(intptr_t)arg);
}

static void parking_task(void *arg)
{
    task_begins();
    park_until(may_go_on);
    task_ends((int)(intptr_t)arg);
}

static bool submitter_naps;

static void run_last_submitter(void *arg)
{
    submit((int)(intptr_t)arg);
    model_calm(true);
}

static void run_first_submitter(void *arg)
{
    model_calm(true);
    must_submit(long_task, 0);
    model_wait_until(first_is_parked);
    must_submit(parking_task, 1);
    must_submit(long_task, 2);
    if (submitter_naps)
        model_thread("last submitter", run_last_submitter, number(3), true);
    else
        submitting_fiber("last submitter", run_last_submitter, 3);
    stopper_after(last_is_in);
    model_calm(false);
}

static void inbox_is_full(void)
{
    open_pool(2, 1);
    model_thread("first submitter", run_first_submitter, NULL, true);
}

static void inbox_is_full_for_threads(void)
{
    submitter_naps = true;
    inbox_is_full();
}

/* A pause, while a worker has tasks in its inbox: the worker does not take the next. */

static void run_pauser(void *arg)
{
    MODEL_CHECK(weft_pool_pause(pool) == 0);
    paused = true;
    pass_time();
    paused = false;
    MODEL_CHECK(weft_pool_resume(pool) == 0);
}

static void pause_against_inbox(void)
{
    open_pool(2, 2);
    must_submit(task, 0);
    must_submit(task, 1);
    must_submit(task, 2);
    model_thread("pauser", run_pauser, NULL, true);
    stopper_after(all_are_in);
}

/* Outboxes are used in a pool of short tasks while a worker is active and tasks are ready. So the
 * worker is in its first task until the second is in the queue. */

FLAG(first_begun, first_has_begun)
FLAG(second_tried, second_is_tried)

static void first_task(void *arg)
{
    first_begun = true;
    model_wait_until(second_is_tried);
    task(arg);
}

static void run_submitting_fiber(void *arg)
{
    admitted[0] = weft_pool_submit(pool, first_task, number(0)) == 0;
    if (admitted[0])
        model_wait_until(first_has_begun);
    submit(1);
    second_tried = true;
    submit(2);
    submit(3);
}

static void with_outboxes(void)
{
    open_pool(4 * OUTBOX_LEAST * FIBERS, 0);
    submitting_fiber("submitter", run_submitting_fiber, 0);
}

static void outbox_against_stop(void)
{
    with_outboxes();
    stopper();
}

static void outbox_against_worker(void)
{
    with_outboxes();
    stopper_after(last_is_in);
}

/* Beyond the limit: task 0 fills the pool, task 1 waits in line, task 0 submits task 2. */

static void submitting_task(void *arg)
{
    task_begins();
    must_submit(task, 2);
    task_ends((int)(intptr_t)arg);
}

static void beyond_against_stop(void)
{
    open_pool(1, 0);
    must_submit(submitting_task, 0);
    submitting_fiber("submitter", run_submitter, 1);
    stopper();
}

/* Lending: in a pool of one, task 0 waits for task 1, which it starts; task 2 is in the queue. */

static weft_task *child;
static bool child_runs;
static int64_t wait_deadline;
FLAG(parent_ended, parent_has_ended)

static int child_task(void *arg)
{
    task_begins();
    MODEL_CHECK(!strict || active <= pool->capacity);
    child_runs = true;
    pass_time();
    child_runs = false;
    task_ends((int)(intptr_t)arg);
    return 7;
}

static weft_task *start(weft_pool *in, int (*function)(void *), int index)
{
    weft_task *started;
    MODEL_CHECK(weft_task_start(&started, in, function, number(index), NULL) == 0);
    admitted[index] = 1;
    return started;
}

static void begin_wait(void)
{
    active--;
    became_inactive++;
}

static void parent_ends(void *arg)
{
    weft_task_release(child);
    parent_ended = true;
    task_ends((int)(intptr_t)arg);
}

/* In a task: waits for another task, which ran if it has ended and was not cancelled. */
static void wait_for(weft_task *awaited, int index)
{
    int result = 0;
    begin_wait();
    int error = weft_task_wait_until(awaited, &result, wait_deadline);
    active++;
    MODEL_CHECK(error == 0 || (error == -ETIMEDOUT && wait_deadline != WEFT_NEVER));
    MODEL_CHECK(error != 0 || result == (ran[index] ? 7 : -ECANCELED));
    MODEL_CHECK(!strict || active <= pool->capacity);
}

static int (*child_function)(void *) = child_task;

static void waiting_task(void *arg)
{
    task_begins();
    child = start(pool, child_function, 1);
    wait_for(child, 1);
    pass_time();
    parent_ends(arg);
}

/* The place is lent to task 1 alone, and is task 0's again before any other task begins. */
static void third_task(void *arg)
{
    MODEL_CHECK(parent_ended && !child_runs);
    task(arg);
}

static void lending(void)
{
    open_pool(1, 1);
    wait_deadline = WEFT_NEVER;
    must_submit(waiting_task, 0);
    must_submit(third_task, 2);
}

static void lending_against_stop(void)
{
    lending();
    stopper();
}

/* The wait may end before task 1 does. */
static void lending_against_clock(void)
{
    lending();
    strict = false;
    wait_deadline = weft_after(1);
    stopper_after(parent_has_ended);
}

/* Three deep: task 1 starts task 3 and waits for it. */
static int waiting_child_task(void *arg)
{
    task_begins();
    weft_task *grandchild = start(pool, child_task, 3);
    wait_for(grandchild, 3);
    weft_task_release(grandchild);
    task_ends((int)(intptr_t)arg);
    return 7;
}

static void lending_deep(void)
{
    lending();
    child_function = waiting_child_task;
    stopper_after(parent_has_ended);
}

/* In a pool of two, task 1 runs already when task 0 waits for it, and may end at that moment. Tasks
 * 2 and 3 do not end before task 0 does. */
FLAG(child_begun, child_has_begun)
FLAG(parent_waits, parent_is_to_wait)

static int running_child_task(void *arg)
{
    task_begins();
    child_begun = true;
    model_wait_until(parent_is_to_wait);
    task_ends((int)(intptr_t)arg);
    return 7;
}

static void task_until_parent_ends(void *arg)
{
    task_begins();
    park_until(parent_has_ended);
    task_ends((int)(intptr_t)arg);
}

static void waiting_for_running_task(void *arg)
{
    task_begins();
    model_calm(true);
    child = start(pool, running_child_task, 1);
    park_until(child_has_begun);
    must_submit(task_until_parent_ends, 2);
    must_submit(task_until_parent_ends, 3);
    model_calm(false);
    parent_waits = true;
    wait_for(child, 1);
    parent_ends(arg);
}

static void lending_to_running(void)
{
    open_pool(2, 2);
    wait_deadline = WEFT_NEVER;
    must_submit(waiting_for_running_task, 0);
    stopper_after(parent_has_ended);
}

/* Task 0 waits for a group of tasks 1 and 3. */
static int member_task(void *arg)
{
    (void)child_task(arg);
    return 0;
}

static weft_group *group;

static void add_member(int index)
{
    MODEL_CHECK(weft_group_go(group, member_task, number(index)) == 0);
    admitted[index] = 1;
}

static void waiting_for_group(void *arg)
{
    task_begins();
    MODEL_CHECK(weft_pool_group(&group, pool, NULL) == 0);
    add_member(1);
    add_member(3);
    begin_wait();
    MODEL_CHECK(weft_group_close(group) == 0);
    active++;
    MODEL_CHECK(ran[1] && ran[3] && active <= pool->capacity);
    pass_time();
    parent_ends(arg);
}

static void lending_to_group(void)
{
    open_pool(1, 1);
    must_submit(waiting_for_group, 0);
    must_submit(third_task, 2);
    stopper();
}

/* Task 3 joins the group from outside. */
FLAG(group_opened, group_is_open)
FLAG(outsider_is_done, outsider_has_ended)

static void run_outsider(void *arg)
{
    model_wait_until(group_is_open);
    add_member(3);
    outsider_is_done = true;
}

static void waiting_for_open_group(void *arg)
{
    task_begins();
    MODEL_CHECK(weft_pool_group(&group, pool, NULL) == 0);
    add_member(1);
    group_opened = true;
    begin_wait();
    MODEL_CHECK(weft_group_wait(group, NULL) == 0);
    model_wait_until(outsider_has_ended);
    MODEL_CHECK(weft_group_close(group) == 0);
    active++;
    MODEL_CHECK(ran[1] && ran[3] && active <= pool->capacity);
    parent_ends(arg);
}

static void lending_to_open_group(void)
{
    open_pool(1, 3);
    must_submit(waiting_for_open_group, 0);
    must_submit(task, 2); /* which may begin before task 3 is admitted */
    submitting_fiber("outsider", run_outsider, 0);
    stopper_after(parent_has_ended);
}

/* All tasks that have not begun are dropped. */
FLAG(abort_is_over, abort_has_ended)

static void run_aborter(void *arg)
{
    model_wait_until(group_is_open);
    model_calm(false);
    int64_t dropped = weft_pool_abort(pool);
    MODEL_CHECK(dropped >= 0 && dropped <= 2);
    abort_is_over = true;
    if (outsider_is_done)
        model_calm(true);
}

static void run_outsider_of_dropped(void *arg)
{
    model_wait_until(group_is_open);
    model_calm(false);
    run_outsider(arg);
    if (abort_is_over)
        model_calm(true);
}

static void waiting_for_dropped_group(void *arg)
{
    task_begins();
    model_calm(true); /* until it waits */
    MODEL_CHECK(weft_pool_group(&group, pool, &(weft_group_options){.keep_going = 1}) == 0);
    add_member(1);
    group_opened = true;
    begin_wait();
    MODEL_CHECK(weft_group_wait(group, NULL) == 0);
    model_wait_until(outsider_has_ended);
    MODEL_CHECK(weft_group_wait(group, NULL) == 0);
    active++;
    model_wait_until(abort_has_ended);
    (void)weft_group_close(group);
    admitted[1] = ran[1];
    admitted[3] = ran[3];
    parent_ends(arg);
}

static void lending_against_abort(void)
{
    open_pool(1, 3);
    must_submit(waiting_for_dropped_group, 0);
    model_thread("aborter", run_aborter, NULL, true);
    submitting_fiber("outsider", run_outsider_of_dropped, 0);
    stopper_after(parent_has_ended);
}

/* Task 0 waits for task 1, which is cancelled. */
FLAG(child_started, child_is_started)
FLAG(cancel_is_over, cancel_has_ended)

static void run_canceller_of_child(void *arg)
{
    model_wait_until(child_is_started);
    int cancelled = weft_task_cancel(child);
    MODEL_CHECK(cancelled >= 0 && cancelled <= 2);
    cancel_is_over = true;
}

static void cancelled_wait_task(void *arg)
{
    task_begins();
    MODEL_CHECK(weft_task_start(&child, pool, child_task, number(1), NULL) == 0);
    child_started = true;
    wait_for(child, 1);
    admitted[1] = ran[1];
    model_wait_until(cancel_has_ended);
    parent_ends(arg);
}

static void lending_against_cancel(void)
{
    open_pool(1, 1);
    wait_deadline = WEFT_NEVER;
    must_submit(cancelled_wait_task, 0);
    must_submit(third_task, 2);
    model_thread("canceller", run_canceller_of_child, NULL, true);
    stopper_after(parent_has_ended);
}

/* A worker that ends waits for a task of its pool: it holds no place. */
static void exit_waits(void *state, void *data)
{
    if (admitted[1])
        return;
    admitted[1] = 1; /* other workers that end start none */
    weft_task *last = start(pool, child_task, 1);
    MODEL_CHECK(weft_task_wait(last, NULL) == 0);
    weft_task_release(last);
}

static void exit_against_stop(void)
{
    open_pool(1, 0);
    pool->options.on_worker_exit = exit_waits;
    must_submit(task, 0);
    stopper();
}

/* In a pool of two, another worker has tasks 2 and 3 in its inbox. When task 0 takes its place back
 * while all places are taken, that worker must not take the next task. */
static int long_child_task(void *arg)
{
    task_begins();
    park_until(parent_has_ended);
    task_ends((int)(intptr_t)arg);
    return 7;
}

static void task_beside(void *arg)
{
    if (arg == number(2))
        model_calm(false);
    task(arg);
}

static void task_that_gives_up(void *arg)
{
    task_begins();
    model_calm(true);
    child = start(pool, long_child_task, 1);
    must_submit(task_beside, 2);
    must_submit(task_beside, 3);
    wait_for(child, 1);
    pass_time();
    parent_ends(arg);
    model_calm(true);
}

static void lending_against_inbox(void)
{
    open_pool(2, 2);
    strict = false;
    wait_deadline = weft_after(1);
    must_submit(task_that_gives_up, 0);
    stopper_after(parent_has_ended);
}

/* A handle is cancelled while a worker may take it. */

static int cancelled;

static int handled_task(void *arg)
{
    task(arg);
    return 7;
}

static void run_canceller(void *arg)
{
    int result;
    cancelled = weft_task_cancel(child);
    MODEL_CHECK(cancelled >= 0 && cancelled <= 2);
    MODEL_CHECK(weft_task_wait(child, &result) == 0);
    MODEL_CHECK(ran[0] ? result == 7 && cancelled != 0 : result == -ECANCELED && cancelled == 0);
    admitted[0] = ran[0];
    weft_task_release(child);
}

static void cancel_against_worker(void)
{
    open_pool(1, 0);
    child = start(pool, handled_task, 0);
    model_thread("canceller", run_canceller, NULL, true);
    stopper();
}

static void cancel_makes_room(void)
{
    cancel_against_worker();
    submitting_fiber("submitter", run_submitter, 1);
}

static void places_go_round(void)
{
    with_sub_pool();
    wait_deadline = WEFT_NEVER;
    must_submit(task, 0);
    must_submit_below(task, 1);
    must_submit(task, 2);
    must_submit_below(task, 3);
    stopper();
}

/* Task 0 waits for task 1, in the sub-pool or in its own, while tasks of both are ready: its place
 * is for task 1 alone. */
static weft_pool *child_pool;

static void waiting_task_of_tree(void *arg)
{
    task_begins();
    must_submit_below(third_task, 3);
    child = start(child_pool, child_task, 1);
    wait_for(child, 1);
    parent_ends(arg);
}

static void lending_beside_sub_pool(void)
{
    with_sub_pool();
    wait_deadline = WEFT_NEVER;
    child_pool = pool;
    must_submit(waiting_task_of_tree, 0);
    must_submit(third_task, 2);
    stopper_after(parent_has_ended);
}

static void lending_to_sub_pool(void)
{
    lending_beside_sub_pool();
    child_pool = sub;
}

static const struct scenario scenarios[] = {
    {"one submits, one stops", one_against_stop, all_is_done, 3, 1, 0},
    {"a submitter waits for what is in an inbox", inbox_is_full, all_is_done, 3, 1, 0},
    {"a thread waits for what is in an inbox", inbox_is_full_for_threads, all_is_done, 2, 1, 0},
    {"a task gives up its wait beside an inbox", lending_against_inbox, all_is_done, 3, 1, 1},
    {"a pool is paused while a worker has an inbox", pause_against_inbox, all_is_done, 2, 1, 0},
    {"a fiber fills its outbox, one stops", outbox_against_stop, all_is_done, 2, 1, 0},
    {"a fiber fills its outbox, a worker runs dry", outbox_against_worker, all_is_done, 2, 1, 0},
    {"a task submits beyond the limit, one stops", beyond_against_stop, all_is_done, 2, 0, 0},
    {"a task waits for a task, one stops", lending_against_stop, all_is_done, 2, 1, 0},
    {"a task gives up its wait for a task", lending_against_clock, all_is_done, 2, 1, 1},
    {"a task waits for one that waits for a third", lending_deep, all_is_done, 1, 1, 0},
    {"a task waits for one that runs", lending_to_running, all_is_done, 2, 1, 0},
    {"a task waits for a group, one stops", lending_to_group, all_is_done, 2, 0, 0},
    {"a task waits for a group that grows", lending_to_open_group, all_is_done, 1, 1, 0},
    {"a growing group is awaited and dropped", lending_against_abort, all_is_done, 1, 0, 0},
    {"a task waits for one that is cancelled", lending_against_cancel, all_is_done, 1, 1, 0},
    {"a worker that ends waits for a task", exit_against_stop, all_is_done, 2, 1, 0},
    {"a handle is cancelled, a worker takes it", cancel_against_worker, all_is_done, 2, 1, 0},
    {"a handle is cancelled, a submitter waits", cancel_makes_room, all_is_done, 1, 1, 0},
    {"a thread submits to a full pool, one stops", thread_against_stop, all_is_done, 2, 0, 0},
    {"a worker expires while one submits", expiry_against_submit, all_is_done, 2, 1, 1},
    {"workers come to rest while one submits", rest_against_submit, all_is_done, 1, 1, 0},
    {"two submit to a pool of one, one stops", two_against_stop, all_is_done, 2, 0, 0},
    {"a pool and its sub-pool share a place", places_go_round, tree_is_done, 2, 0, 0},
    {"a task waits for one of a sub-pool", lending_to_sub_pool, tree_is_done, 2, 0, 0},
    {"a task waits beside a sub-pool", lending_beside_sub_pool, tree_is_done, 2, 0, 0},
};

MODEL_MAIN(scenarios)
