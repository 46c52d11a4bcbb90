/*
 * partial_head.h: a slab allocator for heads that have not come in as a whole.
 */
#ifndef WEFT_HTTP_PARTIAL_HEAD_H
#define WEFT_HTTP_PARTIAL_HEAD_H

#include <stddef.h>

struct region;

/* The first bytes of a head. */
struct partial_head {
    struct region *region; /* NULL: from malloc */
    size_t size, seen;     /* seen: how far the parser has looked */
    char bytes[];
};

struct partial_heads; /* the allocator */

/* NULL without memory. */
struct partial_heads *weft__http_partial_heads_open(void);
/* All partial heads must have been put back. NULL is fine. */
void weft__http_partial_heads_close(struct partial_heads *heads);
/* Room for `size` bytes; only `region` is set. NULL without memory. */
struct partial_head *weft__http_partial_head_get(struct partial_heads *heads, size_t size);
/* NULL is fine. */
void weft__http_partial_head_put(struct partial_heads *heads, struct partial_head *head);

#endif
