/*
 * range.h: decides about ranges, conditions and compression of a file's response (RFC 9110,
 * sections 12 to 14). Pure: no memory, no clock, no descriptors.
 */
#ifndef WEFT_HTTP_RANGE_H
#define WEFT_HTTP_RANGE_H

#include <stdbool.h>
#include <stdint.h>

enum { HTTP_RANGES = 16 };

struct range {
    int64_t first, size;
};

/* The ranges that a field Range asks for in `length` bytes, in its order; `ranges` has room for
 * HTTP_RANGES. Returns their number; -ERANGE if no range begins within the bytes (416); 0 if the
 * whole is to be sent: the field is malformed or of another unit, it asks for more than HTTP_RANGES
 * or for the same bytes twice, or there are no bytes. */
int weft__http_ranges(const char *value, int64_t length, struct range *ranges);

/* What is known of a file. */
struct validators {
    const char *tag;  /* its entity tag, a strong one, with its quotes */
    int64_t modified; /* in seconds */
    int64_t now;
};

/* The fields; NULL where there is none. */
struct conditions {
    const char *match, *none_match;
    const char *modified_since, *unmodified_since;
    const char *range; /* If-Range */
};

/* The status for GET and HEAD: 200; 304 if the client has the file; 412. */
int weft__http_conditions(const struct conditions *conditions, const struct validators *file);
/* Whether the field Range applies. */
bool weft__http_if_range(const struct conditions *conditions, const struct validators *file);

/* Whether a field Accept-Encoding (or NULL) accepts gzip and does not prefer identity. */
bool weft__http_takes_gzip(const char *value);

#endif
