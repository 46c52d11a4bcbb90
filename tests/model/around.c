/*
 * around.c: replacements for the code around the scheduler's files in a model.
 *
 * Stacks come from the model's memory, threads are threads of the model, the poller waits for its
 * eventfd only, and fibers leave nothing behind when they end. Deadlines of the poller pass only if
 * the scenario has timeouts: without timeouts nothing may depend on the watcher waking up by
 * itself.
 */
#include <errno.h>

#include "explore.h"
#include "sched/check/deadlock.h"
#include "sched/check/mutex_check.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/machine.h"
#include "sched/core/monitor.h"
#include "sched/core/processor.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/crash.h"
#include "sched/fiber/cxx.h"
#include "sched/fiber/fault.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/panic.h"
#include "sched/poll/descriptor.h"
#include "sched/poll/poller.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sched/time/ticks.h"
#include "sched/time/timer.h"
#include "sched/time/wheel.h"

/* Large enough for the calls of a fiber in a model. */
#ifdef WEFT_COVERAGE /* frames are larger */
enum { FIBER_STACK = 8192 };
#else
enum { FIBER_STACK = 4096 };
#endif

struct stack *weft__stack_get(struct stack_cache *cache, int class)
{
    struct stack *stack = model_alloc(sizeof *stack);
    stack->base = model_alloc(FIBER_STACK);
    stack->class = (uint8_t) class;
    return stack;
}

void weft__stack_put(struct stack_cache *cache, struct stack *stack)
{
    model_free(stack->base);
    model_free(stack);
}

char *weft__stack_start_at(const struct stack *stack)
{
    return stack->base + FIBER_STACK - stack->front * FETCH_LINE;
}

void *weft__stack_front(struct stack *stack, size_t size)
{
    stack->front = (uint8_t)((size + FETCH_LINE - 1) / FETCH_LINE);
    return weft__stack_start_at(stack);
}

void weft__stack_cache_flush(struct stack_cache *cache)
{
}

bool weft__stack_trim_wanted(void)
{
    return false;
}

int64_t weft__stack_trim(int64_t now)
{
    return STACK_TRIM_IDLE;
}

/* Threads. */

static const char *const machine_names[] = {"machine 1", "machine 2", "machine 3", "machine 4"};
static uint32_t machine_count;
bool model_machines_end;

struct start {
    void *(*function)(void *);
    void *arg;
};

static void run_start(void *arg)
{
    struct start *start = arg;
    (void)start->function(start->arg);
}

int weft__os_thread_start(weft__os_thread *thread, void *(*function)(void *), void *arg)
{
    struct start *start = model_alloc(sizeof *start);
    *start = (struct start){function, arg};
    *thread = 0;
    model_call("starts a thread", NULL);
    model_thread(machine_names[machine_count++ % 4], run_start, start, model_machines_end);
    return 0;
}

void weft__os_thread_begin(void)
{
}

bool weft__os_thread_join_within(weft__os_thread thread, int64_t limit)
{
    model_fail("a thread is waited for"); /* a model has no surplus threads */
    return false;
}

void weft__runtime_depart(void)
{
}

int weft__os_thread_clock(void)
{
    return -1;
}

const struct fiber_hooks *weft__fiber_hooks;

struct upper *weft__upper_make(void)
{
    return upper_self();
}

struct cxx_state *weft__cxx_state(void)
{
    static struct cxx_state none;
    return &none;
}

int weft__os_fault_stack_enter(void **stack)
{
    *stack = NULL;
    return 0;
}

void weft__os_fault_stack_leave(void *stack)
{
}

void weft__os_exit_now(int status)
{
    model_fail("exits with %d", status);
}

/* The system calls of the poller: an eventfd, and an epoll set that contains nothing else. */

static uint32_t event_count;

int weft__os_poll_wait_exact(int epoll, struct weft__os_event *events, int capacity,
                             int64_t deadline)
{
    model_call("epoll wait?", &event_count);
    if (event_count == 0 && model_wait("epoll wait", &event_count, deadline))
        return 0;
    events[0] = (struct weft__os_event){UINT64_MAX, OS_READABLE}; /* the tag of the eventfd */
    return 1;
}

int weft__os_poll_wait(int epoll, struct weft__os_event *events, int capacity, bool wait)
{
    return weft__os_poll_wait_exact(epoll, events, capacity, INT64_MAX);
}

void weft__descriptor_event(uint64_t tag, uint32_t events, struct ready *ready)
{
}

int weft__os_timerfd_set(int fd, int64_t deadline)
{
    return 0;
}

void weft__os_counter_drain(int fd)
{
    model_call("drains the eventfd", &event_count);
    event_count = 0;
}

void weft__os_eventfd_signal(int fd)
{
    model_call("writes the eventfd", &event_count);
    event_count++;
    model_wake("is woken", &event_count, 1);
}

/* Fibers, and the rest of the runtime. No fiber panics. */

atomic_u32 weft__forked;

/* Referenced by the assembly, for unwinding: see sched/fiber/cxx.c. */
void weft__personality(void);
void weft__personality(void)
{
    model_fail("unwinds");
}

void weft__deferred_run_all(struct scope *scope)
{
    model_fail("runs what was deferred");
}

void weft__fiber_keep_panic(struct weft_fiber *fiber, struct panic *panic)
{
}

struct panic *weft__panic_arrived(struct weft_fiber *fiber)
{
    return NULL;
}

/* A model has no test runs (sizes/test_point.twin). */
struct thread *weft__test_enter(struct thread *thread)
{
    model_fail("a test run");
}

void weft__test_point(void)
{
    model_fail("a test run");
}

bool weft__seeded_wake(void)
{
    model_fail("a test run");
}

struct weft_fiber *weft__seeded_choose(struct machine *machine)
{
    model_fail("a test run");
}

int64_t weft__seeded_deadline(int64_t deadline)
{
    model_fail("a test run");
}

int64_t weft__seeded_now(void)
{
    model_fail("a test run");
}

bool weft__seeded_chance(uint32_t times)
{
    model_fail("a test run");
}

struct ticks weft__ticks;

void weft__ticks_learn(void)
{
}

void weft__depth_check(const struct weft_fiber *fiber)
{
    (void)fiber; /* stacks of a model are small and their frames large */
}

#ifdef WEFT_DEBUG
void weft__held_report(struct weft_fiber *fiber, const char *does)
{
    model_fail("holds a mutex of pthread");
}
#endif

/* There is no monitor: scenarios take its part. */
void weft__monitor_poke(void)
{
}

/* No fiber faults. */
void weft__crash_attend(struct machine *machine)
{
    model_fail("a crash");
}

void weft__crash_retire(struct weft_fiber *fiber)
{
    model_fail("a crash");
}

void weft__fiber_retire(struct weft_fiber *fiber)
{
}

void weft__fiber_end_extra(struct weft_fiber *fiber)
{
}

void weft__deadlock_read_frames(struct machine *machine)
{
}

void weft__deadlock_recheck(void)
{
}

int64_t weft__deadlock_check(void)
{
    return INT64_MAX;
}

void weft__thread_wait_begin(struct thread_wait *wait)
{
}

void weft__thread_wait_end(struct thread_wait *wait)
{
}

void weft__runtime_quiet(void)
{
}

struct weft_fiber *weft__timer_expired(struct timer *timer)
{
    return NULL;
}

const char *weft_strerror(int error)
{
    return "an error";
}

/* No fiber of a model is compact. */

bool weft__compact_works(void)
{
    return false;
}

struct hot_stack *weft__compact_enter(struct processor *processor, struct weft_fiber *fiber,
                                      bool *starves)
{
    model_fail("a compact fiber");
    return NULL;
}

void weft__compact_leave(struct hot_stack *hot, struct weft_fiber *fiber, enum action action)
{
    model_fail("a compact fiber");
}

bool weft__compact_is_remote(void *front)
{
    model_fail("a compact fiber");
    return false;
}

void weft__compact_move(void)
{
    model_fail("a compact fiber");
    for (;;)
        continue;
}

void weft__compact_refuse(const void *address, const char *what, const char *instead)
{
    model_fail("a compact fiber");
}

struct processor *weft__compact_home(const struct weft_fiber *fiber)
{
    model_fail("a compact fiber");
    return NULL;
}

/* The hooks of a worker. */
void *weft__stash(size_t size)
{
    return weft__os_alloc(size);
}

void weft__unstash(void *memory)
{
    weft__os_free(memory);
}

int weft__stash_wait(int64_t deadline)
{
    model_fail("a compact fiber");
    return 0;
}

void *weft__compact_front(struct weft_fiber *fiber, size_t size)
{
    model_fail("a compact fiber");
    return NULL;
}
