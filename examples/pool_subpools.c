/*
 * pool_subpools.c: pools that share one limit.
 *
 * Four connections to a database, at most three of them for reports. Thousands of tasks of each
 * kind are queued, and neither kind keeps the other out.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { CONNECTIONS = 4, FOR_REPORTS = 3, TASKS = 300 };

static atomic_int connections, most, reports, most_reports;

static void note_most(atomic_int *now, atomic_int *highest)
{
    int value = atomic_fetch_add(now, 1) + 1, before = atomic_load(highest);
    while (value > before && !atomic_compare_exchange_weak(highest, &before, value))
        continue;
}

static void query(void *arg)
{
    (void)arg;
    note_most(&connections, &most);
    weft_sleep(100 * WEFT_US);
    atomic_fetch_sub(&connections, 1);
}

static void report(void *arg)
{
    note_most(&reports, &most_reports);
    query(arg);
    atomic_fetch_sub(&reports, 1);
}

static int submit_both(weft_pool *for_reports, weft_pool *for_pages)
{
    int error = 0;
    for (int i = 0; i < TASKS && error == 0; i++) {
        error = weft_pool_submit(for_reports, report, NULL);
        if (error == 0)
            error = weft_pool_submit(for_pages, query, NULL);
    }
    return error;
}

int main(void)
{
    weft_pool *database, *for_reports, *for_pages;
    weft_pool_options all = {.capacity = CONNECTIONS};
    if (weft_pool_open(&database, &all) != 0)
        return 1;
    weft_pool_options some = {.parent = database, .capacity = FOR_REPORTS, .queue = TASKS};
    weft_pool_options rest = {.parent = database, .queue = TASKS};
    if (weft_pool_open(&for_reports, &some) != 0 || weft_pool_open(&for_pages, &rest) != 0)
        return 1;
    int error = submit_both(for_reports, for_pages);
    weft_pool_close(for_pages); /* sub-pools first: the parent would return -EBUSY */
    weft_pool_close(for_reports);
    weft_pool_close(database);
    printf("%d tasks: at most %d connections, %d of them for reports\n", 2 * TASKS,
           atomic_load(&most), atomic_load(&most_reports));
    return error != 0 || most > CONNECTIONS || most_reports > FOR_REPORTS;
}
