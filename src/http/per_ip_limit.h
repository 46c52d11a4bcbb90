/*
 * per_ip_limit.h: limits on what one address may have: connections, requests, streams, body bytes.
 */
#ifndef WEFT_HTTP_PER_IP_LIMIT_H
#define WEFT_HTTP_PER_IP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "http/peer.h"

enum per_ip_limit {
    PER_IP_CONNECTIONS,
    PER_IP_REQUESTS,
    PER_IP_STREAMS,
    PER_IP_BODY_BYTES,
    PER_IP_LIMITS
};

struct allowance {
    int64_t max;
    bool exempts_private; /* private addresses are not counted */
};

struct per_ip_limits;

/* Sized for about so many connections. NULL without memory. */
struct per_ip_limits *weft__http_per_ip_open(const struct allowance allowances[PER_IP_LIMITS],
                                             int64_t connections);
/* All must have been released. NULL is fine. */
void weft__http_per_ip_close(struct per_ip_limits *limits);
/* Adds `amount` to what the address has. Returns false, and adds nothing, if that would be more
 * than the limit, or without memory. Trusted peers and unknown addresses are not counted. */
bool weft__http_per_ip_acquire(struct per_ip_limits *limits, enum per_ip_limit limit,
                               const struct peer *peer, int64_t amount);
/* Takes back what an acquire added. */
void weft__http_per_ip_release(struct per_ip_limits *limits, enum per_ip_limit limit,
                               const struct peer *peer, int64_t amount);
/* Entries in the longest chain of the hash table: for tests. */
int64_t weft__http_per_ip_longest_chain(struct per_ip_limits *limits);

#endif
