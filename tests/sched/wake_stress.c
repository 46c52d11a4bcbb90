/*
 * wake_stress.c: wake-ups against deadlines and ends, on fibers and on threads.
 *
 * Each race runs many times with deadlines at about the time of the event. A lost wake-up shows as
 * the time limit of the test; one that comes twice, or touches memory that its owner has back,
 * shows in the checks.
 */
#include "bodies.h"
#include "fibers.h"
#include "seeds.h"

/* A deadline that lies a little before or after an event that is about now. */
static int64_t tiny_deadline(struct prng *prng)
{
    return weft_now() + prng_below(prng, 8000) - 1000;
}

/* A wait group belongs to its only waiter again as soon as a wait returns 0. */

enum { PAIRS = 2 };

struct reuse {
    weft_wg wg;
    atomic_u32 armed, finished; /* the round that may be done, and that done has returned from */
    uint32_t rounds;
    uint64_t seed;
};

static void reuse_wait(void *arg)
{
    struct reuse *reuse = arg;
    struct prng prng = prng_from(reuse->seed);
    for (uint32_t round = 1; round <= reuse->rounds; round++) {
        CHECK_EQ(weft_wg_init(&reuse->wg, 1), 0);
        atomic_u32_store_release(&reuse->armed, round);
        int result;
        while ((result = weft_wg_wait_until(&reuse->wg, tiny_deadline(&prng))) != 0)
            CHECK_EQ(result, -ETIMEDOUT);
        /* No wait group any more. A late waker would change this value. */
        reuse->wg = (weft_wg){2, NULL};
        await(&reuse->finished, round);
        CHECK_EQ(reuse->wg.word, 2);
        CHECK_PTR(reuse->wg.waiters, NULL);
    }
}

static void reuse_done(void *arg)
{
    struct reuse *reuse = arg;
    for (uint32_t round = 1; round <= reuse->rounds; round++) {
        await(&reuse->armed, round);
        weft_wg_done(&reuse->wg);
        atomic_u32_store_release(&reuse->finished, round);
    }
}

static void a_wait_group_is_free_after_its_wait(void)
{
    for (int threads = 0; threads < 4; threads++) {
        struct reuse reuses[PAIRS];
        struct body bodies[2 * PAIRS];
        for (int i = 0; i < PAIRS; i++) {
            reuses[i] = (struct reuse){.rounds = (uint32_t)test_scale(1200),
                                       .seed = (uint64_t)(threads * PAIRS + i)};
            bodies[2 * i] =
                (struct body){.function = reuse_wait, .arg = &reuses[i], .thread = threads & 1};
            bodies[2 * i + 1] =
                (struct body){.function = reuse_done, .arg = &reuses[i], .thread = threads & 2};
        }
        bodies_run(bodies, 2 * PAIRS);
    }
}

/* Many waiters, some with deadlines, some without. */

enum { WAITERS = 12 };

struct herd {
    weft_wg gate, left; /* the event; the waiters that have not passed */
    atomic_u32 round, over;
    atomic_u32 passed;
};

static struct herd herd;

static void herd_wait(void *arg)
{
    struct prng prng = prng_from((uintptr_t)arg);
    for (uint32_t round = 1;; round++) {
        while (atomic_u32_load_acquire(&herd.round) < round)
            if (atomic_u32_load_acquire(&herd.over))
                return;
            else
                weft_yield();
        int result;
        do {
            int64_t deadline = prng_below(&prng, 4) == 0 ? WEFT_NEVER : tiny_deadline(&prng);
            result = weft_wg_wait_until(&herd.gate, deadline);
            CHECK(result == 0 || (result == -ETIMEDOUT && deadline != WEFT_NEVER));
        } while (result != 0);
        atomic_u32_add_seq_cst(&herd.passed, 1);
        weft_wg_done(&herd.left);
    }
}

static void every_waiter_passes_once(void)
{
    struct body bodies[WAITERS];
    memset(&herd, 0, sizeof herd);
    struct prng prng = prng_from(1);
    for (uintptr_t i = 0; i < WAITERS; i++) {
        bodies[i] = (struct body){.function = herd_wait, .arg = (void *)i, .thread = i % 4 == 0};
        body_start(&bodies[i]);
    }
    uint32_t rounds = (uint32_t)test_scale(700);
    for (uint32_t round = 1; round <= rounds; round++) {
        CHECK_EQ(weft_wg_init(&herd.gate, 1), 0);
        CHECK_EQ(weft_wg_init(&herd.left, WAITERS), 0);
        atomic_u32_store_release(&herd.round, round);
        relax_for(prng_below(&prng, 2000));
        weft_wg_done(&herd.gate);
        CHECK_EQ(weft_wg_wait(&herd.left), 0);
        CHECK_EQ(atomic_u32_load_acquire(&herd.passed), round * WAITERS);
    }
    atomic_u32_store_release(&herd.over, 1);
    for (int i = 0; i < WAITERS; i++)
        body_join(&bodies[i]);
}

/* Joins with deadlines against the end of the fiber, and detaching against it. */

static atomic_u32 joined_ran, joined_spawned;

static void short_life(void *arg)
{
    relax_for((uint32_t)(uintptr_t)arg);
    atomic_u32_add_seq_cst(&joined_ran, 1);
}

static void join_many(void *arg)
{
    struct prng prng = prng_from((uintptr_t)arg);
    for (int64_t round = test_scale(3000); round > 0; round--) {
        void *pauses = (void *)(uintptr_t)prng_below(&prng, 300);
        weft_fiber *fiber = spawn(short_life, pauses);
        atomic_u32_add_seq_cst(&joined_spawned, 1);
        if (prng_below(&prng, 8) == 0) {
            CHECK_EQ(weft_detach(fiber), 0);
            continue;
        }
        int result;
        while ((result = weft_join_until(fiber, tiny_deadline(&prng))) != 0)
            CHECK_EQ(result, -ETIMEDOUT);
    }
}

static void every_join_ends_once(void)
{
    struct body bodies[6];
    atomic_u32_store_relaxed(&joined_ran, 0);
    atomic_u32_store_relaxed(&joined_spawned, 0);
    for (uintptr_t i = 0; i < 6; i++)
        bodies[i] = (struct body){.function = join_many, .arg = (void *)i, .thread = i % 2};
    bodies_run(bodies, 6);
    await(&joined_ran, atomic_u32_load_acquire(&joined_spawned)); /* the detached ones too */
    processors_end();
}

int main(void)
{
    RUN_ALL_BOTH(a_wait_group_is_free_after_its_wait, every_waiter_passes_once,
                 every_join_ends_once);
    return 0;
}
