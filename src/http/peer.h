/*
 * peer.h: the address of a peer, or of the client that a trusted proxy names.
 */
#ifndef WEFT_HTTP_PEER_H
#define WEFT_HTTP_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/address.h>

/* All zero: unknown, as with a Unix socket. */
struct peer {
    uint8_t ip[16]; /* IPv6, or IPv4 in the first four bytes */
    uint32_t scope; /* of a link-local address */
    uint16_t port;
    uint8_t family; /* 0, 4 or 6 */
    bool trusted;   /* a proxy whose word on its clients' addresses is believed */
};

/* Parses an address without a port. IPv4 in IPv6 (::ffff:a.b.c.d) becomes IPv4. Returns false if
 * the text is no address; then `*peer` is unchanged. */
bool weft__http_peer_parse(const char *text, struct peer *peer);
/* Turns IPv4 in IPv6 into IPv4. */
void weft__http_peer_unmap(struct peer *peer);
/* The four bytes of an IPv4 address, in either form; NULL if the address is not IPv4. */
const uint8_t *weft__http_peer_ipv4(const struct peer *peer);
/* Whether the address is of this host, of a link or of a private network. Proxies are there, and
 * packets from the Internet cannot have such a source. */
bool weft__http_peer_is_private(const struct peer *peer);
/* Converts to the form of the public API; size 0 if the address is unknown. */
void weft__http_peer_address(const struct peer *peer, weft_address *address);

#endif
