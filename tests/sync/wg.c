/*
 * wg.c: the wait group, from fibers and from threads.
 */
#include <pthread.h>
#include <sched.h>
#include <weft/weft.h>

#include "os/failure.h"
#include "os/os.h"
#include "seeds.h"
#include "test.h"

/* Misuse; runs before the runtime does, so that children can be forked. */

static void arguments(void)
{
    weft_wg wg, poison;
    memset(&wg, 0x55, sizeof wg);
    poison = wg;
    CHECK_EQ(weft_wg_init(NULL, 0), -EINVAL);
    CHECK_EQ(weft_wg_init(&wg, -1), -EINVAL);
    CHECK_EQ(weft_wg_init(&wg, (int64_t)WEFT_WG_MAX + 1), -EINVAL);
    CHECK_EQ(weft_wg_init(&wg, INT64_MAX), -EINVAL);
    CHECK_EQ(weft_wg_init(&wg, INT64_MIN), -EINVAL);
    CHECK_EQ(memcmp(&wg, &poison, sizeof wg), 0);
    CHECK_EQ(weft_wg_add(NULL, 1), -EINVAL);
    CHECK_EQ(weft_wg_wait(NULL), -EINVAL);
    CHECK_EQ(weft_wg_wait_until(NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_wg_count(NULL), 0);
}

static void counts(void)
{
    static weft_wg zeroed;
    weft_wg wg = WEFT_WG_INIT;
    CHECK_EQ(weft_wg_count(&zeroed), 0);
    CHECK_EQ(weft_wg_wait(&zeroed), 0);
    CHECK_EQ(weft_wg_count(&wg), 0);
    CHECK_EQ(weft_wg_add(&wg, 3), 0);
    CHECK_EQ(weft_wg_count(&wg), 3);
    CHECK_EQ(weft_wg_add(&wg, 0), 0);
    weft_wg_done(&wg);
    CHECK_EQ(weft_wg_count(&wg), 2);
    CHECK_EQ(weft_wg_wait_until(&wg, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_wg_wait_until(&wg, -5), -ETIMEDOUT);
    CHECK_EQ(weft_wg_add(&wg, -2), 0);
    CHECK_EQ(weft_wg_wait_until(&wg, WEFT_NOW), 0);
    CHECK_EQ(weft_wg_init(&wg, 7), 0);
    CHECK_EQ(weft_wg_count(&wg), 7);
    CHECK_EQ(weft_wg_init(&wg, 0), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
}

static void too_much_is_refused(void)
{
    weft_wg wg;
    CHECK_EQ(weft_wg_init(&wg, WEFT_WG_MAX), 0);
    CHECK_EQ(weft_wg_add(&wg, 1), -EINVAL);
    CHECK_EQ(weft_wg_add(&wg, WEFT_WG_MAX), -EINVAL);
    CHECK_EQ(weft_wg_add(&wg, INT64_MAX), -EINVAL);
    CHECK_EQ(weft_wg_count(&wg), WEFT_WG_MAX);
    weft_wg_done(&wg);
    CHECK_EQ(weft_wg_add(&wg, 2), -EINVAL);
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    CHECK_EQ(weft_wg_count(&wg), WEFT_WG_MAX);
    CHECK_EQ(weft_wg_add(&wg, -WEFT_WG_MAX), 0);
    CHECK_EQ(weft_wg_count(&wg), 0);
}

static void done_too_often(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    weft_wg_done(&wg);
    weft_wg_done(&wg);
    (void)arg;
}

static void take_away(void *count)
{
    weft_wg wg = WEFT_WG_INIT;
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    (void)weft_wg_add(&wg, *(int64_t *)count);
}

static void done_too_often_in_a_fiber(void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, done_too_often, arg, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0); /* not reached */
}

static void done_for_nothing(void *arg)
{
    (void)arg;
    weft_wg_done(NULL);
}

static void done_without_a_group_aborts(void)
{
    test_dies(done_for_nothing, NULL, "weft: weft_wg_done was given no wait group");
}

static void below_zero_aborts(void)
{
    static const char text[] = "weft: a wait group was driven below zero";
    int64_t minus_2 = -2, most = -WEFT_WG_MAX;
    test_dies(done_too_often, NULL, text);
    test_dies(take_away, &minus_2, text);
    test_dies(take_away, &most, text);
    test_dies(done_too_often_in_a_fiber, NULL, text);
}

static void far_below_zero_aborts_too(void)
{
    static const char text[] = "weft: a wait group was driven below zero";
    int64_t numbers[] = {-(int64_t)WEFT_WG_MAX - 2, INT64_MIN};
    test_dies(take_away, &numbers[0], text);
    test_dies(take_away, &numbers[1], text);
}

/* Waiting. */

enum { WORKERS = 100, THREADS = 6 };

struct work {
    weft_wg *wg;
    int result;
};

static void work(void *arg)
{
    struct work *mine = arg;
    weft_yield();
    mine->result = 1;
    weft_wg_done(mine->wg);
}

static void *work_in_thread(void *arg)
{
    work(arg);
    return NULL;
}

/* The same group over and over: what was written before done is there after wait. */
static void wait_for_workers(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    for (int64_t round = 0; round < test_scale(100); round++) {
        struct work items[WORKERS] = {{.wg = NULL}};
        CHECK_EQ(weft_wg_add(&wg, WORKERS), 0);
        for (int i = 0; i < WORKERS; i++) {
            items[i].wg = &wg;
            CHECK_EQ(weft_go(work, &items[i]), 0);
        }
        CHECK_EQ(weft_wg_wait(&wg), 0);
        for (int i = 0; i < WORKERS; i++)
            CHECK_EQ(items[i].result, 1);
        CHECK_EQ(weft_wg_count(&wg), 0);
    }
    (void)arg;
}

static void wait_for_threads(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    for (int64_t round = 0; round < test_scale(50); round++) {
        struct work items[THREADS] = {{.wg = NULL}};
        pthread_t threads[THREADS];
        CHECK_EQ(weft_wg_add(&wg, THREADS), 0);
        for (int i = 0; i < THREADS; i++) {
            items[i].wg = &wg;
            CHECK_EQ(pthread_create(&threads[i], NULL, work_in_thread, &items[i]), 0);
        }
        CHECK_EQ(weft_wg_wait(&wg), 0);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(items[i].result, 1);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    (void)arg;
}

static void in_fiber(void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, arg, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void thread_waits_for_fibers(void)
{
    wait_for_workers(NULL);
}

static void fiber_waits_for_fibers(void)
{
    in_fiber(wait_for_workers, NULL);
}

static void thread_waits_for_threads(void)
{
    wait_for_threads(NULL);
}

static void fiber_waits_for_threads(void)
{
    in_fiber(wait_for_threads, NULL);
}

/* Many waiters. */

static struct {
    weft_wg gate, about_to_wait;
    int open; /* plain: the gate orders it */
    atomic_u32 passed;
} door;

static void pass_door(void *arg)
{
    weft_wg_done(&door.about_to_wait);
    CHECK_EQ(weft_wg_wait(&door.gate), 0);
    CHECK_EQ(door.open, 1);
    atomic_u32_add_relaxed(&door.passed, 1);
    (void)arg;
}

static void *pass_door_in_thread(void *arg)
{
    pass_door(arg);
    return NULL;
}

static void all_waiters_are_woken(void)
{
    for (int64_t round = 0; round < test_scale(100); round++) {
        weft_fiber *fibers[WORKERS];
        pthread_t threads[THREADS];
        door.open = 0;
        atomic_u32_store_relaxed(&door.passed, 0);
        CHECK_EQ(weft_wg_init(&door.gate, 2), 0);
        CHECK_EQ(weft_wg_init(&door.about_to_wait, WORKERS + THREADS), 0);
        for (int i = 0; i < WORKERS; i++)
            CHECK_EQ(weft_spawn(&fibers[i], pass_door, NULL, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, pass_door_in_thread, NULL), 0);
        CHECK_EQ(weft_wg_wait(&door.about_to_wait), 0);
        weft_wg_done(&door.gate);
        CHECK_EQ(atomic_u32_load_relaxed(&door.passed), 0);
        door.open = 1;
        weft_wg_done(&door.gate);
        for (int i = 0; i < WORKERS; i++)
            CHECK_EQ(weft_join(fibers[i]), 0);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&door.passed), WORKERS + THREADS);
    }
}

/* Deadlines. */

static void time_out_and_wait_again(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    struct work item = {.wg = &wg};
    CHECK_EQ(weft_wg_add(&wg, 2), 0);
    for (int i = 0; i < 5; i++) {
        int64_t deadline = weft_after(500 * WEFT_US);
        CHECK_EQ(weft_wg_wait_until(&wg, deadline), -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
        CHECK_EQ(weft_wg_count(&wg), 2);
    }
    CHECK_EQ(weft_wg_wait_until(&wg, 1), -ETIMEDOUT); /* long past, and not WEFT_NOW */
    weft_wg_done(&wg);                                /* nobody is in the list any more */
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(WEFT_US)), -ETIMEDOUT);
    CHECK_EQ(weft_go(work, &item), 0);
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(1000 * WEFT_S)), 0);
    CHECK_EQ(item.result, 1);
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(WEFT_S)), 0);
    (void)arg;
}

static void deadlines(void)
{
    time_out_and_wait_again(NULL);
    in_fiber(time_out_and_wait_again, NULL);
}

static void work_at_once(void *arg)
{
    struct work *mine = arg;
    mine->result = 1;
    weft_wg_done(mine->wg);
}

/* With one processor, nobody else runs until this fiber waits or ends. */
static void ask(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    struct work item = {.wg = &wg};
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    CHECK_EQ(weft_go(work_at_once, &item), 0);
    CHECK_EQ(weft_wg_wait_until(&wg, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(item.result, 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(item.result, 1);
    (void)arg;
}

static void asking_is_not_waiting(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    in_fiber(ask, NULL);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

static void waiting_needs_no_memory(void)
{
    weft_wg wg = WEFT_WG_INIT;
    pthread_t thread;
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(pthread_create(&thread, NULL, work_in_thread, &(struct work){.wg = &wg}), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void wait_a_moment(void *arg)
{
    CHECK_EQ(weft_wg_wait_until(&door.gate, weft_after((int64_t)(uintptr_t)arg * WEFT_US)),
             -ETIMEDOUT);
}

/* Some give up, from any place in the list; those who stay are woken. */
static void others_give_up(void)
{
    weft_fiber *staying[WORKERS], *leaving[WORKERS];
    door.open = 0;
    atomic_u32_store_relaxed(&door.passed, 0);
    CHECK_EQ(weft_wg_init(&door.gate, 1), 0);
    CHECK_EQ(weft_wg_init(&door.about_to_wait, WORKERS), 0);
    for (int i = 0; i < WORKERS; i++) {
        CHECK_EQ(weft_spawn(&staying[i], pass_door, NULL, NULL), 0);
        CHECK_EQ(weft_spawn(&leaving[i], wait_a_moment, (void *)(uintptr_t)(i * 7 % WORKERS), NULL),
                 0);
    }
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(weft_join(leaving[i]), 0);
    CHECK_EQ(weft_wg_wait(&door.about_to_wait), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&door.passed), 0);
    door.open = 1;
    weft_wg_done(&door.gate);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(weft_join(staying[i]), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&door.passed), WORKERS);
}

/* Fibers that the group starts itself. */

static atomic_u32 started;

static void yield_and_count(void *arg)
{
    weft_yield();
    atomic_u32_add_relaxed(arg, 1);
}

static void go_and_wait(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    atomic_u32_store_relaxed(&started, 0);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(weft_wg_go(&wg, yield_and_count, &started), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&started), WORKERS);
    (void)arg;
}

static void wait_for_gate(void *gate)
{
    CHECK_EQ(weft_wg_wait(gate), 0);
}

static void starts_fibers(void)
{
    go_and_wait(NULL);
    in_fiber(go_and_wait, NULL);
}

static void nothing_is_added_if_none_starts(void)
{
    weft_wg wg = WEFT_WG_INIT;
    CHECK_EQ(weft_wg_go(NULL, yield_and_count, NULL), -EINVAL);
    CHECK_EQ(weft_wg_go(&wg, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_wg_count(&wg), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_wg_go(&wg, yield_and_count, NULL), -ENOMEM);
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(weft_wg_count(&wg), 0);

    CHECK_EQ(weft_wg_init(&wg, WEFT_WG_MAX), 0);
    CHECK_EQ(weft_wg_go(&wg, yield_and_count, NULL), -EINVAL);
    CHECK_EQ(weft_wg_count(&wg), WEFT_WG_MAX);

    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(&(weft_config){.max_fibers = 1}), 0);
    weft_wg gate;
    CHECK_EQ(weft_wg_init(&wg, 0), 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(weft_wg_go(&wg, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_wg_go(&wg, yield_and_count, &started), -EAGAIN);
    CHECK_EQ(weft_wg_count(&wg), 1);
    weft_wg_done(&gate);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

/* The end of a group. */

/* What stands in a group's memory when it is gone: whoever still takes it for one and finishes what
 * it began there changes it. (Waiters, of which there are none.) */
static const weft_wg gone = {.word = 2};

static void done_once(void *wg)
{
    weft_wg_done(wg);
}

static void *done_once_in_thread(void *wg)
{
    weft_wg_done(wg);
    return NULL;
}

static void wait_on_own_stack(void *arg)
{
    for (int64_t round = 0; round < test_scale(5000); round++) {
        weft_wg wg = WEFT_WG_INIT;
        weft_fiber *fibers[2];
        CHECK_EQ(weft_wg_add(&wg, 2), 0);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(weft_spawn(&fibers[i], done_once, &wg, NULL), 0);
        CHECK_EQ(weft_wg_wait(&wg), 0);
        wg = gone;
        for (int i = 0; i < 2; i++)
            CHECK_EQ(weft_join(fibers[i]), 0);
        CHECK_EQ(memcmp(&wg, &gone, sizeof wg), 0);
    }
    (void)arg;
}

static void not_touched_after_wait(void)
{
    wait_on_own_stack(NULL);
    in_fiber(wait_on_own_stack, NULL);
    for (int64_t round = 0; round < test_scale(500); round++) {
        weft_wg wg = WEFT_WG_INIT;
        pthread_t thread;
        CHECK_EQ(weft_wg_add(&wg, 1), 0);
        CHECK_EQ(pthread_create(&thread, NULL, done_once_in_thread, &wg), 0);
        CHECK_EQ(weft_wg_wait(&wg), 0);
        wg = gone;
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(memcmp(&wg, &gone, sizeof wg), 0);
    }
}

/* The same when the last done meets waiters whose deadline passes: they ask again and again, and
 * the last of them to return 0 takes the group away. */
enum { RACERS = 4 };

static struct {
    weft_wg wg;
    atomic_u32 begun, waiting, timed_out;
} race;

static void wait_in_race(void *arg)
{
    uint32_t timed_out = 0;
    int result;
    atomic_u32_add_relaxed(&race.begun, 1);
    while ((result = weft_wg_wait_until(&race.wg, 1)) == -ETIMEDOUT) /* past, but not WEFT_NOW */
        timed_out++;
    CHECK_EQ(result, 0);
    atomic_u32_add_relaxed(&race.timed_out, timed_out);
    if (atomic_u32_sub_acq_rel(&race.waiting, 1) == 1)
        race.wg = gone;
    (void)arg;
}

static void race_rounds(int64_t rounds)
{
    uint64_t timed_out = 0;
    for (int64_t round = 0; round < rounds; round++) {
        weft_fiber *fibers[RACERS];
        CHECK_EQ(weft_wg_init(&race.wg, 1), 0);
        atomic_u32_store_relaxed(&race.begun, 0);
        atomic_u32_store_relaxed(&race.waiting, RACERS);
        atomic_u32_store_relaxed(&race.timed_out, 0);
        for (int i = 0; i < RACERS; i++)
            CHECK_EQ(weft_spawn(&fibers[i], wait_in_race, NULL, NULL), 0);
        while (atomic_u32_load_relaxed(&race.begun) == 0)
            sched_yield();
        weft_wg_done(&race.wg);
        for (int i = 0; i < RACERS; i++)
            CHECK_EQ(weft_join(fibers[i]), 0);
        CHECK_EQ(memcmp(&race.wg, &gone, sizeof gone), 0);
        timed_out += atomic_u32_load_relaxed(&race.timed_out);
    }
    printf("  deadlines passed meanwhile: %llu\n", (unsigned long long)timed_out);
}

static void not_touched_after_wait_and_deadline(void)
{
    cpu_set_t allowed, one;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &one);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* the runtime's next threads inherit it */
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    race_rounds(test_scale(200));
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_BOTH(counts);
    RUN_BOTH(too_much_is_refused);
    RUN_PLAIN(done_without_a_group_aborts, "a child process that must die");
    RUN_PLAIN(below_zero_aborts, "a child process that must die");
    RUN_PLAIN(waiting_needs_no_memory, "about plain threads");
    RUN_PLAIN(asking_is_not_waiting, "knows who runs next on one processor");
    RUN_BOTH(thread_waits_for_fibers);
    RUN_BOTH(fiber_waits_for_fibers);
    RUN_PLAIN(thread_waits_for_threads, "about plain threads");
    RUN_PLAIN(fiber_waits_for_threads, "about plain threads");
    RUN_PLAIN(all_waiters_are_woken, "about plain threads");
    RUN_BOTH(deadlines);
    RUN_BOTH(others_give_up);
    RUN_BOTH(starts_fibers);
    RUN_PLAIN(nothing_is_added_if_none_starts, "stops or configures the runtime");
    RUN_PLAIN(not_touched_after_wait, "about plain threads");
    RUN_PLAIN(not_touched_after_wait_and_deadline, "threads that share one CPU");
    RUN_PLAIN(far_below_zero_aborts_too, "a child process that must die");
    return 0;
}
