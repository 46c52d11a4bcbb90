/*
 * main.c: weft-bench: options, and the choice of cases. run.c measures a case, report.c prints it.
 *
 * Each case measures weft alone; the programs in bench/peers measure other systems. All of them
 * understand --list, --case NAME, --procs N and --quick (bench/compare/README.md): bench/compare
 * runs a round of a case of each in turn, so that a ratio always compares figures of one run. There
 * the cases that end in _compact belong to a system of their own, weft-compact, without that
 * ending.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/base.h>

#include "bench.h"

static const struct bench_case *const groups[] = {
    bench_yield_cases,   bench_spawn_cases,  bench_sleep_cases,   bench_wheel_cases,
    bench_flood_cases,   bench_steal_cases,  bench_memory_cases,  bench_wake_cases,
    bench_wg_cases,      bench_chan_cases,   bench_select_cases,  bench_mutex_cases,
    bench_rwmutex_cases, bench_sem_cases,    bench_context_cases, bench_object_pool_cases,
    bench_pool_cases,    bench_net_cases,    bench_panic_cases,   bench_blocking_cases,
    bench_file_cases,    bench_timers_cases, bench_tree_cases,    bench_compact_cases,
    bench_fair_cases,    bench_ticks_cases,
};
enum { GROUPS = sizeof groups / sizeof groups[0] };

static const char usage[] =
    "usage: weft-bench [options] [case...]\n"
    "A case is a name of --list, or its beginning: `sleep` runs sleep_10, sleep_10k, ...\n"
    "  --list        show the cases, system, version, and what each one measures\n"
    "  --case NAME   one round of this case, in this process: a line with name, value, unit and\n"
    "                parameters for each figure\n"
    "  --system S    with --case: weft, or weft-compact for compact stacks\n"
    "  --json FILE   write the results as JSON; - for stdout, instead of the table\n"
    "  --rounds N    rounds of each case (default 5)\n"
    "  --quick       a tenth of the work, for a first look\n"
    "  --procs N     processors for the cases that use all\n"
    "  --help        this\n";

/* Parses a number from low to high; -1 if the text is not one. */
static int number(const char *text, int low, int high)
{
    char *end;
    long value = strtol(text, &end, 10);
    return end != text && *end == '\0' && value >= low && value <= high ? (int)value : -1;
}

/* The length of the name without the ending of weft-compact; 0 if it has no such ending. */
static int compact_length(const char *name)
{
    static const char ending[] = "_compact";
    size_t length = strlen(name), end = sizeof ending - 1;
    return length > end && strcmp(name + length - end, ending) == 0 ? (int)(length - end) : 0;
}

static void list_cases(void)
{
    for (int group = 0; group < GROUPS; group++)
        for (const struct bench_case *one = groups[group]; one->name != NULL; one++) {
            printf("%-22s weft %s  %s\n", one->name, WEFT_VERSION, one->what);
            int length = compact_length(one->name);
            if (length > 0)
                printf("%-22.*s weft-compact %s  %s\n", length, one->name, WEFT_VERSION, one->what);
        }
}

static bool is_the_one(const char *name, const struct bench_options *options)
{
    int length = options->compact ? compact_length(name) : (int)strlen(name);
    return (size_t)length == strlen(options->one) &&
           strncmp(name, options->one, (size_t)length) == 0;
}

/* Runs a round of the case with exactly this name; does not wait for remaining fibers. */
static int run_one(const struct bench_options *options)
{
    struct bench bench;
    for (int group = 0; group < GROUPS; group++)
        for (const struct bench_case *one = groups[group]; one->name != NULL; one++) {
            if (!is_the_one(one->name, options))
                continue;
            bench_round(one, options, &bench);
            for (int i = 0; i < BENCH_METRICS_MOST && one->metrics[i].unit != NULL; i++)
                printf("%s%s %.9g %s processors=%d %s\n", options->one, one->metrics[i].suffix,
                       bench.values[i], one->metrics[i].unit, bench.processors, bench.params);
            fflush(stdout);
            _exit(0);
        }
    fprintf(stderr, "weft-bench: there is no case %s (see --list)\n", options->one);
    return 2;
}

static bool matches(const struct bench_case *one, const char *name)
{
    size_t length = strlen(name);
    return strncmp(one->name, name, length) == 0 &&
           (one->name[length] == '\0' || one->name[length] == '_');
}

static bool wanted(const struct bench_case *one, const struct bench_options *options)
{
    for (int i = 0; i < options->name_count; i++)
        if (matches(one, options->names[i]))
            return true;
    return options->name_count == 0;
}

static bool names_exist(const struct bench_options *options)
{
    for (int i = 0; i < options->name_count; i++) {
        bool found = false;
        for (int group = 0; group < GROUPS; group++)
            for (const struct bench_case *one = groups[group]; one->name != NULL; one++)
                found |= matches(one, options->names[i]);
        if (!found) {
            fprintf(stderr, "weft-bench: there is no case %s (see --list)\n", options->names[i]);
            return false;
        }
    }
    return true;
}

/* Applies one option; false if its value is invalid. */
static bool take_option(struct bench_options *options, int option, const char *value)
{
    switch (option) {
    case 'j':
        options->json = value;
        return true;
    case 'c':
        options->one = value;
        return true;
    case 'r':
        options->rounds = number(value, 1, BENCH_ROUNDS_MOST);
        return options->rounds > 0;
    case 'p':
        options->processors = number(value, 1, 256);
        return options->processors > 0;
    case 's':
        options->compact = strcmp(value, "weft-compact") == 0;
        return options->compact || strcmp(value, "weft") == 0;
    case 'q':
        options->quick = true;
        return true;
    default:
        return false;
    }
}

static struct bench_options parse(int argc, char **argv)
{
    static const struct option longs[] = {
        {"list", no_argument, NULL, 'l'},
        {"json", required_argument, NULL, 'j'},
        {"case", required_argument, NULL, 'c'},
        {"rounds", required_argument, NULL, 'r'},
        {"procs", required_argument, NULL, 'p'},
        {"quick", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {"system", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0},
    };
    struct bench_options options = {.rounds = 5};
    for (int option; (option = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (option == 'l') {
            list_cases();
            exit(0);
        }
        if (option == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (!take_option(&options, option, optarg)) {
            if (option != '?')
                fprintf(stderr, "weft-bench: %s makes no sense here\n", optarg);
            fputs(usage, stderr);
            exit(2);
        }
    }
    options.names = argv + optind;
    options.name_count = argc - optind;
    if (!names_exist(&options))
        exit(2);
    return options;
}

int main(int argc, char **argv)
{
    struct bench_options options = parse(argc, argv);
    struct bench_report report;
    if (options.one != NULL)
        return run_one(&options);
    if (bench_report_open(&report, &options) != 0)
        return 1;
    int failed = 0;
    for (int group = 0; group < GROUPS; group++) {
        for (const struct bench_case *one = groups[group]; one->name != NULL; one++) {
            struct bench_result result;
            if (!wanted(one, &options))
                continue;
            if (bench_run(one, &options, &result) == 0)
                bench_report_add(&report, one, &result);
            else
                failed++;
        }
    }
    if (bench_report_close(&report) != 0)
        return 1;
    return failed == 0 ? 0 : 1;
}
