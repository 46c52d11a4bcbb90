/*
 * spawn.c: child processes: os/spawn.h.
 *
 * By posix_spawn, not fork: it copies no page tables, runs no fork handlers (weft's take locks),
 * and blocks all signals until the child has its own actions. It returns when the program runs, or
 * why it does not.
 */
#include "os/spawn.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/linux/seam.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#if defined(__GLIBC__)
#define GLIBC_FROM(major, minor) __GLIBC_PREREQ(major, minor)
#else
#define GLIBC_FROM(major, minor) 0
#endif

/* In the child, closes all descriptors from 3 on. Where libc has no call for that (musl, glibc
 * before 2.34), closes those that are open now: one that another thread opens meanwhile without
 * close-on-exec is inherited. */
static int add_close_rest(posix_spawn_file_actions_t *actions)
{
#if GLIBC_FROM(2, 34)
    return posix_spawn_file_actions_addclosefrom_np(actions, 3);
#else
    DIR *open = opendir("/proc/self/fd");
    if (open == NULL)
        return errno;
    int error = 0;
    for (struct dirent *entry; error == 0 && (entry = readdir(open)) != NULL;) {
        int fd = atoi(entry->d_name);
        if (fd >= 3 && fd != dirfd(open))
            error = posix_spawn_file_actions_addclose(actions, fd);
    }
    closedir(open);
    return error;
#endif
}

static int add_actions(posix_spawn_file_actions_t *actions, const struct weft__os_spawn *how)
{
    int error = 0;
    for (int i = 0; i < 3 && error == 0; i++)
        if (how->fds[i] >= 0)
            error = posix_spawn_file_actions_adddup2(actions, how->fds[i], i);
    if (error == 0 && how->directory != NULL)
        error = posix_spawn_file_actions_addchdir_np(actions, how->directory);
    if (error == 0 && !how->keep_descriptors)
        error = add_close_rest(actions);
    return error;
}

static int set_attributes(posix_spawnattr_t *attributes, const struct weft__os_spawn *how)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    if (how->new_group)
        flags |= POSIX_SPAWN_SETPGROUP; /* to 0, the default: a group of its own */
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setsigmask(attributes, &none);
    return posix_spawnattr_setflags(attributes, flags);
}

int weft__os_spawn(pid_t *pid, const struct weft__os_spawn *how)
{
    KEEP_ERRNO;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t child;
    if (weft__failure_due(OS_SPAWN))
        return -EAGAIN;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return -error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        char *const *argv = (char *const *)(uintptr_t)how->argv;
        char *const *env = how->env != NULL ? (char *const *)(uintptr_t)how->env : environ;
        error = add_actions(&actions, how);
        if (error == 0)
            error = set_attributes(&attributes, how);
        if (error == 0)
            error = posix_spawnp(&child, argv[0], &actions, &attributes, argv, env);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0)
        *pid = child;
    return -error;
}

int weft__os_pidfd_open(pid_t pid)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_PIPE))
        return -EMFILE;
    long fd = syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
    return fd >= 0 ? (int)fd : weft__os_error();
}

int weft__os_process_await(pid_t pid)
{
    KEEP_ERRNO;
    siginfo_t info;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0) {
        int error = weft__os_error();
        if (error != -EINTR)
            return error;
    }
    return 0;
}

int weft__os_process_reap(pid_t pid, int *status)
{
    KEEP_ERRNO;
    pid_t ended;
    do
        ended = waitpid(pid, status, WNOHANG);
    while (ended < 0 && weft__os_error() == -EINTR);
    return ended < 0 ? weft__os_error() : ended == pid;
}

int weft__os_kill(pid_t pid, int signal)
{
    KEEP_ERRNO;
    return kill(pid, signal) == 0 ? 0 : weft__os_error();
}
