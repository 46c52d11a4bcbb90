/*
 * tls.c: TLS by OpenSSL, 1.1.1 or later.
 *
 * A session is OpenSSL's SSL between the server and a socket, and never waits: the socket does not
 * block, and what OpenSSL wants next is passed on as -EAGAIN and weft__http_tls_wants. Between two
 * calls a fiber may have moved to another thread. OpenSSL keeps nothing of a session in the thread
 * but its error queue, which SSL_get_error reads. So each call empties the queue first, and asks
 * SSL_get_error at once.
 *
 * The socket is behind a BIO of our own. OpenSSL's own one writes with write(2): a peer that went
 * away would raise SIGPIPE, which a library must not ignore for its program. The BIO also keeps the
 * socket's error, which OpenSSL passes on by errno only. Rejected: memory BIOs, with one more copy
 * of everything.
 *
 * Output. The BIO takes every record whole: what the socket has no room for is kept in `unsent`,
 * and sent before anything else. So OpenSSL never holds a record that is half out, whose bytes a
 * repeated SSL_write would count as those of another text. A write either takes bytes, which then
 * go out in order, or returns -EAGAIN and has taken none. The memory is bounded: a write begins
 * with nothing unsent and makes one record; what OpenSSL sends by itself (handshakes, answers to
 * KeyUpdates) finds no room beyond UNSENT_MAX.
 *
 * Input. OpenSSL reads a record in two steps, its head and the rest, and goes on with the next one
 * until there is data. One call would handle KeyUpdates, empty records and refused renegotiations,
 * as many as a client sends. So OpenSSL does not read ahead; the BIO does, into `ahead`, which
 * still costs one system call for a small record, and refuses records beyond two bounds:
 *
 *   TURN_RECORDS     the record budget of a turn (weft__http_tls_budget_renew), of any kind. Beyond
 *                    it a read returns -EAGAIN, and weft__http_tls_budget_spent says that it may go
 *                    on at once: others come first.
 *   NO_DATA_RECORDS  without a byte of data between them, once the handshake is complete. Beyond it
 *                    the session is broken (-EPROTO). BoringSSL allows as many, Go half of that.
 *
 * What is in `ahead` no longer makes the socket readable, and only a read shows whether it is a
 * whole record. Hence a reader goes on until -EAGAIN before it waits for the socket.
 *
 * Memory. A client that has sent nothing costs this record: the SSL is made when its first byte has
 * come. A handshake in progress takes 42 KB (two buffers of 16 KiB, and the SSL). An idle session
 * takes 14 KB, none of it a buffer (SSL_MODE_RELEASE_BUFFERS), and OpenSSL has no call to free any
 * of it; docs/design/http.md says what holds them.
 *
 * After an error a session is broken for good: every call returns the same error, and no alert is
 * sent at its end.
 *
 * Decisions. A client that offers protocols (ALPN), but neither http/1.1 nor http/1.0, is refused
 * as RFC 7301 says: it would not speak HTTP/1, and an attacker may have led it here in place of
 * another server with the same certificate. Sessions are resumed by tickets, so there is no cache
 * to lock; the key of the tickets is made at the start and lives with the listener. An encrypted
 * private key is refused: OpenSSL would ask the terminal for the password.
 */
#include "http/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <weft/fd.h>

#include "http/sys.h"

/* Two records of the largest size: more than a write and the answers around it need. */
enum { UNSENT_MAX = 2 * (SSL3_RT_MAX_PLAIN_LENGTH + SSL3_RT_MAX_ENCRYPTED_OVERHEAD) };

enum { TURN_RECORDS = 32, NO_DATA_RECORDS = 32, AHEAD = 4096 };

struct tls_keys {
    SSL_CTX *context;
    BIO_METHOD *method;
    unsigned char *staple; /* an OCSP response in DER; NULL */
    int staple_size;
    int64_t staple_until; /* seconds since 1970 */
};

struct tls {
    struct tls_keys *keys;
    SSL *ssl; /* NULL: nothing has come yet */
    int fd;
    int socket; /* its error in this call: 0; -ECONNRESET, also at its end; another one */
    int broken; /* the error that ended the session; 0 */
    int wants;
    bool agreed;  /* the handshake is complete */
    bool ended;   /* the alert that nothing more will be written is sent, or in `unsent` */
    char *unsent; /* records that the socket had no room for; NULL: none */
    size_t unsent_size, unsent_at; /* at: how much of it was sent */
    char *ahead;                   /* what was read beyond the record; NULL: nothing */
    size_t ahead_size, ahead_at;
    int records; /* begun in this turn */
    int no_data; /* begun since there was data */
    bool budget_spent;
};

/* ---- the socket, as OpenSSL sees it ---- */

static int finish_bio(struct tls *tls, int64_t result, size_t *done)
{
    if (result > 0) {
        *done = (size_t)result;
        return 1;
    }
    int error = result == 0 ? -ECONNRESET : (int)result;
    if (error != -EAGAIN)
        tls->socket = error;
    /* OpenSSL reads errno: a client that has gone before its tickets were sent is no error. */
    errno = -error;
    return 0;
}

/* Keeps bytes that the socket did not take. */
static int keep_unsent(struct tls *tls, const char *data, size_t size)
{
    char *larger = weft__http_resize(tls->unsent, tls->unsent_size + size);
    if (larger == NULL)
        return -ENOMEM;
    memcpy(larger + tls->unsent_size, data, size);
    tls->unsent = larger;
    tls->unsent_size += size;
    return 0;
}

static int64_t send_bytes(int fd, const char *data, size_t size)
{
    /* iovec serves both directions, so its pointer is not const. */
    struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    return weft__http_send(fd, &piece, 1);
}

static int bio_write(BIO *bio, const char *data, size_t size, size_t *written)
{
    struct tls *tls = BIO_get_data(bio);
    int64_t sent = 0;
    BIO_clear_retry_flags(bio);
    if (tls->unsent_size >= UNSENT_MAX) {
        BIO_set_retry_write(bio);
        return finish_bio(tls, -EAGAIN, written);
    }
    if (tls->unsent_size == 0)
        sent = send_bytes(tls->fd, data, size);
    if (sent == -EAGAIN)
        sent = 0;
    if (sent >= 0 && (size_t)sent < size) {
        int error = keep_unsent(tls, data + sent, size - (size_t)sent);
        sent = error != 0 ? error : (int64_t)size;
    }
    return finish_bio(tls, sent, written);
}

/* Called for each head of a record. */
static void on_message(int written, int version, int type, const void *data, size_t size, SSL *ssl,
                       void *arg)
{
    struct tls *tls = arg;
    (void)version, (void)data, (void)size, (void)ssl;
    if (written == 0 && type == SSL3_RT_HEADER) {
        tls->records++;
        tls->no_data += tls->agreed;
    }
}

static void free_ahead(struct tls *tls)
{
    weft__http_free(tls->ahead);
    tls->ahead = NULL;
    tls->ahead_size = tls->ahead_at = 0;
}

static int64_t receive(struct tls *tls, char *data, size_t size)
{
    if (tls->ahead_at == tls->ahead_size) {
        if (size < AHEAD && tls->ahead == NULL)
            tls->ahead = weft__http_allocate(AHEAD);
        if (size >= AHEAD || tls->ahead == NULL)
            return weft__http_receive(tls->fd, data, size);
        int64_t got = weft__http_receive(tls->fd, tls->ahead, AHEAD);
        if (got <= 0)
            return got;
        tls->ahead_at = 0;
        tls->ahead_size = (size_t)got;
    }
    size_t there = tls->ahead_size - tls->ahead_at;
    if (there > size)
        there = size;
    memcpy(data, tls->ahead + tls->ahead_at, there);
    tls->ahead_at += there;
    return (int64_t)there;
}

static int bio_read(BIO *bio, char *data, size_t size, size_t *read)
{
    struct tls *tls = BIO_get_data(bio);
    int64_t got;
    if (tls->no_data > NO_DATA_RECORDS) {
        got = -EPROTO;
    } else if (tls->records > TURN_RECORDS) {
        got = -EAGAIN;
        tls->budget_spent = true;
    } else {
        got = receive(tls, data, size);
    }
    BIO_clear_retry_flags(bio);
    if (got == -EAGAIN)
        BIO_set_retry_read(bio);
    return finish_bio(tls, got, read);
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing to do; other commands are not supported */
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "weft");
    if (method == NULL)
        return NULL;
    if (BIO_meth_set_write_ex(method, bio_write) == 1 &&
        BIO_meth_set_read_ex(method, bio_read) == 1 &&
        BIO_meth_set_ctrl(method, bio_control) == 1 && BIO_meth_set_create(method, bio_create) == 1)
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- keys ---- */

/* Reports on stderr what is wrong with `file` (or another option), and returns the error for it.
 * `text` NULL: OpenSSL's reason. */
static int complain(const char *file, const char *text)
{
    /* The first error is the cause; later ones say where it was met. */
    unsigned long code = ERR_peek_error();
    int error = -EINVAL;
    if (ERR_GET_LIB(code) == ERR_LIB_SYS && ERR_GET_REASON(code) != 0) {
        error = -ERR_GET_REASON(code);
        text = weft_strerror(error);
    } else if (text == NULL) {
        text = ERR_reason_error_string(code);
    }
    fprintf(stderr, "weft: http: %s: %s\n", file, text != NULL ? text : "it cannot be used");
    ERR_clear_error();
    return error;
}

static int no_password(char *text, int size, int for_writing, void *data)
{
    (void)text, (void)size, (void)for_writing;
    *(bool *)data = true;
    return -1;
}

/* A plain reason why a key cannot be used. NULL: OpenSSL's is plain enough. */
static const char *key_trouble(bool encrypted)
{
    unsigned long code = ERR_peek_error();
    if (encrypted)
        return "the key is encrypted";
    if (ERR_GET_LIB(code) == ERR_LIB_X509) /* two kinds of mismatch */
        return "the key is not that of the certificate";
    if (ERR_GET_LIB(code) == ERR_LIB_SYS)
        return NULL;
    return "there is no private key in it";
}

static int load_keys(SSL_CTX *context, const weft_http_tls *options)
{
    bool encrypted = false;
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_default_passwd_cb_userdata(context, &encrypted);
    int error = 0;
    if (SSL_CTX_use_certificate_chain_file(context, options->certificate) != 1) {
        bool none = ERR_GET_REASON(ERR_peek_error()) == PEM_R_NO_START_LINE;
        error = complain(options->certificate, none ? "there is no certificate in it" : NULL);
    } else if (SSL_CTX_use_PrivateKey_file(context, options->key, SSL_FILETYPE_PEM) != 1) {
        error = complain(options->key, key_trouble(encrypted));
    } else if (SSL_CTX_check_private_key(context) != 1) {
        error = complain(options->key, "the key is not that of the certificate");
    }
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    return error;
}

/* Until when an OCSP response is valid, in seconds since 1970: until its first statement
 * expires. */
static int64_t holds_until(OCSP_BASICRESP *basic)
{
    int64_t until = INT64_MAX;
    for (int i = 0; i < OCSP_resp_count(basic); i++) {
        ASN1_GENERALIZEDTIME *next = NULL;
        int days, seconds;
        (void)OCSP_single_get0_status(OCSP_resp_get0(basic, i), NULL, NULL, NULL, &next);
        if (next == NULL || ASN1_TIME_diff(&days, &seconds, NULL, next) != 1)
            continue;
        int64_t end = weft__http_seconds() + (int64_t)days * 86400 + seconds;
        until = end < until ? end : until;
    }
    return until;
}

static int read_staple(struct tls_keys *keys, OCSP_RESPONSE *response, const char *file)
{
    OCSP_BASICRESP *basic = OCSP_response_get1_basic(response); /* NULL: an error response */
    if (basic == NULL)
        return complain(file, "the OCSP response says nothing of a certificate");
    keys->staple_until = holds_until(basic);
    OCSP_BASICRESP_free(basic);
    keys->staple_size = i2d_OCSP_RESPONSE(response, &keys->staple);
    return keys->staple_size > 0 ? 0 : -ENOMEM;
}

static int load_staple(struct tls_keys *keys, const char *file)
{
    BIO *bio = BIO_new_file(file, "rb");
    if (bio == NULL)
        return complain(file, NULL);
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE_bio(bio, NULL);
    BIO_free(bio);
    if (response == NULL)
        return complain(file, "there is no OCSP response in it");
    int error = read_staple(keys, response, file);
    OCSP_RESPONSE_free(response);
    return error;
}

/* Staples the response for a client that asked for one, unless it is out of date: without one the
 * client may ask the authority. */
static int give_staple(SSL *ssl, void *data)
{
    const struct tls_keys *keys = data;
    if (weft__http_seconds() >= keys->staple_until)
        return SSL_TLSEXT_ERR_NOACK;
    unsigned char *copy = OPENSSL_memdup(keys->staple, (size_t)keys->staple_size);
    if (copy == NULL)
        return SSL_TLSEXT_ERR_NOACK;
    SSL_set_tlsext_status_ocsp_resp(ssl, copy, keys->staple_size); /* the session owns it now */
    return SSL_TLSEXT_ERR_OK;
}

static int set_up_staple(struct tls_keys *keys, const char *file)
{
    int error = file != NULL ? load_staple(keys, file) : 0;
    if (keys->staple != NULL) {
        SSL_CTX_set_tlsext_status_cb(keys->context, give_staple);
        SSL_CTX_set_tlsext_status_arg(keys->context, keys);
    }
    return error;
}

static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_size,
                           const unsigned char *offered, unsigned int size, void *data)
{
    static const unsigned char ours[] = "\10http/1.1\10http/1.0"; /* each behind its size */
    unsigned char *found;
    (void)ssl, (void)data;
    if (SSL_select_next_proto(&found, chosen_size, ours, sizeof ours - 1, offered, size) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

/* For TLS 1.2: forward secrecy and authenticated encryption. OpenSSL's own list also has CBC with a
 * MAC behind it, which timing attacks have broken again and again, and RSA as a key exchange. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

/* Key exchanges that cost the server at most half a millisecond. OpenSSL's own list also has the
 * finite fields of RFC 7919: a client that offers ffdhe8192 alone makes the server compute for 90
 * ms, and need not compute anything itself. The hybrid of ML-KEM exists from OpenSSL 3.5 on; before
 * that a list with its name is refused as a whole. */
#define GROUPS "X25519:P-256:P-384"

static bool set_groups(SSL_CTX *context)
{
    /* Not const, since OpenSSL's macro casts const away. */
    char with_hybrid[] = "X25519MLKEM768:" GROUPS, without[] = GROUPS;
    if (SSL_CTX_set1_groups_list(context, with_hybrid) == 1)
        return true;
    ERR_clear_error();
    return SSL_CTX_set1_groups_list(context, without) == 1;
}

static int set_up_context(SSL_CTX *context, const weft_http_tls *options)
{
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    int lowest = options->min_version == 13 ? TLS1_3_VERSION : TLS1_2_VERSION;
    if (SSL_CTX_set_min_proto_version(context, lowest) != 1)
        return complain("min_version", NULL);
    const char *ciphers = options->ciphers != NULL ? options->ciphers : CIPHERS;
    if (SSL_CTX_set_cipher_list(context, ciphers) != 1)
        return complain(ciphers, NULL);
    if (!set_groups(context))
        return complain("key exchange", NULL);
    return load_keys(context, options);
}

static bool are_valid(const weft_http_tls *options)
{
    if (options == NULL || options->certificate == NULL || options->key == NULL)
        return false;
    for (size_t i = 0; i < sizeof options->reserved / sizeof *options->reserved; i++)
        if (options->reserved[i] != 0)
            return false;
    return options->min_version == 0 || options->min_version == 12 || options->min_version == 13;
}

int weft__http_tls_keys_open(struct tls_keys **keys, const weft_http_tls *options)
{
    if (!are_valid(options))
        return -EINVAL;
    struct tls_keys *new = weft__http_allocate(sizeof *new);
    if (new == NULL)
        return -ENOMEM;
    ERR_clear_error();
    *new = (struct tls_keys){.context = SSL_CTX_new(TLS_server_method()), .method = make_method()};
    int error = -ENOMEM;
    if (new->context != NULL &&new->method != NULL)
        error = set_up_context(new->context, options);
    if (error == 0)
        error = set_up_staple(new, options->ocsp);
    ERR_clear_error();
    if (error == 0)
        *keys = new;
    else
        weft__http_tls_keys_close(new);
    return error;
}

void weft__http_tls_keys_close(struct tls_keys *keys)
{
    if (keys == NULL)
        return;
    SSL_CTX_free(keys->context);
    BIO_meth_free(keys->method);
    OPENSSL_free(keys->staple);
    weft__http_free(keys);
}

/* ---- sessions ---- */

struct tls *weft__http_tls_open(struct tls_keys *keys, int fd)
{
    struct tls *tls = weft__http_allocate(sizeof *tls);
    if (tls != NULL)
        *tls = (struct tls){.keys = keys, .fd = fd, .wants = WEFT_READABLE};
    return tls;
}

/* Makes the SSL, if there is something for it to read. Returns 0; -EAGAIN; -EPROTOTYPE if the
 * client speaks plain HTTP (OpenSSL recognizes five methods only); or the socket's error. */
static int begin_session(struct tls *tls)
{
    char first;
    int64_t got = weft__http_peek(tls->fd, &first, 1);
    if (got <= 0)
        return got == 0 ? -ECONNRESET : (int)got;
    if (first >= 'A' && first <= 'Z') /* no record begins with a letter */
        return -EPROTOTYPE;
    ERR_clear_error();
    SSL *ssl = SSL_new(tls->keys->context);
    BIO *bio = BIO_new(tls->keys->method);
    if (ssl == NULL || bio == NULL) {
        BIO_free(bio);
        SSL_free(ssl);
        ERR_clear_error();
        return -ENOMEM;
    }
    BIO_set_data(bio, tls);
    SSL_set_bio(ssl, bio, bio); /* the session owns it now */
    SSL_set_msg_callback(ssl, on_message);
    SSL_set_msg_callback_arg(ssl, tls);
    SSL_set_accept_state(ssl);
    tls->ssl = ssl;
    return 0;
}

/* The error of a call that returned `result` (not 1). */
static int trouble(struct tls *tls, int result)
{
    int reason = SSL_get_error(tls->ssl, result);
    if (tls->ahead_at == tls->ahead_size) /* the wait may be long */
        free_ahead(tls);
    if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) {
        tls->wants = reason == SSL_ERROR_WANT_READ ? WEFT_READABLE : WEFT_WRITABLE;
        return -EAGAIN;
    }
    tls->broken = reason == SSL_ERROR_SYSCALL && tls->socket != 0 ? tls->socket : -EPROTO;
    ERR_clear_error();
    return tls->broken;
}

/* Comes before each call of OpenSSL. */
static void begin(struct tls *tls)
{
    ERR_clear_error();
    tls->socket = 0;
}

int weft__http_tls_flush(struct tls *tls)
{
    while (tls->broken == 0 && tls->unsent_at < tls->unsent_size) {
        int64_t sent =
            send_bytes(tls->fd, tls->unsent + tls->unsent_at, tls->unsent_size - tls->unsent_at);
        if (sent == -EAGAIN) {
            tls->wants = WEFT_WRITABLE;
            return -EAGAIN;
        }
        if (sent < 0)
            tls->broken = (int)sent;
        else
            tls->unsent_at += (size_t)sent;
    }
    weft__http_free(tls->unsent);
    tls->unsent = NULL;
    tls->unsent_size = tls->unsent_at = 0;
    return tls->broken;
}

int weft__http_tls_handshake(struct tls *tls)
{
    (void)weft__http_tls_flush(tls);
    if (tls->broken != 0)
        return tls->broken;
    int error = tls->ssl == NULL ? begin_session(tls) : 0;
    if (error != 0) {
        tls->broken = error != -EAGAIN ? error : 0;
        return error;
    }
    begin(tls);
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1)
        return trouble(tls, result);
    tls->agreed = true;
    return 0;
}

int64_t weft__http_tls_read(struct tls *tls, void *data, size_t size)
{
    size_t got = 0;
    (void)weft__http_tls_flush(tls);
    if (tls->broken != 0 || size == 0)
        return tls->broken;
    begin(tls);
    int result = SSL_read_ex(tls->ssl, data, size, &got);
    if (result == 1) {
        tls->no_data = 0;
        return (int64_t)got;
    }
    if (SSL_get_error(tls->ssl, result) == SSL_ERROR_ZERO_RETURN)
        return 0;
    return trouble(tls, result);
}

int64_t weft__http_tls_write(struct tls *tls, const void *data, size_t size)
{
    size_t sent = 0;
    int error = weft__http_tls_flush(tls);
    if (error != 0 || size == 0)
        return error;
    begin(tls);
    int result = SSL_write_ex(tls->ssl, data, size, &sent);
    return result == 1 ? (int64_t)sent : trouble(tls, result);
}

void weft__http_tls_budget_renew(struct tls *tls)
{
    tls->records = 0;
    tls->budget_spent = false;
}

bool weft__http_tls_budget_spent(const struct tls *tls)
{
    return tls->budget_spent;
}

int weft__http_tls_wants(const struct tls *tls)
{
    return tls->unsent_size > 0 ? tls->wants | WEFT_WRITABLE : tls->wants;
}

int weft__http_tls_end(struct tls *tls)
{
    if (tls->broken == 0 && tls->agreed && !tls->ended) {
        begin(tls);
        int result = SSL_shutdown(tls->ssl);
        if (result < 0)
            return trouble(tls, result);
        tls->ended = true;
    }
    return weft__http_tls_flush(tls);
}

void weft__http_tls_close(struct tls *tls)
{
    if (tls == NULL)
        return;
    (void)weft__http_tls_end(tls);
    weft__http_free(tls->unsent);
    free_ahead(tls);
    SSL_free(tls->ssl);
    weft__http_free(tls);
    ERR_clear_error();
}
