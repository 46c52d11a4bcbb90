/*
 * proxy.c: arbitrary PROXY headers: pieces do not matter, and bytes behind the header are not
 * consumed.
 */
#include "http/proxy.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prng prng = fuzz_prng(data, size);
    struct peer whole, part;
    int64_t result = 0;
    size_t used = size < HTTP_PROXY_MAX ? size : HTTP_PROXY_MAX; /* the parser reads no more */
    char *bytes = malloc(used + 1);
    CHECK(bytes != NULL);
    memcpy(bytes, data, used);
    result = weft__http_parse_proxy(bytes, used, &whole);
    CHECK(result == -EBADMSG || (result >= 0 && (size_t)result <= used));
    CHECK(whole.family == 0 || whole.family == 4 || whole.family == 6);
    CHECK(result > 0 || whole.family == 0);
    CHECK(used < HTTP_PROXY_MAX || result != 0); /* otherwise it would never end */

    /* A prefix is incomplete, or gives the result of the whole. */
    for (int i = 0; i < 20; i++) {
        size_t piece = prng_below(&prng, (uint32_t)used + 1);
        char *copy = malloc(piece + (piece == 0));
        CHECK(copy != NULL);
        if (piece > 0)
            memcpy(copy, bytes, piece);
        int64_t found = weft__http_parse_proxy(copy, piece, &part);
        CHECK(found == 0 || found == result);
        CHECK(result <= 0 || (found > 0) == (piece >= (size_t)result));
        CHECK(found <= 0 || memcmp(&whole, &part, sizeof whole) == 0);
        free(copy);
    }
    free(bytes);
    return 0;
}
