/*
 * mutex_check.c: a debug build reports a fiber that waits while it holds a pthread mutex, and
 * reports nothing else.
 */
#include "base/compiler.h"
#include "bodies.h"
#include "everywhere.h"
#include "fibers.h"

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
    CHECK_EQ(weft_sleep(WEFT_US), 0); /* reported once */
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void yield_with_it(void *arg)
{
    CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
    weft_yield();
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
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
}

/* On one machine: a mutex must be unlocked by the thread that locked it. */
static void run_holder(void (*function)(void *))
{
    weft_spawn_options options = {.name = "the holder"};
    weft_fiber *fiber;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_spawn(&fiber, function, NULL, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
    shut_down();
}

/* A lock by a call that is not counted: its unlock does not make up for another lock. */
static void unlock_uncounted(void *arg)
{
    CHECK_EQ(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &(struct timespec){0, 0}), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    sleep_with_it(arg);
}

static void wait_a_little(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
}

static void nothing_wrong(void)
{
    run_holder(wait_without_it);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    run_holder(wait_a_little); /* a thread may hold it: it does not move */
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void (*tested)(void *);

static void run_tested(void)
{
    run_holder(tested);
}

static const char *report_of(void (*function)(void *))
{
    tested = function;
    return test_stderr_of(run_tested);
}

static void a_wait_with_a_mutex_is_reported(void)
{
    const char *text = report_of(sleep_with_it);
    const char *first = strstr(text, "\"the holder\" sleeps while it holds a pthread mutex");
    CHECK(first != NULL);
    CHECK(strstr(first, "was locked at") != NULL);
    CHECK_PTR(strstr(first + 1, "\"the holder\""), NULL);
    text = report_of(unlock_uncounted);
    CHECK(strstr(text, "\"the holder\" sleeps while it holds") != NULL);
    text = report_of(yield_with_it);
    CHECK(strstr(text, "\"the holder\" yields while it holds") != NULL);
}

/* The report names the mutexes that are held. */

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

static void sleep_with(pthread_mutex_t *unlocked_before)
{
    CHECK_EQ(pthread_mutex_lock(&first), 0);
    CHECK_EQ(pthread_mutex_lock(&second), 0);
    if (unlocked_before != NULL)
        CHECK_EQ(pthread_mutex_unlock(unlocked_before), 0);
    wait_a_little(NULL);
    if (unlocked_before != &second)
        CHECK_EQ(pthread_mutex_unlock(&second), 0);
    if (unlocked_before != &first)
        CHECK_EQ(pthread_mutex_unlock(&first), 0);
}

static void sleep_with_the_first(void *arg)
{
    sleep_with(&second);
}

static void sleep_with_the_second(void *arg)
{
    sleep_with(&first);
}

static void sleep_with_both(void *arg)
{
    sleep_with(NULL);
}

/* A mutex whose lock was not counted is unlocked while the first is held. */
static void sleep_after_the_uncounted(void *arg)
{
    CHECK_EQ(pthread_mutex_lock(&first), 0);
    CHECK_EQ(pthread_mutex_clocklock(&second, CLOCK_MONOTONIC, &(struct timespec){0, 0}), 0);
    CHECK_EQ(pthread_mutex_unlock(&second), 0);
    wait_a_little(arg);
    CHECK_EQ(pthread_mutex_unlock(&first), 0);
}

/* A recursive mutex is held until it was unlocked as often as it was locked. */
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

/* More mutexes than are recorded: the others are counted. */
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

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static void held_mutexes_are_named(void)
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

static void other_waits_are_not_reported(void)
{
    CHECK_STR(test_stderr_of(nothing_wrong), "");
}

int main(void)
{
    RUN_ALL_PLAIN("a child process that must die", a_wait_with_a_mutex_is_reported,
                  held_mutexes_are_named, other_waits_are_not_reported);
    shut_down();
    return 0;
}

#endif
