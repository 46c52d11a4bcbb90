/*
 * log.h: entries of the access log.
 */
#ifndef WEFT_HTTP_LOG_H
#define WEFT_HTTP_LOG_H

struct connection;
struct exchange;

/* Logs an answer. The option `log` must be set. */
void weft__http_log(struct exchange *exchange, int status);
/* Logs a refusal, with as much of the head as came; nothing if the option `log` is not set. */
void weft__http_log_refusal(struct exchange *exchange, int status);
/* Logs a connection that ends with its PROXY header, or without one. */
void weft__http_log_proxy(const struct connection *connection, int status);

#endif
