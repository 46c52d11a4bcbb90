/*
 * test_run.c: test runs: see weft/test.h. How the seed decides is in seeded.c.
 *
 * A run has the runtime to itself. What ran before must have ended, and the runtime is stopped. It
 * is started with one processor under the seed, runs the function as a fiber, and is stopped when
 * all fibers have ended. So a run finds nothing in weft that the run before it left. It takes about
 * 0.2 ms, most of that for the thread.
 *
 * Rejected: going on after a deadlock, with an error for the caller. The waiting fibers would have
 * to be abandoned with what they hold, and the next seed would begin with that. A test that expects
 * a deadlock runs in a child process.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/fiber.h>
#include <weft/runtime.h>
#include <weft/test.h>
#include <weft/time.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "os/os.h"
#include "sched/check/seeded.h"
#include "sched/runtime/runtime.h"

enum { SEEDS_DEFAULT = 100 };

/* Before a run is refused, fibers that are about to end get this long, and the workers of a default
 * pool. */
#define BEFORE_TIME (2 * WEFT_S)

static atomic_u32 busy;

static int stop_former(void)
{
    int error = weft_shutdown(weft_after(BEFORE_TIME));
    return error == -ETIMEDOUT ? -EBUSY : error;
}

/* Does one run. No other run is under way. */
static int run(uint64_t seed, bool chaos, void (*function)(void *), void *arg, uint64_t *trace)
{
    char text[128];
    int error = stop_former();
    if (error == 0)
        error = weft__runtime_start_seeded(seed, chaos);
    if (error != 0)
        return error;
    int length = snprintf(text, sizeof text,
                          "weft: this was seed %llu of a test run (WEFT_TEST_SEED=%llu runs it "
                          "alone)\n",
                          (unsigned long long)seed, (unsigned long long)seed);
    weft__os_crash_output(text, (size_t)length);
    error = weft_go(function, arg);
    int stopped = weft_shutdown(WEFT_NEVER);
    must(stopped == 0);
    struct seeded_result result = weft__seeded_end();
    if (error == 0 && result.panics > 0) {
        weft__os_crash_output_write();
        error = -EOWNERDEAD;
    }
    weft__os_crash_output(NULL, 0);
    *trace = result.trace;
    return error;
}

/* Checks the arguments, takes `busy`, and does `count` runs until one fails. */
static int run_alone(uint64_t first, uint64_t count, const weft_test_options *options,
                     void (*function)(void *), void *arg)
{
    if (function == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    if (weft_self() != NULL || atomic_u32_exchange_acq_rel(&busy, 1) != 0)
        return -EBUSY;
    int error = 0;
    uint64_t trace = 0, again = 0;
    for (uint64_t seed = first; seed - first < count && error == 0; seed++) {
        error = run(seed, options->chaos != 0, function, arg, &trace);
        if (error == 0 && options->twice != 0)
            error = run(seed, options->chaos != 0, function, arg, &again);
        if (error == 0 && options->twice != 0 && trace != again) {
            weft__warn("two runs of seed %llu differ: the test depends on more than the seed",
                       (unsigned long long)seed);
            error = -EPROTO;
        }
    }
    atomic_u32_store_release(&busy, 0); /* pairs with the exchange above */
    return error;
}

int weft_test_run(uint64_t seed, void (*function)(void *), void *arg)
{
    static const weft_test_options none;
    return run_alone(seed, 1, &none, function, arg);
}

/* Reads a number from the environment; true if it is set. Warns of one that is none or too small,
 * and ignores it. */
static bool from_environment(const char *name, uint64_t least, uint64_t *number)
{
    const char *text = weft__os_getenv(name), *at = text;
    uint64_t value = 0;
    if (text == NULL || *text == '\0')
        return false;
    bool fits = true;
    for (; *at >= '0' && *at <= '9'; at++)
        fits &= !__builtin_mul_overflow(value, 10, &value) &&
                !__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value);
    if (fits && *at == '\0' && value >= least) {
        *number = value;
        return true;
    }
    weft__warn("%s=%.64s is ignored: a number%s is wanted", name, text,
               least > 0 ? ", 1 or more," : "");
    return false;
}

int weft_test_seeds(const weft_test_options *options, void (*function)(void *), void *arg)
{
    static const weft_test_options defaults;
    if (options == NULL)
        options = &defaults;
    if (memcmp(options->reserved, defaults.reserved, sizeof defaults.reserved) != 0)
        return -EINVAL;
    uint64_t first = options->first, count = options->seeds != 0 ? options->seeds : SEEDS_DEFAULT;
    if (from_environment("WEFT_TEST_SEED", 0, &first))
        count = 1;
    else
        (void)from_environment("WEFT_TEST_SEEDS", 1, &count);
    return run_alone(first, count, options, function, arg);
}
