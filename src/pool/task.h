/*
 * task.h: what the pool needs of tasks with a handle.
 */
#ifndef WEFT_POOL_TASK_H
#define WEFT_POOL_TASK_H

#include <stdbool.h>
#include <weft/task.h>

/* Runs it; false if it was cancelled, or is run by another. */
bool weft__task_call(struct weft_task *task);
/* It crashed, in a fiber that is gone: takes the panic. */
struct panic;
void weft__task_crashed(struct weft_task *task, struct panic *panic);
/* It was dropped by the pool. */
void weft__task_dropped(struct weft_task *task);

#endif
