/*
 * address.c: addresses as text and as values: weft/address.h has the forms. And the hand-over of
 * names to the resolver.
 *
 * Nothing here waits or asks the system, except for the number of a network interface.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <weft/resolve.h>

#include "base/assert.h"
#include "net/socket.h"
#include "os/os.h"

_Static_assert(sizeof(struct sockaddr_un) <= sizeof(((weft_address *)0)->bytes),
               "the largest kind fits");

enum { HOST_MOST = 256 };

static const struct scheme {
    const char *text;
    uint16_t type;
    bool local; /* a path, not a host and a port */
} schemes[] = {{"tcp:", SOCK_STREAM, false},
               {"udp:", SOCK_DGRAM, false},
               {"unix:", SOCK_STREAM, true},
               {"unixgram:", SOCK_DGRAM, true}};

/* Parsing. */

static const struct scheme *find_scheme(const char **text)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t length = strlen(schemes[i].text);
        if (strncmp(*text, schemes[i].text, length) == 0) {
            *text += length;
            return &schemes[i];
        }
    }
    return NULL;
}

static int read_path(weft_address *address, const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    bool abstract = path[0] == '@';
    if (length == 0)
        return -EINVAL;
    if (length + !abstract > sizeof name.sun_path)
        return -ENAMETOOLONG;
    memcpy(name.sun_path, path, length);
    if (abstract)
        name.sun_path[0] = '\0';
    /* The size of the address ends an abstract name; a zero ends a path. */
    address->size = (uint16_t)(offsetof(struct sockaddr_un, sun_path) + length + !abstract);
    memcpy(address->bytes, &name, sizeof name);
    return 0;
}

static int read_port(const char *text)
{
    int port = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && port <= UINT16_MAX; at++)
        port = port * 10 + (*at - '0');
    return at == text || *at != '\0' || port > UINT16_MAX ? -EINVAL : port;
}

/* Splits "host:port" or "[host]:port": the port, or -EINVAL. */
static int split(const char *text, char *host, bool *bracketed)
{
    const char *end, *port;
    *bracketed = text[0] == '[';
    if (*bracketed) {
        text++;
        end = strchr(text, ']');
        if (end == NULL || end[1] != ':')
            return -EINVAL;
        port = end + 2;
    } else {
        end = strchr(text, ':');
        if (end == NULL || strchr(end + 1, ':') != NULL)
            return -EINVAL; /* an IPv6 address needs its brackets */
        port = end + 1;
    }
    size_t length = (size_t)(end - text);
    if (length >= HOST_MOST)
        return -EINVAL;
    memcpy(host, text, length);
    host[length] = '\0';
    return read_port(port);
}

static void set_ipv4(weft_address *address, struct in_addr host, int port)
{
    struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = host};
    address->size = sizeof name;
    memcpy(address->bytes, &name, sizeof name);
}

static void set_ipv6(weft_address *address, struct in6_addr host, uint32_t link, int port)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6,
                                .sin6_port = htons((uint16_t)port),
                                .sin6_addr = host,
                                .sin6_scope_id = link};
    address->size = sizeof name;
    memcpy(address->bytes, &name, sizeof name);
}

/* The number of a network interface, given by name or number; 0 if there is none. */
static uint32_t read_link(const char *text)
{
    uint32_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && number < UINT32_MAX / 10 - 1; at++)
        number = number * 10 + (uint32_t)(*at - '0');
    return *at == '\0' ? number : weft__os_link_number(text);
}

static int read_ipv6(weft_address *address, char *host, int port)
{
    struct in6_addr number;
    uint32_t link = 0;
    char *percent = strchr(host, '%');
    if (percent != NULL) {
        *percent = '\0';
        if ((link = read_link(percent + 1)) == 0)
            return -EINVAL;
    }
    if (inet_pton(AF_INET6, host, &number) != 1)
        return -EINVAL;
    set_ipv6(address, number, link, port);
    return 0;
}

static int read_host(weft_address *address, const char *text)
{
    char host[HOST_MOST];
    bool bracketed;
    struct in_addr number;
    int port = split(text, host, &bracketed);
    if (port < 0)
        return port;
    if (bracketed)
        return read_ipv6(address, host, port);
    if (host[0] == '\0') {
        set_ipv6(address, in6addr_any, 0, port);
        return 0;
    }
    if (inet_pton(AF_INET, host, &number) != 1)
        return -EADDRNOTAVAIL;
    set_ipv4(address, number, port);
    return 0;
}

int weft_address_parse(weft_address *address, const char *text)
{
    if (address == NULL || text == NULL)
        return -EINVAL;
    const struct scheme *scheme = find_scheme(&text);
    if (scheme == NULL)
        return -EINVAL;
    weft_address got = {.type = scheme->type};
    int error = scheme->local ? read_path(&got, text) : read_host(&got, text);
    if (error == 0)
        *address = got;
    return error;
}

/* Formatting. */

static int write_path(const weft_address *address, const char *scheme, char *text)
{
    struct sockaddr_un name;
    size_t length = address->size - offsetof(struct sockaddr_un, sun_path);
    memcpy(&name, address->bytes, sizeof name);
    if (length == 0)
        return snprintf(text, WEFT_ADDRESS_TEXT, "%s", ""); /* an unnamed socket */
    bool abstract = name.sun_path[0] == '\0';
    if (abstract)
        name.sun_path[0] = '@';
    else
        length = strnlen(name.sun_path, length);
    return snprintf(text, WEFT_ADDRESS_TEXT, "%s%.*s", scheme, (int)length, name.sun_path);
}

static int write_ipv4(const weft_address *address, const char *scheme, char *text)
{
    struct sockaddr_in name;
    char host[INET_ADDRSTRLEN];
    memcpy(&name, address->bytes, sizeof name);
    (void)inet_ntop(AF_INET, &name.sin_addr, host, sizeof host);
    return snprintf(text, WEFT_ADDRESS_TEXT, "%s%s:%d", scheme, host, ntohs(name.sin_port));
}

static int write_ipv6(const weft_address *address, const char *scheme, char *text)
{
    struct sockaddr_in6 name;
    char host[INET6_ADDRSTRLEN], link[16] = "";
    memcpy(&name, address->bytes, sizeof name);
    (void)inet_ntop(AF_INET6, &name.sin6_addr, host, sizeof host);
    if (name.sin6_scope_id != 0)
        (void)snprintf(link, sizeof link, "%%%u", name.sin6_scope_id);
    return snprintf(text, WEFT_ADDRESS_TEXT, "%s[%s%s]:%d", scheme, host, link,
                    ntohs(name.sin6_port));
}

sa_family_t weft__address_family(const weft_address *address)
{
    sa_family_t family = AF_UNSPEC;
    if (address->size >= sizeof family)
        memcpy(&family, address->bytes, sizeof family);
    return family;
}

int weft_address_format(const weft_address *address, char *text, size_t size)
{
    char made[WEFT_ADDRESS_TEXT] = "";
    if (address == NULL || text == NULL || address->size > sizeof address->bytes)
        return -EINVAL;
    sa_family_t family = weft__address_family(address);
    bool stream = address->type == SOCK_STREAM;
    int length = 0;
    if (family == AF_INET && address->size >= sizeof(struct sockaddr_in))
        length = write_ipv4(address, stream ? "tcp:" : "udp:", made);
    else if (family == AF_INET6 && address->size >= sizeof(struct sockaddr_in6))
        length = write_ipv6(address, stream ? "tcp:" : "udp:", made);
    else if (family == AF_UNIX)
        length = write_path(address, stream ? "unix:" : "unixgram:", made);
    else if (address->size != 0)
        return -EINVAL;
    if ((size_t)length >= size)
        return -ENOSPC;
    memcpy(text, made, (size_t)length + 1);
    return 0;
}

int weft_address_port(const weft_address *address)
{
    if (address == NULL)
        return 0;
    sa_family_t family = weft__address_family(address);
    in_port_t port = 0; /* at the same offset in both families */
    if (family == AF_INET || family == AF_INET6)
        memcpy(&port, address->bytes + offsetof(struct sockaddr_in, sin_port), sizeof port);
    return ntohs(port);
}

/* Names. */

/* Looks up the host of a text that weft_address_parse accepts but for the name: "tcp:name:port". */
static int look_up_name(const char *text, weft_address *found, int most, int64_t deadline)
{
    char host[HOST_MOST], service[16];
    bool bracketed;
    int port = split(strchr(text, ':') + 1, host, &bracketed);
    must(port >= 0 && !bracketed);
    snprintf(service, sizeof service, "%d", port);
    weft_resolve_hints hints = {.type = text[0] == 't' ? SOCK_STREAM : SOCK_DGRAM};
    int count = weft_resolve(host, service, &hints, found, most, deadline);
    return count == -ENOENT ? -EADDRNOTAVAIL : count;
}

int weft__socket_look_up(const char *text, weft_address *found, int most, int64_t deadline)
{
    int error = weft_address_parse(&found[0], text);
    if (error == -EADDRNOTAVAIL)
        return look_up_name(text, found, most, deadline);
    if (error != 0)
        return error;
    /* IPv6 without brackets: an empty host, which is all addresses of this host. IPv4's come
     * second, for hosts without IPv6. */
    if (strchr(text, '[') != NULL || weft__address_family(&found[0]) != AF_INET6)
        return 1;
    must(most >= 2);
    found[1] = (weft_address){.type = found[0].type};
    set_ipv4(&found[1], (struct in_addr){.s_addr = INADDR_ANY}, weft_address_port(&found[0]));
    return 2;
}
