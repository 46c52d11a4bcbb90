/*
 * ticker.c: a loop that takes jobs, reports every 10 ms, and stops on request.
 *
 * The producer selects between sending its job and a request to stop; the consumer selects between
 * a job and the next tick. After five reports the consumer requests the stop, and receives the jobs
 * that are still sent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { PERIOD_MS = 10, REPORTS = 5 };

struct work {
    weft_chan *jobs, *stop;
    long sent; /* the sum of all jobs; the producer's until it closes jobs */
};

static void produce(void *arg)
{
    struct work *work = arg;
    long job = 1;
    weft_case cases[] = {
        {.chan = work->jobs, .op = WEFT_SEND, .element = &job},
        {.chan = work->stop, .op = WEFT_RECEIVE},
    };
    while (weft_select(cases, 2) == 0) {
        work->sent += job++;
        weft_sleep(WEFT_MS);
    }
    weft_chan_close(work->jobs);
}

/* Receives until jobs is closed; returns the sum. */
static long consume(struct work *work, weft_ticker *ticker, int64_t first_tick)
{
    long job, sum = 0;
    int64_t tick, earliest = first_tick;
    int reports = 0;
    weft_case cases[] = {
        {.chan = work->jobs, .op = WEFT_RECEIVE, .element = &job},
        {.chan = weft_ticker_chan(ticker), .op = WEFT_RECEIVE, .element = &tick},
    };
    for (;;) {
        int happened = weft_select(cases, 2);
        if (happened == 0 && cases[0].result == 0) {
            sum += job;
        } else if (happened == 1) {
            if (tick < earliest || weft_now() < tick) {
                fprintf(stderr, "ticker: a tick was early\n");
                exit(1);
            }
            earliest = tick + 1;
            printf("%3ld ms: jobs worth %ld\n", (long)((tick - first_tick) / WEFT_MS) + PERIOD_MS,
                   sum);
            if (++reports == REPORTS) {
                cases[1].chan = NULL; /* disable the case: no more ticks */
                weft_chan_close(work->stop);
            }
        } else {
            return sum;
        }
    }
}

int main(void)
{
    struct work work = {.sent = 0};
    weft_ticker *ticker;
    int64_t first_tick = weft_after(PERIOD_MS * WEFT_MS);
    if (weft_chan_make(&work.jobs, sizeof(long), 0) != 0 || weft_chan_make(&work.stop, 0, 0) != 0 ||
        weft_ticker_open(&ticker, first_tick, PERIOD_MS * WEFT_MS) != 0 ||
        weft_go(produce, &work) != 0)
        return 1;

    long sum = consume(&work, ticker, first_tick);
    printf("sent jobs worth %ld, received %ld\n", work.sent, sum);

    weft_ticker_close(ticker);
    weft_chan_destroy(work.jobs);
    weft_chan_destroy(work.stop);
    if (sum != work.sent) {
        fprintf(stderr, "ticker: jobs were lost\n");
        return 1;
    }
    return 0;
}
