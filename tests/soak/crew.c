/*
 * crew.c: helpers of a round, in fibers and on threads, and how they pass the time.
 */
#include <time.h>

#include "soak.h"

int64_t soak_soon(struct prng *prng)
{
    switch (below(prng, 8)) {
    case 0:
        return WEFT_NOW;
    case 1:
        return weft_after(between(prng, 1, 5) * WEFT_MS);
    default:
        return weft_after(below(prng, 300) * WEFT_US);
    }
}

static void block(int64_t time)
{
    struct timespec span = {.tv_sec = 0, .tv_nsec = (long)time};
    nanosleep(&span, NULL);
}

static void compute(uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++)
        cpu_relax();
}

void soak_pause(struct prng *prng)
{
    uint32_t dice = below(prng, 64);
    if (dice < 40)
        return;
    if (dice < 50) {
        weft_yield();
    } else if (dice < 56) {
        int64_t start = weft_now(), time = below(prng, 400) * WEFT_US;
        int error = weft_sleep(time);
        CHECK(error == -ECANCELED || error == -ETIMEDOUT ||
              (error == 0 && weft_now() - start >= time));
    } else if (dice < 60) {
        compute(below(prng, 2000));
    } else if (dice < 62) {
        weft_blocking_enter();
        block(below(prng, 300) * WEFT_US);
        weft_blocking_exit();
    } else {
        block(below(prng, 300) * WEFT_US);
    }
}

static void work(struct member *member)
{
    weft_wg *running = &member->crew->running;
    member->body(member);
    weft_wg_done(running);
}

static void fiber_main(void *arg)
{
    work(arg);
}

static void *thread_main(void *arg)
{
    work(arg);
    return NULL;
}

static void start_member(struct member *member, uint32_t how)
{
    if (how == 0) {
        member->is_thread = true;
        CHECK_EQ(pthread_create(&member->thread, NULL, thread_main, member), 0);
    } else if (how < 4) {
        weft_spawn_options options = {.name = "member", .stack_size = how == 1 ? 256 * 1024 : 0};
        CHECK_EQ(weft_spawn(&member->fiber, fiber_main, member, &options), 0);
    } else {
        CHECK_EQ(weft_go(fiber_main, member), 0);
    }
}

void crew_start(struct crew *crew, struct prng *prng, uint32_t count,
                void (*body)(struct member *member), void *shared)
{
    CHECK(count <= CREW_MOST);
    memset(crew, 0, sizeof *crew);
    crew->count = count;
    CHECK_EQ(weft_wg_init(&crew->running, count), 0);
    for (uint32_t i = 0; i < count; i++) {
        struct member *member = &crew->members[i];
        *member = (struct member){.body = body, .shared = shared, .index = i, .crew = crew};
        prng_seed(&member->prng, (uint64_t)prng_next(prng) << 32 | prng_next(prng));
        start_member(member, below(prng, 6));
    }
}

void crew_join(struct crew *crew)
{
    CHECK_EQ(weft_wg_wait(&crew->running), 0);
    for (uint32_t i = 0; i < crew->count; i++) {
        struct member *member = &crew->members[i];
        if (member->is_thread)
            CHECK_EQ(pthread_join(member->thread, NULL), 0);
        else if (member->fiber != NULL)
            CHECK_EQ(weft_join(member->fiber), 0);
    }
}
