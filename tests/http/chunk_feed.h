/*
 * chunk_feed.h: feeds a chunked body to the decoder in pieces and collects the result, for the
 * tests and the fuzzers.
 */
#ifndef WEFT_TEST_HTTP_CHUNK_FEED_H
#define WEFT_TEST_HTTP_CHUNK_FEED_H

#include "base/prng.h"
#include "http/chunk.h"
#include "test.h"

/* What came of it. */
struct eating {
    struct chunks chunks;
    size_t size;     /* of the body */
    size_t eaten;    /* bytes of the input */
    int64_t result;  /* of the last call */
    char body[4096]; /* the first bytes of it */
};

/* Gives it pieces of at most `most` bytes, of random size if there is a prng; in memory as in
 * head_feed.h. */
static inline void eat(struct eating *eating, const char *bytes, size_t size, size_t most,
                       struct prng *prng)
{
    memset(eating, 0, offsetof(struct eating, body));
    char *copy = malloc(size + (size == 0));
    CHECK(copy != NULL);
    memset(copy, '\n', size);
    while (eating->eaten < size && !eating->chunks.done) {
        size_t given = prng != NULL ? 1 + prng_below(prng, (uint32_t)most) : most;
        if (given > size - eating->eaten)
            given = size - eating->eaten;
        char *from = copy + eating->eaten;
        memcpy(from, bytes + eating->eaten, given);
        const char *piece = NULL;
        size_t piece_size = 0;
        eating->result =
            weft__http_chunks_decode(&eating->chunks, from, given, &piece, &piece_size);
        if (eating->result >= 0) {
            CHECK(eating->result > 0 && (size_t)eating->result <= given);
            if (piece_size > 0) {
                CHECK(piece >= from && piece + piece_size <= from + given);
                for (size_t i = 0; i < piece_size && eating->size + i < sizeof eating->body; i++)
                    eating->body[eating->size + i] = piece[i];
                eating->size += piece_size;
            }
            eating->eaten += (size_t)eating->result;
        }
        if (eating->result < 0)
            break;
    }
    free(copy);
}

/* Both had equal results. */
static inline void eating_check_same(const struct eating *one, const struct eating *other)
{
    CHECK_EQ(one->chunks.done, other->chunks.done);
    CHECK_EQ(one->result < 0, other->result < 0);
    CHECK_EQ(one->size, other->size);
    size_t kept = one->size < sizeof one->body ? one->size : sizeof one->body;
    CHECK(memcmp(one->body, other->body, kept) == 0);
    if (one->result >= 0)
        CHECK_EQ(one->eaten, other->eaten);
}

#endif
