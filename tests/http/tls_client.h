/*
 * tls_client.h: a client of TLS for tests: plain OpenSSL, driven by weft_fd_wait from fibers and
 * threads.
 */
#ifndef WEFT_TEST_HTTP_TLS_CLIENT_H
#define WEFT_TEST_HTTP_TLS_CLIENT_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <weft/weft.h>

#include "certificates.h"
#include "test.h"

static SSL_CTX *clients; /* of client_context */

struct client {
    SSL *ssl;
    int fd;
    int error; /* of the last call that failed: the reason in OpenSSL's queue; 0 */
};

/* What a client wants to be; zero: TLS 1.3, http/1.1, root.pem. */
struct client_options {
    int version;      /* TLS1_2_VERSION: only that one */
    const char *alpn; /* as OpenSSL takes it: "\2h2"; "": offers nothing */
    SSL_SESSION *resume;
};

static const struct client_options ordinary;

static inline SSL_CTX *client_context(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    CHECK(context != NULL);
    CHECK_EQ(SSL_CTX_load_verify_locations(context, in_folder("root.pem"), NULL), 1);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    return context;
}

/* For tests of clients that share one context; they end with clients_end. */
static inline void clients_begin(void)
{
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR); /* the client's own */
    certificates_make();
    clients = client_context();
}

static inline void clients_end(void)
{
    SSL_CTX_free(clients);
    certificates_remove();
}

static inline struct client client_open(SSL_CTX *context, int fd, struct client_options options)
{
    struct client client = {.ssl = SSL_new(context), .fd = fd};
    const char *alpn = options.alpn != NULL ? options.alpn : "\10http/1.1";
    CHECK(client.ssl != NULL && SSL_set_fd(client.ssl, fd) == 1);
    CHECK_EQ(SSL_set1_host(client.ssl, "localhost"), 1);
    if (options.version != 0) {
        CHECK_EQ(SSL_set_min_proto_version(client.ssl, options.version), 1);
        CHECK_EQ(SSL_set_max_proto_version(client.ssl, options.version), 1);
        if (options.version < TLS1_2_VERSION) /* it would not even offer it */
            CHECK_EQ(SSL_set_cipher_list(client.ssl, "ALL:@SECLEVEL=0"), 1);
    }
    if (*alpn != '\0')
        CHECK_EQ(
            SSL_set_alpn_protos(client.ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn)),
            0);
    if (options.resume != NULL)
        CHECK_EQ(SSL_set_session(client.ssl, options.resume), 1);
    SSL_set_connect_state(client.ssl);
    return client;
}

/* After a call that gave `result`: true if it is to be repeated, when it was waited for that; -1 in
 * *result at an end that is not the other's wish, 0 at one that is. */
static inline bool client_again(struct client *client, int *result)
{
    int reason = SSL_get_error(client->ssl, *result);
    if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) {
        int events = reason == SSL_ERROR_WANT_READ ? WEFT_READABLE : WEFT_WRITABLE;
        CHECK_EQ(weft_fd_wait(client->fd, events, WEFT_NEVER), events);
        return true;
    }
    client->error = ERR_GET_REASON(ERR_peek_error());
    *result = reason == SSL_ERROR_ZERO_RETURN ? 0 : -1;
    return false;
}

/* 0; or -1, and client->error. */
static inline int client_handshake(struct client *client)
{
    int result;
    do {
        ERR_clear_error();
        if ((result = SSL_do_handshake(client->ssl)) == 1)
            return 0;
    } while (client_again(client, &result));
    return -1;
}

static inline int client_write(struct client *client, const void *data, int size)
{
    int result;
    do {
        ERR_clear_error();
        if ((result = SSL_write(client->ssl, data, size)) > 0)
            return result;
    } while (client_again(client, &result));
    return result;
}

/* Reads what there is. 0: the end, with an alert; -1. */
static inline int client_read(struct client *client, void *data, int size)
{
    int result;
    do {
        ERR_clear_error();
        if ((result = SSL_read(client->ssl, data, size)) > 0)
            return result;
    } while (client_again(client, &result));
    return result;
}

static inline void client_read_all(struct client *client, void *data, int size)
{
    for (int done = 0; done < size;) {
        int got = client_read(client, (char *)data + done, size - done);
        CHECK(got > 0);
        done += got;
    }
}

/* Says the end, if `politely`. The socket is the caller's. */
static inline void client_close(struct client *client, bool politely)
{
    int result = politely ? -1 : 0;
    while (result < 0 && (result = SSL_shutdown(client->ssl)) < 0)
        if (!client_again(client, &result))
            break;
    SSL_free(client->ssl);
    ERR_clear_error();
}

/* Ends the TLS session and closes the socket. */
static inline void hang_up(struct client *client, bool politely)
{
    client_close(client, politely);
    close(client->fd);
}

#endif
