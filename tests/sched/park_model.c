/*
 * park_model.c: parking and waking (sched/core/park.c, machine.c) against the clock (firing.c) and
 * a cancellation (cancel.c): of threads, which sleep on a futex, and of fibers, which machines run.
 *
 * The object is a semaphore as sched/core/park.h prescribes. What must hold: each permit is taken
 * once or is still there; each wait ends once, by the party that claimed it; a woken fiber is
 * whole.
 */
#include "sched/core/machine.c"

#include "explore.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_model, .text = "waits in a model");

enum { WAITERS = 2, MACHINES = 2 };

static struct object {
    struct lock lock;
    void *waiters;
    int permits;
} object;

static struct canceler canceler;
static struct foreign foreigns[WAITERS];
static struct processor processors[MACHINES];
static struct machine machines[MACHINES];
static struct weft_fiber fiber;
static struct extra extra;
static bool fiber_ended;
static int given, got, gave_up, cancelled;
static int64_t deadline;
static int waits; /* of each waiter */

static void unlock_object(void *arg)
{
    lock_release(&((struct object *)arg)->lock);
}

static void wait_once(void)
{
    bool is_fiber = enter_if_fiber();
    lock_acquire(&object.lock);
    if (object.permits > 0) {
        object.permits--;
        got++;
        lock_release(&object.lock);
        leave_if_fiber(is_fiber);
        return;
    }
    struct waiter own, *waiter = weft__waiter_begin(&own);
    waiters_add_last(&object.waiters, waiter);
    int result = weft__park(waiter, wait_id(&wait_model), unlock_object, &object, deadline);
    if (wait_gave_up(result)) {
        lock_acquire(&object.lock);
        waiters_remove(&object.waiters, waiter);
        lock_release(&object.lock);
    }
    got += result == 0;
    gave_up += result == -ETIMEDOUT;
    cancelled += result == -ECANCELED;
    leave_if_fiber(is_fiber);
}

static void give(void)
{
    lock_acquire(&object.lock);
    struct waiter *waiter = waiters_claim_first(&object.waiters, 0);
    object.permits += waiter == NULL;
    lock_release(&object.lock);
    given++;
    if (waiter != NULL)
        weft__wake(waiter);
}

static void run_giver(void *arg)
{
    give();
}

static void run_giver_of_two(void *arg)
{
    give();
    give();
}

static void run_canceler(void *arg)
{
    MODEL_CHECK(weft__cancel(&canceler, ECANCELED));
}

static void nothing(struct canceler *of)
{
}

static void run_waiter(void *arg)
{
    thread_word_set(arg);
    for (int i = 0; i < waits; i++)
        wait_once();
}

static void set_up_names(void)
{
    canceler = (struct canceler){.hold = nothing, .drop = nothing};
    weft__barrier.symmetric = false;
    waits = 1;
    deadline = WEFT_NEVER;
    model_name(&object, "object");
    model_name(&canceler, "canceler");
    model_name(&canceler.reason, "reason");
    model_name(&fiber.waiter.state, "fiber's state");
    model_name(&processors[0].head, "processor 1");
    model_name(&processors[1].head, "processor 2");
    model_name(&machines[0].thread.inside, "machine 1 inside");
    model_name(&machines[1].thread.inside, "machine 2 inside");
}

static void each_permit_once(void)
{
    MODEL_CHECK(given == got + object.permits);
    MODEL_CHECK(object.waiters == NULL && object.lock.state.value == 0);
}

/* Threads. */

static void threads_wait(void)
{
    set_up_names();
    model_thread("waiter 1", run_waiter, NULL, true);
    model_thread("waiter 2", run_waiter, NULL, true);
    model_thread("giver 1", run_giver, NULL, true);
    model_thread("giver 2", run_giver, NULL, true);
}

static void thread_has_a_deadline(void)
{
    set_up_names();
    deadline = weft__os_now_coarse() + 8192; /* as far as the model's wheel reaches */
    waits = 2;
    model_thread("waiter", run_waiter, NULL, true);
    model_thread("giver 1", run_giver, NULL, true);
    model_thread("giver 2", run_giver, NULL, true);
}

static void thread_is_cancelled(void)
{
    set_up_names();
    weft__bond_set(&foreigns[0].bond, &canceler);
    waits = 2;
    model_thread("waiter", run_waiter, &foreigns[0], true);
    model_thread("canceler", run_canceler, NULL, true);
    model_thread("giver", run_giver, NULL, true);
}

/* Fibers. */

static void fiber_waits(void *arg)
{
    for (int i = 0; i < waits; i++)
        wait_once();
    fiber_ended = true;
}

/* What an idle machine waits for. */
static bool anything_to_run(void)
{
    return fiber_ended || weft__inject_length() > 0;
}

static bool anything_to_fire(void)
{
    return anything_to_run() || processors[0].wheel.next.value != WHEEL_EMPTY ||
           processors[1].wheel.next.value != WHEEL_EMPTY;
}

/* A machine: runs the fiber when it finds it, until the fiber has ended. With `fires` the machine
 * also lets the deadline pass, at a time that the search chooses. */
static void run_machine_and(struct machine *machine, bool fires)
{
    struct processor *processor = machine->thread.processor;
    thread_word_set(machine);
    machine->thread.errno_address = weft__os_errno_address();
    machine->thread.cxx = weft__cxx_state();
    struct weft_fiber *next = dequeue(processor);
    while (next != NULL || !fiber_ended) {
        if (next != NULL)
            run(machine, next);
        next =
            next != NULL ? dequeue(processor) : NULL; /* the fiber may have been woken meanwhile */
        if (next == NULL)
            next = weft__take_injected(processor);
        for (int i = 0; next == NULL && fires && i < MACHINES; i++)
            if (weft__timers_fire(processor, &processors[i], 2 * deadline))
                next = dequeue(processor);
        if (next == NULL)
            model_wait_until(fires ? anything_to_fire : anything_to_run);
    }
}

static void run_machine(void *arg)
{
    run_machine_and(arg, false);
}

static void run_firing_machine(void *arg)
{
    run_machine_and(arg, true);
}

static void set_up_fiber(bool bound)
{
    set_up_names();
    weft__sched.processors = processors;
    weft__sched.processor_count.value = MACHINES;
    weft__sched.in_use.value = weft__sched.in_use_most.value = weft__sched.processor_count.value;
    fiber.function = fiber_waits;
    fiber.waiter.is_fiber = true;
    if (bound) {
        fiber.extra.value = &extra;
        weft__bond_begin(&fiber, &canceler);
    }
    for (int i = 0; i < MACHINES; i++) {
        weft__wheel_init(&processors[i].wheel, weft__os_now_coarse());
        processors[i].owner.value = &machines[i].thread;
        processors[i].turn.value = 1; /* no maintenance */
        machines[i].thread.processor = &processors[i];
        machines[i].thread.inside.value = 1;
    }
    MODEL_CHECK(ring_push_owner(&processors[0], &fiber));
}

static void fiber_is_woken(void)
{
    set_up_fiber(false);
    waits = 2;
    model_thread("machine 1", run_machine, &machines[0], true);
    model_thread("machine 2", run_machine, &machines[1], true);
    model_thread("giver", run_giver_of_two, NULL, true);
}

static void fiber_has_a_deadline(void)
{
    set_up_fiber(false);
    deadline = weft__os_now_coarse() + 8192; /* as far as the model's wheel reaches */
    model_thread("machine 1", run_machine, &machines[0], true);
    model_thread("machine 2", run_firing_machine, &machines[1], true);
    model_thread("giver", run_giver, NULL, true);
}

static void fiber_has_two_deadlines(void)
{
    fiber_has_a_deadline();
    waits = 2;
}

static void fiber_is_cancelled(void)
{
    set_up_fiber(true);
    model_thread("machine 1", run_machine, &machines[0], true);
    model_thread("canceler", run_canceler, NULL, true);
    model_thread("giver", run_giver, NULL, true);
}

static void fiber_is_cancelled_once(void)
{
    fiber_is_cancelled();
    waits = 2;
    model_thread("machine 2", run_machine, &machines[1], true);
}

static void fiber_has_all(void)
{
    set_up_fiber(true);
    deadline = weft__os_now_coarse() + 8192; /* as far as the model's wheel reaches */
    model_thread("machine 1", run_machine, &machines[0], true);
    model_thread("machine 2", run_firing_machine, &machines[1], true);
    model_thread("canceler", run_canceler, NULL, true);
    model_thread("giver", run_giver, NULL, true);
}

static const struct scenario scenarios[] = {
    {"threads wait", threads_wait, each_permit_once, 3, 1, 0},
    {"a thread has a deadline", thread_has_a_deadline, each_permit_once, 3, 1, 2},
    {"a thread is cancelled", thread_is_cancelled, each_permit_once, 3, 1, 0},
    {"a fiber is woken, twice", fiber_is_woken, each_permit_once, 3, 1, 0},
    {"a fiber has a deadline", fiber_has_a_deadline, each_permit_once, 3, 1, 0},
    {"a fiber has a deadline, twice", fiber_has_two_deadlines, each_permit_once, 3, 1, 0},
    {"a fiber is cancelled", fiber_is_cancelled, each_permit_once, 3, 1, 0},
    {"a fiber is cancelled in one of two waits", fiber_is_cancelled_once, each_permit_once, 2, 1,
     0},
    {"a fiber has a deadline and is cancelled", fiber_has_all, each_permit_once, 2, 1, 0},
};

MODEL_MAIN(scenarios)
