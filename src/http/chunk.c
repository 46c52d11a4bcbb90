/*
 * chunk.c: decodes a chunked body as it comes in. The states, and the bytes between them:
 *
 *     FIRST digit SIZE digit... [; EXTENSION ...] CR SIZE_END LF BODY bytes... BODY_CR CR BODY_LF
 *     LF FIRST
 *
 * A line of "0" sets `done`; what is behind its LF is the trailer.
 *
 * Lines end with CR LF and nothing else, in extensions too: where another server takes an LF alone,
 * the two would disagree on what a chunk is. Blanks behind a size are refused, though RFC 9112 lets
 * a recipient accept them before an extension: no client sends them. An extension is ignored, but
 * may have no control characters. A size has at most 16 digits, so that every line ends.
 */
#include "http/chunk.h"

#include "http/hex.h"

enum { FIRST, SIZE, EXTENSION, SIZE_END, BODY, BODY_CR, BODY_LF };

enum { MAX_DIGITS = 16, MAX_IGNORED = 256 };

/* `ignored` counts the digits here. Returns false if the byte is malformed. */
static bool decode_size(struct chunks *chunks, char byte)
{
    int value = hex_value(byte);
    if (value >= 0) {
        if (chunks->ignored == MAX_DIGITS || chunks->left > (uint64_t)INT64_MAX / 16)
            return false;
        chunks->left = chunks->left * 16 + (uint64_t)value;
        chunks->ignored++;
        chunks->state = SIZE;
        return true;
    }
    if (chunks->state == FIRST || (byte != ';' && byte != '\r'))
        return false;
    chunks->ignored = 0;
    chunks->state = byte == ';' ? EXTENSION : SIZE_END;
    return true;
}

static bool decode_extension(struct chunks *chunks, char byte)
{
    if (byte == '\r') {
        chunks->state = SIZE_END;
        return true;
    }
    bool control = ((uint8_t)byte < 0x20 && byte != '\t') || byte == 0x7f;
    return !control && ++chunks->ignored <= MAX_IGNORED;
}

/* Decodes a byte that is not of the body. */
static bool decode_byte(struct chunks *chunks, char byte)
{
    switch (chunks->state) {
    case FIRST:
    case SIZE:
        return decode_size(chunks, byte);
    case EXTENSION:
        return decode_extension(chunks, byte);
    case SIZE_END:
        chunks->ignored = 0;
        chunks->done = byte == '\n' && chunks->left == 0;
        chunks->state = BODY;
        return byte == '\n';
    case BODY_CR:
        chunks->state = BODY_LF;
        return byte == '\r';
    default:
        chunks->state = FIRST;
        return byte == '\n';
    }
}

int64_t weft__http_chunks_decode(struct chunks *chunks, const char *data, size_t size,
                                 const char **piece, size_t *piece_size)
{
    *piece = NULL;
    *piece_size = 0;
    size_t at = 0;
    while (at < size && !chunks->done) {
        if (chunks->state == BODY) {
            size_t rest = size - at;
            *piece = data + at;
            *piece_size = chunks->left < rest ? (size_t)chunks->left : rest;
            chunks->left -= *piece_size;
            if (chunks->left == 0)
                chunks->state = BODY_CR;
            return (int64_t)(at + *piece_size);
        }
        if (!decode_byte(chunks, data[at]))
            return -400;
        at++;
    }
    return (int64_t)at;
}
