/*
 * chunk.h: decodes a chunked body as it comes in. Pure: no memory, no clock, no descriptors.
 */
#ifndef WEFT_HTTP_CHUNK_H
#define WEFT_HTTP_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero to begin with. */
struct chunks {
    uint64_t left;    /* bytes of this chunk that are still to come */
    uint32_t ignored; /* bytes of extensions in this line, which are bounded */
    uint8_t state;
    bool done; /* the last chunk was read. A trailer follows, which parse.h reads */
};

/* Decodes from the `size` bytes at `data` up to the end of one piece of the body. Sets `*piece` and
 * `*piece_size` to that piece (size 0: none came; call again if bytes are left). Returns how many
 * bytes were used (0 if size is 0, or `done`); -400 if they are malformed: a size that is not
 * hexadecimal or exceeds 63 bits, a bare LF, no CR LF behind a chunk, or extensions of more than
 * 256 bytes. */
int64_t weft__http_chunks_decode(struct chunks *chunks, const char *data, size_t size,
                                 const char **piece, size_t *piece_size);

#endif
