/*
 * weft/process.h: child processes: start them, exchange data by pipes, wait for them.
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
 * weft_process_run runs a program to its end and collects its output.
 *
 * A fiber of weft waits for each child and reaps it as soon as it ends: there are no zombies, also
 * if the program never waits. So weft_shutdown waits for all children to end, too. Do not call
 * wait(2) or waitpid(-1, ...) beside it, and do not ignore SIGCHLD: the status of the children
 * would be lost.
 *
 * A child begins with the default action for each signal and none blocked, and with descriptors 0,
 * 1 and 2 only, unless the options say otherwise.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/chan.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_process weft_process;

/* Where one of the three streams of a child goes. */
typedef struct weft_redirect {
    int to; /* WEFT_TO_... */
    int fd; /* WEFT_TO_FD: a descriptor of this process; it stays open here */
} weft_redirect;

#define WEFT_TO_SAME 0   /* the stream of this process */
#define WEFT_TO_NULL 1   /* /dev/null */
#define WEFT_TO_PIPE 2   /* a pipe; weft_process_stream is this process's end */
#define WEFT_TO_FD 3     /* a descriptor */
#define WEFT_TO_OUTPUT 4 /* of `error` only: where `output` goes */

/* Zero means default in every field but argv. */
typedef struct weft_process_options {
    const char *const *argv;            /* ends with NULL; argv[0] is looked for in PATH */
    const char *const *env;             /* NAME=value, ends with NULL. Default: this process's */
    const char *directory;              /* to run in. Default: this process's */
    weft_redirect input, output, error; /* 0, 1, 2 */
    int new_group;                      /* not zero: the leader of a new process group */
    int keep_descriptors;               /* not zero: also descriptors that are not close-on-exec */
    uintptr_t reserved[6];              /* must be zero */
} weft_process_options;

/* How a child ended. */
typedef struct weft_process_status {
    int exited;      /* not zero: by itself, with */
    int code;        /* exit code, 0 to 255 */
    int signal;      /* not zero: killed by this signal */
    int core_dumped; /* not zero: and left a core dump */
} weft_process_status;

/* Starts a child. When the call returns 0, the program runs. A cancelled context does not end the
 * call.
 * Returns 0; an error of exec for the program or of chdir for the directory (-ENOENT, -EACCES,
 * ...); -EAGAIN, -ENOMEM, -EMFILE, -ENFILE; -EBADF if a descriptor is not open; -EINVAL if process,
 * options or argv is NULL, argv is empty, or a field has no meaning; an error of weft_go. On an
 * error there is no child, and no descriptor is left open.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_process_spawn(weft_process **process,
                                              const weft_process_options *options);

/* Waits until the child has ended. Several callers may wait, also after the end: the status stays.
 * `status` may be NULL.
 * Returns 0; -ETIMEDOUT, -ECANCELED: the child runs on; -ECHILD in a forked child, or if the status
 * was taken by another wait of the program; -EINVAL if process is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_process_wait(weft_process *process, weft_process_status *status,
                                             int64_t deadline);

/* A channel of element size 0 that is closed when the child has ended, for use in a select. Valid
 * until the handle is closed. NULL for NULL.
 * Contexts: fiber, thread.
 * Undefined: sending to the channel, closing or destroying it. */
WEFT_API weft_chan *weft_process_done(weft_process *process);

/* Sends the child a signal; its whole process group, if it leads one. Never hits another process
 * that got the same number.
 * Returns 0; -ESRCH if the child has ended; -EINVAL if process is NULL or there is no such signal;
 * -EPERM.
 * Contexts: fiber, thread. */
WEFT_API int weft_process_kill(weft_process *process, int signal);

/* The process number of the child, for messages; -1 for NULL.
 * Contexts: fiber, thread. */
WEFT_API pid_t weft_process_pid(const weft_process *process);

/* This process's end of the pipe that is the child's stream 0, 1 or 2, for use with weft/pipe.h. It
 * belongs to the handle.
 * Returns the descriptor; -EBADF if there is no such pipe, or it was closed.
 * Contexts: fiber, thread. */
WEFT_API int weft_process_stream(weft_process *process, int which);

/* Closes this process's end of a pipe. With stream 0, the child sees the end of its input.
 * Returns 0; -EBADF if there is no such pipe, or it was closed.
 * Contexts: fiber, thread.
 * Undefined: another call that uses the descriptor at the same time. */
WEFT_API int weft_process_close_stream(weft_process *process, int which);

/* Closes the pipes and gives up the handle. A child that runs goes on, and is reaped when it ends.
 * NULL is allowed.
 * Contexts: fiber, thread.
 * Undefined: any use of the handle during or after it. */
WEFT_API void weft_process_close(weft_process *process);

/* Runs a child to its end, and to the end of its output, which its own children may hold open.
 * Stores up to `size` bytes of the output in `output`; the rest is read and dropped. *length is the
 * length of all of it. `output` may be NULL if size is 0; length and status may be NULL.
 *
 * The redirection of its output is ignored. Its input is /dev/null unless it is redirected. Neither
 * its input nor its errors may go to a pipe.
 *
 * If the deadline passes, the context of the caller is cancelled, or the output cannot be read, the
 * child is killed, with its process group if it leads one.
 * Returns 0, and *status; an error of weft_process_spawn; -ETIMEDOUT; -ECANCELED; an error of
 * weft_pipe_read.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_process_run(const weft_process_options *options, void *output,
                                            size_t size, size_t *length,
                                            weft_process_status *status, int64_t deadline);

WEFT_END

#endif
