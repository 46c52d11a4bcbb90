/*
 * blocking.c: fibers that block their thread, with a word (weft/blocking.h) and without: the others go on.
 *
 * Nothing here waits for a time: who blocks does so until the others have been seen to go on. Where the
 * hand-off does not work the test runs into its time limit.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <time.h>

#include "bodies.h"
#include "everywhere.h"
#include "sched/core/idle.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "seeds.h"

static void start_with(const weft_config *config)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(config), 0);
}

static void stop(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

static void nap(long microseconds)
{
    struct timespec time = {.tv_nsec = microseconds * 1000};
    nanosleep(&time, NULL);
}

/* Many block in one of four ways, nobody says so, and a thousand others tick. */

enum { BLOCKERS = 64, TICKERS = 1000, TICKS_EACH = 5 };

static struct {
    void (*block)(void);
    atomic_u64 ticks;
    atomic_u64 enough;
    atomic_u32 blocked, over;
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
    (void)arg;
    while (!atomic_u32_load_acquire(&show.over)) {
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
        atomic_u64_add_relaxed(&show.ticks, 1);
    }
}

static void block(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&show.blocked, 1);
    show.block();
    CHECK(ticked_enough());
}

static void others_tick_while(void (*blocks)(void))
{
    static weft_fiber *blockers[BLOCKERS], *tickers[TICKERS];
    const int count = (int)test_scale(TICKERS);
    start_with(&(weft_config){.processors = 2});
    strcpy(show.path, "/tmp/weft-blocking-XXXXXX");
    int file = mkstemp(show.path);
    CHECK(file >= 0);
    CHECK_EQ(flock(file, LOCK_EX), 0);
    CHECK_EQ(pthread_mutex_init(&show.mutex, NULL), 0);
    CHECK_EQ(pthread_mutex_lock(&show.mutex), 0);
    show.block = blocks;
    atomic_u64_store_relaxed(&show.enough, UINT64_MAX);
    atomic_u64_store_relaxed(&show.ticks, 0);
    atomic_u32_store_relaxed(&show.blocked, 0);
    atomic_u32_store_relaxed(&show.over, 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(weft_spawn(&tickers[i], tick, NULL, NULL), 0);
    for (int i = 0; i < BLOCKERS; i++)
        CHECK_EQ(weft_spawn(&blockers[i], block, NULL, NULL), 0);
    while (atomic_u32_load_relaxed(&show.blocked) < 4) /* two on a processor that was taken over */
        nap(1000);
    atomic_u64_store_relaxed(&show.enough,
                             atomic_u64_load_relaxed(&show.ticks) + (uint64_t)count * TICKS_EACH);
    while (!ticked_enough())
        nap(1000);
    CHECK_EQ(pthread_mutex_unlock(&show.mutex), 0);
    CHECK_EQ(flock(file, LOCK_UN), 0);
    for (int i = 0; i < BLOCKERS; i++)
        CHECK_EQ(weft_join(blockers[i]), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&show.blocked), BLOCKERS);
    atomic_u32_store_release(&show.over, 1);
    for (int i = 0; i < count; i++)
        CHECK_EQ(weft_join(tickers[i]), 0);
    CHECK_EQ(pthread_mutex_destroy(&show.mutex), 0);
    close(file);
    unlink(show.path);
    stop();
}

static void others_tick_during_nanosleep(void)
{
    others_tick_while(block_in_nanosleep);
}

static void others_tick_during_flock(void)
{
    others_tick_while(block_in_flock);
}

static void others_tick_during_a_pthread_mutex(void)
{
    others_tick_while(block_in_mutex);
}

static void others_tick_during_a_loop(void)
{
    others_tick_while(block_in_loop);
}

/* Each thing that may wait for a processor while its only machine is stuck, one after the other. */

static atomic_u32 gate, passed;

static void pass(void *arg)
{
    (void)arg;
    atomic_u32_store_release(&passed, 1);
}

/* Blocks the thread, without a call of weft. */
static void block_until(const atomic_u32 *word)
{
    while (atomic_u32_load_acquire(word) == 0)
        nap(100);
}

static void block_until_passed(void *arg)
{
    (void)arg;
    atomic_u32_store_release(&gate, 1);
    block_until(&passed);
}

static void reset(void)
{
    atomic_u32_store_relaxed(&gate, 0);
    atomic_u32_store_relaxed(&passed, 0);
}

static weft_fiber *spawn(void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, arg, NULL), 0);
    return fiber;
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

static void on_one_processor(void (*function)(void))
{
    start_with(&(weft_config){.processors = 1});
    reset();
    function();
    stop();
}

static void what_stands_in_the_ring(void)
{
    CHECK_EQ(weft_join(spawn(spawn_then_block, NULL)), 0);
}

static void what_others_inject(void)
{
    weft_fiber *stuck = spawn(block_until_passed, NULL);
    block_until(&gate);
    CHECK_EQ(weft_go(pass, NULL), 0);
    CHECK_EQ(weft_join(stuck), 0);
}

static void what_a_timer_makes_ready(void)
{
    weft_fiber *sleeper = spawn(sleep_then_pass, NULL);
    CHECK_EQ(weft_join(spawn(block_until_passed, NULL)), 0);
    CHECK_EQ(weft_join(sleeper), 0);
}

static void what_a_timer_calls(void)
{
    weft_timer *timer;
    CHECK_EQ(weft_timer_open(&timer, pass, NULL), 0);
    CHECK_EQ(weft_timer_start(timer, weft_after(WEFT_MS), 0), 0);
    CHECK_EQ(weft_join(spawn(block_until_passed, NULL)), 0);
    CHECK_EQ(weft_timer_close(timer), 0);
}

/* Tasks that stand behind the one that blocks, in the hand of the same worker. */
static void what_a_pool_has_ready(void)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = 4}), 0);
    CHECK_EQ(weft_pool_submit(pool, block_until_passed, NULL), 0);
    block_until(&gate);
    CHECK_EQ(weft_pool_submit(pool, pass, NULL), 0);
    CHECK_EQ(weft_pool_close(pool), 0);
}

static void nothing_is_left_behind_a_stuck_machine(void)
{
    on_one_processor(what_stands_in_the_ring);
    on_one_processor(what_others_inject);
    on_one_processor(what_a_timer_makes_ready);
    on_one_processor(what_a_timer_calls);
    on_one_processor(what_a_pool_has_ready);
}

/* The way back. */

static weft_local_key key;

static void come_back_with_everything(void *arg)
{
    struct weft_fiber *self = weft_self();
    uint64_t id = weft_fiber_id(self);
    CHECK_EQ(weft_local_set(key, &key), 0);
    CHECK_EQ(weft_go(pass, NULL), 0); /* waits here until the processor is taken */
    block_until(&passed);
    set_errno(E2BIG);
    CHECK_PTR(weft_self(), self);
    CHECK_EQ(weft_go(pass, NULL), 0); /* enters the runtime: without a processor */
    CHECK_EQ(get_errno(), E2BIG);
    CHECK_PTR(weft_self(), self);
    CHECK_EQ(weft_fiber_id(weft_self()), id);
    CHECK_PTR(weft_local_get(key), &key);
    (void)arg;
}

/* While somebody else computes on the only processor, and comes back only when all others are done. */
static void hog(void *arg)
{
    (void)arg;
    atomic_u32_store_release(&gate, 1);
    while (atomic_u32_load_acquire(&gate) == 1)
        continue;
}

static void come_back_with_a_spin(void *arg)
{
    weft_spin spin = WEFT_SPIN_INIT;
    weft_fiber *one = spawn(hog, NULL);
    block_until(&gate); /* it has the processor */
    weft_spin_lock(&spin);
    CHECK_EQ(weft_go(pass, NULL), 0); /* in line, until that one's slice is over */
    CHECK_EQ(thread_self()->spins, 1);
    weft_spin_unlock(&spin);
    CHECK_EQ(thread_self()->spins, 0);
    atomic_u32_store_release(&gate, 2);
    CHECK_EQ(weft_join(one), 0);
    (void)arg;
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

/* Said so. */

static void *block_in_function(void *arg)
{
    block_until(arg);
    return &passed;
}

static void enter_and_exit(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_go(pass, NULL), 0);
    set_errno(EXDEV);
    weft_blocking_enter();
    weft_blocking_enter();
    CHECK_EQ(get_errno(), EXDEV);
    block_until(&passed);
    weft_blocking_exit();
    set_errno(EDOM);
    weft_blocking_exit();
    CHECK_EQ(get_errno(), EDOM);
    reset();
    CHECK_EQ(weft_go(pass, NULL), 0);
    CHECK_PTR(weft_blocking(block_in_function, &passed), &passed);
}

static void sleep_long(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    pass(arg);
}

/* Nobody is left to look at the clock but a machine that is made for it. */
static void enter_with_a_timer_left(void *arg)
{
    weft_fiber *sleeper = spawn(sleep_long, NULL);
    weft_yield();
    weft_blocking_enter();
    block_until(&passed);
    weft_blocking_exit();
    CHECK_EQ(weft_join(sleeper), 0);
    (void)arg;
}

/* Everything of weft works in between. */
static void *use_weft(void *arg)
{
    weft_chan *chan = arg;
    int value = 0;
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    CHECK_EQ(weft_chan_receive(chan, &value), 0);
    CHECK_EQ(value, 42);
    weft_yield();
    weft_blocking_enter();
    CHECK_EQ(weft_join(spawn(pass, NULL)), 0);
    weft_blocking_exit();
    return NULL;
}

static void send_answer(void *arg)
{
    CHECK_EQ(weft_chan_send(arg, &(int){42}), 0);
}

static void use_weft_while_blocking(void *arg)
{
    weft_chan *chan;
    CHECK_EQ(weft_chan_make(&chan, sizeof(int), 0), 0);
    weft_fiber *sender = spawn(send_answer, chan);
    CHECK_PTR(weft_blocking(use_weft, chan), NULL);
    CHECK_EQ(weft_join(sender), 0);
    weft_chan_destroy(chan);
    (void)arg;
}

static void who_says_so_gives_up_at_once(void)
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

/* Machines. */

static uint32_t machines(void)
{
    lock_acquire(&weft__sched.lock);
    uint32_t count = weft__sched.machine_count;
    lock_release(&weft__sched.lock);
    return count;
}

static int threads_of_weft(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        count += fgets(name, sizeof name, file) != NULL && strncmp(name, "weft", 4) == 0;
        fclose(file);
    }
    closedir(dir);
    return count;
}

static atomic_u32 inside;
static pthread_mutex_t door_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t door_opens = PTHREAD_COND_INITIALIZER;
static bool door_open;

static void set_door(bool open)
{
    CHECK_EQ(pthread_mutex_lock(&door_mutex), 0);
    door_open = open;
    CHECK_EQ(pthread_cond_broadcast(&door_opens), 0);
    CHECK_EQ(pthread_mutex_unlock(&door_mutex), 0);
}

static void block_with_others(void *arg)
{
    weft_blocking_enter();
    atomic_u32_add_seq_cst(&inside, 1);
    CHECK_EQ(pthread_mutex_lock(&door_mutex), 0);
    while (!door_open)
        CHECK_EQ(pthread_cond_wait(&door_opens, &door_mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&door_mutex), 0);
    weft_blocking_exit();
    (void)arg;
}

static void many_block(int count)
{
    static weft_fiber *fibers[1000];
    CHECK(count <= 1000);
    set_door(false);
    atomic_u32_store_relaxed(&inside, 0);
    for (int i = 0; i < count; i++)
        fibers[i] = spawn(block_with_others, NULL);
    while (atomic_u32_load_acquire(&inside) < (uint32_t)count)
        nap(1000);
    CHECK(machines() >= (uint32_t)count);
    set_door(true);
    for (int i = 0; i < count; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

static void surplus_machines_end(void)
{
    int64_t before = weft__idle_surplus_after;
    weft__idle_surplus_after = WEFT_MS;
    start_with(&(weft_config){.processors = 2});
    for (int round = 0; round < 3; round++) {
        many_block(64);
        while (machines() > 2 || threads_of_weft() > 3)
            nap(1000);
        CHECK_EQ(weft_join(spawn(pass, NULL)), 0);      /* and weft goes on */
        for (bool joined = false; !joined; nap(1000)) { /* also the last of them is joined */
            lock_acquire(&weft__sched.lock);
            joined = weft__sched.ended == NULL;
            lock_release(&weft__sched.lock);
        }
    }
    stop();
    while (threads_of_weft() > 0)
        nap(1000);
    weft__idle_surplus_after = before;
}

static void a_thousand_block(void)
{
    start_with(&(weft_config){.processors = 2});
    many_block((int)test_scale(1000));
    stop();
    while (threads_of_weft() > 0)
        nap(1000);
}

/* With three threads for two processors: the fourth that blocks has to wait. */

static void block_bounded(void)
{
    enum { COUNT = 12 };
    weft_fiber *fibers[COUNT];
    start_with(&(weft_config){.processors = 2, .max_machines = 3});
    set_door(false);
    atomic_u32_store_relaxed(&inside, 0);
    for (int i = 0; i < COUNT; i++)
        fibers[i] = spawn(block_with_others, NULL);
    while (atomic_u32_load_acquire(&inside) < 3)
        nap(1000);
    nap(30000); /* gives it the time to do it wrong */
    CHECK_EQ(atomic_u32_load_acquire(&inside), 3);
    lock_acquire(&weft__sched.lock);
    CHECK_PTR(weft__sched.records, NULL); /* none is made for one that may not be */
    lock_release(&weft__sched.lock);
    CHECK_EQ(machines(), 3);
    set_door(true);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    stop();
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

/* The runtime as a whole. */

static void shut_down_waits_for_who_blocks(void)
{
    start_with(&(weft_config){.processors = 2});
    reset();
    set_door(false);
    weft_fiber *one = spawn(block_with_others, NULL);
    weft_fiber *other = spawn(block_until_passed, NULL);
    block_until(&gate);
    CHECK_EQ(weft_shutdown(weft_after(5 * WEFT_MS)), -ETIMEDOUT);
    pass(NULL);
    set_door(true);
    CHECK_EQ(weft_join(one), 0);
    CHECK_EQ(weft_join(other), 0);
    stop();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void fork_inside(void *arg)
{
    (void)arg;
    weft_blocking_enter();
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        weft_blocking_exit(); /* the only thread is none of weft's */
        CHECK_EQ(weft_go(pass, NULL), -ECHILD);
        _exit(7);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 7);
    weft_blocking_exit();
}

static void a_fork_in_between(void)
{
    on_processors(2, fork_inside, NULL);
}

/* A panic in a call that blocks ends the block, too: at the recover point, and at the end of the fiber. */

static void *panic_in_a_block(void *arg)
{
    (void)arg;
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
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, panic_outside, NULL, NULL), 0);
    CHECK_EQ(weft_join_panic(fiber, NULL, WEFT_NEVER), -EOWNERDEAD);
}

/* As on a kernel without it: the barrier is another one, the rest the same. */
static void without_membarrier(void)
{
    CHECK_EQ(setenv("WEFT_WITHOUT", "membarrier", 1), 0);
    nothing_is_left_behind_a_stuck_machine();
    who_says_so_gives_up_at_once();
    CHECK_EQ(unsetenv("WEFT_WITHOUT"), 0);
}

int main(void)
{
    /* First: while no record of a machine that has ended is kept. */
    RUN_PLAIN(the_number_of_machines_is_bounded, "threads that block, which run when they run");
    RUN_PLAIN(others_tick_during_nanosleep, "threads that block, which run when they run");
    RUN_PLAIN(others_tick_during_flock, "threads that block, which run when they run");
    RUN_PLAIN(others_tick_during_a_pthread_mutex, "threads that block, which run when they run");
    RUN_PLAIN(others_tick_during_a_loop, "threads that block, which run when they run");
    RUN_PLAIN(nothing_is_left_behind_a_stuck_machine,
              "threads that block, which run when they run");
    RUN_PLAIN(the_fiber_is_the_same_afterwards, "threads that block, which run when they run");
    RUN_PLAIN(who_says_so_gives_up_at_once, "threads that block, which run when they run");
    RUN_PLAIN(nothing_happens_on_threads, "threads that block, which run when they run");
    RUN_PLAIN(surplus_machines_end, "threads that block, which run when they run");
    RUN_PLAIN(a_thousand_block, "threads that block, which run when they run");
    RUN_PLAIN(shut_down_waits_for_who_blocks, "threads that block, which run when they run");
    RUN_PLAIN(a_fork_in_between, "forks");
    RUN_BOTH(a_panic_ends_the_block);
    RUN_PLAIN(without_membarrier, "threads that block, which run when they run");
    return 0;
}
