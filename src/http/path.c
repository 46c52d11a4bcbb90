/*
 * path.c: decodes percent signs in a target.
 *
 * A path is decoded first and its dots are resolved after that, since %2e is a dot (RFC 3986,
 * 6.2.2.2): "/%2e%2e" leads above the root. %2F stays: decoded it would look like a separator.
 */
#include "http/path.h"

#include <stdbool.h>
#include <string.h>

#include "http/hex.h"

/* The byte of the %XX at `at`, in `size` bytes; -1 if it is none. */
static int escaped(const char *at, size_t size)
{
    if (size < 3)
        return -1;
    int high = hex_value(at[1]), low = hex_value(at[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Resolves the segment from its slash at `slash` to `end`, if it is one of dots; `last`: nothing
 * follows. Returns where the path goes on; NULL if it leads above the root. */
static char *end_segment(const char *path, char *slash, char *end, bool last)
{
    size_t size = (size_t)(end - slash) - 1;
    bool one = size == 1 && slash[1] == '.';
    bool two = size == 2 && slash[1] == '.' && slash[2] == '.';
    if (!one && !two)
        return end;
    if (two) {
        if (slash == path)
            return NULL;
        do
            slash--;
        while (*slash != '/');
    }
    return last ? slash + 1 : slash;
}

int64_t weft__http_decode_path(const char *target, char *path)
{
    size_t size = strcspn(target, "?");
    if (size == 1 && target[0] == '*') {
        memcpy(path, "*", 2);
        return 1;
    }
    if (target[0] != '/')
        return -400;
    char *to = path, *slash = path;
    for (size_t i = 0; i < size; i++) {
        if (target[i] == '/') {
            if (to > path && (to = end_segment(path, slash, to, false)) == NULL)
                return -400;
            slash = to;
            *to++ = '/';
        } else if (target[i] == '%') {
            int byte = escaped(target + i, size - i);
            if (byte <= 0)
                return -400;
            if (byte == '/') {
                memcpy(to, target + i, 3);
                to += 3;
            } else {
                *to++ = (char)byte;
            }
            i += 2;
        } else {
            *to++ = target[i];
        }
    }
    to = end_segment(path, slash, to, true);
    if (to == NULL)
        return -400;
    *to = '\0';
    return to - path;
}

size_t weft__http_decode_query(const char *from, size_t size, char *to)
{
    char *start = to;
    for (size_t i = 0; i < size; i++) {
        int byte = from[i] == '%' ? escaped(from + i, size - i) : -1;
        if (byte >= 0) {
            *to++ = (char)byte;
            i += 2;
        } else {
            *to++ = from[i] == '+' ? ' ' : from[i];
        }
    }
    return (size_t)(to - start);
}
