/*
 * unbegun.c: a program that ends before any of its fibers has begun gets a report, and no other
 * program does.
 *
 * Each case is a child in which weft has not run before. A fiber may begin before main ends, so a
 * case that must be reported is repeated until it is; a case that must not be reported has a fiber
 * that has begun for certain.
 */
#include "base/compiler.h"
#include "fibers.h"

enum { TRIES = 1000 };

static const char *output;

static void go_and_return(void *arg)
{
    go_many(*(int *)arg, nothing, NULL);
    exit(0);
}

static void end_one_and_return(void *arg)
{
    run_fiber(nothing, NULL);
    CHECK_EQ(weft_go(nothing, NULL), 0);
    exit(0);
}

static void wait_for_ever(void *begun)
{
    CHECK_EQ(weft_chan_send(begun, NULL), 0);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), 0);
}

static void begin_one_and_return(void *arg)
{
    weft_chan *begun = make_chan(0, 0);
    CHECK_EQ(weft_go(wait_for_ever, begun), 0);
    CHECK_EQ(weft_chan_receive(begun, NULL), 0);
    CHECK_EQ(weft_go(nothing, NULL), 0);
    exit(0);
}

static void only_a_ticker(void *arg)
{
    weft_ticker *ticker;
    CHECK_EQ(weft_ticker_open(&ticker, weft_after(1000 * WEFT_S), 1000 * WEFT_S), 0);
    exit(0);
}

static bool says(void (*function)(void *), void *arg, const char *text)
{
    int status = test_in_child(function, arg, &output);
    test_exited(status, 0);
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
    for (int i = 0; i < TRIES / 10;
         i++) /* the end of a fiber may be counted after its joiner goes on */
        CHECK(!says(end_one_and_return, NULL, "before its fibers begin"));
    CHECK(!says(begin_one_and_return, NULL, "before its fibers begin"));
    CHECK(!says(only_a_ticker, NULL, "before its fibers begin"));
}

int main(void)
{
    if (WEFT_TSAN)
        test_skip("the report is left out under ThreadSanitizer");
    RUN_ALL_PLAIN("each case is a process of its own", unbegun_fibers_are_reported, others_are_not);
    return 0;
}
