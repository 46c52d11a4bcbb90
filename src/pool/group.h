/*
 * group.h: what the queue needs of groups over a pool. Everything is under the pool's latch.
 */
#ifndef WEFT_POOL_GROUP_H
#define WEFT_POOL_GROUP_H

#include "pool/queue.h"

/* The tasks of a group in its pool. */
struct group_line {
    struct line waiting;    /* tasks that have not begun, by group_link */
    int64_t members;        /* tasks that have not ended */
    int64_t removed;        /* of those: were taken out of the queue, and will be dropped */
    struct line lenders;    /* workers that wait for the group */
    struct line submitters; /* of its tasks, that wait in the pool's line: admission.c */
    weft_context *context;  /* the group's */
};

static inline void weft__group_line_add(struct group_line *group, struct task *task)
{
    line_add(&group->waiting, &task->group_link);
}

static inline void weft__group_line_leave(struct group_line *group, struct task *task)
{
    line_leave(&group->waiting, &task->group_link);
}

/* A worker of the pool waits for the group: its tasks go first. */
static inline bool weft__group_line_is_awaited(const struct group_line *group)
{
    return group->lenders.length > 0;
}

/* The first task of the group that has not begun goes before all others. */
void weft__group_line_expedite(weft_pool *pool, struct group_line *group);

#endif
