/*
 * tuning.h: the pool's tuning constants, each with the measurement that chose it. Times are in
 * nanoseconds, sizes in bytes, the rest are counts. docs/bench/pool.md has the tables.
 */
#ifndef WEFT_POOL_TUNING_H
#define WEFT_POOL_TUNING_H

#include <weft/time.h>

enum {
    /* A chunk of plain tasks: 62 of 16 bytes. From 30 tasks on the latch is below 2 % of an
     * empty task. */
    CHUNK_BYTES = 1024,
    /* A chunk that begins behind a task of another kind: 6 tasks. Bounds the memory where kinds
     * alternate. */
    SMALL_CHUNK_BYTES = 128,
    /* Slots fetched ahead of the one read, or written: a line of another CPU takes 100 to 280
     * ns, a turn 10 to 40. */
    FETCH_READS = 8,
    FETCH_WRITES = 28,

    /* The fewest places of an outbox. Only pools with room for OUTBOX_LIMIT tasks have
     * them: a smaller one is full so often that they are closed as fast as they are opened. */
    OUTBOX_LEAST = 8,
    OUTBOX_LIMIT = 1000,

    /* Tasks dropped under one hold of the latch by an abort. */
    ABORT_SLICE = 64,
    /* The first size of the table of keys; it doubles when it is full. */
    KEY_SLOTS = 64,
};

/* How long an active worker runs tasks before it lets other fibers of its processor go first;
 * looked at when an inbox is empty. A yield costs 10 ns, an empty task 12: below 1 % of them. */
#define TURN (20 * WEFT_US)

/* How long a thread in line naps before it sleeps: eight threads that submit empty tasks to a
 * pool of 10,000 take 37 ns a task, and 320 ns without. As long as a sleeping thread needs to be
 * woken on a busy machine. */
#define THREAD_NAP (100 * WEFT_US)

/* Pauses before on_worker_start is tried again: picked out of thin air. */
#define START_RETRY_FIRST (10 * WEFT_MS)
#define START_RETRY_MOST WEFT_S

/* Defaults of the options. */
#define CAPACITY_DEFAULT 10000
#define EXPIRY_DEFAULT WEFT_S
#define CRASHES_DEFAULT 1000
#define SHRINK_MOST 1000000

#endif
