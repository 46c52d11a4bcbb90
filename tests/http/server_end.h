/*
 * server_end.h: the figures of a server, and its end, for tests with and without TLS.
 */
#ifndef WEFT_TEST_HTTP_SERVER_END_H
#define WEFT_TEST_HTTP_SERVER_END_H

#include <weft/http.h>
#include <weft/weft.h>

#include "handler.h"
#include "test.h"

/* Waits until it is so. */
#define AWAIT(condition)     \
    do {                     \
        while (!(condition)) \
            usleep(500);     \
    } while (0)

static inline weft_http_stats stats_of(weft_http_server *server)
{
    weft_http_stats stats;
    CHECK_EQ(weft_http_stats_get(server, &stats), 0);
    return stats;
}

/* Lets all come to their end, and sees that they do. */
static inline void end(weft_http_server *server)
{
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    CHECK_EQ(stats_of(server).connections, 0);
    AWAIT(stats_of(server).running == 0); /* a worker counts until it has returned */
    weft_http_close(server);
}

#endif
