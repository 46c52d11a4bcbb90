/*
 * tls_negotiation.c: what a client and a session of TLS agree upon, and which clients are refused.
 */
#include "tls_pair.h"

/* A handshake that must fail: the error at the server, and at the client. */
static void refused(struct tls_keys *with, struct client_options options, int result, int told)
{
    struct server server;
    int fd = server_start(&server, with, echo);
    struct client client = client_open(clients, fd, options);
    CHECK_EQ(client_handshake(&client), -1);
    CHECK_EQ(client.error, told);
    CHECK_EQ(server_result(&server), result);
    client_close(&client, false);
    close(fd);
}

static void old_versions_are_refused(void)
{
    struct tls_keys *strict;
    weft_http_tls options = files();
    options.min_version = 13;
    CHECK_EQ(weft__http_tls_keys_open(&strict, &options), 0);
    refused(keys, (struct client_options){.version = TLS1_1_VERSION}, -EPROTO,
            SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
    refused(strict, (struct client_options){.version = TLS1_2_VERSION}, -EPROTO,
            SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
    weft__http_tls_keys_close(strict);
}

static void alpn(const char *offered, const char *chosen)
{
    struct server server;
    const unsigned char *name;
    unsigned size;
    struct client client = pair_open(&server, keys, echo, (struct client_options){.alpn = offered});
    SSL_get0_alpn_selected(client.ssl, &name, &size);
    CHECK_EQ(size, strlen(chosen));
    CHECK(size == 0 || memcmp(name, chosen, size) == 0);
    client_close(&client, true);
    CHECK_EQ(server_result(&server), 0);
    close(client.fd);
}

static void protocols_are_agreed_upon(void)
{
    alpn("\10http/1.1", "http/1.1");
    alpn("\2h2\10http/1.1", "http/1.1");
    alpn("\10http/1.0", "http/1.0"); /* which is answered as well */
    alpn("\10http/1.0\10http/1.1", "http/1.1");
    alpn("", "");
    refused(keys, (struct client_options){.alpn = "\2h2"}, -EPROTO,
            SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
    refused(keys, (struct client_options){.alpn = "\7http/1."}, -EPROTO,
            SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
}

static void ciphers_are_chosen(void)
{
    struct tls_keys *chosen;
    struct server server;
    weft_http_tls options = files();
    options.ciphers = "ECDHE-ECDSA-CHACHA20-POLY1305";
    CHECK_EQ(weft__http_tls_keys_open(&chosen, &options), 0);
    struct client client =
        pair_open(&server, chosen, echo, (struct client_options){.version = TLS1_2_VERSION});
    CHECK_STR(SSL_get_cipher_name(client.ssl), options.ciphers);
    client_close(&client, true);
    CHECK_EQ(server_result(&server), 0);
    close(client.fd);
    weft__http_tls_keys_close(chosen);
}

/* Suites of TLS 1.2 without authenticated encryption are used only if an option names them. */
static void weak_ciphers_are_not_offered(void)
{
    static const char *const weak[] = {"ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384"};
    struct tls_keys *asked;
    weft_http_tls options = files();
    SSL_CTX *before = clients;
    for (size_t i = 0; i < sizeof weak / sizeof weak[0]; i++) {
        clients = client_context();
        CHECK_EQ(SSL_CTX_set_cipher_list(clients, weak[i]), 1);
        refused(keys, (struct client_options){.version = TLS1_2_VERSION}, -EPROTO,
                SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE);
        options.ciphers = weak[i];
        CHECK_EQ(weft__http_tls_keys_open(&asked, &options), 0);
        struct server server;
        struct client client =
            pair_open(&server, asked, echo, (struct client_options){.version = TLS1_2_VERSION});
        client_close(&client, true);
        CHECK_EQ(server_result(&server), 0);
        close(client.fd);
        weft__http_tls_keys_close(asked);
        SSL_CTX_free(clients);
    }
    clients = before;
}

/* OpenSSL's macro casts the const of its list away. */
static bool take_groups(SSL_CTX *context, const char *list)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", list);
    return SSL_CTX_set1_groups_list(context, copy) == 1;
}

/* A handshake over a large finite field, or a slow curve, costs the server much and its client
 * nothing. */
static void costly_key_exchanges_are_refused(void)
{
    static const char *const refused_ones[] = {"ffdhe2048", "ffdhe8192", "P-521", "X448"};
    static const char *const taken[] = {"X25519", "P-256", "P-384", "ffdhe8192:X25519"};
    SSL_CTX *before = clients;
    for (size_t i = 0; i < sizeof refused_ones / sizeof refused_ones[0]; i++) {
        clients = client_context();
        if (take_groups(clients, refused_ones[i]))
            refused(keys, (struct client_options){.version = TLS1_3_VERSION}, -EPROTO,
                    SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE);
        SSL_CTX_free(clients);
    }
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        clients = client_context();
        struct server server;
        if (take_groups(clients, taken[i])) {
            struct client client = pair_open(&server, keys, echo, ordinary);
            client_close(&client, true);
            CHECK_EQ(server_result(&server), 0);
            close(client.fd);
        }
        SSL_CTX_free(clients);
    }
    clients = before;
}

static void no_renegotiation(void)
{
    struct server server;
    char byte;
    struct client client =
        pair_open(&server, keys, echo, (struct client_options){.version = TLS1_2_VERSION});
    CHECK_EQ(SSL_renegotiate(client.ssl), 1);
    CHECK_EQ(client_handshake(&client), -1);
    CHECK_EQ(client.error, SSL_R_NO_RENEGOTIATION);
    CHECK(client_read(&client, &byte, 1) <= 0);
    hang_up(&client, false);
    CHECK(server_result(&server) < 0);
}

static void sessions_are_resumed(void)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (int i = 0; i < 2; i++) {
        SSL_SESSION *session = NULL;
        for (int round = 0; round < 2; round++) {
            struct server server;
            int fd = server_start(&server, keys, echo);
            struct client client = client_open(
                clients, fd, (struct client_options){.version = versions[i], .resume = session});
            CHECK_EQ(client_handshake(&client), 0);
            say_and_hear(&client, "a ticket is here by now");
            CHECK_EQ(SSL_session_reused(client.ssl), round);
            SSL_SESSION_free(session);
            session = SSL_get1_session(client.ssl);
            client_close(&client, true);
            CHECK_EQ(server_result(&server), 0);
            close(fd);
        }
        SSL_SESSION_free(session);
    }
}

/* The staple that a client gets if it asks: the bytes of `file`, or nothing. */
static void stapled(const char *file, bool expected)
{
    struct tls_keys *with;
    struct server server;
    char bytes[4096];
    unsigned char *got;
    weft_http_tls options = files();
    options.ocsp = in_folder(file);
    CHECK_EQ(weft__http_tls_keys_open(&with, &options), 0);
    FILE *whole = fopen(options.ocsp, "r");
    size_t size = fread(bytes, 1, sizeof bytes, whole);
    CHECK(size > 100 && size < sizeof bytes);
    fclose(whole);
    for (int asks = 0; asks < 2; asks++) {
        int fd = server_start(&server, with, echo);
        struct client client = client_open(clients, fd, ordinary);
        if (asks)
            CHECK_EQ(SSL_set_tlsext_status_type(client.ssl, TLSEXT_STATUSTYPE_ocsp), 1);
        CHECK_EQ(client_handshake(&client), 0);
        long there = SSL_get_tlsext_status_ocsp_resp(client.ssl, &got);
        CHECK_EQ(there, asks && expected ? (long)size : -1);
        CHECK(there < 0 || memcmp(got, bytes, size) == 0);
        client_close(&client, true);
        CHECK_EQ(server_result(&server), 0);
        close(fd);
    }
    weft__http_tls_keys_close(with);
}

/* One that is out of date would make clients refuse a certificate that is good. */
static void answers_about_the_certificate_are_stapled(void)
{
    stapled("staple.der", true);
    stapled("endless.der", true);
    stapled("stale.der", false);
}

int main(void)
{
    pair_begin();
    RUN_BOTH(old_versions_are_refused);
    RUN_BOTH(protocols_are_agreed_upon);
    RUN_BOTH(ciphers_are_chosen);
    RUN_BOTH(weak_ciphers_are_not_offered);
    RUN_BOTH(costly_key_exchanges_are_refused);
    RUN_BOTH(no_renegotiation);
    RUN_BOTH(sessions_are_resumed);
    RUN_BOTH(answers_about_the_certificate_are_stapled);
    pair_end();
    return 0;
}
