/*
 * process.h: this process. Rules of all calls: os/os.h.
 */
#ifndef WEFT_OS_PROCESS_H
#define WEFT_OS_PROCESS_H

#include <sys/types.h>

/* The CPUs that the calling thread may use. [OS_ALLOC] */
int weft__os_affinity_count(void);

/* The number of the machine's CPUs that are online. */
int weft__os_cpu_count(void);

/* The value of an environment variable; NULL if there is none. Only while no other thread changes
 * the environment. */
const char *weft__os_getenv(const char *name);

/* The text for a positive errno value: a constant. */
const char *weft__os_strerror(int error);

/* The number of the process; in a forked child it differs from the parent's. Works in signal
 * handlers. */
pid_t weft__os_getpid(void);

/* Ends the process by SIGABRT. Works in signal handlers. */
_Noreturn void weft__os_abort(void);

/* Ends the process at once, without handlers of exit. */
_Noreturn void weft__os_exit_now(int status);

/* In builds that count what runs (WEFT_COVERAGE): writes the counters, so that they count also if
 * the process ends in a death that a test expects. Else nothing. */
void weft__os_save_coverage(void);

#endif
