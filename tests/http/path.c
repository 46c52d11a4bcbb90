/*
 * path.c: decoding of paths and queries.
 */
#include "http/path.h"

#include "base/prng.h"
#include "test.h"

static void paths_are_decoded(void)
{
    static const struct {
        const char *target, *path; /* NULL: 400 */
    } rows[] = {
        {"/", "/"},
        {"/?a", "/"},
        {"/a?b?c", "/a"},
        {"/a/b", "/a/b"},
        {"/a/b/", "/a/b/"},
        {"//", "//"},
        {"//a///b", "//a///b"},
        {"/a%20b", "/a b"},
        {"/%41%7a%7A%39", "/Azz9"},
        {"/%c3%a4", "/\xc3\xa4"},
        {"/a%2Fb", "/a%2Fb"},
        {"/a%2fb", "/a%2fb"},
        {"/%252e", "/%2e"},
        {"/a%3Fb", "/a?b"},
        {"/a+b", "/a+b"},
        {"/.", "/"},
        {"/./", "/"},
        {"/./a", "/a"},
        {"/a/.", "/a/"},
        {"/a/./b", "/a/b"},
        {"/a/..", "/"},
        {"/a/../", "/"},
        {"/a/../b", "/b"},
        {"/a/b/..", "/a/"},
        {"/a/b/../c", "/a/c"},
        {"/a/b/../../c", "/c"},
        {"/a/%2e%2E/b", "/b"},
        {"/a/.%2e/b", "/b"},
        {"/%2e/b", "/b"},
        {"/a//../b", "/a/b"},
        {"//..", "/"},
        {"//../a", "/a"},
        {"/...", "/..."},
        {"/..a", "/..a"},
        {"/a..", "/a.."},
        {"/b/a.", "/b/a."},
        {"/%01", "/\x01"},
        {"/.a/.b", "/.a/.b"},
        {"/..%2f", "/..%2f"},
        {"/a/..?b/../..", "/"},
        {"*", "*"},
        {"/..", NULL},
        {"/../", NULL},
        {"/../a", NULL},
        {"/a/../..", NULL},
        {"/a/../../b", NULL},
        {"/./..", NULL},
        {"/%2e%2e", NULL},
        {"/%2e%2e/a", NULL},
        {"/.%2E/.%2E/etc/passwd", NULL},
        {"/%00", NULL},
        {"/a%00.html", NULL},
        {"/%", NULL},
        {"/%4", NULL},
        {"/%4?1", NULL},
        {"/%4g", NULL},
        {"/%g4", NULL},
        {"/% 1", NULL},
        {"/%+1", NULL},
        {"/%%41", NULL},
        {"", NULL},
        {"?a", NULL},
        {"a", NULL},
        {"a:80", NULL},
        {"**", NULL},
        {"*a", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *path = malloc(strlen(rows[i].target) + 1);
        CHECK(path != NULL);
        int64_t size = weft__http_decode_path(rows[i].target, path);
        if (rows[i].path == NULL) {
            if (size != -400)
                test_fail(__FILE__, __LINE__, "%s gives %lld", rows[i].target, (long long)size);
        } else {
            if (size < 0)
                test_fail(__FILE__, __LINE__, "%s gives %lld", rows[i].target, (long long)size);
            CHECK_STR(path, rows[i].path);
            CHECK_EQ(size, strlen(rows[i].path));
        }
        free(path);
    }
}

/* No path of any target has segments of dots, or a root that can be left; and to decode what has no
 * percent signs again changes nothing. */
static void dots_never_stay(void)
{
    static const char *const parts[] = {"/",   ".",  "..",  "%2e", "%2F", "a",
                                        "%61", "//", "/..", "/.",  "%2E"};
    int64_t rounds = test_scale(200000), accepted = 0;
    struct prng prng;
    prng_seed(&prng, 7);
    for (int64_t round = 0; round < rounds; round++) {
        char target[64] = "/", path[64], again[64];
        size_t used = 1;
        for (uint32_t count = prng_below(&prng, 8); count > 0; count--)
            used += (size_t)sprintf(target + used, "%s",
                                    parts[prng_below(&prng, sizeof parts / sizeof parts[0])]);
        int64_t size = weft__http_decode_path(target, path);
        if (size < 0) {
            CHECK_EQ(size, -400);
            continue;
        }
        accepted++;
        CHECK_EQ(strlen(path), size);
        CHECK_EQ(path[0], '/');
        CHECK(strlen(path) <= strlen(target));
        char ended[80];
        sprintf(ended, "%s/", path);
        CHECK(strstr(ended, "/./") == NULL && strstr(ended, "/../") == NULL);
        if (strchr(path, '%') == NULL) {
            CHECK_EQ(weft__http_decode_path(path, again), size);
            CHECK_STR(again, path);
        }
    }
    CHECK(rounds < 1000 || accepted > rounds / 20);
}

static void queries_are_decoded(void)
{
    static const struct {
        const char *query, *text;
    } rows[] = {{"", ""},
                {"a=b", "a=b"},
                {"a+b", "a b"},
                {"%2B+%20", "+  "},
                {"%41%2f%2F", "A//"},
                {"%", "%"},
                {"%4", "%4"},
                {"%4g", "%4g"},
                {"%%41", "%A"},
                {"100%+x", "100% x"},
                {"%c3%A4", "\xc3\xa4"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[32];
        size_t size = strlen(rows[i].query);
        memcpy(text, rows[i].query, size);
        CHECK_EQ(weft__http_decode_query(text, size, text), strlen(rows[i].text));
        CHECK(memcmp(text, rows[i].text, strlen(rows[i].text)) == 0);
    }
    char zero[4] = "%00";
    CHECK_EQ(weft__http_decode_query(zero, 3, zero), 1);
    CHECK_EQ(zero[0], '\0');
    char cut[8];
    CHECK_EQ(weft__http_decode_query("%41%42", 5, cut), 3); /* bytes behind the size are not read */
    CHECK(memcmp(cut, "A%4", 3) == 0);
}

int main(void)
{
    RUN(paths_are_decoded);
    RUN(dots_never_stay);
    RUN(queries_are_decoded);
    return 0;
}
