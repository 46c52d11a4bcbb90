/*
 * mapping_fault.c: without memory for stacks, fibers that got none run later, and fibers that have
 * one go on.
 */
#include "base/compiler.h"
#include "failing.h"
#include "fibers.h"

enum { MANY = 1000 };

static atomic_u32 ran, over, turns;

static void count(void *arg)
{
    weft_yield();
    atomic_u32_add_seq_cst(&ran, 1);
}

static void take_turns(void *arg)
{
    while (!atomic_u32_load_acquire(&over)) {
        atomic_u32_add_seq_cst(&turns, 1);
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
        weft_yield();
    }
}

static void spawn_without_stacks(int processors, enum weft__os_call call, int64_t count_of_fibers)
{
    static const size_t sizes[] = {0, 16 * 1024, 256 * 1024, 1 << 20};
    configure(processors);
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&over, 0);
    atomic_u32_store_relaxed(&turns, 0);
    weft_fiber *worker = spawn(take_turns, NULL);
    yield_until(&turns, 1);
    int64_t spawned = 0;
    failing_on(call, 1, true);
    for (int64_t i = 0; i < count_of_fibers; i++) {
        weft_spawn_options options = {.stack_size = sizes[i % 4]};
        int result = weft_spawn(NULL, count, NULL, &options);
        failing_check(result, failing_spawn);
        spawned += result == 0;
    }
    /* A fiber with a stack goes on. */
    uint32_t before = atomic_u32_load_acquire(&turns);
    yield_until(&turns, before + 50);
    if (call == OS_MAP) {
        CHECK_EQ(spawned, count_of_fibers); /* a spawn needs no stack */
        CHECK(atomic_u32_load_acquire(&ran) < spawned);
    }
    failing_off();
    /* No call wakes the runtime: it has to try again by itself. */
    while (atomic_u32_load_acquire(&ran) < spawned)
        weft__os_sleep_until(weft_after(100 * WEFT_US));
    atomic_u32_store_release(&over, 1);
    CHECK_EQ(weft_join(worker), 0);
    shut_down();
    CHECK_EQ(atomic_u32_load_acquire(&ran), spawned);
}

static void fibers_wait_for_stacks(void)
{
    int64_t many = WEFT_TSAN ? 100 : MANY;
    for (int processors = 1; processors <= 4; processors++) {
        spawn_without_stacks(processors, OS_MAP, many);
        spawn_without_stacks(processors, OS_ALLOC, many);
    }
}

/* The only fiber gets no stack at first, and the machine sleeps meanwhile. */
static void one_fiber_waits_for_a_stack(void)
{
    for (int processors = 1; processors <= 4; processors++) {
        configure(processors);
        atomic_u32_store_relaxed(&ran, 0);
        failing_on(OS_MAP, 1, true);
        weft_fiber *fiber = spawn(count, NULL);
        CHECK_EQ(weft_join_until(fiber, weft_after(30 * WEFT_MS)), -ETIMEDOUT);
        CHECK_EQ(atomic_u32_load_acquire(&ran), 0);
        failing_off();
        CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
        shut_down();
    }
}

/* A stack that is put back goes to a fiber that waits for one, while no new one can be mapped. */

static weft_wg gate;

static void stacks_put_back_are_used(void)
{
    weft_fiber *holders[4];
    configure(2);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    atomic_u32_store_relaxed(&ran, 0);
    weft_spawn_options large = {.stack_size = 1 << 26}; /* one is an arena */
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_spawn(&holders[i], wait_for_group, &gate, &large), 0);
    while (weft_wg_count(&gate) == 1 && weft__os_calls(OS_MAP) < 5)
        weft_yield();
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_join_until(holders[i], weft_after(WEFT_MS)), -ETIMEDOUT);
    failing_on(OS_MAP, 1, true);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(weft_spawn(NULL, count, NULL, &large), 0);
    weft_wg_done(&gate);
    join_all(holders, 4);
    while (atomic_u32_load_acquire(&ran) < 50) /* in turn, on the stacks of the four */
        weft__os_sleep_until(weft_after(100 * WEFT_US));
    failing_off();
    shut_down();
}

/* Stacks work without a guard where none can be made. */
static void fibers_run_without_guards(void)
{
    for (int persistent = 0; persistent < 2; persistent++)
        for (uint32_t nth = 1; nth < 5; nth++) {
            atomic_u32_store_relaxed(&ran, 0);
            failing_on(OS_GUARD, nth, persistent);
            go_many(100, count, NULL);
            shut_down();
            failing_off();
            CHECK_EQ(atomic_u32_load_acquire(&ran), 100);
        }
}

/* With the few stacks of the first arena only, all fibers get their turn, and the system is not
 * asked for memory again and again. */
static void few_stacks_serve_many_fibers(void)
{
    int64_t many = WEFT_TSAN ? 500 : 20 * MANY;
    configure(2);
    atomic_u32_store_relaxed(&ran, 0);
    run_fiber(count, NULL);
    failing_on(OS_MAP, 1, true);
    for (int64_t i = 1; i < many; i++)
        CHECK_EQ(weft_go(count, NULL), 0);
    while (atomic_u32_load_acquire(&ran) < many)
        weft__os_sleep_until(weft_after(100 * WEFT_US));
    /* Fewer than if each fiber that found no stack, or ended, had asked. */
    CHECK((int64_t)weft__os_calls(OS_MAP) < many);
    failing_off();
    shut_down();
    CHECK_EQ(atomic_u32_load_acquire(&ran), many);
}

int main(void)
{
    RUN_ALL(fibers_wait_for_stacks, one_fiber_waits_for_a_stack, stacks_put_back_are_used,
            fibers_run_without_guards, few_stacks_serve_many_fibers);
    return 0;
}
