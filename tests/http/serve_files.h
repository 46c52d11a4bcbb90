/*
 * serve_files.h: a folder (folder_tree.h) served under a route, and requests to it (ask.h).
 */
#ifndef WEFT_TEST_HTTP_SERVE_FILES_H
#define WEFT_TEST_HTTP_SERVE_FILES_H

#include <weft/http_files.h>
#include <weft/http_router.h>

#include "ask.h"
#include "folder_tree.h"
#include "http/files.h"

static weft_http_files *files;
static weft_http_router *router;

static const weft_http_files_options plain;

static inline void begin(const weft_http_files_options *options, const char *pattern)
{
    CHECK_EQ(weft_http_files_open(&files, tree_path("root"), options), 0);
    CHECK_EQ(weft_http_router_open(&router), 0);
    CHECK_EQ(weft_http_route(router, NULL, pattern, weft_http_files_serve, files), 0);
    serve_begin(weft_http_router_serve, router);
}

static inline void end(void)
{
    serve_end();
    weft_http_router_close(router);
    weft_http_files_close(files);
}

static inline void expect(const char *target, int status, const char *body)
{
    const struct answer *answer = ask("GET", target, "");
    if (answer->status != status || (body != NULL && strcmp(answer->body, body) != 0))
        test_fail(__FILE__, __LINE__, "%s: %d \"%.80s\", not %d \"%s\"", target, answer->status,
                  answer->body, status, body != NULL ? body : "...");
}

#endif
