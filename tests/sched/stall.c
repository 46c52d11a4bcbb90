/*
 * stall.c: all threads that there may be are in C code: after a second without a fiber that runs,
 * that is reported.
 */
#include "fibers.h"
#include "os/os.h"
#include "stderr_pipe.h"

enum { MACHINES = 4, READERS = 6, SECONDS_MOST = 120 };

static int bytes[2];
static atomic_u32 reading;

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
}

/* Starts a runtime with so many machines at most, and readers that block in C code; returns when
 * `count` of them do. */
static void begin(weft_fiber **fibers, int machines, uint32_t count, void *marked)
{
    stderr_to_pipe();
    CHECK_EQ(weft_configure(&(weft_config){.processors = 2, .max_machines = machines}), 0);
    CHECK_EQ(pipe(bytes), 0);
    atomic_u32_store_relaxed(&reading, 0);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(weft_spawn(&fibers[i], read_byte, marked, &(weft_spawn_options){.name = "reader"}),
                 0);
    nap_until(&reading, count);
}

/* Lets the readers end, and shuts down. */
static void end(weft_fiber **fibers)
{
    write_bytes(NULL);
    join_all(fibers, READERS);
    shut_down();
    stderr_back();
    close(bytes[0]);
    close(bytes[1]);
}

/* The fiber that would write has no thread. After the report the test writes in its place. */
static void at_max_machines(void)
{
    for (int marked = 0; marked < 2; marked++) {
        weft_fiber *fibers[READERS];
        begin(fibers, MACHINES, MACHINES, marked ? &bytes : NULL);
        CHECK_EQ(weft_go(write_bytes, NULL), 0);
        while (!has_said("raise weft_config.max_machines (WEFT_MAX_MACHINES), now 4\n"))
            nap(1000);
        CHECK(has_said("no fiber has run for a second: 4 of 4 threads sit in C code"));
        CHECK(has_said("\"reader\", spawned at "));
        end(fibers);
    }
}

static void tick(void *arg)
{
    for (int64_t end_time = weft_after(3 * WEFT_S / 2); weft_now() < end_time;)
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
}

/* While a fiber runs now and then nothing is reported, however long others wait for a thread. */
static void while_others_run(void)
{
    weft_fiber *fibers[READERS];
    begin(fibers, READERS + 1, READERS, NULL);
    run_fiber(tick, NULL);
    CHECK(!has_said("no fiber has run"));
    end(fibers);
}

/* All threads wait in C code, and no fiber is ready: the threads are there for that. */
static void without_a_ready_fiber(void)
{
    weft_fiber *fibers[READERS];
    begin(fibers, READERS, READERS, &bytes);
    nap(1500000);
    CHECK(!has_said("no fiber has run"));
    end(fibers);
}

int main(void)
{
    alarm(SECONDS_MOST); /* a failure here hangs */
    RUN_ALL_PLAIN("threads that block", at_max_machines, while_others_run, without_a_ready_fiber);
    return 0;
}
