/*
 * many.c: ten thousand connections at once, over loopback. The clients are in a process of their
 * own, since a process may often not have more than 20,000 descriptors.
 */
#include "net.h"

static weft_wg connected, gate, done;
static weft_sem dialling = WEFT_SEM_INIT(200); /* dials at a time, which fit into the backlog */
static char address[WEFT_ADDRESS_TEXT];
static atomic_i64 answers;

static void echo(void *arg)
{
    weft_conn *conn = arg;
    int64_t number;
    while (weft_conn_read_full(conn, &number, sizeof number, WEFT_NEVER) == sizeof number) {
        number++;
        CHECK_EQ(weft_conn_write(conn, &number, sizeof number, WEFT_NEVER), sizeof number);
    }
    weft_conn_close(conn);
    weft_wg_done(&done);
}

static void serve(void *arg)
{
    weft_listener *listener = arg;
    weft_conn *conn;
    while (weft_listener_accept(listener, &conn, WEFT_NEVER) == 0)
        CHECK_EQ(weft_go(echo, conn), 0);
    weft_listener_close(listener);
    weft_wg_done(&done);
}

static void client(void *arg)
{
    int64_t number = (int64_t)(intptr_t)arg, back;
    weft_conn *conn;
    weft_sem_acquire(&dialling, 1);
    CHECK_EQ(weft_conn_dial(&conn, address, NULL, WEFT_NEVER), 0);
    weft_sem_release(&dialling, 1);
    weft_wg_done(&connected);
    weft_wg_wait(&gate);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_conn_write(conn, &number, sizeof number, WEFT_NEVER), sizeof number);
        CHECK_EQ(weft_conn_read_full(conn, &back, sizeof back, WEFT_NEVER), sizeof back);
        CHECK_EQ(back, number + 1);
        number = back;
    }
    atomic_i64_add_seq_cst(&answers, 1);
    weft_conn_close(conn);
    weft_wg_done(&done);
}

static void raise_limit(rlim_t wanted)
{
    struct rlimit limits;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limits), 0);
    if (limits.rlim_cur >= wanted)
        return;
    limits.rlim_cur = wanted;
    if (limits.rlim_max < wanted)
        limits.rlim_max = wanted; /* if the process may */
    if (setrlimit(RLIMIT_NOFILE, &limits) != 0)
        test_skip("the limit of descriptors (ulimit -n) is too low");
}

/* In the child: reports to the parent when all are connected, and has them talk when the parent
 * says so. */
static void clients(int64_t count, int to_parent, int from_parent)
{
    char byte;
    CHECK(read(from_parent, address, sizeof address) > 0);
    weft_wg_init(&connected, count);
    weft_wg_init(&gate, 1);
    weft_wg_init(&done, count);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_go(client, (void *)(intptr_t)i), 0);
    weft_wg_wait(&connected);
    CHECK_EQ(write(to_parent, "c", 1), 1);
    CHECK_EQ(read(from_parent, &byte, 1), 1);
    weft_wg_done(&gate);
    weft_wg_wait(&done);
    CHECK_EQ(atomic_i64_load_acquire(&answers), count);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void ten_thousand_at_once(void)
{
    int64_t count = test_scale(10000);
    int up[2], down[2], status;
    char byte;
    weft_listener *listener;
    raise_limit((rlim_t)(count + 100));
    CHECK_EQ(pipe(up), 0);
    CHECK_EQ(pipe(down), 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        clients(count, up[1], down[0]);
        _exit(0);
    }
    close(up[1]); /* so that the end of the child shows */
    listen_at(&listener, "tcp:127.0.0.1:0", address);
    CHECK_EQ(write(down[1], address, sizeof address), sizeof address);
    weft_wg_init(&done, count + 1);
    CHECK_EQ(weft_go(serve, weft_listener_share(listener)), 0);
    CHECK_EQ(weft_fd_wait(up[0], WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(read(up[0], &byte, 1), 1);
    await_fd_waits(count + 1); /* one for each connection, and the accept */
    CHECK_EQ(write(down[1], "g", 1), 1);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    weft_listener_close(listener);
    weft_wg_wait(&done);
    CHECK_EQ(weft__descriptor_waits(), 0);
}

int main(void)
{
    RUN_PLAIN(ten_thousand_at_once, "a child process is the other side");
    return 0;
}
