/*
 * lend.h: exchanges that lend their worker's place among max_workers to another one.
 */
#ifndef WEFT_HTTP_LEND_H
#define WEFT_HTTP_LEND_H

#include <stdint.h>

#include <weft/http.h>

struct exchange;

/* The exchange lends its place until it ends. Returns 0; 503 or 429 if there are too many such. */
int weft__http_lend(struct exchange *exchange);
/* An exchange that lent its place has ended. */
void weft__http_lend_end(weft_http_server *server);
/* Waits for the client as weft__http_connection_wait, and lends the place meanwhile, unless there
 * are too many such. Adds the time of the wait itself to `*waited`. */
int weft__http_lend_while_waiting(struct exchange *exchange, int events, int64_t deadline,
                                  int64_t *waited);

#endif
