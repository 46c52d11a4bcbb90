/*
 * head_feed.h: feeds a head to the parser in pieces and collects the result, for the tests and the
 * fuzzers.
 */
#ifndef WEFT_TEST_HTTP_HEAD_FEED_H
#define WEFT_TEST_HTTP_HEAD_FEED_H

#include <strings.h>

#include "base/prng.h"
#include "http/parse.h"
#include "test.h"

enum { HEAD_FIELDS = 32 };

/* In memory of its own, without a byte to spare, so that a sanitizer sees a read behind it;
 * where the bytes have not come yet there is what no head may have. */
struct reading {
    char *bytes;
    size_t size;
    size_t used; /* bytes that were there when it was decided */
    int64_t result;
    struct head head;
    struct field fields[HEAD_FIELDS];
};

static inline void reading_end(struct reading *reading)
{
    free(reading->bytes);
}

/* Feeds it in pieces of at most `most` bytes: of random size if there is a prng, of one size
 * otherwise. Stops when something came of it. Before that nothing may have changed. */
static inline void reading_feed(struct reading *reading, const char *bytes, size_t size,
                                size_t limit, size_t most, struct prng *prng)
{
    *reading = (struct reading){.bytes = malloc(size + (size == 0)), .size = size};
    CHECK(reading->bytes != NULL);
    memset(reading->bytes, '\n', size);
    reading->head.fields = reading->fields;
    reading->head.most = HEAD_FIELDS;
    size_t seen = 0;
    do {
        size_t piece = prng != NULL ? 1 + prng_below(prng, (uint32_t)most) : most;
        if (piece > size - reading->used)
            piece = size - reading->used;
        if (piece > 0)
            memcpy(reading->bytes + reading->used, bytes + reading->used, piece);
        reading->used += piece;
        reading->result =
            weft__http_parse_head(&reading->head, reading->bytes, reading->used, limit, &seen);
    } while (reading->result == 0 && reading->used < size);
    if (reading->result == 0 && size > 0)
        CHECK(memcmp(reading->bytes, bytes, size) == 0);
}

static inline void reading_check_text(const struct reading *reading, const char *text, size_t size)
{
    CHECK(text >= reading->bytes && text + size < reading->bytes + reading->result);
    CHECK_EQ(strlen(text), size);
}

/* What must hold of every head that was accepted. */
static inline void reading_check(const struct reading *reading, size_t limit)
{
    const struct head *head = &reading->head;
    CHECK(reading->result > 0 && (size_t)reading->result <= reading->used);
    CHECK((size_t)reading->result <= limit);
    CHECK(head->count >= 0 && head->count <= head->most);
    CHECK(head->version == 10 || head->version == 11);
    CHECK(head->length >= -1);
    reading_check_text(reading, head->method, head->method_size);
    reading_check_text(reading, head->target, head->target_size);
    CHECK(weft__http_is_token(head->method));
    CHECK(head->query >= head->target && head->query <= head->target + head->target_size);
    int hosts = 0;
    for (int i = 0; i < head->count; i++) {
        const struct field *field = &head->fields[i];
        reading_check_text(reading, field->name, field->name_size);
        reading_check_text(reading, field->value, field->value_size);
        CHECK(weft__http_is_token(field->name) && weft__http_is_value(field->value));
        CHECK(weft__http_find_field(head->fields, head->count, field->name) <= field);
        hosts += strcasecmp(field->name, "host") == 0;
    }
    CHECK(hosts == 1 || (hosts == 0 && head->version == 10));
    bool coded = weft__http_find_field(head->fields, head->count, "Transfer-Encoding") != NULL;
    bool measured = weft__http_find_field(head->fields, head->count, "Content-Length") != NULL;
    CHECK(!(coded && measured));
    CHECK_EQ(head->length < 0, coded);
    CHECK(measured || head->length <= 0);
    if (weft__http_field_has(head->fields, head->count, "Connection", "close"))
        CHECK(!head->keep_alive);
}

/* Both had equal results. */
static inline void reading_check_same(const struct reading *one, const struct reading *other)
{
    CHECK_EQ(one->result, other->result);
    if (one->result <= 0)
        return;
    const struct head *a = &one->head, *b = &other->head;
    CHECK_EQ(a->method - one->bytes, b->method - other->bytes);
    CHECK_EQ(a->target - one->bytes, b->target - other->bytes);
    CHECK_EQ(a->query - one->bytes, b->query - other->bytes);
    CHECK_EQ(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        CHECK_EQ(a->fields[i].name - one->bytes, b->fields[i].name - other->bytes);
        CHECK_EQ(a->fields[i].value - one->bytes, b->fields[i].value - other->bytes);
    }
    CHECK_EQ(a->version, b->version);
    CHECK_EQ(a->length, b->length);
    CHECK_EQ(a->keep_alive, b->keep_alive);
    CHECK_EQ(a->expects_continue, b->expects_continue);
    CHECK_EQ(a->upgrade, b->upgrade);
    CHECK_EQ(a->trailers_wanted, b->trailers_wanted);
    CHECK(memcmp(one->bytes, other->bytes, (size_t)one->result) == 0);
}

/* Changes a head a little, in `bytes` with room for `room`. */
static inline size_t head_mutate(struct prng *prng, char *bytes, size_t size, size_t room)
{
    static const char *const words[] = {"\r\n",
                                        "\n",
                                        "\r",
                                        "\r\n\r\n",
                                        " ",
                                        "\t",
                                        ":",
                                        ",",
                                        "0",
                                        "\xff",
                                        "chunked",
                                        "Transfer-Encoding: chunked\r\n",
                                        "Content-Length: 3\r\n",
                                        "Host: a\r\n",
                                        "http://a",
                                        "HTTP/1.0",
                                        "Connection: close\r\n",
                                        "[::1]",
                                        "?",
                                        "Expect: 100-continue\r\n",
                                        "*",
                                        "close, "};
    for (uint32_t changes = prng_below(prng, 4); changes > 0; changes--) {
        size_t at = prng_below(prng, (uint32_t)size);
        const char *word = words[prng_below(prng, sizeof words / sizeof words[0])];
        size_t length = strlen(word);
        switch (prng_below(prng, 4)) {
        case 0:
            bytes[at] = (char)prng_next(prng);
            break;
        case 1:
            if (size > 1)
                memmove(bytes + at, bytes + at + 1, --size - at);
            break;
        case 2:
            if (size + length <= room) {
                memmove(bytes + at + length, bytes + at, size - at);
                size += length;
                while (*word != '\0')
                    bytes[at++] = *word++;
            }
            break;
        default:
            bytes[at] ^= (char)(1u << prng_below(prng, 8));
            break;
        }
    }
    return size;
}

#endif
