/*
 * report.c: prints results as a table for people and as JSON for programs.
 *
 * JSON: an array of objects with `case`, `system`, `version`, `unit`, `median`, `low`, `high`,
 * `peak_rss_kb`, `rounds` and `params`; the programs in bench/peers write the same.
 */
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <weft/base.h>

#include "bench.h"

/* The model of the first CPU in /proc/cpuinfo, or "unknown". */
static void cpu_model(char *model, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(model, size, "unknown CPU");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *value = strstr(line, ": ");
        if (strncmp(line, "model name", 10) != 0 || value == NULL)
            continue;
        value[strcspn(value, "\n")] = '\0';
        snprintf(model, size, "%s", value + 2);
        break;
    }
    if (file != NULL)
        fclose(file);
}

static void print_machine(FILE *file, const struct bench_options *options)
{
    char model[128];
    struct utsname system;
    cpu_model(model, sizeof model);
    uname(&system);
    fprintf(file, "weft %s on %s, %ld cores, %s %s %s\n", WEFT_VERSION, model,
            sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release, system.machine);
    fprintf(file, "%d processors, %d rounds%s: median, low and high of the rounds\n\n",
            bench_processors(options), options->rounds, options->quick ? ", quick" : "");
    fprintf(file, "%-22s %-6s %10s %10s %10s %9s  %s\n", "case", "unit", "median", "low", "high",
            "peak MB", "parameters");
}

int bench_report_open(struct bench_report *report, const struct bench_options *options)
{
    bool only_json = options->json != NULL && strcmp(options->json, "-") == 0;
    *report = (struct bench_report){.table = only_json ? NULL : stdout, .rounds = options->rounds};
    if (options->json != NULL)
        report->json = only_json ? stdout : fopen(options->json, "w");
    if (options->json != NULL && report->json == NULL) {
        fprintf(stderr, "weft-bench: cannot write %s\n", options->json);
        return -1;
    }
    if (report->table != NULL)
        print_machine(report->table, options);
    if (report->json != NULL)
        fputs("[", report->json);
    return 0;
}

static void add_row(FILE *file, const char *name, const char *unit,
                    const struct bench_spread *spread, const struct bench_result *result)
{
    int digits = spread->median < 1 ? 3 : spread->median < 1000 ? 2 : 0;
    fprintf(file, "%-22s %-6s %10.*f %10.*f %10.*f %9.1f  %s\n", name, unit, digits, spread->median,
            digits, spread->low, digits, spread->high, (double)result->peak_rss_kb / 1024,
            result->params);
    fflush(file);
}

/* Names, units and parameters contain no characters that need escaping. */
static void add_object(struct bench_report *report, const char *name, const char *unit,
                       const struct bench_spread *spread, const struct bench_result *result)
{
    fprintf(report->json,
            "%s\n  {\"case\": \"%s\", \"system\": \"weft\", \"version\": \"%s\", \"unit\": \"%s\", "
            "\"median\": %.6g, \"low\": %.6g, \"high\": %.6g, \"peak_rss_kb\": %ld, "
            "\"rounds\": %d, \"params\": \"%s\"}",
            report->any ? "," : "", name, WEFT_VERSION, unit, spread->median, spread->low,
            spread->high, result->peak_rss_kb, report->rounds, result->params);
    report->any = true;
}

void bench_report_add(struct bench_report *report, const struct bench_case *one,
                      const struct bench_result *result)
{
    for (int i = 0; i < BENCH_METRICS_MOST && one->metrics[i].unit != NULL; i++) {
        const struct bench_metric *metric = &one->metrics[i];
        char name[BENCH_NAME_SIZE];
        snprintf(name, sizeof name, "%s%s", one->name, metric->suffix);
        if (report->table != NULL)
            add_row(report->table, name, metric->unit, &result->metrics[i], result);
        if (report->json != NULL)
            add_object(report, name, metric->unit, &result->metrics[i], result);
    }
}

int bench_report_close(struct bench_report *report)
{
    if (report->json == NULL)
        return 0;
    fputs("\n]\n", report->json);
    int error = ferror(report->json);
    if (report->json != stdout)
        error |= fclose(report->json);
    if (error != 0)
        fprintf(stderr, "weft-bench: the JSON could not be written\n");
    return error != 0 ? -1 : 0;
}
