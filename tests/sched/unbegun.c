/*
 * unbegun.c: a program that ends before any of its fibers has run is told so, and no other.
 *
 * Each case is a child in which weft has not run before. Whether a fiber begins before main ends is
 * open, so the cases that must be reported are repeated until one is; those that must not be
 * reported have a fiber that has begun for certain.
 */
#include <weft/weft.h>

#include "base/compiler.h"
#include "test.h"

enum { TRIES = 1000 };

static const char *output;

static void do_nothing(void *arg)
{
    (void)arg;
}

static void go_and_return(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++)
        CHECK_EQ(weft_go(do_nothing, NULL), 0);
    exit(0);
}

static void end_one_and_return(void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, do_nothing, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_go(do_nothing, NULL), 0);
    exit(0);
    (void)arg;
}

static void wait_for_ever(void *begun)
{
    CHECK_EQ(weft_chan_send(begun, NULL), 0);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), 0);
}

static void begin_one_and_return(void *arg)
{
    weft_chan *begun;
    CHECK_EQ(weft_chan_make(&begun, 0, 0), 0);
    CHECK_EQ(weft_go(wait_for_ever, begun), 0);
    CHECK_EQ(weft_chan_receive(begun, NULL), 0);
    CHECK_EQ(weft_go(do_nothing, NULL), 0);
    exit(0);
    (void)arg;
}

static void only_a_ticker(void *arg)
{
    weft_ticker *ticker;
    CHECK_EQ(weft_ticker_open(&ticker, weft_after(1000 * WEFT_S), 1000 * WEFT_S), 0);
    exit(0);
    (void)arg;
}

static bool says(void (*function)(void *), void *arg, const char *text)
{
    int status = test_in_child(function, arg, &output);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    return strstr(output, text) != NULL;
}

static void check_says(void (*function)(void *), void *arg, const char *text)
{
    for (int i = 0; i < TRIES; i++)
        if (says(function, arg, text))
            return;
    test_fail(__FILE__, __LINE__, "no \"%s\" in %d tries", text, (int)TRIES);
}

static void unbegun_fibers_are_reported(void)
{
    int one = 1, few = 3;
    check_says(go_and_return, &one, "weft: the program ends before its fibers begin (1 wait ");
    check_says(go_and_return, &few, "weft: the program ends before its fibers begin (3 wait ");
}

static void others_are_not(void)
{
    for (int i = 0; i < TRIES / 10; i++) /* its end may not be counted when its joiner goes on */
        CHECK(!says(end_one_and_return, NULL, "before its fibers begin"));
    CHECK(!says(begin_one_and_return, NULL, "before its fibers begin"));
    CHECK(!says(only_a_ticker, NULL, "before its fibers begin"));
}

int main(void)
{
    if (WEFT_TSAN)
        test_skip("the report is left out under ThreadSanitizer");
    RUN_PLAIN(unbegun_fibers_are_reported, "each case is a process of its own");
    RUN_PLAIN(others_are_not, "each case is a process of its own");
    return 0;
}
