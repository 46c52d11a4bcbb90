/*
 * networks.h: a list of networks: the proxies that are trusted.
 */
#ifndef WEFT_HTTP_NETWORKS_H
#define WEFT_HTTP_NETWORKS_H

#include <stdbool.h>

#include "http/peer.h"

struct networks;

/* Parses addresses and networks (CIDR) of IPv4 and IPv6, and "unix", separated by commas and
 * blanks. Returns 0; -EINVAL if an item is none of these or has bits behind its prefix, or if there
 * is no item; -ENOMEM. */
int weft__http_networks_open(struct networks **networks, const char *text);
/* NULL is fine. */
void weft__http_networks_close(struct networks *networks);
/* Whether the list has the peer; false if the list is NULL. "unix" stands for a peer without an
 * address. */
bool weft__http_networks_have(const struct networks *networks, const struct peer *peer);

#endif
