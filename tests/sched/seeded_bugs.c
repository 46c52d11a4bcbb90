/*
 * seeded_bugs.c: test runs find common bugs, each by one of the first seeds.
 */
#include <weft/test.h>
#include <weft/weft.h>

#include "test.h"

enum { FIBERS = 5, SEEDS_TRIED = 64, FAR = 40 };

/* Each bug sets `found` when it happens. */
static struct {
    weft_mutex mutex;
    weft_chan *chan;
    int value;
    int *item;
    bool found;
} bug;

static void run_two(void (*function)(void *), void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_wg_go(&wg, function, arg), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
}

static void add_across_yield(void *arg)
{
    int value = bug.value;
    weft_yield();
    bug.value = value + 1;
}

static void lost_update(void *arg)
{
    bug.value = 0;
    run_two(add_across_yield, NULL);
    bug.found |= bug.value != 2;
}

/* Each of two steps is locked, both together are not; no step waits. */
static void take_if_there(void *arg)
{
    weft_mutex_lock(&bug.mutex);
    bool there = bug.value > 0;
    weft_mutex_unlock(&bug.mutex);
    if (!there)
        return;
    weft_mutex_lock(&bug.mutex);
    bug.value--;
    weft_mutex_unlock(&bug.mutex);
}

static void check_then_act(void *arg)
{
    bug.mutex = (weft_mutex)WEFT_MUTEX_INIT;
    bug.value = 1;
    run_two(take_if_there, NULL);
    bug.found |= bug.value < 0;
}

/* A sent element belongs to the receiver; the sender touches it afterwards. */
static void receive_item(void *arg)
{
    int *item;
    CHECK_EQ(weft_chan_receive(bug.chan, &item), 0);
    bug.item = NULL; /* the receiver has it */
}

static void use_after_send(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    int memory = 0, *item = &memory;
    CHECK_EQ(weft_chan_make(&bug.chan, sizeof item, 1), 0);
    bug.item = item;
    CHECK_EQ(weft_wg_go(&wg, receive_item, NULL), 0);
    CHECK_EQ(weft_chan_send(bug.chan, &item), 0);
    bug.found |= bug.item == NULL;
    CHECK_EQ(weft_wg_wait(&wg), 0);
    weft_chan_destroy(bug.chan);
}

/* Checks, then sends: another fiber may send in between. */
static void send_if_empty(void *arg)
{
    char letter = 'x';
    if (weft_chan_length(arg) == 0)
        CHECK_EQ(weft_chan_send(arg, &letter), 0);
}

static void one_at_most(void *arg)
{
    CHECK_EQ(weft_chan_make(&bug.chan, 1, 2), 0);
    run_two(send_if_empty, bug.chan);
    bug.found |= weft_chan_length(bug.chan) > 1;
    weft_chan_destroy(bug.chan);
}

/* One fiber has hardly begun when all others end. */
static int rounds[FIBERS], ended;

static void go_far(void *arg)
{
    int self = *(int *)arg;
    for (rounds[self] = 0; rounds[self] < FAR; rounds[self]++)
        weft_yield();
    if (++ended == FIBERS - 1)
        for (int i = 0; i < FIBERS; i++)
            bug.found |= rounds[i] < FAR / 4;
}

static void left_behind(void *arg)
{
    int numbers[FIBERS];
    weft_wg wg = WEFT_WG_INIT;
    ended = 0;
    for (int i = 0; i < FIBERS; i++) {
        numbers[i] = i;
        rounds[i] = 0;
        CHECK_EQ(weft_wg_go(&wg, go_far, &numbers[i]), 0);
    }
    CHECK_EQ(weft_wg_wait(&wg), 0);
}

static int seeds_until_found(void (*function)(void *))
{
    bug.found = false;
    for (int seed = 0; seed < SEEDS_TRIED; seed++) {
        CHECK_EQ(weft_test_run((uint64_t)seed, function, NULL), 0);
        if (bug.found)
            return seed + 1;
    }
    return 0;
}

static void finds_known_bugs(void)
{
    static void (*const bugs[])(void *) = {lost_update, check_then_act, use_after_send, one_at_most,
                                           left_behind};
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        int seeds = seeds_until_found(bugs[i]);
        printf("bug %zu: found by seed %d\n", i, seeds - 1);
        CHECK(seeds > 0);
    }
    bug.found = false;
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = 20, .chaos = 1}, check_then_act, NULL),
             0);
    CHECK(bug.found);
}

int main(void)
{
    unsetenv("WEFT_TEST_SEED");
    unsetenv("WEFT_TEST_SEEDS");
    RUN_PLAIN(finds_known_bugs, "makes its own runs");
    return 0;
}
