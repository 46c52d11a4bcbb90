/*
 * panic.c: panics and clean-ups that are bugs of the program, or come where weft cannot keep record of anything:
 * each in a child, which must abort and say why.
 */
#include <pthread.h>
#include <signal.h>

#include "dying.h"
#include "failing.h"
#include "sched/core/park.h"
#include "sched/runtime/thread.h"
#include <weft/weft.h>

static WAIT_KIND(wait_test, .text = "waits in a test");

static weft_deferred record;

static void nothing(void *arg)
{
    (void)arg;
}

static void run_fiber(void (*function)(void *))
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void check_aborts(void (*function)(void), const char *text)
{
    check_dies(function, SIGABRT);
    CHECK(said(text));
}

/* Records. */

static void defer_no_function(void)
{
    weft_defer(&record, NULL, NULL);
}

static void run_of_another(void *arg)
{
    (void)arg;
    weft_deferred_run(&record);
}

static void drop_of_another(void *arg)
{
    (void)arg;
    weft_deferred_drop(&record);
}

static void run_elsewhere(void)
{
    weft_defer(&record, nothing, NULL);
    run_fiber(run_of_another);
}

static void drop_elsewhere(void)
{
    weft_defer(&record, nothing, NULL);
    run_fiber(drop_of_another);
}

static void drop_further_in(void)
{
    weft_defer(&record, nothing, NULL);
    CHECK_EQ(weft_recover(drop_of_another, NULL, NULL), 0);
}

static void records_are_their_makers(void)
{
    check_aborts(defer_no_function, "weft_defer was given no record or no function");
    check_aborts(run_elsewhere, "weft_deferred_run was called for what another fiber, thread");
    check_aborts(drop_elsewhere, "weft_deferred_drop was called for what another fiber, thread");
    check_aborts(drop_further_in, "weft_deferred_drop was called for what another fiber, thread");
}

/* On a thread that there is no memory to know. */

static void on_unknown_thread(void (*function)(void *))
{
    pthread_t thread;
    weft_defer(&record, nothing, NULL);
    CHECK_EQ(pthread_create(&thread, NULL, (void *(*)(void *))(uintptr_t)function, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void defer_unknown(void *arg)
{
    weft_deferred own;
    failing_on(OS_ALLOC, 1, true);
    weft_defer(&own, nothing, arg);
}

static void run_unknown(void *arg)
{
    failing_on(OS_ALLOC, 1, true);
    run_of_another(arg);
}

static void drop_unknown(void *arg)
{
    failing_on(OS_ALLOC, 1, true);
    drop_of_another(arg);
}

static void panic_unknown(void *arg)
{
    (void)arg;
    failing_on(OS_ALLOC, 1, true);
    weft_panic("nobody there");
}

static void defer_on_unknown_thread(void)
{
    on_unknown_thread(defer_unknown);
}

static void run_on_unknown_thread(void)
{
    on_unknown_thread(run_unknown);
}

static void drop_on_unknown_thread(void)
{
    on_unknown_thread(drop_unknown);
}

static void panic_on_unknown_thread(void)
{
    on_unknown_thread(panic_unknown);
}

static void an_unknown_thread_can_keep_nothing(void)
{
    check_aborts(defer_on_unknown_thread, "or there is no memory");
    check_aborts(run_on_unknown_thread, "weft_deferred_run was called for what another");
    check_aborts(drop_on_unknown_thread, "weft_deferred_drop was called for what another");
    check_aborts(panic_on_unknown_thread, "aborting: the panic is on a thread");
    CHECK(said("without memory to keep record of it: nobody there"));
}

/* In code of weft's own: between two fibers. */

static void panic_between(void *arg)
{
    (void)arg;
    weft_panic("where no fiber is");
}

static void park_badly(void *arg)
{
    struct waiter own;
    (void)arg;
    (void)runtime_enter(thread_self());
    (void)weft__park(weft__waiter_begin(&own), wait_id(&wait_test), panic_between, NULL,
                     WEFT_NEVER);
}

static void panic_in_machine(void)
{
    run_fiber(park_badly);
}

static void weft_itself_does_not_panic(void)
{
    check_aborts(panic_in_machine, "a panic, or a recover point, in code of weft's own");
}

/* A lock that nobody will unlock. */

#ifdef WEFT_DEBUG
static void end_with_lock(void *arg)
{
    static weft_mutex mutex = WEFT_MUTEX_INIT;
    (void)arg;
    weft_mutex_lock(&mutex);
}

static void end_holding(void)
{
    run_fiber(end_with_lock);
}

static void a_fiber_ends_with_a_lock(void)
{
    check_aborts(end_holding, "ended while it holds a lock");
}
#endif

int main(void)
{
    RUN(records_are_their_makers);
    RUN(an_unknown_thread_can_keep_nothing);
    RUN(weft_itself_does_not_panic);
#ifdef WEFT_DEBUG
    RUN(a_fiber_ends_with_a_lock);
#endif
    return 0;
}
