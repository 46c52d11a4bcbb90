/*
 * seeded_edge.c: callers of weft that a test run, or chaos, does not schedule: threads, fibers that
 * hold a spin lock, fibers that have given their processor up. Every call works as it does
 * elsewhere.
 */
#include <weft/test.h>

#include "everywhere.h"
#include "fibers.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/check/test_point.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/runtime/thread.h"

static weft_mutex mutex;
static weft_wg wg;
static weft_spin spin = WEFT_SPIN_INIT;
static weft_chan *chan;
static int held;

static void lock_and_count(void)
{
    weft_mutex_lock(&mutex);
    held++;
    weft_mutex_unlock(&mutex);
}

/* A thread that weft does not know, then one that it knows, which waits without a deadline and with
 * one that is far away. */

static void *use_on_thread(void *arg)
{
    weft_local_key key;
    lock_and_count();
    CHECK_EQ(weft_local_create(&key, NULL), 0);
    CHECK_EQ(weft_local_set(key, &key), 0);
    lock_and_count();
    weft_wg_done(arg); /* lets the fiber go on */
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(weft_wg_wait_until(&wg, INT64_MAX - 1), 0);
    if (thread_self() != NULL && seeded())
        CHECK_EQ(weft_test_run(1, (void (*)(void *))(uintptr_t)use_on_thread, NULL), -EBUSY);
    CHECK_EQ(weft_local_delete(key), 0);
    return NULL;
}

/* A thread waits for a fiber's lock, by the clock of the system. */

static void *lock_on_thread(void *arg)
{
    lock_and_count();
    CHECK_EQ(weft_wg_wait_until(arg, INT64_MAX - 1), 0);
    return NULL;
}

static void let_thread_wait(void)
{
    weft_wg far;
    const atomic_u32 *word = (const atomic_u32 *)(const void *)&mutex.word;
    const atomic_u64 *count = (const atomic_u64 *)(const void *)&far.word;
    CHECK_EQ(weft_wg_init(&far, 1), 0);
    uint64_t one = atomic_u64_load_acquire(count);
    weft_mutex_lock(&mutex);
    uint32_t locked = atomic_u32_load_acquire(word);
    pthread_t thread = thread_start(lock_on_thread, &far);
    while (atomic_u32_load_acquire(word) == locked) /* until the lock has a waiter */
        usleep(50);
    weft_mutex_unlock(&mutex);
    while (atomic_u64_load_acquire(count) == one)
        usleep(50);
    weft_wg_done(&far);
    thread_join(thread);
}

static void hand_over(void)
{
    weft_wg begun;
    CHECK_EQ(weft_wg_init(&begun, 1), 0);
    CHECK_EQ(weft_wg_init(&wg, 2), 0);
    pthread_t thread = thread_start(use_on_thread, &begun);
    CHECK_EQ(weft_wg_wait(&begun), 0);
    weft_wg_done(&wg);
    weft_yield();
    weft_wg_done(&wg);
    thread_join(thread);
}

/* While a spin lock is held, a woken fiber does not run. */

static int received;

static void receive(void *arg)
{
    int number;
    CHECK_EQ(weft_chan_receive(chan, &number), 0);
    received++;
}

static void send_with_spin(void)
{
    int number = 1;
    weft_fiber *receiver;
    CHECK_EQ(weft_chan_make(&chan, sizeof number, 0), 0);
    for (int i = 0; i < 10; i++) {
        receiver = spawn(receive, NULL);
        weft_spin_lock(&spin);
        int before = received, error = weft_chan_try_send(chan, &number);
        weft_mutex_lock(&mutex);
        weft_mutex_unlock(&mutex);
        CHECK_EQ(received, before);
        weft_spin_unlock(&spin);
        if (error != 0)
            CHECK_EQ(weft_chan_send(chan, &number), 0);
        CHECK_EQ(weft_join(receiver), 0);
    }
    CHECK_EQ(received, 10);
    weft_chan_destroy(chan);
}

/* Without a processor. */
static void lock_while_blocking(void)
{
    weft_blocking_enter();
    lock_and_count();
    weft_blocking_exit();
    lock_and_count();
}

static void use_all(void *arg)
{
    held = received = 0;
    hand_over();
    let_thread_wait();
    send_with_spin();
    lock_while_blocking();
    CHECK_EQ(held, 5);
}

static void in_runs(void)
{
    CHECK_EQ(
        weft_test_seeds(&(weft_test_options){.seeds = (uint64_t)test_scale(20)}, use_all, NULL), 0);
}

static void in_chaos(void)
{
    CHECK_EQ(setenv("WEFT_CHAOS", "100", 1), 0);
    on_one_machine(use_all, NULL);
    CHECK_EQ(unsetenv("WEFT_CHAOS"), 0);
}

/* The count of turns of a very long run begins again at 0. */

static void near_the_last_turn(void *arg)
{
    atomic_u32 *turn = &weft__sched.processors[0].turn;
    atomic_u32_store_relaxed(turn, UINT32_MAX - 1);
    for (int i = 0; i < 10; i++) {
        weft_yield();
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    }
    CHECK(atomic_u32_load_relaxed(turn) < 1u << 16);
}

static void turns_begin_anew(void)
{
    CHECK_EQ(weft_test_run(1, near_the_last_turn, NULL), 0);
}

/* More fibers are ready than there is room for, and no memory for more: the rest waits. */

enum { CROWD = 300 };

static void count_one(void *arg)
{
    ++*(int *)arg;
}

static void crowd_without_memory(void *arg)
{
    weft_fiber *fibers[CROWD];
    int ran = 0;
    spawn_all(fibers, CROWD, count_one, &ran);
    weft__os_fail(OS_ALLOC, 1, true);
    for (int i = 0; i < 20; i++)
        weft_yield();
    weft__os_fail(OS_ALLOC, 0, false);
    join_all(fibers, CROWD);
    CHECK_EQ(ran, CROWD);
}

static void no_fiber_is_lost_without_memory(void)
{
    for (uint64_t seed = 1; seed <= 5; seed++)
        CHECK_EQ(weft_test_run(seed, crowd_without_memory, NULL), 0);
}

int main(void)
{
    RUN_ALL_PLAIN("makes its own runs", no_fiber_is_lost_without_memory, in_runs);
    RUN_PLAIN(in_chaos, "stops or configures the runtime");
    RUN_PLAIN(turns_begin_anew, "makes its own runs");
    return 0;
}
