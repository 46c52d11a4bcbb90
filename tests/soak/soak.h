/*
 * soak.h: the interface between the parts of the soak, which soak.c describes.
 *
 * An actor is a loop of rounds, each of which uses a part of weft at random and leaves nothing
 * behind. It runs in a fiber or on a plain thread. A round may start a crew: helpers that run the
 * same function, some in fibers, some on threads.
 */
#ifndef WEFT_SOAK_SOAK_H
#define WEFT_SOAK_SOAK_H

#include <pthread.h>
#include <stdbool.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "base/prng.h"
#include "ledger.h"
#include "test.h"

/* False when the phase is over: no further round begins. */
bool soak_goes_on(void);
/* Prints the seed that repeats the run; for a check that fails. */
void soak_say_seed(void);

__attribute__((constructor)) static void soak_tell_seed(void)
{
    test_on_fail = soak_say_seed;
}

/* ---- actors ---- */

struct actor {
    const char *name;
    void (*round)(struct actor *actor);
    const char *doing; /* constant text: for the watchdog */
    struct prng prng;
    uint64_t rounds;
};

void tasks_round(struct actor *actor);
void channels_round(struct actor *actor);
void locks_round(struct actor *actor);
void fibers_round(struct actor *actor);
void timers_round(struct actor *actor);
void network_round(struct actor *actor);
void system_round(struct actor *actor);

/* ---- chance ---- */

static inline uint32_t below(struct prng *prng, uint32_t bound)
{
    return prng_below(prng, bound);
}

static inline uint32_t between(struct prng *prng, uint32_t least, uint32_t most)
{
    return least + prng_below(prng, most - least + 1);
}

static inline bool one_in(struct prng *prng, uint32_t times)
{
    return prng_below(prng, times) == 0;
}

/* A random deadline, often very near, sometimes past. */
int64_t soak_soon(struct prng *prng);
/* Returns at once, yields, sleeps, computes, or blocks its thread, marked or unmarked. */
void soak_pause(struct prng *prng);

/* ---- crews ---- */

enum { CREW_MOST = 8 };

struct member {
    void (*body)(struct member *member);
    void *shared;
    uint32_t index;
    struct prng prng;
    struct crew *crew;
    weft_fiber *fiber; /* NULL: a thread, or a fiber without a handle */
    pthread_t thread;
    bool is_thread;
};

struct crew {
    uint32_t count;
    weft_wg running;
    struct member members[CREW_MOST];
};

void crew_start(struct crew *crew, struct prng *prng, uint32_t count,
                void (*body)(struct member *member), void *shared);
void crew_join(struct crew *crew);

#endif
