/*
 * state_crash.c: a failed assertion shows the state of the runtime, as far as it can still be read.
 */
#include <signal.h>

#include "base/assert.h"
#include "fibers.h"
#include "sched/check/state.h"
#include "sched/core/machine.h"
#include "sched/core/scheduler.h"
#include "sched/runtime/thread.h"

static weft_chan *never;

static void wait_forever(void *arg)
{
    CHECK_EQ(weft_chan_receive(never, NULL), 0);
}

static void fail(void *how)
{
    go_many(3, wait_forever, NULL);
    weft_yield();
    go_many(5, nothing, NULL);
    ((void (*)(void))(uintptr_t)how)();
}

static void run(void *how)
{
    weft_spawn_options options = {.name = "the failing one"};
    weft_fiber *fiber;
    configure(1);
    CHECK_EQ(weft_chan_make(&never, 0, 0), 0);
    CHECK_EQ(weft_spawn(&fiber, fail, how, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static const char *last_output;

static void check_aborts(void (*function)(void *), void *arg)
{
    int status = test_in_child(function, arg, &last_output);
    fprintf(stderr, "--- stderr of the child that must die:\n%s---\n", last_output);
    test_killed(status, SIGABRT);
}

/* The case must abort, and the report has the texts in this order. */
static void check_dies(void (*how)(void), const char *const *texts)
{
    check_aborts(run, (void *)(uintptr_t)how);
    const char *at = last_output;
    for (int i = 0; texts[i] != NULL; i++) {
        at = strstr(at, texts[i]);
        if (at == NULL)
            test_fail(__FILE__, __LINE__, "not in the report: %s", texts[i]);
    }
}

/* Keeps the processor: another machine could retake it, which changes what is shown. */
static void keep_processor(void)
{
    (void)runtime_enter(thread_self());
}

static void assertion(void)
{
    keep_processor();
    must(1 + 1 == 3);
}

static void an_assertion_shows_the_state(void)
{
    static const char *const words[] = {"this must hold and does not: 1 + 1 == 3",
                                        "weft: the runtime: 1 processors (0 idle)",
                                        "processor 0: runs fiber ",
                                        " (inside weft)",
                                        "; 4 ready and one next",
                                        "no timers",
                                        "1 running, 3 parked",
                                        "\"the failing one\" runs, spawned at ",
                                        NULL};
    check_dies(assertion, words);
}

static void misuse(void)
{
    weft_blocking_exit();
}

static void a_bug_of_the_program_shows_the_state(void)
{
    static const char *const words[] = {"weft_blocking_exit without weft_blocking_enter",
                                        "weft: the runtime: ", "\"the failing one\" runs", NULL};
    check_dies(misuse, words);
}

static void destroyed(void)
{
    keep_processor();
    atomic_ptr_store_relaxed(&weft_self()->extra, (void *)64); /* only the report reads it */
    must(!"it is destroyed");
}

static void a_destroyed_fiber_is_left_out(void)
{
    static const char *const words[] = {"it is destroyed",
                                        "weft: the runtime: ", "the rest cannot be read", NULL};
    check_dies(destroyed, words);
}

static void a_cycle(void)
{
    struct machine *machine = (struct machine *)thread_self();
    keep_processor();
    machine->next = machine;
    must(!"it is endless");
}

/* Lists are followed for a limited number of steps. */
static void no_list_is_followed_for_ever(void)
{
    static const char *const words[] = {"it is endless", "\"the failing one\" runs", NULL};
    check_dies(a_cycle, words);
}

/* No fiber runs, and the lists of machines and of slabs of fibers lead back to their beginning. The
 * fiber is the first of its slab, which begins with a pointer to the next slab. */
static void idle_cycles(void *arg)
{
    configure(1);
    weft_fiber *fiber = spawn(nothing, NULL);
    CHECK_EQ(weft_join(fiber), 0);
    void **slab = (void **)(void *)((char *)fiber - 64);
    CHECK_PTR(*slab, NULL);
    *slab = slab;
    lock_acquire(&weft__sched.lock); /* the machine would follow the list, too */
    weft__sched.machines->next = weft__sched.machines;
    must(!"it is endless");
}

static void no_list_of_an_idle_runtime_is_followed_for_ever(void)
{
    check_aborts(idle_cycles, NULL);
    const char *fibers = strstr(last_output, "it is endless");
    CHECK(fibers != NULL && (fibers = strstr(fibers, "weft:   fibers: 0 ready")) != NULL);
    unsigned long long records;
    CHECK((fibers = strstr(fibers, " crashed and more; ")) != NULL);
    CHECK_EQ(sscanf(fibers, " crashed and more; free or new: %llu\n", &records), 1);
    CHECK(records >= 512 && records % 512 == 0); /* the slab was visited so often */
}

/* A fiber whose state is no state, and a runtime that stops while fibers wait for stacks. */
static void a_strange_state(void)
{
    keep_processor();
    weft_self()->state = 200;
    atomic_u32_store_relaxed(&weft__sched.starving, 1);
    atomic_u32_store_relaxed(&weft__sched.stopping, 1);
    must(!"it is strange");
}

static void a_strange_state_is_shown(void)
{
    static const char *const words[] = {"it is strange", "; some wait for a stack; it stops",
                                        "0 running, 3 parked", NULL};
    check_dies(a_strange_state, words);
}

static void twice(void)
{
    keep_processor();
    weft__state_show();
    weft__state_show();
    must(!"it was shown");
}

static void it_is_shown_once(void)
{
    static const char *const words[] = {"weft: the runtime: ", "it was shown", NULL};
    check_dies(twice, words);
    CHECK_PTR(strstr(strstr(last_output, words[0]) + 1, words[0]), NULL);
}

/* A large runtime is shown in part. */

enum { PROCESSORS = 70, RUNNING = 40 };
static atomic_u32 running;

static void run_on(void *arg)
{
    atomic_u32_add_seq_cst(&running, 1);
    for (;;)
        usleep(1000);
}

static void fail_in_a_crowd(void *arg)
{
    configure(PROCESSORS);
    go_many(RUNNING, run_on, NULL);
    nap_until(&running, RUNNING);
    must(!"it is crowded");
}

static int count_of(const char *word)
{
    int count = 0;
    for (const char *at = last_output; (at = strstr(at, word)) != NULL; at++)
        count++;
    return count;
}

static void a_large_runtime_is_shown_in_part(void)
{
    check_aborts(fail_in_a_crowd, NULL);
    CHECK(strstr(last_output, "it is crowded") != NULL);
    CHECK(strstr(last_output, "  processor 63: ") != NULL);
    CHECK_PTR(strstr(last_output, "  processor 64: "), NULL);
    CHECK_EQ(count_of(" runs, spawned at "), 32);
}

int main(void)
{
    RUN_ALL(an_assertion_shows_the_state, a_bug_of_the_program_shows_the_state,
            a_destroyed_fiber_is_left_out, no_list_is_followed_for_ever,
            no_list_of_an_idle_runtime_is_followed_for_ever, a_strange_state_is_shown,
            it_is_shown_once, a_large_runtime_is_shown_in_part);
    return 0;
}
