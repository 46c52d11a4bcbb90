/*
 * group.h: groups whose functions run elsewhere than in fibers of their own: in a pool
 * (pool/group.c).
 */
#ifndef WEFT_SYNC_GROUP_H
#define WEFT_SYNC_GROUP_H

#include <stdbool.h>
#include <weft/group.h>

/* The number of words of struct upper (sched/fiber/fiber.h) that groups use, from the first on. */
enum { GROUP_UPPER_WORDS = 4 };

/* Starts function(arg) as part of the group. Returns 0 or an error. Function and argument may be
 * those of the group, around what the user gave. */
typedef int group_starter(weft_group *group, int (*function)(void *), void *arg, bool wait);

/* Called with 1 before a caller waits for the group, and with -1 after it. */
typedef void group_waiting(weft_group *group, int change);

/* How the part of a function in its group ended. */
enum group_end {
    GROUP_RAN,    /* it returned 0 */
    GROUP_FAILED, /* it returned an error */
    GROUP_PANICKED,
    GROUP_SKIPPED, /* it was not called, since the group was cancelled */
    GROUP_DROPPED, /* it was not called, since the executor dropped it */
    GROUP_LEFT,    /* it goes on, and has left the group */
};

/* The calls of a group to the executor of its functions, if they have no fibers of their own. Each
 * gets the executor, as an argument or by weft__group_executor. */
struct group_hooks {
    group_starter *start;
    group_waiting *waiting;
    /* A function has ended, or will not run, or has left the group. The group still counts it. */
    void (*ended)(void *executor, enum group_end end);
    /* The group's context is cancelled, with that error: calls that wait to start a function have
     * to end. */
    void (*cancelled)(void *executor, int error);
    /* The group is gone. */
    void (*closed)(void *executor);
};

/* Opens a group whose functions the executor runs. */
int weft__group_open(weft_group **group, const weft_group_options *options,
                     const struct group_hooks *hooks, void *executor);
void *weft__group_executor(const weft_group *group);

struct panic;

/* Called with a panic that ended a function, before the group gets it. Returns true if the panic
 * has been delivered by that. Gets the `owner` of weft__group_run, and neither the group nor its
 * executor: the function may have left the group, and then both may be gone. */
typedef bool group_panicked(void *owner, struct panic *panic, int (*function)(void *), void *arg);

/* Runs a function that was started, in the calling fiber or thread, unless the group is
 * cancelled. */
void weft__group_run(weft_group *group, int (*function)(void *), void *arg,
                     group_panicked *panicked, void *owner);
/* Ends a function that was started and will never run. */
void weft__group_dropped(weft_group *group, int (*function)(void *), void *arg);
/* Turns what a starter was given into what the user gave, for reports, while that has not ended. */
void weft__group_unwrap(int (**function)(void *), void **arg);
/* Ends the function that an abandoned fiber (sched/fiber/crash.c) ran by weft__group_run. The panic
 * belongs to the group from here on; delivered: a caller has been given it. */
void weft__group_crashed(struct weft_fiber *gone, struct panic *panic, bool delivered);

#endif
