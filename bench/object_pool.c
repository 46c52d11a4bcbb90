/*
 * object_pool.c: the cost of getting an object and putting it back.
 *
 * An operation is one get and one put. Alone: by one fiber on one processor, or by a foreign
 * thread; eight at a time: eight gets, then eight puts; on all processors: a fiber on each, the
 * figure being wall time. Handed over: one fiber gets what another one puts, so that every object
 * comes from the other's processor. An object has 256 bytes and needs no constructor. For
 * comparison, the same with calloc and free.
 */
#include <stdlib.h>
#include <weft/weft.h>

#include "bench.h"

enum { OBJECT_SIZE = 256, BATCH_MOST = 8, MAILBOX = 64 };

struct pairs {
    struct bench *bench;
    int64_t count; /* per fiber */
    int batch;
    weft_object_pool *pool;
    weft_wg done;
};

static weft_object_pool *open_pool(void)
{
    weft_object_pool *pool;
    weft_object_pool_options options = {.size = OBJECT_SIZE};
    bench_check(weft_object_pool_open(&pool, &options), "weft_object_pool_open");
    return pool;
}

static void close_pool(weft_object_pool *pool)
{
    bench_check(weft_object_pool_close(pool), "weft_object_pool_close");
}

static void get_and_put(const struct pairs *pairs)
{
    void *objects[BATCH_MOST];
    for (int64_t i = 0; i < pairs->count; i += pairs->batch) {
        for (int j = 0; j < pairs->batch; j++)
            bench_check(weft_object_pool_get(pairs->pool, &objects[j]), "weft_object_pool_get");
        for (int j = 0; j < pairs->batch; j++)
            weft_object_pool_put(pairs->pool, objects[j]);
    }
}

static void time_pairs(void *arg)
{
    struct pairs *pairs = arg;
    int64_t start = weft_now();
    get_and_put(pairs);
    pairs->bench->values[0] = (double)(weft_now() - start) / (double)pairs->count;
}

static void measure_fiber(struct bench *bench, int64_t batch)
{
    struct pairs pairs = {bench, bench_amount(bench, 8000000), (int)batch, open_pool(), {0, NULL}};
    bench_params(bench, "pairs=%ld at_once=%d", (long)pairs.count, pairs.batch);
    bench_in_fiber(time_pairs, &pairs);
    close_pool(pairs.pool);
}

static void measure_thread(struct bench *bench, int64_t batch)
{
    struct pairs pairs = {bench, bench_amount(bench, 8000000), (int)batch, open_pool(), {0, NULL}};
    bench_params(bench, "pairs=%ld at_once=%d", (long)pairs.count, pairs.batch);
    time_pairs(&pairs);
    close_pool(pairs.pool);
}

static void time_malloc(void *arg)
{
    struct pairs *pairs = arg;
    int64_t start = weft_now();
    for (int64_t i = 0; i < pairs->count; i++) {
        void *object = calloc(1, OBJECT_SIZE);
        __asm__ volatile("" : "+r"(object)); /* keeps the compiler from removing the pair */
        free(object); /* NOLINT(clang-analyzer-unix.Malloc): it cannot see through the line above */
    }
    pairs->bench->values[0] = (double)(weft_now() - start) / (double)pairs->count;
}

static void measure_malloc(struct bench *bench, int64_t count)
{
    struct pairs pairs = {.bench = bench, .count = bench_amount(bench, count)};
    bench_params(bench, "pairs=%ld", (long)pairs.count);
    bench_in_fiber(time_malloc, &pairs);
}

/* On all processors. */

static void pairs_member(void *arg)
{
    struct pairs *pairs = arg;
    get_and_put(pairs);
    weft_wg_done(&pairs->done);
}

static void measure_all(struct bench *bench, int64_t count)
{
    struct pairs pairs = {bench, bench_amount(bench, count), 1, open_pool(), {0, NULL}};
    bench_params(bench, "fibers=%d pairs=%ld each", bench->processors, (long)pairs.count);
    bench_check(weft_wg_init(&pairs.done, bench->processors), "weft_wg_init");
    int64_t start = weft_now();
    for (int i = 0; i < bench->processors; i++)
        bench_check(weft_go(pairs_member, &pairs), "weft_go");
    weft_wg_wait(&pairs.done);
    bench->values[0] = (double)(weft_now() - start) / (double)pairs.count;
    close_pool(pairs.pool);
}

/* Handed over through a ring of slots, which are NULL while empty. */

struct handover {
    struct bench *bench;
    int64_t count;
    weft_object_pool *pool;
    void *ring[MAILBOX];
    weft_wg done;
};

static void getter(void *arg)
{
    struct handover *handover = arg;
    for (int64_t i = 0; i < handover->count; i++) {
        void *object, **place = &handover->ring[i % MAILBOX];
        bench_check(weft_object_pool_get(handover->pool, &object), "weft_object_pool_get");
        while (__atomic_load_n(place, __ATOMIC_ACQUIRE) != NULL)
            weft_yield();
        __atomic_store_n(place, object, __ATOMIC_RELEASE);
    }
    weft_wg_done(&handover->done);
}

static void putter(void *arg)
{
    struct handover *handover = arg;
    for (int64_t i = 0; i < handover->count; i++) {
        void *object, **place = &handover->ring[i % MAILBOX];
        while ((object = __atomic_load_n(place, __ATOMIC_ACQUIRE)) == NULL)
            weft_yield();
        __atomic_store_n(place, NULL, __ATOMIC_RELEASE);
        weft_object_pool_put(handover->pool, object);
    }
    weft_wg_done(&handover->done);
}

static void measure_handover(struct bench *bench, int64_t count)
{
    struct handover handover = {
        .bench = bench, .count = bench_amount(bench, count), .pool = open_pool()};
    bench_check(weft_wg_init(&handover.done, 2), "weft_wg_init");
    int64_t start = weft_now();
    bench_check(weft_go(getter, &handover), "weft_go");
    bench_check(weft_go(putter, &handover), "weft_go");
    weft_wg_wait(&handover.done);
    bench->values[0] = (double)(weft_now() - start) / (double)handover.count;
    weft_object_pool_counts counts;
    bench_check(weft_object_pool_count(handover.pool, &counts), "weft_object_pool_count");
    bench->values[1] = (double)counts.made;
    bench_params(bench, "pairs=%ld mailbox=%d", (long)handover.count, MAILBOX);
    close_pool(handover.pool);
}

const struct bench_case bench_object_pool_cases[] = {
    {.name = "object_pool",
     .what = "a get and a put by one fiber",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fiber,
     .size = 1,
     .one_processor = true},
    {.name = "object_pool_eight",
     .what = "the same, eight gets and then eight puts",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fiber,
     .size = BATCH_MOST,
     .one_processor = true},
    {.name = "object_pool_thread",
     .what = "a get and a put by a foreign thread",
     .metrics = {{"", "ns/op"}},
     .measure = measure_thread,
     .size = 1},
    {.name = "object_pool_all",
     .what = "a get and a put by a fiber on each processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure_all,
     .size = 8000000},
    {.name = "object_pool_hand",
     .what = "a get by one fiber and the put by another; and how many objects that took",
     .metrics = {{"", "ns/op"}, {"_made", "objects"}},
     .measure = measure_handover,
     .size = 2000000},
    {.name = "object_pool_calloc",
     .what = "for comparison: calloc and free of an object by one fiber",
     .metrics = {{"", "ns/op"}},
     .measure = measure_malloc,
     .size = 8000000,
     .one_processor = true},
    {.name = NULL},
};
