/*
 * cond.c: the condition variable, from fibers and from threads.
 */
#include "bodies.h"
#include "everywhere.h"
#include "seeds.h"

/* Misuse; runs before the runtime does, so that children can be forked. */

static void arguments(void)
{
    weft_cond cond = WEFT_COND_INIT;
    weft_mutex mutex = WEFT_MUTEX_INIT;
    CHECK_EQ(weft_cond_wait(NULL, &mutex), -EINVAL);
    CHECK_EQ(weft_cond_wait(&cond, NULL), -EINVAL);
    CHECK_EQ(weft_cond_wait_until(NULL, &mutex, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_cond_wait_until(&cond, NULL, WEFT_NEVER), -EINVAL);
}

/* Waiters that note the order in which they are woken. */

enum { MOST = 8 };

static struct {
    weft_mutex mutex;
    weft_cond cond;
    int order[MOST];
    int woken; /* under the mutex */
} row;

struct waiting {
    int number;
    int64_t deadline;
    int result;
    atomic_u32 begun, over;
};

static void wait_once(void *arg)
{
    struct waiting *self = arg;
    weft_mutex_lock(&row.mutex);
    atomic_u32_store_release(&self->begun, 1);
    self->result = self->deadline != 0 ? weft_cond_wait_until(&row.cond, &row.mutex, self->deadline)
                                       : weft_cond_wait(&row.cond, &row.mutex);
    CHECK_EQ(weft_mutex_try_lock(&row.mutex), -EBUSY); /* held, with any result */
    if (self->result == 0)
        row.order[row.woken++] = self->number;
    weft_mutex_unlock(&row.mutex);
    atomic_u32_store_release(&self->over, 1);
}

static void destroy_awaited(void)
{
    struct waiting waiting = {.number = 0};
    struct body body = {.function = wait_once, .arg = &waiting};
    body_start(&body);
    await_waiters(&row.cond.latch, &row.cond.waiters, 1);
    weft_cond_destroy(&row.cond);
}

static void misuse_aborts(void)
{
    static const char nothing[] = "weft: weft_cond_signal or weft_cond_broadcast was given no";
    weft_mutex unlocked = WEFT_MUTEX_INIT;
    CHECK_ABORTS(nothing, weft_cond_signal(NULL));
    CHECK_ABORTS(nothing, weft_cond_broadcast(NULL));
    CHECK_ABORTS("weft: a mutex is unlocked that is not locked",
                 (void)!weft_cond_wait(&row.cond, &unlocked));
    CHECK_ABORTS("weft: a condition variable is destroyed that a caller waits", destroy_awaited());
}

static void start_row(struct waiting *waiting, struct body *bodies, int count, int threads)
{
    row.woken = 0;
    for (int i = 0; i < count; i++) {
        waiting[i].number = i;
        bodies[i] =
            (struct body){.function = wait_once, .arg = &waiting[i], .thread = threads >> i & 1};
        body_start(&bodies[i]);
        await_waiters(&row.cond.latch, &row.cond.waiters, i + 1);
    }
}

static void signals_in_order(void)
{
    for (int threads = 0; threads < 256; threads += 85) {
        struct waiting waiting[MOST] = {{.number = 0}};
        struct body bodies[MOST];
        start_row(waiting, bodies, MOST, threads);
        for (int i = 0; i < MOST; i++) {
            weft_cond_signal(&row.cond);
            body_join(&bodies[i]); /* of the waiter that was first in line */
            CHECK_EQ(row.woken, i + 1);
            CHECK_EQ(row.order[i], i);
            await_waiters(&row.cond.latch, &row.cond.waiters, MOST - i - 1);
        }
        weft_cond_signal(&row.cond); /* without a waiter: not stored */
        weft_mutex_lock(&row.mutex);
        CHECK_EQ(weft_cond_wait_until(&row.cond, &row.mutex, weft_after(100 * WEFT_US)),
                 -ETIMEDOUT);
        weft_mutex_unlock(&row.mutex);
        weft_cond_destroy(&row.cond);
    }
}

static void broadcast_wakes_all(void)
{
    for (int threads = 0; threads < 256; threads += 85) {
        struct waiting waiting[MOST] = {{.number = 0}};
        struct body bodies[MOST];
        start_row(waiting, bodies, MOST, threads);
        weft_cond_broadcast(&row.cond);
        weft_cond_destroy(&row.cond);
        scrap(&row.cond, sizeof row.cond); /* a woken waiter does not look at it */
        for (int i = 0; i < MOST; i++)
            body_join(&bodies[i]);
        CHECK_EQ(row.woken, MOST);
        check_scrapped(&row.cond, sizeof row.cond);
        row.cond = (weft_cond)WEFT_COND_INIT;
    }
}

/* Deadlines. */

static void deadlines(void *arg)
{
    weft_cond cond = WEFT_COND_INIT;
    weft_mutex mutex = WEFT_MUTEX_INIT;
    set_errno(77);
    weft_mutex_lock(&mutex);
    CHECK_EQ(weft_cond_wait_until(&cond, &mutex, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_cond_wait_until(&cond, &mutex, 1), -ETIMEDOUT);
    int64_t deadline = weft_after(300 * WEFT_US);
    CHECK_EQ(weft_cond_wait_until(&cond, &mutex, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_mutex_try_lock(&mutex), -EBUSY);
    weft_mutex_unlock(&mutex);
    CHECK_EQ(get_errno(), 77);
    weft_cond_destroy(&cond);
    weft_mutex_destroy(&mutex);
}

/* True when two waiters are in the list; false if one of them has left before that. */
static bool both_wait(const struct waiting *first)
{
    for (;;) {
        bool over = atomic_u32_load_acquire(
            &first->over); /* read before the list: it is not in the list then */
        object_latch_acquire(&row.cond.latch);
        int length = list_length(&row.cond.waiters);
        object_latch_release(&row.cond.latch);
        if (length == 2)
            return true;
        if (length == 1 && over)
            return false;
        weft_yield();
    }
}

/* The first waiter gives up at about the time of a signal: it or the second waiter gets that
 * signal. A lost signal leaves the second one waiting for ever. */
static void a_signal_is_not_lost_to_one_that_gives_up(void)
{
    int first = 0, missed = 0, rounds = (int)test_scale(1000);
    for (int round = 0; round < rounds; round++) {
        struct waiting waiting[2] = {{.number = 0, .deadline = weft_after(150 * WEFT_US)},
                                     {.number = 1}};
        struct body bodies[2];
        row.woken = 0;
        for (int i = 0; i < 2; i++) {
            bodies[i] =
                (struct body){.function = wait_once, .arg = &waiting[i], .thread = round % 16 == i};
            body_start(&bodies[i]);
            if (i == 0)
                while (!atomic_u32_load_acquire(&waiting[0].begun))
                    weft_yield(); /* it has the mutex before the second */
        }
        bool both = both_wait(&waiting[0]);
        compute_until(waiting[0].deadline - 2 * WEFT_US + round % 64 * 100);
        weft_cond_signal(&row.cond);
        body_join(&bodies[0]);
        if (both && waiting[0].result == 0) {
            CHECK_EQ(row.woken, 1);
            first++;
            weft_cond_signal(&row.cond); /* for the second one */
        }
        body_join(&bodies[1]);
        CHECK_EQ(waiting[1].result, 0);
        missed += !both;
    }
    printf("  the first had the signal %d times of %d; %d times it was gone before\n", first,
           rounds, missed);
}

/* The signal comes after the first waiter has given up and before it has left. */
static void a_signal_passes_over_one_that_gave_up(void)
{
    struct waiting waiting[2] = {{.deadline = weft_after(1000 * WEFT_S)}, {.number = 1}};
    struct body bodies[2];
    start_row(waiting, bodies, 2, 1);
    struct waiter *first = end_first_wait(&row.cond.latch, &row.cond.waiters);
    weft_cond_signal(&row.cond);
    body_join(&bodies[1]);
    CHECK_EQ(waiting[1].result, 0);
    wake_ended(first);
    body_join(&bodies[0]);
    CHECK_EQ(waiting[0].result, -ETIMEDOUT);
    weft_cond_destroy(&row.cond);
}

/* Destroy waits for a waiter that gave up and has not left. */

static void destroy_row(void *arg)
{
    weft_cond_destroy(&row.cond);
    scrap(&row.cond, sizeof row.cond);
}

static void destroy_waits_for_one_that_gave_up(void)
{
    struct waiting waiting = {.deadline = weft_after(1000 * WEFT_S)};
    struct body body, destroyer = {.function = destroy_row};
    start_row(&waiting, &body, 1, 1);
    struct waiter *first = end_first_wait(&row.cond.latch, &row.cond.waiters);
    weft_cond_broadcast(&row.cond);
    body_start(&destroyer);
    for (int i = 0; i < 100; i++)
        weft_yield(); /* gives a destroy that does not wait the time to return */
    wake_ended(first);
    body_join(&body);
    body_join(&destroyer);
    CHECK_EQ(waiting.result, -ETIMEDOUT);
    check_scrapped(&row.cond, sizeof row.cond);
    row.cond = (weft_cond)WEFT_COND_INIT;
}

/* A token goes round. Each party has a condition of its own, so a missed signal is missed for good.
 * All share one mutex: the next party contends for it while this one begins to wait. */

enum { RING = 4 };

static struct {
    weft_mutex mutex;
    weft_cond conds[RING];
    int64_t token; /* under the mutex */
} ring;

static void pass_token(void *arg)
{
    int self = *(int *)arg;
    int64_t rounds = test_scale(3000);
    weft_mutex_lock(&ring.mutex);
    for (int64_t i = 0; i < rounds; i++) {
        while (ring.token % RING != self)
            CHECK_EQ(weft_cond_wait(&ring.conds[self], &ring.mutex), 0);
        ring.token++;
        weft_cond_signal(&ring.conds[(self + 1) % RING]);
    }
    weft_mutex_unlock(&ring.mutex);
}

static void no_signal_is_missed(void)
{
    for (int threads = 0; threads <= RING; threads += RING / 2) {
        struct body bodies[RING];
        int numbers[RING];
        ring.token = 0;
        for (int i = 0; i < RING; i++) {
            numbers[i] = i;
            bodies[i] =
                (struct body){.function = pass_token, .arg = &numbers[i], .thread = i < threads};
        }
        bodies_run(bodies, RING);
        CHECK_EQ(ring.token, RING * test_scale(3000));
    }
}

/* A queue of one element: each value that is put is got once. */

enum { PAIRS = 3 };

static struct {
    weft_mutex mutex;
    weft_cond full, empty;
    int64_t value; /* 0: empty */
    int64_t sum;
} place;

static void put(void *arg)
{
    for (int64_t i = test_scale(3000); i > 0; i--) {
        weft_mutex_lock(&place.mutex);
        while (place.value != 0)
            CHECK_EQ(weft_cond_wait(&place.empty, &place.mutex), 0);
        place.value = i;
        weft_mutex_unlock(&place.mutex);
        weft_cond_signal(&place.full);
    }
}

static void get(void *arg)
{
    for (int64_t i = test_scale(3000); i > 0; i--) {
        weft_mutex_lock(&place.mutex);
        while (place.value == 0)
            CHECK_EQ(weft_cond_wait(&place.full, &place.mutex), 0);
        place.sum += place.value;
        place.value = 0;
        weft_cond_signal(&place.empty);
        weft_mutex_unlock(&place.mutex);
    }
}

static void hand_over(void)
{
    struct body bodies[2 * PAIRS];
    place.sum = 0;
    for (int i = 0; i < 2 * PAIRS; i++)
        bodies[i] = (struct body){.function = i % 2 ? put : get, .thread = i < 2 || i == 3};
    bodies_run(bodies, 2 * PAIRS);
    int64_t n = test_scale(3000);
    CHECK_EQ(place.sum, PAIRS * (n * (n + 1) / 2));
}

/* A forked child. */

static void in_child(void)
{
    weft_mutex_lock(&row.mutex);
    CHECK_EQ(weft_cond_wait(&row.cond, &row.mutex), -ECHILD);
    CHECK_EQ(weft_mutex_try_lock(&row.mutex), -EBUSY);
    weft_mutex_unlock(&row.mutex);
    weft_cond_signal(&row.cond);
    weft_cond_broadcast(&row.cond);
    weft_cond_destroy(&row.cond);
}

static void a_forked_child_does_not_hang(void)
{
    struct waiting waiting = {.number = 0};
    struct body body = {.function = wait_once, .arg = &waiting};
    row.woken = 0;
    body_start(&body);
    await_waiters(&row.cond.latch, &row.cond.waiters, 1);
    in_fork(in_child);
    weft_cond_signal(&row.cond);
    body_join(&body);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN_BOTH(signals_in_order);
    RUN_BOTH(broadcast_wakes_all);
    RUN_EVERYWHERE(deadlines);
    RUN_BOTH(a_signal_is_not_lost_to_one_that_gives_up);
    RUN_BOTH(a_signal_passes_over_one_that_gave_up);
    RUN_BOTH(destroy_waits_for_one_that_gave_up);
    RUN_BOTH(no_signal_is_missed);
    RUN_BOTH(hand_over);
    RUN_PLAIN(a_forked_child_does_not_hang, "forks");
    return 0;
}
