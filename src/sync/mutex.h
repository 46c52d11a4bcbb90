/*
 * mutex.h: the mutex for callers inside the runtime: condition variables.
 */
#ifndef WEFT_SYNC_MUTEX_H
#define WEFT_SYNC_MUTEX_H

#include <weft/mutex.h>

/* Unlocks the mutex. A fiber must have entered the runtime. Not in a forked child. */
void weft__mutex_unlock_inside(weft_mutex *mutex);
/* Locks the mutex; no context ends the wait. A fiber must have entered the runtime. Not in a forked
 * child. `site` is for reports. */
void weft__mutex_lock_inside(weft_mutex *mutex, void *site);

#endif
