/*
 * blocked.h: fibers that block their threads in C code until the test releases them, and the number
 * of machines and threads that weft has meanwhile.
 */
#ifndef WEFT_TEST_BLOCKED_H
#define WEFT_TEST_BLOCKED_H

#include <dirent.h>

#include "fibers.h"
#include "sched/core/scheduler.h"

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool released;
    atomic_u32 count; /* that have come to block */
} blocked = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, {0}};

static inline void blocked_set_released(bool released)
{
    CHECK_EQ(pthread_mutex_lock(&blocked.mutex), 0);
    blocked.released = released;
    CHECK_EQ(pthread_cond_broadcast(&blocked.changed), 0);
    CHECK_EQ(pthread_mutex_unlock(&blocked.mutex), 0);
}

static inline void block_unmarked(void *arg)
{
    atomic_u32_add_seq_cst(&blocked.count, 1);
    CHECK_EQ(pthread_mutex_lock(&blocked.mutex), 0);
    while (!blocked.released)
        CHECK_EQ(pthread_cond_wait(&blocked.changed, &blocked.mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&blocked.mutex), 0);
}

static inline void block_marked(void *arg)
{
    weft_blocking_enter();
    block_unmarked(arg);
    weft_blocking_exit();
}

/* From now on fibers block, until blocked_end or blocked_set_released. */
static inline void blocked_reset(void)
{
    blocked_set_released(false);
    atomic_u32_store_relaxed(&blocked.count, 0);
}

/* Spawns fibers that block, each on a thread of its own; returns when all of them do. */
static inline void blocked_begin(weft_fiber **fibers, int count, void (*function)(void *))
{
    blocked_reset();
    spawn_all(fibers, count, function, NULL);
    nap_until(&blocked.count, (uint32_t)count);
}

static inline void blocked_end(weft_fiber **fibers, int count)
{
    blocked_set_released(true);
    join_all(fibers, count);
}

static inline uint32_t machine_count(void)
{
    lock_acquire(&weft__sched.lock);
    uint32_t count = weft__sched.machine_count;
    lock_release(&weft__sched.lock);
    return count;
}

/* The threads of the runtime, which carry its name. */
static inline int threads_of_weft(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue; /* it has ended, or is no thread */
        count += fgets(name, sizeof name, file) != NULL && strncmp(name, "weft", 4) == 0;
        fclose(file);
    }
    closedir(folder);
    return count;
}

#endif
