/*
 * idle_model.c: idle machines (sched/core/idle.c), with the whole loop of machine.c, steal.c and
 * poller.c: threads make fibers ready while machines search, retire, sleep and wake.
 *
 * The deadline of the watcher never passes here: a ready fiber must be found by the protocol alone.
 * What must hold: when no thread can go on, every fiber has run, once.
 */
#include "explore.h"
#include "sched/core/inject.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/maintenance.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"

enum { FIBERS = 3, PROCESSORS = 3, MACHINES = 4 };

static struct processor processors[PROCESSORS];
static struct weft_fiber fibers[FIBERS];
static int ran[FIBERS];
static int used;

static void make_ready(int index)
{
    weft__ready(&fibers[index], false);
}

static void run_readier(void *arg)
{
    make_ready((int)(intptr_t)arg);
}

static void only_runs(void *arg)
{
    ran[(intptr_t)arg]++;
}

/* Makes two more fibers ready, from inside; then blocks its thread for good. */
static void starts_two_and_blocks(void *arg)
{
    ran[(intptr_t)arg]++;
    struct thread *thread = thread_self();
    runtime_enter(thread);
    make_ready(1);
    make_ready(2);
    runtime_leave(thread);
    (void)model_wait("blocks in C code", fibers, MODEL_NO_DEADLINE);
}

static void only_blocks(void *arg)
{
    ran[(intptr_t)arg]++;
    (void)model_wait("blocks in C code", fibers, MODEL_NO_DEADLINE);
}

static void starts_one_and_blocks(void *arg)
{
    struct thread *thread = thread_self();
    runtime_enter(thread);
    make_ready(2);
    runtime_leave(thread);
    only_blocks(arg);
}

static bool begun;

static bool one_is_queued(void)
{
    return weft__inject_length() > 0;
}

/* From here on the search chooses the order; ends when another fiber is queued. */
static void begins(void *arg)
{
    ran[(intptr_t)arg]++;
    begun = true;
    model_calm(false);
    model_wait_until(one_is_queued);
}

static bool has_begun(void)
{
    return begun;
}

static void set_up_idle(bool symmetric, int processor_count)
{
    weft__barrier.symmetric = symmetric;
    weft__sched.processors = processors;
    weft__sched.processor_count.value = (uint32_t)processor_count;
    weft__sched.in_use.value = weft__sched.in_use_most.value = weft__sched.processor_count.value;
    weft__sched.sleep_until.value = NO_WATCHER;
    weft__sched.doze_until.value = WEFT_NEVER;
    weft__sched.maintenance_time.value = WEFT_NEVER;
    weft__sched.idle_count.value = (uint32_t)processor_count;
    weft__sched.max_machines = MACHINES;
    for (int i = 0; i < processor_count; i++) {
        weft__wheel_init(&processors[i].wheel, weft__os_now_coarse());
        processors[i].turn.value = 1; /* no maintenance */
        processors[i].index = (uint32_t)i;
        processors[i].idle_next = weft__sched.idle_processors;
        weft__sched.idle_processors = &processors[i];
    }
    for (int i = 0; i < FIBERS; i++) {
        fibers[i].function = only_runs;
        fibers[i].arg = (void *)(intptr_t)i;
        fibers[i].waiter.is_fiber = true;
    }
    model_name(&processors[0].head, "processor 1");
    model_name(&processors[0].owner, "owner 1");
    model_name(&processors[1].head, "processor 2");
    model_name(&processors[1].owner, "owner 2");
    model_name(&weft__sched.lock, "sched.lock");
    model_name(&weft__sched.idle_count, "idle_count");
    model_name(&weft__sched.spinning, "spinning");
    model_name(&weft__sched.sleep_until, "sleep_until");
    model_name(&weft__sched.watcher, "watcher");
}

static void all_have_run(void)
{
    for (int i = 0; i < used; i++)
        MODEL_CHECK(ran[i] == 1);
    MODEL_CHECK(weft__sched.spinning.value == 0);
}

static void two_readiers(void (*function)(void *))
{
    used = used > 2 ? used : 2;
    model_thread("readier 1", function, (void *)0, true);
    model_thread("readier 2", function, (void *)1, true);
}

static void one_processor(void)
{
    set_up_idle(false, 1);
    two_readiers(run_readier);
}

static void one_processor_symmetric(void)
{
    one_processor();
    weft__barrier.symmetric = true;
}

static void two_processors(void)
{
    set_up_idle(false, 2);
    two_readiers(run_readier);
}

static void from_inside(void)
{
    set_up_idle(false, 2);
    used = FIBERS;
    fibers[0].function = starts_two_and_blocks;
    model_thread("readier", run_readier, (void *)0, true);
}

/* One machine searches, and retires, while the other gets a fiber. */
static void from_inside_and_outside(void)
{
    two_processors();
    used = FIBERS;
    fibers[0].function = starts_one_and_blocks;
}

/* The machine that searches finds another fiber, and never comes back. */
static void found_other_work(void)
{
    set_up_idle(false, 3);
    used = FIBERS;
    fibers[0].function = starts_one_and_blocks;
    fibers[1].function = only_blocks;
    two_readiers(run_readier);
}

static uint32_t started;

/* Starts that many machines, which search. */
static void start_machines(uint32_t count)
{
    started = count;
    for (uint32_t i = 0; i < count; i++) {
        struct processor *processor = weft__sched.idle_processors;
        weft__sched.idle_processors = processor->idle_next;
        weft__sched.idle_count.value--;
        weft__sched.spinning.value++;
        MODEL_CHECK(weft__machine_start(processor, false) == 0);
    }
}

/* Both machines are about to retire; the first that gets a fiber never comes back. */
static void two_retire(void)
{
    set_up_idle(false, 2);
    fibers[0].function = only_blocks;
    start_machines(2);
    two_readiers(run_readier);
}

static bool all_sleep(void)
{
    uint32_t sleepers = 0;
    for (struct machine *machine = weft__sched.idle_machines; machine != NULL;
         machine = machine->idle_next)
        sleepers++;
    return begun || (sleepers == started && weft__sched.spinning.value == 0);
}

static void run_late_readier(void *arg)
{
    model_wait_until(all_sleep);
    begun = true;
    model_calm(false);
    run_readier(arg);
}

/* As found_other_work, after all machines have slept: one is the watcher. */
static void found_other_work_watched(void)
{
    set_up_idle(false, 3);
    used = FIBERS;
    fibers[0].function = starts_one_and_blocks;
    fibers[1].function = only_blocks;
    start_machines(3);
    model_calm(true);
    two_readiers(run_late_readier);
}

/* A processor is retired, by its machine or while it is idle, and comes back. */

static void run_setter(void *number)
{
    model_wait_until(has_begun);
    weft__processors_set((uint32_t)(intptr_t)number);
}

/* Makes two more fibers ready, from inside; its machine looks around next. */
static void starts_two(void *arg)
{
    struct thread *thread = runtime_enter(thread_self());
    ran[(intptr_t)arg]++;
    weft__ready(&fibers[1], true);
    make_ready(2);
    weft__sched.epoch.value++;
    begun = true;
    model_calm(false);
    runtime_leave(thread);
}

static void retires(void)
{
    set_up_idle(false, 2);
    used = FIBERS;
    fibers[0].function = starts_two;
    MODEL_CHECK(ring_push_owner(weft__sched.idle_processors, &fibers[0]));
    start_machines(2);
    model_calm(true);
    model_thread("setter 1", run_setter, (void *)1, true);
}

static void retires_and_comes_back(void)
{
    retires();
    model_thread("setter 2", run_setter, (void *)2, true);
}

/* Makes one more fiber ready, from inside; then blocks its thread for good. */
static void starts_third_and_blocks(void *arg)
{
    begun = true;
    model_calm(false);
    starts_one_and_blocks(arg);
}

/* The machine of the only processor in use does not come back. */
static void one_more_is_used(void)
{
    set_up_idle(false, 2);
    used = 1;
    fibers[0].function = starts_third_and_blocks;
    MODEL_CHECK(ring_push_owner(weft__sched.idle_processors, &fibers[0]));
    start_machines(1);
    struct processor *processor = weft__sched.retired = weft__sched.idle_processors;
    weft__sched.idle_processors = NULL;
    weft__sched.idle_count.value = 0;
    weft__sched.in_use.value = weft__sched.in_use_most.value = processor->retired.value = 1;
    model_calm(true);
    model_thread("setter", run_setter, (void *)2, true);
}

static void third_has_run(void)
{
    MODEL_CHECK(ran[0] == 1 && ran[2] == 1);
}

static void none_is_missing(void)
{
    uint32_t retired = 0, idle = 0;
    all_have_run();
    for (const struct processor *one = weft__sched.retired; one != NULL; one = one->idle_next)
        retired++;
    for (const struct processor *one = weft__sched.idle_processors; one; one = one->idle_next)
        idle++;
    MODEL_CHECK(idle == weft__sched.idle_count.value && idle == weft__sched.in_use.value);
    MODEL_CHECK(idle + retired == weft__sched.processor_count.value && idle > 0);
}

/* The only machine that may exist goes to sleep while another thread tries to make one more. */

static void run_readier_then(void *arg)
{
    model_wait_until(has_begun);
    run_readier(arg);
}

static void run_planner(void *arg)
{
    model_wait_until(has_begun);
    weft__maintenance_by(1);
    weft__timers_notify(1);
}

static void one_machine(void)
{
    set_up_idle(false, 2);
    used = 2;
    fibers[0].function = begins;
    MODEL_CHECK(ring_push_owner(weft__sched.idle_processors, &fibers[0]));
    start_machines(1);
    weft__sched.max_machines = 1;
    model_calm(true);
    model_thread("readier 1", run_readier_then, (void *)1, true);
}

static void no_thread(void)
{
    one_machine();
    used = 3;
    model_thread("readier 2", run_readier_then, (void *)2, true);
}

static void no_thread_and_a_timer(void)
{
    one_machine();
    model_thread("planner", run_planner, NULL, true);
}

/* An event is planned. A dozing machine is in charge of it, and the watcher sleeps past it. */

#define EVENT INT64_C(1000000000000)

static void event_planned(uint32_t machines)
{
    set_up_idle(false, 3);
    weft__sched.maintenance_time.value = EVENT;
    start_machines(machines);
}

static void dozes(void)
{
    event_planned(2);
    used = 0;
}

/* The dozing machine gets a fiber, and dozes again. */
static void dozes_again(void)
{
    event_planned(2);
    used = 1;
    model_calm(true);
    model_thread("readier", run_late_readier, (void *)0, true);
}

/* The fiber does not come back. */
static void dozes_and_leaves(void)
{
    dozes_again();
    fibers[0].function = only_blocks;
}

/* Two fibers do not come back. */
static void two_leave(uint32_t machines)
{
    event_planned(machines);
    used = 2;
    fibers[0].function = fibers[1].function = only_blocks;
    model_calm(true);
    two_readiers(run_late_readier);
}

static void all_dozers_leave(void)
{
    two_leave(3);
}

/* No machine is left: one must be started to watch. */
static void all_leave(void)
{
    two_leave(2);
}

/* One fiber blocks in front of another, which blocks too: the watcher may have to run it. */
static void stuck_behind(void)
{
    dozes_and_leaves();
    fibers[0].function = starts_one_and_blocks;
    fibers[2].function = only_blocks;
}

static void event_is_met(void)
{
    all_have_run();
    MODEL_CHECK(model_next_deadline() <= EVENT);
}

/* Two threads plan maintenance: the earlier time stands. */

static void run_planner_of(void *time)
{
    weft__maintenance_by((intptr_t)time);
}

static void two_plan(void)
{
    set_up_idle(false, 1);
    model_thread("planner 1", run_planner_of, (void *)1, true);
    model_thread("planner 2", run_planner_of, (void *)2, true);
}

static void earlier_stands(void)
{
    MODEL_CHECK(weft__sched.maintenance_time.value == 1);
}

static const struct scenario scenarios[] = {
    {"two fibers, one processor", one_processor, all_have_run, 3, 1, 0},
    {"two fibers, one processor, no membarrier", one_processor_symmetric, all_have_run, 3, 1, 0},
    {"two fibers, two processors", two_processors, all_have_run, 2, 1, 0},
    {"two fibers behind one that blocks", from_inside, all_have_run, 3, 1, 0},
    {"one behind a fiber that blocks, one from outside", from_inside_and_outside, all_have_run, 2,
     1, 0},
    {"the machine that searches finds another fiber", found_other_work, all_have_run, 1, 1, 0},
    {"it finds another fiber, and one machine watches", found_other_work_watched, all_have_run, 1,
     1, 0},
    {"no thread can be made", no_thread, all_have_run, 3, 1, 0},
    {"no thread can be made, and there is a timer", no_thread_and_a_timer, all_have_run, 3, 1, 0},
    {"a machine dozes until an event", dozes, event_is_met, 2, 1, 0},
    {"it is woken, and dozes again", dozes_again, event_is_met, 3, 1, 0},
    {"it is woken, and does not come back", dozes_and_leaves, event_is_met, 2, 1, 1},
    {"both dozing machines leave", all_dozers_leave, event_is_met, 1, 1, 0},
    {"one blocks in front of another", stuck_behind, event_is_met, 1, 1, 1},
    {"no machine is left", all_leave, event_is_met, 1, 1, 0},
    {"two threads plan maintenance", two_plan, earlier_stands, 2, 0, 0},
    {"a processor is retired", retires, none_is_missing, 2, 1, 0},
    {"a processor is retired and comes back", retires_and_comes_back, none_is_missing, 1, 1, 0},
    {"one more processor is used", one_more_is_used, third_has_run, 2, 1, 0},
    {"both machines retire", two_retire, all_have_run, 1, 0, 0},
};

MODEL_MAIN(scenarios)
