/*
 * parse.h: parses the head of a request. Pure: no memory, no clock, no descriptors.
 */
#ifndef WEFT_HTTP_PARSE_H
#define WEFT_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A header or trailer field: texts in the bytes that were read, each with a zero at its end. */
struct field {
    char *name, *value;
    uint32_t name_size, value_size;
};

/* A parsed head. All texts lie in the bytes that were read, each with a zero at its end. */
struct head {
    char *method;
    char *target; /* as it came; the absolute form without scheme and authority: "/path?query" */
    char *query;  /* what follows the question mark in the target; "" */
    uint32_t method_size, target_size;
    int version; /* 10 or 11 */
    struct field *fields;
    int count, most; /* fields; `fields` has room for `most` */
    int64_t length;  /* of the body: 0 without one; -1: chunked */
    bool keep_alive; /* the connection may be used again, as far as the client is concerned */
    bool expects_continue;
    bool upgrade;         /* has Upgrade, and Connection names it */
    bool trailers_wanted; /* TE: trailers */
};

/* Parses a head of at most `limit` bytes in the `size` bytes at `data`. Skips at most two empty
 * lines before it. `*seen` is 0 for a new head; between calls it holds how far the end was looked
 * for, so that a head that comes byte by byte costs no more. The caller sets `head->fields` and
 * `head->most`.
 *
 * Returns
 *   > 0  the size of the head, with its empty line and what was skipped. `head` is filled in, and
 *        the bytes were changed (zeros after texts).
 *   0    more bytes are needed. Nothing was changed.
 *   < 0  the negative status of a refusal: -400; -431: too long, or too many fields; -501: a
 *        transfer coding other than chunked; -505: a major version other than 1 (1.2 and above are
 *        read as 1.1); -417: an expectation other than 100-continue. The bytes may have been
 *        changed. Either `head->method` is NULL, or the first line was read: then method, target,
 *        version and the first `count` fields are valid, and the rest is not.
 *
 * The result does not depend on the pieces in which the head came; it is found as early as the
 * bytes allow. */
int64_t weft__http_parse_head(struct head *head, char *data, size_t size, size_t limit,
                              size_t *seen);

/* For the log, after a head was refused or was cut off and weft__http_parse_head did not read its
 * first line: sets method, target and version (0) as far as the bytes show them, and changes the
 * bytes. */
void weft__http_parse_remains(struct head *head, char *data, size_t size);

/* Parses the fields of a trailer and the empty line behind them, as weft__http_parse_head does
 * those of a head. Returns the number of bytes; 0 if more are needed; -400, -431. */
int64_t weft__http_parse_fields(struct field *fields, int most, int *count, char *data, size_t size,
                                size_t limit, size_t *seen);

/* The first field of that name, or NULL. */
const struct field *weft__http_find_field(const struct field *fields, int count, const char *name);
/* Whether a field of that name has the word in its value, a list separated by commas. The case does
 * not matter. */
bool weft__http_field_has(const struct field *fields, int count, const char *name,
                          const char *word);

bool weft__http_is_token(const char *text);
/* Whether the text has no control character except tabs. */
bool weft__http_is_value(const char *text);

#endif
