/*
 * cpus.h: the CPUs that this process may use: see cpus.c.
 */
#ifndef WEFT_SCHED_RUNTIME_CPUS_H
#define WEFT_SCHED_RUNTIME_CPUS_H

#include "base/atomic.h"

/* The CPUs that the control group allows, or all. `root` is "" or, in tests, a folder to read
 * proc and sys in. */
int weft__cpus_quota(const char *root);
/* The CPUs that this process may use, as the affinity mask and the quota say. */
int weft__cpus(const char *root);
/* `weft__cpus` for a process that runs: -EAGAIN if affinity or quota could not be read for lack of
 * memory or descriptors. */
int weft__cpus_now(const char *root);
/* The CPUs of the machine that are online. */
int weft__cpus_online(void);
/* For tests: the root for the runtime, and the number of CPUs that there are and may be used; 0:
 * those of the machine. */
extern const char *weft__cpus_root;
extern atomic_u32 weft__cpus_given;

#endif
