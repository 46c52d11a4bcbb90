/*
 * slab.c: pieces of memory: large enough, apart from each other, and given back to the system.
 */
#include "stack/slab.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/prng.h"
#include "os/os.h"
#include "test.h"

enum { PIECES = 3000, LARGEST = 70000 };

static struct piece {
    unsigned char *memory;
    size_t size, room;
    unsigned char mark;
} pieces[PIECES];

static void piece_get(struct piece *piece, size_t size, unsigned char mark)
{
    *piece = (struct piece){.size = size, .mark = mark};
    piece->memory = weft__slab_get(size, &piece->room);
    CHECK(piece->memory != NULL);
    CHECK(piece->room >= size && (size > 1024 || piece->room <= size + 64));
    CHECK_EQ((uintptr_t)piece->memory % 16, 0);
    memset(piece->memory, mark, size);
}

static void piece_put(struct piece *piece)
{
    for (size_t i = 0; i < piece->size; i++)
        CHECK_EQ(piece->memory[i], piece->mark);
    weft__slab_put(piece->memory, piece->room);
    piece->memory = NULL;
}

static void every_size(void)
{
    for (size_t size = 1; size < 5000; size += size < 1100 ? 1 : 97) {
        struct piece one, other;
        piece_get(&one, size, 1);
        piece_get(&other, size, 2);
        piece_put(&one);
        piece_put(&other);
    }
    struct piece large;
    piece_get(&large, LARGEST, 3);
    piece_put(&large);
    weft__slab_stop();
}

static void at_random(void)
{
    struct prng prng;
    prng_seed(&prng, 7);
    for (int64_t i = test_scale(200000); i > 0; i--) {
        struct piece *piece = &pieces[prng_below(&prng, PIECES)];
        if (piece->memory != NULL)
            piece_put(piece);
        else
            piece_get(piece, 1 + prng_below(&prng, 2000), (unsigned char)i);
    }
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].memory != NULL)
            piece_put(&pieces[i]);
    weft__slab_stop();
}

static void goes_back(void)
{
    uint64_t most = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PIECES; i++)
            piece_get(&pieces[i], 600, 4);
        struct slab_figures full = weft__slab_figures();
        CHECK(full.held >= (uint64_t)PIECES * 600);
        CHECK(full.mapped >= full.held);
        CHECK(round == 0 || full.mapped == most); /* what went back is used again */
        most = full.mapped;
        for (int i = 0; i < PIECES; i++)
            piece_put(&pieces[(i * 7) % PIECES]);
        CHECK_EQ(weft__slab_figures().held, 64 * 1024); /* one chunk for the next piece */
    }
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

/* Regions double, up to 2 MiB: 5000 pieces of 4 KiB are 20 MiB. */
static void regions_do_not_grow_for_ever(void)
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
        CHECK(mapped - before <=
              2 * REGION_MOST); /* some is lost, so that it begins where it should */
        before = mapped;
    }
    for (int i = 0; i < LARGE; i++)
        weft__slab_put(large[i], room);
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

static bool is_there(void *memory, size_t size)
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

/* Where there are many pieces a chunk has its pages before they are touched; while there are few, only those that are. */
static void many_have_their_pages_at_once(void)
{
    enum { CHUNK = 64 * 1024, SIZE = 1024, CHUNKS = 100, FEW = 4 };
    static void *kept[CHUNKS * (CHUNK / SIZE)];
    unsigned char *probe = weft__os_map(CHUNK);
    CHECK(probe != NULL);
    probe[0] = 1;
    bool by_page = !is_there(probe, CHUNK); /* not by larger pages */
    weft__os_populate(probe + 1, CHUNK - 1);
    bool can = by_page && is_there(probe, CHUNK);
    weft__os_unmap(probe, CHUNK);
    size_t room = 0, count = 0;
    uintptr_t chunk = 0;
    for (int chunks = 0; can && chunks < CHUNKS;) {
        void *piece = kept[count++] = weft__slab_get(SIZE, &room);
        CHECK(piece != NULL);
        if (chunk == ((uintptr_t)piece & ~(uintptr_t)(CHUNK - 1)))
            continue;
        chunk = (uintptr_t)piece & ~(uintptr_t)(CHUNK - 1);
        chunks++;
        if (chunks <= FEW)
            CHECK(!is_there((char *)piece - (uintptr_t)piece % CHUNK, CHUNK));
        else if (chunks == CHUNKS)
            CHECK(is_there((char *)piece - (uintptr_t)piece % CHUNK, CHUNK));
    }
    while (count > 0)
        weft__slab_put(kept[--count], room);
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

/* What is in use when all others have given theirs back is there as before, and can be given back after that. */
static void what_is_used_stays(void)
{
    struct piece one, other;
    piece_get(&one, 100, 1);
    for (int i = 0; i < PIECES; i++)
        piece_get(&pieces[i], 600, 4);
    for (int i = 0; i < PIECES; i++)
        piece_put(&pieces[i]);
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().held, 64 * 1024);
    piece_get(&other, 100, 2);
    piece_put(&one);
    piece_put(&other);
    weft__slab_stop();
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

static void *get_and_put(void *arg)
{
    struct prng prng;
    struct piece mine[50] = {{.memory = NULL}};
    prng_seed(&prng, (uintptr_t)arg);
    for (int64_t i = test_scale(100000); i > 0; i--) {
        struct piece *piece = &mine[prng_below(&prng, 50)];
        if (piece->memory != NULL)
            piece_put(piece);
        else
            piece_get(piece, 1 + prng_below(&prng, 400), (unsigned char)(uintptr_t)arg);
    }
    for (int i = 0; i < 50; i++)
        if (mine[i].memory != NULL)
            piece_put(&mine[i]);
    return NULL;
}

static void by_many_threads(void)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, get_and_put, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    weft__slab_stop();
}

int main(void)
{
    RUN_PLAIN(every_size, "nothing here is a fiber");
    RUN_PLAIN(at_random, "nothing here is a fiber");
    RUN_PLAIN(goes_back, "nothing here is a fiber");
    RUN_PLAIN(regions_do_not_grow_for_ever, "nothing here is a fiber");
    RUN_PLAIN(many_have_their_pages_at_once, "nothing here is a fiber");
    RUN_PLAIN(what_is_used_stays, "nothing here is a fiber");
    RUN_PLAIN(by_many_threads, "nothing here is a fiber");
    return 0;
}
