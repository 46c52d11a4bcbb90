/*
 * mutex.h: the mutex, as the rest of this floor needs it: from inside the runtime.
 */
#ifndef WEFT_SYNC_MUTEX_H
#define WEFT_SYNC_MUTEX_H

#include <weft/mutex.h>

/* Unlock, and lock for good, by a caller that has entered the runtime if it is a fiber, and not in a
 * forked child. `site` is for reports. */
void weft__mutex_unlock_inside(weft_mutex *mutex);
void weft__mutex_lock_inside(weft_mutex *mutex, void *site);

#endif
