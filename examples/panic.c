/*
 * panic.c: some jobs panic; the others complete, and each failure is reported.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { JOBS = 8 };

static weft_mutex lock = WEFT_MUTEX_INIT;
static int done, bad;

static void unlock(void *mutex)
{
    weft_mutex_unlock(mutex);
}

static void job(void *arg)
{
    int number = *(int *)arg;
    char *memory = malloc(100);
    WEFT_DEFER(free, memory); /* also if the job panics */
    weft_sleep(WEFT_MS);
    weft_mutex_lock(&lock);
    WEFT_DEFER(unlock, &lock);
    if (number % 3 == 2)
        weft_panic("job %d cannot be done", number);
    done++;
}

static void told(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
    (void)function;
    (void)arg;
    (void)data;
    weft_mutex_lock(&lock);
    bad++;
    weft_mutex_unlock(&lock);
    printf("told: %s\n", info->message);
}

int main(void)
{
    int numbers[JOBS];
    weft_pool *pool;
    weft_panic_info info;

    /* In the caller. */
    numbers[0] = 2;
    if (weft_recover(job, &numbers[0], &info) == -EOWNERDEAD)
        printf("recovered: %s\n", info.message);

    /* In a pool. */
    if (weft_pool_open(&pool, &(weft_pool_options){.capacity = 4, .on_panic = told}) != 0)
        return 1;
    for (int i = 0; i < JOBS; i++) {
        numbers[i] = i;
        if (weft_pool_submit(pool, job, &numbers[i]) != 0)
            return 1;
    }
    if (weft_pool_close(pool) != 0)
        return 1;

    /* In a fiber of its own. */
    weft_fiber *fiber;
    weft_spawn_options options = {.name = "lonely"};
    if (weft_spawn(&fiber, job, &numbers[5], &options) != 0 ||
        weft_join_panic(fiber, &info, WEFT_NEVER) != -EOWNERDEAD)
        return 1;
    printf("fiber \"%s\" ended: %s\n", info.fiber_name, info.message);

    printf("%d done, %d bad\n", done, bad);
    return done == 6 && bad == 2 ? 0 : 1;
}
