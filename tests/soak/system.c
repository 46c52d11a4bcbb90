/*
 * system.c: files, pipes, child processes, signals, names.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/compiler.h"
#include "soak.h"

enum { BLOCK = 4096, BLOCKS = 8, PIPED = 200 };

/* Files. */

static void fill(unsigned char *block, uint32_t dice)
{
    struct prng prng;
    prng_seed(&prng, dice);
    for (int i = 0; i < BLOCK; i++)
        block[i] = (unsigned char)prng_next(&prng);
}

static const char *folder(void)
{
    const char *path = getenv("TMPDIR");
    return path != NULL && *path != '\0' ? path : "/tmp";
}

static void write_and_read(int fd, struct prng *prng)
{
    unsigned char *block = malloc(BLOCK), *back = malloc(BLOCK);
    uint32_t dice[BLOCKS];
    CHECK(block != NULL && back != NULL);
    for (int i = 0; i < BLOCKS; i++) {
        dice[i] = prng_next(prng);
        fill(block, dice[i]);
        CHECK_EQ(weft_file_pwrite(fd, block, BLOCK, (int64_t)i * BLOCK, WEFT_NEVER), BLOCK);
    }
    if (one_in(prng, 16))
        CHECK_EQ(weft_file_sync_data(fd, WEFT_NEVER), 0);
    for (int i = 0; i < BLOCKS; i++) {
        uint32_t which = below(prng, BLOCKS);
        fill(block, dice[which]);
        CHECK_EQ(weft_file_pread(fd, back, BLOCK, (int64_t)which * BLOCK, WEFT_NEVER), BLOCK);
        CHECK(memcmp(block, back, BLOCK) == 0);
    }
    free(block);
    free(back);
}

static void files(struct actor *actor)
{
    static atomic_u32 names;
    char path[256], moved[300];
    struct stat status;
    actor->doing = "writes and reads a file";
    snprintf(path, sizeof path, "%s/weft-soak-%d-%u", folder(), (int)getpid(),
             atomic_u32_add_relaxed(&names, 1));
    snprintf(moved, sizeof moved, "%s.moved", path);
    int fd = weft_file_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0);
    write_and_read(fd, &actor->prng);
    CHECK_EQ(weft_file_rename(path, moved), 0);
    CHECK_EQ(weft_file_stat(moved, &status), 0);
    CHECK_EQ(status.st_size, BLOCK * BLOCKS);
    CHECK_EQ(weft_file_unlink(moved), 0);
    CHECK_EQ(weft_file_stat(moved, &status), -ENOENT);
    CHECK_EQ(weft_file_close(fd), 0);
}

/* Pipes. */

static void pipe_writer(struct member *member)
{
    const int *ends = member->shared;
    for (int i = 0; i < PIPED; i++) {
        uint64_t id = ledger_enter(BOOK_MESSAGES, "pipe");
        CHECK_EQ(weft_pipe_write(ends[1], &id, sizeof id, WEFT_NEVER), sizeof id);
        if (i % 16 == 0)
            soak_pause(&member->prng);
    }
}

static void pipes(struct actor *actor)
{
    int ends[2];
    struct crew crew;
    uint64_t id;
    uint32_t writers = between(&actor->prng, 1, 3);
    actor->doing = "reads from a pipe";
    CHECK_EQ(weft_pipe_make(ends), 0);
    crew_start(&crew, &actor->prng, writers, pipe_writer, ends);
    /* Writes and reads this small are atomic. */
    for (uint32_t i = 0; i < writers * PIPED; i++) {
        CHECK_EQ(weft_pipe_read(ends[0], &id, sizeof id, WEFT_NEVER), sizeof id);
        ledger_book_out(id, HAPPENED);
    }
    crew_join(&crew);
    CHECK_EQ(weft_pipe_read(ends[0], &id, sizeof id, WEFT_NOW), -ETIMEDOUT);
    close(ends[0]);
    close(ends[1]);
}

/* Children. */

static void run_child(struct actor *actor)
{
    static const char *const argv[] = {"echo", "soak", NULL};
    weft_process_options options = {.argv = argv};
    weft_process_status status;
    char output[16] = "";
    size_t length;
    actor->doing = "runs a child";
    uint64_t id = ledger_enter(BOOK_EVENTS, "child process");
    CHECK_EQ(weft_process_run(&options, output, sizeof output, &length, &status, WEFT_NEVER), 0);
    CHECK(status.exited && status.code == 0 && length == 5);
    CHECK(memcmp(output, "soak\n", 5) == 0);
    ledger_book_out(id, HAPPENED);
}

static void talk_to_child(struct actor *actor)
{
    static const char *const argv[] = {"cat", NULL};
    weft_process_options options = {
        .argv = argv, .input = {.to = WEFT_TO_PIPE}, .output = {.to = WEFT_TO_PIPE}};
    weft_process *process;
    weft_process_status status;
    actor->doing = "talks to a child";
    CHECK_EQ(weft_process_spawn(&process, &options), 0);
    for (int i = 0; i < 4; i++) {
        uint64_t id = ledger_enter(BOOK_MESSAGES, "through a child process"), back = 0;
        CHECK_EQ(weft_pipe_write(weft_process_stream(process, 0), &id, sizeof id, WEFT_NEVER),
                 sizeof id);
        CHECK_EQ(weft_pipe_read(weft_process_stream(process, 1), &back, sizeof back, WEFT_NEVER),
                 sizeof back);
        ledger_book_out(back, HAPPENED);
    }
    bool kill = one_in(&actor->prng, 2);
    if (kill)
        CHECK_EQ(weft_process_kill(process, SIGKILL), 0);
    else
        CHECK_EQ(weft_process_close_stream(process, 0), 0);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
    CHECK(kill ? status.signal == SIGKILL : status.exited && status.code == 0);
    weft_process_close(process);
}

/* Signals belong to the process, so one actor at a time uses them. */

/* Sends to the process; under ThreadSanitizer to the calling thread, since it delays a signal to a
 * sleeping thread until that thread calls an intercepted function. */
static void send_signal(void)
{
    CHECK_EQ(WEFT_TSAN ? raise(SIGUSR1) : kill(getpid(), SIGUSR1), 0);
}

static void signals(struct actor *actor)
{
    static weft_mutex one_at_a_time;
    static const int numbers[] = {SIGUSR1};
    weft_signal *signal;
    int number = 0;
    actor->doing = "waits for signals";
    weft_mutex_lock(&one_at_a_time);
    CHECK_EQ(weft_signal_open(&signal, numbers, 1, 4), 0);
    for (int i = 0; i < 3; i++) {
        uint64_t id = ledger_enter(BOOK_EVENTS, "signal");
        send_signal();
        CHECK_EQ(weft_chan_receive(weft_signal_chan(signal), &number), 0);
        CHECK_EQ(number, SIGUSR1);
        ledger_book_out(id, HAPPENED);
    }
    CHECK_EQ(weft_chan_try_receive(weft_signal_chan(signal), &number), -EAGAIN);
    CHECK_EQ(weft_signal_close(signal), 0);
    weft_mutex_unlock(&one_at_a_time);
}

static void names(struct actor *actor)
{
    weft_address addresses[4];
    weft_resolve_hints hints = {.family = AF_INET, .numeric = 1};
    actor->doing = "looks names up";
    CHECK_EQ(weft_resolve("127.0.0.1", "80", &hints, addresses, 4, WEFT_NEVER), 1);
    CHECK_EQ(weft_address_port(&addresses[0]), 80);
    hints.numeric = 0;
    (void)!weft_resolve("localhost", NULL, &hints, addresses, 4, soak_soon(&actor->prng));
}

void system_round(struct actor *actor)
{
    static void (*const rounds[])(struct actor *) = {files, files, pipes, pipes, names};
    switch (below(&actor->prng, 24)) { /* the slow operations are rare */
    case 0:
        run_child(actor);
        break;
    case 1:
        talk_to_child(actor);
        break;
    case 2:
        signals(actor);
        break;
    default:
        rounds[below(&actor->prng, 5)](actor);
    }
}
