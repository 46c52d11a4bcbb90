/*
 * seeds.h: runs a test, or a part of one, under many seeds (weft/test.h).
 *
 *     RUN_BOTH(function)           as RUN, and then under seeds: static void function(void), which
 *                                  may run in a fiber
 *     RUN_ALL_BOTH(function, ...)  RUN_BOTH for several functions
 *     RUN_SEEDS(function)          under seeds only
 *     RUN_SEEDS_MANY(function)     under many more seeds: for tests written for them (_seeds.c)
 *     RUN_EVERYWHERE(function)     static void function(void *), as everywhere.h does it, and then
 *                                  under seeds
 *
 * Every test of fibers runs under seeds. One that cannot, or has nothing to order, says why:
 * RUN_PLAIN(function, "why") in test.h. frame.seeds fails for a test that does neither.
 *
 * There are 20 seeds for each test, and 400 for those of RUN_SEEDS_MANY; fewer where everything is
 * slow. WEFT_TEST_SEEDS=5000 runs that many, WEFT_TEST_SEED=42 that one alone. A check that fails
 * prints the seed. What a test scales (test_scale) is divided among its seeds.
 */
#ifndef WEFT_TESTS_SEEDS_H
#define WEFT_TESTS_SEEDS_H

#include <stdbool.h>

#include <weft/test.h>
#include <weft/weft.h>

#include "base/prng.h"
#include "everywhere.h"
#include "test.h"

enum { SEEDS_MANY = 400 };

static inline void seeds_say(void)
{
    uint64_t seed;
    if (weft_test_seed(&seed) == 0)
        fprintf(stderr, "under seed %llu (WEFT_TEST_SEED=%llu)\n", (unsigned long long)seed,
                (unsigned long long)seed);
}

/* A generator for choices of the test itself, the same for the same seed. */
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

#define RUN_SEEDS(function) seeds_run(#function, function, TEST_SEEDS)
#define RUN_SEEDS_MANY(function) seeds_run(#function, function, SEEDS_MANY)
#define RUN_BOTH(function) (RUN(function), RUN_SEEDS(function))
#define RUN_ALL_BOTH(...) seeds_run_all(#__VA_ARGS__, (test_function *const[]){__VA_ARGS__, NULL})
#define RUN_EVERYWHERE(function) seeds_everywhere(#function, function)

static inline void seeds_run_with(const char *name, void (*function)(void *), void *arg,
                                  int64_t count)
{
    weft_test_options options = {.seeds = (uint64_t)test_scale(count)};
    printf("%s, under seeds\n", name);
    fflush(stdout);
    test_on_fail = seeds_say;
    test_seeded = true;
    CHECK_EQ(weft_test_seeds(&options, function, arg), 0);
    test_seeded = false;
}

static inline void seeds_run(const char *name, void (*function)(void), int64_t count)
{
    seeds_run_with(name, seeds_call, &(struct seeds_body){function}, count);
}

static inline void seeds_run_all(const char *names, test_function *const *functions)
{
    for (; *functions != NULL; functions++) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(names, ","), names);
        test_run(name, *functions);
        seeds_run(name, *functions, TEST_SEEDS);
        names += strlen(name);
        names += strspn(names, ", ");
    }
}

static inline void seeds_everywhere(const char *name, void (*function)(void *))
{
    test_title(name);
    everywhere(function);
    seeds_run_with(name, function, NULL, TEST_SEEDS);
}

#endif
