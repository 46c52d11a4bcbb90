/*
 * weft/local.h: fiber-local storage.
 *
 * A key names one pointer in every fiber (and in every thread that uses it): NULL until set. It
 * replaces thread-local storage, whose addresses a fiber must not keep across a park, since it may
 * go on on another thread.
 *
 *     static weft_local_key buffer_key;
 *     int error = weft_local_create(&buffer_key, free);      // once
 *     ...
 *     char *buffer = weft_local_get(buffer_key);
 *     if (buffer == NULL && weft_local_set(buffer_key, buffer = malloc(4096)) != 0)
 *         ...
 */
#ifndef WEFT_LOCAL_H
#define WEFT_LOCAL_H

#include <weft/base.h>

WEFT_BEGIN

/* The largest number of keys at a time. */
#define WEFT_LOCAL_KEYS 64

typedef uint32_t weft_local_key;

/* Makes a key. When a fiber (or thread) ends, destructor, if not NULL, is called in it with each
 * value that is not NULL. If destructors set values again there are further rounds, four in all.
 * Returns 0; -EINVAL if key is NULL; -EAGAIN if WEFT_LOCAL_KEYS keys exist.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_local_create(weft_local_key *key, void (*destructor)(void *));

/* Deletes a key. Values still set under it are forgotten: no destructor is called for them.
 * Returns 0, or -EINVAL if there is no such key.
 * Contexts: fiber, thread. */
WEFT_API int weft_local_delete(weft_local_key key);

/* The value of the running fiber or thread under key: NULL if never set, or no such key.
 * Contexts: fiber, thread. */
WEFT_API void *weft_local_get(weft_local_key key);

/* Sets the value of the running fiber or thread.
 * Returns 0; -EINVAL if there is no such key; -ENOMEM (the first value set in a fiber allocates);
 * -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_local_set(weft_local_key key, void *value);

WEFT_END

#endif
