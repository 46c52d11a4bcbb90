/*
 * run.c: runs the rounds of a case, each in a child process, and reduces them to median and spread.
 *
 * A child sends its figures through a pipe; its peak memory comes from wait4. The process that
 * forks has never used weft, so each child starts a runtime of its own. An alarm ends a child that
 * hangs, and the case counts as failed.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "bench.h"

enum { ROUND_SECONDS_MOST = 300 };

/* For the cases. */

int64_t bench_amount(const struct bench *bench, int64_t full)
{
    return bench->quick ? (full + 9) / 10 : full;
}

void bench_params(struct bench *bench, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(bench->params, sizeof bench->params, format, list);
    va_end(list);
}

void bench_check(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "weft-bench: %s: %s\n", what, weft_strerror(error));
    _exit(1);
}

void *bench_alloc(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count, size);
    if (memory == NULL) {
        fprintf(stderr, "weft-bench: no memory\n");
        _exit(1);
    }
    return memory;
}

void bench_in_fiber(void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    bench_check(weft_spawn(&fiber, function, arg, NULL), "weft_spawn");
    bench_check(weft_join(fiber), "weft_join");
}

struct crowd {
    int count;
    void (*function)(void *);
    void *arg;
    int64_t elapsed;
};

static void run_crowd(void *arg)
{
    struct crowd *crowd = arg;
    weft_wg done = WEFT_WG_INIT;
    int64_t start = weft_now();
    for (int i = 0; i < crowd->count; i++)
        bench_check(weft_wg_go(&done, crowd->function, crowd->arg), "weft_wg_go");
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    crowd->elapsed = weft_now() - start;
}

int64_t bench_in_fibers(int count, void (*function)(void *), void *arg)
{
    struct crowd crowd = {.count = count, .function = function, .arg = arg};
    bench_in_fiber(run_crowd, &crowd);
    return crowd.elapsed;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int64_t bench_status(const char *name)
{
    char line[128];
    int64_t kilobytes = 0;
    size_t length = strlen(name);
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, length) == 0)
            kilobytes = strtoll(line + length, NULL, 10);
    if (file != NULL)
        fclose(file);
    return kilobytes * 1024;
}

int64_t bench_resident(void)
{
    int64_t bytes = bench_status("VmRSS:");
    bench_check(bytes > 0 ? 0 : -EIO, "/proc/self/status");
    return bytes;
}

void bench_sort(double *samples, int64_t count)
{
    qsort(samples, (size_t)count, sizeof *samples, compare);
}

double bench_quantile(const double *sorted, int64_t count, double share)
{
    return sorted[(int64_t)(share * (double)(count - 1) + 0.5)];
}

/* The rounds. */

static void configure(int processors)
{
    weft_config config = {.processors = processors};
    bench_check(weft_configure(&config), "weft_configure");
}

void bench_round(const struct bench_case *one, const struct bench_options *options,
                 struct bench *bench)
{
    *bench = (struct bench){.quick = options->quick};
    alarm(ROUND_SECONDS_MOST);
    configure(one->one_processor ? 1 : options->processors);
    bench->processors = weft_processors();
    if (!one->cold)
        one->measure(bench, one->size);
    one->measure(bench, one->size);
}

/* The child: measures, sends, exits without waiting for remaining fibers. */
static void round_child(const struct bench_case *one, const struct bench_options *options, int pipe)
{
    struct bench bench;
    bench_round(one, options, &bench);
    _exit(write(pipe, &bench, sizeof bench) == (ssize_t)sizeof bench ? 0 : 1);
}

static int explain(const struct bench_case *one, int status)
{
    if (WIFSIGNALED(status))
        fprintf(stderr, "weft-bench: %s: killed by signal %d (%s)\n", one->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "weft-bench: %s: failed\n", one->name);
    return -1;
}

static int run_round(const struct bench_case *one, const struct bench_options *options,
                     struct bench *bench, long *peak_rss_kb)
{
    int pipes[2], status;
    struct rusage usage;
    fflush(NULL);
    if (pipe(pipes) != 0)
        return perror("weft-bench: pipe"), -1;
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        round_child(one, options, pipes[1]);
    }
    close(pipes[1]);
    ssize_t got = child > 0 ? read(pipes[0], bench, sizeof *bench) : -1;
    close(pipes[0]);
    if (child < 0)
        return perror("weft-bench: fork"), -1;
    while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR)
        continue;
    *peak_rss_kb = usage.ru_maxrss;
    return status == 0 && got == (ssize_t)sizeof *bench ? 0 : explain(one, status);
}

int bench_run(const struct bench_case *one, const struct bench_options *options,
              struct bench_result *result)
{
    double samples[BENCH_METRICS_MOST][BENCH_ROUNDS_MOST];
    struct bench bench = {.quick = false};
    result->peak_rss_kb = 0;
    for (int round = 0; round < options->rounds; round++) {
        long peak_rss_kb;
        if (run_round(one, options, &bench, &peak_rss_kb) != 0)
            return -1;
        if (peak_rss_kb > result->peak_rss_kb)
            result->peak_rss_kb = peak_rss_kb;
        for (int metric = 0; metric < BENCH_METRICS_MOST; metric++)
            samples[metric][round] = bench.values[metric];
    }
    for (int metric = 0; metric < BENCH_METRICS_MOST; metric++) {
        bench_sort(samples[metric], options->rounds);
        result->metrics[metric] = (struct bench_spread){
            .median = bench_quantile(samples[metric], options->rounds, 0.5),
            .low = samples[metric][0],
            .high = samples[metric][options->rounds - 1],
        };
    }
    snprintf(result->params, sizeof result->params, "processors=%d %s", bench.processors,
             bench.params);
    return 0;
}

int bench_processors(const struct bench_options *options)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        configure(options->processors);
        _exit(weft_processors() % 256); /* 256 would read as 0, which is shown as unknown */
    }
    return child > 0 && waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 0;
}
