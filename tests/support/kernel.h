/*
 * kernel.h: functions of libc that do what a test wants, below weft's own fault injection
 * (os/failure.h): errors that only the kernel decides on, and interruptions by signals.
 *
 *     FAKE(int, accept4, (int fd, struct sockaddr *name, socklen_t *size, int flags),
 *          (fd, name, size, flags))
 *     ...
 *     KERNEL_SAYS(accept4, ECONNABORTED, 1);        the next call, of any thread, fails so
 *
 * weft is linked statically, so a function of that name in the program replaces libc's, for weft
 * too. Without a plan it calls libc's.
 */
#ifndef WEFT_TEST_KERNEL_H
#define WEFT_TEST_KERNEL_H

#include <dlfcn.h>
#include <stdarg.h>

#include "base/atomic.h"
#include "test.h"

struct fake {
    atomic_u32 skip, times; /* calls to pass on, and then to answer */
    atomic_u32 calls;       /* since the plan */
    int error;
};

/* Counts a call: true if the plan answers it. */
static inline bool fake_due(struct fake *fake)
{
    uint32_t left = atomic_u32_load_acquire(&fake->times); /* pairs with fake_plan */
    atomic_u32_add_relaxed(&fake->calls, 1);
    if (left == 0)
        return false;
    for (uint32_t skip = atomic_u32_load_relaxed(&fake->skip); skip > 0;)
        if (atomic_u32_cas_acq_rel(&fake->skip, &skip, skip - 1))
            return false;
    while (left > 0)
        if (atomic_u32_cas_acq_rel(&fake->times, &left, left - 1))
            return true;
    return false;
}

static inline void fake_plan(struct fake *fake, uint32_t skip, int error, uint32_t times)
{
    fake->error = error;
    atomic_u32_store_relaxed(&fake->calls, 0);
    atomic_u32_store_relaxed(&fake->skip, skip);
    atomic_u32_store_release(&fake->times, times);
}

static inline void *fake_real(const char *name)
{
    void *real = dlsym(RTLD_NEXT, name);
    CHECK(real != NULL);
    return real;
}

/* The function `syscall`, answered by `long answer(long number, const long *arguments)`, which may
 * call the real one. */
static inline __attribute__((unused)) long fake_real_syscall(long number, const long *a)
{
    long (*real)(long, ...) = (long (*)(long, ...))(uintptr_t)fake_real("syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#define FAKE_SYSCALL(answer)                   \
    long syscall(long number, ...)             \
    {                                          \
        va_list list;                          \
        long arguments[6];                     \
        va_start(list, number);                \
        for (int i = 0; i < 6; i++)            \
            arguments[i] = va_arg(list, long); \
        va_end(list);                          \
        return answer(number, arguments);      \
    }

#define KERNEL_ALWAYS UINT32_MAX
#define KERNEL_SAYS(name, error, times) fake_plan(&fake_##name, 0, error, times)
#define KERNEL_SAYS_AFTER(name, skip, error, times) fake_plan(&fake_##name, skip, error, times)
/* Checks that all planned answers were given. */
#define KERNEL_SAID(name) CHECK_EQ(atomic_u32_load_acquire(&fake_##name.times), 0)

/* A function with a planned answer, an expression. errno at the beginning is the caller's, also
 * while libc's function is looked up. */
#define FAKE_WITH(type, name, parameters, arguments, answer)           \
    static struct fake fake_##name;                                    \
    type name parameters                                               \
    {                                                                  \
        static atomic_ptr known;                                       \
        if (fake_due(&fake_##name))                                    \
            return answer;                                             \
        void *real = atomic_ptr_load_acquire(&known);                  \
        if (real == NULL)                                              \
            atomic_ptr_store_release(&known, real = fake_real(#name)); \
        return ((type(*) parameters)(uintptr_t)real)arguments;         \
    }

/* The result of a call that must leave errno alone. */
#define KEPT(call) kept(__FILE__, __LINE__, (errno = EDOM, call))
static inline __attribute__((unused)) int64_t kept(const char *file, int line, int64_t result)
{
    if (errno != EDOM)
        test_fail(file, line, "errno has become %d", errno);
    return result;
}

/* For functions that return -1 and set errno; and for those that return the error. */
#define FAKE(type, name, parameters, arguments) \
    FAKE_WITH(type, name, parameters, arguments, (errno = fake_##name.error, (type)-1))
#define FAKE_RETURNS(type, name, parameters, arguments) \
    FAKE_WITH(type, name, parameters, arguments, fake_##name.error)

/* fcntl, whose last argument may be a number or a pointer: either is passed on as a word. */
#define FAKE_FCNTL                                                                             \
    static struct fake fake_fcntl;                                                             \
    int fcntl(int fd, int command, ...)                                                        \
    {                                                                                          \
        va_list list;                                                                          \
        va_start(list, command);                                                               \
        void *argument = va_arg(list, void *);                                                 \
        va_end(list);                                                                          \
        if (fake_due(&fake_fcntl)) {                                                           \
            errno = fake_fcntl.error;                                                          \
            return -1;                                                                         \
        }                                                                                      \
        return ((int (*)(int, int, ...))(uintptr_t)fake_real("fcntl"))(fd, command, argument); \
    }

#endif
