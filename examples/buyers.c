/*
 * buyers.c: a test under a thousand seeds (docs/testing.md).
 *
 * The check and the sale are one critical section. Split them into two, each with its own lock, and
 * some seed finds the moment between them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/test.h>
#include <weft/weft.h>

static weft_mutex mutex = WEFT_MUTEX_INIT;
static int stock;

static void check(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "failed: %s\n", what);
    abort();
}

static void buy(void *arg)
{
    int *bought = arg;
    weft_mutex_lock(&mutex);
    if (stock > 0) {
        stock--;
        ++*bought;
    }
    weft_mutex_unlock(&mutex);
}

static void two_buyers(void *arg)
{
    (void)arg;
    weft_wg wg = WEFT_WG_INIT;
    int bought = 0;
    stock = 1;
    for (int i = 0; i < 2; i++)
        check(weft_wg_go(&wg, buy, &bought) == 0, "a buyer comes");
    check(weft_wg_wait(&wg) == 0, "both go");
    check(stock == 0 && bought == 1, "one has got it");
}

/* Waits an hour of virtual time for a reply that does not come. */
static void no_reply(void *arg)
{
    (void)arg;
    weft_chan *replies;
    int reply;
    int64_t start = weft_now();
    check(weft_chan_make(&replies, sizeof reply, 0) == 0, "a channel is made");
    check(weft_chan_receive_until(replies, &reply, weft_after(3600 * WEFT_S)) == -ETIMEDOUT,
          "no reply");
    check(weft_now() - start == 3600 * WEFT_S, "an hour has passed, exactly");
    weft_chan_destroy(replies);
}

int main(void)
{
    if (weft_test_seeds(&(weft_test_options){.seeds = 1000}, two_buyers, NULL) != 0 ||
        weft_test_run(42, no_reply, NULL) != 0)
        return 1;
    printf("two buyers under 1000 seeds, and an hour without a reply\n");
    return 0;
}
