/*
 * router.c: leads a request to its route's handler (routes.h), through the middleware.
 *
 * Of the patterns that a path matches, in order of preference, the first that also has the method
 * answers: GET of "/a/b" goes to "/a/{x}" if "/a/b" has only a POST. If none has the method, the
 * answer is 405 with the methods of them all.
 *
 * The position in the middleware is a value on the caller's stack, which is never changed, so
 * middleware may call the next handler twice.
 */
#include <errno.h>
#include <string.h>

#include <weft/http_router.h>

#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "http/sys.h"

struct middleware {
    weft_http_middleware function;
    void *data;
};

struct weft_http_router {
    struct routes routes;
    struct middleware *around;
    int count, room;
    weft_http_handler not_found;
    void *not_found_data;
};

struct weft_http_next {
    const struct weft_http_router *router;
    int number; /* of the middleware; behind the last: the handler */
    weft_http_handler handler;
    void *data;
};

/* ---- filling it ---- */

static void say_not_found(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)request, (void)data;
    weft_http_error(response, 404, NULL);
}

int weft_http_router_open(weft_http_router **router)
{
    if (router == NULL)
        return -EINVAL;
    weft_http_router *made = weft__http_allocate(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    *made = (weft_http_router){.not_found = say_not_found};
    *router = made;
    return 0;
}

void weft_http_router_close(weft_http_router *router)
{
    if (router == NULL)
        return;
    weft__http_routes_free(&router->routes);
    weft__http_free(router->around);
    weft__http_free(router);
}

int weft_http_route(weft_http_router *router, const char *method, const char *pattern,
                    weft_http_handler handler, void *data)
{
    if (router == NULL || pattern == NULL || handler == NULL)
        return -EINVAL;
    return weft__http_routes_add(&router->routes, method, pattern, handler, data);
}

int weft_http_not_found(weft_http_router *router, weft_http_handler handler, void *data)
{
    if (router == NULL || handler == NULL)
        return -EINVAL;
    router->not_found = handler;
    router->not_found_data = data;
    return 0;
}

int weft_http_use(weft_http_router *router, weft_http_middleware middleware, void *data)
{
    if (router == NULL || middleware == NULL)
        return -EINVAL;
    if (router->count == router->room) {
        int room = router->room == 0 ? 4 : router->room * 2;
        void *around = weft__http_resize(router->around, (size_t)room * sizeof router->around[0]);
        if (around == NULL)
            return -ENOMEM;
        router->around = around;
        router->room = room;
    }
    router->around[router->count++] = (struct middleware){middleware, data};
    return 0;
}

/* ---- what is allowed ---- */

/* Calls `each` with the methods of a path, or of all routes for "*"; some more than once. */
static void for_methods(const struct weft_http_router *router, const char *path,
                        void (*each)(void *to, const char *method), void *to)
{
    struct route_cursor cursor;
    const struct route_node *node;
    bool all = strcmp(path, "*") == 0;
    weft__http_routes_look(&router->routes, path, &cursor);
    node = all ? router->routes.all : weft__http_routes_next(&cursor);
    for (; node != NULL; node = all ? node->other : weft__http_routes_next(&cursor))
        for (const struct route *route = node->routes; route != NULL; route = route->next)
            if (route->method != NULL)
                each(to, route->method);
}

static void add_size(void *to, const char *method)
{
    *(size_t *)to += strlen(method) + 2;
}

static bool has_word(const char *list, const char *word)
{
    size_t size = strlen(word);
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        if (length == size && memcmp(list, word, size) == 0)
            return true;
        list += length;
        list += strspn(list, ", ");
    }
    return false;
}

static void add_word(void *to, const char *method)
{
    char *list = to;
    if (has_word(list, method))
        return;
    if (list[0] != '\0')
        strcat(list, ", ");
    strcat(list, method);
}

/* Sets Allow, including HEAD and OPTIONS, which need no route of their own. */
static int set_allow(const struct weft_http_router *router, weft_http_request *request,
                     weft_http_response *response)
{
    const char *path = weft_http_path(request);
    size_t size = sizeof "HEAD, OPTIONS";
    for_methods(router, path, add_size, &size);
    char *list = weft__http_request_allocate(request, size);
    if (list == NULL)
        return -ENOMEM;
    list[0] = '\0';
    for_methods(router, path, add_word, list);
    if (has_word(list, "GET"))
        add_word(list, "HEAD");
    add_word(list, "OPTIONS");
    return weft_http_set(response, "Allow", list);
}

static void say_not_allowed(weft_http_request *request, weft_http_response *response, void *data)
{
    int status = set_allow(data, request, response) == 0 ? 405 : 500;
    weft_http_error(response, status, NULL);
}

static void say_options(weft_http_request *request, weft_http_response *response, void *data)
{
    if (set_allow(data, request, response) == 0)
        weft_http_status(response, 204);
    else
        weft_http_error(response, 500, NULL);
}

static void say_failed(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)request, (void)data;
    weft_http_error(response, 500, NULL);
}

/* ---- serving ---- */

static int set_params(weft_http_request *request, const struct route *route,
                      const struct route_cursor *cursor)
{
    struct route_value values[HTTP_PARAMS];
    int error = 0;
    must(weft__http_routes_values(cursor, values) == route->count);
    for (int i = 0; i < route->count && error == 0; i++)
        error = weft__http_param_set(request, route->names[i], values[i].text, values[i].size);
    return error;
}

/* Finds the handler that answers. */
static void find_handler(weft_http_router *router, weft_http_request *request,
                         struct weft_http_next *next)
{
    struct route_cursor cursor;
    const struct route_node *node;
    const char *method = weft_http_method(request), *path = weft_http_path(request);
    bool known = strcmp(path, "*") == 0;
    weft__http_routes_look(&router->routes, path, &cursor);
    while ((node = weft__http_routes_next(&cursor)) != NULL) {
        const struct route *route = weft__http_routes_of(node, method);
        if (route != NULL) {
            bool ready = set_params(request, route, &cursor) == 0;
            next->handler = ready ? route->handler : say_failed;
            next->data = route->data;
            return;
        }
        known = true;
    }
    next->handler = router->not_found;
    next->data = router->not_found_data;
    if (known) {
        next->handler = strcmp(method, "OPTIONS") == 0 ? say_options : say_not_allowed;
        next->data = router;
    }
}

void weft_http_call(weft_http_next *next, weft_http_request *request, weft_http_response *response)
{
    if (next->number == next->router->count) {
        next->handler(request, response, next->data);
        return;
    }
    const struct middleware *middleware = &next->router->around[next->number];
    struct weft_http_next after = *next;
    after.number++;
    middleware->function(request, response, &after, middleware->data);
}

void weft_http_router_serve(weft_http_request *request, weft_http_response *response, void *router)
{
    struct weft_http_next next = {.router = router};
    find_handler(router, request, &next);
    weft_http_call(&next, request, response);
}
