/*
 * pthread.c: weft in a program with threads of its own.
 *
 * Wait groups work across threads and fibers: two plain threads start fibers, the fibers wait for a
 * start signal of main, and threads and main wait for the fibers.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { THREADS = 2, FIBERS = 1000 };

static weft_wg start, finished;
static atomic_int sum;

static void add_one(void *arg)
{
    (void)arg;
    weft_wg_wait(&start); /* parks the fiber, not its thread */
    atomic_fetch_add(&sum, 1);
    weft_wg_done(&finished);
}

static void *spawner(void *arg)
{
    for (int i = 0; i < FIBERS; i++)
        if (weft_go(add_one, NULL) != 0)
            weft_wg_done(&finished); /* main notices the missing result in the sum */
    weft_wg_wait(&finished);         /* blocks this thread */
    printf("thread %s: all fibers are through\n", (const char *)arg);
    return NULL;
}

int main(void)
{
    static char names[THREADS][2] = {"a", "b"};
    pthread_t threads[THREADS];
    weft_wg_init(&start, 1);
    weft_wg_init(&finished, THREADS * FIBERS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, spawner, names[i]) != 0)
            return 1;
    weft_wg_done(&start);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("sum: %d\n", atomic_load(&sum));
    return atomic_load(&sum) == THREADS * FIBERS ? 0 : 1;
}
