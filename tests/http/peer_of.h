/*
 * peer_of.h: peers from text.
 */
#ifndef WEFT_TEST_HTTP_PEER_OF_H
#define WEFT_TEST_HTTP_PEER_OF_H

#include <arpa/inet.h>

#include "http/peer.h"
#include "test.h"

/* As a socket of that family shows it: IPv4 in IPv6 stays so. */
static inline struct peer peer_of(const char *text)
{
    struct peer peer = {.family = strchr(text, ':') != NULL ? 6 : 4};
    CHECK_EQ(inet_pton(peer.family == 6 ? AF_INET6 : AF_INET, text, peer.ip), 1);
    return peer;
}

#endif
