/*
 * panic_crash.c: panics and deferred calls that are bugs of the program, or come where weft has no
 * memory for a record: each in a child, which must abort with a report.
 */
#include <signal.h>

#include "dying.h"
#include "failing.h"
#include "fibers.h"
#include "sched/core/park.h"
#include "sched/runtime/thread.h"

static WAIT_KIND(wait_test, .text = "waits in a test");

static weft_deferred record;

static void check_aborts(void (*function)(void), const char *text)
{
    check_dies(function, SIGABRT);
    CHECK(said(text));
}

static void defer_no_function(void)
{
    weft_defer(&record, NULL, NULL);
}

static void run_of_another(void *arg)
{
    weft_deferred_run(&record);
}

static void drop_of_another(void *arg)
{
    weft_deferred_drop(&record);
}

static void run_elsewhere(void)
{
    weft_defer(&record, nothing, NULL);
    run_fiber(run_of_another, NULL);
}

static void drop_elsewhere(void)
{
    weft_defer(&record, nothing, NULL);
    run_fiber(drop_of_another, NULL);
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

/* On a thread for whose record there is no memory. */

static void (*unknown)(void *);

static void on_unknown_thread(void)
{
    weft_defer(&record, nothing, NULL);
    run_thread(unknown, NULL);
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
    failing_on(OS_ALLOC, 1, true);
    weft_panic("on no thread");
}

static void an_unknown_thread_can_keep_nothing(void)
{
    static const struct {
        void (*function)(void *);
        const char *text;
    } cases[] = {{defer_unknown, "or there is no memory"},
                 {run_unknown, "weft_deferred_run was called for what another"},
                 {drop_unknown, "weft_deferred_drop was called for what another"},
                 {panic_unknown, "aborting: the panic is on a thread"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unknown = cases[i].function;
        check_aborts(on_unknown_thread, cases[i].text);
    }
    CHECK(said("without memory to keep record of it: on no thread"));
}

/* In weft's own code, between two fibers. */

static void panic_between(void *arg)
{
    weft_panic("where no fiber is");
}

static void park_badly(void *arg)
{
    struct waiter own;
    (void)runtime_enter(thread_self());
    (void)weft__park(weft__waiter_begin(&own), wait_id(&wait_test), panic_between, NULL,
                     WEFT_NEVER);
}

static void panic_in_machine(void)
{
    run_fiber(park_badly, NULL);
}

static void weft_itself_does_not_panic(void)
{
    check_aborts(panic_in_machine, "a panic, or a recover point, in code of weft's own");
}

/* A lock that no fiber will unlock. */

#ifdef WEFT_DEBUG
static void end_with_lock(void *arg)
{
    static weft_mutex mutex = WEFT_MUTEX_INIT;
    weft_mutex_lock(&mutex);
}

static void end_holding(void)
{
    run_fiber(end_with_lock, NULL);
}

static void a_fiber_ends_with_a_lock(void)
{
    check_aborts(end_holding, "ended while it holds a lock");
}
#endif

int main(void)
{
    RUN_ALL(records_are_their_makers, an_unknown_thread_can_keep_nothing,
            weft_itself_does_not_panic);
#ifdef WEFT_DEBUG
    RUN(a_fiber_ends_with_a_lock);
#endif
    return 0;
}
