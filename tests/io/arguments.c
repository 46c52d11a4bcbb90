/*
 * arguments.c: arguments of files, pipes and processes that make no sense are refused before anything is done.
 */
#include <sys/stat.h>
#include <sys/uio.h>

#include "everywhere.h"

static void files(void)
{
    struct stat status;
    char byte;
    struct iovec piece = {&byte, 1};
    CHECK_EQ(weft_file_open(NULL, 0, 0), -EINVAL);
    CHECK_EQ(weft_file_stat(NULL, &status), -EINVAL);
    CHECK_EQ(weft_file_stat("/", NULL), -EINVAL);
    CHECK_EQ(weft_file_unlink(NULL), -EINVAL);
    CHECK_EQ(weft_file_rename(NULL, "/no/such"), -EINVAL);
    CHECK_EQ(weft_file_rename("/no/such", NULL), -EINVAL);
    CHECK_EQ(weft_file_pread(0, &byte, 1, -1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_pwrite(0, &byte, 1, -1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_preadv(0, NULL, 1, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_preadv(0, &piece, -1, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_preadv(0, &piece, 1025, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_file_pwritev(0, &piece, 1, -2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pipe_make(NULL), -EINVAL);
}

static void processes(void)
{
    weft_process *process = NULL;
    weft_process_status status;
    char output[8];
    const char *argv[] = {"true", NULL}, *none[] = {NULL};
    weft_process_options options = {.argv = argv};
    CHECK_EQ(weft_process_spawn(&process, NULL), -EINVAL);
    CHECK_EQ(weft_process_spawn(&process, &(weft_process_options){.argv = NULL}), -EINVAL);
    CHECK_EQ(weft_process_spawn(&process, &(weft_process_options){.argv = none}), -EINVAL);
    CHECK_EQ(weft_process_spawn(&process, &(weft_process_options){.argv = argv, .reserved = {1}}),
             -EINVAL);
    CHECK_PTR(process, NULL);
    CHECK_EQ(weft_process_run(NULL, output, 8, NULL, &status, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_process_run(&options, NULL, 8, NULL, &status, WEFT_NEVER), -EINVAL);
    options.input.to = WEFT_TO_PIPE;
    CHECK_EQ(weft_process_run(&options, output, 8, NULL, &status, WEFT_NEVER), -EINVAL);
    options.input.to = WEFT_TO_NULL;
    options.error.to = WEFT_TO_PIPE;
    CHECK_EQ(weft_process_run(&options, output, 8, NULL, &status, WEFT_NEVER), -EINVAL);
    options.error.to = WEFT_TO_NULL;
    CHECK_EQ(weft_process_run(&options, NULL, 0, NULL, &status, WEFT_NEVER), 0);
    CHECK_EQ(weft_process_spawn(&process, &options), 0);
    CHECK_EQ(weft_process_stream(process, -1), -EBADF);
    CHECK_EQ(weft_process_stream(process, 3), -EBADF);
    CHECK_EQ(weft_process_stream(process, 0), -EBADF);
    CHECK_EQ(weft_process_close_stream(process, 7), -EBADF);
    CHECK_EQ(weft_process_wait(process, NULL, WEFT_NEVER), 0);
    weft_process_close(process);
    CHECK_EQ(weft_process_wait(NULL, NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_process_kill(NULL, 9), -EINVAL);
    CHECK_EQ(weft_process_pid(NULL), -1);
    CHECK_EQ(weft_process_stream(NULL, 0), -EBADF);
    CHECK_PTR(weft_process_done(NULL), NULL);
    weft_process_close(NULL);
}

int main(void)
{
    RUN_PLAIN(files, "nothing waits");
    RUN_PLAIN(processes, "waits for children only");
    return 0;
}
