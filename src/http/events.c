/*
 * events.c: server-sent events, as the HTML standard frames them: "event: ...", "id: ...",
 * "data: ..." for each line, and an empty line.
 */
#include <errno.h>
#include <string.h>

#include "http/exchange.h"
#include "http/upgrade.h"

int weft_http_events(weft_http_response *response)
{
    if (response == NULL)
        return -EINVAL;
    if (response->sent)
        return -EBUSY;
    int error = weft_http_set(response, "Content-Type", "text/event-stream");
    if (error == 0)
        error = weft_http_set(response, "Cache-Control", "no-store");
    if (error == 0)
        /* For proxies that would collect events. */
        error = weft_http_set(response, "X-Accel-Buffering", "no");
    if (error != 0)
        return error;
    weft_http_status(response, 200);
    if (weft__http_is_head(response)) {
        /* No event would be sent, and none fail: the handler would never end. */
        error = weft_http_flush(response);
        return error != 0 ? error : -EPIPE;
    }
    error = weft__http_response_stream(response);
    if (error != 0)
        return error;
    response->events = true;
    return weft_http_flush(response);
}

static bool one_line(const char *text)
{
    return text == NULL || strpbrk(text, "\r\n") == NULL;
}

static int put_line(weft_http_response *response, const char *name, const char *text, size_t size)
{
    int error = weft_http_puts(response, name);
    if (error == 0)
        error = weft_http_write(response, text, size);
    return error == 0 ? weft_http_write(response, "\n", 1) : error;
}

int weft_http_event(weft_http_response *response, const char *event, const char *data,
                    const char *id)
{
    if (response == NULL)
        return -EINVAL;
    if (!response->events || data == NULL || !one_line(event) || !one_line(id))
        return -EINVAL;
    int error = 0;
    if (event != NULL)
        error = put_line(response, "event: ", event, strlen(event));
    if (error == 0 && id != NULL)
        error = put_line(response, "id: ", id, strlen(id));
    do { /* CR LF, CR and LF all end a line */
        size_t size = strcspn(data, "\r\n");
        if (error == 0)
            error = put_line(response, "data: ", data, size);
        data += size;
        if (data[0] == '\r' && data[1] == '\n')
            data++;
    } while (*data != '\0' && *++data != '\0');
    if (error == 0)
        error = weft_http_write(response, "\n", 1);
    return error == 0 ? weft_http_flush(response) : error;
}

int weft_http_event_ping(weft_http_response *response)
{
    if (response == NULL)
        return -EINVAL;
    if (!response->events)
        return -EINVAL;
    int error = weft_http_puts(response, ":\n\n");
    return error == 0 ? weft_http_flush(response) : error;
}
