/*
 * start_fault.c: system calls fail when the runtime starts, and while it runs.
 *
 * A call of weft returns a documented error and has no effect, or succeeds; every fiber that was
 * spawned with success runs exactly once, and no other; later calls work.
 */
#include "failing.h"
#include "fibers.h"

/* The first call of weft fails, or starts the runtime. */

static atomic_u32 ran;
static uint32_t expected;

static void finish(void)
{
    CHECK_EQ(weft_go(count_up, &ran), 0);
    expected++;
    shut_down();
    CHECK_EQ(atomic_u32_load_acquire(&ran), expected);
}

static void go(void)
{
    int result = weft_go(count_up, &ran);
    failing_off();
    failing_check(result, failing_start);
    expected += result == 0;
    finish();
}

static void go_twice(void)
{
    int first = weft_go(count_up, &ran), second = weft_go(count_up, &ran);
    failing_off();
    failing_check(first, failing_start);
    failing_check(second, failing_start);
    expected += (uint32_t)(first == 0) + (second == 0);
    finish();
}

static void spawn_first(void)
{
    weft_spawn_options options = {.name = "named", .stack_size = 256 * 1024};
    weft_fiber *poison = (weft_fiber *)(uintptr_t)0xdead, *fiber = poison;
    int result = weft_spawn(&fiber, count_up, &ran, &options);
    failing_off();
    failing_check(result, failing_start);
    if (result == 0) {
        CHECK_STR(weft_fiber_name(fiber), "named");
        CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(atomic_u32_load_acquire(&ran), ++expected);
    } else {
        CHECK_PTR(fiber, poison);
    }
    finish();
}

static void open_first_timer(void)
{
    weft_timer *poison = (weft_timer *)(uintptr_t)0xdead, *timer = poison;
    int result = weft_timer_open(&timer, count_up, &ran);
    failing_off();
    failing_check(result, failing_start);
    if (result == 0) {
        expected++;
        CHECK_EQ(weft_timer_start(timer, WEFT_NOW, 0), 0);
        yield_until(&ran, expected);
        CHECK_EQ(weft_timer_close(timer), 0);
    } else {
        CHECK_PTR(timer, poison);
    }
    finish();
}

static void the_first_call_may_fail(void)
{
    static void (*const calls[])(void) = {go, go_twice, spawn_first, open_first_timer};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        CHECK(failing_each(calls[i], 20) > 10);
}

/* No thread can be made after the first few: all fibers run, on those that exist. */

enum { SPAWNERS = 2, EACH = 3000 };

static atomic_u32 spawned;

static void count_and_yield(void *arg)
{
    atomic_u32_add_seq_cst(&ran, 1);
    if (arg != NULL)
        weft_yield();
}

static void spawn_child(void *arg)
{
    CHECK_EQ(weft_go(count_and_yield, arg), 0);
    atomic_u32_add_seq_cst(&spawned, 1);
    CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    atomic_u32_add_seq_cst(&ran, 1);
}

static void *spawn_each_way(void *arg)
{
    static char yield;
    int64_t each = test_scale(EACH);
    for (int64_t i = 0; i < each; i++) {
        CHECK_EQ(weft_go(i % 3 == 0 ? spawn_child : count_and_yield, i % 2 == 0 ? &yield : NULL),
                 0);
        atomic_u32_add_seq_cst(&spawned, 1);
        if (i % 100 == 0)
            sched_yield(); /* the machine becomes idle now and then */
    }
    return NULL;
}

static void run_with(int processors, uint32_t nth, bool persistent)
{
    pthread_t threads[SPAWNERS];
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&spawned, 0);
    configure(processors);
    failing_on(OS_THREAD, nth, persistent);
    for (int i = 0; i < SPAWNERS; i++)
        threads[i] = thread_start(spawn_each_way, NULL);
    for (int i = 0; i < SPAWNERS; i++)
        thread_join(threads[i]);
    shut_down(); /* still without threads */
    failing_off();
    CHECK_EQ(atomic_u32_load_acquire(&ran), atomic_u32_load_acquire(&spawned));
    CHECK(atomic_u32_load_acquire(&ran) >= (uint32_t)(SPAWNERS * test_scale(EACH)));
}

static void all_run_on_one(void)
{
    for (int i = 0; i < 10; i++)
        run_with(2 + i % 3 * 3, 2, true);
}

static void all_run_on_few(void)
{
    for (int i = 0; i < 5; i++) {
        run_with(8, 4, true);
        run_with(8, 3, false);
    }
}

/* The first machine is blocked in user code while no other can be made; then one can. */

static atomic_u32 blocking, over;

static void block(void *arg)
{
    atomic_u32_store_release(&blocking, 1);
    spin_until(&over, 1);
}

static void threads_are_tried_again(void)
{
    weft_fiber *blocker, *fiber;
    atomic_u32_store_relaxed(&ran, 0);
    configure(4);
    failing_on(OS_THREAD, 2, true);
    blocker = spawn(block, NULL);
    spin_until(&blocking, 1);
    go_many(10, count_and_yield, NULL);
    failing_off();
    fiber = spawn(count_and_yield, NULL); /* this one makes a machine */
    CHECK_EQ(weft_join(fiber), 0);
    spin_until(&ran, 11);
    atomic_u32_store_release(&over, 1);
    CHECK_EQ(weft_join(blocker), 0);
    shut_down();
}

/* The runtime runs. */

enum { MANY = 300 };

static atomic_u32 runs[MANY];

static void run_one(void *arg)
{
    atomic_u32_add_seq_cst(arg, 1);
    weft_yield();
}

static struct {
    enum weft__os_call call;
    uint32_t nth;
    bool persistent;
} plan;

static void resume_failing(void)
{
    failing_on(plan.call, plan.nth, plan.persistent);
}

/* Nothing fails until resume_failing. */
static void start_runtime(void)
{
    plan.call = failing.call;
    plan.nth = failing.nth;
    plan.persistent = failing.persistent;
    failing_off();
    configure(3);
    CHECK_EQ(weft_go(nothing, NULL), 0);
}

static int results[MANY];
static weft_fiber *fibers[MANY];

static void spawn_many(void *arg)
{
    weft_spawn_options options = {.name = "one of many"};
    for (int i = 0; i < MANY; i++)
        results[i] = weft_spawn(&fibers[i], run_one, &runs[i], i % 2 == 0 ? &options : NULL);
}

static void check_many(void)
{
    for (int i = 0; i < MANY; i++) {
        failing_check(results[i], failing_spawn);
        if (results[i] == 0)
            CHECK_EQ(weft_join(fibers[i]), 0);
        CHECK_EQ(atomic_u32_load_acquire(&runs[i]), results[i] == 0);
    }
}

static void spawn_from(bool fiber)
{
    memset(runs, 0, sizeof runs);
    start_runtime();
    if (fiber) {
        run_fiber(nothing, NULL); /* from here on there is a machine */
        weft_fiber *spawner = spawn(spawn_many, NULL);
        resume_failing(); /* the spawner may get no stack until failing_off */
        while (weft_join_until(spawner, weft_after(20 * WEFT_MS)) != 0)
            failing_off();
    } else {
        resume_failing();
        spawn_many(NULL);
    }
    failing_off();
    check_many();
    spawn_many(NULL); /* all works again */
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(results[i], 0);
        CHECK_EQ(weft_join(fibers[i]), 0);
    }
    shut_down();
}

static void spawn_from_thread(void)
{
    spawn_from(false);
}

static void spawn_from_fiber(void)
{
    spawn_from(true);
}

static void spawning_many_may_fail(void)
{
    CHECK(failing_each(spawn_from_thread, 12) > 1);
    CHECK(failing_each(spawn_from_fiber, 12) > 1);
}

/* An open timer starts, fires and closes, whatever fails. */

enum { TIMERS = 20 };

static void use_timers(void)
{
    weft_timer *timers[TIMERS];
    int opened[TIMERS];
    atomic_u32 calls[TIMERS];
    memset(calls, 0, sizeof calls);
    start_runtime();
    resume_failing();
    for (int i = 0; i < TIMERS; i++) {
        opened[i] = weft_timer_open(&timers[i], run_one, &calls[i]);
        if (opened[i] == 0)
            CHECK_EQ(weft_timer_start(timers[i], weft_after(i * 10 * WEFT_US), 0), 0);
    }
    int64_t deadline = weft_after(WEFT_MS);
    while (weft_now() < deadline)
        weft_yield();
    failing_off(); /* fibers without a stack get one now */
    for (int i = 0; i < TIMERS; i++) {
        failing_check(opened[i], failing_spawn);
        while (opened[i] == 0 && atomic_u32_load_acquire(&calls[i]) == 0)
            weft_yield();
        if (opened[i] == 0)
            CHECK_EQ(weft_timer_close(timers[i]), 0);
        CHECK_EQ(atomic_u32_load_acquire(&calls[i]), opened[i] == 0);
    }
    shut_down();
}

static void timers_may_fail_to_open_only(void)
{
    CHECK(failing_each(use_timers, 12) > 1);
}

/* A thread that weft does not know yet uses a timer and a fiber of another thread. */

static struct {
    weft_timer *timer;
    weft_fiber *fiber;
    weft_wg gate;
    atomic_u32 begun, ended;
    int started, stopped, joined, detached, closed;
    bool join;
} other;

static void wait_gate(void *arg)
{
    atomic_u32_store_release(&other.begun, 1); /* it has its stack */
    CHECK_EQ(weft_wg_wait(&other.gate), 0);
    atomic_u32_store_release(&other.ended, 1);
}

static void *use_from_thread(void *arg)
{
    other.started = weft_timer_start(other.timer, weft_after(3600 * WEFT_S), 0);
    other.stopped = weft_timer_stop(other.timer);
    if (other.join)
        other.joined = weft_join(other.fiber);
    else
        other.detached = weft_detach(other.fiber);
    other.closed = weft_timer_close(other.timer);
    return NULL;
}

static void use_from_foreign_thread(bool join)
{
    weft_spawn_options options = {.name = "joined"};
    start_runtime();
    atomic_u32_store_relaxed(&other.begun, 0);
    atomic_u32_store_relaxed(&other.ended, 0);
    CHECK_EQ(weft_wg_init(&other.gate, 1), 0);
    other.join = join;
    other.joined = other.detached = 0;
    CHECK_EQ(weft_timer_open(&other.timer, nothing, NULL), 0);
    CHECK_EQ(weft_spawn(&other.fiber, wait_gate, NULL, &options), 0);
    yield_until(&other.begun, 1);
    resume_failing();
    pthread_t thread = thread_start(use_from_thread, NULL);
    if (failing.nth % 2 == 0)
        weft_yield(); /* before or after the thread comes to its join */
    weft_wg_done(&other.gate);
    thread_join(thread);
    failing_off();
    CHECK_EQ(other.started, 0); /* the header names no error for lack of memory */
    CHECK_EQ(other.stopped, 1);
    CHECK_EQ(other.closed, 0);
    CHECK_EQ(other.joined, 0);
    CHECK_EQ(other.detached, 0);
    shut_down();
    CHECK_EQ(atomic_u32_load_acquire(&other.ended), 1);
}

static void join_from_foreign_thread(void)
{
    use_from_foreign_thread(true);
}

static void detach_from_foreign_thread(void)
{
    use_from_foreign_thread(false);
}

static void a_thread_needs_no_record_to_use_timers(void)
{
    (void)failing_each(join_from_foreign_thread, 8);   /* no call that can fail is needed */
    (void)failing_each(detach_from_foreign_thread, 8); /* no call that can fail is needed */
}

int main(void)
{
    RUN_ALL(the_first_call_may_fail, all_run_on_one, all_run_on_few, threads_are_tried_again,
            spawning_many_may_fail, timers_may_fail_to_open_only,
            a_thread_needs_no_record_to_use_timers);
    return 0;
}
