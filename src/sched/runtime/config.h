/*
 * config.h: what the runtime uses, decided when it starts.
 */
#ifndef WEFT_SCHED_RUNTIME_CONFIG_H
#define WEFT_SCHED_RUNTIME_CONFIG_H

#include <stdbool.h>
#include <weft/runtime.h>

struct settings {
    int processors;
    bool follows_cpus; /* the number of processors is that of the CPUs, also when this changes */
    size_t stack_size;
    int64_t max_fibers; /* 0: no limit */
    int max_machines;
    bool fault_report;
    bool deadlock_check;
    bool membarrier, guard_install, guard_many, guard_pages, epoll_pwait2; /* allowed */
    bool io_uring, file_nowait, pidfd;                                     /* too */
    int chaos;                                                             /* percent: chaos.c */
};

/* 0, or -EINVAL if a value is out of range. */
int weft__config_check(const weft_config *config);

/* The number of processors alone; `say` false: without a word on a bad environment. */
int weft__config_processors(const weft_config *config, bool say);

/* Each value from the configuration if it is set there, else from the environment, else the
 * default. */
struct settings weft__config_resolve(const weft_config *config);

#endif
