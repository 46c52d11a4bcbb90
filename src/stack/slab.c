/*
 * slab.c: a size-class slab allocator; empty slabs go back to the system.
 *
 * An object is cut from a slab of objects of its size. A slab is 64 KiB at a multiple of 64 KiB,
 * and begins with its header, so that the slab of an object is found from its address. Slabs are
 * cut from regions, mappings that grow up to 2 MiB.
 *
 *     region ---- a size class needs a slab ----> open: has free objects <----> full: in no list
 *       ^_____________ all its objects are free, and another slab is empty too ______|
 *                      its pages go back to the system
 *
 * A size class keeps one empty slab, so that an object that comes and goes does not cost two system
 * calls. Objects that are too large for a slab come from the heap.
 *
 * Locks: one for each size class, and one for the regions; neither is taken while the other is
 * held.
 *
 * Rejected: the heap for all sizes. It does not give back the memory between objects that live, and
 * it costs 16 bytes more for each.
 */
#include "stack/slab.h"

#include "base/assert.h"
#include "os/huge_pages.h"
#include "os/lock.h"
#include "os/os.h"

enum {
    SLAB_SIZE = 64 * 1024,
    STEP = 64,
    STEPPED_MOST = 1024,           /* sizes in steps up to here, then doubling */
    STEPPED = STEPPED_MOST / STEP, /* sizes 64, 128 ... 1024 */
    DOUBLED = 2,                   /* 2048, 4096 */
    SIZES = STEPPED + DOUBLED,
    SIZE_MOST = STEPPED_MOST << DOUBLED,
    REGION_SLABS_MIN = 4,
    REGION_SLABS_MAX = HUGE_PAGE / SLAB_SIZE,
};

struct slab {
    struct slab *next, **link; /* among the open ones */
    void *free;                /* objects put back: each begins with the address of the next */
    uint32_t size_index;
    uint32_t used, cut; /* objects in use; objects ever cut */
    char padding[64 - 3 * sizeof(void *) - 3 * sizeof(uint32_t)];
};
_Static_assert(sizeof(struct slab) == 64, "objects begin at a line of the cache");

static struct size_class {
    _Alignas(CACHE_LINE) struct lock lock;
    struct slab *open;
    uint32_t empty; /* open slabs without an object in use */
} sizes[SIZES];

struct region {
    struct region *next;
    void *mapping;
    size_t mapped;
    char *slabs;    /* the first */
    uint32_t count; /* of slabs */
    uint32_t idle;  /* a bit for each that is not in use */
};

static struct lock regions_lock;
static struct region *regions;
static uint64_t slabs_held;

static size_t object_size(uint32_t index)
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

/* Slabs and regions. */

static struct region *region_open(void)
{
    uint32_t count = regions != NULL ? regions->count * 2 : REGION_SLABS_MIN;
    if (count > REGION_SLABS_MAX)
        count = REGION_SLABS_MAX;
    size_t size = (size_t)count * SLAB_SIZE, slack = count < REGION_SLABS_MAX ? SLAB_SIZE : size;
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
                              .slabs = (char *)mapping + (first - (uintptr_t)mapping),
                              .count = count,
                              .idle = count < 32 ? (1u << count) - 1 : UINT32_MAX};
    if (count == REGION_SLABS_MAX)
        (void)weft__huge_page_begin(region->slabs);
    regions = region;
    return region;
}

/* A slab of a region of full size gets all its pages at once, instead of a fault for each: where
 * there are or were that many slabs, more will follow soon. */
static struct slab *slab_take(void)
{
    char *slab = NULL;
    bool many = false;
    lock_acquire(&regions_lock);
    struct region *region = regions;
    while (region != NULL && region->idle == 0)
        region = region->next;
    if (region != NULL || (region = region_open()) != NULL) {
        uint32_t index = (uint32_t)__builtin_ctz(region->idle);
        region->idle &= region->idle - 1;
        slab = region->slabs + (size_t)index * SLAB_SIZE;
        slabs_held++;
        many = region->count == REGION_SLABS_MAX;
    }
    lock_release(&regions_lock);
    if (many)
        weft__os_populate(slab, SLAB_SIZE);
    return (struct slab *)(void *)slab;
}

static void slab_return(struct slab *slab)
{
    (void)weft__os_decommit(slab, SLAB_SIZE);
    lock_acquire(&regions_lock);
    struct region *region = regions;
    while ((size_t)((char *)slab - region->slabs) >= (size_t)region->count * SLAB_SIZE)
        region = region->next;
    region->idle |= 1u << ((size_t)((char *)slab - region->slabs) / SLAB_SIZE);
    slabs_held--;
    lock_release(&regions_lock);
}

/* Objects. */

static bool is_full(const struct slab *slab)
{
    return slab->free == NULL &&
           sizeof *slab + (slab->cut + 1) * object_size(slab->size_index) > SLAB_SIZE;
}

static void open_add(struct size_class *class, struct slab *slab)
{
    slab->next = class->open;
    slab->link = &class->open;
    if (slab->next != NULL)
        slab->next->link = &slab->next;
    class->open = slab;
}

static void open_remove(struct slab *slab)
{
    *slab->link = slab->next;
    if (slab->next != NULL)
        slab->next->link = slab->link;
}

/* Takes an object of an open slab; under the lock of the class. */
static void *take(struct size_class *class)
{
    struct slab *slab = class->open;
    void *object = slab->free;
    if (object != NULL)
        slab->free = *(void **)object;
    else
        object = (char *)slab + sizeof *slab + slab->cut++ * object_size(slab->size_index);
    class->empty -= slab->used == 0;
    slab->used++;
    if (is_full(slab))
        open_remove(slab);
    return object;
}

void *weft__slab_get(size_t size, size_t *room)
{
    *room = size;
    if (unlikely(size > SIZE_MOST))
        return weft__os_alloc(size);
    uint32_t index = size_index(size);
    struct size_class *class = &sizes[index];
    *room = object_size(index);
    lock_acquire(&class->lock);
    while (unlikely(class->open == NULL)) {
        lock_release(&class->lock);
        struct slab *slab = slab_take();
        if (slab == NULL)
            return NULL;
        slab->free = NULL;
        slab->size_index = index;
        slab->used = slab->cut = 0;
        lock_acquire(&class->lock);
        open_add(class, slab);
        class->empty++;
    }
    void *object = take(class);
    lock_release(&class->lock);
    return object;
}

void weft__slab_put(void *object, size_t room)
{
    if (unlikely(room > SIZE_MOST)) {
        weft__os_free(object);
        return;
    }
    struct slab *slab = (struct slab *)(void *)((char *)object - ((uintptr_t)object % SLAB_SIZE));
    struct size_class *class = &sizes[slab->size_index];
    should(room == object_size(slab->size_index));
    lock_acquire(&class->lock);
    if (is_full(slab))
        open_add(class, slab);
    *(void **)object = slab->free;
    slab->free = object;
    slab->used--;
    bool surplus = slab->used == 0 && class->empty > 0;
    if (surplus)
        open_remove(slab);
    else
        class->empty += slab->used == 0;
    lock_release(&class->lock);
    if (unlikely(surplus))
        slab_return(slab);
}

static bool is_idle(const struct region *region)
{
    return (uint32_t)__builtin_popcount(region->idle) == region->count;
}

void weft__slab_stop(void)
{
    struct slab *next_slab;
    for (int i = 0; i < SIZES; i++)
        for (struct slab *slab = sizes[i].open; slab != NULL; slab = next_slab) {
            next_slab = slab->next;
            if (slab->used > 0)
                continue;
            open_remove(slab);
            sizes[i].empty--;
            slab_return(slab);
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
    figures.held = slabs_held * SLAB_SIZE;
    lock_release(&regions_lock);
    return figures;
}
