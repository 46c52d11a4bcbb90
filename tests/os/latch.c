/*
 * latch.c: one holder at a time; a thread that waits long gives up its CPU; the next holder may
 * free the latch.
 */
#include "os/latch.h"

#include <pthread.h>
#include <sched.h>

#include "test.h"

enum { THREADS = 4 };

static struct latch latch;
static int64_t rounds;

/* Under the latch; plain on purpose. */
static int64_t counter;
static int inside;

static void one_holder(void)
{
    CHECK(latch_try(&latch));
    CHECK(!latch_try(&latch));
    latch_release(&latch);
    CHECK(latch_try(&latch));
    latch_release(&latch);
    latch_acquire(&latch);
    CHECK(!latch_try(&latch));
    latch_release(&latch);
    CHECK(latch_try(&latch));
    latch_release(&latch);
}

static void run_threads(void *(*function)(void *), pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, function, NULL), 0);
}

static void join_threads(const pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void *count_up(void *arg)
{
    for (int64_t i = 0; i < rounds; i++) {
        if (i % 8 != 0 || !latch_try(&latch)) /* now and then by a try */
            latch_acquire(&latch);
        CHECK_EQ(inside, 0);
        inside = 1;
        counter++;
        if (i % 1024 == 0)
            sched_yield(); /* so that the others take the slow path */
        inside = 0;
        latch_release(&latch);
    }
    return arg;
}

static void excludes(void)
{
    pthread_t threads[THREADS];
    rounds = test_scale(100000);
    counter = 0;
    run_threads(count_up, threads);
    join_threads(threads);
    CHECK_EQ(counter, THREADS * rounds);
}

static atomic_u32 arrived, waiting_thread;

static void *count_one(void *arg)
{
    atomic_u32_add_seq_cst(&arrived, 1);
    atomic_u32_store_release(&waiting_thread, (uint32_t)gettid());
    latch_acquire(&latch);
    CHECK(!latch_try(&latch)); /* held, whichever way it was acquired */
    counter++;
    latch_release(&latch);
    return arg;
}

static void no_thread_passes_while_it_is_held(void)
{
    for (int64_t round = 0; round < test_scale(100); round++) {
        pthread_t threads[THREADS];
        counter = 0;
        atomic_u32_store_relaxed(&arrived, 0);
        latch_acquire(&latch);
        run_threads(count_one, threads);
        while (atomic_u32_load_acquire(&arrived) < THREADS)
            sched_yield();
        CHECK_EQ(counter, 0);
        latch_release(&latch);
        join_threads(threads);
        CHECK_EQ(counter, THREADS);
    }
}

/* How often a thread of this process has slept; -1 if that cannot be known. */
static long sleeps_of(uint32_t thread)
{
    static const char label[] = "voluntary_ctxt_switches:";
    char path[64], line[256];
    long sleeps = -1;
    snprintf(path, sizeof path, "/proc/self/task/%u/status", thread);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    while (sleeps < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, label, sizeof label - 1) == 0)
            sleeps = strtol(line + sizeof label - 1, NULL, 10);
    fclose(file);
    return sleeps;
}

static void a_long_wait_sleeps(void)
{
    pthread_t thread;
    uint32_t id;
    counter = 0;
    atomic_u32_store_relaxed(&waiting_thread, 0);
    latch_acquire(&latch);
    CHECK_EQ(pthread_create(&thread, NULL, count_one, NULL), 0);
    while ((id = atomic_u32_load_acquire(&waiting_thread)) == 0)
        sched_yield();
    long first = sleeps_of(id);
    while (first >= 0 && sleeps_of(id) < first + 10)
        sched_yield();
    CHECK_EQ(counter, 0);
    latch_release(&latch);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(counter, 1);
    if (first < 0)
        printf("  not checked: /proc does not tell\n");
}

/* Each object is locked once by each of two threads; the second of them frees it. */

struct object {
    struct latch latch;
    int visits;
};

static struct object *objects[50000];

static void *visit_all(void *arg)
{
    for (int64_t i = 0; i < rounds; i++) {
        struct object *object = objects[i];
        latch_acquire(&object->latch);
        bool last = ++object->visits == 2;
        if (last)
            free(object); /* with its latch held, as a destroy does */
        else
            latch_release(&object->latch);
    }
    return arg;
}

static void the_next_holder_may_free_it(void)
{
    pthread_t threads[2];
    int64_t most = sizeof objects / sizeof objects[0];
    rounds = test_scale(most) < most ? test_scale(most) : most;
    for (int64_t i = 0; i < rounds; i++) {
        objects[i] = calloc(1, sizeof *objects[i]);
        CHECK(objects[i] != NULL);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, visit_all, NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    RUN_ALL_PLAIN("about plain threads", one_holder, excludes, no_thread_passes_while_it_is_held,
                  a_long_wait_sleeps, the_next_holder_may_free_it);
    return 0;
}
