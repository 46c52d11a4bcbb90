/*
 * limit.h: how many connections, requests and streams an address has.
 */
#ifndef WEFT_HTTP_LIMIT_H
#define WEFT_HTTP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* Who is at the other end, or behind it; all zero: unknown, as of a Unix socket. */
struct peer {
    uint8_t ip[16]; /* of IPv6, or the first four of IPv4 */
    uint32_t scope; /* of a link */
    uint16_t port;
    uint8_t family; /* 0, 4 or 6 */
    bool trusted;   /* one of the proxies that may say for whom they speak */
};

/* What is counted. */
enum limit { LIMIT_CONNECTIONS, LIMIT_REQUESTS, LIMIT_STREAMS, LIMIT_BODY_BYTES, LIMITS };

struct allowance {
    int64_t most;
    bool spares_near; /* near addresses are not counted */
};

struct limits;

/* Whether it is of this host or of a private network: where proxies are, and no stranger. */
bool weft__http_is_near(const struct peer *peer);

/* NULL without memory. */
struct limits *weft__http_limits_open(const struct allowance allowances[LIMITS],
                                      int64_t connections);
void weft__http_limits_close(struct limits *limits);
/* Adds `by` to what the address has; false if it would have more than it may, or there is no
 * memory. Trusted peers and those without an address are not counted. */
bool weft__http_limits_enter(struct limits *limits, enum limit limit, const struct peer *peer,
                             int64_t by);
void weft__http_limits_leave(struct limits *limits, enum limit limit, const struct peer *peer,
                             int64_t by);
/* Entries in the longest chain of the table: for tests. */
int64_t weft__http_limits_longest(struct limits *limits);

#endif
