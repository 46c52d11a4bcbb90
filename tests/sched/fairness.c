/*
 * fairness.c: each ready fiber runs: behind fibers that wake each other, yield or spin, and when
 * the ring overflows.
 *
 * A fiber that never runs shows as a count that is too high where turns can be counted, otherwise
 * as the time limit of the test.
 */
#include "everywhere.h"
#include "fibers.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/core/inject.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/maintenance.h"
#include "sched/runtime/thread.h"
#include "sched/time/ticks.h"

enum { SPINNERS_MOST = 8 };

/* Two fibers wake each other, always by runnext; a third one waits in the ring. */

enum { ROUNDS_MOST = 100000, ROUNDS_FAIR = 1000 };

static struct {
    weft_wg turns[2];
    int64_t rounds, rounds_most, rounds_seen;
    bool over;
} pair;

static void ping(void *arg)
{
    size_t mine = (size_t)(uintptr_t)arg;
    bool over = false;
    while (!over) {
        CHECK_EQ(weft_wg_wait(&pair.turns[mine]), 0);
        CHECK_EQ(weft_wg_init(&pair.turns[mine], 1), 0);
        over = pair.over || ++pair.rounds == pair.rounds_most;
        weft_wg_done(&pair.turns[1 - mine]);
    }
}

static void end_pair(void *arg)
{
    pair.rounds_seen = pair.rounds;
    pair.over = true;
}

/* With an argument the third fiber can be joined. */
static void spawn_pair(void *arg)
{
    weft_fiber *fibers[2], *behind = NULL;
    pair.over = false;
    pair.rounds = 0;
    pair.rounds_most = arg != NULL ? INT64_MAX : ROUNDS_MOST;
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(weft_wg_init(&pair.turns[i], 1), 0);
        CHECK_EQ(weft_spawn(&fibers[i], ping, (void *)i, NULL), 0);
    }
    weft_yield(); /* both wait now */
    CHECK_EQ(weft_spawn(arg != NULL ? &behind : NULL, end_pair, NULL, NULL), 0);
    weft_wg_done(&pair.turns[0]); /* moves the third fiber from runnext into the ring */
    CHECK_EQ(weft_join(fibers[0]), 0);
    CHECK_EQ(weft_join(fibers[1]), 0);
    if (behind != NULL)
        CHECK_EQ(weft_join(behind), 0);
}

static void a_pair_does_not_starve_the_ring(void)
{
    on_processors(1, spawn_pair, NULL);
    CHECK(pair.over);
    CHECK(pair.rounds_seen < ROUNDS_FAIR);
}

static void spawn_joinable(void *arg)
{
    spawn_pair(&pair);
}

/* A fiber that can be joined is deferrable, but not for ever: otherwise the test does not end. */
static void a_pair_does_not_starve_one_that_is_to_be_joined(void)
{
    on_processors(1, spawn_joinable, NULL);
    CHECK(pair.over);
}

/* Also without the monitor, which measures the time and is the second thread to be started. */
static void nor_without_a_monitor(void)
{
    weft__os_fail(OS_THREAD, 2, true);
    on_processors(1, spawn_joinable, NULL);
    weft__os_fail(OS_THREAD, 0, false);
    CHECK(pair.over);
}

/* More joinable fibers than the ring holds yield until all have begun. */

enum { MEETING = 600, MEETING_YIELDS_MOST = 10 * 1000 * 1000 };

static struct {
    int64_t begun, yields;
} meeting;

static void meet(void *arg)
{
    meeting.begun++;
    for (; meeting.begun < MEETING; weft_yield())
        CHECK(++meeting.yields < MEETING_YIELDS_MOST);
}

static void call_meeting(void *arg)
{
    run_fibers(MEETING, meet, NULL);
}

static void all_begin_while_others_yield(void)
{
    on_processors(1, call_meeting, NULL);
    CHECK_EQ(meeting.begun, MEETING);
}

/* A fiber yields behind many joinable fibers, each of which begins an endless game of its own. */

enum { GAMES = 20, BYSTANDER_TURNS = 20, ROUNDS_BEHIND_EACH = 40000 };

static struct {
    struct game {
        weft_wg turns[2];
    } games[GAMES];
    int64_t rounds, seen, most;
    bool over;
} crowd_of_games;

static void play(struct game *game, int side)
{
    while (!crowd_of_games.over) {
        CHECK_EQ(weft_wg_wait(&game->turns[side]), 0);
        CHECK_EQ(weft_wg_init(&game->turns[side], 1), 0);
        crowd_of_games.rounds++;
        weft_wg_done(&game->turns[1 - side]);
    }
}

static void play_second(void *arg)
{
    play(arg, 1);
}

static void play_first(void *arg)
{
    struct game *game = arg;
    CHECK_EQ(weft_wg_init(&game->turns[0], 0), 0);
    CHECK_EQ(weft_wg_init(&game->turns[1], 1), 0);
    CHECK_EQ(weft_go(play_second, game), 0);
    play(game, 0);
}

static void stand_by(void *arg)
{
    for (int i = 0; i < BYSTANDER_TURNS; i++) {
        int64_t since = crowd_of_games.rounds - crowd_of_games.seen;
        if (since > crowd_of_games.most)
            crowd_of_games.most = since;
        crowd_of_games.seen = crowd_of_games.rounds;
        weft_yield();
    }
    crowd_of_games.over = true;
}

static void begin_games(void *arg)
{
    weft_fiber *fibers[GAMES];
    for (int i = 0; i < GAMES; i++)
        CHECK_EQ(weft_spawn(&fibers[i], play_first, &crowd_of_games.games[i], NULL), 0);
    CHECK_EQ(weft_go(stand_by, NULL), 0);
    join_all(fibers, GAMES);
}

static void a_bystander_has_its_turns(void)
{
    on_processors(1, begin_games, NULL);
    CHECK(crowd_of_games.most > 0 && crowd_of_games.most < GAMES * ROUNDS_BEHIND_EACH);
}

enum { JOINS = 100 };

static struct {
    int64_t ran;
    uint32_t begun, most;
} fork_join;

static void count_one(void *arg)
{
    fork_join.ran++;
}

/* The ring holds the fiber itself and as many others as a join searches, but one, which is in
 * runnext. */
static int64_t ran_before_join_returns(void)
{
    int64_t before = fork_join.ran;
    weft_fiber *first = spawn(count_one, NULL);
    go_many(JOIN_LOOK, count_one, NULL);
    CHECK_EQ(weft_join(first), 0);
    return fork_join.ran - before;
}

static void join_the_first(void *arg)
{
    int at_once = 0;
    for (int i = 0; i < JOINS; i++) {
        at_once += ran_before_join_returns() == 1;
        weft_yield();
        CHECK_EQ(fork_join.ran, (1 + JOIN_LOOK) * (i + 1)); /* none is lost */
    }
    CHECK(at_once >= JOINS / 2); /* except when, every 10 ms, the ring goes first */
}

static void a_joined_fiber_runs_next(void)
{
    fork_join.ran = 0;
    on_processors(1, join_the_first, NULL);
}

/* A tree: each fiber spawns one branch, walks the other, and joins the first. */

enum { TREE_DEPTH = 18, TREE_BEGUN_MOST = 4 * TREE_DEPTH };

static void grow_counted(void *arg);

static void grow(void *arg) /* NOLINT(misc-no-recursion) */
{
    uintptr_t depth = (uintptr_t)arg;
    if (depth == 0)
        return;
    weft_fiber *fiber = spawn(grow_counted, (void *)(depth - 1));
    if (depth > 1)
        grow((void *)(depth - 2));
    CHECK_EQ(weft_join(fiber), 0);
}

static void grow_counted(void *arg) /* NOLINT(misc-no-recursion) */
{
    if (++fork_join.begun > fork_join.most)
        fork_join.most = fork_join.begun;
    grow(arg);
    fork_join.begun--;
}

static void grow_tree(void *arg)
{
    grow((void *)TREE_DEPTH);
}

/* On a slow machine, too: the time after which deferrable fibers go first never passes. */
static void a_tree_is_walked_depth_first(void)
{
    weft__ticks_set(1);
    atomic_u64_store_relaxed(&weft__ticks.defer, UINT64_MAX);
    on_processors(1, grow_tree, NULL);
    weft__ticks_forget();
    CHECK(fork_join.most >= TREE_DEPTH / 2);
    CHECK(fork_join.most <= TREE_BEGUN_MOST);
}

/* The ring, on its own. */

static void the_last_of_the_ring_can_be_found(void)
{
    static struct processor processor;
    static struct weft_fiber fibers[JOIN_LOOK + 1], stranger;
    for (uint32_t start = 0; start < 2 * RING_SIZE; start += RING_SIZE - 2) /* also over its end */
        for (uint32_t gone = 0; gone <= JOIN_LOOK; gone++) {
            atomic_u32_store_relaxed(&processor.head, start);
            atomic_u32_store_relaxed(&processor.tail, start);
            CHECK_EQ(ring_find_owner(&processor, &fibers[0]), start);
            for (uint32_t i = 0; i <= JOIN_LOOK; i++)
                CHECK(ring_push_owner(&processor, &fibers[i]));
            uint32_t tail = start + JOIN_LOOK + 1, place = start + gone;
            CHECK_EQ(ring_find_owner(&processor, &stranger), tail);
            CHECK_EQ(ring_find_owner(&processor, &fibers[gone]), gone > 0 ? place : tail);
            ring_remove_owner(&processor, place);
            for (uint32_t i = 0; i <= JOIN_LOOK; i++)
                CHECK(i == gone || ring_pop_owner(&processor) == &fibers[i]);
            CHECK(ring_pop_owner(&processor) == NULL);
        }
}

/* Fibers yield to each other for ever; a thread spawns another. */

enum { YIELDERS = 3, YIELDS_FAIR = 1000000 };

static struct {
    atomic_u32 yielding, injected, over;
} inject;

static void yield_until_over(void *arg)
{
    atomic_u32_add_seq_cst(&inject.yielding, 1);
    for (int64_t after = 0; !atomic_u32_load_acquire(&inject.over);) {
        weft_yield();
        if (atomic_u32_load_acquire(&inject.injected))
            CHECK(after++ < YIELDS_FAIR);
    }
}

static void end_yielding(void *arg)
{
    atomic_u32_store_release(&inject.over, 1);
}

static void a_fiber_of_a_thread_runs_while_others_yield(void)
{
    weft_fiber *yielders[YIELDERS], *last;
    configure(1);
    spawn_all(yielders, YIELDERS, yield_until_over, NULL);
    yield_until(&inject.yielding, YIELDERS);
    last = spawn(end_yielding, NULL);
    atomic_u32_store_release(&inject.injected, 1);
    CHECK_EQ(weft_join(last), 0);
    join_all(yielders, YIELDERS);
    shut_down();
}

/* More ready fibers than the ring holds. */

enum { CROWD = 1000, CROWD_YIELDS = 10 };

static atomic_u32 crowd_steps[CROWD];

static void step(void *arg)
{
    size_t number = (size_t)(uintptr_t)arg;
    for (int i = 0; i < CROWD_YIELDS; i++) {
        atomic_u32_add_relaxed(&crowd_steps[number], 1);
        weft_yield();
    }
}

static void spawn_crowd(void *arg)
{
    run_each(CROWD, step);
}

static void a_crowd_runs(void)
{
    static const int counts[] = {1, 2, 8};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        memset(crowd_steps, 0, sizeof crowd_steps);
        on_processors(counts[i], spawn_crowd, NULL);
        for (size_t j = 0; j < CROWD; j++)
            CHECK_EQ(atomic_u32_load_relaxed(&crowd_steps[j]), CROWD_YIELDS);
    }
}

/* A yield finds timers due, which fill the ring while runnext is taken. */

enum { SLEEPERS = 100, READY = 200 };

static struct {
    weft_wg left;
    int64_t wake_up;
} fill;

static void sleep_then_done(void *arg)
{
    CHECK_EQ(weft_sleep_until(fill.wake_up), 0);
    weft_wg_done(&fill.left);
}

static void just_done(void *arg)
{
    weft_wg_done(&fill.left);
}

static void fill_ring_by_timers(void *arg)
{
    CHECK_EQ(weft_wg_init(&fill.left, SLEEPERS + READY), 0);
    fill.wake_up = weft_after(20 * WEFT_MS);
    go_many(SLEEPERS, sleep_then_done, NULL);
    weft_yield(); /* they sleep now */
    go_many(READY, just_done, NULL);
    while (weft_now() < fill.wake_up + WEFT_MS)
        continue;
    weft_yield();
    CHECK_EQ(weft_wg_wait(&fill.left), 0);
}

static void timers_may_fill_the_ring(void)
{
    on_processors(1, fill_ring_by_timers, NULL);
    CHECK_EQ(weft_wg_count(&fill.left), 0);
}

/* A fiber spins without a call of weft, and others wait behind it. */

static atomic_u32 behind_ran;
static uint32_t behind_count;

static void run_behind(void *arg)
{
    atomic_u32_add_seq_cst(&behind_ran, 1);
}

/* Spins in user code until all fibers that it has just spawned have run. */
static void spin_before(void *arg)
{
    for (int64_t round = test_scale(300); round > 0; round--) {
        weft_fiber *fibers[SPINNERS_MOST] = {NULL};
        atomic_u32_store_release(&behind_ran, 0);
        spawn_all(fibers, behind_count, run_behind, NULL);
        spin_until(&behind_ran, behind_count);
        join_all(fibers, behind_count);
    }
}

static void a_spinner_holds_back_no_fiber(void)
{
    static const int counts[] = {2, 4, 8};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        /* With 1 only runnext is taken, with more the ring too. */
        for (behind_count = 1; behind_count <= 5; behind_count += 4) {
            on_processors(counts[i], spin_before, NULL);
            CHECK_EQ(atomic_u32_load_relaxed(&behind_ran), behind_count);
        }
}

/* Two fibers hand elements to each other until a fiber in runnext wakes no machine any more; then
 * the first one spins. */

static weft_chan *spoken;

static void hear(void *arg)
{
    int word;
    while (weft_chan_receive(spoken, &word) == 0)
        atomic_u32_add_seq_cst(&behind_ran, (uint32_t)word);
}

static weft_fiber *find_hearer(void)
{
    CHECK_EQ(weft_chan_make(&spoken, sizeof(int), 0), 0);
    return spawn(hear, NULL);
}

static void leave_hearer(weft_fiber *hearer)
{
    CHECK_EQ(weft_chan_close(spoken), 0);
    CHECK_EQ(weft_join(hearer), 0);
    weft_chan_destroy(spoken);
}

static void speak_until_no_machine_is_woken(void)
{
    int word = 0;
    do
        CHECK_EQ(weft_chan_send(spoken, &word), 0);
    while (!runnext_wakes_off(thread_self()->processor));
}

static void speak(void *arg)
{
    weft_fiber *hearer = find_hearer();
    int word = 1;
    for (int round = 0; round < 3; round++) {
        speak_until_no_machine_is_woken();
        atomic_u32_store_release(&behind_ran, 0);
        while (weft_chan_try_send(spoken, &word) != 0)
            weft_yield(); /* until the hearer waits */
        const struct processor *mine = thread_self()->processor;
        spin_until(&behind_ran, 1);
        CHECK(!runnext_wakes_off(mine));
    }
    leave_hearer(hearer);
}

/* When the first fiber hands nothing over any more, the watcher notices. */
static void speak_no_more(void *arg)
{
    weft_fiber *hearer = find_hearer();
    speak_until_no_machine_is_woken();
    const struct processor *mine = thread_self()->processor;
    while (runnext_wakes_off(mine))
        sched_yield();
    leave_hearer(hearer);
}

static void a_spinner_holds_back_no_fiber_without_a_wake_up(void)
{
    on_processors(2, speak, NULL);
    on_processors(4, speak, NULL);
}

static void wake_ups_begin_again_without_a_handover(void)
{
    on_processors(2, speak_no_more, NULL);
}

static void sleep_behind(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    atomic_u32_add_seq_cst(&behind_ran, 1);
}

/* The timer is armed on the spinner's own processor: others must fire it. */
static void spin_before_timer(void *arg)
{
    for (int round = 0; round < 10; round++) {
        atomic_u32_store_release(&behind_ran, 0);
        weft_fiber *fiber = spawn(sleep_behind, NULL);
        weft_yield();
        spin_until(&behind_ran, 1);
        CHECK_EQ(weft_join(fiber), 0);
    }
}

static void a_spinner_holds_back_no_timer(void)
{
    static const int counts[] = {2, 4, 8};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        on_processors(counts[i], spin_before_timer, NULL);
        CHECK_EQ(atomic_u32_load_relaxed(&behind_ran), 1);
    }
}

/* As many fibers as processors, and each spins until all have begun. */

static atomic_u32 begun;
static uint32_t spinners;

static void spin_until_all(void *arg)
{
    atomic_u32_add_seq_cst(&begun, 1);
    spin_until(&begun, spinners);
}

static void spawn_spinners(void *arg)
{
    weft_fiber *fibers[SPINNERS_MOST];
    uint32_t count = spinners;
    for (uint32_t i = 1; i < count; i++)
        CHECK_EQ(weft_spawn(&fibers[i], spin_until_all, NULL, NULL), 0);
    spin_until_all(arg);
    for (uint32_t i = 1; i < count; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

static void each_processor_runs_one(void)
{
    for (spinners = 1; spinners <= SPINNERS_MOST; spinners++)
        for (int64_t round = test_scale(10); round > 0; round--) {
            atomic_u32_store_release(&begun, 0);
            on_processors((int)spinners, spawn_spinners, NULL);
            CHECK_EQ(atomic_u32_load_relaxed(&begun), spinners);
        }
}

/* A fiber that a thread spawns has its turn at the next yield, not at the 61st. */

struct yielder {
    atomic_u32 up, injected, ran;
    int yields;
};

static void note_run(void *arg)
{
    atomic_u32_store_release(arg, 1);
}

static void yield_until_run(void *arg)
{
    struct yielder *yielder = arg;
    atomic_u32_store_release(&yielder->up, 1);
    while (!atomic_u32_load_acquire(&yielder->injected))
        continue;
    while (!atomic_u32_load_acquire(&yielder->ran)) {
        weft_yield();
        yielder->yields++;
    }
}

static void a_yield_serves_the_inject_queue(void)
{
    struct yielder yielder = {.yields = 0};
    configure(1);
    weft_fiber *fiber = spawn(yield_until_run, &yielder);
    while (!atomic_u32_load_acquire(&yielder.up))
        continue;
    CHECK_EQ(weft_go(note_run, &yielder.ran), 0);
    atomic_u32_store_release(&yielder.injected, 1);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK(yielder.yields <= 1); /* 0 if the fiber that spun has lost its processor */
    shut_down();
}

/* weft__unstarve may find that the fibers that waited for stacks have got them. */
static void no_fiber_waits_for_a_stack(void)
{
    atomic_u32 ran = {0};
    configure(1);
    run_fiber(note_run, &ran);
    weft__unstarve(1);
    CHECK_EQ(weft__inject_length(), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&weft__sched.starving), 0);
    shut_down();
}

int main(void)
{
    RUN_ALL_PLAIN("stops or configures the runtime", a_pair_does_not_starve_the_ring,
                  a_pair_does_not_starve_one_that_is_to_be_joined, nor_without_a_monitor,
                  all_begin_while_others_yield, a_bystander_has_its_turns, a_joined_fiber_runs_next,
                  a_tree_is_walked_depth_first);
    RUN_PLAIN(the_last_of_the_ring_can_be_found, "no runtime in it");
    RUN_ALL_PLAIN("stops or configures the runtime", a_fiber_of_a_thread_runs_while_others_yield,
                  a_crowd_runs, timers_may_fill_the_ring, a_spinner_holds_back_no_fiber,
                  a_spinner_holds_back_no_fiber_without_a_wake_up,
                  wake_ups_begin_again_without_a_handover, a_spinner_holds_back_no_timer,
                  each_processor_runs_one, a_yield_serves_the_inject_queue,
                  no_fiber_waits_for_a_stack);
    return 0;
}
