/*
 * files.c: a folder behind a password, over TLS if a certificate is given.
 *
 *     files folder [address [certificate.pem key.pem]]
 *
 * Shows an access log, limits, and how to start and stop a server step by step. The password is in
 * the environment: USER_PASSWORD=name:password in base64, as a browser sends it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/http_files.h>
#include <weft/http_router.h>
#include <weft/weft.h>

/* Compares in constant time, so that the duration reveals nothing about the password. */
static int same(const char *a, const char *b)
{
    size_t size = strlen(a);
    unsigned char difference = strlen(b) != size;
    for (size_t i = 0; i < size && !difference; i++)
        difference |= (unsigned char)(a[i] ^ b[i]);
    return !difference;
}

static void guard(weft_http_request *request, weft_http_response *response, weft_http_next *next,
                  void *password)
{
    const char *given = weft_http_header(request, "Authorization");
    if (given != NULL && strncmp(given, "Basic ", 6) == 0 && same(given + 6, password)) {
        weft_http_call(next, request, response);
        return;
    }
    weft_http_set(response, "WWW-Authenticate", "Basic realm=\"files\"");
    weft_http_error(response, 401, NULL);
}

static void log_request(const weft_http_log_entry *entry, void *data)
{
    char line[1024];
    (void)data;
    if (weft_http_log_line(entry, line, sizeof line) > 0)
        fputs(line, stderr);
}

static int listen_at(weft_http_server *server, int argc, char **argv)
{
    const char *address = argc > 2 ? argv[2] : "tcp:127.0.0.1:8080";
    weft_http_tls tls = {.certificate = argc > 3 ? argv[3] : NULL,
                         .key = argc > 4 ? argv[4] : NULL};
    weft_address local;
    char text[WEFT_ADDRESS_TEXT];
    int error = argc > 4 ? weft_http_listen_tls(server, address, NULL, &tls)
                         : weft_http_listen(server, address, NULL);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", address, weft_strerror(error));
        return error;
    }
    if (weft_http_local(server, 0, &local) == 0 &&
        weft_address_format(&local, text, sizeof text) == 0) {
        printf("listening at %s\n", text);
        fflush(stdout);
    }
    return 0;
}

static int serve(int argc, char **argv, weft_http_router *router)
{
    static const int ends[] = {SIGINT, SIGTERM};
    weft_http_options options = {
        .handler = weft_http_router_serve,
        .data = router,
        .max_workers = 200,
        .queue = 100,
        .max_connections = 10000,
        .max_per_ip = 100,
        .log = log_request,
    };
    weft_http_server *server;
    weft_signal *end;
    int number, error = weft_signal_open(&end, ends, 2, 1);
    if (error != 0)
        return error;
    error = weft_http_open(&server, &options);
    if (error == 0) {
        error = listen_at(server, argc, argv);
        if (error == 0)
            error = weft_chan_receive(weft_signal_chan(end), &number);
        if (error == 0)
            error = weft_http_stop(server, weft_after(10 * WEFT_S)); /* lets downloads end */
        weft_http_close(server);
    }
    weft_signal_close(end);
    return error;
}

int main(int argc, char **argv)
{
    char *password = getenv("USER_PASSWORD");
    weft_http_router *router = NULL;
    weft_http_files *files;
    weft_http_files_options options = {.list = 1, .cache_control = "no-cache"};
    if (argc < 2 || argc == 4 || argc > 5 || password == NULL) { /* a certificate needs a key */
        fprintf(stderr, "usage: USER_PASSWORD=... files folder [address [certificate key]]\n");
        return 2;
    }
    int error = weft_http_files_open(&files, argv[1], &options);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", argv[1], weft_strerror(error));
        return 1;
    }
    error = weft_http_router_open(&router);
    if (error == 0)
        error = weft_http_use(router, guard, password);
    if (error == 0)
        error = weft_http_route(router, "GET", "/{path...}", weft_http_files_serve, files);
    if (error == 0)
        error = serve(argc, argv, router);
    weft_http_router_close(router);
    weft_http_files_close(files);
    return error != 0;
}
