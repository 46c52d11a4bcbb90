/*
 * refuse.h: refusals that are sent without a worker and without waiting.
 */
#ifndef WEFT_HTTP_REFUSE_H
#define WEFT_HTTP_REFUSE_H

#include <stdbool.h>

#include <weft/http.h>

struct connection;

/* Sends a refusal, without a body if the request was HEAD (`head`). Returns false if it did not go
 * out as a whole: then nothing may follow it. */
bool weft__http_refuse(struct connection *connection, int status, bool close, bool head);
/* Sends a refusal, and lets the connection linger. */
void weft__http_refuse_and_linger(struct connection *connection, int status, bool head);
/* Answers a client that speaks plain HTTP to a listener with TLS: 400 in plain HTTP. The connection
 * ends. */
void weft__http_refuse_plain(struct connection *connection);
/* Refuses a socket that gets no connection, with 503 (nothing if `tls`), and closes it. */
void weft__http_refuse_socket(weft_http_server *server, int fd, bool tls);

#endif
