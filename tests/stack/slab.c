/*
 * slab.c: the slab allocator: objects are large enough and do not overlap, and empty slabs go back
 * to the system.
 */
#include "stack/slab.h"

#include <string.h>
#include <sys/mman.h>

#include "fibers.h"
#include "os/os.h"

enum { OBJECTS = 3000, LARGEST = 70000 };

static struct object {
    unsigned char *memory;
    size_t size, room;
    unsigned char mark;
} objects[OBJECTS];

static void object_get(struct object *object, size_t size, unsigned char mark)
{
    *object = (struct object){.size = size, .mark = mark};
    object->memory = weft__slab_get(size, &object->room);
    CHECK(object->memory != NULL);
    CHECK(object->room >= size && (size > 1024 || object->room <= size + 64));
    CHECK_EQ((uintptr_t)object->memory % 16, 0);
    memset(object->memory, mark, size);
}

static void object_put(struct object *object)
{
    for (size_t i = 0; i < object->size; i++)
        CHECK_EQ(object->memory[i], object->mark);
    weft__slab_put(object->memory, object->room);
    object->memory = NULL;
}

static void every_size(void)
{
    for (size_t size = 1; size < 5000; size += size < 1100 ? 1 : 97) {
        struct object one, other;
        object_get(&one, size, 1);
        object_get(&other, size, 2);
        object_put(&one);
        object_put(&other);
    }
    struct object large;
    object_get(&large, LARGEST, 3);
    object_put(&large);
    weft__slab_stop();
}

static void random_sizes(void)
{
    struct prng prng = prng_from(7);
    for (int64_t i = test_scale(200000); i > 0; i--) {
        struct object *object = &objects[prng_below(&prng, OBJECTS)];
        if (object->memory != NULL)
            object_put(object);
        else
            object_get(object, 1 + prng_below(&prng, 2000), (unsigned char)i);
    }
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i].memory != NULL)
            object_put(&objects[i]);
    weft__slab_stop();
}

static void empty_slabs_go_back(void)
{
    uint64_t most = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OBJECTS; i++)
            object_get(&objects[i], 600, 4);
        struct slab_figures full = weft__slab_figures();
        CHECK(full.held >= (uint64_t)OBJECTS * 600);
        CHECK(full.mapped >= full.held);
        CHECK(round == 0 || full.mapped == most); /* mappings are used again */
        most = full.mapped;
        for (int i = 0; i < OBJECTS; i++)
            object_put(&objects[(i * 7) % OBJECTS]);
        CHECK_EQ(weft__slab_figures().held, 64 * 1024); /* one empty slab is kept */
    }
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

/* Regions double, up to 2 MiB: 5000 objects of 4 KiB are 20 MiB. */
static void regions_have_a_largest_size(void)
{
    enum { LARGE = 5000, SIZE = 4096, REGION_MOST = 2 << 20 };
    static void *large[LARGE];
    size_t room;
    uint64_t before = 0;
    for (int i = 0; i < LARGE; i++) {
        large[i] = weft__slab_get(SIZE, &room);
        CHECK(large[i] != NULL);
        CHECK_EQ(room, SIZE);
        uint64_t mapped = weft__slab_figures().mapped;
        CHECK(mapped - before <= 2 * REGION_MOST); /* a part is lost to alignment */
        before = mapped;
    }
    for (int i = 0; i < LARGE; i++)
        weft__slab_put(large[i], room);
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

static bool is_resident(void *memory, size_t size)
{
    unsigned char pages[16];
    size_t page = weft__os_page_size(), count = (size + page - 1) / page;
    CHECK(count <= sizeof pages);
    if (mincore(memory, size, pages) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if ((pages[i] & 1) == 0)
            return false;
    return true;
}

/* With many objects, all pages of a slab are resident before they are touched; with few, only those
 * that were. */
static void slabs_of_many_objects_are_populated(void)
{
    enum { SLAB = 64 * 1024, SIZE = 1024, SLABS = 100, FEW = 4 };
    static void *kept[SLABS * (SLAB / SIZE)];
    unsigned char *probe = weft__os_map(SLAB);
    CHECK(probe != NULL);
    probe[0] = 1;
    bool by_page = !is_resident(probe, SLAB); /* not in larger pages */
    weft__os_populate(probe + 1, SLAB - 1);
    bool can = by_page && is_resident(probe, SLAB);
    weft__os_unmap(probe, SLAB);
    size_t room = 0, count = 0;
    uintptr_t slab = 0;
    for (int slabs = 0; can && slabs < SLABS;) {
        void *object = kept[count++] = weft__slab_get(SIZE, &room);
        CHECK(object != NULL);
        if (slab == ((uintptr_t)object & ~(uintptr_t)(SLAB - 1)))
            continue;
        slab = (uintptr_t)object & ~(uintptr_t)(SLAB - 1);
        slabs++;
        if (slabs <= FEW)
            CHECK(!is_resident((char *)object - (uintptr_t)object % SLAB, SLAB));
        else if (slabs == SLABS)
            CHECK(is_resident((char *)object - (uintptr_t)object % SLAB, SLAB));
    }
    while (count > 0)
        weft__slab_put(kept[--count], room);
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

/* An object in use when the allocator stops keeps its content, and can be put back later. */
static void objects_in_use_outlive_a_stop(void)
{
    struct object one, other;
    object_get(&one, 100, 1);
    for (int i = 0; i < OBJECTS; i++)
        object_get(&objects[i], 600, 4);
    for (int i = 0; i < OBJECTS; i++)
        object_put(&objects[i]);
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().held, 64 * 1024);
    object_get(&other, 100, 2);
    object_put(&one);
    object_put(&other);
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

static void *get_and_put(void *arg)
{
    struct object mine[50] = {{.memory = NULL}};
    struct prng prng = prng_from((uintptr_t)arg);
    for (int64_t i = test_scale(100000); i > 0; i--) {
        struct object *object = &mine[prng_below(&prng, 50)];
        if (object->memory != NULL)
            object_put(object);
        else
            object_get(object, 1 + prng_below(&prng, 400), (unsigned char)(uintptr_t)arg);
    }
    for (int i = 0; i < 50; i++)
        if (mine[i].memory != NULL)
            object_put(&mine[i]);
    return NULL;
}

static void several_threads(void)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        threads[i] = thread_start(get_and_put, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        thread_join(threads[i]);
    weft__slab_stop();
}

int main(void)
{
    RUN_ALL_PLAIN("no fibers", every_size, random_sizes, empty_slabs_go_back,
                  regions_have_a_largest_size, slabs_of_many_objects_are_populated,
                  objects_in_use_outlive_a_stop, several_threads);
    return 0;
}
