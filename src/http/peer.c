/*
 * peer.c: addresses of peers: parsed, normalized, classified and converted.
 *
 * A socket of both families shows an IPv4 peer as IPv4 in IPv6 (::ffff:a.b.c.d). Both forms are the
 * same peer: lists of trusted proxies and limits by address compare the IPv4 form.
 */
#include "http/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

void weft__http_peer_unmap(struct peer *peer)
{
    if (peer->family != 6 || memcmp(peer->ip, mapped, sizeof mapped) != 0)
        return;
    memmove(peer->ip, peer->ip + 12, 4);
    memset(peer->ip + 4, 0, 12);
    peer->family = 4;
    peer->scope = 0;
}

bool weft__http_peer_parse(const char *text, struct peer *peer)
{
    struct peer parsed = {.family = 4};
    if (inet_pton(AF_INET, text, parsed.ip) != 1) {
        parsed.family = 6;
        if (inet_pton(AF_INET6, text, parsed.ip) != 1)
            return false;
    }
    weft__http_peer_unmap(&parsed);
    *peer = parsed;
    return true;
}

const uint8_t *weft__http_peer_ipv4(const struct peer *peer)
{
    if (peer->family == 4)
        return peer->ip;
    return memcmp(peer->ip, mapped, sizeof mapped) == 0 ? peer->ip + sizeof mapped : NULL;
}

bool weft__http_peer_is_private(const struct peer *peer)
{
    static const uint8_t loopback[16] = {[15] = 1};
    const uint8_t *ip = weft__http_peer_ipv4(peer);
    if (ip != NULL)
        return ip[0] == 127 || ip[0] == 10 || (ip[0] == 172 && (ip[1] & 0xf0) == 16) ||
               (ip[0] == 192 && ip[1] == 168) || (ip[0] == 169 && ip[1] == 254) ||
               (ip[0] == 100 && (ip[1] & 0xc0) == 64);
    ip = peer->ip;
    return memcmp(ip, loopback, sizeof loopback) == 0 || (ip[0] & 0xfe) == 0xfc ||
           (ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);
}

void weft__http_peer_address(const struct peer *peer, weft_address *address)
{
    memset(address, 0, sizeof *address);
    if (peer->family == 4) {
        struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(peer->port)};
        memcpy(&ipv4.sin_addr, peer->ip, 4);
        memcpy(address->bytes, &ipv4, sizeof ipv4);
        address->size = sizeof ipv4;
    } else if (peer->family == 6) {
        struct sockaddr_in6 ipv6 = {
            .sin6_family = AF_INET6, .sin6_port = htons(peer->port), .sin6_scope_id = peer->scope};
        memcpy(&ipv6.sin6_addr, peer->ip, 16);
        memcpy(address->bytes, &ipv6, sizeof ipv6);
        address->size = sizeof ipv6;
    }
    if (address->size != 0)
        address->type = SOCK_STREAM;
}
