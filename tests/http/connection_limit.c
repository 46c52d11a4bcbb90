/*
 * connection_limit.c: a server that is at its limit of connections, and what the limit is: the
 * limit of descriptors counts too. A new connection evicts an idle one, but none with a request.
 */
#include <sys/resource.h>
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"
#include "http/server.h"
#include "limit_descriptors.h"
#include "system.h"

enum { MOST = 3, MANY_CLIENTS = 100 };

static weft_sem entered = WEFT_SEM_INIT(0), gate = WEFT_SEM_INIT(0);

HANDLER(answer)
{
    if (strcmp(weft_http_path(request), "/wait") == 0) {
        weft_sem_release(&entered, 1);
        weft_sem_acquire(&gate, 1);
    }
    (void)weft_http_puts(response, "hello");
}

static weft_http_server *serve_few(void)
{
    return SERVE(.handler = answer, .max_connections = MOST, .acceptors = 1);
}

static void ask_hello(struct client *client)
{
    ASK(client, GET("/"), 200, "hello");
}

/* So many connections that are idle, the first for longest. */
static void be_idle(weft_http_server *server, struct client *clients, int count)
{
    int64_t before = stats_of(server).idle;
    for (int i = 0; i < count; i++) {
        clients[i] = client_open(server);
        ask_hello(&clients[i]);
        AWAIT(stats_of(server).idle == before + i + 1);
    }
}

static void the_longest_idle_makes_room(void)
{
    weft_http_server *server = serve_few();
    struct client old[MOST], new[2];
    be_idle(server, old, MOST);
    ask_hello(&old[0]); /* so the next one is idle for longest */
    AWAIT(stats_of(server).idle == MOST);
    new[0] = client_open(server);
    ask_hello(&new[0]);
    CHECK(client_at_end(&old[1]));
    CHECK_EQ(stats_of(server).connections, MOST);
    new[1] = client_open(server);
    ask_hello(&new[1]);
    CHECK(client_at_end(&old[2]));
    ask_hello(&old[0]); /* it is still there */
    CHECK_EQ(stats_of(server).evicted, 2);
    CHECK_EQ(stats_of(server).refused, 0);
    for (int i = 0; i < MOST; i++)
        client_close(&old[i]);
    for (int i = 0; i < 2; i++)
        client_close(&new[i]);
    end(server);
}

/* Also connections without a request, with a partial head, and lingering ones. */
static void silent_ones_make_room(void)
{
    static const char *const sent[] = {"", "GET / HT", "nonsense\r\n\r\n"};
    for (int i = 0; i < 3; i++) {
        weft_http_server *server = serve_few();
        struct client old[MOST], new[MOST];
        for (int j = 0; j < MOST; j++) {
            old[j] = client_open(server);
            client_send(&old[j], sent[i]);
            if (i == 2)
                EXPECT(&old[j], 400, NULL);
            AWAIT(stats_of(server).connections == j + 1);
        }
        for (int j = 0; j < MOST; j++) {
            new[j] = client_open(server);
            ask_hello(&new[j]);
            AWAIT(stats_of(server).idle == j + 1);
            if (i == 1)
                EXPECT(&old[j], 503, NULL);
            CHECK(client_at_end(&old[j]));
            CHECK_EQ(stats_of(server).evicted, j + 1);
        }
        CHECK_EQ(stats_of(server).refused, 0);
        for (int j = 0; j < MOST; j++) {
            client_close(&old[j]);
            client_close(&new[j]);
        }
        end(server);
    }
}

/* However many acceptors there are: each closes its own, and keeps what comes instead. */
static void every_acceptor_has_room(void)
{
    weft_http_server *server = SERVE(.handler = answer, .max_connections = 4, .acceptors = 2);
    static struct client clients[MANY_CLIENTS];
    be_idle(server, clients, 4);
    for (int i = 4; i < MANY_CLIENTS; i++) {
        clients[i] = client_open(server);
        ask_hello(&clients[i]);
        AWAIT(stats_of(server).idle == 4);
    }
    CHECK_EQ(stats_of(server).refused, 0);
    for (int i = 0; i < MANY_CLIENTS; i++)
        client_close(&clients[i]);
    end(server);
}

static void the_busy_stay(void)
{
    weft_http_server *server = serve_few();
    struct client busy[MOST];
    for (int i = 0; i < MOST; i++) {
        busy[i] = client_open(server);
        client_send(&busy[i], GET("/wait"));
        weft_sem_acquire(&entered, 1);
    }
    struct client late = client_open(server);
    EXPECT(&late, 503, NULL);
    client_close(&late);
    CHECK_EQ(stats_of(server).evicted, 0);
    weft_sem_release(&gate, MOST);
    for (int i = 0; i < MOST; i++) {
        EXPECT(&busy[i], 200, "hello");
        client_close(&busy[i]);
    }
    end(server);
}

/* An address that has all it may have gets no more by that. */
static void a_share_is_a_share(void)
{
    weft_http_server *server =
        SERVE(.handler = answer, .max_connections = MOST, .max_per_ip = MOST - 1, .acceptors = 1);
    struct client old[MOST - 1];
    be_idle(server, old, MOST - 1);
    struct client late = client_open(server);
    EXPECT(&late, 503, NULL);
    client_close(&late);
    for (int i = 0; i < MOST - 1; i++) {
        ask_hello(&old[i]);
        client_close(&old[i]);
    }
    CHECK_EQ(stats_of(server).evicted, 0);
    end(server);
}

/* ---- descriptors ---- */

static rlim_t limit_now(void)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

static int64_t most_with(weft_http_options options)
{
    weft_http_server *server;
    CHECK_EQ(weft_http_open(&server, &options), 0);
    int64_t most = server->connection_limit;
    weft_http_close(server);
    return most;
}

static void descriptors_are_counted(void)
{
    rlim_t before = limit_now();
    limit_descriptors(400);
    CHECK_EQ(most_with((weft_http_options){.keep_limit = 1}), 350); /* less an eighth */
    CHECK_EQ(most_with((weft_http_options){.keep_limit = 1, .descriptor_reserve = 100}), 300);
    CHECK_EQ(most_with((weft_http_options){.keep_limit = 1, .descriptor_reserve = 1000}), 1);
    CHECK_EQ(most_with((weft_http_options){.keep_limit = 1, .max_connections = 10}), 10);
    limit_descriptors(200);
    CHECK_EQ(most_with((weft_http_options){.keep_limit = 1}), 168); /* less 32 */
    CHECK_EQ(limit_now(), 200);
    limit_descriptors(before);
}

/* Places in the kernel's table of descriptors. */
static int64_t table_size(void)
{
    char line[256];
    long long size = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "FDSize: %lld", &size) == 1)
            break;
    CHECK(fclose(status) == 0);
    return size;
}

/* The table does not grow, and with it stop all, while connections come. */
static void the_table_has_room(void)
{
    int64_t most = most_with((weft_http_options){0});
    CHECK(table_size() >= (most < 65536 ? most : 65536));
}

static void the_limit_is_raised(void)
{
    struct rlimit limit;
    rlim_t before = limit_now();
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < 1000) {
        printf("the hard limit is too low: left out\n");
        return;
    }
    limit_descriptors(100);
    CHECK_EQ(most_with((weft_http_options){.max_connections = 500}), 500);
    CHECK(limit_now() >= 500 + 500 / 8 && limit_now() <= 1000); /* not by more than that takes */
    limit_descriptors(100);
    CHECK_EQ(most_with((weft_http_options){.max_connections = 500, .descriptor_reserve = 50}), 500);
    CHECK_EQ(limit_now(), 550);
    /* As far as it goes. */
    int64_t all = limit.rlim_max < 100000000 ? (int64_t)limit.rlim_max : 100000000;
    int64_t most = most_with((weft_http_options){.max_connections = 100000000});
    CHECK(most > all / 2 && most <= all);
    limit_descriptors(before);
}

int main(void)
{
    int before = open_descriptors();
    RUN(the_longest_idle_makes_room);
    RUN(silent_ones_make_room);
    RUN(every_acceptor_has_room);
    RUN(the_busy_stay);
    RUN(a_share_is_a_share);
    RUN(the_table_has_room);
    RUN(descriptors_are_counted);
    RUN(the_limit_is_raised);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    return 0;
}
