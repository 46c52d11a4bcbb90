/*
 * shutdown.c: the runtime ends when it is asked to, leaves nothing behind, and starts again.
 */
#include "blocked.h"
#include "sched/core/idle.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "system.h"

static void nothing_runs(void)
{
    for (int i = 0; i < 3; i++) {
        shut_down();
        CHECK_EQ(weft_shutdown(WEFT_NOW), 0);
    }
}

static weft_local_key key;
static atomic_u32 ended, ticks;

static void sleep_and_end(void *arg)
{
    void *value = malloc(100);
    CHECK(value != NULL);
    CHECK_EQ(weft_local_set(key, value), 0);
    CHECK_EQ(weft_sleep((int64_t)(uintptr_t)arg * WEFT_US), 0);
    atomic_u32_add_relaxed(&ended, 1);
}

static void tick(void *timer)
{
    weft_yield();
    if (atomic_u32_add_relaxed(&ticks, 1) == 2)
        CHECK_EQ(weft_timer_close(*(weft_timer **)timer), 0);
}

static void *use_from_thread(void *arg)
{
    weft_fiber *fiber;
    weft_spawn_options options = {.name = "of another thread"};
    CHECK_EQ(weft_spawn(&fiber, sleep_and_end, (void *)(uintptr_t)20, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
    return arg;
}

enum { SLEEPERS = 200 };
static const size_t stack_sizes[] = {16 * 1024, 100 * 1000, 1 << 20, 1 << 27};
enum { SIZES = sizeof stack_sizes / sizeof stack_sizes[0] };

static void use_everything(void)
{
    static weft_timer *periodic;
    weft_timer *never;
    atomic_u32_store_relaxed(&ended, 0);
    atomic_u32_store_relaxed(&ticks, 0);
    for (uintptr_t i = 0; i < SLEEPERS; i++)
        CHECK_EQ(weft_go(sleep_and_end, (void *)(i * 10)), 0);
    for (size_t i = 0; i < SIZES; i++) {
        weft_spawn_options options = {.name = "of an odd size", .stack_size = stack_sizes[i]};
        CHECK_EQ(weft_spawn(NULL, sleep_and_end, (void *)(uintptr_t)100, &options), 0);
    }
    (void)spawn(sleep_and_end, NULL); /* never joined */
    thread_join(thread_start(use_from_thread, NULL));
    CHECK_EQ(weft_timer_open(&never, tick, NULL), 0);
    CHECK_EQ(weft_timer_start(never, weft_after(1000 * WEFT_S), 0), 0);
    CHECK_EQ(weft_timer_close(never), 0);
    CHECK_EQ(weft_timer_open(&periodic, tick, &periodic), 0);
    CHECK_EQ(weft_timer_start(periodic, WEFT_NOW, 50 * WEFT_US), 0); /* closes itself */
}

/* After a shut-down all fibers and timers have ended, and the threads and descriptors of the
 * runtime are gone. */
static void ends_and_starts_again(void)
{
    int descriptors_before = open_descriptors();
    for (int64_t round = 0; round < test_scale(20); round++) {
        use_everything();
        CHECK(threads_of_weft() > 0);
        CHECK(open_descriptors() > descriptors_before);
        shut_down();
        CHECK_EQ(atomic_u32_load_relaxed(&ended), SLEEPERS + SIZES + 2);
        CHECK_EQ(atomic_u32_load_relaxed(&ticks), 3);
        CHECK_EQ(open_descriptors(), descriptors_before);
        while (threads_of_weft() > 0) /* /proc shows a thread for a moment after its join */
            sched_yield();
        shut_down();
    }
}

static void start_and_end_at_once(void)
{
    for (int64_t round = 0; round < test_scale(200); round++) {
        weft_fiber *fiber = spawn(sleep_and_end, NULL);
        if (round % 2 == 0)
            CHECK_EQ(weft_join(fiber), 0);
        shut_down();
    }
}

static void end_from_inside(void *result)
{
    *(int *)result = weft_shutdown(WEFT_NEVER);
}

static void not_from_a_fiber(void)
{
    int result = 0;
    run_fiber(end_from_inside, &result);
    CHECK_EQ(result, -EDEADLK);
    shut_down();
}

/* Fibers and timers that do not end. */

static void still_usable(void)
{
    uint32_t before = atomic_u32_load_relaxed(&ended);
    run_fiber(sleep_and_end, (void *)(uintptr_t)50);
    CHECK_EQ(atomic_u32_load_relaxed(&ended), before + 1);
}

static void times_out_with_a_parked_fiber(void)
{
    weft_wg gate = WEFT_WG_INIT;
    CHECK_EQ(weft_wg_add(&gate, 1), 0);
    weft_fiber *fiber = spawn(wait_for_group, &gate);
    CHECK_EQ(weft_shutdown(WEFT_NOW), -ETIMEDOUT);
    still_usable();
    int64_t deadline = weft_after(5 * WEFT_MS);
    CHECK_EQ(weft_shutdown(deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    still_usable();
    CHECK_EQ(weft_join_until(fiber, WEFT_NOW), -ETIMEDOUT); /* the handle is still valid */
    weft_wg_done(&gate);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(weft_after(1000 * WEFT_S)), 0);
}

/* Two threads shut down at the same time. */

static atomic_u32 let_go;

static void wait_to_be_let_go(void *arg)
{
    while (!atomic_u32_load_acquire(&let_go))
        CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
}

static void *shut_down_from_thread(void *arg)
{
    int result;
    while ((result = weft_shutdown(WEFT_NEVER)) == -EBUSY) /* the other thread shuts down */
        sched_yield();
    CHECK_EQ(result, 0);
    return arg;
}

static void one_at_a_time(void)
{
    int result;
    atomic_u32_store_release(&let_go, 0);
    CHECK_EQ(weft_go(wait_to_be_let_go, NULL), 0);
    pthread_t thread = thread_start(shut_down_from_thread, NULL);
    while ((result = weft_shutdown(WEFT_NOW)) == -ETIMEDOUT) /* the other thread has not begun */
        sched_yield();
    CHECK_EQ(result, -EBUSY);
    atomic_u32_store_release(&let_go, 1);
    thread_join(thread);
    shut_down();
}

/* The record of the thread that shuts down is freed, whichever thread stopped the runtime. */

static void thread_is_forgotten(void)
{
    run_fiber(sleep_and_end, NULL);
    CHECK(thread_self() != NULL);
    shut_down();
    CHECK_PTR(thread_self(), NULL);
}

static void thread_is_forgotten_also_after_another_stopped(void)
{
    run_fiber(sleep_and_end, NULL);
    thread_join(thread_start(shut_down_from_thread, NULL));
    shut_down();
    CHECK_PTR(thread_self(), NULL);
}

/* A timer's function spawns a fiber and then closes the timer: at each moment one of them is
 * left. */

struct successor {
    weft_timer *timer;
    uint32_t ended; /* read after the shut-down */
};

static void end_late(void *arg)
{
    struct successor *own = arg;
    weft_yield();
    weft_yield();
    own->ended = 1;
}

static void spawn_and_close(void *arg)
{
    struct successor *own = arg;
    CHECK_EQ(weft_go(end_late, own), 0);
    CHECK_EQ(weft_timer_close(own->timer), 0);
}

static void what_a_timer_leaves_is_waited_for(void)
{
    for (int64_t round = test_scale(300); round > 0; round--) {
        struct successor own = {.ended = 0};
        CHECK_EQ(weft_timer_open(&own.timer, spawn_and_close, &own), 0);
        CHECK_EQ(weft_timer_start(own.timer, WEFT_NOW, 0), 0);
        shut_down();
        CHECK_EQ(own.ended, 1);
    }
}

/* The record of a thread is kept by a shut-down inside a recover point, or while a call is
 * deferred: both are used afterwards. */

static int cleaned;

static void clean(void *arg)
{
    cleaned++;
}

static void run_one(void *arg)
{
    run_fiber(clean, arg);
}

static void shut_down_and_panic(void *arg)
{
    run_one(arg);
    shut_down();
    weft_panic("after the end");
}

static void recover_points_outlive_it(void)
{
    weft_panic_info info;
    weft_deferred record;
    CHECK_EQ(weft_recover(shut_down_and_panic, NULL, &info), -EOWNERDEAD);
    CHECK_STR(info.message, "after the end");
    cleaned = 0;
    weft_defer(&record, clean, NULL);
    run_one(NULL);
    shut_down();
    CHECK_EQ(cleaned, 1);
    weft_deferred_run(&record);
    CHECK_EQ(cleaned, 2);
}

/* A shut-down also joins surplus machines that have just ended. */

static void ended_machines_are_joined(void)
{
    enum { CROWD = 6 };
    int64_t before = weft__idle_surplus_after;
    weft__idle_surplus_after = WEFT_MS;
    configure(1);
    for (int64_t round = test_scale(50); round > 0; round--) {
        weft_fiber *fibers[CROWD];
        blocked_begin(fibers, CROWD, block_marked);
        uint32_t most = machine_count();
        CHECK(most >= CROWD);
        blocked_end(fibers, CROWD);
        while (machine_count() == most)
            usleep(50);
        shut_down();
    }
    weft__idle_surplus_after = before;
    CHECK_EQ(weft_configure(NULL), 0);
}

/* Functions that are called at each stop. */

static atomic_u32 stops;

static void count_stop(void)
{
    atomic_u32_add_seq_cst(&stops, 1);
}

static void functions_at_a_stop_are_called(void)
{
    weft__runtime_at_stop(count_stop);
    weft__runtime_at_stop(count_stop);
    run_one(NULL);
    CHECK_EQ(weft__runtime_start_seeded(1, false), -EBUSY); /* it runs already */
    shut_down();
    CHECK_EQ(atomic_u32_load_acquire(&stops), 2);
}

int main(void)
{
    CHECK_EQ(weft_local_create(&key, free), 0);
    RUN_ALL_PLAIN("stops or configures the runtime", nothing_runs, ends_and_starts_again,
                  start_and_end_at_once, not_from_a_fiber, times_out_with_a_parked_fiber,
                  one_at_a_time, nothing_runs, thread_is_forgotten,
                  thread_is_forgotten_also_after_another_stopped);
    CHECK_EQ(weft_local_delete(key), 0);
    RUN_ALL_PLAIN("stops or configures the runtime", what_a_timer_leaves_is_waited_for,
                  recover_points_outlive_it, ended_machines_are_joined,
                  functions_at_a_stop_are_called);
    return 0;
}
