/*
 * timer_stress.c: many fibers and threads start, stop, open and close timers at random, their own
 * and shared ones, while the timers' functions do the same.
 *
 * Each start of a timer that runs once leads to one call, or to one result 1 of a stop or of
 * another start.
 */
#include "base/prng.h"
#include "bodies.h"
#include "fibers.h"
#include "seeds.h"

enum { FIBERS = 8, THREADS = 2, SHARED = 12, OWN = 6 };

static int64_t soon(struct prng *prng)
{
    switch (prng_below(prng, 4)) {
    case 0:
        return WEFT_NOW;
    case 1:
        return weft_after(3600 * WEFT_S);
    default:
        return weft_now() + prng_below(prng, 60000) - 5000;
    }
}

static void pause_a_little(struct prng *prng)
{
    switch (prng_below(prng, 8)) {
    case 0:
        weft_yield();
        break;
    case 1:
        CHECK_EQ(weft_sleep(prng_below(prng, 30) * WEFT_US), 0);
        break;
    default:
        relax_for(prng_below(prng, 100));
    }
}

/* Timers that every actor starts and stops. */

static struct shared {
    weft_timer *timer;
    atomic_u32 started, prevented, calls, running;
} shared[SHARED];

static void shared_call(void *arg)
{
    struct shared *one = arg;
    CHECK_EQ(atomic_u32_add_seq_cst(&one->running, 1), 0); /* one call at a time */
    uint32_t call = atomic_u32_add_seq_cst(&one->calls, 1);
    if (call % 5 == 0)
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    if (call % 7 == 0)
        weft_yield();
    CHECK_EQ(atomic_u32_sub_seq_cst(&one->running, 1), 1);
}

static void shared_use(struct prng *prng)
{
    struct shared *one = &shared[prng_below(prng, SHARED)];
    int result;
    if (prng_below(prng, 3) > 0) {
        atomic_u32_add_seq_cst(&one->started, 1);
        result = weft_timer_start(one->timer, soon(prng), 0);
    } else {
        result = weft_timer_stop(one->timer);
    }
    CHECK(result == 0 || result == 1);
    atomic_u32_add_seq_cst(&one->prevented, (uint32_t)result);
}

/* Timers of the actor's own, some periodic, which it also closes. */

struct own {
    weft_timer *timer;
    atomic_u32 calls, closed;
    bool closes_itself; /* in its third call; started only for that */
};

static void own_call(void *arg)
{
    struct own *own = arg;
    CHECK_EQ(atomic_u32_load_acquire(&own->closed), 0);
    uint32_t call = atomic_u32_add_seq_cst(&own->calls, 1);
    if (own->closes_itself && call == 2) {
        CHECK_EQ(weft_timer_close(own->timer), 0);
        atomic_u32_store_release(&own->closed, 1);
    }
}

static void own_close(struct own *own)
{
    if (own->closes_itself) {
        CHECK_EQ(weft_timer_start(own->timer, WEFT_NOW, 10 * WEFT_US), 0);
        while (!atomic_u32_load_acquire(&own->closed))
            weft_yield();
    } else {
        CHECK_EQ(weft_timer_close(own->timer), 0);
        atomic_u32_store_release(&own->closed, 1);
    }
}

static void own_use(struct own **place, struct prng *prng)
{
    if (*place == NULL) {
        *place = calloc(1, sizeof **place);
        CHECK(*place != NULL);
        (*place)->closes_itself = prng_below(prng, 4) == 0;
        CHECK_EQ(weft_timer_open(&(*place)->timer, own_call, *place), 0);
        return;
    }
    struct own *own = *place;
    switch (own->closes_itself ? 1 : prng_below(prng, 5)) {
    case 0:
        CHECK_EQ(weft_timer_stop(own->timer) & ~1, 0);
        break;
    case 1:
        own_close(own);
        free(own);
        *place = NULL;
        break;
    default:
        CHECK_EQ(weft_timer_start(own->timer, soon(prng), prng_below(prng, 2) * 15 * WEFT_US) & ~1,
                 0);
    }
}

static void act(void *arg)
{
    struct own *own[OWN] = {NULL};
    struct prng prng;
    prng_seed(&prng, (uintptr_t)arg);
    for (int64_t round = test_scale(test_seeded ? 2000 : 8000); round > 0; round--) {
        if (prng_below(&prng, 2) == 0)
            shared_use(&prng);
        else
            own_use(&own[prng_below(&prng, OWN)], &prng);
        pause_a_little(&prng);
    }
    for (int i = 0; i < OWN; i++)
        if (own[i] != NULL) {
            own_close(own[i]);
            free(own[i]);
        }
}

static void storm(int processors, uintptr_t seed)
{
    struct body bodies[FIBERS + THREADS];
    processors_begin(processors);
    memset(shared, 0, sizeof shared);
    for (int i = 0; i < SHARED; i++)
        CHECK_EQ(weft_timer_open(&shared[i].timer, shared_call, &shared[i]), 0);
    for (uintptr_t i = 0; i < FIBERS + THREADS; i++)
        bodies[i] =
            (struct body){.function = act, .arg = (void *)(seed + i), .thread = i >= FIBERS};
    bodies_run(bodies, FIBERS + THREADS);
    for (int i = 0; i < SHARED; i++) {
        struct shared *one = &shared[i];
        int result = weft_timer_stop(one->timer);
        CHECK(result == 0 || result == 1);
        CHECK_EQ(weft_timer_close(one->timer), 0);
        CHECK_EQ(atomic_u32_load_acquire(&one->calls) + atomic_u32_load_acquire(&one->prevented) +
                     (uint32_t)result,
                 atomic_u32_load_acquire(&one->started));
    }
    processors_end();
}

static void every_start_is_a_call_or_prevented(void)
{
    static const int processors[] = {1, 2, 4, 8};
    size_t kinds = test_seeded ? 1 : sizeof processors / sizeof processors[0];
    for (size_t i = 0; i < kinds; i++)
        storm(processors[i], 100 * i);
}

int main(void)
{
    RUN_BOTH(every_start_is_a_call_or_prevented);
    return 0;
}
