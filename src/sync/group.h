/*
 * group.h: groups whose functions run elsewhere than in fibers of their own.
 */
#ifndef WEFT_SYNC_GROUP_H
#define WEFT_SYNC_GROUP_H

#include <stdbool.h>
#include <weft/group.h>

/* Starts function(arg) as part of the group; 0 or an error. Both may be the group's own, around what the user gave. */
typedef int group_starter(weft_group *group, int (*function)(void *), void *arg, bool wait);

/* Before and after somebody waits for the group: 1, -1. */
typedef void group_waiting(weft_group *group, int change);

/* Opens a group that is somewhere else; `where` is theirs. */
int weft__group_open(weft_group **group, const weft_group_options *options, group_starter *starter,
                     group_waiting *waiting, void *where);
void *weft__group_where(const weft_group *group);

struct panic;

/* Told of a panic that ended a function, before the group is; true if somebody knows of it by that. Not given the
 * group: the function may have left it, and then it may be gone. */
typedef bool group_panicked(void *where, struct panic *panic, int (*function)(void *), void *arg);

/* What was started runs, in the calling fiber or thread; or it never will. */
void weft__group_run(weft_group *group, int (*function)(void *), void *arg,
                     group_panicked *panicked);
void weft__group_dropped(weft_group *group, int (*function)(void *), void *arg);
/* What the user gave, of what a starter was given, for reports; while that has not ended. */
void weft__group_unwrap(int (**function)(void *), void **arg);
/* The fiber that ran a function of a group by weft__group_run was abandoned (sched/crash.c); known: of the panic,
 * which is the group's from here on. */
void weft__group_crashed(struct weft_fiber *gone, struct panic *panic, bool known);

#endif
