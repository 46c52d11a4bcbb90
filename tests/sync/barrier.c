/*
 * barrier.c: the barrier, from fibers and from threads.
 */
#include "bodies.h"
#include "everywhere.h"
#include "seeds.h"

/* Misuse; runs before the runtime does, so that children can be forked. */

static void arguments(void)
{
    weft_barrier barrier, poison;
    memset(&barrier, 0x55, sizeof barrier);
    poison = barrier;
    CHECK_EQ(weft_barrier_init(NULL, 1), -EINVAL);
    CHECK_EQ(weft_barrier_init(&barrier, 0), -EINVAL);
    CHECK_EQ(weft_barrier_init(&barrier, -1), -EINVAL);
    CHECK_EQ(weft_barrier_init(&barrier, (int64_t)WEFT_BARRIER_MAX + 1), -EINVAL);
    CHECK_EQ(memcmp(&barrier, &poison, sizeof barrier), 0);
    memset(&barrier, 0, sizeof barrier);
    CHECK_EQ(weft_barrier_wait(NULL), -EINVAL);
    CHECK_EQ(weft_barrier_wait(&barrier), -EINVAL);
    CHECK_EQ(weft_barrier_wait_until(NULL, WEFT_NOW), -EINVAL);
}

static void wait_once(void *barrier)
{
    CHECK_EQ(weft_barrier_wait(barrier), 0);
}

static void destroy_awaited(void)
{
    weft_barrier barrier;
    struct body body = {.function = wait_once, .arg = &barrier};
    CHECK_EQ(weft_barrier_init(&barrier, 2), 0);
    body_start(&body);
    await_waiters(&barrier.latch, &barrier.waiters, 1);
    weft_barrier_destroy(&barrier);
}

static void misuse_aborts(void)
{
    CHECK_ABORTS("weft: weft_barrier_destroy was given no barrier", weft_barrier_destroy(NULL));
    CHECK_ABORTS("weft: a barrier is destroyed that a caller waits for", destroy_awaited());
}

/* The calls. */

static void alone(void *arg)
{
    weft_barrier barrier;
    set_errno(77);
    CHECK_EQ(weft_barrier_init(&barrier, 1), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_barrier_wait(&barrier), 1);
        CHECK_EQ(weft_barrier_wait_until(&barrier, WEFT_NOW), 1);
    }
    weft_barrier_destroy(&barrier);
    CHECK_EQ(weft_barrier_init(&barrier, 2), 0);
    CHECK_EQ(weft_barrier_wait_until(&barrier, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_barrier_wait_until(&barrier, 1), -ETIMEDOUT);
    int64_t deadline = weft_after(300 * WEFT_US);
    CHECK_EQ(weft_barrier_wait_until(&barrier, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(get_errno(), 77);
    weft_barrier_destroy(&barrier);
}

/* Rounds: no party is ahead by more than one, and one in each gets 1. */

enum { PARTIES = 5 };

static struct {
    weft_barrier barrier;
    int64_t at[PARTIES]; /* plain: the barrier orders it */
    atomic_u32 told;
} meeting;

static void meet(void *arg)
{
    int self = *(int *)arg;
    for (int64_t round = 1; round <= test_scale(2000); round++) {
        meeting.at[self] = round;
        int result = weft_barrier_wait(&meeting.barrier);
        CHECK(result == 0 || result == 1);
        atomic_u32_add_relaxed(&meeting.told, (uint32_t)result);
        for (int i = 0; i < PARTIES; i++)
            CHECK_EQ(meeting.at[i], round);
        result = weft_barrier_wait(&meeting.barrier);
        CHECK(result == 0 || result == 1);
    }
}

static void all_meet(void)
{
    for (int threads = 0; threads <= 2; threads++) {
        struct body bodies[PARTIES];
        int numbers[PARTIES];
        CHECK_EQ(weft_barrier_init(&meeting.barrier, PARTIES), 0);
        atomic_u32_store_relaxed(&meeting.told, 0);
        for (int i = 0; i < PARTIES; i++) {
            numbers[i] = i;
            bodies[i] = (struct body){.function = meet, .arg = &numbers[i], .thread = i < threads};
        }
        bodies_run(bodies, PARTIES);
        CHECK_EQ(atomic_u32_load_relaxed(&meeting.told), test_scale(2000));
        weft_barrier_destroy(&meeting.barrier);
    }
}

/* A party that gives up does not count. */
static void giving_up_withdraws(void)
{
    for (int thread = 0; thread < 2; thread++) {
        weft_barrier barrier;
        struct body body = {.function = wait_once, .arg = &barrier, .thread = thread};
        CHECK_EQ(weft_barrier_init(&barrier, 3), 0);
        CHECK_EQ(weft_barrier_wait_until(&barrier, weft_after(100 * WEFT_US)), -ETIMEDOUT);
        body_start(&body);
        await_waiters(&barrier.latch, &barrier.waiters, 1);
        CHECK_EQ(weft_barrier_wait_until(&barrier, weft_after(100 * WEFT_US)), -ETIMEDOUT);
        await_waiters(&barrier.latch, &barrier.waiters, 1);
        struct body second = {.function = wait_once, .arg = &barrier, .thread = !thread};
        body_start(&second);
        await_waiters(&barrier.latch, &barrier.waiters, 2);
        CHECK_EQ(weft_barrier_wait(&barrier), 1);
        body_join(&body);
        body_join(&second);
        weft_barrier_destroy(&barrier);
    }
}

/* Deadlines pass at about the time at which the round ends, and the barrier is freed right after. A
 * party that gives up has withdrawn, so the sum is right. */

struct duel {
    weft_barrier barrier;
    int64_t deadline;
    int result;
};

static void wait_in_round(void *arg)
{
    struct duel *duel = arg;
    duel->result = weft_barrier_wait_until(&duel->barrier, duel->deadline);
}

static void a_round_has_all_or_none(void)
{
    int met = 0, rounds = (int)test_scale(1500);
    for (int round = 0; round < rounds; round++) {
        struct duel duel = {.deadline = weft_after(60 * WEFT_US)};
        struct body body = {.function = wait_in_round, .arg = &duel, .thread = round % 16 == 0};
        CHECK_EQ(weft_barrier_init(&duel.barrier, 2), 0);
        body_start(&body);
        compute_until(duel.deadline - 2 * WEFT_US + round % 64 * 100);
        int mine = weft_barrier_wait_until(&duel.barrier, weft_after(20 * WEFT_US));
        if (mine == 1) {
            weft_barrier_destroy(&duel.barrier);
            scrap(&duel.barrier, sizeof duel.barrier);
        }
        body_join(&body);
        if (mine < 0) {
            CHECK_EQ(mine, -ETIMEDOUT);
            CHECK_EQ(duel.result, -ETIMEDOUT);
        } else {
            CHECK_EQ(mine + duel.result, 1);
            met++;
        }
        if (mine == 1)
            check_scrapped(&duel.barrier, sizeof duel.barrier);
    }
    printf("  met %d times of %d\n", met, rounds);
}

/* The last party arrives after the clock has ended the wait of the other one, and before that has
 * left: the round has both, and destroy waits for the other. */

static void arrive_last(void *arg)
{
    struct duel *duel = arg;
    CHECK_EQ(weft_barrier_wait(&duel->barrier), 1);
    weft_barrier_destroy(&duel->barrier);
    scrap(&duel->barrier, sizeof duel->barrier);
}

static void a_late_party_still_counts(void)
{
    struct duel duel = {.deadline = weft_after(1000 * WEFT_S)};
    struct body body = {.function = wait_in_round, .arg = &duel, .thread = true};
    struct body last = {.function = arrive_last, .arg = &duel};
    CHECK_EQ(weft_barrier_init(&duel.barrier, 2), 0);
    body_start(&body);
    await_waiters(&duel.barrier.latch, &duel.barrier.waiters, 1);
    struct waiter *first = end_first_wait(&duel.barrier.latch, &duel.barrier.waiters);
    body_start(&last);
    await_waiters(&duel.barrier.latch, &duel.barrier.waiters, 0);
    for (int i = 0; i < 100; i++)
        weft_yield(); /* gives a destroy that does not wait the time to return */
    wake_ended(first);
    body_join(&body);
    body_join(&last);
    CHECK_EQ(duel.result, 0);
    check_scrapped(&duel.barrier, sizeof duel.barrier);
}

/* A forked child. */

static weft_barrier awaited;

static void in_child(void)
{
    CHECK_EQ(weft_barrier_wait(&awaited), -ECHILD);
    CHECK_EQ(weft_barrier_wait_until(&awaited, WEFT_NOW), -ECHILD);
    weft_barrier_destroy(&awaited);
}

static void a_forked_child_does_not_hang(void)
{
    struct body body = {.function = wait_once, .arg = &awaited};
    CHECK_EQ(weft_barrier_init(&awaited, 2), 0);
    body_start(&body);
    await_waiters(&awaited.latch, &awaited.waiters, 1);
    in_fork(in_child);
    CHECK_EQ(weft_barrier_wait(&awaited), 1);
    body_join(&body);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN_EVERYWHERE(alone);
    RUN_BOTH(all_meet);
    RUN_BOTH(giving_up_withdraws);
    RUN_BOTH(a_round_has_all_or_none);
    RUN_BOTH(a_late_party_still_counts);
    RUN_PLAIN(a_forked_child_does_not_hang, "forks");
    return 0;
}
