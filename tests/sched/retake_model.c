/*
 * retake_model.c: the retake (sched/core/handoff.c): a monitor takes the processor from a machine
 * whose fiber is outside the runtime, while the fiber comes back, a thief claims, or no machine can
 * be made; and a fiber that gives its processor up. With the whole loop of machine.c, idle.c and
 * steal.c.
 *
 * The monitor does not wait until a machine is stuck here: it may come at any time. What must hold:
 * when no thread can go on, every fiber has run, once; every processor is idle; no thread is marked
 * as lost or claimed.
 */
#include "sched/core/steal.c"

#include <weft/blocking.h>

#include "explore.h"

enum { FIBERS = 3, PROCESSORS = 2 };

static struct processor processors[PROCESSORS];
static struct weft_fiber fibers[FIBERS];
static struct machine thief;
static int ran[FIBERS];
static int retakes; /* tries of each monitor */
static bool begun, third_runs;
static bool stays_calm;             /* also after the first fiber has begun to block */
static int monitors = 1;            /* still at work */
static bool (*monitor_from)(void);  /* when it comes; has_begun if NULL */
static bool (*outside_until)(void); /* the first fiber is outside until this; or NULL */

static void only_runs(void *arg)
{
    ran[(intptr_t)arg]++;
}

/* Makes the second fiber ready and goes outside, where its processor may be retaken; then makes the
 * third one ready, with whatever processor it has by then. */
static void comes_back(void *arg)
{
    struct thread *thread = runtime_enter(thread_self());
    weft__ready(&fibers[1], false);
    runtime_leave(thread);
    begun = true;
    model_calm(false);
    if (outside_until != NULL)
        model_wait_until(outside_until);
    thread = runtime_enter(thread_self());
    weft__ready(&fibers[2], false);
    runtime_leave(thread);
    ran[(intptr_t)arg]++;
}

static void goes_in_and_out(void *arg)
{
    runtime_leave(runtime_enter(thread_self()));
    ran[(intptr_t)arg]++;
}

static bool second_has_run(void)
{
    return ran[1] > 0;
}

/* Blocks, marked, until the second fiber has run. */
static void blocks(void *arg)
{
    begun = true;
    model_calm(stays_calm);
    weft_blocking_enter();
    model_wait_until(second_has_run);
    weft_blocking_exit();
    struct thread *thread = runtime_enter(thread_self());
    weft__ready(&fibers[2], false);
    runtime_leave(thread);
    ran[(intptr_t)arg]++;
}

static bool all_have_run(void)
{
    return ran[0] > 0 && ran[1] > 0 && ran[2] > 0;
}

static bool has_begun(void)
{
    return begun;
}

static bool third_has_begun(void)
{
    return third_runs;
}

static bool no_monitor(void)
{
    return monitors == 0;
}

/* Is outside while the monitor comes; then makes the third fiber ready. */
static void waits_outside(void *arg)
{
    model_wait_until(no_monitor);
    struct thread *thread = runtime_enter(thread_self());
    weft__ready(&fibers[2], false);
    runtime_leave(thread);
    ran[(intptr_t)arg]++;
}

static void begins(void *arg)
{
    ran[(intptr_t)arg]++;
    begun = true;
    model_calm(false);
}

static void waits_for_monitor(void *arg)
{
    third_runs = true;
    model_calm(false);
    model_wait_until(no_monitor);
    ran[(intptr_t)arg]++;
}

static void run_monitor(void *arg)
{
    model_wait_until(monitor_from != NULL ? monitor_from : has_begun);
    for (int i = 0; i < retakes; i++)
        (void)weft__retake(&processors[0], atomic_u32_load_relaxed(&processors[0].turn));
    monitors--;
}

static void run_readier(void *arg)
{
    model_wait_until(has_begun);
    weft__ready(&fibers[1], false);
}

static void run_stopper(void *arg)
{
    model_wait_until(all_have_run);
    model_calm(false);
    weft__idle_stop();
}

/* Runs what it steals. */
static void run_thief(void *arg)
{
    struct weft_fiber *fiber;
    struct thread *claimed;
    thread_word_set(&thief);
    model_wait_until(has_begun);
    if ((claimed = weft__claim(&processors[0])) != NULL) {
        fiber = take_claimed(&processors[1], &processors[0]);
        weft__claim_end(claimed);
        if (fiber != NULL)
            ran[fiber - fibers]++;
    }
    while ((fiber = dequeue(&processors[1])) != NULL)
        ran[fiber - fibers]++;
    atomic_ptr_store_release(&processors[1].owner, NULL);
}

/* One processor, with a machine that runs the first fiber; `most` machines may exist. */
static void set_up(uint32_t most)
{
    weft__barrier.symmetric = false;
    weft__sched.processors = processors;
    weft__sched.processor_count.value = 1;
    weft__sched.in_use.value = weft__sched.in_use_most.value = weft__sched.processor_count.value;
    weft__sched.max_machines = most;
    weft__sched.sleep_until.value = NO_WATCHER;
    weft__sched.maintenance_time.value = WEFT_NEVER;
    for (int i = 0; i < PROCESSORS; i++) {
        weft__wheel_init(&processors[i].wheel, weft__os_now_coarse());
        processors[i].turn.value = 1; /* no maintenance */
        processors[i].index = (uint32_t)i;
    }
    for (int i = 0; i < FIBERS; i++) {
        fibers[i].function = only_runs;
        fibers[i].arg = (void *)(intptr_t)i;
        fibers[i].waiter.is_fiber = true;
    }
    fibers[0].function = comes_back;
    retakes = 1;
    MODEL_CHECK(ring_push_owner(&processors[0], &fibers[0]));
    weft__sched.spinning.value = 1;
    MODEL_CHECK(weft__machine_start(&processors[0], false) == 0);
    model_calm(true);
    model_thread("monitor", run_monitor, NULL, true);
    model_name(&processors[0].head, "head");
    model_name(&processors[0].tail, "tail");
    model_name(&processors[0].owner, "owner");
    model_name(&weft__sched.machines->thread.requests, "machine 1 requests");
    model_name(&weft__sched.machines->thread.inside, "machine 1 inside");
    model_name(&weft__sched.lock, "sched.lock");
    model_name(&weft__sched.idle_count, "idle_count");
    model_name(&weft__sched.spinning, "spinning");
    model_name(&weft__sched.sleep_until, "sleep_until");
    model_name(&weft__sched.watcher, "watcher");
    model_name(&weft__sched.lost, "lost");
}

static void set_up_thief(void)
{
    thief.thread.processor = &processors[1];
    thief.thread.inside.value = 1;
    processors[1].owner.value = &thief.thread;
    model_thread("thief", run_thief, NULL, true);
}

static void all_is_well(void)
{
    for (int i = 0; i < FIBERS; i++)
        MODEL_CHECK(ran[i] == 1);
    for (struct machine *machine = weft__sched.machines; machine != NULL; machine = machine->next)
        MODEL_CHECK(machine->idle && machine->thread.processor == NULL &&
                    (machine->thread.requests.value & ~(uint32_t)REQUEST_SHED) == 0);
    MODEL_CHECK(weft__sched.idle_count.value == weft__sched.in_use.value);
    for (uint32_t i = 0; i < weft__sched.processor_count.value; i++)
        MODEL_CHECK(processors[i].owner.value == NULL);
    MODEL_CHECK(weft__sched.lost.value == 0 && weft__sched.spinning.value == 0);
}

static void retaken(void)
{
    set_up(4);
}

static void retaken_symmetric(void)
{
    set_up(4);
    weft__barrier.symmetric = true;
}

/* A second time from the machine that got it. */
static void retaken_twice(void)
{
    set_up(4);
    fibers[1].function = goes_in_and_out;
    retakes = 2;
}

static void two_monitors(void)
{
    set_up(4);
    monitors = 2;
    model_thread("monitor 2", run_monitor, NULL, true);
}

/* The second fiber becomes ready before, while or after the processor is given up. */
static void given_up(void)
{
    set_up(4);
    fibers[0].function = blocks;
    retakes = 0;
    model_thread("readier", run_readier, NULL, true);
}

static void given_up_and_retaken(void)
{
    given_up();
    retakes = 1;
}

/* The machine that comes back is surplus: it ends, if it is not needed just then. */
static void too_many(void)
{
    given_up_and_retaken();
    fibers[2].function = waits_for_monitor;
    monitor_from = third_has_begun;
    stays_calm = true;
    weft__idle_surplus_after = 0;
}

static void too_many_at_the_end(void)
{
    model_machines_end = true;
    given_up();
    stays_calm = true;
    weft__idle_surplus_after = 0;
    model_thread("stopper", run_stopper, NULL, true);
}

/* All machines end, surplus or not. */
static void all_is_stopped(void)
{
    uint32_t machines = 0;
    MODEL_CHECK(all_have_run());
    for (struct machine *machine = weft__sched.machines; machine != NULL; machine = machine->next)
        machines++;
    MODEL_CHECK(machines == weft__sched.machine_count);
    MODEL_CHECK(weft__sched.lost.value == 0);
}

/* A second processor has a machine that is about to sleep, and no third one may be made. */
static void another_sleeps(void)
{
    set_up(2);
    fibers[0].function = waits_outside;
    fibers[1].function = begins;
    MODEL_CHECK(ring_push_owner(&processors[1], &fibers[1]));
    weft__sched.processor_count.value = 2;
    weft__sched.in_use.value = weft__sched.in_use_most.value = weft__sched.processor_count.value;
    weft__sched.spinning.value++;
    MODEL_CHECK(weft__machine_start(&processors[1], false) == 0);
}

static void no_machine(void)
{
    set_up(1);
    set_up_thief();
}

static void retaken_and_claimed(void)
{
    set_up(4);
    set_up_thief();
}

/* The thief has seen the owner before. */
static void claimed_afterwards(void)
{
    retaken_and_claimed();
    outside_until = no_monitor;
}

static const struct scenario scenarios[] = {
    {"the owner comes back while it is retaken", retaken, all_is_well, 3, 1, 0},
    {"the owner comes back while it is retaken, no membarrier", retaken_symmetric, all_is_well, 3,
     1, 0},
    {"the next one is retaken too", retaken_twice, all_is_well, 2, 1, 0},
    {"two want to retake it", two_monitors, all_is_well, 2, 1, 0},
    {"it is given up", given_up, all_is_well, 2, 1, 0},
    {"it is given up while it is retaken", given_up_and_retaken, all_is_well, 1, 1, 0},
    {"the machine that comes back is surplus", too_many, all_is_well, 2, 1, 1},
    {"a surplus machine comes back, and the runtime stops", too_many_at_the_end, all_is_stopped, 3,
     1, 1},
    {"another machine goes to sleep, and there is no third", another_sleeps, all_is_well, 3, 0, 0},
    {"there is no machine to be had, and a thief claims", no_machine, all_is_well, 3, 1, 0},
    {"a thief claims while it is retaken", retaken_and_claimed, all_is_well, 2, 1, 0},
    {"a thief claims, and the owner does not come back", claimed_afterwards, all_is_well, 2, 0, 0},
};

MODEL_MAIN(scenarios)
