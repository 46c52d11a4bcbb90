/*
 * chunk.h: a body in chunks, decoded as it comes in. Pure, as parse.h.
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
    bool done; /* the last chunk was read: a trailer follows, which is not eaten (parse.h) */
};

/* Eats from `size` bytes at `data` as many as can be understood, up to the end of one piece of the body.
 * Returns how many were eaten (0 if size is 0 or it is done), and the piece of the body among them in *piece and
 * *piece_size (0: none; call again if not all was eaten); -400 if it makes no sense: a size that is no hexadecimal
 * number or too large for 63 bits, a bare LF, no CR LF behind a chunk, extensions of more than 256 bytes. */
int64_t weft__http_chunks_eat(struct chunks *chunks, const char *data, size_t size,
                              const char **piece, size_t *piece_size);

#endif
