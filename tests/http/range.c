/*
 * range.c: ranges, conditions, codings and types, without a server.
 */
#include "http/range.h"

#include <weft/http_files.h>

#include "test.h"

/* ---- ranges ---- */

/* As text: "0+5 9+1" of first and size; "whole"; "none". */
static const char *ranges_of(const char *value, int64_t length)
{
    static char text[1024];
    struct range ranges[HTTP_RANGES];
    int count = weft__http_ranges(value, length, ranges), size = 0;
    if (count == -ERANGE)
        return "none";
    CHECK(count >= 0 && count <= HTTP_RANGES);
    if (count == 0)
        return "whole";
    for (int i = 0; i < count; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "%s%lld+%lld", i > 0 ? " " : "",
                         (long long)ranges[i].first, (long long)ranges[i].size);
    return text;
}

static void ranges_are_found(void)
{
    static const struct {
        const char *value;
        int64_t length;
        const char *expected;
    } table[] = {
        {"bytes=0-0", 100, "0+1"},
        {"bytes=0-", 100, "0+100"},
        {"bytes=0-99", 100, "0+100"},
        {"bytes=0-100", 100, "0+100"},
        {"bytes=10-19", 100, "10+10"},
        {"bytes=99-99", 100, "99+1"},
        {"bytes=99-", 100, "99+1"},
        {"bytes=100-", 100, "none"},
        {"bytes=100-200", 100, "none"},
        {"bytes=-1", 100, "99+1"},
        {"bytes=-100", 100, "0+100"},
        {"bytes=-101", 100, "0+100"},
        {"bytes=-0", 100, "none"},
        {"BYTES=0-1", 100, "0+2"},
        {"bytes=00-007", 100, "0+8"},
        /* numbers that no variable holds */
        {"bytes=0-99999999999999999999999", 100, "0+100"},
        {"bytes=99999999999999999999999-", 100, "none"},
        {"bytes=-99999999999999999999999", 100, "0+100"},
        {"bytes=9223372036854775807-9223372036854775807", 100, "none"},
        {"bytes=0-9223372036854775807", INT64_MAX, "0+9223372036854775807"},
        {"bytes=-9223372036854775807", INT64_MAX, "0+9223372036854775807"},
        /* several */
        {"bytes=0-1,5-6", 100, "0+2 5+2"},
        {"bytes=5-6,0-1", 100, "5+2 0+2"},
        {"bytes= 0-1 ,\t5-6 , ,,-1 ", 100, "0+2 5+2 99+1"},
        {"bytes=0-1,200-", 100, "0+2"},
        {"bytes=200-,300-", 100, "none"},
        {"bytes=0-1,2-3", 100, "0+2 2+2"},
        {"bytes=2-3,0-1", 100, "2+2 0+2"},
        {"bytes=0-1,1-3", 100, "whole"},
        {"bytes=0-,0-", 100, "whole"},
        {"bytes=5-6,0-9", 100, "whole"},
        {"bytes=0-0,-1", 1, "whole"},
        {"bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,"
         "30-30",
         100, "0+1 2+1 4+1 6+1 8+1 10+1 12+1 14+1 16+1 18+1 20+1 22+1 24+1 26+1 28+1 30+1"},
        {"bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,"
         "30-30,32-32",
         100, "whole"},
        /* nothing to have a range of */
        {"bytes=0-", 0, "whole"},
        {"bytes=-5", 0, "whole"},
        /* no sense */
        {"bytes=", 100, "whole"},
        {"bytes=,", 100, "whole"},
        {"bytes", 100, "whole"},
        {"", 100, "whole"},
        {"lines=0-1", 100, "whole"},
        {"bytes=a", 100, "whole"},
        {"bytes=-", 100, "whole"},
        {"bytes=5", 100, "whole"},
        {"bytes=5-4", 100, "whole"},
        {"bytes=1-0", 100, "whole"},
        {"bytes=0-1x", 100, "whole"},
        {"bytes=0-1 2-3", 100, "whole"},
        {"bytes=0 -1", 100, "whole"},
        {"bytes=--1", 100, "whole"},
        {"bytes=+1-2", 100, "whole"},
        {"bytes=0x0-1", 100, "whole"},
        {"bytes =0-1", 100, "whole"},
        {"bytes=0-1,x", 100, "whole"},
        {"bytes=200-,x", 100, "whole"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(ranges_of(table[i].value, table[i].length), table[i].expected) != 0)
            test_fail(__FILE__, __LINE__, "%s of %lld: %s, not %s", table[i].value,
                      (long long)table[i].length, ranges_of(table[i].value, table[i].length),
                      table[i].expected);
}

/* ---- conditions ---- */

/* The file is of this date, and is asked for an hour later. */
#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER "Sun, 06 Nov 1994 08:49:38 GMT"

static const struct validators file = {"\"a,b\"", 784111777, 784111777 + 3600};

static void conditions_in_their_order(void)
{
    static const struct {
        struct conditions conditions;
        int status;
    } table[] = {
        {{.match = NULL}, 200},
        {{.match = "*"}, 200},
        {{.match = "\"a,b\""}, 200},
        {{.match = "\"x\", \"a,b\""}, 200},
        {{.match = "\"x\""}, 412},
        {{.match = "\"b,a\""}, 412},
        {{.match = "W/\"a,b\""}, 412},
        {{.match = "a,b"}, 412},
        {{.match = ""}, 412},
        {{.match = "\"a,b"}, 412},
        {{.match = "\"a"}, 412},
        {{.unmodified_since = DATE}, 200},
        {{.unmodified_since = AFTER}, 200},
        {{.unmodified_since = BEFORE}, 412},
        {{.unmodified_since = "yesterday"}, 200},
        {{.match = "\"a,b\"", .unmodified_since = BEFORE}, 200},
        {{.none_match = "*"}, 304},
        {{.none_match = "\"a,b\""}, 304},
        {{.none_match = "W/\"a,b\""}, 304},
        {{.none_match = "\"x\" ,W/\"y\",,\"a,b\""}, 304},
        {{.none_match = "\"a\",\"b\""}, 200},
        {{.none_match = "w/\"a,b\""}, 200},
        {{.none_match = "\"x\""}, 200},
        {{.none_match = "\"b,a\""}, 200},
        {{.none_match = "\"b,a\", \"a,b\""}, 304},
        {{.none_match = "a,b"}, 200},
        {{.none_match = ""}, 200},
        {{.modified_since = DATE}, 304},
        {{.modified_since = AFTER}, 304},
        {{.modified_since = BEFORE}, 200},
        {{.modified_since = "Sunday, 06-Nov-94 08:49:37 GMT"}, 304},
        {{.modified_since = "Sun Nov  6 08:49:37 1994"}, 304},
        {{.modified_since = "soon"}, 200},
        {{.none_match = "\"x\"", .modified_since = AFTER}, 200},
        {{.none_match = "\"a,b\"", .modified_since = BEFORE}, 304},
        {{.match = "\"x\"", .none_match = "\"a,b\""}, 412},
        {{.match = "\"a,b\"", .none_match = "\"a,b\""}, 304},
        {{.unmodified_since = BEFORE, .none_match = "\"a,b\""}, 412},
        {{.unmodified_since = AFTER, .modified_since = AFTER}, 304},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (weft__http_conditions(&table[i].conditions, &file) != table[i].status)
            test_fail(__FILE__, __LINE__, "condition %d: %d, not %d", (int)i,
                      weft__http_conditions(&table[i].conditions, &file), table[i].status);
}

static bool if_range(const char *value, int64_t now)
{
    struct conditions conditions = {.range = value};
    struct validators at = {file.tag, file.modified, now};
    return weft__http_if_range(&conditions, &at);
}

static void ranges_of_the_same_file_only(void)
{
    CHECK(if_range(NULL, file.now));
    CHECK(if_range("\"a,b\"", file.now));
    CHECK(!if_range("\"x\"", file.now));
    CHECK(!if_range("W/\"a,b\"", file.now));
    CHECK(!if_range("*", file.now));
    CHECK(!if_range("", file.now));
    CHECK(if_range(DATE, file.now));
    CHECK(!if_range(BEFORE, file.now));
    CHECK(!if_range(AFTER, file.now));
    /* In its second the file may still change. */
    CHECK(!if_range(DATE, file.modified));
    CHECK(if_range(DATE, file.modified + 1));
}

/* Its date is one like any other, and not that of a text that is none. */
static void files_from_before_1970(void)
{
    static const struct validators old = {"\"a\"", -1, 3600};
    static const struct {
        struct conditions conditions;
        int status;
        bool range;
    } table[] = {
        {{.unmodified_since = "Wed, 31 Dec 1969 23:59:58 GMT"}, 412, true},
        {{.unmodified_since = "Wed, 31 Dec 1969 23:59:59 GMT"}, 200, true},
        {{.unmodified_since = "soon"}, 200, true},
        {{.modified_since = "Wed, 31 Dec 1969 23:59:58 GMT"}, 200, true},
        {{.modified_since = "Wed, 31 Dec 1969 23:59:59 GMT"}, 304, true},
        {{.modified_since = "soon"}, 200, true},
        {{.range = "Wed, 31 Dec 1969 23:59:58 GMT"}, 200, false},
        {{.range = "Wed, 31 Dec 1969 23:59:59 GMT"}, 200, true},
        {{.range = "soon"}, 200, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct conditions *conditions = &table[i].conditions;
        if (weft__http_conditions(conditions, &old) != table[i].status ||
            weft__http_if_range(conditions, &old) != table[i].range)
            test_fail(__FILE__, __LINE__, "condition %d: %d, %d", (int)i,
                      weft__http_conditions(conditions, &old),
                      weft__http_if_range(conditions, &old));
    }
}

/* ---- codings ---- */

static void gzip_only_for_those_who_take_it(void)
{
    static const char *const yes[] = {
        "gzip",          "GZIP",
        "x-gzip",        "deflate, gzip",
        "gzip;q=1",      "gzip;q=0.001",
        "gzip ; q=0.5",  "*",
        "br, *;q=0.1",   "gzip;q=1.0, identity; q=0.5, *;q=0",
        "gzip,identity", ",gzip,",
        "gzip;Q=1",
    };
    static const char *const no[] = {
        "",
        "identity",
        "br",
        "zstd",
        "gzip;q=0",
        "gzip;q=0.000",
        "gzip;q=0.",
        "*;q=0",
        "*, gzip;q=0",
        "gzip;q=0.5, identity",
        "gzip;q=0.4,identity;q=0.5",
        "gzipped",
        "xgzip",
        "gzip;q=2",
        "gzip;q=x",
        "gzip;q",
        "gzip;q:1",
        "gzip;level=9",
        "gzip q=1",
        "br;q=1;gzip",
    };
    CHECK(!weft__http_takes_gzip(NULL));
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (!weft__http_takes_gzip(yes[i]))
            test_fail(__FILE__, __LINE__, "takes gzip: %s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (weft__http_takes_gzip(no[i]))
            test_fail(__FILE__, __LINE__, "does not take gzip: %s", no[i]);
}

/* ---- types ---- */

static void types_by_ending(void)
{
    static const char *const table[][2] = {
        {"index.html", "text/html; charset=utf-8"},
        {"INDEX.HTM", "text/html; charset=utf-8"},
        {"a/b.c/x.js", "text/javascript; charset=utf-8"},
        {"style.min.css", "text/css; charset=utf-8"},
        {"a.7z", "application/x-7z-compressed"},
        {"a.zst", "application/zstd"},
        {"a.json", "application/json"},
        {"a.jpeg", "image/jpeg"},
        {"a.jpg", "image/jpeg"},
        {"a.png", "image/png"},
        {"a.svg", "image/svg+xml"},
        {"a.wasm", "application/wasm"},
        {"a.woff", "font/woff"},
        {"a.woff2", "font/woff2"},
        {"a.tar.gz", "application/gzip"},
        {"a.mp4", "video/mp4"},
        {"a.unheard", "application/octet-stream"},
        {"html", "application/octet-stream"},
        {"a.html/b", "application/octet-stream"},
        {"a.", "application/octet-stream"},
        {"", "application/octet-stream"},
        {"a.html ", "application/octet-stream"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        CHECK_STR(weft_http_type(table[i][0]), table[i][1]);
    CHECK_STR(weft_http_type(NULL), "application/octet-stream");
}

int main(void)
{
    RUN_PLAIN(ranges_are_found, "nothing here is a fiber");
    RUN_PLAIN(conditions_in_their_order, "nothing here is a fiber");
    RUN_PLAIN(ranges_of_the_same_file_only, "nothing here is a fiber");
    RUN_PLAIN(files_from_before_1970, "nothing here is a fiber");
    RUN_PLAIN(gzip_only_for_those_who_take_it, "nothing here is a fiber");
    RUN_PLAIN(types_by_ending, "nothing here is a fiber");
    return 0;
}
