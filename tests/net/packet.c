/*
 * packet.c: datagrams over UDP and Unix sockets.
 */
#include "net.h"
#include "seeds.h"

static char first[80], second[80]; /* addresses to bind to */

static void text_of(weft_conn *conn, char *text)
{
    weft_address address;
    CHECK_EQ(weft_conn_local(conn, &address), 0);
    CHECK_EQ(weft_address_format(&address, text, WEFT_ADDRESS_TEXT), 0);
}

static void to_and_from(void *unused)
{
    weft_conn *one, *two, *fixed;
    weft_address from, to;
    char data[100], one_text[WEFT_ADDRESS_TEXT], two_text[WEFT_ADDRESS_TEXT],
        text[WEFT_ADDRESS_TEXT];
    CHECK_EQ(weft_conn_bind(&one, first, NULL), 0);
    CHECK_EQ(weft_conn_bind(&two, second, NULL), 0);
    text_of(one, one_text);
    text_of(two, two_text);
    CHECK_EQ(weft_address_parse(&to, two_text), 0);
    CHECK_EQ(weft_conn_send_to(one, "hello", 5, &to, WEFT_NEVER), 5);
    CHECK_EQ(weft_conn_send_to(one, "", 0, &to, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_send_to(one, "too long", 8, &to, WEFT_NEVER), 8);
    CHECK_EQ(weft_conn_receive_from(two, data, sizeof data, &from, WEFT_NEVER), 5);
    CHECK(memcmp(data, "hello", 5) == 0);
    CHECK_EQ(weft_address_format(&from, text, sizeof text), 0);
    CHECK_STR(text, one_text);
    CHECK_EQ(weft_conn_receive_from(two, data, sizeof data, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_receive_from(two, data, 3, NULL, WEFT_NEVER), 3);
    memset(&from, 0x5a, sizeof from);
    weft_address poison = from;
    CHECK_EQ(weft_conn_receive_from(two, data, 3, &from, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK(memcmp(&from, &poison, sizeof from) == 0);

    /* A socket with a fixed peer. */
    weft_net_options options = {.local = one_text};
    weft_conn_close(one);
    CHECK_EQ(weft_conn_dial(&fixed, two_text, &options, WEFT_NEVER), 0);
    struct iovec pieces[2] = {{(void *)(uintptr_t) "ab", 2}, {(void *)(uintptr_t) "cd", 2}};
    CHECK_EQ(weft_conn_write(fixed, "x", 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_conn_writev(fixed, pieces, 2, WEFT_NEVER), 4);
    CHECK_EQ(weft_conn_read(two, data, sizeof data, WEFT_NEVER), 1);
    CHECK_EQ(weft_conn_receive_from(two, data, sizeof data, &from, WEFT_NEVER), 4);
    CHECK_EQ(weft_conn_send_to(two, "back", 4, &from, WEFT_NEVER), 4);
    CHECK_EQ(weft_conn_read(fixed, data, sizeof data, WEFT_NEVER), 4);
    CHECK_EQ(weft_conn_writev(fixed, pieces, 1025, WEFT_NEVER), -EMSGSIZE);
    CHECK_EQ(weft_conn_send_to(two, "x", 1, NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_conn_peer(two, &from), -ENOTCONN);
    weft_conn_close(fixed);
    weft_conn_close(two);
}

static void udp_ipv4(void)
{
    strcpy(first, "udp:127.0.0.1:0");
    strcpy(second, "udp:127.0.0.1:0");
    everywhere(to_and_from);
}

static void udp_ipv6(void)
{
    weft_conn *conn;
    if (weft_conn_bind(&conn, "udp:[::1]:0", NULL) != 0) {
        printf("    no IPv6 here\n");
        return;
    }
    weft_conn_close(conn);
    strcpy(first, "udp:[::1]:0");
    strcpy(second, "udp:[::1]:0");
    everywhere(to_and_from);
}

static void unix_datagrams(void)
{
    snprintf(first, sizeof first, "unixgram:@weft-packet-1-%d", (int)getpid());
    snprintf(second, sizeof second, "unixgram:@weft-packet-2-%d", (int)getpid());
    everywhere(to_and_from);
}

static void udp_errors(void *arg)
{
    weft_conn *conn, *gone;
    weft_address gone_address;
    char text[WEFT_ADDRESS_TEXT];
    static char huge[70000];
    CHECK_EQ(weft_conn_bind(&gone, "udp:127.0.0.1:0", NULL), 0);
    text_of(gone, text);
    CHECK_EQ(weft_address_parse(&gone_address, text), 0);
    weft_conn_close(gone);
    CHECK_EQ(weft_conn_dial(&conn, text, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_write(conn, huge, sizeof huge, WEFT_NEVER), -EMSGSIZE);
    CHECK_EQ(weft_conn_write(conn, "x", 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_conn_read(conn, huge, 1, WEFT_NEVER), -ECONNREFUSED);
    weft_conn_close(conn);
}

static void errors_are_returned(void)
{
    everywhere(udp_errors);
}

/* Requests and answers of many fibers. */

enum { ASKERS = 20 };
static atomic_u32 answered;

static void answer(void *arg)
{
    weft_conn *server = arg;
    uint32_t number;
    weft_address from;
    while (weft_conn_receive_from(server, &number, sizeof number, &from, WEFT_NEVER) > 0) {
        number++;
        CHECK_EQ(weft_conn_send_to(server, &number, sizeof number, &from, WEFT_NEVER),
                 sizeof number);
    }
    weft_conn_close(server);
}

static void ask(void *arg)
{
    weft_conn *conn;
    CHECK_EQ(weft_conn_dial(&conn, arg, NULL, WEFT_NEVER), 0);
    for (uint32_t i = 0; i < 50; i++) {
        uint32_t got = 0;
        int64_t size;
        do { /* datagrams may be lost */
            CHECK_EQ(weft_conn_write(conn, &i, sizeof i, WEFT_NEVER), sizeof i);
            size = weft_conn_read(conn, &got, sizeof got, weft_after(WEFT_S));
        } while (size == -ETIMEDOUT);
        CHECK_EQ(size, sizeof got);
        CHECK_EQ(got, i + 1);
    }
    atomic_u32_add_seq_cst(&answered, 1);
    weft_conn_close(conn);
}

static void questions_and_answers(void)
{
    weft_conn *server;
    weft_fiber *servers[2], *askers[ASKERS];
    char text[WEFT_ADDRESS_TEXT];
    atomic_u32_store_relaxed(&answered, 0);
    CHECK_EQ(weft_conn_bind(&server, "udp:127.0.0.1:0", NULL), 0);
    text_of(server, text);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_spawn(&servers[i], answer, weft_conn_share(server), NULL), 0);
    for (int i = 0; i < ASKERS; i++)
        CHECK_EQ(weft_spawn(&askers[i], ask, text, NULL), 0);
    for (int i = 0; i < ASKERS; i++)
        CHECK_EQ(weft_join(askers[i]), 0);
    weft_conn_close(server);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_join(servers[i]), 0);
    CHECK_EQ(atomic_u32_load_acquire(&answered), ASKERS);
}

int main(void)
{
    RUN_BOTH(udp_ipv4);
    RUN_BOTH(udp_ipv6);
    RUN_BOTH(unix_datagrams);
    RUN_PLAIN(errors_are_returned, "nothing waits");
    RUN_BOTH(questions_and_answers);
    return 0;
}
