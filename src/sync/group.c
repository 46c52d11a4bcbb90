/*
 * group.c: groups: functions that run together, under one context, and end before the group does.
 *
 * A group is a context to cancel, a count of the functions that run (group_wait.c), and the first
 * error. The function of a fiber and its group are in the extras of the fiber's record, so a fiber
 * of a group needs no more memory than one with a name. A copied argument, or a group that
 * collects, takes one more block (group_result.c).
 *
 * The life of a function:
 *
 *     go        takes a place; makes the block if one is needed; starts a fiber, or has the
 *               executor (a pool) start the function
 *     begins    if the group is cancelled and does not keep going: skipped. Else it is bound to
 *               the context and called
 *     ends      in this order: its result is recorded; its error is noted if it is the first, and
 *               cancels; the block is dropped; the place is given back. That is the last access:
 *               the group may be gone after it. The bond holds the context by itself until the
 *               fiber ends
 *
 * A skip is decided when the function would begin, not when it is started: between the two lie the
 * ready queue, or the queue of a pool and the wait for a place in it. So no function begins after
 * weft_group_cancel has returned.
 *
 * The error of a group is the first of: an error of a function, a panic, a dropped function, a
 * cancellation of the context. The context does not note its error here, so the two sources are
 * put in order by:
 *
 *     a function fails           context already cancelled: its error came first, and is noted in
 *                                place of the function's. Else the function's is noted, and then
 *                                cancels; so the cancellation that it causes comes later
 *     the error is asked for     the noted error; if there is none, that of the context
 *
 * Memberships. A fiber or thread can run a function of a group inside another one: a submitter that
 * runs the task itself, a task that waits for another. The memberships form a list from the
 * innermost to the outermost, used by their fiber or thread alone. The innermost is in the record
 * of the fiber or thread, since a crash (sched/fiber/crash.c) reads it when the stack is lost; each
 * other one is on the stack of the call that nests.
 *
 * Memory. The group is part of its context (weft__context_own): a cancellation that comes down the
 * tree of contexts may reach the group while it is being closed.
 */
#include "sync/group.h"

#include <errno.h>
#include <string.h>

#include "sched/core/cancel.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/fiber/local.h"
#include "sched/fiber/panic.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/context.h"
#include "sync/group_internal.h"

/* Errors. */

int weft__group_error(const weft_group *group)
{
    int error = (int)atomic_u32_load_acquire(&group->error); /* pairs with note_error */
    return error != 0 ? error : weft_context_error(group->context);
}

static void note_error(weft_group *group, int error)
{
    uint32_t none = 0;
    int cancelled = weft_context_error(group->context);
    (void)atomic_u32_cas_acq_rel(&group->error, &none,
                                 (uint32_t)(cancelled != 0 ? cancelled : error));
    if (!group->keep_going)
        weft_context_cancel(group->context);
}

/* Keeps the first panic; reports or frees a later one. */
static void note_panic(weft_group *group, struct panic *panic, bool delivered)
{
    void *none = NULL;
    int error = panic_error(panic);
    (void)weft__panic_info(panic); /* all messages in one */
    bool first =
        atomic_ptr_cas_acq_rel(&group->panic, &none, panic); /* pairs with weft_group_panic */
    if (first && delivered)
        atomic_u32_store_release(&group->panic_delivered, 1); /* pairs with free_group */
    else if (!first && delivered)
        weft__panic_free(panic);
    else if (!first)
        weft__panic_report(panic);
    note_error(group, error);
}

/* Disposes of the panic that ended a function, and returns its error. `group` is NULL if the
 * function has left it. */
static int end_by_panic(weft_group *group, struct panic *panic, bool delivered)
{
    int error = panic_error(panic);
    if (group != NULL)
        note_panic(group, panic, delivered);
    else if (delivered)
        weft__panic_free(panic);
    else
        weft__panic_report(panic);
    return error;
}

/* Memberships. */

/* A function of a group that a fiber or thread runs. */
struct membership {
    weft_group *group;        /* NULL: none, or the function has left it */
    struct member *member;    /* its record or copy (group_result.c); NULL: none */
    struct membership *outer; /* of the function around this one; on the stack */
    int (*function)(void *);  /* in a fiber of the group: what the fiber runs */
};
_Static_assert(sizeof(struct membership) <= sizeof(void *[GROUP_UPPER_WORDS]), "it is kept there");

static struct membership *membership_in(struct upper *upper)
{
    return upper != NULL ? (struct membership *)(void *)upper->words : NULL;
}

/* The innermost membership of the caller; NULL if it has no record. */
static struct membership *membership_self(void)
{
    return membership_in(upper_self());
}

bool weft__group_inside(const weft_group *group)
{
    const struct membership *one = membership_self();
    while (one != NULL && one->group != group)
        one = one->outer;
    return one != NULL;
}

/* Running. */

/* A call of a function of the group, for weft__guarded. */
struct call {
    int (*function)(void *);
    void *arg;
    int result;
};

static void call(void *arg)
{
    struct call *call = arg;
    call->result = call->function(call->arg);
}

static void end_locals(void *extra)
{
    weft__locals_end(&((struct extra *)extra)->locals);
}

static bool skips(const weft_group *group)
{
    return !group->keep_going && weft_context_error(group->context) != 0;
}

/* A function of the group has ended, or leaves it: gives its place back. */
static void leave(weft_group *group, enum group_end end)
{
    if (group->hooks != NULL)
        group->hooks->ended(group->executor, end);
    weft__group_exit(group);
}

/* Ends the innermost function of the caller: its result, its error, its block, its place. */
static void finish(struct membership *own, int error, enum group_end end)
{
    weft_group *group = own->group; /* NULL: the function has left it */
    struct member *member = own->member;
    if (weft__runtime_forked())
        return;
    own->group = NULL;
    own->member = NULL;
    if (group != NULL && member != NULL)
        weft__member_ended(member, end == GROUP_SKIPPED ? -ECANCELED : error);
    if (group != NULL && error != 0)
        note_error(group, error);
    if (member != NULL)
        weft__member_drop(member);
    if (group != NULL)
        leave(group, end == GROUP_RAN && error != 0 ? GROUP_FAILED : end);
}

/* The function of each fiber of a group. */
static void run(void *arg)
{
    struct extra *extra = fiber_extra(weft_self());
    struct membership *own = membership_in(&extra->upper);
    struct guard guard = {.panic = NULL};
    struct call call_own = {own->function, arg, 0};
    if (skips(own->group)) {
        finish(own, 0, GROUP_SKIPPED);
        return;
    }
    if (unlikely(weft__guarded(&guard, call, &call_own)))
        call_own.result = end_by_panic(own->group, guard.panic, false);
    if (own->group != NULL && extra->locals != NULL)
        while (weft__guarded(&guard, end_locals, extra)) /* the group waits for these too */
            call_own.result = end_by_panic(own->group, guard.panic, false);
    finish(own, call_own.result, GROUP_RAN);
}

static struct member *member_of(int (*function)(void *), void *arg)
{
    return function == weft__member_call ? arg : NULL;
}

/* Calls the function bound to the group's context, and restores the caller's own binding. */
static void run_inside(struct membership *own, int (*function)(void *), void *arg,
                       group_panicked *panicked, void *owner)
{
    weft_group *group = own->group;
    weft_context *before = weft_context_current();
    if (before != NULL)
        weft__context_hold(before);
    bool bound = weft_context_bind(group->context, NULL) == 0;
    struct guard guard;
    struct call call_own = {function, arg, 0};
    bool ended_by_panic = weft__guarded(&guard, call, &call_own);
    if (bound)
        (void)weft_context_bind(before, NULL); /* its bond is there, so this does not fail */
    if (before != NULL)
        weft__context_drop(before);
    if (unlikely(ended_by_panic))
        call_own.result =
            end_by_panic(own->group, guard.panic, panicked(owner, guard.panic, function, arg));
    finish(own, call_own.result, ended_by_panic ? GROUP_PANICKED : GROUP_RAN);
}

void weft__group_run(weft_group *group, int (*function)(void *), void *arg,
                     group_panicked *panicked, void *owner)
{
    struct membership unrecorded = {.group = NULL};
    struct membership *own = membership_in(weft__upper_make());
    /* Without memory for a record the membership is on the stack: the function was admitted, so it
     * is called none the less. */
    if (own == NULL)
        own = &unrecorded;
    struct membership outer = *own;
    *own = (struct membership){group, member_of(function, arg), &outer, NULL};
    if (skips(group))
        finish(own, 0, GROUP_SKIPPED);
    else
        run_inside(own, function, arg, panicked, owner);
    if (!weft__runtime_forked()) /* in a child the record of a thread is gone */
        *own = outer;
}

void weft__group_crashed(struct weft_fiber *gone, struct panic *panic, bool delivered)
{
    struct membership *own = membership_in(&fiber_extra(gone)->upper);
    finish(own, end_by_panic(own->group, panic, delivered), GROUP_PANICKED);
}

void weft__group_dropped(weft_group *group, int (*function)(void *), void *arg)
{
    struct membership own = {.group = group, .member = member_of(function, arg)};
    finish(&own, -ECANCELED, GROUP_DROPPED);
}

void *weft__group_executor(const weft_group *group)
{
    return group->executor;
}

int weft_group_leave(void)
{
    struct membership *own = membership_self();
    if (own == NULL || own->group == NULL)
        return -EINVAL;
    weft_group *group = own->group;
    own->group = NULL;
    if (own->member != NULL)
        weft__member_ended(own->member, 0);
    if (weft_context_current() == group->context)
        (void)weft_context_bind(NULL, NULL);
    leave(group, GROUP_LEFT);
    return 0;
}

/* Starting. */

static int start_fiber(weft_group *group, int (*function)(void *), void *arg, void *site)
{
    struct weft_fiber *fiber;
    bool entered = enter_if_fiber();
    int error = weft__fiber_make(&fiber, run, arg, site);
    if (error == 0 && weft__fiber_extra(fiber) == NULL) {
        weft__fiber_discard(fiber);
        error = -ENOMEM;
    }
    if (error == 0) {
        *membership_in(&fiber_extra(fiber)->upper) = (struct membership){
            .group = group, .member = member_of(function, arg), .function = function};
        weft__bond_begin(fiber, (struct canceler *)group->context);
        weft__fiber_start(fiber, true);
    }
    leave_if_fiber(entered);
    return error;
}

/* A request to start a function. */
struct start {
    int (*function)(void *);
    void *arg;
    size_t copy; /* bytes of the argument to copy; 0: none */
    bool wait;   /* for a place */
    void *site;
};

/* Starts a function. The caller has a place for it. */
static int start_in_place(weft_group *group, const struct start *request)
{
    int (*function)(void *) = request->function;
    void *arg = request->arg;
    struct member *member = NULL;
    if (request->copy != 0 || group->records != NULL) {
        if (request->copy == 0)
            compact_check(arg, "the argument of a function of a group",
                          "have it in the heap, or copied by the group (weft_group_go_copy)");
        int error = weft__member_make(&member, group, function, arg, request->copy);
        if (error != 0)
            return error;
        function = weft__member_call;
        arg = member;
    }
    int error = group->hooks != NULL ? group->hooks->start(group, function, arg, request->wait)
                                     : start_fiber(group, function, arg, request->site);
    if (error != 0 && member != NULL)
        weft__member_revoke(group, member);
    return error;
}

static int go(weft_group *group, const struct start *request)
{
    if (group == NULL || request->function == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    int error = weft__group_enter(group, request->wait);
    if (error != 0)
        return error;
    error = start_in_place(group, request);
    if (error != 0)
        weft__group_exit(group);
    return error;
}

int weft_group_go(weft_group *group, int (*function)(void *), void *arg)
{
    return go(group, &(struct start){function, arg, 0, true, __builtin_return_address(0)});
}

int weft_group_try_go(weft_group *group, int (*function)(void *), void *arg)
{
    return go(group, &(struct start){function, arg, 0, false, __builtin_return_address(0)});
}

int weft_group_go_copy(weft_group *group, int (*function)(void *), const void *arg, size_t size)
{
    if (arg == NULL || size == 0)
        return -EINVAL;
    return go(group, &(struct start){function, (void *)(uintptr_t)arg, size, true,
                                     __builtin_return_address(0)});
}

int weft_group_panic(weft_group *group, weft_panic_info *info)
{
    if (group == NULL || info == NULL)
        return -EINVAL;
    struct panic *panic = atomic_ptr_load_acquire(&group->panic); /* pairs with note_panic */
    if (panic == NULL)
        return -ENOENT;
    *info = panic->info;
    atomic_u32_store_release(&group->panic_delivered, 1);
    return 0;
}

/* The life of a group. */

/* Frees what the group has; its own memory is freed with the context. */
static void free_group(weft_group *group)
{
    struct panic *panic = atomic_ptr_load_acquire(&group->panic);
    if (panic != NULL && !atomic_u32_load_acquire(&group->panic_delivered))
        weft__panic_report(panic); /* no caller was given it */
    else
        weft__panic_free(panic);
    weft__group_free_dones(group);
    weft__records_free(group);
    if (group->hooks != NULL)
        group->hooks->closed(group->executor);
    weft_context_close(group->context);
}

int weft__group_open(weft_group **out, const weft_group_options *options,
                     const struct group_hooks *hooks, void *executor)
{
    static const weft_group_options defaults;
    if (options == NULL)
        options = &defaults;
    if (out == NULL || options->limit < 0 ||
        memcmp(options->reserved, defaults.reserved, sizeof defaults.reserved) != 0)
        return -EINVAL;
    weft_group *group = weft__os_alloc_zeroed(sizeof *group);
    if (group == NULL)
        return -ENOMEM;
    group->limit = options->limit != 0 ? options->limit : NO_LIMIT;
    group->keep_going = options->keep_going != 0;
    group->hooks = hooks;
    group->executor = executor;
    weft_context *parent = options->context != NULL ? options->context : weft_context_current();
    int error = options->collect != 0 ? weft__records_make(group) : 0;
    if (error == 0)
        error = weft_context_open(&group->context, parent,
                                  &(weft_context_options){.timeout = options->timeout});
    if (error != 0) {
        weft__records_free(group);
        weft__os_free(group);
        return error;
    }
    weft__context_own(group->context, group, weft__group_cancelled, weft__os_free);
    *out = group;
    return 0;
}

int weft_group_open(weft_group **out, const weft_group_options *options)
{
    return weft__group_open(out, options, NULL, NULL);
}

int weft_group_close(weft_group *group)
{
    int error = weft__group_await(group, WEFT_NEVER);
    if (error != 0)
        return error;
    error = weft__group_error(group);
    free_group(group);
    return error;
}

struct scoped {
    int (*body)(weft_group *, void *);
    weft_group *group;
    void *arg;
    int result;
};

static void call_body(void *arg)
{
    struct scoped *scoped = arg;
    scoped->result = scoped->body(scoped->group, scoped->arg);
}

int weft_group_scope(const weft_group_options *options, int (*body)(weft_group *, void *),
                     void *arg)
{
    weft_group *group;
    if (body == NULL)
        return -EINVAL;
    int error = weft_group_open(&group, options);
    if (error != 0)
        return error;
    struct guard guard;
    struct scoped own = {body, group, arg, 0};
    bool panicked = weft__guarded(&guard, call_body, &own);
    if (panicked)
        note_error(group, -EOWNERDEAD);
    else if (own.result != 0)
        note_error(group, own.result);
    error = weft_group_close(group);
    if (panicked)
        weft__panic_resume(guard.panic); /* for the caller; nothing of the group is left */
    return error;
}

void weft_group_cancel(weft_group *group)
{
    if (group != NULL)
        weft_context_cancel(group->context);
}

weft_context *weft_group_context(weft_group *group)
{
    return group != NULL ? group->context : NULL;
}
