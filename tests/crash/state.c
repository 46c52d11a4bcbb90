/*
 * state.c: an assertion that fails shows what the runtime was doing, whatever of it can still be read.
 */
#include <signal.h>

#include "base/assert.h"
#include "sched/sched.h"
#include "test.h"
#include <weft/weft.h>

static weft_chan *never;

static void wait_forever(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_chan_receive(never, NULL), 0);
}

static void be_ready(void *arg)
{
    (void)arg;
}

static void fail(void *how)
{
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_go(wait_forever, NULL), 0);
    weft_yield();
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_go(be_ready, NULL), 0);
    ((void (*)(void))(uintptr_t)how)();
}

static void run(void *how)
{
    weft_config config = {.processors = 1};
    weft_spawn_options options = {.name = "who fails"};
    weft_fiber *fiber;
    CHECK_EQ(weft_configure(&config), 0);
    CHECK_EQ(weft_chan_make(&never, 0, 0), 0);
    CHECK_EQ(weft_spawn(&fiber, fail, how, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void check_dies(void (*how)(void), const char *const *words)
{
    const char *output;
    int status = test_in_child(run, (void *)(uintptr_t)how, &output);
    fprintf(stderr, "--- stderr of the child that must die:\n%s---\n", output);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    const char *at = output;
    for (int i = 0; words[i] != NULL; i++) { /* in this order */
        at = strstr(at, words[i]);
        if (at == NULL)
            test_fail(__FILE__, __LINE__, "not said there: %s", words[i]);
    }
}

static void assertion(void)
{
    (void)runtime_enter(thread_self()); /* or others take the processor if this takes long */
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
                                        "\"who fails\" runs, spawned at ",
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
                                        "weft: the runtime: ", "\"who fails\" runs", NULL};
    check_dies(misuse, words);
}

static void destroyed(void)
{
    atomic_ptr_store_relaxed(&weft_self()->extra, (void *)64); /* only who shows it reads it */
    must(!"it is destroyed");
}

static void what_is_destroyed_is_left_out(void)
{
    static const char *const words[] = {"it is destroyed",
                                        "weft: the runtime: ", "the rest cannot be read", NULL};
    check_dies(destroyed, words);
}

static void a_cycle(void)
{
    struct machine *machine = (struct machine *)thread_self();
    machine->next = machine;
    must(!"it is endless");
}

/* Lists are followed for so many steps only. */
static void nothing_is_followed_for_ever(void)
{
    static const char *const words[] = {"it is endless", "\"who fails\" runs", NULL};
    check_dies(a_cycle, words);
}

int main(void)
{
    RUN(an_assertion_shows_the_state);
    RUN(a_bug_of_the_program_shows_the_state);
    RUN(what_is_destroyed_is_left_out);
    RUN(nothing_is_followed_for_ever);
    return 0;
}
