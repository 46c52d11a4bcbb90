/*
 * group.h: groups whose functions run elsewhere than in fibers of their own.
 */
#ifndef WEFT_SYNC_GROUP_H
#define WEFT_SYNC_GROUP_H

#include <stdbool.h>
#include <weft/group.h>

/* Words of struct upper (sched/fiber/fiber.h) that groups use, from the first on. */
enum { GROUP_UPPER_WORDS = 4 };

/* Starts function(arg) as part of the group; 0 or an error. Both may be the group's own, around
 * what the user gave. */
typedef int group_starter(weft_group *group, int (*function)(void *), void *arg, bool wait);

/* Before and after somebody waits for the group: 1, -1. */
typedef void group_waiting(weft_group *group, int change);

/* How a function ended: it returned 0, returned an error, panicked, was not called since the
 * group was cancelled, was dropped by where it should have run; or it goes on, and has left the
 * group. */
enum group_end {
    GROUP_RAN,
    GROUP_FAILED,
    GROUP_PANICKED,
    GROUP_SKIPPED,
    GROUP_DROPPED,
    GROUP_LEFT,
};

/* Where the functions of a group run, if not in fibers of their own; all are given `where`,
 * directly or by weft__group_executor. */
struct group_hooks {
    group_starter *start;
    group_waiting *waiting;
    /* A function has ended, or will not run, or has left the group; before the group is told. */
    void (*ended)(void *executor, enum group_end end);
    /* The group's context is cancelled, with that error: those who wait to start a function do
     * so in vain. */
    void (*cancelled)(void *executor, int error);
    void (*closed)(void *executor); /* the group is gone */
};

/* Opens a group that is somewhere else. */
int weft__group_open(weft_group **group, const weft_group_options *options,
                     const struct group_hooks *hooks, void *executor);
void *weft__group_executor(const weft_group *group);

struct panic;

/* Told of a panic that ended a function, before the group is; true if somebody knows of it by
 * that. Given `owner` of weft__group_run, and neither the group nor `where`: the function may
 * have left the group, and then both may be gone. */
typedef bool group_panicked(void *owner, struct panic *panic, int (*function)(void *), void *arg);

/* What was started runs, in the calling fiber or thread, unless the group is cancelled. Or: it
 * never will. */
void weft__group_run(weft_group *group, int (*function)(void *), void *arg,
                     group_panicked *panicked, void *owner);
void weft__group_dropped(weft_group *group, int (*function)(void *), void *arg);
/* What the user gave, of what a starter was given, for reports; while that has not ended. */
void weft__group_unwrap(int (**function)(void *), void **arg);
/* The fiber that ran a function of a group by weft__group_run was abandoned (sched/fiber/crash.c);
 * known: of the panic, which is the group's from here on. */
void weft__group_crashed(struct weft_fiber *gone, struct panic *panic, bool known);

#endif
