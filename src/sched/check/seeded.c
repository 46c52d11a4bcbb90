/*
 * seeded.c: the scheduler of test runs (weft/test.h): the seed decides who runs, and time is made up.
 *
 * The runtime has one processor then, no monitor, and:
 *
 *   choice   All that is ready (runnext, ring, inject queue) is gathered in one set before each choice, and one
 *            of the set is drawn. So that nothing passes by the choice, each yield and each park must go through
 *            the machine: both do that every 61st turn (INJECT_EVERY), and here the turn of the processor is
 *            always a multiple of that.
 *   points   A machine has REQUEST_POINTS set for ever. So each entry into the runtime from fiber code comes
 *            to weft__handle_requests, and from there to weft__seeded_enter: the seed decides whether the fiber goes on, or
 *            goes back into the set; and by wake_wanted the same when it leaves the runtime. Calls that do not
 *            enter it if they need not wait have a test_point instead.
 *   clock    A variable. It moves when nobody is ready, to the earliest deadline in the wheel.
 *   chances  What depends on real time elsewhere (how long somebody has waited for a mutex) is drawn by lot.
 *
 * In the common mode all this costs nothing on the paths that enter the runtime, since it hangs on words that are
 * looked at anyway; a test_point costs a load and a branch.
 *
 * Who is drawn. Each seed has one of two ways, since each finds what the other misses: FAIR draws anew among all
 * each time. STUBBORN draws a number for each fiber when it becomes ready, and takes the highest: one that drew
 * badly is left behind for long, while the others come far. (Of 16 choices one is a fair one, so that nobody is
 * left behind for ever.) How often others go first at a point is the seed's too: never, now and then, often,
 * always.
 *
 * The set belongs to the machine that holds the processor. There may be more machines than one, after
 * weft_blocking; they have no processor.
 *
 * Nothing here depends on addresses, numbers of fibers or real time, and no lots are drawn in vain: so the same seed
 * gives the same run, in the same process too.
 *
 * Rejected: a virtual clock in os/os.h: the machine's own waits (idle.c, poller.c) are with the kernel. A second
 * loop for machines: what is tested would not be what runs elsewhere.
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
#define EVENT_TIME WEFT_MS          /* for descriptors, before the clock jumps past them */
#define OUTSIDE_LOOK (50 * WEFT_US) /* how often one looks whether somebody is back from C code */
#define STARVED_LOOK WEFT_MS
#define YIELDED_STEP WEFT_MS /* of the clock, if all only yield and there is no deadline */

enum {
    READY_FIRST = 64,   /* places in the set at first */
    STUBBORN_LOOK = 64, /* of how many it takes the highest number */
    FAIR_ONCE_IN = 16,  /* choices of a stubborn seed */
    YIELDS_EACH = 1000, /* of each that is ready, in a row, before the clock moves none the less */
    ALWAYS = 256,       /* as a rate */
    STRANGERS_MOST = 256, /* with more a deadlock is not noticed */
};

struct entry {
    struct weft_fiber *fiber;
    uint32_t number; /* that it drew */
};

static struct {
    uint64_t seed;
    struct prng prng;
    bool stubborn;
    bool point;      /* the fiber that left the processor last did so at a point */
    bool waited;     /* for descriptors, since something was ready */
    uint32_t rate;   /* in 256: how often others go first at a point */
    uint64_t yields; /* in a row */
    int strangers[STRANGERS_MOST];
    uint32_t stranger_count;
    struct entry *ready;
    uint32_t count, room;
    uint64_t trace;
    atomic_i64 clock;
    atomic_u32 panics;
} run;

/* Lots. */

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

/* Fires what is due. If that is nothing and `jump`, the clock moves to the next deadline. */
static void fire(struct processor *processor, bool jump)
{
    int64_t clock = weft__seeded_now();
    if (weft__timers_fire_exact(processor, &clock, jump) > 0)
        trace((uint64_t)clock);
    atomic_i64_store_relaxed(&run.clock, clock);
}

/* The set of those who are ready. */

/* Room for one more; false without memory: then some are not in the set yet, and wait where they are. There is some
 * from the beginning of the run. */
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

/* Nobody is ready. False: only the system, or a thread, can change that. */
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
        return true; /* the last that was lost has just come back: handoff.c */
    } else if (!run.waited && weft__descriptor_waits() > 0) {
        run.waited = true;
        weft__poller_wait(weft__os_now() + EVENT_TIME);
    } else {
        fire(processor, true);
    }
    return true;
}

/* After which yield and park go to the machine, as every INJECT_EVERYth time. */
static void set_turn(struct processor *processor)
{
    uint32_t turn = atomic_u32_load_relaxed(&processor->turn);
    if (turn > UINT32_MAX - 2 * INJECT_EVERY)
        turn = 0;
    /* One less: the machine counts. */
    atomic_u32_store_relaxed(&processor->turn, (turn / INJECT_EVERY + 1) * INJECT_EVERY - 1);
}

/* Fibers that yield until something happens keep the clock from moving: at some time it must. */
static void count_yields(struct machine *machine)
{
    if (machine->action != ACTION_YIELD)
        run.yields = 0;
    else if (!run.point && ++run.yields >= (uint64_t)YIELDS_EACH * run.count) {
        run.yields = 0;
        if (timers_armed(machine->thread.processor))
            fire(machine->thread.processor, true);
        else /* they may look at the clock */
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

/* In fiber code, inside the runtime. */
static void let_others(struct thread *thread)
{
    run.point = true;
    weft__machine_switch((struct machine *)thread, ACTION_YIELD);
}

struct thread *weft__seeded_enter(struct thread *thread)
{
    if (thread->spins == 0 && chance(run.rate)) {
        let_others(thread);
        thread = thread_self();
    }
    thread->wake_wanted = chance(run.rate);
    return thread;
}

/* In fiber code, outside the runtime. */
static void point(struct thread *thread)
{
    if (thread->spins != 0)
        return;
    must(!atomic_u32_load_relaxed(&thread->inside));
    atomic_u32_store_relaxed(&thread->inside, 1);
    let_others(thread);
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
        return true; /* the processor that there is, is in its hand */
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

/* Neighbours become strangers. */
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
    if (!make_room()) /* so that one at least can always be gathered */
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
    run.stranger_count = weft__os_other_threads(run.strangers, STRANGERS_MOST);
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
    for (uint32_t i = 0; i < run.stranger_count; i++)
        count += weft__os_thread_lives(run.strangers[i]);
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
