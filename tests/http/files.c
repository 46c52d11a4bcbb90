/*
 * files.c: a folder that is served, as a client sees it; with openat2 and without.
 */
#include "http/request.h"
#include "serve_files.h"
#include "system.h"

enum { BIG = 1 << 20 };

static char big[BIG];

static const int64_t date = 784111777;
#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"

static void make_tree(void)
{
    for (int i = 0; i < BIG; i++)
        big[i] = (char)(i * 7 + i / 251);
    tree_begin();
    tree_folder("root");
    tree_folder("root/folder");
    tree_folder("root/folder/deep");
    tree_folder("root/empty");
    tree_folder("root/with space&\"'<x>");
    tree_folder("root/A{~[_`@:\xC3\xA9");
    tree_folder("root/.git");
    tree_folder("beside");
    tree_file("secret", "secret");
    tree_file("beside/secret", "secret");
    tree_file("root/index.html", "<p>root");
    tree_file("root/folder/index.html", "<p>folder");
    tree_file("root/folder/deep/a.js", "js");
    tree_file("root/a.txt", "0123456789");
    tree_file("root/nothing.txt", "");
    tree_file("root/%2e%2e", "name of dots");
    tree_file("root/.env", "hidden");
    tree_file("root/.git/config", "hidden");
    tree_file("root/.a", "hidden");
    tree_file("root/back\\slash", "backslash");
    tree_bytes("root/big.bin", big, BIG);
    tree_date("root/a.txt", date, 5);
    tree_fifo("root/fifo");
    tree_link("root/in", "folder/deep/a.js");
    tree_link("root/in_folder", "folder");
    tree_link("root/folder/up", "../a.txt");
    tree_link("root/out", "../secret");
    tree_link("root/out_folder", "../beside");
    tree_link("root/passwd", "/etc/passwd");
    tree_link("root/loop", "loop");
    tree_link("root/null", "/dev/null");
    tree_file("root/text.css", "plain css");
    tree_file("root/text.css.gz", "pretends to be gzip");
    tree_date("root/text.css", date, 5);
    tree_date("root/text.css.gz", date, 5);
    tree_file("root/stale.css", "new");
    tree_file("root/stale.css.gz", "old");
    tree_date("root/stale.css", date, 6);
    tree_date("root/stale.css.gz", date, 5);
    tree_file("root/staler.css", "new");
    tree_file("root/staler.css.gz", "old");
    tree_date("root/staler.css", date, 5);
    tree_date("root/staler.css.gz", date - 1, 999);
    tree_file("root/fresh.css", "old");
    tree_file("root/fresh.css.gz", "new");
    tree_date("root/fresh.css", date - 1, 999);
    tree_date("root/fresh.css.gz", date, 5);
    tree_file("root/outside.css", "plain");
    tree_link("root/outside.css.gz", "../secret");
    tree_file("root/odd.css", "plain");
    tree_folder("root/odd.css.gz");
}

/* ---- which file ---- */

static void names_and_ways_out(void)
{
    static const struct {
        const char *target;
        int status;
        const char *body;
    } table[] = {
        {"/", 200, "<p>root"},
        {"/index.html", 200, "<p>root"},
        {"/a.txt", 200, "0123456789"},
        {"/a.txt?query", 200, "0123456789"},
        {"/%61.txt", 200, "0123456789"},
        {"/nothing.txt", 200, ""},
        {"/folder/", 200, "<p>folder"},
        {"/folder/deep/a.js", 200, "js"},
        {"/in", 200, "js"},
        {"/in_folder/", 200, "<p>folder"},
        {"/folder/up", 200, "0123456789"},
        {"/folder/../a.txt", 200, "0123456789"},
        {"/back%5Cslash", 200, "backslash"},
        {"/%252e%252e", 200, "name of dots"},
        /* not there */
        {"/gone", 404, NULL},
        {"/a.txt/", 404, NULL},
        {"/a.txt/b", 404, NULL},
        {"/folder/deep/", 404, NULL},
        {"/empty/", 404, NULL},
        {"//a.txt", 404, NULL},
        {"/folder//index.html", 404, NULL},
        {"/folder//", 404, NULL},
        /* ways out */
        {"/../secret", 400, NULL},
        {"/%2e%2e/secret", 400, NULL},
        {"/.%2E/secret", 400, NULL},
        {"/folder/../../secret", 400, NULL},
        {"/..%2fsecret", 404, NULL},
        {"/..%2Fsecret", 404, NULL},
        {"/%2e%2e%2fsecret", 404, NULL},
        {"/%2fetc%2fpasswd", 404, NULL},
        {"//etc/passwd", 404, NULL},
        {"/..%5csecret", 404, NULL},
        {"/%252e%252e/secret", 404, NULL},
        {"/%252e%252e%252fsecret", 404, NULL},
        {"/a.txt%00", 400, NULL},
        {"/%00/../a.txt", 400, NULL},
        {"/out", 404, NULL},
        {"/out_folder/secret", 404, NULL},
        {"/passwd", 404, NULL},
        {"/loop", 404, NULL},
        {"/loop/x", 404, NULL},
        /* not a regular file */
        {"/fifo", 404, NULL},
        {"/fifo/", 404, NULL},
        {"/null", 404, NULL},
        /* hidden */
        {"/.env", 404, NULL},
        {"/%2eenv", 404, NULL},
        {"/.git/config", 404, NULL},
        {"/.git/", 404, NULL},
        {"/.git", 404, NULL},
    };
    static char longest[5000] = "/";
    memset(longest + 1, 'x', sizeof longest - 2);
    for (int without_openat2 = 0; without_openat2 < 2; without_openat2++) {
        begin(&plain, "/{path...}");
        files->root.without_openat2 |= without_openat2;
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
            expect(table[i].target, table[i].status, table[i].body);
        expect(longest, 404, NULL);
        end();
    }
}

static void hidden_files_if_wanted(void)
{
    weft_http_files_options options = {.dot_files = 1};
    begin(&options, "/{path...}");
    expect("/.env", 200, "hidden");
    expect("/.git/config", 200, "hidden");
    expect("/..%2fsecret", 404, NULL);
    end();
}

HANDLER(serve_as_told)
{
    const char *path = weft_http_header(request, "Path");
    CHECK_EQ(weft__http_param_set(request, "path", path, strlen(path)), 0);
    weft_http_files_serve(request, response, data);
}

/* Paths that the server itself would never pass on name nothing, or a file in the folder. */
static void paths_that_are_not_sound(void)
{
    static const struct {
        const char *field;
        int status;
    } table[] = {
        {"Path: a.txt\r\n", 200},
        {"Path: .a\r\n", 200},
        {"Path: folder/\r\n", 200},
        {"Path: .\r\n", 404},
        {"Path: ./\r\n", 404},
        {"Path: ./a.txt\r\n", 404},
        {"Path: folder/./index.html\r\n", 404},
        {"Path: folder/../a.txt\r\n", 404},
        {"Path: folder/..\r\n", 404},
        {"Path: ..\r\n", 404},
        {"Path: ../secret\r\n", 404},
        {"Path: /etc/passwd\r\n", 404},
        {"Path: folder//index.html\r\n", 404},
    };
    weft_http_files_options options = {.dot_files = 1};
    CHECK_EQ(weft_http_files_open(&files, tree_path("root"), &options), 0);
    serve_begin(serve_as_told, files);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int status = ask("GET", "/x/", table[i].field)->status;
        if (status != table[i].status)
            test_fail(__FILE__, __LINE__, "%s: %d", table[i].field, status);
    }
    serve_end();
    weft_http_files_close(files);
}

/* Without a parameter it is the request's path; with one in the middle, that. */
static void where_the_path_comes_from(void)
{
    begin(&plain, "/folder/{any...}");
    expect("/folder/deep/a.js", 200, "js");
    expect("/folder/", 200, "<p>folder");
    end();
    begin(&plain, "/static/{path...}");
    expect("/static/a.txt", 200, "0123456789");
    expect("/static/", 200, "<p>root");
    expect("/static//etc/passwd", 404, NULL);
    end();
    begin(&plain, "/show/{path}/");
    expect("/show/folder/", 200, "<p>folder");
    end();
}

static void fields_of_a_file(void)
{
    weft_http_files_options options = {.cache_control = "max-age=60"};
    begin(&options, "/{path...}");
    const struct answer *answer = ask("GET", "/a.txt", "");
    char tag[128];
    CHECK_STR(field_of(answer, "Content-Type"), "text/plain; charset=utf-8");
    CHECK_STR(field_of(answer, "Content-Length"), "10");
    CHECK_STR(field_of(answer, "Last-Modified"), DATE);
    CHECK_STR(field_of(answer, "Accept-Ranges"), "bytes");
    CHECK_STR(field_of(answer, "X-Content-Type-Options"), "nosniff");
    CHECK_STR(field_of(answer, "Vary"), "Accept-Encoding");
    CHECK_STR(field_of(answer, "Cache-Control"), "max-age=60");
    strcpy(tag, field_of(answer, "ETag"));
    CHECK(tag[0] == '"' && tag[strlen(tag) - 1] == '"');
    answer = ask("HEAD", "/a.txt", "Range: bytes=0-1\r\n");
    CHECK_EQ(answer->status, 200);
    CHECK_EQ(answer->size, 0);
    CHECK_STR(field_of(answer, "Content-Length"), "10");
    CHECK_STR(field_of(answer, "ETag"), tag);
    /* Each change is another tag: a nanosecond, a byte, another file. */
    tree_date("root/a.txt", date, 6);
    CHECK(strcmp(field_of(ask("GET", "/a.txt", ""), "ETag"), tag) != 0);
    tree_file("root/a.txt", "01234567890");
    tree_date("root/a.txt", date, 5);
    CHECK(strcmp(field_of(ask("GET", "/a.txt", ""), "ETag"), tag) != 0);
    tree_file("root/a.txt", "0123456789");
    tree_date("root/a.txt", date, 5);
    CHECK_STR(field_of(ask("GET", "/a.txt", ""), "ETag"), tag);
    /* Before 1970. */
    tree_date("root/a.txt", -1, 0);
    CHECK_STR(field_of(ask("GET", "/a.txt", ""), "Last-Modified"), "Wed, 31 Dec 1969 23:59:59 GMT");
    tree_date("root/a.txt", -8 * 86400, 0);
    CHECK_STR(field_of(ask("GET", "/a.txt", ""), "Last-Modified"), "Wed, 24 Dec 1969 00:00:00 GMT");

    /* A date in the future would never be over. */
    tree_date("root/a.txt", 4000000000, 0);
    CHECK(strstr(field_of(ask("GET", "/a.txt", ""), "Last-Modified"), "2096") == NULL);
    tree_date("root/a.txt", date, 5);
    CHECK_STR(field_of(ask("GET", "/gone", ""), "Cache-Control"), "");
    end();
}

static void other_methods_are_refused(void)
{
    begin(&plain, "/{path...}");
    const struct answer *answer = ask("POST", "/a.txt", "Content-Length: 0\r\n");
    CHECK_EQ(answer->status, 405);
    CHECK_STR(field_of(answer, "Allow"), "GET, HEAD");
    CHECK_EQ(ask("OPTIONS", "*", "")->status, 204); /* the router's */
    end();
}

/* ---- folders ---- */

static void folders_get_their_slash(void)
{
    static const char *const table[][2] = {
        {"/folder", "./folder/"},
        {"/folder?a=b&c", "./folder/?a=b&c"},
        {"/folder?", "./folder/"},
        {"/folder?//evil", "./folder/?//evil"},
        {"/in_folder", "./in_folder/"},
        {"/folder/deep", "./deep/"},
        {"/with%20space&%22'%3Cx%3E", "./with%20space%26%22%27%3Cx%3E/"},
        {"/A%7B%7E%5B%5F%60@:%C3%A9", "./A%7B~%5B_%60%40%3A%C3%A9/"},
    };
    begin(&plain, "/{path...}");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct answer *answer = ask("GET", table[i][0], "");
        CHECK_EQ(answer->status, 301);
        CHECK_STR(field_of(answer, "Location"), table[i][1]);
    }
    /* The name of a host that is also that of a folder. */
    expect("//folder", 404, NULL);
    expect("/%2ffolder", 404, NULL);
    expect("/%5Cfolder", 404, NULL);
    end();
}

static void an_index_of_another_name(void)
{
    weft_http_files_options options = {.index = "a.js"};
    begin(&options, "/{path...}");
    expect("/folder/deep/", 200, "js");
    expect("/folder/", 404, NULL);
    end();
    /* One that is no file is none. */
    options = (weft_http_files_options){.index = "deep"};
    begin(&options, "/{path...}");
    expect("/folder/", 404, NULL);
    end();
    options.list = 1;
    begin(&options, "/{path...}");
    expect("/folder/", 200, NULL);
    end();
}

static void folders_as_lists(void)
{
    weft_http_files_options options = {.list = 1};
    char name[32];
    tree_folder("root/list");
    tree_folder("root/list/z");
    tree_file("root/list/a<b>&\"'.txt", "");
    tree_file("root/list/.hidden", "");
    tree_file("root/list/100%:\n", "");
    tree_fifo("root/list/fifo");
    tree_link("root/list/link", "../folder");
    tree_link("root/list/file", "../a.txt");
    tree_link("root/list/out", "../../secret");
    tree_link("root/list/gone", "gone");
    begin(&options, "/{path...}");
    const struct answer *answer = ask("GET", "/list/", "");
    CHECK_EQ(answer->status, 200);
    CHECK_STR(field_of(answer, "Content-Type"), "text/html; charset=utf-8");
    CHECK_STR(field_of(answer, "X-Content-Type-Options"), "nosniff");
    CHECK_STR(answer->body,
              "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
              "<title>/list/</title>\n<h1>/list/</h1>\n<ul>\n"
              "<li><a href=\"../\">../</a>\n"
              "<li><a href=\"./link/\">link/</a>\n"
              "<li><a href=\"./z/\">z/</a>\n"
              "<li><a href=\"./100%25%3A%0A\">100%:\n</a>\n"
              "<li><a href=\"./a%3Cb%3E%26%22%27.txt\">a&#60;b&#62;&#38;&#34;&#39;.txt</a>\n"
              "<li><a href=\"./file\">file</a>\n"
              "</ul>\n</html>\n");
    CHECK_EQ(ask("GET", "/list/100%25%3A%0A", "")->status, 200);
    answer = ask("GET", "/with%20space&%22'%3Cx%3E/", "");
    CHECK(strstr(answer->body, "<h1>/with space&#38;&#34;&#39;&#60;x&#62;/</h1>") != NULL);
    CHECK_EQ(ask("HEAD", "/list/", "")->size, 0);
    /* At the top there is nothing above; and there the index goes before. */
    expect("/", 200, "<p>root");
    tree_folder("root/many");
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "root/many/%03d", i * 617 % 1000);
        tree_file(name, "");
    }
    answer = ask("GET", "/many/", "");
    int found = 0;
    for (const char *at = answer->body; (at = strstr(at, "<li><a href=\"./")) != NULL;
         at++, found++)
        CHECK_EQ(strtol(at + 15, NULL, 10), found);
    CHECK_EQ(found, 1000);
    end();
    CHECK_EQ(weft_http_files_open(&files, tree_path("root/many"), &options), 0);
    serve_begin(weft_http_files_serve, files);
    CHECK(strstr(ask("GET", "/", "")->body, "../") == NULL);
    serve_end();
    weft_http_files_close(files);
}

/* ---- ranges and conditions ---- */

static void parts_of_a_file(void)
{
    static const struct {
        const char *fields;
        int status;
        const char *range, *body;
    } table[] = {
        {"Range: bytes=0-0\r\n", 206, "bytes 0-0/10", "0"},
        {"Range: bytes=2-4\r\n", 206, "bytes 2-4/10", "234"},
        {"Range: bytes=5-\r\n", 206, "bytes 5-9/10", "56789"},
        {"Range: bytes=-3\r\n", 206, "bytes 7-9/10", "789"},
        {"Range: bytes=0-99\r\n", 206, "bytes 0-9/10", "0123456789"},
        {"Range: bytes=1-2,50-\r\n", 206, "bytes 1-2/10", "12"},
        {"Range: bytes=10-\r\n", 416, "bytes */10", "416 Range Not Satisfiable\n"},
        {"Range: bytes=-0\r\n", 416, "bytes */10", "416 Range Not Satisfiable\n"},
        {"Range: bytes=x\r\n", 200, "", "0123456789"},
        {"Range: bytes=0-1\r\nRange: bytes=3-4\r\n", 200, "", "0123456789"},
        {"Range: bytes=0-5,3-8\r\n", 200, "", "0123456789"},
        {"Range: bytes=0-0\r\nIf-Range: " DATE "\r\n", 206, "bytes 0-0/10", "0"},
        {"Range: bytes=0-0\r\nIf-Range: " BEFORE "\r\n", 200, "", "0123456789"},
        {"Range: bytes=0-0\r\nIf-Range: \"x\"\r\n", 200, "", "0123456789"},
        {"Range: bytes=99-\r\nIf-Range: \"x\"\r\n", 200, "", "0123456789"},
    };
    begin(&plain, "/{path...}");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct answer *answer = ask("GET", "/a.txt", table[i].fields);
        if (answer->status != table[i].status || strcmp(answer->body, table[i].body) != 0 ||
            strcmp(field_of(answer, "Content-Range"), table[i].range) != 0)
            test_fail(__FILE__, __LINE__, "%s: %s%s", table[i].fields, answer->head, answer->body);
    }
    const struct answer *answer = ask("GET", "/nothing.txt", "Range: bytes=0-\r\n");
    CHECK_EQ(answer->status, 200);
    CHECK_EQ(answer->size, 0);
    end();
}

static void several_parts_of_a_file(void)
{
    char expected[1024], boundary[64];
    begin(&plain, "/{path...}");
    const struct answer *answer = ask("GET", "/a.txt", "Range: bytes=0-1, 8-,4-4\r\n");
    CHECK_EQ(answer->status, 206);
    const char *type = field_of(answer, "Content-Type");
    CHECK_EQ(sscanf(type, "multipart/byteranges; boundary=%63s", boundary), 1);
    CHECK_EQ(strlen(boundary), 32);
    snprintf(
        expected, sizeof expected,
        "\r\n--%s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 0-1/10\r\n"
        "\r\n01"
        "\r\n--%s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 8-9/10\r\n"
        "\r\n89"
        "\r\n--%s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 4-4/10\r\n"
        "\r\n4"
        "\r\n--%s--\r\n",
        boundary, boundary, boundary, boundary);
    CHECK_STR(answer->body, expected);
    CHECK_EQ(strtol(field_of(answer, "Content-Length"), NULL, 10), answer->size);
    CHECK_STR(field_of(answer, "Content-Range"), "");
    /* It is not known before. */
    type = field_of(ask("GET", "/a.txt", "Range: bytes=0-1, 8-\r\n"), "Content-Type");
    CHECK(strstr(type, boundary) == NULL);
    end();
}

static void large_files_arrive_whole(void)
{
    begin(&plain, "/{path...}");
    const struct answer *answer = ask("GET", "/big.bin", "");
    CHECK_EQ(answer->size, BIG);
    CHECK_EQ(memcmp(answer->body, big, BIG), 0);
    answer = ask("GET", "/big.bin", "Range: bytes=1000-900000\r\n");
    CHECK_EQ(answer->size, 900000 - 1000 + 1);
    CHECK_EQ(memcmp(answer->body, big + 1000, answer->size), 0);
    end();
}

static void only_if_it_changed(void)
{
    char fields[512], tag[128];
    begin(&plain, "/{path...}");
    strcpy(tag, field_of(ask("GET", "/a.txt", ""), "ETag"));
    static const struct {
        const char *format; /* of fields, with the tag */
        int status;
    } table[] = {
        {"If-None-Match: %s\r\n", 304},
        {"If-None-Match: W/%s\r\n", 304},
        {"If-None-Match: \"x\"\r\nIf-None-Match: %s\r\n", 304},
        {"If-None-Match: %s\r\nIf-None-Match: \"x\"\r\n", 304},
        {"If-None-Match: *\r\nX: %s\r\n", 304},
        {"If-None-Match: \"x\"\r\nX: %s\r\n", 200},
        {"If-Match: %s\r\n", 200},
        {"If-Match: \"x\"\r\nIf-Match: %s\r\n", 200},
        {"If-Match: \"x\"\r\nX: %s\r\n", 412},
        {"If-Modified-Since: " DATE "\r\nX: %s\r\n", 304},
        {"If-Modified-Since: " BEFORE "\r\nX: %s\r\n", 200},
        {"If-Unmodified-Since: " BEFORE "\r\nX: %s\r\n", 412},
        {"If-Unmodified-Since: " DATE "\r\nX: %s\r\n", 200},
        {"If-Range: %s\r\nRange: bytes=0-0\r\n", 206},
        {"If-Range: W/%s\r\nRange: bytes=0-0\r\n", 200},
        {"If-None-Match: %s\r\nRange: bytes=0-0\r\n", 304},
        {"If-Match: \"x\"\r\nX: %s\r\nRange: bytes=99-\r\n", 412},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        /* One line for one line, so that the format stays a constant for the compiler's sake. */
        const char *at = strstr(table[i].format, "%s");
        snprintf(fields, sizeof fields, "%.*s%s%s", (int)(at - table[i].format), table[i].format,
                 tag, at + 2);
        for (int head = 0; head < 2; head++) {
            const struct answer *answer = ask(head ? "HEAD" : "GET", "/a.txt", fields);
            int status = head && table[i].status == 206 ? 200 : table[i].status;
            if (answer->status != status)
                test_fail(__FILE__, __LINE__, "%s: %d, not %d", fields, answer->status, status);
            if (status == 304) {
                CHECK_EQ(answer->size, 0);
                CHECK_STR(field_of(answer, "ETag"), tag);
                CHECK_STR(field_of(answer, "Vary"), "Accept-Encoding");
                CHECK_STR(field_of(answer, "Content-Type"), "");
            }
        }
    }
    end();
}

/* ---- neighbours ---- */

static void compressed_neighbours(void)
{
    begin(&plain, "/{path...}");
    char tag[128];
    const struct answer *answer = ask("GET", "/text.css", "");
    CHECK_STR(answer->body, "plain css");
    CHECK_STR(field_of(answer, "Vary"), "Accept-Encoding");
    strcpy(tag, field_of(answer, "ETag"));
    answer = ask("GET", "/text.css", "Accept-Encoding: br, gzip\r\n");
    CHECK_STR(answer->body, "pretends to be gzip");
    CHECK_STR(field_of(answer, "Content-Encoding"), "gzip");
    CHECK_STR(field_of(answer, "Content-Type"), "text/css; charset=utf-8");
    CHECK_STR(field_of(answer, "Vary"), "Accept-Encoding");
    CHECK(strcmp(field_of(answer, "ETag"), tag) != 0);
    answer = ask("GET", "/text.css", "Accept-Encoding: gzip\r\nRange: bytes=0-7\r\n");
    CHECK_STR(answer->body, "pretends");
    CHECK_STR(field_of(answer, "Content-Encoding"), "gzip");
    answer = ask("GET", "/text.css", "Accept-Encoding: gzip\r\nRange: bytes=99-\r\n");
    CHECK_EQ(answer->status, 416);
    CHECK_STR(field_of(answer, "Content-Encoding"), "");
    static const char *const no[][2] = {
        {"/text.css", "Accept-Encoding: gzip;q=0\r\n"},
        {"/text.css", "Accept-Encoding: br\r\nAccept-Encoding: *;q=0\r\n"},
        {"/stale.css", "Accept-Encoding: gzip\r\n"},
        {"/staler.css", "Accept-Encoding: gzip\r\n"},
        {"/outside.css", "Accept-Encoding: gzip\r\n"},
        {"/odd.css", "Accept-Encoding: gzip\r\n"},
        {"/a.txt", "Accept-Encoding: gzip\r\n"},
    };
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        answer = ask("GET", no[i][0], no[i][1]);
        CHECK_EQ(answer->status, 200);
        CHECK_STR(field_of(answer, "Content-Encoding"), "");
    }
    answer = ask("GET", "/fresh.css", "Accept-Encoding: gzip\r\n");
    CHECK_STR(field_of(answer, "Content-Encoding"), "gzip");
    CHECK_STR(answer->body, "new");
    answer = ask("GET", "/text.css", "Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n");
    CHECK_STR(field_of(answer, "Content-Encoding"), "gzip");
    /* Asked for by its own name it is just a file. */
    answer = ask("GET", "/text.css.gz", "Accept-Encoding: gzip\r\n");
    CHECK_STR(field_of(answer, "Content-Encoding"), "");
    CHECK_STR(field_of(answer, "Content-Type"), "application/gzip");
    end();
    weft_http_files_options options = {.no_gzip = 1};
    begin(&options, "/{path...}");
    answer = ask("GET", "/text.css", "Accept-Encoding: gzip\r\n");
    CHECK_STR(answer->body, "plain css");
    CHECK_STR(field_of(answer, "Vary"), "");
    end();
}

static void what_is_refused_at_the_start(void)
{
    weft_http_files *poison = (weft_http_files *)&poison, *opened = poison;
    const char *root = tree_path("root");
    CHECK_EQ(weft_http_files_open(NULL, root, NULL), -EINVAL);
    CHECK_EQ(weft_http_files_open(&opened, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_http_files_open(&opened, root, &(weft_http_files_options){.index = ""}), -EINVAL);
    CHECK_EQ(weft_http_files_open(&opened, root, &(weft_http_files_options){.index = "a/b"}),
             -EINVAL);
    CHECK_EQ(weft_http_files_open(&opened, root, &(weft_http_files_options){.cache_control = "\r"}),
             -EINVAL);
    CHECK_EQ(weft_http_files_open(&opened, root, &(weft_http_files_options){.reserved = {1}}),
             -EINVAL);
    CHECK_EQ(weft_http_files_open(&opened, "/etc/passwd", NULL), -ENOTDIR);
    CHECK_EQ(weft_http_files_open(&opened, tree_path("gone"), NULL), -ENOENT);
    CHECK_PTR(opened, poison);
    weft_http_files_close(NULL);
}

int main(void)
{
    make_tree();
    RUN_PLAIN(what_is_refused_at_the_start, "nothing here is a fiber");
    RUN_PLAIN(names_and_ways_out, "the client is a thread");
    int descriptors = open_descriptors(); /* what the runtime needs for itself is open */
    RUN_PLAIN(hidden_files_if_wanted, "the client is a thread");
    RUN_PLAIN(paths_that_are_not_sound, "the client is a thread");
    RUN_PLAIN(where_the_path_comes_from, "the client is a thread");
    RUN_PLAIN(fields_of_a_file, "the client is a thread");
    RUN_PLAIN(other_methods_are_refused, "the client is a thread");
    RUN_PLAIN(folders_get_their_slash, "the client is a thread");
    RUN_PLAIN(an_index_of_another_name, "the client is a thread");
    RUN_PLAIN(folders_as_lists, "the client is a thread");
    RUN_PLAIN(parts_of_a_file, "the client is a thread");
    RUN_PLAIN(several_parts_of_a_file, "the client is a thread");
    RUN_PLAIN(large_files_arrive_whole, "the client is a thread");
    RUN_PLAIN(only_if_it_changed, "the client is a thread");
    RUN_PLAIN(compressed_neighbours, "the client is a thread");
    CHECK_EQ(open_descriptors(), descriptors);
    tree_end();
    return 0;
}
