/*
 * proxy.c: parses the header of the PROXY protocol (version 1 and 2), by which a proxy names its
 * client. It comes before anything else, TLS included:
 * haproxy.org/download/2.9/doc/proxy-protocol.txt.
 *
 *   version 1   a line: "PROXY TCP4 192.0.2.1 192.0.2.2 40000 443" CR LF, or "PROXY UNKNOWN ..."
 *   version 2   a signature of 12 bytes | version, command | family, transport | length (2 bytes)
 *               | addresses and ports | more up to the length (TLVs)
 *
 * Both are parsed strictly: a header that two programs could read differently would let a client
 * choose its address. What a receiver must accept without using it (LOCAL, which is a proxy's own
 * check; UNKNOWN; Unix sockets; UDP) gives no address. TLVs are skipped.
 */
#include "http/proxy.h"

#include <errno.h>
#include <string.h>

static const char signature[] = "\r\n\r\n\0\r\nQUIT\n"; /* 12 bytes, without the zero at its end */
static const char word[] = "PROXY ";

enum { HEAD = 16, IPV4 = 12, IPV6 = 36, UNIX = 216 };

/* ---- version 1 ---- */

/* Takes the next word, which ends with one blank or with the line. NULL if there is none. */
static char *take_word(char **line)
{
    char *begin = *line, *end;
    if (begin == NULL || *begin == '\0')
        return NULL;
    end = strchr(begin, ' ');
    if (end != NULL)
        *end++ = '\0';
    *line = end;
    return begin;
}

static int read_port(const char *text)
{
    int port = 0;
    size_t size = text != NULL ? strlen(text) : 0;
    if (size == 0 || size > 5 || (*text == '0' && size > 1) || strspn(text, "0123456789") != size)
        return -1;
    for (; *text != '\0'; text++)
        port = port * 10 + (*text - '0');
    return port <= 65535 ? port : -1;
}

/* Parses an address of the family that was announced. */
static bool read_address(const char *text, bool ipv6, struct peer *peer)
{
    return text != NULL && (strchr(text, ':') != NULL) == ipv6 && weft__http_peer_parse(text, peer);
}

static int read_line(char *line, struct peer *client)
{
    struct peer to;
    char *kind = take_word(&line);
    if (kind == NULL)
        return -EBADMSG;
    if (strcmp(kind, "UNKNOWN") == 0)
        return 0;
    bool ipv6 = strcmp(kind, "TCP6") == 0;
    if (!ipv6 && strcmp(kind, "TCP4") != 0)
        return -EBADMSG;
    char *from = take_word(&line), *here = take_word(&line);
    int port = read_port(take_word(&line)), here_port = read_port(take_word(&line));
    struct peer found;
    if (!read_address(from, ipv6, &found) || !read_address(here, ipv6, &to) || port < 0 ||
        here_port < 0 || line != NULL)
        return -EBADMSG;
    found.port = (uint16_t)port;
    *client = found;
    return 0;
}

static int64_t parse_line(const char *data, size_t size, struct peer *client)
{
    char line[HTTP_PROXY_LINE];
    size_t used = sizeof word - 1;
    for (; used < size && data[used] >= ' ' && data[used] <= '~'; used++)
        if (used + 2 >= HTTP_PROXY_LINE)
            return -EBADMSG;
    if (used == size)
        return 0;
    if (data[used] != '\r' || (used + 1 < size && data[used + 1] != '\n'))
        return -EBADMSG;
    if (used + 1 == size)
        return 0;
    size_t text = used - (sizeof word - 1);
    memcpy(line, data + sizeof word - 1, text);
    line[text] = '\0';
    int error = read_line(line, client);
    return error != 0 ? error : (int64_t)used + 2;
}

/* ---- version 2 ---- */

static uint16_t number(const char *bytes)
{
    return (uint16_t)((uint8_t)bytes[0] << 8 | (uint8_t)bytes[1]);
}

static int64_t parse_binary(const char *data, size_t size, struct peer *client)
{
    static const size_t least[] = {0, IPV4, IPV6, UNIX};
    int version = size > 12 ? (uint8_t)data[12] : 0x21;
    if (version != 0x20 && version != 0x21)
        return -EBADMSG;
    int family = size > 13 ? (uint8_t)data[13] >> 4 : 0;
    int transport = size > 13 ? data[13] & 15 : 0;
    if (version == 0x21 && (family > 3 || transport > 2))
        return -EBADMSG;
    if (size < HEAD)
        return 0;
    size_t length = number(data + 14);
    if (HEAD + length > HTTP_PROXY_MAX || (version == 0x21 && length < least[family]))
        return -EBADMSG;
    if (size < HEAD + length)
        return 0;
    if (version == 0x21 && transport == 1 && (family == 1 || family == 2)) {
        size_t bytes = family == 1 ? 4 : 16;
        memcpy(client->ip, data + HEAD, bytes);
        client->port = number(data + HEAD + 2 * bytes);
        client->family = family == 1 ? 4 : 6;
        weft__http_peer_unmap(client);
    }
    return (int64_t)(HEAD + length);
}

static bool begins(const char *data, size_t size, const char *with, size_t with_size)
{
    return memcmp(data, with, size < with_size ? size : with_size) == 0;
}

int64_t weft__http_parse_proxy(const char *data, size_t size, struct peer *client)
{
    memset(client, 0, sizeof *client);
    if (size == 0)
        return 0;
    if (begins(data, size, word, sizeof word - 1))
        return size >= sizeof word - 1 ? parse_line(data, size, client) : 0;
    if (begins(data, size, signature, sizeof signature - 1))
        return parse_binary(data, size, client);
    return -EBADMSG;
}
