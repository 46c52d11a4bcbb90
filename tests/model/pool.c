/*
 * The pool (src/pool): submit against stop, a full pool: attention, collect and park (pool/pool.h), and trays (pool/tray.c).
 *
 * Submitters are threads, but for trays. A worker is a fiber that has a thread of the model to itself, and parks as
 * threads do: what a machine does is not part of this model.
 *
 * What must hold: a submit that returned 0 has its task run, once, before a stop returns; one that returned an
 * error has it never run; no more tasks at once than the capacity; nobody waits for ever.
 */
#include "pool/pool.h"

#include <errno.h>

#include "explore.h"
#include "pool/crash.h"
#include "pool/group.h"
#include "pool/panic.h"
#include "pool/task.h"
#include "stack/slab.h"

enum { TASKS = 4, WORKERS = 4 };

static weft_pool *pool;
static int submitted[TASKS], ran[TASKS];
static int at_once, most;
static atomic_u32 work;
static bool stopped;

/* What a pool needs of fibers. */

static struct weft_fiber fibers[WORKERS];
static struct extra extras[WORKERS];
static struct foreign records[WORKERS]; /* of their threads */
static struct processor processors[WORKERS];
static int fiber_count;

atomic_u32 weft__runtime_running;

int weft__runtime_start(void)
{
    return -ENOSYS;
}

int weft__fiber_make(struct weft_fiber **fiber, void (*function)(void *), void *arg, void *site)
{
    MODEL_CHECK(fiber_count < WORKERS);
    int index = fiber_count++;
    (void)site;
    fibers[index].function = function;
    fibers[index].arg = arg;
    fibers[index].extra.value = &extras[index];
    *fiber = &fibers[index];
    return 0;
}

struct extra *weft__fiber_extra(struct weft_fiber *fiber)
{
    return fiber_extra(fiber);
}

void weft__fiber_discard(struct weft_fiber *fiber)
{
    (void)fiber;
}

static void run_fiber(void *arg)
{
    struct weft_fiber *fiber = arg;
    int index = (int)(fiber - fibers);
    records[index].thread.fiber = fiber;
    records[index].thread.processor = &processors[index];
    thread_word_set(&records[index]);
    fiber->function(fiber->arg);
}

void weft__fiber_start(struct weft_fiber *fiber, bool next)
{
    (void)next;
    static const char *const names[WORKERS] = {"worker 1", "worker 2", "worker 3", "worker 4"};
    model_thread(names[fiber - fibers], run_fiber, fiber, true);
}

weft_fiber *weft_self(void)
{
    struct thread *thread = thread_self();
    return thread != NULL ? thread->fiber : NULL;
}

void weft_yield(void)
{
}

int weft_sleep(int64_t duration)
{
    (void)duration;
    return 0;
}

bool weft__sys_alloc_fails(void)
{
    return false;
}

void *weft__slab_get(size_t size, size_t *room)
{
    *room = size;
    return weft__sys_alloc(size);
}

void weft__slab_put(void *piece, size_t room)
{
    (void)room;
    weft__sys_free(piece);
}

int64_t weft_now(void)
{
    return weft__sys_now_coarse();
}

int64_t weft_after(int64_t duration)
{
    return weft_now() + duration;
}

struct foreign *weft__foreign_self(void)
{
    static struct foreign nobody;
    return &nobody;
}

/* What this model does not use. */

int weft__isolated_make(weft_pool *isolating)
{
    (void)isolating;
    return -ENOSYS;
}

void weft__isolated_end(struct worker *isolated)
{
    (void)isolated;
}

void weft__task_crashed(struct weft_task *task, struct panic *panic)
{
    (void)task, (void)panic;
}

void weft__pool_group_crashed(struct weft_pool *of, const void *arg, struct weft_fiber *gone,
                              struct panic *panic)
{
    (void)of, (void)arg, (void)gone, (void)panic;
}

int weft__stack_class(size_t size)
{
    (void)size;
    return 0;
}

int weft_timer_open(weft_timer **timer, void (*function)(void *), void *arg)
{
    (void)timer, (void)function, (void)arg;
    return -ENOSYS;
}

int weft_timer_start(weft_timer *timer, int64_t deadline, int64_t period)
{
    (void)timer, (void)deadline, (void)period;
    return -ENOSYS;
}

int weft_timer_close(weft_timer *timer)
{
    (void)timer;
    return -ENOSYS;
}

bool weft__guarded(struct guard *guard, void (*function)(void *), void *arg)
{
    (void)guard;
    function(arg);
    return false;
}

bool weft__pool_call_option(weft_pool *of, void (*function)(void *), void *arg)
{
    (void)of;
    function(arg);
    return false;
}

void weft__pool_panicked(weft_pool *of, const struct task *panicked, struct panic *panic)
{
    (void)of, (void)panicked, (void)panic;
    model_fail("a task panicked");
}

bool weft__task_call(struct weft_task *task)
{
    (void)task;
    return false;
}

void weft__task_dropped(struct weft_task *task)
{
    (void)task;
}

void weft__pool_group_run(void *arg)
{
    (void)arg;
}

void weft__pool_group_dropped(const void *arg)
{
    (void)arg;
}

/* The scenarios. */

static void task(void *arg)
{
    MODEL_CHECK(!stopped);
    at_once++;
    if (at_once > most)
        most = at_once;
    atomic_u32_add_acq_rel(&work, 1); /* something to be interrupted at */
    at_once--;
    ran[(intptr_t)arg]++;
}

static void submit(int index)
{
    int error = weft_pool_submit_until(pool, task, (void *)(intptr_t)index, WEFT_NEVER);
    MODEL_CHECK(error == 0 || error == -ESHUTDOWN);
    submitted[index] = error == 0;
}

static void run_submitter(void *arg)
{
    submit((int)(intptr_t)arg);
}

/* A fiber, with a processor of its own, in a pool of short tasks: it has a tray while a worker takes, and tasks are ready. So the worker
 * is in its first task until the second is in the queue. */
static bool first_begun, second_tried;

static bool first_is_begun(void)
{
    return first_begun;
}

static bool second_is_tried(void)
{
    return second_tried;
}

static void first_task(void *arg)
{
    first_begun = true;
    model_wait_until(second_is_tried);
    task(arg);
}

static void run_submitting_fiber(void *arg)
{
    (void)arg;
    submitted[0] = weft_pool_submit(pool, first_task, (void *)0) == 0;
    if (submitted[0])
        model_wait_until(first_is_begun);
    submit(1);
    second_tried = true;
    submit(2);
    submit(3);
}

static void run_stopper(void *arg)
{
    (void)arg;
    MODEL_CHECK(weft_pool_stop(pool, WEFT_NEVER) == 0);
    stopped = true;
}

/* Does not end before the third was admitted: so the place of the first must be given on at once, though its
 * worker has more in hand. */
static bool third_is_in(void)
{
    return submitted[2];
}

static void long_task(void *arg)
{
    model_wait_until(third_is_in);
    task(arg);
}

static void run_submitter_of_long(void *arg)
{
    submit((int)(intptr_t)arg);
    submitted[1] = weft_pool_submit_until(pool, long_task, (void *)(intptr_t)1, WEFT_NEVER) == 0;
}

static bool all_submitted(void)
{
    return submitted[0] && submitted[1] && submitted[2];
}

static void run_late_stopper(void *arg)
{
    model_wait_until(all_submitted);
    run_stopper(arg);
}

static void open_pool(int64_t capacity, int64_t queue)
{
    weft_pool_options options = {.capacity = capacity, .queue = queue, .keep = WORKERS};
    weft__barrier.symmetric = false;
    weft__runtime_running.value = 1;
    weft__sched.processor_count = 1;
    MODEL_CHECK(weft_pool_open(&pool, &options) == 0);
    model_name(&pool->latch, "latch");
    model_name(&pool->attention, "attention");
    model_name(&pool->room, "room");
    model_name(&pool->ready, "ready");
}

static void on_trays(void)
{
    struct weft_fiber *fiber;
    open_pool(TRAY_LIMIT, 0);
    pool->quick = true;
    pool->uses_trays.value = 1;
    MODEL_CHECK(weft__fiber_make(&fiber, run_submitting_fiber, NULL, NULL) == 0);
    model_thread("submitter", run_fiber, fiber, true);
}

static void tray_against_stop(void)
{
    on_trays();
    model_thread("stopper", run_stopper, NULL, true);
}

static bool all_ran(void)
{
    return ran[0] && ran[1] && ran[2] && ran[3];
}

/* Nobody but the workers sees to it that they run. */
static void run_last_stopper(void *arg)
{
    model_wait_until(all_ran);
    run_stopper(arg);
}

static void tray_against_worker(void)
{
    on_trays();
    model_thread("stopper", run_last_stopper, NULL, true);
}

static void all_is_done(void)
{
    for (int i = 0; i < TASKS; i++)
        MODEL_CHECK(ran[i] == submitted[i]);
    MODEL_CHECK(most <= pool->capacity && pool->inside == 0 && pool->visitors == 0);
    MODEL_CHECK(stopped && pool->workers == 0 && pool->blocked.length == 0);
}

static void one_against_stop(void)
{
    open_pool(1, 0);
    model_thread("submitter", run_submitter, (void *)0, true);
    model_thread("stopper", run_stopper, NULL, true);
}

static void two_against_stop(void)
{
    open_pool(1, 0);
    model_thread("submitter 1", run_submitter, (void *)0, true);
    model_thread("submitter 2", run_submitter, (void *)1, true);
    model_thread("stopper", run_stopper, NULL, true);
}

/* So many that the worker has them in hand as a chunk, and one that must wait. */
static void chunk_is_full(void)
{
    open_pool(1, 1);
    model_thread("submitter 1", run_submitter_of_long, (void *)0, true);
    model_thread("submitter 2", run_submitter, (void *)2, true);
    model_thread("stopper", run_late_stopper, NULL, true);
}

static const struct scenario scenarios[] = {
    {"one submits, one stops", one_against_stop, all_is_done, 3, 1, 0},
    {"a submitter waits for a chunk in hand", chunk_is_full, all_is_done, 2, 1, 0},
    {"two submit to a pool of one, one stops", two_against_stop, all_is_done, 2, 1, 0},
    {"a fiber lays tasks on its tray, one stops", tray_against_stop, all_is_done, 2, 1, 0},
    {"a worker runs dry while a fiber lays tasks", tray_against_worker, all_is_done, 3, 1, 0},
};

MODEL_MAIN(scenarios)
