/*
 * behind_proxy.c: a server behind proxies: its handlers, its log and its limits see the client that
 * the PROXY protocol, X-Forwarded-For or Forwarded names; other peers are not believed.
 */
#include <weft/sem.h>

#include "http.h"
#include "http/server.h"
#include "system.h"

#define V2 "\r\n\r\n\0\r\nQUIT\n"
#define V1 "PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n"

static weft_sem entered = WEFT_SEM_INIT(0), gate = WEFT_SEM_INIT(0);

/* "client peer-is-loopback", or, at /wait, when the gate opens. */
HANDLER(say_who)
{
    weft_address client, peer;
    char text[WEFT_ADDRESS_TEXT] = "none", other[WEFT_ADDRESS_TEXT] = "none";
    weft_http_client(request, &client);
    weft_http_peer(request, &peer);
    if (client.size != 0)
        CHECK_EQ(weft_address_format(&client, text, sizeof text), 0);
    if (peer.size != 0)
        CHECK_EQ(weft_address_format(&peer, other, sizeof other), 0);
    CHECK(strncmp(other, "tcp:127.0.0.", 12) == 0 || strcmp(other, "none") == 0);
    if (strcmp(weft_http_path(request), "/wait") == 0) {
        weft_sem_release(&entered, 1);
        weft_sem_acquire(&gate, 1);
    }
    if (strcmp(weft_http_path(request), "/read") == 0) {
        char *body;
        size_t size;
        if (weft_http_read_all(request, &body, &size) != 0)
            return;
    }
    (void)weft_http_puts(response, strcmp(text, other) == 0 ? "the peer" : text);
}

/* ---- the log: host, method and status of each line ---- */

static char logged[64][200];
static int logged_count;

static void log_it(const weft_http_log_entry *entry, void *data)
{
    (void)data;
    int number = __atomic_load_n(&logged_count, __ATOMIC_RELAXED);
    CHECK(weft_http_log_line(entry, logged[number], sizeof logged[0]) > 0);
    char host[100];
    snprintf(host, sizeof host, "%.*s", (int)strcspn(logged[number], " "), logged[number]);
    snprintf(logged[number], sizeof logged[0], "%s %s %d", host, entry->method, entry->status);
    __atomic_store_n(&logged_count, number + 1, __ATOMIC_RELEASE);
}

static void expect_line(int number, const char *line)
{
    AWAIT(__atomic_load_n(&logged_count, __ATOMIC_ACQUIRE) > number);
    CHECK_STR(logged[number], line);
}

/* ---- servers ---- */

static weft_http_server *serve_behind(weft_http_options options, int proxy)
{
    weft_http_server *server;
    weft_http_listen_options how = {.proxy = proxy};
    options.handler = say_who;
    options.log = log_it;
    options.acceptors = 1;
    logged_count = 0;
    CHECK_EQ(weft_http_open(&server, &options), 0);
    CHECK_EQ(weft_http_listen_with(server, "tcp:127.0.0.1:0", &how), 0);
    return server;
}

static void expect_client(weft_http_server *server, const char *from, const char *field,
                          const char *client)
{
    char request[300];
    struct client asking = client_of(dial_from(from, port_of(server, 0)));
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\n" HOST "%s\r\n\r\n", field);
    ASK(&asking, request, 200, client);
    client_close(&asking);
}

#define SERVE_BEHIND(proxy, ...) serve_behind((weft_http_options){__VA_ARGS__}, proxy)

/* ---- fields ---- */

static void fields_of_trusted_proxies_are_believed(void)
{
    weft_http_server *server = SERVE_BEHIND(0, .trusted_proxies = "127.0.0.2, 10.0.0.0/8",
                                            .forwarded = WEFT_HTTP_X_FORWARDED_FOR);
    expect_client(server, "127.0.0.2", "X-Forwarded-For: 1.1.1.1, 192.0.2.1, 10.1.1.1",
                  "tcp:192.0.2.1:0");
    expect_line(0, "192.0.2.1 GET 200");
    expect_client(server, "127.0.0.2", "X-Forwarded-For: 2001:db8::1", "tcp:[2001:db8::1]:0");
    expect_line(1, "2001:db8::1 GET 200");
    /* The other field is not the one that was chosen. */
    expect_client(server, "127.0.0.2", "Forwarded: for=192.0.2.1", "the peer");
    expect_line(2, "127.0.0.2 GET 200");
    expect_client(server, "127.0.0.2", "X-Forwarded-For: unknown", "the peer");
    /* Not by a stranger. */
    expect_client(server, "127.0.0.1", "X-Forwarded-For: 192.0.2.1", "the peer");
    expect_line(4, "127.0.0.1 GET 200");
    end(server);

    server = SERVE_BEHIND(0, .trusted_proxies = "127.0.0.0/8", .forwarded = WEFT_HTTP_FORWARDED);
    expect_client(server, NULL, "Forwarded: for=\"[2001:db8::1]:9\";proto=https",
                  "tcp:[2001:db8::1]:9");
    expect_client(server, NULL, "X-Forwarded-For: 192.0.2.1", "the peer");
    end(server);

    /* Trusted, but no field was chosen. */
    server = SERVE_BEHIND(0, .trusted_proxies = "127.0.0.0/8");
    expect_client(server, NULL, "X-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.1",
                  "the peer");
    end(server);
}

/* One connection of a proxy has requests of many clients, whatever the one before was. */
static void each_request_has_its_client(void)
{
    weft_http_server *server =
        SERVE_BEHIND(0, .trusted_proxies = "127.0.0.0/8", .forwarded = WEFT_HTTP_X_FORWARDED_FOR);
    struct client proxy = client_open(server);
    ASK(&proxy,
        "GET /a HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n\r\n"
        "GET /b HTTP/1.1\r\n" HOST "\r\n"
        "GET /c HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.3\r\n\r\n",
        200, "tcp:192.0.2.1:0");
    EXPECT(&proxy, 200, "the peer");
    EXPECT(&proxy, 200, "tcp:192.0.2.3:0");
    /* The field of a head that cannot be read is not believed: the proxy's part may not have
     * come. */
    ASK(&proxy, "GET /d HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.4\r\nno field\r\n\r\n", 400,
        NULL);
    expect_line(3, "127.0.0.1 GET 400");
    client_close(&proxy);
    /* One that was read whole is the client's, if it is refused for its path. */
    proxy = client_open(server);
    ASK(&proxy, "GET /../x HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.5\r\n\r\n", 400, NULL);
    expect_line(4, "192.0.2.5 GET 400");
    close_and_end(&proxy, server);
}

static void unix_sockets_are_trusted_by_name(void)
{
    char folder[] = "/tmp/weft-behind-XXXXXX", path[64], address[80];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/s", folder);
    snprintf(address, sizeof address, "unix:%s", path);
    for (int trusted = 0; trusted < 2; trusted++) {
        weft_http_server *server =
            SERVE_BEHIND(0, .trusted_proxies = trusted ? "unix" : "0.0.0.0/0 ::/0",
                         .forwarded = WEFT_HTTP_X_FORWARDED_FOR);
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        memcpy(to.sun_path, path, strlen(path) + 1);
        CHECK_EQ(weft_http_listen(server, address, NULL), 0);
        struct client proxy = client_of(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        CHECK_EQ(connect(proxy.fd, (struct sockaddr *)&to, sizeof to), 0);
        ASK(&proxy, "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n\r\n", 200,
            trusted ? "tcp:192.0.2.1:0" : "the peer");
        close_and_end(&proxy, server);
    }
    CHECK_EQ(rmdir(folder), 0);
}

/* Requests that a proxy passes on are counted by the client's address, and the proxy is not. */
static void the_limit_is_the_clients(void)
{
    weft_http_server *server =
        SERVE_BEHIND(0, .trusted_proxies = "127.0.0.0/8", .max_requests_per_ip = 1,
                     .forwarded = WEFT_HTTP_X_FORWARDED_FOR);
    struct client first = client_open(server), second = client_open(server);
    client_send(&first, "GET /wait HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n\r\n");
    weft_sem_acquire(&entered, 1);
    client_send(&second, "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n\r\n");
    CHECK_ANSWER(client_answer(&second), 429, NULL, {"Retry-After", "1"});
    expect_line(0, "192.0.2.1 GET 429");
    /* Others come through, over the same connection; also the proxy itself. */
    ASK(&second, "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.2\r\n\r\n", 200,
        "tcp:192.0.2.2:0");
    ASK(&second, GET("/"), 200, "the peer");
    CHECK_EQ(stats_of(server).refused, 1);
    /* Behind another request of its connection it is refused by the worker. */
    client_send(&second, "GET /wait HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.3\r\n\r\n"
                         "POST /read HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n"
                         "Content-Length: 3\r\n\r\nabc"
                         "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.4\r\n\r\n");
    weft_sem_acquire(&entered, 1);
    weft_sem_release(&gate, 1); /* one of the two: the first waits for longer */
    EXPECT(&first, 200, "tcp:192.0.2.1:0");
    AWAIT(stats_of(server).idle == 1); /* it is not counted any more */
    client_send(&first, "GET /wait HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n\r\n");
    weft_sem_acquire(&entered, 1);
    weft_sem_release(&gate, 1);
    EXPECT(&second, 200, "tcp:192.0.2.3:0");
    EXPECT(&second, 429, NULL);
    EXPECT(&second, 200, "tcp:192.0.2.4:0");
    CHECK_EQ(stats_of(server).refused, 2);
    weft_sem_release(&gate, 1);
    EXPECT(&first, 200, "tcp:192.0.2.1:0");
    client_close(&first);
    close_and_end(&second, server);
}

/* Where all workers are busy the refusal does not wait for one. */
static void the_limit_costs_no_worker(void)
{
    weft_http_server *server =
        SERVE_BEHIND(0, .trusted_proxies = "127.0.0.0/8", .max_requests_per_ip = 1,
                     .max_workers = 1, .forwarded = WEFT_HTTP_X_FORWARDED_FOR);
    struct client first = client_open(server), second = client_open(server);
    client_send(&first, "GET /wait HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n\r\n");
    weft_sem_acquire(&entered, 1);
    ASK(&second, "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n\r\n", 429, NULL);
    weft_sem_release(&gate, 1);
    EXPECT(&first, 200, "tcp:192.0.2.1:0");
    client_close(&first);
    close_and_end(&second, server);
}

/* ---- PROXY ---- */

/* Sends a header and a request, in pieces of that size. Returns the answer. */
static void expect_proxied(weft_http_server *server, const char *header, size_t size, size_t piece,
                           const char *client)
{
    struct client proxy = client_open(server);
    for (size_t at = 0; at < size; at += piece)
        client_send_bytes(&proxy, header + at, size - at < piece ? size - at : piece);
    ASK(&proxy, GET("/"), 200, client);
    client_send(&proxy, GET("/")); /* it is the connection's */
    EXPECT(&proxy, 200, client);
    client_close(&proxy);
}

#define PROXIED(header, client)                                          \
    do {                                                                 \
        expect_proxied(server, header, sizeof header - 1, 5000, client); \
        expect_proxied(server, header, sizeof header - 1, 1, client);    \
    } while (0)

static const weft_http_options local_proxy = {.trusted_proxies = "127.0.0.0/8"};

static void proxy_headers_are_believed(void)
{
    weft_http_server *server = serve_behind(local_proxy, 1);
    PROXIED(V1, "tcp:192.0.2.1:40000");
    expect_line(0, "192.0.2.1 GET 200");
    PROXIED("PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n", "tcp:[2001:db8::1]:1");
    PROXIED("PROXY UNKNOWN\r\n", "the peer");
    PROXIED(V2 "\x21\x11\0\14\300\0\2\1\306\63\144\1\234\100\1\273", "tcp:192.0.2.1:40000");
    PROXIED(V2 "\x21\x11\0\20\300\0\2\1\306\63\144\1\234\100\1\273\4\0\1x", "tcp:192.0.2.1:40000");
    PROXIED(V2 "\x20\0\0\0", "the peer");
    PROXIED(V2 "\x21\0\0\2xx", "the peer");
    CHECK_EQ(stats_of(server).bad, 0);
    end(server);
}

/* A stranger's header is read, since all send one here, and is not believed. */
static void strangers_are_not_believed(void)
{
    weft_http_server *server =
        SERVE_BEHIND(1, .trusted_proxies = "10.0.0.0/8", .forwarded = WEFT_HTTP_X_FORWARDED_FOR);
    PROXIED(V1, "the peer");
    expect_line(0, "127.0.0.1 GET 200");
    /* Nor one that names itself a proxy. */
    struct client liar = client_open(server);
    ASK(&liar,
        "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"
        "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n\r\n",
        200, "the peer");
    close_and_end(&liar, server);
}

/* A proxy of connections in front of one of requests; and a client it knows nothing of. */
static void both_may_stand_in_a_row(void)
{
    static const struct {
        const char *header, *client;
    } rows[] = {
        {"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", "tcp:192.0.2.9:0"},
        {"PROXY TCP4 192.0.2.1 10.0.0.2 1 2\r\n", "tcp:192.0.2.1:1"},
        {"PROXY UNKNOWN\r\n", "the peer"},
    };
    weft_http_server *server = SERVE_BEHIND(1, .trusted_proxies = "127.0.0.1 10.0.0.0/8",
                                            .forwarded = WEFT_HTTP_X_FORWARDED_FOR);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct client proxy = client_asks(server, rows[i].header);
        ASK(&proxy, "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.9\r\n\r\n", 200,
            rows[i].client);
        client_close(&proxy);
    }
    end(server);
}

static void without_a_header_there_is_no_answer(void)
{
    static const struct {
        const char *bytes;
        size_t size;
        bool end;
    } rows[] = {
        {GET("/"), sizeof GET("/") - 1, false},
        {"\x16\x03\x01", 3, false}, /* TLS */
        {"PROXY TCP4 nonsense\r\n" GET("/"), sizeof "PROXY TCP4 nonsense\r\n" GET("/") - 1, false},
        {V2 "\x21\x11\xff\xff", 16, false},
        {"PROXY TCP4 192", 14, true}, /* and nothing more */
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    weft_http_server *server = serve_behind(local_proxy, 1);
    for (int i = 0; i < ROWS; i++) {
        struct client client = client_open(server);
        client_send_bytes(&client, rows[i].bytes, rows[i].size);
        if (rows[i].end)
            client_half_close(&client);
        CHECK(client_at_end(&client));
        expect_line(i, "127.0.0.1 PROXY 400");
        client_close(&client);
    }
    CHECK_EQ(stats_of(server).bad, ROWS);
    /* One that asks nothing at all, as a check of the port does, is no line worth. */
    struct client client = client_open(server);
    client_half_close(&client);
    client_end(&client);
    CHECK_EQ(logged_count, ROWS);
    end(server);
}

static void a_header_has_a_deadline(void)
{
    weft_http_options options = local_proxy;
    options.header_timeout = 200 * WEFT_MS;
    weft_http_server *server = serve_behind(options, 1);
    struct client client = client_asks(server, "PROXY ");
    CHECK(client_at_end(&client));
    expect_line(0, "127.0.0.1 PROXY 408");
    CHECK_EQ(stats_of(server).timed_out, 1);
    close_and_end(&client, server);
}

/* Connections are counted for the client that PROXY names; those of the proxy are not. */
static void the_limit_of_connections_is_the_clients(void)
{
    weft_http_options options = local_proxy;
    options.max_per_ip = 2;
    weft_http_server *server = serve_behind(options, 1);
    struct client kept[3];
    for (int i = 0; i < 3; i++) {
        kept[i] = client_open(server);
        client_send(&kept[i], i < 2 ? V1 : "PROXY TCP4 192.0.2.2 198.51.100.1 1 2\r\n");
        ASK(&kept[i], GET("/"), 200, NULL);
    }
    for (int i = 0; i < 2; i++) { /* the place that was not given is not given back */
        struct client late = client_open(server);
        ASK(&late, V1, 503, NULL);
        client_end(&late);
    }
    CHECK_EQ(stats_of(server).refused, 2);
    client_close(&kept[0]);
    AWAIT(stats_of(server).connections == 2);
    kept[0] = client_open(server);
    client_send(&kept[0], V1);
    ASK(&kept[0], GET("/"), 200, "tcp:192.0.2.1:40000");
    for (int i = 0; i < 3; i++)
        client_close(&kept[i]);
    end(server);
}

/* ---- options ---- */

static void options_are_checked(void)
{
    static const weft_http_options wrong[] = {
        {.trusted_proxies = ""},
        {.trusted_proxies = "10.0.0.1/8"},
        {.forwarded = WEFT_HTTP_FORWARDED},
        {.trusted_proxies = "unix", .forwarded = (weft_http_forwarding)3},
        {.trusted_proxies = "unix", .forwarded = (weft_http_forwarding)-1},
    };
    weft_http_server *server;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(weft_http_open(&server, &wrong[i]), -EINVAL);
    CHECK_EQ(weft_http_open(&server, NULL), 0);
    weft_http_listen_options how = {.proxy = 1};
    CHECK_EQ(weft_http_listen_with(server, "tcp:127.0.0.1:0", &how), -EINVAL);
    how = (weft_http_listen_options){.reserved = {0, 0, 0, 1}};
    CHECK_EQ(weft_http_listen_with(server, "tcp:127.0.0.1:0", &how), -EINVAL);
    CHECK_EQ(weft_http_listen_with(NULL, "tcp:127.0.0.1:0", NULL), -EINVAL);
    CHECK_EQ(weft_http_listen_with(server, "tcp:127.0.0.1:0", NULL), 0);
    weft_http_close(server);
    weft_address address = {.size = 1};
    weft_http_client(NULL, &address);
    CHECK_EQ(address.size, 1);
}

int main(void)
{
    CHECK_EQ(weft_go((void (*)(void *))(uintptr_t)weft_yield, NULL), 0);
    int before = open_descriptors();
    RUN(fields_of_trusted_proxies_are_believed);
    RUN(each_request_has_its_client);
    RUN(unix_sockets_are_trusted_by_name);
    RUN(the_limit_is_the_clients);
    RUN(the_limit_costs_no_worker);
    RUN(proxy_headers_are_believed);
    RUN(strangers_are_not_believed);
    RUN(both_may_stand_in_a_row);
    RUN(without_a_header_there_is_no_answer);
    RUN(a_header_has_a_deadline);
    RUN(the_limit_of_connections_is_the_clients);
    RUN(options_are_checked);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
