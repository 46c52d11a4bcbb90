/*
 * mutex_watch.c: debug builds report each lock and unlock of the program that succeeded; also in a
 * static program, where libc's functions are found by their other names.
 */
#include "base/compiler.h"
#include "fibers.h"
#include "os/os.h"

#if !defined(WEFT_DEBUG) || WEFT_ASAN || WEFT_TSAN

int main(void)
{
    test_skip("only debug builds without a sanitizer count pthread mutexes");
}

#else

#include <dlfcn.h>

static bool nothing_next; /* dlsym finds no next one */

void *dlsym(void *handle, const char *name)
{
    if (nothing_next && handle == RTLD_NEXT)
        return NULL;
    void *real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (real == NULL)
        real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    CHECK(real != NULL);
    return ((void *(*)(void *, const char *))(uintptr_t)real)(handle, name);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int held, calls;

static void note(void *which, int change, void *site)
{
    CHECK(which == &mutex && site != NULL);
    held += change;
    calls++;
}

static void reports_what_succeeded(void)
{
    CHECK_EQ(pthread_mutex_lock(&mutex), 0); /* no listener yet */
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(calls, 0);
    weft__os_mutex_listen(note);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(held, 1);
    CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
    CHECK_EQ(pthread_mutex_timedlock(&mutex, &(struct timespec){0, 0}), ETIMEDOUT);
    CHECK_EQ(held, 1);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(held, 0);
    CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(held, 0);
    CHECK_EQ(calls, 4);
    weft__os_mutex_listen(NULL);
}

static void *die_with_it(void *arg)
{
    CHECK_EQ(pthread_mutex_lock(arg), 0);
    return NULL;
}

/* A lock of a robust mutex whose holder has ended succeeds too, with EOWNERDEAD. */
static void reports_robust_mutexes(void)
{
    pthread_mutexattr_t robust;
    CHECK_EQ(pthread_mutexattr_init(&robust), 0);
    CHECK_EQ(pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST), 0);
    CHECK_EQ(pthread_mutex_init(&mutex, &robust), 0);
    thread_join(thread_start(die_with_it, &mutex));
    held = 0;
    weft__os_mutex_listen(note);
    CHECK_EQ(pthread_mutex_lock(&mutex), EOWNERDEAD);
    CHECK_EQ(held, 1);
    CHECK_EQ(pthread_mutex_consistent(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(held, 0);
    weft__os_mutex_listen(NULL);
}

extern int __pthread_mutex_lock(pthread_mutex_t *) __attribute__((weak));
extern int __pthread_mutex_unlock(pthread_mutex_t *) __attribute__((weak));

int main(void)
{
    nothing_next = __pthread_mutex_lock != NULL && __pthread_mutex_unlock != NULL;
    CHECK_EQ(pthread_mutex_lock(&mutex), 0); /* looked for at the first use */
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    nothing_next = false;
    RUN_ALL_PLAIN("no fibers", reports_what_succeeded, reports_robust_mutexes);
    return 0;
}

#endif
