/*
 * bench.h: what the runner (main.c, run.c, report.c) and the cases share.
 *
 * A case measures one thing and describes it exactly. Each round runs in a child process of its
 * own, so that runtime and peak memory are those of that round alone; the parent never uses weft. A
 * round measures twice and keeps the second figure, unless the case is about a cold start. The
 * report has the median, the lowest and the highest of the rounds.
 */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    BENCH_METRICS_MOST = 2,
    BENCH_PARAMS_SIZE = 160,
    BENCH_NAME_SIZE = 64,
    BENCH_ROUNDS_MOST = 1000,
};

/* A round, in the child process. */
struct bench {
    bool quick;
    int processors; /* of weft in this process */
    double values[BENCH_METRICS_MOST];
    char params[BENCH_PARAMS_SIZE];
};

struct bench_metric {
    const char *suffix; /* of the case's name in the output */
    const char *unit;
};

struct bench_case {
    const char *name;
    const char *what; /* the description: what is measured, and what one operation is */
    struct bench_metric metrics[BENCH_METRICS_MOST];
    void (*measure)(struct bench *bench, int64_t size); /* sets values and params */
    int64_t size;                                       /* its meaning depends on the case */
    bool one_processor;                                 /* otherwise all processors */
    bool cold;                                          /* measured at once in a new process */
};

/* The groups of cases; a case without a name ends each. */
extern const struct bench_case bench_yield_cases[];
extern const struct bench_case bench_spawn_cases[];
extern const struct bench_case bench_sleep_cases[];
extern const struct bench_case bench_wheel_cases[];
extern const struct bench_case bench_flood_cases[];
extern const struct bench_case bench_steal_cases[];
extern const struct bench_case bench_memory_cases[];
extern const struct bench_case bench_wake_cases[];
extern const struct bench_case bench_blocking_cases[];
extern const struct bench_case bench_fair_cases[];
extern const struct bench_case bench_ticks_cases[];
extern const struct bench_case bench_wg_cases[];
extern const struct bench_case bench_chan_cases[];
extern const struct bench_case bench_select_cases[];
extern const struct bench_case bench_mutex_cases[];
extern const struct bench_case bench_rwmutex_cases[];
extern const struct bench_case bench_sem_cases[];
extern const struct bench_case bench_context_cases[];
extern const struct bench_case bench_object_pool_cases[];
extern const struct bench_case bench_pool_cases[];
extern const struct bench_case bench_net_cases[];
extern const struct bench_case bench_panic_cases[];
extern const struct bench_case bench_timers_cases[];
extern const struct bench_case bench_tree_cases[];
extern const struct bench_case bench_file_cases[];
extern const struct bench_case bench_compact_cases[];

/* For the cases. */

/* The amount of work: the full amount, or with --quick a tenth. */
int64_t bench_amount(const struct bench *bench, int64_t full);
/* Sets the parameters that are printed with the result. */
void bench_params(struct bench *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the round as failed if error, a return value of weft, is not 0. */
void bench_check(int error, const char *what);
/* Returns zeroed memory; ends the round if there is none. */
void *bench_alloc(int64_t count, size_t size) __attribute__((returns_nonnull));
/* Runs function(arg) as a fiber and waits for its end. */
void bench_in_fiber(void (*function)(void *), void *arg);
/* Many sleeping tasks on a pool: submitted by a fiber; by main; by a fiber, to a pool with a
 * queue. */
enum bench_flood { BENCH_FLOOD_PLAIN, BENCH_FLOOD_THREAD, BENCH_FLOOD_QUEUED };
void bench_flood(struct bench *bench, int64_t full, enum bench_flood kind, bool compact);
/* Runs function(arg) in `count` fibers, spawned by a fiber; returns the time until all have
 * ended. */
int64_t bench_in_fibers(int count, void (*function)(void *), void *arg);
/* A line of /proc/self/status in bytes, or 0; and the resident memory. */
int64_t bench_status(const char *name);
int64_t bench_resident(void);
/* Sorts samples; returns the quantile `share`. */
void bench_sort(double *samples, int64_t count);
double bench_quantile(const double *sorted, int64_t count, double share);

/* Heap allocations of weft and the case since the last call of bench_heap_start (heap.c). */
struct bench_heap {
    int64_t bytes, allocations;
};
void bench_heap_start(void);
struct bench_heap bench_heap_read(void);

/* For the runner. */

struct bench_options {
    int rounds;
    int processors; /* 0: the default of weft */
    bool quick;
    bool compact;     /* that case with compact stacks */
    const char *json; /* NULL: none; "-": instead of the table */
    const char *one;  /* a single round of this case, in this process; NULL: the selected cases */
    int name_count;
    char **names;
};

struct bench_spread {
    double median, low, high;
};

struct bench_result {
    struct bench_spread metrics[BENCH_METRICS_MOST];
    long peak_rss_kb;                    /* the highest of the rounds */
    char params[BENCH_PARAMS_SIZE + 32]; /* including the processors */
};

/* Runs one round of a case in this process, which has not used weft before. */
void bench_round(const struct bench_case *one, const struct bench_options *options,
                 struct bench *bench);
/* Runs all rounds of a case; 0, or -1 if one failed, with a message on stderr. */
int bench_run(const struct bench_case *one, const struct bench_options *options,
              struct bench_result *result);
/* The number of processors that weft will use. */
int bench_processors(const struct bench_options *options);

/* The outputs. */
struct bench_report {
    FILE *table; /* NULL: none */
    FILE *json;  /* NULL: none */
    int rounds;
    bool any;
};

int bench_report_open(struct bench_report *report, const struct bench_options *options);
void bench_report_add(struct bench_report *report, const struct bench_case *one,
                      const struct bench_result *result);
int bench_report_close(struct bench_report *report);

#endif
