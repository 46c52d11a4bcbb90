/*
 * compact_stress.c: compact and private fibers with everything that makes fibers wait and move
 * between processors: frames are found as they were left, each message and each task arrives once.
 */
#include "compact.h"

#include <unistd.h>

#include "everywhere.h"
#include "fibers.h"
#include "sched/fiber/compact.h"
#include "seeds.h"

enum { ACTORS = 60, CHANNELS = 4 };

static struct stage {
    weft_chan *channels[CHANNELS];
    weft_pool *pool;
    weft_mutex mutex;
    weft_wg done;
    int64_t turns, sent_sum, received_sum, sent, received, tasks, ran; /* under the mutex */
    bool blocks;
} stage;

struct actor {
    struct prng prng;
    int number, turns;
    int64_t sent_sum, received_sum, sent, received, tasks;
};
static struct actor actors[ACTORS];

static void run_task(void *arg)
{
    const int64_t *value = arg;
    int64_t before = *value;
    weft_yield();
    CHECK_EQ(*value, before);
    weft_mutex_lock(&stage.mutex);
    stage.ran += before;
    weft_mutex_unlock(&stage.mutex);
}

static void exchange(struct actor *actor)
{
    int64_t out[2] = {(int64_t)prng_below(&actor->prng, 1000), 0}, in[2] = {-1, -1};
    out[1] = ~out[0];
    weft_chan *to = stage.channels[prng_below(&actor->prng, CHANNELS)];
    weft_chan *from = stage.channels[prng_below(&actor->prng, CHANNELS)];
    weft_case cases[] = {{.chan = to, .op = WEFT_SEND, .element = out},
                         {.chan = from, .op = WEFT_RECEIVE, .element = in}};
    int chosen = weft_select_until(cases, 2, weft_after(200 * WEFT_US));
    if (chosen == 0) {
        actor->sent++;
        actor->sent_sum += out[0];
    } else if (chosen == 1) {
        CHECK_EQ(in[1], ~in[0]);
        actor->received++;
        actor->received_sum += in[0];
    } else {
        CHECK_EQ(chosen, -ETIMEDOUT);
    }
}

static void send_or_receive(struct actor *actor)
{
    int64_t element[2] = {(int64_t)prng_below(&actor->prng, 1000), 0};
    element[1] = ~element[0];
    weft_chan *chan = stage.channels[prng_below(&actor->prng, CHANNELS)];
    bool sends = prng_below(&actor->prng, 2);
    int64_t until = weft_after(prng_below(&actor->prng, 300) * WEFT_US);
    int error = sends ? weft_chan_send_until(chan, element, until)
                      : weft_chan_receive_until(chan, element, until);
    if (error != 0) {
        CHECK_EQ(error, -ETIMEDOUT);
        return;
    }
    CHECK_EQ(element[1], ~element[0]);
    *(sends ? &actor->sent : &actor->received) += 1;
    *(sends ? &actor->sent_sum : &actor->received_sum) += element[0];
}

static void act(void *arg)
{
    struct actor *actor = arg;
    int64_t value = 1 + prng_below(&actor->prng, 9);
    switch (prng_below(&actor->prng, 7)) {
    case 0:
        weft_yield();
        break;
    case 1:
        CHECK_EQ(weft_sleep((int64_t)prng_below(&actor->prng, 100) * WEFT_US), 0);
        break;
    case 2:
        exchange(actor);
        break;
    case 3:
    case 4:
        send_or_receive(actor);
        break;
    case 5:
        CHECK_EQ(weft_pool_submit_with(stage.pool, run_task, &value,
                                       &(weft_submit_options){.copy = sizeof value}),
                 0);
        actor->tasks += value;
        break;
    case 6:
        weft_mutex_lock(&stage.mutex);
        stage.turns++;
        if (prng_below(&actor->prng, 4) == 0)
            weft_yield();
        weft_mutex_unlock(&stage.mutex);
        if (stage.blocks && prng_below(&actor->prng, 8) == 0) {
            weft_blocking_enter();
            usleep(50);
            weft_blocking_exit();
        }
        break;
    }
}

static void play(void *arg)
{
    struct actor *actor = arg;
    for (int i = 0; i < actor->turns; i++)
        compact_below((int)prng_below(&actor->prng, prng_below(&actor->prng, 30) == 0 ? 100 : 12),
                      (unsigned char)actor->number, act, actor);
    weft_mutex_lock(&stage.mutex);
    stage.sent += actor->sent;
    stage.received += actor->received;
    stage.sent_sum += actor->sent_sum;
    stage.received_sum += actor->received_sum;
    stage.tasks += actor->tasks;
    weft_mutex_unlock(&stage.mutex);
    weft_wg_done(&stage.done);
}

static void drain(void)
{
    int64_t element[2];
    for (int i = 0; i < CHANNELS; i++) {
        while (weft_chan_try_receive(stage.channels[i], element) == 0) {
            stage.received++;
            stage.received_sum += element[0];
        }
        weft_chan_destroy(stage.channels[i]);
    }
}

static void perform(int count, int turns, uint64_t seed, bool blocks)
{
    stage = (struct stage){.blocks = blocks};
    for (int i = 0; i < CHANNELS; i++)
        CHECK_EQ(weft_chan_make(&stage.channels[i], 2 * sizeof(int64_t), (size_t)i), 0);
    CHECK_EQ(weft_pool_open(&stage.pool, &(weft_pool_options){.capacity = 5, .compact = 1}), 0);
    CHECK_EQ(weft_wg_init(&stage.done, count), 0);
    for (int i = 0; i < count; i++) {
        actors[i] = (struct actor){.number = i, .turns = turns};
        prng_seed(&actors[i].prng, seed + (uint64_t)i);
        CHECK_EQ(weft_spawn(NULL, play, &actors[i], &(weft_spawn_options){.compact = i % 3 != 0}),
                 0);
    }
    CHECK_EQ(weft_wg_wait(&stage.done), 0);
    CHECK_EQ(weft_pool_close(stage.pool), 0);
    drain();
    CHECK_EQ(stage.sent, stage.received);
    CHECK_EQ(stage.sent_sum, stage.received_sum);
    CHECK_EQ(stage.tasks, stage.ran);
}

static void perform_on_processors(void *arg)
{
    perform(ACTORS, (int)test_scale(400), 1, true);
}

static void under_seeds(void)
{
    uint64_t seed = 0;
    CHECK_EQ(weft_test_seed(&seed), 0);
    perform(20, 20, seed, false);
}

int main(void)
{
    RUN_PLAIN_ON(perform_on_processors, 2, "stops or configures the runtime");
    RUN_PLAIN_ON(perform_on_processors, 8, "stops or configures the runtime");
    RUN_SEEDS(under_seeds);
    return 0;
}
