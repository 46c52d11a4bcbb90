/*
 * request.c: what a handler reads of a request, and its parameters.
 */
#include "http/request.h"

#include <errno.h>
#include <string.h>

#include "http/exchange.h"
#include "http/path.h"
#include "http/sys.h"

const char *weft_http_method(const weft_http_request *request)
{
    if (request == NULL)
        return NULL;
    return request->head.method;
}

const char *weft_http_path(const weft_http_request *request)
{
    if (request == NULL)
        return NULL;
    return request->path;
}

const char *weft_http_target(const weft_http_request *request)
{
    if (request == NULL)
        return NULL;
    return request->head.target;
}

const char *weft_http_query(const weft_http_request *request)
{
    if (request == NULL)
        return NULL;
    return request->head.query;
}

int weft_http_version(const weft_http_request *request)
{
    if (request == NULL)
        return -EINVAL;
    return request->head.version;
}

const char *weft_http_header(const weft_http_request *request, const char *name)
{
    if (request == NULL)
        return NULL;
    const struct field *field =
        name != NULL ? weft__http_find_field(request->head.fields, request->head.count, name)
                     : NULL;
    return field != NULL ? field->value : NULL;
}

int weft_http_header_at(const weft_http_request *request, int number, const char **name,
                        const char **value)
{
    if (request == NULL)
        return -EINVAL;
    if (number < 0 || number >= request->head.count)
        return -ENOENT;
    *name = request->head.fields[number].name;
    *value = request->head.fields[number].value;
    return 0;
}

const char *weft_http_trailer(const weft_http_request *request, const char *name)
{
    if (request == NULL)
        return NULL;
    const struct field *field =
        name != NULL ? weft__http_find_field(request->trailers, request->trailer_count, name)
                     : NULL;
    return field != NULL ? field->value : NULL;
}

int64_t weft_http_content_length(const weft_http_request *request)
{
    if (request == NULL)
        return -EINVAL;
    return request->head.length;
}

void weft_http_peer(const weft_http_request *request, weft_address *address)
{
    if (request == NULL)
        return;
    weft__http_peer_address(&exchange_of_request(request)->connection->peer, address);
}

void weft_http_client(const weft_http_request *request, weft_address *address)
{
    if (request == NULL)
        return;
    weft__http_peer_address(&exchange_of_request(request)->client, address);
}

int weft_http_is_tls(const weft_http_request *request)
{
    if (request == NULL)
        return -EINVAL;
    return exchange_of_request(request)->connection->tls != NULL;
}

/* ---- memory ---- */

void *weft__http_request_allocate(weft_http_request *request, size_t size)
{
    struct block *block = weft__http_allocate(sizeof *block + size);
    if (block == NULL)
        return NULL;
    block->next = request->blocks;
    request->blocks = block;
    return block->bytes;
}

/* ---- parameters of the route ---- */

const char *weft_http_param(const weft_http_request *request, const char *name)
{
    if (request == NULL)
        return NULL;
    for (int i = 0; name != NULL && i < request->param_count; i++)
        if (strcmp(request->params[i].name, name) == 0)
            return request->params[i].value;
    return NULL;
}

int weft__http_param_set(weft_http_request *request, const char *name, const char *value,
                         size_t size)
{
    int i = 0;
    while (i < request->param_count && strcmp(request->params[i].name, name) != 0)
        i++;
    if (i == HTTP_PARAMS)
        return -ENOSPC;
    char *copy = weft__http_request_allocate(request, size + 1);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, value, size);
    copy[size] = '\0';
    request->params[i].name = name;
    request->params[i].value = copy;
    if (i == request->param_count)
        request->param_count++;
    return 0;
}

/* ---- the query ---- */

/* Whether `size` bytes of a query, decoded, are the name. */
static bool is_name(const char *text, size_t size, const char *name)
{
    while (size > 0) {
        char decoded[3];
        size_t step = *text == '%' && size >= 3 ? 3 : 1;
        if (weft__http_decode_query(text, step, decoded) > 1) /* a % without two digits stays */
            step = 1;
        if (*name == '\0' || *name != decoded[0])
            return false;
        name++;
        text += step;
        size -= step;
    }
    return *name == '\0';
}

const char *weft_http_query_value(weft_http_request *request, const char *name)
{
    if (request == NULL)
        return NULL;
    const char *at = request->head.query;
    while (name != NULL && *at != '\0') {
        size_t size = strcspn(at, "&");
        const char *equals = memchr(at, '=', size);
        size_t name_size = equals != NULL ? (size_t)(equals - at) : size;
        if (is_name(at, name_size, name)) {
            const char *value = equals != NULL ? equals + 1 : at + size;
            size_t value_size = (size_t)(at + size - value);
            char *copy = weft__http_request_allocate(request, value_size + 1);
            if (copy != NULL)
                copy[weft__http_decode_query(value, value_size, copy)] = '\0';
            return copy;
        }
        at += size;
        at += *at == '&';
    }
    return NULL;
}
