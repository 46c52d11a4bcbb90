/*
 * group.c: groups of fibers.
 *
 * A group is put together from what is there: a context to cancel, a wait group that counts the fibers
 * that run, and, if there is a limit, a channel without content whose capacity is the limit: a place is
 * taken by sending, so that those who wait for one are served in order, stop waiting when the context is
 * cancelled (a select with its done channel), and are bound to their own context as in any wait.
 *
 * What a fiber runs and the group it is in stand in the extras of its record, so a fiber of a group needs
 * no other memory than one with a name.
 *
 * The end of a fiber, in this order: the error is noted if it is the first, and cancels; the place is
 * given back; the wait group is told, which is the last touch: the group may be gone after it. The bond
 * to the context holds that by itself, until the fiber ends.
 */
#include "sync/group.h"

#include <errno.h>
#include <string.h>
#include <weft/select.h>
#include <weft/wg.h>

#include "sched/panic.h"
#include "sched/sched.h"
#include "sync/context.h"

struct weft_group {
    weft_context *context;
    weft_wg running;
    weft_chan *places; /* NULL: no limit */
    weft_chan *done;   /* the context's; if there is a limit */
    atomic_u32 error;  /* the first; 0: none */
    atomic_ptr panic;  /* struct panic: the first; NULL: none */
    atomic_u32 asked;  /* somebody has been told of it */
    bool keep_going;
    group_starter *starter; /* NULL: each function has a fiber of its own */
    group_waiting *waiting; /* NULL: nobody is to be told */
    void *where;            /* theirs */
};

static void note_error(weft_group *group, int error)
{
    uint32_t none = 0;
    (void)atomic_u32_cas_acq_rel(&group->error, &none,
                                 (uint32_t)error); /* pairs with wait_for_all */
    if (!group->keep_going)
        weft_context_cancel(group->context);
}

static void note_panic(weft_group *group, struct panic *panic, bool known)
{
    void *none = NULL;
    int error = panic_error(panic);
    (void)weft__panic_info(panic); /* all messages in one */
    bool first =
        atomic_ptr_cas_acq_rel(&group->panic, &none, panic); /* pairs with weft_group_panic */
    if (first && known)
        atomic_u32_store_release(&group->asked, 1); /* pairs with free_group */
    else if (!first && known)
        weft__panic_free(panic);
    else if (!first)
        weft__panic_report(panic);
    note_error(group, error);
}

/* A function of the group, as a call that a panic cannot leave. */
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

/* What becomes of the panic that ended a function; `group` is NULL if it has left it. */
static int end_by_panic(weft_group *group, struct panic *panic, bool known)
{
    if (group != NULL)
        note_panic(group, panic, known);
    else if (known)
        weft__panic_free(panic);
    else
        weft__panic_report(panic);
    return -EOWNERDEAD;
}

static void give_place_back(weft_group *group)
{
    if (group->places != NULL)
        must(weft_chan_try_receive(group->places, NULL) == 0);
}

/* A fiber of the group has ended, or leaves. */
static void leave(weft_group *group)
{
    give_place_back(group);
    weft_wg_done(&group->running);
}

/* A function of the group has returned. */
static void finish(struct extra *extra, int error)
{
    weft_group *group = extra->group;
    if (group == NULL || weft__runtime_forked())
        return; /* it has left, or this is a forked child */
    extra->group = NULL;
    if (error != 0)
        note_error(group, error);
    leave(group);
}

/* What each fiber of a group runs. */
static void run(void *arg)
{
    struct extra *extra = fiber_extra(weft_self());
    struct guard guard = {.panic = NULL};
    struct call own = {extra->group_function, arg, 0};
    if (unlikely(weft__guarded(&guard, call, &own)))
        own.result = end_by_panic(extra->group, guard.panic, false);
    if (extra->group != NULL && extra->locals != NULL)
        while (weft__guarded(&guard, end_locals, extra)) /* part of what the group waits for */
            own.result = end_by_panic(extra->group, guard.panic, false);
    finish(extra, own.result);
}

void weft__group_run(weft_group *group, int (*function)(void *), void *arg,
                     group_panicked *panicked)
{
    weft_context *before = weft_context_current();
    void *where = group->where; /* the function may leave the group, and the group be closed */
    struct extra outside = {
        .group = NULL}; /* of a thread, which runs a task that its pool has no room for */
    struct extra *extra = weft_self() != NULL ? weft__fiber_extra(weft_self()) : &outside;
    if (before != NULL)
        weft__context_hold(before);
    /* Some fiber that only came by runs it for lack of memory: it was admitted, so it is called none the less. */
    if (extra == NULL)
        extra = &outside;
    bool bound = weft_context_bind(group->context, NULL) == 0;
    weft_group *outer = extra->group;
    extra->group = group;
    struct guard guard;
    struct call own = {function, arg, 0};
    bool ended_by_panic = weft__guarded(&guard, call, &own);
    if (bound)
        (void)weft_context_bind(before, NULL); /* it has been bound, so there is memory for it */
    if (before != NULL)
        weft__context_drop(before);
    if (unlikely(ended_by_panic))
        own.result =
            end_by_panic(extra->group, guard.panic, panicked(where, guard.panic, function, arg));
    finish(extra, own.result);
    extra->group = outer;
}

void weft__group_crashed(struct weft_fiber *gone, struct panic *panic, bool known)
{
    struct extra *extra = fiber_extra(gone);
    (void)end_by_panic(extra->group, panic, known);
    finish(extra, 0);
}

void weft__group_dropped(weft_group *group)
{
    note_error(group, -ECANCELED);
    leave(group);
}

void *weft__group_where(const weft_group *group)
{
    return group->where;
}

/* Starting. */

static int wait_for_place(weft_group *group)
{
    weft_case cases[] = {{.chan = group->places, .op = WEFT_SEND},
                         {.chan = group->done, .op = WEFT_RECEIVE}};
    if (group->waiting != NULL)
        group->waiting(group, 1);
    int chosen = weft_select(cases, 2);
    if (group->waiting != NULL)
        group->waiting(group, -1);
    if (chosen < 0)
        return chosen;
    return chosen == 0 ? 0 : weft_context_error(group->context);
}

static int take_place(weft_group *group, bool wait)
{
    int error = weft_context_error(group->context);
    if (error != 0 || group->places == NULL)
        return error;
    error = weft_chan_try_send(group->places, NULL);
    if (error == -EAGAIN && wait)
        error = wait_for_place(group);
    if (error != 0)
        return error;
    /* A fiber that a cancellation has just ended may have left the place. */
    error = weft_context_error(group->context);
    if (error != 0)
        give_place_back(group);
    return error;
}

static int start(weft_group *group, int (*function)(void *), void *arg, void *site)
{
    struct weft_fiber *fiber;
    bool entered = enter_if_fiber();
    int error = weft__fiber_make(&fiber, run, arg, site);
    if (error == 0 && weft__fiber_extra(fiber) == NULL) {
        weft__fiber_discard(fiber);
        error = -ENOMEM;
    }
    if (error == 0) {
        fiber_extra(fiber)->group = group;
        fiber_extra(fiber)->group_function = function;
        weft__bond_begin(fiber, (struct canceler *)group->context);
        weft__fiber_start(fiber, true);
    }
    leave_if_fiber(entered);
    return error;
}

static int go(weft_group *group, int (*function)(void *), void *arg, bool wait, void *site)
{
    if (group == NULL || function == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    int error = take_place(group, wait);
    if (error != 0)
        return error;
    must(weft_wg_add(&group->running, 1) == 0); /* there are not so many fibers */
    error = group->starter != NULL ? group->starter(group, function, arg, wait)
                                   : start(group, function, arg, site);
    if (error != 0) {
        weft_wg_done(&group->running);
        give_place_back(group);
    }
    return error;
}

int weft_group_go(weft_group *group, int (*function)(void *), void *arg)
{
    return go(group, function, arg, true, __builtin_return_address(0));
}

int weft_group_try_go(weft_group *group, int (*function)(void *), void *arg)
{
    return go(group, function, arg, false, __builtin_return_address(0));
}

int weft_group_leave(void)
{
    weft_fiber *fiber = weft_self();
    if (fiber == NULL || fiber_extra(fiber) == NULL || fiber_extra(fiber)->group == NULL)
        return -EINVAL;
    weft_group *group = fiber_extra(fiber)->group;
    fiber_extra(fiber)->group = NULL;
    if (weft_context_current() == group->context)
        (void)weft_context_bind(NULL, NULL);
    leave(group);
    return 0;
}

/* Waiting. */

/* Waits whatever happens to the caller's context, which is unbound meanwhile. */
static int wait_firmly(weft_group *group, int64_t deadline)
{
    weft_context *before = weft_context_current();
    if (before == NULL)
        return weft_wg_wait_until(&group->running, deadline);
    weft__context_hold(before);
    (void)weft_context_bind(NULL, NULL);
    int error = weft_wg_wait_until(&group->running, deadline);
    (void)weft_context_bind(before, NULL); /* it has been bound, so there is memory for it */
    weft__context_drop(before);
    return error;
}

/* 0 when no fiber runs any more. */
static int wait_for_all(weft_group *group, int64_t deadline)
{
    if (group == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    weft_fiber *fiber = weft_self();
    if (fiber != NULL && fiber_extra(fiber) != NULL && fiber_extra(fiber)->group == group)
        return -EDEADLK;
    bool told = group->waiting != NULL && weft_wg_count(&group->running) > 0;
    if (told)
        group->waiting(group, 1);
    int error = wait_firmly(group, deadline);
    if (told)
        group->waiting(group, -1);
    return error;
}

static int first_error(const weft_group *group)
{
    return (int)atomic_u32_load_acquire(&group->error); /* pairs with note_error */
}

int weft_group_wait_until(weft_group *group, int64_t deadline)
{
    int error = wait_for_all(group, deadline);
    return error != 0 ? error : first_error(group);
}

int weft_group_wait(weft_group *group)
{
    return weft_group_wait_until(group, WEFT_NEVER);
}

int weft_group_panic(weft_group *group, weft_panic_info *info)
{
    if (group == NULL || info == NULL)
        return -EINVAL;
    struct panic *panic = atomic_ptr_load_acquire(&group->panic); /* pairs with note_panic */
    if (panic == NULL)
        return -ENOENT;
    *info = panic->info;
    atomic_u32_store_release(&group->asked, 1);
    return 0;
}

int64_t weft_group_running(const weft_group *group)
{
    if (group == NULL)
        return 0;
    /* A place is given back just before the wait group is told, and may be taken at once. */
    return group->places != NULL ? (int64_t)weft_chan_length(group->places)
                                 : weft_wg_count(&group->running);
}

/* The life of a group. */

static void free_group(weft_group *group)
{
    struct panic *panic = atomic_ptr_load_acquire(&group->panic);
    if (panic != NULL && !atomic_u32_load_acquire(&group->asked))
        weft__panic_report(panic); /* nobody asked what it was */
    else
        weft__panic_free(panic);
    weft_context_close(group->context);
    weft_chan_destroy(group->places);
    weft__sys_free(group);
}

static int open_parts(weft_group *group, const weft_group_options *options)
{
    weft_context *parent = options->context != NULL ? options->context : weft_context_current();
    weft_context_options context = {.timeout = options->timeout};
    int error = weft_context_open(&group->context, parent, &context);
    if (error == 0 && options->limit > 0)
        error = weft_chan_make(&group->places, 0, (size_t)options->limit);
    if (error == 0 && options->limit > 0)
        error = weft_context_done(group->context, &group->done);
    return error;
}

int weft__group_open(weft_group **out, const weft_group_options *options, group_starter *starter,
                     group_waiting *waiting, void *where)
{
    static const weft_group_options defaults;
    if (options == NULL)
        options = &defaults;
    if (out == NULL || options->limit < 0 ||
        memcmp(options->reserved, defaults.reserved, sizeof defaults.reserved) != 0)
        return -EINVAL;
    weft_group *group = weft__sys_alloc_zeroed(sizeof *group);
    if (group == NULL)
        return -ENOMEM;
    group->keep_going = options->keep_going != 0;
    group->starter = starter;
    group->waiting = waiting;
    group->where = where;
    int error = open_parts(group, options);
    if (error != 0) {
        free_group(group);
        return error;
    }
    *out = group;
    return 0;
}

int weft_group_open(weft_group **out, const weft_group_options *options)
{
    return weft__group_open(out, options, NULL, NULL, NULL);
}

int weft_group_close(weft_group *group)
{
    int error = wait_for_all(group, WEFT_NEVER);
    if (error != 0)
        return error;
    error = first_error(group);
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
        weft__panic_resume(guard.panic); /* it is the caller's, and nothing of the group is left */
    return error;
}

void weft_group_cancel(weft_group *group)
{
    uint32_t none = 0;
    if (group == NULL || weft__runtime_forked())
        return;
    (void)atomic_u32_cas_acq_rel(&group->error, &none, (uint32_t)-ECANCELED);
    weft_context_cancel(group->context);
}

weft_context *weft_group_context(weft_group *group)
{
    return group != NULL ? group->context : NULL;
}
