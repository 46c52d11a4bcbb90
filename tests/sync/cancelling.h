/*
 * cancelling.h: workers whose waits race with cancellations and deadlines.
 *
 * Workers, which are fibers and threads, wait again and again, many of them with a deadline that
 * passes at about the time of the wake-up. In a run with contexts each worker is bound to a context
 * of its own; cancellers take these contexts at random and cancel or close them, and some have a
 * timeout. Whatever the race, a wait either did its operation or did not, and the counts at the end
 * tell which. A lost wake-up shows as the test's timeout or in the counts, a doubled one in the
 * counts.
 */
#ifndef WEFT_TEST_CANCELLING_H
#define WEFT_TEST_CANCELLING_H

#include <weft/weft.h>

#include "base/prng.h"
#include "bodies.h"
#include "everywhere.h"
#include "seeds.h"

enum { WORKERS = 8, FIBERS = 5, CANCELLERS = 2 };

struct worker {
    uint32_t index;
    struct prng prng;
    weft_context *context; /* the one it is bound to; NULL: none */
    weft_context *below;   /* the same, if it is below a root; else NULL */
    uint64_t done, ended;  /* operations, and waits that were ended */
    void (*work)(struct worker *);
};

static struct {
    struct worker workers[WORKERS];
    atomic_ptr handles[WORKERS]; /* contexts of the workers; whatever takes one closes it */
    atomic_u32 working;
    bool contexts;
    int64_t rounds;
} stage;

static bool chance(struct worker *worker, uint32_t one_in)
{
    return prng_below(&worker->prng, one_in) == 0;
}

/* Contexts. */

/* Binds the worker to a new context, or to one below it that no canceller can find. */
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

/* Closes the worker's own contexts, in any order. */
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

/* Waits once, bound if the run has contexts. An error is that of the context or of the deadline. */
static int wait_bound(struct worker *worker, int (*wait)(struct worker *, int64_t deadline))
{
    if (stage.contexts && worker->context == NULL)
        bind_anew(worker);
    int64_t deadline = WEFT_NEVER;
    if (chance(worker, 4) || (!stage.contexts && chance(worker, 2)))
        deadline = weft_now() + 1 + prng_below(&worker->prng, 9000) - 1000;
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
    if (worker->context != NULL && (reason != 0 || chance(worker, 8)))
        unbind(worker);
    return result;
}

/* A moment with a lock held, or between two waits. */
static __attribute__((unused)) void dally(struct worker *worker)
{
    if (chance(worker, test_seeded ? 2 : 8))
        weft_yield();
    if (test_seeded && chance(worker, 8)) {
        weft_context *bound = weft_context_current();
        int64_t time = (int64_t)prng_below(&worker->prng, 3) * 5 * WEFT_US;
        CHECK(weft_sleep(time) == 0 || weft_context_error(bound) != 0);
    }
    if (!test_seeded)
        for (uint32_t i = prng_below(&worker->prng, 100); i > 0; i--)
            cpu_relax();
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

/* `name` is for the figures that are printed; NULL: none. */
static void run(const char *name, bool contexts, void (*work)(struct worker *), int64_t rounds)
{
    struct body bodies[WORKERS + CANCELLERS];
    uint64_t done = 0, ended = 0;
    atomic_u32_store_release(&stage.working, WORKERS);
    stage.contexts = contexts;
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
    bodies_run(bodies, WORKERS + (contexts ? CANCELLERS : 0));
    for (int i = 0; i < WORKERS; i++) {
        done += stage.workers[i].done;
        ended += stage.workers[i].ended;
        CHECK_PTR(atomic_ptr_load_relaxed(&stage.handles[i]), NULL);
    }
    if (name != NULL && !test_seeded)
        printf("  %s%s: %llu done, %llu ended\n", name, contexts ? "" : ", without contexts",
               (unsigned long long)done, (unsigned long long)ended);
}

/* Runs all scenes with one processor and with four. */
static void run_with_processors(void (*scenes)(void))
{
    for (int processors = 1; processors <= 4; processors += 3) {
        printf("%d processors\n", processors);
        processors_begin(processors);
        scenes();
        processors_end();
    }
}

#endif
