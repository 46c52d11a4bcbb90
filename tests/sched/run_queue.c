/*
 * run_queue.c: in which order those run who are ready, on one processor: who is due before the
 * others, in a bounded ratio; and those who yield in turn, however many there are. Turns are
 * counted; nothing depends on how long they take.
 */
#include <pthread.h>
#include <unistd.h>
#include <weft/weft.h>

#include "os/failure.h"
#include "os/os.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/poll/poller.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/ticks.h"
#include "seeds.h"

enum { CROWD = 100, MANY = 1000, ROUNDS = 200, ROUNDS_LEAST = 20 };

static int64_t deadline;         /* of all who sleep; far away: the time is said to have come */
static int order[2 * MANY], ran; /* who ran, each by its number */

static void run_on_one(void (*function)(void *))
{
    weft_fiber *fiber;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    /* No monitor, the second thread to be started: it would give the processor to another if this
     * thread has no CPU for long. */
    weft__os_fail(OS_THREAD, 2, true);
    ran = 0;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    weft__os_fail(OS_THREAD, 0, false);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void note(void *arg)
{
    order[ran++] = (int)(intptr_t)arg;
}

static void sleep_and_note(void *arg)
{
    CHECK_EQ(weft_sleep_until(deadline), 0);
    note(arg);
}

static void start(void (*function)(void *), int number)
{
    CHECK_EQ(weft_go(function, (void *)(intptr_t)number), 0);
}

static void start_sleepers(int count)
{
    deadline = weft_now() + 3600 * WEFT_S;
    for (int i = 0; i < count; i++) {
        start(sleep_and_note, -1 - i);
        weft_yield(); /* it runs, and parks */
    }
}

static bool fire_if_any(void)
{
    struct thread *thread = runtime_enter(thread_self());
    bool fired = weft__timers_fire(thread->processor, thread->processor, deadline + WEFT_MS);
    runtime_leave(thread_self());
    return fired;
}

static void fire(void)
{
    CHECK(fire_if_any());
}

static void run_all(int count)
{
    while (ran < count)
        weft_yield();
}

static int place_of(int number)
{
    int place = 0;
    while (order[place] != number) {
        CHECK(place < ran);
        place++;
    }
    return place;
}

/* A fiber whose timer fires goes before those that are ready already. */

static void fire_before_a_crowd(void *arg)
{
    (void)arg;
    start_sleepers(1);
    for (int i = 0; i < CROWD; i++)
        start(note, i);
    fire();
    run_all(CROWD + 1);
    CHECK(place_of(-1) <= 1); /* who was spawned last is next */
}

static void who_is_due_goes_first(void)
{
    run_on_one(fire_before_a_crowd);
}

/* The same in a ring that has no room. */
static void fire_before_a_full_ring(void *arg)
{
    (void)arg;
    start_sleepers(1);
    for (int i = 0; i < RING_SIZE + 1; i++)
        start(note, i);
    fire();
    run_all(RING_SIZE + 2);
    CHECK(place_of(-1) <= 1);
}

static void a_full_ring_makes_room(void)
{
    run_on_one(fire_before_a_full_ring);
}

/* Many that are due leave every fourth place to others, and keep their order. */
static void fire_many_before_a_crowd(void *arg)
{
    (void)arg;
    start_sleepers(CROWD);
    for (int i = 0; i < CROWD; i++)
        start(note, i);
    fire();
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

static void others_have_every_fourth_place(void)
{
    run_on_one(fire_many_before_a_crowd);
}

/* The same if each comes alone, again and again. */

static bool over;
static int naps;

static void nap_again_and_again(void *arg)
{
    (void)arg;
    while (!over) {
        naps++;
        CHECK_EQ(weft_sleep_until(deadline), 0);
    }
    note(arg);
}

static void count_down(void *arg)
{
    int *left = arg;
    (void)fire_if_any();
    over = --*left == 0;
}

static void nap_beside_a_crowd(void *arg)
{
    int left = CROWD;
    (void)arg;
    over = false;
    naps = 0;
    deadline = weft_now() + 3600 * WEFT_S;
    start(nap_again_and_again, 0);
    start(nap_again_and_again, 0);
    weft_yield();
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(weft_go(count_down, &left), 0);
    for (int turns = 0; !over; turns++) {
        CHECK(turns < 4 * CROWD);
        weft_yield();
    }
    CHECK(naps >= CROWD);
    (void)fire_if_any();
    run_all(2); /* the two have ended */
}

static void naps_do_not_keep_others_out(void)
{
    run_on_one(nap_beside_a_crowd);
}

/* Whose descriptor is ready goes before a crowd. */

static int pipe_ends[2];

static void read_and_note(void *arg)
{
    CHECK(weft_fd_wait(pipe_ends[0], WEFT_READABLE, WEFT_NEVER) > 0);
    note(arg);
}

static void write_before_a_crowd(void *arg)
{
    (void)arg;
    CHECK_EQ(pipe(pipe_ends), 0);
    start(read_and_note, -1);
    weft_yield();
    for (int i = 0; i < CROWD; i++)
        start(note, i);
    CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
    struct thread *thread = runtime_enter(thread_self());
    CHECK(weft__poller_poll());
    runtime_leave(thread);
    run_all(CROWD + 1);
    CHECK(place_of(-1) <= 1);
    CHECK_EQ(close(pipe_ends[0]), 0);
    CHECK_EQ(close(pipe_ends[1]), 0);
}

static void whose_descriptor_is_ready_goes_first(void)
{
    run_on_one(write_before_a_crowd);
}

/* Whom a thread wakes goes before all that threads have spawned. */

static weft_sem *sem;

static void acquire_and_note(void *arg)
{
    weft_sem_acquire(sem, 1);
    note(arg);
}

static void *spawn_and_wake(void *arg)
{
    for (int i = 0; i < MANY; i++)
        start(note, i);
    weft_sem_release(sem, 1);
    return arg;
}

static void wake_behind_a_crowd(void *arg)
{
    pthread_t thread;
    weft_sem own;
    (void)arg;
    CHECK_EQ(weft_sem_init(&own, 0), 0);
    sem = &own;
    start(acquire_and_note, -1);
    weft_yield();
    CHECK_EQ(pthread_create(&thread, NULL, spawn_and_wake, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0); /* the processor is kept meanwhile */
    run_all(MANY + 1);
    CHECK(place_of(-1) <= 1);
}

static void whom_a_thread_wakes_goes_first(void)
{
    run_on_one(wake_behind_a_crowd);
}

/* Nor does the inject queue go before who is due, however often it is looked at. */

/* As the monitor does when it says that turns are long. */
static void ask_to_look_around(void)
{
    atomic_u32_add_relaxed(&weft__sched.epoch, 1);
}

static void ask_and_note(void *arg)
{
    ask_to_look_around();
    note(arg);
}

static void *spawn_crowd(void *arg)
{
    for (int i = 0; i < MANY; i++)
        start(ask_and_note, i);
    return arg;
}

static void fire_and_look_around(void *arg)
{
    pthread_t thread;
    (void)arg;
    start_sleepers(1);
    CHECK_EQ(pthread_create(&thread, NULL, spawn_crowd, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    fire();
    ask_to_look_around();
    run_all(MANY + 1);
    CHECK(place_of(-1) <= 1);
}

static void who_is_due_goes_before_the_inject_queue(void)
{
    run_on_one(fire_and_look_around);
}

/* Those that yield have equal turns, also if they are more than a ring holds. */

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
    (void)arg;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        yield_in_turn(counts[i]);
}

/* However short turns are, those in the ring change with others at each look around. */
static void with_no_patience(void (*function)(void *))
{
    weft__ticks_set(1); /* it is known, so it is not learned meanwhile */
    atomic_u64_store_relaxed(&weft__ticks.defer, 0);
    run_on_one(function);
    weft__ticks_forget();
}

static void all_have_equal_turns(void)
{
    with_no_patience(yield_in_turns);
}

/* A fiber that spawns more than a ring holds, and yields, has its turn behind these. */

static int begun;

static void begin(void *arg)
{
    (void)arg;
    begun++;
}

static void spawn_and_yield(void *arg)
{
    (void)arg;
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

static void who_spawns_and_yields_is_not_ahead(void)
{
    with_no_patience(spawn_and_yield);
}

int main(void)
{
    RUN_PLAIN(who_is_due_goes_first, "knows who runs next on one processor");
    RUN_PLAIN(a_full_ring_makes_room, "knows who runs next on one processor");
    RUN_PLAIN(others_have_every_fourth_place, "knows who runs next on one processor");
    RUN_PLAIN(naps_do_not_keep_others_out, "knows who runs next on one processor");
    RUN_PLAIN(whose_descriptor_is_ready_goes_first, "knows who runs next on one processor");
    RUN_PLAIN(whom_a_thread_wakes_goes_first, "knows who runs next on one processor");
    RUN_PLAIN(who_is_due_goes_before_the_inject_queue, "knows who runs next on one processor");
    RUN_PLAIN(all_have_equal_turns, "knows who runs next on one processor");
    RUN_PLAIN(who_spawns_and_yields_is_not_ahead, "knows who runs next on one processor");
    return 0;
}
