/*
 * everywhere.h: runs a piece of a test on main, on another thread and in a fiber, or with a number
 * of processors. Under a seed it runs in the fiber and with the processor that there are.
 */
#ifndef WEFT_TEST_EVERYWHERE_H
#define WEFT_TEST_EVERYWHERE_H

#include <pthread.h>
#include <sched.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "test.h"

/* From now until processors_end the runtime has that many processors. */
static inline void processors_begin(int number)
{
    if (test_seeded)
        return;
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* fibers of earlier tests */
    CHECK_EQ(weft_configure(&(weft_config){.processors = number}), 0);
    CHECK_EQ(weft_processors(), number);
}

/* Returns when all fibers have ended, also those that are not joined. */
static inline void processors_end(void)
{
    if (test_seeded)
        return;
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

static inline void on_processors(int number, void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    processors_begin(number);
    CHECK_EQ(weft_spawn(&fiber, function, arg, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    processors_end();
}

/* Runs the function on one processor with one machine, for tests that know which fiber runs next:
 * with several machines another could get the processor while the system does not run its
 * thread. */
static inline __attribute__((unused)) void on_one_machine(void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    processors_begin(1);
    if (!test_seeded)
        CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_spawn(&fiber, function, arg, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    processors_end();
}

/* Keeps the calling thread, and the threads that it will start, on one CPU. */
static inline __attribute__((unused)) void stay_on_one_cpu(void)
{
    cpu_set_t allowed, one;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

/* Computes until the time, so that something happens about then. Under a seed, where virtual time
 * does not pass while a fiber computes, it sleeps. */
static inline void compute_until(int64_t time)
{
    if (test_seeded)
        CHECK_EQ(weft_sleep_until(time), 0);
    while (weft_now() < time)
        cpu_relax();
}

static inline void *test_thread_main(void *arg)
{
    void (*function)(void *) = (void (*)(void *))(uintptr_t)arg;
    function(NULL);
    return NULL;
}

static inline void on_thread(void (*function)(void *))
{
    pthread_t thread;
    if (test_seeded) {
        function(NULL);
        return;
    }
    CHECK_EQ(pthread_create(&thread, NULL, test_thread_main, (void *)(uintptr_t)function), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Calls the function on main, on another thread, and in a fiber. */
static inline void everywhere(void (*function)(void *))
{
    weft_fiber *fiber;
    function(NULL);
    if (test_seeded)
        return;
    on_thread(function);
    CHECK_EQ(weft_spawn(&fiber, function, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

/* RUN_PLAIN for a static void function(void *): everywhere, in a fiber on so many processors, or in
 * a fiber on one machine. */
#define RUN_PLAIN_EVERYWHERE(function, why) \
    (test_title(#function " (not under seeds: " why ")"), everywhere(function))
#define RUN_PLAIN_ON(function, processors, why) \
    (test_title(#function " (not under seeds: " why ")"), on_processors(processors, function, NULL))
#define RUN_PLAIN_ONE_MACHINE(function, why) \
    (test_title(#function " (not under seeds: " why ")"), on_one_machine(function, NULL))

/* Not inlined, so that the compiler does not keep the address of errno across a park. */
static noinline __attribute__((unused)) void set_errno(int value)
{
    errno = value;
}

static noinline __attribute__((unused)) int get_errno(void)
{
    return errno;
}

struct hop {
    weft_wg gate;
    pid_t home;
    atomic_u32 arrived, finished;
};

/* Wakes the fiber that moves. On the thread of that fiber it then holds the thread until the fiber
 * runs, which can only be on another thread. */
static inline void hop_push(void *arg)
{
    struct hop *hop = arg;
    bool hold = gettid() == hop->home;
    if (!hold)
        atomic_u32_store_release(&hop->finished, 1);
    weft_wg_done(&hop->gate);
    if (hold) {
        while (!atomic_u32_load_acquire(&hop->arrived))
            sched_yield();
        atomic_u32_store_release(&hop->finished, 1);
    }
}

/* Moves the running fiber to another thread, for certain. Takes more processors than fibers that
 * move at the same time. */
static inline void test_hop(void)
{
    pid_t home = gettid();
    while (gettid() == home) {
        struct hop hop = {.home = home};
        CHECK_EQ(weft_wg_init(&hop.gate, 1), 0);
        CHECK_EQ(weft_go(hop_push, &hop), 0);
        CHECK_EQ(weft_wg_wait(&hop.gate), 0);
        atomic_u32_store_release(&hop.arrived, 1);
        /* Not by a park, which might move the fiber back. */
        while (!atomic_u32_load_acquire(&hop.finished))
            sched_yield();
    }
}

#endif
