/*
 * waits.c: each call that can wait, ended by its deadline and by a context, in fibers and threads.
 */
#include "net.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/poll/descriptor.h"
#include "seeds.h"

struct scene {
    weft_conn *conn;
    weft_listener *listener;
    const char *address;
    FILE *file;
};

typedef int64_t call(const struct scene *scene, int64_t deadline);

static char block[1 << 20];

static int64_t do_read(const struct scene *scene, int64_t deadline)
{
    return weft_conn_read(scene->conn, block, 10, deadline);
}

static int64_t do_read_full(const struct scene *scene, int64_t deadline)
{
    return weft_conn_read_full(scene->conn, block, 10, deadline);
}

static int64_t do_readv(const struct scene *scene, int64_t deadline)
{
    struct iovec piece = {block, 10};
    return weft_conn_readv(scene->conn, &piece, 1, deadline);
}

static int64_t do_receive_from(const struct scene *scene, int64_t deadline)
{
    weft_address from;
    return weft_conn_receive_from(scene->conn, block, 10, &from, deadline);
}

static int64_t do_write(const struct scene *scene, int64_t deadline)
{
    return weft_conn_write(scene->conn, block, sizeof block, deadline);
}

static int64_t do_writev(const struct scene *scene, int64_t deadline)
{
    struct iovec piece = {block, sizeof block};
    return weft_conn_writev(scene->conn, &piece, 1, deadline);
}

static int64_t do_sendfile(const struct scene *scene, int64_t deadline)
{
    return weft_conn_sendfile(scene->conn, fileno(scene->file), 0, sizeof block, deadline);
}

static int64_t do_send_to(const struct scene *scene, int64_t deadline)
{
    weft_address to;
    CHECK_EQ(weft_address_parse(&to, scene->address), 0);
    int64_t sent;
    while ((sent = weft_conn_send_to(scene->conn, block, 1000, &to, deadline)) == 1000)
        continue; /* until the queue of the receiver is full */
    return sent;
}

static int64_t do_accept(const struct scene *scene, int64_t deadline)
{
    weft_conn *conn;
    return weft_listener_accept(scene->listener, &conn, deadline);
}

/* Without an accept, a dial hangs when the backlog is full. */
static int64_t do_dial(const struct scene *scene, int64_t deadline)
{
    weft_conn *conn;
    return weft_conn_dial(&conn, scene->address, NULL, deadline);
}

/* A write that ends early returns how much it wrote, and the next one why. */
static int64_t persist(call *one, const struct scene *scene, int64_t deadline)
{
    int64_t result;
    while ((result = one(scene, deadline)) > 0)
        continue;
    return result;
}

/* Deadlines. */

struct trial {
    call *one;
    const struct scene *scene;
    weft_context *context;
    atomic_u32 begun;
};

static void until_deadline(void *arg)
{
    const struct trial *trial = arg;
    CHECK_EQ(persist(trial->one, trial->scene, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(persist(trial->one, trial->scene, 1), -ETIMEDOUT);
    int64_t deadline = weft_after(5 * WEFT_MS);
    CHECK_EQ(persist(trial->one, trial->scene, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
}

/* Contexts. */

static void until_canceled(void *arg)
{
    struct trial *trial = arg;
    CHECK_EQ(weft_context_bind(trial->context, NULL), 0);
    atomic_u32_store_release(&trial->begun, 1);
    CHECK_EQ(persist(trial->one, trial->scene, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(persist(trial->one, trial->scene, weft_after(WEFT_S)), -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void cancel_it(struct trial *trial, bool thread)
{
    struct body body = {.function = until_canceled, .arg = trial, .thread = thread};
    CHECK_EQ(weft_context_open(&trial->context, NULL, NULL), 0);
    atomic_u32_store_relaxed(&trial->begun, 0);
    body_start(&body);
    await(&trial->begun, 1);
    if (trial->one != do_dial) /* which may sleep between two tries */
        await_fd_waits(1);
    weft_context_cancel(trial->context);
    body_join(&body);
    weft_context_close(trial->context);
}

static void try_it(const char *name, call *one, const struct scene *scene)
{
    struct trial trial = {.one = one, .scene = scene};
    printf("    %s\n", name);
    for (int thread = 0; thread < 2; thread++) {
        body_run(until_deadline, &trial, thread);
        cancel_it(&trial, thread);
    }
}

static void reads(void)
{
    struct pair pair = pair_open(false);
    struct scene scene = {.conn = pair.near};
    try_it("read", do_read, &scene);
    try_it("read_full", do_read_full, &scene);
    try_it("readv", do_readv, &scene);
    try_it("receive_from", do_receive_from, &scene);
    pair_close(pair);
}

static void writes(void)
{
    struct pair pair = pair_open(true);
    struct scene scene = {.conn = pair.near, .file = tmpfile()};
    CHECK(scene.file != NULL);
    CHECK_EQ(fwrite(block, 1, sizeof block, scene.file), sizeof block);
    CHECK_EQ(fflush(scene.file), 0);
    (void)fill_up(pair.near);
    try_it("write", do_write, &scene);
    try_it("writev", do_writev, &scene);
    try_it("sendfile", do_sendfile, &scene);
    fclose(scene.file);
    pair_close(pair);
}

static void datagrams(void)
{
    struct scene scene;
    weft_conn *receiver;
    char address[64];
    snprintf(address, sizeof address, "unixgram:@weft-waits-%d", (int)getpid());
    scene.address = address;
    CHECK_EQ(weft_conn_bind(&receiver, address, NULL), 0);
    snprintf(block, sizeof block, "unixgram:@weft-waits-too-%d", (int)getpid());
    CHECK_EQ(weft_conn_bind(&scene.conn, block, NULL), 0);
    try_it("send_to", do_send_to, &scene);
    weft_conn_close(receiver);
    weft_conn_close(scene.conn);
}

static struct {
    weft_conn *conn;
    weft_address to;
} full;

static void send_until_cancelled(void *arg)
{
    CHECK_EQ(weft_conn_send_to(full.conn, "x", 1, &full.to, WEFT_NEVER), -ECANCELED);
}

static void send_in_time(void *arg)
{
    CHECK_EQ(weft_conn_send_to(full.conn, "x", 1, &full.to, WEFT_NEVER), -ETIMEDOUT);
}

static void send_until_closed(void *arg)
{
    CHECK_EQ(weft_conn_send_to(full.conn, "x", 1, &full.to, WEFT_NEVER), -ESHUTDOWN);
}

/* The kernel reports the socket as writable, although the queue of the receiver is full. */
static void a_full_receiver_is_tried_again(void)
{
    weft_conn *receiver, *conn;
    weft_address to;
    char address[64], own[64];
    int64_t sent;
    snprintf(address, sizeof address, "unixgram:@weft-waits-full-%d", (int)getpid());
    snprintf(own, sizeof own, "unixgram:@weft-waits-asks-%d", (int)getpid());
    CHECK_EQ(weft_conn_bind(&receiver, address, NULL), 0);
    CHECK_EQ(weft_conn_bind(&conn, own, NULL), 0);
    CHECK_EQ(weft_address_parse(&to, address), 0);
    do
        sent = weft_conn_send_to(conn, "x", 1, &to, weft_after(20 * WEFT_MS));
    while (sent == 1);
    CHECK_EQ(sent, -ETIMEDOUT);
    weft__os_fail(OS_WRITE, UINT32_MAX, false); /* only counts */
    CHECK_EQ(weft_conn_send_to(conn, "x", 1, &to, weft_after(200 * WEFT_MS)), -ETIMEDOUT);
    uint32_t tries = weft__os_calls(OS_WRITE);
    weft__os_fail(OS_WRITE, 0, false);
    CHECK(tries <= 100);
    full.conn = conn;
    full.to = to;
    weft_context *context;
    weft_fiber *cancelled;
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    weft_spawn_options options = {.context = context};
    CHECK_EQ(weft_spawn(&cancelled, send_until_cancelled, NULL, &options), 0);
    while (weft__descriptor_waits() == 0)
        weft_yield();
    weft_context_cancel(context);
    CHECK_EQ(weft_join(cancelled), 0);
    weft_context_close(context);
    /* The timeout of a context returns the same error as the end of a pause. */
    weft_context_options timed = {.timeout = 5 * WEFT_MS};
    CHECK_EQ(weft_context_open(&context, NULL, &timed), 0);
    options.context = context;
    CHECK_EQ(weft_spawn(&cancelled, send_in_time, NULL, &options), 0);
    CHECK_EQ(weft_join(cancelled), 0);
    weft_context_close(context);
    weft_fiber *sender;
    CHECK_EQ(weft_spawn(&sender, send_until_closed, NULL, NULL), 0);
    while (weft__descriptor_waits() == 0)
        weft_yield();
    weft_conn_close(conn);
    CHECK_EQ(weft_join(sender), 0);
    weft_conn_close(receiver);
}

static void accepts_and_dials(void)
{
    struct scene scene;
    char address[WEFT_ADDRESS_TEXT];
    weft_address local;
    weft_conn *conns[16];
    int count = 0;
    CHECK_EQ(
        weft_listener_open(&scene.listener, "tcp:127.0.0.1:0", &(weft_net_options){.backlog = 1}),
        0);
    try_it("accept", do_accept, &scene);
    CHECK_EQ(weft_listener_local(scene.listener, &local), 0);
    CHECK_EQ(weft_address_format(&local, address, sizeof address), 0);
    scene.address = address;
    while (count < 16 &&
           weft_conn_dial(&conns[count], address, NULL, weft_after(50 * WEFT_MS)) == 0)
        count++;
    CHECK(count < 16);
    try_it("dial", do_dial, &scene);
    while (count > 0)
        weft_conn_close(conns[--count]);
    weft_listener_close(scene.listener);
}

/* The wait of a second writer for the first ends as well. */
static void write_for_ever(void *arg)
{
    weft_conn *conn = arg;
    CHECK_EQ(weft_conn_write(conn, block, sizeof block, WEFT_NEVER), sizeof block);
}

static void the_wait_of_a_second_writer(void)
{
    static char got[sizeof block];
    struct pair pair = pair_open(true);
    struct scene scene = {.conn = pair.near};
    struct trial trial = {.one = do_write, .scene = &scene};
    struct body body = {.function = write_for_ever, .arg = pair.near};
    body_start(&body);
    await_fd_waits(1);
    for (int thread = 0; thread < 2; thread++) {
        body_run(until_deadline, &trial, thread);
        cancel_it(&trial, thread);
    }
    CHECK_EQ(weft_conn_read_full(pair.far, got, sizeof got, WEFT_NEVER), sizeof got);
    body_join(&body);
    pair_close(pair);
}

/* What needs no waiting is done, also after the deadline and in a cancelled context. */
static void what_needs_no_waiting_is_done(void)
{
    struct pair pair = pair_open(false);
    weft_context *context;
    char data[3];
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_conn_write(pair.near, "abc", 3, WEFT_NOW), 3);
    CHECK_EQ(weft_fd_wait(weft_conn_fd(pair.far), WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    CHECK_EQ(weft_fd_wait(weft_conn_fd(pair.far), WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(weft_conn_read(pair.far, data, 3, WEFT_NOW), 3);
    CHECK_EQ(weft_conn_write(pair.far, "abc", 3, WEFT_NOW), 3);
    CHECK_EQ(weft_conn_read(pair.far, data, 3, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_conn_read(pair.far, NULL, 0, WEFT_NEVER), 0);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    pair_close(pair);
}

int main(void)
{
    RUN_BOTH(reads);
    RUN_BOTH(writes);
    RUN_BOTH(datagrams);
    RUN_PLAIN(a_full_receiver_is_tried_again, "counts calls of the system");
    RUN_BOTH(accepts_and_dials);
    RUN_BOTH(the_wait_of_a_second_writer);
    RUN(what_needs_no_waiting_is_done);
    CHECK_EQ(weft__descriptor_waits(), 0);
    RUN_SEEDS(what_needs_no_waiting_is_done);
    return 0;
}
