/*
 * chan.c: exactly once, whatever races: many who send, receive and select, fibers and threads, with
 * deadlines that pass just then and channels that are closed meanwhile.
 *
 * An element whose send said 0 is received once; one whose send said anything else, never. A wake-up
 * that is lost shows as the test's timeout.
 */
#include <stddef.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "seeds.h"
#include "sync/lines.h"
#include "system.h"

/* A deadline that lies a little before or after an event that is about now. */
static int64_t tiny_deadline(struct prng *prng)
{
    return weft_now() + prng_below(prng, 3000) - 1000;
}

/* Everybody against everybody. */

enum {
    CHANS = 3,
    SENDERS = 6,
    TRADERS = 2, /* they send or receive, whatever goes first */
    RECEIVERS = 6,
    ACTORS = SENDERS + TRADERS + RECEIVERS,
    CASES_MOST = 20, /* more than select has room for on the stack */
};

struct element_of {
    uint32_t actor, number;
    uint64_t check; /* of the two, so that half an element would show */
};

static struct {
    weft_chan *chans[CHANS];
    uint32_t numbers; /* elements that each may send */
    uint64_t seed;
    bool close_early;
    atomic_u32 *sent, *received; /* how often, by actor and number */
    atomic_u32 senders_left, closes;
    atomic_u64 sends, failures, receives;
} world;

static uint64_t check_of(uint32_t actor, uint32_t number)
{
    return ((uint64_t)actor << 32 | number) * 0x9e3779b97f4a7c15u;
}

/* One of them. */
struct actor {
    uint32_t self, number;
    struct prng prng;
    bool closed[CHANS];           /* as it was told */
    uint32_t last[CHANS][ACTORS]; /* the number last received, by channel and sender, plus 1 */
};

static bool all_closed(const struct actor *actor)
{
    for (int i = 0; i < CHANS; i++)
        if (!actor->closed[i])
            return false;
    return true;
}

static int chan_any(struct actor *actor)
{
    int chan;
    do
        chan = (int)prng_below(&actor->prng, CHANS);
    while (actor->closed[chan]);
    return chan;
}

/* Where it may wait without a deadline: so that each channel has somebody who comes back to it. */
static int chan_home(const struct actor *actor)
{
    return (int)(actor->self % CHANS);
}

static struct element_of next_element(struct actor *actor)
{
    uint32_t number = actor->number++;
    return (struct element_of){actor->self, number, check_of(actor->self, number)};
}

static void note_sent(const struct element_of *element)
{
    atomic_u32_add_relaxed(&world.sent[element->actor * world.numbers + element->number], 1);
    atomic_u64_add_relaxed(&world.sends, 1);
}

static void note_received(struct actor *actor, int chan, const struct element_of *element)
{
    CHECK(element->actor < ACTORS && element->number < world.numbers);
    CHECK_EQ(element->check, check_of(element->actor, element->number));
    uint32_t *last = &actor->last[chan][element->actor];
    CHECK(element->number >= *last); /* in the order in which they were sent */
    *last = element->number + 1;
    atomic_u32_add_relaxed(&world.received[element->actor * world.numbers + element->number], 1);
    atomic_u64_add_relaxed(&world.receives, 1);
}

static void note_failed(struct actor *actor, int chan, int result)
{
    atomic_u64_add_relaxed(&world.failures, 1);
    CHECK(result == -ESHUTDOWN || result == -ETIMEDOUT || result == -EAGAIN);
    if (result == -ESHUTDOWN)
        actor->closed[chan] = true;
}

static int select_somehow(struct actor *actor, weft_case *cases, int count, bool may_wait)
{
    switch (prng_below(&actor->prng, may_wait ? 4 : 3)) {
    case 0:
        return weft_select_try(cases, count);
    case 1:
    case 2:
        return weft_select_until(cases, count, tiny_deadline(&actor->prng));
    default:
        return weft_select(cases, count);
    }
}

/* Sends or receives on several channels at once; op 0 is either. */
static void act_by_select(struct actor *actor, int op)
{
    weft_case cases[CASES_MOST];
    int chans[CASES_MOST];
    bool large = prng_below(&actor->prng, 4) == 0;
    int count = 1 + (int)prng_below(&actor->prng, large ? CASES_MOST : 4);
    struct element_of out = {0}, in = {.actor = UINT32_MAX};
    if (op != WEFT_RECEIVE)
        out = next_element(actor);
    for (int i = 0; i < count; i++) {
        chans[i] = chan_any(actor);
        bool sends = op == WEFT_SEND || (op == 0 && prng_below(&actor->prng, 2) == 0);
        cases[i] = (weft_case){world.chans[chans[i]], sends ? WEFT_SEND : WEFT_RECEIVE, 1,
                               sends ? &out : &in};
    }
    bool may_wait = op == WEFT_SEND;
    if (op == WEFT_RECEIVE && !actor->closed[chan_home(actor)]) {
        chans[0] = chan_home(actor);
        cases[0].chan = world.chans[chans[0]];
        may_wait = true;
    }
    int chosen = select_somehow(actor, cases, count, may_wait);
    if (chosen < 0) {
        CHECK(chosen == -EAGAIN || chosen == -ETIMEDOUT);
        atomic_u64_add_relaxed(&world.failures, 1);
    } else if (cases[chosen].result != 0) {
        note_failed(actor, chans[chosen], cases[chosen].result);
    } else if (cases[chosen].op == WEFT_SEND) {
        note_sent(&out);
    } else {
        note_received(actor, chans[chosen], &in);
    }
    for (int i = 0; i < count; i++)
        CHECK(i == chosen || cases[i].result == 1);
    CHECK(in.actor == UINT32_MAX || (chosen >= 0 && cases[chosen].op == WEFT_RECEIVE));
}

static void send_one(struct actor *actor)
{
    uint32_t way = prng_below(&actor->prng, 6);
    if (way >= 4) {
        act_by_select(actor, WEFT_SEND);
        return;
    }
    int chan = chan_any(actor);
    struct element_of element = next_element(actor);
    int result =
        way == 0   ? weft_chan_try_send(world.chans[chan], &element)
        : way == 1 ? weft_chan_send(world.chans[chan], &element)
                   : weft_chan_send_until(world.chans[chan], &element, tiny_deadline(&actor->prng));
    if (result == 0)
        note_sent(&element);
    else
        note_failed(actor, chan, result);
}

static void receive_one(struct actor *actor)
{
    uint32_t way = prng_below(&actor->prng, 6);
    if (way >= 4) {
        act_by_select(actor, WEFT_RECEIVE);
        return;
    }
    int chan = way == 1 && !actor->closed[chan_home(actor)] ? chan_home(actor) : chan_any(actor);
    struct element_of element = {.actor = UINT32_MAX};
    int result =
        way == 0 ? weft_chan_try_receive(world.chans[chan], &element)
        : way == 1 && chan == chan_home(actor)
            ? weft_chan_receive(world.chans[chan], &element)
            : weft_chan_receive_until(world.chans[chan], &element, tiny_deadline(&actor->prng));
    if (result == 0) {
        note_received(actor, chan, &element);
    } else {
        note_failed(actor, chan, result);
        CHECK_EQ(element.actor, UINT32_MAX);
    }
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

static void act(void *arg)
{
    struct actor actor = {.self = (uint32_t)(uintptr_t)arg};
    prng_seed(&actor.prng, world.seed + actor.self);
    if (actor.self >= SENDERS + TRADERS) {
        while (!all_closed(&actor))
            receive_one(&actor);
        return;
    }
    while (actor.number < world.numbers && !all_closed(&actor)) {
        if (actor.self < SENDERS)
            send_one(&actor);
        else
            act_by_select(&actor, 0);
        if (prng_below(&actor.prng, 8) == 0)
            weft_yield();
    }
    if (atomic_u32_sub_acq_rel(&world.senders_left, 1) == 1)
        close_all();
}

static void close_early(void *arg)
{
    (void)arg;
    struct prng prng;
    prng_seed(&prng, world.seed + ACTORS);
    uint64_t until = prng_below(&prng, SENDERS * world.numbers);
    while (atomic_u64_load_relaxed(&world.sends) < until &&
           atomic_u32_load_relaxed(&world.senders_left) > 0)
        weft_yield();
    close_all();
}

static void world_make(uint64_t seed)
{
    static const size_t capacities[CHANS] = {0, 1, 7};
    size_t bytes = (size_t)ACTORS * world.numbers * sizeof *world.sent;
    world.seed = seed;
    world.close_early = seed % 2;
    for (int i = 0; i < CHANS; i++)
        world.chans[i] = make_chan(sizeof(struct element_of), capacities[i]);
    memset(world.sent, 0, bytes);
    memset(world.received, 0, bytes);
    atomic_u32_store_relaxed(&world.senders_left, SENDERS + TRADERS);
    atomic_u32_store_relaxed(&world.closes, 0);
    atomic_u64_store_relaxed(&world.sends, 0);
}

static void world_check(void)
{
    CHECK_EQ(atomic_u32_load_relaxed(&world.closes), CHANS); /* each of them once */
    for (uint32_t i = 0; i < ACTORS * world.numbers; i++) {
        uint32_t sent = atomic_u32_load_relaxed(&world.sent[i]);
        CHECK(sent <= 1);
        CHECK_EQ(atomic_u32_load_relaxed(&world.received[i]), sent);
    }
    for (int i = 0; i < CHANS; i++) {
        CHECK_EQ(weft_chan_length(world.chans[i]), 0);
        weft_chan_destroy(world.chans[i]); /* dies if anybody is left in a line */
    }
}

static void world_run(void *arg)
{
    uint64_t seed = *(uint64_t *)arg;
    for (int64_t round = test_scale(20); round > 0; round--) {
        struct body bodies[ACTORS + 1];
        int count = 0;
        world_make(seed * 1000 + (uint64_t)round);
        for (uintptr_t i = 0; i < ACTORS; i++)
            bodies[count++] =
                (struct body){.function = act, .arg = (void *)i, .thread = i % 3 == 1};
        if (world.close_early)
            bodies[count++] = (struct body){.function = close_early, .thread = round % 4 < 2};
        bodies_run(bodies, count);
        world_check();
    }
}

static void worlds_run(uint64_t seed)
{
    atomic_u64_store_relaxed(&world.receives, 0);
    atomic_u64_store_relaxed(&world.failures, 0);
    for (int processors = 1; processors <= 5; processors++) {
        seed++;
        with_processors(processors, world_run, &seed);
    }
    printf("  received %llu, operations that failed %llu\n",
           (unsigned long long)atomic_u64_load_relaxed(&world.receives),
           (unsigned long long)atomic_u64_load_relaxed(&world.failures));
}

static void exactly_once(void)
{
    size_t each = sizeof *world.sent;
    world.numbers = 100;
    world.sent = calloc((size_t)ACTORS * world.numbers, each);
    world.received = calloc((size_t)ACTORS * world.numbers, each);
    CHECK(world.sent != NULL && world.received != NULL);
    worlds_run(1);

    /* The same once more leaves nothing behind. What libc keeps of threads may differ a little. */
    size_t before = heap_in_use();
    worlds_run(100);
    size_t after = heap_in_use();
    printf("  memory in use: %zu before, %zu after\n", before, after);
    if (!WEFT_ASAN && !WEFT_TSAN) /* they have allocators of their own, and look for leaks */
        CHECK(after < before + 64 * 1024);
    free(world.sent);
    free(world.received);
}

/* One pair, both with deadlines about the moment when they meet: either both say that it happened, or
 * none does. */

struct pair {
    weft_chan *chan;
    int64_t rounds;
    uint64_t seed;
    bool selects;
    atomic_u32 over;
    uint64_t sent, sent_sum, received, received_sum; /* each of one side */
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

/* Two who find the same select waiting, each on its own channel, at the same time: it goes to one. */

struct target {
    weft_chan *chans[2];
    uint32_t rounds;
    atomic_u32 round, arrived, hits, done;
};

static void hit(struct target *target, weft_chan *chan)
{
    for (uint32_t round = 1; round <= target->rounds; round++) {
        for (int times = 0; atomic_u32_load_acquire(&target->round) < round;)
            wait_a_little(&times);
        atomic_u32_add_seq_cst(&target->arrived, 1);
        for (int spins = 0; atomic_u32_load_acquire(&target->arrived) < 2 * round; spins++)
            if (spins > 1000) /* the other one has no CPU */
                weft_yield();
        int result = weft_chan_try_send(chan, NULL);
        CHECK(result == 0 || result == -EAGAIN);
        atomic_u32_add_seq_cst(&target->hits, result == 0);
        atomic_u32_add_seq_cst(&target->done, 1);
    }
}

static void hit_first(void *arg)
{
    struct target *target = arg;
    hit(target, target->chans[0]);
}

static void hit_second(void *arg)
{
    struct target *target = arg;
    hit(target, target->chans[1]);
}

static void be_hit(void *arg)
{
    struct target *target = arg;
    weft_case cases[2] = {{target->chans[0], WEFT_RECEIVE, 1, NULL},
                          {target->chans[1], WEFT_RECEIVE, 1, NULL}};
    int chosen = weft_select(cases, 2);
    CHECK(chosen >= 0 && cases[chosen].result == 0 && cases[1 - chosen].result == 1);
}

static void one_of_two_wins(void)
{
    struct target target = {.chans = {make_chan(0, 0), make_chan(0, 0)},
                            .rounds = (uint32_t)test_scale(3000)};
    struct body hitters[2] = {{.function = hit_first, .arg = &target, .thread = true},
                              {.function = hit_second, .arg = &target, .thread = true}};
    for (int i = 0; i < 2; i++)
        body_start(&hitters[i]);
    for (uint32_t round = 1; round <= target.rounds; round++) {
        struct body body = {.function = be_hit, .arg = &target};
        body_start(&body);
        await_line(target.chans[0], WEFT_RECEIVE, 1);
        atomic_u32_store_release(&target.round, round);
        for (int times = 0; atomic_u32_load_acquire(&target.done) < 2 * round;)
            wait_a_little(&times);
        CHECK_EQ(atomic_u32_load_acquire(&target.hits), round);
        body_join(&body);
    }
    for (int i = 0; i < 2; i++) {
        body_join(&hitters[i]);
        weft_chan_destroy(target.chans[i]);
    }
}

int main(void)
{
    RUN_BOTH(exactly_once);
    RUN_BOTH(both_or_none);
    RUN_BOTH(one_of_two_wins);
    return 0;
}
