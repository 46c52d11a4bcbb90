/*
 * routes.c: patterns and a path: the search finds the routes that comparing with each pattern
 * finds.
 *
 * Patterns have a line each, the path is the last line. The routes must also be in the right order.
 */
#include "http/routes.h"

#include "fuzz.h"

enum { PATTERNS = 64, KINDS = 256 };

/* Compares an accepted pattern with a path; `kinds`: the kinds of its segments, which decide the
 * order. */
static bool matches(const char *pattern, const char *path, char *kinds)
{
    while (*pattern == '/') {
        size_t size = strcspn(pattern + 1, "/"), other = 0;
        if (*path != '/')
            return false;
        other = strcspn(path + 1, "/");
        if (pattern[1] != '{') {
            if (size != other || memcmp(pattern + 1, path + 1, size) != 0)
                return false;
            *kinds++ = '0';
        } else if (size > 4 && memcmp(pattern + size - 3, "...}", 4) == 0) {
            *kinds++ = '2';
            *kinds = '\0';
            return true;
        } else {
            if (other == 0)
                return false;
            *kinds++ = '1';
        }
        pattern += size + 1;
        path += other + 1;
    }
    *kinds = '\0';
    return *path == '\0';
}

static void answer(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)request, (void)response, (void)data;
}

/* The values substituted into the pattern give the path. */
static void check_values(const struct route_cursor *cursor, const char *pattern, const char *path)
{
    struct route_value values[HTTP_PARAMS];
    int count = weft__http_routes_values(cursor, values), number = 0;
    while (*pattern == '/') {
        size_t size = strcspn(pattern + 1, "/"), taken = size;
        if (pattern[1] == '{') {
            CHECK(number < count);
            CHECK_PTR(values[number].text, path + 1);
            taken = values[number++].size;
        }
        pattern += size + 1;
        path += taken + 1;
    }
    CHECK_EQ(number, count);
    CHECK_EQ(*path, 0);
}

static void compare(const struct routes *routes, char *const *patterns, int count, const char *path)
{
    struct route_cursor cursor;
    const struct route_node *node;
    char kinds[KINDS], last[KINDS] = "";
    int expected = 0, found = 0;
    for (int i = 0; i < count; i++)
        expected += matches(patterns[i], path, kinds);
    weft__http_routes_look(routes, path, &cursor);
    while ((node = weft__http_routes_next(&cursor)) != NULL) {
        const char *pattern = node->routes->data;
        CHECK(matches(pattern, path, kinds));
        CHECK(strcmp(last, kinds) < 0);
        strcpy(last, kinds);
        check_values(&cursor, pattern, path);
        found++;
    }
    CHECK_EQ(found, expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct routes routes = {0};
    char *patterns[PATTERNS], *text = malloc(size + 1);
    int count = 0;
    (void)fuzz_prng(data, size);
    CHECK(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    char *line = text, *end;
    while ((end = strchr(line, '\n')) != NULL && count < PATTERNS) {
        *end = '\0';
        int error = weft__http_routes_add(&routes, "GET", line, answer, line);
        CHECK(error == 0 || error == -EINVAL || error == -EEXIST);
        if (error == 0 && (size_t)(end - line) < KINDS)
            patterns[count++] = line;
        else if (error == 0)
            break; /* too long for the comparison */
        line = end + 1;
    }
    if (end == NULL)
        compare(&routes, patterns, count, line);
    weft__http_routes_free(&routes);
    free(text);
    return 0;
}
