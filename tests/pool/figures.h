/*
 * figures.h: for tests of the pool: waiting for what it says of itself, and what tasks did in which order.
 */
#ifndef WEFT_TEST_FIGURES_H
#define WEFT_TEST_FIGURES_H

#include "tasks.h"

/* Lets others run, and after some times leaves them the CPU. */
static inline void look_again(int *times)
{
    if (++*times < 20)
        weft_yield();
    else
        (void)weft_sleep(50 * WEFT_US);
}

/* Waits until a figure of the pool has that value. */
#define AWAIT_FIGURE(pool, field, value) await_figure(pool, offsetof(weft_pool_stats, field), value)

static inline void await_figure(weft_pool *pool, size_t offset, int64_t value)
{
    for (int times = 0;;) {
        weft_pool_stats stats = pool_stats(pool);
        int64_t now;
        memcpy(&now, (const char *)&stats + offset, sizeof now);
        if (now == value)
            return;
        look_again(&times);
    }
}

/* Waits until so many have been counted. */
static inline void await_count(const atomic_u32 *word, uint32_t value)
{
    for (int times = 0; atomic_u32_load_acquire(word) != value;)
        look_again(&times);
}

/* Waits until so many have come to the gate, since it was shut. */
static inline void await_at_gate(const struct gate *gate, uint32_t count)
{
    await_count(&gate->gauge.total, count);
}

/* What happened, in order. */
enum { JOURNAL_MOST = 4096 };

struct journal {
    atomic_u32 length;
    int entries[JOURNAL_MOST];
};

static inline void journal_add(struct journal *journal, int entry)
{
    uint32_t place = atomic_u32_add_acq_rel(&journal->length, 1);
    CHECK(place < JOURNAL_MOST);
    journal->entries[place] = entry;
}

#endif
