/*
 * slab.h: a size-class slab allocator for the live bytes of parked compact fibers.
 */
#ifndef WEFT_STACK_SLAB_H
#define WEFT_STACK_SLAB_H

#include <stddef.h>
#include <stdint.h>

/* An object of at least `size` bytes, with up to 63 more for sizes up to 1 KiB: *room is how many
 * it has. NULL without memory. Any thread. */
void *weft__slab_get(size_t size, size_t *room);
/* Puts an object back, with the room that weft__slab_get stored. Any thread. */
void weft__slab_put(void *object, size_t room);
/* Gives all memory without an object in use back to the system. An object may be in use at
 * shut-down, of a pool that outlives the runtime. No other call at the same time. */
void weft__slab_stop(void);

/* For tests and figures. */
struct slab_figures {
    uint64_t mapped; /* bytes of address space */
    uint64_t held;   /* bytes of slabs that have an object in use, or are kept for the next one */
};
struct slab_figures weft__slab_figures(void);

#endif
