/*
 * tls_none.c: replaces tls.c where the library is built without OpenSSL. No keys can be opened, so
 * there are no sessions.
 */
#include "http/tls.h"

#include <errno.h>

int weft__http_tls_keys_open(struct tls_keys **keys, const weft_http_tls *options)
{
    (void)keys, (void)options;
    return -ENOTSUP;
}

void weft__http_tls_keys_close(struct tls_keys *keys)
{
    (void)keys;
}

struct tls *weft__http_tls_open(struct tls_keys *keys, int fd)
{
    (void)keys, (void)fd;
    return NULL;
}

int weft__http_tls_handshake(struct tls *tls)
{
    (void)tls;
    return -ENOTSUP;
}

int64_t weft__http_tls_read(struct tls *tls, void *data, size_t size)
{
    (void)tls, (void)data, (void)size;
    return -ENOTSUP;
}

int64_t weft__http_tls_write(struct tls *tls, const void *data, size_t size)
{
    (void)tls, (void)data, (void)size;
    return -ENOTSUP;
}

int weft__http_tls_flush(struct tls *tls)
{
    (void)tls;
    return -ENOTSUP;
}

void weft__http_tls_budget_renew(struct tls *tls)
{
    (void)tls;
}

bool weft__http_tls_budget_spent(const struct tls *tls)
{
    (void)tls;
    return false;
}

int weft__http_tls_wants(const struct tls *tls)
{
    (void)tls;
    return 0;
}

int weft__http_tls_end(struct tls *tls)
{
    (void)tls;
    return -ENOTSUP;
}

void weft__http_tls_close(struct tls *tls)
{
    (void)tls;
}
