/*
 * ring.c: the ring: many operations with one system call, more operations than fit, and none lost
 * whatever fails.
 */
#include "io/modes.h"

#include "failing.h"

enum { BLOCK = 4096, BLOCKS = 25 };

static int file;

struct reader {
    weft_fiber *fiber;
    int64_t offset;
    ssize_t result;
    char memory[BLOCK];
};

static void read_block(void *arg)
{
    struct reader *reader = arg;
    reader->result = weft_file_pread(file, reader->memory, BLOCK, reader->offset, WEFT_NEVER);
}

static struct reader *spawn_readers(int count)
{
    struct reader *readers = calloc((size_t)count, sizeof *readers);
    CHECK(readers != NULL);
    for (int i = 0; i < count; i++) {
        readers[i].offset = (int64_t)(i % BLOCKS) * BLOCK;
        CHECK_EQ(weft_spawn(&readers[i].fiber, read_block, &readers[i], NULL), 0);
    }
    return readers;
}

static void check_readers(struct reader *readers, int count)
{
    for (int i = 0; i < count; i++) {
        CHECK_EQ(weft_join(readers[i].fiber), 0);
        CHECK_EQ(readers[i].result, BLOCK);
        check_content(readers[i].memory, BLOCK, (size_t)readers[i].offset);
    }
    free(readers);
}

static void need_ring(void)
{
    if (!ring_is_there())
        test_skip("this kernel has no io_uring for us");
}

/* Many fibers, few system calls. */

static void read_by_hundreds(void *arg)
{
    uint64_t submits = weft__ring_submits(), operations = weft__ring_operations();
    check_readers(spawn_readers(200), 200);
    CHECK_EQ(weft__ring_operations() - operations, 200);
    CHECK(weft__ring_submits() - submits <= 4);
}

static void many_operations_one_call(void)
{
    in_mode(&modes[1], 1, read_by_hundreds);
}

static void read_nothing_by_ring(void *arg)
{
    uint64_t operations = weft__ring_operations();
    check_readers(spawn_readers(20), 20);
    CHECK_EQ(weft__ring_operations() - operations, 0);
}

static void cached_reads_do_not_use_the_ring(void)
{
    in_mode(&modes[0], 1, read_nothing_by_ring); /* cached: just written */
    in_mode(&modes[2], 1, read_nothing_by_ring);
    in_mode(&modes[3], 1, read_nothing_by_ring);
}

/* More operations than the ring can hold wait for a byte each, and the rest is queued. */

enum { WAITERS = 1400, ROOM = 600, IN_FLIGHT = 511 }; /* that the ring has in flight at most */
static int ends[2];
static atomic_u32 bytes;

/* A read of a pipe by the ring, which weft_file_read would not use. */
static int64_t read_by_ring(char *byte, int64_t deadline)
{
    struct weft__os_io io = {
        .kind = IO_READ, .fd = ends[0], .memory = byte, .length = 1, .offset = -1};
    int64_t result = -1;
    CHECK(weft__ring_run(&io, deadline, &result));
    return result;
}

static void read_byte(void *arg)
{
    char byte;
    CHECK_EQ(read_by_ring(&byte, WEFT_NEVER), 1);
    atomic_u32_add_seq_cst(&bytes, 1);
}

static void give_up(void *arg)
{
    char byte;
    CHECK_EQ(read_by_ring(&byte, *(int64_t *)arg), -ETIMEDOUT);
    atomic_u32_add_seq_cst(&bytes, 1);
}

static void wait_for_bytes(uint32_t count)
{
    while (atomic_u32_load_acquire(&bytes) < count)
        weft_yield();
    atomic_u32_store_relaxed(&bytes, 0);
}

static void overfill(void *arg)
{
    char byte = 'x';
    uint32_t waiters = ROOM + (uint32_t)test_scale(WAITERS);
    uint64_t before = weft__ring_operations();
    CHECK_EQ(pipe(ends), 0);
    for (uint32_t i = 0; i < waiters; i++)
        CHECK_EQ(weft_go(read_byte, NULL), 0);
    while (weft__ring_operations() - before < IN_FLIGHT)
        weft_yield();
    for (uint32_t i = 0; i < waiters; i++) /* the others run, and find the ring full */
        weft_yield();
    CHECK_EQ(weft__ring_operations() - before, IN_FLIGHT);
    for (uint32_t i = 0; i < waiters; i++)
        CHECK_EQ(write(ends[1], &byte, 1), 1);
    wait_for_bytes(waiters);
    int64_t deadline = weft_after(20 * WEFT_MS);
    for (uint32_t i = 0; i < waiters; i++)
        CHECK_EQ(weft_go(give_up, &deadline), 0);
    wait_for_bytes(waiters);
    close(ends[0]);
    close(ends[1]);
}

static void a_full_ring_loses_nothing(void)
{
    in_mode(&modes[1], 1, overfill);
    in_mode(&modes[1], 2, overfill);
}

/* A deadline, a context: what flies is cancelled, and the kernel has let go of the memory. */

static void end_in_flight(void *arg)
{
    char on_stack = 'a';
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < (int)test_scale(200); i++) {
        int64_t deadline = weft_after(i * 10 * WEFT_US);
        CHECK_EQ(read_by_ring(&on_stack, deadline), -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
        CHECK_EQ(write(ends[1], "b", 1), 1);
        weft_yield();
        CHECK_EQ(on_stack, 'a');
        CHECK_EQ(read_by_ring(&on_stack, WEFT_NEVER), 1);
        CHECK_EQ(on_stack, 'b');
        on_stack = 'a';
    }
    close(ends[0]);
    close(ends[1]);
}

static void cancelled(void *arg)
{
    char byte = 'a';
    CHECK_EQ(read_by_ring(&byte, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(byte, 'a');
    CHECK_EQ(read_by_ring(&byte, WEFT_NEVER), -ECANCELED); /* and at once */
}

static void cancel_in_flight(void *arg)
{
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < (int)test_scale(200); i++) {
        weft_context *context;
        weft_fiber *fibers[10];
        CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
        weft_spawn_options options = {.context = context};
        uint64_t before = weft__ring_operations();
        for (int j = 0; j < 10; j++)
            CHECK_EQ(weft_spawn(&fibers[j], cancelled, NULL, &options), 0);
        while (weft__ring_operations() - before < (uint64_t)i % 10 + 1)
            weft_yield(); /* that many are in flight */
        weft_context_cancel(context);
        for (int j = 0; j < 10; j++)
            CHECK_EQ(weft_join(fibers[j]), 0);
        weft_context_close(context);
    }
    close(ends[0]);
    close(ends[1]);
}

static void operations_in_flight_can_be_cancelled(void)
{
    for (int processors = 1; processors <= 2; processors++) {
        in_mode(&modes[1], processors, end_in_flight);
        in_mode(&modes[1], processors, cancel_in_flight);
    }
}

/* Slow operations are in flight while fast ones complete; in the end the ring has no watcher. */

static void fast_beside_slow(void *arg)
{
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < (int)test_scale(500); i++) {
        CHECK_EQ(weft_go(read_byte, NULL), 0);
        check_readers(spawn_readers(3), 3);
        CHECK_EQ(weft_file_write(ends[1], "x", 1, WEFT_NEVER), 1);
        check_readers(spawn_readers(2), 2);
        wait_for_bytes(1);
    }
    close(ends[0]);
    close(ends[1]);
}

static void the_watcher_ends_when_nothing_is_in_flight(void)
{
    in_mode(&modes[1], 1, fast_beside_slow); /* the shut-down would wait for a watcher */
    in_mode(&modes[1], 2, fast_beside_slow);
}

/* Faults. */

static uint32_t fail_nth;
static bool fail_on;
static enum weft__os_call fail_call;

static void read_while_failing(void *arg)
{
    enum { COUNT = 40 };
    struct reader *readers = spawn_readers(COUNT);
    weft__os_fail(fail_call, fail_nth, fail_on);
    for (int i = 0; i < COUNT; i++)
        while (weft_join_until(readers[i].fiber, weft_after(20 * WEFT_MS)) != 0)
            weft__os_fail(fail_call, 0, false); /* a fiber may wait for a stack until then */
    weft__os_fail(fail_call, 0, false);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(readers[i].result, BLOCK);
        check_content(readers[i].memory, BLOCK, (size_t)readers[i].offset);
    }
    free(readers);
}

static void nothing_is_lost_when_the_kernel_refuses(void)
{
    static const enum weft__os_call calls[] = {OS_RING, OS_ALLOC, OS_MAP, OS_POLL};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (fail_nth = 1; fail_nth <= 6; fail_nth++)
            for (int on = 0; on < 2; on++) {
                fail_call = calls[i];
                fail_on = on;
                in_mode(&modes[1], 2, read_while_failing);
            }
}

/* A set-up that fails is tried again by the next operation. */
static void open_late(void *arg)
{
    uint64_t operations = weft__ring_operations();
    weft__os_fail(OS_RING, 1, false);
    check_readers(spawn_readers(1), 1);
    CHECK_EQ(weft__ring_operations() - operations, 0);
    check_readers(spawn_readers(1), 1);
    CHECK_EQ(weft__ring_operations() - operations, 1);
    weft__os_fail(OS_RING, 0, false);
}

static void a_ring_may_open_late(void)
{
    in_mode(&modes[1], 1, open_late);
}

int main(void)
{
    need_ring();
    file = file_of(BLOCK * BLOCKS);
    RUN_PLAIN(many_operations_one_call, "when the kernel answers is not for the seed to say");
    RUN_PLAIN(cached_reads_do_not_use_the_ring,
              "when the kernel answers is not for the seed to say");
    RUN_PLAIN(a_full_ring_loses_nothing, "when the kernel answers is not for the seed to say");
    RUN_PLAIN(operations_in_flight_can_be_cancelled,
              "when the kernel answers is not for the seed to say");
    RUN_PLAIN(the_watcher_ends_when_nothing_is_in_flight,
              "when the kernel answers is not for the seed to say");
    RUN_PLAIN(a_ring_may_open_late, "when the kernel answers is not for the seed to say");
    RUN_PLAIN(nothing_is_lost_when_the_kernel_refuses,
              "when the kernel answers is not for the seed to say");
    close(file);
    return 0;
}
