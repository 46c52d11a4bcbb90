/*
 * tls.c: sessions of TLS (src/http/tls.h): their bytes, in which pieces they come, and their ends.
 */
#include "tls_pair.h"

/* ---- that it works ---- */

static void both_versions_talk(void)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (int i = 0; i < 2; i++) {
        struct server server;
        struct client client =
            pair_open(&server, keys, echo, (struct client_options){.version = versions[i]});
        CHECK_EQ(SSL_version(client.ssl), versions[i]);
        CHECK_EQ(SSL_get_verify_result(client.ssl), X509_V_OK);
        CHECK(SSL_get_current_compression(client.ssl) == NULL);
        say_and_hear(&client, "hello");
        say_and_hear(&client, "and again");
        client_close(&client, true);
        CHECK_EQ(server_result(&server), 0);
        close(client.fd);
    }
}

static void its_end_is_said(void)
{
    struct server server;
    char byte;
    int fd = server_start(&server, keys, NULL); /* closes at once */
    struct client client = client_open(clients, fd, ordinary);
    CHECK_EQ(client_handshake(&client), 0);
    CHECK_EQ(client_read(&client, &byte, 1), 0);
    CHECK_EQ(server_result(&server), 0);
    client_close(&client, false);
    close(fd);
}

static void ask_for_nothing(struct server *server)
{
    CHECK_EQ(weft__http_tls_read(server->tls, NULL, 0), 0);
    CHECK_EQ(weft__http_tls_write(server->tls, NULL, 0), 0);
    echo(server);
}

/* Neither waits, nor is it an end. */
static void nothing_is_read_and_written(void)
{
    struct server server;
    struct client client = pair_open(&server, keys, ask_for_nothing, ordinary);
    say_and_hear(&client, "something");
    client_close(&client, true);
    CHECK_EQ(server_result(&server), 0);
    close(client.fd);
}

/* ---- byte by byte ---- */

struct relay {
    int from, to;
};

/* One byte at a time, and a yield to the fibers that wait for it. */
static void relay(void *arg)
{
    struct relay *way = arg;
    char byte;
    ssize_t got;
    for (;;) {
        CHECK(weft_fd_wait(way->from, WEFT_READABLE, WEFT_NEVER) > 0);
        got = read(way->from, &byte, 1);
        if (got <= 0)
            break;
        CHECK(weft_fd_wait(way->to, WEFT_WRITABLE, WEFT_NEVER) > 0);
        if (send(way->to, &byte, 1, MSG_NOSIGNAL) != 1)
            break;
        weft_yield();
    }
    (void)shutdown(way->to, SHUT_WR);
}

static void every_byte_alone(void)
{
    struct server server;
    int near[2];
    weft_fiber *fibers[2];
    int far = server_start(&server, keys, echo);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, near), 0);
    struct relay there = {near[1], far}, back = {far, near[1]};
    CHECK_EQ(weft_spawn(&fibers[0], relay, &there, NULL), 0);
    CHECK_EQ(weft_spawn(&fibers[1], relay, &back, NULL), 0);

    struct client client = client_open(clients, near[0], ordinary);
    CHECK_EQ(client_handshake(&client), 0);
    say_and_hear(&client, "every byte alone");
    client_close(&client, true);
    CHECK_EQ(shutdown(near[0], SHUT_WR), 0);
    CHECK_EQ(server_result(&server), 0);
    CHECK(server.waits > 50);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    close(near[0]), close(near[1]), close(far);
}

/* ---- much ---- */

enum { PIECE = 50000 }; /* its half is more than a record */

static unsigned char byte_at(int64_t place)
{
    return (unsigned char)(place * 7 + place / 251);
}

static void fill(unsigned char *data, int64_t from, int size)
{
    for (int i = 0; i < size; i++)
        data[i] = byte_at(from + i);
}

static int64_t much;

/* A write takes one record, so that a server of many clients comes back to its loop. */
static void send_a_part(struct server *server)
{
    static const char data[PIECE];
    int large = 200000;
    CHECK_EQ(setsockopt(server->fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof large), 0);
    int64_t sent = weft__http_tls_write(server->tls, data, PIECE);
    CHECK(sent > 0 && sent < PIECE);
    much = sent;
}

/* Each attempt is from other memory, and may bring more than the one before. */
static void send_much(struct server *server)
{
    int64_t sent, again = 0;
    int size = PIECE / 2;
    for (int64_t at = 0; at < much;) {
        unsigned char *data = malloc(PIECE);
        CHECK(data != NULL);
        if (size > much - at)
            size = (int)(much - at);
        fill(data, at, size);
        sent = weft__http_tls_write(server->tls, data, (size_t)size);
        memset(data, 0, PIECE);
        free(data);
        if (sent == -EAGAIN) {
            CHECK_EQ(weft__http_tls_wants(server->tls), WEFT_WRITABLE);
            wait_for(server);
            again++;
            size = PIECE;
        } else {
            CHECK(sent > 0 && sent <= size);
            at += sent;
            size = PIECE / 2;
        }
    }
    CHECK(again > 0);
}

static void receive_much(struct server *server)
{
    unsigned char data[5000];
    int64_t at = 0, got;
    while ((got = server_read(server, data, sizeof data)) > 0)
        for (int64_t i = 0; i < got; i++, at++)
            CHECK_EQ(data[i], byte_at(at));
    CHECK_EQ(got, 0);
    CHECK_EQ(at, much);
}

static void a_part_at_a_time(void)
{
    struct server server;
    char data[5000];
    int64_t at = 0;
    int got;
    struct client client = pair_open(&server, keys, send_a_part, ordinary);
    while ((got = client_read(&client, data, sizeof data)) > 0)
        at += got;
    CHECK_EQ(server_result(&server), 0);
    CHECK_EQ(at, much);
    hang_up(&client, false);
}

static void much_from_the_server(void)
{
    struct server server;
    unsigned char data[5000];
    int64_t at = 0;
    int got;
    much = test_scale(4000000) + 100000;
    struct client client = pair_open(&server, keys, send_much, ordinary);
    while ((got = client_read(&client, data, sizeof data)) > 0)
        for (int i = 0; i < got; i++, at++)
            CHECK_EQ(data[i], byte_at(at));
    CHECK_EQ(got, 0);
    CHECK_EQ(at, much);
    CHECK_EQ(server_result(&server), 0);
    hang_up(&client, false);
}

static void much_from_the_client(void)
{
    struct server server;
    unsigned char *data = malloc(PIECE);
    CHECK(data != NULL);
    much = test_scale(4000000) + 100000;
    struct client client = pair_open(&server, keys, receive_much, ordinary);
    for (int64_t at = 0; at < much;) {
        int size = much - at < PIECE ? (int)(much - at) : PIECE;
        fill(data, at, size);
        CHECK_EQ(client_write(&client, data, size), size);
        at += size;
    }
    client_close(&client, true);
    CHECK_EQ(server_result(&server), 0);
    close(client.fd);
    free(data);
}

/* ---- what the socket does not tell ---- */

enum { RECORDS = 300, RECORD = 100 }; /* more than OpenSSL reads at once */

static weft_wg begun, written;

/* After one event: reads until it would have to wait, and then has everything. */
static void read_what_is_there(struct server *server)
{
    char data[64];
    int64_t at = 0, got;
    weft_wg_done(&begun);
    CHECK_EQ(weft_wg_wait(&written), 0);
    do {
        weft__http_tls_budget_renew(server->tls);
        while ((got = weft__http_tls_read(server->tls, data, sizeof data)) > 0)
            at += got;
        CHECK_EQ(got, -EAGAIN);
    } while (weft__http_tls_budget_spent(server->tls));
    CHECK_EQ(at, RECORDS * RECORD);
}

static void nothing_is_forgotten(void)
{
    struct server server;
    char data[RECORD] = {0};
    int large = 200000;
    CHECK_EQ(weft_wg_add(&begun, 1), 0);
    CHECK_EQ(weft_wg_add(&written, 1), 0);
    int fd = server_start(&server, keys, read_what_is_there);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof large), 0);
    struct client client = client_open(clients, fd, ordinary);
    CHECK_EQ(client_handshake(&client), 0);
    CHECK_EQ(weft_wg_wait(&begun), 0);
    for (int i = 0; i < RECORDS; i++)
        CHECK_EQ(client_write(&client, data, RECORD), RECORD);
    weft_wg_done(&written);
    CHECK_EQ(server_result(&server), 0);
    client_close(&client, false);
    close(fd);
}

/* ---- ends that are none ---- */

static void read_to_an_error(struct server *server)
{
    char data[100];
    int64_t got;
    while ((got = server_read(server, data, sizeof data)) > 0)
        continue;
    CHECK_EQ(weft__http_tls_read(server->tls, data, sizeof data), got);
    CHECK_EQ(got < 0 ? weft__http_tls_write(server->tls, data, sizeof data) : 0, got);
    server->result = (int)got;
}

static void an_end_without_a_word(void)
{
    struct server server;
    struct client client = pair_open(&server, keys, read_to_an_error, ordinary);
    CHECK_EQ(client_write(&client, "x", 1), 1);
    hang_up(&client, false);
    CHECK_EQ(server_result(&server), -ECONNRESET);

    int fd = server_start(&server, keys, NULL); /* in the middle of the first record */
    CHECK_EQ(send(fd, "\x16\3\1\2\0\1", 6, MSG_NOSIGNAL), 6);
    close(fd);
    CHECK_EQ(server_result(&server), -ECONNRESET);
}

static void write_to_an_error(struct server *server)
{
    static const char data[10000];
    int64_t sent;
    do {
        sent = weft__http_tls_write(server->tls, data, sizeof data);
        if (sent == -EAGAIN)
            CHECK(weft_fd_wait(server->fd, WEFT_WRITABLE, WEFT_NEVER) > 0);
    } while (sent > 0 || sent == -EAGAIN);
    server->result = (int)sent;
}

/* As a signal, it would end the test. */
static void no_sigpipe(void)
{
    struct server server;
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    struct client client = pair_open(&server, keys, write_to_an_error, ordinary);
    hang_up(&client, false);
    int result = server_result(&server);
    CHECK(result == -EPIPE || result == -ECONNRESET);
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
}

static void handshake_with(const char *data, size_t size, int error)
{
    struct server server;
    char answer[100];
    int fd = server_start(&server, keys, echo);
    CHECK_EQ(send(fd, data, size, MSG_NOSIGNAL), size);
    CHECK_EQ(server_result(&server), error);
    ssize_t got = recv(fd, answer, sizeof answer, 0); /* an alert (of 7 bytes), or nothing */
    CHECK(got <= 7);
    close(fd);
}

static void what_is_no_tls(void)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char other_method[] = "PROPFIND / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char hello_of_garbage[] =
        "\x16\x03\x01\x00\x20\x01\x00\x00\x1cgarbagegarbagegarbagegarbage";
    char garbage[600];
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (char)byte_at((int64_t)i + 99);
    handshake_with(http, sizeof http - 1, -EPROTOTYPE);
    handshake_with(other_method, sizeof other_method - 1, -EPROTOTYPE);
    handshake_with(garbage, sizeof garbage, -EPROTO);
    handshake_with(hello_of_garbage, sizeof hello_of_garbage - 1, -EPROTO);
}

static void garbage_after_the_handshake(void)
{
    struct server server;
    struct client client = pair_open(&server, keys, read_to_an_error, ordinary);
    CHECK_EQ(send(client.fd, "no record at all", 16, MSG_NOSIGNAL), 16);
    CHECK_EQ(server_result(&server), -EPROTO);
    hang_up(&client, false);
}

/* ---- errors of others ---- */

static void leave_an_error(void)
{
    BIO *nothing = BIO_new_mem_buf("", 0);
    CHECK(PEM_read_bio_X509(nothing, NULL, NULL, NULL) == NULL);
    BIO_free(nothing);
    CHECK(ERR_peek_error() != 0);
}

static void work_after_an_error(struct server *server)
{
    char data[10];
    leave_an_error();
    CHECK_EQ(weft__http_tls_read(server->tls, data, sizeof data), -EAGAIN);
    leave_an_error();
    CHECK_EQ(weft__http_tls_write(server->tls, "your turn", 9), 9);
    echo(server);
}

/* The queue of errors is the thread's: what another fiber has left in it is not this session's. */
static void errors_of_others(void)
{
    struct server server;
    char data[9];
    struct client client = pair_open(&server, keys, work_after_an_error, ordinary);
    client_read_all(&client, data, 9);
    client_close(&client, true);
    CHECK_EQ(server_result(&server), 0);
    close(client.fd);
}

int main(void)
{
    pair_begin();
    RUN_BOTH(both_versions_talk);
    RUN_BOTH(its_end_is_said);
    RUN_BOTH(nothing_is_read_and_written);
    RUN_BOTH(every_byte_alone);
    RUN_BOTH(a_part_at_a_time);
    RUN_BOTH(much_from_the_server);
    RUN_BOTH(much_from_the_client);
    RUN_BOTH(nothing_is_forgotten);
    RUN_BOTH(an_end_without_a_word);
    RUN_BOTH(no_sigpipe);
    RUN_BOTH(what_is_no_tls);
    RUN_BOTH(garbage_after_the_handshake);
    RUN_BOTH(errors_of_others);
    pair_end();
    return 0;
}
