/*
 * limiter.c: the rate limiter, from fibers and from threads. Its turns, to the nanosecond, are in
 * limiter_seeds.c.
 */
#include "sync/limiter.h"

#include "bodies.h"
#include "compact.h"
#include "everywhere.h"
#include "os/failure.h"
#include "os/os.h"
#include "seeds.h"

#define FAR (1000000 * WEFT_S)

static weft_limiter *make(int64_t rate, int64_t period, int64_t burst)
{
    weft_limiter *limiter;
    weft_limiter_options options = {.rate = rate, .period = period, .burst = burst};
    CHECK_EQ(weft_limiter_open(&limiter, &options), 0);
    return limiter;
}

/* Opens an empty limiter: two events come at once, and then none for a long time. */
static weft_limiter *make_empty(void)
{
    weft_limiter *limiter = make(1, FAR, 2);
    CHECK_EQ(weft_limiter_try_take(limiter, 2), 0);
    return limiter;
}

/* Waits until so many takes wait. */
static void await_takes(weft_limiter *limiter, int count)
{
    for (int now = -1; now != count; weft_yield()) {
        now = 0;
        object_latch_acquire(&limiter->latch);
        for (const struct take *one = limiter->first; one != NULL; one = one->next)
            now++;
        object_latch_release(&limiter->latch);
    }
}

/* Ends the wait of the first take with that result (end_first_wait in bodies.h). */
static struct waiter *end_first_take(weft_limiter *limiter, int result)
{
    object_latch_acquire(&limiter->latch);
    struct waiter *waiter = limiter->first->waiter;
    CHECK(waiter_claim(waiter, result));
    object_latch_release(&limiter->latch);
    return waiter;
}

/* Misuse; runs before the runtime does, so that children can be forked. */

static void arguments(void)
{
    weft_limiter *limiter = (weft_limiter *)(uintptr_t)0xdead;
    weft_limiter_options options = {.rate = 1};
    CHECK_EQ(weft_limiter_open(NULL, &options), -EINVAL);
    CHECK_EQ(weft_limiter_open(&limiter, NULL), -EINVAL);
    static const weft_limiter_options wrong[] = {
        {.rate = 0},
        {.rate = -1},
        {.rate = WEFT_LIMITER_MAX + 1},
        {.rate = 1, .period = -1},
        {.rate = 1, .burst = -1},
        {.rate = 1, .burst = WEFT_LIMITER_MAX + 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(weft_limiter_open(&limiter, &wrong[i]), -EINVAL);
    for (size_t i = 0; i < sizeof options.reserved / sizeof options.reserved[0]; i++) {
        options.reserved[i] = 1;
        CHECK_EQ(weft_limiter_open(&limiter, &options), -EINVAL);
        options.reserved[i] = 0;
    }
    CHECK_PTR(limiter, (void *)(uintptr_t)0xdead);
    CHECK_EQ(weft_limiter_take(NULL, 1), -EINVAL);
    CHECK_EQ(weft_limiter_take_until(NULL, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_limiter_try_take(NULL, 1), -EINVAL);
    CHECK_EQ(weft_limiter_set(NULL, 1, 1), -EINVAL);
    weft_limiter_close(NULL);
}

static void numbers(void)
{
    weft_limiter *limiter = make(1, FAR, 3);
    for (int64_t n = -1; n <= 4; n += n == 0 ? 4 : 1) {
        CHECK_EQ(weft_limiter_take(limiter, n), -EINVAL);
        CHECK_EQ(weft_limiter_take_until(limiter, n, WEFT_NOW), -EINVAL);
        CHECK_EQ(weft_limiter_try_take(limiter, n), -EINVAL);
    }
    CHECK_EQ(weft_limiter_set(limiter, 0, 1), -EINVAL);
    CHECK_EQ(weft_limiter_set(limiter, 1, 0), -EINVAL);
    CHECK_EQ(weft_limiter_set(limiter, WEFT_LIMITER_MAX + 1, 1), -EINVAL);
    CHECK_EQ(weft_limiter_set(limiter, 1, WEFT_LIMITER_MAX + 1), -EINVAL);
    CHECK_EQ(weft_limiter_try_take(limiter, 3), 0); /* nothing has changed, nothing was taken */
    weft_limiter_close(limiter);
}

static void defaults(void)
{
    weft_limiter *limiter = make(7, 0, 0);
    CHECK_EQ(limiter->period, WEFT_S);
    CHECK_EQ(limiter->burst, 1);
    weft_limiter_close(limiter);
}

static void take_one(void *limiter)
{
    CHECK_EQ(weft_limiter_take(limiter, 1), 0);
}

static void close_awaited(void)
{
    weft_limiter *limiter = make_empty();
    struct body body = {.function = take_one, .arg = limiter};
    body_start(&body);
    await_takes(limiter, 1);
    weft_limiter_close(limiter);
}

static void misuse_aborts(void)
{
    CHECK_ABORTS("weft: a limiter is closed that a caller waits for", close_awaited());
}

/* The calls, by the real clock: what must not be early is not. */

static void alone(void *arg)
{
    weft_limiter *limiter = make(1, 200 * WEFT_US, 3);
    int64_t begun = weft_now();
    set_errno(77);
    CHECK_EQ(weft_limiter_take(limiter, 3), 0);
    CHECK_EQ(weft_limiter_take(limiter, 2), 0);
    CHECK(weft_now() >= begun + 400 * WEFT_US);
    CHECK_EQ(weft_limiter_take_until(limiter, 3, WEFT_NEVER), 0);
    CHECK(weft_now() >= begun + 1000 * WEFT_US);
    CHECK_EQ(weft_limiter_set(limiter, 1, 5), 0);
    CHECK_EQ(weft_limiter_take_until(limiter, 5, weft_after(3600 * WEFT_S)), 0);
    CHECK(weft_now() >= begun + 2000 * WEFT_US);
    weft_limiter_close(limiter);

    limiter = make_empty();
    CHECK_EQ(weft_limiter_take_until(limiter, 1, weft_after(3600 * WEFT_S)), -ETIMEDOUT);
    CHECK_EQ(weft_limiter_take_until(limiter, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
    weft_limiter_close(limiter);
    CHECK_EQ(get_errno(), 77);
}

/* Many at once. */

enum { MOST = 8, TAKES = 200 };

static struct {
    weft_limiter *limiter;
    atomic_i64 taken;
} many;

static void take_many(void *arg)
{
    int64_t self = *(int64_t *)arg;
    for (int64_t i = test_scale(TAKES); i > 0; i--) {
        int64_t n = (self + i) % 3 + 1;
        if (i % 16 == 0) /* some leave before their turn */
            n = weft_limiter_take_until(many.limiter, n, weft_after(i * WEFT_US)) == 0 ? n : 0;
        else
            CHECK_EQ(weft_limiter_take(many.limiter, n), 0);
        atomic_i64_add_seq_cst(&many.taken, n);
    }
}

static void change_often(void *arg)
{
    for (int64_t i = test_scale(TAKES); i > 0; i--) {
        CHECK_EQ(weft_limiter_set(many.limiter, 1 + i % 2, 3 + i % 3), 0);
        weft_yield();
    }
    CHECK_EQ(weft_limiter_set(many.limiter, 2, 5), 0);
}

static void never_too_many(void)
{
    struct body bodies[MOST + 1];
    int64_t selves[MOST];
    for (int changes = 0; changes < 2; changes++) {
        many.limiter = make(2, WEFT_US, 5);
        atomic_i64_store_relaxed(&many.taken, 0);
        for (int i = 0; i < MOST; i++) {
            selves[i] = i;
            bodies[i] =
                (struct body){.function = take_many, .arg = &selves[i], .thread = i % 3 == 0};
        }
        bodies[MOST] = (struct body){.function = change_often};
        int64_t begun = weft_now();
        bodies_run(bodies, MOST + changes);
        CHECK(atomic_i64_load_seq_cst(&many.taken) <= 5 + (weft_now() - begun + 1) * 2 / 1000);
        CHECK_EQ(many.limiter->reserved, 0);
        weft_limiter_close(many.limiter);
    }
}

/* Takes that are cancelled leave, and the takes behind them are granted. */

struct customer {
    weft_limiter *limiter;
    weft_context *context;
    int64_t n, deadline;
    int result;
};

static void take_in_line(void *arg)
{
    struct customer *self = arg;
    CHECK_EQ(weft_context_bind(self->context, NULL), 0);
    self->result = weft_limiter_take_until(self->limiter, self->n,
                                           self->deadline != 0 ? self->deadline : WEFT_NEVER);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

/* Starts the takes one after another. */
static void queue_up(weft_limiter *limiter, struct customer *customers, struct body *bodies,
                     int count, int threads)
{
    for (int i = 0; i < count; i++) {
        customers[i].limiter = limiter;
        bodies[i] = (struct body){
            .function = take_in_line, .arg = &customers[i], .thread = threads >> i & 1};
        body_start(&bodies[i]);
        await_takes(limiter, i + 1);
    }
}

static void leaving_lets_others_on(void)
{
    for (int threads = 0; threads < 8; threads++) {
        weft_limiter *limiter = make(1, FAR, 5);
        weft_context *context;
        CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
        CHECK_EQ(weft_limiter_try_take(limiter, 3), 0);
        struct customer customers[3] = {{.n = 5, .context = context}, {.n = 1}, {.n = 1}};
        struct body bodies[3];
        queue_up(limiter, customers, bodies, 3, threads);
        CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN); /* two are there */
        weft_context_cancel(context);
        for (int i = 0; i < 3; i++)
            body_join(&bodies[i]);
        CHECK_EQ(customers[0].result, -ECANCELED);
        CHECK_EQ(customers[1].result, 0);
        CHECK_EQ(customers[2].result, 0);
        weft_context_close(context);
        weft_limiter_close(limiter);
    }
}

static void a_change_lets_takes_proceed(void)
{
    for (int threads = 0; threads < 8; threads++) {
        weft_limiter *limiter = make_empty();
        struct customer customers[3] = {{.n = 2}, {.n = 1}, {.n = 2}};
        struct body bodies[3];
        queue_up(limiter, customers, bodies, 3, threads);
        CHECK_EQ(weft_limiter_set(limiter, FAR / WEFT_US, 1), 0); /* one a microsecond */
        for (int i = 0; i < 3; i++) {
            body_join(&bodies[i]);
            CHECK_EQ(customers[i].result, 0);
        }
        weft_limiter_close(limiter);
    }
}

/* A take whose wait has ended in another way, and that has not left the line, is granted its events
 * none the less; it returns 0 and gives nothing back. */
static void a_grant_meets_one_that_gave_up(int threads, int result)
{
    weft_limiter *limiter = make_empty();
    struct customer customers[2] = {{.n = 1, .deadline = weft_after(10 * FAR)}, {.n = 2}};
    struct body bodies[2];
    queue_up(limiter, customers, bodies, 2, threads);
    struct waiter *first = end_first_take(limiter, result);
    object_latch_acquire(&limiter->latch);
    limiter->level = 1; /* its turn has come */
    object_latch_release(&limiter->latch);
    CHECK_EQ(weft_limiter_set(limiter, 1, 2), 0);
    object_latch_acquire(&limiter->latch);
    CHECK(limiter->first == limiter->last && limiter->level == 0);
    object_latch_release(&limiter->latch);
    wake_ended(first);
    body_join(&bodies[0]);
    CHECK_EQ(customers[0].result, 0);
    CHECK_EQ(weft_limiter_set(limiter, FAR, 2), 0);
    body_join(&bodies[1]);
    CHECK_EQ(customers[1].result, 0);
    weft_limiter_close(limiter);
}

static void a_take_that_gave_up_may_have_been_granted(void)
{
    for (int threads = 0; threads < 4; threads++) {
        a_grant_meets_one_that_gave_up(threads | 1, -ETIMEDOUT);
        a_grant_meets_one_that_gave_up(threads, 1); /* CHECK_AGAIN */
    }
}

/* A take that is woken and parks again grants the takes before it, whose timer has not fired, and
 * wakes them. */
static void a_take_that_stays_wakes_others(void)
{
    for (int threads = 0; threads < 4; threads++) {
        weft_limiter *limiter = make_empty();
        struct customer customers[2] = {{.n = 1}, {.n = 2}};
        struct body bodies[2];
        queue_up(limiter, customers, bodies, 2, threads);
        object_latch_acquire(&limiter->latch);
        limiter->level = 1;
        struct waiter *second = limiter->last->waiter;
        CHECK(waiter_claim(second, 1)); /* CHECK_AGAIN */
        object_latch_release(&limiter->latch);
        wake_ended(second);
        body_join(&bodies[0]);
        CHECK_EQ(customers[0].result, 0);
        CHECK_EQ(weft_limiter_set(limiter, FAR, 2), 0);
        body_join(&bodies[1]);
        CHECK_EQ(customers[1].result, 0);
        weft_limiter_close(limiter);
    }
}

static void waiting_needs_no_memory(void)
{
    weft_limiter *limiter = make_empty();
    struct body body = {.function = take_one, .arg = limiter, .thread = true};
    weft__os_fail(OS_ALLOC, 1, true);
    body_start(&body);
    await_takes(limiter, 1);
    CHECK_EQ(weft_limiter_set(limiter, FAR, 1), 0);
    body_join(&body);
    weft__os_fail(OS_ALLOC, 0, false);
    weft_limiter_close(limiter);
}

enum { COMPACT = 64 }; /* several for each shared stack */

static void take_in_a_row(void *limiter)
{
    for (int i = 0; i < 20; i++)
        CHECK_EQ(weft_limiter_take(limiter, 1 + i % 2), 0);
}

static void take_below(void *limiter)
{
    compact_below(5, 7, take_in_a_row, limiter);
}

static void compact_fibers_take(void)
{
    weft_limiter *limiter = make(1, WEFT_US, 2);
    weft_fiber *fibers[COMPACT];
    for (int i = 0; i < COMPACT; i++)
        fibers[i] = compact_spawn(take_below, limiter);
    for (int i = 0; i < COMPACT; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    CHECK_EQ(limiter->reserved, 0);
    weft_limiter_close(limiter);
}

/* A thread in a test run has its turn in real time: virtual time stands still for it. */

static void *run_thread(void *limiter)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, body_thread_main,
                            &(struct body){.function = take_in_a_row, .arg = limiter}),
             0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return NULL;
}

static void a_thread_in_a_test_run(void)
{
    weft_limiter *limiter = make(1, 10 * WEFT_US, 2);
    CHECK_PTR(weft_blocking(run_thread, limiter), NULL);
    weft_limiter_close(limiter);
}

/* A forked child. */

static weft_limiter *shared, *closed;

static void in_child(void)
{
    weft_limiter *limiter = shared;
    CHECK_EQ(weft_limiter_open(&limiter, &(weft_limiter_options){.rate = 1}), -ECHILD);
    CHECK_PTR(limiter, shared);
    CHECK_EQ(weft_limiter_set(shared, 1, 1), -ECHILD);
    CHECK_EQ(weft_limiter_take(shared, 2), -ECHILD);
    CHECK_EQ(weft_limiter_take_until(shared, 2, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_limiter_try_take(shared, 2), -EAGAIN);
    CHECK_EQ(weft_limiter_take(shared, 1), 0); /* it is reserved, but not here */
    shared->latch = 1;                         /* as if held by a thread of the parent */
    CHECK_EQ(weft_limiter_try_take(shared, 1), -EAGAIN);
    weft_limiter_close(shared);
    weft_limiter_close(closed); /* its waiter is in the parent */
}

static void a_forked_child_does_not_hang(void)
{
    struct customer customers[2] = {{.n = 2}, {.n = 2}};
    struct body bodies[2];
    shared = make(1, FAR, 2);
    closed = make_empty();
    CHECK_EQ(weft_limiter_try_take(shared, 1), 0);
    queue_up(shared, &customers[0], &bodies[0], 1, 0);
    queue_up(closed, &customers[1], &bodies[1], 1, 0);
    in_fork(in_child);
    CHECK_EQ(weft_limiter_set(shared, FAR, 2), 0);
    CHECK_EQ(weft_limiter_set(closed, FAR, 2), 0);
    body_join(&bodies[0]);
    body_join(&bodies[1]);
    weft_limiter_close(shared);
    weft_limiter_close(closed);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_PLAIN(numbers, "nothing waits");
    RUN_PLAIN(defaults, "nothing waits");
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN_EVERYWHERE(alone);
    RUN_BOTH(never_too_many);
    RUN_BOTH(leaving_lets_others_on);
    RUN_BOTH(a_change_lets_takes_proceed);
    RUN_PLAIN(a_take_that_gave_up_may_have_been_granted, "ends the wait of a thread");
    RUN_BOTH(a_take_that_stays_wakes_others);
    RUN_PLAIN(waiting_needs_no_memory, "a fiber cannot start without memory");
    RUN_BOTH(compact_fibers_take);
    RUN_BOTH(a_thread_in_a_test_run);
    RUN_PLAIN(a_forked_child_does_not_hang, "forks");
    return 0;
}
