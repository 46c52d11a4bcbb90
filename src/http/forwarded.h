/*
 * forwarded.h: the client's address by the fields X-Forwarded-For and Forwarded. Pure: no memory,
 * no clock, no descriptors.
 */
#ifndef WEFT_HTTP_FORWARDED_H
#define WEFT_HTTP_FORWARDED_H

#include <weft/http.h>

#include "http/networks.h"
#include "http/parse.h"

/* `*client` is a trusted proxy. It becomes the client that the chain of proxies names: the last
 * address in the chain that is not trusted; if all are trusted, the first one. Where an element
 * names no address, what is in front of it is not believed, and `*client` stays the last address
 * that is known. */
void weft__http_forwarded(weft_http_forwarding which, const struct field *fields, int count,
                          const struct networks *trusted, struct peer *client);

#endif
