/*
 * process.c: child processes.
 *
 * Each child has a keeper, a fiber that starts it, waits until it has ended, and reaps it at once. The caller
 * of spawn waits for the first; whoever waits for the child waits for a channel that the keeper closes. So
 * every way to wait (deadline, context, select, several at once, threads) is that of a channel, nothing
 * can fail between the start of the child and somebody being there to reap it, and no zombie is left if
 * nobody asks.
 *
 *     MAKING    the caller waits for `made`
 *     RUNS      pid is valid, kill may use it
 *     ENDED     reaped, status is valid, done is closed
 *
 * The keeper waits by a pidfd; without (before Linux 5.3, no descriptor left) a thread is handed to waitid.
 * Waiting does not reap: that is done under the lock that kill takes, so that no signal hits a stranger who got
 * the same number.
 *
 * A compact fiber starts the child itself, and the keeper waits for that: what it has on its stack (the arguments) is
 * not for others while it waits.
 *
 * The record is freed by the last of its two owners, the handle and the keeper.
 *
 * Rejected: one fiber for all children, told by SIGCHLD (the signal is the program's, and merges); no fiber, the
 * waiter reaps (a zombie for each child that nobody waits for; several waiters have to agree who).
 */
#include <errno.h>
#include <sys/wait.h>
#include <weft/blocking.h>
#include <weft/context.h>
#include <weft/fd.h>
#include <weft/pipe.h>
#include <weft/process.h>
#include <weft/sem.h>

#include "base/atomic.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/core/cancel.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/compact.h"

enum { STREAMS = 3, DROPPED = 4096 };

struct weft_process {
    atomic_u32 owners;
    struct lock lock; /* pid, ended */
    pid_t pid;
    bool ended, new_group;
    bool by_caller; /* it starts the child, and the keeper waits for `made` */
    int error;      /* why there is no child, or no status */
    int status;     /* as waitpid gives it */
    weft_sem made;
    weft_chan *done;
    int streams[STREAMS];             /* our ends of the pipes; -1: none */
    const struct weft__os_spawn *how; /* of the caller of spawn, until `made` */
};

static void disown(struct weft_process *process)
{
    if (atomic_u32_sub_acq_rel(&process->owners, 1) != 1) /* pairs with itself: the last sees all */
        return;
    weft_chan_destroy(process->done);
    weft__os_free(process);
}

/* The keeper. */

static void *start_child(void *arg)
{
    struct weft_process *process = arg;
    process->error = weft__os_spawn(&process->pid, process->how);
    return NULL;
}

static void *await_child(void *arg)
{
    struct weft_process *process = arg;
    (void)weft__os_process_await(process->pid);
    return NULL;
}

/* Returns when it has ended, or its status is lost. */
static void wait_for_end(struct weft_process *process)
{
    int fd = weft__sched.pidfd ? weft__os_pidfd_open(process->pid) : -ENOSYS;
    if (fd >= 0) {
        int ready = weft_fd_wait(fd, WEFT_READABLE, WEFT_NEVER);
        weft__os_close(fd);
        if (ready > 0)
            return;
    }
    (void)weft_blocking(await_child, process);
}

static void reap(struct weft_process *process)
{
    int status, reaped;
    do {
        wait_for_end(process);
        lock_acquire(&process->lock);
        reaped = weft__os_process_reap(process->pid, &status);
        if (reaped != 0) {
            process->ended = true;
            process->status = reaped > 0 ? status : 0;
            process->error = reaped > 0 ? 0 : reaped;
        }
        lock_release(&process->lock);
    } while (reaped == 0);
}

static void keeper(void *arg)
{
    struct weft_process *process = arg;
    if (process->by_caller)
        weft_sem_acquire(&process->made, 1);
    else
        (void)weft_blocking(start_child, process);
    bool runs = process->error == 0;
    if (!process->by_caller)
        weft_sem_release(&process->made, 1);
    if (runs) {
        reap(process);
        (void)weft_chan_close(process->done);
    }
    disown(process);
}

/* Redirections. */

/* The child's ends, and what of them is to be closed here when it has them. */
struct ends {
    int child[STREAMS], own[STREAMS];
    bool opened[STREAMS];
};

static int redirect_to_pipe(struct ends *ends, int which)
{
    int both[2];
    int error = weft__os_pipe(both);
    if (error != 0)
        return error;
    ends->own[which] = both[which == 0];
    ends->child[which] = both[which != 0];
    ends->opened[which] = true;
    return weft__os_set_nonblocking(ends->own[which]); /* the child's end blocks: it expects that */
}

static int redirect(struct ends *ends, int which, const weft_redirect *to)
{
    int fd;
    switch (to->to) {
    case WEFT_TO_SAME:
        return 0;
    case WEFT_TO_PIPE:
        return redirect_to_pipe(ends, which);
    case WEFT_TO_NULL:
        fd = weft__os_open_null(which != 0);
        break;
    case WEFT_TO_FD:
        fd = to->fd >= 0 ? weft__os_dup_above(to->fd, STREAMS) : -EBADF;
        break;
    case WEFT_TO_OUTPUT:
        if (which != 2)
            return -EINVAL;
        fd = weft__os_dup_above(ends->child[1] >= 0 ? ends->child[1] : 1, STREAMS);
        break;
    default:
        return -EINVAL;
    }
    if (fd < 0)
        return fd;
    ends->child[which] = fd;
    ends->opened[which] = true;
    return 0;
}

/* Where this process has 0, 1 or 2 closed, a new descriptor may get that number, and one redirection would
 * overwrite what the next one needs. */
static int move_up(struct ends *ends)
{
    for (int i = 0; i < STREAMS; i++) {
        if (ends->child[i] < 0 || ends->child[i] >= STREAMS)
            continue;
        int fd = weft__os_dup_above(ends->child[i], STREAMS);
        if (fd < 0)
            return fd;
        weft__os_close(ends->child[i]);
        ends->child[i] = fd;
    }
    return 0;
}

static void close_ends(struct ends *ends, bool own_too)
{
    for (int i = 0; i < STREAMS; i++) {
        if (ends->opened[i])
            weft__os_close(ends->child[i]);
        if (own_too && ends->own[i] >= 0)
            weft__os_close(ends->own[i]);
    }
}

static int redirect_all(struct ends *ends, const weft_process_options *options)
{
    *ends = (struct ends){.child = {-1, -1, -1}, .own = {-1, -1, -1}};
    int error = redirect(ends, 0, &options->input);
    if (error == 0)
        error = redirect(ends, 1, &options->output);
    if (error == 0)
        error = redirect(ends, 2, &options->error);
    if (error == 0)
        error = move_up(ends);
    if (error != 0)
        close_ends(ends, true);
    return error;
}

/* Spawn. */

static bool options_make_sense(const weft_process_options *options)
{
    if (options == NULL || options->argv == NULL || options->argv[0] == NULL)
        return false;
    for (size_t i = 0; i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        if (options->reserved[i] != 0)
            return false;
    return true;
}

static struct weft_process *make_record(int *error)
{
    struct weft_process *process = weft__os_alloc_zeroed(sizeof *process);
    *error = -ENOMEM;
    if (process == NULL)
        return NULL;
    atomic_u32_store_relaxed(&process->owners, 2);
    *error = weft_chan_make(&process->done, 0, 0);
    if (*error == 0)
        return process;
    weft__os_free(process);
    return NULL;
}

/* Starts the keeper, and waits until that has started the child. The record is the caller's, or gone. */
static int start(struct weft_process *process, const struct weft__os_spawn *how)
{
    process->how = how;
    process->by_caller = on_compact();
    int error = weft_go(keeper, process);
    if (error != 0) {
        disown(process); /* in place of the keeper */
    } else if (process->by_caller) {
        (void)weft_blocking(start_child, process);
        error = process->error;
        weft_sem_release(&process->made, 1);
    } else {
        weft_sem_acquire(&process->made, 1);
        error = process->pid == 0 ? process->error : 0;
    }
    if (error != 0)
        disown(process);
    return error;
}

int weft_process_spawn(weft_process **out, const weft_process_options *options)
{
    if (out == NULL || !options_make_sense(options))
        return -EINVAL;
    struct ends ends;
    int error;
    struct weft_process *process = make_record(&error);
    if (process == NULL)
        return error;
    error = redirect_all(&ends, options);
    if (error != 0) {
        disown(process);
        disown(process);
        return error;
    }
    process->new_group = options->new_group != 0;
    for (int i = 0; i < STREAMS; i++)
        process->streams[i] = ends.own[i];
    struct weft__os_spawn how = {.argv = options->argv,
                                 .env = options->env,
                                 .directory = options->directory,
                                 .fds = {ends.child[0], ends.child[1], ends.child[2]},
                                 .keep_descriptors = options->keep_descriptors != 0,
                                 .new_group = process->new_group};
    error = start(process, &how);
    close_ends(&ends, error != 0);
    if (error == 0)
        *out = process;
    return error;
}

/* The handle. */

static void decode(int status, weft_process_status *out)
{
    *out = (weft_process_status){
        .exited = WIFEXITED(status),
        .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
        .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
        .core_dumped = WIFSIGNALED(status) && WCOREDUMP(status),
    };
}

int weft_process_wait(weft_process *process, weft_process_status *status, int64_t deadline)
{
    if (process == NULL)
        return -EINVAL;
    int result = weft_chan_receive_until(process->done, NULL, deadline);
    if (result != -ESHUTDOWN)
        return result;
    if (process->error != 0)
        return process->error;
    if (status != NULL)
        decode(process->status, status);
    return 0;
}

weft_chan *weft_process_done(weft_process *process)
{
    return process != NULL ? process->done : NULL;
}

int weft_process_kill(weft_process *process, int signal)
{
    if (process == NULL)
        return -EINVAL;
    lock_acquire(&process->lock);
    int result = -ESRCH;
    if (!process->ended)
        result = weft__os_kill(process->new_group ? -process->pid : process->pid, signal);
    lock_release(&process->lock);
    return result;
}

pid_t weft_process_pid(const weft_process *process)
{
    return process != NULL ? process->pid : -1;
}

int weft_process_stream(weft_process *process, int which)
{
    if (process == NULL || which < 0 || which >= STREAMS || process->streams[which] < 0)
        return -EBADF;
    return process->streams[which];
}

int weft_process_close_stream(weft_process *process, int which)
{
    int fd = weft_process_stream(process, which);
    if (fd < 0)
        return fd;
    process->streams[which] = -1;
    weft__os_close(fd);
    return 0;
}

void weft_process_close(weft_process *process)
{
    if (process == NULL)
        return;
    for (int i = 0; i < STREAMS; i++)
        (void)weft_process_close_stream(process, i);
    disown(process);
}

/* Run. */

/* A child that writes faster than it is read from never makes a read wait, which is where the deadline and the context are
 * looked at. */
static int out_of_time(int64_t deadline)
{
    return deadline <= weft_now() ? -ETIMEDOUT : weft__cancelled();
}

/* Reads to the end; what does not fit is dropped. */
static int collect(int fd, char *output, size_t size, size_t *length, int64_t deadline)
{
    char dropped[DROPPED];
    for (;;) {
        bool fits = *length < size;
        ssize_t got = fits ? weft_pipe_read(fd, output + *length, size - *length, deadline)
                           : weft_pipe_read(fd, dropped, sizeof dropped, deadline);
        if (got <= 0)
            return (int)got;
        *length += (size_t)got;
        int error = out_of_time(deadline);
        if (error != 0)
            return error;
    }
}

int weft_process_run(const weft_process_options *options, void *output, size_t size, size_t *length,
                     weft_process_status *status, int64_t deadline)
{
    if (!options_make_sense(options) || (output == NULL && size > 0) ||
        options->input.to == WEFT_TO_PIPE || options->error.to == WEFT_TO_PIPE)
        return -EINVAL;
    weft_process_options own = *options;
    weft_process *process;
    size_t collected = 0;
    own.output = (weft_redirect){.to = WEFT_TO_PIPE};
    if (own.input.to == WEFT_TO_SAME)
        own.input.to = WEFT_TO_NULL;
    int error = weft_process_spawn(&process, &own);
    if (error != 0)
        return error;
    error = collect(weft_process_stream(process, 1), output, size, &collected, deadline);
    if (error == 0)
        error = weft_process_wait(process, status, deadline);
    if (error != 0)
        (void)weft_process_kill(process, OS_SIGKILL);
    else if (length != NULL)
        *length = collected;
    weft_process_close(process);
    return error;
}
