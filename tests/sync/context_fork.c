/*
 * context_fork.c: contexts, groups and tickers in a forked child, where weft does not run.
 */
#include "bodies.h"

static int poisoned;
static void *const poison = &poisoned;

static weft_context *context;
static weft_group *group;
static weft_ticker *ticker;

static int sleep_on(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_NEVER);
}

static void contexts_in_child(void)
{
    weft_context *made = poison;
    weft_chan *done = poison;
    CHECK_EQ(weft_context_open(&made, NULL, NULL), -ECHILD);
    CHECK_EQ(weft_context_bind(context, &made), -ECHILD);
    CHECK_PTR(made, poison);
    CHECK_EQ(weft_context_done(context, &done), -ECHILD);
    CHECK_PTR(done, poison);
    CHECK_EQ(weft_context_error(context), 0);
    weft_context_cancel(context);
    weft_context_close(context);
}

static void groups_in_child(void)
{
    weft_group *made = poison;
    CHECK_EQ(weft_group_open(&made, NULL), -ECHILD);
    CHECK_PTR(made, poison);
    CHECK_EQ(weft_group_go(group, sleep_on, NULL), -ECHILD);
    CHECK_EQ(weft_group_try_go(group, sleep_on, NULL), -ECHILD);
    int error = 77, number = 0;
    weft_chan *done = poison;
    CHECK_EQ(weft_group_go_copy(group, sleep_on, &number, sizeof number), -ECHILD);
    CHECK_EQ(weft_group_wait(group, &error), -ECHILD);
    CHECK_EQ(error, 77);
    CHECK_EQ(weft_group_set_limit(group, 1), -ECHILD);
    CHECK_EQ(weft_group_done(group, &done), -ECHILD);
    CHECK_PTR(done, poison);
    CHECK_EQ(weft_group_close(group), -ECHILD);
    weft_group_cancel(group);
}

static void tickers_in_child(void)
{
    weft_ticker *made = poison;
    CHECK_EQ(weft_ticker_open(&made, WEFT_NOW, 0), -ECHILD);
    CHECK_PTR(made, poison);
    CHECK_EQ(weft_ticker_reset(ticker, WEFT_NOW, 0), -ECHILD);
    CHECK_EQ(weft_ticker_stop(ticker), -ECHILD);
    CHECK_EQ(weft_ticker_close(ticker), -ECHILD);
}

/* What the child did is nothing to the parent. */
static void in_a_forked_child(void)
{
    weft_context_options options = {.timeout = 1000 * WEFT_S};
    CHECK_EQ(weft_context_open(&context, NULL, &options), 0);
    CHECK_EQ(weft_group_open(&group, NULL), 0);
    CHECK_EQ(weft_group_go(group, sleep_on, NULL), 0);
    CHECK_EQ(weft_ticker_open(&ticker, WEFT_NEVER, 0), 0);
    in_fork(contexts_in_child);
    in_fork(groups_in_child);
    in_fork(tickers_in_child);
    CHECK_EQ(weft_context_error(context), 0);
    weft_context_close(context);
    CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
    weft_group_cancel(group);
    CHECK_EQ(weft_group_close(group), -ECANCELED);
    CHECK_EQ(weft_ticker_reset(ticker, WEFT_NOW, 0), 0);
    CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), NULL), 0);
    CHECK_EQ(weft_ticker_close(ticker), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

int main(void)
{
    RUN_PLAIN(in_a_forked_child, "forks");
    return 0;
}
