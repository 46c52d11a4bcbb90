/*
 * mutex_watch.c: which pthread mutexes the program locks (debug builds): os/mutex_watch.h.
 *
 * Functions of the same names as libc's call libc's (found by dlsym) and report what these did. In
 * a program that links the static library they come before libc's, for the program and for every
 * shared library that it loads. libc's own locks do not come this way, and weft uses no pthread
 * mutex. The shared library does not export them, so what the program locks is not seen there.
 * Sanitizers replace the same functions, so with a sanitizer nothing is seen. A wait for a
 * condition variable unlocks and locks inside libc, which changes nothing in the end.
 */
#include "os/mutex_watch.h"
#include "base/compiler.h"

#if defined(WEFT_DEBUG) && !WEFT_ASAN && !WEFT_TSAN

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/assert.h"
#include "os/linux/seam.h"

static atomic_ptr listener;

void weft__os_mutex_listen(void (*function)(void *mutex, int change, void *site))
{
    atomic_ptr_store_release(&listener, (void *)(uintptr_t)function); /* pairs with report */
}

/* In a static program dlsym finds no next function of the name; but libc has other names for its
 * own. */
extern int __pthread_mutex_lock(pthread_mutex_t *) __attribute__((weak));
extern int __pthread_mutex_trylock(pthread_mutex_t *) __attribute__((weak));
extern int __pthread_mutex_timedlock(pthread_mutex_t *, const struct timespec *)
    __attribute__((weak));
extern int __pthread_mutex_unlock(pthread_mutex_t *) __attribute__((weak));

static void *next(atomic_ptr *known, const char *name, void *other)
{
    void *function = atomic_ptr_load_acquire(known);
    if (function == NULL) {
        function = dlsym(RTLD_NEXT, name);
        if (function == NULL)
            function = other;
        must(function != NULL);
        atomic_ptr_store_release(known, function);
    }
    return function;
}

static int report(int error, pthread_mutex_t *mutex, int change, void *site)
{
    void *function = atomic_ptr_load_acquire(&listener);
    if (function != NULL && (error == 0 || error == EOWNERDEAD))
        ((void (*)(void *, int, void *))(uintptr_t)function)(mutex, change, site);
    return error;
}

#define SITE __builtin_return_address(0)

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static atomic_ptr known;
    int (*lock)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))(uintptr_t)next(
        &known, "pthread_mutex_lock", (void *)(uintptr_t)__pthread_mutex_lock);
    return report(lock(mutex), mutex, 1, SITE);
}

__attribute__((visibility("default"))) int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    static atomic_ptr known;
    int (*lock)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))(uintptr_t)next(
        &known, "pthread_mutex_trylock", (void *)(uintptr_t)__pthread_mutex_trylock);
    return report(lock(mutex), mutex, 1, SITE);
}

__attribute__((visibility("default"))) int pthread_mutex_timedlock(pthread_mutex_t *mutex,
                                                                   const struct timespec *until)
{
    static atomic_ptr known;
    int (*lock)(pthread_mutex_t *, const struct timespec *) =
        (int (*)(pthread_mutex_t *, const struct timespec *))(uintptr_t)next(
            &known, "pthread_mutex_timedlock", (void *)(uintptr_t)__pthread_mutex_timedlock);
    return report(lock(mutex, until), mutex, 1, SITE);
}

__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static atomic_ptr known;
    int (*unlock)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))(uintptr_t)next(
        &known, "pthread_mutex_unlock", (void *)(uintptr_t)__pthread_mutex_unlock);
    return report(unlock(mutex), mutex, -1, SITE);
}

#else

void weft__os_mutex_listen(void (*function)(void *mutex, int change, void *site))
{
    (void)function;
}

#endif
