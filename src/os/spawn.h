/*
 * spawn.h: child processes. Rules of all calls: os/os.h.
 */
#ifndef WEFT_OS_SPAWN_H
#define WEFT_OS_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

struct weft__os_spawn {
    const char *const
        *argv;              /* the program, looked for in PATH, and its arguments; ends with NULL */
    const char *const *env; /* NULL: this process's */
    const char *directory;  /* NULL: this process's */
    int fds[3];             /* become its 0, 1, 2; -1: inherit. Each is above 2. */
    bool keep_descriptors;  /* else it has 0, 1 and 2 only */
    bool new_group;         /* it leads a process group of its own */
};

/* Starts a child, with default signal actions and no signal blocked. Returns when the program runs,
 * or why it does not: until then it blocks. It has to be reaped. [OS_SPAWN] */
int weft__os_spawn(pid_t *pid, const struct weft__os_spawn *how);

/* A descriptor that is readable from the end of the child on; -ENOSYS where the system has none
 * (Linux before 5.3). [OS_PIPE] */
int weft__os_pidfd_open(pid_t pid);

/* Blocks until the child has ended. It stays to be reaped. */
int weft__os_process_await(pid_t pid);

/* Reaps the child: 1, and *status as waitpid gives it; 0 if it has not ended. From then on the
 * number may be another process's. */
int weft__os_process_reap(pid_t pid, int *status);

/* Sends a signal to a process; to the process group -pid if that is negative. */
enum { OS_SIGKILL = 9 };
int weft__os_kill(pid_t pid, int signal);

#endif
