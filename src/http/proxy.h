/*
 * proxy.h: parses the header of the PROXY protocol. Pure: no memory, no clock, no descriptors.
 */
#ifndef WEFT_HTTP_PROXY_H
#define WEFT_HTTP_PROXY_H

#include <stddef.h>
#include <stdint.h>

#include "http/peer.h"

enum {
    HTTP_PROXY_LINE = 107, /* the longest header of version 1, with its line end */
    HTTP_PROXY_MAX = 4096, /* of version 2, with everything behind the addresses */
};

/* Parses a header of version 1 or 2 at the beginning of `size` bytes. Returns its size; 0 if more
 * bytes are needed; -EBADMSG if it is malformed or too long. `*client` is the client that the proxy
 * names, or all zero if it names none by a TCP address (LOCAL, UNKNOWN, other families). The result
 * does not depend on the pieces in which the header came. */
int64_t weft__http_parse_proxy(const char *data, size_t size, struct peer *client);

#endif
