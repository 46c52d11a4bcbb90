/*
 * mutex_check.c: debug builds say so when a fiber waits while it holds a pthread mutex, and only then.
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
    const char *first = strstr(text, "\"the holder\" sleeps while it holds a pthread mutex");
    CHECK(first != NULL);
    CHECK(strstr(first, "was locked at") != NULL);
    CHECK_PTR(strstr(first + 1, "\"the holder\""), NULL);
    text = test_stderr_of(sleeps_after_uncounted);
    CHECK(strstr(text, "\"the holder\" sleeps while it holds") != NULL);
    text = test_stderr_of(yields);
    CHECK(strstr(text, "\"the holder\" yields while it holds") != NULL);
}

/* Which ones are held: `first` was locked first. */

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

static void sleep_with_the_first(void *arg)
{
    CHECK_EQ(pthread_mutex_lock(&first), 0);
    CHECK_EQ(pthread_mutex_lock(&second), 0);
    CHECK_EQ(pthread_mutex_unlock(&second), 0);
    wait_a_little(arg);
    CHECK_EQ(pthread_mutex_unlock(&first), 0);
}

static void sleep_with_the_second(void *arg)
{
    CHECK_EQ(pthread_mutex_lock(&first), 0);
    CHECK_EQ(pthread_mutex_lock(&second), 0);
    CHECK_EQ(pthread_mutex_unlock(&first), 0);
    wait_a_little(arg);
    CHECK_EQ(pthread_mutex_unlock(&second), 0);
}

static void sleep_with_both(void *arg)
{
    CHECK_EQ(pthread_mutex_lock(&first), 0);
    CHECK_EQ(pthread_mutex_lock(&second), 0);
    wait_a_little(arg);
    CHECK_EQ(pthread_mutex_unlock(&second), 0);
    CHECK_EQ(pthread_mutex_unlock(&first), 0);
}

/* One that was locked by another name for the call is unlocked, while the first is held. */
static void sleep_after_the_uncounted(void *arg)
{
    CHECK_EQ(pthread_mutex_lock(&first), 0);
    CHECK_EQ(pthread_mutex_clocklock(&second, CLOCK_MONOTONIC, &(struct timespec){0, 0}), 0);
    CHECK_EQ(pthread_mutex_unlock(&second), 0);
    wait_a_little(arg);
    CHECK_EQ(pthread_mutex_unlock(&first), 0);
}

/* A recursive one is held until it was unlocked as often as it was locked. */
static void sleep_with_one_of_two(void *arg)
{
    pthread_mutexattr_t recursive;
    pthread_mutex_t twice;
    CHECK_EQ(pthread_mutexattr_init(&recursive), 0);
    CHECK_EQ(pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE), 0);
    CHECK_EQ(pthread_mutex_init(&twice, &recursive), 0);
    CHECK_EQ(pthread_mutex_lock(&twice), 0);
    CHECK_EQ(pthread_mutex_lock(&twice), 0);
    CHECK_EQ(pthread_mutex_unlock(&twice), 0);
    wait_a_little(arg);
    CHECK_EQ(pthread_mutex_unlock(&twice), 0);
    CHECK_EQ(pthread_mutex_destroy(&twice), 0);
}

/* More than are noted: the others are counted. */
static void sleep_with_many(void *arg)
{
    enum { MANY = 100 };
    static pthread_mutex_t many[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(pthread_mutex_init(&many[i], NULL), 0);
        CHECK_EQ(pthread_mutex_lock(&many[i]), 0);
    }
    wait_a_little(arg);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(pthread_mutex_unlock(&many[i]), 0);
    wait_a_little(arg);
}

static void (*tested)(void *);

static void run_tested(void)
{
    run_in_fiber(tested);
}

static const char *report_of(void (*function)(void *))
{
    tested = function;
    return test_stderr_of(run_tested);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static void what_is_held_is_named(void)
{
    char name_first[32], name_second[32];
    snprintf(name_first, sizeof name_first, "%p", (void *)&first);
    snprintf(name_second, sizeof name_second, "%p", (void *)&second);
    const char *text = report_of(sleep_with_the_first);
    CHECK(strstr(text, name_first) != NULL && strstr(text, name_second) == NULL);
    text = report_of(sleep_after_the_uncounted);
    CHECK(strstr(text, name_first) != NULL && strstr(text, name_second) == NULL);
    text = report_of(sleep_with_the_second);
    CHECK(strstr(text, name_first) == NULL && strstr(text, name_second) != NULL);
    text = report_of(sleep_with_both);
    CHECK(strstr(text, name_first) != NULL && strstr(text, name_second) != NULL);
    CHECK_EQ(count_of(text, "locked at"), 2);
    text = report_of(sleep_with_one_of_two);
    CHECK_EQ(count_of(text, "locked at"), 1);
    text = report_of(sleep_with_many);
    CHECK_EQ(count_of(text, "while it holds"), 1);
    CHECK(strstr(text, "more") != NULL);
}

static void who_does_not_is_not(void)
{
    CHECK_STR(test_stderr_of(nothing_wrong), "");
}

int main(void)
{
    RUN_PLAIN(who_waits_with_it_is_reported, "a child process that must die");
    RUN_PLAIN(what_is_held_is_named, "a child process that must die");
    RUN_PLAIN(who_does_not_is_not, "a child process that must die");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}

#endif
