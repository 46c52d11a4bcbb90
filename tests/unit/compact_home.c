/*
 * compact_home.c: a compact fiber that another processor has run goes back to its own: its deadline is kept there.
 */
#include "compact.h"

#include <unistd.h>

#include "sched/compact.h"
#include "sched/sched.h"

enum { FIBERS = 64, TURNS_ABROAD = 200, PROCESSORS = 2 };

#define SPIN (2 * WEFT_MS)

static atomic_u32 abroad, arrived;
static weft_wg gate, done;

static uint32_t here(void)
{
    return thread_self()->processor->index;
}

/* Keeps its processor, so that another one sees to those who sleep there. */
static void spin(void)
{
    for (int64_t end = weft_now() + SPIN; weft_now() < end;)
        cpu_relax();
}

static void travel(void *arg)
{
    uint32_t home = here();
    for (int turn = 0; atomic_u32_load_relaxed(&abroad) < TURNS_ABROAD; turn++) {
        CHECK_EQ(weft_sleep(50 * WEFT_US), 0);
        if (here() != home)
            atomic_u32_add_relaxed(&abroad, 1);
        if ((uintptr_t)arg == 0 && turn % 8 == 0)
            spin();
    }
    atomic_u32_add_relaxed(&arrived, 1);
    CHECK_EQ(weft_wg_wait_until(&gate, weft_after(60 * WEFT_S)), 0);
    weft_wg_done(&done);
}

static void check_one(struct weft_fiber *fiber, void *count)
{
    if (!fiber->compact || fiber->timer.link == NULL)
        return;
    CHECK_PTR(fiber->timer.wheel, &weft__compact_home(fiber)->wheel);
    ++*(int *)count;
}

/* What machines have written before they gave a wheel back is seen after this. */
static void pass_wheels(void)
{
    for (uint32_t i = 0; i < weft__sched.processor_count; i++) {
        latch_acquire(&weft__sched.processors[i].wheel.latch);
        latch_release(&weft__sched.processors[i].wheel.latch);
    }
}

static int check_all(void)
{
    int count = 0;
    pass_wheels();
    weft__fiber_each_parked(check_one, &count);
    return count;
}

static void deadlines_are_kept_at_home(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = PROCESSORS}), 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(weft_wg_init(&done, FIBERS), 0);
    for (uintptr_t i = 0; i < FIBERS; i++)
        compact_go(travel, (void *)i);
    while (atomic_u32_load_relaxed(&arrived) < FIBERS)
        usleep(1000);
    while (check_all() < FIBERS) /* the last ones are about to wait */
        usleep(1000);
    weft_wg_done(&gate);
    CHECK_EQ(weft_wg_wait(&done), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

int main(void)
{
    if (!weft__compact_works())
        test_skip("there are no compact stacks here");
    RUN_PLAIN(deadlines_are_kept_at_home, "stops or configures the runtime");
    return 0;
}
