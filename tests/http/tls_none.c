/*
 * tls_none.c: a library that was built without OpenSSL refuses TLS.
 */
#include "http/tls.h"

#include "test.h"

static void no_keys(void)
{
    struct tls_keys *keys;
    weft_http_tls options = {.certificate = "chain.pem", .key = "key.pem"};
    CHECK_EQ(weft__http_tls_keys_open(&keys, &options), -ENOTSUP);
}

static void no_listener(void)
{
    weft_http_server *server;
    weft_http_tls tls = {.certificate = "chain.pem", .key = "key.pem"};
    CHECK_EQ(weft_http_open(&server, NULL), 0);
    CHECK_EQ(weft_http_listen_tls(server, "tcp:127.0.0.1:0", NULL, &tls), -ENOTSUP);
    weft_http_close(server);
}

int main(void)
{
    RUN(no_keys);
    RUN(no_listener);
    return 0;
}
