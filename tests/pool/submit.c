/*
 * submit.c: the ways to submit: copied arguments, a bound function, batches; from fibers, threads
 * and tasks.
 */
#include <stdalign.h>

#include "tasks.h"

static atomic_u32 ran;

struct copied {
    unsigned char bytes[WEFT_COPY_MAX];
};

static struct {
    atomic_u32 seen[WEFT_COPY_MAX + 1];
} copies;

static void fill_copy(struct copied *copied, size_t size)
{
    for (size_t i = 0; i < size; i++)
        copied->bytes[i] = (unsigned char)(size + 3 * i);
}

/* The first byte is the size. */
static void check_copy(void *arg)
{
    struct copied expected;
    size_t size = *(unsigned char *)arg;
    CHECK_EQ((uintptr_t)arg % alignof(max_align_t), 0);
    CHECK(size >= 1 && size <= WEFT_COPY_MAX);
    fill_copy(&expected, size);
    CHECK_EQ(memcmp(arg, &expected, size), 0);
    weft_yield();
    CHECK_EQ(memcmp(arg, &expected, size), 0); /* valid until it returns */
    if (size % 5 == 0)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    CHECK_EQ(memcmp(arg, &expected, size), 0);
    memset(arg, 0, size); /* it is its own */
    atomic_u32_add_seq_cst(&copies.seen[size], 1);
}

static void drop_copy(void (*function)(void *), void *arg, void *data)
{
    function(arg);
}

/* Submits one of each size, `rounds` times, in one buffer. */
static void copy_all(weft_pool *pool, uint32_t rounds)
{
    struct copied buffer;
    for (uint32_t i = 0; i < rounds; i++)
        for (size_t size = 1; size <= WEFT_COPY_MAX; size++) {
            weft_submit_options options = {.copy = size, .priority = (int)(size % 3) - 1};
            fill_copy(&buffer, size);
            CHECK_EQ(weft_pool_submit_with(pool, check_copy, &buffer, &options), 0);
            memset(&buffer, 0xff, sizeof buffer);
        }
}

static void arguments_are_copied(void *arg)
{
    static struct gate gate;
    uint32_t rounds = (uint32_t)test_scale(20);
    for (int when_full = 0; when_full <= WEFT_DROP_OLDEST; when_full++) {
        if (when_full == WEFT_REJECT)
            continue;
        memset(&copies, 0, sizeof copies);
        weft_pool *pool =
            POOL_OPEN(.capacity = 2, .queue = 10, .when_full = when_full, .on_drop = drop_copy);
        if (when_full != WEFT_BLOCK)
            gate_shut_and_fill(&gate, pool, 2);
        copy_all(pool, rounds);
        if (when_full != WEFT_BLOCK)
            gate_open(&gate);
        pool_close(pool);
        for (size_t size = 1; size <= WEFT_COPY_MAX; size++)
            CHECK_EQ(count_of(&copies.seen[size]), rounds);
    }
}

static void a_function_may_be_bound(void *arg)
{
    static struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = POOL_OPEN(.capacity = 2, .function = gate_task);
    CHECK_EQ(weft_pool_invoke(pool, &gate), 0);
    CHECK_EQ(weft_pool_try_invoke(pool, &gate), 0);
    await(&gate.gauge.now, 2);
    CHECK_EQ(weft_pool_try_invoke(pool, &gate), -EAGAIN);
    CHECK_EQ(weft_pool_invoke_until(pool, &gate, weft_after(WEFT_MS)), -ETIMEDOUT);
    gate_open(&gate);
    CHECK_EQ(weft_pool_invoke_until(pool, &gate, WEFT_NEVER), 0);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0); /* other functions as well */
    pool_close(pool);
    CHECK_EQ(gauge_total(&gate.gauge), 3);
    CHECK_EQ(count_of(&ran), 1);
}

enum { BATCH = 20 };

static struct {
    struct journal began;
    int number[BATCH];
} batch;

static void note_batch(void *arg)
{
    journal_add(&batch.began, *(int *)arg);
}

static void a_batch_goes_as_far_as_it_can(void *arg)
{
    static struct gate gate;
    void *args[BATCH];
    for (int i = 0; i < BATCH; i++) {
        batch.number[i] = i;
        args[i] = &batch.number[i];
    }
    weft_pool_options options = {
        .capacity = 1, .queue = 4, .function = note_batch, .when_full = WEFT_REJECT};
    for (int blocks = 0; blocks < 2; blocks++) {
        atomic_u32_store_relaxed(&batch.began.length, 0);
        options.when_full = blocks ? WEFT_BLOCK : WEFT_REJECT;
        weft_pool *pool = pool_open(options);
        gate_shut_and_fill(&gate, pool, 1);
        int64_t deadline = blocks ? weft_after(WEFT_MS) : WEFT_NEVER;
        CHECK_EQ(weft_pool_submit_batch(pool, note_batch, args, BATCH, deadline), 4);
        if (blocks)
            CHECK(weft_now() >= deadline);
        CHECK_EQ(weft_pool_submit_batch(pool, note_batch, args, BATCH, deadline),
                 blocks ? -ETIMEDOUT : -EAGAIN);
        gate_open(&gate);
        AWAIT_FIGURE(pool, completed, 5);
        if (blocks) /* waits as often as need be; the pool's own function */
            CHECK_EQ(weft_pool_submit_batch(pool, NULL, args + 4, BATCH - 4, WEFT_NEVER),
                     BATCH - 4);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(weft_pool_submit_batch(pool, note_batch, args, BATCH, WEFT_NEVER), -ESHUTDOWN);
        CHECK_EQ(pool_stats(pool).completed, blocks ? BATCH + 1 : 5);
        pool_close(pool);
        uint32_t length = count_of(&batch.began.length);
        CHECK_EQ(length, blocks ? BATCH : 4);
        for (int i = 0; i < (int)length; i++)
            CHECK_EQ(batch.began.entries[i], i);
    }
}

/* Submits by fibers, threads and tasks. */

static struct {
    weft_pool *pool;
    int64_t each;
    struct gauge gauge;
    atomic_u32 children;
} crowd;

static void child(void *arg)
{
    weft_yield();
    atomic_u32_add_seq_cst(&crowd.children, 1);
}

static void parent(void *arg)
{
    gauge_enter(&crowd.gauge);
    if (arg != NULL)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    gauge_leave(&crowd.gauge);
    CHECK_EQ(weft_pool_submit(crowd.pool, child, NULL), 0);
}

static void submit_parents(void *arg)
{
    for (int64_t i = 0; i < crowd.each; i++)
        CHECK_EQ(weft_pool_submit(crowd.pool, parent, i % 8 == 0 ? arg : NULL), 0);
}

static void fibers_threads_and_tasks_may_submit(void)
{
    enum { MANY = 8 };
    static char waits;
    crowd.each = test_scale(2000);
    for (int64_t queue = 0; queue <= 100; queue += 100) {
        memset(&crowd.gauge, 0, sizeof crowd.gauge);
        atomic_u32_store_relaxed(&crowd.children, 0);
        crowd.pool = POOL_OPEN(.capacity = 4, .queue = queue);
        run_many(submit_parents, &waits, MANY);
        pool_close(crowd.pool);
        CHECK_EQ(gauge_total(&crowd.gauge), MANY * crowd.each);
        CHECK_EQ(count_of(&crowd.children), MANY * crowd.each);
        CHECK(gauge_most(&crowd.gauge) <= 4);
    }
}

int main(void)
{
    RUN_EVERYWHERE(arguments_are_copied);
    RUN_EVERYWHERE(a_function_may_be_bound);
    RUN_EVERYWHERE(a_batch_goes_as_far_as_it_can);
    RUN_BOTH(fibers_threads_and_tasks_may_submit);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
