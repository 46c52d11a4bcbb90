/*
 * path.h: decoding the path and the query of a target. Pure: no memory, no clock, no descriptors.
 */
#ifndef WEFT_HTTP_PATH_H
#define WEFT_HTTP_PATH_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the path of a target (up to the question mark) into `path`, which has room for the target
 * and a zero. Decodes %XX, except %2F and %2f, which stay. Resolves "." and ".." as RFC 3986 says;
 * empty segments stay. Returns the size; -400 if a % is not followed by two digits, if the path has
 * %00 or leads above the root, or if it does not begin with a slash (but "*" is fine). */
int64_t weft__http_decode_path(const char *target, char *path);
/* Decodes `size` bytes of a query: %XX, and + as a space. A % without two digits stays. `to` may be
 * `from`. Returns the size. */
size_t weft__http_decode_query(const char *from, size_t size, char *to);

#endif
