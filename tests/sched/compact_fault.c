/*
 * compact.c: compact fibers while memory, mappings and stacks are refused: each goes on when there is some again,
 * with its frames as it left them; nothing is lost, nothing is left.
 */
#include "compact.h"
#include "everywhere.h"
#include "failing.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/compact.h"
#include "stack/slab.h"

enum { FIBERS = 24, MESSAGES = 3 };

static struct {
    weft_chan *chan;
    weft_pool *pool;
    weft_sem sem;
    atomic_u32 sent, received, submitted, ran;
} shared;

static void count_task(void *arg)
{
    CHECK_EQ(*(const int64_t *)arg, 42);
    weft_yield();
    atomic_u32_add_seq_cst(&shared.ran, 1);
}

static void sends(void)
{
    for (int64_t i = 0; i < MESSAGES; i++) {
        int64_t element[2] = {i, ~i};
        CHECK_EQ(weft_chan_send(shared.chan, element), 0);
        atomic_u32_add_seq_cst(&shared.sent, 1);
    }
}

static void receives(void)
{
    for (int i = 0; i < MESSAGES; i++) {
        int64_t element[2];
        weft_case one = {.chan = shared.chan, .op = WEFT_RECEIVE, .element = element};
        int error;
        do
            error = weft_select(&one, 1);
        while (error == -ENOMEM && weft_sleep(WEFT_MS) == 0);
        CHECK_EQ(error, 0);
        CHECK_EQ(element[1], ~element[0]);
        atomic_u32_add_seq_cst(&shared.received, 1);
    }
}

static void submits(void)
{
    int64_t arg = 42;
    int error = weft_pool_submit_with(shared.pool, count_task, &arg,
                                      &(weft_submit_options){.copy = sizeof arg});
    CHECK(error == 0 || error == -ENOMEM);
    atomic_u32_add_seq_cst(&shared.submitted, error == 0);
}

static void act(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    weft_sem_acquire(&shared.sem, 1);
    weft_yield();
    weft_sem_release(&shared.sem, 1);
    if (number % 3 == 2)
        submits();
    else if (number % 3 == 1)
        sends();
    else
        receives();
}

static void live(void *arg)
{
    weft_yield();
    compact_below((int)((uintptr_t)arg * 5 % 40), (unsigned char)(uintptr_t)arg, act, arg);
}

static weft_fiber *fibers[FIBERS];

/* In threes, one of each: what is sent is received. */
static void run_all(void)
{
    for (uintptr_t i = 0; i < FIBERS; i++) {
        int error;
        do
            error = weft_spawn(&fibers[i], live, (void *)i, &(weft_spawn_options){.compact = 1});
        while (error != 0 && weft_sleep(WEFT_MS) == 0);
        CHECK_EQ(error, 0);
    }
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

/* The runtime is new each time, and has what it needs itself. */
static void begin(void)
{
    weft__os_fail(failing.call, 0, false);
    atomic_u32_store_relaxed(&shared.sent, 0);
    atomic_u32_store_relaxed(&shared.received, 0);
    atomic_u32_store_relaxed(&shared.submitted, 0);
    atomic_u32_store_relaxed(&shared.ran, 0);
    CHECK_EQ(weft_chan_make(&shared.chan, 2 * sizeof(int64_t), 1), 0);
    CHECK_EQ(weft_sem_init(&shared.sem, 2), 0);
    CHECK_EQ(weft_pool_open(&shared.pool, &(weft_pool_options){.capacity = 2, .compact = 1}), 0);
    weft__os_fail(failing.call, failing.nth, failing.persistent);
}

static void attempt(void)
{
    begin();
    failing_while(run_all);
    CHECK_EQ(atomic_u32_load_seq_cst(&shared.sent), FIBERS / 3 * MESSAGES);
    CHECK_EQ(atomic_u32_load_seq_cst(&shared.received), FIBERS / 3 * MESSAGES);
    CHECK_EQ(weft_pool_close(shared.pool), 0);
    CHECK_EQ(atomic_u32_load_seq_cst(&shared.ran), atomic_u32_load_seq_cst(&shared.submitted));
    weft_chan_destroy(shared.chan);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

static void whatever_is_refused(void)
{
    CHECK(failing_each(attempt, (uint32_t)test_scale(40)) > 0);
}

/* A worker of a compact pool begins on the stack of one that went deep, whose frames cannot be moved out for lack of
 * memory. Its record, which stands before its own frames, is not lost: it begins when there is memory again. */

static weft_wg there, gate, done;

static void wait_at_gate(void *arg)
{
    weft_wg_done(&there);
    CHECK_EQ(weft_wg_wait(&gate), 0);
    (void)arg;
}

static void wait_deep(void *arg)
{
    compact_below(200, 1, wait_at_gate, arg);
}

static void finish(void *arg)
{
    CHECK_PTR(arg, &shared);
    weft_wg_done(&done);
}

/* A piece of each size that there is memory for: what was given back though it is in use is written over. */
static void use_pieces(void)
{
    enum { SIZES = 64 };
    void *pieces[SIZES];
    size_t rooms[SIZES];
    for (int i = 0; i < SIZES; i++) {
        pieces[i] = weft__slab_get(64 * (size_t)(i + 1), &rooms[i]);
        if (pieces[i] != NULL)
            memset(pieces[i], 0x5a, rooms[i]);
    }
    for (int i = 0; i < SIZES; i++)
        if (pieces[i] != NULL)
            weft__slab_put(pieces[i], rooms[i]);
}

static void begin_behind_deep(void *arg)
{
    weft_fiber *deep[HOT_STACKS];
    (void)arg;
    CHECK_EQ(weft_wg_init(&there, HOT_STACKS), 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(weft_wg_init(&done, 1), 0);
    CHECK_EQ(weft_pool_open(&shared.pool, &(weft_pool_options){.capacity = 1, .compact = 1}), 0);
    for (int i = 0; i < HOT_STACKS; i++)
        deep[i] = compact_spawn(wait_deep, NULL);
    CHECK_EQ(weft_wg_wait(&there), 0);
    CHECK_EQ(weft_pool_submit(shared.pool, finish, &shared), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    while (!atomic_u32_load_relaxed(&weft__sched.starving))
        weft_yield();
    CHECK_EQ(weft_wg_count(&done), 1);
    use_pieces();
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(weft_wg_wait(&done), 0);
    weft_wg_done(&gate);
    for (int i = 0; i < HOT_STACKS; i++)
        CHECK_EQ(weft_join(deep[i]), 0);
    CHECK_EQ(weft_pool_close(shared.pool), 0);
}

static void a_worker_begins_behind_deep_ones(void)
{
    if (weft__compact_works())
        on_one_machine(begin_behind_deep, NULL);
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

int main(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = 2}), 0);
    RUN(whatever_is_refused);
    RUN(a_worker_begins_behind_deep_ones);
    return 0;
}
