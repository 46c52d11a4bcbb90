/*
 * blocking.c: fibers that block their thread, marked (weft/blocking.h) or not: the others go on.
 *
 * No check depends on a duration: a fiber blocks until the others were seen to go on. If the
 * hand-off fails, the test runs into its time limit.
 */
#include <fcntl.h>
#include <sys/file.h>

#include "blocked.h"
#include "bodies.h"
#include "everywhere.h"
#include "sched/core/idle.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "seeds.h"

/* Fibers block in one of four unmarked ways while a thousand others tick. */

enum { BLOCKERS = 64, TICKERS = 1000, TICKS_EACH = 5 };

static struct {
    void (*block)(void);
    atomic_u64 ticks, enough;
    atomic_u32 begun, over;
    char path[32];
    pthread_mutex_t mutex;
} show;

static bool ticked_enough(void)
{
    return atomic_u64_load_relaxed(&show.ticks) >= atomic_u64_load_relaxed(&show.enough);
}

static void block_in_nanosleep(void)
{
    while (!ticked_enough())
        nap(1000);
}

static void block_in_loop(void)
{
    while (!ticked_enough())
        continue;
}

static void block_in_flock(void)
{
    int fd = open(show.path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(flock(fd, LOCK_EX), 0);
    close(fd);
}

static void block_in_mutex(void)
{
    CHECK_EQ(pthread_mutex_lock(&show.mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&show.mutex), 0);
}

static void tick(void *arg)
{
    while (!atomic_u32_load_acquire(&show.over)) {
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
        atomic_u64_add_relaxed(&show.ticks, 1);
    }
}

static void block(void *arg)
{
    atomic_u32_add_seq_cst(&show.begun, 1);
    show.block();
    CHECK(ticked_enough());
}

static void others_tick_while(void (*blocks)(void))
{
    static weft_fiber *blockers[BLOCKERS], *tickers[TICKERS];
    const int count = (int)test_scale(TICKERS);
    processors_begin(2);
    strcpy(show.path, "/tmp/weft-blocking-XXXXXX");
    int file = mkstemp(show.path);
    CHECK(file >= 0);
    CHECK_EQ(flock(file, LOCK_EX), 0);
    CHECK_EQ(pthread_mutex_init(&show.mutex, NULL), 0);
    CHECK_EQ(pthread_mutex_lock(&show.mutex), 0);
    show.block = blocks;
    atomic_u64_store_relaxed(&show.enough, UINT64_MAX);
    atomic_u64_store_relaxed(&show.ticks, 0);
    atomic_u32_store_relaxed(&show.begun, 0);
    atomic_u32_store_relaxed(&show.over, 0);
    spawn_all(tickers, count, tick, NULL);
    spawn_all(blockers, BLOCKERS, block, NULL);
    nap_until(&show.begun, 4); /* two of them on processors that were retaken */
    atomic_u64_store_relaxed(&show.enough,
                             atomic_u64_load_relaxed(&show.ticks) + (uint64_t)count * TICKS_EACH);
    block_in_nanosleep();
    CHECK_EQ(pthread_mutex_unlock(&show.mutex), 0);
    CHECK_EQ(flock(file, LOCK_UN), 0);
    join_all(blockers, BLOCKERS);
    CHECK_EQ(atomic_u32_load_relaxed(&show.begun), BLOCKERS);
    atomic_u32_store_release(&show.over, 1);
    join_all(tickers, count);
    CHECK_EQ(pthread_mutex_destroy(&show.mutex), 0);
    close(file);
    unlink(show.path);
    processors_end();
}

static void others_tick(void)
{
    static void (*const ways[])(void) = {block_in_nanosleep, block_in_flock, block_in_mutex,
                                         block_in_loop};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        others_tick_while(ways[i]);
}

/* Each thing that may wait for a processor whose only machine is stuck. */

static atomic_u32 gate, passed;

static void pass(void *arg)
{
    atomic_u32_store_release(&passed, 1);
}

static void block_until_passed(void *arg)
{
    atomic_u32_store_release(&gate, 1);
    nap_until(&passed, 1);
}

static void reset(void)
{
    atomic_u32_store_relaxed(&gate, 0);
    atomic_u32_store_relaxed(&passed, 0);
}

static void spawn_then_block(void *arg)
{
    CHECK_EQ(weft_go(pass, NULL), 0);
    block_until_passed(arg);
}

static void sleep_then_pass(void *arg)
{
    CHECK_EQ(weft_sleep(2 * WEFT_MS), 0);
    pass(arg);
}

static void a_fiber_in_the_ring(void)
{
    run_fiber(spawn_then_block, NULL);
}

static void an_injected_fiber(void)
{
    weft_fiber *stuck = spawn(block_until_passed, NULL);
    nap_until(&gate, 1);
    CHECK_EQ(weft_go(pass, NULL), 0);
    CHECK_EQ(weft_join(stuck), 0);
}

static void a_sleeper(void)
{
    weft_fiber *sleeper = spawn(sleep_then_pass, NULL);
    run_fiber(block_until_passed, NULL);
    CHECK_EQ(weft_join(sleeper), 0);
}

static void a_timer_call(void)
{
    weft_timer *timer = open_timer(pass, NULL);
    CHECK_EQ(weft_timer_start(timer, weft_after(WEFT_MS), 0), 0);
    run_fiber(block_until_passed, NULL);
    CHECK_EQ(weft_timer_close(timer), 0);
}

/* A task behind the one that blocks, in the shard of the same processor. */
static void a_task(void)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = 4}), 0);
    CHECK_EQ(weft_pool_submit(pool, block_until_passed, NULL), 0);
    nap_until(&gate, 1);
    CHECK_EQ(weft_pool_submit(pool, pass, NULL), 0);
    CHECK_EQ(weft_pool_close(pool), 0);
}

static void nothing_is_left_behind_a_stuck_machine(void)
{
    static void (*const waits[])(void) = {a_fiber_in_the_ring, an_injected_fiber, a_sleeper,
                                          a_timer_call, a_task};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        processors_begin(1);
        reset();
        waits[i]();
        processors_end();
    }
}

/* The return from C code, without the processor. */

static weft_local_key key;

static void come_back_with_everything(void *arg)
{
    struct weft_fiber *self = weft_self();
    uint64_t id = weft_fiber_id(self);
    CHECK_EQ(weft_local_set(key, &key), 0);
    CHECK_EQ(weft_go(pass, NULL), 0); /* waits in the ring until the processor is retaken */
    nap_until(&passed, 1);
    set_errno(E2BIG);
    CHECK_PTR(weft_self(), self);
    CHECK_EQ(weft_go(pass, NULL), 0); /* enters the runtime: without a processor */
    CHECK_EQ(get_errno(), E2BIG);
    CHECK_PTR(weft_self(), self);
    CHECK_EQ(weft_fiber_id(weft_self()), id);
    CHECK_PTR(weft_local_get(key), &key);
}

/* Computes on the only processor until the other fiber has come back. */
static void hog(void *arg)
{
    atomic_u32_store_release(&gate, 1);
    while (atomic_u32_load_acquire(&gate) == 1)
        continue;
}

static void come_back_with_a_spin(void *arg)
{
    weft_spin spin = WEFT_SPIN_INIT;
    weft_fiber *one = spawn(hog, NULL);
    nap_until(&gate, 1); /* the hog has the processor */
    weft_spin_lock(&spin);
    CHECK_EQ(weft_go(pass, NULL), 0); /* queued until the slice of the hog is over */
    CHECK_EQ(thread_self()->spins, 1);
    weft_spin_unlock(&spin);
    CHECK_EQ(thread_self()->spins, 0);
    atomic_u32_store_release(&gate, 2);
    CHECK_EQ(weft_join(one), 0);
}

static void the_fiber_is_the_same_afterwards(void)
{
    CHECK_EQ(weft_local_create(&key, NULL), 0);
    for (int i = 0; i < 20; i++) {
        reset();
        on_processors(1, come_back_with_everything, NULL);
        reset();
        on_processors(1, come_back_with_a_spin, NULL);
    }
    CHECK_EQ(weft_local_delete(key), 0);
}

static void *block_in_function(void *arg)
{
    nap_until(arg, 1);
    return &passed;
}

static void enter_and_exit(void *arg)
{
    CHECK_EQ(weft_go(pass, NULL), 0);
    set_errno(EXDEV);
    weft_blocking_enter();
    weft_blocking_enter();
    CHECK_EQ(get_errno(), EXDEV);
    nap_until(&passed, 1);
    weft_blocking_exit();
    set_errno(EDOM);
    weft_blocking_exit();
    CHECK_EQ(get_errno(), EDOM);
    reset();
    CHECK_EQ(weft_go(pass, NULL), 0);
    CHECK_PTR(weft_blocking(block_in_function, &passed), &passed);
}

/* Only a new machine can look at the clock. */
static void enter_with_a_timer_left(void *arg)
{
    weft_fiber *sleeper = spawn(sleep_then_pass, NULL);
    weft_yield();
    weft_blocking_enter();
    nap_until(&passed, 1);
    weft_blocking_exit();
    CHECK_EQ(weft_join(sleeper), 0);
}

/* Every call of weft works between enter and exit. */
static void *use_weft(void *arg)
{
    weft_chan *chan = arg;
    int value = 0;
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    CHECK_EQ(weft_chan_receive(chan, &value), 0);
    CHECK_EQ(value, 42);
    weft_yield();
    weft_blocking_enter();
    run_fiber(pass, NULL);
    weft_blocking_exit();
    return NULL;
}

static void send_answer(void *arg)
{
    CHECK_EQ(weft_chan_send(arg, &(int){42}), 0);
}

static void use_weft_while_blocking(void *arg)
{
    weft_chan *chan = make_chan(sizeof(int), 0);
    weft_fiber *sender = spawn(send_answer, chan);
    CHECK_PTR(weft_blocking(use_weft, chan), NULL);
    CHECK_EQ(weft_join(sender), 0);
    weft_chan_destroy(chan);
}

static void a_marked_fiber_gives_its_processor_up_at_once(void)
{
    for (int processors = 1; processors <= 2; processors++)
        for (int i = 0; i < 20; i++) {
            reset();
            on_processors(processors, enter_and_exit, NULL);
            reset();
            on_processors(processors, enter_with_a_timer_left, NULL);
            on_processors(processors, use_weft_while_blocking, NULL);
        }
}

static void nothing_happens_on_threads(void)
{
    pass(NULL);
    weft_blocking_exit();
    weft_blocking_enter();
    CHECK_PTR(weft_blocking(block_in_function, &passed), &passed);
    weft_blocking_exit();
    weft_blocking_exit();
}

static void many_block(int count)
{
    static weft_fiber *fibers[1000];
    CHECK(count <= 1000);
    blocked_begin(fibers, count, block_marked);
    CHECK(machine_count() >= (uint32_t)count);
    blocked_end(fibers, count);
}

static void await_no_threads(void)
{
    while (threads_of_weft() > 0)
        nap(1000);
}

static void surplus_machines_end(void)
{
    int64_t before = weft__idle_surplus_after;
    weft__idle_surplus_after = WEFT_MS;
    processors_begin(2);
    for (int round = 0; round < 3; round++) {
        many_block(64);
        while (machine_count() > 2 || threads_of_weft() > 3)
            nap(1000);
        run_fiber(pass, NULL);                          /* the runtime goes on */
        for (bool joined = false; !joined; nap(1000)) { /* the last one is joined, too */
            lock_acquire(&weft__sched.lock);
            joined = weft__sched.ended == NULL;
            lock_release(&weft__sched.lock);
        }
    }
    processors_end();
    await_no_threads();
    weft__idle_surplus_after = before;
}

static void a_thousand_block(void)
{
    processors_begin(2);
    many_block((int)test_scale(1000));
    processors_end();
    await_no_threads();
}

/* With three threads for two processors, the fourth fiber that blocks has to wait. */
static void block_bounded(void)
{
    enum { COUNT = 12 };
    weft_fiber *fibers[COUNT];
    shut_down();
    CHECK_EQ(weft_configure(&(weft_config){.processors = 2, .max_machines = 3}), 0);
    blocked_reset();
    spawn_all(fibers, COUNT, block_marked, NULL);
    nap_until(&blocked.count, 3);
    nap(30000); /* a fourth thread would be started in this time */
    CHECK_EQ(atomic_u32_load_acquire(&blocked.count), 3);
    lock_acquire(&weft__sched.lock);
    CHECK_PTR(weft__sched.records, NULL); /* no machine is made beyond the bound */
    lock_release(&weft__sched.lock);
    CHECK_EQ(machine_count(), 3);
    blocked_end(fibers, COUNT);
    reset_runtime();
}

static void the_number_of_machines_is_bounded(void)
{
    const char *said = test_stderr_of(block_bounded);
    const char *first = strstr(said, "all 3 threads that there may be are in use");
    CHECK(first != NULL);
    CHECK(strstr(said, "WEFT_MAX_MACHINES") != NULL);
    CHECK_PTR(strstr(first + 1, "all 3 threads"), NULL); /* once */
    CHECK_EQ(weft_configure(&(weft_config){.max_machines = -1}), -EINVAL);
    CHECK_EQ(weft_configure(&(weft_config){.max_machines = 1000001}), -EINVAL);
}

static void a_shut_down_waits_for_blocked_fibers(void)
{
    processors_begin(2);
    reset();
    blocked_reset();
    weft_fiber *fibers[] = {spawn(block_marked, NULL), spawn(block_until_passed, NULL)};
    nap_until(&gate, 1);
    CHECK_EQ(weft_shutdown(weft_after(5 * WEFT_MS)), -ETIMEDOUT);
    pass(NULL);
    blocked_end(fibers, 2);
    processors_end();
}

static void a_fork_in_between(void *arg)
{
    weft_blocking_enter();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        weft_blocking_exit(); /* the only thread is none of weft's */
        CHECK_EQ(weft_go(pass, NULL), -ECHILD);
        _exit(7);
    }
    test_child_exits(child, 7);
    weft_blocking_exit();
}

/* A panic between enter and exit ends the blocking too, at the recover point and at the end of the
 * fiber. */

static void *panic_in_a_block(void *arg)
{
    weft_blocking_enter();
    weft_panic("in the middle");
}

static void block_and_panic(void *arg)
{
    (void)weft_blocking(panic_in_a_block, arg);
}

static void panic_outside(void *arg)
{
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_recover(block_and_panic, NULL, NULL), -EOWNERDEAD);
        weft_yield(); /* it has a processor */
        weft_blocking_enter();
        CHECK_EQ(weft_recover(block_and_panic, NULL, NULL), -EOWNERDEAD);
        weft_blocking_exit();
    }
    block_and_panic(arg);
}

static void a_panic_ends_the_block(void)
{
    (void)join_panicked(spawn(panic_outside, NULL), "in the middle");
}

/* On a kernel without membarrier the barrier is symmetric; nothing else changes. */
static void without_membarrier(void)
{
    CHECK_EQ(setenv("WEFT_WITHOUT", "membarrier", 1), 0);
    nothing_is_left_behind_a_stuck_machine();
    a_marked_fiber_gives_its_processor_up_at_once();
    CHECK_EQ(unsetenv("WEFT_WITHOUT"), 0);
}

int main(void)
{
    /* First, since no machine that has ended may be kept for reuse. */
    RUN_ALL_PLAIN("threads that block", the_number_of_machines_is_bounded, others_tick,
                  nothing_is_left_behind_a_stuck_machine, the_fiber_is_the_same_afterwards,
                  a_marked_fiber_gives_its_processor_up_at_once, nothing_happens_on_threads,
                  surplus_machines_end, a_thousand_block, a_shut_down_waits_for_blocked_fibers);
    RUN_PLAIN_ON(a_fork_in_between, 2, "forks");
    RUN_BOTH(a_panic_ends_the_block);
    RUN_PLAIN(without_membarrier, "threads that block");
    return 0;
}
