/*
 * request.h: what the router and the files need of a request beyond weft/http.h.
 */
#ifndef WEFT_HTTP_REQUEST_H
#define WEFT_HTTP_REQUEST_H

#include <weft/http.h>

enum { HTTP_PARAMS = 16 };

/* Adds a parameter for weft_http_param: `name` stays the caller's, the value (`size` bytes) is copied. One of the same
 * name is replaced. 0; -ENOMEM; -ENOSPC beyond HTTP_PARAMS. */
int weft__http_param_set(weft_http_request *request, const char *name, const char *value,
                         size_t size);
/* Memory that is there until the handler returns; NULL. */
void *weft__http_request_allocate(weft_http_request *request, size_t size);
/* Takes back a field of the response that is not sent yet, if there is one. */
void weft__http_unset(weft_http_response *response, const char *name);
/* Whether the response is one to HEAD. */
int weft__http_is_head(const weft_http_response *response);

#endif
