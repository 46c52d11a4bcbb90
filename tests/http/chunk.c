/*
 * chunk.c: chunked bodies: every split gives the same result, and malformed ones are refused.
 */
#include "http/chunk.h"

#include "chunk_feed.h"
#include "http/parse.h"
#include "smuggling.h"
#include "test.h"

static const struct {
    const char *bytes, *body;
    size_t rest; /* bytes that are not eaten */
} bodies[] = {
    {"0\r\n\r\n", "", 2},
    {"000\r\n\r\n", "", 2},
    {"0;last\r\nX: y\r\n\r\n", "", 8},
    {"3\r\nabc\r\n0\r\n\r\nGET", "abc", 5},
    {"3\r\nabc\r\n4\r\ndefg\r\n1\r\nh\r\n0\r\n\r\n", "abcdefgh", 2},
    {"9\r\n123456789\r\n0\r\n\r\n", "123456789", 2},
    {"1;x\r\na\r\n0000000000000001\r\nb\r\n0000000000000000\r\n\r\n", "ab", 2},
    {"0003\r\nabc\r\n0000\r\n\r\n", "abc", 2},
    {"3;a=b\r\nabc\r\n0\r\n\r\n", "abc", 2},
    {"3;a=\"b;\\\"c\"; d\t=\xff\r\nabc\r\n0\r\n\r\n", "abc", 2},
    {"3;\r\nabc\r\n0\r\n\r\n", "abc", 2},
    {"A\r\n0123456789\r\na\r\n\r\n\r\n0\r\n\r\n\r\r\n0\r\n\r\n", "0123456789\r\n\r\n0\r\n\r\n\r",
     2},
    {"1F\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 2},
};

enum { BODIES = sizeof bodies / sizeof bodies[0] };

static void every_split_gives_the_same(void)
{
    struct prng prng;
    prng_seed(&prng, 11);
    for (int i = 0; i < BODIES; i++) {
        size_t size = strlen(bodies[i].bytes);
        struct eating eating;
        for (size_t most = 1; most <= size; most++) {
            eat(&eating, bodies[i].bytes, size, most, NULL);
            CHECK(eating.chunks.done);
            CHECK_EQ(eating.eaten, size - bodies[i].rest);
            CHECK_EQ(eating.size, strlen(bodies[i].body));
            CHECK(memcmp(eating.body, bodies[i].body, eating.size) == 0);
        }
        for (size_t cut = 0; cut < size - bodies[i].rest; cut++) { /* more bytes are needed */
            eat(&eating, bodies[i].bytes, cut, 1 + cut, NULL);
            CHECK(eating.result >= 0 && !eating.chunks.done);
            CHECK_EQ(eating.eaten, cut);
        }
        for (int round = 0; round < 100; round++) {
            eat(&eating, bodies[i].bytes, size, 7, &prng);
            CHECK(eating.chunks.done);
            CHECK_EQ(eating.eaten, size - bodies[i].rest);
            CHECK(memcmp(eating.body, bodies[i].body, eating.size) == 0);
        }
    }
}

static void nothing_is_eaten_of_nothing(void)
{
    struct chunks chunks = {0};
    const char *piece = "poison";
    size_t piece_size = 6;
    CHECK_EQ(weft__http_chunks_decode(&chunks, "", 0, &piece, &piece_size), 0);
    CHECK_EQ(piece_size, 0);
    CHECK_EQ(weft__http_chunks_decode(&chunks, "0\r\n\r\nabc", 8, &piece, &piece_size), 3);
    CHECK(chunks.done && piece_size == 0);
    CHECK_EQ(weft__http_chunks_decode(&chunks, "\r\nabc", 5, &piece, &piece_size), 0);
    CHECK(chunks.done && piece_size == 0);
}

static void a_piece_is_as_long_as_it_can_be(void)
{
    struct chunks chunks = {0};
    const char *piece, *bytes = "5\r\nabcde\r\n";
    size_t size;
    CHECK_EQ(weft__http_chunks_decode(&chunks, bytes, 6, &piece, &size), 6);
    CHECK_PTR(piece, bytes + 3);
    CHECK_EQ(size, 3);
    CHECK_EQ(chunks.left, 2);
    CHECK_EQ(weft__http_chunks_decode(&chunks, bytes + 6, 4, &piece, &size), 2);
    CHECK_PTR(piece, bytes + 6);
    CHECK_EQ(size, 2);
    CHECK_EQ(weft__http_chunks_decode(&chunks, bytes + 8, 2, &piece, &size), 2);
    CHECK_EQ(size, 0);
}

static void sizes_are_limited(void)
{
    struct chunks chunks = {0};
    const char *piece;
    size_t size;
    CHECK_EQ(weft__http_chunks_decode(&chunks, "7fffffffffffffff\r\nab", 20, &piece, &size), 20);
    CHECK_EQ(size, 2);
    CHECK_EQ(chunks.left, INT64_MAX - 2);
    chunks = (struct chunks){0};
    CHECK_EQ(weft__http_chunks_decode(&chunks, "8000000000000000", 16, &piece, &size), -400);
    chunks = (struct chunks){0};
    CHECK_EQ(weft__http_chunks_decode(&chunks, "0000000000000000", 16, &piece, &size), 16);
    CHECK_EQ(weft__http_chunks_decode(&chunks, "0", 1, &piece, &size), -400);
}

static void extensions_are_limited(void)
{
    char line[300];
    for (size_t length = 250; length <= 260; length++)
        for (size_t most = 1; most <= 300; most += 299) {
            memset(line, 'x', sizeof line);
            line[0] = '0';
            line[1] = ';';
            line[2 + length] = '\r';
            line[3 + length] = '\n';
            struct eating eating;
            eat(&eating, line, length + 4, most, NULL);
            CHECK_EQ(eating.chunks.done, length <= 256);
            if (length > 256)
                CHECK_EQ(eating.result, -400);
        }
    static const char twice[] = "1;aaaaaaaaaaaaaaaa\r\nx\r\n"; /* each line anew */
    struct chunks chunks = {0};
    const char *piece;
    size_t size;
    for (int i = 0; i < 100; i++)
        for (size_t at = 0; at < sizeof twice - 1; at++)
            CHECK_EQ(weft__http_chunks_decode(&chunks, twice + at, 1, &piece, &size), 1);
}

/* Where a body ends in the rows is found by the chunks, or by the trailer behind them. */
static void smuggling_is_refused(void)
{
    int rows = 0;
    for (int i = 0; i < SMUGGLING_ROWS; i++) {
        const struct smuggling *row = &smuggling[i];
        if (row->in == IN_HEAD)
            continue;
        rows++;
        const char *body = strstr(row->bytes, "\r\n\r\n") + 4;
        size_t size = row->size - (size_t)(body - row->bytes);
        for (size_t most = 1; most <= size; most++) {
            struct eating eating;
            eat(&eating, body, size, most, NULL);
            int64_t result = eating.result;
            if (row->in == IN_TRAILER) {
                CHECK(eating.chunks.done);
                char trailer[256];
                struct field fields[4];
                int count;
                size_t seen = 0;
                memcpy(trailer, body + eating.eaten, size - eating.eaten);
                result = weft__http_parse_fields(fields, 4, &count, trailer, size - eating.eaten,
                                                 sizeof trailer, &seen);
            }
            if (result != -row->status)
                test_fail(__FILE__, __LINE__, "%s: %lld", row->name, (long long)result);
        }
    }
    CHECK(rows > 30);
}

static void pieces_do_not_matter(void)
{
    static const char some[] = "0123456789abcdefABCDEF;\r\n\r\n\r\n gx";
    int64_t rounds = test_scale(200000), done = 0, refused = 0;
    for (int64_t seed = 1; seed <= rounds; seed++) {
        struct prng prng;
        prng_seed(&prng, (uint64_t)seed);
        char bytes[128];
        const char *from = bodies[prng_below(&prng, BODIES)].bytes;
        size_t size = strlen(from);
        memcpy(bytes, from, size + 1);
        for (uint32_t changes = prng_below(&prng, 3); changes > 0; changes--)
            bytes[prng_below(&prng, (uint32_t)size)] = some[prng_below(&prng, sizeof some - 1)];
        struct eating whole, single, pieces;
        eat(&whole, bytes, size, size, NULL);
        eat(&single, bytes, size, 1, NULL);
        eat(&pieces, bytes, size, 9, &prng);
        eating_check_same(&whole, &single);
        eating_check_same(&whole, &pieces);
        done += whole.chunks.done;
        refused += whole.result < 0;
    }
    printf("  %lld done, %lld refused\n", (long long)done, (long long)refused);
    CHECK(rounds < 1000 || (done > rounds / 20 && refused > rounds / 20));
}

int main(void)
{
    RUN(every_split_gives_the_same);
    RUN(nothing_is_eaten_of_nothing);
    RUN(a_piece_is_as_long_as_it_can_be);
    RUN(sizes_are_limited);
    RUN(extensions_are_limited);
    RUN(smuggling_is_refused);
    RUN(pieces_do_not_matter);
    return 0;
}
