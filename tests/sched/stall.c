/*
 * stall.c: at the bound of threads, with all of them in C code: after a second that is reported, if
 * nobody gets on.
 */
#include <fcntl.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "os/os.h"
#include "test.h"

enum { MACHINES = 4, READERS = 6, PATIENCE = 120 };

static int bytes[2], said[2], stderr_before;
static char text[16384];
static size_t length;
static atomic_u32 reading;

static void stderr_to_pipe(void)
{
    CHECK_EQ(pipe2(said, O_NONBLOCK), 0);
    stderr_before = dup(STDERR_FILENO);
    CHECK(stderr_before >= 0);
    CHECK(dup2(said[1], STDERR_FILENO) >= 0);
    length = 0;
    text[0] = '\0';
}

static void stderr_back(void)
{
    CHECK(dup2(stderr_before, STDERR_FILENO) >= 0);
    close(stderr_before);
    close(said[0]);
    close(said[1]);
    fprintf(stderr, "--- said:\n%s---\n", text);
}

static bool has_said(const char *words)
{
    ssize_t size;
    while ((size = read(said[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)size;
    text[length] = '\0';
    return strstr(text, words) != NULL;
}

static void read_byte(void *marked)
{
    char byte;
    if (marked != NULL)
        weft_blocking_enter();
    atomic_u32_add_seq_cst(&reading, 1);
    CHECK_EQ(read(bytes[0], &byte, 1), 1);
    if (marked != NULL)
        weft_blocking_exit();
}

static void write_bytes(void *arg)
{
    char zeros[READERS] = {0};
    CHECK_EQ(write(bytes[1], zeros, sizeof zeros), (ssize_t)sizeof zeros);
    (void)arg;
}

static void start_readers(weft_fiber **fibers, void *marked)
{
    weft_spawn_options options = {.name = "reader"};
    CHECK_EQ(pipe(bytes), 0);
    atomic_u32_store_relaxed(&reading, 0);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(weft_spawn(&fibers[i], read_byte, marked, &options), 0);
}

/* As many as there may be read, and the one that would write has no thread. When that is said the test writes in its place. */
static void hang(void *marked, const char *remedy)
{
    weft_fiber *fibers[READERS], *writer;
    start_readers(fibers, marked);
    while (atomic_u32_load_acquire(&reading) < MACHINES)
        usleep(1000);
    CHECK_EQ(weft_spawn(&writer, write_bytes, NULL, NULL), 0);
    while (!has_said(remedy))
        usleep(1000);
    write_bytes(NULL);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    CHECK_EQ(weft_join(writer), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    close(bytes[0]);
    close(bytes[1]);
}

static void check_report(void)
{
    CHECK(has_said("no fiber has run for a second: 4 of 4 threads sit in C code"));
    CHECK(has_said("\"reader\", spawned at "));
}

static void at_max_machines(void)
{
    for (int marked = 0; marked < 2; marked++) {
        stderr_to_pipe();
        CHECK_EQ(weft_configure(&(weft_config){.processors = 2, .max_machines = MACHINES}), 0);
        hang(marked ? &bytes : NULL, "raise weft_config.max_machines (WEFT_MAX_MACHINES), now 4\n");
        check_report();
        stderr_back();
    }
}

/* While some fibers get on nothing is reported, however long others wait for a thread. */

static void tick(void *arg)
{
    for (int64_t end = weft_after(3 * WEFT_S / 2); weft_now() < end;)
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
    (void)arg;
}

static void while_others_get_on(void)
{
    weft_fiber *fibers[READERS], *ticker;
    stderr_to_pipe();
    CHECK_EQ(weft_configure(&(weft_config){.processors = 2, .max_machines = READERS + 1}), 0);
    start_readers(fibers, NULL);
    while (atomic_u32_load_acquire(&reading) < READERS)
        usleep(1000);
    CHECK_EQ(weft_spawn(&ticker, tick, NULL, NULL), 0);
    CHECK_EQ(weft_join(ticker), 0);
    CHECK(!has_said("no fiber has run"));
    write_bytes(NULL);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    stderr_back();
    close(bytes[0]);
    close(bytes[1]);
}

/* All threads wait in C code, and nothing else wants to run: that is what they are for. */
static void without_anything_ready(void)
{
    weft_fiber *fibers[READERS];
    stderr_to_pipe();
    CHECK_EQ(weft_configure(&(weft_config){.processors = 2, .max_machines = READERS}), 0);
    start_readers(fibers, &bytes);
    while (atomic_u32_load_acquire(&reading) < READERS)
        usleep(1000);
    usleep(1500000);
    CHECK(!has_said("no fiber has run"));
    write_bytes(NULL);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    stderr_back();
    close(bytes[0]);
    close(bytes[1]);
}

int main(void)
{
    alarm(PATIENCE); /* what goes wrong here hangs */
    RUN_PLAIN(at_max_machines, "threads that block, which run when they run");
    RUN_PLAIN(while_others_get_on, "threads that block, which run when they run");
    RUN_PLAIN(without_anything_ready, "threads that block, which run when they run");
    return 0;
}
