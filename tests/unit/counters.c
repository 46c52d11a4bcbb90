/*
 * counters.c: counters that wrap around while the runtime runs. A test sets them near the wrap
 * from inside the runtime, where a fiber may touch its processor. Nothing in the library is made for that.
 */
#include <weft/weft.h>

#include "sched/sched.h"
#include "seeds.h"

enum { CROWD = 200, YIELDS_MOST = 20000000 };

static bool slept;
static int64_t yields;

static void sleep_a_moment(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    slept = true;
}

static void yield_until_slept(void *arg)
{
    (void)arg;
    while (!slept) {
        weft_yield();
        CHECK(yields++ < YIELDS_MOST);
    }
}

/* As if the processor had given so many turns, since a timer last fired there and since it began. */
static void turns_ago(uint32_t fired, uint32_t begun)
{
    struct thread *thread = runtime_enter(thread_self());
    struct processor *processor = thread->processor;
    CHECK_EQ(ring_length(processor), 0);
    atomic_u32_store_relaxed(&processor->head, begun);
    atomic_u32_store_relaxed(&processor->tail, begun);
    atomic_u32_store_relaxed(&processor->turn, begun);
    processor->fired_tail = begun - fired;
    runtime_leave(thread);
}

static void sleep_beside_others(void)
{
    weft_fiber *fibers[CROWD];
    slept = false;
    yields = 0;
    CHECK_EQ(weft_go(sleep_a_moment, NULL), 0);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(weft_spawn(&fibers[i], yield_until_slept, NULL, NULL), 0);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

static void sleep_after_turns(void *arg)
{
    static const uint32_t fired[] = {0, 1, UINT32_MAX / 2, UINT32_MAX / 2 + 1, UINT32_MAX};
    static const uint32_t begun[] = {0, UINT32_MAX / 2, UINT32_MAX - CROWD, UINT32_MAX};
    (void)arg;
    for (size_t i = 0; i < sizeof fired / sizeof *fired; i++) {
        for (size_t k = 0; k < sizeof begun / sizeof *begun; k++) {
            turns_ago(fired[i], begun[k]);
            sleep_beside_others();
        }
    }
}

static void timers_fire_after_any_number_of_turns(void)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    CHECK_EQ(weft_spawn(&fiber, sleep_after_turns, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

int main(void)
{
    RUN_PLAIN(timers_fire_after_any_number_of_turns, "sets counters of the one processor");
    return 0;
}
