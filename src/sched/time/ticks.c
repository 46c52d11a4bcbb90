/*
 * ticks.c: how fast the CPU's counter runs, by which the scheduler measures short times
 * (weft__os_ticks).
 *
 * The counter runs at 1 to 5 GHz on x86-64; at 24, 25, 50 or 62.5 MHz on older aarch64 CPUs, and
 * at 1 GHz on newer ones. What is 0.4 ms on one is 8 us on another. Not every CPU says how fast
 * its counter is, and firmware may say it wrongly. So the rate is learned: the runtime reads
 * counter and clock when it starts, and the first thread that looks at the counter at least a
 * millisecond later reads both again, once for the process. No thread waits for that or wakes up
 * for it. Until then the rate is a guess (on aarch64, what the firmware says). The values decide
 * how often something is done, never what, so a wrong guess costs a little time for some
 * milliseconds.
 *
 * A thread that is preempted between its readings of the counter and of the clock would learn a
 * wrong rate. So the clock is read before and after the counter, and a pair that took long is not
 * used.
 *
 * The fields are read and written one by one. A thread that reads one old and one new field has
 * two numbers that are each valid.
 */
#include "sched/time/ticks.h"

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"

#define SECOND ((int64_t)1000 * 1000 * 1000)
#define LEARN_TIME ((int64_t)1000 * 1000)
#define PAIR_TIME ((int64_t)10 * 1000) /* 1 % of LEARN_TIME: the error of the result */
#define RATE_LEAST 1e6
#define RATE_MOST 2e10

enum { TRIES = 3 };

struct ticks weft__ticks;

static struct {
    uint64_t ticks;
    int64_t clock; /* 0: nothing was read yet */
} begin;
static atomic_u32 locked; /* 1 while a thread reads or writes `begin` */

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

/* Reads both at the same moment; false if the thread was preempted at each try. */
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
    while (atomic_u32_exchange_acquire(&locked, 1) != 0)
        weft__os_yield();
}

static void unlock(void)
{
    atomic_u32_store_release(&locked, 0); /* pairs with the exchange */
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
    if (atomic_u32_exchange_acquire(&locked, 1) != 0)
        return;
    if (read_both(&ticks, &clock)) {
        int64_t passed = clock - begin.clock;
        if (begin.clock == 0) {
            begin.ticks = ticks;
            begin.clock = clock;
        } else if (passed >= LEARN_TIME) {
            uint64_t grown = ticks - begin.ticks;
            double rate = (double)grown * (double)SECOND / (double)passed;
            /* The guess stays if the counter does not count, or is not the same on all CPUs. */
            if (rate >= RATE_LEAST && rate <= RATE_MOST)
                set((uint64_t)rate);
            atomic_u32_store_relaxed(&weft__ticks.known, 1);
        }
    }
    unlock();
}
