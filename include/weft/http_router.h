/*
 * weft/http_router.h: routes with parameters, and middleware. (libweft-http)
 *
 *     weft_http_router *router;
 *     error = weft_http_router_open(&router);
 *     error = weft_http_use(router, timing, NULL);
 *     error = weft_http_route(router, "GET", "/users/{id}", show_user, users);
 *     error = weft_http_route(router, "POST", "/users", add_user, users);
 *     error = weft_http_route(router, NULL, "/static/{path...}", weft_http_files_serve, files);
 *     weft_http_options options = { .handler = weft_http_router_serve, .data = router };
 *
 * Patterns. A segment is a text, or a parameter in braces, which takes one whole segment that is
 * not empty. The last may be {name...}, which takes the rest, slashes included, and may be empty:
 * "/a/{rest...}" matches "/a/b/c" and "/a/", but not "/a". "/a/" and "/a" are different. A name has
 * letters, digits, "_" and "-". A text is preferred to a parameter, and a parameter to a rest,
 * segment by segment; so the order in which routes are added does not matter. weft_http_param gives
 * the values, decoded as weft_http_path is: a %2F stays as it is.
 *
 * Of the patterns that match a path, the most preferred that has a route for the method answers:
 * with GET "/a/{x}" and POST "/a/b", GET of "/a/b" goes to the first. A GET route answers HEAD as
 * well, if there is none for HEAD. If a path has routes, but none for the method, the answer is 405
 * with Allow (for OPTIONS: 204 with Allow); without any route it is 404, or the handler that
 * weft_http_not_found has set.
 *
 * Middleware is called around every handler of the router, 404 and 405 included, in the order in
 * which it was added:
 *
 *     static void timing(weft_http_request *request, weft_http_response *response,
 *                        weft_http_next *next, void *data)
 *     {
 *         int64_t start = weft_now();
 *         weft_http_call(next, request, response);     // or answer without it
 *         printf("%s: %lld ns\n", weft_http_path(request), (long long)(weft_now() - start));
 *     }
 *
 * Adding to a router while it serves is undefined.
 */
#ifndef WEFT_HTTP_ROUTER_H
#define WEFT_HTTP_ROUTER_H

#include <weft/base.h>
#include <weft/http.h>

WEFT_BEGIN

typedef struct weft_http_router weft_http_router;
typedef struct weft_http_next weft_http_next;

/* Called around a handler: see above. */
typedef void (*weft_http_middleware)(weft_http_request *request, weft_http_response *response,
                                     weft_http_next *next, void *data);

/* Returns 0; -EINVAL; -ENOMEM.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_router_open(weft_http_router **router);
/* Closes the router. NULL is fine. Undefined while a server uses it.
 * Contexts: fiber, thread. */
WEFT_API void weft_http_router_close(weft_http_router *router);

/* Adds a route; method NULL: all methods that have no route of their own.
 * Returns 0; -EINVAL if the pattern does not begin with a slash, has a misplaced brace,
 * "." or ".." as a segment (no path has one: see weft_http_path), two parameters of the same name,
 * more than 16 of them, or the method is no token; -EEXIST if that method has a route of the same
 * form; -ENOMEM.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_route(weft_http_router *router, const char *method,
                                           const char *pattern, weft_http_handler handler,
                                           void *data);
/* Sets the handler for paths without a route. Returns 0; -EINVAL. */
WEFT_API int weft_http_not_found(weft_http_router *router, weft_http_handler handler, void *data);
/* Adds middleware. Returns 0; -EINVAL; -ENOMEM. */
WEFT_API WEFT_MUST_USE int weft_http_use(weft_http_router *router, weft_http_middleware middleware,
                                         void *data);
/* For middleware: calls the next middleware, or the handler behind the last. May be called more
 * than once. */
WEFT_API void weft_http_call(weft_http_next *next, weft_http_request *request,
                             weft_http_response *response);
/* The handler; `data` is the router. A router may be a route of another: the inner one matches the
 * whole path, also what {rest...} of the outer one took. Both set parameters, 16 in all: beyond
 * that the answer is 500. */
WEFT_API void weft_http_router_serve(weft_http_request *request, weft_http_response *response,
                                     void *router);

WEFT_END

#endif
