/*
 * held.c: debug builds say so when a fiber waits while it holds a pthread mutex, and only then.
 */
#include "base/compiler.h"
#include "bodies.h"
#include "everywhere.h"

#if !defined(WEFT_DEBUG) || WEFT_ASAN || WEFT_TSAN

int main(void)
{
    test_skip("only debug builds without a sanitizer count pthread mutexes");
}

#else

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;

static void sleep_with_it(void *arg)
{
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    CHECK_EQ(weft_sleep(WEFT_US), 0); /* said once */
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    (void)arg;
}

static void yield_with_it(void *arg)
{
    CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
    weft_yield();
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    (void)arg;
}

static void wait_without_it(void *arg)
{
    struct timespec soon = {0, 0};
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(pthread_mutex_lock(&mutex), 0);
        CHECK_EQ(pthread_mutex_timedlock(&other, &soon), 0);
        CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
        free(malloc(100));
        CHECK_EQ(pthread_mutex_unlock(&other), 0);
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
        CHECK_EQ(weft_sleep(WEFT_US), 0);
        fflush(stdout);
        weft_yield();
    }
    (void)arg;
}

static void run_in_fiber(void (*function)(void *))
{
    weft_spawn_options options = {.name = "the holder"};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

/* Locked before it was counted, as by another name for the call: unlocking does not make up for another lock. */
static void unlock_uncounted(void *arg)
{
    CHECK_EQ(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &(struct timespec){0, 0}), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    sleep_with_it(arg);
}

static void sleeps_after_uncounted(void)
{
    run_in_fiber(unlock_uncounted);
}

static void wait_a_little(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    (void)arg;
}

static void sleeps(void)
{
    run_in_fiber(sleep_with_it);
}

static void yields(void)
{
    run_in_fiber(yield_with_it);
}

static void nothing_wrong(void)
{
    run_in_fiber(wait_without_it);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    run_in_fiber(wait_a_little); /* a thread may hold it: it goes on where it is */
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void who_waits_with_it_is_reported(void)
{
    const char *text = test_stderr_of(sleeps);
    const char *first = strstr(text, "\"the holder\" sleeps while it holds the pthread mutex");
    CHECK(first != NULL);
    CHECK(strstr(first, "it was locked at") != NULL);
    CHECK_PTR(strstr(first + 1, "\"the holder\""), NULL);
    text = test_stderr_of(sleeps_after_uncounted);
    CHECK(strstr(text, "\"the holder\" sleeps while it holds") != NULL);
    text = test_stderr_of(yields);
    CHECK(strstr(text, "\"the holder\" yields while it holds") != NULL);
}

static void who_does_not_is_not(void)
{
    CHECK_STR(test_stderr_of(nothing_wrong), "");
}

int main(void)
{
    RUN_PLAIN(who_waits_with_it_is_reported, "a child process that must die");
    RUN_PLAIN(who_does_not_is_not, "a child process that must die");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}

#endif
