/*
 * thread.c: threads, their ends, forks, membarrier: os/thread.h.
 */
#include "os/thread.h"

#include <dirent.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "os/linux/seam.h"

static sigset_t machine_mask; /* written while no machine exists */

void weft__os_threads_inherit(void)
{
    pthread_sigmask(SIG_SETMASK, NULL, &machine_mask);
}

const sigset_t *weft__os_machine_mask(void)
{
    return &machine_mask;
}

void weft__os_thread_begin(void)
{
    pthread_sigmask(SIG_SETMASK, &machine_mask, NULL);
    pthread_setname_np(pthread_self(), "weft");
}

void weft__os_thread_begin_quiet(const char *name)
{
    pthread_setname_np(pthread_self(), name); /* it was started with all signals blocked */
}

int weft__os_thread_clock(void)
{
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? (int)clock : -1;
}

int64_t weft__os_thread_time(int clock)
{
    KEEP_ERRNO;
    struct timespec used;
    if (clock == -1 || clock_gettime((clockid_t)clock, &used) != 0)
        return -1;
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

int weft__os_thread_start(weft__os_thread *thread, void *(*function)(void *), void *arg)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_THREAD))
        return -EAGAIN;
    /* The new thread inherits the mask of this one, which may be a thread of the program's: all
     * signals are blocked until the new thread sets its own mask. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t handle;
    int error = pthread_create(&handle, NULL, function, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return -error;
    *thread = (weft__os_thread)handle; /* a number in glibc, a pointer in musl */
    return 0;
}

void weft__os_thread_join(weft__os_thread thread)
{
    pthread_join((pthread_t)thread, NULL);
}

bool weft__os_thread_join_within(weft__os_thread thread, int64_t nanoseconds)
{
    if (pthread_equal((pthread_t)thread, pthread_self()))
        return pthread_detach((pthread_t)thread) == 0;
    if (nanoseconds <= 0)
        return pthread_tryjoin_np((pthread_t)thread, NULL) == 0;
    /* The real-time clock is the only one that every libc has for this: a step of it makes the wait
     * shorter or longer. */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct timespec until =
        to_timespec((int64_t)now.tv_sec * 1000000000 + now.tv_nsec + nanoseconds);
    return pthread_timedjoin_np((pthread_t)thread, NULL, &until) == 0;
}

void weft__os_yield(void)
{
    KEEP_ERRNO;
    sched_yield();
}

uint32_t weft__os_thread_count(void)
{
    KEEP_ERRNO;
    struct stat
        tasks; /* a folder has a link from each folder in it, one for each thread, and two more */
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
    return syscall(SYS_tgkill, getpid(), id, 0) == 0; /* musl, and glibc before 2.30, lack tgkill */
}

noinline int *weft__os_errno_address(void)
{
    return &errno;
}

noinline int weft__os_error(void)
{
    return -errno;
}

void weft__os_thread_stack(const void **low, size_t *size)
{
    pthread_attr_t attributes;
    void *lowest;
    must(pthread_getattr_np(pthread_self(), &attributes) == 0);
    pthread_attr_getstack(&attributes, &lowest, size);
    pthread_attr_destroy(&attributes);
    *low = lowest;
}

/* Thread exit. A key of thread-specific data calls the function in its destructor; the value of the
 * key is the argument. One function serves the process. */
static atomic_u32 exit_key; /* the key + 1; 0: not made yet */
static atomic_ptr exit_function;

static void at_exit(void *arg)
{
    void (*function)(void *) = (void (*)(void *))(uintptr_t)atomic_ptr_load_acquire(&exit_function);
    function(arg);
}

/* Makes the key. A failure may be for now only, so the next call tries again. If several threads
 * make one, the first to store its key wins and the others delete theirs: not a lock, which a fork
 * could leave locked in the child. */
static int make_exit_key(void)
{
    pthread_key_t key;
    uint32_t none = 0;
    int error = weft__failure_due(OS_REGISTER) ? EAGAIN : pthread_key_create(&key, at_exit);
    if (error == 0 && !atomic_u32_cas_acq_rel(&exit_key, &none, key + 1))
        pthread_key_delete(key);
    return -error;
}

int weft__os_thread_at_exit(void (*function)(void *), void *arg)
{
    KEEP_ERRNO;
    atomic_ptr_store_release(&exit_function, (void *)(uintptr_t)function); /* pairs with at_exit */
    int error = atomic_u32_load_acquire(&exit_key) != 0 ? 0 : make_exit_key();
    if (error != 0)
        return error;
    return weft__failure_due(OS_REGISTER)
               ? -ENOMEM
               : -pthread_setspecific(atomic_u32_load_acquire(&exit_key) - 1, arg);
}

void weft__os_thread_at_exit_cancel(void)
{
    uint32_t key = atomic_u32_load_acquire(&exit_key);
    if (key != 0)
        pthread_setspecific(key - 1, NULL);
}

int weft__os_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    return -pthread_atfork(before, in_parent, in_child);
}

int weft__os_membarrier_register(void)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_REGISTER))
        return -EPERM; /* as a seccomp filter does */
    long offered = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (offered < 0)
        return weft__os_error();
    if (!(offered & MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        return -ENOSYS;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0)
        return weft__os_error();
    return 0;
}

void weft__os_membarrier(void)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_BARRIER))
        sched_yield(); /* as if the first attempt below had failed */
    while (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
        must(weft__os_error() == -ENOMEM); /* the kernel lacks memory at this moment */
        sched_yield();
    }
}
