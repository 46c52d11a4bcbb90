/*
 * process.c: this process: os/process.h.
 */
#include "os/process.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/linux/seam.h"

#ifdef WEFT_COVERAGE
void __gcov_dump(void);
void __gcov_reset(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

/* Replaces _exit in the whole program (linker option --wrap): most forked children of tests end by
 * it. */
UNCOUNTED void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}
#endif

UNCOUNTED void weft__os_save_coverage(void)
{
#ifdef WEFT_COVERAGE
    __gcov_dump();
    __gcov_reset(); /* what runs from here on is added by the next dump */
#endif
}

UNCOUNTED void weft__os_abort(void)
{
    weft__os_save_coverage();
    abort();
}

UNCOUNTED void weft__os_exit_now(int status)
{
    _exit(status);
}

const char *weft__os_getenv(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe): read once, when the runtime starts */
}

int weft__os_cpu_count(void)
{
    KEEP_ERRNO;
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int weft__os_affinity_count(void)
{
    KEEP_ERRNO;
    /* The mask of a large machine may be wider than cpu_set_t: try larger sets until one fits. */
    for (int cpus = CPU_SETSIZE; cpus <= 1 << 16; cpus *= 2) {
        cpu_set_t *set = weft__failure_due(OS_ALLOC) ? NULL : CPU_ALLOC(cpus);
        if (set == NULL)
            return -ENOMEM;
        size_t size = CPU_ALLOC_SIZE(cpus);
        int error = sched_getaffinity(0, size, set) == 0 ? 0 : -weft__os_error();
        int count = error == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (error == 0)
            return count;
        if (error != EINVAL)
            return -error;
    }
    return -EINVAL;
}

const char *weft__os_strerror(int error)
{
#if !defined(__GLIBC__) /* musl: constant texts, the same one for all unknown errors */
    const char *text = strerror(error);
    return strcmp(text, strerror(INT32_MAX)) != 0 ? text : "unknown error";
#elif __GLIBC_PREREQ(2, 32)
    const char *text = strerrordesc_np(error);
    return text != NULL ? text : "unknown error";
#else /* the text of a known error is a constant; the buffer is used for an unknown one only */
    char none[1] = "";
    const char *text = strerror_r(error, none, sizeof none);
    return text != none ? text : "unknown error";
#endif
}

pid_t weft__os_getpid(void)
{
    return getpid();
}
