/*
 * range.c: arbitrary values of fields for ranges, entity tags and codings.
 */
#include "http/range.h"

#include "fuzz.h"

static void check_ranges(const char *value, int64_t length)
{
    struct range ranges[HTTP_RANGES];
    int count = weft__http_ranges(value, length, ranges);
    CHECK(count == -ERANGE || (count >= 0 && count <= HTTP_RANGES));
    for (int i = 0; i < count; i++) {
        CHECK(ranges[i].first >= 0 && ranges[i].size > 0);
        CHECK(ranges[i].first < length && ranges[i].size <= length - ranges[i].first);
        for (int j = 0; j < i; j++)
            CHECK(ranges[i].first >= ranges[j].first + ranges[j].size ||
                  ranges[j].first >= ranges[i].first + ranges[i].size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prng prng = fuzz_prng(data, size);
    char *value = malloc(size + 1);
    CHECK(value != NULL);
    if (size > 0)
        memcpy(value, data, size);
    value[size] = '\0';

    static const int64_t lengths[] = {0, 1, 2, 100, INT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        check_ranges(value, lengths[i]);
    check_ranges(value, (int64_t)(prng_next(&prng) >> 1));

    const struct validators file = {"\"a,b\"", 784111777, 784111778};
    struct conditions match = {.match = value}, none = {.none_match = value};
    struct conditions since = {.modified_since = value}, until = {.unmodified_since = value};
    struct conditions range = {.range = value};
    bool strongly = weft__http_conditions(&match, &file) == 200;
    bool weakly = weft__http_conditions(&none, &file) == 304;
    CHECK(weakly || !strongly);
    CHECK(!weakly || strchr(value, '*') != NULL || strstr(value, file.tag) != NULL);
    int status = weft__http_conditions(&since, &file);
    CHECK(status == 200 || status == 304);
    status = weft__http_conditions(&until, &file);
    CHECK(status == 200 || status == 412);
    (void)weft__http_if_range(&range, &file);
    CHECK(!weft__http_takes_gzip(value) || strcasestr(value, "gzip") != NULL ||
          strchr(value, '*') != NULL);
    free(value);
    return 0;
}
