/*
 * kernel_fault.c: the scheduler where its decisions depend on answers of the kernel: the number of
 * threads, the time, the CPU time of a thread, and that there is no event yet.
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <weft/test.h>

#include "base/compiler.h"
#include "fibers.h"
#include "kernel.h"
#include "os/os.h"
#include "sched/core/scheduler.h"
#include "sched/poll/poller.h"
#include "sched/time/wheel.h"
#include "system.h"

/* Threads: /proc hides some, or does not exist. A function is called once after it was asked. */

#define TASKS "/proc/self/task"
enum { ALL_THREADS = UINT16_MAX };

static atomic_u32 hidden, asked;
static atomic_ptr meanwhile;

int stat(const char *path, struct stat *status)
{
    int result = fstatat(AT_FDCWD, path, status, 0);
    uint32_t less = atomic_u32_load_acquire(&hidden);
    if (strcmp(path, TASKS) != 0)
        return result;
    if (less == ALL_THREADS) {
        errno = ENOENT;
        result = -1;
    } else {
        status->st_nlink -= less;
    }
    void (*now)(void) = (void (*)(void))(uintptr_t)atomic_ptr_exchange_acq_rel(&meanwhile, NULL);
    if (now != NULL)
        now();
    atomic_u32_add_seq_cst(&asked, 1);
    return result;
}

static uint32_t threads_here(void)
{
    struct stat status;
    CHECK_EQ(fstatat(AT_FDCWD, TASKS, &status, 0), 0);
    return (uint32_t)status.st_nlink - 2;
}

/* /proc shows a thread for a moment after its end. */
static void await_threads(uint32_t count)
{
    while (threads_here() != count)
        usleep(100);
}

static void await_asked_again(uint32_t before)
{
    while (atomic_u32_load_seq_cst(&asked) == before)
        usleep(100);
}

static void await_word(const atomic_u32 *word, uint32_t value)
{
    while (atomic_u32_load_acquire(word) != value)
        sched_yield();
}

/* Time: the clock is ahead, or the clock of a thread is refused. */

static atomic_i64 seconds_ahead;
static struct fake fake_thread_clock;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock < 0 && fake_due(&fake_thread_clock)) { /* the clock of a thread */
        errno = fake_thread_clock.error;
        return -1;
    }
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)
        time->tv_sec += atomic_i64_load_relaxed(&seconds_ahead);
    return result;
}

/* Events: a function is called before the kernel answers that there is none. */

static atomic_ptr before_none;

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    void (*now)(void) = (void (*)(void))(uintptr_t)atomic_ptr_load_acquire(&before_none);
    if (now != NULL && timeout == 0)
        now();
    return epoll_pwait(epoll, events, most, timeout, NULL);
}

static weft_wg gate;

static void *open_gate_when_asked(void *before)
{
    await_asked_again(*(uint32_t *)before);
    weft_wg_done(&gate);
    return NULL;
}

/* Waits for a thread, which waits until a check for deadlocks has been made. */
static void wait_for_thread(void *arg)
{
    uint32_t before = atomic_u32_load_seq_cst(&asked);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    pthread_t thread = thread_start(open_gate_when_asked, &before);
    CHECK_EQ(weft_wg_wait(&gate), 0);
    thread_join(thread);
}

static void a_run_without_proc(void)
{
    atomic_u32_store_release(&hidden, ALL_THREADS);
    CHECK_EQ(weft_test_run(1, wait_for_thread, NULL), 0);
    atomic_u32_store_release(&hidden, 0);
}

/* From here on threads can be counted: the run has counted none before. */
static void wait_for_ever(void *arg)
{
    atomic_u32_store_release(&hidden, 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    wait_for_group(&gate);
}

static void run_that_cannot_end(void *arg)
{
    atomic_u32_store_release(&hidden, ALL_THREADS);
    CHECK_EQ(weft_test_run(1, wait_for_ever, arg), 0);
}

static void a_run_that_began_without_proc(void)
{
    (void)test_dies(run_that_cannot_end, NULL, "weft: deadlock: ");
}

/* Threads that existed before a run, and end in it, are not taken for threads of the run. */

enum { STRANGERS = 5 };
static pthread_t strangers[STRANGERS];
static atomic_u32 strangers_end;

static void *be_strange(void *arg)
{
    await_word(&strangers_end, 1);
    return arg;
}

static void strangers_leave(void *arg)
{
    atomic_u32_store_release(&strangers_end, 1);
    for (int i = 0; i < STRANGERS; i++)
        thread_join(strangers[i]);
    await_threads(2); /* main and the machine */
    wait_for_thread(arg);
}

static void strangers_end_in_a_run(void)
{
    await_threads(1);
    atomic_u32_store_release(&strangers_end, 0);
    for (int i = 0; i < STRANGERS; i++)
        strangers[i] = thread_start(be_strange, NULL);
    CHECK_EQ(weft_test_run(1, strangers_leave, NULL), 0);
}

/* A machine wakes during a check for deadlocks, and is idle again at its end. The thread that woke
 * it was not there when threads were counted. */

static struct {
    weft_wg first;
    atomic_u32 both, passed;
    pthread_t late;
} during;

/* Two fibers run at the same time: there are two machines from here on. */
static void meet(void *arg)
{
    atomic_u32_add_seq_cst(&during.both, 1);
    await_word(&during.both, 2);
}

/* The second check begins after the end of the first. */
static void *come_late(void *arg)
{
    uint32_t before = atomic_u32_load_seq_cst(&asked);
    weft_wg_done(&during.first);
    await_asked_again(before);
    weft__poller_wake();
    await_asked_again(before + 1);
    weft_wg_done(&gate);
    return arg;
}

static void pass_two(void *arg)
{
    CHECK_EQ(weft_wg_wait(&during.first), 0);
    atomic_u32_store_release(&during.passed, 1);
    wait_for_group(&gate);
}

/* Called on the machine that checks. */
static void a_thread_comes(void)
{
    during.late = thread_start(come_late, NULL);
    await_word(&during.passed, 1);
    await_word(&weft__sched.idle_count, 2);
}

static void woken_during_the_check(void)
{
    configure(2);
    CHECK_EQ(weft_wg_init(&during.first, 1), 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    weft_fiber *fibers[] = {spawn(meet, NULL), spawn(meet, NULL)};
    join_all(fibers, 2);
    weft_fiber *fiber = spawn(pass_two, NULL);
    atomic_ptr_store_release(&meanwhile, (void *)(uintptr_t)a_thread_comes);
    CHECK_EQ(weft_join(fiber), 0);
    thread_join(during.late);
    shut_down();
}

/* The count lacks the thread of main. Nothing waits in weft: there is nothing to report. */

static void *start_and_end(void *arg)
{
    run_fiber(nothing, NULL);
    return arg;
}

static void only_machines_are_counted(void)
{
    configure(1);
    thread_join(thread_start(start_and_end, NULL)); /* weft does not know main */
    await_threads(3);                               /* main, the machine, the monitor */
    atomic_u32_store_release(&hidden, 1);
    for (int i = 0; i < 2; i++) { /* the second check begins after the end of the first */
        uint32_t before = atomic_u32_load_seq_cst(&asked);
        weft__poller_wake();
        await_asked_again(before);
    }
    atomic_u32_store_release(&hidden, 0);
    shut_down();
}

/* While a thread exists that might wake the others, checks for deadlocks are repeated, ever more
 * rarely; but not too rarely. */

static void *let_time_pass(void *arg)
{
    enum { CHECKS = 12 };
    for (int i = 0; i < CHECKS; i++) {
        uint32_t before = atomic_u32_load_seq_cst(&asked);
        (void)atomic_i64_add_relaxed(&seconds_ahead, 1000);
        weft__poller_wake();
        await_asked_again(before);
    }
    int64_t until;
    while ((until = atomic_i64_load_relaxed(&weft__sched.sleep_until)) == WHEEL_EMPTY)
        usleep(100);
    int64_t pause = until - weft__os_now();
    CHECK(pause > 32 * WEFT_S && pause <= 64 * WEFT_S);
    weft_wg_done(&gate);
    return arg;
}

static void checks_are_not_too_rare(void)
{
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    weft_fiber *fiber = spawn(wait_for_group, &gate);
    pthread_t thread = thread_start(let_time_pass, NULL);
    CHECK_EQ(weft_join(fiber), 0);
    thread_join(thread);
    shut_down();
}

/* A machine is stuck, and its clock is refused at the second look: its processor is retaken when
 * its slice is over. */

static atomic_u32 let_go;

static void release(void *arg)
{
    atomic_u32_store_release(&let_go, 1);
}

static void block_with_clock_refused(void *arg)
{
    CHECK_EQ(weft_go(release, NULL), 0);
    fake_plan(&fake_thread_clock, 1, EINVAL, KERNEL_ALWAYS);
    nap_until(&let_go, 1);
}

static void a_clock_that_is_refused(void)
{
    configure(1);
    do { /* the monitor may have seen before that the machine does not use its CPU */
        atomic_u32_store_relaxed(&let_go, 0);
        run_fiber(block_with_clock_refused, NULL);
    } while (atomic_u32_load_relaxed(&fake_thread_clock.calls) < 2);
    fake_plan(&fake_thread_clock, 0, 0, 0);
    shut_down();
}

/* A test run: the last fiber in C code comes back while the machine polls. The clock does not
 * jump. */

static struct {
    atomic_u32 outside, back;
} blocker;

/* Called on the machine that has the processor. */
static void let_it_come_back(void)
{
    uint32_t outside = 1;
    if (!atomic_u32_cas_acq_rel(&blocker.outside, &outside, 0))
        return;
    atomic_u32_store_release(&blocker.back, 1);
    await_word(&weft__sched.lost, 0);
}

static void block_for_a_while(void *arg)
{
    int64_t before = weft_now();
    weft_blocking_enter();
    atomic_u32_store_release(&blocker.outside, 1);
    await_word(&blocker.back, 1);
    weft_blocking_exit();
    CHECK_EQ(weft_now(), before);
}

static void sleep_long(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_S), 0);
}

static void block_and_sleep(void *arg)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(weft_fd_wait(ends[0], WEFT_READABLE, weft_after(WEFT_MS)), -ETIMEDOUT); /* polls now */
    atomic_u32_store_relaxed(&blocker.outside, 0);
    atomic_u32_store_relaxed(&blocker.back, 0);
    weft_fiber *sleeper = spawn(sleep_long, NULL), *other = spawn(block_for_a_while, NULL);
    CHECK_EQ(weft_join(other), 0);
    CHECK_EQ(weft_join(sleeper), 0);
    close(ends[0]);
    close(ends[1]);
}

static void back_before_the_clock_jumps(void)
{
    atomic_ptr_store_release(&before_none, (void *)(uintptr_t)let_it_come_back);
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = 10}, block_and_sleep, NULL), 0);
    atomic_ptr_store_release(&before_none, NULL);
}

int main(void)
{
    if (WEFT_TSAN || test_emulated())
        test_skip("ThreadSanitizer or the emulator has a thread of its own, which is counted");
#if __GLIBC_PREREQ(2, 33) /* before that stat had another name */
    RUN_ALL(a_run_that_began_without_proc, a_run_without_proc, strangers_end_in_a_run,
            woken_during_the_check, only_machines_are_counted);
#endif
    RUN_ALL(a_clock_that_is_refused, back_before_the_clock_jumps);
#if __GLIBC_PREREQ(2, 33)
    RUN(checks_are_not_too_rare); /* last, since the clock does not go back */
#endif
    return 0;
}
