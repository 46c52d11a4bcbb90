/*
 * fiber.h: struct weft_fiber, and the calls that make, start and retire one.
 *
 * States and owners are described in fiber.c, the memory of fibers in fiber_alloc.c.
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

enum { FIBER_NAME_SIZE = 32, FIBER_SIZE_MOST = 192, STAMP_SHIFT = 24 };

enum fiber_state {
    FIBER_NEW, /* free, or spawned and not yet run */
    FIBER_READY,
    FIBER_YIELDED, /* ready, since it yielded */
    FIBER_RUNNING,
    FIBER_PARKED,
    FIBER_ENDED,
    FIBER_CRASHED, /* abandoned where it faulted, never reused: sched/fiber/crash.c */
    FIBER_STATES,
};

/* Panics that may reach the first frame of a fiber: one of its function, then those of destructors
 * of fiber-local values. After so many the remaining destructors are skipped. */
enum { PANIC_COUNT_MOST = 15 };

/* Owner of the struct weft_fiber once the fiber has ended. */
enum fiber_owner {
    OWNER_NONE,   /* it goes back to a cache */
    OWNER_HANDLE, /* the holder of the handle given at spawn, unless it has detached the fiber */
    OWNER_TIMER,  /* a timer, which runs the fiber again */
    OWNER_CLIENT, /* a floor above, until fiber_set_client ends that */
};

/* Bit of weft_fiber.outside: the machine of the fiber has lost its processor and has not got one
 * back. */
enum { OUTSIDE_LOST = 1 << 30 };

struct panic;

/* Callbacks of the floor above whose objects own fibers (OWNER_CLIENT). Each gets the client, which
 * is the pointer given to fiber_set_client. */
struct fiber_hooks {
    /* The fiber is about to park, or to give up its processor while it blocks. Called in the fiber,
     * inside the runtime, if weft_fiber.notify_park is set. */
    void (*before_park)(void *client);
    /* A panic, which the client now owns, has ended the function of the fiber. Called in the fiber,
     * outside the runtime; the fiber ends when this returns. */
    void (*landed)(void *client, struct panic *panic);
    /* Returns the name of the fiber: at most FIBER_NAME_SIZE - 1 characters. Called on any
     * thread. */
    const char *(*name)(const void *client);
};
/* Set once, before the first fiber with a client is made. There is one such floor; a pointer to a
 * vtable in each client would cost a word. */
extern const struct fiber_hooks *weft__fiber_hooks;

/* Words that floors above keep with each fiber or thread, zero at first. A floor uses the words
 * after those of the floor below it, and declares in a header where its own end. */
enum { UPPER_WORDS = 5 };
struct upper {
    void *words[UPPER_WORDS];
};

/* What most fibers do not need; allocated on demand, freed with the fiber. */
struct extra {
    char name[FIBER_NAME_SIZE];
    struct locals *locals;
    struct bond bond;    /* to the context of the fiber */
    struct crash *crash; /* the fiber may be abandoned: sched/fiber/crash.c; or NULL */
    struct upper upper;
};

enum { MUTEXES_NOTED = 16 }; /* pthread mutexes that a fiber remembers; debug builds */

/* A fiber. At any time one party may write a field: the spawner, then the machine that runs or
 * holds the fiber, then its owner; except where a lock is named. Three cache lines: spawning
 * touches only the first, since the fiber often runs on another CPU than its spawner; a switch
 * touches only the second. */
struct weft_fiber {
    struct weft_fiber *next; /* in the inject queue, a chain, or a list of free fibers */
    void (*function)(void *);
    void *arg;
    void *spawn_site; /* a code address */
    uint64_t id;
    atomic_ptr extra; /* struct extra; NULL: none */
    union {
        struct waiter *joiner; /* under join_lock; NULL: none */
        void *client;          /* OWNER_CLIENT */
    };
    struct lock join_lock;
    uint8_t stack_class;
    uint8_t owner : 4;   /* enum fiber_owner */
    bool deferrable : 1; /* spawned with a handle by a fiber: its start can wait (machine.c) */
    bool joinable;       /* the handle has not been given up; under join_lock */
    bool ended;          /* under join_lock */

    _Alignas(64) struct context context; /* saved while it does not run */
    struct stack *stack; /* NULL until the fiber first runs; tagged while a compact one does not
                          * run: fiber_save_area */
    int saved_errno;
    uint32_t parked_at; /* time of the park, in units of 2^STAMP_SHIFT ns */
    void *object;       /* what the fiber waits for, for reports; or see notify_park */
    uint8_t state;      /* enum fiber_state; for reports and assertions */
    bool bound;         /* the bond is tied to a context */
    bool notify_park;   /* `object` is the client: call before_park. In this line: parks read it */
    bool defers : 1;    /* the fiber has deferred clean-ups: sched/fiber/panic.c */
    bool panicked : 1;  /* a panic has ended the fiber; `arg` is the struct panic */
    bool left_locked : 1;    /* a panic has left locks locked; debug builds */
    bool compact : 1;        /* runs on a hot stack: sched/fiber/compact.c */
    uint8_t panic_count : 4; /* panics that reached the first frame; up to PANIC_COUNT_MOST */
    atomic_u32 outside;      /* depth of weft_blocking_enter; and OUTSIDE_LOST */

    struct waiter waiter;
    struct timer timer; /* deadline of the wait */
#ifdef WEFT_DEBUG
    void *held_locks; /* list of the locks held, for the check of lock order */
    struct {          /* pthread mutexes held: sched/check/mutex_check.c */
        void *mutex, *site;
    } mutexes[MUTEXES_NOTED];
    uint32_t mutex_count;   /* entries used */
    uint32_t mutexes_other; /* held beyond MUTEXES_NOTED */
    bool mutex_reported;
#endif
#if WEFT_ASAN
    void *fake_stack;
#endif
#if WEFT_TSAN
    void *tsan_fiber;
#endif
};

#if !WEFT_ASAN && !WEFT_TSAN && !defined(WEFT_DEBUG)
_Static_assert(sizeof(struct weft_fiber) <= FIBER_SIZE_MOST, "the memory of a waiting fiber");
#endif

static inline struct extra *fiber_extra(const struct weft_fiber *fiber)
{
    /* Pairs with weft__fiber_extra: any thread may ask for the name. */
    return atomic_ptr_load_acquire(&fiber->extra);
}

/* The client of the fiber; NULL: none. */
static inline void *fiber_client(const struct weft_fiber *fiber)
{
    return fiber->owner == OWNER_CLIENT ? fiber->client : NULL;
}

/* Makes `client` the owner of the fiber; NULL: the fiber has no client any more. Called by the
 * fiber itself, or before it starts. */
static inline void fiber_set_client(struct weft_fiber *fiber, void *client)
{
    fiber->owner = client != NULL ? OWNER_CLIENT : OWNER_NONE;
    fiber->client = client;
}

/* Makes a fiber that is not ready yet; starts the runtime if need be, and respects max_fibers. The
 * caller starts or discards the fiber. Returns 0, or as weft_go. */
int weft__fiber_make(struct weft_fiber **fiber, void (*function)(void *), void *arg, void *site);
/* Makes the fiber that goes on in place of `fiber` if that is abandoned (crash.c), with the same
 * name and stack size. NULL without memory. One that is not used is freed by
 * weft__fiber_free_any. */
struct weft_fiber *weft__fiber_make_replacement(const struct weft_fiber *fiber,
                                                void (*function)(void *), void *arg);
/* Counts a made fiber as alive and makes it ready: as runnext, or at the end of the ring. */
void weft__fiber_start(struct weft_fiber *fiber, bool next);
/* Frees a fiber that was made and not started, or one that has ended and that its owner kept. */
void weft__fiber_discard(struct weft_fiber *fiber);

/* Ends the fiber-local values and the bond of a fiber with extras. In that fiber, after its
 * function has returned. */
void weft__fiber_end_extra(struct weft_fiber *fiber);
/* Completes the end of a fiber whose stack is gone: wakes the joiner, frees the fiber if nothing
 * owns it. On the machine's stack. */
void weft__fiber_retire(struct weft_fiber *fiber);

/* Stores the panic that has ended the calling fiber for a joiner; reports it if there will be
 * none. */
void weft__fiber_keep_panic(struct weft_fiber *fiber, struct panic *panic);
/* Takes the panic that has ended the fiber out of it; NULL: it ended without. */
struct panic *weft__fiber_take_panic(struct weft_fiber *fiber);

#endif
