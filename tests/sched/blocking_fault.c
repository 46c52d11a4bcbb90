/*
 * blocking.c: no thread can be made while fibers block: nothing is lost, and when there is a thread again
 * the others go on.
 */
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "failing.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/core/monitor.h"
#include "sched/core/scheduler.h"
#include "sched/poll/descriptor.h"

static atomic_u32 gate, begun, passed;

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000}, NULL);
}

static void pass(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&passed, 1);
}

static void block(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&begun, 1);
    while (!atomic_u32_load_acquire(&gate))
        nap();
}

static void block_and_say_so(void *arg)
{
    weft_blocking_enter();
    block(arg);
    weft_blocking_exit();
}

enum { PASSERS = 20, STUCK = 10 };

/* All processors are stuck, no thread is to be had, fibers wait. */
static void run(void (*blocks)(void *))
{
    weft_fiber *stuck[STUCK];
    weft_config config = {.processors = 2};
    CHECK_EQ(weft_configure(&config), 0);
    atomic_u32_store_relaxed(&gate, 0);
    atomic_u32_store_relaxed(&begun, 0);
    atomic_u32_store_relaxed(&passed, 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_spawn(&stuck[i], block, NULL, NULL), 0);
    while (atomic_u32_load_acquire(&begun) < 2)
        nap();
    failing_on(OS_THREAD, 1, true);
    for (int i = 2; i < STUCK; i++)
        CHECK_EQ(weft_spawn(&stuck[i], blocks, NULL, NULL), 0);
    for (int i = 0; i < PASSERS; i++)
        CHECK_EQ(weft_go(pass, NULL), 0);
    while (weft__os_calls(OS_THREAD) < 3) /* it has been tried in vain */
        nap();
    CHECK(atomic_u32_load_acquire(&begun) < STUCK);
    failing_off();
    /* Now they go on, though the first ones are all stuck. */
    while (atomic_u32_load_acquire(&passed) < PASSERS || atomic_u32_load_acquire(&begun) < STUCK)
        nap();
    atomic_u32_store_release(&gate, 1);
    for (int i = 0; i < STUCK; i++)
        CHECK_EQ(weft_join(stuck[i]), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void no_thread_for_a_stuck_processor(void)
{
    run(block);
    run(block_and_say_so);
}

/* With one processor: it gives up what nobody can take. */

static void enter_in_vain(void *arg)
{
    CHECK_EQ(weft_go(pass, NULL), 0);
    weft_blocking_enter();
    while (weft__os_calls(OS_THREAD) < 2)
        nap();
    CHECK_EQ(atomic_u32_load_acquire(&passed), 0);
    failing_off();
    while (atomic_u32_load_acquire(&passed) == 0)
        nap();
    weft_blocking_exit();
    (void)arg;
}

static void no_thread_for_a_processor_that_is_given_up(void)
{
    weft_fiber *fiber;
    weft_config config = {.processors = 1};
    CHECK_EQ(weft_configure(&config), 0);
    atomic_u32_store_relaxed(&passed, 0);
    CHECK_EQ(weft_go(pass, NULL), 0);
    while (atomic_u32_load_acquire(&passed) == 0) /* the machine and the monitor run */
        nap();
    atomic_u32_store_relaxed(&passed, 0);
    failing_on(OS_THREAD, 1, true);
    CHECK_EQ(weft_spawn(&fiber, enter_in_vain, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* The same with nothing ready: one sleeps, one waits for a descriptor, and there is nobody to wake up for them. */

static int ends[2];

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

static void leave_sleepers(void *waits)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, (void (*)(void *))(uintptr_t)waits, NULL, NULL), 0);
    weft_yield();                                   /* it has begun to wait */
    while (atomic_u32_load_acquire(&passed) != 0) { /* the yield took longer than its sleep */
        CHECK_EQ(weft_join(fiber), 0);
        atomic_u32_store_relaxed(&passed, 0);
        CHECK_EQ(weft_spawn(&fiber, (void (*)(void *))(uintptr_t)waits, NULL, NULL), 0);
        weft_yield();
    }
    weft_blocking_enter();
    while (weft__os_calls(OS_THREAD) < 1)
        nap();
    CHECK_EQ(atomic_u32_load_acquire(&passed), 0);
    failing_off();
    CHECK_EQ(write(ends[1], "x", 1), 1);
    while (atomic_u32_load_acquire(&passed) == 0)
        nap();
    weft_blocking_exit();
    CHECK_EQ(weft_join(fiber), 0);
}

static void no_thread_to_wake_up_for_those_who_wait(void)
{
    void (*const waits[])(void *) = {sleep_and_pass, wait_and_pass};
    weft_config config = {.processors = 1};
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        weft_fiber *fiber;
        CHECK_EQ(weft_configure(&config), 0);
        CHECK_EQ(weft_spawn(&fiber, pass, NULL, NULL), 0);
        CHECK_EQ(weft_join(fiber), 0); /* the machine and the monitor run */
        atomic_u32_store_relaxed(&passed, 0);
        failing_on(OS_THREAD, 1, true);
        CHECK_EQ(weft_spawn(&fiber, leave_sleepers, (void *)(uintptr_t)waits[i], NULL), 0);
        CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
    close(ends[0]);
    close(ends[1]);
}

/* Threads wait for descriptors, too, and need no machine to go on. */

static void *wait_on_thread(void *arg)
{
    wait_and_pass(arg);
    return NULL;
}

static void no_thread_but_one_that_waits(void)
{
    void (*const blocks[])(void *) = {block, block_and_say_so};
    weft_config config = {.processors = 1};
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        char byte;
        pthread_t thread;
        weft_fiber *fiber;
        CHECK_EQ(weft_configure(&config), 0);
        CHECK_EQ(weft_spawn(&fiber, pass, NULL, NULL), 0);
        CHECK_EQ(weft_join(fiber), 0);
        atomic_u32_store_relaxed(&gate, 0);
        atomic_u32_store_relaxed(&begun, 0);
        atomic_u32_store_relaxed(&passed, 0);
        failing_on(OS_THREAD, 1, true);
        CHECK_EQ(weft_spawn(&fiber, blocks[i], NULL, NULL), 0);
        while (atomic_u32_load_acquire(&begun) == 0)
            nap();
        CHECK_EQ(pthread_create(&thread, NULL, wait_on_thread, NULL), 0);
        while (weft__descriptor_waits() == 0)
            nap();
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        failing_off();
        CHECK_EQ(read(ends[0], &byte, 1), 1);
        atomic_u32_store_release(&gate, 1);
        CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
    close(ends[0]);
    close(ends[1]);
}

/* The monitor itself has no thread; it gets one when processors are busy later. */

static void no_thread_for_the_monitor(void)
{
    weft_fiber *fiber;
    weft_config config = {.processors = 1};
    CHECK_EQ(weft_configure(&config), 0);
    atomic_u32_store_relaxed(&gate, 0);
    atomic_u32_store_relaxed(&passed, 0);
    failing_on(OS_THREAD, 2, true); /* the first one is the machine's */
    CHECK_EQ(weft_go(pass, NULL), 0);
    while (atomic_u32_load_acquire(&passed) == 0)
        nap();
    failing_off();
    for (bool runs = false; !runs; nap()) { /* each of these makes the idle processor busy */
        CHECK_EQ(weft_spawn(&fiber, pass, NULL, NULL), 0);
        CHECK_EQ(weft_join(fiber), 0);
        lock_acquire(&weft__sched.lock);
        runs = weft__monitor_threads() == 1;
        lock_release(&weft__sched.lock);
    }
    CHECK_EQ(weft_spawn(&fiber, block, NULL, NULL), 0);
    atomic_u32_store_relaxed(&passed, 0);
    CHECK_EQ(weft_go(pass, NULL), 0);
    while (atomic_u32_load_acquire(&passed) == 0)
        nap();
    atomic_u32_store_release(&gate, 1);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* What weft does in threads that are handed over (names, children, files where there is no ring) is done without one
 * to spare as well, and those who were ready or asleep meanwhile go on. No thread is ever to be had here. */

static int look_up(const char *host, const char *service, const struct addrinfo *hints,
                   struct addrinfo **list)
{
    CHECK_STR(host, "name");
    nap();
    return getaddrinfo("127.0.0.1", service, hints, list);
}

static void do_what_blocks(void *arg)
{
    static const char *const argv[] = {"true", NULL};
    weft_process_options options = {.argv = argv};
    weft_address found;
    char bytes[16];
    (void)arg;
    CHECK_EQ(weft_resolve("name", "80", NULL, &found, 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_process_run(&options, NULL, 0, NULL, NULL, WEFT_NEVER), 0);
    int fd = weft_file_open("/proc/self/stat", O_RDONLY, 0);
    CHECK(fd >= 0);
    CHECK_EQ(weft_file_read(fd, bytes, sizeof bytes, WEFT_NEVER), sizeof bytes);
    CHECK_EQ(weft_file_close(fd), 0);
    atomic_u32_add_seq_cst(&begun, 1);
}

static void without_a_thread_to_spare(int processors)
{
    weft_config config = {.processors = processors};
    weft_fiber *fiber;
    CHECK_EQ(weft_configure(&config), 0);
    atomic_u32_store_relaxed(&begun, 0);
    atomic_u32_store_relaxed(&passed, 0);
    CHECK_EQ(weft_spawn(&fiber, pass, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0); /* a machine and the monitor run */
    failing_on(OS_THREAD, 1, true);
    for (int i = 0; i < STUCK; i++) {
        CHECK_EQ(weft_go(do_what_blocks, NULL), 0);
        CHECK_EQ(weft_go(sleep_and_pass, NULL), 0);
        CHECK_EQ(weft_go(pass, NULL), 0);
    }
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* all have ended, with threads still failing */
    CHECK(weft__os_calls(OS_THREAD) > 0);   /* and wanted */
    failing_off();
    CHECK_EQ(atomic_u32_load_acquire(&begun), STUCK);
    CHECK_EQ(atomic_u32_load_acquire(&passed), 2 * STUCK + 1);
}

static void no_thread_to_hand_over(void)
{
    weft__os_getaddrinfo_by(look_up);
    for (int processors = 1; processors <= 2; processors++)
        without_a_thread_to_spare(processors);
    CHECK_EQ(setenv("WEFT_WITHOUT", "io_uring,file_nowait,pidfd", 1), 0);
    for (int processors = 1; processors <= 2; processors++)
        without_a_thread_to_spare(processors);
    CHECK_EQ(unsetenv("WEFT_WITHOUT"), 0);
    weft__os_getaddrinfo_by(NULL);
}

int main(void)
{
    RUN(no_thread_for_a_stuck_processor);
    RUN(no_thread_for_a_processor_that_is_given_up);
    RUN(no_thread_to_wake_up_for_those_who_wait);
    RUN(no_thread_but_one_that_waits);
    RUN(no_thread_for_the_monitor);
    RUN(no_thread_to_hand_over);
    return 0;
}
