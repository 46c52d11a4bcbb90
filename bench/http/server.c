/*
 * server.c: weft-http-bench: the server that bench/http and bench/flood measure.
 *
 *     weft-http-bench [--port N] [--workers N] [--queue N] [--connections N] [--header-timeout S]
 *                     [--idle-timeout S] [--folder NAME] [--certificate FILE --key FILE] [--stats]
 *     weft-http-bench --versions
 *
 * Uses weft/http.h only, like a user's program. GET /hello is a short text, POST /json returns the
 * body, POST /upload and POST /discard read it, GET /big is 1 GB, GET /sleep?ms=N answers after
 * that time, GET /echo can be upgraded to the protocol "echo", /files/ is the folder: the peers
 * have the same paths (bench/peers/go/http, the nginx of bench/http/servers.py). It listens on
 * 127.0.0.1: for plain HTTP, behind a PROXY header (which is not believed), and with a certificate
 * over TLS. It prints "port N proxy-port N tls-port N" when it does, and serves until SIGTERM or
 * SIGINT. --stats prints its counters on stderr at the end.
 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/http.h>
#include <weft/http_files.h>
#include <weft/http_router.h>
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

static void answer_upload(weft_http_request *request, weft_http_response *response)
{
    char part[4096];
    int64_t got;
    while ((got = weft_http_read(request, part, sizeof part)) > 0)
        continue;
    if (got == 0)
        answer_hello(response);
}

static void answer_big(weft_http_response *response)
{
    (void)weft_http_set(response, "Content-Type", "application/octet-stream");
    (void)weft_http_setf(response, "Content-Length", "%d", (int)BIG_SIZE);
    for (int sent = 0; sent < BIG_SIZE; sent += CHUNK)
        if (weft_http_write(response, NOTHING, CHUNK) != 0)
            return;
}

/* Another protocol: gives back what comes. */
static void answer_echo(weft_http_response *response)
{
    char data[4096];
    int64_t got = weft_http_upgrade(response, "echo");
    while (got >= 0 && (got = weft_http_stream_read(response, data, sizeof data, WEFT_NEVER)) > 0)
        got = weft_http_stream_write(response, data, (size_t)got, WEFT_NEVER);
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
    if (strcmp(path, "/hello") == 0)
        answer_hello(response);
    else if (strcmp(path, "/json") == 0)
        answer_json(request, response);
    else if (strcmp(path, "/big") == 0)
        answer_big(response);
    else if (strcmp(path, "/upload") == 0 || strcmp(path, "/discard") == 0)
        answer_upload(request, response);
    else if (strcmp(path, "/sleep") == 0)
        answer_sleep(request, response);
    else if (strcmp(path, "/echo") == 0)
        answer_echo(response);
    else if (data != NULL)
        weft_http_router_serve(request, response, data);
    else
        (void)weft_http_error(response, 404, NULL);
}

struct arguments {
    weft_http_options options;
    weft_http_tls tls;
    const char *folder;
    long port;
    int versions, stats;
};

static void usage(void)
{
    fputs("usage: weft-http-bench [--port N] [--workers N] [--queue N] [--connections N]\n"
          "                       [--header-timeout S] [--idle-timeout S] [--folder NAME]\n"
          "                       [--certificate FILE --key FILE] [--stats] | --versions\n",
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
        {"folder", required_argument, NULL, 'f'},
        {"certificate", required_argument, NULL, 'e'},
        {"key", required_argument, NULL, 'k'},
        {"stats", no_argument, NULL, 's'},
        {"versions", no_argument, NULL, 'v'},
        {0},
    };
    struct arguments arguments = {.options = {.handler = route, .trusted_proxies = "192.0.2.1"}};
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
        case 'f':
            arguments.folder = optarg;
            break;
        case 'e':
            arguments.tls.certificate = optarg;
            break;
        case 'k':
            arguments.tls.key = optarg;
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

static int port_of(weft_http_server *server, int number)
{
    weft_address address;
    int error = weft_http_local(server, number, &address);
    if (error != 0)
        fail("weft_http_local", error);
    return weft_address_port(&address);
}

static void say_ports(weft_http_server *server, bool tls)
{
    printf("port %d proxy-port %d", port_of(server, 0), port_of(server, 1));
    if (tls)
        printf(" tls-port %d", port_of(server, 2));
    putchar('\n');
    (void)fflush(stdout);
}

/* /files/ is the folder. */
static void serve_folder(struct arguments *arguments)
{
    weft_http_router *router = NULL;
    weft_http_files *files;
    int error = weft_http_files_open(&files, arguments->folder, NULL);
    if (error == 0)
        error = weft_http_router_open(&router);
    if (error == 0)
        error = weft_http_route(router, NULL, "/files/{path...}", weft_http_files_serve, files);
    if (error != 0)
        fail(arguments->folder, error);
    arguments->options.data = router;
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
    if (arguments.folder != NULL)
        serve_folder(&arguments);
    (void)snprintf(address, sizeof address, "tcp:127.0.0.1:%ld", arguments.port);
    error = weft_http_open(&server, &arguments.options);
    if (error != 0)
        fail("weft_http_open", error);
    error = weft_http_listen(server, address, NULL);
    if (error != 0)
        fail(address, error);
    error =
        weft_http_listen_with(server, "tcp:127.0.0.1:0", &(weft_http_listen_options){.proxy = 1});
    if (error != 0)
        fail("PROXY", error);
    if (arguments.tls.certificate != NULL)
        error = weft_http_listen_tls(server, "tcp:127.0.0.1:0", NULL, &arguments.tls);
    if (error != 0)
        fail(arguments.tls.certificate, error);
    say_ports(server, arguments.tls.certificate != NULL);
    sigwait(&ends, &signal);
    if (arguments.stats)
        say_stats(server);
    weft_http_close(server);
    return 0;
}
