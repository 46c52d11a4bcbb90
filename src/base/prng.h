/*
 * prng.h: a small, fast pseudo-random generator (xorshift64*), for choices that need no secrecy,
 * such as the victim of a steal.
 */
#ifndef WEFT_BASE_PRNG_H
#define WEFT_BASE_PRNG_H

#include <stdint.h>

struct prng {
    uint64_t state; /* never zero */
};

static inline void prng_seed(struct prng *prng, uint64_t seed)
{
    uint64_t mixed = seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    prng->state = mixed + (mixed == 0);
}

static inline uint32_t prng_next(struct prng *prng)
{
    uint64_t x = prng->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    prng->state = x;
    return (uint32_t)((x * 0x2545f4914f6cdd1du) >> 32);
}

/* A number below `bound`, which is not zero: fair to within bound / 2^32. */
static inline uint32_t prng_below(struct prng *prng, uint32_t bound)
{
    return (uint32_t)(((uint64_t)prng_next(prng) * bound) >> 32);
}

#endif
