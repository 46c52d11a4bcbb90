/*
 * select.c: the cost of receiving from the first of several channels that has an element.
 *
 * An operation is one element of 8 bytes, received by a weft_select over 8 channels. Ready: each
 * channel has a capacity of 128 and a sender that keeps it filled, so the select can mostly choose
 * among several. Waiting: no capacity, and one sender for all channels in turn, so the select
 * mostly finds nothing and has to enter the lists of all 8 channels and leave them again.
 */
#include <errno.h>
#include <weft/weft.h>

#include "bench.h"

enum { CHANNELS = 8, CAPACITY = 128, ELEMENTS = 1000 * 1000 };

struct fan {
    struct bench *bench;
    weft_chan *chans[CHANNELS];
    int64_t each; /* elements per channel */
    int64_t sum;  /* the receiver's */
};

struct sender {
    weft_chan *chan;
    int64_t count;
};

static void send_to_one(void *arg)
{
    struct sender *sender = arg;
    for (int64_t i = 1; i <= sender->count; i++)
        bench_check(weft_chan_send(sender->chan, &i), "weft_chan_send");
}

static void send_in_turn(void *arg)
{
    struct fan *fan = arg;
    for (int64_t i = 1; i <= fan->each; i++)
        for (int k = 0; k < CHANNELS; k++)
            bench_check(weft_chan_send(fan->chans[k], &i), "weft_chan_send");
}

static void receive_any(void *arg)
{
    struct fan *fan = arg;
    weft_case cases[CHANNELS];
    int64_t value, sum = 0;
    for (int i = 0; i < CHANNELS; i++)
        cases[i] = (weft_case){.chan = fan->chans[i], .op = WEFT_RECEIVE, .element = &value};
    for (int64_t i = 0; i < CHANNELS * fan->each; i++) {
        if (weft_select(cases, CHANNELS) < 0)
            bench_check(-EIO, "weft_select");
        sum += value;
    }
    fan->sum = sum;
}

static void open_fan(struct fan *fan, struct bench *bench, size_t capacity)
{
    *fan = (struct fan){.bench = bench, .each = bench_amount(bench, ELEMENTS) / CHANNELS};
    for (int i = 0; i < CHANNELS; i++)
        bench_check(weft_chan_make(&fan->chans[i], sizeof(int64_t), capacity), "weft_chan_make");
    bench_params(bench, "channels=%d capacity=%zu elements=%ld", CHANNELS, capacity,
                 (long)(CHANNELS * fan->each));
}

static void finish(struct fan *fan, int64_t start)
{
    fan->bench->values[0] = (double)(weft_now() - start) / (double)(CHANNELS * fan->each);
    if (fan->sum != CHANNELS * fan->each * (fan->each + 1) / 2)
        bench_check(-EIO, "the elements that came");
    for (int i = 0; i < CHANNELS; i++)
        weft_chan_destroy(fan->chans[i]);
}

static void coordinate_ready(void *arg)
{
    struct fan *fan = arg;
    struct sender senders[CHANNELS];
    weft_wg done = WEFT_WG_INIT;
    int64_t start = weft_now();
    bench_check(weft_wg_go(&done, receive_any, fan), "weft_wg_go");
    for (int i = 0; i < CHANNELS; i++) {
        senders[i] = (struct sender){.chan = fan->chans[i], .count = fan->each};
        bench_check(weft_wg_go(&done, send_to_one, &senders[i]), "weft_wg_go");
    }
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    finish(fan, start);
}

static void coordinate_waiting(void *arg)
{
    struct fan *fan = arg;
    weft_wg done = WEFT_WG_INIT;
    int64_t start = weft_now();
    bench_check(weft_wg_go(&done, receive_any, fan), "weft_wg_go");
    bench_check(weft_wg_go(&done, send_in_turn, fan), "weft_wg_go");
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    finish(fan, start);
}

static void measure_ready(struct bench *bench, int64_t capacity)
{
    struct fan fan;
    open_fan(&fan, bench, (size_t)capacity);
    bench_in_fiber(coordinate_ready, &fan);
}

static void measure_waiting(struct bench *bench, int64_t capacity)
{
    struct fan fan;
    open_fan(&fan, bench, (size_t)capacity);
    bench_in_fiber(coordinate_waiting, &fan);
}

const struct bench_case bench_select_cases[] = {
    {.name = "select_ready_one",
     .what = "an element received by a select over 8 channels that have some, one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure_ready,
     .size = CAPACITY,
     .one_processor = true},
    {.name = "select",
     .what = "the same on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure_ready,
     .size = CAPACITY},
    {.name = "select_wait_one",
     .what = "an element received by a select over 8 channels that had to wait, one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure_waiting,
     .size = 0,
     .one_processor = true},
    {.name = "select_wait_all",
     .what = "the same on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure_waiting,
     .size = 0},
    {.name = NULL},
};
