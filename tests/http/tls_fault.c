/*
 * tls_fault.c: TLS without memory, or when OpenSSL fails without a reason. The failure is reported,
 * nothing is left behind, and the server goes on. The calls are caught by the linker
 * (failing_seam.h).
 */
#include "system.h"
#include "tls_pair.h"
#include "tls_server.h"

enum call {
    ALLOCATE,
    RESIZE,
    CONTEXT,
    METHOD,
    SET_WRITE,
    SET_READ,
    SET_CONTROL,
    SET_CREATE,
    VERSION,
    CHAIN,
    SESSION,
    STREAM,
    SET_BOTH,
    WRITE,
    CALLS
};

/* The error of keys_open when the call fails, and its text on stderr. */
static const struct {
    int error;
    const char *text;
} calls[CALLS] = {
    [ALLOCATE] = {-ENOMEM, ""},
    [CONTEXT] = {-ENOMEM, ""},
    [METHOD] = {-ENOMEM, ""},
    [SET_WRITE] = {-ENOMEM, ""},
    [SET_READ] = {-ENOMEM, ""},
    [SET_CONTROL] = {-ENOMEM, ""},
    [SET_CREATE] = {-ENOMEM, ""},
    [VERSION] = {-EINVAL, "weft: http: min_version: it cannot be used\n"},
    [CHAIN] = {-EINVAL, "/chain.pem: it cannot be used\n"},
    [SET_BOTH] = {-ENOSPC, ""},
};

#include "failing_seam.h"

WRAP_AS(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *method), CONTEXT, NULL, (method))
WRAP_AS(BIO_METHOD *, BIO_meth_new, (int type, const char *name), METHOD, NULL, (type, name))
WRAP_AS(int, BIO_meth_set_write_ex,
        (BIO_METHOD * method, int (*function)(BIO *, const char *, size_t, size_t *)), SET_WRITE, 0,
        (method, function))
WRAP_AS(int, BIO_meth_set_read_ex,
        (BIO_METHOD * method, int (*function)(BIO *, char *, size_t, size_t *)), SET_READ, 0,
        (method, function))
WRAP_AS(int, BIO_meth_set_ctrl, (BIO_METHOD * method, long (*function)(BIO *, int, long, void *)),
        SET_CONTROL, 0, (method, function))
WRAP_AS(int, BIO_meth_set_create, (BIO_METHOD * method, int (*function)(BIO *)), SET_CREATE, 0,
        (method, function))
WRAP_AS(SSL *, SSL_new, (SSL_CTX * context), SESSION, NULL, (context))
WRAP_AS(BIO *, BIO_new, (const BIO_METHOD *method), STREAM, NULL, (method))
WRAP_AS(int, SSL_write_ex, (SSL * ssl, const void *data, size_t size, size_t *sent), WRITE, 0,
        (ssl, data, size, sent))
WRAP(int, set_both, (int set, int fd, void *what), SET_BOTH, (set, fd, what))

/* Of several things, one of which may fail. */
long __real_SSL_CTX_ctrl(SSL_CTX *context, int command, long number, void *pointer);
long __wrap_SSL_CTX_ctrl(SSL_CTX *context, int command, long number, void *pointer);
long __wrap_SSL_CTX_ctrl(SSL_CTX *context, int command, long number, void *pointer)
{
    return command == SSL_CTRL_SET_MIN_PROTO_VERSION && fails(VERSION)
               ? 0
               : __real_SSL_CTX_ctrl(context, command, number, pointer);
}

#ifndef ERR_raise /* before OpenSSL 3 */
#define ERR_raise(library, reason) ERR_put_error(library, 0, reason, __FILE__, __LINE__)
#endif

/* The system's fault, but no errno: it must not become a success. */
int __real_SSL_CTX_use_certificate_chain_file(SSL_CTX *context, const char *path);
int __wrap_SSL_CTX_use_certificate_chain_file(SSL_CTX *context, const char *path);
int __wrap_SSL_CTX_use_certificate_chain_file(SSL_CTX *context, const char *path)
{
    if (!fails(CHAIN))
        return __real_SSL_CTX_use_certificate_chain_file(context, path);
    ERR_raise(ERR_LIB_SYS, 0);
    return 0;
}

/* ---- keys ---- */

static enum call failing;

static void open_keys(void)
{
    weft_http_tls options = files();
    struct tls_keys *untouched = (struct tls_keys *)&options, *opened = untouched;
    start_failing(failing, 1, false);
    CHECK_EQ(weft__http_tls_keys_open(&opened, &options), calls[failing].error);
    stop_failing();
    CHECK_PTR(opened, untouched);
    CHECK_EQ(ERR_peek_error(), 0);
}

static void keys_fail(void)
{
    long blocks = atomic_load(&plan.blocks);
    for (failing = 0; failing <= CHAIN; failing++) {
        if (failing == RESIZE) /* there is none */
            continue;
        const char *said = test_stderr_of(open_keys), *text = calls[failing].text;
        CHECK_EQ(atomic_load(&plan.hits), 1);
        CHECK_EQ(*said == '\0', *text == '\0');
        CHECK(strstr(said, text) != NULL);
        CHECK_EQ(atomic_load(&plan.blocks), blocks);
    }
}

/* ---- connections ---- */

/* A client that is let in, but for which there is no session: it is closed, and counted nowhere but
 * among the errors. */
static void turned_out(weft_http_server *server, int port, enum call call, long number)
{
    char byte;
    int64_t errors = stats_of(server).accept_errors;
    start_failing(call, number, false);
    int fd = dial(port);
    if (call == SESSION || call == STREAM) /* it is made for the first byte */
        CHECK_EQ(send(fd, "\x16", 1, MSG_NOSIGNAL), 1);
    CHECK(weft_fd_wait(fd, WEFT_READABLE, WEFT_NEVER) > 0);
    CHECK(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
    while (stats_of(server).accept_errors == errors)
        weft_yield();
    CHECK_EQ(atomic_load(&plan.hits), 1);
    stop_failing();
    while (stats_of(server).connections > 0)
        weft_yield();
    CHECK_EQ(stats_of(server).accept_errors, errors + 1);

    struct client client = connected(port, ordinary);
    ask(&client, GET("/"));
    expect_hello(&client);
    hang_up(&client, true);
    while (stats_of(server).connections > 0)
        weft_yield();
}

static void sessions_fail(void)
{
    int port;
    long blocks = atomic_load(&plan.blocks);
    weft_http_server *server =
        serve_tls((weft_http_options){.handler = hello, .acceptors = 1}, &port);
    turned_out(server, port, ALLOCATE, 1); /* of the connection */
    turned_out(server, port, ALLOCATE, 2); /* of the session */
    turned_out(server, port, SESSION, 1);
    turned_out(server, port, STREAM, 1);
    turned_out(server, port, SET_BOTH, 1);
    end(server);
    CHECK_EQ(atomic_load(&plan.blocks), blocks);
}

/* ---- without a reason ---- */

static void write_without_success(struct server *server)
{
    char byte;
    start_failing(WRITE, 1, false);
    server->result = (int)weft__http_tls_write(server->tls, "x", 1);
    stop_failing();
    CHECK_EQ(weft__http_tls_write(server->tls, "x", 1), server->result);
    CHECK_EQ(weft__http_tls_read(server->tls, &byte, 1), server->result);
    CHECK_EQ(weft__http_tls_handshake(server->tls), server->result);
}

/* Neither the socket nor OpenSSL says what is wrong: it is an error all the same, and the client is
 * gets no alert. */
static void a_failure_without_a_reason(void)
{
    struct server server;
    char byte;
    struct client client = pair_open(&server, keys, write_without_success, ordinary);
    CHECK_EQ(client_read(&client, &byte, 1), -1);
    CHECK_EQ(server_result(&server), -EPROTO);
    hang_up(&client, false);
}

static void fill_without_memory(struct server *server)
{
    static const char data[10000];
    int64_t sent;
    start_failing(RESIZE, 1, true);
    while ((sent = weft__http_tls_write(server->tls, data, sizeof data)) > 0)
        continue;
    stop_failing();
    CHECK_EQ(atomic_load(&plan.hits), 1);
    CHECK_EQ(weft__http_tls_write(server->tls, data, sizeof data), sent);
    server->result = (int)sent;
}

/* A record is out in part, and there is no memory for its rest: nothing can follow. */
static void no_memory_for_what_is_unsent(void)
{
    struct server server;
    char data[1000];
    int got;
    struct client client = pair_open(&server, keys, fill_without_memory, ordinary);
    CHECK_EQ(server_result(&server), -ENOMEM);
    while ((got = client_read(&client, data, sizeof data)) > 0)
        continue;
    CHECK_EQ(got, -1);
    hang_up(&client, false);
}

int main(void)
{
    pair_begin();
    int before = open_descriptors();
    RUN_PLAIN(keys_fail, "one thread");
    RUN_PLAIN(sessions_fail, "acceptors wait for the kernel");
    RUN_BOTH(a_failure_without_a_reason);
    RUN_BOTH(no_memory_for_what_is_unsent);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    pair_end();
    CHECK_EQ(atomic_load(&plan.blocks), 0);
    return 0;
}
