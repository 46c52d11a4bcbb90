/*
 * reply.c: whole responses in one call: replies, errors, redirections.
 */
#include <weft/http.h>
_Static_assert(WEFT_UNLIMITED > 0, "weft/http.h alone has what its options name");

#include <weft/runtime.h>

#include "http.h"

HANDLER(whole)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/reply") == 0) {
        CHECK_EQ(weft_http_reply(response, 418, "text/tea", NULL, 3), -EINVAL);
        CHECK_EQ(weft_http_sent(response), 0);
        CHECK_EQ(weft_http_reply(response, 418, "text/tea", "pot", 3), 0);
        CHECK_EQ(weft_http_reply(response, 200, NULL, "pot", 3), -EBUSY);
    } else if (strcmp(path, "/error") == 0) {
        CHECK_EQ(weft_http_error(response, 404, NULL), 0);
    } else if (strcmp(path, "/detail") == 0) {
        CHECK_EQ(weft_http_error(response, 403, "not you"), 0);
    } else if (strcmp(path, "/redirect") == 0) {
        int status = atoi(weft_http_query(request));
        CHECK_EQ(weft_http_redirect(response, status, "/there?x=y"), 0);
    } else if (strcmp(path, "/long-detail") == 0) {
        char *detail = text_of(5000, 'd');
        CHECK_EQ(weft_http_error(response, 400, detail), 0);
        free(detail);
    } else if (strcmp(path, "/204") == 0) {
        CHECK_EQ(weft_http_reply(response, 204, NULL, NULL, 0), 0);
    } else if (strcmp(path, "/304") == 0) {
        CHECK_EQ(weft_http_reply(response, 304, NULL, NULL, 0), 0);
    } else if (strcmp(path, "/behind") == 0) { /* of what was written before */
        CHECK_EQ(weft_http_puts(response, "tea"), 0);
        CHECK_EQ(weft_http_reply(response, 418, NULL, "pot", 3), 0);
    } else if (strcmp(path, "/length") == 0) { /* that of the reply, or it is not sent */
        CHECK_EQ(weft_http_set(response, "Content-Length", "3"), 0);
        CHECK_EQ(weft_http_reply(response, 418, NULL, "pots", 4), -EMSGSIZE);
        CHECK_EQ(weft_http_reply(response, 418, NULL, "pot", 3), 0);
    } else if (strcmp(path, "/bad-type") == 0) {
        CHECK_EQ(weft_http_reply(response, 200, "a\r\nb", "x", 1), -EINVAL);
        CHECK_EQ(weft_http_error(response, 500, NULL), 0);
    } else if (strcmp(path, "/instead") == 0) { /* an answer that was begun, and came to nothing */
        CHECK_EQ(weft_http_set(response, "Content-Length", "1000"), 0);
        CHECK_EQ(weft_http_set(response, "Content-Encoding", "gzip"), 0);
        CHECK_EQ(weft_http_set(response, "X-Other", "stays"), 0);
        CHECK_EQ(weft_http_puts(response, "half of it"), 0);
        CHECK_EQ(weft_http_error(response, 502, NULL), 0);
        CHECK_EQ(weft_http_error(response, 502, NULL), -EBUSY);
    } else if (strcmp(path, "/instead-short") == 0) {
        CHECK_EQ(weft_http_set(response, "Content-Length", "3"), 0);
        CHECK_EQ(weft_http_redirect(response, 302, "/there"), 0);
    } else if (strcmp(path, "/no-status") == 0) {
        CHECK_EQ(weft_http_reply(response, 0, NULL, "x", 1), -EINVAL);
        CHECK_EQ(weft_http_reply(response, 100, NULL, "x", 1), -EINVAL);
        CHECK_EQ(weft_http_reply(response, 1000, NULL, "x", 1), -EINVAL);
        CHECK_EQ(weft_http_error(response, -ENOENT, "a file"), 0);
    }
}

static void expect(struct client *client, const char *path, int status, const char *body)
{
    CHECK_ANSWER(fetch(client, "GET", path, 1), status, body);
}

/* An error takes the place of what was prepared. */
static void errors_instead(void)
{
    weft_http_server *server = serve(whole);
    struct client client = client_open(server);
    CHECK_ANSWER(fetch(&client, "GET", "/instead", 1), 502, "502 Bad Gateway\n",
                 {"Content-Encoding", NULL}, {"X-Other", "stays"});
    expect(&client, "/instead-short", 302, "302 Found\n");
    expect(&client, "/no-status", 500, "500 Internal Server Error: a file\n");
    close_and_end(&client, server);
}

static void whole_responses(void)
{
    weft_http_server *server = serve(whole);
    struct client client = client_open(server);
    struct answer answer = fetch(&client, "GET", "/reply", 1);
    CHECK_EQ(answer.status, 418);
    CHECK_STR(answer_field(&answer, "Content-Type"), "text/tea");
    CHECK_STR(answer.body, "pot");
    answer_free(&answer);
    expect(&client, "/error", 404, "404 Not Found\n");
    expect(&client, "/detail", 403, "403 Forbidden: not you\n");
    CHECK_ANSWER(fetch(&client, "HEAD", "/detail", 1), 403, NULL, {"Content-Length", "23"});
    static const int redirects[] = {301, 302, 303, 307, 308};
    for (int i = 0; i < 5; i++) {
        char path[40];
        snprintf(path, sizeof path, "/redirect?%d", redirects[i]);
        CHECK_ANSWER(fetch(&client, "GET", path, 1), redirects[i], NULL,
                     {"Location", "/there?x=y"});
    }
    answer = fetch(&client, "GET", "/long-detail", 1);
    CHECK_EQ(answer.status, 400);
    CHECK_EQ(answer.size, 511);
    CHECK(strncmp(answer.body, "400 Bad Request: ddd", 20) == 0);
    answer_free(&answer);
    for (int i = 0; i < 2; i++) {
        CHECK_ANSWER(fetch(&client, "GET", i == 0 ? "/204" : "/304", 1), i == 0 ? 204 : 304, NULL,
                     {"Content-Length", NULL});
        CHECK_ANSWER(fetch(&client, "GET", i == 0 ? "/length" : "/behind", 1), 418,
                     i == 0 ? "pot" : "teapot");
    }
    CHECK_ANSWER(fetch(&client, "GET", "/bad-type", 1), 500, NULL);
    close_and_end(&client, server);
    CHECK_STR(weft_http_status_text(404), "Not Found");
    CHECK(weft_http_status_text(799) != NULL);
}

int main(void)
{
    RUN(whole_responses);
    RUN(errors_instead);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
