/*
 * calls_fault.c: sockets and waits for descriptors with each call of the system that they need
 * failing (scenario.h).
 */
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <weft/fd.h>

#include "os/os.h"
#include "scenario.h"

/* Errors of calls that wait, and of calls that open. */
#define WAIT_ERRORS -ENOMEM, -ENOSPC
#define OPEN_ERRORS                                                            \
    -ENOMEM, -ENOSPC, -EMFILE, -ENFILE, -ENOBUFS, -EADDRINUSE, -EADDRNOTAVAIL, \
        scene.place == AT_START ? -EAGAIN : -ENOMEM

/* A pair of connections over a listener at the address; false if it could not be made. */
struct pair {
    weft_conn *near, *far;
};

static void address_text(weft_listener *listener, char *text)
{
    weft_address address;
    CHECK_EQ(weft_listener_local(listener, &address), 0);
    CHECK_EQ(weft_address_format(&address, text, WEFT_ADDRESS_TEXT), 0);
}

static bool pair_open(struct pair *pair, const char *where, const weft_net_options *options)
{
    char text[WEFT_ADDRESS_TEXT];
    weft_listener *listener = POISON;
    pair->near = pair->far = POISON;
    if (!OPENED(weft_listener_open(&listener, where, options), listener, OPEN_ERRORS))
        return false;
    CHECK(weft_listener_fd(listener) >= 0);
    weft_listener *shared = weft_listener_share(listener);
    address_text(listener, text);
    bool dialled =
        OPENED(weft_conn_dial(&pair->near, text, options, WEFT_NEVER), pair->near, OPEN_ERRORS);
    bool accepted = dialled && OPENED(weft_listener_accept(listener, &pair->far, WEFT_NEVER),
                                      pair->far, WAIT_ERRORS);
    if (dialled && !accepted)
        weft_conn_close(pair->near);
    weft_listener_close(listener);
    weft_listener_close(shared);
    return accepted;
}

static void pair_close(struct pair pair)
{
    weft_conn_close(pair.near);
    weft_conn_close(pair.far);
}

/* True if all bytes were written. */
static bool all_written(int64_t written, int64_t size)
{
    if (written >= 0)
        CHECK_EQ(written, size);
    return written == size;
}

static void talk(struct pair pair)
{
    char memory[16] = "";
    char ab[] = "ab", cd[] = "cd";
    struct iovec out[] = {{ab, 2}, {cd, 2}}, in[] = {{memory, 1}, {memory + 1, 3}};
    weft_address address;
    CHECK_EQ(weft_conn_local(pair.near, &address), 0);
    CHECK_EQ(weft_conn_peer(pair.near, &address), 0);
    CHECK_EQ(weft_conn_read(pair.far, memory, 1, weft_after(10 * WEFT_US)) != 0, 1);
    if (all_written(
            MAY(weft_conn_write(pair.near, "hello", 5, WEFT_NEVER), -ECONNRESET, WAIT_ERRORS), 5)) {
        while (MAY(weft_conn_read_full(pair.far, memory, 5, WEFT_NEVER), -ECONNRESET,
                   WAIT_ERRORS) != 5)
            weft_yield(); /* a read that fails has read nothing */
        CHECK(memcmp(memory, "hello", 5) == 0);
    }
    if (all_written(MAY(weft_conn_writev(pair.far, out, 2, WEFT_NEVER), -ECONNRESET, WAIT_ERRORS),
                    4)) {
        while (MAY(weft_conn_readv(pair.near, in, 2, WEFT_NEVER), -ECONNRESET, WAIT_ERRORS) != 4)
            weft_yield();
        CHECK(memcmp(memory, "abcd", 4) == 0);
    }
}

static void use_tcp(void)
{
    struct pair pair;
    char byte;
    FILE *file = tmpfile();
    weft_net_options options = {.keepalive = 10, .send_buffer = 65536, .local = NULL};
    CHECK(file != NULL);
    CHECK_EQ(fputs("file", file) >= 0, 1);
    CHECK_EQ(fflush(file), 0);
    if (pair_open(&pair, "tcp:127.0.0.1:0", &options)) {
        talk(pair);
        int64_t sent = MAY(weft_conn_sendfile(pair.near, fileno(file), 0, 4, WEFT_NEVER),
                           -ECONNRESET, WAIT_ERRORS);
        weft_conn *shared = weft_conn_share(pair.near);
        CHECK_EQ(weft_conn_shutdown(shared, WEFT_WRITABLE), 0);
        weft_conn_close(shared); /* the first close closes */
        int64_t got = 0, one;
        while ((one = MAY(weft_conn_read(pair.far, &byte, 1, WEFT_NEVER), -ECONNRESET,
                          WAIT_ERRORS)) != 0)
            got += one > 0;
        CHECK_EQ(got, sent > 0 ? sent : 0);
        pair_close(pair);
    }
    fclose(file);
}

static char path[64];

static void use_unix(void)
{
    struct pair pair;
    struct stat there;
    char text[80];
    snprintf(path, sizeof path, "/tmp/weft-calls-%d", (int)getpid());
    snprintf(text, sizeof text, "unix:%s", path);
    if (pair_open(&pair, text, NULL)) {
        talk(pair);
        pair_close(pair);
    }
    CHECK_EQ(stat(path, &there), -1); /* whatever failed */
    weft_conn *conn = POISON;
    snprintf(text, sizeof text, "unixgram:%s", path);
    if (OPENED(weft_conn_bind(&conn, text, NULL), conn, OPEN_ERRORS)) {
        CHECK_EQ(stat(path, &there), 0);
        weft_conn_close(conn);
        conn = POISON;
        CHECK_EQ(unlink(path), 0);
    }
    CHECK_EQ(stat(path, &there), -1);
    if (!OPENED(weft_conn_bind(&conn, "unixgram:@weft-calls", NULL), conn, OPEN_ERRORS))
        return;
    weft_conn *from = POISON;
    weft_net_options options = {.local = text};
    if (OPENED(weft_conn_dial(&from, "unixgram:@weft-calls", &options, WEFT_NEVER), from,
               OPEN_ERRORS)) {
        weft_conn_close(from);
        CHECK_EQ(unlink(path), 0);
    }
    CHECK_EQ(stat(path, &there), -1);
    weft_conn_close(conn);
}

/* Another fiber waits meanwhile. */

static void read_late(void *arg)
{
    char byte;
    while (MAY(weft_conn_read(arg, &byte, 1, WEFT_NEVER), -ECONNRESET, WAIT_ERRORS) < 0)
        weft_yield();
    CHECK_EQ(byte, 'x');
}

static void use_waiting(void)
{
    int ends[2];
    struct pair pair = {POISON, POISON};
    weft_fiber *fiber = POISON;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    bool near = OPENED(weft_conn_from_fd(&pair.near, ends[0]), pair.near, OPEN_ERRORS);
    bool far = OPENED(weft_conn_from_fd(&pair.far, ends[1]), pair.far, OPEN_ERRORS);
    if (!near)
        close(ends[0]); /* still the caller's */
    else
        CHECK_EQ(weft_conn_fd(pair.near), ends[0]);
    if (!far)
        close(ends[1]);
    if (near && far && OPENED_GO(weft_spawn(&fiber, read_late, pair.far, NULL), fiber)) {
        CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
        while (MAY(weft_conn_write(pair.near, "x", 1, WEFT_NEVER), -ECONNRESET, WAIT_ERRORS) != 1)
            weft_yield();
        CHECK_EQ(weft_join(fiber), 0);
    }
    if (near)
        weft_conn_close(pair.near);
    if (far)
        weft_conn_close(pair.far);
}

static void use_udp(void)
{
    weft_conn *one = POISON, *other = POISON;
    weft_address to, from = {.size = 7777};
    char memory[8] = "";
    bool both = OPENED(weft_conn_bind(&one, "udp:127.0.0.1:0", NULL), one, OPEN_ERRORS);
    both = OPENED(weft_conn_bind(&other, "udp:127.0.0.1:0", NULL), other, OPEN_ERRORS) && both;
    if (both && weft_conn_local(other, &to) == 0) {
        CHECK(weft_address_port(&to) > 0);
        if (MAY(weft_conn_send_to(one, "ping", 4, &to, WEFT_NEVER), -ECONNRESET, WAIT_ERRORS) ==
            4) {
            int64_t got;
            while ((got = MAY(weft_conn_receive_from(other, memory, 8, &from, WEFT_NEVER),
                              -ECONNRESET, WAIT_ERRORS)) < 0)
                CHECK_EQ(from.size, 7777); /* untouched */
            CHECK_EQ(got, 4);
            CHECK(weft_address_port(&from) > 0);
        }
    }
    if (one != POISON)
        weft_conn_close(one);
    if (other != POISON)
        weft_conn_close(other);
}

/* Dialling by name. */

static int look_up(const char *host, const char *service, const struct addrinfo *hints,
                   struct addrinfo **list)
{
    return getaddrinfo(host != NULL && host[0] == 'n' ? "127.0.0.1" : host, service, hints, list);
}

static void use_name(void)
{
    weft_listener *listener = POISON;
    weft_conn *conn = POISON;
    weft_address address;
    char text[WEFT_ADDRESS_TEXT];
    weft__os_getaddrinfo_by(look_up);
    CHECK_EQ(weft_address_parse(&address, "tcp:127.0.0.1:80"), 0);
    if (OPENED(weft_listener_open(&listener, "tcp:127.0.0.1:0", NULL), listener, OPEN_ERRORS)) {
        if (weft_listener_local(listener, &address) == 0) {
            snprintf(text, sizeof text, "tcp:name:%d", weft_address_port(&address));
            if (OPENED(weft_conn_dial(&conn, text, NULL, WEFT_NEVER), conn, OPEN_ERRORS, -EAGAIN))
                weft_conn_close(conn);
        }
        weft_listener_close(listener);
    }
    weft__os_getaddrinfo_by(NULL);
}

/* Descriptors of other libraries. */

static void use_fd(void)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    int64_t none = weft_fd_wait(ends[0], WEFT_READABLE, weft_after(50 * WEFT_US));
    if (none != -ETIMEDOUT)
        (void)MAY(none, OPEN_ERRORS);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    int64_t ready = MAY(weft_fd_wait(ends[0], WEFT_READABLE, WEFT_NEVER), OPEN_ERRORS);
    CHECK(ready < 0 || ready == WEFT_READABLE);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    static const struct scenario all[] = {
        {"tcp", use_tcp}, {"unix", use_unix}, {"waiting", use_waiting},
        {"udp", use_udp}, {"name", use_name}, {"fd", use_fd},
    };
    scenarios_run(all, sizeof all / sizeof all[0]);
    return 0;
}
