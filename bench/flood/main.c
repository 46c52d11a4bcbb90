/*
 * main.c: weft-flood: floods a server on this machine, in one way, and says what came of it. (flood.h)
 *
 *     weft-flood MODE --port N [--connections N] [--requests N] [--seconds N] [--rate N] [--path /hello]
 *
 * MODE is idle, burst, slowloris, header, reader (modes.c) or probe (probe.c). Only 127.0.0.1 is ever flooded. Lines
 * come to standard output, the last one `result` with words name=value. It ends by itself when the seconds are over,
 * or when its standard input ends.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "flood.h"

static const struct mode *const MODES[] = {&mode_idle,   &mode_burst,  &mode_slowloris,
                                           &mode_header, &mode_reader, &mode_probe};

static void usage(void)
{
    fputs("usage: weft-flood idle|burst|slowloris|header|reader|probe --port N [--connections N]\n"
          "                  [--requests N] [--seconds N] [--rate N] [--path /hello]\n",
          stderr);
    exit(2);
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
        default:
            usage();
        }
    if (flood->port < 1 || flood->port > 65535 || flood->connections < 1 || flood->seconds < 1 ||
        flood->connections > 1000000 || flood->path[0] != '/' || strlen(flood->path) > 100)
        usage();
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
    static struct flood flood = {
        .path = "/hello", .connections = 20, .requests = 1000, .seconds = 10, .rate = 40960};
    parse(&flood, argc, argv);
    flood.period = flood.mode == &mode_probe ? 1000 * 1000 : 100 * 1000 * 1000;
    raise_files();
    flood_run(&flood);
    return 0;
}
