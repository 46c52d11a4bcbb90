/*
 * api.c: routes with parameters, middleware, and a store shared by all requests: named counters.
 *
 *     GET  /counters/{name}      its value as JSON; 404 if there is none
 *     POST /counters/{name}      adds the number in the body; 400 if it is none
 *
 *     api [address]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/http_router.h>
#include <weft/weft.h>

enum { COUNTERS = 100, NAME = 32 };

struct store {
    weft_mutex lock;
    int count;
    struct {
        char name[NAME];
        long value;
    } counters[COUNTERS];
};

/* The index of the counter, or -1; with `make` it is created while there is room. Under the
 * lock. */
static int find(struct store *store, const char *name, int make)
{
    for (int i = 0; i < store->count; i++)
        if (strcmp(store->counters[i].name, name) == 0)
            return i;
    if (!make || store->count == COUNTERS || strlen(name) >= NAME)
        return -1;
    strcpy(store->counters[store->count].name, name);
    store->counters[store->count].value = 0;
    return store->count++;
}

static void answer(weft_http_response *response, long value)
{
    weft_http_set(response, "Content-Type", "application/json");
    weft_http_printf(response, "{\"value\":%ld}\n", value);
}

static void show(weft_http_request *request, weft_http_response *response, void *data)
{
    struct store *store = data;
    long value = 0;
    weft_mutex_lock(&store->lock);
    int number = find(store, weft_http_param(request, "name"), 0);
    if (number >= 0)
        value = store->counters[number].value;
    weft_mutex_unlock(&store->lock);
    if (number < 0)
        weft_http_error(response, 404, "no such counter");
    else
        answer(response, value);
}

static void add(weft_http_request *request, weft_http_response *response, void *data)
{
    struct store *store = data;
    char *body, *end;
    size_t size;
    weft_http_max_body(request, 64);
    if (weft_http_read_all(request, &body, &size) != 0)
        return; /* the server answers 413, 408 or 400 */
    long value = strtol(body, &end, 10);
    if (end == body || *end != '\0') {
        weft_http_error(response, 400, "the body is no number");
        return;
    }
    weft_mutex_lock(&store->lock);
    int number = find(store, weft_http_param(request, "name"), 1);
    if (number >= 0)
        value = store->counters[number].value += value;
    weft_mutex_unlock(&store->lock);
    if (number < 0)
        weft_http_error(response, 507, NULL);
    else
        answer(response, value);
}

/* Middleware: adds a field with the duration of the handler. A small answer is buffered until the
 * handler has returned, so the field can still be set; but weft_http_reply and weft_http_error
 * complete the head, so their answers lack it. */
static void timing(weft_http_request *request, weft_http_response *response, weft_http_next *next,
                   void *data)
{
    int64_t start = weft_now();
    (void)data;
    weft_http_call(next, request, response);
    weft_http_setf(response, "Server-Timing", "handler;dur=%.3f",
                   (double)(weft_now() - start) / (double)WEFT_MS);
}

static void ready(const char *address)
{
    printf("listening at %s\n", address);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct store store;
    const char *address = argc > 1 ? argv[1] : "tcp:127.0.0.1:8080";
    weft_http_router *router;
    int error = weft_http_router_open(&router);
    if (error == 0)
        error = weft_http_use(router, timing, NULL);
    if (error == 0)
        error = weft_http_route(router, "GET", "/counters/{name}", show, &store);
    if (error == 0)
        error = weft_http_route(router, "POST", "/counters/{name}", add, &store);
    if (error != 0)
        return 1;
    weft_http_options options = {.handler = weft_http_router_serve, .data = router};
    error = weft_http_run(&options, address, ready);
    if (error != 0)
        fprintf(stderr, "%s: %s\n", address, weft_strerror(error));
    weft_http_router_close(router);
    return error != 0;
}
