/*
 * send.h: sending a response, and its end.
 */
#ifndef WEFT_HTTP_SEND_H
#define WEFT_HTTP_SEND_H

#include <sys/uio.h>

struct exchange;

/* Completes the response; its last bytes may still be in `out`. */
void weft__http_response_end(struct exchange *exchange);
/* Sends all pieces, and waits for the client as long as its timeout and its rate allow. */
int weft__http_response_send(struct exchange *exchange, struct iovec *pieces, int count);
/* Sends what is left of a complete response. */
int weft__http_response_flush(struct exchange *exchange);
/* Frees the response's tail, if it has one. */
void weft__http_tail_free(struct exchange *exchange);

#endif
