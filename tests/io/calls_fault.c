/*
 * calls_fault.c: files, pipes, child processes, signals and names with each call of the system that
 * they need failing (scenario.h).
 */
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "os/os.h"
#include "scenario.h"

/* Files: errors of the disk, and a lack of what a call that waits needs. */

static char path[64], other_path[64];

static void use_file(void)
{
    char ab[] = "ab", memory[8] = "";
    struct iovec out[] = {{ab, 1}, {ab + 1, 1}}, in[] = {{memory, 1}, {memory + 1, 1}};
    struct stat status;
    snprintf(path, sizeof path, "/tmp/weft-file-%d", (int)getpid());
    snprintf(other_path, sizeof other_path, "/tmp/weft-other-%d", (int)getpid());
    int64_t fd = MAY(weft_file_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), -EMFILE);
    if (fd < 0)
        return;
    int file = (int)fd;
    bool whole = MAY(weft_file_write(file, "hello", 5, WEFT_NEVER), -EIO) == 5;
    whole = MAY(weft_file_pwrite(file, "J", 1, 0, WEFT_NEVER), -EIO) == 1 && whole;
    whole = MAY(weft_file_pwritev(file, out, 2, 5, WEFT_NEVER), -EIO) == 2 && whole;
    (void)MAY(weft_file_sync(file, WEFT_NEVER), -EIO);
    (void)MAY(weft_file_sync_data(file, WEFT_NEVER), -EIO);
    if (MAY(weft_file_pread(file, memory, 5, 0, WEFT_NEVER), -EIO) == 5 && whole)
        CHECK(memcmp(memory, "Jello", 5) == 0);
    if (MAY(weft_file_preadv(file, in, 2, 5, weft_after(WEFT_S)), -EIO, -ETIMEDOUT) == 2 && whole)
        CHECK(memcmp(memory, "ab", 2) == 0);
    CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
    (void)MAY(weft_file_read(file, memory, 5, WEFT_NEVER), -EIO);
    (void)MAY(weft_file_stat(path, &status), -EIO);
    bool moved = MAY(weft_file_rename(path, other_path), -EIO) == 0;
    (void)MAY(weft_file_close(file), -EIO); /* and it is closed */
    while (MAY(weft_file_unlink(moved ? other_path : path), -EIO) != 0)
        weft_yield();
    CHECK_EQ(stat(moved ? other_path : path, &status), -1);
}

/* Pipes. */

static void write_late(void *end)
{
    CHECK_EQ(weft_sleep(50 * WEFT_US), 0);
    while (MAY(weft_pipe_write(*(int *)end, "late", 4, WEFT_NEVER), -ENOMEM, -ENOSPC) != 4)
        weft_yield();
}

static void use_pipe(void)
{
    int ends[2] = {-7, -7};
    char memory[8];
    weft_fiber *fiber = POISON;
    int64_t result = MAY(weft_pipe_make(ends), -EMFILE);
    CHECK_EQ(ends[0] == -7 && ends[1] == -7, result != 0);
    if (result != 0)
        return;
    if (OPENED_GO(weft_spawn(&fiber, write_late, &ends[1], NULL), fiber)) {
        while ((result = MAY(weft_pipe_read(ends[0], memory, 8, WEFT_NEVER), -EIO, -ENOMEM,
                             -ENOSPC)) < 0)
            weft_yield();
        CHECK_EQ(result, 4);
        CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(weft_file_write(ends[1], "x", 1, WEFT_NOW) != 0, 1);
    }
    close(ends[0]);
    close(ends[1]);
}

/* Processes. */

#define SPAWN_ERRORS -ENOMEM, -EAGAIN, -EMFILE, -ENFILE, scene.place == AT_START ? -ENOSPC : -ENOMEM

static void use_process(void)
{
    static const char *const argv[] = {"cat", NULL};
    weft_process *process = POISON;
    weft_process_status status = {.code = -7};
    weft_process_options options = {.argv = argv,
                                    .input = {.to = WEFT_TO_PIPE},
                                    .output = {.to = WEFT_TO_PIPE},
                                    .error = {.to = WEFT_TO_OUTPUT}};
    if (!OPENED(weft_process_spawn(&process, &options), process, SPAWN_ERRORS))
        return;
    char byte = 0;
    bool put = MAY(weft_pipe_write(weft_process_stream(process, 0), "x", 1, WEFT_NEVER), -ENOMEM,
                   -ENOSPC) == 1;
    CHECK_EQ(weft_process_close_stream(process, 0), 0);
    int64_t got;
    while ((got = MAY(weft_pipe_read(weft_process_stream(process, 1), &byte, 1, WEFT_NEVER), -EIO,
                      -ENOMEM, -ENOSPC)) < 0)
        weft_yield();
    CHECK_EQ(got, put);
    CHECK_EQ(byte, put ? 'x' : 0);
    CHECK(weft_process_pid(process) > 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
    CHECK_EQ(status.code, 0);
    CHECK_EQ(weft_chan_closed(weft_process_done(process)), 1);
    CHECK_EQ(weft_process_kill(process, SIGTERM), -ESRCH);
    weft_process_close(process);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

static void use_run(void)
{
    static const char *const argv[] = {"echo", "hello", NULL};
    char output[16] = "";
    size_t length = 7777;
    weft_process_status status = {.code = -7};
    weft_process_options options = {.argv = argv};
    int64_t result =
        MAY(weft_process_run(&options, output, sizeof output, &length, &status, WEFT_NEVER),
            SPAWN_ERRORS, -EIO, -ENOSPC);
    CHECK_EQ(length, result == 0 ? 6 : 7777);
    if (result == 0)
        CHECK_EQ(status.code, 0);
}

/* Signals. An arrival may be lost if there is no memory to keep it. */
static void use_signal(void)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2};
    weft_signal *opened_signal = POISON;
    int number = 0, result;
    struct sigaction before, after;
    CHECK_EQ(sigaction(SIGUSR1, NULL, &before), 0);
    if (OPENED(weft_signal_open(&opened_signal, numbers, 2, 4), opened_signal, SPAWN_ERRORS)) {
        do {
            CHECK_EQ(raise(SIGUSR1), 0); /* handled before it returns */
            result = weft_chan_receive_until(weft_signal_chan(opened_signal), &number,
                                             weft_after(5 * WEFT_MS));
        } while (result == -ETIMEDOUT);
        CHECK_EQ(result, 0);
        CHECK_EQ(number, SIGUSR1);
        CHECK_EQ(weft_signal_close(opened_signal), 0);
    }
    CHECK_EQ(sigaction(SIGUSR1, NULL, &after), 0);
    CHECK(before.sa_handler == after.sa_handler);
}

/* Names. */

static int look_up(const char *host, const char *service, const struct addrinfo *hints,
                   struct addrinfo **list)
{
    return getaddrinfo(host != NULL && host[0] == 'n' ? "127.0.0.1" : host, service, hints, list);
}

static void use_resolve(void)
{
    weft_address found = {.size = 7777};
    weft__os_getaddrinfo_by(look_up);
    int64_t count = MAY(weft_resolve("name", "80", NULL, &found, 1, WEFT_NEVER), SPAWN_ERRORS);
    CHECK_EQ(found.size == 7777, count < 0);
    count = MAY(weft_resolve("127.0.0.1", "80", NULL, &found, 1, WEFT_NEVER), -EMFILE);
    CHECK(count < 0 || weft_address_port(&found) == 80);
    weft__os_getaddrinfo_by(NULL);
}

int main(void)
{
    static const struct scenario all[] = {
        {"file", use_file}, {"pipe", use_pipe},     {"process", use_process},
        {"run", use_run},   {"signal", use_signal}, {"resolve", use_resolve},
    };
    scenarios_run(all, sizeof all / sizeof all[0]);
    return 0;
}
