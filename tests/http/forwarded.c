/*
 * forwarded.c: the client by X-Forwarded-For and Forwarded. The connection is from the proxy
 * 10.0.0.1; 10.0.0.0/8 and 2001:db8:1::/48 are trusted.
 */
#include "http/forwarded.h"

#include <arpa/inet.h>

#include "test.h"

static struct networks *trusted;

static const char *client_of(weft_http_forwarding which, struct field *fields, int count)
{
    static char text[80];
    char host[INET6_ADDRSTRLEN];
    struct peer client;
    CHECK(weft__http_peer_parse("10.0.0.1", &client));
    client.trusted = true;
    weft__http_forwarded(which, fields, count, trusted, &client);
    CHECK_EQ(client.trusted, weft__http_networks_have(trusted, &client));
    CHECK(inet_ntop(client.family == 4 ? AF_INET : AF_INET6, client.ip, host, sizeof host) != NULL);
    snprintf(text, sizeof text, client.port != 0 ? "%s %d" : "%s", host, client.port);
    return text;
}

static struct field field_of(const char *name, const char *value)
{
    struct field field = {.name_size = (uint32_t)strlen(name),
                          .value_size = (uint32_t)strlen(value)};
    field.name = strdup(name);
    field.value = malloc(strlen(value) + 1);
    CHECK(field.name != NULL && field.value != NULL);
    memcpy(field.value, value, strlen(value) + 1);
    return field;
}

static void expect(weft_http_forwarding which, const char *value, const char *client)
{
    struct field field =
        field_of(which == WEFT_HTTP_FORWARDED ? "forwarded" : "x-forwarded-FOR", value);
    const char *found = client_of(which, &field, 1);
    if (strcmp(found, client) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s, not %s", value, found, client);
    free(field.name);
    free(field.value);
}

#define PLAIN(value, client) expect(WEFT_HTTP_X_FORWARDED_FOR, value, client)
#define PAIRS(value, client) expect(WEFT_HTTP_FORWARDED, value, client)

static void the_last_stranger_is_the_client(void)
{
    PLAIN("192.0.2.1", "192.0.2.1");
    PLAIN("192.0.2.1:4711", "192.0.2.1 4711");
    PLAIN("2001:db8::1", "2001:db8::1");
    PLAIN("[2001:db8::1]", "2001:db8::1");
    PLAIN("[2001:db8::1]:80", "2001:db8::1 80");
    PLAIN("::ffff:192.0.2.1", "192.0.2.1");
    /* The client's own bytes are in front. */
    PLAIN("1.2.3.4, 192.0.2.1", "192.0.2.1");
    PLAIN("10.0.0.9,192.0.2.1", "192.0.2.1");
    PLAIN("nonsense\" ,192.0.2.1", "192.0.2.1");
    PLAIN(",,,192.0.2.1\t ", "192.0.2.1");
    /* Several proxies. */
    PLAIN("192.0.2.1, 10.0.0.2", "192.0.2.1");
    PLAIN("1.2.3.4, 192.0.2.1, 10.0.0.2, 2001:db8:1::5", "192.0.2.1");
    /* All trusted: the first. */
    PLAIN("10.0.0.3, 10.0.0.2", "10.0.0.3");
    PLAIN("10.0.0.3", "10.0.0.3");
}

static void what_cannot_be_read_ends_the_chain(void)
{
    PLAIN("", "10.0.0.1");
    PLAIN("unknown", "10.0.0.1");
    PLAIN("unix:", "10.0.0.1");
    PLAIN("1.2.3.4, unknown", "10.0.0.1");
    PLAIN("1.2.3.4,", "10.0.0.1"); /* a proxy that names no client */
    PLAIN("1.2.3.4, , 10.0.0.2", "10.0.0.2");
    PLAIN("192.0.2.1:", "10.0.0.1");
    PLAIN("192.0.2.1:65536", "10.0.0.1");
    PLAIN("192.0.2.1:80x", "10.0.0.1");
    PLAIN("192.0.2.1 80", "10.0.0.1");
    PLAIN("[192.0.2.1]", "10.0.0.1");
    PLAIN("[2001:db8::1", "10.0.0.1");
    PLAIN("[2001:db8::1]x", "10.0.0.1");
    PLAIN("[2001:db8::1]:_x", "10.0.0.1");
    PLAIN("\"192.0.2.1\"", "10.0.0.1");
    PLAIN("192.0.2.1, 192.0.2.1111111111111111111111111111111111111111111111111111111111111",
          "10.0.0.1");
    PAIRS("", "10.0.0.1");
    PAIRS("for=unknown", "10.0.0.1");
    PAIRS("for=1.2.3.4, for=_hidden", "10.0.0.1");
    PAIRS("for=1.2.3.4, proto=http", "10.0.0.1");
    PAIRS("for=1.2.3.4,", "10.0.0.1");
    PAIRS("for=1.2.3.4;for=192.0.2.1", "10.0.0.1");
    PAIRS("for=", "10.0.0.1");
    PAIRS("for=\"\"", "10.0.0.1");
    PAIRS("for", "10.0.0.1");
    PAIRS("=192.0.2.1", "10.0.0.1");
    PAIRS("for =192.0.2.1", "10.0.0.1");
    PAIRS("for= 192.0.2.1", "10.0.0.1");
    PAIRS("for=192.0.2.1 proto=http", "10.0.0.1");
    PAIRS("for=192.0.2.1;proto", "10.0.0.1");
    PAIRS("for=2001:db8::1", "10.0.0.1");     /* without quotes and brackets */
    PAIRS("for=\"2001:db8::1\"", "10.0.0.1"); /* without brackets */
    PAIRS("for=\"[192.0.2.1]\"", "10.0.0.1");
    PAIRS("for=\"192.0.2.1", "10.0.0.1");
    PAIRS("for=192.0.2.1\"", "10.0.0.1");
    PAIRS("for=\"192.0.2.1\\\"", "10.0.0.1");
    PAIRS("for=\"192.0.2.1:_\"", "10.0.0.1");
    PAIRS("for=\"192.0.2.1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
          "10.0.0.1");
}

static void pairs_are_read(void)
{
    PAIRS("for=192.0.2.1", "192.0.2.1");
    PAIRS("For=\"192.0.2.1:80\"", "192.0.2.1 80");
    PAIRS("for=\"192.0.2.1:_port\"", "192.0.2.1");
    PAIRS("for=\"[2001:db8::1]\"", "2001:db8::1");
    PAIRS("for=\"[2001:db8::1]:4711\";proto=https", "2001:db8::1 4711");
    PAIRS("proto=https;for=192.0.2.1;by=203.0.113.43", "192.0.2.1");
    PAIRS("proto=https ; FOR=192.0.2.1; host=\"a,b;for=1.2.3.4\"", "192.0.2.1");
    PAIRS("host=\"\\\",for=1.2.3.4,\\\\\";for=192.0.2.1", "192.0.2.1");
    PAIRS("host=\"for=1.2.3.4,\\\"\";for=192.0.2.1", "192.0.2.1");
    PAIRS("for=\"19\\2.0.2.1\"", "192.0.2.1");
    PAIRS("for=1.2.3.4, for=192.0.2.1;by=10.0.0.1, for=10.0.0.2", "192.0.2.1");
    PAIRS("for=1.2.3.4,for=_hidden,for=\"[2001:db8:1::1]\"", "2001:db8:1::1");
    /* A quote that a client leaves open does not swallow what proxies add. */
    PAIRS("for=\"10.0.0.7;x=, for=192.0.2.1", "192.0.2.1");
    PAIRS("for=\"10.0.0.7;x=, for=\"192.0.2.1\"", "192.0.2.1");
    PAIRS("\\\\\\\", for=192.0.2.1", "192.0.2.1");
}

/* Fields are a chain as their elements are; other fields say nothing. */
static void fields_are_one_chain(void)
{
    struct field fields[] = {
        field_of("X-Forwarded-For", "1.2.3.4"),
        field_of("Forwarded", "for=5.6.7.8"),
        field_of("X-Forwarded-For", "192.0.2.1, 10.0.0.4"),
        field_of("X-Real-IP", "5.6.7.8"),
        field_of("X-Forwarded-For", "10.0.0.3"),
        field_of("X-Forwarded-Fo", "5.6.7.8"),
    };
    CHECK_STR(client_of(WEFT_HTTP_X_FORWARDED_FOR, fields, 6), "192.0.2.1");
    CHECK_STR(client_of(WEFT_HTTP_X_FORWARDED_FOR, fields, 2), "1.2.3.4");
    CHECK_STR(client_of(WEFT_HTTP_FORWARDED, fields, 6), "5.6.7.8");
    CHECK_STR(client_of(WEFT_HTTP_FORWARDED, fields, 1), "10.0.0.1");
    CHECK_STR(client_of(WEFT_HTTP_FORWARDED, fields, 0), "10.0.0.1");
    for (int i = 0; i < 6; i++) {
        free(fields[i].name);
        free(fields[i].value);
    }
}

int main(void)
{
    CHECK_EQ(weft__http_networks_open(&trusted, "10.0.0.0/8, 2001:db8:1::/48"), 0);
    RUN(the_last_stranger_is_the_client);
    RUN(what_cannot_be_read_ends_the_chain);
    RUN(pairs_are_read);
    RUN(fields_are_one_chain);
    weft__http_networks_close(trusted);
    return 0;
}
