/*
 * compact_home.c: a compact fiber that another processor has run goes back to its home processor,
 * in whose wheel its deadline is. A worker has no fixed home: it moves to the processor on which it
 * takes a task.
 */
#include "compact.h"

#include <errno.h>
#include <unistd.h>

#include "fibers.h"
#include "pool/worker.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"

enum { FIBERS = 16, PROCESSORS = 2, UNKNOWN = 99 };

static struct traveller {
    weft_chan *chan;
    weft_fiber *fiber;
    atomic_u32 home; /* index of its processor */
} travellers[FIBERS];

static atomic_u32 arrived;
static weft_wg gate, done;

static uint32_t here(void)
{
    return thread_self()->processor->index;
}

/* Receives until it is woken on another processor; then waits with a deadline. */
static void travel(void *arg)
{
    struct traveller *traveller = arg;
    uint32_t home = here();
    traveller->fiber = weft_self();
    atomic_u32_store_release(&traveller->home, home);
    do
        CHECK_EQ(weft_chan_receive(traveller->chan, NULL), 0);
    while (here() == home);
    atomic_u32_add_acq_rel(&arrived, 1);
    CHECK_EQ(weft_wg_wait_until(&gate, weft_after(60 * WEFT_S)), 0);
    weft_wg_done(&done);
}

/* Wakes the fibers whose home is another processor: they go on here. */
static void wake_strangers(void *arg)
{
    char letter = 'x';
    while (atomic_u32_load_relaxed(&arrived) < FIBERS) {
        for (int i = 0; i < FIBERS; i++) {
            uint32_t home = atomic_u32_load_acquire(&travellers[i].home);
            if (home == UNKNOWN || home == here())
                continue;
            int error = weft_chan_try_send(travellers[i].chan, &letter);
            CHECK(error == 0 || error == -EAGAIN); /* it is not parked at the moment */
        }
        weft_yield();
    }
    weft_wg_done(&done);
}

/* Checks all deadlines, and returns how many there are. They are written under the latch of a
 * wheel, or before it is taken. */
static int check_all(void)
{
    int count = 0;
    for (int i = 0; i < PROCESSORS; i++)
        latch_acquire(&weft__sched.processors[i].wheel.latch);
    for (int i = 0; i < FIBERS; i++) {
        const struct weft_fiber *fiber = travellers[i].fiber;
        if (fiber->timer.link == NULL)
            continue;
        CHECK_PTR(fiber->timer.wheel, &weft__compact_home(fiber)->wheel);
        count++;
    }
    for (int i = 0; i < PROCESSORS; i++)
        latch_release(&weft__sched.processors[i].wheel.latch);
    return count;
}

static void begin_travels(void)
{
    configure(PROCESSORS);
    atomic_u32_store_relaxed(&arrived, 0);
    for (int i = 0; i < FIBERS; i++) {
        atomic_u32_store_relaxed(&travellers[i].home, UNKNOWN);
        CHECK_EQ(weft_chan_make(&travellers[i].chan, 1, 0), 0);
    }
}

static void end_travels(void)
{
    for (int i = 0; i < FIBERS; i++)
        weft_chan_destroy(travellers[i].chan);
    shut_down();
}

/* `done` counts the wakers, too. */
static void spawn_wakers(int others)
{
    CHECK_EQ(weft_wg_init(&done, others + PROCESSORS), 0);
    go_many(PROCESSORS, wake_strangers, NULL);
}

static void deadlines_are_kept_at_home(void)
{
    begin_travels();
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    for (int i = 0; i < FIBERS; i++)
        compact_go(travel, &travellers[i]);
    spawn_wakers(FIBERS);
    nap_until(&arrived, FIBERS);
    while (check_all() < FIBERS) /* the last fibers are about to wait */
        usleep(1000);
    weft_wg_done(&gate);
    CHECK_EQ(weft_wg_wait(&done), 0);
    end_travels();
}

enum { ROUNDS = 8 };

static atomic_u32 started;

static int start_worker(void **state, void *data)
{
    atomic_u32_add_acq_rel(&started, 1);
    *state = &started;
    return 0;
}

/* A task that ends on another processor than it began on. */
static void stray(void *arg)
{
    struct traveller *traveller = arg;
    uint32_t began = here();
    struct worker *worker = weft__worker_self();
    CHECK(!weft__compact_is_remote(worker));
    CHECK_PTR(weft_pool_worker_state(), &started);
    atomic_u32_store_release(&traveller->home, began);
    do
        CHECK_EQ(weft_chan_receive(traveller->chan, NULL), 0);
    while (here() == began);
    atomic_u32_store_release(&traveller->home, UNKNOWN);
    CHECK(weft__compact_is_remote(worker));
    atomic_u32_add_acq_rel(&arrived, 1);
}

static void workers_move_to_where_they_take_a_task(void)
{
    weft_pool *pool;
    weft_pool_stats stats;
    begin_travels();
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = FIBERS,
                                                        .compact = 1,
                                                        .on_worker_start = start_worker}),
             0);
    for (int round = 0; round < ROUNDS; round++) {
        atomic_u32_store_relaxed(&arrived, 0);
        for (int i = 0; i < FIBERS; i++)
            CHECK_EQ(weft_pool_submit(pool, stray, &travellers[i]), 0);
        spawn_wakers(0);
        CHECK_EQ(weft_wg_wait(&done), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_stats_get(pool, &stats), 0);
    CHECK_EQ(stats.completed, FIBERS * ROUNDS);
    CHECK_EQ(atomic_u32_load_acquire(&started), stats.most_workers); /* once each */
    CHECK_EQ(weft_pool_close(pool), 0);
    end_travels();
}

/* The debug check still knows a lock that a panic left, after the worker has moved. */

static weft_mutex mutex = WEFT_MUTEX_INIT;

static void panic_locked(void *arg)
{
    weft_mutex_lock(&mutex);
    weft_panic("with a lock");
}

static void take_note(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
}

static void moves_after_a_panic(void)
{
    weft_pool *pool;
    begin_travels();
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = 1,
                                                        .queue = 1,
                                                        .compact = 1,
                                                        .on_worker_start = start_worker,
                                                        .on_panic = take_note}),
             0);
    atomic_u32_store_relaxed(&arrived, FIBERS - 1);
    CHECK_EQ(weft_pool_submit(pool, panic_locked, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, stray, &travellers[0]), 0);
    spawn_wakers(0);
    CHECK_EQ(weft_wg_wait(&done), 0);
    CHECK_EQ(weft_pool_close(pool), 0); /* the worker ends */
    end_travels();
}

int main(void)
{
    if (!weft__compact_works())
        test_skip("there are no compact stacks here");
    RUN_ALL_PLAIN("stops or configures the runtime", deadlines_are_kept_at_home,
                  workers_move_to_where_they_take_a_task, moves_after_a_panic);
    return 0;
}
