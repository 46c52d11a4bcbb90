/*
 * cpus.h: the number of CPUs that this process may use: see cpus.c.
 */
#ifndef WEFT_SCHED_RUNTIME_CPUS_H
#define WEFT_SCHED_RUNTIME_CPUS_H

#include "base/atomic.h"

/* Returns the CPUs that the quota of the cgroup allows; INT_MAX without a quota. `root` is "" or,
 * in tests, a folder that contains proc and sys. */
int weft__cpus_quota(const char *root);
/* Returns the CPUs that affinity mask and quota allow: 1 to WEFT_PROCS_MAX. */
int weft__cpus(const char *root);
/* Returns what weft__cpus returns, or -EAGAIN if affinity or quota could not be read for lack of
 * memory or descriptors. For checks while the runtime works: the caller keeps the number that it
 * had. */
int weft__cpus_now(const char *root);
/* Returns the CPUs of the computer that are online. */
int weft__cpus_online(void);
/* For tests: the root that the runtime uses; and a number of CPUs that replaces both the CPUs
 * online and the affinity mask, 0 if it replaces nothing. */
extern const char *weft__cpus_root;
extern atomic_u32 weft__cpus_given;

#endif
