/*
 * networks.h: a list of networks: the proxies that are trusted.
 */
#ifndef WEFT_HTTP_NETWORKS_H
#define WEFT_HTTP_NETWORKS_H

#include <stdbool.h>

#include "http/limit.h"

struct networks;

/* From text: addresses and networks (CIDR) of IPv4 and IPv6, and "unix", separated by commas and
 * blanks. 0; -EINVAL if one of them is none of these, has bits behind its prefix, or there is
 * none; -ENOMEM. */
int weft__http_networks_open(struct networks **networks, const char *text);
/* NULL is fine. */
void weft__http_networks_close(struct networks *networks);
/* Whether one of them has the peer; false for NULL. A peer without an address is one of "unix". */
bool weft__http_networks_have(const struct networks *networks, const struct peer *peer);

/* An address as text, without a port, becomes a peer. IPv4 in IPv6 (::ffff:a.b.c.d) becomes IPv4.
 * False if it is none. */
bool weft__http_peer_parse(const char *text, struct peer *peer);
/* IPv4 in IPv6 becomes IPv4. */
void weft__http_peer_unmap(struct peer *peer);

#endif
