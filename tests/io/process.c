/*
 * process.c: child processes: their environment, their output, how they end, and that none is left.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

#include "everywhere.h"
#include "failing.h"
#include "system.h"

#define SHELL(...) ((const char *const[]){"sh", "-c", __VA_ARGS__, NULL})

/* Children of this process, zombies included. */
static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* With pidfds and without; no child is left when the runtime has stopped. */
static void both_ways(void (*function)(void *))
{
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(setenv("WEFT_WITHOUT", i == 0 ? "" : "pidfd", 1), 0);
        everywhere(function);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK(!has_children());
    }
    CHECK_EQ(unsetenv("WEFT_WITHOUT"), 0);
}

static weft_process_status run(const weft_process_options *options, char *output, size_t size)
{
    weft_process_status status;
    size_t length;
    CHECK_EQ(weft_process_run(options, output, size - 1, &length, &status, WEFT_NEVER), 0);
    output[length < size ? length : size - 1] = '\0';
    return status;
}

/* Ends. */

static void end_each_way(void *arg)
{
    weft_process_status status;
    weft_process *process;
    CHECK_EQ(weft_process_spawn(&process, &(weft_process_options){.argv = SHELL("exit 7")}), 0);
    CHECK(weft_process_pid(process) > 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NOW), 0); /* the status stays */
    CHECK(status.exited);
    CHECK_EQ(status.code, 7);
    CHECK_EQ(status.signal, 0);
    CHECK_EQ(weft_process_kill(process, SIGTERM), -ESRCH);
    weft_process_close(process);
    CHECK_EQ(weft_process_spawn(&process, &(weft_process_options){.argv = SHELL("kill -9 $$")}), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
    CHECK(!status.exited);
    CHECK_EQ(status.code, 0);
    CHECK_EQ(status.signal, SIGKILL);
    CHECK_EQ(weft_chan_receive(weft_process_done(process), NULL), -ESHUTDOWN);
    weft_process_close(process);
}

static void the_status_tells_how_it_ended(void)
{
    both_ways(end_each_way);
}

static void wait_with_deadline(void *arg)
{
    weft_process *process;
    weft_process_status status = {.code = 77};
    weft_process_options options = {.argv = (const char *const[]){"sleep", "1000", NULL}};
    CHECK_EQ(weft_process_spawn(&process, &options), 0);
    int64_t deadline = weft_after(3 * WEFT_MS);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_process_wait(process, &status, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(status.code, 77);
    CHECK_EQ(weft_process_kill(process, SIGTERM), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
    CHECK_EQ(status.signal, SIGTERM);
    weft_process_close(process);
}

static void a_wait_may_end_before_the_child(void)
{
    both_ways(wait_with_deadline);
}

/* Streams, environment, descriptors. */

static void talk(void *arg)
{
    weft_process *cat;
    char memory[16];
    weft_process_options options = {.argv = (const char *const[]){"cat", NULL},
                                    .input = {.to = WEFT_TO_PIPE},
                                    .output = {.to = WEFT_TO_PIPE}};
    CHECK_EQ(weft_process_spawn(&cat, &options), 0);
    CHECK_EQ(weft_process_stream(cat, 2), -EBADF);
    CHECK_EQ(weft_process_stream(cat, 3), -EBADF);
    CHECK_EQ(weft_process_stream(cat, -1), -EBADF);
    CHECK_EQ(weft_process_close_stream(cat, 7), -EBADF);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pipe_write(weft_process_stream(cat, 0), "hello", 5, WEFT_NEVER), 5);
        CHECK_EQ(weft_pipe_read(weft_process_stream(cat, 1), memory, 16, WEFT_NEVER), 5);
        CHECK_EQ(memcmp(memory, "hello", 5), 0);
    }
    CHECK_EQ(weft_process_close_stream(cat, 0), 0);
    CHECK_EQ(weft_process_close_stream(cat, 0), -EBADF);
    CHECK_EQ(weft_pipe_read(weft_process_stream(cat, 1), memory, 16, WEFT_NEVER), 0);
    weft_process_status status;
    CHECK_EQ(weft_process_wait(cat, &status, WEFT_NEVER), 0);
    CHECK(status.exited && status.code == 0);
    weft_process_close(cat);
}

static void pipes_go_both_ways(void)
{
    both_ways(talk);
}

static void where_and_what(void *arg)
{
    char output[256];
    weft_process_options options = {.argv = SHELL("pwd; echo $NAME"),
                                    .env = (const char *const[]){"NAME=value", NULL},
                                    .directory = "/"};
    CHECK(run(&options, output, sizeof output).exited);
    CHECK_STR(output, "/\nvalue\n");
    options = (weft_process_options){.argv = SHELL("cat; echo out; echo err >&2"),
                                     .error = {.to = WEFT_TO_OUTPUT}};
    CHECK(run(&options, output, sizeof output).exited); /* input is /dev/null */
    CHECK_STR(output, "out\nerr\n");
    options.error.to = WEFT_TO_NULL;
    CHECK(run(&options, output, sizeof output).exited);
    CHECK_STR(output, "out\n");
    FILE *file = tmpfile();
    CHECK(file != NULL);
    options.error = (weft_redirect){.to = WEFT_TO_FD, .fd = fileno(file)};
    CHECK(run(&options, output, sizeof output).exited);
    CHECK_EQ(pread(fileno(file), output, 16, 0), 4);
    CHECK_EQ(memcmp(output, "err\n", 4), 0);
    fclose(file);
}

static void directory_environment_and_redirections(void)
{
    both_ways(where_and_what);
}

/* Streams may be crossed: the child's 1 is this process's 0, its 0 is this process's 1. */
static void crossed_streams(void)
{
    char name[] = "weft-crossed-XXXXXX";
    int fd = mkstemp(name), saved = dup(0);
    CHECK(fd >= 0 && saved >= 0);
    CHECK_EQ(unlink(name), 0);
    CHECK_EQ(dup2(fd, 0), 0);
    weft_process *process;
    weft_process_options options = {.argv = SHELL("echo crossed"),
                                    .input = {.to = WEFT_TO_FD, .fd = 1},
                                    .output = {.to = WEFT_TO_FD, .fd = 0}};
    CHECK_EQ(weft_process_spawn(&process, &options), 0);
    CHECK_EQ(weft_process_wait(process, NULL, WEFT_NEVER), 0);
    weft_process_close(process);
    CHECK_EQ(dup2(saved, 0), 0);
    char text[16];
    CHECK_EQ(pread(fd, text, 16, 0), 8);
    CHECK_EQ(memcmp(text, "crossed\n", 8), 0);
    close(fd);
    close(saved);
}

/* The child has the default action for all signals, none blocked, and three descriptors. */
static void signals_and_descriptors(void *arg)
{
    char output[512];
    int leak = fcntl(0, F_DUPFD, 50); /* not closed on exec */
    CHECK(leak >= 50);
    weft_process_options options = {.argv = SHELL("grep -E 'SigBlk|SigIgn' /proc/self/status;"
                                                  "ls /proc/$$/fd | tr '\\n' ' '")};
    CHECK(run(&options, output, sizeof output).exited);
    CHECK(strstr(output, "SigBlk:\t0000000000000000") != NULL);
    CHECK(test_emulated() || strstr(output, "SigIgn:\t0000000000000000") != NULL ||
          strstr(output, "SigIgn:\t0000000180000000") != NULL); /* the two of glibc */
    char number[16];
    snprintf(number, sizeof number, " %d ", leak);
    CHECK(strstr(output, number) == NULL);
    options.keep_descriptors = 1;
    CHECK(run(&options, output, sizeof output).exited);
    CHECK(strstr(output, number) != NULL);
    close(leak);
}

static void nothing_else_is_inherited(void)
{
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
    both_ways(signals_and_descriptors);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

/* Run. */

static void run_bounded(void *arg)
{
    char output[11];
    size_t length = 77;
    weft_process_status status = {.code = 77};
    weft_process_options options = {.argv = SHELL("seq 100000")};
    CHECK_EQ(weft_process_run(&options, output, 10, &length, &status, WEFT_NEVER), 0);
    CHECK_EQ(memcmp(output, "1\n2\n3\n4\n5\n", 10), 0);
    CHECK_EQ(length, 588895); /* of seq 100000 */
    CHECK(status.exited && status.code == 0);
    length = 77;
    status.code = 77;
    options = (weft_process_options){.argv = SHELL("echo x; sleep 1000; true"), .new_group = 1};
    CHECK_EQ(weft_process_run(&options, output, 10, &length, &status, weft_after(5 * WEFT_MS)),
             -ETIMEDOUT);
    CHECK_EQ(length, 77);
    CHECK_EQ(status.code, 77);
    CHECK_EQ(weft_process_run(&options, NULL, 10, NULL, NULL, WEFT_NEVER), -EINVAL);
    options.input.to = WEFT_TO_PIPE;
    CHECK_EQ(weft_process_run(&options, NULL, 0, NULL, NULL, WEFT_NEVER), -EINVAL);
    options.input.to = WEFT_TO_NULL;
    options.error.to = WEFT_TO_PIPE;
    CHECK_EQ(weft_process_run(&options, output, 8, NULL, &status, WEFT_NEVER), -EINVAL);
    options = (weft_process_options){.argv = SHELL("true"), .error = {.to = WEFT_TO_NULL}};
    CHECK_EQ(weft_process_run(&options, NULL, 0, NULL, &status, WEFT_NEVER), 0);
}

static void run_collects_what_fits(void)
{
    both_ways(run_bounded);
}

/* A stream that begins with FLOW never ends, so no read of it has to wait. weft is linked
 * statically: this is the read that it calls. */
#define FLOW "a flow without end"
static atomic_u32 flowing; /* the descriptor of that stream; 0: none */

ssize_t read(int fd, void *memory, size_t size)
{
    if (fd != 0 && atomic_u32_load_relaxed(&flowing) == (uint32_t)fd) {
        memset(memory, 'x', size);
        return (ssize_t)size;
    }
    ssize_t got = (ssize_t)syscall(SYS_read, fd, memory, size);
    if (got == sizeof FLOW - 1 && memcmp(memory, FLOW, sizeof FLOW - 1) == 0)
        atomic_u32_store_relaxed(&flowing, (uint32_t)fd);
    return got;
}

static void run_flowing(void *arg)
{
    char output[sizeof FLOW];
    weft_process_options options = {.argv = SHELL("printf '" FLOW "'; exec sleep 1000")};
    CHECK_EQ(
        weft_process_run(&options, output, sizeof output, NULL, NULL, weft_after(200 * WEFT_MS)),
        -ETIMEDOUT);
    atomic_u32_store_relaxed(&flowing, 0);
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, NULL, &(weft_context_options){.timeout = 200 * WEFT_MS}),
             0);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    CHECK_EQ(weft_process_run(&options, output, sizeof output, NULL, NULL, WEFT_NEVER), -ETIMEDOUT);
    atomic_u32_store_relaxed(&flowing, 0);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
}

static void a_deadline_holds_while_output_flows(void)
{
    both_ways(run_flowing);
}

static void run_under_context(void *arg)
{
    weft_process_options options = {.argv = (const char *const[]){"sleep", "1000", NULL}};
    *(int *)arg = weft_process_run(&options, NULL, 0, NULL, NULL, WEFT_NEVER);
}

static void a_context_ends_a_run(void)
{
    weft_context *context;
    weft_fiber *fiber;
    int result = 0;
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    weft_spawn_options options = {.context = context};
    CHECK_EQ(weft_spawn(&fiber, run_under_context, &result, &options), 0);
    while (!has_children())
        weft_yield();
    weft_context_cancel(context);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(result, -ECANCELED);
    weft_context_close(context);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* the child was killed, else this would wait */
    CHECK(!has_children());
}

/* Errors. */

static void nothing(void *arg)
{
}

static void errors(void *arg)
{
    weft_process *poison = (weft_process *)&poison, *process = poison;
    char output[8];
    CHECK_EQ(weft_go(nothing, NULL), 0); /* the runtime has descriptors of its own */
    int before = open_descriptors();
    weft_process_options options = {.argv = (const char *const[]){"weft-no-such-program", NULL}};
    CHECK_EQ(weft_process_spawn(&process, &options), -ENOENT);
    options.argv = (const char *const[]){"/", NULL};
    options.output.to = WEFT_TO_PIPE;
    CHECK_EQ(weft_process_spawn(&process, &options), -EACCES);
    options.argv = SHELL("true");
    options.directory = "/weft-no-such-folder";
    CHECK_EQ(weft_process_spawn(&process, &options), -ENOENT);
    options.directory = NULL;
    options.input = (weft_redirect){.to = WEFT_TO_FD, .fd = -1};
    CHECK_EQ(weft_process_spawn(&process, &options), -EBADF);
    options.input.to = WEFT_TO_OUTPUT;
    CHECK_EQ(weft_process_spawn(&process, &options), -EINVAL);
    options.input.to = 99;
    CHECK_EQ(weft_process_spawn(&process, &options), -EINVAL);
    options.input.to = 0;
    options.reserved[1] = 1;
    CHECK_EQ(weft_process_spawn(&process, &options), -EINVAL);
    CHECK_EQ(weft_process_spawn(&process, NULL), -EINVAL);
    CHECK_EQ(weft_process_spawn(NULL, &options), -EINVAL);
    CHECK_EQ(weft_process_spawn(&process, &(weft_process_options){.argv = NULL}), -EINVAL);
    CHECK_EQ(weft_process_spawn(&process, &(weft_process_options){.argv = (const char *[]){NULL}}),
             -EINVAL);
    CHECK_PTR(process, poison);
    CHECK_EQ(weft_process_run(NULL, output, 8, NULL, NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_process_wait(NULL, NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_process_kill(NULL, 9), -EINVAL);
    CHECK_EQ(weft_process_pid(NULL), -1);
    CHECK_PTR(weft_process_done(NULL), NULL);
    CHECK_EQ(weft_process_stream(NULL, 0), -EBADF);
    weft_process_close(NULL);
    CHECK_EQ(open_descriptors(), before);
}

static void a_failed_spawn_leaves_nothing(void)
{
    both_ways(errors);
}

static weft_process *attempted;
static int attempt_result;

static void attempt_spawn(void)
{
    weft_process_options options = {.argv = SHELL("exit 3"),
                                    .input = {.to = WEFT_TO_NULL},
                                    .output = {.to = WEFT_TO_PIPE},
                                    .error = {.to = WEFT_TO_OUTPUT}};
    attempt_result = weft_process_spawn(&attempted, &options);
}

static void attempt(void)
{
    static const int allowed[] = {-ENOMEM, -EAGAIN, -EMFILE, -ENFILE, -ENOSPC, 0};
    failing_while(attempt_spawn);
    failing_check(attempt_result, allowed);
    if (attempt_result == 0) {
        weft_process_status status;
        CHECK_EQ(weft_process_wait(attempted, &status, WEFT_NEVER), 0);
        CHECK_EQ(status.code, 3);
        weft_process_close(attempted);
    }
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK(!has_children());
}

static void faults_leave_nothing(void)
{
    int before = open_descriptors();
    CHECK(failing_each(attempt, 12) > 5);
    CHECK_EQ(open_descriptors(), before);
}

/* Many children, some of which are not waited for. */

static atomic_u32 ended;

static void many(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    weft_process *process;
    weft_process_status status;
    char code[16];
    snprintf(code, sizeof code, "exit %d", (int)(number % 100));
    CHECK_EQ(weft_process_spawn(&process, &(weft_process_options){.argv = SHELL(code)}), 0);
    if (number % 4 != 0) {
        CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
        CHECK_EQ(status.code, number % 100);
    }
    weft_process_close(process);
    atomic_u32_add_seq_cst(&ended, 1);
}

static void none_is_left_of(uint32_t count, int compact)
{
    int before = open_descriptors();
    weft_pool *pool;
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = 20, .compact = compact}), 0);
    atomic_u32_store_relaxed(&ended, 0);
    for (uintptr_t i = 0; i < count; i++)
        CHECK_EQ(weft_pool_submit(pool, many, (void *)i), 0);
    CHECK_EQ(weft_pool_close(pool), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&ended), count);
    CHECK(!has_children());
    CHECK_EQ(open_descriptors(), before);
}

static void a_thousand_children_leave_none(void)
{
    none_is_left_of((uint32_t)test_scale(1000), 0);
}

/* The arguments are on the stacks of compact fibers, which wait. */
static void compact_fibers_start_them(void)
{
    none_is_left_of((uint32_t)test_scale(200), 1);
}

int main(void)
{
    RUN_PLAIN(the_status_tells_how_it_ended, "child processes, which run when they run");
    RUN_PLAIN(a_wait_may_end_before_the_child, "child processes, which run when they run");
    RUN_PLAIN(pipes_go_both_ways, "child processes, which run when they run");
    RUN_PLAIN(directory_environment_and_redirections, "child processes, which run when they run");
    RUN_PLAIN(crossed_streams, "child processes, which run when they run");
    RUN_PLAIN(nothing_else_is_inherited, "child processes, which run when they run");
    RUN_PLAIN(run_collects_what_fits, "child processes, which run when they run");
    RUN_PLAIN(a_deadline_holds_while_output_flows, "child processes, which run when they run");
    RUN_PLAIN(a_context_ends_a_run, "child processes, which run when they run");
    if (!test_emulated()) /* there a child of vfork cannot report to its parent */
        RUN_PLAIN(a_failed_spawn_leaves_nothing, "child processes, which run when they run");
    RUN_PLAIN(faults_leave_nothing, "child processes, which run when they run");
    RUN_PLAIN(a_thousand_children_leave_none, "child processes, which run when they run");
    RUN_PLAIN(compact_fibers_start_them, "child processes, which run when they run");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
