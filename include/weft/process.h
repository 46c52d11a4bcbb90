/*
 * weft/process.h: child processes: start them, talk to them by pipes, wait for them.
 *
 *     const char *const argv[] = { "sort", "-n", NULL };
 *     weft_process *sort;
 *     weft_process_options options = {
 *         .argv = argv,
 *         .input = { .to = WEFT_TO_PIPE },
 *         .output = { .to = WEFT_TO_PIPE },
 *     };
 *     if (weft_process_spawn(&sort, &options) != 0)
 *         return 1;
 *     put = weft_pipe_write(weft_process_stream(sort, 0), "2\n1\n", 4, WEFT_NEVER);
 *     weft_process_close_stream(sort, 0);
 *     got = weft_pipe_read(weft_process_stream(sort, 1), memory, sizeof memory, WEFT_NEVER);
 *     error = weft_process_wait(sort, &status, weft_after(WEFT_S));
 *     weft_process_close(sort);
 *
 * For "run it and give me what it says" there is weft_process_run.
 *
 * Each child has a fiber in weft that waits for it and takes its status as soon as it ends: there are no
 * zombies, whether anybody asks or not. (So weft_shutdown waits for all children to end, too.) Do not
 * wait for children by wait(2) or waitpid(-1, ...) beside it, and do not ignore SIGCHLD: their status would
 * be lost.
 *
 * The child has all signals as they are by default, none of them blocked, and of all descriptors only 0, 1
 * and 2, unless it is asked for otherwise.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/chan.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_process weft_process;

/* Where one of a child's three streams goes. */
typedef struct weft_redirect {
    int to; /* WEFT_TO_... */
    int fd; /* WEFT_TO_FD: a descriptor of this process; it stays open here */
} weft_redirect;

#define WEFT_TO_SAME 0   /* that of this process */
#define WEFT_TO_NULL 1   /* /dev/null */
#define WEFT_TO_PIPE 2   /* a pipe; this process has the other end: weft_process_stream */
#define WEFT_TO_FD 3     /* a descriptor */
#define WEFT_TO_OUTPUT 4 /* error only: wherever output goes */

/* Zero means default in every field but argv. */
typedef struct weft_process_options {
    const char *const *argv;            /* ends with NULL; argv[0] is looked for in PATH */
    const char *const *env;             /* NAME=value, ends with NULL. Default: this process's */
    const char *directory;              /* to run in. Default: this process's */
    weft_redirect input, output, error; /* 0, 1, 2 */
    int new_group;                      /* not zero: a process group of its own */
    int keep_descriptors;               /* not zero: also those that are not closed on exec */
    uintptr_t reserved[6];              /* must be zero */
} weft_process_options;

/* How it ended. */
typedef struct weft_process_status {
    int exited;      /* not zero: by itself, with */
    int code;        /* exit code, 0 to 255 */
    int signal;      /* not zero: killed by this signal */
    int core_dumped; /* not zero: and left a core dump */
} weft_process_status;

/* Starts a child. When it returns, the program runs.
 * Returns 0; -ENOENT, -EACCES, ...: what exec says of the program, or chdir of the directory; -EAGAIN, -ENOMEM,
 * -EMFILE, -ENFILE; -EBADF if a descriptor is not open; -EINVAL if argv is missing or empty, or a field makes
 * no sense; and as weft_go. On failure there is no child, and no descriptor is left open.
 * Contexts: fiber, thread. A context that is cancelled does not stop it half-way. */
WEFT_API WEFT_MUST_USE int weft_process_spawn(weft_process **process,
                                              const weft_process_options *options);

/* Waits until the child has ended. May be called by several, and again: the status stays. status may be NULL.
 * Returns 0; -ETIMEDOUT, -ECANCELED: it runs on; -ECHILD if its status was taken by somebody else, or in a
 * forked child; -EINVAL if process is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_process_wait(weft_process *process, weft_process_status *status,
                                             int64_t deadline);

/* A channel (element size 0) that is closed when the child has ended, to take part in a select. Never send
 * to it, close or destroy it. NULL for NULL.
 * Contexts: fiber, thread. */
WEFT_API weft_chan *weft_process_done(weft_process *process);

/* Sends the child a signal, or all of its group if it has one of its own. Never hits another process that
 * came to the same number.
 * Returns 0; -ESRCH if it has ended; -EINVAL; -EPERM.
 * Contexts: fiber, thread. */
WEFT_API int weft_process_kill(weft_process *process, int signal);

/* Its number; for messages. -1 for NULL.
 * Contexts: fiber, thread. */
WEFT_API pid_t weft_process_pid(const weft_process *process);

/* The end of a pipe that goes to or comes from its stream 0, 1 or 2, to be used with weft/pipe.h; -EBADF if
 * there is none, or it was closed. It belongs to the handle.
 * Contexts: fiber, thread. */
WEFT_API int weft_process_stream(weft_process *process, int which);

/* Closes it: so the child sees the end of its input. Nobody may use it meanwhile.
 * Returns 0, or -EBADF.
 * Contexts: fiber, thread. */
WEFT_API int weft_process_close_stream(weft_process *process, int which);

/* Gives the handle up and closes the pipes. A child that runs runs on, and is still taken care of when it
 * ends. NULL is fine.
 * Contexts: fiber, thread. Undefined: any use during or after it. */
WEFT_API void weft_process_close(weft_process *process);

/* Runs a child to its end, and to the end of its output (which its own children may hold open), and collects
 * what is written there: up to `size` bytes of it in `output`, the
 * rest is read and dropped. *length is how much it was in all; output may be NULL if size is 0. Redirections
 * of its output are ignored, its input is /dev/null unless it is redirected (not to a pipe), its errors go
 * where the options say (not to a pipe). If the deadline passes or the context is cancelled, it is killed,
 * with its group if it has one of its own.
 * If its output cannot be read any more, it is killed as well.
 * Returns 0 and *status (which may be NULL, as may length); or as weft_process_spawn; -ETIMEDOUT; -ECANCELED; or why
 * its output cannot be read (weft_pipe_read).
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_process_run(const weft_process_options *options, void *output,
                                            size_t size, size_t *length,
                                            weft_process_status *status, int64_t deadline);

WEFT_END

#endif
