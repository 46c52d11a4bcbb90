/*
 * destructors.c: destructors of thread-specific values run on weft's threads when these end, and
 * may take long or use weft.
 */
#include "blocked.h"
#include "sched/core/idle.h"
#include "stderr_pipe.h"

enum { CROWD = 6, SECONDS_MOST = 120 };

static pthread_key_t key;
static atomic_u32 begun, done, released;
static void (*action)(void);

static void at_thread_end(void *value)
{
    count_up(&begun);
    action();
    count_up(&done);
}

static void set_value_and_block(void *arg)
{
    CHECK_EQ(pthread_setspecific(key, &key), 0);
    block_marked(arg);
}

/* Starts a runtime with a machine for each of CROWD fibers that block. Their destructors call the
 * function when the machines end. */
static void make_machines(void (*function)(void))
{
    weft_fiber *fibers[CROWD];
    action = function;
    atomic_u32_store_relaxed(&begun, 0);
    atomic_u32_store_relaxed(&done, 0);
    atomic_u32_store_relaxed(&released, 0);
    configure(1);
    blocked_begin(fibers, CROWD, set_value_and_block);
    blocked_end(fibers, CROWD);
}

/* Each destructor that has begun has returned. */
static void check_all_done(void)
{
    CHECK_EQ(atomic_u32_load_acquire(&done), atomic_u32_load_acquire(&begun));
}

static bool all_joined(void)
{
    lock_acquire(&weft__sched.lock);
    bool none = weft__sched.ended == NULL && !weft__sched.reaping;
    lock_release(&weft__sched.lock);
    return none;
}

static void wait_until_released(void)
{
    nap_until(&released, 1);
}

/* Timers and descriptors are served while the destructors of some threads do not return. */

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

static void slow_destructors_hold_nothing_up(void)
{
    int fds[2];
    weft_fiber *reader, *writer;
    CHECK_EQ(pipe(fds), 0);
    struct ends ends = {fds[0], fds[1]};
    make_machines(wait_until_released);
    nap_until(&begun, 1);
    while (all_joined()) /* until a machine is in the list of those to be joined */
        usleep(100);
    for (int round = 0; round < 3; round++) {
        reader = spawn(read_all, &ends);
        writer = spawn(sleep_and_write, &ends);
        CHECK_EQ(weft_join(reader), 0);
        CHECK_EQ(weft_join(writer), 0);
    }
    CHECK_EQ(atomic_u32_load_acquire(&done), 0);
    atomic_u32_store_release(&released, 1);
    while (!all_joined()) /* also without a shut-down */
        usleep(100);
    CHECK(atomic_u32_load_acquire(&done) > 0);
    shut_down();
    check_all_done();
    close(fds[0]);
    close(fds[1]);
}

/* A destructor may call weft as any thread may. */

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
    CHECK_EQ(weft_sleep(20 * WEFT_MS), 0); /* a machine must be awake for this */
    CHECK_EQ(weft_chan_receive(channel, &value), 0);
    CHECK_EQ(value, 7);
}

static void a_destructor_sends_to_a_fiber(void)
{
    CHECK_EQ(weft_chan_make(&channel, sizeof(int), 0), 0);
    make_machines(send_one);
    nap_until(&begun, 1); /* before that no party can send: a deadlock */
    run_fiber(receive_one, NULL);
    CHECK_EQ(weft_chan_close(channel), 0);
    shut_down();
    CHECK(atomic_u32_load_acquire(&done) > 0);
    check_all_done();
    weft_chan_destroy(channel);
}

/* Fibers that destructors spawn run once each. A shut-down waits for those of threads that end
 * while the runtime runs. */

static atomic_u32 spawned, ran;

static void run(void *arg)
{
    weft_yield();
    atomic_u32_add_seq_cst(&ran, 1);
}

static void spawn_one(void)
{
    atomic_u32_add_seq_cst(&spawned, 1);
    CHECK_EQ(weft_go(run, NULL), 0);
}

static void spawn_and_join(void)
{
    atomic_u32_add_seq_cst(&spawned, 1);
    run_fiber(run, NULL);
}

static void fibers_of_a_shut_down_run_once(void)
{
    for (int64_t round = test_scale(20); round > 0; round--) {
        weft__idle_surplus_after = 1000 * WEFT_S; /* the machines end at the shut-down */
        make_machines(round % 2 ? spawn_one : spawn_and_join);
        atomic_u32_store_relaxed(&spawned, 0);
        atomic_u32_store_relaxed(&ran, 0);
        shut_down();
        CHECK(atomic_u32_load_acquire(&spawned) >= CROWD);
        /* The first destructor that spawned has started the runtime again. */
        shut_down();
        CHECK_EQ(atomic_u32_load_acquire(&ran), atomic_u32_load_acquire(&spawned));
        CHECK_EQ(weft_configure(NULL), 0); /* it stays down */
    }
    weft__idle_surplus_after = WEFT_MS;
}

static void wait_and_spawn(void)
{
    wait_until_released();
    spawn_and_join();
}

static void *release_at_shut_down(void *arg)
{
    for (bool begun_to = false; !begun_to; usleep(100)) {
        lock_acquire(&weft__sched.lock);
        begun_to = weft__sched.closing;
        lock_release(&weft__sched.lock);
    }
    atomic_u32_store_release(&released, 1);
    return arg;
}

static void a_shut_down_waits_for_destructors(void)
{
    make_machines(wait_and_spawn);
    atomic_u32_store_relaxed(&spawned, 0);
    atomic_u32_store_relaxed(&ran, 0);
    nap_until(&begun, 1);
    pthread_t thread = thread_start(release_at_shut_down, NULL);
    shut_down();
    shut_down(); /* for destructors that ran at the first */
    thread_join(thread);
    check_all_done();
    CHECK_EQ(atomic_u32_load_acquire(&ran), atomic_u32_load_acquire(&spawned));
}

/* A destructor shuts the runtime down. That of a surplus thread succeeds, and does not wait for
 * itself; one that runs at a shut-down is told that there is one. */

static atomic_u32 succeeded, refused;

static void shut_down_here(void)
{
    wait_until_released(); /* no other thread may use weft meanwhile */
    int error = weft_shutdown(WEFT_NEVER);
    CHECK(error == 0 || error == -EBUSY);
    atomic_u32_add_seq_cst(error == 0 ? &succeeded : &refused, 1);
}

static void a_destructor_shuts_down(void)
{
    make_machines(shut_down_here);
    atomic_u32_store_release(&released, 1);
    nap_until(&succeeded, 1);
    nap_until(&done, CROWD);
    while (weft_shutdown(WEFT_NEVER) == -EBUSY)
        usleep(100);
}

/* A shut-down that waits for destructors reports it. */

static pthread_mutex_t reader = PTHREAD_MUTEX_INITIALIZER;

static void wait_until_said(void)
{
    while (!atomic_u32_load_acquire(&released)) {
        pthread_mutex_lock(&reader);
        if (has_said("destructors have not returned"))
            atomic_u32_store_release(&released, 1);
        pthread_mutex_unlock(&reader);
        nap(1000);
    }
}

static void a_long_wait_is_reported(void)
{
    stderr_to_pipe();
    make_machines(wait_until_said);
    nap_until(&begun, 1);
    int error = weft_shutdown(WEFT_NEVER);
    stderr_back();
    CHECK_EQ(error, 0);
    CHECK(atomic_u32_load_acquire(&released) != 0);
}

int main(void)
{
    weft__idle_surplus_after = WEFT_MS;
    alarm(SECONDS_MOST); /* a failure here hangs */
    CHECK_EQ(pthread_key_create(&key, at_thread_end), 0);
    RUN_ALL_PLAIN("threads that block", slow_destructors_hold_nothing_up,
                  a_destructor_sends_to_a_fiber);
    RUN_ALL_PLAIN("stops or configures the runtime", fibers_of_a_shut_down_run_once,
                  a_shut_down_waits_for_destructors, a_destructor_shuts_down,
                  a_long_wait_is_reported);
    return 0;
}
