/*
 * ticks.c: how fast the counter runs by which the scheduler measures short times (weft__os_ticks).
 *
 * It runs at 1 to 5 GHz on x86-64; at 24, 25, 50 or 62.5 MHz on older CPUs with aarch64, and at 1 GHz on newer ones. What
 * is 0.4 ms of the one is 8 us of another. Not every CPU says how fast its counter is, and firmware may say the wrong
 * thing. So it is learned: the runtime reads counter and clock when it starts, and who looks at the counter a
 * millisecond later or more reads both again, once for the process. Nobody waits for that, and nobody wakes up for it.
 * Until then the values are a guess (aarch64: by what the firmware says). They decide how often, never what, so
 * that a wrong guess costs a little time for some milliseconds.
 *
 * A thread that is preempted between its reading of the counter and of the clock would learn the wrong thing: the clock is
 * read before and after, and a pair that took long is not used.
 *
 * The fields are read and written one by one: who reads an old and a new one has two numbers that are each good.
 */
#include "sched/time/ticks.h"

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"

#define SECOND ((int64_t)1000 * 1000 * 1000)
#define LEARN_TIME ((int64_t)1000 * 1000)
#define PAIR_TIME ((int64_t)10 * 1000) /* a hundredth of that: so exact is the result */
#define RATE_LEAST 1e6
#define RATE_MOST 2e10

enum { TRIES = 3 };

struct ticks weft__ticks;

static struct {
    uint64_t ticks;
    int64_t clock; /* 0: there is none */
} begin;
static atomic_u32 working; /* somebody reads or writes that */

static uint64_t of_time(uint64_t rate, int64_t time)
{
    uint64_t ticks = rate * (uint64_t)time / (uint64_t)SECOND;
    return ticks > 0 ? ticks : 1;
}

static void set(uint64_t rate)
{
    atomic_u64_store_relaxed(&weft__ticks.look, of_time(rate, TIME_LOOK));
    atomic_u64_store_relaxed(&weft__ticks.poll, of_time(rate, TIME_POLL));
    atomic_u64_store_relaxed(&weft__ticks.defer, of_time(rate, TIME_DEFER));
}

/* Both at the same moment; false if the thread was held up each time. */
static bool read_both(uint64_t *ticks, int64_t *clock)
{
    for (int i = 0; i < TRIES; i++) {
        int64_t before = weft__os_now();
        *ticks = weft__os_ticks();
        *clock = weft__os_now();
        if (*clock - before <= PAIR_TIME)
            return true;
    }
    return false;
}

static void lock(void)
{
    while (atomic_u32_exchange_acquire(&working, 1) != 0)
        weft__os_yield();
}

static void unlock(void)
{
    atomic_u32_store_release(&working, 0); /* pairs with the exchange */
}

void weft__ticks_set(uint64_t rate)
{
    set(rate);
    atomic_u32_store_relaxed(&weft__ticks.known, 1);
}

void weft__ticks_forget(void)
{
    lock();
    begin.clock = 0;
    set(weft__os_tick_rate());
    atomic_u32_store_relaxed(&weft__ticks.known, 0);
    unlock();
}

void weft__ticks_start(void)
{
    if (atomic_u32_load_relaxed(&weft__ticks.known) != 0)
        return;
    lock();
    set(weft__os_tick_rate());
    if (!read_both(&begin.ticks, &begin.clock))
        begin.clock = 0;
    unlock();
}

noinline void weft__ticks_learn(void)
{
    uint64_t ticks;
    int64_t clock;
    if (atomic_u32_exchange_acquire(&working, 1) != 0)
        return;
    if (read_both(&ticks, &clock)) {
        int64_t passed = clock - begin.clock;
        if (begin.clock == 0) {
            begin.ticks = ticks;
            begin.clock = clock;
        } else if (passed >= LEARN_TIME) {
            uint64_t grown = ticks - begin.ticks;
            double rate = (double)grown * (double)SECOND / (double)passed;
            /* A counter that does not count, or not as one: the guess stays. */
            if (rate >= RATE_LEAST && rate <= RATE_MOST)
                set((uint64_t)rate);
            atomic_u32_store_relaxed(&weft__ticks.known, 1);
        }
    }
    unlock();
}
