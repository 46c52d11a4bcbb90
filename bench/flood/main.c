/*
 * main.c: weft-flood: floods a server on this machine in one mode and reports the result (flood.h).
 *
 *     weft-flood MODE --port N [--connections N] [--requests N] [--seconds N] [--rate N]
 *                [--path /hello] [--first FILE] [--piece FILE] [--pause MS] [--unread] [--bodiless]
 *                [--half] [--most BYTES] [--then WHAT]
 *
 * MODE is idle, burst, hold, stream, reset, touch, reader (modes.c), tls (tls.c) or probe
 * (probe.c). --first: the bytes that are sent first (default: a GET of the path), --piece: those
 * that follow repeatedly. --unread: answers are not read. --bodiless: answers have no body (HEAD).
 * --half: a client ends its side after the first bytes. --most: so many bytes of pieces, then the
 * connection stays as it is. Only 127.0.0.1 is ever flooded. Output is a line per event, the last
 * one `result` with words name=value. The program ends after the given seconds, or when its
 * standard input ends.
 */
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "flood.h"

static const struct mode *const MODES[] = {
    &mode_idle,  &mode_burst,  &mode_hold, &mode_stream, &mode_reset,
    &mode_touch, &mode_reader, &mode_tls,  &mode_probe,
};

static void usage(void)
{
    fputs("usage: weft-flood idle|burst|hold|stream|reset|touch|reader|tls|probe --port N\n"
          "                  [--connections N] [--requests N] [--seconds N] [--rate N] [--path "
          "/hello]\n"
          "                  [--first FILE] [--piece FILE] [--pause MS] [--unread] [--bodiless]\n"
          "                  [--half] [--most BYTES] [--then end|update|renegotiate|hold|drip]\n",
          stderr);
    exit(2);
}

static struct bytes read_file(const char *name)
{
    enum { MOST = 1 << 20 };
    struct bytes bytes = {malloc(MOST), 0};
    FILE *file = fopen(name, "rb");
    if (file == NULL || bytes.data == NULL) {
        perror(name);
        exit(1);
    }
    bytes.size = (long)fread(bytes.data, 1, MOST, file);
    (void)fclose(file);
    return bytes;
}

static struct bytes get(const char *path)
{
    enum { MOST = 256 };
    struct bytes bytes = {malloc(MOST), 0};
    if (bytes.data == NULL)
        exit(1);
    bytes.size = snprintf(bytes.data, MOST, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
    return bytes;
}

static const struct mode *find_mode(const char *name)
{
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++)
        if (strcmp(name, MODES[i]->name) == 0)
            return MODES[i];
    usage();
    return NULL;
}

static void parse(struct flood *flood, int argc, char **argv)
{
    static const struct option known[] = {
        {"port", required_argument, NULL, 'p'},
        {"connections", required_argument, NULL, 'c'},
        {"requests", required_argument, NULL, 'n'},
        {"seconds", required_argument, NULL, 's'},
        {"rate", required_argument, NULL, 'r'},
        {"path", required_argument, NULL, 'a'},
        {"first", required_argument, NULL, 'f'},
        {"piece", required_argument, NULL, 'i'},
        {"pause", required_argument, NULL, 'u'},
        {"unread", no_argument, NULL, 'd'},
        {"most", required_argument, NULL, 'm'},
        {"half", no_argument, NULL, 'h'},
        {"bodiless", no_argument, NULL, 'b'},
        {"then", required_argument, NULL, 't'},
        {0},
    };
    if (argc < 2)
        usage();
    flood->mode = find_mode(argv[1]);
    for (int found; (found = getopt_long(argc - 1, argv + 1, "", known, NULL)) != -1;)
        switch (found) {
        case 'p':
            flood->port = strtol(optarg, NULL, 10);
            break;
        case 'c':
            flood->connections = strtol(optarg, NULL, 10);
            break;
        case 'n':
            flood->requests = strtol(optarg, NULL, 10);
            break;
        case 's':
            flood->seconds = strtol(optarg, NULL, 10);
            break;
        case 'r':
            flood->rate = strtol(optarg, NULL, 10);
            break;
        case 'a':
            flood->path = optarg;
            break;
        case 'f':
            flood->first = read_file(optarg);
            break;
        case 'i':
            flood->piece = read_file(optarg);
            break;
        case 'u':
            flood->pause = strtol(optarg, NULL, 10);
            break;
        case 'd':
            flood->unread = true;
            break;
        case 'm':
            flood->most = strtol(optarg, NULL, 10);
            break;
        case 'h':
            flood->half = true;
            break;
        case 'b':
            flood->bodiless = true;
            break;
        case 't':
            flood->then = optarg;
            break;
        default:
            usage();
        }
    if (flood->port < 1 || flood->port > 65535 || flood->connections < 1 || flood->seconds < 1 ||
        flood->connections > 1000000 || flood->path[0] != '/' || strlen(flood->path) > 100 ||
        flood->pause < 1)
        usage();
    if (flood->first.data == NULL)
        flood->first = get(flood->path);
}

static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

int main(int argc, char **argv)
{
    static struct flood flood = {.path = "/hello",
                                 .connections = 20,
                                 .requests = 1000,
                                 .seconds = 10,
                                 .rate = 40960,
                                 .pause = 1000,
                                 .most = LONG_MAX,
                                 .then = "end"};
    (void)signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
    parse(&flood, argc, argv);
    flood.period = flood.mode == &mode_probe ? 1000 * 1000 : 100 * 1000 * 1000;
    raise_files();
    flood_run(&flood);
    return 0;
}
