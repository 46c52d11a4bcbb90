/*
 * panic.c: panics, recover points, and what is deferred.
 *
 * Each fiber and thread has a scope: its innermost recover point (a guard), its innermost deferred clean-up, and
 * the panic that is under way. Guards and clean-ups are lists on the stack that they belong to. A fiber's scope
 * stands at the top of its stack, so that a fiber that never panics pays nothing for it: the fiber's first frame
 * is the outermost recover point without having been set up as one.
 *
 * The way of a panic:
 *
 *   1. A record is made, with message and backtrace (on the heap: the stack will be cut).
 *   2. The system's unwinder walks over the frames (_Unwind_ForcedUnwind), from the innermost, and calls `stop`
 *      before each. That runs what was deferred by the frames up to this one; then the unwinder runs the
 *      frame's own clean-ups: destructors, variables with the attribute cleanup.
 *   3. At the frame of the guard, or where the unwinder cannot go on, what is left of the deferred clean-ups
 *      runs, and the panic lands: the stack pointer is set back to the guard's frame (weft__guard_land), or for
 *      the first frame, to the top of the stack (weft__machine_land).
 *
 * So landing does not depend on the unwinder. It only decides whose clean-ups run: frames without unwind tables,
 * and those beyond them, are forgotten without.
 *
 * Invariants:
 *  - The innermost guard of a scope is that of the innermost weft__guard_call on its stack.
 *  - A record of a clean-up is taken off the list before it is called: none is called twice, whatever panics.
 *  - A panic that comes while another is under way in the same guard takes its place; it keeps it as its
 *    previous. One that comes under a guard set meanwhile ends there, and the outer one goes on.
 *
 * A clean-up may park, and go on on another thread: the unwinder keeps nothing that is a thread's, and `stop`
 * asks anew where it is.
 *
 * Rejected:
 *  - setjmp at each recover point, and no unwinder: cheap, but no destructor runs.
 *  - _Unwind_RaiseException. It looks for a handler first and does nothing if it comes to a frame without
 *    tables; it costs two walks; and the landing would have to be found by a personality routine, where the
 *    list knows it. What it has for it (the stack is whole if nobody handles it) weft has by looking at the list.
 *  - A guard set up for each task of a pool, or each fiber: 9 ns each. A worker sets one up for all its tasks,
 *    and a fiber none.
 *  - Ending the process at a `catch (...)` that does not throw on, as pthread_cancel does: there is no reason
 *    to. The exception is deleted then, and the panic is over.
 */
#include "sched/fiber/panic.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "arch/stack_switch.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"
#include "sched/check/seeded.h"
#include "sched/core/handoff.h"
#include "sched/core/machine.h"
#include "sched/core/switch.h"
#include "sched/fiber/cxx.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"

#define PANIC_CLASS 0x574546540050414eu /* "WEFT", "PAN" */

struct scope *weft__scope_self(void)
{
    struct thread *thread = thread_self();
    if (likely(thread != NULL && thread->fiber != NULL))
        return fiber_scope(thread->fiber);
    if (unlikely(thread != NULL && thread->processor != NULL))
        fatal("a panic, or a recover point, in code of weft's own");
    struct foreign *foreign = weft__foreign_self();
    return foreign != NULL ? &foreign->scope : NULL;
}

/* Records. */

/* For all who have no memory for one of their own. What the unwinder writes to it is always the same. */
static struct panic no_memory = {
    .info = {.message = "a panic that there was no memory to keep record of: see stderr"}};

/* By the unwinder: an exception that was caught (catch (...)) is not thrown on. */
static void caught_elsewhere(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception)
{
    (void)reason;
    struct panic *panic = container_of(exception, struct panic, unwind);
    struct scope *scope = weft__scope_self();
    if (scope == NULL || scope->panic != panic)
        return; /* another has taken its place, and it is freed with that */
    scope->panic = NULL;
    weft__panic_free(panic);
}

void weft__panic_free(struct panic *panic)
{
    while (panic != NULL) {
        struct panic *previous = panic->previous;
        if (panic != &no_memory)
            weft__os_free(panic);
        panic = previous;
    }
}

static void note_backtrace(weft_panic_info *info, const void *from)
{
    enum { OWN_MOST = 12 };
    void *frames[WEFT_PANIC_FRAMES + OWN_MOST];
    int count = weft__os_backtrace(frames, WEFT_PANIC_FRAMES + OWN_MOST), first = 0;
    while (first < count && frames[first] != from)
        first++;
    if (first == count)
        first = 0;
    info->depth = count - first < WEFT_PANIC_FRAMES ? count - first : WEFT_PANIC_FRAMES;
    memcpy(info->backtrace, frames + first, (size_t)info->depth * sizeof *frames);
}

noinline struct panic *weft__panic_new(const void *from)
{
    struct panic *panic = weft__os_alloc_zeroed(sizeof *panic);
    weft_fiber *fiber = weft_self();
    if (panic == NULL)
        panic = &no_memory;
    panic->unwind.exception_class = PANIC_CLASS;
    panic->unwind.exception_cleanup = caught_elsewhere;
    if (panic == &no_memory)
        return panic;
    if (fiber != NULL) {
        panic->info.fiber_id = fiber->id;
        panic->info.spawn_site = fiber->spawn_site;
        memcpy(panic->info.fiber_name, weft_fiber_name(fiber), strlen(weft_fiber_name(fiber)));
    }
    note_backtrace(&panic->info, from);
    return panic;
}

void weft__panic_set_message(struct panic *panic, const char *message)
{
    if (panic != &no_memory)
        snprintf(panic->info.message, sizeof panic->info.message, "%s", message);
    else
        weft__warn("panic in fiber %llu, without memory to keep record of it: %s",
                   (unsigned long long)weft_fiber_id(weft_self()), message);
}

void weft__panic_add_previous(struct panic *panic, struct panic *previous)
{
    struct panic *last = panic;
    if (previous == panic)
        return;
    if (panic == &no_memory) {
        weft__panic_free(previous);
        return;
    }
    while (last->previous != NULL)
        last = last->previous;
    if (last != &no_memory)
        last->previous = previous;
    else
        weft__panic_free(previous);
}

void weft__panic_throw(struct scope *scope, struct panic *panic, const void *exception)
{
    if (panic == &no_memory)
        return;
    panic->thrown = exception;
    panic->thrown_before = scope->thrown;
    scope->thrown = panic;
}

struct panic *weft__panic_catch(struct scope *scope, const void *exception)
{
    struct panic *panic = scope->thrown;
    if (panic == NULL || panic->thrown != exception) /* there was no memory when it was thrown */
        return weft__panic_new(NULL);
    scope->thrown = panic->thrown_before;
    return panic;
}

void weft__panic_catch_none(struct scope *scope, const struct guard *guard)
{
    const struct panic *outer = guard != NULL ? guard->outer_thrown : NULL;
    while (scope->thrown != outer) {
        struct panic *panic = scope->thrown;
        scope->thrown = panic->thrown_before;
        weft__panic_free(panic);
    }
}

/* Of a panic that came while others were under way: all messages. */
const weft_panic_info *weft__panic_info(struct panic *panic)
{
    for (struct panic *one = panic->previous; one != NULL; one = panic->previous) {
        size_t used = strlen(panic->info.message);
        snprintf(panic->info.message + used, sizeof panic->info.message - used,
                 " (while another panic was under way: %s)", one->info.message);
        panic->previous = one->previous;
        one->previous = NULL;
        weft__panic_free(one);
    }
    return &panic->info;
}

void weft__panic_give(struct panic *panic, weft_panic_info *info)
{
    if (info != NULL)
        *info = *weft__panic_info(panic);
    weft__panic_free(panic);
}

/* Reports. */

enum { REPORT_SIZE = 12 * 1024 };

static size_t report_text(const weft_panic_info *info, char *text, size_t size)
{
    size_t used;
    if (info->fiber_id != 0)
        used =
            (size_t)snprintf(text, size,
                             *info->fiber_name != '\0' ? "weft: panic in fiber %llu \"%s\": %s\n"
                                                       : "weft: panic in fiber %llu%s: %s\n",
                             (unsigned long long)info->fiber_id, info->fiber_name, info->message);
    else
        used = (size_t)snprintf(text, size, "weft: panic: %s\n", info->message);
    if (info->spawn_site != NULL) {
        used += (size_t)snprintf(text + used, size - used, "weft:   spawned at ");
        used += weft__os_address_text(info->spawn_site, text + used, size - used);
        text[used++] = '\n';
    }
    for (int i = 0; i < info->depth && i < WEFT_PANIC_FRAMES && size - used > 64; i++) {
        used += (size_t)snprintf(text + used, size - used, "weft:   %2d: ", i);
        used += weft__os_address_text(info->backtrace[i], text + used, size - used - 1);
        text[used++] = '\n';
    }
    return used;
}

void weft_panic_report(const weft_panic_info *info)
{
    if (info == NULL)
        return;
    char *text = weft__os_alloc(REPORT_SIZE);
    if (text == NULL) {
        weft__warn("panic in fiber %llu: %s", (unsigned long long)info->fiber_id, info->message);
        return;
    }
    weft__os_write_stderr(text, report_text(info, text, REPORT_SIZE));
    weft__os_free(text);
}

void weft__panic_report(struct panic *panic)
{
    if (!panic->crash)
        weft_panic_report(weft__panic_info(panic));
    weft__panic_free(panic);
    weft__seeded_panicked();
}

/* What is deferred. */

static weft_deferred *limit_of(const struct scope *scope)
{
    return scope->guard != NULL ? scope->guard->deferred : NULL;
}

static void call_first(struct scope *scope)
{
    weft_deferred *record = scope->deferred;
    void (*function)(void *) = record->function;
    scope->deferred = record->next;
    record->function = NULL;
    function(record->arg);
}

/* Those of the frame that begins at an address, and of those below it, up to the guard. */
static void run_below(struct scope *scope, uintptr_t address)
{
    while (scope->deferred != limit_of(scope) && scope->deferred->where <= address)
        call_first(scope);
}

void weft__deferred_run_all(struct scope *scope)
{
    run_below(scope, UINTPTR_MAX);
}

noinline void weft_defer(weft_deferred *record, void (*function)(void *), void *arg)
{
    struct scope *scope = weft__runtime_forked() ? NULL : weft__scope_self();
    if (record == NULL || function == NULL || (scope == NULL && !weft__runtime_forked()))
        fatal("weft_defer was given no record or no function, or there is no memory");
    record->function = function;
    record->arg = arg;
    if (scope == NULL)
        return;
    record->where = (uintptr_t)__builtin_dwarf_cfa(); /* the lowest byte of the caller's frame */
    record->next = scope->deferred;
    scope->deferred = record;
    weft_fiber *fiber = weft_self();
    if (fiber != NULL)
        fiber->defers = true;
}

/* In a forked child there are no lists: what was deferred is on its own, and ends with its block. */
static void run_in_child(weft_deferred *record)
{
    void (*function)(void *) = record->function;
    record->function = NULL;
    function(record->arg);
}

void weft_deferred_run(weft_deferred *record)
{
    if (record == NULL || record->function == NULL)
        return;
    if (weft__runtime_forked()) {
        run_in_child(record);
        return;
    }
    struct scope *scope = weft__scope_self();
    while (record->function != NULL) {
        if (scope == NULL || scope->deferred == limit_of(scope))
            fatal("weft_deferred_run was called for what another fiber, thread or recover point "
                  "deferred");
        call_first(scope);
    }
}

void weft_deferred_drop(weft_deferred *record)
{
    if (record == NULL || record->function == NULL)
        return;
    if (weft__runtime_forked()) {
        record->function = NULL;
        return;
    }
    struct scope *scope = weft__scope_self();
    weft_deferred **link = scope != NULL ? &scope->deferred : NULL;
    while (link != NULL && *link != limit_of(scope) && *link != record)
        link = &(*link)->next;
    if (link == NULL || *link == limit_of(scope))
        fatal("weft_deferred_drop was called for what another fiber, thread or recover point "
              "deferred");
    *link = record->next;
    record->function = NULL;
}

/* Recover points. */

#ifdef WEFT_DEBUG
static uint32_t locks_held(void)
{
    uint32_t count = 0;
    void **list = weft__held();
    must(list != NULL);                               /* who has a scope has that */
    for (void **one = *list; one != NULL; one = *one) /* `next` is first */
        count++;
    return count;
}
#endif

/* What the panic has left behind. */
static void check_locks(struct scope *scope, const struct guard *guard)
{
    struct thread *thread = thread_self();
    if (unlikely(thread->spins > (guard != NULL ? guard->spins : 0)))
        fatal("a panic left a weft_spin locked, others would spin for ever; the panic: %s",
              weft__panic_info(scope->panic)->message);
#ifdef WEFT_DEBUG
    if (locks_held() > (guard != NULL ? guard->held : 0)) {
        weft__warn("a panic left a lock locked; the panic: %s", scope->panic->info.message);
        if (thread->fiber != NULL)
            thread->fiber->left_locked = true;
    }
#endif
}

/* Written only where it differs: without C++ all threads have the same. */
static void restore_cxx(const struct guard *guard)
{
    static const struct cxx_state none;
    const struct cxx_state *before = guard != NULL ? &guard->cxx : &none;
    struct cxx_state *now = thread_self()->cxx;
    if (now->caught != before->caught || now->uncaught != before->uncaught)
        *now = *before;
}

/* The recover points of the fiber are its parent's. */
_Noreturn static void end_child(struct panic *panic)
{
    fatal("aborting: a clean-up forked, and in the child the panic goes nowhere: %s",
          weft__panic_info(panic)->message);
}

void weft__panic_land(struct scope *scope)
{
    weft__deferred_run_all(scope);
    if (unlikely(weft__scope_self() != scope))
        end_child(scope->panic);
    struct guard *guard = scope->guard;
    weft__panic_catch_none(scope, guard); /* a panic has cut the way of those that are on theirs */
    check_locks(scope, guard);
    weft__blocking_unwind(guard != NULL ? guard->outside : 0);
    /* Catch blocks that it passed may not have ended, and one that threw it on has counted it. */
    restore_cxx(guard);
    if (guard == NULL)
        weft__machine_land(weft_self());
    scope->guard = guard->outer;
    guard->panic = scope->panic;
    scope->panic = guard->outer_panic;
    ASAN_ONLY(__asan_handle_no_return());
#if WEFT_TSAN
    longjmp(guard->jump, 1);
#else
    weft__guard_land(guard);
#endif
}

struct panic *weft__panic_arrived(struct weft_fiber *fiber)
{
    struct scope *scope = fiber_scope(fiber);
    struct panic *panic = scope->panic;
    scope->panic = NULL;
    must(fiber->arrivals <
         ARRIVALS_MOST); /* then nothing is left that could panic: fiber_main_again */
    fiber->arrivals++;
    return panic;
}

static int call(struct guard *guard, void (*function)(void *), void *arg)
{
#if WEFT_TSAN
    fegetenv(&guard->floating);
    if (setjmp(guard->jump) != 0) {
        fesetenv(&guard->floating);
        return 1;
    }
#endif
    return weft__guard_call(guard, function, arg);
}

static void run_rest(void *scope)
{
    weft__deferred_run_all(scope);
}

bool weft__guarded_in(struct scope *scope, struct guard *guard, void (*function)(void *), void *arg)
{
    struct thread *thread = thread_self();
    guard->outer = scope->guard;
    guard->deferred = scope->deferred;
    guard->outer_panic = scope->panic;
    guard->outer_thrown = scope->thrown;
    guard->panic = NULL;
    guard->spins = thread->spins;
    guard->outside = weft__blocking_depth();
    guard->cxx = *thread->cxx;
#ifdef WEFT_DEBUG
    guard->held = locks_held();
#endif
    scope->guard = guard;
    scope->panic = NULL;
    if (unlikely(call(guard, function, arg)))
        return true;
    if (unlikely(scope->deferred != guard->deferred) && call(guard, run_rest, scope))
        return true;
    scope->guard = guard->outer;
    scope->panic = guard->outer_panic;
    return false;
}

bool weft__guarded(struct guard *guard, void (*function)(void *), void *arg)
{
    struct scope *scope = weft__scope_self();
    if (likely(scope != NULL))
        return weft__guarded_in(scope, guard, function, arg);
    function(arg);
    return false;
}

bool weft__call_safely(void (*function)(void *), void *arg)
{
    struct guard guard;
    if (likely(!weft__guarded(&guard, function, arg)))
        return false;
    weft__panic_report(guard.panic);
    return true;
}

int weft_recover(void (*function)(void *), void *arg, weft_panic_info *info)
{
    struct guard guard;
    if (function == NULL)
        return -EINVAL;
    struct scope *scope = weft__scope_self();
    if (unlikely(scope == NULL))
        return -ENOMEM;
    if (likely(!weft__guarded_in(scope, &guard, function, arg)))
        return 0;
    weft__panic_give(guard.panic, info);
    return -EOWNERDEAD;
}

int weft_panicking(void)
{
    struct scope *scope = weft__scope_self();
    return scope != NULL && scope->panic != NULL;
}

/* Panicking. */

/* Before each frame, from the innermost; also at the end of the stack, or of what the unwinder knows. The address
 * is that of the frame's lowest byte. */
static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                struct _Unwind_Exception *exception,
                                struct _Unwind_Context *context, void *arg)
{
    (void)version;
    (void)class;
    (void)arg;
    struct scope *scope = weft__scope_self();
    if (unlikely(scope == NULL || scope->panic == NULL))
        end_child(container_of(exception, struct panic, unwind));
    uintptr_t frame = _Unwind_GetCFA(context);
    uintptr_t end = scope->guard != NULL ? (uintptr_t)scope->guard->sp : (uintptr_t)scope;
    if (actions & _UA_END_OF_STACK || frame >= end)
        weft__panic_land(scope);
    run_below(scope, frame);
    return _URC_NO_REASON;
}

_Noreturn static void go(struct panic *panic)
{
    struct scope *scope = weft__scope_self();
    struct thread *thread = thread_self(); /* there now, if there is memory for it */
    if (scope == NULL || (scope->guard == NULL && thread->fiber == NULL)) {
        weft_panic_report(weft__panic_info(panic));
        fatal("aborting: the panic is on a thread, outside of any weft_recover");
    }
    if (thread->fiber != NULL)
        must(atomic_u32_load_relaxed(&thread->inside) == 0);
    weft__panic_add_previous(panic, scope->panic);
    scope->panic = panic;
    _Unwind_ForcedUnwind(&panic->unwind, stop, NULL);
    weft__panic_land(scope); /* the unwinder has given up */
}

void weft__panic_resume(struct panic *panic)
{
    go(panic);
}

void weft_panic(const char *format, ...)
{
    va_list args;
    struct panic *panic = weft__panic_new(__builtin_return_address(0));
    va_start(args, format);
    char text[WEFT_PANIC_MESSAGE];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weft__panic_set_message(panic, text);
    go(panic);
}
