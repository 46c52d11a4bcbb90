/*
 * shutdown.c: the runtime ends when it is asked to, leaves nothing behind, and starts again.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "bodies.h"
#include "sched/core/idle.h"
#include "sched/core/scheduler.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "system.h"
#include "test.h"

/* The threads of the runtime: they carry its name. */
static int threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir != NULL);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue; /* gone, or no thread */
        count += fgets(name, sizeof name, file) != NULL && strcmp(name, "weft\n") == 0;
        fclose(file);
    }
    closedir(dir);
    return count;
}

static void nothing_runs(void)
{
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(weft_shutdown(WEFT_NOW), 0);
    }
}

/* A little of everything. */

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
    weft_fiber *fiber;
    pthread_t thread;
    atomic_u32_store_relaxed(&ended, 0);
    atomic_u32_store_relaxed(&ticks, 0);
    for (uintptr_t i = 0; i < SLEEPERS; i++)
        CHECK_EQ(weft_go(sleep_and_end, (void *)(i * 10)), 0);
    for (size_t i = 0; i < SIZES; i++) {
        weft_spawn_options options = {.name = "of an odd size", .stack_size = stack_sizes[i]};
        CHECK_EQ(weft_spawn(NULL, sleep_and_end, (void *)(uintptr_t)100, &options), 0);
    }
    CHECK_EQ(weft_spawn(&fiber, sleep_and_end, NULL, NULL), 0); /* never joined */
    CHECK_EQ(pthread_create(&thread, NULL, use_from_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_timer_open(&never, tick, NULL), 0);
    CHECK_EQ(weft_timer_start(never, weft_after(1000 * WEFT_S), 0), 0);
    CHECK_EQ(weft_timer_close(never), 0);
    CHECK_EQ(weft_timer_open(&periodic, tick, &periodic), 0);
    CHECK_EQ(weft_timer_start(periodic, WEFT_NOW, 50 * WEFT_US), 0); /* closes itself */
}

/* What weft_shutdown waited for has happened, and what the runtime had is gone. */
static void ends_and_starts_again(void)
{
    int descriptors_before = open_descriptors();
    for (int64_t round = 0; round < test_scale(20); round++) {
        use_everything();
        CHECK(threads() > 0);
        CHECK(open_descriptors() > descriptors_before);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&ended), SLEEPERS + SIZES + 2);
        CHECK_EQ(atomic_u32_load_relaxed(&ticks), 3);
        CHECK_EQ(open_descriptors(), descriptors_before);
        while (threads() > 0) /* the kernel may need a moment after the join */
            sched_yield();
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
}

static void start_and_end_at_once(void)
{
    weft_fiber *fiber;
    for (int64_t round = 0; round < test_scale(200); round++) {
        CHECK_EQ(weft_spawn(&fiber, sleep_and_end, NULL, NULL), 0);
        if (round % 2 == 0)
            CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
}

static void end_from_inside(void *result)
{
    *(int *)result = weft_shutdown(WEFT_NEVER);
}

static void not_from_a_fiber(void)
{
    weft_fiber *fiber;
    int result = 0;
    CHECK_EQ(weft_spawn(&fiber, end_from_inside, &result, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(result, -EDEADLK);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Fibers and timers that do not end. */

static void wait_for(void *wg)
{
    CHECK_EQ(weft_wg_wait(wg), 0);
}

static void still_usable(void)
{
    weft_fiber *fiber;
    uint32_t before = atomic_u32_load_relaxed(&ended);
    CHECK_EQ(weft_spawn(&fiber, sleep_and_end, (void *)(uintptr_t)50, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&ended), before + 1);
}

static void times_out_with_a_parked_fiber(void)
{
    weft_wg gate = WEFT_WG_INIT;
    weft_fiber *fiber;
    CHECK_EQ(weft_wg_add(&gate, 1), 0);
    CHECK_EQ(weft_spawn(&fiber, wait_for, &gate, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NOW), -ETIMEDOUT);
    still_usable();
    int64_t deadline = weft_after(5 * WEFT_MS);
    CHECK_EQ(weft_shutdown(deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    still_usable();
    CHECK_EQ(weft_join_until(fiber, WEFT_NOW), -ETIMEDOUT); /* the handle is as good as before */
    weft_wg_done(&gate);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(weft_after(1000 * WEFT_S)), 0);
}

static void times_out_with_an_open_timer(void)
{
    weft_timer *timer;
    CHECK_EQ(weft_timer_open(&timer, tick, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_shutdown(weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_timer_start(timer, weft_after(1000 * WEFT_S), 0), 0);
    CHECK_EQ(weft_timer_close(timer), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Two who shut down. */

static atomic_u32 let_go;

static void wait_to_be_let_go(void *arg)
{
    while (!atomic_u32_load_acquire(&let_go))
        CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
    (void)arg;
}

static void *shut_down(void *arg)
{
    int result;
    while ((result = weft_shutdown(WEFT_NEVER)) == -EBUSY) /* the other one is asking */
        sched_yield();
    CHECK_EQ(result, 0);
    return arg;
}

static void one_at_a_time(void)
{
    pthread_t thread;
    int result;
    atomic_u32_store_release(&let_go, 0);
    CHECK_EQ(weft_go(wait_to_be_let_go, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, shut_down, NULL), 0);
    while ((result = weft_shutdown(WEFT_NOW)) == -ETIMEDOUT) /* it has not begun */
        sched_yield();
    CHECK_EQ(result, -EBUSY);
    atomic_u32_store_release(&let_go, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* What weft keeps for the thread that shuts down goes too, whoever stopped the runtime. */

static void thread_is_forgotten(void)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, sleep_and_end, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK(thread_self() != NULL);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_PTR(thread_self(), NULL);
}

static void thread_is_forgotten_also_after_another_stopped(void)
{
    weft_fiber *fiber;
    pthread_t thread;
    CHECK_EQ(weft_spawn(&fiber, sleep_and_end, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(pthread_create(&thread, NULL, shut_down, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_PTR(thread_self(), NULL);
}

/* A timer whose function spawns a fiber and then closes the timer: at no moment is nothing left. */

struct heir {
    weft_timer *timer;
    uint32_t ended; /* read after the shut-down */
};

static void end_late(void *arg)
{
    struct heir *heir = arg;
    weft_yield();
    weft_yield();
    heir->ended = 1;
}

static void spawn_and_close(void *arg)
{
    struct heir *heir = arg;
    CHECK_EQ(weft_go(end_late, heir), 0);
    CHECK_EQ(weft_timer_close(heir->timer), 0);
}

static void what_a_timer_leaves_is_waited_for(void)
{
    for (int64_t round = test_scale(300); round > 0; round--) {
        struct heir heir = {.ended = 0};
        CHECK_EQ(weft_timer_open(&heir.timer, spawn_and_close, &heir), 0);
        CHECK_EQ(weft_timer_start(heir.timer, WEFT_NOW, 0), 0);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(heir.ended, 1);
    }
}

/* A thread that shuts down in a recover point, or has something deferred, is remembered: both are used after it. */

static int cleaned;

static void clean(void *arg)
{
    (void)arg;
    cleaned++;
}

static void run_one(void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, clean, arg, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void shut_down_and_panic(void *arg)
{
    run_one(arg);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
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
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(cleaned, 1);
    weft_deferred_run(&record);
    CHECK_EQ(cleaned, 2);
}

/* Machines that were too many and have just ended: the shut-down finds them, too. */

static atomic_u32 go_on, blocked;

static void block(void *arg)
{
    (void)arg;
    weft_blocking_enter();
    atomic_u32_add_seq_cst(&blocked, 1);
    while (!atomic_u32_load_acquire(&go_on))
        usleep(100);
    weft_blocking_exit();
}

static uint32_t machines(void)
{
    lock_acquire(&weft__sched.lock);
    uint32_t count = weft__sched.machine_count;
    lock_release(&weft__sched.lock);
    return count;
}

static void ended_machines_are_joined(void)
{
    enum { CROWD = 6 };
    int64_t before = weft__idle_surplus_after;
    weft__idle_surplus_after = WEFT_MS;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    for (int64_t round = test_scale(50); round > 0; round--) {
        weft_fiber *fibers[CROWD];
        atomic_u32_store_relaxed(&go_on, 0);
        atomic_u32_store_relaxed(&blocked, 0);
        for (int i = 0; i < CROWD; i++)
            CHECK_EQ(weft_spawn(&fibers[i], block, NULL, NULL), 0);
        while (atomic_u32_load_acquire(&blocked) < CROWD)
            weft_yield();
        uint32_t most = machines();
        CHECK(most >= CROWD);
        atomic_u32_store_release(&go_on, 1);
        for (int i = 0; i < CROWD; i++)
            CHECK_EQ(weft_join(fibers[i]), 0);
        while (machines() == most)
            usleep(50);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
    weft__idle_surplus_after = before;
    CHECK_EQ(weft_configure(NULL), 0);
}

/* What others have done at each stop. */

static atomic_u32 stops;

static void count_stop(void)
{
    atomic_u32_add_seq_cst(&stops, 1);
}

static void all_are_told_of_a_stop(void)
{
    weft__runtime_at_stop(count_stop);
    weft__runtime_at_stop(count_stop);
    run_one(NULL);
    CHECK_EQ(weft__runtime_start_seeded(1, false), -EBUSY); /* it runs already */
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&stops), 2);
}

int main(void)
{
    CHECK_EQ(weft_local_create(&key, free), 0);
    RUN_PLAIN(nothing_runs, "stops or configures the runtime");
    RUN_PLAIN(ends_and_starts_again, "stops or configures the runtime");
    RUN_PLAIN(start_and_end_at_once, "stops or configures the runtime");
    RUN_PLAIN(not_from_a_fiber, "stops or configures the runtime");
    RUN_PLAIN(times_out_with_a_parked_fiber, "stops or configures the runtime");
    RUN_PLAIN(times_out_with_an_open_timer, "stops or configures the runtime");
    RUN_PLAIN(one_at_a_time, "stops or configures the runtime");
    RUN_PLAIN(nothing_runs, "stops or configures the runtime");
    RUN_PLAIN(thread_is_forgotten, "stops or configures the runtime");
    RUN_PLAIN(thread_is_forgotten_also_after_another_stopped, "stops or configures the runtime");
    CHECK_EQ(weft_local_delete(key), 0);
    RUN_PLAIN(what_a_timer_leaves_is_waited_for, "stops or configures the runtime");
    RUN_PLAIN(recover_points_outlive_it, "stops or configures the runtime");
    RUN_PLAIN(ended_machines_are_joined, "stops or configures the runtime");
    RUN_PLAIN(all_are_told_of_a_stop, "stops or configures the runtime");
    return 0;
}
