/*
 * failure.c: fault injection: the counters, and that each call of the seam asks them.
 */
#include <pthread.h>
#include <unistd.h>

#include "base/seam.h"
#include "test.h"

static void off_only_counts(void)
{
    for (int call = 0; call < SYS_CALLS; call++) {
        weft__sys_fail(call, 0, true);
        CHECK_EQ(weft__sys_calls(call), 0);
        for (uint32_t i = 1; i <= 5; i++) {
            CHECK(!weft__failure_due(call));
            CHECK_EQ(weft__sys_calls(call), i);
        }
    }
}

static void nth_fails_once(void)
{
    weft__sys_fail(SYS_MAP, 3, false);
    for (uint32_t i = 1; i <= 6; i++)
        CHECK_EQ(weft__failure_due(SYS_MAP), i == 3);
    CHECK_EQ(weft__sys_calls(SYS_MAP), 6);
}

static void persistent_fails_from_the_nth_on(void)
{
    weft__sys_fail(SYS_THREAD, 2, true);
    for (uint32_t i = 1; i <= 6; i++)
        CHECK_EQ(weft__failure_due(SYS_THREAD), i >= 2);
}

static void a_new_plan_begins_to_count_anew(void)
{
    weft__sys_fail(SYS_EPOLL, 1, true);
    CHECK(weft__failure_due(SYS_EPOLL));
    weft__sys_fail(SYS_EPOLL, 2, false);
    CHECK_EQ(weft__sys_calls(SYS_EPOLL), 0);
    CHECK(!weft__failure_due(SYS_EPOLL));
    CHECK(weft__failure_due(SYS_EPOLL));
    CHECK(!weft__failure_due(SYS_EPOLL));
    weft__sys_fail(SYS_EPOLL, 1, true);
    weft__sys_fail(SYS_EPOLL, 0, false);
    CHECK(!weft__failure_due(SYS_EPOLL));
}

static void kinds_do_not_mix(void)
{
    for (int call = 0; call < SYS_CALLS; call++)
        weft__sys_fail(call, 0, false);
    weft__sys_fail(SYS_GUARD, 1, true);
    for (int call = 0; call < SYS_CALLS; call++)
        CHECK_EQ(weft__failure_due(call), call == SYS_GUARD);
    weft__sys_fail(SYS_GUARD, 0, false);
}

static void *nothing(void *arg)
{
    return arg;
}

static void memory_calls_fail_on_demand(void)
{
    weft__sys_fail(SYS_ALLOC, 1, true);
    CHECK_PTR(weft__sys_alloc(16), NULL);
    CHECK_PTR(weft__sys_alloc_zeroed(16), NULL);
    CHECK_PTR(weft__sys_alloc_aligned(64, 128), NULL);
    CHECK_EQ(weft__sys_calls(SYS_ALLOC), 3);
    weft__sys_fail(SYS_ALLOC, 0, false);

    size_t page = weft__sys_page_size();
    weft__sys_fail(SYS_MAP, 1, false);
    CHECK_PTR(weft__sys_map(page), NULL);
    char *memory = weft__sys_map(page);
    CHECK(memory != NULL);
    weft__sys_fail(SYS_GUARD, 1, true);
    CHECK_EQ(weft__sys_guard_install(memory, page), -ENOMEM);
    CHECK_EQ(weft__sys_guard_mprotect(memory, page), -ENOMEM);
    weft__sys_fail(SYS_GUARD, 0, false);
    *memory = 1; /* a guard that was refused is not there */
    weft__sys_unmap(memory, page);
}

static void other_calls_fail_on_demand(void)
{
    weft__sys_thread thread = 0;
    weft__sys_fail(SYS_THREAD, 1, false);
    CHECK_EQ(weft__sys_thread_start(&thread, nothing, NULL), -EAGAIN);
    CHECK_EQ(thread, 0);
    CHECK_EQ(weft__sys_thread_start(&thread, nothing, NULL), 0);
    weft__sys_thread_join(thread);

    weft__sys_fail(SYS_EVENTFD, 1, true);
    CHECK_EQ(weft__sys_eventfd(), -EMFILE);
    CHECK_EQ(weft__sys_timerfd(), -EMFILE);
    weft__sys_fail(SYS_EVENTFD, 0, false);
    int event = weft__sys_eventfd();
    CHECK(event >= 0);

    weft__sys_fail(SYS_EPOLL, 1, false);
    CHECK_EQ(weft__sys_epoll_create(), -EMFILE);
    int epoll = weft__sys_epoll_create();
    CHECK(epoll >= 0);
    weft__sys_fail(SYS_EPOLL, 1, false);
    CHECK_EQ(weft__sys_epoll_add(epoll, event, 1, 7), -ENOSPC);
    CHECK_EQ(weft__sys_epoll_add(epoll, event, 1, 7), 0);
    weft__sys_close(event);
    weft__sys_close(epoll);
}

enum { THREADS = 4, CALLS = 1000 };

static void *call_many(void *failed)
{
    for (int i = 0; i < CALLS; i++)
        *(int *)failed += weft__failure_due(SYS_ALLOC);
    return NULL;
}

static void one_of_many_threads_gets_the_nth(void)
{
    pthread_t threads[THREADS];
    int failed[THREADS] = {0}, sum = 0;
    weft__sys_fail(SYS_ALLOC, THREADS * CALLS / 2, false);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, call_many, &failed[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        sum += failed[i];
    }
    CHECK_EQ(sum, 1);
    CHECK_EQ(weft__sys_calls(SYS_ALLOC), THREADS * CALLS);
    weft__sys_fail(SYS_ALLOC, 0, false);
}

int main(void)
{
    RUN(off_only_counts);
    RUN(nth_fails_once);
    RUN(persistent_fails_from_the_nth_on);
    RUN(a_new_plan_begins_to_count_anew);
    RUN(kinds_do_not_mix);
    RUN(memory_calls_fail_on_demand);
    RUN(other_calls_fail_on_demand);
    RUN(one_of_many_threads_gets_the_nth);
    return 0;
}
