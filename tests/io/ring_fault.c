/*
 * ring_fault.c: the ring when the kernel refuses, interrupts, or takes its time: no operation is
 * lost or done twice, and a call that was given up returns when the kernel no longer uses its
 * memory.
 *
 * The test makes the system call that submits operations: it may refuse it, hold it until the test
 * lets it return, replace the result of a completion, and hold a cancellation.
 */
#include <linux/io_uring.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <weft/test.h>

#include "io/modes.h"
#include "kernel.h"
#include "os/failure.h"
#include "os/os.h"

static struct fake fake_setup, fake_enter;
static struct io_uring_params parameters;
static char *rings;
static struct io_uring_sqe *submissions;

/* The next completion with result `from` gets `to`. */
static struct {
    atomic_u32 on;
    int32_t from, to;
} rewrite;

/* Cancellations last until there is a byte in a pipe. */
static struct {
    atomic_u32 on, count;
    int ends[2];
    char byte;
} hold;

/* Calls that last until they may return. */
static struct {
    atomic_u32 planned, inside, returns;
} slow;

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    void *memory = ((void *(*)(void *, size_t, int, int, int, off_t))(uintptr_t)fake_real("mmap"))(
        at, size, protection, flags, fd, offset);
    if (fd >= 0 && offset == IORING_OFF_SQ_RING && (flags & MAP_SHARED) && (flags & MAP_POPULATE))
        rings = memory;
    if (fd >= 0 && offset == IORING_OFF_SQES && (flags & MAP_SHARED) && (flags & MAP_POPULATE))
        submissions = memory;
    return memory;
}

static void rewrite_results(void)
{
    const struct io_cqring_offsets *at = &parameters.cq_off;
    uint32_t head = *(volatile uint32_t *)(void *)(rings + at->head);
    uint32_t tail = *(volatile uint32_t *)(void *)(rings + at->tail);
    struct io_uring_cqe *entries = (struct io_uring_cqe *)(void *)(rings + at->cqes);
    for (; head != tail; head++) {
        struct io_uring_cqe *entry = &entries[head & (parameters.cq_entries - 1)];
        if (entry->res == rewrite.from && atomic_u32_exchange_acq_rel(&rewrite.on, 0))
            entry->res = rewrite.to;
    }
}

static void hold_cancellations(void)
{
    const struct io_sqring_offsets *at = &parameters.sq_off;
    uint32_t head = *(volatile uint32_t *)(void *)(rings + at->head);
    uint32_t tail = *(volatile uint32_t *)(void *)(rings + at->tail);
    for (; head != tail; head++) {
        struct io_uring_sqe *entry = &submissions[head & (parameters.sq_entries - 1)];
        if (entry->opcode != IORING_OP_ASYNC_CANCEL)
            continue;
        entry->opcode = IORING_OP_READ;
        entry->fd = hold.ends[0];
        entry->addr = (uint64_t)(uintptr_t)&hold.byte;
        entry->len = 1;
        entry->off = (uint64_t)-1;
        atomic_u32_add_seq_cst(&hold.count, 1);
    }
}

static void be_slow(void)
{
    uint32_t planned = atomic_u32_load_acquire(&slow.planned);
    while (planned > 0 && !atomic_u32_cas_acq_rel(&slow.planned, &planned, planned - 1))
        continue;
    if (planned == 0)
        return;
    uint32_t number = atomic_u32_add_seq_cst(&slow.inside, 1) + 1;
    while (atomic_u32_load_acquire(&slow.returns) < number)
        sched_yield();
}

static long answer_syscall(long number, const long *a)
{
    struct fake *fake = number == SYS_io_uring_setup   ? &fake_setup
                        : number == SYS_io_uring_enter ? &fake_enter
                                                       : NULL;
    if (fake != NULL && fake_due(fake)) {
        errno = fake->error;
        return -1;
    }
    if (number == SYS_io_uring_enter)
        be_slow();
    if (number == SYS_io_uring_enter && atomic_u32_load_acquire(&hold.on))
        hold_cancellations();
    long result = fake_real_syscall(number, a);
    if (number == SYS_io_uring_setup && result >= 0)
        memcpy(&parameters, (void *)(uintptr_t)a[1], sizeof parameters);
    if (number == SYS_io_uring_enter && atomic_u32_load_relaxed(&rewrite.on))
        rewrite_results();
    return result;
}

FAKE_SYSCALL(answer_syscall)

static int file, ends[2];

static void begin(void)
{
    CHECK_EQ(pipe(ends), 0);
    atomic_u32_store_relaxed(&slow.inside, 0);
    atomic_u32_store_relaxed(&slow.returns, 0);
}

static void end(void)
{
    close(ends[0]);
    close(ends[1]);
}

static int64_t read_by_ring(int fd, char *memory, size_t size, int64_t offset, int64_t deadline)
{
    struct weft__os_io io = {
        .kind = IO_READ, .fd = fd, .memory = memory, .length = size, .offset = offset};
    int64_t result = -1;
    return weft__ring_run(&io, deadline, &result) ? result : -EDOM;
}

/* A fiber that reads one byte of a pipe. */
struct reader {
    weft_fiber *fiber;
    int fd;
    int64_t timeout, result;
    char byte;
    atomic_u32 ended;
};

static void read_pipe(void *arg)
{
    struct reader *reader = arg;
    int64_t deadline = reader->timeout == 0 ? WEFT_NEVER : weft_after(reader->timeout);
    reader->result = read_by_ring(reader->fd, &reader->byte, 1, -1, deadline);
    atomic_u32_store_release(&reader->ended, 1);
}

/* Returns when its operation is in flight. */
static void reader_start(struct reader *reader, int fd, int64_t timeout)
{
    uint64_t before = weft__ring_operations();
    *reader = (struct reader){.fd = fd, .timeout = timeout, .byte = 'a'};
    CHECK_EQ(weft_spawn(&reader->fiber, read_pipe, reader, NULL), 0);
    while (weft__ring_operations() == before)
        weft_yield();
}

static void reader_end(struct reader *reader, int64_t expected)
{
    CHECK_EQ(weft_join(reader->fiber), 0);
    CHECK_EQ(reader->result, expected);
    CHECK_EQ(reader->byte, expected == 1 ? 'x' : 'a');
}

/* After a lack of resources the next operation opens the ring again; after a refusal not. */
static void opened_late(void *arg)
{
    static const int lacks[] = {ENOMEM, EMFILE, ENFILE, EAGAIN};
    char byte;
    for (size_t i = 0; i < 4; i++) {
        fake_plan(&fake_setup, 0, lacks[i], 1);
        CHECK_EQ(read_by_ring(file, &byte, 1, 0, WEFT_NEVER), -EDOM);
    }
    CHECK_EQ(read_by_ring(file, &byte, 1, 0, WEFT_NEVER), 1);
    fake_plan(&fake_setup, 0, 0, 0);
}

static void opened_never(void *arg)
{
    char byte;
    fake_plan(&fake_setup, 0, EPERM, 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(read_by_ring(file, &byte, 1, 0, WEFT_NEVER), -EDOM);
    CHECK_EQ(atomic_u32_load_relaxed(&fake_setup.calls), 1);
}

static void a_ring_that_is_refused(void)
{
    in_mode(&modes[1], 1, opened_late);
    in_mode(&modes[1], 1, opened_never);
    in_mode(&modes[1], 1, opened_late); /* the next start of the runtime tries again */
}

/* An operation that was interrupted, or cancelled by the end of a thread, is done again. */
static void done_again(void *arg)
{
    char bytes[100];
    static const int32_t results[] = {-EINTR, -ECANCELED};
    CHECK_EQ(read_by_ring(file, bytes, 1, 0, WEFT_NEVER), 1);
    for (size_t i = 0; i < 2; i++) {
        rewrite.from = sizeof bytes;
        rewrite.to = results[i];
        atomic_u32_store_release(&rewrite.on, 1);
        uint64_t before = weft__ring_operations();
        memset(bytes, 0, sizeof bytes);
        CHECK_EQ(read_by_ring(file, bytes, sizeof bytes, 7, WEFT_NEVER), sizeof bytes);
        check_content(bytes, sizeof bytes, 7);
        CHECK_EQ(weft__ring_operations() - before, 2);
    }
}

/* A kernel thread reports a cancelled operation as interrupted. */
static void reported_as_interrupted(void *arg)
{
    struct reader reader;
    begin();
    rewrite.from = -ECANCELED;
    rewrite.to = -EINTR;
    atomic_u32_store_release(&rewrite.on, 1);
    reader_start(&reader, ends[0], 2 * WEFT_MS);
    reader_end(&reader, -ETIMEDOUT);
    CHECK_EQ(atomic_u32_load_acquire(&rewrite.on), 0);
    end();
}

static void interrupted_operations(void)
{
    in_mode(&modes[1], 1, done_again);
    in_mode(&modes[1], 1, reported_as_interrupted);
}

/* A cancellation that the kernel refuses is repeated until it is accepted, at growing intervals. */
static void cancelled_late(void *arg)
{
    struct reader reader;
    begin();
    fake_plan(&fake_enter, 1, EBUSY, *(uint32_t *)arg); /* not the read itself */
    reader_start(&reader, ends[0], 2 * WEFT_MS);
    reader_end(&reader, -ETIMEDOUT);
    CHECK_EQ(atomic_u32_load_acquire(&fake_enter.times), 0);
    end();
}

/* The operation completes before its cancellation is accepted: its result counts. */
static void completed_all_the_same(void *arg)
{
    struct reader reader;
    begin();
    fake_plan(&fake_enter, 1, EBUSY, KERNEL_ALWAYS);
    reader_start(&reader, ends[0], 2 * WEFT_MS);
    while (atomic_u32_load_acquire(&fake_enter.calls) < 3) /* the reader has given up */
        weft_yield();
    CHECK_EQ(write(ends[1], "x", 1), 1);
    reader_end(&reader, 1);
    fake_plan(&fake_enter, 0, 0, 0);
    end();
}

static void few_times(void *arg)
{
    uint32_t times = 4;
    cancelled_late(&times);
}

static void cancellations_that_are_refused(void)
{
    in_mode(&modes[1], 1, few_times);
    in_mode(&modes[1], 2, few_times);
    in_mode(&modes[1], 1, completed_all_the_same);
    /* More than two seconds of virtual time. */
    uint32_t times = 14;
    CHECK_EQ(weft_test_run(1, cancelled_late, &times), 0);
}

/* Giving up while another fiber drives the ring, and the kernel takes its time. */

static void read_file(void *arg)
{
    char byte;
    CHECK_EQ(read_by_ring(file, &byte, 1, 0, WEFT_NEVER), 1);
}

/* Each reader has its byte, or that is still in the pipe: on a slow machine it may have given up
 * before the other fiber drives. How many bytes there are in all. */
static int readers_end(struct reader *readers, int count)
{
    int got = 0;
    for (int i = 0; i < count; i++) {
        int left = 0;
        CHECK_EQ(weft_join(readers[i].fiber), 0);
        CHECK(readers[i].result == 1 || readers[i].result == -ETIMEDOUT);
        CHECK_EQ(readers[i].byte, readers[i].result == 1 ? 'x' : 'a');
        CHECK_EQ(ioctl(readers[i].fd, FIONREAD, &left), 0);
        got += left + (readers[i].result == 1);
    }
    return got;
}

static void await_slow(uint32_t number)
{
    while (atomic_u32_load_acquire(&slow.inside) < number)
        weft_yield();
}

/* The reader gives up while the driver is in the kernel, looks again several times, and its byte
 * comes: before its cancellation is submitted (calls 1), or while that is in the kernel too (2). */
static void given_up_while_driven(void *arg)
{
    for (uint32_t calls = 1; calls <= 2; calls++) {
        struct reader reader;
        weft_fiber *driver;
        begin();
        reader_start(&reader, ends[0], 20 * WEFT_MS);
        atomic_u32_store_release(&slow.planned, calls);
        CHECK_EQ(weft_spawn(&driver, read_file, NULL, NULL), 0);
        await_slow(1);
        CHECK_EQ(weft_sleep(40 * WEFT_MS), 0); /* the reader gives up, and looks again */
        if (calls == 2) {
            atomic_u32_store_release(&slow.returns, 1);
            while (atomic_u32_load_acquire(&slow.inside) < 2 &&
                   !atomic_u32_load_acquire(&reader.ended))
                weft_yield();
            CHECK_EQ(weft_sleep(40 * WEFT_MS), 0);
        }
        CHECK_EQ(write(ends[1], "x", 1), 1);
        atomic_u32_store_release(&slow.returns, 2);
        CHECK_EQ(readers_end(&reader, 1), 1);
        CHECK_EQ(weft_join(driver), 0);
        atomic_u32_store_relaxed(&slow.planned, 0);
        end();
    }
}

/* Two readers give up, and one gets a byte: the first, then the second, whose cancellation is first
 * in the list. */
static void two_given_up_while_driven(void *arg)
{
    for (int which = 0; which < 2; which++) {
        struct reader readers[2];
        weft_fiber *driver;
        int others[2];
        begin();
        CHECK_EQ(pipe(others), 0);
        reader_start(&readers[0], ends[0], 20 * WEFT_MS);
        reader_start(&readers[1], others[0], 20 * WEFT_MS);
        atomic_u32_store_release(&slow.planned, 1);
        CHECK_EQ(weft_spawn(&driver, read_file, NULL, NULL), 0);
        await_slow(1);
        CHECK_EQ(weft_sleep(40 * WEFT_MS), 0); /* both give up */
        CHECK_EQ(write(which ? others[1] : ends[1], "x", 1), 1);
        atomic_u32_store_release(&slow.returns, 1);
        CHECK_EQ(readers_end(readers, 2), 1);
        CHECK_EQ(weft_join(driver), 0);
        atomic_u32_store_relaxed(&slow.planned, 0);
        close(others[0]);
        close(others[1]);
        end();
    }
}

/* More cancellations than fit into the ring at once. */
static void many_given_up_while_driven(void *arg)
{
    enum { MANY = 300 };
    static struct reader readers[MANY];
    weft_context *context;
    weft_fiber *driver;
    begin();
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    weft_spawn_options options = {.context = context};
    uint64_t before = weft__ring_operations();
    for (int i = 0; i < MANY; i++) {
        readers[i] = (struct reader){.fd = ends[0], .byte = 'a'};
        CHECK_EQ(weft_spawn(&readers[i].fiber, read_pipe, &readers[i], &options), 0);
    }
    while (weft__ring_operations() - before < MANY)
        weft_yield();
    atomic_u32_store_release(&slow.planned, 1);
    CHECK_EQ(weft_spawn(&driver, read_file, NULL, NULL), 0);
    await_slow(1);
    weft_context_cancel(context);
    CHECK_EQ(weft_sleep(40 * WEFT_MS), 0); /* all give up */
    atomic_u32_store_release(&slow.returns, 1);
    for (int i = 0; i < MANY; i++)
        reader_end(&readers[i], -ECANCELED);
    CHECK_EQ(weft_join(driver), 0);
    CHECK(weft__ring_operations() - before >= 2 * MANY + 1);
    atomic_u32_store_relaxed(&slow.planned, 0);
    weft_context_close(context);
    end();
}

static void giving_up_while_another_drives(void)
{
    in_mode(&modes[1], 2, given_up_while_driven);
    in_mode(&modes[1], 2, two_given_up_while_driven);
    in_mode(&modes[1], 2, many_given_up_while_driven);
}

/* The operation completes, and its cancellation does not: the kernel still refers to the operation,
 * so the reader stays. Nor is there a second cancellation. */
static void cancelled_slowly(void *arg)
{
    struct reader reader;
    int left = 1;
    begin();
    CHECK_EQ(pipe(hold.ends), 0);
    atomic_u32_store_relaxed(&hold.count, 0);
    atomic_u32_store_release(&hold.on, 1);
    reader_start(&reader, ends[0], 2 * WEFT_MS);
    while (atomic_u32_load_acquire(&hold.count) == 0)
        weft_yield();
    CHECK_EQ(write(ends[1], "x", 1), 1);
    for (; left > 0; weft_yield())
        CHECK_EQ(ioctl(ends[0], FIONREAD, &left), 0);
    CHECK_EQ(weft_sleep(40 * WEFT_MS), 0); /* it looks again several times */
    CHECK_EQ(atomic_u32_load_acquire(&reader.ended), 0);
    CHECK_EQ(atomic_u32_load_acquire(&hold.count), 1);
    atomic_u32_store_release(&hold.on, 0);
    CHECK_EQ(write(hold.ends[1], "h", 1), 1);
    reader_end(&reader, 1);
    close(hold.ends[0]);
    close(hold.ends[1]);
    end();
}

static void a_cancellation_that_takes_its_time(void)
{
    in_mode(&modes[1], 1, cancelled_slowly);
    in_mode(&modes[1], 2, cancelled_slowly);
}

/* The last completion is taken by another driver than the watcher, which has to be woken, and the
 * kernel refuses that at first. The watcher may be faster: then the test tries again. */
static void woken_late(void *arg)
{
    char byte;
    bool refused = false;
    begin();
    CHECK_EQ(read_by_ring(file, &byte, 1, 0, WEFT_NEVER), 1);
    for (int i = 0; i < 1000 && !refused; i++) {
        struct reader reader;
        reader_start(&reader, ends[0], 0);
        for (int yields = 0; yields < 5; yields++)
            weft_yield(); /* the watcher waits */
        CHECK_EQ(write(ends[1], "x", 1), 1);
        fake_plan(&fake_enter, 1, EBUSY, 2);
        CHECK_EQ(read_by_ring(file, &byte, 1, 0, WEFT_NEVER), 1);
        refused = atomic_u32_load_acquire(&fake_enter.times) < 2;
        fake_plan(&fake_enter, 0, 0, 0);
        reader_end(&reader, 1);
    }
    CHECK(refused);
    end();
}

static void a_watcher_that_is_woken_late(void)
{
    in_mode(&modes[1], 1, woken_late); /* the shut-down waits for the watcher */
}

/* Without memory for a watcher the reader itself looks, also when its context ends. */
static weft_wg gates[2], *shut;

static void wait_there(void *arg)
{
    CHECK_EQ(weft_wg_wait(arg), 0);
}

static void read_unwatched(void *arg)
{
    weft__os_fail(OS_ALLOC, 1, true);
    weft__os_fail(OS_MAP, 1, true);
    while (weft_go(wait_there, shut) == 0)
        continue; /* uses up the memory kept for new fibers */
    read_pipe(arg);
}

static void watched_by_clock(void *arg)
{
    char byte;
    CHECK_EQ(read_by_ring(file, &byte, 1, 0, WEFT_NEVER), 1); /* opens the ring */
    for (int cancels = 0; cancels < 2; cancels++) {
        struct reader reader = {.byte = 'a'};
        weft_context *context;
        begin();
        reader.fd = ends[0];
        shut = &gates[cancels];
        CHECK_EQ(weft_wg_init(shut, 1), 0);
        CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
        weft_spawn_options options = {.context = context};
        uint64_t before = weft__ring_operations();
        CHECK_EQ(weft_spawn(&reader.fiber, read_unwatched, &reader, &options), 0);
        while (weft__ring_operations() == before)
            weft_yield();
        CHECK_EQ(weft_sleep(5 * WEFT_MS), 0);
        if (cancels) {
            weft_context_cancel(context);
            CHECK_EQ(weft_sleep(5 * WEFT_MS), 0);
        } else {
            CHECK_EQ(write(ends[1], "x", 1), 1);
            CHECK_EQ(weft_sleep(5 * WEFT_MS), 0);
        }
        weft__os_fail(OS_ALLOC, 0, false);
        weft__os_fail(OS_MAP, 0, false);
        reader_end(&reader, cancels ? -ECANCELED : 1);
        weft_wg_done(shut);
        weft_context_close(context);
        end();
    }
}

static void without_a_watcher(void)
{
    in_mode(&modes[1], 1, watched_by_clock);
}

int main(void)
{
    if (!ring_is_there())
        test_skip("this kernel has no io_uring for us");
    file = file_of(4096);
    RUN(a_ring_that_is_refused);
    RUN(interrupted_operations);
    RUN(cancellations_that_are_refused);
    RUN(giving_up_while_another_drives);
    RUN(a_cancellation_that_takes_its_time);
    RUN(a_watcher_that_is_woken_late);
    RUN(without_a_watcher);
    close(file);
    return 0;
}
