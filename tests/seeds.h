/*
 * seeds.h: a test, or a part of one, under many seeds (weft/test.h).
 *
 *     RUN_SEEDS(function)          static void function(void), which uses fibers only, as a fiber
 *     RUN_SEEDS_MANY(function)     the same with many more seeds, for what was written for them: tests/seeds
 *
 * There are 20 seeds each, and 400 for those; less where everything is slow. WEFT_TEST_SEEDS=5000 runs as many, WEFT_TEST_SEED=42 that
 * one alone; a check that fails says the seed.
 */
#ifndef WEFT_TESTS_SEEDS_H
#define WEFT_TESTS_SEEDS_H

#include <stdbool.h>

#include <weft/test.h>
#include <weft/weft.h>

#include "base/prng.h"
#include "test.h"

enum { SEEDS = 20, SEEDS_MANY = 400 };

static inline void seeds_say(void)
{
    uint64_t seed;
    if (weft_test_seed(&seed) == 0)
        fprintf(stderr, "under seed %llu (WEFT_TEST_SEED=%llu)\n", (unsigned long long)seed,
                (unsigned long long)seed);
}

/* A generator for what the body itself decides, the same for the same seed. */
static inline struct prng seeds_prng(void)
{
    uint64_t seed = 0;
    struct prng prng;
    CHECK_EQ(weft_test_seed(&seed), 0);
    prng_seed(&prng, seed + 1);
    return prng;
}

struct seeds_body {
    void (*function)(void);
};

static inline void seeds_call(void *arg)
{
    ((struct seeds_body *)arg)->function();
}

#define RUN_SEEDS(function) seeds_run(#function, function, SEEDS)
#define RUN_SEEDS_MANY(function) seeds_run(#function, function, SEEDS_MANY)

static inline void seeds_run(const char *name, void (*function)(void), int64_t count)
{
    struct seeds_body body = {function};
    printf("%s, under seeds\n", name);
    fflush(stdout);
    test_on_fail = seeds_say;
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = (uint64_t)test_scale(count)}, seeds_call,
                             &body),
             0);
}

#endif
