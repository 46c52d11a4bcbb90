/*
 * fiber.h: the record of a fiber, and where records come from.
 */
#ifndef WEFT_SCHED_FIBER_H
#define WEFT_SCHED_FIBER_H

#include <weft/fiber.h>

#include "arch/context.h"
#include "base/lock.h"
#include "sched/park.h"
#include "sched/wheel.h"
#include "stack/stack.h"

enum { FIBER_NAME_SIZE = 32, FIBER_RECORD_MOST = 192 };

enum fiber_state {
    FIBER_NEW, /* free, or spawned and not yet run */
    FIBER_READY,
    FIBER_RUNNING,
    FIBER_PARKED,
    FIBER_ENDED,
};

/* Written by whoever has the fiber in hand, except where a lock is named. Three lines: spawning
 * touches only the first, since the spawner is often not the one who runs the fiber; a switch only
 * the second. */
struct weft_fiber {
    struct weft_fiber *next; /* in the inject queue, or a list of free records */
    void (*function)(void *);
    void *arg;
    void *spawn_site; /* a code address */
    uint64_t id;
    char *name; /* NULL: none */
    struct lock join_lock;
    bool handed_out; /* a handle was given at spawn */
    bool joinable;   /* it has not been given up since; join_lock */
    bool ended;      /* join_lock */
    bool kept;       /* the record belongs to a timer and does not go back to a cache */
    uint8_t stack_class;

    _Alignas(64) struct context context; /* saved while it does not run */
    struct stack *stack;                 /* NULL until it first runs */
    int saved_errno;
    uint8_t state; /* enum fiber_state; for reports and assertions */
    struct locals *locals;
    struct waiter *joiner; /* join_lock */

    struct waiter waiter;
    struct timer timer; /* the deadline of its wait */
#if WEFT_ASAN
    void *fake_stack;
#endif
#if WEFT_TSAN
    void *tsan_fiber;
#endif
};

#if !WEFT_ASAN && !WEFT_TSAN
_Static_assert(sizeof(struct weft_fiber) <= FIBER_RECORD_MOST, "a fiber that waits costs this");
#endif

/* A stock of free records, and numbers to give them; owned by a processor or a foreign thread. */
struct fiber_cache {
    struct weft_fiber *free;
    uint32_t count;
    uint64_t id_next, id_end;
    atomic_u64 started, ended; /* written by the owner only */
};

/* A record, with id, and nothing else set; NULL without memory. */
struct weft_fiber *weft__fiber_new(struct fiber_cache *cache);
void weft__fiber_free(struct fiber_cache *cache, struct weft_fiber *fiber);
/* The same on any thread, known to weft or not; a fiber must have entered the runtime. */
void weft__fiber_free_any(struct weft_fiber *fiber);
/* Gives the stock back, for others to use. */
void weft__fiber_cache_flush(struct fiber_cache *cache);
/* Frees all records. Called when no fiber exists. */
void weft__fiber_stop(void);

/* Checks what spawning needs (runtime, limit) and makes a fiber that is not ready yet; the caller
 * makes it so, or discards it. */
int weft__fiber_make(struct weft_fiber **fiber, void (*function)(void *), void *arg, void *site);
/* A made fiber that never was ready, or a kept one that has ended. */
void weft__fiber_discard(struct weft_fiber *fiber);

/* On the machine's stack, after the fiber has ended and its stack is gone: tells the joiner, frees.
 */
void weft__fiber_retire(struct weft_fiber *fiber);

/* Fibers spawned and not ended, and timers open; never less than there are. */
uint64_t weft__fiber_alive(void);

#endif
