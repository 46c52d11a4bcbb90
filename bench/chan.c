/*
 * chan.c: the cost of passing an element through a channel.
 *
 * An operation is one element of 8 bytes from one sender to one receiver, through a channel without
 * a capacity or with a capacity of 128; the receiver ends when the channel is closed. On one
 * processor the two take turns; on all, the scheduler decides whether they share one. From a
 * thread: the sender is main, a plain thread, the receiver a fiber.
 */
#include <errno.h>
#include <weft/weft.h>

#include "bench.h"

enum { CAPACITY = 128 };

struct stream {
    struct bench *bench;
    weft_chan *chan;
    int64_t count;
    int64_t sum; /* the receiver's */
};

static void send_all(void *arg)
{
    struct stream *stream = arg;
    for (int64_t i = 1; i <= stream->count; i++)
        bench_check(weft_chan_send(stream->chan, &i), "weft_chan_send");
    weft_chan_close(stream->chan);
}

static void receive_all(void *arg)
{
    struct stream *stream = arg;
    int64_t value, sum = 0;
    while (weft_chan_receive(stream->chan, &value) == 0)
        sum += value;
    stream->sum = sum;
}

static void finish(struct stream *stream, int64_t start)
{
    stream->bench->values[0] = (double)(weft_now() - start) / (double)stream->count;
    if (stream->sum != stream->count * (stream->count + 1) / 2)
        bench_check(-EIO, "the elements that came");
    weft_chan_destroy(stream->chan);
}

static void coordinate(void *arg)
{
    struct stream *stream = arg;
    weft_wg done = WEFT_WG_INIT;
    int64_t start = weft_now();
    bench_check(weft_wg_go(&done, receive_all, stream), "weft_wg_go");
    bench_check(weft_wg_go(&done, send_all, stream), "weft_wg_go");
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    finish(stream, start);
}

static struct stream open_stream(struct bench *bench, int64_t full, int64_t capacity)
{
    struct stream stream = {.bench = bench, .count = bench_amount(bench, full)};
    bench_check(weft_chan_make(&stream.chan, sizeof(int64_t), (size_t)capacity), "weft_chan_make");
    bench_params(bench, "elements=%ld capacity=%ld", (long)stream.count, (long)capacity);
    return stream;
}

static void measure_fibers(struct bench *bench, int64_t capacity)
{
    struct stream stream = open_stream(bench, 2 * 1000 * 1000, capacity);
    bench_in_fiber(coordinate, &stream);
}

static void measure_thread(struct bench *bench, int64_t capacity)
{
    struct stream stream = open_stream(bench, 1000 * 1000, capacity);
    weft_wg done = WEFT_WG_INIT;
    int64_t start = weft_now();
    bench_check(weft_wg_go(&done, receive_all, &stream), "weft_wg_go");
    send_all(&stream);
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    finish(&stream, start);
}

const struct bench_case bench_chan_cases[] = {
    {.name = "chan_unbuffered_one",
     .what = "an element from one fiber to another on one processor, no capacity",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fibers,
     .size = 0,
     .one_processor = true},
    {.name = "chan_unbuffered",
     .what = "the same on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fibers,
     .size = 0},
    {.name = "chan_buffered_one",
     .what = "an element from one fiber to another on one processor, capacity 128",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fibers,
     .size = CAPACITY,
     .one_processor = true},
    {.name = "chan_buffered",
     .what = "the same on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fibers,
     .size = CAPACITY},
    {.name = "chan_thread_buffered",
     .what = "an element from main, a plain thread, to a fiber, capacity 128",
     .metrics = {{"", "ns/op"}},
     .measure = measure_thread,
     .size = CAPACITY},
    {.name = "chan_thread_unbuffered",
     .what = "the same without a capacity: each element wakes fiber and thread",
     .metrics = {{"", "ns/op"}},
     .measure = measure_thread,
     .size = 0},
    {.name = NULL},
};
