/*
 * lines.c: files and child processes from fibers.
 *
 * Writes a file, runs wc and sort on it at the same time, and checks their output. SIGINT ends it
 * early.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

enum { LINES = 1000, LINE = 5 };

static char path[64];

/* A thousand lines, the numbers from 999 down. */
static int write_file(void)
{
    int fd = weft_file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return fd;
    for (int i = 0; i < LINES; i++) {
        char line[LINE + 1];
        snprintf(line, sizeof line, "%04d\n", LINES - 1 - i);
        if (weft_file_write(fd, line, LINE, WEFT_NEVER) != LINE) {
            weft_file_close(fd);
            return -EIO;
        }
    }
    int error = weft_file_sync(fd, weft_after(10 * WEFT_S));
    weft_file_close(fd);
    return error;
}

struct job {
    const char *const *argv;
    char output[LINES * LINE + 1];
    int error;
    weft_process_status status;
};

static void run(void *arg)
{
    struct job *job = arg;
    weft_process_options options = {.argv = job->argv};
    size_t length = 0;
    job->error = weft_process_run(&options, job->output, sizeof job->output - 1, &length,
                                  &job->status, weft_after(30 * WEFT_S));
    job->output[length < sizeof job->output ? length : sizeof job->output - 1] = '\0';
}

static void interrupted(void *arg)
{
    int number;
    if (weft_chan_receive(arg, &number) == 0) {
        unlink(path);
        _exit(128 + number);
    }
}

int main(void)
{
    static const int ends[] = {SIGINT, SIGTERM};
    weft_signal *stop;
    weft_fiber *fibers[2], *listener;
    weft_context *context;
    snprintf(path, sizeof path, "weft-lines-%d", (int)getpid());
    const char *const count[] = {"wc", "-l", path, NULL}, *const sort[] = {"sort", path, NULL};
    struct job jobs[2] = {{.argv = count}, {.argv = sort}};
    if (weft_signal_open(&stop, ends, 2, 1) != 0 || weft_context_open(&context, NULL, NULL) != 0)
        return 1;
    weft_spawn_options options = {.context = context};
    if (weft_spawn(&listener, interrupted, weft_signal_chan(stop), &options) != 0)
        return 1;

    int error = write_file(), started = 0;
    while (started < 2 && error == 0) {
        error = weft_spawn(&fibers[started], run, &jobs[started], NULL);
        started += error == 0;
    }
    for (int i = 0; i < started; i++) {
        int joined = weft_join(fibers[i]);
        if (error == 0)
            error = joined != 0 ? joined : jobs[i].error;
    }
    unlink(path);
    weft_context_close(context); /* ends the listener */
    int joined = weft_join(listener);
    if (error == 0)
        error = joined;
    weft_signal_close(stop);
    if (error != 0) {
        fprintf(stderr, "%s\n", weft_strerror(error));
        return 1;
    }
    printf("lines: %ld, the first: %.4s\n", strtol(jobs[0].output, NULL, 10), jobs[1].output);
    return strtol(jobs[0].output, NULL, 10) == LINES && strncmp(jobs[1].output, "0000\n", 5) == 0
               ? 0
               : 1;
}
