/*
 * prng.c: the generator: known answers, ranges, and a fair share for each number.
 */
#include "base/prng.h"

#include "test.h"

static void known_answers(void)
{
    /* xorshift64* as published, computed elsewhere. */
    static const struct {
        uint64_t seed;
        uint32_t numbers[4];
    } known[] = {{1, {0x34ed315e, 0xca1c14a0, 0xcf453bbd, 0x778358bc}},
                 {42, {0x13b75fd1, 0x9b11a922, 0x508fff83, 0x3679696b}}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct prng prng;
        prng_seed(&prng, known[i].seed);
        for (int n = 0; n < 4; n++)
            CHECK_EQ(prng_next(&prng), known[i].numbers[n]);
    }
}

static void no_seed_is_stuck(void)
{
    struct prng prng;
    prng_seed(&prng, 0x6778a64cc8dc5f0b); /* the one that the mixing makes zero */
    CHECK(prng.state != 0);
    uint32_t first = prng_next(&prng), second = prng_next(&prng);
    CHECK(first != 0 || second != 0);
    CHECK(first != second);
    prng_seed(&prng, 0);
    CHECK(prng.state != 0);
}

static void below_stays_below(void)
{
    static const uint32_t bounds[] = {1, 2, 3, 7, 256, 1000003, 0x80000001u, UINT32_MAX};
    struct prng prng;
    prng_seed(&prng, 3);
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++)
        for (int i = 0; i < 1000; i++)
            CHECK(prng_below(&prng, bounds[b]) < bounds[b]);
}

static void below_is_fair(void)
{
    enum { BOUND = 10, DRAWS = 100000 };
    int drawn[BOUND] = {0};
    struct prng prng;
    prng_seed(&prng, 4);
    for (int i = 0; i < DRAWS; i++)
        drawn[prng_below(&prng, BOUND)]++;
    for (int i = 0; i < BOUND; i++) /* within 5 %: the standard deviation is 1 % */
        CHECK(drawn[i] > DRAWS / BOUND * 95 / 100 && drawn[i] < DRAWS / BOUND * 105 / 100);
}

int main(void)
{
    RUN_ALL_PLAIN("no fibers", known_answers, no_seed_is_stuck, below_stays_below, below_is_fair);
    return 0;
}
