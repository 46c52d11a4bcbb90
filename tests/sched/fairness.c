/*
 * sched.c: fairness, overflow of the ring, and fibers that wait behind one that does not let go.
 *
 * A fiber that never runs shows as a count that is too high where that can be counted, else as the
 * test's timeout.
 */
#include <sched.h>

#include "base/atomic.h"
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
#include "test.h"
#include <weft/weft.h>

enum { SPINNERS_MOST = 8 };

/* Runs the function in a fiber on a runtime with so many processors, and shuts it down. */
static void on_processors(int count, void (*function)(void *))
{
    weft_config config = {.processors = count};
    weft_fiber *fiber;
    CHECK_EQ(weft_configure(&config), 0);
    CHECK_EQ(weft_spawn(&fiber, function, NULL, NULL), 0);
    CHECK_EQ(weft_processors(), count);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Two fibers that wake each other, always next in line, and one behind them. */

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
    (void)arg;
    pair.rounds_seen = pair.rounds;
    pair.over = true;
}

/* With an argument: the one behind can be joined. */
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
    weft_wg_done(&pair.turns[0]); /* pushes the one behind out of its place, into the ring */
    CHECK_EQ(weft_join(fibers[0]), 0);
    CHECK_EQ(weft_join(fibers[1]), 0);
    if (behind != NULL)
        CHECK_EQ(weft_join(behind), 0);
}

static void a_pair_does_not_starve_the_ring(void)
{
    on_processors(1, spawn_pair);
    CHECK(pair.over);
    CHECK(pair.rounds_seen < ROUNDS_FAIR);
}

static void spawn_patient(void *arg)
{
    (void)arg;
    spawn_pair(&pair);
}

/* It can wait, but not for ever: else the test does not end. */
static void a_pair_does_not_starve_one_that_is_to_be_joined(void)
{
    on_processors(1, spawn_patient);
    CHECK(pair.over);
}

/* The same without the thread that says when 10 ms have passed: it is the second to be started. */
static void nor_without_a_monitor(void)
{
    weft__os_fail(OS_THREAD, 2, true);
    on_processors(1, spawn_patient);
    weft__os_fail(OS_THREAD, 0, false);
    CHECK(pair.over);
}

/* More than the ring holds, to be joined, that yield until all have begun. */

enum { MEETING = 600, MEETING_YIELDS_MOST = 10 * 1000 * 1000 };

static struct {
    int64_t begun, yields;
} meeting;

static void meet(void *arg)
{
    (void)arg;
    meeting.begun++;
    for (; meeting.begun < MEETING; weft_yield())
        CHECK(++meeting.yields < MEETING_YIELDS_MOST);
}

static void call_meeting(void *arg)
{
    (void)arg;
    static weft_fiber *fibers[MEETING];
    for (int i = 0; i < MEETING; i++)
        CHECK_EQ(weft_spawn(&fibers[i], meet, NULL, NULL), 0);
    for (int i = 0; i < MEETING; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

static void all_begin_while_others_yield(void)
{
    on_processors(1, call_meeting);
    CHECK_EQ(meeting.begun, MEETING);
}

/* One that yields, behind many that are to be joined, of which each begins a game of its own that never ends. */

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
    (void)arg;
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
    (void)arg;
    weft_fiber *fibers[GAMES];
    for (int i = 0; i < GAMES; i++)
        CHECK_EQ(weft_spawn(&fibers[i], play_first, &crowd_of_games.games[i], NULL), 0);
    CHECK_EQ(weft_go(stand_by, NULL), 0);
    for (int i = 0; i < GAMES; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

static void who_stands_behind_them_has_its_turn(void)
{
    on_processors(1, begin_games);
    CHECK(crowd_of_games.most > 0 && crowd_of_games.most < GAMES * ROUNDS_BEHIND_EACH);
}

/* Fork and join. */

enum { JOINS = 100 };

static struct {
    int64_t ran;
    uint32_t begun, most;
} fork_join;

static void count_one(void *arg)
{
    (void)arg;
    fork_join.ran++;
}

/* Those behind it in the ring are as many as it is looked for among, with itself; and one that would be next. */
static int64_t ran_before_join_returns(void)
{
    weft_fiber *first;
    int64_t before = fork_join.ran;
    CHECK_EQ(weft_spawn(&first, count_one, NULL, NULL), 0);
    for (int i = 0; i < JOIN_LOOK; i++)
        CHECK_EQ(weft_go(count_one, NULL), 0);
    CHECK_EQ(weft_join(first), 0);
    return fork_join.ran - before;
}

static void join_the_first(void *arg)
{
    (void)arg;
    int alone = 0;
    for (int i = 0; i < JOINS; i++) {
        alone += ran_before_join_returns() == 1;
        weft_yield();
        CHECK_EQ(fork_join.ran, (1 + JOIN_LOOK) * (i + 1)); /* nobody is lost */
    }
    CHECK(alone >=
          JOINS / 2); /* but for those moments, 10 ms apart, at which the ring goes first */
}

static void who_is_joined_runs_next(void)
{
    fork_join.ran = 0;
    on_processors(1, join_the_first);
}

/* A tree in which each joins the one that it has spawned, after it has walked the other branch. */

enum { TREE_DEPTH = 18, TREE_BEGUN_MOST = 4 * TREE_DEPTH };

static void grow_counted(void *arg);

static void grow(void *arg) /* NOLINT(misc-no-recursion) */
{
    uintptr_t depth = (uintptr_t)arg;
    weft_fiber *fiber;
    if (depth == 0)
        return;
    CHECK_EQ(weft_spawn(&fiber, grow_counted, (void *)(depth - 1), NULL), 0);
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
    (void)arg;
    grow((void *)TREE_DEPTH);
}

/* However slow it is: without the moments at which those that can wait have waited long enough. */
static void a_tree_is_walked_depth_first(void)
{
    weft__ticks_set(1);
    atomic_u64_store_relaxed(&weft__ticks.defer, UINT64_MAX);
    on_processors(1, grow_tree);
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

/* Fibers that yield to each other for ever, and one that a thread spawns. */

enum { YIELDERS = 3, YIELDS_FAIR = 1000000 };

static struct {
    atomic_u32 yielding, injected, over;
} inject;

static void yield_until_over(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&inject.yielding, 1);
    for (int64_t after = 0; !atomic_u32_load_acquire(&inject.over);) {
        weft_yield();
        if (atomic_u32_load_acquire(&inject.injected))
            CHECK(after++ < YIELDS_FAIR);
    }
}

static void end_yielding(void *arg)
{
    (void)arg;
    atomic_u32_store_release(&inject.over, 1);
}

static void what_threads_spawn_runs_while_fibers_yield(void)
{
    weft_config config = {.processors = 1};
    weft_fiber *yielders[YIELDERS], *last;
    CHECK_EQ(weft_configure(&config), 0);
    for (int i = 0; i < YIELDERS; i++)
        CHECK_EQ(weft_spawn(&yielders[i], yield_until_over, NULL, NULL), 0);
    while (atomic_u32_load_acquire(&inject.yielding) < YIELDERS)
        weft_yield();
    CHECK_EQ(weft_spawn(&last, end_yielding, NULL, NULL), 0);
    atomic_u32_store_release(&inject.injected, 1);
    CHECK_EQ(weft_join(last), 0);
    for (int i = 0; i < YIELDERS; i++)
        CHECK_EQ(weft_join(yielders[i]), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
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
    (void)arg;
    static weft_fiber *fibers[CROWD];
    for (size_t i = 0; i < CROWD; i++)
        CHECK_EQ(weft_spawn(&fibers[i], step, (void *)i, NULL), 0);
    for (size_t i = 0; i < CROWD; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

static void a_crowd_runs(void)
{
    static const int counts[] = {1, 2, 8};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        memset(crowd_steps, 0, sizeof crowd_steps);
        on_processors(counts[i], spawn_crowd);
        for (size_t j = 0; j < CROWD; j++)
            CHECK_EQ(atomic_u32_load_relaxed(&crowd_steps[j]), CROWD_YIELDS);
    }
}

/* A yield that finds timers due, which fill the ring, while the place next in line is taken. */

enum { SLEEPERS = 100, READY = 200 };

static struct {
    weft_wg left;
    int64_t wake_up;
} fill;

static void sleep_then_done(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep_until(fill.wake_up), 0);
    weft_wg_done(&fill.left);
}

static void just_done(void *arg)
{
    (void)arg;
    weft_wg_done(&fill.left);
}

static void fill_ring_by_timers(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_wg_init(&fill.left, SLEEPERS + READY), 0);
    fill.wake_up = weft_after(20 * WEFT_MS);
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQ(weft_go(sleep_then_done, NULL), 0);
    weft_yield(); /* they sleep now */
    for (int i = 0; i < READY; i++)
        CHECK_EQ(weft_go(just_done, NULL), 0);
    while (weft_now() < fill.wake_up + WEFT_MS)
        continue;
    weft_yield();
    CHECK_EQ(weft_wg_wait(&fill.left), 0);
}

static void timers_may_fill_the_ring(void)
{
    on_processors(1, fill_ring_by_timers);
    CHECK_EQ(weft_wg_count(&fill.left), 0);
}

/* A fiber that spins without a call of weft, and others behind it. */

static atomic_u32 behind_ran;
static uint32_t behind_count;

static void run_behind(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&behind_ran, 1);
}

/* Spins in user code until all that it has just spawned have run. */
static void spin_before(void *arg)
{
    (void)arg;
    for (int64_t round = test_scale(300); round > 0; round--) {
        weft_fiber *fibers[SPINNERS_MOST];
        atomic_u32_store_release(&behind_ran, 0);
        for (uint32_t i = 0; i < behind_count; i++)
            CHECK_EQ(weft_spawn(&fibers[i], run_behind, NULL, NULL), 0);
        while (atomic_u32_load_acquire(&behind_ran) < behind_count)
            sched_yield();
        for (uint32_t i = 0; i < behind_count; i++)
            CHECK_EQ(weft_join(fibers[i]), 0);
    }
}

static void a_spinner_holds_back_nobody(void)
{
    static const int counts[] = {2, 4, 8};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        /* 1: only the place next in line is taken; more: the ring too. */
        for (behind_count = 1; behind_count <= 5; behind_count += 4) {
            on_processors(counts[i], spin_before);
            CHECK_EQ(atomic_u32_load_relaxed(&behind_ran), behind_count);
        }
}

/* Two that hand elements to each other until nobody is called for the one that runs next; then the first does not let go. */

static weft_chan *spoken;

static void hear(void *arg)
{
    (void)arg;
    int word;
    while (weft_chan_receive(spoken, &word) == 0)
        atomic_u32_add_seq_cst(&behind_ran, (uint32_t)word);
}

static weft_fiber *find_hearer(void)
{
    weft_fiber *hearer;
    CHECK_EQ(weft_chan_make(&spoken, sizeof(int), 0), 0);
    CHECK_EQ(weft_spawn(&hearer, hear, NULL, NULL), 0);
    return hearer;
}

static void leave_hearer(weft_fiber *hearer)
{
    CHECK_EQ(weft_chan_close(spoken), 0);
    CHECK_EQ(weft_join(hearer), 0);
    weft_chan_destroy(spoken);
}

static void speak_until_nobody_is_called(void)
{
    int word = 0;
    do
        CHECK_EQ(weft_chan_send(spoken, &word), 0);
    while (!runnext_wakes_off(thread_self()->processor));
}

static void speak(void *arg)
{
    (void)arg;
    weft_fiber *hearer = find_hearer();
    int word = 1;
    for (int round = 0; round < 3; round++) {
        speak_until_nobody_is_called();
        atomic_u32_store_release(&behind_ran, 0);
        while (weft_chan_try_send(spoken, &word) != 0)
            weft_yield(); /* until it waits for the word */
        const struct processor *mine = thread_self()->processor;
        while (atomic_u32_load_acquire(&behind_ran) == 0)
            sched_yield();
        CHECK(!runnext_wakes_off(mine));
    }
    leave_hearer(hearer);
}

/* The same, and then the first has nobody to call for: the watcher notices. */
static void speak_no_more(void *arg)
{
    (void)arg;
    weft_fiber *hearer = find_hearer();
    speak_until_nobody_is_called();
    const struct processor *mine = thread_self()->processor;
    while (runnext_wakes_off(mine))
        sched_yield();
    leave_hearer(hearer);
}

static void a_spinner_holds_back_nobody_for_whom_none_is_called(void)
{
    on_processors(2, speak);
    on_processors(4, speak);
}

static void who_hands_over_no_more_calls_again(void)
{
    on_processors(2, speak_no_more);
}

static void sleep_behind(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    atomic_u32_add_seq_cst(&behind_ran, 1);
}

/* The timer is armed on the spinner's own processor: others must fire it. */
static void spin_before_timer(void *arg)
{
    (void)arg;
    for (int round = 0; round < 10; round++) {
        weft_fiber *fiber;
        atomic_u32_store_release(&behind_ran, 0);
        CHECK_EQ(weft_spawn(&fiber, sleep_behind, NULL, NULL), 0);
        weft_yield();
        while (atomic_u32_load_acquire(&behind_ran) == 0)
            sched_yield();
        CHECK_EQ(weft_join(fiber), 0);
    }
}

static void a_spinner_holds_back_no_timer(void)
{
    static const int counts[] = {2, 4, 8};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        on_processors(counts[i], spin_before_timer);
        CHECK_EQ(atomic_u32_load_relaxed(&behind_ran), 1);
    }
}

/* As many fibers as processors, and each spins until all have begun. */

static atomic_u32 begun;
static uint32_t spinners;

static void spin_until_all(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&begun, 1);
    while (atomic_u32_load_acquire(&begun) < spinners)
        sched_yield();
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
            on_processors((int)spinners, spawn_spinners);
            CHECK_EQ(atomic_u32_load_relaxed(&begun), spinners);
        }
}

/* What a thread spawns has its turn at the next yield, not at the 61st. */

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
    weft_fiber *fiber;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    CHECK_EQ(weft_spawn(&fiber, yield_until_run, &yielder, NULL), 0);
    while (!atomic_u32_load_acquire(&yielder.up))
        continue;
    CHECK_EQ(weft_go(note_run, &yielder.ran), 0);
    atomic_u32_store_release(&yielder.injected, 1);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK(yielder.yields <= 1); /* 0: the one that spun has lost its processor to it */
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Who would feed the hungry may find that another has. */
static void nobody_waits_for_a_stack(void)
{
    weft_fiber *fiber;
    atomic_u32 ran = {0};
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    CHECK_EQ(weft_spawn(&fiber, note_run, &ran, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    weft__unstarve(1);
    CHECK_EQ(weft__inject_length(), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&weft__sched.starving), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

int main(void)
{
    RUN_PLAIN(a_pair_does_not_starve_the_ring, "stops or configures the runtime");
    RUN_PLAIN(a_pair_does_not_starve_one_that_is_to_be_joined, "stops or configures the runtime");
    RUN_PLAIN(nor_without_a_monitor, "stops or configures the runtime");
    RUN_PLAIN(all_begin_while_others_yield, "stops or configures the runtime");
    RUN_PLAIN(who_stands_behind_them_has_its_turn, "stops or configures the runtime");
    RUN_PLAIN(who_is_joined_runs_next, "stops or configures the runtime");
    RUN_PLAIN(a_tree_is_walked_depth_first, "stops or configures the runtime");
    RUN_PLAIN(the_last_of_the_ring_can_be_found, "no runtime in it");
    RUN_PLAIN(what_threads_spawn_runs_while_fibers_yield, "stops or configures the runtime");
    RUN_PLAIN(a_crowd_runs, "stops or configures the runtime");
    RUN_PLAIN(timers_may_fill_the_ring, "stops or configures the runtime");
    RUN_PLAIN(a_spinner_holds_back_nobody, "stops or configures the runtime");
    RUN_PLAIN(a_spinner_holds_back_nobody_for_whom_none_is_called,
              "stops or configures the runtime");
    RUN_PLAIN(who_hands_over_no_more_calls_again, "stops or configures the runtime");
    RUN_PLAIN(a_spinner_holds_back_no_timer, "stops or configures the runtime");
    RUN_PLAIN(each_processor_runs_one, "stops or configures the runtime");
    RUN_PLAIN(a_yield_serves_the_inject_queue, "stops or configures the runtime");
    RUN_PLAIN(nobody_waits_for_a_stack, "stops or configures the runtime");
    return 0;
}
