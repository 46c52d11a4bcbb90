/*
 * parse.h: the head of a request, from bytes. Pure: no memory, no clock, no descriptors.
 */
#ifndef WEFT_HTTP_PARSE_H
#define WEFT_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A header or trailer field: texts that end with a zero, in the bytes that were read. */
struct field {
    char *name, *value;
    uint32_t name_size, value_size;
};

/* What a head says. All texts end with a zero and lie in the bytes that were read. */
struct head {
    char *method;
    char *target; /* as it came; of the absolute form without scheme and authority: "/path?query" */
    char *query;  /* what follows the question mark in the target; "" */
    uint32_t method_size, target_size;
    int version; /* 10 or 11 */
    struct field *fields;
    int count, most; /* fields; `fields` has room for `most` */
    int64_t length;  /* of the body: 0 without one; -1: chunked */
    bool keep_alive; /* the connection may be used again, as far as the client is concerned */
    bool expects_continue;
    bool upgrade;         /* asks for one: Upgrade, and Connection names it */
    bool trailers_wanted; /* TE: trailers */
};

/* Reads a head of at most `limit` bytes from the `size` bytes at `data`. `*seen` is 0 for a new one, and holds between
 * calls how far it was looked for the end, so that a head that comes byte by byte costs no more. Before it, empty lines
 * are skipped (at most two CR LF).
 * Returns the number of bytes of the head, its empty line and what was skipped included: then `head` is filled in and
 * the bytes have been changed (zeros after texts); 0 if more is needed: nothing was changed; or a status, negative, with
 * which it is to be refused: -400, -431 (too long, too many fields), -501 (a transfer coding beside
 * chunked), -505 (a major version other than 1; 1.2 and above are read as 1.1), -417 (an expectation other than
 * 100-continue). Then the bytes may have been changed; `head->method` is NULL, or the first line was read: method, target,
 * version and the first `count` fields are what came, and the rest means nothing.
 * It does not matter in which pieces a head came: the same is found out, but as early as it can be seen.
 * `head->fields` and `head->most` are the caller's. */
int64_t weft__http_parse_head(struct head *head, char *data, size_t size, size_t limit,
                              size_t *seen);

/* What can be told of a head that was refused, or did not come to its end, where parse_head has not read its first line: sets
 * method, target and version (0) as far as they can be made out in its bytes, which are changed. For the log. */
void weft__http_parse_remains(struct head *head, char *data, size_t size);

/* Reads header fields and the empty line behind them (a trailer) from `size` bytes: as above, at most `limit` bytes.
 * Returns the number of bytes; 0 if more is needed; -400, -431. */
int64_t weft__http_parse_fields(struct field *fields, int most, int *count, char *data, size_t size,
                                size_t limit, size_t *seen);

/* The first field of that name, or NULL. */
const struct field *weft__http_find_field(const struct field *fields, int count, const char *name);
/* Whether a field's list of words (values separated by commas) has that one, without regard to case, in any of the fields
 * of that name. */
bool weft__http_field_has(const struct field *fields, int count, const char *name,
                          const char *word);

bool weft__http_is_token(const char *text);
/* Without control characters, but for the tab. */
bool weft__http_is_value(const char *text);

/* Decodes the path of a target (up to the question mark) into `path`, which has room for the target and a zero: %XX, but not
 * %2F (nor %2f), which stay; "." and ".." and empty segments are resolved as RFC 3986 says (empty ones stay).
 * Returns its size; -400 if a % is not followed by two digits, a %00 is in it, it leads above the root, or does not begin with
 * a slash (but "*" is fine). */
int64_t weft__http_decode_path(const char *target, char *path);
/* Decodes `size` bytes of a query: %XX, and + as a space. `to` may be `from`. Returns the size; a % that makes no sense
 * stays. */
size_t weft__http_decode_query(const char *from, size_t size, char *to);

#endif
