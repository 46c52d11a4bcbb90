/*
 * kernel_fault.c: files, pipes, processes and signals where the kernel itself refuses, or does less
 * than was asked for.
 */
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "io/modes.h"
#include "kernel.h"
#include "os/failure.h"
#include "os/os.h"
#include "system.h"

FAKE(ssize_t, preadv2, (int fd, const struct iovec *list, int count, off_t offset, int flags),
     (fd, list, count, offset, flags))
FAKE(ssize_t, pwritev2, (int fd, const struct iovec *list, int count, off_t offset, int flags),
     (fd, list, count, offset, flags))
#if !WEFT_ASAN && !WEFT_TSAN
FAKE(int, sigaction, (int number, const struct sigaction *action, struct sigaction *before),
     (number, action, before))
#endif

/* The child has not ended yet; or, with an error, it has left a core. */
static pid_t left_core(pid_t pid, int *status, int options);
FAKE_WITH(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options),
          fake_waitpid.error == 0 ? 0 : left_core(pid, status, options))

static pid_t left_core(pid_t pid, int *status, int options)
{
    enum { CORE = 0x80 };
    pid_t result =
        ((pid_t(*)(pid_t, int *, int))(uintptr_t)fake_real("waitpid"))(pid, status, options);
    *status |= CORE;
    return result;
}

FAKE_FCNTL

/* Files. */

static int file;

/* Reads that the kernel refuses without waiting, or does in part, are read in full. */
static void read_in_parts(void *arg)
{
    static const int refusals[] = {EAGAIN, EOPNOTSUPP};
    char bytes[64];
    struct iovec pieces[] = {{bytes, 10}, {bytes + 10, 54}};
    for (size_t i = 0; i < 2; i++) {
        memset(bytes, 0, sizeof bytes);
        KERNEL_SAYS(preadv2, refusals[i], 1);
        CHECK_EQ(weft_file_pread(file, bytes, sizeof bytes, 5, weft_after(WEFT_S)), sizeof bytes);
        check_content(bytes, sizeof bytes, 5);
        memset(bytes, 0, sizeof bytes);
        KERNEL_SAYS(preadv2, refusals[i], 1);
        CHECK_EQ(weft_file_preadv(file, pieces, 2, 7, weft_after(WEFT_S)), sizeof bytes);
        check_content(bytes, sizeof bytes, 7);
        KERNEL_SAYS(preadv2, refusals[i], 1);
        CHECK_EQ(weft_file_preadv(file, pieces, 2, 7, WEFT_NOW), -ETIMEDOUT);
    }
    KERNEL_SAYS(preadv2, 0, 0);
    KERNEL_SAYS(preadv2, EIO, 1);
    CHECK_EQ(weft_file_preadv(file, pieces, 2, 7, weft_after(WEFT_S)), -EIO);
    KERNEL_SAYS(preadv2, 0, 0);
    /* At the end of the file there is less. */
    CHECK_EQ(weft_file_preadv(file, pieces, 2, 4096 - 30, weft_after(WEFT_S)), 30);
    check_content(bytes, 30, 4096 - 30);
    CHECK_EQ(lseek(file, 100, SEEK_SET), 100);
    CHECK_EQ(weft_file_preadv(file, pieces, 2, -1, weft_after(WEFT_S)), sizeof bytes);
    check_content(bytes, sizeof bytes, 100);
}

static void reads_that_have_to_wait(void)
{
    in_mode(&modes[0], 1, read_in_parts);
    in_mode(&modes[2], 1, read_in_parts);
    everywhere(read_in_parts);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* A write with WEFT_NOW is tried without waiting, and times out if that cannot be. */
static void write_at_once(void *arg)
{
    static const int refusals[] = {EAGAIN, EOPNOTSUPP};
    struct iovec piece = {.iov_base = (char[]){"x"}, .iov_len = 1};
    int scratch = file_of(10);
    for (size_t i = 0; i < 2; i++) {
        KERNEL_SAYS(pwritev2, refusals[i], 1);
        CHECK_EQ(weft_file_pwrite(scratch, "x", 1, 0, WEFT_NOW), -ETIMEDOUT);
        KERNEL_SAYS(pwritev2, refusals[i], 1);
        CHECK_EQ(weft_file_pwritev(scratch, &piece, 1, 0, WEFT_NOW), -ETIMEDOUT);
    }
    KERNEL_SAYS(pwritev2, ENOSPC, 1);
    CHECK_EQ(weft_file_pwrite(scratch, "x", 1, 0, WEFT_NOW), -ENOSPC);
    CHECK_EQ(weft_file_sync(scratch, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_file_sync_data(scratch, weft_after(10 * WEFT_S)), 0);
    close(scratch);
}

static void writes_that_must_not_wait(void)
{
    in_mode(&modes[0], 1, write_at_once);
    everywhere(write_at_once);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* A hand-off does not begin after the deadline, or in a cancelled context. */
static void begun_too_late(void *arg)
{
    weft_context *context, *before;
    int scratch = file_of(10);
    char byte;
    int64_t past = weft_now() - WEFT_MS;
    CHECK_EQ(weft_file_pwrite(scratch, "x", 1, 0, past), -ETIMEDOUT);
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_context_bind(context, &before), 0);
    CHECK_EQ(weft_file_pwrite(scratch, "x", 1, 0, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_context_bind(before, NULL), 0);
    weft_context_close(context);
    CHECK_EQ(pread(scratch, &byte, 1, 0), 1);
    CHECK_EQ(byte, 0);
    close(scratch);
}

static void calls_that_begin_too_late(void)
{
    in_mode(&modes[3], 1, begun_too_late);
    on_thread(begun_too_late);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Pieces to and from a pipe, which wait for the other end. */

static int ends[2];

static void write_pieces(void *arg)
{
    char bytes[] = "abcdef";
    struct iovec pieces[] = {{bytes, 2}, {bytes + 2, 4}};
    CHECK_EQ(weft_file_pwritev(ends[1], pieces, 2, -1, WEFT_NEVER), 6);
}

static void pieces_by_readiness(void *arg)
{
    weft_fiber *writer;
    char bytes[7] = "";
    struct iovec pieces[] = {{bytes, 3}, {bytes + 3, 3}};
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(weft_file_preadv(ends[0], pieces, 2, -1, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_spawn(&writer, write_pieces, NULL, NULL), 0);
    CHECK_EQ(weft_file_preadv(ends[0], pieces, 2, -1, WEFT_NEVER), 6);
    CHECK_STR(bytes, "abcdef");
    CHECK_EQ(weft_join(writer), 0);
    CHECK_EQ(weft_file_preadv(ends[0], pieces, 2, 0, weft_after(WEFT_S)), -ESPIPE);
    CHECK_EQ(write(ends[1], "gh", 2), 2); /* fewer bytes than there is room for */
    CHECK_EQ(weft_file_preadv(ends[0], pieces, 2, -1, weft_after(WEFT_S)), 2);
    CHECK_STR(bytes, "ghcdef");
    close(ends[0]), close(ends[1]);
}

static void pieces_of_a_pipe(void)
{
    in_all_modes(1, pieces_by_readiness);
    everywhere(pieces_by_readiness);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* The stack of a compact fiber is not its own while it waits: its reads do not use the ring. */
static void read_compact(void *arg)
{
    static char bytes[16];
    CHECK_EQ(weft_file_pread(file, bytes, sizeof bytes, 9, weft_after(WEFT_S)), sizeof bytes);
    check_content(bytes, sizeof bytes, 9);
}

static void run_compact(void *arg)
{
    weft_fiber *fiber;
    weft_spawn_options options = {.compact = 1};
    CHECK_EQ(weft_spawn(&fiber, read_compact, NULL, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void compact_fibers_read(void)
{
    in_mode(&modes[1], 1, run_compact);
}

/* Pipes. */

static void a_pipe_that_cannot_open(void)
{
    int both[2] = {-7, -7};
    int before = open_descriptors();
    for (uint32_t call = 0; call < 4; call++) { /* two for each end */
        fake_plan(&fake_fcntl, call, EPERM, 1);
        CHECK_EQ(weft_pipe_make(both), -EPERM);
    }
    CHECK(both[0] == -7 && both[1] == -7);
    CHECK_EQ(open_descriptors(), before);
}

/* Processes. */

static int spawn_shell(weft_process **process, const char *line)
{
    const char *argv[] = {"sh", "-c", line, NULL};
    weft_process_options options = {.argv = argv};
    return weft_process_spawn(process, &options);
}

static void a_child_whose_end_is_unknown(void)
{
    weft_process *process;
    weft_process_status status = {.code = 77};
    /* Its end is reported too early: the reaper waits again. */
    KERNEL_SAYS(waitpid, 0, 2);
    CHECK_EQ(spawn_shell(&process, "exit 4"), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
    KERNEL_SAID(waitpid);
    CHECK(status.exited && status.code == 4 && !status.core_dumped);
    weft_process_close(process);
    CHECK_EQ(spawn_shell(&process, "kill -9 $$"), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
    CHECK(!status.exited && status.signal == SIGKILL && !status.core_dumped);
    weft_process_close(process);
    KERNEL_SAYS(waitpid, 1, 1); /* as if the system kept cores of such deaths */
    CHECK_EQ(spawn_shell(&process, "kill -9 $$"), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
    CHECK(!status.exited && status.signal == SIGKILL && status.core_dumped);
    weft_process_close(process);
    /* Where the program ignores SIGCHLD, the kernel drops the status. */
    status.code = 77;
    CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    CHECK_EQ(spawn_shell(&process, "exit 4"), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), -ECHILD);
    CHECK_EQ(status.code, 77);
    CHECK_EQ(weft_process_kill(process, SIGTERM), -ESRCH);
    weft_process_close(process);
    CHECK(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* A process without some of its streams, whose new descriptors get their numbers. */
static void without_streams(void *closed)
{
    char output[16] = "";
    size_t length = 0;
    weft_process_status status;
    const char *argv[] = {"sh", "-c", "cat; echo error >&2", NULL};
    for (int i = 0; i < 3; i++)
        if (*(int *)closed & 1 << i)
            close(i);
    weft_process_options options = {
        .argv = argv, .input = {.to = WEFT_TO_NULL}, .error = {.to = WEFT_TO_OUTPUT}};
    int error = weft_process_run(&options, output, sizeof output - 1, &length, &status, WEFT_NEVER);
    _exit(error == 0 && strcmp(output, "error\n") == 0 && status.code == 0 ? 0 : 1);
}

/* The errors go where the output goes, which is to this process's. */
static void with_own_output(void *arg)
{
    const char *argv[] = {"sh", "-c", "echo error >&2", NULL};
    weft_process *process;
    CHECK_EQ(dup2(STDERR_FILENO, STDOUT_FILENO), STDOUT_FILENO);
    close(STDERR_FILENO);
    weft_process_options options = {.argv = argv, .error = {.to = WEFT_TO_OUTPUT}};
    if (weft_process_spawn(&process, &options) != 0 ||
        weft_process_wait(process, NULL, WEFT_NEVER) != 0)
        _exit(1);
    _exit(0);
}

static void moved_too_far(void *arg)
{
    const char *argv[] = {"true", NULL};
    weft_process *process;
    close(0);
    weft_process_options options = {.argv = argv, .input = {.to = WEFT_TO_NULL}};
    fake_plan(&fake_fcntl, 0, EMFILE, 1);
    int error = weft_process_spawn(&process, &options);
    _exit(error == -EMFILE ? 0 : 1);
}

static void streams_that_are_closed_here(void)
{
    const char *output;
    for (int closed = 0; closed < 8; closed++)
        CHECK_EQ(test_in_child(without_streams, &closed, &output), 0);
    CHECK_EQ(test_in_child(moved_too_far, NULL, &output), 0);
    CHECK_EQ(test_in_child(with_own_output, NULL, &output), 0);
    CHECK_STR(output, "error\n");
}

/* Signals. */

static const int both_signals[] = {SIGUSR1, SIGUSR2};
static atomic_u32 handled;

static void own_handler(int number)
{
    atomic_u32_add_seq_cst(&handled, 1);
}

static void own_info_handler(int number, siginfo_t *info, void *context)
{
    own_handler(number);
}

/* A handler that the program has set meanwhile stays, also one with more arguments. */
static void a_later_handler_stays(void)
{
    weft_signal *signals;
    struct sigaction above = {.sa_sigaction = own_info_handler, .sa_flags = SA_SIGINFO}, below, now;
    CHECK_EQ(weft_signal_open(&signals, both_signals, 1, 1), 0);
    CHECK_EQ(sigaction(SIGUSR1, &above, &below), 0);
    CHECK_EQ(weft_signal_close(signals), 0);
    CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    CHECK(now.sa_sigaction == own_info_handler);
    below.sa_handler(SIGUSR1); /* it may call the one below, without effect */
    CHECK(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Without memory for the byte that ends the forwarder, the pipe is closed. */
static void no_memory_for_the_end(void)
{
    int before = open_descriptors();
    for (int i = 0; i < 2; i++) {
        weft_signal *signals;
        CHECK_EQ(weft_signal_open(&signals, both_signals, 2, 1), 0);
        weft__os_fail(OS_WRITE, 1, false);
        CHECK_EQ(weft_signal_close(signals), 0);
        weft__os_fail(OS_WRITE, 0, false);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(open_descriptors(), before);
    }
}

/* More signals arrive than the pipe holds, while no fiber runs, and then the handle closes. */
static atomic_u32 holds, over;

static void hold(void *arg)
{
    atomic_u32_store_release(&holds, 1);
    while (!atomic_u32_load_acquire(&over))
        sched_yield();
}

static void a_storm_before_the_end(void)
{
    enum { MORE_THAN_A_PIPE_HOLDS = 70000 };
    weft_signal *signals;
    weft_fiber *holder;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_signal_open(&signals, both_signals, 1, 1), 0);
    CHECK_EQ(weft_spawn(&holder, hold, NULL, NULL), 0);
    while (!atomic_u32_load_acquire(&holds))
        sched_yield();
    for (int i = 0; i < MORE_THAN_A_PIPE_HOLDS; i++)
        CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(weft_signal_close(signals), 0);
    atomic_u32_store_release(&over, 1);
    CHECK_EQ(weft_join(holder), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

#if !WEFT_ASAN && !WEFT_TSAN
static void nothing(void *arg)
{
}

/* An action that cannot be read is left alone. */
static void an_action_that_cannot_be_read(void)
{
    struct sigaction now;
    CHECK_EQ(weft__os_signal_catch(SIGUSR1, own_handler), 0);
    KERNEL_SAYS(sigaction, EPERM, 1);
    weft__os_signal_restore(SIGUSR1, own_handler);
    CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    CHECK(now.sa_handler == own_handler);
    weft__os_signal_restore(SIGUSR1, own_handler);
    CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_DFL);
}

/* All signals are caught or none: the action of the first is restored. */
static void signals_that_cannot_be_caught(void)
{
    weft_signal *signals = NULL, *other;
    struct sigaction now;
    for (int beside = 0; beside < 2; beside++) {
        weft_fiber *fiber;
        CHECK_EQ(weft_spawn(&fiber, nothing, NULL, NULL), 0); /* the runtime calls it first */
        CHECK_EQ(weft_join(fiber), 0);
        if (beside)
            CHECK_EQ(weft_signal_open(&other, (int[]){SIGHUP}, 1, 1), 0);
        KERNEL_SAYS_AFTER(sigaction, 1, EINVAL, 1);
        CHECK_EQ(weft_signal_open(&signals, both_signals, 2, 1), -EINVAL);
        KERNEL_SAID(sigaction);
        CHECK_PTR(signals, NULL);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(sigaction(both_signals[i], NULL, &now), 0);
            CHECK(now.sa_handler == SIG_DFL);
        }
        if (beside)
            CHECK_EQ(weft_signal_close(other), 0);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* no forwarder is left */
    }
}
#endif

int main(void)
{
    file = file_of(4096);
    RUN(streams_that_are_closed_here); /* before weft runs here: it forks */
    RUN(reads_that_have_to_wait);
    RUN(writes_that_must_not_wait);
    RUN(calls_that_begin_too_late);
    RUN(pieces_of_a_pipe);
    RUN(compact_fibers_read);
    RUN(a_pipe_that_cannot_open);
    RUN(a_child_whose_end_is_unknown);
    RUN(a_later_handler_stays);
    RUN(no_memory_for_the_end);
    RUN(a_storm_before_the_end);
#if !WEFT_ASAN && !WEFT_TSAN
    RUN(an_action_that_cannot_be_read);
    RUN(signals_that_cannot_be_caught);
#endif
    close(file);
    return 0;
}
