/*
 * glib.c: GLib's GThreadPool, exclusive, with as many threads as processors. Its queue has no
 * bound, so a submitter never waits. A task that waits holds its thread, so only the cases without
 * waiting are here.
 */
#include <glib.h>

#include "peer.h"

struct submitter {
    GThreadPool *pool;
    long tasks;
};

static void nothing(gpointer data, gpointer user_data)
{
    (void)data;
    (void)user_data;
}

static gpointer submit(gpointer arg)
{
    struct submitter *submitter = arg;
    for (long i = 0; i < submitter->tasks; i++)
        g_thread_pool_push(submitter->pool, submitter, NULL);
    return NULL;
}

static double measure_noop(struct peer_round *round)
{
    enum { SUBMITTERS_MOST = 8 };
    GThread *threads[SUBMITTERS_MOST];
    long tasks = peer_amount(round, 1000 * 1000);
    struct submitter submitter = {.tasks = tasks / round->size};
    int64_t start = peer_now();
    submitter.pool = g_thread_pool_new(nothing, NULL, round->processors, TRUE, NULL);
    PEER_CHECK(submitter.pool != NULL);
    if (round->size == 1) {
        submit(&submitter);
    } else {
        for (long i = 0; i < round->size; i++)
            threads[i] = g_thread_new("submitter", submit, &submitter);
        for (long i = 0; i < round->size; i++)
            g_thread_join(threads[i]);
    }
    g_thread_pool_free(submitter.pool, FALSE, TRUE); /* waits until all have run */
    int64_t elapsed = peer_now() - start;
    PEER_PARAMS(round, "from=thread submitters=%ld tasks=%ld capacity=none", round->size, tasks);
    return (double)elapsed / (double)tasks;
}

int main(int argc, char **argv)
{
    static const struct peer_case cases[] = {
        {.name = "pool_noop", .unit = "ns/op", .measure = measure_noop, .size = 1},
        {.name = "pool_noop_many", .unit = "ns/op", .measure = measure_noop, .size = 8},
        {.name = NULL},
    };
    char version[32];
    snprintf(version, sizeof version, "%u.%u.%u", glib_major_version, glib_minor_version,
             glib_micro_version);
    return peer_main(argc, argv, "glib", version, cases, 0);
}
