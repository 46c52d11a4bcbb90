/*
 * chan_stress.c: channels and select under stress: fibers and threads send, receive and select,
 * while deadlines pass, contexts are cancelled (cancelling.h) and channels are closed.
 *
 * An element whose send returned 0 is received once; one whose send returned an error, never. A
 * lost wake-up shows as the test's timeout.
 */
#include <stddef.h>

#include "base/compiler.h"
#include "cancelling.h"
#include "lines.h"
#include "system.h"

/* A deadline a little before or after an event that happens about now. */
static int64_t tiny_deadline(struct prng *prng)
{
    return weft_now() + prng_below(prng, 3000) - 1000;
}

/* Every worker against every other one. */

enum {
    CHANS = 3,
    SENDERS = 3,
    TRADERS = 2,     /* they send or receive, whichever is possible first; the rest receive */
    NUMBERS = 100,   /* elements that each worker may send */
    CASES_MOST = 20, /* more than select has room for on the stack */
};

struct element_of {
    uint32_t worker, number;
    uint64_t check; /* computed from the others, so that half an element would show */
};

struct actor {
    uint32_t number;
    bool closed[CHANS];            /* as it has learned */
    uint32_t last[CHANS][WORKERS]; /* the number last received, by channel and sender, plus 1 */
};

static struct {
    weft_chan *chans[CHANS];
    uint32_t numbers,
        close_at; /* elements of each worker; the number in all after which the channels close */
    struct actor actors[WORKERS];
    atomic_u32 sent[WORKERS][NUMBERS], received[WORKERS][NUMBERS]; /* how often */
    atomic_u32 senders_left, closes, sends;
} world;

static uint64_t check_of(uint32_t worker, uint32_t number)
{
    return ((uint64_t)worker << 32 | number) * 0x9e3779b97f4a7c15u;
}

static struct actor *actor_of(const struct worker *worker)
{
    return &world.actors[worker->index];
}

static bool all_closed(const struct actor *actor)
{
    for (int i = 0; i < CHANS; i++)
        if (!actor->closed[i])
            return false;
    return true;
}

static int chan_any(struct worker *worker)
{
    int chan;
    do
        chan = (int)prng_below(&worker->prng, CHANS);
    while (actor_of(worker)->closed[chan]);
    return chan;
}

/* The channel on which a receiver may wait without a deadline, so that each channel has a receiver
 * that comes back to it. */
static int chan_home(const struct worker *worker)
{
    return (int)(worker->index % CHANS);
}

static void close_all(void)
{
    for (int i = 0; i < CHANS; i++) {
        int result = weft_chan_close(world.chans[i]);
        CHECK(result == 0 || result == -ESHUTDOWN);
        if (result == 0)
            atomic_u32_add_relaxed(&world.closes, 1);
    }
}

static struct element_of next_element(struct worker *worker)
{
    uint32_t number = actor_of(worker)->number++;
    return (struct element_of){worker->index, number, check_of(worker->index, number)};
}

static void note_sent(const struct element_of *element)
{
    atomic_u32_add_relaxed(&world.sent[element->worker][element->number], 1);
    if (atomic_u32_add_relaxed(&world.sends, 1) == world.close_at)
        close_all();
}

static void note_received(struct worker *worker, int chan, const struct element_of *element)
{
    CHECK(element->worker < WORKERS && element->number < world.numbers);
    CHECK_EQ(element->check, check_of(element->worker, element->number));
    uint32_t *last = &actor_of(worker)->last[chan][element->worker];
    CHECK(element->number >= *last); /* in the order in which they were sent */
    *last = element->number + 1;
    atomic_u32_add_relaxed(&world.received[element->worker][element->number], 1);
}

/* What an operation that was not done returned: 0 if no deadline and no context ended it. */
static int note_failed(struct worker *worker, int chan, int result)
{
    CHECK(result == -ESHUTDOWN || result == -ETIMEDOUT || result == -EAGAIN ||
          result == -ECANCELED);
    if (result == -ESHUTDOWN)
        actor_of(worker)->closed[chan] = true;
    return result == -ESHUTDOWN || result == -EAGAIN ? 0 : result;
}

/* Sends or receives on several channels at once; op 0 is either. */
static int act_by_select(struct worker *worker, int op, int64_t deadline)
{
    weft_case cases[CASES_MOST];
    int chans[CASES_MOST];
    int count = 1 + (int)prng_below(&worker->prng, chance(worker, 4) ? CASES_MOST : 4);
    struct element_of out = {0}, in = {.worker = UINT32_MAX};
    if (op != WEFT_RECEIVE)
        out = next_element(worker);
    for (int i = 0; i < count; i++) {
        chans[i] = chan_any(worker);
        bool sends = op == WEFT_SEND || (op == 0 && chance(worker, 2));
        cases[i] = (weft_case){world.chans[chans[i]], sends ? WEFT_SEND : WEFT_RECEIVE, 1,
                               sends ? &out : &in};
    }
    bool may_wait = op == WEFT_SEND;
    if (op == WEFT_RECEIVE && !actor_of(worker)->closed[chan_home(worker)]) {
        chans[0] = chan_home(worker);
        cases[0].chan = world.chans[chans[0]];
        may_wait = true;
    }
    if (deadline == WEFT_NEVER && !may_wait)
        deadline = WEFT_NOW;
    int chosen = deadline == WEFT_NEVER && chance(worker, 4) ? weft_select(cases, count)
                 : deadline <= WEFT_NOW                      ? weft_select_try(cases, count)
                                        : weft_select_until(cases, count, deadline);
    for (int i = 0; i < count; i++)
        CHECK(i == chosen || cases[i].result == 1);
    CHECK(in.worker == UINT32_MAX || (chosen >= 0 && cases[chosen].op == WEFT_RECEIVE));
    if (chosen < 0)
        return note_failed(worker, 0, chosen);
    if (cases[chosen].result != 0)
        return note_failed(worker, chans[chosen], cases[chosen].result);
    if (cases[chosen].op == WEFT_SEND)
        note_sent(&out);
    else
        note_received(worker, chans[chosen], &in);
    return 0;
}

static int send_one(struct worker *worker, int64_t deadline)
{
    uint32_t way = prng_below(&worker->prng, 6);
    if (way >= 4)
        return act_by_select(worker, WEFT_SEND, deadline);
    int chan = chan_any(worker);
    struct element_of element = next_element(worker);
    int result = way == 0 ? weft_chan_try_send(world.chans[chan], &element)
                 : way == 1 && deadline == WEFT_NEVER
                     ? weft_chan_send(world.chans[chan], &element)
                     : weft_chan_send_until(world.chans[chan], &element, deadline);
    if (result != 0)
        return note_failed(worker, chan, result);
    note_sent(&element);
    return 0;
}

static int trade_one(struct worker *worker, int64_t deadline)
{
    return act_by_select(worker, 0, deadline);
}

static int receive_one(struct worker *worker, int64_t deadline)
{
    uint32_t way = prng_below(&worker->prng, 6);
    if (way >= 4)
        return act_by_select(worker, WEFT_RECEIVE, deadline);
    int home = chan_home(worker);
    bool at_home = deadline == WEFT_NEVER && !actor_of(worker)->closed[home];
    int chan = at_home ? home : chan_any(worker);
    struct element_of element = {.worker = UINT32_MAX};
    if (deadline == WEFT_NEVER && !at_home)
        way = 0;
    int result = way == 0 ? weft_chan_try_receive(world.chans[chan], &element)
                 : way == 1 && at_home
                     ? weft_chan_receive(world.chans[chan], &element)
                     : weft_chan_receive_until(world.chans[chan], &element, deadline);
    if (result != 0) {
        CHECK_EQ(element.worker, UINT32_MAX);
        return note_failed(worker, chan, result);
    }
    note_received(worker, chan, &element);
    return 0;
}

static void act(struct worker *worker)
{
    const struct actor *actor = actor_of(worker);
    if (worker->index >= SENDERS + TRADERS) {
        while (!all_closed(actor))
            (void)wait_bound(worker, receive_one);
        return;
    }
    while (actor->number < world.numbers && !all_closed(actor)) {
        (void)wait_bound(worker, worker->index < SENDERS ? send_one : trade_one);
        if (chance(worker, 8))
            weft_yield();
    }
    if (atomic_u32_sub_acq_rel(&world.senders_left, 1) == 1)
        close_all();
}

static void world_run(bool contexts, bool close_early)
{
    static const size_t capacities[CHANS] = {0, 1, 7};
    memset(&world, 0, sizeof world);
    world.numbers = test_seeded ? 8 : NUMBERS;
    world.close_at = UINT32_MAX;
    if (close_early)
        world.close_at = (uint32_t)weft_now() % (SENDERS * world.numbers);
    for (int i = 0; i < CHANS; i++)
        world.chans[i] = make_chan(sizeof(struct element_of), capacities[i]);
    atomic_u32_store_relaxed(&world.senders_left, SENDERS + TRADERS);
    run(NULL, contexts, act, 0);
    CHECK_EQ(atomic_u32_load_relaxed(&world.closes), CHANS); /* each of them once */
    for (int i = 0; i < WORKERS; i++)
        for (uint32_t n = 0; n < world.numbers; n++) {
            uint32_t sent = atomic_u32_load_relaxed(&world.sent[i][n]);
            CHECK(sent <= 1);
            CHECK_EQ(atomic_u32_load_relaxed(&world.received[i][n]), sent);
        }
    for (int i = 0; i < CHANS; i++) {
        CHECK_EQ(weft_chan_length(world.chans[i]), 0);
        weft_chan_destroy(world.chans[i]); /* aborts if a waiter is left */
    }
}

static void exactly_once(void)
{
    for (int64_t round = test_scale(20); round > 0; round--)
        for (int way = 0; way < 4; way++)
            world_run(way & 1, way & 2);
}

/* A repeated run leaks nothing. The runtime keeps memory in blocks, and libc keeps some of its
 * threads, so the memory may grow now and then, but not each time. */
static void nothing_is_leaked(void)
{
    size_t least = SIZE_MAX;
    for (int again = 0; again < 5; again++) {
        size_t before = heap_in_use();
        exactly_once();
        size_t after = heap_in_use(), grown = after > before ? after - before : 0;
        least = grown < least ? grown : least;
    }
    if (!WEFT_ASAN && !WEFT_TSAN) /* these have their own allocators, and find leaks themselves */
        CHECK(least < 8 * 1024);
}

/* A deadline and the event that it is for, at the same moment: one of them wins, completely. */

static struct {
    weft_chan *chan;
    int sent, received;
} moment;

static void sleep_and_send(void *arg)
{
    uint64_t element = 1;
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    moment.sent += weft_chan_send_until(moment.chan, &element, weft_after(WEFT_MS)) == 0;
}

static void a_deadline_meets_its_event(void)
{
    for (size_t capacity = 0; capacity < 2; capacity++) {
        uint64_t element;
        weft_fiber *fiber;
        moment.chan = make_chan(8, capacity);
        moment.sent = moment.received = 0;
        for (int i = 0; i < 8; i++) {
            CHECK_EQ(weft_spawn(&fiber, sleep_and_send, NULL, NULL), 0);
            int error = weft_chan_receive_until(moment.chan, &element, weft_after(WEFT_MS));
            CHECK(error == 0 || error == -ETIMEDOUT);
            moment.received += error == 0;
            CHECK_EQ(weft_join(fiber), 0);
            while (weft_chan_try_receive(moment.chan, &element) == 0)
                moment.received++;
            CHECK_EQ(moment.sent, moment.received);
        }
        weft_chan_destroy(moment.chan);
    }
}

/* A sender and a receiver, both with deadlines about the moment when they meet: either both calls
 * return that they met, or none does. */

struct pair {
    weft_chan *chan;
    int64_t rounds;
    uint64_t seed;
    bool selects;
    atomic_u32 over;
    uint64_t sent, sent_sum, received, received_sum; /* each written by one side */
};

static int pair_select(struct pair *pair, int op, uint64_t *element, int64_t deadline)
{
    weft_case cases[2] = {{pair->chan, op, 1, element}, {pair->chan, op, 1, element}};
    int chosen = weft_select_until(cases, 2, deadline);
    return chosen < 0 ? chosen : cases[chosen].result;
}

static void pair_send(void *arg)
{
    struct pair *pair = arg;
    struct prng prng;
    prng_seed(&prng, pair->seed);
    for (int64_t round = 1; round <= pair->rounds; round++) {
        uint64_t element = (uint64_t)round;
        int64_t deadline = tiny_deadline(&prng);
        int result = pair->selects && round % 2
                         ? pair_select(pair, WEFT_SEND, &element, deadline)
                         : weft_chan_send_until(pair->chan, &element, deadline);
        CHECK(result == 0 || result == -ETIMEDOUT);
        if (result == 0) {
            pair->sent++;
            pair->sent_sum += element;
        }
    }
    atomic_u32_store_release(&pair->over, 1);
}

static void pair_receive(void *arg)
{
    struct pair *pair = arg;
    struct prng prng;
    prng_seed(&prng, ~pair->seed);
    for (int64_t round = 0; !atomic_u32_load_acquire(&pair->over); round++) {
        uint64_t element = 0;
        int64_t deadline = tiny_deadline(&prng);
        int result = pair->selects && round % 3
                         ? pair_select(pair, WEFT_RECEIVE, &element, deadline)
                         : weft_chan_receive_until(pair->chan, &element, deadline);
        CHECK(result == 0 ? element != 0 : result == -ETIMEDOUT && element == 0);
        pair->received += result == 0;
        pair->received_sum += element;
    }
}

static void both_or_none(void)
{
    uint64_t met = 0, tried = 0;
    for (int mix = 0; mix < 8; mix++) {
        struct pair pair = {.chan = make_chan(8, 0),
                            .rounds = test_scale(4000),
                            .seed = (uint64_t)mix,
                            .selects = mix & 4};
        struct body bodies[2] = {
            {.function = pair_send, .arg = &pair, .thread = mix & 1},
            {.function = pair_receive, .arg = &pair, .thread = mix & 2},
        };
        bodies_run(bodies, 2);
        CHECK_EQ(pair.sent, pair.received);
        CHECK_EQ(pair.sent_sum, pair.received_sum);
        met += pair.sent;
        tried += (uint64_t)pair.rounds;
        weft_chan_destroy(pair.chan);
    }
    printf("  met in %llu of %llu\n", (unsigned long long)met, (unsigned long long)tried);
}

/* Two senders find the same select waiting at the same time, each on its own channel: one of them
 * gets it. */

struct duel {
    weft_chan *chans[2];
    uint32_t rounds;
    atomic_u32 round, arrived, successes, done;
};

static void send_each_round(struct duel *duel, weft_chan *chan)
{
    for (uint32_t round = 1; round <= duel->rounds; round++) {
        for (int times = 0; atomic_u32_load_acquire(&duel->round) < round;)
            wait_a_little(&times);
        atomic_u32_add_seq_cst(&duel->arrived, 1);
        for (int spins = 0; atomic_u32_load_acquire(&duel->arrived) < 2 * round; spins++)
            if (spins > 1000) /* the other has no CPU */
                weft_yield();
        int result = weft_chan_try_send(chan, NULL);
        CHECK(result == 0 || result == -EAGAIN);
        atomic_u32_add_seq_cst(&duel->successes, result == 0);
        atomic_u32_add_seq_cst(&duel->done, 1);
    }
}

static void send_to_first(void *arg)
{
    struct duel *duel = arg;
    send_each_round(duel, duel->chans[0]);
}

static void send_to_second(void *arg)
{
    struct duel *duel = arg;
    send_each_round(duel, duel->chans[1]);
}

static void select_either(void *arg)
{
    struct duel *duel = arg;
    weft_case cases[2] = {{duel->chans[0], WEFT_RECEIVE, 1, NULL},
                          {duel->chans[1], WEFT_RECEIVE, 1, NULL}};
    int chosen = weft_select(cases, 2);
    CHECK(chosen >= 0 && cases[chosen].result == 0 && cases[1 - chosen].result == 1);
}

static void one_of_two_wins(void)
{
    struct duel duel = {.chans = {make_chan(0, 0), make_chan(0, 0)},
                        .rounds = (uint32_t)test_scale(3000)};
    struct body senders[2] = {{.function = send_to_first, .arg = &duel, .thread = true},
                              {.function = send_to_second, .arg = &duel, .thread = true}};
    for (int i = 0; i < 2; i++)
        body_start(&senders[i]);
    for (uint32_t round = 1; round <= duel.rounds; round++) {
        struct body body = {.function = select_either, .arg = &duel};
        body_start(&body);
        await_line(duel.chans[0], WEFT_RECEIVE, 1);
        atomic_u32_store_release(&duel.round, round);
        for (int times = 0; atomic_u32_load_acquire(&duel.done) < 2 * round;)
            wait_a_little(&times);
        CHECK_EQ(atomic_u32_load_acquire(&duel.successes), round);
        body_join(&body);
    }
    for (int i = 0; i < 2; i++) {
        body_join(&senders[i]);
        weft_chan_destroy(duel.chans[i]);
    }
}

static void scenes(void)
{
    RUN(exactly_once);
    RUN(nothing_is_leaked);
}

int main(void)
{
    run_with_processors(scenes);
    RUN_SEEDS_MANY(exactly_once);
    RUN_SEEDS(nothing_is_leaked);
    RUN_SEEDS_MANY(a_deadline_meets_its_event);
    RUN_BOTH(both_or_none);
    RUN_BOTH(one_of_two_wins);
    return 0;
}
