/*
 * pool_results.c: tasks that return results.
 *
 * A handle gives the result and the error of a task, and can cancel it. A group over the pool gives
 * one answer for many tasks; its first error cancels the others.
 */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum { CAPACITY = 4, NUMBERS = 8 };

static int expect(int good, const char *what)
{
    if (!good)
        fprintf(stderr, "pool_results: expected %s\n", what);
    return good;
}

struct job {
    long number, square;
};

/* The square of a number; fails for a negative one. */
static int square(void *arg)
{
    struct job *job = arg;
    weft_sleep(10 * WEFT_MS);
    if (job->number < 0)
        return -EDOM;
    job->square = job->number * job->number;
    return 0;
}

/* Starts all tasks, which run concurrently, then waits for each. The pool keeps a copy of each job,
 * in which the task stores its answer. */
static int results(weft_pool *pool)
{
    const long numbers[NUMBERS] = {1, 2, 3, -4, 5, 6, 7, 8};
    weft_submit_options options = {.copy = sizeof(struct job)};
    weft_task *tasks[NUMBERS];
    long sum = 0;
    int failures = 0;
    for (int i = 0; i < NUMBERS; i++) {
        struct job job = {.number = numbers[i]};
        if (weft_task_start(&tasks[i], pool, square, &job, &options) != 0)
            return 0;
    }
    for (int i = 0; i < NUMBERS; i++) {
        const struct job *job = weft_task_arg(tasks[i]);
        int error;
        if (weft_task_wait(tasks[i], &error) != 0)
            return 0;
        if (error == 0)
            sum += job->square;
        else
            printf("the square of %ld: %s\n", job->number, weft_strerror(error)), failures++;
        weft_task_release(tasks[i]);
    }
    printf("the sum of the others: %ld\n", sum);
    return expect(sum == 188 && failures == 1, "188, and one error");
}

static int sleep_long(void *arg)
{
    (void)arg;
    return weft_sleep(3600 * WEFT_S); /* -ECANCELED when the task is cancelled */
}

static int cancelled(weft_pool *pool)
{
    weft_task *task;
    if (weft_task_start(&task, pool, sleep_long, NULL, NULL) != 0)
        return 0;
    int late = weft_task_wait_until(task, NULL, weft_after(10 * WEFT_MS)), result = 0;
    weft_task_cancel(task);
    int error = weft_task_wait(task, &result);
    weft_task_release(task);
    printf("waited 10 ms: %s; then cancelled: %s\n", weft_strerror(late), weft_strerror(result));
    return expect(late == -ETIMEDOUT && error == 0 && result == -ECANCELED,
                  "a timeout, then the end");
}

static int check_page(void *arg)
{
    int error = weft_sleep(*(const int *)arg == 3 ? WEFT_MS : 3600 * WEFT_S);
    return error != 0 ? error : -EPROTO; /* page 3 fails; the others are cancelled */
}

static int first_error(weft_pool *pool)
{
    weft_group *group;
    int pages[CAPACITY] = {1, 2, 3, 4};
    if (weft_pool_group(&group, pool, NULL) != 0)
        return 0;
    for (int i = 0; i < CAPACITY; i++)
        if (weft_group_go(group, check_page, &pages[i]) != 0)
            weft_group_cancel(group);
    int error = weft_group_close(group); /* waits for all tasks */
    printf("the group: %s\n", weft_strerror(error));
    return expect(error == -EPROTO, "the error of page 3");
}

int main(void)
{
    weft_pool *pool;
    if (weft_pool_open(&pool, &(weft_pool_options){.capacity = CAPACITY, .name = "results"}) != 0)
        return 1;
    int good = results(pool) && cancelled(pool) && first_error(pool);
    return weft_pool_close(pool) == 0 && good ? 0 : 1;
}
