/*
 * forwarded.h: who a request is from, by what proxies say in its head. Pure: no memory, no
 * clock, no descriptors.
 */
#ifndef WEFT_HTTP_FORWARDED_H
#define WEFT_HTTP_FORWARDED_H

#include <weft/http.h>

#include "http/networks.h"
#include "http/parse.h"

/* `*client` is a trusted proxy, and becomes who it speaks for: the last one in the chain that is
 * not trusted; if all are, the first. Where one of them does not say it by an address, what is in front
 * of that is nobody's word, and `*client` stays the last one that is known. */
void weft__http_forwarded(weft_http_forwarding which, const struct field *fields, int count,
                          const struct networks *trusted, struct peer *client);

#endif
