/*
 * pool.c: ten tasks on a pool of five: at most five run at the same time, and close waits for all.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { CAPACITY = 5, TASKS = 10 };

static atomic_int running, most, finished;

static void task(void *arg)
{
    int now = atomic_fetch_add(&running, 1) + 1;
    int before = atomic_load(&most);
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
        continue;
    printf("task %d of %d begins, %d at work\n", *(int *)arg, TASKS, now);
    weft_sleep(50 * WEFT_MS);
    atomic_fetch_sub(&running, 1);
    atomic_fetch_add(&finished, 1);
}

int main(void)
{
    weft_pool *pool;
    int numbers[TASKS];
    if (weft_pool_open(&pool, &(weft_pool_options){.capacity = CAPACITY}) != 0)
        return 1;
    for (int i = 0; i < TASKS; i++) {
        numbers[i] = i + 1;
        int error = weft_pool_submit(pool, task, &numbers[i]); /* blocks while five run */
        if (error != 0) {
            fprintf(stderr, "pool: task %d: %s\n", i + 1, weft_strerror(error));
            return 1;
        }
    }
    int error = weft_pool_close(pool); /* waits for all tasks */
    printf("%d tasks have run, %d at once\n", finished, most);
    if (error != 0 || finished != TASKS || running != 0 || most > CAPACITY) {
        fprintf(stderr, "pool: expected %d tasks, no more than %d at once\n", TASKS, CAPACITY);
        return 1;
    }
    return 0;
}
