/*
 * cpus.h: the CPUs that this process may use: see cpus.c.
 */
#ifndef WEFT_SCHED_RUNTIME_CPUS_H
#define WEFT_SCHED_RUNTIME_CPUS_H

/* The CPUs that the control group allows, or all. `root` is "" or, in tests, a folder to read
 * proc and sys in. */
int weft__cpus_quota(const char *root);
/* The CPUs that this process may use, as the affinity mask and the quota say. */
int weft__cpus(const char *root);

#endif
