/*
 * environment.c: files, the environment, CPUs, and the ways out.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/seam.h"

ssize_t weft__os_read_file(const char *path, char *text, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_FILE))
        return -EMFILE;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return weft__os_error();
    size_t used = 0;
    while (used + 1 < size) {
        ssize_t got = read(fd, text + used, size - 1 - used);
        if (got < 0 && weft__os_error() == -EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    text[used] = '\0';
    return (ssize_t)used;
}

void weft__os_write_stderr(const char *text, size_t size)
{
    KEEP_ERRNO;
    while (size > 0) {
        ssize_t written = write(STDERR_FILENO, text, size);
        if (written < 0 && weft__os_error() == -EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        size -= (size_t)written;
    }
}

#ifdef WEFT_COVERAGE
void __gcov_dump(void);
void __gcov_reset(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

/* In the place of _exit, for the whole program, by the linker: a forked child ends so in most tests. */
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
    __gcov_reset(); /* what runs from here on is saved as well, if there is another end */
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

int weft__os_affinity_count(void)
{
    KEEP_ERRNO;
    /* The mask may be wider than cpu_set_t on large machines: ask with more until it fits. */
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
#if !defined(__GLIBC__) /* musl: constant texts, one of them for all errors that it does not know */
    const char *text = strerror(error);
    return strcmp(text, strerror(INT32_MAX)) != 0 ? text : "unknown error";
#elif __GLIBC_PREREQ(2, 32)
    const char *text = strerrordesc_np(error);
    return text != NULL ? text : "unknown error";
#else /* the text of a known error is a constant; the buffer serves for an unknown one */
    char none[1] = "";
    const char *text = strerror_r(error, none, sizeof none);
    return text != none ? text : "unknown error";
#endif
}

uint32_t weft__os_thread_count(void)
{
    struct stat tasks; /* a folder with one folder for each thread, and two links of its own */
    KEEP_ERRNO;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 2 ? (uint32_t)tasks.st_nlink - 2
                                                                      : 0;
}

uint32_t weft__os_other_threads(int *ids, uint32_t room)
{
    KEEP_ERRNO;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        return 0;
    uint32_t count = 0;
    for (struct dirent *entry; count < room && (entry = readdir(tasks)) != NULL;) {
        int id = atoi(entry->d_name);
        if (id > 0 && id != gettid())
            ids[count++] = id;
    }
    closedir(tasks);
    return count;
}

bool weft__os_thread_lives(int id)
{
    KEEP_ERRNO;
    return syscall(SYS_tgkill, getpid(), id, 0) == 0; /* musl and glibc 2.29 have no tgkill */
}
