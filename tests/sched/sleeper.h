/*
 * sleeper.h: a fiber that sleeps for a moment beside fibers that yield all the time.
 */
#ifndef WEFT_TEST_SLEEPER_H
#define WEFT_TEST_SLEEPER_H

#include "fibers.h"

enum { BESIDE_MOST = 1000, YIELDS_MOST = 100000000 };

static struct {
    bool slept;
    int64_t yields;
} sleeper;

static inline void sleeper_sleep(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    sleeper.slept = true;
}

static inline void sleeper_yield(void *arg)
{
    while (!sleeper.slept) {
        weft_yield();
        CHECK(sleeper.yields++ < YIELDS_MOST);
    }
}

/* Returns when the sleeper has run again: it must, however many others yield. */
static inline void sleep_beside(int64_t count)
{
    sleeper.slept = false;
    sleeper.yields = 0;
    CHECK_EQ(weft_go(sleeper_sleep, NULL), 0);
    run_fibers(count, sleeper_yield, NULL);
}

#endif
