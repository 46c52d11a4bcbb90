/*
 * client_address.h: the client's address, also where a trusted proxy names it.
 */
#ifndef WEFT_HTTP_CLIENT_ADDRESS_H
#define WEFT_HTTP_CLIENT_ADDRESS_H

#include "http/peer.h"

struct connection;
struct exchange;

/* The client that PROXY named, otherwise the peer. */
const struct peer *weft__http_connection_client(const struct connection *connection);
/* The acceptor reads the PROXY header and counts the client. Returns 0; -EAGAIN; -EBADMSG if it is
 * no such header; -EUSERS if the client has as many connections as it may; -ECONNRESET if the peer
 * is gone; -ENOMEM. */
int weft__http_read_proxy(struct connection *connection);
/* Gives back what the limits by address have counted for a connection that ends. */
void weft__http_client_forget(struct connection *connection);

/* The exchange's client is the connection's, until its head is read. */
void weft__http_client_reset(struct exchange *exchange);
/* Finds the client by the fields of the head. */
void weft__http_client_find(struct exchange *exchange);

#endif
