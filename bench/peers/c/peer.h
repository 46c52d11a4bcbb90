/*
 * peer.h: what the programs in C and C++ share: the options that all of bench/peers understand
 * (bench/compare/README.md), a round of a case, the clock.
 *
 * A header only, for both languages: each program is one file.
 */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { PEER_PARAMS_SIZE = 192 };

struct peer_round {
    bool quick;
    int processors;
    long size;
    char params[PEER_PARAMS_SIZE]; /* set by the case */
};

struct peer_case {
    const char *name, *unit;
    double (*measure)(struct peer_round *round);
    long size;
    bool cold; /* measured at once; else a second time, when all is warm */
    bool one;  /* on one processor */
};

/* Ends the round as failed unless the condition holds. */
#define PEER_CHECK(condition)                            \
    do {                                                 \
        if (!(condition)) {                              \
            fprintf(stderr, "failed: %s\n", #condition); \
            _exit(1);                                    \
        }                                                \
    } while (0)

#define PEER_PARAMS(round, ...) snprintf((round)->params, sizeof(round)->params, __VA_ARGS__)

/* The full amount, or with --quick a tenth. */
static inline long peer_amount(const struct peer_round *round, long full)
{
    return round->quick ? full / 10 : full;
}

static inline int64_t peer_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The CPU time of this process, user and system. */
static inline int64_t peer_processor_time(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000000) +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
}

/* The resident memory of this process, in bytes. */
static inline double peer_resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    PEER_CHECK(file != NULL && fscanf(file, "%*s %ld", &pages) == 1);
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static inline uint64_t peer_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 16;
}

static inline int peer_compare(const void *a, const void *b)
{
    const double *left = (const double *)a, *right = (const double *)b;
    return (*left > *right) - (*left < *right);
}

/* How late ticks were, in seconds: the 99th percentile, and the parameters. */
static inline double peer_lateness(struct peer_round *round, double *late, long count, int tickers,
                                   int blockers, const char *way)
{
    PEER_CHECK(count > 0);
    qsort(late, (size_t)count, sizeof *late, peer_compare);
    PEER_PARAMS(round,
                "tickers=%d period=10ms blockers=%d each=200ms quantile=0.99 median=%.3gs by=%s",
                tickers, blockers, late[(count - 1) / 2], way);
    return late[(long)(0.99 * (double)(count - 1))];
}

static inline int64_t peer_fibonacci(int n)
{
    int64_t a = 0, b = 1;
    for (; n > 0; n--) {
        int64_t next = a + b;
        a = b;
        b = next;
    }
    return a;
}

static inline const char *peer_option(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return i + 1 < argc ? argv[i + 1] : "";
    return NULL;
}

/* What main does; `most` is the number of processors that the system can use, 0: all. */
static inline int peer_main(int argc, char **argv, const char *system, const char *version,
                            const struct peer_case *cases, int most)
{
    const char *name = peer_option(argc, argv, "--case");
    const char *processors = peer_option(argc, argv, "--procs");
    struct peer_round round;
    memset(&round, 0, sizeof round);
    round.quick = peer_option(argc, argv, "--quick") != NULL;
    round.processors = processors != NULL ? atoi(processors) : 2;
    if (most > 0 && round.processors > most)
        round.processors = most;
    if (peer_option(argc, argv, "--list") != NULL) {
        for (; cases->name != NULL; cases++)
            printf("%s %s %s\n", cases->name, system, version);
        return 0;
    }
    while (cases->name != NULL && (name == NULL || strcmp(cases->name, name) != 0))
        cases++;
    if (cases->name == NULL) {
        fprintf(stderr, "there is no case %s (see --list)\n", name != NULL ? name : "");
        return 2;
    }
    round.size = cases->size;
    if (cases->one)
        round.processors = 1;
    if (!cases->cold)
        (void)cases->measure(&round);
    double value = cases->measure(&round);
    printf("%s %.9g %s processors=%d %s\n", cases->name, value, cases->unit, round.processors,
           round.params);
    fflush(stdout);
    _exit(0); /* what is left is not waited for */
}

#endif
