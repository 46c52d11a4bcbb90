/*
 * compact_fault.c: compact fibers while memory, mappings and stacks are refused: each goes on when
 * there is memory again, with its frames as it left them; nothing is lost, nothing is left.
 */
#include "compact.h"
#include "everywhere.h"
#include "failing.h"
#include "fibers.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/compact.h"
#include "sched/poll/descriptor.h"
#include "stack/slab.h"

enum { FIBERS = 24, MESSAGES = 3 };

static struct {
    weft_chan *chan;
    weft_pool *pool;
    weft_sem sem;
    atomic_u32 sent, received, submitted, ran;
} shared;

static void count_task(void *arg)
{
    CHECK_EQ(*(const int64_t *)arg, 42);
    weft_yield();
    atomic_u32_add_seq_cst(&shared.ran, 1);
}

static void sends(void)
{
    for (int64_t i = 0; i < MESSAGES; i++) {
        int64_t element[2] = {i, ~i};
        CHECK_EQ(weft_chan_send(shared.chan, element), 0);
        atomic_u32_add_seq_cst(&shared.sent, 1);
    }
}

static void receives(void)
{
    for (int i = 0; i < MESSAGES; i++) {
        int64_t element[2];
        weft_case one = {.chan = shared.chan, .op = WEFT_RECEIVE, .element = element};
        int error;
        do
            error = weft_select(&one, 1);
        while (error == -ENOMEM && weft_sleep(WEFT_MS) == 0);
        CHECK_EQ(error, 0);
        CHECK_EQ(element[1], ~element[0]);
        atomic_u32_add_seq_cst(&shared.received, 1);
    }
}

static void submits(void)
{
    int64_t arg = 42;
    int error = weft_pool_submit_with(shared.pool, count_task, &arg,
                                      &(weft_submit_options){.copy = sizeof arg});
    CHECK(error == 0 || error == -ENOMEM);
    atomic_u32_add_seq_cst(&shared.submitted, error == 0);
}

static void act(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    weft_sem_acquire(&shared.sem, 1);
    weft_yield();
    weft_sem_release(&shared.sem, 1);
    if (number % 3 == 2)
        submits();
    else if (number % 3 == 1)
        sends();
    else
        receives();
}

static void live(void *arg)
{
    weft_yield();
    compact_below((int)((uintptr_t)arg * 5 % 40), (unsigned char)(uintptr_t)arg, act, arg);
}

static weft_fiber *fibers[FIBERS];

/* In threes, one of each kind: each message is received. */
static void run_all(void)
{
    for (uintptr_t i = 0; i < FIBERS; i++) {
        int error;
        do
            error = weft_spawn(&fibers[i], live, (void *)i, &(weft_spawn_options){.compact = 1});
        while (error != 0 && weft_sleep(WEFT_MS) == 0);
        CHECK_EQ(error, 0);
    }
    join_all(fibers, FIBERS);
}

/* The runtime is new each time, and starts before anything fails. */
static void begin(void)
{
    weft__os_fail(failing.call, 0, false);
    atomic_u32_store_relaxed(&shared.sent, 0);
    atomic_u32_store_relaxed(&shared.received, 0);
    atomic_u32_store_relaxed(&shared.submitted, 0);
    atomic_u32_store_relaxed(&shared.ran, 0);
    CHECK_EQ(weft_chan_make(&shared.chan, 2 * sizeof(int64_t), 1), 0);
    CHECK_EQ(weft_sem_init(&shared.sem, 2), 0);
    CHECK_EQ(weft_pool_open(&shared.pool, &(weft_pool_options){.capacity = 2, .compact = 1}), 0);
    weft__os_fail(failing.call, failing.nth, failing.persistent);
}

static void attempt(void)
{
    begin();
    failing_while(run_all);
    CHECK_EQ(atomic_u32_load_seq_cst(&shared.sent), FIBERS / 3 * MESSAGES);
    CHECK_EQ(atomic_u32_load_seq_cst(&shared.received), FIBERS / 3 * MESSAGES);
    CHECK_EQ(weft_pool_close(shared.pool), 0);
    CHECK_EQ(atomic_u32_load_seq_cst(&shared.ran), atomic_u32_load_seq_cst(&shared.submitted));
    weft_chan_destroy(shared.chan);
    shut_down();
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

static void whatever_is_refused(void)
{
    CHECK(failing_each(attempt, (uint32_t)test_scale(40)) > 0);
}

/* A worker of a compact pool begins on the stack of a fiber that went deep, whose frames cannot be
 * moved out for lack of memory. The worker's record, which stands before its frames, is not lost:
 * it begins when there is memory again. */

static weft_wg there, gate, done;

static void wait_at_gate(void *arg)
{
    weft_wg_done(&there);
    CHECK_EQ(weft_wg_wait(&gate), 0);
}

static void wait_deep(void *arg)
{
    compact_below(200, 1, wait_at_gate, arg);
}

static void finish(void *arg)
{
    CHECK_PTR(arg, &shared);
    weft_wg_done(&done);
}

/* Takes an object of each size that there is memory for, and writes to it: an object that was freed
 * while it is in use would be overwritten. */
static void use_objects(void)
{
    enum { SIZES = 64 };
    void *objects[SIZES];
    size_t rooms[SIZES];
    for (int i = 0; i < SIZES; i++) {
        objects[i] = weft__slab_get(64 * (size_t)(i + 1), &rooms[i]);
        if (objects[i] != NULL)
            memset(objects[i], 0x5a, rooms[i]);
    }
    for (int i = 0; i < SIZES; i++)
        if (objects[i] != NULL)
            weft__slab_put(objects[i], rooms[i]);
}

static void begin_behind_deep(void *arg)
{
    weft_fiber *deep[HOT_STACKS];
    CHECK_EQ(weft_wg_init(&there, HOT_STACKS), 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(weft_wg_init(&done, 1), 0);
    CHECK_EQ(weft_pool_open(&shared.pool, &(weft_pool_options){.capacity = 1, .compact = 1}), 0);
    for (int i = 0; i < HOT_STACKS; i++)
        deep[i] = compact_spawn(wait_deep, NULL);
    CHECK_EQ(weft_wg_wait(&there), 0);
    CHECK_EQ(weft_pool_submit(shared.pool, finish, &shared), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    while (!atomic_u32_load_relaxed(&weft__sched.starving))
        weft_yield();
    CHECK_EQ(weft_wg_count(&done), 1);
    use_objects();
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(weft_wg_wait(&done), 0);
    weft_wg_done(&gate);
    join_all(deep, HOT_STACKS);
    CHECK_EQ(weft_pool_close(shared.pool), 0);
}

static void a_worker_begins_behind_deep_ones(void)
{
    if (weft__compact_works())
        on_one_machine(begin_behind_deep, NULL);
    CHECK_EQ(weft__slab_figures().mapped, 0);
}

/* The part of a wait that others see is in a stash, off the stack. Without memory for a stash a
 * wait whose call can fail returns an error, any other wait is made later, and none is lost. */

/* Takes all memory that stashes are made of, until give_back. */

enum { TAKEN_MOST = 1 << 16 };
static void *taken[TAKEN_MOST];
static int taken_count;

static void take_all(void)
{
    weft__os_fail(OS_ALLOC, 1, true);
    weft__os_fail(OS_MAP, 1, true);
    for (size_t size = 16 * 1024; size > 0; size /= 2)
        for (void *one; (one = weft__stash(size)) != NULL;) {
            CHECK(taken_count < TAKEN_MOST);
            taken[taken_count++] = one;
        }
}

static void give_back(void)
{
    weft__os_fail(OS_ALLOC, 0, false);
    weft__os_fail(OS_MAP, 0, false);
    while (taken_count > 0)
        weft__unstash(taken[--taken_count]);
}

static void on_compact_fiber(void (*function)(void *))
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_join(compact_spawn(function, NULL)), 0);
    shut_down();
}

/* Waits with a deadline, and waits whose calls can fail for lack of memory. */

static struct {
    weft_sem sem;
    weft_chan *chan;
    weft_context *context;
    int pipe[2];
    int64_t element;
} waits;

static void wait_with_deadlines(void *arg)
{
    weft_case one = {.chan = waits.chan, .op = WEFT_RECEIVE, .element = &waits.element};
    CHECK_EQ(weft_fd_wait(waits.pipe[0], WEFT_READABLE, weft_after(WEFT_MS)), -ETIMEDOUT);
    take_all();
    CHECK_EQ(weft_sem_acquire_until(&waits.sem, 1, weft_after(3 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_chan_receive_until(waits.chan, &waits.element, weft_after(3 * WEFT_MS)),
             -ETIMEDOUT);
    CHECK_EQ(weft_select_until(&one, 1, weft_after(3 * WEFT_MS)), -ENOMEM);
    CHECK_EQ(weft_fd_wait(waits.pipe[0], WEFT_READABLE, weft_after(3 * WEFT_MS)), -ENOMEM);
    CHECK_EQ(weft__descriptor_wait(waits.pipe[0], WEFT_READABLE, 0, weft_after(3 * WEFT_MS)),
             -ENOMEM);
    give_back();
    CHECK_EQ(weft_fd_wait(waits.pipe[0], WEFT_READABLE, weft_after(3 * WEFT_MS)), -ETIMEDOUT);
}

static void make_objects(void)
{
    CHECK_EQ(weft_sem_init(&waits.sem, 0), 0);
    CHECK_EQ(weft_chan_make(&waits.chan, sizeof waits.element, 0), 0);
}

static void errors_are_returned(void)
{
    make_objects();
    CHECK_EQ(pipe(waits.pipe), 0);
    on_compact_fiber(wait_with_deadlines);
    close(waits.pipe[0]);
    close(waits.pipe[1]);
    weft_chan_destroy(waits.chan);
}

/* The element comes while memory is lacking. */

static void send_element(void *arg)
{
    int64_t element = 42;
    CHECK_EQ(weft_chan_send(waits.chan, &element), 0);
}

static void receives_later(void *arg)
{
    waits.element = 0;
    weft_fiber *sender = spawn(send_element, NULL); /* it runs once this fiber waits */
    take_all();
    CHECK_EQ(weft_chan_receive(waits.chan, &waits.element), 0);
    give_back();
    CHECK_EQ(waits.element, 42);
    CHECK_EQ(weft_join(sender), 0);
}

static void a_message_is_not_lost(void)
{
    make_objects();
    on_compact_fiber(receives_later);
    weft_chan_destroy(waits.chan);
    /* In a channel with a buffer the sender does not wait. */
    CHECK_EQ(weft_chan_make(&waits.chan, sizeof waits.element, 1), 0);
    on_compact_fiber(receives_later);
    weft_chan_destroy(waits.chan);
}

/* An acquire that cannot fail, and cannot sleep either since its context is cancelled. */

static void releases(void *arg)
{
    for (int i = 0; i < 20; i++)
        weft_yield();
    weft_sem_release(&waits.sem, 1);
}

static void acquires_cancelled(void *arg)
{
    int64_t element;
    CHECK_EQ(weft_context_bind(waits.context, NULL), 0);
    weft_fiber *other = spawn(releases, NULL);
    take_all();
    weft_context_cancel(waits.context);
    CHECK_EQ(weft_sem_acquire_until(&waits.sem, 1, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_chan_receive(waits.chan, &element), -ECANCELED);
    weft_sem_acquire(&waits.sem, 1); /* no context ends this wait */
    give_back();
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_sem_available(&waits.sem), 0);
    CHECK_EQ(weft_join(other), 0);
}

static void a_cancelled_fiber_acquires(void)
{
    make_objects();
    CHECK_EQ(weft_context_open(&waits.context, NULL, NULL), 0);
    on_compact_fiber(acquires_cancelled);
    weft_context_close(waits.context);
    weft_chan_destroy(waits.chan);
}

int main(void)
{
    configure(2);
    RUN_ALL(whatever_is_refused, a_worker_begins_behind_deep_ones);
    if (weft__compact_works())
        RUN_ALL(errors_are_returned, a_message_is_not_lost, a_cancelled_fiber_acquires);
    return 0;
}
