/*
 * scheduler.h: the state that the files of the scheduler share. It is defined in machine.c.
 *
 * Three cache lines with different writers: what the lock guards; what is read whenever a fiber
 * becomes ready and written only when machines sleep and wake; and the count of fibers, which
 * every spawn writes if there is a limit.
 */
#ifndef WEFT_SCHED_CORE_SCHEDULER_H
#define WEFT_SCHED_CORE_SCHEDULER_H

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "sched/fiber/chain.h"

struct machine;
struct processor;

struct sched {
    /* Set at the start. */
    struct processor *processors;
    uint32_t processor_room;    /* length of that array */
    atomic_u32 processor_count; /* processors ever made; only grows */
    uint8_t stack_class;        /* of fibers whose options name no size */
    int64_t max_fibers;         /* 0: no limit */
    bool deadlock_check;
    bool handles_faults;
    bool follows_cpus;                 /* the number of processors follows that of the CPUs */
    bool io_uring, file_nowait, pidfd; /* which of these the floor io may use */

    _Alignas(CACHE_LINE) struct lock lock; /* guards what follows, except atomics */
    struct processor *idle_processors;
    struct processor *retired; /* processors that are not in use */
    struct machine *idle_machines;
    struct machine *machines;
    uint32_t machine_count, max_machines;
    uint32_t machines_starting; /* not in machine_count yet, but counted against max_machines */
    struct machine *ended;      /* machines that ended as surplus and are not joined yet */
    int64_t reap_pause;         /* until the next attempt to join them; doubled each time */
    bool reaping;               /* a thread has taken `ended` and joins what it can */
    bool closing;               /* weft_shutdown waits: no machine ends as surplus */
    struct machine *records;    /* free: the machines were joined */
    uint32_t wakes;             /* machines ever taken out of the idle list */
    struct chain starved;       /* fibers that wait for memory for a stack */
    atomic_u32 starving;        /* bits of enum starving: what waits */

    /* Read whenever a fiber becomes ready; written only when machines sleep and wake. */
    _Alignas(CACHE_LINE) atomic_u32 idle_count; /* idle processors */
    atomic_u32 in_use;      /* processors in use, idle ones included; changed under the lock */
    atomic_u32 in_use_most; /* the number of processors that should be in use */
    atomic_u32 spinning;    /* machines that search for work */
    atomic_i64 sleep_until; /* when the watcher wakes by itself; NO_WATCHER: there is none */
    atomic_i64 doze_until;  /* the event that a dozing machine is in charge of; WEFT_NEVER: none */
    atomic_ptr watcher;     /* struct machine: the one that sleeps in the poller */
    atomic_u32 stopping;
    atomic_u32 epoch;    /* grows at least every 10 ms while no processor is idle: monitor.c */
    atomic_u32 surplus;  /* there are more machines than processors */
    atomic_u32 refused;  /* the errno (positive) with which the last start of a thread failed */
    atomic_u32 lost;     /* fibers that run on a machine which has lost its processor */
    atomic_u32 draining; /* weft_shutdown waits */
    atomic_u32 quiet;    /* futex: grows when a machine retires while draining */
    atomic_i64 maintenance_time; /* when maintenance is due next; WEFT_NEVER: not planned */

    _Alignas(CACHE_LINE) atomic_i64 limited; /* fibers alive, counted only if there is a limit */
};

#define NO_WATCHER INT64_MIN

extern struct sched weft__sched;

#endif
