/*
 * process.c: child processes: weft/process.h.
 *
 * Each child has a fiber, its reaper, that starts the child, waits until it has ended, and reaps it
 * at once. The caller of spawn waits until the child runs; a wait for the end of the child is a
 * receive from a channel that the reaper closes. So every way to wait (deadline, context, select,
 * several waiters, threads) is that of a channel, nothing can fail between the start of the child
 * and the fiber that will reap it, and no zombie is left if its end is never waited for.
 *
 *     STARTING   the caller waits for `started`
 *     RUNNING    pid is valid, kill may use it
 *     ENDED      reaped; status is valid, `done` is closed
 *
 * The reaper waits by a pidfd. Without one (before Linux 5.3, no descriptor left) a thread blocks
 * in waitid. Waiting does not reap: the reap is under the lock that kill takes, so that no signal
 * hits an unrelated process that got the same number.
 *
 * A compact fiber starts the child itself, and its reaper waits for that: the arguments may be on
 * the compact stack, which other fibers use while the caller waits.
 *
 * The struct is freed by the last of its two references, the handle and the reaper.
 *
 * Rejected: one fiber for all children, woken by SIGCHLD (the signal is the program's, and merges);
 * no fiber, so that a waiter reaps (a zombie for each child that is not waited for, and several
 * waiters have to agree).
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
    atomic_u32 references;
    struct lock lock; /* pid, ended */
    pid_t pid;
    bool ended, new_group;
    bool by_caller; /* the caller of spawn starts the child, and the reaper waits for `started` */
    int error;      /* why there is no child, or no status */
    int status;     /* as waitpid gives it */
    weft_sem started;
    weft_chan *done;
    int streams[STREAMS];             /* this process's ends of the pipes; -1: none */
    const struct weft__os_spawn *how; /* the caller's, until `started` */
};

static void release(struct weft_process *process)
{
    if (atomic_u32_sub_acq_rel(&process->references, 1) != 1)
        return;
    weft_chan_destroy(process->done);
    weft__os_free(process);
}

/* The reaper. */

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

/* Returns when the child has ended, or its status is lost. */
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

static void reaper(void *arg)
{
    struct weft_process *process = arg;
    if (process->by_caller)
        weft_sem_acquire(&process->started, 1);
    else
        (void)weft_blocking(start_child, process);
    bool runs = process->error == 0;
    if (!process->by_caller)
        weft_sem_release(&process->started, 1);
    if (runs) {
        reap(process);
        (void)weft_chan_close(process->done);
    }
    release(process);
}

/* Redirections. */

/* The descriptors of the child and this process's ends of its pipes; `opened` child's ones are
 * closed here when the child has them. */
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
    return weft__os_set_nonblocking(ends->own[which]); /* the child's end blocks */
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

/* Where this process has 0, 1 or 2 closed, a new descriptor may have got that number, and one
 * redirection would overwrite what the next one needs: moves such descriptors above 2. */
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

static bool are_options_valid(const weft_process_options *options)
{
    if (options == NULL || options->argv == NULL || options->argv[0] == NULL)
        return false;
    for (size_t i = 0; i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        if (options->reserved[i] != 0)
            return false;
    return true;
}

static struct weft_process *make_process(int *error)
{
    struct weft_process *process = weft__os_alloc_zeroed(sizeof *process);
    *error = -ENOMEM;
    if (process == NULL)
        return NULL;
    atomic_u32_store_relaxed(&process->references, 2);
    *error = weft_chan_make(&process->done, 0, 0);
    if (*error == 0)
        return process;
    weft__os_free(process);
    return NULL;
}

/* Starts the reaper, and waits until the child runs. On failure the struct is freed. */
static int start(struct weft_process *process, const struct weft__os_spawn *how)
{
    process->how = how;
    process->by_caller = on_compact();
    int error = weft_go(reaper, process);
    if (error != 0) {
        release(process); /* the reaper's reference */
    } else if (process->by_caller) {
        (void)weft_blocking(start_child, process);
        error = process->error;
        weft_sem_release(&process->started, 1);
    } else {
        weft_sem_acquire(&process->started, 1);
        error = process->pid == 0 ? process->error : 0;
    }
    if (error != 0)
        release(process);
    return error;
}

int weft_process_spawn(weft_process **out, const weft_process_options *options)
{
    if (out == NULL || !are_options_valid(options))
        return -EINVAL;
    struct ends ends;
    int error;
    struct weft_process *process = make_process(&error);
    if (process == NULL)
        return error;
    error = redirect_all(&ends, options);
    if (error != 0) {
        release(process);
        release(process);
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
    release(process);
}

/* Run. */

/* Checks the deadline and the context. Reads check them only when they wait, and those from a child
 * that writes faster than it is read never do. */
static int out_of_time(int64_t deadline)
{
    return deadline <= weft_now() ? -ETIMEDOUT : weft__cancelled();
}

/* Reads to the end of the stream; what does not fit is dropped. */
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
    if (!are_options_valid(options) || (output == NULL && size > 0) ||
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
