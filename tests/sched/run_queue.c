/*
 * run_queue.c: the order in which ready fibers run on one processor: fibers that are due go before
 * the others, in a bounded ratio; fibers that yield have equal turns, however many there are. The
 * tests count turns; no check depends on how long they take.
 */
#include <unistd.h>

#include "order.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/poll/poller.h"
#include "sched/time/ticks.h"

enum { CROWD = 100, MANY = 1000, ROUNDS = 200, ROUNDS_LEAST = 20 };

static void start_crowd(int count)
{
    for (int i = 0; i < count; i++)
        start(note, i);
}

/* Number -1 goes before a crowd; only the fiber that was spawned last may be ahead of it. */
static void check_first(int crowd)
{
    run_all(crowd + 1);
    CHECK(place_of(-1) <= 1);
}

/* Fibers whose timers fire. */

static void fire_before(int crowd)
{
    start_and_yield(sleep_and_note, -1);
    start_crowd(crowd);
    CHECK(fire());
    check_first(crowd);
}

static void a_due_fiber_goes_first(void *arg)
{
    fire_before(CROWD);
}

static void a_full_ring_makes_room(void *arg)
{
    fire_before(RING_SIZE + 1);
}

/* Many fibers that are due leave every fourth place to others, and keep their order. */
static void others_have_every_fourth_place(void *arg)
{
    for (int i = 0; i < CROWD; i++)
        start_and_yield(sleep_and_note, -1 - i);
    start_crowd(CROWD);
    CHECK(fire());
    run_all(2 * CROWD);
    int due = 0, others = 0, row = 0;
    for (int i = 0; i < ran && due < CROWD; i++) {
        row = order[i] < 0 ? row + 1 : 0;
        CHECK(row <= 3);
        if (order[i] < 0)
            CHECK_EQ(order[i], -1 - due++);
        else
            others++;
    }
    CHECK(others <= CROWD / 3 + 2);
}

/* Timers fire one by one, again and again. */

static bool over;
static int naps;

static void nap_again_and_again(void *arg)
{
    while (!over) {
        naps++;
        CHECK_EQ(weft_sleep_until(deadline), 0);
    }
    note(arg);
}

static void count_down(void *arg)
{
    int *left = arg;
    (void)fire();
    over = --*left == 0;
}

static void naps_do_not_keep_others_out(void *arg)
{
    int left = CROWD;
    over = false;
    naps = 0;
    start(nap_again_and_again, 0);
    start_and_yield(nap_again_and_again, 0);
    go_many(CROWD, count_down, &left);
    for (int turns = 0; !over; turns++) {
        CHECK(turns < 4 * CROWD);
        weft_yield();
    }
    CHECK(naps >= CROWD);
    (void)fire();
    run_all(2); /* the two have ended */
}

/* A fiber whose descriptor is ready. */

static int pipe_ends[2];

static void read_and_note(void *arg)
{
    CHECK(weft_fd_wait(pipe_ends[0], WEFT_READABLE, WEFT_NEVER) > 0);
    note(arg);
}

static void a_ready_descriptor_goes_first(void *arg)
{
    CHECK_EQ(pipe(pipe_ends), 0);
    start_and_yield(read_and_note, -1);
    start_crowd(CROWD);
    CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
    struct thread *thread = runtime_enter(thread_self());
    CHECK(weft__poller_poll());
    runtime_leave(thread);
    check_first(CROWD);
    CHECK_EQ(close(pipe_ends[0]), 0);
    CHECK_EQ(close(pipe_ends[1]), 0);
}

/* A fiber that a thread wakes goes before all that threads have spawned. */

static weft_sem sem;

static void acquire_and_note(void *arg)
{
    weft_sem_acquire(&sem, 1);
    note(arg);
}

static void spawn_and_wake(void *arg)
{
    start_crowd(MANY);
    weft_sem_release(&sem, 1);
}

static void a_fiber_that_a_thread_wakes_goes_first(void *arg)
{
    CHECK_EQ(weft_sem_init(&sem, 0), 0);
    start_and_yield(acquire_and_note, -1);
    run_thread(spawn_and_wake, NULL); /* the processor is kept meanwhile */
    check_first(MANY);
}

/* The inject queue does not go before a fiber that is due, however often it is looked at. */

/* As the monitor does when turns are long. */
static void ask_to_look_around(void)
{
    atomic_u32_add_relaxed(&weft__sched.epoch, 1);
}

static void ask_and_note(void *arg)
{
    ask_to_look_around();
    note(arg);
}

static void spawn_crowd(void *arg)
{
    for (int i = 0; i < MANY; i++)
        start(ask_and_note, i);
}

static void a_due_fiber_goes_before_the_inject_queue(void *arg)
{
    start_and_yield(sleep_and_note, -1);
    run_thread(spawn_crowd, NULL);
    CHECK(fire());
    ask_to_look_around();
    check_first(MANY);
}

/* Fibers that yield have equal turns, also if they are more than a ring holds. */

static int64_t turns[MANY], all_turns, turns_most;

static int rounds(void)
{
    int64_t scaled = test_scale(ROUNDS);
    return scaled > ROUNDS_LEAST ? (int)scaled : ROUNDS_LEAST;
}

static void take_turns(void *arg)
{
    while (all_turns < turns_most) {
        turns[(intptr_t)arg]++;
        all_turns++;
        weft_yield();
    }
    ran++;
}

static void yield_in_turn(int count)
{
    int64_t least = INT64_MAX, most = 0;
    all_turns = ran = 0;
    turns_most = (int64_t)count * rounds();
    for (int i = 0; i < count; i++) {
        turns[i] = 0;
        start(take_turns, i);
    }
    run_all(count);
    for (int i = 0; i < count; i++) {
        least = turns[i] < least ? turns[i] : least;
        most = turns[i] > most ? turns[i] : most;
    }
    CHECK(least >= rounds() - rounds() / 10 - 2); /* the first and the last are not whole */
    CHECK(most <= rounds() + rounds() / 10 + 2);
}

static void yield_in_turns(void *arg)
{
    static const int counts[] = {10, RING_SIZE - 1, RING_SIZE, RING_SIZE + 1, 300, 400, MANY};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        yield_in_turn(counts[i]);
}

/* A fiber that spawns more fibers than a ring holds, and yields, has its turn behind them. */

static int begun;

static void begin(void *arg)
{
    begun++;
}

static void spawn_and_yield(void *arg)
{
    begun = 0;
    for (int i = 0, count = 0; i < rounds(); i++) {
        CHECK(count - begun < 2 * MANY);
        for (int k = 0; k < MANY; k++, count++)
            start(begin, 0);
        weft_yield();
    }
    while (begun < rounds() * MANY)
        weft_yield();
}

/* However short turns are, fibers in the ring and in the inject queue change places at each look
 * around. */
static void turns_are_equal(void)
{
    weft__ticks_set(1); /* known, so that it is not measured meanwhile */
    atomic_u64_store_relaxed(&weft__ticks.defer, 0);
    run_alone(yield_in_turns);
    run_alone(spawn_and_yield);
    weft__ticks_forget();
}

int main(void)
{
    RUN_PLAIN_ALONE(a_due_fiber_goes_first);
    RUN_PLAIN_ALONE(a_full_ring_makes_room);
    RUN_PLAIN_ALONE(others_have_every_fourth_place);
    RUN_PLAIN_ALONE(naps_do_not_keep_others_out);
    RUN_PLAIN_ALONE(a_ready_descriptor_goes_first);
    RUN_PLAIN_ALONE(a_fiber_that_a_thread_wakes_goes_first);
    RUN_PLAIN_ALONE(a_due_fiber_goes_before_the_inject_queue);
    RUN_PLAIN(turns_are_equal, "knows which fiber runs next");
    return 0;
}
