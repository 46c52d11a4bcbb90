/*
 * hop.h: moves the running fiber to another thread, for certain.
 *
 * Needs more processors than fibers that hop at the same time.
 */
#ifndef WEFT_TEST_HOP_H
#define WEFT_TEST_HOP_H

#include <sched.h>

#include "base/atomic.h"
#include "test.h"
#include <weft/weft.h>

struct hop {
    weft_wg gate;
    pid_t home;
    atomic_u32 arrived, finished;
};

/* Wakes the hopper. On the hopper's own thread it then holds the thread until the hopper runs,
 * which can only be elsewhere. */
static void hop_push(void *arg)
{
    struct hop *hop = arg;
    bool hold = gettid() == hop->home;
    if (!hold)
        atomic_u32_store_release(&hop->finished, 1);
    weft_wg_done(&hop->gate);
    if (hold) {
        while (!atomic_u32_load_acquire(&hop->arrived))
            sched_yield();
        atomic_u32_store_release(&hop->finished, 1);
    }
}

/* Returns on another thread than it was called on. */
static inline void test_hop(void)
{
    pid_t home = gettid();
    while (gettid() == home) {
        struct hop hop = {.home = home};
        CHECK_EQ(weft_wg_init(&hop.gate, 1), 0);
        CHECK_EQ(weft_go(hop_push, &hop), 0);
        CHECK_EQ(weft_wg_wait(&hop.gate), 0);
        atomic_u32_store_release(&hop.arrived, 1);
        /* Not by a park: that might move it back. */
        while (!atomic_u32_load_acquire(&hop.finished))
            sched_yield();
    }
}

#endif
