/*
 * run_queue_model.c: the run queue: the owner pushes and pops by plain stores; thieves ask it, or
 * claim it (sched/core/steal.c).
 *
 * What must hold: each fiber is in one place, or taken, exactly once; no thread waits for ever.
 */
#include "sched/core/steal.c"

#include "explore.h"

enum { FIBERS = 6, PROCESSORS = 3 };

static struct processor processors[PROCESSORS];
static struct machine owner, thieves[2], successor;
static struct weft_fiber fibers[FIBERS], task;
static int taken[FIBERS];
static int used;   /* how many of the fibers */
static int claims; /* how often a thief tries */

static void take(struct weft_fiber *fiber)
{
    if (fiber != NULL)
        taken[fiber - fibers]++;
}

static void give_machine(struct machine *machine, struct processor *processor, bool inside)
{
    machine->thread.processor = processor;
    machine->thread.fiber = inside ? NULL : &task;
    machine->thread.inside.value = inside;
    processor->owner.value = &machine->thread;
}

/* The owner runs a fiber, outside the runtime; `in_ring` fibers wait in its ring. */
static void set_up_queues(bool symmetric, int in_ring, bool in_runnext)
{
    claims = 2;
    weft__barrier.symmetric = symmetric;
    weft__sched.processors = processors;
    weft__sched.processor_count.value = PROCESSORS;
    weft__sched.in_use.value = weft__sched.in_use_most.value = weft__sched.processor_count.value;
    for (int i = 0; i < PROCESSORS; i++)
        processors[i].wheel.next.value = WHEEL_EMPTY;
    give_machine(&owner, &processors[0], false);
    give_machine(&thieves[0], &processors[1], true);
    give_machine(&thieves[1], &processors[2], true);
    for (used = 0; used < in_ring; used++)
        MODEL_CHECK(ring_push_owner(&processors[0], &fibers[used]));
    if (in_runnext)
        (void)runnext_swap_owner(&processors[0], &fibers[used++]);
    model_name(&owner.thread.requests, "requests");
    model_name(&processors[0].owner, "owner");
    model_name(&processors[0].head, "head");
    model_name(&processors[0].tail, "tail");
    model_name(&processors[0].runnext, "runnext");
    model_name(&owner.thread.inside, "inside");
    model_name(&successor.thread.inside, "successor's inside");
    model_name(&successor.thread.requests, "successor's requests");
}

static void each_is_somewhere_once(void)
{
    for (int i = 0; i < PROCESSORS; i++)
        for (struct weft_fiber *fiber; (fiber = dequeue(&processors[i])) != NULL;)
            take(fiber);
    struct chain chain = weft__inject_take_any(FIBERS);
    for (struct weft_fiber *fiber; (fiber = chain_take(&chain)) != NULL;)
        take(fiber);
    for (int i = 0; i < used; i++)
        MODEL_CHECK(taken[i] == 1);
    MODEL_CHECK((owner.thread.requests.value & REQUEST_CLAIMED) == 0);
}

/* A fiber that calls weft: pops one, and makes one ready. */
static void run_owner(void *arg)
{
    thread_word_set(&owner);
    for (int i = 0; i < 2; i++) {
        runtime_enter(&owner.thread);
        take(dequeue(owner.thread.processor));
        runtime_leave(&owner.thread);
    }
}

static void run_pusher(void *arg)
{
    thread_word_set(&owner);
    runtime_enter(&owner.thread);
    weft__ready(&fibers[used++], true);
    weft__ready(&fibers[used++], false);
    runtime_leave(&owner.thread);
    runtime_enter(&owner.thread);
    take(dequeue(owner.thread.processor));
    runtime_leave(&owner.thread);
}

static void run_thief(void *arg)
{
    struct machine *machine = arg;
    struct processor *processor = machine->thread.processor;
    struct thread *claimed;
    thread_word_set(machine);
    for (int i = 0; i < claims; i++)
        if ((claimed = weft__claim(&processors[0])) != NULL) {
            take(take_claimed(processor, &processors[0]));
            weft__claim_end(claimed);
            take(dequeue(processor));
        }
}

/* Its fiber has faulted, and the machine goes on without it. */
static void run_crashed(void *arg)
{
    thread_word_set(&owner);
    weft__enter_crashed(&owner.thread);
    take(dequeue(owner.thread.processor));
    runtime_leave(&owner.thread);
}

/* Asks the owner, as a machine that searches does, and takes the fibers that it sheds. */
static void run_asker(void *arg)
{
    struct machine *machine = arg;
    thread_word_set(machine);
    struct seen seen[WEFT_PROCS_MAX] = {{0, 0, 0}};
    bool close;
    take(ask(machine->thread.processor, seen, weft__os_now(), &close));
    take(weft__take_injected(machine->thread.processor));
}

/* Gives its processor up, as idle.c does, and goes on without one. */
static void run_leaver(void *arg)
{
    struct processor *processor = owner.thread.processor;
    thread_word_set(&owner);
    runtime_enter(&owner.thread);
    owner.thread.fiber = NULL;
    take(dequeue(processor));
    atomic_ptr_store_release(&processor->owner, NULL);
    owner.thread.processor = NULL;
    lock_acquire(&weft__sched.lock);
    weft__sched.idle_processors = processor;
    lock_release(&weft__sched.lock);
    atomic_u32_store_release(&owner.thread.inside, 0); /* until it gets another processor */
}

/* A machine that finds the idle processor and takes it. */
static void run_successor(void *arg)
{
    struct processor *processor = NULL;
    thread_word_set(&successor);
    successor.thread.inside.value = 1;
    while (processor == NULL) {
        lock_acquire(&weft__sched.lock);
        processor = weft__sched.idle_processors;
        lock_release(&weft__sched.lock);
        if (processor == NULL)
            model_spin();
    }
    weft__processor_acquire(&successor, processor);
    take(dequeue(processor));
    successor.thread.fiber = &task;
    runtime_leave(&successor.thread);
    runtime_enter(&successor.thread);
    take(dequeue(processor));
    runtime_leave(&successor.thread);
}

/* The owner's function against a thief. */
static void race(bool symmetric, int in_ring, bool in_runnext, void (*function)(void *))
{
    set_up_queues(symmetric, in_ring, in_runnext);
    model_thread("owner", function, NULL, true);
    model_thread("thief", run_thief, &thieves[0], true);
}

static void pops(void)
{
    race(false, 3, true, run_owner);
}

static void pops_symmetric(void)
{
    race(true, 3, true, run_owner);
}

static void crashes(void)
{
    race(false, 3, false, run_crashed);
}

static void pushes(void)
{
    race(false, 4, false, run_pusher); /* the ring is full */
}

static void two_thieves(void)
{
    race(false, 4, false, run_owner);
    claims = 1;
    model_thread("thief 2", run_thief, &thieves[1], true);
}

static void sheds(void)
{
    race(false, 3, true, run_owner);
    claims = 1;
    model_thread("asker", run_asker, &thieves[1], true);
}

static void hands_on(void)
{
    race(false, 4, false, run_leaver);
    claims = 1;
    model_thread("successor", run_successor, NULL, true);
}

static const struct scenario scenarios[] = {
    {"the owner pops, a thief claims", pops, each_is_somewhere_once, 4, 2, 0},
    {"the owner pops, a thief claims, no membarrier", pops_symmetric, each_is_somewhere_once, 4, 2,
     0},
    {"the owner comes back from a fault, a thief claims", crashes, each_is_somewhere_once, 4, 2, 0},
    {"the owner pops, two thieves claim", two_thieves, each_is_somewhere_once, 3, 1, 0},
    {"the owner pushes into a full ring, a thief claims", pushes, each_is_somewhere_once, 3, 2, 0},
    {"the owner is asked, another claims", sheds, each_is_somewhere_once, 3, 1, 0},
    {"the processor changes hands while it is claimed", hands_on, each_is_somewhere_once, 3, 1, 0},
};

MODEL_MAIN(scenarios)
