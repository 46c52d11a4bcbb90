/*
 * weft/object_pool.h: keep objects that are expensive to make, and give them back when idle.
 *
 * An object pool holds objects of one kind: buffers, parsers, connections. A get gives an object
 * that was put back before, the last one first, since its memory is still in the caches; or it
 * makes one. Each processor keeps its own, so a get and a put cost some nanoseconds; a processor
 * that has none takes from the others before it makes a new one. The number of objects that are
 * kept is not limited: it follows the largest number that was in use at once. An object that lies
 * unused for two idle periods is destroyed, also if the program does nothing else; once none is
 * kept, the pool wakes the process no more.
 *
 *     static int make_buffer(void *object, void *arg)
 *     {
 *         struct buffer *buffer = object;
 *         buffer->bytes = malloc(65536);
 *         return buffer->bytes != NULL ? 0 : -ENOMEM;
 *     }
 *     static void drop_buffer(void *object, void *arg) { free(((struct buffer *)object)->bytes); }
 *     ...
 *     weft_object_pool *pool;
 *     weft_object_pool_options options = {
 *         .size = sizeof(struct buffer), .construct = make_buffer, .destroy = drop_buffer };
 *     int error = weft_object_pool_open(&pool, &options);
 *     ...
 *     void *object;
 *     if (weft_object_pool_get(pool, &object) == 0) {
 *         struct buffer *buffer = object;
 *         ...
 *         weft_object_pool_put(pool, buffer);
 *     }
 *
 * An open pool counts as alive: weft_shutdown waits until it is closed.
 */
#ifndef WEFT_OBJECT_POOL_H
#define WEFT_OBJECT_POOL_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_object_pool weft_object_pool;

/* Zero means default in every field but size. */
typedef struct weft_object_pool_options {
    /* Bytes of an object, at least 1. weft allocates it, aligned for any type. */
    size_t size;
    /* Called with the memory of a new object, which is all zero, in the get that needs it; returns
     * 0 or a negative errno value, which that get then returns. Default: zeros are enough. */
    int (*construct)(void *object, void *arg);
    /* Called before the memory of an object is freed: in a fiber of the pool's own, with a stack of
     * the default size, or in weft_object_pool_close. Default: nothing is to be done. */
    void (*destroy)(void *object, void *arg);
    /* Given to both. They may wait and use every call of weft, that pool's get and put included. */
    void *arg;
    /* An object is destroyed when it has not been used for this long, or at most twice as long (for
     * up to one period more, if others of the pool are in use meanwhile). Default: 1 s. WEFT_NEVER:
     * not before the pool is closed. */
    int64_t idle_period;
    /* Must be zero. */
    uintptr_t reserved[6];
} weft_object_pool_options;

/* Makes a pool that keeps nothing yet; the options are copied.
 * Returns 0; -EINVAL if pool or options is NULL, size is 0 or too large for any memory, idle_period
 * is negative or a reserved field is set; or as weft_go.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_object_pool_open(weft_object_pool **pool,
                                                 const weft_object_pool_options *options);

/* Gives an object: one that is kept, as it was when it was put back; else a new one. The caller
 * sees all that was written to the object before it was put. The call waits only if construct does.
 * A construct that panics makes no object, and the panic goes on in the caller.
 * Returns 0; -EINVAL if pool or object is NULL; -ENOMEM; what construct returned; -ECHILD in a
 * forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_object_pool_get(weft_object_pool *pool, void **object);

/* Puts an object back that came from this pool; any fiber or thread may do that. A NULL, and an
 * object that is not out of this pool (put twice, or from another pool), are reported, and the
 * process aborts. In a forked child the call does nothing: the object may share with the parent
 * what destroy would end.
 * Contexts: fiber, thread.
 * Undefined: any use of the object after it. */
WEFT_API void weft_object_pool_put(weft_object_pool *pool, void *object);

/* Destroys all objects that are kept, and frees the pool.
 * Returns 0; -EINVAL if pool is NULL; -EBUSY if objects are out: then nothing has happened; -ECHILD
 * in a forked child.
 * Contexts: fiber, thread.
 * Undefined: closing twice, any other use of the pool during or after it (except by construct and
 * destroy), and closing from the pool's own construct or destroy. */
WEFT_API WEFT_MUST_USE int weft_object_pool_close(weft_object_pool *pool);

/* The figures of a pool. */
typedef struct weft_object_pool_counts {
    uint64_t kept;      /* objects that wait for a get */
    uint64_t out;       /* objects that were got and not put back */
    uint64_t made;      /* objects that were ever constructed */
    uint64_t destroyed; /* those of them that are gone */
    uint64_t reserved[4];
} weft_object_pool_counts;

/* Counts the objects, as it was a moment ago; while the pool is in use the figures are not all of
 * the same moment.
 * Returns 0; -EINVAL if pool or counts is NULL.
 * Contexts: fiber, thread, signal handler. */
WEFT_API int weft_object_pool_count(const weft_object_pool *pool, weft_object_pool_counts *counts);

WEFT_END

#endif
