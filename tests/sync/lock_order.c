/*
 * lock_order.c: locks that are taken in an order that can deadlock; debug builds find them.
 *
 * Each case runs in a child of its own: what the library has learned stays in that process.
 */
#include "bodies.h"
#include "everywhere.h"

#ifdef WEFT_DEBUG

static weft_mutex a, b, c;
static weft_rwmutex rw;

static const char text[] = "each wanted by one that holds the other";

static void both(weft_mutex *first, weft_mutex *second)
{
    weft_mutex_lock(first);
    weft_mutex_lock(second);
    weft_mutex_unlock(second);
    weft_mutex_unlock(first);
}

static noinline void take_a_then_b(void *arg)
{
    both(&a, &b);
}

static noinline void take_b_then_a(void *arg)
{
    both(&b, &a);
}

static void inverted(void *arg)
{
    take_a_then_b(arg);
    take_b_then_a(arg);
}

static void inverted_elsewhere(void *thread)
{
    body_run(take_a_then_b, NULL, *(bool *)thread);
    body_run(take_b_then_a, NULL, !*(bool *)thread);
}

static void three_in_a_cycle(void *arg)
{
    both(&a, &b);
    both(&b, &c);
    both(&c, &a);
}

static void with_a_reader(void *arg)
{
    weft_mutex_lock(&a);
    weft_rwmutex_read_lock(&rw);
    weft_rwmutex_read_unlock(&rw);
    weft_mutex_unlock(&a);
    weft_rwmutex_write_lock(&rw);
    weft_mutex_lock(&a);
}

static void with_a_deadline(void *arg)
{
    take_a_then_b(arg);
    weft_mutex_lock(&b);
    (void)!weft_mutex_lock_until(&a, weft_after(WEFT_S));
}

/* A lock that was tried for, and is held, counts as held. */
static void after_a_try(void *arg)
{
    take_a_then_b(arg);
    CHECK_EQ(weft_mutex_try_lock(&b), 0);
    weft_mutex_lock(&a);
}

/* Waiting for a condition takes the mutex anew, with the other one held. */
static void by_a_condition(void *arg)
{
    weft_cond cond = WEFT_COND_INIT;
    weft_mutex_lock(&a);
    weft_mutex_lock(&b);
    (void)!weft_cond_wait_until(&cond, &a, weft_after(WEFT_US));
}

static void inversions_abort(void)
{
    bool thread = false;
    test_dies(inverted, NULL, text);
    test_dies(inverted_elsewhere, &thread, text);
    thread = true;
    test_dies(inverted_elsewhere, &thread, text);
    test_dies(three_in_a_cycle, NULL, text);
    test_dies(with_a_reader, NULL, text);
    test_dies(with_a_deadline, NULL, text);
    test_dies(after_a_try, NULL, text);
    test_dies(by_a_condition, NULL, text);
}

/* The report has both locks and both paths: an address for each lock and one for each call. */
static void the_report_names_the_locks_and_places(void)
{
    const char *written;
    char lock[2][32];
    int status = test_in_child(inverted, NULL, &written);
    CHECK(WIFSIGNALED(status));
    snprintf(lock[0], sizeof lock[0], "%p", (void *)&a);
    snprintf(lock[1], sizeof lock[1], "%p", (void *)&b);
    CHECK(strstr(written, lock[0]) != NULL);
    CHECK(strstr(written, lock[1]) != NULL);
    int places = 0;
    for (const char *at = written; (at = strstr(at, " here:\n")) != NULL; at++)
        places++;
    CHECK_EQ(places, 4);
}

/* Orders that are no inversion. */

static void tries(void)
{
    both(&a, &b);
    weft_mutex_lock(&b);
    CHECK_EQ(weft_mutex_try_lock(&a), 0); /* in the other order, but without waiting */
    weft_mutex_unlock(&a);
    CHECK_EQ(weft_mutex_lock_until(&a, WEFT_NOW), 0);
    weft_mutex_unlock(&a);
    weft_mutex_unlock(&b);
    both(&a, &b); /* it has left no trace */
}

/* Unlocked in another order than locked, and not held any more. */
static void hand_over_hand(void)
{
    weft_mutex_lock(&a);
    weft_mutex_lock(&b);
    weft_mutex_unlock(&a);
    weft_mutex_lock(&c);
    weft_mutex_unlock(&b);
    weft_mutex_unlock(&c);
    both(&a, &c);
}

/* New locks in the place of old ones. */
static void memory_is_used_again(void)
{
    for (int i = 0; i < 100; i++) {
        weft_mutex first = WEFT_MUTEX_INIT, second = WEFT_MUTEX_INIT;
        if (i % 2)
            both(&first, &second);
        else
            both(&second, &first);
        if (i % 3 == 0) {
            weft_mutex_destroy(&first);
            weft_mutex_destroy(&second);
        }
    }
}

static void separate(void *mutex)
{
    weft_mutex_lock(mutex);
    weft_yield();
    weft_mutex_unlock(mutex);
}

/* The locks of one fiber are not those of another one on the same thread. */
static void each_has_its_own(void)
{
    struct body bodies[4];
    for (int i = 0; i < 4; i++)
        bodies[i] = (struct body){.function = separate, .arg = i % 2 ? &a : &b};
    bodies_run(bodies, 4);
}

static void no_false_alarm(void *arg)
{
    tries();
    hand_over_hand();
    memory_is_used_again();
    each_has_its_own();
    for (int i = 0; i < 3; i++)
        take_a_then_b(arg);
}

static void nothing_else_aborts(void)
{
    const char *written;
    int status = test_in_child(no_false_alarm, NULL, &written);
    fprintf(stderr, "%s", written);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    CHECK_STR(written, "");
}

/* More pairs than there is room for: one warning, and the program goes on. */
static void many(void *arg)
{
    enum { LOCKS = 300 };
    static weft_mutex locks[LOCKS];
    for (int i = 0; i < LOCKS; i++)
        for (int j = i + 1; j < LOCKS; j++)
            both(&locks[i], &locks[j]);
    inverted(arg); /* not reported any more */
}

static void too_many_pairs_stop_the_check(void)
{
    const char *written;
    int status = test_in_child(many, NULL, &written);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    CHECK_STR(written, "weft: the order of locks is not checked from here on: too many pairs of "
                       "locks\n");
}

/* More than one pair at the same moment. */
static void many_by_one(void *arg)
{
    enum { ROWS = 3000, LONG = 4 }; /* six pairs each: no pair of the last lock has room */
    static weft_mutex locks[ROWS][LONG];
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < LONG; i++)
            weft_mutex_lock(&locks[row][i]);
        for (int i = 0; i < LONG; i++)
            weft_mutex_unlock(&locks[row][i]);
    }
    inverted(arg); /* not reported any more */
}

static void too_many_pairs_at_once_stop_the_check(void)
{
    const char *written;
    int status = test_in_child(many_by_one, NULL, &written);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    CHECK_STR(written, "weft: the order of locks is not checked from here on: too many pairs of "
                       "locks\n");
}

/* Destroyed locks free the room of their pairs. */
static void many_short_lives(void *arg)
{
    for (int i = 0; i < 40000; i++) {
        weft_mutex first = WEFT_MUTEX_INIT, second = WEFT_MUTEX_INIT;
        both(&first, &second);
        weft_mutex_destroy(&first);
        weft_mutex_destroy(&second);
    }
    inverted(arg);
}

static void destroyed_locks_are_forgotten(void)
{
    test_dies(many_short_lives, NULL, text);
}

/* More locks held at a time than there is room for. A lock that is tried for makes no pairs. */
static void many_at_a_time(void *arg)
{
    enum { LOCKS = (1 << 15) + 10 };
    static weft_mutex locks[LOCKS];
    for (int i = 0; i < LOCKS; i++)
        CHECK_EQ(weft_mutex_try_lock(&locks[i]), 0);
    for (int i = LOCKS - 1; i >= 0; i--)
        weft_mutex_unlock(&locks[i]);
    inverted(arg); /* not reported any more */
}

static void too_many_held_locks_stop_the_check(void)
{
    const char *written;
    int status = test_in_child(many_at_a_time, NULL, &written);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    CHECK_STR(written, "weft: the order of locks is not checked from here on: too many locks held "
                       "at a time\n");
}

/* Locks whose pairs are in the same bucket, as there are more locks than buckets: they are told
 * apart, and a cycle over them is found, though the search reaches some pairs twice. */
static void a_long_cycle(void *arg)
{
    enum { PLACES = 4096, STEPS = 20 };
    static weft_mutex locks[PLACES + STEPS];
    for (int i = 0; i < PLACES + STEPS; i++) { /* which numbers them */
        weft_mutex_lock(&locks[i]);
        weft_mutex_unlock(&locks[i]);
    }
    for (int i = 0; i + 1 < STEPS; i++) {
        both(&locks[i], &locks[i + PLACES]);
        both(&locks[i + PLACES], &locks[i + 1]);
        both(&locks[i], &locks[i + 1]);
    }
    both(&locks[STEPS - 1], &locks[0]);
}

enum { SAME_PLACE = 4096 };
static weft_mutex sharing[SAME_PLACE + 1];

static void number_all(void)
{
    for (int i = 0; i <= SAME_PLACE; i++) {
        weft_mutex_lock(&sharing[i]);
        weft_mutex_unlock(&sharing[i]);
    }
}

static void pairs_in_one_bucket(void *arg)
{
    number_all();
    both(&sharing[0], &a);
    both(&a, &sharing[SAME_PLACE]); /* no path leads from there to a */
}

static void pair_beside_another(void *arg)
{
    number_all();
    both(&sharing[0], &a);
    both(&sharing[SAME_PLACE], &a);
    both(&a, &sharing[SAME_PLACE]);
}

static void a_long_cycle_is_found(void)
{
    const char *written;
    test_dies(a_long_cycle, NULL, text);
    test_dies(pair_beside_another, NULL, text);
    CHECK_EQ(test_in_child(pairs_in_one_bucket, NULL, &written), 0);
}

/* Threads that take new locks at the same time agree on their numbers. */

enum { FRESH = 20000 };
static weft_mutex fresh[FRESH];
static atomic_u32 at_fresh[2];

static void take_fresh(void *arg)
{
    atomic_u32 *own = arg;
    for (uint32_t i = 0; i < FRESH; i++) {
        atomic_u32_store_release(own, i);
        while (atomic_u32_load_acquire(&at_fresh[own == at_fresh]) < i)
            cpu_relax();
        weft_mutex_lock(&fresh[i]);
        weft_mutex_unlock(&fresh[i]);
    }
    atomic_u32_store_release(own, FRESH);
}

static void take_together(void *arg)
{
    struct body bodies[2];
    for (int i = 0; i < 2; i++)
        bodies[i] = (struct body){.function = take_fresh, .arg = &at_fresh[i], .thread = true};
    bodies_run(bodies, 2);
}

static void new_locks_at_the_same_time(void)
{
    const char *written;
    CHECK_EQ(test_in_child(take_together, NULL, &written), 0);
    CHECK_STR(written, "");
}

int main(void)
{
    RUN_PLAIN(inversions_abort, "a child process that must die");
    RUN_PLAIN(the_report_names_the_locks_and_places, "a child process that must die");
    RUN_PLAIN(nothing_else_aborts, "a child process that must die");
    RUN_PLAIN(too_many_pairs_stop_the_check, "a child process that must die");
    RUN_PLAIN(too_many_pairs_at_once_stop_the_check, "a child process that must die");
    RUN_PLAIN(destroyed_locks_are_forgotten, "a child process that must die");
    RUN_PLAIN(too_many_held_locks_stop_the_check, "a child process");
    RUN_PLAIN(a_long_cycle_is_found, "a child process that must die");
    RUN_PLAIN(new_locks_at_the_same_time, "about plain threads");
    return 0;
}

#else

int main(void)
{
    test_skip("the order of locks is checked in debug builds only");
}

#endif
