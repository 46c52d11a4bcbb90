/*
 * config.h: the settings of the runtime, decided when it starts: see config.c.
 */
#ifndef WEFT_SCHED_RUNTIME_CONFIG_H
#define WEFT_SCHED_RUNTIME_CONFIG_H

#include <stdbool.h>
#include <weft/runtime.h>

struct settings {
    int processors;
    bool follows_cpus; /* the number of processors follows the CPUs that the process may use */
    size_t stack_size;
    int64_t max_fibers; /* 0: no limit */
    int max_machines;
    bool fault_report;
    bool deadlock_check;
    int chaos; /* percent: sched/check/chaos.c */
    /* Kernel features that may be used if the kernel has them (WEFT_WITHOUT): */
    bool membarrier, guard_install, guard_many, guard_pages, epoll_pwait2;
    bool io_uring, file_nowait, pidfd;
};

/* Returns 0, or -EINVAL if a value is out of range or a reserved field is set. */
int weft__config_check(const weft_config *config);

/* Returns the number of processors alone. `say`: warns of a bad value in the environment. */
int weft__config_processors(const weft_config *config, bool say);

/* Resolves all settings: each from the configuration if it is set there, else from the environment,
 * else the default. Warns of bad values in the environment. */
struct settings weft__config_resolve(const weft_config *config);

#endif
