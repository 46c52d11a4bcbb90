/*
 * inject.c: the inject queue keeps the order, gives out parts, and gives out each fiber once.
 */
#include "sched/core/inject.h"

#include "fibers.h"

/* Fibers that are not run: the queue only links them. */
static struct weft_fiber *make_fibers(size_t count)
{
    struct weft_fiber *fibers = calloc(count, sizeof *fibers);
    CHECK(fibers != NULL);
    for (size_t i = 0; i < count; i++)
        fibers[i].id = i;
    return fibers;
}

static void push(struct weft_fiber *fibers, size_t count)
{
    struct chain chain = {NULL, NULL, 0};
    for (size_t i = 0; i < count; i++)
        chain_add(&chain, &fibers[i]);
    weft__inject_push_any(chain);
}

/* Takes `most` fibers; they must be those from `first` on. */
static void take(uint32_t most, size_t first, uint32_t expected)
{
    struct chain chain = weft__inject_take_any(most);
    CHECK_EQ(chain.count, expected);
    for (uint32_t i = 0; i < expected; i++) {
        struct weft_fiber *fiber = chain_take(&chain);
        CHECK(fiber != NULL);
        CHECK_EQ(fiber->id, first + i);
    }
    CHECK_PTR(chain_take(&chain), NULL);
    CHECK_PTR(chain.first, NULL);
    CHECK_PTR(chain.last, NULL);
    CHECK_EQ(chain.count, 0);
}

static void empty(void)
{
    CHECK_EQ(weft__inject_length(), 0);
    take(1, 0, 0);
    take(0, 0, 0);
    weft__inject_push_any((struct chain){NULL, NULL, 0});
    CHECK_EQ(weft__inject_length(), 0);
}

static void first_in_first_out(void)
{
    struct weft_fiber *fibers = make_fibers(10);
    push(fibers, 1);
    CHECK_EQ(weft__inject_length(), 1);
    push(fibers + 1, 3);
    push(fibers + 4, 6);
    CHECK_EQ(weft__inject_length(), 10);
    take(0, 0, 0);
    take(1, 0, 1);
    take(2, 1, 2);
    CHECK_EQ(weft__inject_length(), 7);
    take(6, 3, 6);
    take(1, 9, 1);
    CHECK_EQ(weft__inject_length(), 0);
    free(fibers);
}

static void no_more_than_there_is(void)
{
    struct weft_fiber *fibers = make_fibers(5);
    push(fibers, 3);
    take(100, 0, 3);
    CHECK_EQ(weft__inject_length(), 0);
    push(fibers, 5); /* the queue was emptied */
    take(5, 0, 5);
    CHECK_EQ(weft__inject_length(), 0);
    free(fibers);
}

enum { PUSHERS = 3, THIEVES = 2, CHAIN_MOST = 7 };

static struct weft_fiber *shared;
static size_t per_pusher;
static atomic_u32 *seen;
static atomic_u64 taken;

static void *push_many(void *arg)
{
    struct weft_fiber *mine = shared + (size_t)(uintptr_t)arg * per_pusher;
    for (size_t at = 0, size = 1; at < per_pusher; size = size % CHAIN_MOST + 1) {
        size_t count = size < per_pusher - at ? size : per_pusher - at;
        push(mine + at, count);
        at += count;
    }
    return NULL;
}

static void *take_many(void *arg)
{
    uint64_t last[PUSHERS] = {0};
    uint32_t most = 1;
    while (atomic_u64_load_relaxed(&taken) < PUSHERS * per_pusher) {
        struct chain chain = weft__inject_take_any(most = most % 16 + 1);
        CHECK(chain.count <= most);
        if (chain.count == 0)
            sched_yield();
        atomic_u64_add_relaxed(&taken, chain.count);
        for (struct weft_fiber *fiber; (fiber = chain_take(&chain)) != NULL;) {
            size_t pusher = fiber->id / per_pusher;
            CHECK(fiber->id >= last[pusher]); /* in the order of its pusher */
            last[pusher] = fiber->id;
            CHECK_EQ(atomic_u32_add_relaxed(&seen[fiber->id], 1), 0);
        }
    }
    return arg;
}

static void each_exactly_once(void)
{
    pthread_t threads[PUSHERS + THIEVES];
    per_pusher = (size_t)test_scale(100000);
    shared = make_fibers(PUSHERS * per_pusher);
    seen = calloc(PUSHERS * per_pusher, sizeof *seen);
    CHECK(seen != NULL);
    for (int i = 0; i < PUSHERS + THIEVES; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, i < PUSHERS ? push_many : take_many,
                                (void *)(uintptr_t)i),
                 0);
    for (int i = 0; i < PUSHERS + THIEVES; i++)
        thread_join(threads[i]);
    CHECK_EQ(atomic_u64_load_relaxed(&taken), PUSHERS * per_pusher);
    for (size_t i = 0; i < PUSHERS * per_pusher; i++)
        CHECK_EQ(atomic_u32_load_relaxed(&seen[i]), 1);
    CHECK_EQ(weft__inject_length(), 0);
    free(shared);
    free(seen);
}

int main(void)
{
    RUN_ALL_PLAIN("about plain threads", empty, first_in_first_out, no_more_than_there_is,
                  each_exactly_once);
    return 0;
}
