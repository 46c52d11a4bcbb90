/*
 * weft/http_router.h: routes with parameters, and what is put around them. (libweft-http)
 *
 *     weft_http_router *router;
 *     error = weft_http_router_open(&router);
 *     error = weft_http_use(router, timing, NULL);
 *     error = weft_http_route(router, "GET", "/users/{id}", show_user, users);
 *     error = weft_http_route(router, "POST", "/users", add_user, users);
 *     error = weft_http_route(router, NULL, "/static/{path...}", weft_http_files_serve, files);
 *     weft_http_options options = { .handler = weft_http_router_serve, .data = router };
 *
 * Patterns. A segment is a text, or a parameter in braces that takes one whole segment, but not an
 * empty one; the last may be {name...}, which takes the rest, slashes and nothing included:
 * "/a/{rest...}" is the form of "/a/b/c" and of "/a/", but not of "/a". "/a/" and "/a" are
 * different. A name is of letters, digits, "_" and "-". A text is preferred to a parameter, that to
 * a rest, segment by segment; so the order in which routes are added does not matter. Values are
 * found by weft_http_param, decoded as weft_http_path has them: a %2F stays as it is.
 *
 * Of the forms that a path has, the most preferred that has a route for the method answers: with
 * GET "/a/{x}" and POST "/a/b", GET of "/a/b" is the first one's. A GET route answers HEAD as well,
 * if there is none for HEAD. A path that has routes, but not for the method, is 405 with Allow
 * (OPTIONS is answered with 204 and Allow); one without routes is 404, or what weft_http_not_found
 * has set.
 *
 * Middleware is called around every handler of the router, 404 and 405 included, in the order in
 * which it was added:
 *
 *     static void timing(weft_http_request *request, weft_http_response *response, weft_http_next *next, void *data)
 *     {
 *         int64_t start = weft_now();
 *         weft_http_call(next, request, response);     // the next one, at last the handler; or not
 *         printf("%s: %lld ns\n", weft_http_path(request), (long long)(weft_now() - start));
 *     }
 *
 * A router is filled first and then used: adding to it while it serves is undefined.
 */
#ifndef WEFT_HTTP_ROUTER_H
#define WEFT_HTTP_ROUTER_H

#include <weft/base.h>
#include <weft/http.h>

WEFT_BEGIN

typedef struct weft_http_router weft_http_router;
typedef struct weft_http_next weft_http_next;

/* Around a handler: see above. */
typedef void (*weft_http_middleware)(weft_http_request *request, weft_http_response *response,
                                     weft_http_next *next, void *data);

/* Returns 0; -EINVAL; -ENOMEM.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_router_open(weft_http_router **router);
/* NULL is fine. Undefined: while a server uses it.
 * Contexts: fiber, thread. */
WEFT_API void weft_http_router_close(weft_http_router *router);

/* Adds a route; method NULL: all methods that have no route of their own.
 * Returns 0; -EINVAL if the pattern does not begin with a slash, has a brace that makes no sense,
 * "." or ".." as a segment (no path has one: see weft_http_path), two parameters of the same name,
 * more than 16 of them, or the method is no token; -EEXIST if that method has a route of the same
 * form; -ENOMEM.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_route(weft_http_router *router, const char *method,
                                           const char *pattern, weft_http_handler handler,
                                           void *data);
/* Sets who answers where there is no route. Returns 0; -EINVAL. */
WEFT_API int weft_http_not_found(weft_http_router *router, weft_http_handler handler, void *data);
/* Adds middleware. Returns 0; -EINVAL; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_http_use(weft_http_router *router, weft_http_middleware middleware,
                                         void *data);
/* For middleware: calls what comes next; also more than once. */
WEFT_API void weft_http_call(weft_http_next *next, weft_http_request *request,
                             weft_http_response *response);
/* The handler; data is the router. A router may be a route of another: {rest...} of the outer is
 * then not cut off, and its parameters stay beside the inner one's, 16 in all: beyond that it is
 * 500. */
WEFT_API void weft_http_router_serve(weft_http_request *request, weft_http_response *response,
                                     void *router);

WEFT_END

#endif
