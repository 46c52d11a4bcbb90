/*
 * serve.c: weft-serve: serves a folder over HTTP, or a page with live figures of the server.
 *
 *     weft-serve [options] [folder]
 *
 * Prints one line with the address when it is ready. SIGINT or SIGTERM stops it: requests in
 * progress have ten seconds to end. A second signal ends the process at once.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <weft/http_files.h>
#include <weft/http_router.h>
#include <weft/weft.h>

static const char usage[] =
    "usage: weft-serve [options] [folder]\n"
    "\n"
    "Serves the folder; without one, a page with live figures of the server itself.\n"
    "\n"
    "  -a, --address ADDRESS   where to listen (default tcp:127.0.0.1:8080; port 0: any)\n"
    "  -l, --list              show folders without index.html as a list\n"
    "  -c, --certificate FILE  TLS: the certificate (PEM)\n"
    "  -k, --key FILE          TLS: its key (PEM)\n"
    "  -w, --workers N         requests answered at a time (default 1000)\n"
    "  -n, --connections N     connections at a time (default 100000)\n"
    "  -i, --per-ip N          connections from one address (default: no limit)\n"
    "  -t, --trust NETWORKS    proxies that may say who their clients are: \"10.0.0.0/8, ::1, "
    "unix\"\n"
    "  -f, --forwarded FIELD   where they say it: x-forwarded-for or forwarded\n"
    "  -p, --proxy             connections begin with the PROXY protocol\n"
    "  -q, --quiet             no access log\n"
    "  -h, --help              this text\n";

struct settings {
    const char *address, *folder, *certificate, *key, *trust;
    int64_t workers, connections, per_ip;
    weft_http_forwarding forwarded;
    bool list, quiet, proxy;
};

/* The demo: figures of the server, sent to every open page, four times a second. */

static const char page[] =
    "<!doctype html><meta charset=utf-8><title>weft-serve</title>"
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:3em auto;padding:0 1em}"
    "td{padding:.1em 1.5em .1em 0}td+td{text-align:right;font-variant-numeric:tabular-nums}"
    "code{background:#eee;padding:.1em .3em}</style>"
    "<h1>weft-serve</h1><p>An HTTP server on a pool of fibers. Its figures, live:</p>"
    "<table id=figures></table>"
    "<p>To load it: <code>wrk -c 200 -d 10 <span id=here></span>hello</code>, or "
    "<code><span id=there></span>sleep?ms=50</code>. "
    "To serve a folder: <code>weft-serve folder</code>.</p>"
    "<script>here.textContent=there.textContent=location.href;"
    "new EventSource('figures').onmessage=e=>{figures.innerHTML=Object.entries(JSON.parse(e.data))"
    ".map(([k,v])=>`<tr><td>${k}<td>${v.toLocaleString()}`).join('')}</script>\n";

struct demo {
    weft_http_server *server;
};

static int64_t resident_kb(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return (int64_t)pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void show_page(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)request;
    (void)data;
    weft_http_reply(response, 200, "text/html; charset=utf-8", page, sizeof page - 1);
}

static void hello(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)request;
    (void)data;
    weft_http_reply(response, 200, "text/plain", "hello, world\n", 13);
}

static void nap(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)data;
    const char *text = weft_http_query_value(request, "ms");
    long milliseconds = text != NULL ? strtol(text, NULL, 10) : 10;
    if (milliseconds < 0 || milliseconds > 60000) {
        weft_http_error(response, 400, "ms is from 0 to 60000");
        return;
    }
    weft_sleep(milliseconds * WEFT_MS);
    weft_http_reply(response, 200, "text/plain", "good morning\n", 13);
}

static void show_figures(weft_http_request *request, weft_http_response *response, void *data)
{
    const struct demo *demo = data;
    char text[512];
    weft_http_stats stats;
    int64_t before = 0, last = weft_now();
    (void)request;
    if (weft_http_events(response) != 0)
        return;
    for (int error = 0; error == 0;) {
        if (weft_http_stats_get(demo->server, &stats) != 0)
            return;
        int64_t now = weft_now();
        double seconds = (double)(now - last) / (double)WEFT_S;
        snprintf(text, sizeof text,
                 "{\"requests\":%lld,\"requests a second\":%.0f,\"running\":%lld,\"queued\":%lld,"
                 "\"connections\":%lld,\"idle\":%lld,\"refused\":%lld,\"memory, KB\":%lld}",
                 (long long)stats.requests,
                 seconds > 0.1 ? (double)(stats.requests - before) / seconds : 0.0,
                 (long long)stats.running, (long long)stats.queued, (long long)stats.connections,
                 (long long)stats.idle, (long long)stats.refused, (long long)resident_kb());
        before = stats.requests;
        last = now;
        error = weft_http_event(response, NULL, text, NULL);
        if (error == 0) /* a stop of the server ends the sleep */
            error = weft_sleep(250 * WEFT_MS);
    }
}

static int add_demo(weft_http_router *router, struct demo *demo)
{
    int error = weft_http_route(router, "GET", "/", show_page, demo);
    if (error == 0)
        error = weft_http_route(router, "GET", "/figures", show_figures, demo);
    if (error == 0)
        error = weft_http_route(router, "GET", "/hello", hello, demo);
    if (error == 0)
        error = weft_http_route(router, "GET", "/sleep", nap, demo);
    return error;
}

/* A line for each request, on stdout. */
static void log_request(const weft_http_log_entry *entry, void *data)
{
    char line[2048];
    (void)data;
    int size = weft_http_log_line(entry, line, sizeof line);
    if (size > 0)
        fwrite(line, 1, (size_t)size, stdout);
}

/* The command line. */

/* The largest values that weft_http_options accepts. */
static int64_t most_of(int option)
{
    return option == 'w' ? 10000000 : 100000000;
}

static bool read_number(int option, int64_t *number)
{
    char *end;
    errno = 0;
    long long value = strtoll(optarg, &end, 10);
    if (errno != 0 || end == optarg || *end != '\0' || value < 1 || value > most_of(option))
        return false;
    *number = value;
    return true;
}

static bool read_field(weft_http_forwarding *forwarded)
{
    if (strcasecmp(optarg, "x-forwarded-for") == 0)
        *forwarded = WEFT_HTTP_X_FORWARDED_FOR;
    else if (strcasecmp(optarg, "forwarded") == 0)
        *forwarded = WEFT_HTTP_FORWARDED;
    else
        return false;
    return true;
}

static bool read_option(int option, struct settings *settings)
{
    switch (option) {
    case 'a':
        settings->address = optarg;
        return true;
    case 'c':
        settings->certificate = optarg;
        return true;
    case 'k':
        settings->key = optarg;
        return true;
    case 'l':
        settings->list = true;
        return true;
    case 'q':
        settings->quiet = true;
        return true;
    case 'p':
        settings->proxy = true;
        return true;
    case 't':
        settings->trust = optarg;
        return true;
    case 'f':
        return read_field(&settings->forwarded);
    case 'w':
        return read_number(option, &settings->workers);
    case 'n':
        return read_number(option, &settings->connections);
    case 'i':
        return read_number(option, &settings->per_ip);
    default:
        return false;
    }
}

/* The reason why options do not fit together; NULL if they do. */
static const char *slip_in(const struct settings *settings, int folders)
{
    if (folders > 1)
        return "one folder, please";
    if ((settings->certificate == NULL) != (settings->key == NULL))
        return "TLS needs a certificate and a key";
    if ((settings->proxy || settings->forwarded != WEFT_HTTP_FORWARDED_IGNORED) &&
        settings->trust == NULL)
        return "say with --trust whose word is to be believed";
    return NULL;
}

static void read_settings(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {
        {"address", required_argument, NULL, 'a'},
        {"list", no_argument, NULL, 'l'},
        {"certificate", required_argument, NULL, 'c'},
        {"key", required_argument, NULL, 'k'},
        {"workers", required_argument, NULL, 'w'},
        {"connections", required_argument, NULL, 'n'},
        {"per-ip", required_argument, NULL, 'i'},
        {"quiet", no_argument, NULL, 'q'},
        {"trust", required_argument, NULL, 't'},
        {"forwarded", required_argument, NULL, 'f'},
        {"proxy", no_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "a:lc:k:w:n:i:t:f:pqh", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (!read_option(option, settings)) {
            if (option == 'f')
                fprintf(stderr, "weft-serve: -f %s: x-forwarded-for or forwarded is meant\n",
                        optarg);
            else if (option != '?')
                fprintf(stderr, "weft-serve: -%c %s: a number from 1 to %lld is meant\n", option,
                        optarg, (long long)most_of(option));
            fputs(usage, stderr);
            exit(2);
        }
    }
    const char *wrong = slip_in(settings, argc - optind);
    if (wrong != NULL) {
        fprintf(stderr, "weft-serve: %s\n", wrong);
        exit(2);
    }
    settings->folder = argv[optind];
}

static int fail(const char *what, int error)
{
    fprintf(stderr, "weft-serve: %s: %s\n", what, weft_strerror(error));
    return 1;
}

/* The library has printed what is wrong with the certificate. */
static int fail_at(const struct settings *settings, int error)
{
    weft_address address;
    if (weft_address_parse(&address, settings->address) != -EINVAL)
        return fail(settings->address, error);
    fprintf(stderr,
            "weft-serve: %s: that is no address, such as tcp:127.0.0.1:8080 or unix:/run/my.sock\n",
            settings->address);
    return 1;
}

/* Prints the line with the address. */
static void announce(weft_http_server *server, const struct settings *settings)
{
    weft_address address;
    char text[WEFT_ADDRESS_TEXT];
    if (weft_http_local(server, 0, &address) != 0 ||
        weft_address_format(&address, text, sizeof text) != 0)
        return;
    const char *scheme = settings->certificate != NULL ? "https" : "http";
    const char *what = settings->folder != NULL ? settings->folder : "a demo";
    if (strncmp(text, "tcp:", 4) == 0)
        printf("weft-serve: %s at %s://%s/\n", what, scheme, text + 4);
    else
        printf("weft-serve: %s at %s\n", what, text);
    fflush(stdout);
}

static int serve(const struct settings *settings, weft_http_router *router, struct demo *demo)
{
    static const int ends[] = {SIGINT, SIGTERM};
    weft_http_server *server;
    weft_signal *stop;
    int number = 0;
    weft_http_options options = {.handler = weft_http_router_serve,
                                 .data = router,
                                 .max_workers = settings->workers,
                                 .max_connections = settings->connections,
                                 .max_per_ip = settings->per_ip,
                                 .trusted_proxies = settings->trust,
                                 .forwarded = settings->forwarded,
                                 .log = settings->quiet ? NULL : log_request};
    weft_http_tls tls = {.certificate = settings->certificate, .key = settings->key};
    int error = weft_signal_open(&stop, ends, 2, 1);
    if (error != 0)
        return fail("signals", error);
    error = weft_http_open(&server, &options);
    if (error == -EINVAL && settings->trust != NULL) /* all other values have been checked */
        return fail(settings->trust, error);
    if (error != 0)
        return fail("the server cannot start", error);
    demo->server = server;
    weft_http_listen_options how = {.tls = settings->certificate != NULL ? &tls : NULL,
                                    .proxy = settings->proxy};
    error = weft_http_listen_with(server, settings->address, &how);
    if (error != 0) {
        weft_http_close(server);
        return fail_at(settings, error);
    }
    announce(server, settings);
    (void)!weft_chan_receive(weft_signal_chan(stop), &number);
    weft_signal_close(stop); /* a second signal has its default effect again */
    error = weft_http_stop(
        server,
        weft_after(demo->server != NULL && settings->folder == NULL ? WEFT_S : 10 * WEFT_S));
    weft_http_close(server);
    if (error != 0 && settings->folder != NULL)
        fprintf(stderr, "weft-serve: some requests were cut off: %s\n", weft_strerror(error));
    return 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {.address = "tcp:127.0.0.1:8080"};
    struct demo demo = {0};
    weft_http_router *router;
    weft_http_files *files = NULL;
    read_settings(argc, argv, &settings);
    /* Line-buffered, also if the log goes to a file. */
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    int error = weft_http_router_open(&router);
    if (error != 0)
        return fail("no router", error);
    if (settings.folder != NULL) {
        weft_http_files_options options = {.list = settings.list};
        error = weft_http_files_open(&files, settings.folder, &options);
        if (error != 0)
            return fail(settings.folder, error);
        error = weft_http_route(router, NULL, "/{path...}", weft_http_files_serve, files);
    } else {
        error = add_demo(router, &demo);
    }
    if (error != 0)
        return fail("no routes", error);
    int result = serve(&settings, router, &demo);
    weft_http_router_close(router);
    weft_http_files_close(files);
    return result;
}
