/*
 * dial.c: dialling a name with several addresses, some of which do not answer.
 *
 * The resolver is the test's: a name has the addresses in `answer`. The addresses of 127.0.0.0/8
 * all belong to this host, so one port has a listener at each. A silent listener has a full
 * backlog: the kernel drops further requests for connections.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>

#include "net.h"
#include "os/os.h"
#include "system.h"

/* The resolver. */

static const char *const *answer; /* ends with NULL */

static int answers(const char *host, const char *service, const struct addrinfo *hints,
                   struct addrinfo **list)
{
    struct addrinfo wanted = *hints;
    wanted.ai_flags |= AI_NUMERICHOST;
    *list = NULL;
    for (int i = 0; answer[i] != NULL; i++) {
        struct addrinfo **end = list;
        while (*end != NULL)
            end = &(*end)->ai_next;
        int error = getaddrinfo(answer[i], service, &wanted, end);
        if (error != 0)
            return error;
    }
    return 0;
}

/* Listeners. */

enum { SILENT_MOST = 16 };

struct place {
    int fd;
    int filling[SILENT_MOST]; /* -1: none */
};

static struct sockaddr_storage name_of(const char *host, int port, socklen_t *size)
{
    struct sockaddr_storage name = {0};
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)&name;
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&name;
    bool is_ipv6 = strchr(host, ':') != NULL;
    name.ss_family = is_ipv6 ? AF_INET6 : AF_INET;
    ipv4->sin_port = htons((uint16_t)port); /* at the same offset in both */
    CHECK_EQ(inet_pton(name.ss_family, host,
                       is_ipv6 ? (void *)&ipv6->sin6_addr : (void *)&ipv4->sin_addr),
             1);
    *size = is_ipv6 ? sizeof *ipv6 : sizeof *ipv4;
    return name;
}

/* Listens with a backlog of 0; false if the port is in use, or the host has no such address. */
static bool place_open(struct place *place, const char *host, int *port)
{
    socklen_t size;
    struct sockaddr_storage name = name_of(host, *port, &size);
    memset(place->filling, -1, sizeof place->filling);
    place->fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (place->fd < 0)
        return false;
    if (bind(place->fd, (struct sockaddr *)&name, size) != 0) {
        close(place->fd);
        return false;
    }
    CHECK_EQ(listen(place->fd, 0), 0);
    CHECK_EQ(getsockname(place->fd, (struct sockaddr *)&name, &size), 0);
    *port = ntohs(((struct sockaddr_in *)&name)->sin_port);
    return true;
}

/* Fills the backlog: over loopback a connect is decided when the call returns, unless the backlog
 * is full. */
static void place_silence(struct place *place, const char *host, int port)
{
    socklen_t size;
    struct sockaddr_storage name = name_of(host, port, &size), peer;
    for (int i = 0;; i++) {
        socklen_t peer_size = sizeof peer;
        CHECK(i < SILENT_MOST);
        place->filling[i] = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        CHECK(place->filling[i] >= 0);
        (void)!connect(place->filling[i], (struct sockaddr *)&name, size);
        if (getpeername(place->filling[i], (struct sockaddr *)&peer, &peer_size) != 0)
            return;
    }
}

static void place_close(struct place *place)
{
    for (int i = 0; i < SILENT_MOST; i++)
        if (place->filling[i] >= 0)
            close(place->filling[i]);
    close(place->fd);
}

/* Opens both at one port: the port, or -1. */
static int two_places(struct place *first, const char *one, struct place *second,
                      const char *another)
{
    for (int i = 0; i < 100; i++) {
        int port = 0;
        CHECK(place_open(first, one, &port));
        if (place_open(second, another, &port))
            return port;
        place_close(first);
    }
    return -1;
}

static void dial(weft_conn **conn, int port, int64_t deadline, int expected)
{
    char address[64];
    snprintf(address, sizeof address, "tcp:somewhere:%d", port);
    CHECK_EQ(weft_conn_dial(conn, address, NULL, deadline), expected);
}

static void check_peer(weft_conn *conn, const char *expected)
{
    weft_address peer;
    char text[WEFT_ADDRESS_TEXT];
    CHECK_EQ(weft_conn_peer(conn, &peer), 0);
    CHECK_EQ(weft_address_format(&peer, text, sizeof text), 0);
    CHECK_EQ(strncmp(text, expected, strlen(expected)), 0);
}

/* ---- tests ---- */

static const char *const two[] = {"127.0.0.1", "127.0.0.2", NULL};

static void reach_the_second(void *unused)
{
    struct place first, second;
    weft_conn *conn;
    int port = two_places(&first, two[0], &second, two[1]);
    place_silence(&first, two[0], port);
    answer = two;
    int before = open_descriptors();
    dial(&conn, port, WEFT_NEVER, 0);
    check_peer(conn, "tcp:127.0.0.2:");
    CHECK_EQ(open_descriptors(), before + 1); /* the other attempt is closed */
    weft_conn_close(conn);
    CHECK_EQ(open_descriptors(), before);
    place_close(&first);
    place_close(&second);
}

static void a_silent_address_does_not_hide_the_next(void)
{
    everywhere(reach_the_second);
}

static void reach_none(void *unused)
{
    struct place first, second;
    weft_conn *poison = (weft_conn *)(uintptr_t)0xdead, *conn = poison;
    int port = two_places(&first, two[0], &second, two[1]);
    place_silence(&first, two[0], port);
    place_silence(&second, two[1], port);
    answer = two;
    int before = open_descriptors();
    dial(&conn, port, WEFT_NOW, -ETIMEDOUT);
    dial(&conn, port, weft_after(WEFT_MS), -ETIMEDOUT);
    dial(&conn, port, weft_after(400 * WEFT_MS), -ETIMEDOUT); /* with both attempts in progress */
    CHECK_PTR(conn, poison);
    CHECK_EQ(open_descriptors(), before);
    place_close(&first);
    place_close(&second);
}

static void the_deadline_holds_for_all_of_them(void)
{
    everywhere(reach_none);
}

struct cancelled {
    int port;
    weft_context *context;
};

static void dial_cancelled(void *arg)
{
    const struct cancelled *own = arg;
    weft_conn *conn;
    CHECK_EQ(weft_context_bind(own->context, NULL), 0);
    dial(&conn, own->port, WEFT_NEVER, -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

/* Waits until the two attempts, and the set in which they are watched, have their descriptors. */
static void a_cancellation_ends_all_of_them(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct place first, second;
        struct cancelled own = {.port = two_places(&first, two[0], &second, two[1])};
        struct body body = {.function = dial_cancelled, .arg = &own, .thread = thread};
        place_silence(&first, two[0], own.port);
        place_silence(&second, two[1], own.port);
        CHECK_EQ(weft_context_open(&own.context, NULL, NULL), 0);
        answer = two;
        int before = open_descriptors();
        body_start(&body);
        while (open_descriptors() < before + 3)
            CHECK_EQ(weft_sleep(WEFT_MS), 0);
        weft_context_cancel(own.context);
        body_join(&body);
        CHECK_EQ(open_descriptors(), before);
        weft_context_close(own.context);
        place_close(&first);
        place_close(&second);
    }
}

struct late {
    int port;
    weft_conn *conn;
};

static void dial_late(void *arg)
{
    struct late *own = arg;
    dial(&own->conn, own->port, WEFT_NEVER, 0);
}

/* The first attempt goes on when the second begins. */
static void the_first_may_still_win(void)
{
    struct place first, second;
    struct late own = {.port = two_places(&first, two[0], &second, two[1])};
    struct body body = {.function = dial_late, .arg = &own};
    place_silence(&first, two[0], own.port);
    place_silence(&second, two[1], own.port);
    answer = two;
    int before = open_descriptors();
    body_start(&body);
    while (open_descriptors() < before + 3)
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
    /* Room for the next request of each attempt. */
    CHECK_EQ(listen(first.fd, 100), 0);
    body_join(&body);
    check_peer(own.conn, "tcp:127.0.0.1:");
    CHECK_EQ(open_descriptors(), before + 1);
    weft_conn_close(own.conn);
    place_close(&first);
    place_close(&second);
}

/* The families take turns: the second address of one comes after the first of the other. */
static void families_take_turns(void)
{
    static const char *const mixed[] = {"127.0.0.1", "127.0.0.2", "::1", NULL};
    struct place first, second, third;
    weft_conn *conn;
    int port = -1;
    for (int i = 0; i < 100 && port < 0; i++) {
        port = two_places(&first, mixed[0], &second, mixed[1]);
        if (!place_open(&third, mixed[2], &port)) {
            place_close(&first);
            place_close(&second);
            port = -1;
        }
    }
    if (port < 0) {
        printf("    no IPv6 here\n");
        return;
    }
    place_silence(&first, mixed[0], port);
    answer = mixed;
    dial(&conn, port, WEFT_NEVER, 0);
    check_peer(conn, "tcp:[::1]:");
    weft_conn_close(conn);
    place_close(&first);
    place_close(&second);
    place_close(&third);
}

/* A refused attempt is followed by the next at once; the error of the last attempt is returned. */
static void reach_behind_refused(void *unused)
{
    static const char *const three[] = {"127.0.0.3", "127.0.0.1", "127.0.0.2", NULL};
    struct place first, second;
    weft_conn *conn;
    int port = two_places(&first, two[0], &second, two[1]);
    place_silence(&first, two[0], port);
    int before = open_descriptors();
    answer = three;
    dial(&conn, port, WEFT_NEVER, 0);
    check_peer(conn, "tcp:127.0.0.2:");
    weft_conn_close(conn);
    place_close(&first);
    place_close(&second);
    dial(&conn, port, WEFT_NEVER, -ECONNREFUSED);
    CHECK(open_descriptors() < before);
}

static void refused_ones_are_passed_over(void)
{
    everywhere(reach_behind_refused);
}

/* From a fixed port only one attempt can be made at a time. */
static void a_fixed_port_tries_in_turn(void)
{
    static const char *const three[] = {"127.0.0.3", "127.0.0.4", "127.0.0.2", NULL};
    struct place first, second, probe;
    weft_conn *conn;
    char address[64], local[64];
    weft_address from;
    int port = two_places(&first, two[0], &second, two[1]);
    int free_port = port;
    do
        free_port = 1024 + (free_port + 7919) % 60000;
    while (!place_open(&probe, "127.0.0.9", &free_port));
    place_close(&probe);
    snprintf(address, sizeof address, "tcp:somewhere:%d", port);
    snprintf(local, sizeof local, "tcp:127.0.0.9:%d", free_port);
    place_silence(&first, two[0], port);
    answer = two;
    CHECK_EQ(weft_conn_dial(&conn, address, &(weft_net_options){.local = local},
                            weft_after(300 * WEFT_MS)),
             -ETIMEDOUT);
    answer = three;
    CHECK_EQ(weft_conn_dial(&conn, address, &(weft_net_options){.local = local}, WEFT_NEVER), 0);
    check_peer(conn, "tcp:127.0.0.2:");
    CHECK_EQ(weft_conn_local(conn, &from), 0);
    CHECK_EQ(weft_address_port(&from), free_port);
    weft_conn_close(conn);
    place_close(&first);
    place_close(&second);
}

/* Without a descriptor for the set, or for a second attempt, the dial goes on. */
static void dial_with_little(void *unused)
{
    struct place first, second;
    weft_conn *conn;
    int port = two_places(&first, two[0], &second, two[1]);
    place_silence(&first, two[0], port);
    answer = two;
    for (int spare = 1; spare <= 3; spare++) {
        int dummies[3];
        for (int i = 0; i < spare; i++)
            CHECK((dummies[i] = dup(0)) >= 0);
        rlim_t before = no_more_descriptors();
        for (int i = 0; i < spare; i++)
            close(dummies[i]);
        if (spare == 1)
            dial(&conn, port, weft_after(400 * WEFT_MS), -ETIMEDOUT);
        else
            dial(&conn, port, WEFT_NEVER, 0);
        set_limit(before);
        if (spare > 1)
            weft_conn_close(conn);
        /* Makes room in the backlog again. */
        int accepted = spare > 1 ? accept(second.fd, NULL, NULL) : -1;
        if (accepted >= 0)
            close(accepted);
    }
    place_close(&first);
    place_close(&second);
}

static void few_descriptors_are_enough(void)
{
    everywhere(dial_with_little);
}

/* Starts the runtime and the thread that looks names up, which stay. */
static void warm_up(void *unused)
{
    weft_conn *conn;
    struct place place;
    int port = 0;
    CHECK(place_open(&place, two[0], &port));
    answer = two;
    dial(&conn, port, WEFT_NEVER, 0);
    weft_conn_close(conn);
    place_close(&place);
}

static void begin(void)
{
    weft__os_getaddrinfo_by(answers);
    everywhere(warm_up);
}

int main(void)
{
    begin();
    RUN_PLAIN(a_silent_address_does_not_hide_the_next, "waits for what the kernel does");
    RUN_PLAIN(the_deadline_holds_for_all_of_them, "waits for what the kernel does");
    RUN_PLAIN(a_cancellation_ends_all_of_them, "waits for what the kernel does");
    RUN_PLAIN(the_first_may_still_win, "waits for what the kernel does");
    RUN_PLAIN(families_take_turns, "waits for what the kernel does");
    RUN_PLAIN(refused_ones_are_passed_over, "waits for what the kernel does");
    RUN_PLAIN(a_fixed_port_tries_in_turn, "waits for what the kernel does");
    RUN_PLAIN(few_descriptors_are_enough, "waits for what the kernel does");
    weft__os_getaddrinfo_by(NULL);
    return 0;
}
