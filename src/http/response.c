/*
 * response.c: the head of a response: status and fields, until they are committed.
 *
 * Fields are kept as the text that will be sent. The commit adds the server's own: Date, Server,
 * Content-Length or Transfer-Encoding, Connection. It also decides how the end of the body is
 * marked:
 *
 *   HEAD, 204, 304, 101          there is no body
 *   Content-Length was set       by that
 *   the body is complete         by its length
 *   HTTP/1.1                     by chunks
 *   HTTP/1.0                     by the end of the connection
 */
#include "http/response.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/body.h"
#include "http/exchange.h"
#include "http/send.h"
#include "http/sys.h"

/* An upper bound of what the commit adds to the fields. */
enum { OWN_FIELDS = 512 };

void weft__http_response_begin(struct exchange *exchange)
{
    weft_http_response *response = &exchange->response;
    response->status = 200;
    response->fields_size = 0;
    response->trailers_size = 0;
    response->length = -1;
    response->sent_body = 0;
    response->error = 0;
    response->waited = response->transferred = 0;
    response->burst = 0;
    response->sent = response->close = false;
    response->events = response->streaming = response->upgraded = false;
    response->stream_refusal = 0;
    response->has_date = response->has_server = false;
    exchange->out_size = exchange->body_at = 0;
}

void weft__http_response_free(struct exchange *exchange)
{
    weft_http_response *response = &exchange->response;
    weft__http_tail_free(exchange);
    weft__http_free(response->trailers);
    response->trailers = NULL;
    if (response->fields_own) {
        weft__http_free(response->fields);
        response->fields = response->first_fields;
        response->fields_room = HTTP_FIRST_FIELDS;
        response->fields_own = false;
    }
}

void weft_http_status(weft_http_response *response, int status)
{
    if (response == NULL)
        return;
    if (!response->sent && is_status(status))
        response->status = status;
}

int weft_http_sent(const weft_http_response *response)
{
    if (response == NULL)
        return -EINVAL;
    return response->sent;
}

int weft__http_is_head(const weft_http_response *response)
{
    return strcmp(exchange_of_response(response)->request.head.method, "HEAD") == 0;
}

/* ---- fields ---- */

static int grow(weft_http_response *response, size_t size)
{
    if (size <= response->fields_room)
        return 0;
    if (size > HTTP_FIELDS_MAX)
        return -EMSGSIZE;
    size_t room = response->fields_room;
    while (room < size)
        room *= 2;
    char *larger = weft__http_allocate(room);
    if (larger == NULL)
        return -ENOMEM;
    memcpy(larger, response->fields, response->fields_size);
    if (response->fields_own)
        weft__http_free(response->fields);
    response->fields = larger;
    response->fields_room = room;
    response->fields_own = true;
    return 0;
}

static size_t field_size(const char *name, const char *value)
{
    return strlen(name) + strlen(value) + 4;
}

/* Appends a field, for which there is room. */
static void append(weft_http_response *response, const char *name, const char *value)
{
    size_t name_size = strlen(name), value_size = strlen(value);
    char *to = response->fields + response->fields_size;
    memcpy(to, name, name_size);
    memcpy(to + name_size, ": ", 2);
    memcpy(to + name_size + 2, value, value_size);
    memcpy(to + name_size + 2 + value_size, "\r\n", 2);
    response->fields_size += name_size + value_size + 4;
}

int weft__http_response_field(weft_http_response *response, const char *name, const char *value)
{
    int error = grow(response, response->fields_size + field_size(name, value));
    if (error == 0)
        append(response, name, value);
    return error;
}

/* The next field of that name, and where it ends. NULL if there is none. */
static char *find_named(const weft_http_response *response, char *at, const char *name, char **next)
{
    size_t name_size = strlen(name);
    const char *end = response->fields + response->fields_size;
    for (; at < end; at = *next) {
        *next = (char *)memchr(at, '\n', (size_t)(end - at)) + 1;
        if ((size_t)(*next - at) > name_size && at[name_size] == ':' &&
            strncasecmp(at, name, name_size) == 0)
            return at;
    }
    return NULL;
}

static size_t size_named(const weft_http_response *response, const char *name)
{
    size_t size = 0;
    char *next;
    for (char *at = response->fields; (at = find_named(response, at, name, &next)) != NULL;
         at = next)
        size += (size_t)(next - at);
    return size;
}

void weft__http_unset(weft_http_response *response, const char *name)
{
    char *at = response->fields, *next;
    while ((at = find_named(response, at, name, &next)) != NULL) {
        memmove(at, next, (size_t)(response->fields + response->fields_size - next));
        response->fields_size -= (size_t)(next - at);
    }
}

/* Content-Length is kept as a number. */
static int set_length(weft_http_response *response, const char *value)
{
    int64_t length = 0;
    if (*value == '\0' || strlen(value) > 18)
        return -EINVAL;
    for (; *value != '\0'; value++) {
        if (*value < '0' || *value > '9')
            return -EINVAL;
        length = length * 10 + (*value - '0');
    }
    if (length < response->sent_body)
        return -EMSGSIZE;
    response->length = length;
    return 0;
}

/* Handles fields that mean something to the server. Returns 0; an error; 1 for any other field. */
static int special(weft_http_response *response, const char *name, const char *value)
{
    static const char *const own[] = {"Transfer-Encoding", "Upgrade", "Keep-Alive", "Trailer"};
    if (strchr("cCtTuUkK", name[0]) == NULL)
        return 1;
    if (strcasecmp(name, "Connection") == 0) {
        if (strcasecmp(value, "close") != 0)
            return -EINVAL;
        response->close = true;
        return 0;
    }
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcasecmp(name, own[i]) == 0)
            return -EINVAL;
    return strcasecmp(name, "Content-Length") == 0 ? set_length(response, value) : 1;
}

/* Notes fields that the server would otherwise add. */
static void note(weft_http_response *response, const char *name)
{
    if (strcasecmp(name, "Date") == 0)
        response->has_date = true;
    else if (strcasecmp(name, "Server") == 0)
        response->has_server = true;
}

static int put(weft_http_response *response, const char *name, const char *value, bool replace)
{
    if (name == NULL || value == NULL || !weft__http_is_token(name) || !weft__http_is_value(value))
        return -EINVAL;
    if (response->sent)
        return -EBUSY;
    int ordinary = special(response, name, value);
    if (ordinary <= 0)
        return ordinary;
    /* Room comes first, so that an error changes nothing. */
    size_t gone = replace ? size_named(response, name) : 0;
    int error = grow(response, response->fields_size - gone + field_size(name, value));
    if (error != 0)
        return error;
    if (gone > 0)
        weft__http_unset(response, name);
    note(response, name);
    append(response, name, value);
    return 0;
}

int weft_http_set(weft_http_response *response, const char *name, const char *value)
{
    if (response == NULL)
        return -EINVAL;
    return put(response, name, value, true);
}

int weft_http_add(weft_http_response *response, const char *name, const char *value)
{
    if (response == NULL)
        return -EINVAL;
    return put(response, name, value, false);
}

int weft_http_setf(weft_http_response *response, const char *name, const char *format, ...)
{
    if (response == NULL)
        return -EINVAL;
    char text[1024], *longer = NULL;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int error, size = vsnprintf(text, sizeof text, format, arguments);
    if (size < 0) {
        error = -EINVAL;
    } else if ((size_t)size < sizeof text) {
        error = weft_http_set(response, name, text);
    } else if (size > HTTP_FIELDS_MAX) {
        error = -EMSGSIZE;
    } else if ((longer = weft__http_allocate((size_t)size + 1)) == NULL) {
        error = -ENOMEM;
    } else {
        (void)vsnprintf(longer, (size_t)size + 1, format, again);
        error = weft_http_set(response, name, longer);
    }
    weft__http_free(longer);
    va_end(again);
    va_end(arguments);
    return error;
}

int weft_http_set_trailer(weft_http_response *response, const char *name, const char *value)
{
    if (response == NULL)
        return -EINVAL;
    static const char *const never[] = {"Transfer-Encoding", "Content-Length",   "Host",
                                        "Trailer",           "Content-Encoding", "Content-Type",
                                        "Connection"};
    const struct exchange *exchange = exchange_of_response(response);
    if (name == NULL || value == NULL || !weft__http_is_token(name) || !weft__http_is_value(value))
        return -EINVAL;
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (strcasecmp(name, never[i]) == 0)
            return -EINVAL;
    if (!exchange->request.head.trailers_wanted)
        return 0;
    size_t size = strlen(name) + strlen(value) + 4;
    if (response->trailers_size + size > HTTP_FIELDS_MAX)
        return -EMSGSIZE;
    char *larger = weft__http_resize(response->trailers, response->trailers_size + size + 1);
    if (larger == NULL)
        return -ENOMEM;
    (void)snprintf(larger + response->trailers_size, size + 1, "%s: %s\r\n", name, value);
    response->trailers = larger;
    response->trailers_size += size;
    return 0;
}

/* ---- the commit ---- */

static enum framing choose_framing(struct exchange *exchange, bool whole)
{
    weft_http_response *response = &exchange->response;
    int status = response->status;
    if (status == 101 || status == 204 || status == 304)
        return FRAMING_NONE;
    if (response->length < 0 && whole && (response->trailers_size == 0))
        response->length = response->sent_body;
    if (response->length >= 0)
        return FRAMING_LENGTH;
    return exchange->request.head.version >= 11 ? FRAMING_CHUNKED : FRAMING_CLOSE;
}

static char *add(char *to, const char *text)
{
    size_t size = strlen(text);
    memcpy(to, text, size);
    return to + size;
}

static char *add_number(char *to, uint64_t number)
{
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0)
        *to++ = digits[--count];
    return to;
}

static char *add_date(struct exchange *exchange, char *to)
{
    int64_t second = weft__http_seconds();
    if (second != exchange->date_second) {
        weft__http_date(second, exchange->date);
        exchange->date_second = second;
    }
    to = add(to, "Date: ");
    memcpy(to, exchange->date, HTTP_DATE - 1);
    return add(to + HTTP_DATE - 1, "\r\n");
}

/* The names of the trailer fields, as far as they fit. */
static char *add_trailer_names(const weft_http_response *response, char *to)
{
    const char *at = response->trailers, *end = at + response->trailers_size;
    char *limit = to + 128;
    to = add(to, "Trailer: ");
    for (bool first = true; at < end; first = false) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        if (to + (colon - at) + 4 > limit)
            break;
        if (!first)
            to = add(to, ", ");
        memcpy(to, at, (size_t)(colon - at));
        to += colon - at;
        at = (const char *)memchr(colon, '\n', (size_t)(end - colon)) + 1;
    }
    return add(to, "\r\n");
}

/* Writes at most OWN_FIELDS and the fields. */
static size_t write_head(struct exchange *exchange, char *to)
{
    weft_http_response *response = &exchange->response;
    const weft_http_server *server = exchange->server;
    char *start = to;
    if (response->status == 200) {
        to = add(to, "HTTP/1.1 200 OK\r\n");
    } else {
        to = add_number(add(to, "HTTP/1.1 "), (uint64_t)response->status);
        to = add(add(add(to, " "), weft_http_status_text(response->status)), "\r\n");
    }
    if (!response->has_date)
        to = add_date(exchange, to);
    if (server->name != NULL && !response->has_server)
        to = add(add(add(to, "Server: "), server->name), "\r\n");
    memcpy(to, response->fields, response->fields_size);
    to += response->fields_size;
    if (response->framing == FRAMING_LENGTH)
        to = add(add_number(add(to, "Content-Length: "), (uint64_t)response->length), "\r\n");
    else if (response->framing == FRAMING_CHUNKED)
        to = add(to, "Transfer-Encoding: chunked\r\n");
    if (response->trailers_size > 0 && response->framing == FRAMING_CHUNKED)
        to = add_trailer_names(response, to);
    if (response->status == 101)
        to = add(to, "Connection: Upgrade\r\n");
    else if (!exchange->keep)
        to = add(to, "Connection: close\r\n");
    else if (exchange->request.head.version == 10)
        to = add(to, "Connection: keep-alive\r\n");
    return (size_t)(add(to, "\r\n") - start);
}

/* Sends a head that does not fit into `out` beside the body. */
static int commit_large(struct exchange *exchange, size_t most)
{
    char *head = weft__http_allocate(most);
    if (head == NULL)
        return -ENOMEM;
    struct iovec piece = {head, write_head(exchange, head)};
    int error = weft__http_response_send(exchange, &piece, 1);
    weft__http_free(head);
    return error;
}

int weft__http_response_commit(struct exchange *exchange, bool whole)
{
    weft_http_response *response = &exchange->response;
    const weft_http_request *request = &exchange->request;
    /* The connection ends if the client was not told to send the body, or if the rest of the body
     * is too large to be dropped. */
    if (response->close || !request->continue_sent ||
        (whole && weft__http_body_is_large(request)) ||
        atomic_u32_load_relaxed(&exchange->server->stopping) != 0)
        exchange->keep = false;
    response->framing = (uint8_t)choose_framing(exchange, whole);
    if (response->framing == FRAMING_CLOSE)
        exchange->keep = false;
    response->sent = true;
    size_t most = OWN_FIELDS + response->fields_size +
                  (exchange->server->name != NULL ? strlen(exchange->server->name) : 0);
    if (exchange->out_size + most > HTTP_OUT) {
        response->error = commit_large(exchange, most);
        return response->error;
    }
    /* The body makes room for the head, whose exact size is known when it is written. */
    size_t body_size = exchange->out_size;
    if (body_size > 0)
        memmove(exchange->out + most, exchange->out, body_size);
    exchange->body_at = write_head(exchange, exchange->out);
    if (body_size > 0)
        memmove(exchange->out + exchange->body_at, exchange->out + most, body_size);
    exchange->out_size = exchange->body_at + body_size;
    return 0;
}
