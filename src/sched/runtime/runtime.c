/*
 * runtime.c: the runtime as a whole: start, configuration, shut-down, fork.
 *
 *   stopped ---- first use ----> running ---- weft_shutdown ----> stopped
 *                                   |
 *                                   fork, in the child ----> forked, for ever
 *
 * The state changes under `lock`, a mutex in effect: a thread that starts weft while another one
 * does waits for it. All other code reads weft__runtime_running without the lock.
 *
 * Shut-down waits until every fiber has ended and every timer is closed. There is no count of live
 * fibers while the runtime works (fiber_alloc.c). So the caller asks to be woken when a machine
 * retires, and counts then:
 *
 *     caller:   draining = 1; barrier_light; count
 *     machine:  ended + 1; ... retire: barrier_heavy; if draining: quiet + 1, wake the caller
 *
 * Threads that end. After machine_main the thread-specific destructors run (pthread keys,
 * thread_local of C++). They are code of the program, which may take long, wait, and call weft. So
 * no thread waits for a thread in that state while other work depends on the first.
 *
 *   surplus   A machine that ends while the runtime runs (idle.c). Its destructors find a running
 *             runtime. A shut-down lets no more machines end as surplus, waits for those that have,
 *             and then for the fibers that their destructors may have spawned.
 *   stopped   A machine that ends because of a shut-down. It leaves its loop, counts itself as
 *             departed and waits. When all have departed everything is freed and the state is
 *             stopped; only then do they go on. Their destructors find no runtime, so a fiber that
 *             one spawns starts it again. (Before this rule such a fiber went to the inject queue
 *             of a runtime without machines, and the next runtime ran it from freed memory.) The
 *             shut-down joins these threads last, without the lock.
 *
 *     machine:  epoch = stops; departed + 1; wait while stops == epoch stopper:  wait until
 *     departed == machines listed; free all; running = 0; departed = 0; stops + 1
 *
 * A machine is listed before its thread runs, and one that has departed starts no other. So the
 * numbers are equal only if all have departed. `departed` is read before the list: a machine that
 * departs in between is not counted yet, but it has changed the futex.
 *
 * Forked child. Only the calling thread exists there; the machines, and all that they held, are
 * gone. So the child forgets that weft knew its thread, and each call returns -ECHILD. The parts
 * that work there none the less (fiber-local storage, this file) have their locks taken before the
 * fork.
 *
 * Lock order: lock, then that of the foreign threads, then that of the fiber-local keys, then that
 * of the waiting threads.
 */
#include "sched/runtime/runtime.h"

#include <errno.h>

#include "arch/stack_switch.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "os/lock.h"
#include "os/membarrier.h"
#include "os/os.h"
#include "sched/check/chaos.h"
#include "sched/check/deadlock.h"
#include "sched/check/seeded.h"
#include "sched/check/state.h"
#include "sched/check/test_point.h"
#include "sched/core/idle.h"
#include "sched/core/machine.h"
#include "sched/core/monitor.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fault.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/fiber/local.h"
#include "sched/poll/poller.h"
#include "sched/runtime/config.h"
#include "sched/runtime/cpus.h"
#include "sched/runtime/thread.h"
#include "sched/time/ticks.h"
#include "sched/time/wheel.h"
#include "stack/slab.h"
#include "stack/stack.h"

enum { STOPS_MOST = 4 };

static struct lock lock;
static weft_config configured;
static bool stopping;
static bool fault_started;
static atomic_ptr at_stop[STOPS_MOST]; /* void (*)(void) */
static atomic_u32 departed;            /* futex: machines that have departed since the stop began */
static atomic_u32 stops;               /* futex: number of stops so far */
atomic_u32 weft__runtime_running, weft__forked;

/* All locks that the child may need are taken before the fork, in the lock order. */
static void before_fork(void)
{
    lock_acquire(&lock);
    weft__foreign_fork(FORK_BEFORE);
    weft__locals_fork(FORK_BEFORE);
    weft__thread_wait_fork(FORK_BEFORE);
}

static void after_fork(enum fork_step step)
{
    weft__thread_wait_fork(step);
    weft__locals_fork(step);
    weft__foreign_fork(step);
    lock_release(&lock);
}

static void in_forking_parent(void)
{
    after_fork(FORK_PARENT);
}

static void in_forked_child(void)
{
    if (atomic_u32_load_relaxed(&weft__runtime_running)) {
        atomic_u32_store_relaxed(&weft__forked, 1);
        atomic_u32_store_relaxed(&weft__runtime_running, 0);
        if (fault_started)
            weft__fault_stop();
        thread_word_set(NULL);
        weft__os_thread_at_exit_cancel();
    } /* else nothing was lost: weft can start in the child as anywhere */

    /* A shut-down in progress was that of another thread, which does not exist here. */
    stopping = false;
    after_fork(FORK_CHILD);
}

/* Start. */

static int start_processors(const struct settings *settings)
{
    uint32_t count = (uint32_t)settings->processors, room = count;
    if (settings->follows_cpus && weft__cpus_online() > settings->processors)
        room = (uint32_t)weft__cpus_online();
    if (room > WEFT_PROCS_MAX)
        room = WEFT_PROCS_MAX;
    weft__sched.follows_cpus = settings->follows_cpus;
    int error = weft__processors_start(count, room);
    if (error == 0) /* the first machine, which start() starts next, is counted as spinning */
        atomic_u32_store_relaxed(&weft__sched.spinning, 1);
    return error;
}

static void free_all(void)
{
    weft__poller_stop();
    for (uint32_t i = 0; i < processor_count(); i++)
        weft__compact_stop(&weft__sched.processors[i]);
    weft__slab_stop();
    weft__stack_stop();
    weft__foreign_stop(); /* before fibers are freed: a thread that ends now flushes its cache */
    weft__fiber_stop();
    weft__processors_stop();
}

/* Frees the structures of machines whose threads have been joined. */
static void free_records(void)
{
    while (weft__sched.records != NULL) {
        struct machine *machine = weft__sched.records;
        weft__sched.records = machine->next;
        weft__os_free(machine);
    }
}

/* A constructor, since threads use fiber-local values, and wait for each other, before the runtime
 * starts. */
__attribute__((constructor)) static void handle_forks(void)
{
    if (weft__os_at_fork(before_fork, in_forking_parent, in_forked_child) != 0)
        weft__warn("cannot handle forks: no memory");
}

/* The program's sanitizer. */

#if !WEFT_TSAN
extern void __tsan_init(void) __attribute__((weak)); /* NULL: not part of this process */
#endif

/* ThreadSanitizer takes a fiber that goes on on another thread for two threads that race, unless
 * weft tells it of each switch. It also holds signals back until their thread calls a function that
 * it intercepts, which weft's threads seldom do. */
static void check_sanitizer(void)
{
#if !WEFT_TSAN
    if (__tsan_init != NULL)
        weft__warn("the program is built with ThreadSanitizer and weft is not: races reported in "
                   "fibers may be none, and signals may be late; build weft with "
                   "-DWEFT_SANITIZE=thread as well");
#endif
}

static int start(void)
{
    struct settings settings = weft__config_resolve(&configured);
    if (seeded()) {
        settings.processors = 1;
        settings.follows_cpus = false;
        settings.deadlock_check = true;
    } else {
        weft__chaos_begin(settings.chaos);
    }
    weft__sched = (struct sched){.max_fibers = settings.max_fibers,
                                 .max_machines = (uint32_t)settings.max_machines,
                                 .deadlock_check = settings.deadlock_check,
                                 .io_uring = settings.io_uring,
                                 .file_nowait = settings.file_nowait,
                                 .pidfd = settings.pidfd};
    weft__sched.stack_class = (uint8_t)weft__stack_class(settings.stack_size);
    atomic_i64_store_relaxed(&weft__sched.sleep_until, NO_WATCHER);
    atomic_i64_store_relaxed(&weft__sched.doze_until, WEFT_NEVER);
    atomic_i64_store_relaxed(&weft__sched.maintenance_time, WEFT_NEVER);
    weft__ticks_start();
    weft__os_threads_inherit();
    weft__barrier_choose(settings.membarrier);
    weft__stack_start(settings.guard_install, settings.guard_many, settings.guard_pages);
    int error = weft__poller_start(settings.epoll_pwait2);
    if (error == 0)
        error = start_processors(&settings);
    if (error == 0)
        error = weft__machine_start(&weft__sched.processors[0], false);
    if (error != 0) {
        free_records();
        free_all();
        return error;
    }
    fault_started = settings.fault_report && weft__fault_start() == 0;
    weft__sched.handles_faults = fault_started;
    weft__fatal_shows(weft__state_show);
    check_sanitizer();
    if (seeded())
        weft__monitor_stop(); /* so that it is not started later either */
    else
        weft__monitor_start();
    return 0;
}

noinline int weft__runtime_start(void)
{
    if (weft__runtime_forked())
        return -ECHILD;
    int error = 0;
    lock_acquire(&lock);
    if (!atomic_u32_load_relaxed(&weft__runtime_running) && (error = start()) == 0)
        atomic_u32_store_release(&weft__runtime_running, 1); /* pairs with runtime_ensure */
    lock_release(&lock);
    return error;
}

int weft__runtime_start_seeded(uint64_t seed, bool chaos)
{
    int error = -EBUSY;
    lock_acquire(&lock);
    if (!atomic_u32_load_relaxed(&weft__runtime_running)) {
        error = weft__seeded_begin(seed, chaos);
        if (error == 0 && (error = start()) != 0)
            (void)weft__seeded_end();
        if (error == 0)
            atomic_u32_store_release(&weft__runtime_running, 1); /* pairs with runtime_ensure */
    }
    lock_release(&lock);
    return error;
}

int weft_configure(const weft_config *config)
{
    static const weft_config defaults;
    if (weft__runtime_forked())
        return -ECHILD;
    if (config == NULL)
        config = &defaults;
    if (weft__config_check(config) != 0)
        return -EINVAL;
    int error = -EBUSY;
    lock_acquire(&lock);
    if (!atomic_u32_load_relaxed(&weft__runtime_running)) {
        configured = *config;
        error = 0;
    }
    lock_release(&lock);
    return error;
}

int weft_processors(void)
{
    if (atomic_u32_load_acquire(&weft__runtime_running) || weft__runtime_forked())
        return (int)atomic_u32_load_relaxed(&weft__sched.in_use_most);
    lock_acquire(&lock);
    int count = weft__config_processors(&configured, false);
    lock_release(&lock);
    return count;
}

/* Warns of a program that ends before any fiber has run: most likely it forgot to wait, and would
 * silently do nothing. A program that ends while its fibers are at work may mean it, so that is not
 * reported. Runs after the functions given to atexit.
 *
 * Left out under ThreadSanitizer: counting beside fibers that run is a race for it, and it cannot
 * follow the last thread of a forked child that far. */
#if !WEFT_TSAN
__attribute__((destructor)) static void report_unbegun(void)
{
    if (!atomic_u32_load_relaxed(&weft__runtime_running) || weft__runtime_forked() || seeded())
        return;
    uint64_t count = weft__fiber_count_unbegun();
    if (count > 0)
        weft__warn("the program ends before its fibers begin (%llu wait to run): main returned, or "
                   "exit was called; weft_join, weft_wg_wait, weft_pool_close or weft_shutdown "
                   "wait for them",
                   (unsigned long long)count);
}
#endif

/* Shut-down. */

void weft__runtime_quiet(void)
{
    atomic_u32_add_seq_cst(&weft__sched.quiet, 1);
    weft__os_futex_wake(&weft__sched.quiet, INT32_MAX);
}

void weft__runtime_at_stop(void (*function)(void))
{
    int i = 0;
    void *none = NULL;
    while (!atomic_ptr_cas_acq_rel(&at_stop[i], &none, (void *)(uintptr_t)function)) {
        none = NULL;
        i++;
        must(i < STOPS_MOST);
    }
}

atomic_ptr weft__runtime_on_drain;

static void call_drain_hook(void)
{
    void (*function)(void) =
        (void (*)(void))(uintptr_t)atomic_ptr_load_acquire(&weft__runtime_on_drain);
    if (function != NULL)
        function();
}

static int drain(int64_t deadline)
{
    int error = 0;
    struct thread_wait wait = {.waiter = NULL};
    if (deadline == WEFT_NEVER)
        weft__thread_wait_begin(&wait);
    atomic_u32_exchange_seq_cst(&weft__sched.draining, 1);
    call_drain_hook();
    for (;;) {
        uint32_t quiet = atomic_u32_load_seq_cst(&weft__sched.quiet);
        barrier_light();
        if (weft__fiber_alive() == 0)
            break;
        if (weft__os_futex_wait(&weft__sched.quiet, quiet, deadline) == -ETIMEDOUT) {
            error = -ETIMEDOUT;
            break;
        }
    }
    atomic_u32_exchange_seq_cst(&weft__sched.draining, 0);
    if (deadline == WEFT_NEVER)
        weft__thread_wait_end(&wait);
    return error;
}

/* Forbids (true) or allows machines to end as surplus. */
static void set_closing(bool closing)
{
    lock_acquire(&weft__sched.lock);
    weft__sched.closing = closing;
    lock_release(&weft__sched.lock);
}

/* Waits until all fibers have ended, then for the threads of surplus machines, whose destructors
 * may use weft until they are gone, then for the fibers that these have spawned. */
static int finish(int64_t deadline)
{
    set_closing(true);
    int error = drain(deadline);
    struct machine *ended = error == 0 ? weft__machine_take_ended() : NULL;
    if (ended != NULL) {
        weft__machine_join(ended, true);
        error = drain(deadline); /* set_closing: no more machines end as surplus */
    }
    if (error != 0)
        set_closing(false);
    return error;
}

void weft__runtime_depart(void)
{
    /* Does not change before all machines, this one included, have departed. */
    uint32_t epoch = atomic_u32_load_relaxed(&stops);
    atomic_u32_add_seq_cst(&departed, 1);
    weft__os_futex_wake(&departed, 1);
    while (atomic_u32_load_acquire(&stops) == epoch) /* pairs with let_machines_go */
        (void)weft__os_futex_wait(&stops, epoch, WEFT_NEVER);
}

/* Waits until all machines have departed: none accesses another one, or starts one, after that. */
static struct machine *await_departure(void)
{
    for (;;) {
        uint32_t count = 0, gone = atomic_u32_load_seq_cst(&departed);
        lock_acquire(&weft__sched.lock);
        struct machine *all = weft__sched.machines;
        for (const struct machine *machine = all; machine != NULL; machine = machine->next)
            count++;
        bool starting = weft__sched.machines_starting != 0;
        lock_release(&weft__sched.lock);
        if (gone == count && !starting)
            return all;
        (void)weft__os_futex_wait(&departed, gone, WEFT_NEVER);
    }
}

/* Lets the machines that wait in weft__runtime_depart end their threads. */
static void let_machines_go(void)
{
    atomic_u32_store_relaxed(&departed, 0);
    atomic_u32_add_acq_rel(&stops, 1);
    weft__os_futex_wake(&stops, INT32_MAX);
}

/* Stops the runtime. Returns the machines, whose threads are about to end. */
static struct machine *stop(void)
{
    weft__monitor_stop();
    weft__idle_stop();
    struct machine *machines = await_departure();
    weft__sched.machines = NULL;
    free_records();
    for (int i = 0; i < STOPS_MOST; i++) {
        void (*function)(void) = (void (*)(void))(uintptr_t)atomic_ptr_load_acquire(&at_stop[i]);
        if (function != NULL)
            function();
    }
    if (fault_started)
        weft__fault_stop();
    free_all();
    return machines;
}

int weft_shutdown(int64_t deadline)
{
    if (weft__runtime_forked())
        return -ECHILD;
    if (weft_self() != NULL)
        return -EDEADLK;
    lock_acquire(&lock);
    bool running = atomic_u32_load_relaxed(&weft__runtime_running);
    bool busy = stopping;
    stopping |= running;
    lock_release(&lock);
    if (busy)
        return -EBUSY;
    int error = running ? finish(deadline) : 0;
    if (running && error == 0) {
        lock_acquire(&lock);
        struct machine *machines = stop();
        atomic_u32_store_release(&weft__runtime_running, 0);
        let_machines_go();
        lock_release(&lock);
        /* Without the lock: what their destructors call may need it. */
        weft__machine_join(machines, false);
    }
    if (running) {
        lock_acquire(&lock);
        stopping = false;
        lock_release(&lock);
    }
    if (error == 0)
        weft__foreign_leave();
    return error;
}
