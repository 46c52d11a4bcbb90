/*
 * steal_stress.c: bursts of fibers on one processor, which others must steal: more than the ring
 * holds or fewer, behind owners that spin in user code, sleep, yield or wait. Every fiber of a
 * burst runs exactly once; a lost fiber shows as the time limit of the test.
 */
#include "fibers.h"
#include "seeds.h"

enum { BURST_MOST = 600 };

struct burst {
    uint32_t size;
    uint64_t seed;
    atomic_u32 ended;
    atomic_u32 runs[BURST_MOST];
    weft_wg done;
};

struct member {
    struct burst *burst;
    uint32_t number;
};

static void member_child(void *arg)
{
    struct member *member = arg;
    atomic_u32_add_seq_cst(&member->burst->ended, 1);
    weft_wg_done(&member->burst->done);
    free(member);
}

/* The last step is in a child, so that fibers appear on the processor that the member has come
 * to. */
static void member_run(void *arg)
{
    struct member *member = arg;
    struct prng prng = prng_from(member->burst->seed + member->number);
    atomic_u32_add_seq_cst(&member->burst->runs[member->number], 1);
    for (uint32_t steps = prng_below(&prng, 4); steps > 0; steps--)
        switch (prng_below(&prng, 4)) {
        case 0:
            relax_for(prng_below(&prng, 2000));
            break;
        case 1:
            CHECK_EQ(weft_sleep(prng_below(&prng, 100) * WEFT_US), 0);
            break;
        case 2:
            sched_yield();
            break;
        default:
            weft_yield();
        }
    CHECK_EQ(weft_go(member_child, member), 0);
}

/* Waits for the burst: in the runtime, or outside it, where the member keeps its processor, unless
 * that is the only one. */
static void await_burst(struct burst *burst, uint32_t way)
{
    switch (way == 1 && test_seeded ? 2 : way) {
    case 0:
        break;
    case 1:
        spin_until(&burst->ended, burst->size);
        break;
    case 2:
        yield_until(&burst->ended, burst->size);
        break;
    default:
        while (atomic_u32_load_acquire(&burst->ended) < burst->size)
            CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    }
    CHECK_EQ(weft_wg_wait(&burst->done), 0);
}

static void burst_many(void *arg)
{
    struct burst *burst = malloc(sizeof *burst);
    CHECK(burst != NULL);
    struct prng prng = prng_from((uintptr_t)arg);
    for (int64_t round = test_scale(100); round > 0; round--) {
        memset(burst, 0, sizeof *burst);
        burst->seed = prng_next(&prng);
        burst->size = 1 + prng_below(&prng, prng_below(&prng, 4) == 0 ? BURST_MOST - 1 : 20);
        CHECK_EQ(weft_wg_init(&burst->done, burst->size), 0);
        for (uint32_t i = 0; i < burst->size; i++) {
            struct member *member = malloc(sizeof *member);
            CHECK(member != NULL);
            *member = (struct member){burst, i};
            CHECK_EQ(weft_go(member_run, member), 0);
        }
        await_burst(burst, prng_below(&prng, 4));
        for (uint32_t i = 0; i < burst->size; i++)
            CHECK_EQ(atomic_u32_load_relaxed(&burst->runs[i]), 1);
    }
    free(burst);
}

static void storm(int processors, uintptr_t seed)
{
    enum { BURSTERS = 2 }; /* fewer than processors, since all may keep theirs at the same time */
    weft_fiber *fibers[BURSTERS];
    processors_begin(processors);
    for (uintptr_t i = 0; i < BURSTERS; i++)
        CHECK_EQ(weft_spawn(&fibers[i], burst_many, (void *)(seed + i), NULL), 0);
    join_all(fibers, BURSTERS);
    processors_end();
}

static void every_member_runs_once(void)
{
    for (int processors = 4; processors <= (test_seeded ? 4 : 8); processors++)
        storm(processors, (uintptr_t)processors * 10);
}

/* A fiber that only spawns: thieves find a processor that has not changed fibers for long, and must
 * not touch its queue while the owner does. */

static struct {
    atomic_u32 *runs;
    uint32_t size;
    weft_wg left;
} flood;

static void flood_member(void *arg)
{
    atomic_u32_add_relaxed(arg, 1);
    weft_wg_done(&flood.left);
}

static void flood_run(void *arg)
{
    for (uint32_t i = 0; i < flood.size; i++)
        CHECK_EQ(weft_go(flood_member, &flood.runs[i]), 0);
}

/* The spawner computes in between for about as long as a thief waits before it claims, and so comes
 * back at that moment. */
static void trickle_run(void *arg)
{
    struct prng prng = prng_from(flood.size);
    for (uint32_t i = 0; i < flood.size;) {
        for (uint32_t end = i + 1 + prng_below(&prng, 6); i < end && i < flood.size; i++)
            CHECK_EQ(weft_go(flood_member, &flood.runs[i]), 0);
        compute_until(weft_now() + 8000 + prng_below(&prng, 16000));
        if (prng_below(&prng, 2) == 0)
            weft_yield();
    }
}

static void run_flood(void (*function)(void *), uint32_t size, int rounds)
{
    flood.size = size;
    flood.runs = calloc(flood.size, sizeof(atomic_u32));
    CHECK(flood.runs != NULL);
    for (int processors = 2; processors <= (test_seeded ? 2 : 8); processors += 2) {
        processors_begin(processors);
        for (int round = 0; round < rounds; round++) {
            memset(flood.runs, 0, flood.size * sizeof(atomic_u32));
            CHECK_EQ(weft_wg_init(&flood.left, flood.size), 0);
            CHECK_EQ(weft_go(function, NULL), 0);
            CHECK_EQ(weft_wg_wait(&flood.left), 0);
            for (uint32_t i = 0; i < flood.size; i++)
                CHECK_EQ(atomic_u32_load_relaxed(&flood.runs[i]), 1);
        }
        processors_end();
    }
    free(flood.runs);
}

static void every_fiber_of_a_flood_runs_once(void)
{
    run_flood(flood_run, (uint32_t)test_scale(10000), 15);
}

static void every_fiber_of_a_trickle_runs_once(void)
{
    run_flood(trickle_run, (uint32_t)test_scale(10000), 2);
}

int main(void)
{
    RUN_ALL_BOTH(every_member_runs_once, every_fiber_of_a_flood_runs_once,
                 every_fiber_of_a_trickle_runs_once);
    return 0;
}
