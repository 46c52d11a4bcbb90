/*
 * panic.h: calls that a panic cannot leave, for the floors above: see panic.c.
 *
 *     struct guard guard;
 *     if (weft__guarded(&guard, function, arg)) {
 *         ...       the caller owns guard.panic: it passes it to one of weft__panic_give,
 *     }             weft__panic_report, weft__panic_resume and weft__panic_free, or keeps it
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

/* A panic, in flight or landed. */
struct panic {
    struct _Unwind_Exception unwind; /* the exception object, for the unwinder */
    struct panic *previous;          /* that was in flight when this one began, and did not land */
    const void *thrown;              /* the C++ exception that this is, while that is in flight */
    struct panic *thrown_before;     /* of scope.thrown: the next one further out */
    bool crash; /* a fault of an abandoned fiber, reported when it happened: crash.c */
    weft_panic_info info;
};

/* A recover point, on the stack of the function that set it. */
struct guard {
    void *sp; /* of the frame of weft__guard_call; first: the assembly writes it */
    struct guard *outer;
    struct panic *panic; /* that landed here */
    /* State of the scope and the thread when the guard was set: */
    weft_deferred *deferred;    /* the innermost clean-up outside the guard */
    struct panic *outer_panic;  /* in flight to an outer guard */
    struct panic *outer_thrown; /* a C++ exception in flight to an outer guard */
    uint32_t spins, outside;    /* spin locks held, depth of weft_blocking_enter */
    struct cxx_state cxx;
#ifdef WEFT_DEBUG
    uint32_t held; /* number of locks */
#endif
#if WEFT_TSAN
    jmp_buf jump; /* ThreadSanitizer follows longjmp, not weft__guard_land */
    fenv_t floating;
#endif
};

/* The panic state of a fiber or thread: panic.c. A fiber's is at the top of its stack
 * (context_words). */
struct scope {
    struct guard *guard;            /* the innermost recover point; NULL: the fiber's first frame */
    struct weft_deferred *deferred; /* the innermost deferred clean-up */
    struct panic *panic;            /* in flight to that recover point */
    struct panic *thrown;           /* C++ exceptions in flight, the innermost first */
};
_Static_assert(sizeof(struct scope) == CONTEXT_WORDS * sizeof(uint64_t),
               "the words that arch reserves");

/* The error for callers that wait for the fiber or task that the panic ended. */
static inline int panic_error(const struct panic *panic)
{
    return panic->crash ? -EFAULT : -EOWNERDEAD;
}

/* The scope of the calling fiber or thread; NULL on a thread that there was no memory to
 * register. */
struct scope *weft__scope_self(void);
static inline struct scope *fiber_scope(const struct weft_fiber *fiber)
{
    return context_words(weft__stack_start_at(fiber->stack));
}

/* Calls function(arg). True if it panicked: guard->panic is the panic. On a thread that there is no
 * memory to register, it calls the function without a guard, and a panic aborts. */
WEFT_MUST_USE bool weft__guarded(struct guard *guard, void (*function)(void *), void *arg);
/* Does the work of weft__guarded in the scope of the caller. */
WEFT_MUST_USE bool weft__guarded_in(struct scope *scope, struct guard *guard,
                                    void (*function)(void *), void *arg);

/* Ends of a panic that has landed. Each takes the panic over. */
/* Copies its description to *info, unless info is NULL, and frees it. */
void weft__panic_give(struct panic *panic, weft_panic_info *info);
/* Writes a report to stderr, unless it is a crash, which has one already; frees it. */
void weft__panic_report(struct panic *panic);
/* Panics on in the caller. */
_Noreturn void weft__panic_resume(struct panic *panic);
/* Frees it, and its previous ones; NULL is allowed. */
void weft__panic_free(struct panic *panic);

/* The description of a panic, with the messages of its previous ones. */
const weft_panic_info *weft__panic_info(struct panic *panic);

/* Calls function(arg). A panic in it is reported and ends there; true if there was one. */
bool weft__call_safely(void (*function)(void *), void *arg);

/* Takes the panic that has landed in the first frame of the fiber out of its scope. Called
 * there. */
struct panic *weft__panic_arrived(struct weft_fiber *fiber);
/* Runs the clean-ups deferred in the scope since its innermost guard was set. */
void weft__deferred_run_all(struct scope *scope);

/* Shared by cxx.c and panic.c: */

/* Makes a panic that describes the calling fiber or thread; never NULL. Its backtrace begins at the
 * frame with the return address `from`, if that is found. */
struct panic *weft__panic_new(const void *from);
/* Runs the clean-ups that are left, and goes on behind the innermost recover point. */
_Noreturn void weft__panic_land(struct scope *scope);
/* Sets the message. If there was no memory for the panic, it is written to stderr at once. */
void weft__panic_set_message(struct panic *panic, const char *message);
/* Stores in the scope the panic that a C++ exception will become when it arrives at the recover
 * point. */
void weft__panic_throw(struct scope *scope, struct panic *panic, const void *exception);
/* Takes the panic of an exception that has arrived out of the scope; makes one if none was
 * stored. */
struct panic *weft__panic_catch(struct scope *scope, const void *exception);
/* Frees the panics of exceptions thrown since the guard was set (NULL: all), which will not
 * arrive. */
void weft__panic_catch_none(struct scope *scope, const struct guard *guard);
/* Records that `panic` began while `previous` was in flight; NULL: none was. */
void weft__panic_add_previous(struct panic *panic, struct panic *previous);

#endif
