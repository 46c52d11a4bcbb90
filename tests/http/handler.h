/*
 * handler.h: handlers for tests.
 */
#ifndef WEFT_TEST_HTTP_HANDLER_H
#define WEFT_TEST_HTTP_HANDLER_H

#include <weft/http.h>

/* Begins a handler: HANDLER(hello) { ... } with request, response and data. */
#define HANDLER(name)                                                      \
    static void name(__attribute__((unused)) weft_http_request *request,   \
                     __attribute__((unused)) weft_http_response *response, \
                     __attribute__((unused)) void *data)

__attribute__((unused)) HANDLER(hello)
{
    (void)weft_http_puts(response, "hello");
}

#endif
