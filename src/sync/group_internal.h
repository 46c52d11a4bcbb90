/*
 * group_internal.h: what the files of a group share.
 *
 *   group.c         starts and runs functions; errors and panics; opening and closing
 *   group_wait.c    counts running functions: places, the limit, waiting for the end, done channels
 *   group_result.c  the record of each function that was started, and copied arguments
 */
#ifndef WEFT_SYNC_GROUP_INTERNAL_H
#define WEFT_SYNC_GROUP_INTERNAL_H

#include <weft/group.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "sync/group.h"

struct done;
struct records;

struct weft_group {
    weft_context *context; /* holds the memory of the group: weft__context_own */

    atomic_u32 error;           /* the first of a function; 0: none */
    atomic_ptr panic;           /* struct panic: the first; NULL: none */
    atomic_u32 panic_delivered; /* a caller has been given the first panic */
    bool keep_going;
    struct records *records; /* NULL: it does not collect */

    const struct group_hooks *hooks; /* NULL: each function has a fiber of its own */
    void *executor;                  /* given to the hooks */

    char padding[CACHE_LINE]; /* above: read by all, hardly ever written */

    /* group_wait.c; under the latch, except that `running` is also read without it. */
    uint32_t latch;
    atomic_i64 running;  /* functions that hold a place */
    int64_t limit;       /* NO_LIMIT: none */
    void *place_waiters; /* the line for a place: waiters.h */
    void *end_waiters;   /* waiters until none runs: waiters.h */
    struct done *done;   /* the channel to close when none runs; NULL: none was asked for */
    struct done *dones;  /* all that were made, the newest first */
};

#define NO_LIMIT INT64_MAX

/* The error of the group; 0: none. */
int weft__group_error(const weft_group *group);
/* Whether the caller runs a function of the group, however deep inside others. */
bool weft__group_inside(const weft_group *group);

/* group_wait.c */

/* Takes a place; with `wait` it waits for one, else it returns -EAGAIN if there is none. Returns 0;
 * the error of the group's context if that is cancelled; or the error of the caller's own context
 * if that is cancelled during the wait. */
int weft__group_enter(weft_group *group, bool wait);
/* Gives a place back. The group may be gone after this call. */
void weft__group_exit(weft_group *group);
/* Waits until no function runs: 0, -ETIMEDOUT, -EDEADLK, -EINVAL, -ECHILD. */
int weft__group_await(weft_group *group, int64_t deadline);
/* The group's context is cancelled: ends all waits for a place. */
void weft__group_cancelled(void *group);
/* Frees the done channels. No function of the group runs. */
void weft__group_free_dones(weft_group *group);

/* group_result.c */

struct member;

/* Makes the record of a function that is about to be started, and if `size` is not 0 a copy of its
 * argument. The function is then started as weft__member_call(member). Returns 0 or -ENOMEM. */
int weft__member_make(struct member **out, weft_group *group, int (*function)(void *), void *arg,
                      size_t size);
/* Takes back the record of a function that could not be started. */
void weft__member_revoke(weft_group *group, struct member *member);
/* Records how a function ended. */
void weft__member_ended(struct member *member, int error);
/* Drops one of the references to a record: that of the call, once it needs its copy no more. */
void weft__member_drop(struct member *member);
/* Calls the function of a record. */
int weft__member_call(void *member);

int weft__records_make(weft_group *group);
void weft__records_free(weft_group *group);

#endif
