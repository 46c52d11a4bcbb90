/*
 * partial.h: memory for heads that are not whole.
 */
#ifndef WEFT_HTTP_PARTIAL_H
#define WEFT_HTTP_PARTIAL_H

#include <stddef.h>

struct region;

/* Bytes of a head that is not whole: no more memory than they need. */
struct partial {
    struct region *region; /* NULL: of malloc */
    size_t size, seen;     /* seen: how far the parser has looked */
    char bytes[];
};

struct partials; /* where they are had from */

/* NULL without memory. */
struct partials *weft__http_partials_open(void);
/* When all were given back. NULL is fine. */
void weft__http_partials_close(struct partials *partials);
/* One for so many bytes, which are not set. NULL without memory. */
struct partial *weft__http_partial_get(struct partials *partials, size_t size);
/* NULL is fine. */
void weft__http_partial_put(struct partials *partials, struct partial *partial);

#endif
