/*
 * parse.c: heads, trailers, paths and queries: pieces do not matter, accepted input is unambiguous.
 */
#include "fuzz.h"
#include "http/head_feed.h"
#include "http/path.h"

/* Checks on the raw bytes, without the parser. */
static void check_lines(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        if (byte == '\n') {
            CHECK(i > 0 && bytes[i - 1] == '\r');
            CHECK(i + 1 == size || (bytes[i + 1] != ' ' && bytes[i + 1] != '\t'));
        } else if (byte == '\r') {
            CHECK(i + 1 < size && bytes[i + 1] == '\n');
        } else {
            CHECK((byte >= 0x20 && byte != 0x7f) || byte == '\t');
        }
    }
}

static void check_path(const struct head *head)
{
    char *path = malloc(head->target_size + 1);
    CHECK(path != NULL);
    int64_t size = weft__http_decode_path(head->target, path);
    CHECK(size == -400 || (size > 0 && size <= head->target_size));
    if (size > 0) {
        CHECK_EQ(strlen(path), size);
        CHECK(path[0] == '/' || strcmp(path, "*") == 0);
        char *ended = malloc((size_t)size + 2);
        CHECK(ended != NULL);
        memcpy(ended, path, (size_t)size);
        memcpy(ended + size, "/", 2);
        CHECK(strstr(ended, "/./") == NULL && strstr(ended, "/../") == NULL);
        free(ended);
    }
    size_t query_size = strlen(head->query);
    char *query = malloc(query_size + 1);
    CHECK(query != NULL);
    CHECK(weft__http_decode_query(head->query, query_size, query) <= query_size);
    free(query);
    free(path);
}

static int64_t read_trailer(const uint8_t *data, size_t size, size_t limit, size_t piece)
{
    struct field fields[4];
    int count = -1;
    size_t seen = 0, used = 0;
    int64_t result;
    char *bytes = malloc(size + (size == 0));
    CHECK(bytes != NULL);
    if (size > 0)
        memcpy(bytes, data, size);
    do {
        used = size - used > piece ? used + piece : size;
        result = weft__http_parse_fields(fields, 4, &count, bytes, used, limit, &seen);
    } while (result == 0 && used < size);
    CHECK_EQ(count >= 0, result > 0);
    CHECK(result <= (int64_t)size && result <= (int64_t)limit);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(strlen(fields[i].value), fields[i].value_size);
        CHECK(weft__http_is_token(fields[i].name) && weft__http_is_value(fields[i].value));
    }
    free(bytes);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prng prng = fuzz_prng(data, size);
    const char *bytes = (const char *)data;
    size_t limit = prng_below(&prng, 8) == 0 ? prng_below(&prng, 256) : 16384;
    struct reading whole, single, pieces;
    reading_feed(&whole, bytes, size, limit, size, NULL);
    reading_feed(&single, bytes, size, limit, 1, NULL);
    reading_feed(&pieces, bytes, size, limit, 64, &prng);
    reading_check_same(&whole, &single);
    reading_check_same(&whole, &pieces);
    if (whole.result > 0) {
        reading_check(&whole, limit);
        check_lines(bytes, (size_t)whole.result);
        check_path(&whole.head);
    }
    reading_end(&whole);
    reading_end(&single);
    reading_end(&pieces);

    int64_t trailer = read_trailer(data, size, limit, size + 1);
    CHECK_EQ(read_trailer(data, size, limit, 1), trailer);
    if (trailer > 0)
        check_lines(bytes, (size_t)trailer);
    return 0;
}
