/*
 * panic.h: calls that a panic cannot pass, for the floors above: see panic.c.
 *
 *     struct guard guard;
 *     if (weft__guarded(&guard, function, arg)) {
 *         ...                                       guard.panic is the caller's: it gives, reports, keeps or
 *     }                                             resumes it
 */
#ifndef WEFT_SCHED_FIBER_PANIC_H
#define WEFT_SCHED_FIBER_PANIC_H

#include <errno.h>
#include <fenv.h>
#include <setjmp.h>
#include <unwind.h>
#include <weft/panic.h>

#include "arch/stack_switch.h"
#include "base/compiler.h"
#include "sched/fiber/cxx.h"
#include "sched/fiber/fiber.h"
#include "stack/stack.h"

/* A panic on its way, or at its end. */
struct panic {
    struct _Unwind_Exception unwind; /* what the unwinder knows it by */
    struct panic *previous;          /* during which it came, if that did not get to its end */
    const void *thrown;              /* the exception of C++ that it is, while that is on its way */
    struct panic *thrown_before;     /* and is not at its end: further out */
    bool crash; /* no panic, but a fault that was reported when it came: crash.c */
    weft_panic_info info;
};

/* A recover point, on the stack of the one who set it. */
struct guard {
    void *sp; /* of weft__guard_call's frame; first: the assembly writes it */
    struct guard *outer;
    weft_deferred *deferred;    /* before it: not its */
    struct panic *outer_panic;  /* that was under way when it was set */
    struct panic *outer_thrown; /* the same for an exception of C++ */
    struct panic *panic;        /* that came here */
    uint32_t spins, outside;    /* spin locks held, and calls of weft_blocking_enter */
    struct cxx_state cxx;
#ifdef WEFT_DEBUG
    uint32_t held; /* locks */
#endif
#if WEFT_TSAN
    jmp_buf jump; /* which it understands */
    fenv_t floating;
#endif
};

/* What a panic of a fiber or thread needs to know: sched/fiber/panic.c. A fiber's is at the top of its stack
 * (context_words). */
struct scope {
    struct guard *guard;            /* the innermost recover point; NULL: the fiber's first frame */
    struct weft_deferred *deferred; /* the innermost */
    struct panic *panic;            /* under way to that recover point */
    struct panic *thrown;           /* the same for an exception of C++ */
};
_Static_assert(sizeof(struct scope) == CONTEXT_WORDS * sizeof(uint64_t), "it is what is there");

/* What those get who wait for what it ended. */
static inline int panic_error(const struct panic *panic)
{
    return panic->crash ? -EFAULT : -EOWNERDEAD;
}

/* The scope of the caller; NULL on a thread without memory for its record. */
struct scope *weft__scope_self(void);
static inline struct scope *fiber_scope(const struct weft_fiber *fiber)
{
    return context_words(weft__stack_start_at(fiber->stack));
}

/* Calls function(arg); true if it panicked. On a thread without memory for its record a panic in it aborts. */
WEFT_MUST_USE bool weft__guarded(struct guard *guard, void (*function)(void *), void *arg);
/* The same in a scope that is known. */
WEFT_MUST_USE bool weft__guarded_in(struct scope *scope, struct guard *guard,
                                    void (*function)(void *), void *arg);

/* What becomes of a panic that came to its end. Give: *info gets what is known, unless info is NULL. */
void weft__panic_give(struct panic *panic, weft_panic_info *info);
void weft__panic_report(struct panic *panic);
_Noreturn void weft__panic_resume(struct panic *panic);
/* Drops it. */
void weft__panic_free(struct panic *panic);
/* With the messages of those before it. */
const weft_panic_info *weft__panic_info(struct panic *panic);

/* Calls a function that is nothing to the caller: a panic in it is reported, and over. True if there was one. */
bool weft__call_safely(void (*function)(void *), void *arg);

/* In the first frame of a fiber, which a panic has come to: what it is, out of its scope. */
struct panic *weft__panic_arrived(struct weft_fiber *fiber);
/* Runs what is deferred in the scope, up to its guard. */
void weft__deferred_run_all(struct scope *scope);

/* cxx.c and panic.c share: */

/* A panic with what is known of the caller; never NULL. `from`: the backtrace begins there. */
struct panic *weft__panic_new(const void *from);
/* At the frame of the recover point: runs what is deferred, and goes on there. */
_Noreturn void weft__panic_land(struct scope *scope);
/* What others have to say of it; if there is no memory for it, that is said at once. */
void weft__panic_set_message(struct panic *panic, const char *message);
/* Keeps the panic that an exception will be, until that comes to the frame of the recover point. */
void weft__panic_throw(struct scope *scope, struct panic *panic, const void *exception);
struct panic *weft__panic_catch(struct scope *scope, const void *exception);
/* Forgets those that were kept since the guard was set, or all: their exceptions will not come. */
void weft__panic_catch_none(struct scope *scope, const struct guard *guard);
/* It came while this one was under way, or NULL. */
void weft__panic_add_previous(struct panic *panic, struct panic *previous);

#endif
