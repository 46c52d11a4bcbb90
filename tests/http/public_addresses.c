/*
 * public_addresses.c: the default limits of an address that is not private: a quarter, and at least
 * 64. In a network namespace of the test's own, where 203.0.113.0/24 is this host.
 */
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <weft/fiber.h>
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"

enum { WORKERS = 300, SHARE = 75, LEAST = 64 };

static weft_sem entered = WEFT_SEM_INIT(0), gate = WEFT_SEM_INIT(0);

HANDLER(gated)
{
    if (strcmp(weft_http_path(request), "/events") == 0 && weft_http_events(response) != 0)
        return;
    weft_sem_release(&entered, 1);
    weft_sem_acquire(&gate, 1);
}

static bool set_up_network(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    request.ifr_flags = IFF_UP;
    bool done = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    snprintf(request.ifr_name, sizeof request.ifr_name, "lo:1");
    CHECK(inet_pton(AF_INET, "203.0.113.1", &address.sin_addr) == 1);
    memcpy(&request.ifr_addr, &address, sizeof address);
    done = done && ioctl(fd, SIOCSIFADDR, &request) == 0;
    close(fd);
    return done;
}

/* So many of one address are served at a time, the next is not, and another address is. */
static void expect_share(weft_http_server *server, const char *request, int share)
{
    static struct client clients[WORKERS];
    int port = port_of(server, 0);
    for (int i = 0; i <= share; i++) {
        clients[i] = client_of(dial_from(i < share ? "203.0.113.5" : "203.0.113.6", port));
        client_send(&clients[i], request);
        weft_sem_acquire(&entered, 1);
    }
    struct client more = client_of(dial_from("203.0.113.5", port));
    ASK(&more, request, 429, NULL);
    client_close(&more);
    weft_sem_release(&gate, share + 1);
    for (int i = 0; i <= share; i++) {
        EXPECT(&clients[i], 200, "");
        client_close(&clients[i]);
    }
    AWAIT(stats_of(server).connections == 0);
}

static void strangers_have_a_share(void)
{
    weft_http_server *server =
        SERVE(.handler = gated, .max_workers = WORKERS, .max_streams = LEAST + 1);
    expect_share(server, GET("/"), SHARE);
    expect_share(server, GET("/events"), LEAST);
    end(server);
}

static void connections_too(void)
{
    enum { ALL = 2 * LEAST };
    static struct client clients[ALL];
    weft_http_server *server = SERVE(.handler = gated, .max_connections = ALL);
    int port = port_of(server, 0);
    for (int i = 0; i <= LEAST; i++)
        clients[i] = client_of(dial_from(i < LEAST ? "203.0.113.5" : "203.0.113.6", port));
    AWAIT(stats_of(server).connections == LEAST + 1);
    struct client more = client_of(dial_from("203.0.113.5", port));
    EXPECT(&more, 503, NULL);
    client_close(&more);
    for (int i = 0; i <= LEAST; i++)
        client_close(&clients[i]);
    AWAIT(stats_of(server).connections == 0);
    end(server);
}

int main(void)
{
    if (!set_up_network())
        test_skip("no network of its own may be made here");
    RUN(strangers_have_a_share);
    RUN(connections_too);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
