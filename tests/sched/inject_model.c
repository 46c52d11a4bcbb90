/*
 * inject_model.c: the inject queue (sched/core/inject.c): any thread pushes and takes chains of
 * fibers.
 *
 * What must hold: each fiber is taken once, in the order of the queue; the published length is the
 * length of the queue while no thread changes it, and a thread that has pushed sees its own fibers
 * in it. The same if some fibers were woken, which are in a list of their own.
 */
#include "sched/core/inject.h"

#include "explore.h"

enum { FIBERS = 4 };

static struct weft_fiber fibers[FIBERS];
static int taken[FIBERS];
static int last_of[2] = {-1, -1}; /* of each pusher: the last fiber that was taken */
static bool wakes[2];             /* of each pusher: whether its fibers were woken */

static void take(uint32_t most)
{
    struct chain chain = weft__inject_take_any(most);
    uint32_t count = 0;
    for (struct weft_fiber *fiber; (fiber = chain_take(&chain)) != NULL; count++) {
        int index = (int)(fiber - fibers);
        taken[index]++;
        MODEL_CHECK(index > last_of[index / 2]);
        last_of[index / 2] = index;
    }
    MODEL_CHECK(count <= most);
}

static void push(struct weft_fiber *fiber)
{
    struct chain chain = {NULL, NULL, 0};
    chain_add(&chain, fiber);
    if (wakes[(fiber - fibers) / 2])
        weft__inject_push_woken_any(chain);
    else
        weft__inject_push_any(chain);
}

static void run_pusher(void *arg)
{
    struct weft_fiber *first = arg;
    push(first);
    push(first + 1);
}

static void run_thief(void *arg)
{
    uint32_t most = *(uint32_t *)arg;
    if (weft__inject_length() > 0)
        take(most);
    take(most);
}

static void set_up(void)
{
    static uint32_t mosts[] = {1, 3};
    model_thread("pusher 1", run_pusher, &fibers[0], true);
    model_thread("pusher 2", run_pusher, &fibers[2], true);
    model_thread("thief 1", run_thief, &mosts[0], true);
    model_thread("thief 2", run_thief, &mosts[1], true);
}

static void set_up_woken(void)
{
    wakes[1] = true;
    set_up();
}

static void nothing_is_lost(void)
{
    uint32_t left = 0;
    for (int i = 0; i < FIBERS; i++)
        left += !taken[i];
    MODEL_CHECK(weft__inject_length() == left);
    take(FIBERS);
    MODEL_CHECK(weft__inject_length() == 0);
    for (int i = 0; i < FIBERS; i++)
        MODEL_CHECK(taken[i] == 1);
}

static const struct scenario scenarios[] = {
    {"two push, two take", set_up, nothing_is_lost, 3, 1, 0},
    {"two push, one of them woken fibers, two take", set_up_woken, nothing_is_lost, 3, 1, 0},
};

MODEL_MAIN(scenarios)
