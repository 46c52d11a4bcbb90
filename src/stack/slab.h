/*
 * slab.h: memory for what leaves a compact stack: many small pieces of a few sizes.
 */
#ifndef WEFT_STACK_SLAB_H
#define WEFT_STACK_SLAB_H

#include <stddef.h>
#include <stdint.h>

/* A piece of at least `size` bytes, at most 64 more up to 1 KiB; how many it has is in *room. NULL without
 * memory. Any thread. */
void *weft__slab_get(size_t size, size_t *room);
/* Back, with the room that get said. */
void weft__slab_put(void *piece, size_t room);
/* Gives back all that nobody uses: what has a piece in use stays, as that of a pool which outlives the runtime. */
void weft__slab_stop(void);

/* For tests and figures. */
struct slab_figures {
    uint64_t mapped; /* bytes of address space */
    uint64_t held;   /* bytes in chunks that are in use, or kept for the next piece */
};
struct slab_figures weft__slab_figures(void);

#endif
