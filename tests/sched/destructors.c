/*
 * destructors.c: destructors of thread-specific values run on weft's threads when these end, and
 * may take long or use weft.
 */
#include <fcntl.h>
#include <pthread.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "sched/core/idle.h"
#include "sched/core/scheduler.h"
#include "test.h"

enum { CROWD = 6, PATIENCE = 120 };

static pthread_key_t key;
static atomic_u32 go_on, blocked, begun, done;
static void (*action)(void);

static void at_thread_end(void *value)
{
    (void)value;
    atomic_u32_add_seq_cst(&begun, 1);
    action();
    atomic_u32_add_seq_cst(&done, 1);
}

static void block(void *arg)
{
    CHECK_EQ(pthread_setspecific(key, &key), 0);
    weft_blocking_enter();
    atomic_u32_add_seq_cst(&blocked, 1);
    while (!atomic_u32_load_acquire(&go_on))
        usleep(100);
    weft_blocking_exit();
    (void)arg;
}

/* Starts the runtime, with a machine for each of some fibers that block; what ends then calls the function. */
static void crowd(void (*function)(void))
{
    weft_fiber *fibers[CROWD];
    action = function;
    atomic_u32_store_relaxed(&go_on, 0);
    atomic_u32_store_relaxed(&blocked, 0);
    atomic_u32_store_relaxed(&begun, 0);
    atomic_u32_store_relaxed(&done, 0);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(weft_spawn(&fibers[i], block, NULL, NULL), 0);
    while (atomic_u32_load_acquire(&blocked) < CROWD)
        usleep(100);
    atomic_u32_store_release(&go_on, 1);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

static void wait_for(atomic_u32 *count, uint32_t value)
{
    while (atomic_u32_load_acquire(count) < value)
        usleep(100);
}

static bool all_buried(void)
{
    lock_acquire(&weft__sched.lock);
    bool none = weft__sched.ended == NULL && !weft__sched.reaping;
    lock_release(&weft__sched.lock);
    return none;
}

/* Timers and descriptors go on while the destructors of one or more threads do not come back. */

static atomic_u32 door;

static void wait_at_door(void)
{
    while (!atomic_u32_load_acquire(&door))
        usleep(100);
}

struct ends {
    int read, write;
};

static void sleep_and_write(void *arg)
{
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
        CHECK_EQ(write(((struct ends *)arg)->write, "", 1), 1);
    }
}

static void read_all(void *arg)
{
    char byte;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_fd_wait(((struct ends *)arg)->read, WEFT_READABLE, WEFT_NEVER),
                 WEFT_READABLE);
        CHECK_EQ(read(((struct ends *)arg)->read, &byte, 1), 1);
    }
}

static void slow_ones_hold_nobody_up(void)
{
    int fds[2];
    weft_fiber *reader, *writer;
    CHECK_EQ(pipe(fds), 0);
    struct ends ends = {fds[0], fds[1]};
    atomic_u32_store_relaxed(&door, 0);
    crowd(wait_at_door);
    wait_for(&begun, 1);
    while (all_buried()) /* those that have ended are in the list, to be joined */
        usleep(100);
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(weft_spawn(&reader, read_all, &ends, NULL), 0);
        CHECK_EQ(weft_spawn(&writer, sleep_and_write, &ends, NULL), 0);
        CHECK_EQ(weft_join(reader), 0);
        CHECK_EQ(weft_join(writer), 0);
    }
    CHECK_EQ(atomic_u32_load_acquire(&done), 0);
    atomic_u32_store_release(&door, 1);
    while (!all_buried()) /* without a shut-down, too */
        usleep(100);
    CHECK(atomic_u32_load_acquire(&done) > 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&done), atomic_u32_load_acquire(&begun));
    close(fds[0]);
    close(fds[1]);
}

/* What a destructor calls works as on any thread. */

static weft_chan *channel;

static void send_one(void)
{
    int value = 7;
    int error = weft_chan_send(channel, &value);
    CHECK(error == 0 || error == -ESHUTDOWN); /* the latter at the shut-down */
}

static void receive_one(void *arg)
{
    int value = 0;
    CHECK_EQ(weft_sleep(20 * WEFT_MS), 0); /* for which a machine must be awake */
    CHECK_EQ(weft_chan_receive(channel, &value), 0);
    CHECK_EQ(value, 7);
    (void)arg;
}

static void one_sends_to_a_fiber(void)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_chan_make(&channel, sizeof(int), 0), 0);
    crowd(send_one);
    wait_for(&begun,
             1); /* until then nobody is there who could send: a deadlock, as far as weft knows */
    CHECK_EQ(weft_spawn(&fiber, receive_one, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_chan_close(channel), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK(atomic_u32_load_acquire(&done) > 0);
    CHECK_EQ(atomic_u32_load_acquire(&done), atomic_u32_load_acquire(&begun));
    weft_chan_destroy(channel);
}

/* Fibers that destructors spawn: each runs once, and those of threads that end while the runtime runs are waited for. */

static atomic_u32 spawned, ran;

static void run(void *arg)
{
    weft_yield();
    atomic_u32_add_seq_cst(&ran, 1);
    (void)arg;
}

static void spawn_one(void)
{
    atomic_u32_add_seq_cst(&spawned, 1);
    CHECK_EQ(weft_go(run, NULL), 0);
}

static void spawn_and_join(void)
{
    weft_fiber *fiber;
    atomic_u32_add_seq_cst(&spawned, 1);
    CHECK_EQ(weft_spawn(&fiber, run, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void fibers_of_a_shut_down_run_once(void)
{
    for (int64_t round = test_scale(20); round > 0; round--) {
        weft__idle_surplus_after = 1000 * WEFT_S; /* all end at the shut-down */
        crowd(round % 2 ? spawn_one : spawn_and_join);
        atomic_u32_store_relaxed(&spawned, 0);
        atomic_u32_store_relaxed(&ran, 0);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK(atomic_u32_load_acquire(&spawned) >= CROWD);
        /* The first of them has started the runtime again. */
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(atomic_u32_load_acquire(&ran), atomic_u32_load_acquire(&spawned));
        CHECK_EQ(weft_configure(NULL), 0); /* and it stays down */
    }
    weft__idle_surplus_after = WEFT_MS;
}

static void wait_and_spawn(void)
{
    wait_at_door();
    spawn_and_join();
}

static void *open_door_at_shut_down(void *arg)
{
    for (bool begun_to = false; !begun_to; usleep(100)) {
        lock_acquire(&weft__sched.lock);
        begun_to = weft__sched.closing;
        lock_release(&weft__sched.lock);
    }
    atomic_u32_store_release(&door, 1);
    return arg;
}

static void a_shut_down_waits_for_them(void)
{
    pthread_t thread;
    atomic_u32_store_relaxed(&door, 0);
    crowd(wait_and_spawn);
    atomic_u32_store_relaxed(&spawned, 0);
    atomic_u32_store_relaxed(&ran, 0);
    wait_for(&begun, 1);
    CHECK_EQ(pthread_create(&thread, NULL, open_door_at_shut_down, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* for those of the shut-down itself */
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(atomic_u32_load_acquire(&done), atomic_u32_load_acquire(&begun));
    CHECK_EQ(atomic_u32_load_acquire(&ran), atomic_u32_load_acquire(&spawned));
}

/* A shut-down by a destructor: by that of a surplus thread it works, and does not wait for
 * itself; at a shut-down it is told that there is one. */

static atomic_u32 shut_down, refused;

static void shut_down_here(void)
{
    wait_at_door(); /* no other thread may use weft meanwhile */
    int error = weft_shutdown(WEFT_NEVER);
    CHECK(error == 0 || error == -EBUSY);
    atomic_u32_add_seq_cst(error == 0 ? &shut_down : &refused, 1);
}

static void one_shuts_down(void)
{
    atomic_u32_store_relaxed(&door, 0);
    crowd(shut_down_here);
    atomic_u32_store_release(&door, 1);
    wait_for(&shut_down, 1);
    wait_for(&done, CROWD);
    while (weft_shutdown(WEFT_NEVER) == -EBUSY)
        usleep(100);
}

/* A shut-down that waits for them says so. */

static int said_pipe[2];

static void wait_until_said(void)
{
    while (!atomic_u32_load_acquire(&door)) {
        char text[512];
        ssize_t size = read(said_pipe[0], text, sizeof text - 1);
        text[size > 0 ? size : 0] = '\0';
        if (strstr(text, "destructors have not returned") != NULL)
            atomic_u32_store_release(&door, 1);
        usleep(1000);
    }
}

static void a_long_wait_is_reported(void)
{
    int before = dup(STDERR_FILENO);
    CHECK(before >= 0);
    CHECK_EQ(pipe2(said_pipe, O_NONBLOCK), 0);
    atomic_u32_store_relaxed(&door, 0);
    CHECK(dup2(said_pipe[1], STDERR_FILENO) >= 0);
    crowd(wait_until_said);
    wait_for(&begun, 1);
    int error = weft_shutdown(WEFT_NEVER);
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    CHECK_EQ(error, 0);
    CHECK(atomic_u32_load_acquire(&door) != 0);
    close(before);
    close(said_pipe[0]);
    close(said_pipe[1]);
}

int main(void)
{
    weft__idle_surplus_after = WEFT_MS;
    alarm(PATIENCE); /* what goes wrong here hangs */
    CHECK_EQ(pthread_key_create(&key, at_thread_end), 0);
    RUN_PLAIN(slow_ones_hold_nobody_up, "threads that block, which run when they run");
    RUN_PLAIN(one_sends_to_a_fiber, "threads that block, which run when they run");
    RUN_PLAIN(fibers_of_a_shut_down_run_once, "stops or configures the runtime");
    RUN_PLAIN(a_shut_down_waits_for_them, "stops or configures the runtime");
    RUN_PLAIN(one_shuts_down, "stops or configures the runtime");
    RUN_PLAIN(a_long_wait_is_reported, "stops or configures the runtime");
    return 0;
}
