/*
 * group.h: what the pool needs of groups over it.
 */
#ifndef WEFT_POOL_GROUP_H
#define WEFT_POOL_GROUP_H

/* The function of a task that belongs to a group; and when such a task is dropped, with its argument. */
void weft__pool_group_run(void *arg);
void weft__pool_group_dropped(const void *arg);
/* The same if it crashed, in a fiber that is gone. */
struct panic;
struct weft_fiber;
struct weft_pool;
void weft__pool_group_crashed(struct weft_pool *pool, const void *arg, struct weft_fiber *gone,
                              struct panic *panic);

#endif
