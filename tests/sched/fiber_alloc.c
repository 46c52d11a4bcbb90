/*
 * fiber_alloc.c: records of fibers: who looks at all of them sees none that is not begun.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>

#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "seeds.h"
#include <weft/weft.h>

/* The first records of a runtime, of which there are few, so that who looks comes by each in time. */
enum { ROUNDS = 300, FIBERS = 600 };

static atomic_u32 looks, parked_seen;
static weft_chan *gate;

/* What it was is in each byte of a record that is not begun. */
static void check_begun(struct weft_fiber *fiber, void *context)
{
    (void)context;
    CHECK(fiber->id != 0 && fiber->id < (uint64_t)1 << 48);
    CHECK(fiber->function != NULL);
    atomic_u32_add_relaxed(&parked_seen, 1);
}

static void *look(void *arg)
{
    while (atomic_u32_load_acquire(&looks))
        weft__fiber_each_parked(check_begun, NULL);
    return arg;
}

static void wait_at_gate(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_chan_receive(gate, NULL), -ESHUTDOWN);
}

static void fill(void)
{
    pthread_t thread;
    CHECK_EQ(weft_chan_make(&gate, 0, 0), 0);
    atomic_u32_store_release(&looks, 1);
    CHECK_EQ(pthread_create(&thread, NULL, look, NULL), 0);
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_go(wait_at_gate, NULL), 0);
    atomic_u32_store_release(&looks, 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_chan_close(gate), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    weft_chan_destroy(gate);
}

static void those_seen_are_begun(void)
{
#ifdef M_PERTURB
    CHECK_EQ(mallopt(M_PERTURB, 0xff ^ FIBER_PARKED), 1); /* what is allocated is full of that */
#endif
    for (int round = 0; round < ROUNDS; round++)
        fill();
    CHECK(atomic_u32_load_relaxed(&parked_seen) > 0);
}

int main(void)
{
#ifndef M_PERTURB
    test_skip("libc cannot fill what it allocates");
#endif
    if (WEFT_TSAN || WEFT_ASAN)
        test_skip("states are read while their fibers change them, as a report may do; and memory "
                  "cannot be filled");
    RUN_PLAIN(those_seen_are_begun, "threads that meet");
    return 0;
}
