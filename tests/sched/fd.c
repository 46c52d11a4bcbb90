/*
 * fd.c: weft_fd_wait: waits for descriptors of the program, which may close them at any time.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "bodies.h"
#include "everywhere.h"
#include "fibers.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/core/inject.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/poll/descriptor.h"
#include "sched/poll/poller.h"
#include "seeds.h"
#include "system.h"

struct channel {
    int read, write;
};

static struct channel open_pipe(void)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    return (struct channel){ends[0], ends[1]};
}

static void close_pipe(struct channel channel)
{
    close(channel.read);
    close(channel.write);
}

static void put(int fd)
{
    CHECK_EQ(write(fd, "x", 1), 1);
}

static void take(int fd)
{
    char byte;
    CHECK_EQ(read(fd, &byte, 1), 1);
}

/* Returns when that many parties wait for descriptors, or are about to. */
static void await_fd_waits(int64_t count)
{
    while (weft__descriptor_waits() != count)
        weft_yield();
}

static void a_ready_descriptor_needs_no_wait(void *unused)
{
    struct channel channel = open_pipe();
    CHECK_EQ(weft_fd_wait(channel.write, WEFT_WRITABLE, WEFT_NEVER), WEFT_WRITABLE);
    CHECK_EQ(weft_fd_wait(channel.write, WEFT_WRITABLE, WEFT_NOW), WEFT_WRITABLE);
    put(channel.write);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, 1), WEFT_READABLE);
    close_pipe(channel);
}

static void mistakes_are_refused(void *unused)
{
    struct channel channel = open_pipe();
    CHECK_EQ(weft_fd_wait(channel.read, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_fd_wait(channel.read, 4, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE | 8, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, weft_after(1)),
             -ETIMEDOUT); /* it runs now */
    close_pipe(channel);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, WEFT_NEVER), -EBADF);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, WEFT_NOW), -EBADF);
    CHECK_EQ(weft_fd_wait(-1, WEFT_READABLE, WEFT_NEVER), -EBADF);
}

static void deadlines_are_kept(void *unused)
{
    struct channel channel = open_pipe();
    set_errno(77);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, 1), -ETIMEDOUT);
    int64_t deadline = weft_after(5 * WEFT_MS);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(get_errno(), 77);
    put(channel.write);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, weft_after(WEFT_S)), WEFT_READABLE);
    close_pipe(channel);
}

static void regular_files_are_always_ready(void *unused)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(weft_fd_wait(fileno(file), WEFT_READABLE | WEFT_WRITABLE, WEFT_NEVER),
             WEFT_READABLE | WEFT_WRITABLE);
    CHECK_EQ(weft_fd_wait(fileno(file), WEFT_READABLE, WEFT_NOW), WEFT_READABLE);
    fclose(file);
}

static void a_hang_up_is_ready_for_all(void *unused)
{
    struct channel channel = open_pipe();
    close(channel.read);
    CHECK_EQ(weft_fd_wait(channel.write, WEFT_READABLE | WEFT_WRITABLE, WEFT_NEVER),
             WEFT_READABLE | WEFT_WRITABLE);
    CHECK_EQ(weft_fd_wait(channel.write, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(weft_fd_wait(channel.write, WEFT_READABLE, WEFT_NOW), WEFT_READABLE);
    close(channel.write);
}

/* Two parties wait for each other's byte. */

struct pingpong {
    struct channel in, out;
    int rounds;
};

static void pong(void *arg)
{
    struct pingpong *pingpong = arg;
    for (int i = 0; i < pingpong->rounds; i++) {
        CHECK_EQ(weft_fd_wait(pingpong->in.read, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
        take(pingpong->in.read);
        put(pingpong->out.write);
    }
}

static void play(bool first_thread, bool second_thread)
{
    int rounds = (int)test_scale(2000);
    struct pingpong first = {open_pipe(), open_pipe(), rounds};
    struct pingpong second = {first.out, first.in, rounds};
    struct body bodies[2] = {{.function = pong, .arg = &first, .thread = first_thread},
                             {.function = pong, .arg = &second, .thread = second_thread}};
    put(first.in.write);
    bodies_run(bodies, 2);
    close_pipe(first.in);
    close_pipe(first.out);
}

static void a_byte_goes_to_and_fro(void)
{
    play(false, false);
    play(true, false);
    play(true, true);
}

enum { MANY = 400 };

struct one_of_many {
    struct channel channel;
    atomic_u32 *woken;
};

static void wait_one(void *arg)
{
    struct one_of_many *one = arg;
    CHECK_EQ(weft_fd_wait(one->channel.read, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    take(one->channel.read);
    atomic_u32_add_seq_cst(one->woken, 1);
}

static void many_wait_at_once(void)
{
    static struct one_of_many all[MANY];
    atomic_u32 woken = {0};
    weft_fiber *fibers[MANY];
    for (int i = 0; i < MANY; i++) {
        all[i] = (struct one_of_many){open_pipe(), &woken};
        CHECK_EQ(weft_spawn(&fibers[i], wait_one, &all[i], NULL), 0);
    }
    await_fd_waits(MANY);
    for (int i = 0; i < MANY; i++)
        put(all[i].channel.write);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_join(fibers[i]), 0);
        close_pipe(all[i].channel);
    }
    CHECK_EQ(atomic_u32_load_acquire(&woken), MANY);
    CHECK_EQ(weft__descriptor_waits(), 0);
}

/* Many wait for one descriptor. */

struct crowd {
    int fd, events, expected;
    atomic_u32 woken;
};

static void wait_in_crowd(void *arg)
{
    struct crowd *crowd = arg;
    CHECK_EQ(weft_fd_wait(crowd->fd, crowd->events, WEFT_NEVER), crowd->expected);
    atomic_u32_add_seq_cst(&crowd->woken, 1);
}

static void all_waiters_are_woken(void)
{
    struct channel channel = open_pipe();
    struct crowd crowd = {channel.read, WEFT_READABLE, WEFT_READABLE, {0}};
    struct body bodies[40];
    for (int i = 0; i < 40; i++) {
        bodies[i] = (struct body){.function = wait_in_crowd, .arg = &crowd, .thread = i % 8 == 0};
        body_start(&bodies[i]);
    }
    await_fd_waits(40);
    CHECK_EQ(atomic_u32_load_acquire(&crowd.woken), 0);
    put(channel.write);
    for (int i = 0; i < 40; i++)
        body_join(&bodies[i]);
    CHECK_EQ(atomic_u32_load_acquire(&crowd.woken), 40);
    close_pipe(channel);
}

/* A waiter for writing waits on when the descriptor becomes readable. */
static void reader_and_writer_of_one(void)
{
    int ends[2];
    char block[4096] = "";
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    while (write(ends[0], block, sizeof block) > 0)
        continue;
    struct crowd reader = {ends[0], WEFT_READABLE, WEFT_READABLE, {0}};
    struct crowd writer = {ends[0], WEFT_WRITABLE, WEFT_WRITABLE, {0}};
    struct crowd either = {ends[0], WEFT_READABLE | WEFT_WRITABLE, WEFT_READABLE, {0}};
    struct body bodies[3] = {{.function = wait_in_crowd, .arg = &writer},
                             {.function = wait_in_crowd, .arg = &reader},
                             {.function = wait_in_crowd, .arg = &either}};
    for (int i = 0; i < 3; i++)
        body_start(&bodies[i]);
    await_fd_waits(3);
    put(ends[1]);
    body_join(&bodies[1]);
    body_join(&bodies[2]);
    CHECK_EQ(atomic_u32_load_acquire(&writer.woken), 0);
    CHECK_EQ(weft__descriptor_waits(), 1);
    while (read(ends[1], block, sizeof block) > 0)
        continue;
    body_join(&bodies[0]);
    close(ends[0]);
    close(ends[1]);
}

static void a_number_may_become_another_descriptor(void)
{
    struct channel first = open_pipe(), second = open_pipe();
    int number = first.read;
    CHECK_EQ(weft_fd_wait(number, WEFT_READABLE, weft_after(WEFT_MS)), -ETIMEDOUT);
    /* The old descriptor is closed, or a duplicate keeps it: then the set still reports it. */
    for (int kept = 0; kept < 2; kept++) {
        int duplicate = kept ? dup(number) : -1;
        CHECK_EQ(dup2(second.read, number), number);
        if (kept)
            put(first.write);
        CHECK_EQ(weft_fd_wait(number, WEFT_READABLE, weft_after(20 * WEFT_MS)), -ETIMEDOUT);
        put(second.write);
        CHECK_EQ(weft_fd_wait(number, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
        take(number);
        if (kept)
            close(duplicate);
        close(first.write);
        close(number);
        first = open_pipe();
        if (first.read != number) {
            CHECK_EQ(dup2(first.read, number), number);
            close(first.read);
            first.read = number;
        }
        CHECK_EQ(weft_fd_wait(number, WEFT_READABLE, weft_after(WEFT_MS)), -ETIMEDOUT);
    }
    close_pipe(first);
    close_pipe(second);
}

struct bound {
    weft_context *context;
    struct channel channel;
    atomic_u32 canceled;
};

static void wait_bound(void *arg)
{
    struct bound *bound = arg;
    struct channel channel = bound->channel;
    CHECK_EQ(weft_context_bind(bound->context, NULL), 0);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, weft_after(WEFT_S)), -ECANCELED);
    CHECK_EQ(weft_fd_wait(channel.write, WEFT_WRITABLE, WEFT_NEVER), WEFT_WRITABLE);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    atomic_u32_store_release(&bound->canceled, 1);
    CHECK_EQ(weft_fd_wait(channel.read, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
}

static void a_context_ends_the_wait(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct bound bound = {.channel = open_pipe()};
        CHECK_EQ(weft_context_open(&bound.context, NULL, NULL), 0);
        struct body body = {.function = wait_bound, .arg = &bound, .thread = thread};
        body_start(&body);
        await_fd_waits(1);
        weft_context_cancel(bound.context);
        await(&bound.canceled, 1);
        put(bound.channel.write);
        body_join(&body);
        weft_context_close(bound.context);
        close_pipe(bound.channel);
    }
}

/* The machine that polls. */

struct busy {
    struct channel channel;
    atomic_u32 woken, computing, go_on, turns;
};

static void wait_beside(void *arg)
{
    struct busy *busy = arg;
    CHECK_EQ(weft_fd_wait(busy->channel.read, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    atomic_u32_store_release(&busy->woken, 1);
}

/* On the only processor, which never runs out of fibers. */
static void keep_busy(void *arg)
{
    struct busy *busy = arg;
    weft_fiber *fiber = spawn(wait_beside, busy);
    await_fd_waits(1);
    put(busy->channel.write);
    await(&busy->woken, 1);
    CHECK_EQ(weft_join(fiber), 0);
}

static void a_busy_machine_polls_too(void)
{
    struct busy busy = {.channel = open_pipe()};
    on_processors(1, keep_busy, &busy);
    close_pipe(busy.channel);
}

/* Turns as long as a period of the monitor. */
static void yield_slowly(void *arg)
{
    struct busy *busy = arg;
    while (atomic_u32_load_acquire(&busy->woken) == 0) {
        uint32_t before = atomic_u32_load_relaxed(&weft__sched.epoch);
        while (atomic_u32_load_relaxed(&weft__sched.epoch) == before)
            continue;
        atomic_u32_add_relaxed(&busy->turns, 1);
        weft_yield();
    }
}

static void keep_busy_slowly(void *arg)
{
    struct busy *busy = arg;
    weft_fiber *slow, *fiber;
    fiber = spawn(wait_beside, busy);
    await_fd_waits(1);
    slow = spawn(yield_slowly, busy);
    put(busy->channel.write);
    yield_slowly(busy);
    CHECK_EQ(weft_join(slow), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void a_machine_polls_however_long_turns_are(void)
{
    for (int i = 0; i < 8; i++) {
        struct busy busy = {.channel = open_pipe()};
        on_processors(1, keep_busy_slowly, &busy);
        CHECK(atomic_u32_load_relaxed(&busy.turns) < INJECT_EVERY / 3);
        close_pipe(busy.channel);
    }
}

/* More fibers than a ring holds: some are always in the inject queue. */
enum { CROWD = 3 * RING_SIZE };

static void yield_until_woken(void *arg)
{
    struct busy *busy = arg;
    await(&busy->woken, 1);
}

static void keep_crowded(void *arg)
{
    static weft_fiber *crowd[CROWD];
    spawn_all(crowd, CROWD, yield_until_woken, arg);
    keep_busy(arg);
    join_all(crowd, CROWD);
}

static void a_machine_polls_however_many_are_ready(void)
{
    struct busy busy = {.channel = open_pipe()};
    on_processors(1, keep_crowded, &busy);
    close_pipe(busy.channel);
}

static void compute(void *arg)
{
    struct busy *busy = arg;
    atomic_u32_store_release(&busy->computing, 1);
    while (!atomic_u32_load_acquire(&busy->go_on))
        cpu_relax();
}

static void any_thread_may_poll(void)
{
    struct busy busy = {.channel = open_pipe()};
    weft_fiber *waiter, *computer;
    shut_down();
    configure(1);
    waiter = spawn(wait_beside, &busy);
    await_fd_waits(1);
    CHECK(!weft__poller_poll());
    computer = spawn(compute, &busy);
    while (!atomic_u32_load_acquire(&busy.computing))
        continue;
    put(busy.channel.write);
    CHECK(weft__poller_poll());
    CHECK_EQ(weft__inject_length(), 1);
    CHECK(!weft__poller_poll());
    atomic_u32_store_release(&busy.go_on, 1);
    CHECK_EQ(weft_join(waiter), 0);
    CHECK_EQ(weft_join(computer), 0);
    reset_runtime();
    close_pipe(busy.channel);
}

static void a_shut_down_waits_for_waiters(void)
{
    struct busy busy = {.channel = open_pipe()};
    CHECK_EQ(weft_go(wait_beside, &busy), 0);
    await_fd_waits(1);
    CHECK_EQ(weft_shutdown(weft_after(5 * WEFT_MS)), -ETIMEDOUT);
    put(busy.channel.write);
    shut_down();
    CHECK_EQ(atomic_u32_load_acquire(&busy.woken), 1);
    CHECK_EQ(weft_fd_wait(busy.channel.read, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    close_pipe(busy.channel);
}

static struct channel before_the_fork;

static void in_the_child(void)
{
    CHECK_EQ(weft_fd_wait(before_the_fork.read, WEFT_READABLE, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_fd_wait(before_the_fork.read, WEFT_READABLE, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_fd_wait(before_the_fork.write, WEFT_WRITABLE, WEFT_NEVER), WEFT_WRITABLE);
}

static void a_forked_child_cannot_wait(void)
{
    before_the_fork = open_pipe();
    CHECK_EQ(weft_fd_wait(before_the_fork.read, WEFT_READABLE, weft_after(WEFT_MS)), -ETIMEDOUT);
    in_fork(in_the_child);
    put(before_the_fork.write);
    CHECK_EQ(weft_fd_wait(before_the_fork.read, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    close_pipe(before_the_fork);
}

static void what_fails(void *unused)
{
    struct channel channel = open_pipe();
    weft__os_fail(OS_POLL, 1, false);
    CHECK_EQ(weft_fd_wait(channel.write, WEFT_WRITABLE, WEFT_NEVER), -ENOSPC);
    weft__os_fail(OS_POLL, 0, false);
    CHECK_EQ(weft_fd_wait(channel.write, WEFT_WRITABLE, WEFT_NEVER), WEFT_WRITABLE);
    int far =
        fcntl(channel.write, F_DUPFD, 5000); /* in a part of the table that does not exist yet */
    if (far >= 0) {
        weft__os_fail(OS_MAP, 1, false);
        CHECK_EQ(weft_fd_wait(far, WEFT_WRITABLE, WEFT_NEVER), -ENOMEM);
        weft__os_fail(OS_MAP, 0, false);
        CHECK_EQ(weft_fd_wait(far, WEFT_WRITABLE, WEFT_NEVER), WEFT_WRITABLE);
        close(far);
    }
    close_pipe(channel);
}

static void failures_are_returned(void)
{
    shut_down();
    CHECK_EQ(weft_processors() > 0, 1);
    run_fiber(what_fails, NULL);
}

/* Deadlocks, in children: a deadlock in this process would be reported. */

static int from_parent;

static void wait_for_parent(void *unused)
{
    CHECK_EQ(weft_fd_wait(from_parent, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
}

static void outside_help(void)
{
    run_fiber(wait_for_parent, NULL);
    on_thread(wait_for_parent);
}

static void a_wait_for_a_descriptor_is_no_deadlock(void)
{
    struct channel channel = open_pipe();
    from_parent = channel.read;
    shut_down();
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        outside_help();
        _exit(0);
    }
    poll(NULL, 0, 200); /* time for the child to report a deadlock; a check, not a proof */
    put(channel.write);
    test_child_exits(child, 0);
    close_pipe(channel);
}

static void wait_and_get_stuck(void *unused)
{
    char byte;
    CHECK_EQ(weft_fd_wait(from_parent, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(weft_fd_wait(from_parent, WEFT_READABLE, weft_after(WEFT_MS)), WEFT_READABLE);
    weft_chan *chan = make_chan(1, 0);
    CHECK_EQ(weft_chan_receive(chan, &byte), 0); /* no fiber ever sends */
}

static void stuck_after_a_wait(void *unused)
{
    wait_for_parent(unused);
    run_fiber(wait_and_get_stuck, NULL);
}

static void deadlocks_are_still_reported(void)
{
    struct channel channel = open_pipe();
    from_parent = channel.read;
    put(channel.write);
    shut_down();
    CHECK_EQ(test_dies(stuck_after_a_wait, NULL, "deadlock"), SIGABRT);
    close_pipe(channel);
}

int main(void)
{
    RUN_EVERYWHERE(a_ready_descriptor_needs_no_wait);
    RUN_PLAIN_EVERYWHERE(mistakes_are_refused, "nothing waits");
    RUN_EVERYWHERE(deadlines_are_kept);
    RUN_EVERYWHERE(regular_files_are_always_ready);
    RUN_EVERYWHERE(a_hang_up_is_ready_for_all);
    RUN_BOTH(a_byte_goes_to_and_fro);
    RUN_PLAIN(many_wait_at_once, "too much for many runs");
    RUN_ALL_BOTH(all_waiters_are_woken, reader_and_writer_of_one,
                 a_number_may_become_another_descriptor, a_context_ends_the_wait);
    RUN_PLAIN(a_busy_machine_polls_too, "holds a processor while others run on another one");
    RUN_ALL_PLAIN("about real time", a_machine_polls_however_many_are_ready,
                  a_machine_polls_however_long_turns_are);
    RUN_ALL_PLAIN("stops the runtime", any_thread_may_poll, a_shut_down_waits_for_waiters);
    RUN_PLAIN(a_forked_child_cannot_wait, "forks");
    RUN_ALL_PLAIN("stops the runtime", failures_are_returned,
                  a_wait_for_a_descriptor_is_no_deadlock);
    if (!WEFT_TSAN &&
        !test_emulated()) /* they have a thread of their own, which might wake a fiber */
        RUN_PLAIN(deadlocks_are_still_reported, "stops the runtime");
    return 0;
}
