/*
 * wg.c: the wait group, from fibers and from threads.
 */
#include <sched.h>

#include "bodies.h"
#include "everywhere.h"
#include "os/failure.h"
#include "seeds.h"

enum { LOCK = 1, WAITERS = 2, COUNT_SHIFT = 32 }; /* the word of a wait group: src/sync/wg.c */

static atomic_u64 *word_of(weft_wg *wg)
{
    return (atomic_u64 *)(void *)&wg->word;
}

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

static void done_twice(void *wg)
{
    weft_wg_done(wg);
    weft_wg_done(wg);
}

static void misuse_aborts(void)
{
    static const char below[] = "weft: a wait group was driven below zero";
    static const int64_t numbers[] = {-2, -WEFT_WG_MAX, -(int64_t)WEFT_WG_MAX - 2, INT64_MIN};
    weft_wg wg = WEFT_WG_INIT;
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    CHECK_ABORTS("weft: weft_wg_done was given no wait group", weft_wg_done(NULL));
    CHECK_ABORTS(below, done_twice(&wg));
    CHECK_ABORTS(below, body_run(done_twice, &wg, false));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        CHECK_ABORTS(below, (void)weft_wg_add(&wg, numbers[i]));
}

/* Waiting. */

enum { FIBERS = 100, THREADS = 6 };

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

/* One group is used over and over: what was written before done is visible after wait. */
static void wait_for(int count, bool threads, int64_t rounds)
{
    weft_wg wg = WEFT_WG_INIT;
    for (int64_t round = 0; round < rounds; round++) {
        struct work items[FIBERS] = {{.wg = NULL}};
        struct body bodies[FIBERS];
        CHECK_EQ(weft_wg_add(&wg, count), 0);
        for (int i = 0; i < count; i++) {
            items[i].wg = &wg;
            bodies[i] = (struct body){.function = work, .arg = &items[i], .thread = threads};
            body_start(&bodies[i]);
        }
        CHECK_EQ(weft_wg_wait(&wg), 0);
        for (int i = 0; i < count; i++)
            CHECK_EQ(items[i].result, 1);
        CHECK_EQ(weft_wg_count(&wg), 0);
        for (int i = 0; i < count; i++)
            body_join(&bodies[i]);
    }
}

static void waits_for_all(void *arg)
{
    wait_for(FIBERS, false, test_scale(100));
    wait_for(THREADS, true, test_scale(50));
}

static struct {
    weft_wg gate, about_to_wait;
    int open; /* plain: the gate orders it */
    atomic_u32 passed;
} gated;

static void pass_gate(void *arg)
{
    weft_wg_done(&gated.about_to_wait);
    CHECK_EQ(weft_wg_wait(&gated.gate), 0);
    CHECK_EQ(gated.open, 1);
    atomic_u32_add_relaxed(&gated.passed, 1);
}

static void gate_shut(int64_t count, int64_t waiters)
{
    gated.open = 0;
    atomic_u32_store_relaxed(&gated.passed, 0);
    CHECK_EQ(weft_wg_init(&gated.gate, count), 0);
    CHECK_EQ(weft_wg_init(&gated.about_to_wait, waiters), 0);
}

static void all_waiters_are_woken(void)
{
    enum { ALL = FIBERS + THREADS };
    for (int64_t round = 0; round < test_scale(100); round++) {
        struct body bodies[ALL];
        gate_shut(2, ALL);
        for (int i = 0; i < ALL; i++) {
            bodies[i] = (struct body){.function = pass_gate, .thread = i >= FIBERS};
            body_start(&bodies[i]);
        }
        CHECK_EQ(weft_wg_wait(&gated.about_to_wait), 0);
        weft_wg_done(&gated.gate);
        CHECK_EQ(atomic_u32_load_relaxed(&gated.passed), 0);
        gated.open = 1;
        weft_wg_done(&gated.gate);
        for (int i = 0; i < ALL; i++)
            body_join(&bodies[i]);
        CHECK_EQ(atomic_u32_load_relaxed(&gated.passed), ALL);
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
    CHECK_EQ(weft_wg_wait_until(&wg, 1), -ETIMEDOUT); /* in the past, and not WEFT_NOW */
    weft_wg_done(&wg);                                /* the list is empty again */
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(WEFT_US)), -ETIMEDOUT);
    CHECK_EQ(weft_go(work, &item), 0);
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(1000 * WEFT_S)), 0);
    CHECK_EQ(item.result, 1);
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(WEFT_S)), 0);
}

static void work_at_once(void *arg)
{
    struct work *mine = arg;
    mine->result = 1;
    weft_wg_done(mine->wg);
}

/* With one processor, no other fiber runs until this one waits or ends. */
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
}

static void asking_is_not_waiting(void)
{
    on_one_machine(ask, NULL);
}

static void waiting_needs_no_memory(void)
{
    weft_wg wg = WEFT_WG_INIT;
    struct body body = {.function = work, .arg = &(struct work){.wg = &wg}, .thread = true};
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(WEFT_MS)), -ETIMEDOUT);
    body_start(&body);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    weft__os_fail(OS_ALLOC, 0, false);
    body_join(&body);
}

static void wait_a_moment(void *arg)
{
    CHECK_EQ(weft_wg_wait_until(&gated.gate, weft_after((int64_t)(uintptr_t)arg * WEFT_US)),
             -ETIMEDOUT);
}

/* Waiters give up, from anywhere in the list; those that stay are woken. */
static void others_give_up(void)
{
    weft_fiber *staying[FIBERS], *leaving[FIBERS];
    gate_shut(1, FIBERS);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_spawn(&staying[i], pass_gate, NULL, NULL), 0);
        CHECK_EQ(weft_spawn(&leaving[i], wait_a_moment, (void *)(uintptr_t)(i * 7 % FIBERS), NULL),
                 0);
    }
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_join(leaving[i]), 0);
    CHECK_EQ(weft_wg_wait(&gated.about_to_wait), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&gated.passed), 0);
    gated.open = 1;
    weft_wg_done(&gated.gate);
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_join(staying[i]), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&gated.passed), FIBERS);
}

/* Waiters with deadlines while others count down: a wait that succeeds means zero. */

static void count_down(void *arg)
{
    if (test_seeded)
        CHECK_EQ(weft_sleep((int64_t)(uintptr_t)arg % 3 * WEFT_MS), 0);
    weft_wg_done(&gated.gate);
}

static void wait_until_soon(void *arg)
{
    int64_t deadline = weft_after((int64_t)(uintptr_t)arg * WEFT_MS / 2);
    int error = weft_wg_wait_until(&gated.gate, deadline);
    CHECK(error == 0 || error == -ETIMEDOUT);
    if (error == 0)
        CHECK_EQ(weft_wg_count(&gated.gate), 0);
}

static void a_wait_that_succeeds_means_zero(void)
{
    enum { EACH = 4 };
    struct body bodies[2 * EACH];
    gate_shut(EACH, 0);
    for (uintptr_t i = 0; i < 2 * EACH; i++)
        bodies[i] = (struct body){.function = i % 2 == 0 ? count_down : wait_until_soon,
                                  .arg = (void *)i,
                                  .thread = i >= EACH};
    bodies_run(bodies, 2 * EACH);
    CHECK_EQ(weft_wg_count(&gated.gate), 0);
}

/* States between two steps of a done or an add, made by hand or by threads that meet often. */

static weft_wg shared;
static atomic_u32 ready;

static void wait_for_shared(void *waited)
{
    CHECK_EQ(weft_wg_wait(&shared), 0);
    atomic_u32_store_release(waited, 1);
}

static void start_waiter(struct body *waiter, atomic_u32 *waited, int64_t count)
{
    *waiter = (struct body){.function = wait_for_shared, .arg = waited, .thread = true};
    CHECK_EQ(weft_wg_init(&shared, count), 0);
    body_start(waiter);
    while (!(atomic_u64_load_acquire(word_of(&shared)) & WAITERS))
        weft_yield();
}

static void take_one(void *wg)
{
    weft_wg_done(wg);
}

static void hold(weft_wg *wg)
{
    for (;;) {
        uint64_t before = atomic_u64_load_relaxed(word_of(wg)) & ~(uint64_t)LOCK;
        if (atomic_u64_cas_acquire(word_of(wg), &before, before | LOCK))
            return;
        weft_yield();
    }
}

/* The count comes to zero, and is raised again before the waiters are woken: they wait on. */
static void raised_before_the_wake_up(void)
{
    struct body waiter, other = {.function = take_one, .arg = &shared, .thread = true};
    atomic_u32 waited = {0};
    start_waiter(&waiter, &waited, 1);
    hold(&shared);
    body_start(&other);
    while (atomic_u64_load_acquire(word_of(&shared)) >> COUNT_SHIFT != 0)
        weft_yield();
    CHECK_EQ(weft_wg_add(&shared, 1), 0);
    atomic_u64_and_release(word_of(&shared), ~(uint64_t)LOCK);
    body_join(&other);
    CHECK(atomic_u64_load_acquire(word_of(&shared)) & WAITERS);
    CHECK_EQ(atomic_u32_load_acquire(&waited), 0);
    weft_wg_done(&shared);
    body_join(&waiter);
}

/* An add of a negative number wakes as well. */
static void a_negative_number_wakes(void)
{
    struct body waiter;
    atomic_u32 waited = {0};
    start_waiter(&waiter, &waited, 5);
    CHECK_EQ(weft_wg_add(&shared, -4), 0);
    CHECK_EQ(atomic_u32_load_acquire(&waited), 0);
    CHECK_EQ(weft_wg_add(&shared, -1), 0);
    body_join(&waiter);
}

/* The count is zero, and the waiters have yet to be woken: a caller that only asks finds it
 * done. */
static void asked_before_the_wake_up(void)
{
    CHECK_EQ(weft_wg_init(&shared, 0), 0);
    atomic_u64_store_release(word_of(&shared), WAITERS);
    CHECK_EQ(weft_wg_wait_until(&shared, WEFT_NOW), 0);
}

static void add_often(void *arg)
{
    atomic_u32_add_seq_cst(&ready, 1);
    while (atomic_u32_load_acquire(&ready) < 2)
        cpu_relax();
    for (int64_t i = *(int64_t *)arg; i > 0; i--) {
        CHECK_EQ(weft_wg_add(&shared, 2), 0);
        CHECK_EQ(weft_wg_add(&shared, -1), 0);
    }
}

static void two_add(void)
{
    int64_t times = test_scale(200000);
    struct body bodies[2];
    CHECK_EQ(weft_wg_init(&shared, 0), 0);
    atomic_u32_store_relaxed(&ready, 0);
    for (int i = 0; i < 2; i++)
        bodies[i] = (struct body){.function = add_often, .arg = &times, .thread = true};
    bodies_run(bodies, 2);
    CHECK_EQ(weft_wg_count(&shared), 2 * times);
}

/* Fibers that the group starts itself. */

static atomic_u32 started;

static void yield_and_count(void *arg)
{
    weft_yield();
    atomic_u32_add_relaxed(arg, 1);
}

static void starts_fibers(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    atomic_u32_store_relaxed(&started, 0);
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_wg_go(&wg, yield_and_count, &started), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&started), FIBERS);
}

static void wait_for_gate(void *gate)
{
    CHECK_EQ(weft_wg_wait(gate), 0);
}

static void a_function_that_does_not_start_is_not_counted(void)
{
    weft_wg wg = WEFT_WG_INIT, gate;
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
    CHECK_EQ(weft_wg_init(&wg, 0), 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(weft_wg_go(&wg, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_wg_go(&wg, yield_and_count, &started), -EAGAIN);
    CHECK_EQ(weft_wg_count(&wg), 1);
    weft_wg_done(&gate);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    processors_end();
}

/* The end of a group. */

/* What the memory of a group is filled with when it is gone: a late done, which finishes what it
 * began there, changes it. (WAITERS is set, and there are none.) */
static const weft_wg gone = {.word = WAITERS};

static void wait_on_own_stack(int count, bool thread, int64_t rounds)
{
    for (int64_t round = 0; round < rounds; round++) {
        weft_wg wg = WEFT_WG_INIT;
        struct body bodies[2];
        CHECK_EQ(weft_wg_add(&wg, count), 0);
        for (int i = 0; i < count; i++) {
            bodies[i] = (struct body){.function = take_one, .arg = &wg, .thread = thread};
            body_start(&bodies[i]);
        }
        CHECK_EQ(weft_wg_wait(&wg), 0);
        wg = gone;
        for (int i = 0; i < count; i++)
            body_join(&bodies[i]);
        CHECK_EQ(memcmp(&wg, &gone, sizeof wg), 0);
    }
}

static void not_touched_after_wait(void *arg)
{
    wait_on_own_stack(2, false, test_scale(5000));
    wait_on_own_stack(1, true, test_scale(500));
}

/* The last done meets waiters whose deadline passes: they wait again and again, and the last of
 * them to return 0 frees the group. */
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
    while ((result = weft_wg_wait_until(&race.wg, 1)) ==
           -ETIMEDOUT) /* in the past, but not WEFT_NOW */
        timed_out++;
    CHECK_EQ(result, 0);
    atomic_u32_add_relaxed(&race.timed_out, timed_out);
    if (atomic_u32_sub_acq_rel(&race.waiting, 1) == 1)
        race.wg = gone;
}

static void race_rounds(int64_t rounds)
{
    uint64_t timed_out = 0;
    for (int64_t round = 0; round < rounds; round++) {
        struct body bodies[RACERS];
        CHECK_EQ(weft_wg_init(&race.wg, 1), 0);
        atomic_u32_store_relaxed(&race.begun, 0);
        atomic_u32_store_relaxed(&race.waiting, RACERS);
        atomic_u32_store_relaxed(&race.timed_out, 0);
        for (int i = 0; i < RACERS; i++) {
            bodies[i] = (struct body){.function = wait_in_race};
            body_start(&bodies[i]);
        }
        while (atomic_u32_load_relaxed(&race.begun) == 0)
            sched_yield();
        weft_wg_done(&race.wg);
        for (int i = 0; i < RACERS; i++)
            body_join(&bodies[i]);
        CHECK_EQ(memcmp(&race.wg, &gone, sizeof gone), 0);
        timed_out += atomic_u32_load_relaxed(&race.timed_out);
    }
    printf("  deadlines passed meanwhile: %llu\n", (unsigned long long)timed_out);
}

static void not_touched_after_wait_and_deadline(void)
{
    cpu_set_t allowed;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* the runtime's next threads inherit it */
    stay_on_one_cpu();
    race_rounds(test_scale(200));
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_BOTH(counts);
    RUN_BOTH(too_much_is_refused);
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN_PLAIN(waiting_needs_no_memory, "about plain threads");
    RUN_PLAIN(raised_before_the_wake_up, "about plain threads");
    RUN_PLAIN(a_negative_number_wakes, "about plain threads");
    RUN_PLAIN(asked_before_the_wake_up, "nothing to order");
    RUN_PLAIN(two_add, "about plain threads");
    RUN_PLAIN(asking_is_not_waiting, "knows who runs next on one processor");
    RUN_EVERYWHERE(waits_for_all);
    RUN_BOTH(all_waiters_are_woken);
    RUN_EVERYWHERE(time_out_and_wait_again);
    RUN_BOTH(others_give_up);
    RUN(a_wait_that_succeeds_means_zero);
    RUN_SEEDS_MANY(a_wait_that_succeeds_means_zero);
    RUN_EVERYWHERE(starts_fibers);
    RUN_PLAIN(a_function_that_does_not_start_is_not_counted, "stops or configures the runtime");
    RUN_EVERYWHERE(not_touched_after_wait);
    RUN_PLAIN(not_touched_after_wait_and_deadline, "threads that share one CPU");
    return 0;
}
