/*
 * fiber_alloc.c: a visit of all fibers sees none that has not been set up yet.
 */
#include <errno.h>
#include <malloc.h>

#include "fibers.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "seeds.h"

/* The first fibers of a runtime: there are few, so that a visit meets each of them while it is
 * set up. */
enum { ROUNDS = 300, FIBERS = 600 };

static atomic_u32 looks, parked_seen;
static weft_chan *gate;

/* Each byte of a fiber that is not set up has the value with which malloc filled it. */
static void check_begun(struct weft_fiber *fiber, void *context)
{
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
    CHECK_EQ(weft_chan_receive(gate, NULL), -ESHUTDOWN);
}

static void fill(void)
{
    CHECK_EQ(weft_chan_make(&gate, 0, 0), 0);
    atomic_u32_store_release(&looks, 1);
    pthread_t thread = thread_start(look, NULL);
    go_many(FIBERS, wait_at_gate, NULL);
    atomic_u32_store_release(&looks, 0);
    thread_join(thread);
    CHECK_EQ(weft_chan_close(gate), 0);
    shut_down();
    weft_chan_destroy(gate);
}

static void fibers_that_are_seen_are_set_up(void)
{
#ifdef M_PERTURB
    CHECK_EQ(mallopt(M_PERTURB, 0xff ^ FIBER_PARKED),
             1); /* the value with which malloc fills memory */
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
    RUN_PLAIN(fibers_that_are_seen_are_set_up, "threads that meet");
    return 0;
}
