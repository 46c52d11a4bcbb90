/*
 * slab.c: pieces of memory of a few sizes, for many, which goes back to the system when they are few.
 *
 * A piece is cut from a chunk of pieces of its size; a chunk, 64 KiB at a multiple of 64 KiB, begins with
 * what is known of it. Chunks are cut from regions, which are mappings that grow up to 2 MiB.
 *
 *     region ---- a size needs a chunk ----> open: has free pieces <----> full: in no list
 *       ^______________ all its pieces are free, and another chunk is so too ______|
 *                       its pages go back to the system
 *
 * A size keeps one chunk that is wholly free, so that a piece that comes and goes does not cost two system calls.
 * Larger pieces than a chunk can hold well come from the allocator of the program.
 *
 * Locks: one for each size; the one of the regions is taken under none of them.
 *
 * Rejected: the program's allocator for all. It does not give back what stands between pieces that live, and
 * costs 16 bytes more for each.
 */
#include "stack/slab.h"

#include "base/assert.h"
#include "os/huge_pages.h"
#include "os/lock.h"
#include "os/os.h"

enum {
    CHUNK_SIZE = 64 * 1024,
    STEP = 64,
    STEPPED_MOST = 1024,           /* sizes in steps up to here, then doubling */
    STEPPED = STEPPED_MOST / STEP, /* sizes 64, 128 ... 1024 */
    DOUBLED = 2,                   /* 2048, 4096 */
    SIZES = STEPPED + DOUBLED,
    SIZE_MOST = STEPPED_MOST << DOUBLED,
    REGION_CHUNKS_MIN = 4,
    REGION_CHUNKS_MAX = HUGE_PAGE / CHUNK_SIZE,
};

struct chunk {
    struct chunk *next, **link; /* among those that have free pieces */
    void *free;                 /* given back; each begins with the address of the next */
    uint32_t size_index;
    uint32_t used, cut; /* pieces in use; pieces that ever were */
    char apart[64 - 3 * sizeof(void *) - 3 * sizeof(uint32_t)];
};
_Static_assert(sizeof(struct chunk) == 64, "pieces begin at a line of the cache");

static struct size_class {
    _Alignas(CACHE_LINE) struct lock lock;
    struct chunk *open;
    uint32_t empty; /* of these, wholly free */
} sizes[SIZES];

struct region {
    struct region *next;
    void *mapping;
    size_t mapped;
    char *chunks;   /* the first */
    uint32_t count; /* of chunks */
    uint32_t idle;  /* a bit for each that nobody uses */
};

static struct lock regions_lock;
static struct region *regions;
static uint64_t chunks_held;

static size_t piece_size(uint32_t index)
{
    return index < STEPPED ? (size_t)(index + 1) * STEP
                           : (size_t)STEPPED_MOST << (index - STEPPED + 1);
}

static uint32_t size_index(size_t size)
{
    should(size > 0);
    if (size <= STEPPED_MOST)
        return (uint32_t)((size - 1) / STEP);
    return size <= 2 * STEPPED_MOST ? STEPPED : STEPPED + 1;
}

/* Chunks and regions. */

static struct region *region_open(void)
{
    uint32_t count = regions != NULL ? regions->count * 2 : REGION_CHUNKS_MIN;
    if (count > REGION_CHUNKS_MAX)
        count = REGION_CHUNKS_MAX;
    size_t size = (size_t)count * CHUNK_SIZE, slack = count < REGION_CHUNKS_MAX ? CHUNK_SIZE : size;
    struct region *region = weft__os_alloc(sizeof *region);
    if (region == NULL)
        return NULL;
    void *mapping = weft__os_map(size + slack);
    if (mapping == NULL) {
        weft__os_free(region);
        return NULL;
    }
    uintptr_t first = ((uintptr_t)mapping + slack - 1) & ~(uintptr_t)(slack - 1);
    *region = (struct region){.next = regions,
                              .mapping = mapping,
                              .mapped = size + slack,
                              .chunks = (char *)mapping + (first - (uintptr_t)mapping),
                              .count = count,
                              .idle = count < 32 ? (1u << count) - 1 : UINT32_MAX};
    if (count == REGION_CHUNKS_MAX)
        (void)weft__huge_page_begin(region->chunks);
    regions = region;
    return region;
}

/* Where there are, or were, many chunks there will be more, and soon: each gets its memory at once, in place of a fault for each of its pages. */
static struct chunk *chunk_get(void)
{
    char *chunk = NULL;
    bool many = false;
    lock_acquire(&regions_lock);
    struct region *region = regions;
    while (region != NULL && region->idle == 0)
        region = region->next;
    if (region != NULL || (region = region_open()) != NULL) {
        uint32_t index = (uint32_t)__builtin_ctz(region->idle);
        region->idle &= region->idle - 1;
        chunk = region->chunks + (size_t)index * CHUNK_SIZE;
        chunks_held++;
        many = region->count == REGION_CHUNKS_MAX;
    }
    lock_release(&regions_lock);
    if (many)
        weft__os_populate(chunk, CHUNK_SIZE);
    return (struct chunk *)(void *)chunk;
}

static void chunk_put(struct chunk *chunk)
{
    (void)weft__os_decommit(chunk, CHUNK_SIZE);
    lock_acquire(&regions_lock);
    struct region *region = regions;
    while ((size_t)((char *)chunk - region->chunks) >= (size_t)region->count * CHUNK_SIZE)
        region = region->next;
    region->idle |= 1u << ((size_t)((char *)chunk - region->chunks) / CHUNK_SIZE);
    chunks_held--;
    lock_release(&regions_lock);
}

/* Pieces. */

static bool is_full(const struct chunk *chunk)
{
    return chunk->free == NULL &&
           sizeof *chunk + (chunk->cut + 1) * piece_size(chunk->size_index) > CHUNK_SIZE;
}

static void open_add(struct size_class *class, struct chunk *chunk)
{
    chunk->next = class->open;
    chunk->link = &class->open;
    if (chunk->next != NULL)
        chunk->next->link = &chunk->next;
    class->open = chunk;
}

static void open_remove(struct chunk *chunk)
{
    *chunk->link = chunk->next;
    if (chunk->next != NULL)
        chunk->next->link = chunk->link;
}

/* Under the lock, with an open chunk. */
static void *take(struct size_class *class)
{
    struct chunk *chunk = class->open;
    void *piece = chunk->free;
    if (piece != NULL)
        chunk->free = *(void **)piece;
    else
        piece = (char *)chunk + sizeof *chunk + chunk->cut++ * piece_size(chunk->size_index);
    class->empty -= chunk->used == 0;
    chunk->used++;
    if (is_full(chunk))
        open_remove(chunk);
    return piece;
}

void *weft__slab_get(size_t size, size_t *room)
{
    *room = size;
    if (unlikely(size > SIZE_MOST))
        return weft__os_alloc(size);
    uint32_t index = size_index(size);
    struct size_class *class = &sizes[index];
    *room = piece_size(index);
    lock_acquire(&class->lock);
    while (unlikely(class->open == NULL)) {
        lock_release(&class->lock);
        struct chunk *chunk = chunk_get();
        if (chunk == NULL)
            return NULL;
        chunk->free = NULL;
        chunk->size_index = index;
        chunk->used = chunk->cut = 0;
        lock_acquire(&class->lock);
        open_add(class, chunk);
        class->empty++;
    }
    void *piece = take(class);
    lock_release(&class->lock);
    return piece;
}

void weft__slab_put(void *piece, size_t room)
{
    if (unlikely(room > SIZE_MOST)) {
        weft__os_free(piece);
        return;
    }
    struct chunk *chunk = (struct chunk *)(void *)((char *)piece - ((uintptr_t)piece % CHUNK_SIZE));
    struct size_class *class = &sizes[chunk->size_index];
    should(room == piece_size(chunk->size_index));
    lock_acquire(&class->lock);
    if (is_full(chunk))
        open_add(class, chunk);
    *(void **)piece = chunk->free;
    chunk->free = piece;
    chunk->used--;
    bool surplus = chunk->used == 0 && class->empty > 0;
    if (surplus)
        open_remove(chunk);
    else
        class->empty += chunk->used == 0;
    lock_release(&class->lock);
    if (unlikely(surplus))
        chunk_put(chunk);
}

static bool is_idle(const struct region *region)
{
    return (uint32_t)__builtin_popcount(region->idle) == region->count;
}

void weft__slab_stop(void)
{
    struct chunk *next_chunk;
    for (int i = 0; i < SIZES; i++)
        for (struct chunk *chunk = sizes[i].open; chunk != NULL; chunk = next_chunk) {
            next_chunk = chunk->next;
            if (chunk->used > 0)
                continue;
            open_remove(chunk);
            sizes[i].empty--;
            chunk_put(chunk);
        }
    for (struct region **link = &regions, *region; (region = *link) != NULL;) {
        if (!is_idle(region)) {
            link = &region->next;
            continue;
        }
        *link = region->next;
        weft__os_unmap(region->mapping, region->mapped);
        weft__os_free(region);
    }
}

struct slab_figures weft__slab_figures(void)
{
    struct slab_figures figures = {0, 0};
    lock_acquire(&regions_lock);
    for (struct region *region = regions; region != NULL; region = region->next)
        figures.mapped += region->mapped;
    figures.held = chunks_held * CHUNK_SIZE;
    lock_release(&regions_lock);
    return figures;
}
