/*
 * router.c: requests reach their handlers through the middleware, as a client sees it.
 */
#include <weft/http_router.h>

#include "ask.h"

static weft_http_router *router;

/* Says its name and the parameters of the request. */
HANDLER(say)
{
    static const char *const names[] = {"id", "name", "path", "outer"};
    weft_http_printf(response, "%s", (const char *)data);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (weft_http_param(request, names[i]) != NULL)
            weft_http_printf(response, " %s=%s", names[i], weft_http_param(request, names[i]));
}

static void route(const char *method, const char *pattern, const char *name)
{
    union {
        const char *text;
        void *data;
    } as = {.text = name};
    CHECK_EQ(weft_http_route(router, method, pattern, say, as.data), 0);
}

static void begin(void)
{
    CHECK_EQ(weft_http_router_open(&router), 0);
    serve_begin(weft_http_router_serve, router);
}

static void end(void)
{
    serve_end();
    weft_http_router_close(router);
}

static void expect(const char *method, const char *target, int status, const char *body)
{
    const struct answer *answer = ask(method, target, "");
    if (answer->status != status || strcmp(answer->body, body) != 0)
        test_fail(__FILE__, __LINE__, "%s %s: %d \"%s\", not %d \"%s\"", method, target,
                  answer->status, answer->body, status, body);
}

static void requests_come_to_their_routes(void)
{
    begin();
    route("GET", "/", "root");
    route("GET", "/users/{id}", "user");
    route("POST", "/users", "add");
    route("GET", "/users/{name}/posts/{id}", "post");
    route(NULL, "/files/{path...}", "files");
    expect("GET", "/", 200, "root");
    expect("GET", "/?a=b", 200, "root");
    expect("GET", "/users/7", 200, "user id=7");
    expect("GET", "/users/a%20b?c", 200, "user id=a b");
    expect("GET", "/users/a%2Fb", 200, "user id=a%2Fb");
    expect("GET", "/users/%C3%A4", 200, "user id=\xC3\xA4");
    expect("POST", "/users", 200, "add");
    expect("GET", "/users/me/posts/3", 200, "post id=3 name=me");
    expect("GET", "/x/../users/7", 200, "user id=7");
    expect("DELETE", "/files/a/b", 200, "files path=a/b");
    expect("GET", "/files/", 200, "files path=");
    expect("GET", "/files", 404, "404 Not Found\n");
    expect("GET", "/users/", 404, "404 Not Found\n");
    end();
}

static void methods_that_a_path_has_not(void)
{
    begin();
    route("GET", "/a", "get");
    route("PUT", "/a", "put");
    route("POST", "/b/c", "post");
    route("GET", "/b/{id}", "get");
    route("DELETE", "/b/{id}", "delete");
    route("OPTIONS", "/own", "own");
    route(NULL, "/any", "any");
    route("HEAD", "/head", "head");
    static const struct {
        const char *method, *target;
        int status;
        const char *allow;
    } table[] = {
        {"POST", "/a", 405, "PUT, GET, HEAD, OPTIONS"},
        {"OPTIONS", "/a", 204, "PUT, GET, HEAD, OPTIONS"},
        {"PUT", "/b/c", 405, "POST, DELETE, GET, HEAD, OPTIONS"},
        {"PUT", "/b/d", 405, "DELETE, GET, HEAD, OPTIONS"},
        {"GET", "/head", 405, "HEAD, OPTIONS"},
        {"HEAD", "/own", 405, "OPTIONS"},
        {"OPTIONS", "/own", 200, ""},
        {"OPTIONS", "/any", 200, ""},
        {"OPTIONS", "/gone", 404, ""},
        {"OPTIONS", "*", 204, "HEAD, OPTIONS, DELETE, GET, POST, PUT"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct answer *answer = ask(table[i].method, table[i].target, "");
        if (answer->status != table[i].status ||
            strcmp(field_of(answer, "Allow"), table[i].allow) != 0)
            test_fail(__FILE__, __LINE__, "%s %s: %d \"%s\", not %d \"%s\"", table[i].method,
                      table[i].target, answer->status, field_of(answer, "Allow"), table[i].status,
                      table[i].allow);
    }
    end();
}

static void head_is_answered_by_get(void)
{
    begin();
    route("GET", "/a", "four");
    const struct answer *answer = ask("HEAD", "/a", "");
    CHECK_EQ(answer->status, 200);
    CHECK_STR(field_of(answer, "Content-Length"), "4");
    CHECK_EQ(answer->size, 0);
    end();
}

static void own_words_for_what_is_not_there(void)
{
    static char text[] = "own";
    begin();
    CHECK_EQ(weft_http_not_found(router, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_http_not_found(router, say, text), 0);
    route("GET", "/a", "a");
    expect("GET", "/b", 200, "own");
    expect("GET", "/a", 200, "a");
    expect("POST", "/a", 405, "405 Method Not Allowed\n");
    end();
}

/* ---- middleware ---- */

static void around(weft_http_request *request, weft_http_response *response, weft_http_next *next,
                   void *data)
{
    weft_http_printf(response, "%s(", (const char *)data);
    weft_http_call(next, request, response);
    weft_http_printf(response, ")%s", (const char *)data);
}

static void twice(weft_http_request *request, weft_http_response *response, weft_http_next *next,
                  void *data)
{
    (void)data;
    weft_http_call(next, request, response);
    weft_http_call(next, request, response);
}

/* Passes only requests with the password; sees the parameters of the route. */
static void guard(weft_http_request *request, weft_http_response *response, weft_http_next *next,
                  void *data)
{
    (void)data;
    const char *id = weft_http_param(request, "id");
    if (id != NULL && strcmp(id, "secret") == 0)
        weft_http_error(response, 403, NULL);
    else
        weft_http_call(next, request, response);
}

HANDLER(say_not_there)
{
    weft_http_status(response, 404);
    weft_http_puts(response, "gone");
}

static void middleware_in_its_order(void)
{
    static char texts[][2] = {"1", "2", "3", "4", "5"};
    begin();
    CHECK_EQ(weft_http_use(router, NULL, NULL), -EINVAL);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        CHECK_EQ(weft_http_use(router, around, texts[i]), 0);
    route("GET", "/a", "a");
    CHECK_EQ(weft_http_not_found(router, say_not_there, NULL), 0);
    expect("GET", "/a", 200, "1(2(3(4(5(a)5)4)3)2)1");
    expect("GET", "/b", 404, "1(2(3(4(5(gone)5)4)3)2)1");
    end();
}

static void middleware_may_refuse_and_repeat(void)
{
    static char text[] = "1";
    begin();
    CHECK_EQ(weft_http_use(router, guard, NULL), 0);
    CHECK_EQ(weft_http_use(router, twice, NULL), 0);
    CHECK_EQ(weft_http_use(router, around, text), 0);
    route("GET", "/{id}", "got");
    expect("GET", "/secret", 403, "403 Forbidden\n");
    expect("GET", "/other", 200, "1(got id=other)11(got id=other)1");
    end();
}

/* ---- routers in routers ---- */

static void a_router_in_another(void)
{
    weft_http_router *outer;
    static char text[] = "i";
    CHECK_EQ(weft_http_router_open(&router), 0);
    route("GET", "/api/{id}/{name}", "inner");
    route("GET", "/api/own", "own");
    CHECK_EQ(weft_http_use(router, around, text), 0);
    CHECK_EQ(weft_http_router_open(&outer), 0);
    CHECK_EQ(weft_http_route(outer, NULL, "/api/{outer...}", weft_http_router_serve, router), 0);
    serve_begin(weft_http_router_serve, outer);
    expect("GET", "/api/1/x", 200, "i(inner id=1 name=x outer=1/x)i");
    expect("GET", "/api/own", 200, "i(own outer=own)i");
    expect("GET", "/other", 404, "404 Not Found\n");
    expect("PUT", "/api/own", 405, "405 Method Not Allowed\n"); /* instead of what was begun */
    end();
    weft_http_router_close(outer);
}

/* More than there is room for: the inner has as many as fit, and two of the outer are there
 * already, so that "o" has no place. That "p" has one, which is of both, makes nothing good. */
static void too_many_parameters_together(void)
{
    weft_http_router *outer;
    CHECK_EQ(weft_http_router_open(&router), 0);
    route("GET", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}", "inner");
    CHECK_EQ(weft_http_router_open(&outer), 0);
    CHECK_EQ(weft_http_route(outer, NULL, "/{first}/{p...}", weft_http_router_serve, router), 0);
    serve_begin(weft_http_router_serve, outer);
    expect("GET", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16", 500, "500 Internal Server Error\n");
    end();
    weft_http_router_close(outer);
}

static void what_is_refused(void)
{
    weft_http_router *made;
    CHECK_EQ(weft_http_router_open(NULL), -EINVAL);
    CHECK_EQ(weft_http_router_open(&made), 0);
    CHECK_EQ(weft_http_route(NULL, "GET", "/", say, NULL), -EINVAL);
    CHECK_EQ(weft_http_route(made, "GET", NULL, say, NULL), -EINVAL);
    CHECK_EQ(weft_http_route(made, "GET", "/", NULL, NULL), -EINVAL);
    CHECK_EQ(weft_http_route(made, "GET", "x", say, NULL), -EINVAL);
    CHECK_EQ(weft_http_route(made, "G T", "/", say, NULL), -EINVAL);
    CHECK_EQ(weft_http_not_found(NULL, say, NULL), -EINVAL);
    CHECK_EQ(weft_http_use(NULL, around, NULL), -EINVAL);
    weft_http_router_close(made);
    weft_http_router_close(NULL);
}

int main(void)
{
    RUN_PLAIN(requests_come_to_their_routes, "the client is a thread");
    RUN_PLAIN(methods_that_a_path_has_not, "the client is a thread");
    RUN_PLAIN(head_is_answered_by_get, "the client is a thread");
    RUN_PLAIN(own_words_for_what_is_not_there, "the client is a thread");
    RUN_PLAIN(middleware_in_its_order, "the client is a thread");
    RUN_PLAIN(middleware_may_refuse_and_repeat, "the client is a thread");
    RUN_PLAIN(a_router_in_another, "the client is a thread");
    RUN_PLAIN(too_many_parameters_together, "the client is a thread");
    RUN_PLAIN(what_is_refused, "nothing here is a fiber");
    return 0;
}
