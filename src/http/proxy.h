/*
 * proxy.h: the header of the PROXY protocol, from bytes. Pure: no memory, no clock, no descriptors.
 */
#ifndef WEFT_HTTP_PROXY_H
#define WEFT_HTTP_PROXY_H

#include <stddef.h>
#include <stdint.h>

#include "http/limit.h"

enum {
    HTTP_PROXY_LINE = 107,  /* of version 1, with its end: the longest that can be */
    HTTP_PROXY_MOST = 4096, /* of version 2, with everything behind the addresses */
};

/* Reads a header of version 1 or 2 at the beginning of `size` bytes. Returns its size; 0 if more is
 * needed; -EBADMSG if it is none, or too long. `*client` is who the proxy speaks for; all zero if
 * it does not say so by an address of TCP (LOCAL, UNKNOWN, other families). It does not matter in
 * which pieces it came. */
int64_t weft__http_parse_proxy(const char *data, size_t size, struct peer *client);

#endif
