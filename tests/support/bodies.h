/*
 * bodies.h: pieces of a test that run as fibers or as threads, and waits for what others do.
 *
 * Under a seed all of them are fibers: the seed would not decide when a thread runs.
 */
#ifndef WEFT_TEST_BODIES_H
#define WEFT_TEST_BODIES_H

#include <pthread.h>
#include <sys/prctl.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "sync/object_latch.h"
#include "sync/waiters.h"
#include "test.h"

struct body {
    void (*function)(void *);
    void *arg;
    bool thread;
    weft_fiber *fiber;
    pthread_t handle;
};

static inline void *body_thread_main(void *arg)
{
    struct body *body = arg;
    body->function(body->arg);
    return NULL;
}

static inline void body_start(struct body *body)
{
    if (body->thread && !test_seeded)
        CHECK_EQ(pthread_create(&body->handle, NULL, body_thread_main, body), 0);
    else
        CHECK_EQ(weft_spawn(&body->fiber, body->function, body->arg, NULL), 0);
}

static inline void body_join(struct body *body)
{
    if (body->thread && !test_seeded)
        CHECK_EQ(pthread_join(body->handle, NULL), 0);
    else
        CHECK_EQ(weft_join(body->fiber), 0);
}

static inline void bodies_run(struct body *bodies, int count)
{
    for (int i = 0; i < count; i++)
        body_start(&bodies[i]);
    for (int i = 0; i < count; i++)
        body_join(&bodies[i]);
}

/* Runs one body from start to end. */
static inline void body_run(void (*function)(void *), void *arg, bool thread)
{
    bodies_run(&(struct body){.function = function, .arg = arg, .thread = thread}, 1);
}

/* Waits until the word has that value, without blocking the thread of a fiber. */
static inline void await(const atomic_u32 *word, uint32_t value)
{
    while (atomic_u32_load_acquire(word) != value)
        weft_yield();
}

/* Waits until the fiber is parked, in whatever way. */
static inline void await_parked(const weft_fiber *fiber)
{
    uint32_t state;
    do {
        weft_yield();
        state = atomic_u32_load_acquire(&fiber->waiter.state);
    } while (state < WAITER_SOLE || state > WAITER_OPEN);
}

/* Overwrites an object, as the next user of freed memory would. */
static inline void scrap(void *object, size_t size)
{
    memset(object, 0x5a, size);
}

/* No byte of it has changed since. */
static inline void check_scrapped(const void *object, size_t size)
{
    for (size_t i = 0; i < size; i++)
        CHECK_EQ(((const unsigned char *)object)[i], 0x5a);
}

static inline int list_length(void **list)
{
    int count = 0;
    struct waiter *first = *list;
    if (first != NULL) {
        struct waiter *waiter = first;
        do {
            count++;
            waiter = waiter->next;
        } while (waiter != first);
    }
    return count;
}

/* Returns when `count` waiters are in the list of an object with a latch. */
static inline void await_waiters(uint32_t *latch, void **list, int count)
{
    for (;;) {
        object_latch_acquire(latch);
        int now = list_length(list);
        object_latch_release(latch);
        if (now == count)
            return;
        weft_yield();
    }
}

/* Ends the wait of the first in the list, a thread with a deadline, as the clock would. The thread
 * learns it by wake_ended, and stays in the list until then. */
static inline struct waiter *end_first_wait(uint32_t *latch, void **list)
{
    object_latch_acquire(latch);
    struct waiter *waiter = *list;
    CHECK(waiter_claim(waiter, -ETIMEDOUT));
    object_latch_release(latch);
    return waiter;
}

/* Wakes the waiter of end_first_wait. Under seeds the caller is a fiber, which has to enter the
 * runtime. */
static inline void wake_ended(struct waiter *waiter)
{
    bool fiber = enter_if_fiber();
    weft__wake(waiter);
    leave_if_fiber(fiber);
}

/* Waits for the group: its error. */
static inline int group_error(weft_group *group)
{
    int error = INT32_MIN;
    CHECK_EQ(weft_group_wait(group, &error), 0);
    return error;
}

/* Calls the function in a forked child, also while weft runs. It must return. */
static inline void in_fork(void (*function)(void))
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a child that hangs ends with the test */
        function();
        _exit(0);
    }
    test_child_exits(child, 0);
}

#endif
