/*
 * everywhere.h: runs a piece of a test on main, on another thread and in a fiber, or with a certain
 * number of processors; under a seed in a fiber, with the processor that there is.
 */
#ifndef WEFT_TEST_EVERYWHERE_H
#define WEFT_TEST_EVERYWHERE_H

#include <pthread.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "test.h"

/* What follows has that many processors, up to processors_end. */
static inline void processors_begin(int number)
{
    if (test_seeded)
        return;
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* what earlier tests left running */
    CHECK_EQ(weft_configure(&(weft_config){.processors = number}), 0);
}

/* All fibers have ended then, those that nobody joins too. */
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

/* On one processor that no other thread takes over while the one that has it is not run by the system: for those who
 * know who runs next. */
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

/* Computes until then: for what is to happen about that time. Under a seed, where time stands still for one who
 * computes, it sleeps. */
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

/* The same body on main, on another thread, in a fiber. */
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

/* Calls, so that no address of errno is remembered across a park. */
static noinline __attribute__((unused)) void set_errno(int value)
{
    errno = value;
}

static noinline __attribute__((unused)) int get_errno(void)
{
    return errno;
}

#endif
