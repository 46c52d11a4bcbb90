/*
 * fiber.h: the record of a fiber, and where records come from.
 */
#ifndef WEFT_SCHED_FIBER_FIBER_H
#define WEFT_SCHED_FIBER_FIBER_H

#include <weft/fiber.h>

#include "arch/stack_switch.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "sched/core/cancel.h"
#include "sched/core/park.h"
#include "sched/time/wheel.h"
#include "stack/stack.h"

enum { FIBER_NAME_SIZE = 32, FIBER_RECORD_MOST = 192, STAMP_SHIFT = 24 };

enum fiber_state {
    FIBER_NEW, /* free, or spawned and not yet run */
    FIBER_READY,
    FIBER_YIELDED, /* ready since it yielded */
    FIBER_RUNNING,
    FIBER_PARKED,
    FIBER_ENDED,
    FIBER_CRASHED, /* abandoned where it faulted, for ever: sched/fiber/crash.c */
    FIBER_STATES,
};

/* Panics of a fiber that are counted; more in its destructors, and those are left. */
enum { ARRIVALS_MOST = 15 };

/* Whose the record is when the fiber has ended. */
enum fiber_owner {
    OWNER_NONE, /* it goes back to a cache */
    OWNER_HANDLE, /* who holds the handle given at spawn, unless that was given up */
    OWNER_TIMER,  /* a timer, which runs the fiber again */
    OWNER_CLIENT, /* a floor above, until that lets it go: fiber_set_client */
};

/* In weft_fiber.outside: its machine has lost its processor, and has not come back. */
enum { OUTSIDE_LOST = 1 << 30 };

struct panic;

/* What a floor above does for fibers of its own, its clients. Each call gets the client: what
 * fiber_set_client was given. */
struct fiber_hooks {
    /* In the fiber, inside the runtime: it is about to park, or to give its processor up while it
     * blocks. Called only if weft_fiber.notify_park is set. */
    void (*before_park)(void *client);
    /* In the fiber, outside the runtime: a panic has ended what it ran, and is the client's. The
     * fiber ends when this returns. */
    void (*landed)(void *client, struct panic *panic);
    /* The name of the fiber: at most FIBER_NAME_SIZE - 1 characters. On any thread. */
    const char *(*name)(const void *client);
};
/* Set once, before the first fiber with a client is made: one floor has such fibers. A vtable of
 * each client would cost it a word. */
extern const struct fiber_hooks *weft__fiber_hooks;

/* Words that floors above keep with a fiber or a thread, zero at first. A floor uses those behind
 * the words of the floor below it, and says in a header where its own end. */
enum { UPPER_WORDS = 5 };
struct upper {
    void *words[UPPER_WORDS];
};

/* What most fibers do not have; freed with the record. */
struct extra {
    char name[FIBER_NAME_SIZE];
    struct locals *locals;
    struct bond bond;    /* to its context */
    struct crash *crash; /* if it may be abandoned: sched/fiber/crash.c; else NULL */
    struct upper upper;
};

enum { MUTEXES_NOTED = 16 }; /* of those that a fiber holds; debug builds */

/* Written by whoever has the fiber in hand, except where a lock is named. Three lines: spawning
 * touches only the first, since the spawner is often not the one who runs the fiber; a switch only
 * the second. */
struct weft_fiber {
    struct weft_fiber *next; /* in the inject queue, or a list of free records */
    void (*function)(void *);
    void *arg;
    void *spawn_site; /* a code address */
    uint64_t id;
    atomic_ptr extra; /* struct extra; NULL: none */
    union {
        struct waiter *joiner; /* join_lock; NULL where there is none */
        void *client;          /* OWNER_CLIENT */
    };
    struct lock join_lock;
    uint8_t stack_class;
    uint8_t owner : 4; /* enum fiber_owner */
    bool deferrable : 1; /* spawned by a fiber that has the handle: it can wait to begin (machine.c) */
    bool joinable;    /* the handle has not been given up; join_lock */
    bool ended;       /* join_lock */

    _Alignas(64) struct context context; /* saved while it does not run */
    struct stack
        *stack; /* NULL until it first runs; of a compact one that does not run, see fiber_save_area */
    int saved_errno;
    uint32_t parked_at; /* when it parked, in units of 2^STAMP_SHIFT ns */
    void *object;       /* what it waits for, for reports; while it runs, see notify_park */
    uint8_t state;      /* enum fiber_state; for reports and assertions */
    bool bound;         /* its bond is tied to a context */
    bool notify_park;   /* `object` is its client: call before_park; here, since every park looks */
    bool defers : 1;    /* it has deferred something: sched/fiber/panic.c */
    bool panicked : 1;  /* a panic has ended it, and `arg` is that: a struct panic */
    bool left_locked : 1; /* a panic has left locks locked; debug builds */
    bool compact : 1;     /* it runs on a hot stack: sched/fiber/compact.c */
    uint8_t arrivals : 4; /* panics that came to the first frame; up to ARRIVALS_MOST */
    atomic_u32 outside;   /* depth in weft_blocking_enter; and OUTSIDE_LOST */

    struct waiter waiter;
    struct timer timer; /* the deadline of its wait */
#ifdef WEFT_DEBUG
    void *held; /* locks: sync/order.c */
    struct {    /* pthread mutexes that it holds: sched/check/mutex_check.c */
        void *mutex, *site;
    } mutexes[MUTEXES_NOTED];
    uint32_t mutex_count;   /* of those */
    uint32_t mutexes_other; /* that it holds beside them */
    bool mutex_said;
#endif
#if WEFT_ASAN
    void *fake_stack;
#endif
#if WEFT_TSAN
    void *tsan_fiber;
#endif
};

#if !WEFT_ASAN && !WEFT_TSAN && !defined(WEFT_DEBUG)
_Static_assert(sizeof(struct weft_fiber) <= FIBER_RECORD_MOST, "a fiber that waits costs this");
#endif

static inline struct extra *fiber_extra(const struct weft_fiber *fiber)
{
    return atomic_ptr_load_acquire(
        &fiber->extra); /* pairs with weft__fiber_extra: others ask for names */
}

/* The client of the fiber, or NULL. */
static inline void *fiber_client(const struct weft_fiber *fiber)
{
    return fiber->owner == OWNER_CLIENT ? fiber->client : NULL;
}

/* By the fiber itself, or before it starts. NULL: it has no client any more. */
static inline void fiber_set_client(struct weft_fiber *fiber, void *client)
{
    fiber->owner = client != NULL ? OWNER_CLIENT : OWNER_NONE;
    fiber->client = client;
}

/* Checks what spawning needs (runtime, limit) and makes a fiber that is not ready yet; the caller
 * makes it so, or discards it. */
int weft__fiber_make(struct weft_fiber **fiber, void (*function)(void *), void *arg, void *site);
/* Makes one that takes the place of the fiber if that is abandoned (crash.c), with its name and
 * stack size; NULL without memory. Given back by weft__fiber_free_any. */
struct weft_fiber *weft__fiber_make_replacement(const struct weft_fiber *fiber, void (*function)(void *),
                                         void *arg);
/* Counts a made fiber as alive and makes it ready: as the next one, or behind the others. */
void weft__fiber_start(struct weft_fiber *fiber, bool next);
/* A made fiber that never was ready, or a kept one that has ended. */
void weft__fiber_discard(struct weft_fiber *fiber);

/* In a fiber that has extras, after its function has returned: ends its values and its binding. */
void weft__fiber_end_extra(struct weft_fiber *fiber);
/* On the machine's stack, after the fiber has ended and its stack is gone: tells the joiner, frees.
 */
void weft__fiber_retire(struct weft_fiber *fiber);

/* In a fiber that a panic has ended: keeps it for the joiner, or reports it. */
void weft__fiber_keep_panic(struct weft_fiber *fiber, struct panic *panic);
/* Out of a fiber that has ended: the panic that did it, or NULL. */
struct panic *weft__fiber_take_panic(struct weft_fiber *fiber);

#endif
