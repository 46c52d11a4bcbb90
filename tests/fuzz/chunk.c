/*
 * chunk.c: chunked bodies: any split gives the same result as a decoder that sees the whole body.
 */
#include "fuzz.h"
#include "http/chunk_feed.h"

static bool is_hex(char digit)
{
    return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f') ||
           (digit >= 'A' && digit <= 'F');
}

/* The chunk size in the line from `at` to its CR LF at `end`; -1 if invalid. */
static int64_t plain_size(const char *at, const char *end)
{
    char digits[20];
    size_t count = 0;
    while (at < end && is_hex(*at) && count < sizeof digits - 1)
        digits[count++] = *at++;
    digits[count] = '\0';
    if (count == 0 || count > 16 || (count == 16 && digits[0] > '7'))
        return -1;
    if (at < end && *at != ';')
        return -1;
    if (end - at > 257)
        return -1;
    for (; at < end; at++)
        if (((uint8_t)*at < 0x20 && *at != '\t') || *at == 0x7f)
            return -1;
    return strtoll(digits, NULL, 16);
}

/* The end of the body if it is complete and valid; 0 otherwise. */
static size_t plain_end(const char *bytes, size_t size, size_t *body)
{
    size_t at = 0;
    *body = 0;
    for (;;) {
        const char *end = memmem(bytes + at, size - at, "\r\n", 2);
        int64_t chunk = end != NULL ? plain_size(bytes + at, end) : -1;
        if (chunk < 0)
            return 0;
        at = (size_t)(end - bytes) + 2;
        if (chunk == 0)
            return at;
        if ((uint64_t)chunk > size - at || size - at - (size_t)chunk < 2 ||
            memcmp(bytes + at + chunk, "\r\n", 2) != 0)
            return 0;
        at += (size_t)chunk + 2;
        *body += (size_t)chunk;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct eating whole, single, pieces;
    struct prng prng = fuzz_prng(data, size);
    const char *bytes = (const char *)data;
    if (size == 0)
        return 0;
    eat(&whole, bytes, size, size, NULL);
    eat(&single, bytes, size, 1, NULL);
    eat(&pieces, bytes, size, 64, &prng);
    eating_check_same(&whole, &single);
    eating_check_same(&whole, &pieces);
    size_t body, end = plain_end(bytes, size, &body);
    CHECK_EQ(whole.chunks.done, end > 0);
    if (end > 0) {
        CHECK_EQ(whole.eaten, end);
        CHECK_EQ(whole.size, body);
    }
    return 0;
}
