/*
 * cancelling.h: cancellations against wake-ups, deadlines and ends.
 *
 * Workers, fibers and threads mixed, wait again and again, each bound to a context of its own;
 * others take those contexts at random and cancel or close them, and some have a deadline. Whatever
 * the race, a wait either did its operation or did not: at the end all is accounted for. What is
 * lost shows as the test's timeout or by the counts, what is doubled by the counts.
 */
#ifndef WEFT_TEST_CANCELLING_H
#define WEFT_TEST_CANCELLING_H

#include <sched.h>
#include <weft/weft.h>

#include "base/prng.h"
#include "bodies.h"
#include "seeds.h"

enum { WORKERS = 8, FIBERS = 5, CANCELLERS = 2 };

struct worker {
    uint32_t index;
    struct prng prng;
    weft_context *context; /* bound to it; NULL: none */
    weft_context *below;   /* the same, if that is its own; else NULL */
    uint64_t done, ended;  /* operations, and waits that were ended */
    void (*work)(struct worker *);
};

static struct {
    struct worker workers[WORKERS];
    atomic_ptr handles[WORKERS]; /* of the workers' contexts: whoever takes one
                                  closes it */
    atomic_u32 working;
    int64_t rounds;
} stage;

static bool chance(struct worker *worker, uint32_t one_in)
{
    return prng_below(&worker->prng, one_in) == 0;
}

/* Contexts. */

/* Bound to a context, or to one below it that nobody else knows of. */
static void bind_anew(struct worker *worker)
{
    weft_context_options options = {.timeout = 0};
    weft_context *root;
    if (chance(worker, 3))
        options.timeout = prng_below(&worker->prng, 20000);
    CHECK_EQ(weft_context_open(&root, NULL, &options), 0);
    worker->context = root;
    if (chance(worker, 3))
        CHECK_EQ(weft_context_open(&worker->below, root, NULL), 0);
    if (worker->below != NULL)
        worker->context = worker->below;
    CHECK_EQ(weft_context_bind(worker->context, NULL), 0);
    atomic_ptr_exchange_seq_cst(&stage.handles[worker->index], root);
}

/* Gives up what is its own, in any order. */
static void unbind(struct worker *worker)
{
    weft_context *root = atomic_ptr_exchange_seq_cst(&stage.handles[worker->index], NULL);
    bool early = chance(worker, 2);
    if (early)
        weft_context_close(root);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(worker->below);
    if (!early)
        weft_context_close(root);
    worker->context = worker->below = NULL;
}

/* One wait, bound. Any error is the one that the context or the deadline of the wait gives. */
static int wait_bound(struct worker *worker, int (*wait)(struct worker *, int64_t deadline))
{
    if (worker->context == NULL)
        bind_anew(worker);
    int64_t deadline = WEFT_NEVER;
    if (chance(worker, 4))
        deadline = weft_now() + 1 + prng_below(&worker->prng, 8000);
    int result = wait(worker, deadline);
    int reason = weft_context_error(weft_context_current());
    if (result >= 0) {
        worker->done++;
    } else {
        worker->ended++;
        if (result != reason)
            CHECK_EQ(result, -ETIMEDOUT);
        if (result != reason)
            CHECK(weft_now() >= deadline);
    }
    if (reason != 0 || chance(worker, 8))
        unbind(worker);
    return result;
}

/* Running. */

static void run_worker(void *arg)
{
    struct worker *worker = arg;
    worker->work(worker);
    if (worker->context != NULL)
        unbind(worker);
    atomic_u32_sub_acq_rel(&stage.working, 1);
}

static void run_canceller(void *arg)
{
    struct prng prng;
    prng_seed(&prng, (uintptr_t)arg + (uint64_t)weft_now());
    while (atomic_u32_load_acquire(&stage.working) != 0) {
        atomic_ptr *handle = &stage.handles[prng_below(&prng, WORKERS)];
        weft_context *context = atomic_ptr_exchange_seq_cst(handle, NULL);
        if (context != NULL && prng_below(&prng, 2) == 0)
            weft_context_cancel(context);
        weft_context_close(context);
        uint32_t pause = prng_below(&prng, 8);
        if (test_seeded) /* time would pass for all of a thousand yields */
            CHECK_EQ(weft_sleep(pause * WEFT_US), 0);
        else
            for (; pause > 0; pause--)
                weft_yield();
    }
}

static void run(const char *name, void (*work)(struct worker *), int64_t rounds)
{
    struct body bodies[WORKERS + CANCELLERS];
    uint64_t done = 0, ended = 0;
    atomic_u32_store_release(&stage.working, WORKERS);
    stage.rounds = rounds;
    for (uint32_t i = 0; i < WORKERS; i++) {
        stage.workers[i] = (struct worker){.index = i, .work = work};
        prng_seed(&stage.workers[i].prng, i + (uint64_t)weft_now());
        bodies[i] =
            (struct body){.function = run_worker, .arg = &stage.workers[i], .thread = i >= FIBERS};
    }
    for (uintptr_t i = 0; i < CANCELLERS; i++)
        bodies[WORKERS + i] =
            (struct body){.function = run_canceller, .arg = (void *)i, .thread = i != 0};
    bodies_run(bodies, WORKERS + CANCELLERS);
    for (int i = 0; i < WORKERS; i++) {
        done += stage.workers[i].done;
        ended += stage.workers[i].ended;
        CHECK_PTR(atomic_ptr_load_relaxed(&stage.handles[i]), NULL);
    }
    printf("  %s: %llu done, %llu ended\n", name, (unsigned long long)done,
           (unsigned long long)ended);
}

#endif
