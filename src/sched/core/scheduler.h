/*
 * scheduler.h: the state that the files of the scheduler share. It is defined in machine.c.
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
    struct processor *processors;
    uint32_t processor_room;    /* in that array */
    atomic_u32 processor_count; /* that exist; only grows */
    uint8_t stack_class;        /* of fibers that do not ask */
    int64_t max_fibers;         /* 0: no limit */
    bool deadlock_check;
    bool handles_faults;
    bool follows_cpus; /* the number of processors is that of the CPUs, also when this changes */
    bool io_uring, file_nowait, pidfd; /* allowed: for the floor io */

    _Alignas(CACHE_LINE) struct lock lock;
    struct processor *idle_processors;
    struct processor *retired; /* processors that are not in use */
    struct machine *idle_machines;
    struct machine *machines;
    uint32_t machine_count, max_machines;
    uint32_t machines_starting; /* not counted yet, but each has its place below the bound */
    struct machine *ended;      /* those that ended as surplus, and are not joined */
    int64_t reap_pause;         /* until they are looked at again; doubled each time */
    bool reaping;               /* some of them are in somebody's hand */
    bool closing;               /* a weft_shutdown waits: none ends as surplus */
    struct machine *records;    /* of machines that were joined */
    uint32_t wakes;             /* how often one was taken out of the idle list */
    struct chain starved;       /* fibers for which there was no stack */
    atomic_u32 starving;        /* enum starving, of those that there are */

    /* Read by everyone who makes a fiber ready; changed only when machines sleep and wake. */
    _Alignas(CACHE_LINE) atomic_u32 idle_count; /* idle processors */
    atomic_u32 in_use;      /* processors, idle ones included; changed under the lock */
    atomic_u32 in_use_most; /* so many are to be in use, at most */
    atomic_u32 spinning;
    atomic_i64 sleep_until; /* when the watcher wakes by itself; NO_WATCHER if there is none */
    atomic_ptr watcher;     /* struct machine: who sleeps in the poller */
    atomic_u32 stopping;
    atomic_u32 epoch;      /* grows while no processor is idle, every 10 ms at least: the monitor */
    atomic_u32 surplus;   /* there are more machines than processors */
    atomic_u32 refused;  /* why no thread could be started, the last time: a positive errno */
    atomic_u32 lost;     /* fibers that run on a machine which has lost its processor */
    atomic_u32 draining; /* somebody waits in weft_shutdown */
    atomic_u32 quiet;    /* futex: grows when a machine retires while draining */
    atomic_i64 maintenance_time; /* the next time there is something to do */

    _Alignas(CACHE_LINE) atomic_i64 limited; /* fibers alive, kept only if there is a limit */
};

#define NO_WATCHER INT64_MIN

extern struct sched weft__sched;

#endif
