/*
 * kernel_sched.c: the scheduler where its decisions hang on answers of the kernel: how many threads there are, what time
 * it is, how much of it a thread has used, that nothing has happened yet.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <weft/test.h>
#include <weft/weft.h>

#include "base/compiler.h"
#include "kernel.h"
#include "os/os.h"
#include "sched/core/scheduler.h"
#include "sched/poll/poller.h"
#include "sched/time/wheel.h"
#include "system.h"

/* Threads: /proc hides some, or is not there; what happens after it was asked, once. */

#define TASKS "/proc/self/task"
enum { ALL_OF_THEM = UINT16_MAX };

static atomic_u32 hidden, asked;
static atomic_ptr meanwhile;

int stat(const char *path, struct stat *status)
{
    int result = fstatat(AT_FDCWD, path, status, 0);
    uint32_t less = atomic_u32_load_acquire(&hidden);
    if (strcmp(path, TASKS) != 0)
        return result;
    if (less == ALL_OF_THEM) {
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

/* Threads that have ended are counted for a moment more. */
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

/* Time: the clock is ahead, or that of a thread is refused. */

static atomic_i64 seconds_ahead;
static struct fake fake_thread_clock;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock < 0 && fake_due(&fake_thread_clock)) { /* that of a thread */
        errno = fake_thread_clock.error;
        return -1;
    }
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)
        time->tv_sec += atomic_i64_load_relaxed(&seconds_ahead);
    return result;
}

/* Events: what happens before it is said that there is none. */

static atomic_ptr before_none;

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    void (*now)(void) = (void (*)(void))(uintptr_t)atomic_ptr_load_acquire(&before_none);
    if (now != NULL && timeout == 0)
        now();
    return epoll_pwait(epoll, events, most, timeout, NULL);
}

static weft_wg gate;

static void wait_at_gate(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_wg_wait(&gate), 0);
}

static weft_fiber *spawn(void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, arg, NULL), 0);
    return fiber;
}

static void *open_gate_when_asked(void *before)
{
    await_asked_again(*(uint32_t *)before);
    weft_wg_done(&gate);
    return NULL;
}

/* Waits for a thread, which waits until it has been looked whether that is a deadlock. */
static void wait_for_thread(void *arg)
{
    pthread_t thread;
    uint32_t before = atomic_u32_load_seq_cst(&asked);
    (void)arg;
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(pthread_create(&thread, NULL, open_gate_when_asked, &before), 0);
    CHECK_EQ(weft_wg_wait(&gate), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void a_run_without_proc(void)
{
    atomic_u32_store_release(&hidden, ALL_OF_THEM);
    CHECK_EQ(weft_test_run(1, wait_for_thread, NULL), 0);
    atomic_u32_store_release(&hidden, 0);
}

/* It can be counted from then on: nobody was there before. */
static void wait_for_nobody(void *arg)
{
    atomic_u32_store_release(&hidden, 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    wait_at_gate(arg);
}

static void run_that_cannot_end(void *arg)
{
    atomic_u32_store_release(&hidden, ALL_OF_THEM);
    CHECK_EQ(weft_test_run(1, wait_for_nobody, arg), 0);
}

static void a_run_that_began_without_proc(void)
{
    (void)test_dies(run_that_cannot_end, NULL, "weft: deadlock: ");
}

/* Threads that a run has found, and that end in it: they are not taken for those of the run. */

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
        CHECK_EQ(pthread_join(strangers[i], NULL), 0);
    await_threads(2); /* main and the machine */
    wait_for_thread(arg);
}

static void strangers_end_in_a_run(void)
{
    await_threads(1);
    atomic_u32_store_release(&strangers_end, 0);
    for (int i = 0; i < STRANGERS; i++)
        CHECK_EQ(pthread_create(&strangers[i], NULL, be_strange, NULL), 0);
    CHECK_EQ(weft_test_run(1, strangers_leave, NULL), 0);
}

/* A machine wakes while somebody looks for a deadlock, and is idle again at the end of that. The thread that woke it was
 * not there when they were counted. */

static struct {
    weft_wg first;
    atomic_u32 both, passed;
    pthread_t late;
} during;

/* Two at the same time: there are two machines from then on. */
static void meet(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&during.both, 1);
    await_word(&during.both, 2);
}

/* The second time that it is looked the first is over. */
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
    wait_at_gate(arg);
}

/* On the machine that looks. */
static void somebody_comes(void)
{
    CHECK_EQ(pthread_create(&during.late, NULL, come_late, NULL), 0);
    await_word(&during.passed, 1);
    await_word(&weft__sched.idle_count, 2);
}

static void woken_during_the_look(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = 2}), 0);
    CHECK_EQ(weft_wg_init(&during.first, 1), 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    weft_fiber *fibers[] = {spawn(meet, NULL), spawn(meet, NULL)};
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    weft_fiber *fiber = spawn(pass_two, NULL);
    atomic_ptr_store_release(&meanwhile, (void *)(uintptr_t)somebody_comes);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(pthread_join(during.late, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* A count from which the thread of main is missing. Nobody waits in weft: there is nothing to be reported. */

static void nothing(void *arg)
{
    (void)arg;
}

static void *start_and_end(void *arg)
{
    CHECK_EQ(weft_join(spawn(nothing, NULL)), 0);
    return arg;
}

static void only_machines_are_counted(void)
{
    pthread_t thread;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    CHECK_EQ(pthread_create(&thread, NULL, start_and_end, NULL), 0); /* main stays unknown */
    CHECK_EQ(pthread_join(thread, NULL), 0);
    await_threads(3); /* main, the machine, the monitor */
    atomic_u32_store_release(&hidden, 1);
    for (int i = 0; i < 2; i++) { /* the second time the first is over */
        uint32_t before = atomic_u32_load_seq_cst(&asked);
        weft__poller_wake();
        await_asked_again(before);
    }
    atomic_u32_store_release(&hidden, 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* While a thread is there that might wake those who wait it is looked again, ever more rarely; but not too rarely. */

static void *let_time_pass(void *arg)
{
    enum { LOOKS = 12 };
    for (int i = 0; i < LOOKS; i++) {
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

static void looks_are_not_too_rare(void)
{
    pthread_t thread;
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    weft_fiber *fiber = spawn(wait_at_gate, NULL);
    CHECK_EQ(pthread_create(&thread, NULL, let_time_pass, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* A machine is stuck, and its clock is refused in the middle: its processor is taken when its slice is over. */

static atomic_u32 let_go;

static void release(void *arg)
{
    (void)arg;
    atomic_u32_store_release(&let_go, 1);
}

static void block_with_clock_refused(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_go(release, NULL), 0);
    fake_plan(&fake_thread_clock, 1, EINVAL, KERNEL_ALWAYS);
    while (!atomic_u32_load_acquire(&let_go))
        usleep(100);
}

static void a_clock_that_is_refused(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    do { /* unless it was known already that it does not use the CPU */
        atomic_u32_store_relaxed(&let_go, 0);
        CHECK_EQ(weft_join(spawn(block_with_clock_refused, NULL)), 0);
    } while (atomic_u32_load_relaxed(&fake_thread_clock.calls) < 2);
    fake_plan(&fake_thread_clock, 0, 0, 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* A test run: the last that is in C code comes back while the machine looks for events. The clock does not jump. */

static struct {
    atomic_u32 outside, back;
} blocker;

/* On the machine that has the processor. */
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
    (void)arg;
    weft_blocking_enter();
    atomic_u32_store_release(&blocker.outside, 1);
    await_word(&blocker.back, 1);
    weft_blocking_exit();
    CHECK_EQ(weft_now(), before);
}

static void sleep_long(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(WEFT_S), 0);
}

static void block_and_sleep(void *arg)
{
    int ends[2];
    (void)arg;
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
        test_skip("ThreadSanitizer, or the emulator, has a thread of its own, which is counted");
#if __GLIBC_PREREQ(2, 33) /* before that stat had another name */
    RUN(a_run_that_began_without_proc);
    RUN(a_run_without_proc);
    RUN(strangers_end_in_a_run);
    RUN(woken_during_the_look);
    RUN(only_machines_are_counted);
#endif
    RUN(a_clock_that_is_refused);
    RUN(back_before_the_clock_jumps);
#if __GLIBC_PREREQ(2, 33)
    RUN(looks_are_not_too_rare); /* the last: the time does not go back */
#endif
    return 0;
}
