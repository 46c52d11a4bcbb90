/*
 * running.c: failures while the runtime runs: spawning many, timers, locals, joins from threads.
 * Every fiber that was spawned with success runs exactly once, and no other.
 */
#include <pthread.h>

#include "base/atomic.h"
#include "failing.h"

enum { MANY = 300 };

static atomic_u32 runs[MANY];

static void run_one(void *arg)
{
    atomic_u32_add_seq_cst(arg, 1);
    weft_yield();
}

static void nothing(void *arg)
{
    (void)arg;
}

static void start_runtime(void)
{
    weft_config config = {.processors = 3};
    CHECK_EQ(weft_configure(&config), 0);
    CHECK_EQ(weft_go(nothing, NULL), 0);
}

/* Spawning. */

static int results[MANY];
static weft_fiber *fibers[MANY];

static void spawn_many(void *arg)
{
    weft_spawn_options options = {.name = "one of many"};
    (void)arg;
    for (int i = 0; i < MANY; i++)
        results[i] = weft_spawn(&fibers[i], run_one, &runs[i], i % 2 == 0 ? &options : NULL);
}

static void check_many(void)
{
    for (int i = 0; i < MANY; i++) {
        failing_check(results[i], failing_spawn);
        if (results[i] == 0)
            CHECK_EQ(weft_join(fibers[i]), 0);
        CHECK_EQ(atomic_u32_load_acquire(&runs[i]), results[i] == 0);
    }
}

static void spawn_from(bool fiber)
{
    weft_fiber *spawner;
    memset(runs, 0, sizeof runs);
    enum weft__os_call call = failing.call;
    uint32_t nth = failing.nth;
    bool persistent = failing.persistent;
    failing_off();
    start_runtime();
    if (fiber) {
        CHECK_EQ(weft_spawn(&spawner, nothing, NULL, NULL), 0); /* the first machine is there */
        CHECK_EQ(weft_join(spawner), 0);
        CHECK_EQ(weft_spawn(&spawner, spawn_many, NULL, NULL), 0);
        failing_on(call, nth, persistent); /* its start may fail by now, but it has its record */
        while (weft_join_until(spawner, weft_after(20 * WEFT_MS)) != 0)
            failing_off(); /* it may wait for a stack until then */
    } else {
        failing_on(call, nth, persistent);
        spawn_many(NULL);
    }
    failing_off();
    check_many();
    spawn_many(NULL); /* all works again */
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(results[i], 0);
        CHECK_EQ(weft_join(fibers[i]), 0);
    }
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void spawn_from_thread(void)
{
    spawn_from(false);
}

static void spawn_from_fiber(void)
{
    spawn_from(true);
}

static void spawning_many_may_fail(void)
{
    CHECK(failing_each(spawn_from_thread, 12) > 1);
    CHECK(failing_each(spawn_from_fiber, 12) > 1);
}

/* Timers: what is open starts, fires and closes, whatever fails. */

enum { TIMERS = 20 };

static void use_timers(void)
{
    weft_timer *timers[TIMERS];
    int opened[TIMERS];
    atomic_u32 calls[TIMERS];
    memset(calls, 0, sizeof calls);
    enum weft__os_call call = failing.call;
    uint32_t nth = failing.nth;
    bool persistent = failing.persistent;
    failing_off();
    start_runtime();
    failing_on(call, nth, persistent);
    for (int i = 0; i < TIMERS; i++) {
        opened[i] = weft_timer_open(&timers[i], run_one, &calls[i]);
        if (opened[i] == 0)
            CHECK_EQ(weft_timer_start(timers[i], weft_after(i * 10 * WEFT_US), 0), 0);
    }
    int64_t deadline = weft_after(WEFT_MS);
    while (weft_now() < deadline)
        weft_yield();
    failing_off(); /* those that got no stack get one now */
    for (int i = 0; i < TIMERS; i++) {
        failing_check(opened[i], failing_spawn);
        while (opened[i] == 0 && atomic_u32_load_acquire(&calls[i]) == 0)
            weft_yield();
        if (opened[i] == 0)
            CHECK_EQ(weft_timer_close(timers[i]), 0);
        CHECK_EQ(atomic_u32_load_acquire(&calls[i]), opened[i] == 0);
    }
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void timers_may_fail_to_open_only(void)
{
    CHECK(failing_each(use_timers, 12) > 1);
}

/* A thread that weft does not know yet uses a timer and a fiber of others. */

static struct {
    weft_timer *timer;
    weft_fiber *fiber;
    weft_wg gate;
    atomic_u32 begun, ended;
    int started, stopped, joined, detached, closed;
    bool join;
} other;

static void wait_gate(void *arg)
{
    (void)arg;
    atomic_u32_store_release(&other.begun, 1); /* it has its stack */
    CHECK_EQ(weft_wg_wait(&other.gate), 0);
    atomic_u32_store_release(&other.ended, 1);
}

static void *use_from_thread(void *arg)
{
    (void)arg;
    other.started = weft_timer_start(other.timer, weft_after(3600 * WEFT_S), 0);
    other.stopped = weft_timer_stop(other.timer);
    if (other.join)
        other.joined = weft_join(other.fiber);
    else
        other.detached = weft_detach(other.fiber);
    other.closed = weft_timer_close(other.timer);
    return NULL;
}

static void use_from_strange_thread(bool join)
{
    weft_spawn_options options = {.name = "joined"};
    pthread_t thread;
    enum weft__os_call call = failing.call;
    uint32_t nth = failing.nth;
    bool persistent = failing.persistent;
    failing_off();
    start_runtime();
    atomic_u32_store_relaxed(&other.begun, 0);
    atomic_u32_store_relaxed(&other.ended, 0);
    CHECK_EQ(weft_wg_init(&other.gate, 1), 0);
    other.join = join;
    other.joined = other.detached = 0;
    CHECK_EQ(weft_timer_open(&other.timer, nothing, NULL), 0);
    CHECK_EQ(weft_spawn(&other.fiber, wait_gate, NULL, &options), 0);
    while (!atomic_u32_load_acquire(&other.begun))
        weft_yield();
    failing_on(call, nth, persistent);
    CHECK_EQ(pthread_create(&thread, NULL, use_from_thread, NULL), 0);
    if (failing.nth % 2 == 0)
        weft_yield(); /* before or after the thread comes to its join */
    weft_wg_done(&other.gate);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    failing_off();
    CHECK_EQ(other.started, 0); /* the header names no error that lack of memory would be */
    CHECK_EQ(other.stopped, 1);
    CHECK_EQ(other.closed, 0);
    CHECK_EQ(other.joined, 0);
    CHECK_EQ(other.detached, 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&other.ended), 1);
}

static void join_from_strange_thread(void)
{
    use_from_strange_thread(true);
}

static void detach_from_strange_thread(void)
{
    use_from_strange_thread(false);
}

static void a_thread_that_cannot_be_remembered(void)
{
    (void)failing_each(join_from_strange_thread, 8);   /* nothing that can fail may be needed */
    (void)failing_each(detach_from_strange_thread, 8); /* nothing that can fail may be needed */
}

/* Locals. */

static weft_local_key key;
static atomic_u32 destroyed;

static void count_destroyed(void *value)
{
    CHECK_PTR(value, &key);
    atomic_u32_add_seq_cst(&destroyed, 1);
}

struct local_use {
    int set;
};

static void use_local(void *arg)
{
    struct local_use *use = arg;
    CHECK_PTR(weft_local_get(key), NULL);
    use->set = weft_local_set(key, &key);
    CHECK_PTR(weft_local_get(key), use->set == 0 ? &key : NULL);
    weft_yield();
    CHECK_PTR(weft_local_get(key), use->set == 0 ? &key : NULL);
}

static void *use_local_thread(void *arg)
{
    use_local(arg);
    return NULL;
}

static void use_locals(void)
{
    struct local_use uses[9];
    pthread_t thread;
    enum weft__os_call call = failing.call;
    uint32_t nth = failing.nth, set = 0;
    bool persistent = failing.persistent;
    failing_off();
    start_runtime();
    atomic_u32_store_relaxed(&destroyed, 0);
    CHECK_EQ(weft_local_create(&key, count_destroyed), 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(weft_spawn(&fibers[i], use_local, &uses[i], NULL), 0);
    failing_on(call, nth, persistent);
    CHECK_EQ(pthread_create(&thread, NULL, use_local_thread, &uses[8]), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 8; i++)
        while (weft_join_until(fibers[i], weft_after(20 * WEFT_MS)) != 0)
            failing_off();
    failing_off();
    for (int i = 0; i < 9; i++) {
        CHECK(uses[i].set == 0 || uses[i].set == -ENOMEM);
        set += uses[i].set == 0;
    }
    CHECK_EQ(atomic_u32_load_acquire(&destroyed), set);
    CHECK_EQ(weft_local_delete(key), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void locals_may_fail_to_be_set(void)
{
    CHECK(failing_each(use_locals, 12) > 1);
}

int main(void)
{
    RUN(spawning_many_may_fail);
    RUN(timers_may_fail_to_open_only);
    RUN(locals_may_fail_to_be_set);
    RUN(a_thread_that_cannot_be_remembered);
    return 0;
}
