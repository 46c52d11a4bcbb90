/*
 * group_results.c: a group that collects results.
 *
 * It returns all results in order without memory of the caller, raises its limit while it runs, and
 * ends as a case of a select.
 */
#include <stdio.h>
#include <weft/weft.h>

enum { ROWS = 12 };

struct row {
    int number;
    long primes; /* below number * 1000 */
};

static int is_prime(long n)
{
    for (long d = 2; d * d <= n; d++)
        if (n % d == 0)
            return 0;
    return n > 1;
}

/* Receives a copy of the row, and stores the answer there. */
static int count_primes(void *arg)
{
    struct row *row = arg;
    if (row->number == 7)
        return -EDOM; /* this one fails; the others go on */
    for (long n = 2; n < row->number * 1000L; n++)
        row->primes += is_prime(n);
    return 0;
}

/* Prints progress until all have ended. */
static int await(weft_group *group)
{
    weft_chan *done;
    int error = weft_group_done(group, &done);
    while (error == 0) {
        weft_case cases[] = {{.chan = done, .op = WEFT_RECEIVE}};
        int chosen = weft_select_until(cases, 1, weft_after(100 * WEFT_MS));
        if (chosen != -ETIMEDOUT)
            return chosen < 0 ? chosen : 0;
        printf("%ld still run\n", (long)weft_group_running(group));
    }
    return error;
}

int main(void)
{
    weft_group *group;
    weft_group_options options = {.limit = 1, .collect = 1, .keep_going = 1};
    if (weft_group_open(&group, &options) != 0)
        return 1;
    for (int i = 1; i <= ROWS; i++) {
        struct row row = {.number = i};
        if (weft_group_go_copy(group, count_primes, &row, sizeof row) != 0)
            return 1;
        if (i == 4 && weft_group_set_limit(group, 4) != 0)
            return 1;
    }
    if (await(group) != 0)
        return 1;
    int good = 0;
    for (int64_t i = 0; i < weft_group_count(group); i++) {
        int error;
        void *arg;
        if (weft_group_result(group, i, &error, &arg) != 0)
            return 1;
        const struct row *row = arg;
        if (error == 0)
            printf("below %5d: %ld primes\n", row->number * 1000, row->primes);
        else
            printf("below %5d: %s\n", row->number * 1000, weft_strerror(error));
        good += error == 0;
    }
    int error = weft_group_close(group);
    return error == -EDOM && good == ROWS - 1 ? 0 : 1;
}
