/*
 * parse.c: heads of requests: which are accepted, which refused; the result does not depend on the
 * pieces in which they come.
 */
#include "http/parse.h"

#include "head_feed.h"
#include "smuggling.h"
#include "test.h"

enum { LIMIT = 16384 };

static const char *running; /* the row */

static void say_row(void)
{
    fprintf(stderr, "the row: %s\n", running);
}

/* ---- heads that are accepted ---- */

enum { CLOSES = 1, CONTINUE = 2, UPGRADE = 4, TRAILERS = 8 };

struct understood {
    const char *bytes;
    const char *method, *target, *query;
    int version, count;
    int64_t length;
    int flags;
};

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST
#define OLD "GET / HTTP/1.0\r\n"

static const struct understood understood[] = {
    /* targets */
    {GET "\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"\r\n" GET "\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"\r\n\r\n" GET "\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"get /a/b?c=d?e HTTP/1.1\r\n" HOST "\r\n", "get", "/a/b?c=d?e", "c=d?e", 11, 1, 0, 0},
    {"GET /? HTTP/1.1\r\n" HOST "\r\n", "GET", "/?", "", 11, 1, 0, 0},
    {"GET //b/c HTTP/1.1\r\n" HOST "\r\n", "GET", "//b/c", "", 11, 1, 0, 0},
    {"GET /|{}^`\\\"<> HTTP/1.1\r\n" HOST "\r\n", "GET", "/|{}^`\\\"<>", "", 11, 1, 0, 0},
    {"GET http://a/b?c HTTP/1.1\r\n" HOST "\r\n", "GET", "/b?c", "c", 11, 1, 0, 0},
    {"GET HTTPS://A/b HTTP/1.1\r\n" HOST "\r\n", "GET", "/b", "", 11, 1, 0, 0},
    {"GET http://a HTTP/1.1\r\n" HOST "\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"GET https://a HTTP/1.1\r\n" HOST "\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"GET http://a?b HTTP/1.1\r\n" HOST "\r\n", "GET", "/?b", "b", 11, 1, 0, 0},
    {"GET http://a:80/ HTTP/1.0\r\n\r\n", "GET", "/", "", 10, 0, 0, CLOSES},
    {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS", "*", "", 11, 1, 0, 0},
    {"OPTIONS http://a HTTP/1.1\r\n" HOST "\r\n", "OPTIONS", "*", "", 11, 1, 0, 0},
    {"OPTIONS http://a/ HTTP/1.1\r\n" HOST "\r\n", "OPTIONS", "/", "", 11, 1, 0, 0},
    {"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "CONNECT", "a:80", "", 11, 1, 0, 0},
    {"CONNECT [::1]:80 HTTP/1.1\r\n" HOST "\r\n", "CONNECT", "[::1]:80", "", 11, 1, 0, 0},
    {"M-SEARCH! / HTTP/1.1\r\n" HOST "\r\n", "M-SEARCH!", "/", "", 11, 1, 0, 0},
    /* versions */
    {"GET / HTTP/1.2\r\n" HOST "\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"GET / HTTP/1.9\r\n" HOST "\r\n", "GET", "/", "", 11, 1, 0, 0},
    {OLD "\r\n", "GET", "/", "", 10, 0, 0, CLOSES},
    /* hosts */
    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"GET / HTTP/1.1\r\nhOST:\t a.example:8080 \t\r\n\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"GET / HTTP/1.1\r\nHost: [fA80::1.2.3.9]:65535\r\n\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"GET / HTTP/1.1\r\nHost: [::]\r\n\r\n", "GET", "/", "", 11, 1, 0, 0},
    {"GET / HTTP/1.1\r\nHost: a:\r\n\r\n", "GET", "/", "", 11, 1, 0, 0},
    /* bodies */
    {GET "Content-Length: 0\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {GET "content-length:5\r\n\r\n", "GET", "/", "", 11, 2, 5, 0},
    {GET "Content-Length: 0042\r\n\r\n", "GET", "/", "", 11, 2, 42, 0},
    {GET "Content-Length: 9223372036854775807\r\n\r\n", "GET", "/", "", 11, 2, INT64_MAX, 0},
    {GET "Transfer-Encoding: Chunked\r\n\r\n", "GET", "/", "", 11, 2, -1, 0},
    {OLD "Content-Length: 7\r\n\r\n", "GET", "/", "", 10, 1, 7, CLOSES},
    /* the connection */
    {GET "Connection: close\r\n\r\n", "GET", "/", "", 11, 2, 0, CLOSES},
    {GET "Connection: keep-alive, Close\r\n\r\n", "GET", "/", "", 11, 2, 0, CLOSES},
    {GET "Connection: closed\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {GET "Connection:\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {GET "Connection: x\r\nConnection: ,close,\r\n\r\n", "GET", "/", "", 11, 3, 0, CLOSES},
    {OLD "Connection: keep-alive\r\n\r\n", "GET", "/", "", 10, 1, 0, 0},
    {OLD "Connection: keep-alive\r\nConnection: close\r\n\r\n", "GET", "/", "", 10, 2, 0, CLOSES},
    {GET "Upgrade: x\r\nConnection: Upgrade\r\n\r\n", "GET", "/", "", 11, 3, 0, UPGRADE},
    {GET "Upgrade: x\r\nReferer: y\r\nConnection: upgrade\r\n\r\n", "GET", "/", "", 11, 4, 0,
     UPGRADE},
    {GET "Upgrade: x\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {GET "Connection: upgrade\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {OLD "Upgrade: x\r\nConnection: upgrade\r\n\r\n", "GET", "/", "", 10, 2, 0, CLOSES},
    {GET "Expect: 100-Continue\r\n\r\n", "GET", "/", "", 11, 2, 0, CONTINUE},
    {OLD "Expect: 100-continue\r\n\r\n", "GET", "/", "", 10, 1, 0, CLOSES},
    {OLD "Expect: nothing\r\n\r\n", "GET", "/", "", 10, 1, 0, CLOSES},
    {GET "TE: trailers\r\n\r\n", "GET", "/", "", 11, 2, 0, TRAILERS},
    {GET "TE: deflate;q=0.5, Trailers\r\n\r\n", "GET", "/", "", 11, 2, 0, TRAILERS},
    {GET "TE: trailers, gzip\r\n\r\n", "GET", "/", "", 11, 2, 0, TRAILERS},
    {GET "TE: gzip\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    /* names of the same size as those with a meaning */
    {GET "XY: trailers\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {GET "From: b\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {GET "Origin: 100-continue\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {GET "Referer: x\r\nConnection: upgrade\r\n\r\n", "GET", "/", "", 11, 3, 0, 0},
    {GET "User-Agent: close\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {GET "Accept-Charset: 5\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    {GET "If-Modified-Since: chunked\r\n\r\n", "GET", "/", "", 11, 2, 0, 0},
    /* values */
    {GET "X:\r\nY: \r\nZ:\ta \t b\t\r\n\r\n", "GET", "/", "", 11, 4, 0, 0},
    {GET "X: \xc3\xa4\xff\x80\r\n!#$%&'*+-.^_`|~09: :\r\n\r\n", "GET", "/", "", 11, 3, 0, 0},
};

static void heads_are_understood(void)
{
    for (size_t i = 0; i < sizeof understood / sizeof understood[0]; i++) {
        const struct understood *row = &understood[i];
        running = row->bytes;
        struct reading reading;
        size_t size = strlen(row->bytes);
        reading_feed(&reading, row->bytes, size, LIMIT, size, NULL);
        CHECK_EQ(reading.result, size);
        reading_check(&reading, LIMIT);
        const struct head *head = &reading.head;
        CHECK_STR(head->method, row->method);
        CHECK_STR(head->target, row->target);
        CHECK_STR(head->query, row->query);
        CHECK_EQ(head->version, row->version);
        CHECK_EQ(head->count, row->count);
        CHECK_EQ(head->length, row->length);
        CHECK_EQ(head->keep_alive, (row->flags & CLOSES) == 0);
        CHECK_EQ(head->expects_continue, (row->flags & CONTINUE) != 0);
        CHECK_EQ(head->upgrade, (row->flags & UPGRADE) != 0);
        CHECK_EQ(head->trailers_wanted, (row->flags & TRAILERS) != 0);
        reading_end(&reading);
    }
}

static void fields_are_as_they_came(void)
{
    struct reading reading;
    static const char bytes[] =
        GET "X-One: 1\r\nx-two:\t two  words \t\r\nX-ONE:\r\nZ^: \xff\r\n\r\n";
    reading_feed(&reading, bytes, sizeof bytes - 1, LIMIT, sizeof bytes, NULL);
    CHECK_EQ(reading.result, sizeof bytes - 1);
    const struct field *fields = reading.fields;
    int count = reading.head.count;
    CHECK_EQ(count, 5);
    CHECK_STR(fields[0].name, "Host");
    CHECK_STR(fields[1].name, "X-One");
    CHECK_STR(fields[1].value, "1");
    CHECK_STR(fields[2].name, "x-two");
    CHECK_STR(fields[2].value, "two  words");
    CHECK_STR(fields[3].value, "");
    CHECK_STR(fields[4].value, "\xff");
    CHECK_PTR(weft__http_find_field(fields, count, "x-one"), &fields[1]);
    CHECK_PTR(weft__http_find_field(fields, count, "X-TWO"), &fields[2]);
    CHECK_PTR(weft__http_find_field(fields, count, "z^"), &fields[4]);
    CHECK_PTR(weft__http_find_field(fields, count, "z~"), NULL);
    CHECK_PTR(weft__http_find_field(fields, count, "x-on"), NULL);
    CHECK_PTR(weft__http_find_field(fields, count, "x-three"), NULL);
    CHECK_PTR(weft__http_find_field(fields, 0, "host"), NULL);
    reading_end(&reading);
}

/* Nothing of a head stays when the struct is used again. */
static void nothing_is_left_of_another_head(void)
{
    struct field fields[8];
    struct head head = {.fields = fields, .most = 8};
    char first[] =
        GET "Content-Length: 9\r\nExpect: 100-continue\r\nTE: trailers\r\nConnection: close, "
            "upgrade\r\nUpgrade: x\r\n\r\n";
    char second[] = GET "\r\n";
    size_t seen = 0;
    CHECK_EQ(weft__http_parse_head(&head, first, sizeof first - 1, LIMIT, &seen), sizeof first - 1);
    CHECK(head.length == 9 && head.expects_continue && head.trailers_wanted && head.upgrade);
    CHECK(!head.keep_alive);
    seen = 0;
    CHECK_EQ(weft__http_parse_head(&head, second, sizeof second - 1, LIMIT, &seen),
             sizeof second - 1);
    CHECK(head.length == 0 && !head.expects_continue && !head.trailers_wanted && !head.upgrade);
    CHECK(head.keep_alive);
    CHECK_EQ(head.count, 1);
}

static void what_follows_is_left(void)
{
    struct reading reading;
    static const char bytes[] = GET "\r\n\n\r\0 more";
    reading_feed(&reading, bytes, sizeof bytes - 1, LIMIT, sizeof bytes, NULL);
    CHECK_EQ(reading.result, strlen(GET "\r\n"));
    CHECK(memcmp(reading.bytes + reading.result, "\n\r\0 more", 8) == 0);
    reading_end(&reading);
}

/* ---- heads that are refused ---- */

static const struct {
    const char *bytes;
    int status;
} refused[] = {
    {GET "Expect: 200-ok\r\n\r\n", 417},
    {GET "Expect: 100-continue, more\r\n\r\n", 417},
    {GET "Expect: more, 100-continue\r\n\r\n", 417},
    {GET "Expect:\r\n\r\n", 417},
    {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
    {"GET / HTTP/3.1\r\n" HOST "\r\n", 505},
    {"CONNECT a HTTP/1.1\r\n" HOST "\r\n", 400},
    {"CONNECT a: HTTP/1.1\r\n" HOST "\r\n", 400},
    {"CONNECT :80 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"CONNECT http://a:80/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"OPTIONS ** HTTP/1.1\r\n" HOST "\r\n", 400},
    {"OPTIONS *?a HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http:// HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET https:// HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http:/a HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://:80/ HTTP/1.1\r\nHost: :80\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: []\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: [:\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: [abc]\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: [ab:c]\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: [::\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: [::g]\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a%41\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: [::1%25eth0]\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a:000080\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
    {"GET / HTTP/1.0\r\nHost: a b\r\n\r\n", 400},
    {"GET / HTTP/1.\r\n" HOST "\r\n", 400},
    {"GET / HTTP/11\r\n" HOST "\r\n", 400},
    {"GET / HTTP\r\n" HOST "\r\n", 400},
    {"GET / \r\n" HOST "\r\n", 400},
    {"GET /\r\n" HOST "\r\n", 400},
    {"GET \r\n" HOST "\r\n", 400},
    {"GET\r\n" HOST "\r\n", 400},
};

static void what_makes_no_sense_is_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        running = refused[i].bytes;
        struct reading reading;
        size_t size = strlen(running);
        reading_feed(&reading, running, size, LIMIT, size, NULL);
        CHECK_EQ(reading.result, -refused[i].status);
        reading_end(&reading);
    }
}

/* The rows of chunks and trailers are chunk.c's; here their heads are fine. */
static void smuggling_is_refused(void)
{
    CHECK(SMUGGLING_ROWS >= 60);
    for (int i = 0; i < SMUGGLING_ROWS; i++) {
        const struct smuggling *row = &smuggling[i];
        running = row->name;
        for (size_t piece = 1; piece <= row->size; piece++) {
            struct reading reading;
            reading_feed(&reading, row->bytes, row->size, LIMIT, piece, NULL);
            if (row->in == IN_HEAD) {
                CHECK_EQ(reading.result, -row->status);
            } else {
                reading_check(&reading, LIMIT);
                CHECK_EQ(reading.head.length, -1);
            }
            reading_end(&reading);
        }
    }
}

/* Every control character, everywhere in a head. */
static void no_control_character_is_let_in(void)
{
    static const char bytes[] = "GET /ab HTTP/1.1\r\nHost: a\r\nName: value and value\r\n\r\n";
    size_t size = sizeof bytes - 1;
    for (size_t at = 0; at <= size - 4; at++)
        for (int control = 0; control < 256; control++) {
            if (!(control < 0x20 || control == 0x7f) || control == '\t')
                continue;
            char changed[sizeof bytes];
            memcpy(changed, bytes, sizeof bytes);
            if (changed[at] == control)
                continue;
            changed[at] = (char)control;
            struct reading reading;
            reading_feed(&reading, changed, size, LIMIT, size, NULL);
            CHECK_EQ(reading.result, -400);
            reading_end(&reading);
        }
}

/* How many bytes it takes to see it. */
static void garbage_is_refused_when_it_is_seen(void)
{
    static const struct {
        const char *bytes;
        size_t size, used;
    } early[] = {
        {"\x16\x03\x01 and so on", 10, 1},
        {"\0", 1, 1},
        {"\n", 1, 1},
        {"\rG", 2, 2},
        {"\r\n\r\n\r\n", 6, 5},
        {"GET / HTTP/1.1\nHost: a\r\n\r\n", 26, 15},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 34, 29},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: \rabcdefghijkl\r\n\r\n", 46, 30},
    };
    for (size_t i = 0; i < sizeof early / sizeof early[0]; i++) {
        struct reading reading;
        reading_feed(&reading, early[i].bytes, early[i].size, LIMIT, 1, NULL);
        CHECK_EQ(reading.result, -400);
        CHECK_EQ(reading.used, early[i].used);
        reading_end(&reading);
    }
}

/* ---- pieces ---- */

static void prefixes_need_more(void)
{
    for (size_t i = 0; i < sizeof understood / sizeof understood[0]; i++) {
        running = understood[i].bytes;
        size_t size = strlen(running);
        for (size_t prefix = 0; prefix < size; prefix++) {
            struct reading reading;
            reading_feed(&reading, running, prefix, LIMIT, prefix, NULL);
            CHECK_EQ(reading.result, 0);
            reading_end(&reading);
        }
        for (size_t piece = 1; piece < size; piece++) {
            struct reading whole, pieces;
            reading_feed(&whole, running, size, LIMIT, size, NULL);
            reading_feed(&pieces, running, size, LIMIT, piece, NULL);
            reading_check_same(&whole, &pieces);
            reading_end(&whole);
            reading_end(&pieces);
        }
    }
}

/* What was looked at is not looked at again: else the line feeds that are put there would be
 * seen. */
static void a_byte_is_looked_at_once(void)
{
    enum { SIZE = 3000 };
    static char bytes[SIZE];
    static const char first[] = "GET / HTTP/1.1\r\n", line[] = "name: a value\r\n";
    struct field fields[1];
    struct head head = {.fields = fields, .most = 1};
    size_t seen = 0;
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] =
            i < sizeof first - 1 ? first[i] : line[(i - sizeof first + 1) % (sizeof line - 1)];
    for (size_t i = 1; i <= SIZE; i++) {
        CHECK_EQ(weft__http_parse_head(&head, bytes, i, LIMIT, &seen), 0);
        CHECK(seen >= i - 1);
        if (i > 20)
            memset(bytes + 5, '\n', i - 20);
    }
}

/* ---- limits ---- */

static void heads_are_limited(void)
{
    static const char bytes[] = "\r\n" GET "X: y\r\n\r\n";
    size_t size = sizeof bytes - 1;
    for (size_t limit = 0; limit <= size + 2; limit++)
        for (size_t piece = 1; piece <= size; piece++) {
            struct reading reading;
            reading_feed(&reading, bytes, size, limit, piece, NULL);
            CHECK_EQ(reading.result, limit >= size ? (int64_t)size : -431);
            if (piece == 1 && limit > 0 && limit < size)
                CHECK_EQ(reading.used, limit); /* no byte later */
            reading_end(&reading);
        }
}

static void a_line_without_end_is_refused(void)
{
    static char line[LIMIT];
    static const char *const beginnings[] = {"G", "GET /",
                                             "GET / HTTP/1.1\r\nHost: ", "GET / HTTP/1.1\r\nH",
                                             "GET / HTTP/1.1\r\nHost: a\r\nX:"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        memset(line, 'E', sizeof line);
        memcpy(line, beginnings[i], strlen(beginnings[i]));
        struct reading reading;
        reading_feed(&reading, line, LIMIT - 1, LIMIT, LIMIT, NULL);
        CHECK_EQ(reading.result, 0);
        reading_end(&reading);
        reading_feed(&reading, line, LIMIT, LIMIT, 100, NULL);
        CHECK_EQ(reading.result, -431);
        reading_end(&reading);
    }
}

static void fields_are_counted(void)
{
    char bytes[4096];
    for (int count = 0; count <= HEAD_FIELDS; count++) {
        size_t size = (size_t)sprintf(bytes, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (int i = 0; i < count; i++)
            size += (size_t)sprintf(bytes + size, "X%d: y\r\n", i);
        size += (size_t)sprintf(bytes + size, "\r\n");
        struct reading reading;
        reading_feed(&reading, bytes, size, LIMIT, size, NULL);
        CHECK_EQ(reading.result, count < HEAD_FIELDS ? (int64_t)size : -431);
        reading_end(&reading);
    }
}

/* ---- trailers ---- */

static void trailers_are_read(void)
{
    static const struct {
        const char *bytes;
        int64_t result;
        int count;
    } rows[] = {
        {"\r\nGET", 2, 0},
        {"A: b\r\n\r\nGET", 8, 1},
        {"A: b\r\nC:d\r\n\r\n", 13, 2},
        {"A: b\r\n", 0, 0},
        {"\r", 0, 0},
        {"", 0, 0},
        {"A: b\r\nC: d\r\n\r", 0, 0},
        {"\n", -400, 0},
        {"A: b\n\r\n", -400, 0},
        {"A : b\r\n\r\n", -400, 0},
        {"A: b\r\n c\r\n\r\n", -400, 0},
        {"A\r\n\r\n", -400, 0},
        {": b\r\n\r\n", -400, 0},
        {"A:1\r\nB:2\r\nC:3\r\n\r\n", -431, 0},
        {"Name: more than thirty bytes.", 0, 0},
        {"Name: more than thirty bytes...", -431, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        running = rows[i].bytes;
        size_t size = strlen(running);
        for (size_t piece = 1; piece <= size + 1; piece++) {
            struct field fields[2];
            int count = -1;
            char bytes[64];
            size_t seen = 0, used = 0;
            int64_t result;
            memcpy(bytes, running, size);
            do {
                used = used + piece < size ? used + piece : size;
                result = weft__http_parse_fields(fields, 2, &count, bytes, used, 30, &seen);
                if (result == 0)
                    CHECK(memcmp(bytes, running, size) == 0);
            } while (result == 0 && used < size);
            CHECK_EQ(result, rows[i].result);
            CHECK_EQ(count, result > 0 ? rows[i].count : -1);
            if (count > 0)
                CHECK(strcmp(fields[0].name, "A") == 0 && strcmp(fields[0].value, "b") == 0);
        }
    }
}

/* ---- questions ---- */

static void lists_are_searched(void)
{
    struct reading reading;
    static const char bytes[] = GET "L: one, Two ,,\tthree\r\nl: four;q=1\r\nM: five\r\nN:\r\n\r\n";
    reading_feed(&reading, bytes, sizeof bytes - 1, LIMIT, sizeof bytes, NULL);
    CHECK(reading.result > 0);
    static const struct {
        const char *name, *word;
        bool there;
    } rows[] = {{"L", "one", true},   {"l", "TWO", true},   {"L", "three", true},
                {"L", "thre", false}, {"L", "four", false}, {"L", "four;q=1", true},
                {"L", "five", false}, {"M", "five", true},  {"L", "one, Two", false},
                {"O", "one", false},  {"Host", "a", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_EQ(
            weft__http_field_has(reading.fields, reading.head.count, rows[i].name, rows[i].word),
            rows[i].there);
    reading_end(&reading);
}

static void tokens_and_values_are_known(void)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
    CHECK(weft__http_is_token(token) && weft__http_is_token("ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
    CHECK(!weft__http_is_token(""));
    CHECK(weft__http_is_value("") && weft__http_is_value("a\tb \xff"));
    for (int byte = 1; byte < 256; byte++) {
        char text[] = {'a', (char)byte, '\0'};
        bool is_token =
            byte < 0x80 && ((byte >= 'A' && byte <= 'Z') || strchr(token, byte) != NULL);
        CHECK_EQ(weft__http_is_token(text), is_token);
        CHECK_EQ(weft__http_is_value(text), byte == '\t' || (byte >= 0x20 && byte != 0x7f));
    }
}

/* ---- at random ---- */

static uint64_t running_seed;

static void say_seed(void)
{
    fprintf(stderr, "the seed: %llu\n", (unsigned long long)running_seed);
}

static void pieces_do_not_matter(void)
{
    int64_t rounds = test_scale(100000), accepted = 0, declined = 0;
    for (running_seed = 1; running_seed <= (uint64_t)rounds; running_seed++) {
        struct prng prng;
        prng_seed(&prng, running_seed);
        char bytes[512];
        uint32_t row = prng_below(&prng, sizeof understood / sizeof understood[0]);
        size_t size = strlen(understood[row].bytes);
        memcpy(bytes, understood[row].bytes, size);
        size = head_mutate(&prng, bytes, size, sizeof bytes);
        size_t limit = prng_below(&prng, 8) == 0 ? prng_below(&prng, 200) : LIMIT;
        struct reading whole, single, pieces;
        reading_feed(&whole, bytes, size, limit, size, NULL);
        reading_feed(&single, bytes, size, limit, 1, NULL);
        reading_feed(&pieces, bytes, size, limit, 20, &prng);
        reading_check_same(&whole, &single);
        reading_check_same(&whole, &pieces);
        if (whole.result > 0)
            reading_check(&whole, limit);
        accepted += whole.result > 0;
        declined += whole.result < 0;
        reading_end(&whole);
        reading_end(&single);
        reading_end(&pieces);
    }
    printf("  %lld accepted, %lld refused\n", (long long)accepted, (long long)declined);
    CHECK(rounds < 1000 || (accepted > rounds / 20 && declined > rounds / 20));
}

int main(void)
{
    test_on_fail = say_row;
    RUN(heads_are_understood);
    RUN(what_makes_no_sense_is_refused);
    RUN(smuggling_is_refused);
    RUN(prefixes_need_more);
    RUN(trailers_are_read);
    test_on_fail = NULL;
    RUN(fields_are_as_they_came);
    RUN(nothing_is_left_of_another_head);
    RUN(what_follows_is_left);
    RUN(no_control_character_is_let_in);
    RUN(garbage_is_refused_when_it_is_seen);
    RUN(a_byte_is_looked_at_once);
    RUN(heads_are_limited);
    RUN(a_line_without_end_is_refused);
    RUN(fields_are_counted);
    RUN(lists_are_searched);
    RUN(tokens_and_values_are_known);
    test_on_fail = say_seed;
    RUN(pieces_do_not_matter);
    return 0;
}
