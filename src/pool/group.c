/*
 * group.c: groups (sync/group.c) whose functions run as tasks of a pool.
 *
 * Each function is a task with its argument copied in: which group, which function. A task that the pool
 * drops leaves the group as one that was cancelled.
 */
#include "pool/group.h"

#include <errno.h>
#include <string.h>
#include <weft/task.h>

#include "pool/panic.h"
#include "pool/pool.h"
#include "sched/compact.h"
#include "sync/group.h"

struct member {
    weft_group *group;
    int (*function)(void *);
    void *arg;
};

static bool panicked(void *pool, struct panic *panic, int (*function)(void *), void *arg)
{
    weft__group_unwrap(&function, &arg);
    return weft__pool_tell_panic(pool, panic, (void (*)(void *))(uintptr_t)function, arg);
}

void weft__pool_group_run(void *arg)
{
    struct member member;
    memcpy(&member, arg, sizeof member);
    weft__worker_can_bind();
    weft__group_run(member.group, member.function, member.arg, panicked);
}

void weft__pool_group_dropped(const void *arg)
{
    struct member member;
    memcpy(&member, arg, sizeof member);
    weft__group_dropped(member.group, member.function, member.arg);
}

void weft__pool_group_crashed(weft_pool *pool, const void *arg, struct weft_fiber *gone,
                              struct panic *panic)
{
    struct member member;
    memcpy(&member, arg, sizeof member);
    weft__group_crashed(gone, panic, panicked(pool, panic, member.function, member.arg));
}

static int start(weft_group *group, int (*function)(void *), void *arg, bool wait)
{
    struct member member = {group, function, arg};
    compact_check(arg, "the argument of a task", "have it in the heap");
    if (weft__bond_self() == NULL)
        return -ENOMEM; /* it may have to run it itself */
    weft_submit_options options = {.copy = sizeof member, .deadline = wait ? WEFT_NEVER : WEFT_NS};
    int error =
        weft_pool_submit_with(weft__group_where(group), weft__pool_group_run, &member, &options);
    return error == -ETIMEDOUT && !wait ? -EAGAIN : error;
}

/* A task that waits for a group over its own pool lends its place. */
static void waiting(weft_group *group, int change)
{
    struct worker *own = weft__worker_self();
    if (own != NULL && own->pool == weft__group_where(group))
        weft__pool_lend(own->pool, change);
}

int weft_pool_group(weft_group **group, weft_pool *pool, const weft_group_options *options)
{
    if (pool == NULL)
        return -EINVAL;
    atomic_u32_store_relaxed(&pool->binds, 1);
    return weft__group_open(group, options, start, waiting, pool);
}
