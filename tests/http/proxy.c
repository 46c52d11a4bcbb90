/*
 * proxy.c: headers of the PROXY protocol, without a server: each whole, and in all pieces.
 */
#include "http/proxy.h"

#include <arpa/inet.h>

#include "test.h"

#define V2 "\r\n\r\n\0\r\nQUIT\n"

/* "192.0.2.1 40000", "" if the address is unknown. */
static const char *told(const struct peer *peer)
{
    static char text[80];
    char host[INET6_ADDRSTRLEN];
    if (peer->family == 0)
        return "";
    CHECK(inet_ntop(peer->family == 4 ? AF_INET : AF_INET6, peer->ip, host, sizeof host) != NULL);
    snprintf(text, sizeof text, "%s %d", host, peer->port);
    return text;
}

/* Gives the first `size` bytes from memory that ends there, so that a read beyond it is seen. */
static int64_t parse(const char *data, size_t size, struct peer *client)
{
    char *copy = malloc(size + (size == 0));
    CHECK(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    int64_t result = weft__http_parse_proxy(copy, size, client);
    free(copy);
    return result;
}

/* A header that is fine, with what may follow it: no piece of it is refused, or enough. */
static void expect(const char *data, size_t size, const char *client)
{
    struct peer peer;
    char more[HTTP_PROXY_MAX + 10];
    for (size_t piece = 0; piece < size; piece++)
        CHECK_EQ(parse(data, piece, &peer), 0);
    CHECK_EQ(parse(data, size, &peer), size);
    CHECK_STR(told(&peer), client);
    memcpy(more, data, size);
    memcpy(more + size, "\r\nPROXY \n", 9);
    CHECK_EQ(parse(more, size + 9, &peer), size);
    CHECK_STR(told(&peer), client);
}

static void lines_are_read(void)
{
    static const struct {
        const char *line, *client;
    } rows[] = {
        {"PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n", "192.0.2.1 40000"},
        {"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255 65535"},
        {"PROXY TCP4 192.0.2.1 198.51.100.1 0 0\r\n", "192.0.2.1 0"},
        {"PROXY TCP6 2001:db8::1 2001:db8::2 40000 443\r\n", "2001:db8::1 40000"},
        {"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", "192.0.2.1 1"},
        {"PROXY UNKNOWN\r\n", ""},
        {"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
         ""}, /* the longest */
        {"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535"},
    };
    CHECK_EQ(strlen(rows[6].line), HTTP_PROXY_LINE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect(rows[i].line, strlen(rows[i].line), rows[i].client);
}

static void bad_lines_are_refused(void)
{
    static const char *const lines[] = {
        "GET / HTTP/1.1\r\n",
        "proxy UNKNOWN\r\n",
        "PROXY\r\n",
        "PROXYTCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY \r\n",
        "PROXY unknown\r\n",
        "PROXY  UNKNOWN\r\n",
        "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 192.0.2.1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1  192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 99999999999 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2x\r\n",
        "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP6 2001:db8::1%eth0 2001:db8::2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\rX",
        "PROXY TCP4 192.0.2.1\t192.0.2.2 1 2\r\n",
        "PROXY UNKNOWN \x01\r\n",
        "PROXY UNKNOWN \x80\r\n",
    };
    struct peer peer;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (parse(lines[i], strlen(lines[i]), &peer) != -EBADMSG)
            test_fail(__FILE__, __LINE__, "%s was taken", lines[i]);
    CHECK_EQ(parse("PROXY UNKNOWN \0\r\n", 17, &peer), -EBADMSG);
    /* A line without an end: refused as soon as it is too long. */
    char line[200];
    memset(line, 'x', sizeof line);
    memcpy(line, "PROXY UNKNOWN ", 14);
    CHECK_EQ(parse(line, HTTP_PROXY_LINE - 2, &peer), 0);
    CHECK_EQ(parse(line, HTTP_PROXY_LINE - 1, &peer), -EBADMSG);
    CHECK_EQ(parse(line, sizeof line, &peer), -EBADMSG);
}

/* A header of version 2; the size. */
static size_t binary(char *data, int command, int family, size_t length, const char *addresses,
                     size_t size)
{
    memset(data, 0, 16 + length);
    memcpy(data, V2, 12);
    data[12] = (char)command;
    data[13] = (char)family;
    data[14] = (char)(length >> 8);
    data[15] = (char)length;
    memcpy(data + 16, addresses, size);
    return 16 + length;
}

static const char ipv4[] = "\300\0\2\1\306\63\144\1\234\100\1\273"; /* 192.0.2.1 ... 40000 443 */
static const char ipv6[] = "\40\1\15\270\0\0\0\0\0\0\0\0\0\0\0\1"
                           "\40\1\15\270\0\0\0\0\0\0\0\0\0\0\0\2\234\100\1\273";
static const char mapped[] = "\0\0\0\0\0\0\0\0\0\0\377\377\300\0\2\1"
                             "\0\0\0\0\0\0\0\0\0\0\377\377\306\63\144\1\234\100\1\273";

static void binary_headers_are_read(void)
{
    static const struct {
        int command, family;
        size_t length;
        const char *addresses;
        size_t size;
        const char *client;
    } rows[] = {
        {0x21, 0x11, 12, ipv4, 12, "192.0.2.1 40000"},
        {0x21, 0x21, 36, ipv6, 36, "2001:db8::1 40000"},
        {0x21, 0x21, 36, mapped, 36, "192.0.2.1 40000"},
        {0x21, 0x11, 30, ipv4, 12, "192.0.2.1 40000"}, /* with TLVs */
        {0x21, 0x21, HTTP_PROXY_MAX - 16, ipv6, 36, "2001:db8::1 40000"},
        {0x21, 0x00, 0, "", 0, ""},     /* unspecified */
        {0x21, 0x00, 12, ipv4, 12, ""}, /* the same: what follows means nothing */
        {0x21, 0x01, 0, "", 0, ""},
        {0x21, 0x10, 12, ipv4, 12, ""},
        {0x21, 0x12, 12, ipv4, 12, ""}, /* of UDP */
        {0x21, 0x31, 216, "/run/s", 6, ""},
        {0x20, 0x00, 0, "", 0, ""}, /* LOCAL */
        {0x20, 0x11, 12, ipv4, 12, ""},
        {0x20, 0x11, 0, "", 0, ""},
        {0x20, 0xff, 20, ipv4, 12, ""},
    };
    char data[HTTP_PROXY_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size = binary(data, rows[i].command, rows[i].family, rows[i].length,
                             rows[i].addresses, rows[i].size);
        expect(data, size, rows[i].client);
    }
}

static void bad_binary_headers_are_refused(void)
{
    static const struct {
        int command, family;
        size_t length, seen; /* of how many bytes it is known */
    } rows[] = {
        {0x11, 0x11, 12, 13}, /* version 1 */
        {0x31, 0x11, 12, 13}, /* version 3 */
        {0x22, 0x11, 12, 13}, /* no such command */
        {0x21, 0x41, 12, 14}, /* no such family */
        {0x21, 0x13, 12, 14}, /* no such transport */
        {0x21, 0x11, 11, 16}, /* no room for the addresses */
        {0x21, 0x21, 35, 16},
        {0x21, 0x31, 215, 16},
        {0x21, 0x11, HTTP_PROXY_MAX - 15, 16}, /* too long */
        {0x20, 0x00, 65535, 16},
    };
    static char data[16 + 65535];
    struct peer peer;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)binary(data, rows[i].command, rows[i].family, rows[i].length, "", 0);
        CHECK_EQ(parse(data, rows[i].seen - 1, &peer), 0);
        CHECK_EQ(parse(data, rows[i].seen, &peer), -EBADMSG);
        CHECK_EQ(parse(data, 16, &peer), -EBADMSG);
    }
    for (size_t i = 0; i < 12; i++) {
        (void)binary(data, 0x21, 0x11, 12, ipv4, 12);
        data[i] = (char)(data[i] ^ 1);
        CHECK_EQ(parse(data, i + 1, &peer), -EBADMSG);
    }
}

int main(void)
{
    RUN(lines_are_read);
    RUN(bad_lines_are_refused);
    RUN(binary_headers_are_read);
    RUN(bad_binary_headers_are_refused);
    return 0;
}
