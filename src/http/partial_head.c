/*
 * partial_head.c: a slab allocator for partial heads, whose memory goes back to the system when the
 * heads are gone.
 *
 * The problem: clients can make a server keep max_connections heads of max_header bytes for
 * header_timeout. From malloc, 9,000 heads of 16 KB left 145 MB resident after the connections had
 * ended. All of it was free, but each thread's arena had something small above it, and malloc gives
 * back the top of an arena only.
 *
 * Blocks of a power of two come from regions of 1 MiB, each with blocks of one size. A region is
 * mapped, and unmapped when all its blocks are free. A head lives for header_timeout at most, so
 * none holds a region for long. Each size keeps one region that is wholly free, since a head that
 * comes byte by byte takes and puts back a block each time. So at most 1 MiB stays for each size.
 *
 * Heads of up to 1 KiB, nearly all, come from malloc, and so do those above the largest size (with
 * a max_header above 32 KiB).
 *
 * Invariants, under the lock: a region is in the list of its size if and only if it has a free
 * block; `empty` counts the regions of the list without a used block.
 *
 * Rejected: malloc_trim locks all arenas of the program, and left 15 to 77 MB of the 145 in three
 * runs, as it does not give back the top of a thread's arena. A mapping for each head: a process
 * has 65,530.
 */
#include "http/partial_head.h"

#include <string.h>

#include <weft/mutex.h>

#include "http/sys.h"

enum { SMALL = 1024, SMALLEST = 2048, SIZES = 5, REGION = 1 << 20 };

struct block { /* a free one */
    struct block *next;
};

struct region {
    struct region *next, *previous;
    char *bytes;
    struct block *free;
    uint32_t used, fresh; /* fresh: the blocks from that number on were never used */
    int size;             /* SMALLEST << size */
};

struct partial_heads {
    weft_mutex lock;
    struct {
        struct region *first;
        int empty;
    } sizes[SIZES];
};

struct partial_heads *weft__http_partial_heads_open(void)
{
    struct partial_heads *heads = weft__http_allocate(sizeof *heads);
    if (heads != NULL)
        memset(heads, 0, sizeof *heads);
    return heads;
}

static uint32_t blocks_of(const struct region *region)
{
    return REGION / (uint32_t)(SMALLEST << region->size);
}

static void list_insert(struct partial_heads *heads, struct region *region)
{
    struct region **first = &heads->sizes[region->size].first;
    region->previous = NULL;
    region->next = *first;
    if (*first != NULL)
        (*first)->previous = region;
    *first = region;
}

static void list_remove(struct partial_heads *heads, struct region *region)
{
    *(region->previous != NULL ? &region->previous->next : &heads->sizes[region->size].first) =
        region->next;
    if (region->next != NULL)
        region->next->previous = region->previous;
}

static void drop(struct partial_heads *heads, struct region *region)
{
    list_remove(heads, region);
    weft__http_unmap(region->bytes, REGION);
    weft__http_free(region);
}

void weft__http_partial_heads_close(struct partial_heads *heads)
{
    if (heads == NULL)
        return;
    for (int size = 0; size < SIZES; size++)
        while (heads->sizes[size].first != NULL) {
            must(heads->sizes[size].first->used == 0);
            drop(heads, heads->sizes[size].first);
        }
    weft__http_free(heads);
}

static struct region *make_region(struct partial_heads *heads, int size)
{
    struct region *region = weft__http_allocate(sizeof *region);
    if (region == NULL)
        return NULL;
    *region = (struct region){.bytes = weft__http_map(REGION), .size = size};
    if (region->bytes == NULL) {
        weft__http_free(region);
        return NULL;
    }
    list_insert(heads, region);
    heads->sizes[size].empty++;
    return region;
}

static struct partial_head *take_block(struct partial_heads *heads, int size)
{
    struct region *region = heads->sizes[size].first;
    if (region == NULL && (region = make_region(heads, size)) == NULL)
        return NULL;
    void *block = region->free;
    if (block != NULL)
        region->free = region->free->next;
    else
        block = region->bytes + (size_t)(SMALLEST << size) * region->fresh++;
    if (region->used++ == 0)
        heads->sizes[size].empty--;
    if (region->used == blocks_of(region))
        list_remove(heads, region);
    struct partial_head *head = block;
    head->region = region;
    return head;
}

struct partial_head *weft__http_partial_head_get(struct partial_heads *heads, size_t size)
{
    size_t all = sizeof(struct partial_head) + size;
    int which = 0;
    while (which < SIZES && (size_t)SMALLEST << which < all)
        which++;
    struct partial_head *head;
    if (all > SMALL && which < SIZES) {
        weft_mutex_lock(&heads->lock);
        head = take_block(heads, which);
        weft_mutex_unlock(&heads->lock);
    } else {
        head = weft__http_allocate(all);
        if (head != NULL)
            head->region = NULL;
    }
    return head;
}

static void give_block(struct partial_heads *heads, struct region *region, struct block *block)
{
    block->next = region->free;
    region->free = block;
    if (region->used-- == blocks_of(region))
        list_insert(heads, region);
    if (region->used > 0)
        return;
    if (heads->sizes[region->size].empty > 0)
        drop(heads, region);
    else
        heads->sizes[region->size].empty++;
}

void weft__http_partial_head_put(struct partial_heads *heads, struct partial_head *head)
{
    struct region *region = head != NULL ? head->region : NULL;
    if (region == NULL) {
        weft__http_free(head);
        return;
    }
    weft_mutex_lock(&heads->lock);
    give_block(heads, region, (struct block *)(void *)head);
    weft_mutex_unlock(&heads->lock);
}
