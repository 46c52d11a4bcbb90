/*
 * partial.c: memory for heads that are not whole: it goes back to the system when they are gone.
 *
 * Clients can make a server keep max_connections of max_header bytes, for header_timeout. Had from
 * malloc, 9,000 heads of 16 KB left 145 MB resident after the connections had ended: all of it was
 * free, but each thread's arena had something small above it, and malloc gives back the top only.
 *
 * Blocks of a power of two come from regions of 1 MiB, each of one size, which are mapped, and
 * unmapped when all their blocks are free. A head lives for header_timeout at most, so a region is
 * not held by one that stays. A size keeps one region that is wholly free: heads that come byte by
 * byte take and give a block each time. So what stays is at most 1 MiB for each size.
 *
 * Heads of up to 1 KiB, nearly all of them, and those above the largest size (with a max_header
 * above 32 KiB) come from malloc.
 *
 * Invariants, under the lock: a region is in the list of its size if it has a free block;
 * `empty` counts those of the list that have no other.
 *
 * Rejected: malloc_trim, which locks all arenas of the program, and left from 15 to 77 MB of the
 * 145 in three runs (it does not give back the top of a thread's arena); a mapping for each head,
 * of which a process has 65,530.
 */
#include "http/partial.h"

#include <string.h>

#include <weft/mutex.h>

#include "http/sys.h"

enum { SMALL = 1024, SMALLEST = 2048, SIZES = 5, REGION = 1 << 20 };

struct block { /* that is free */
    struct block *next;
};

struct region {
    struct region *next, *previous;
    char *bytes;
    struct block *free;
    uint32_t used, fresh; /* fresh: blocks from there on were never used */
    int size;             /* SMALLEST << size */
};

struct partials {
    weft_mutex lock;
    struct {
        struct region *first;
        int empty;
    } sizes[SIZES];
};

struct partials *weft__http_partials_open(void)
{
    struct partials *partials = weft__http_allocate(sizeof *partials);
    if (partials != NULL)
        memset(partials, 0, sizeof *partials);
    return partials;
}

static uint32_t blocks_of(const struct region *region)
{
    return REGION / (uint32_t)(SMALLEST << region->size);
}

static void list_insert(struct partials *partials, struct region *region)
{
    struct region **first = &partials->sizes[region->size].first;
    region->previous = NULL;
    region->next = *first;
    if (*first != NULL)
        (*first)->previous = region;
    *first = region;
}

static void list_remove(struct partials *partials, struct region *region)
{
    *(region->previous != NULL ? &region->previous->next : &partials->sizes[region->size].first) =
        region->next;
    if (region->next != NULL)
        region->next->previous = region->previous;
}

static void drop(struct partials *partials, struct region *region)
{
    list_remove(partials, region);
    weft__http_unmap(region->bytes, REGION);
    weft__http_free(region);
}

void weft__http_partials_close(struct partials *partials)
{
    if (partials == NULL)
        return;
    for (int size = 0; size < SIZES; size++)
        while (partials->sizes[size].first != NULL) {
            must(partials->sizes[size].first->used == 0);
            drop(partials, partials->sizes[size].first);
        }
    weft__http_free(partials);
}

static struct region *make_region(struct partials *partials, int size)
{
    struct region *region = weft__http_allocate(sizeof *region);
    if (region == NULL)
        return NULL;
    *region = (struct region){.bytes = weft__http_map(REGION), .size = size};
    if (region->bytes == NULL) {
        weft__http_free(region);
        return NULL;
    }
    list_insert(partials, region);
    partials->sizes[size].empty++;
    return region;
}

static struct partial *take_block(struct partials *partials, int size)
{
    struct region *region = partials->sizes[size].first;
    if (region == NULL && (region = make_region(partials, size)) == NULL)
        return NULL;
    void *block = region->free;
    if (block != NULL)
        region->free = region->free->next;
    else
        block = region->bytes + (size_t)(SMALLEST << size) * region->fresh++;
    if (region->used++ == 0)
        partials->sizes[size].empty--;
    if (region->used == blocks_of(region))
        list_remove(partials, region);
    struct partial *partial = block;
    partial->region = region;
    return partial;
}

struct partial *weft__http_partial_get(struct partials *partials, size_t size)
{
    size_t all = sizeof(struct partial) + size;
    int which = 0;
    while (which < SIZES && (size_t)SMALLEST << which < all)
        which++;
    struct partial *partial;
    if (all > SMALL && which < SIZES) {
        weft_mutex_lock(&partials->lock);
        partial = take_block(partials, which);
        weft_mutex_unlock(&partials->lock);
    } else {
        partial = weft__http_allocate(all);
        if (partial != NULL)
            partial->region = NULL;
    }
    return partial;
}

static void give_block(struct partials *partials, struct region *region, struct block *block)
{
    block->next = region->free;
    region->free = block;
    if (region->used-- == blocks_of(region))
        list_insert(partials, region);
    if (region->used > 0)
        return;
    if (partials->sizes[region->size].empty > 0)
        drop(partials, region);
    else
        partials->sizes[region->size].empty++;
}

void weft__http_partial_put(struct partials *partials, struct partial *partial)
{
    struct region *region = partial != NULL ? partial->region : NULL;
    if (region == NULL) {
        weft__http_free(partial);
        return;
    }
    weft_mutex_lock(&partials->lock);
    give_block(partials, region, (struct block *)(void *)partial);
    weft_mutex_unlock(&partials->lock);
}
