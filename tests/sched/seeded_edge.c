/*
 * seeded_edge.c: what else calls weft in a test run, or in chaos: threads, fibers that hold a spin lock or have given
 * their processor up. There the seed decides nothing, and everything works as ever.
 */
#include <pthread.h>
#include <weft/test.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/check/test_point.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/runtime/thread.h"
#include "test.h"

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

/* A thread: first unknown, then known, then waiting without a deadline and with one that is far away. */

static void *use_on_thread(void *arg)
{
    weft_local_key key;
    lock_and_count();
    CHECK_EQ(weft_local_create(&key, NULL), 0);
    CHECK_EQ(weft_local_set(key, &key), 0);
    lock_and_count();
    weft_wg_done(arg); /* the fiber may go on now */
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(weft_wg_wait_until(&wg, INT64_MAX - 1), 0);
    if (thread_self() != NULL && seeded())
        CHECK_EQ(weft_test_run(1, (void (*)(void *))(uintptr_t)use_on_thread, NULL), -EBUSY);
    CHECK_EQ(weft_local_delete(key), 0);
    return NULL;
}

/* A thread that waits for a lock of a fiber, on the clock of the system. */

static void *lock_on_thread(void *arg)
{
    lock_and_count();
    CHECK_EQ(weft_wg_wait_until(arg, INT64_MAX - 1), 0);
    return NULL;
}

static void let_thread_wait(void)
{
    pthread_t thread;
    weft_wg far;
    const atomic_u32 *word = (const atomic_u32 *)(const void *)&mutex.word;
    const atomic_u64 *count = (const atomic_u64 *)(const void *)&far.word;
    CHECK_EQ(weft_wg_init(&far, 1), 0);
    uint64_t one = atomic_u64_load_acquire(count);
    weft_mutex_lock(&mutex);
    uint32_t locked = atomic_u32_load_acquire(word);
    CHECK_EQ(pthread_create(&thread, NULL, lock_on_thread, &far), 0);
    while (atomic_u32_load_acquire(word) == locked) /* until it is seen that somebody waits */
        usleep(50);
    weft_mutex_unlock(&mutex);
    while (atomic_u64_load_acquire(count) == one)
        usleep(50);
    weft_wg_done(&far);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void hand_over(void)
{
    weft_wg begun;
    pthread_t thread;
    CHECK_EQ(weft_wg_init(&begun, 1), 0);
    CHECK_EQ(weft_wg_init(&wg, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, use_on_thread, &begun), 0);
    CHECK_EQ(weft_wg_wait(&begun), 0);
    weft_wg_done(&wg);
    weft_yield();
    weft_wg_done(&wg);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* With a spin lock held, what wakes another does not let it run. */

static int received;

static void receive(void *arg)
{
    int number;
    (void)arg;
    CHECK_EQ(weft_chan_receive(chan, &number), 0);
    received++;
}

static void send_with_spin(void)
{
    int number = 1;
    weft_fiber *receiver;
    CHECK_EQ(weft_chan_make(&chan, sizeof number, 0), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_spawn(&receiver, receive, NULL, NULL), 0);
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
    (void)arg;
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
    weft_fiber *fiber;
    CHECK_EQ(setenv("WEFT_CHAOS", "100", 1), 0);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_spawn(&fiber, use_all, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
    CHECK_EQ(unsetenv("WEFT_CHAOS"), 0);
}

/* The count of turns of a very long run begins anew. */

static void near_the_last_turn(void *arg)
{
    atomic_u32 *turn = &weft__sched.processors[0].turn;
    (void)arg;
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

/* More are ready than there is room for, and no memory for more: the rest waits where it is. */

enum { CROWD = 300 };

static void count_one(void *arg)
{
    ++*(int *)arg;
}

static void crowd_without_memory(void *arg)
{
    weft_fiber *fibers[CROWD];
    int ran = 0;
    (void)arg;
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(weft_spawn(&fibers[i], count_one, &ran, NULL), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    for (int i = 0; i < 20; i++)
        weft_yield();
    weft__os_fail(OS_ALLOC, 0, false);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    CHECK_EQ(ran, CROWD);
}

static void nobody_is_lost_without_memory(void)
{
    for (uint64_t seed = 1; seed <= 5; seed++)
        CHECK_EQ(weft_test_run(seed, crowd_without_memory, NULL), 0);
}

int main(void)
{
    RUN_PLAIN(nobody_is_lost_without_memory, "makes runs of its own");
    RUN_PLAIN(in_runs, "makes runs of its own");
    RUN_PLAIN(in_chaos, "stops or configures the runtime");
    RUN_PLAIN(turns_begin_anew, "makes runs of its own");
    return 0;
}
