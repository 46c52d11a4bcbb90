/*
 * events.c: server-sent events: a line that one client posts is sent to all listeners at once.
 *
 *     POST /say         posts a line
 *     GET  /events      a stream of all lines from now on
 *
 *     events [address]
 *
 * Each listener is a fiber that waits on a condition variable. A slow listener misses lines and
 * does not delay the others.
 */
#include <stdio.h>
#include <string.h>
#include <weft/http_router.h>
#include <weft/weft.h>

enum { LINES = 64, LINE = 256 };

/* The last lines, in a ring. */
struct talk {
    weft_mutex lock;
    weft_cond news;
    long said; /* lines since the start */
    char lines[LINES][LINE];
};

static void say(weft_http_request *request, weft_http_response *response, void *data)
{
    struct talk *talk = data;
    char *body;
    size_t size;
    weft_http_max_body(request, LINE - 1);
    if (weft_http_read_all(request, &body, &size) != 0)
        return;
    weft_mutex_lock(&talk->lock);
    snprintf(talk->lines[talk->said++ % LINES], LINE, "%s", body);
    weft_cond_broadcast(&talk->news);
    weft_mutex_unlock(&talk->lock);
    weft_http_status(response, 204);
}

/* Waits for a line after number `seen` and copies it. Returns its number, `seen` if none comes for
 * a while, or -1 if the server stops. */
static long next_line(struct talk *talk, long seen, char line[LINE])
{
    int error = 0;
    weft_mutex_lock(&talk->lock);
    while (talk->said == seen && error == 0)
        error = weft_cond_wait_until(&talk->news, &talk->lock, weft_after(15 * WEFT_S));
    if (talk->said > seen) {
        seen = talk->said - seen > LINES ? talk->said - LINES + 1 : seen + 1;
        memcpy(line, talk->lines[(seen - 1) % LINES], LINE);
    } else if (error == -ECANCELED) {
        seen = -1;
    }
    weft_mutex_unlock(&talk->lock);
    return seen;
}

static void listen_to(weft_http_request *request, weft_http_response *response, void *data)
{
    struct talk *talk = data;
    char line[LINE], id[32];
    (void)request;
    weft_mutex_lock(&talk->lock);
    long seen = talk->said;
    weft_mutex_unlock(&talk->lock);
    int error = weft_http_events(response);
    while (error == 0) {
        long number = next_line(talk, seen, line);
        if (number < 0)
            return;
        snprintf(id, sizeof id, "%ld", number);
        error = number > seen ? weft_http_event(response, NULL, line, id)
                              : weft_http_event_ping(response);
        seen = number;
    }
}

static void ready(const char *address)
{
    printf("listening at %s\n", address);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct talk talk;
    const char *address = argc > 1 ? argv[1] : "tcp:127.0.0.1:8080";
    weft_http_router *router;
    int error = weft_http_router_open(&router);
    if (error == 0)
        error = weft_http_route(router, "POST", "/say", say, &talk);
    if (error == 0)
        error = weft_http_route(router, "GET", "/events", listen_to, &talk);
    if (error != 0)
        return 1;
    weft_http_options options = {.handler = weft_http_router_serve, .data = router};
    error = weft_http_run(&options, address, ready);
    if (error != 0)
        fprintf(stderr, "%s: %s\n", address, weft_strerror(error));
    weft_http_router_close(router);
    return error != 0;
}
