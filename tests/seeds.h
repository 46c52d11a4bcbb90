/*
 * seeds.h: a test, or a part of one, under many seeds (weft/test.h).
 *
 *     RUN_SEEDS(function)             static void function(void), which uses fibers only, as a fiber
 *
 * There are 20 seeds each, less where everything is slow. WEFT_TEST_SEEDS=5000 runs as many, WEFT_TEST_SEED=42 that
 * one alone; a check that fails says the seed.
 */
#ifndef WEFT_TESTS_SEEDS_H
#define WEFT_TESTS_SEEDS_H

#include <weft/test.h>
#include <weft/weft.h>

#include "test.h"

enum { SEEDS = 20 };

static inline void seeds_say(void)
{
    uint64_t seed;
    if (weft_test_seed(&seed) == 0)
        fprintf(stderr, "under seed %llu (WEFT_TEST_SEED=%llu)\n", (unsigned long long)seed,
                (unsigned long long)seed);
}

struct seeds_body {
    void (*function)(void);
};

static inline void seeds_call(void *arg)
{
    ((struct seeds_body *)arg)->function();
}

#define RUN_SEEDS(function) seeds_run(#function, function)

static inline void seeds_run(const char *name, void (*function)(void))
{
    struct seeds_body body = {function};
    printf("%s, under seeds\n", name);
    fflush(stdout);
    test_on_fail = seeds_say;
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = (uint64_t)test_scale(SEEDS)}, seeds_call,
                             &body),
             0);
}

#endif
