/*
 * pool_schedule.c: delayed and periodic tasks of a pool.
 *
 * Sessions expire unless they are used in time, and a report is written every 10 ms, on the same
 * few workers as all other tasks.
 */
#include <stdio.h>
#include <weft/weft.h>

enum { SESSIONS = 3, REPORTS = 3 };

struct session {
    int number;
    int expired;
    weft_schedule *timeout;
};

static int expect(int good, const char *what)
{
    if (!good)
        fprintf(stderr, "pool_schedule: expected %s\n", what);
    return good;
}

static void expire(void *arg)
{
    struct session *session = arg;
    session->expired = 1;
    printf("session %d expired\n", session->number);
}

/* Runs a number of times, then cancels its own schedule. */
struct reports {
    int made;
    weft_schedule *schedule;
    weft_wg done;
};

static void report(void *arg)
{
    struct reports *reports = arg;
    printf("report %d\n", ++reports->made);
    if (reports->made == REPORTS) {
        (void)weft_schedule_cancel(reports->schedule); /* 1: this run is the last */
        weft_wg_done(&reports->done);
    }
}

static int sessions(weft_pool *pool)
{
    struct session all[SESSIONS] = {{.number = 1}, {.number = 2}, {.number = 3}};
    weft_schedule_stats stats;
    for (int i = 0; i < SESSIONS; i++) {
        /* The second session is used, so it does not expire. */
        int64_t delay = i == 1 ? 3600 * WEFT_S : 5 * WEFT_MS;
        if (weft_pool_submit_after(pool, expire, &all[i], delay, &all[i].timeout) != 0)
            return 0;
    }
    int good = expect(weft_schedule_cancel(all[1].timeout) == 0, "a session that is used in time");
    for (int i = 0; i < SESSIONS; i++) {
        do { /* the other sessions expire */
            (void)weft_sleep(WEFT_MS);
            (void)weft_schedule_stats_get(all[i].timeout, &stats);
        } while (stats.runs == 0 && i != 1);
        weft_schedule_release(all[i].timeout);
    }
    return good && expect(all[0].expired && !all[1].expired && all[2].expired, "two that are not");
}

static int reporting(weft_pool *pool)
{
    struct reports reports = {.made = 0};
    if (weft_wg_init(&reports.done, 1) != 0 ||
        weft_pool_submit_every(pool, report, &reports, 10 * WEFT_MS, &reports.schedule) != 0)
        return 0;
    if (weft_wg_wait(&reports.done) != 0 || weft_pool_wait(pool, WEFT_NEVER) != 0)
        return 0;
    weft_schedule_release(reports.schedule);
    return expect(reports.made == REPORTS, "three reports");
}

static void lost(void (*function)(void *), void *arg, void *data)
{
    (void)function;
    *(int *)data += 1;
    printf("session %d ends with the pool\n", ((struct session *)arg)->number);
}

int main(void)
{
    int dropped = 0;
    struct session last = {.number = 4};
    weft_pool *pool;
    weft_pool_options options = {.capacity = 2, .queue = 10, .on_drop = lost, .data = &dropped};
    if (weft_pool_open(&pool, &options) != 0)
        return 1;
    int good = sessions(pool) && reporting(pool) &&
               weft_pool_submit_after(pool, expire, &last, 3600 * WEFT_S, NULL) == 0;
    if (weft_pool_close(pool) !=
        0) /* calls on_drop for the hour-long schedule instead of waiting */
        return 1;
    return good && expect(dropped == 1, "one that is dropped") ? 0 : 1;
}
