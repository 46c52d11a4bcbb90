/*
 * upgrade.h: handlers that go on until the client or the server ends them.
 */
#ifndef WEFT_HTTP_UPGRADE_H
#define WEFT_HTTP_UPGRADE_H

#include <weft/http.h>

/* Makes the exchange a stream: a stop cancels its handler's context, and it lends its place among
 * max_workers. Returns 0; -EAGAIN if there are too many streams; -ECONNRESET if the client is gone;
 * -ENOMEM. */
int weft__http_response_stream(weft_http_response *response);

#endif
