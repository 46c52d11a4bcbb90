/*
 * mutex_watch.c: debug builds: pthread mutexes that the program locks and unlocks are counted.
 *
 * The functions of libc are replaced by ones of the same name that call them (found by dlsym) and tell what they
 * did. In a program that is linked with the static library these come first, for the program and for every shared
 * library that it loads; libc's own locks do not come this way, and weft uses none. The shared library does not
 * export them: what the program locks is not counted there. Sanitizers replace the same functions, so there it
 * is left to them. A wait for a condition unlocks and locks again by itself, which changes nothing.
 */
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
    atomic_ptr_store_release(&listener, (void *)(uintptr_t)function); /* pairs with tell */
}

/* In a program that is wholly static there is no next one to be found by name; but libc has other names for
 * them. */
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

static int tell(int error, pthread_mutex_t *mutex, int change, void *site)
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
    return tell(lock(mutex), mutex, 1, SITE);
}

__attribute__((visibility("default"))) int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    static atomic_ptr known;
    int (*lock)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))(uintptr_t)next(
        &known, "pthread_mutex_trylock", (void *)(uintptr_t)__pthread_mutex_trylock);
    return tell(lock(mutex), mutex, 1, SITE);
}

__attribute__((visibility("default"))) int pthread_mutex_timedlock(pthread_mutex_t *mutex,
                                                                   const struct timespec *until)
{
    static atomic_ptr known;
    int (*lock)(pthread_mutex_t *, const struct timespec *) =
        (int (*)(pthread_mutex_t *, const struct timespec *))(uintptr_t)next(
            &known, "pthread_mutex_timedlock", (void *)(uintptr_t)__pthread_mutex_timedlock);
    return tell(lock(mutex, until), mutex, 1, SITE);
}

__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static atomic_ptr known;
    int (*unlock)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))(uintptr_t)next(
        &known, "pthread_mutex_unlock", (void *)(uintptr_t)__pthread_mutex_unlock);
    return tell(unlock(mutex), mutex, -1, SITE);
}

#else

#include "os/os.h"

void weft__os_mutex_listen(void (*function)(void *mutex, int change, void *site))
{
    (void)function;
}

#endif
