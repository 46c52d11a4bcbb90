/*
 * system.c: the modelled operating system: replaces src/os/linux, lock.c and latch.c in a
 * model.
 *
 * A futex compares and blocks in one step. A held lock or latch blocks the thread until the word is
 * free: how lock.c spins and sleeps is a model of its own (tests/os/lock_model.c), which has its
 * own slow halves. The clock changes only where a scenario says so; deadlines pass when the search
 * lets them.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "explore.h"
#include "os/latch.h"
#include "os/lock.h"
#include "os/os.h"

/* Locks. Weak: a model may define the real ones. */

__attribute__((weak)) void weft__lock_slow(struct lock *lock)
{
    do
        model_wait_word(&lock->state, 0);
    while (!lock_try(lock));
}

__attribute__((weak)) void weft__unlock_slow(struct lock *lock)
{
}

__attribute__((weak)) void weft__latch_slow(struct latch *latch)
{
    do
        model_wait_word(&latch->held, 0);
    while (!latch_try(latch));
}

/* The kernel. */

/* Time: each reading is later than the previous one of the same thread, until the thread sleeps;
 * then it starts again, so that states do not differ by time only. */
enum { CLOCK_THREADS = 8, CLOCK_STEP = 12000 };
static int64_t clock_looks[CLOCK_THREADS + 1];

static void clock_begin(void)
{
    clock_looks[model_self() + 1] = 0;
}

int64_t weft__os_now(void)
{
    return 1000000 + CLOCK_STEP * clock_looks[model_self() + 1]++;
}

int weft__os_futex_wait(atomic_u32 *word, uint32_t expected, int64_t deadline)
{
    model_call("futex wait?", word);
    if (word->value != expected)
        return -EAGAIN;
    clock_begin();
    return model_wait("futex wait", word, deadline) ? -ETIMEDOUT : 0;
}

void weft__os_futex_wake(atomic_u32 *word, int count)
{
    model_call("futex wake", word);
    model_wake("is woken", word, count);
}

int weft__os_membarrier_register(void)
{
    return 0;
}

void weft__os_membarrier(void)
{
    model_call("membarrier", NULL);
    model_barrier_all();
}

void weft__os_yield(void)
{
    model_spin();
}

void weft__os_sleep_until(int64_t deadline)
{
    model_spin();
}

int64_t weft__os_now_coarse(void)
{
    return 1000000;
}

/* Memory. */

void *weft__os_alloc(size_t size)
{
    return model_alloc(size);
}

void *weft__os_alloc_zeroed(size_t size)
{
    return model_alloc(size);
}

void *weft__os_alloc_aligned(size_t alignment, size_t size)
{
    (void)alignment; /* a model has no cache lines */
    return model_alloc(size);
}

void weft__os_free(void *memory)
{
    model_free(memory);
}

/* errno, and crash output. */

static int errors[CLOCK_THREADS + 1];

int *weft__os_errno_address(void)
{
    return &errors[model_self() + 1];
}

void weft__assert_failed(const char *condition, const char *file, int line)
{
    model_fail("%s:%d: this must hold and does not: %s", file, line, condition);
}

void weft__fatal(const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    model_fail("fatal: %s", text);
}

void weft__warn(const char *format, ...)
{
}
