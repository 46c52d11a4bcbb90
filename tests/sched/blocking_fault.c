/*
 * blocking_fault.c: fibers block while no thread can be made: nothing is lost, and once there is a
 * thread again the other fibers go on.
 */
#include <fcntl.h>
#include <netdb.h>
#include <unistd.h>

#include "blocked.h"
#include "failing.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/core/monitor.h"
#include "sched/poll/descriptor.h"

enum { PASSERS = 20, STUCK = 10 };

static atomic_u32 passed;
static int ends[2];

static void pass(void *arg)
{
    atomic_u32_add_seq_cst(&passed, 1);
}

static void sleep_and_pass(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    pass(arg);
}

static void wait_and_pass(void *arg)
{
    CHECK_EQ(weft_fd_wait(ends[0], WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    pass(arg);
}

/* Starts a runtime in which a machine and the monitor run. */
static void begin(int processors)
{
    configure(processors);
    run_fiber(pass, NULL);
    blocked_reset();
    atomic_u32_store_relaxed(&passed, 0);
}

static void await_thread_calls(uint32_t least)
{
    while (weft__os_calls(OS_THREAD) < least)
        nap(200);
}

/* All processors are stuck, no thread can be made, fibers are ready. */
static void no_thread_while(void (*blocks)(void *))
{
    weft_fiber *stuck[STUCK];
    begin(2);
    blocked_begin(stuck, 2, block_unmarked);
    failing_on(OS_THREAD, 1, true);
    spawn_all(stuck + 2, STUCK - 2, blocks, NULL);
    go_many(PASSERS, pass, NULL);
    await_thread_calls(3);
    CHECK(atomic_u32_load_acquire(&blocked.count) < STUCK);
    failing_off();
    /* Now they go on, though the first fibers are still stuck. */
    nap_until(&passed, PASSERS);
    nap_until(&blocked.count, STUCK);
    blocked_end(stuck, STUCK);
    shut_down();
}

static void no_thread_for_a_stuck_processor(void)
{
    no_thread_while(block_unmarked);
    no_thread_while(block_marked);
}

/* A fiber gives its processor up for which there is no machine. */

static void enter_without_a_thread(void *arg)
{
    CHECK_EQ(weft_go(pass, NULL), 0);
    weft_blocking_enter();
    await_thread_calls(2);
    CHECK_EQ(atomic_u32_load_acquire(&passed), 0);
    failing_off();
    nap_until(&passed, 1);
    weft_blocking_exit();
}

static void no_thread_for_a_processor_that_is_given_up(void)
{
    begin(1);
    failing_on(OS_THREAD, 1, true);
    run_fiber(enter_without_a_thread, NULL);
    shut_down();
}

/* A fiber gives its processor up while no fiber is ready: one sleeps, or waits for a descriptor,
 * and no machine can look at the clock or the descriptor. */

static void leave_a_waiter(void *waits)
{
    weft_fiber *fiber = spawn((void (*)(void *))(uintptr_t)waits, NULL);
    weft_yield();                                   /* it has begun to wait */
    while (atomic_u32_load_acquire(&passed) != 0) { /* the yield took longer than its sleep */
        CHECK_EQ(weft_join(fiber), 0);
        atomic_u32_store_relaxed(&passed, 0);
        fiber = spawn((void (*)(void *))(uintptr_t)waits, NULL);
        weft_yield();
    }
    weft_blocking_enter();
    await_thread_calls(1);
    CHECK_EQ(atomic_u32_load_acquire(&passed), 0);
    failing_off();
    CHECK_EQ(write(ends[1], "x", 1), 1);
    nap_until(&passed, 1);
    weft_blocking_exit();
    CHECK_EQ(weft_join(fiber), 0);
}

static void no_thread_to_look_for_timers_and_events(void)
{
    void (*const waits[])(void *) = {sleep_and_pass, wait_and_pass};
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        begin(1);
        failing_on(OS_THREAD, 1, true);
        run_fiber(leave_a_waiter, (void *)(uintptr_t)waits[i]);
        shut_down();
    }
    close(ends[0]);
    close(ends[1]);
}

/* A thread of the program that waits for a descriptor needs no machine. */
static void no_thread_but_a_foreign_one(void)
{
    void (*const blocks[])(void *) = {block_unmarked, block_marked};
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        char byte;
        weft_fiber *fiber;
        begin(1);
        failing_on(OS_THREAD, 1, true);
        blocked_begin(&fiber, 1, blocks[i]);
        pthread_t thread = thread_start(thread_call, &(struct thread_call){wait_and_pass, NULL});
        while (weft__descriptor_waits() == 0)
            nap(200);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        thread_join(thread);
        failing_off();
        CHECK_EQ(read(ends[0], &byte, 1), 1);
        blocked_end(&fiber, 1);
        shut_down();
    }
    close(ends[0]);
    close(ends[1]);
}

/* The monitor has no thread; it gets one when processors are busy later. */
static void no_thread_for_the_monitor(void)
{
    weft_fiber *fiber;
    configure(1);
    atomic_u32_store_relaxed(&passed, 0);
    failing_on(OS_THREAD, 2, true); /* the first thread is the machine's */
    CHECK_EQ(weft_go(pass, NULL), 0);
    nap_until(&passed, 1);
    failing_off();
    for (bool runs = false; !runs; nap(200)) { /* each fiber makes the idle processor busy */
        run_fiber(pass, NULL);
        lock_acquire(&weft__sched.lock);
        runs = weft__monitor_threads() == 1;
        lock_release(&weft__sched.lock);
    }
    blocked_begin(&fiber, 1, block_unmarked);
    atomic_u32_store_relaxed(&passed, 0);
    CHECK_EQ(weft_go(pass, NULL), 0);
    nap_until(&passed, 1);
    blocked_end(&fiber, 1);
    shut_down();
}

/* Operations that weft does in threads of its own (names, children, files without a ring) work
 * although none can ever be made, and fibers that were ready or asleep meanwhile go on. */

static int look_up(const char *host, const char *service, const struct addrinfo *hints,
                   struct addrinfo **list)
{
    CHECK_STR(host, "name");
    nap(200);
    return getaddrinfo("127.0.0.1", service, hints, list);
}

static void do_what_blocks(void *finished)
{
    static const char *const argv[] = {"true", NULL};
    weft_process_options options = {.argv = argv};
    weft_address found;
    char bytes[16];
    CHECK_EQ(weft_resolve("name", "80", NULL, &found, 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_process_run(&options, NULL, 0, NULL, NULL, WEFT_NEVER), 0);
    int fd = weft_file_open("/proc/self/stat", O_RDONLY, 0);
    CHECK(fd >= 0);
    CHECK_EQ(weft_file_read(fd, bytes, sizeof bytes, WEFT_NEVER), sizeof bytes);
    CHECK_EQ(weft_file_close(fd), 0);
    count_up(finished);
}

static void operations_without_a_thread(int processors)
{
    atomic_u32 finished = {0};
    begin(processors);
    failing_on(OS_THREAD, 1, true);
    for (int i = 0; i < STUCK; i++) {
        CHECK_EQ(weft_go(do_what_blocks, &finished), 0);
        CHECK_EQ(weft_go(sleep_and_pass, NULL), 0);
        CHECK_EQ(weft_go(pass, NULL), 0);
    }
    shut_down();                          /* all have ended, with threads still failing */
    CHECK(weft__os_calls(OS_THREAD) > 0); /* a thread was wanted */
    failing_off();
    CHECK_EQ(atomic_u32_load_acquire(&finished), STUCK);
    CHECK_EQ(atomic_u32_load_acquire(&passed), 2 * STUCK);
}

static void no_thread_for_blocking_operations(void)
{
    weft__os_getaddrinfo_by(look_up);
    for (int processors = 1; processors <= 2; processors++)
        operations_without_a_thread(processors);
    CHECK_EQ(setenv("WEFT_WITHOUT", "io_uring,file_nowait,pidfd", 1), 0);
    for (int processors = 1; processors <= 2; processors++)
        operations_without_a_thread(processors);
    CHECK_EQ(unsetenv("WEFT_WITHOUT"), 0);
    weft__os_getaddrinfo_by(NULL);
}

int main(void)
{
    RUN_ALL(no_thread_for_a_stuck_processor, no_thread_for_a_processor_that_is_given_up,
            no_thread_to_look_for_timers_and_events, no_thread_but_a_foreign_one,
            no_thread_for_the_monitor, no_thread_for_blocking_operations);
    return 0;
}
