/*
 * seeded.c: the scheduler of test runs (weft/test.h): a seed makes all decisions, and time is
 * virtual.
 *
 * The runtime has one processor then and no monitor. What the seed decides:
 *
 *   choice   Before each choice all ready fibers (runnext, ring, inject queue) are gathered in one
 *            set, and one of them is drawn. So that no switch bypasses the choice, each yield and
 *            each park must go through the machine. Both do that every 61st turn (INJECT_EVERY),
 *            and here the turn of the processor is always a multiple of that.
 *   points   A machine has REQUEST_POINTS set for ever. So each entry into the runtime from fiber
 *            code goes through weft__handle_requests to weft__seeded_enter, where the fiber goes on
 *            or goes back to the set. By wake_wanted the same happens when it leaves the runtime.
 *            Calls that do not enter it when they need not wait have a test_point instead.
 *   clock    A variable. It moves when no fiber is ready, to the earliest deadline in the wheel.
 *   chances  What otherwise depends on real time (how long a waiter waits for a mutex) is drawn.
 *
 * On the paths that enter the runtime the ordinary mode pays nothing for all this: it hangs on
 * words that are read anyway. A test_point costs a load and a branch.
 *
 * How fibers are drawn. Each seed has one of two ways, since each finds bugs that the other misses.
 * FAIR draws anew among all ready fibers each time. STUBBORN draws a number for each fiber when it
 * becomes ready and takes the highest, so that a fiber with a low number falls far behind while the
 * others get far. (One of 16 choices is fair, so that no fiber is left behind for ever.) The seed
 * also decides how often a fiber goes back to the set at a point: never, now and then, often,
 * always.
 *
 * The set belongs to the machine that holds the processor. After weft_blocking there may be more
 * machines; they have no processor.
 *
 * No decision depends on addresses, fiber numbers or real time, and no random number is drawn that
 * is not needed: the same seed gives the same run, also in the same process.
 *
 * Rejected:
 *  - A virtual clock in os/os.h: the machine's own waits (idle.c, poller.c) are with the kernel.
 *  - A second loop for machines: what is tested would not be what runs elsewhere.
 */
#include "sched/check/seeded.h"

#include <weft/test.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "os/os.h"
#include "sched/check/test_point.h"
#include "sched/core/inject.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/chain.h"
#include "sched/fiber/fiber.h"
#include "sched/poll/descriptor.h"
#include "sched/poll/poller.h"
#include "sched/runtime/maintenance.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"

#define CLOCK_BEGIN (1000 * WEFT_S)
#define EVENT_TIME WEFT_MS          /* real time for descriptors, before the clock jumps */
#define OUTSIDE_LOOK (50 * WEFT_US) /* between looks for fibers that return from C code */
#define STARVED_LOOK WEFT_MS        /* between retries of fibers that lack memory */
#define YIELDED_STEP WEFT_MS        /* of the clock, if all fibers yield and none has a deadline */

enum {
    READY_FIRST = 64,   /* places in the set at first */
    STUBBORN_LOOK = 64, /* entries among which a stubborn seed takes the highest number */
    FAIR_ONCE_IN = 16,  /* choices of a stubborn seed */
    YIELDS_EACH = 1000, /* yields in a row by each ready fiber, before the clock moves */
    ALWAYS = 256,       /* the rate of an event that always happens */
    OTHERS_MOST = 256,  /* threads from before the run; with more, no deadlock is reported */
};

struct entry {
    struct weft_fiber *fiber;
    uint32_t number; /* drawn for it by a stubborn seed */
};

static struct {
    uint64_t seed;
    struct prng prng;
    bool stubborn;
    bool point;              /* the fiber that left the processor last did so at a point */
    bool waited;             /* for descriptors, since a fiber was last ready */
    uint32_t rate;           /* how often in ALWAYS a fiber goes back to the set at a point */
    uint64_t yields;         /* in a row */
    int others[OTHERS_MOST]; /* threads from before the run, by id */
    uint32_t other_count;
    struct entry *ready;
    uint32_t count, room;
    uint64_t trace;
    atomic_i64 clock;
    atomic_u32 panics;
} run;

/* Random decisions. */

static void trace(uint64_t what)
{
    run.trace = (run.trace ^ what) * 0x100000001b3u;
}

static bool chance(uint32_t rate)
{
    bool yes = rate >= ALWAYS || (rate > 0 && (prng_next(&run.prng) & (ALWAYS - 1)) < rate);
    trace(yes);
    return yes;
}

bool weft__seeded_chance(uint32_t times)
{
    return weft_self() != NULL && chance(ALWAYS / times);
}

/* The clock. */

int64_t weft__seeded_now(void)
{
    return atomic_i64_load_relaxed(&run.clock);
}

int64_t weft__seeded_deadline(int64_t deadline)
{
    int64_t left = deadline - weft__seeded_now(), now = weft__os_now();
    return deadline != WEFT_NEVER && left < WEFT_NEVER - now ? now + left : WEFT_NEVER;
}

/* Fires the timers that are due. If none is and `jump`, the clock moves to the next deadline. */
static void fire(struct processor *processor, bool jump)
{
    int64_t clock = weft__seeded_now();
    if (weft__timers_fire_exact(processor, &clock, jump) > 0)
        trace((uint64_t)clock);
    atomic_i64_store_relaxed(&run.clock, clock);
}

/* The set of ready fibers. */

/* Makes room for one more fiber. False without memory: then the remaining fibers stay in their
 * queues until the next choice. There is room for some from the beginning of the run. */
static bool make_room(void)
{
    if (run.count < run.room)
        return true;
    uint32_t room = run.room == 0 ? READY_FIRST : 2 * run.room;
    struct entry *ready = weft__os_alloc(room * sizeof *ready);
    if (ready == NULL)
        return false;
    for (uint32_t i = 0; i < run.count; i++)
        ready[i] = run.ready[i];
    weft__os_free(run.ready);
    run.ready = ready;
    run.room = room;
    return true;
}

static void add(struct weft_fiber *fiber)
{
    run.ready[run.count++] = (struct entry){fiber, run.stubborn ? prng_next(&run.prng) : 0};
}

static void gather(struct processor *processor)
{
    struct weft_fiber *fiber;
    while (make_room()) {
        if ((fiber = runnext_swap_owner(processor, NULL)) == NULL &&
            (fiber = ring_pop_owner(processor)) == NULL) {
            struct chain chain = weft__inject_take_any(run.room - run.count);
            if (chain.first == NULL)
                return;
            while ((fiber = chain_take(&chain)) != NULL)
                add(fiber);
        } else {
            add(fiber);
        }
    }
    must(run.count > 0);
}

static uint32_t highest(void)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < run.count && i < STUBBORN_LOOK; i++)
        if (run.ready[i].number > run.ready[best].number)
            best = i;
    return best;
}

static struct weft_fiber *draw(void)
{
    uint32_t place = 0;
    if (run.count > 1) {
        bool fair = !run.stubborn || prng_below(&run.prng, FAIR_ONCE_IN) == 0;
        place = fair ? prng_below(&run.prng, run.count) : highest();
    }
    trace((uint64_t)run.count << 32 | place);
    struct weft_fiber *fiber = run.ready[place].fiber;
    run.ready[place] = run.ready[--run.count];
    return fiber;
}

/* Choosing. */

static bool timers_armed(const struct processor *processor)
{
    return atomic_i64_load_relaxed(&processor->wheel.next) != WHEEL_EMPTY;
}

/* Called when no fiber is ready: waits for an event or moves the clock. False: only the kernel or
 * another thread can make a fiber ready. */
static bool wait_for_something(struct processor *processor)
{
    if (poller_used() && weft__poller_poll())
        return true;
    if (unlikely(atomic_u32_load_relaxed(&weft__sched.starving) & STARVING_TIMED)) {
        weft__os_sleep_until(weft__os_now() + STARVED_LOOK);
        weft__unstarve(1);
        return true;
    }
    if (!timers_armed(processor))
        return false;
    if (atomic_u32_load_seq_cst(&weft__sched.lost) > 0) {
        weft__poller_wait(weft__os_now() + OUTSIDE_LOOK);
    } else if (weft__inject_length() > 0) {
        return true; /* the last fiber without a processor has just come back: handoff.c */
    } else if (!run.waited && weft__descriptor_waits() > 0) {
        run.waited = true;
        weft__poller_wait(weft__os_now() + EVENT_TIME);
    } else {
        fire(processor, true);
    }
    return true;
}

/* Sets the turn so that yield and park go to the machine, as they do every INJECT_EVERYth time. */
static void set_turn(struct processor *processor)
{
    uint32_t turn = atomic_u32_load_relaxed(&processor->turn);
    if (turn > UINT32_MAX - 2 * INJECT_EVERY)
        turn = 0;
    /* One less: the machine counts. */
    atomic_u32_store_relaxed(&processor->turn, (turn / INJECT_EVERY + 1) * INJECT_EVERY - 1);
}

/* Moves the clock if all ready fibers have only yielded for long: they may wait for the clock in a
 * loop. */
static void count_yields(struct machine *machine)
{
    if (machine->action != ACTION_YIELD)
        run.yields = 0;
    else if (!run.point && ++run.yields >= (uint64_t)YIELDS_EACH * run.count) {
        run.yields = 0;
        if (timers_armed(machine->thread.processor))
            fire(machine->thread.processor, true);
        else /* no deadline: they may compare the time themselves */
            atomic_i64_store_relaxed(&run.clock, weft__seeded_now() + YIELDED_STEP);
    }
    run.point = false;
}

struct weft_fiber *weft__seeded_choose(struct machine *machine)
{
    struct processor *processor = machine->thread.processor;
    for (;;) {
        gather(processor);
        if (timers_armed(processor)) {
            fire(processor, false);
            gather(processor);
        }
        if (run.count > 0)
            break;
        if (!wait_for_something(processor))
            return NULL;
    }
    count_yields(machine);
    run.waited = false;
    set_turn(processor);
    return draw();
}

/* Points. */

/* Goes back to the set. In fiber code, inside the runtime. */
static void go_back(struct thread *thread)
{
    run.point = true;
    weft__machine_switch((struct machine *)thread, ACTION_YIELD);
}

struct thread *weft__seeded_enter(struct thread *thread)
{
    if (thread->spins == 0 && chance(run.rate)) {
        go_back(thread);
        thread = thread_self();
    }
    thread->wake_wanted = chance(run.rate);
    return thread;
}

/* Goes back to the set as a call of weft does. In fiber code, outside the runtime. */
static void point(struct thread *thread)
{
    if (thread->spins != 0)
        return;
    must(!atomic_u32_load_relaxed(&thread->inside));
    atomic_u32_store_relaxed(&thread->inside, 1);
    go_back(thread);
    thread = thread_self();
    thread->wake_wanted = false;
    atomic_u32_store_release(&thread->inside, 0); /* as runtime_leave */
}

bool weft__seeded_wake(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL || thread->processor == NULL)
        return false; /* not a machine, or one that has given its processor up */
    if (thread->fiber == NULL)
        return true; /* this machine has the only processor */
    if (atomic_u32_load_relaxed(&thread->inside))
        return false; /* it is about to give it up */
    point(thread);
    return true;
}

void weft__seeded_point(void)
{
    struct thread *thread = thread_self();
    if (thread != NULL && thread->fiber != NULL && thread->processor != NULL && chance(run.rate))
        point(thread);
}

/* A run. */

/* Maps neighbouring seeds to unrelated numbers (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int weft__seeded_begin(uint64_t seed, bool chaos)
{
    static const uint32_t rates[] = {0, ALWAYS / 16, ALWAYS / 4, ALWAYS};
    if (!make_room()) /* so that at least one fiber can always be gathered */
        return -ENOMEM;
    run.seed = seed;
    prng_seed(&run.prng, mix(seed));
    run.stubborn = prng_below(&run.prng, 2) != 0;
    run.rate = rates[prng_below(&run.prng, sizeof rates / sizeof rates[0])];
    if (chaos)
        run.rate = ALWAYS;
    run.point = run.waited = false;
    run.yields = 0;
    run.trace = 0;
    run.other_count = weft__os_other_threads(run.others, OTHERS_MOST);
    atomic_i64_store_relaxed(&run.clock, CLOCK_BEGIN);
    atomic_u32_store_relaxed(&run.panics, 0);
    atomic_u32_store_relaxed(&weft__testing, TESTING_SEEDED);
    return 0;
}

struct seeded_result weft__seeded_end(void)
{
    atomic_u32_store_relaxed(&weft__testing, TESTING_NOT);
    weft__os_free(run.ready);
    run.ready = NULL;
    run.count = run.room = 0;
    return (struct seeded_result){run.trace, atomic_u32_load_relaxed(&run.panics)};
}

uint64_t weft__seeded_prng_seed(void)
{
    return mix(run.seed + 1);
}

uint32_t weft__seeded_other_threads(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < run.other_count; i++)
        count += weft__os_thread_lives(run.others[i]);
    return count;
}

void weft__seeded_panicked(void)
{
    if (seeded())
        atomic_u32_add_relaxed(&run.panics, 1);
}

int weft_test_seed(uint64_t *seed)
{
    if (seed == NULL)
        return -EINVAL;
    if (!seeded())
        return -EAGAIN;
    *seed = run.seed;
    return 0;
}
