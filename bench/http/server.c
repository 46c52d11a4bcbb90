/*
 * server.c: weft-http-bench: the server that bench/http and bench/flood measure; a user's program, by weft/http.h only.
 *
 *     weft-http-bench [--port N] [--workers N] [--queue N] [--connections N] [--header-timeout S] [--idle-timeout S]
 *                     [--tls FOLDER] [--stats]
 *     weft-http-bench --versions
 *
 * GET /hello is a short text, POST /json gives the body back, GET /big is 1 GB, GET /sleep?ms=N answers after that
 * time: the same paths as the peers have (bench/peers/go/http, the nginx of bench/http/servers.py). It listens on
 * 127.0.0.1, says "port N" when it does, and serves until SIGTERM or SIGINT. --stats: at the end it says on stderr what
 * it has counted. --tls: it speaks TLS, with cert.pem and key.pem of the folder.
 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/http.h>
#include <weft/weft.h>

enum { BIG_SIZE = 1 << 30, CHUNK = 65536 };

static const char HELLO[] = "hello, world\n";
static const char NOTHING[CHUNK];

static void answer_hello(weft_http_response *response)
{
    (void)weft_http_reply(response, 200, "text/plain", HELLO, sizeof HELLO - 1);
}

static void answer_json(weft_http_request *request, weft_http_response *response)
{
    char *body;
    size_t size;
    if (weft_http_read_all(request, &body, &size) == 0)
        (void)weft_http_reply(response, 200, "application/json", body, size);
}

static void answer_big(weft_http_response *response)
{
    (void)weft_http_set(response, "Content-Type", "application/octet-stream");
    (void)weft_http_setf(response, "Content-Length", "%d", (int)BIG_SIZE);
    for (int sent = 0; sent < BIG_SIZE; sent += CHUNK)
        if (weft_http_write(response, NOTHING, CHUNK) != 0)
            return;
}

static void answer_sleep(weft_http_request *request, weft_http_response *response)
{
    const char *milliseconds = weft_http_query_value(request, "ms");
    if (milliseconds != NULL)
        weft_sleep(strtol(milliseconds, NULL, 10) * WEFT_MS);
    answer_hello(response);
}

static void route(weft_http_request *request, weft_http_response *response, void *data)
{
    const char *path = weft_http_path(request);
    (void)data;
    if (strcmp(path, "/hello") == 0)
        answer_hello(response);
    else if (strcmp(path, "/json") == 0)
        answer_json(request, response);
    else if (strcmp(path, "/big") == 0)
        answer_big(response);
    else if (strcmp(path, "/sleep") == 0)
        answer_sleep(request, response);
    else
        (void)weft_http_error(response, 404, NULL);
}

struct arguments {
    weft_http_options options;
    const char *tls;
    long port;
    int versions, stats;
};

static void usage(void)
{
    fputs(
        "usage: weft-http-bench [--port N] [--workers N] [--queue N] [--connections N]\n"
        "                       [--header-timeout S] [--idle-timeout S] [--tls FOLDER] [--stats]\n"
        "       weft-http-bench --versions\n",
        stderr);
    exit(2);
}

static struct arguments parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"port", required_argument, NULL, 'p'},
        {"workers", required_argument, NULL, 'w'},
        {"queue", required_argument, NULL, 'q'},
        {"connections", required_argument, NULL, 'c'},
        {"header-timeout", required_argument, NULL, 'h'},
        {"idle-timeout", required_argument, NULL, 'i'},
        {"tls", required_argument, NULL, 't'},
        {"stats", no_argument, NULL, 's'},
        {"versions", no_argument, NULL, 'v'},
        {0},
    };
    struct arguments arguments = {.options = {.handler = route}};
    for (int found; (found = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        long number = optarg != NULL ? strtol(optarg, NULL, 10) : 0;
        switch (found) {
        case 'p':
            arguments.port = number;
            break;
        case 'w':
            arguments.options.max_workers = number;
            break;
        case 'q':
            arguments.options.queue = number;
            break;
        case 'c':
            arguments.options.max_connections = number;
            break;
        case 'h':
            arguments.options.header_timeout = number * WEFT_S;
            break;
        case 'i':
            arguments.options.idle_timeout = number * WEFT_S;
            break;
        case 't':
            arguments.tls = optarg;
            break;
        case 's':
            arguments.stats = 1;
            break;
        case 'v':
            arguments.versions = 1;
            break;
        default:
            usage();
        }
    }
    return arguments;
}

static void fail(const char *what, int error)
{
    fprintf(stderr, "weft-http-bench: %s: %s\n", what, strerror(-error));
    exit(1);
}

static int listen_at(weft_http_server *server, const char *address, const char *folder)
{
    char certificate[4096], key[4096];
    if (folder == NULL)
        return weft_http_listen(server, address, NULL);
    (void)snprintf(certificate, sizeof certificate, "%s/cert.pem", folder);
    (void)snprintf(key, sizeof key, "%s/key.pem", folder);
    return weft_http_listen_tls(server, address, NULL,
                                &(weft_http_tls){.certificate = certificate, .key = key});
}

static void say_port(weft_http_server *server)
{
    weft_address address;
    int error = weft_http_local(server, 0, &address);
    if (error != 0)
        fail("weft_http_local", error);
    printf("port %d\n", weft_address_port(&address));
    (void)fflush(stdout);
}

static void say_stats(weft_http_server *server)
{
    weft_http_stats stats;
    if (weft_http_stats_get(server, &stats) != 0)
        return;
    fprintf(stderr,
            "accepted=%lld requests=%lld refused=%lld bad=%lld timed_out=%lld accept_errors=%lld\n",
            (long long)stats.accepted, (long long)stats.requests, (long long)stats.refused,
            (long long)stats.bad, (long long)stats.timed_out, (long long)stats.accept_errors);
}

int main(int argc, char **argv)
{
    struct arguments arguments = parse(argc, argv);
    weft_http_server *server;
    char address[64];
    sigset_t ends;
    int signal, error;
    if (arguments.versions) {
        printf("weft %s\n", WEFT_VERSION);
        return 0;
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    (void)snprintf(address, sizeof address, "tcp:127.0.0.1:%ld", arguments.port);
    error = weft_http_open(&server, &arguments.options);
    if (error != 0)
        fail("weft_http_open", error);
    error = listen_at(server, address, arguments.tls);
    if (error != 0)
        fail(address, error);
    say_port(server);
    sigwait(&ends, &signal);
    if (arguments.stats)
        say_stats(server);
    weft_http_close(server);
    return 0;
}
