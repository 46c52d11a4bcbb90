/*
 * trouble.c: what networks and systems do to sockets: no descriptors, resets, signals all the time,
 * peers that do not read, calls that fail.
 */
#include "net.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/time.h>

#include "failing.h"
#include "seeds.h"
#include "system.h"

static char block[1 << 20];

/* No descriptors. */

struct accept {
    weft_listener *listener;
    int64_t deadline;
    int expected;
};

static void accept_one(void *arg)
{
    struct accept *accept = arg;
    weft_conn *conn;
    int result = weft_listener_accept(accept->listener, &conn, accept->deadline);
    CHECK_EQ(result, accept->expected);
    if (result == 0)
        weft_conn_close(conn);
}

/* The connection is in the backlog: an accept that waits, waits for a free descriptor. */
static void starve_accept(bool thread, int expected)
{
    struct accept accept = {.deadline = WEFT_NEVER, .expected = expected};
    struct body body = {.function = accept_one, .arg = &accept, .thread = thread};
    weft_conn *conn;
    char text[WEFT_ADDRESS_TEXT];
    listen_at(&accept.listener, "tcp:127.0.0.1:0", text);
    CHECK_EQ(weft_conn_dial(&conn, text, NULL, WEFT_NEVER), 0);
    rlim_t before = no_more_descriptors();
    if (expected == -ETIMEDOUT)
        accept.deadline = weft_after(10 * WEFT_MS);
    body_start(&body);
    if (expected != -ETIMEDOUT)
        await_fd_waits(1);
    if (expected == -ESHUTDOWN)
        weft_listener_close(accept.listener);
    if (expected == 0)
        set_limit(before);
    body_join(&body);
    set_limit(before);
    if (expected != -ESHUTDOWN)
        weft_listener_close(accept.listener);
    weft_conn_close(conn);
}

static void accepting_survives_the_lack_of_descriptors(void)
{
    for (int thread = 0; thread < 2; thread++) {
        starve_accept(thread, 0);
        starve_accept(thread, -ETIMEDOUT);
        starve_accept(thread, -ESHUTDOWN);
    }
}

static void dialling_without_descriptors(void)
{
    weft_listener *listener;
    weft_conn *poison = (weft_conn *)(uintptr_t)0xdead, *conn = poison;
    char text[WEFT_ADDRESS_TEXT];
    listen_at(&listener, "tcp:127.0.0.1:0", text);
    rlim_t before = no_more_descriptors();
    CHECK_EQ(weft_conn_dial(&conn, text, NULL, WEFT_NEVER), -EMFILE);
    set_limit(before);
    CHECK_PTR(conn, poison);
    weft_listener_close(listener);
}

/* Resets. */

static void reset(weft_conn *conn)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    CHECK_EQ(setsockopt(weft_conn_fd(conn), SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    weft_conn_close(conn);
}

static void read_reset(void *arg)
{
    char byte;
    CHECK_EQ(weft_conn_read(arg, &byte, 1, WEFT_NEVER), -ECONNRESET);
}

static void write_reset(void *arg)
{
    int64_t sent = weft_conn_write(arg, block, sizeof block, WEFT_NEVER);
    if (sent > 0)
        sent = weft_conn_write(arg, block, sizeof block, WEFT_NEVER);
    CHECK(sent == -ECONNRESET || sent == -EPIPE);
}

static void under_a_reset(void (*function)(void *), bool full, bool thread)
{
    struct pair pair = pair_open(true);
    struct body body = {.function = function, .arg = pair.near, .thread = thread};
    if (full)
        (void)fill_up(pair.near);
    body_start(&body);
    await_fd_waits(1);
    reset(pair.far);
    body_join(&body);
    weft_conn_close(pair.near);
}

/* A half-open connection: the other end is gone without notice, as if its host lost power. With
 * TCP_REPAIR the kernel lets a socket vanish like that, which takes a privilege. */
static bool vanish(weft_conn *conn)
{
    int on = 1;
    bool can = setsockopt(weft_conn_fd(conn), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) == 0;
    weft_conn_close(conn);
    return can;
}

/* A read gets no notice, so its deadline ends it; a write gets a reset. */
static void meet_half_open(void *arg)
{
    struct pair pair = pair_open(false);
    char byte;
    if (!vanish(pair.far)) {
        printf("  skipped: it takes CAP_NET_ADMIN to let a socket vanish\n");
        weft_conn_close(pair.near);
        return;
    }
    CHECK_EQ(weft_conn_read(pair.near, &byte, 1, weft_after(10 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_conn_write(pair.near, "?", 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_conn_read(pair.near, &byte, 1, WEFT_NEVER), -ECONNRESET);
    CHECK_EQ(weft_conn_write(pair.near, "?", 1, WEFT_NEVER), -EPIPE);
    weft_conn_close(pair.near);
}

static void half_open_peers_hold_no_call_for_ever(void)
{
    everywhere(meet_half_open);
}

static void resets_end_reads_and_writes(void)
{
    for (int thread = 0; thread < 2; thread++) {
        under_a_reset(read_reset, false, thread);
        under_a_reset(write_reset, true, thread);
    }
}

/* SIGPIPE has its default action here, which ends the program. */
static void broken_pipes_raise_nothing(void *unused)
{
    struct pair pair = pair_open(false);
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(fwrite(block, 1, sizeof block, file), sizeof block);
    CHECK_EQ(fflush(file), 0);
    struct iovec piece = {block, 10};
    char byte;
    reset(pair.far);
    CHECK_EQ(weft_conn_read(pair.near, &byte, 1, WEFT_NEVER), -ECONNRESET);
    CHECK_EQ(weft_conn_write(pair.near, block, 10, WEFT_NEVER), -EPIPE);
    CHECK_EQ(weft_conn_writev(pair.near, &piece, 1, WEFT_NEVER), -EPIPE);
    CHECK_EQ(weft_conn_sendfile(pair.near, fileno(file), 0, 10, WEFT_NEVER), -EPIPE);
    sigset_t pending;
    CHECK_EQ(sigpending(&pending), 0);
    CHECK_EQ(sigismember(&pending, SIGPIPE), 0);
    fclose(file);
    weft_conn_close(pair.near);
}

static void read_some_and_go(void *arg)
{
    char byte[1000];
    CHECK_EQ(weft_conn_shutdown(arg, WEFT_WRITABLE),
             0); /* a reset after the end is a broken pipe */
    CHECK(weft_conn_read(arg, byte, sizeof byte, WEFT_NEVER) > 0);
    reset(arg);
}

enum { LARGE_FILE = 64 << 20 };

/* The peer leaves in the middle of a file: the kernel raises SIGPIPE, and reports that a part was
 * sent. */
static void broken_pipes_in_a_file_raise_nothing(void)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(ftruncate(fileno(file), LARGE_FILE), 0);
    for (int64_t i = test_scale(300); i > 0; i--) {
        struct pair pair = pair_open(false);
        weft_fiber *fiber;
        CHECK_EQ(weft_spawn(&fiber, read_some_and_go, pair.far, NULL), 0);
        while (weft_conn_sendfile(pair.near, fileno(file), 0, LARGE_FILE, WEFT_NEVER) > 0)
            ;
        CHECK_EQ(weft_join(fiber), 0);
        weft_conn_close(pair.near);
    }
    fclose(file);
}

static void no_broken_pipe_ends_the_program(void)
{
    everywhere(broken_pipes_raise_nothing);
}

/* Connections that are reset before they are accepted. */
static void connections_reset_before_the_accept(void)
{
    weft_listener *listener;
    weft_conn *conn, *accepted;
    char text[WEFT_ADDRESS_TEXT];
    listen_at(&listener, "tcp:127.0.0.1:0", text);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_conn_dial(&conn, text, NULL, WEFT_NEVER), 0);
        reset(conn);
    }
    CHECK_EQ(weft_conn_dial(&conn, text, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_write(conn, "x", 1, WEFT_NEVER), 1);
    for (;;) {
        char byte;
        CHECK_EQ(weft_listener_accept(listener, &accepted, WEFT_NEVER), 0);
        int64_t got = weft_conn_read(accepted, &byte, 1, WEFT_NEVER);
        weft_conn_close(accepted);
        if (got == 1)
            break;
        CHECK_EQ(got, -ECONNRESET);
    }
    weft_conn_close(conn);
    weft_listener_close(listener);
}

/* Signals all the time, on all threads, without SA_RESTART. */

static atomic_u32 signals;

static void on_signal(int number)
{
    atomic_u32_add_relaxed(&signals, 1);
}

struct storm {
    struct pair pair;
    int rounds;
    atomic_u32 *done;
};

static void storm_far(void *arg)
{
    struct storm *storm = arg;
    char data[1000];
    int64_t got;
    while ((got = weft_conn_read(storm->pair.far, data, sizeof data, WEFT_NEVER)) > 0)
        CHECK_EQ(weft_conn_write(storm->pair.far, data, (size_t)got, WEFT_NEVER), got);
    CHECK_EQ(got, 0);
}

static void storm_near(void *arg)
{
    struct storm *storm = arg;
    char data[1000], back[1000];
    for (int i = 0; i < storm->rounds; i++) {
        memset(data, i, sizeof data);
        CHECK_EQ(weft_conn_write(storm->pair.near, data, sizeof data, WEFT_NEVER), sizeof data);
        CHECK_EQ(weft_conn_read_full(storm->pair.near, back, sizeof back, WEFT_NEVER), sizeof back);
        CHECK(memcmp(data, back, sizeof data) == 0);
    }
    CHECK_EQ(weft_conn_shutdown(storm->pair.near, WEFT_WRITABLE), 0);
    atomic_u32_add_seq_cst(storm->done, 1);
}

/* Sends a signal to each thread of the process, again and again. */
static void *thunder(void *arg)
{
    const atomic_u32 *done = arg;
    while (atomic_u32_load_acquire(done) < 4) {
        DIR *folder = opendir("/proc/self/task");
        CHECK(folder != NULL);
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10); /* 0: "." and ".." */
            if (thread > 0 && thread != gettid())
                (void)tgkill(getpid(), thread, SIGUSR1);
        }
        closedir(folder);
        poll(NULL, 0, 0);
    }
    return NULL;
}

static void signals_interrupt_no_call(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct storm storms[4];
    struct body bodies[8];
    atomic_u32 done = {0};
    pthread_t thread;
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    for (int i = 0; i < 4; i++) {
        storms[i] = (struct storm){pair_open(true), (int)test_scale(1000), &done};
        bodies[2 * i] =
            (struct body){.function = storm_near, .arg = &storms[i], .thread = i == 1 || i == 2};
        bodies[2 * i + 1] =
            (struct body){.function = storm_far, .arg = &storms[i], .thread = i == 2 || i == 3};
    }
    CHECK_EQ(pthread_create(&thread, NULL, thunder, &done), 0);
    bodies_run(bodies, 8);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 4; i++)
        pair_close(storms[i].pair);
    CHECK(atomic_u32_load_relaxed(&signals) > 0);
}

/* A peer that does not read: the writer waits, and no memory grows. */

static void write_much(void *arg)
{
    int64_t left = (int64_t)64 << 20;
    while (left > 0) {
        CHECK_EQ(weft_conn_write(arg, block, sizeof block, WEFT_NEVER), sizeof block);
        left -= (int64_t)sizeof block;
    }
}

static void a_slow_reader_costs_no_memory(void)
{
    struct pair pair = pair_open(true);
    weft_fiber *fiber;
    static char got[100000];
    CHECK_EQ(weft_spawn(&fiber, write_much, pair.near, NULL), 0);
    await_fd_waits(1);
    weft__os_fail(OS_ALLOC, 0, false); /* counts from now on */
    weft__os_fail(OS_MAP, 0, false);
    for (int64_t all = (int64_t)64 << 20; all > 0;) {
        size_t size = all < (int64_t)sizeof got ? (size_t)all : sizeof got;
        CHECK_EQ(weft_conn_read_full(pair.far, got, size, WEFT_NEVER), size);
        all -= (int64_t)size;
    }
    CHECK_EQ(weft_join(fiber), 0);
    /* A thread that starts meanwhile allocates its record and a fault stack. */
    CHECK(weft__os_calls(OS_ALLOC) <= 2 * 8);
    CHECK_EQ(weft__os_calls(OS_MAP), 0);
    pair_close(pair);
}

/* Each call of the system fails once, or from then on. */

static const int allowed[] = {-ENOMEM,        -EAGAIN,     -EMFILE,    -ENFILE,
                              -ENOSPC,        -ECONNRESET, -ETIMEDOUT, -EADDRINUSE,
                              -EADDRNOTAVAIL, -ENOBUFS,    0};

static int exchange(weft_listener *listener, weft_conn *conn)
{
    weft_conn *accepted;
    char byte;
    int64_t result = weft_listener_accept(listener, &accepted, weft_after(10 * WEFT_MS));
    if (result != 0)
        return (int)result;
    result = weft_conn_read(accepted, &byte, 1, weft_after(WEFT_MS));
    if (result == -ETIMEDOUT)
        result = weft_conn_write(conn, "x", 1, weft_after(WEFT_S));
    if (result == 1)
        result = weft_conn_read(accepted, &byte, 1, weft_after(WEFT_S));
    weft_conn_close(accepted);
    return result == 1 ? 0 : (int)result;
}

static void attempt(void)
{
    weft_listener *poison = (weft_listener *)(uintptr_t)0xdead, *listener = poison;
    weft_conn *no_conn = (weft_conn *)(uintptr_t)0xdead, *conn = no_conn;
    weft_address address;
    char text[WEFT_ADDRESS_TEXT];
    int result = weft_listener_open(&listener, "tcp:127.0.0.1:0", NULL);
    if (result == 0) {
        CHECK_EQ(weft_listener_local(listener, &address), 0);
        CHECK_EQ(weft_address_format(&address, text, sizeof text), 0);
        result = weft_conn_dial(&conn, text, NULL, weft_after(WEFT_S));
        if (result == 0) {
            result = exchange(listener, conn);
            weft_conn_close(conn);
        } else {
            CHECK_PTR(conn, no_conn);
        }
        weft_listener_close(listener);
    } else {
        CHECK_PTR(listener, poison);
    }
    failing_off();
    failing_check(result, allowed);
}

static void attempt_from_the_start(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    attempt();
}

static void failures_are_returned_and_leave_nothing(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    int before = open_descriptors();
    CHECK(failing_each(attempt, 20) > 10);
    CHECK(failing_each(attempt_from_the_start, 20) > 10);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
}

int main(void)
{
    RUN_PLAIN(accepting_survives_the_lack_of_descriptors, "about real time");
    RUN_BOTH(dialling_without_descriptors);
    RUN_BOTH(resets_end_reads_and_writes);
    RUN_BOTH(half_open_peers_hold_no_call_for_ever);
    RUN_BOTH(no_broken_pipe_ends_the_program);
    RUN_PLAIN(broken_pipes_in_a_file_raise_nothing, "needs a sender that runs beside the peer");
    RUN_BOTH(connections_reset_before_the_accept);
    RUN_PLAIN(signals_interrupt_no_call, "signals of a thread");
    RUN_PLAIN(a_slow_reader_costs_no_memory, "too much for many runs");
    RUN_PLAIN(failures_are_returned_and_leave_nothing, "stops or configures the runtime");
    return 0;
}
