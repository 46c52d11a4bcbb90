/*
 * panic.c: panics, recover points and deferred clean-ups.
 *
 * Each fiber and thread has a scope: its innermost recover point (a guard), its innermost deferred
 * clean-up, and the panic in flight. Guards and clean-ups are lists on the stack that they belong
 * to. A fiber's scope is at the top of its stack, so that a fiber that never panics pays nothing
 * for it: its first frame is the outermost recover point without any set-up.
 *
 * Steps of a panic:
 *
 *   1. A struct panic is made with message and backtrace (on the heap: the stack will be cut).
 *   2. The system's unwinder walks over the frames (_Unwind_ForcedUnwind), innermost first, and
 *      calls `stop` before each. `stop` runs the clean-ups that this frame and inner ones deferred;
 *      then the unwinder runs the frame's own: destructors, and variables with the attribute
 *      cleanup.
 *   3. At the frame of the guard, or where the unwinder cannot go on, the remaining deferred
 *      clean-ups run and the panic lands: the stack pointer is set to the guard's frame
 *      (weft__guard_land) or, for the first frame, to the top of the stack (weft__machine_land).
 *
 * So landing does not depend on the unwinder, which only decides whose destructors run: those of
 * frames without unwind tables, and of the frames beyond such a frame, are skipped.
 *
 * Invariants:
 *  - The innermost guard of a scope is that of the innermost weft__guard_call on its stack.
 *  - A clean-up is removed from its list before it is called: none is called twice, even if it
 *    panics.
 *  - A panic that begins while another is in flight to the same guard replaces it, and keeps it as
 *    its `previous`. One that begins under a guard set meanwhile ends there, and the outer one goes
 *    on.
 *
 * A clean-up may park and go on on another thread: the unwinder keeps no state of the thread, and
 * `stop` looks its scope up anew.
 *
 * Rejected:
 *  - setjmp at each recover point, and no unwinder: cheap, but no destructor runs.
 *  - _Unwind_RaiseException: it searches for a handler first, and does nothing if it meets a frame
 *    without tables; it walks twice; and a personality routine would have to find the landing,
 *    which the list of guards has at hand. Its advantage, that the stack is still whole if there is
 *    no handler, weft has by looking at the list first.
 *  - A guard for each task of a pool or each fiber: 9 ns each. A worker sets one for all its tasks,
 *    a fiber none.
 *  - Ending the process at a `catch (...)` that does not rethrow, as pthread_cancel does: there is
 *    no need. The exception is deleted then, and the panic is over.
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

/* Making and freeing. */

/* Shared by all panics that there is no memory for. The unwinder writes the same to it each
 * time. */
static struct panic no_memory = {
    .info = {.message = "a panic that there was no memory to keep record of: see stderr"}};

/* Called by the unwinder when a catch (...) has caught the panic and does not rethrow it. */
static void caught_elsewhere(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception)
{
    (void)reason;
    struct panic *panic = container_of(exception, struct panic, unwind);
    struct scope *scope = weft__scope_self();
    if (scope == NULL || scope->panic != panic)
        return; /* another panic has replaced it, and is freed with it */
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
    if (panic == NULL || panic->thrown != exception) /* at the throw there was no memory */
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

/* Appends the messages of the previous panics, which are freed. */
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

/* Deferred clean-ups. */

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

/* Runs the clean-ups of the frame whose lowest byte is at `address`, and of frames further in, up
 * to the guard. */
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

/* In a forked child there are no lists: each clean-up is called when its block ends. */
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
    void **list = weft__held_locks();
    must(list != NULL);                               /* a caller with a scope has one */
    for (void **one = *list; one != NULL; one = *one) /* `next` is the first member */
        count++;
    return count;
}
#endif

/* Reports locks that the panic has left locked. */
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

/* Restores the C++ state of when the guard was set. Writes only what differs: without C++ all
 * threads share one state. */
static void restore_cxx(const struct guard *guard)
{
    static const struct cxx_state none;
    const struct cxx_state *before = guard != NULL ? &guard->cxx : &none;
    struct cxx_state *now = thread_self()->cxx;
    if (now->caught != before->caught || now->uncaught != before->uncaught)
        *now = *before;
}

/* Ends a forked child in which a panic would have to land: its recover points are the parent's. */
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
    weft__panic_catch_none(scope, guard); /* exceptions in flight were cut off by this panic */
    check_locks(scope, guard);
    weft__blocking_unwind(guard != NULL ? guard->outside : 0);
    /* Catch blocks that the panic passed may not have ended; one that rethrew it has counted it. */
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
    /* At PANIC_COUNT_MOST fiber_main_again drops the destructors: nothing is left that could
     * panic. */
    must(fiber->panic_count < PANIC_COUNT_MOST);
    fiber->panic_count++;
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

/* Called by the unwinder before each frame, innermost first, and at the end of the stack or of what
 * it can unwind. The CFA is the address of the frame's lowest byte. */
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
    struct thread *thread = thread_self(); /* registered by weft__scope_self, if there is memory */
    if (scope == NULL || (scope->guard == NULL && thread->fiber == NULL)) {
        weft_panic_report(weft__panic_info(panic));
        fatal("aborting: the panic is on a thread, outside of any weft_recover");
    }
    if (thread->fiber != NULL)
        must(atomic_u32_load_relaxed(&thread->inside) == 0);
    weft__panic_add_previous(panic, scope->panic);
    scope->panic = panic;
    _Unwind_ForcedUnwind(&panic->unwind, stop, NULL);
    weft__panic_land(scope); /* the unwinder returns if it cannot go on */
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
