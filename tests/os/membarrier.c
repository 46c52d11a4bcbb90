/*
 * membarrier.c: Dekker's litmus test of the asymmetric barrier: of two threads that each store and
 * then load, at least one sees the other's store.
 */
#include "os/membarrier.h"

#include "fibers.h"
#include "os/os.h"

enum { DELAY_MOST = 64 };

/* Each side stores the number of its round, so that nothing needs to be cleared between rounds. */
static struct side {
    _Alignas(CACHE_LINE) atomic_u32 stored;
    _Alignas(CACHE_LINE) atomic_u32 arrived;
    _Alignas(CACHE_LINE) uint32_t *seen; /* of the other side, by round */
} hot, rare;

static uint32_t rounds;

/* Both threads begin a round as close together as they can, then drift apart at random. */
static void meet(struct side *self, struct side *other, uint32_t round, struct prng *prng)
{
    atomic_u32_store_release(&self->arrived, round);
    for (int spins = 0; atomic_u32_load_acquire(&other->arrived) < round; spins++)
        if (spins > 20000)
            sched_yield();
    for (uint32_t left = prng_below(prng, DELAY_MOST); left > 0; left--)
        compiler_barrier();
}

/* Binds the calling thread to the nth of the CPUs that it may use: on one CPU there is nothing to
 * test. */
static void pin(int nth)
{
    cpu_set_t allowed, one;
    CHECK_EQ(pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && nth-- == 0)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 1)
        (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void *run_hot(void *arg)
{
    struct prng prng = prng_from(1);
    pin(0);
    for (uint32_t round = 1; round <= rounds; round++) {
        meet(&hot, &rare, round, &prng);
        atomic_u32_store_relaxed(&hot.stored, round);
        barrier_light();
        hot.seen[round] = atomic_u32_load_relaxed(&rare.stored);
    }
    return arg;
}

static void *run_rare(void *arg)
{
    struct prng prng = prng_from(2);
    pin(1);
    for (uint32_t round = 1; round <= rounds; round++) {
        meet(&rare, &hot, round, &prng);
        atomic_u32_store_relaxed(&rare.stored, round);
        barrier_heavy();
        rare.seen[round] = atomic_u32_load_relaxed(&hot.stored);
    }
    return arg;
}

static void one_sees_the_other(void)
{
    rounds = (uint32_t)test_scale(30000);
    hot = rare = (struct side){.seen = NULL};
    hot.seen = calloc((size_t)rounds + 1, sizeof *hot.seen);
    rare.seen = calloc((size_t)rounds + 1, sizeof *rare.seen);
    CHECK(hot.seen != NULL && rare.seen != NULL);
    pthread_t threads[2];
    threads[0] = thread_start(run_hot, NULL);
    threads[1] = thread_start(run_rare, NULL);
    for (int i = 0; i < 2; i++)
        thread_join(threads[i]);
    uint32_t hot_missed = 0, rare_missed = 0;
    for (uint32_t round = 1; round <= rounds; round++) {
        bool hot_saw = hot.seen[round] >= round, rare_saw = rare.seen[round] >= round;
        if (!hot_saw && !rare_saw)
            test_fail(__FILE__, __LINE__, "round %u: neither saw the other", round);
        hot_missed += !hot_saw;
        rare_missed += !rare_saw;
    }
    printf("  hot side came first in %u rounds of %u, rare side in %u\n", hot_missed, rounds,
           rare_missed);
    free(hot.seen);
    free(rare.seen);
}

static void with_membarrier(void)
{
    bool offered = weft__os_membarrier_register() == 0;
    weft__barrier_choose(true);
    CHECK_EQ(weft__barrier.symmetric, !offered);
    if (!offered)
        printf("  no membarrier here: the symmetric form again\n");
    one_sees_the_other();
}

static void without_membarrier(void)
{
    weft__barrier_choose(false);
    CHECK(weft__barrier.symmetric);
    one_sees_the_other();
}

int main(void)
{
    CHECK(weft__barrier.symmetric); /* correct also before the choice */
    RUN_ALL_PLAIN("about plain threads", with_membarrier, without_membarrier);
    return 0;
}
