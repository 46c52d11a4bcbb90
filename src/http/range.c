/*
 * range.c: ranges, conditions and codings of a file: see range.h.
 *
 * What is malformed is ignored, as the RFC wants it: a malformed Range asks for the whole, and a
 * malformed date is no condition. Only If-Match fails if it names no tag that is known.
 *
 * Many small ranges, or the same bytes again and again, are what attackers ask for. They get the
 * whole file, which any client must be able to take.
 */
#include "http/range.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "http/date.h"

static const char *skip_spaces(const char *at)
{
    return at + strspn(at, " \t");
}

/* ---- ranges ---- */

/* Parses digits. A number that is too large becomes the largest. */
static bool read_number(const char **at, int64_t *number)
{
    const char *start = *at;
    int64_t value = 0;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        int digit = **at - '0';
        value = value > (INT64_MAX - digit) / 10 ? INT64_MAX : value * 10 + digit;
    }
    *number = value;
    return *at != start;
}

/* Parses "a-b", "a-" or "-n". The size is 0 if the range does not begin within `length`. */
static int read_range(const char **at, int64_t length, struct range *range)
{
    int64_t first, last;
    if (**at == '-') {
        int64_t size;
        ++*at;
        if (!read_number(at, &size))
            return -EINVAL;
        size = size < length ? size : length;
        *range = (struct range){length - size, size};
        return 0;
    }
    if (!read_number(at, &first) || **at != '-')
        return -EINVAL;
    ++*at;
    if (!read_number(at, &last))
        last = INT64_MAX;
    if (last < first)
        return -EINVAL;
    last = last < length ? last : length - 1;
    *range = (struct range){first, first < length ? last - first + 1 : 0};
    return 0;
}

static bool overlap(const struct range *ranges, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (ranges[i].first < ranges[j].first + ranges[j].size &&
                ranges[j].first < ranges[i].first + ranges[i].size)
                return true;
    return false;
}

int weft__http_ranges(const char *value, int64_t length, struct range *ranges)
{
    int asked = 0, count = 0;
    if (length == 0 || strncasecmp(value, "bytes=", 6) != 0)
        return 0;
    const char *at = value + 6;
    for (;;) {
        struct range range;
        at += strspn(at, " \t,"); /* elements of a list may be empty */
        if (*at == '\0')
            break;
        if (++asked > HTTP_RANGES || read_range(&at, length, &range) != 0)
            return 0;
        at = skip_spaces(at);
        if (*at != ',' && *at != '\0')
            return 0;
        if (range.size > 0)
            ranges[count++] = range;
    }
    if (asked > 0 && count == 0)
        return -ERANGE;
    return overlap(ranges, count) ? 0 : count;
}

/* ---- conditions ---- */

/* Whether a list of entity tags has that one; with `weakly` also as a weak tag. */
static bool has_tag(const char *list, const char *tag, bool weakly)
{
    size_t size = strlen(tag);
    if (strcmp(list, "*") == 0)
        return true;
    for (;;) {
        list += strspn(list, " \t,");
        bool weak = strncmp(list, "W/", 2) == 0;
        list += weak ? 2 : 0;
        const char *end = *list == '"' ? strchr(list + 1, '"') : NULL;
        if (end == NULL)
            return false;
        if ((weakly || !weak) && (size_t)(end + 1 - list) == size && memcmp(list, tag, size) == 0)
            return true;
        list = end + 1;
    }
}

/* In the order of RFC 9110, 13.2.2. */
int weft__http_conditions(const struct conditions *conditions, const struct validators *file)
{
    int64_t date;
    if (conditions->match != NULL) {
        if (!has_tag(conditions->match, file->tag, false))
            return 412;
    } else if (conditions->unmodified_since != NULL) {
        date = weft__http_date_parse(conditions->unmodified_since);
        if (date != HTTP_NO_DATE && file->modified > date)
            return 412;
    }
    if (conditions->none_match != NULL)
        return has_tag(conditions->none_match, file->tag, true) ? 304 : 200;
    if (conditions->modified_since != NULL) {
        date = weft__http_date_parse(conditions->modified_since);
        return date != HTTP_NO_DATE && file->modified <= date ? 304 : 200;
    }
    return 200;
}

/* A date proves that the file did not change only if its second was over when it was given. */
bool weft__http_if_range(const struct conditions *conditions, const struct validators *file)
{
    const char *value = conditions->range;
    if (value == NULL || strcmp(value, file->tag) == 0)
        return true;
    if (value[0] == '"' || strncmp(value, "W/", 2) == 0)
        return false;
    return weft__http_date_parse(value) == file->modified && file->now > file->modified;
}

/* ---- codings ---- */

/* Parses the weight behind a coding, ";q=0.5", in thousandths: 1000 if there is none, 0 if it is
 * malformed. */
static int read_weight(const char *at, const char *end)
{
    int weight = 0, unit = 1000;
    at = skip_spaces(at);
    if (at >= end)
        return 1000;
    if (*at != ';')
        return 0;
    at = skip_spaces(at + 1);
    if ((*at != 'q' && *at != 'Q') || at[1] != '=')
        return 0;
    for (at += 2; at < end; at++) {
        if (*at >= '0' && *at <= '9') {
            weight += (*at - '0') * unit;
            unit /= 10;
        } else if (*at != '.') {
            break;
        }
    }
    return skip_spaces(at) < end || weight > 1000 ? 0 : weight;
}

static bool is_word(const char *text, size_t size, const char *word)
{
    return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

bool weft__http_takes_gzip(const char *value)
{
    int gzip = -1, plain = -1, others = -1;
    while (value != NULL && *value != '\0') {
        value += strspn(value, " \t,");
        const char *end = value + strcspn(value, ",");
        size_t size = strcspn(value, " \t;,");
        int weight = read_weight(value + size, end);
        if (is_word(value, size, "gzip") || is_word(value, size, "x-gzip"))
            gzip = weight;
        else if (is_word(value, size, "identity"))
            plain = weight;
        else if (is_word(value, size, "*"))
            others = weight;
        value = end;
    }
    gzip = gzip >= 0 ? gzip : others;
    return gzip > 0 && gzip >= plain;
}
