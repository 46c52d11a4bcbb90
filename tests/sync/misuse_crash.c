/*
 * misuse_crash.c: bugs of the program that are caught: destroying an object under its waiters, and
 * waiting with a spin lock held. Each runs in a child, which must abort and say why.
 */
#include <signal.h>

#include "bodies.h"
#include "everywhere.h"
#include "lines.h"

static weft_chan *chan;
static weft_ticker *ticker;

static void end_at_once(void *arg)
{
}

static void receive(void *arg)
{
    int element;
    CHECK_EQ(weft_chan_receive(chan, &element), 0);
}

static void send(void *arg)
{
    int element = 1;
    CHECK_EQ(weft_chan_send(chan, &element), 0);
}

static void receive_for_long(void *arg)
{
    int element;
    CHECK_EQ(weft_chan_receive_until(chan, &element, weft_after(1000 * WEFT_S)), 0);
}

static void select_some(void *arg)
{
    weft_chan *other;
    int element = 1;
    CHECK_EQ(weft_chan_make(&other, sizeof(int), 0), 0);
    weft_case cases[] = {{.chan = other, .op = WEFT_RECEIVE, .element = &element},
                         {.chan = chan, .op = WEFT_SEND, .element = &element}};
    CHECK_EQ(weft_select(cases, 2), 1);
}

static void select_without_deadline(void *arg)
{
    weft_case one = {.chan = chan, .op = WEFT_RECEIVE};
    (void)!weft_select(&one, 1);
}

static void receive_tick(void *arg)
{
    int64_t time;
    CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), &time), 0);
}

struct wait {
    void (*function)(void *);
    int op;
    bool thread;
};

static void destroy_under(void *arg)
{
    const struct wait *wait = arg;
    struct body body = {.function = wait->function, .thread = wait->thread};
    chan = make_chan(sizeof(int), 0);
    body_start(&body);
    await_line(chan, wait->op, 1);
    weft_chan_destroy(chan);
}

static void close_ticker_under(void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_ticker_open(&ticker, weft_after(1000 * WEFT_S), 0), 0);
    CHECK_EQ(weft_spawn(&fiber, receive_tick, NULL, NULL), 0);
    await_parked(fiber);
    CHECK_EQ(weft_ticker_close(ticker), 0);
}

static void destroying_under_waiters(void)
{
    static const struct wait waits[] = {
        {receive, WEFT_RECEIVE, false},
        {send, WEFT_SEND, false},
        {receive_for_long, WEFT_RECEIVE, false},
        {select_some, WEFT_SEND, false},
        {select_without_deadline, WEFT_RECEIVE, false},
    };
    static const char text[] = "is destroyed while a caller waits on it";
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
        for (int thread = 0; thread < 2; thread++) {
            struct wait wait = {waits[i].function, waits[i].op, thread};
            CHECK_ABORTS(text, destroy_under(&wait));
        }
    CHECK_ABORTS(text, close_ticker_under(NULL));
}

/* A mutex that is unlocked, with a waiter that has been woken and has yet to take it. */

static weft_mutex left = WEFT_MUTEX_INIT;

static void lock_left(void *arg)
{
    weft_mutex_lock(&left);
    weft_mutex_unlock(&left);
}

static void destroy_left(void)
{
    weft_mutex_destroy(&left);
}

static void unlock_and_destroy(void *fork_first)
{
    weft_fiber *fiber;
    weft_mutex_lock(&left);
    CHECK_EQ(weft_spawn(&fiber, lock_left, NULL, NULL), 0);
    await_parked(fiber);
    weft_mutex_unlock(&left);
    if (fork_first != NULL)
        in_fork(destroy_left); /* the waiter is in the parent */
    else
        destroy_left();
    CHECK_EQ(weft_join(fiber), 0);
}

static void destroy_at_hand_over(void *fork_first)
{
    on_one_machine(unlock_and_destroy, fork_first);
}

static void destroying_at_a_hand_over(void)
{
    const char *written;
    CHECK_ABORTS("a mutex is destroyed that a caller waits for", destroy_at_hand_over(NULL));
    CHECK_EQ(test_in_child(destroy_at_hand_over, &left, &written), 0);
}

static void null_aborts(void)
{
    CHECK_ABORTS("weft_cond_destroy was given no condition variable", weft_cond_destroy(NULL));
    CHECK_ABORTS("weft_sem_destroy was given no semaphore", weft_sem_destroy(NULL));
    CHECK_ABORTS("weft_rwmutex_destroy was given no mutex", weft_rwmutex_destroy(NULL));
    CHECK_ABORTS("weft_rwmutex_read_unlock was given no mutex", weft_rwmutex_read_unlock(NULL));
    CHECK_ABORTS("weft_rwmutex_write_unlock was given no mutex", weft_rwmutex_write_unlock(NULL));
}

/* A channel whose waiters have all returned, or given up, may be destroyed. */
static void destroy_after_all(void *arg)
{
    weft_fiber *fiber;
    weft_context *context;
    int element = 1;
    CHECK_EQ(weft_chan_make(&chan, sizeof(int), 0), 0);
    CHECK_EQ(weft_spawn(&fiber, receive, NULL, NULL), 0);
    CHECK_EQ(weft_chan_send(chan, &element), 0);
    CHECK_EQ(weft_chan_receive_until(chan, &element, weft_after(WEFT_US)), -ETIMEDOUT);
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    CHECK_EQ(weft_chan_receive(chan, &element), -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    weft_chan_destroy(chan);
    CHECK_EQ(weft_join(fiber), 0);
}

/* Spin locks. */

static weft_spin spin = WEFT_SPIN_INIT;
static weft_mutex mutex = WEFT_MUTEX_INIT;
static weft_wg wg;

static void spin_and_sleep(void *arg)
{
    weft_spin_lock(&spin);
    (void)weft_sleep(WEFT_MS);
}

static void spin_and_receive(void *arg)
{
    weft_spin_lock(&spin);
    receive(arg);
}

static void spin_and_send_for_a_moment(void *arg)
{
    int element = 1;
    weft_spin_lock(&spin);
    CHECK_EQ(weft_chan_send_until(chan, &element, weft_after(WEFT_MS)), -ETIMEDOUT);
}

static void spin_and_wait(void *arg)
{
    CHECK_EQ(weft_spin_try_lock(&spin), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
}

static void spin_and_lock(void *arg)
{
    weft_spin_lock(&spin);
    weft_mutex_lock(&mutex);
}

static void spin_and_yield(void *arg)
{
    weft_spin_lock(&spin);
    weft_yield();
}

static void spin_and_acquire(void *arg)
{
    weft_sem sem = WEFT_SEM_INIT(0);
    weft_spin_lock(&spin);
    weft_sem_acquire(&sem, 1);
}

static void spin_and_end(void *arg)
{
    weft_spin_lock(&spin);
}

struct with_spin {
    void (*function)(void *);
    bool thread;
};

static void begin_with_spin(const struct with_spin *one)
{
    chan = make_chan(sizeof(int), 0);
    CHECK_EQ(weft_wg_init(&wg, 1), 0);
    body_run(end_at_once, NULL, false);
    weft_mutex_lock(&mutex);
    body_run(one->function, NULL, one->thread);
}

static void waiting_with_a_spin_lock(void)
{
    static const struct {
        void (*function)(void *);
        const char *text;
        bool fiber_only;
    } cases[] = {
        {spin_and_sleep, "a weft_spin is held by a caller that sleeps", false},
        {spin_and_receive, "a weft_spin is held by a caller that receives from a channel", false},
        {spin_and_send_for_a_moment, "a weft_spin is held by a caller that sends to a channel",
         false},
        {spin_and_wait, "a weft_spin is held by a caller that waits for a wait group", false},
        {spin_and_lock, "a weft_spin is held by a caller that locks a mutex", false},
        {spin_and_acquire, "a weft_spin is held by a caller that acquires a semaphore", false},
        {spin_and_yield, "a weft_spin is held by a fiber that yields", true},
        {spin_and_end, "ended while it holds a weft_spin", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int thread = 0; thread < 2 - cases[i].fiber_only; thread++) {
            struct with_spin one = {cases[i].function, thread};
            CHECK_ABORTS(cases[i].text, begin_with_spin(&one));
        }
}

/* Calls that need not wait are allowed, and so is waiting once it is unlocked. */
static void hold_and_go_on(void *arg)
{
    weft_chan *roomy;
    int element = 1;
    CHECK_EQ(weft_chan_make(&roomy, sizeof(int), 1), 0);
    for (int i = 0; i < 3; i++) {
        weft_spin_lock(&spin);
        CHECK_EQ(weft_chan_send(roomy, &element), 0);
        CHECK_EQ(weft_chan_receive(roomy, &element), 0);
        CHECK_EQ(weft_chan_try_receive(roomy, &element), -EAGAIN);
        weft_mutex_lock(&mutex);
        weft_mutex_unlock(&mutex);
        CHECK_EQ(weft_wg_wait(&wg), 0);
        weft_spin_unlock(&spin);
        weft_yield();
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    }
    weft_chan_destroy(roomy);
}

int main(void)
{
    RUN(destroying_under_waiters);
    RUN(destroying_at_a_hand_over);
    RUN(null_aborts);
    RUN(waiting_with_a_spin_lock);
    body_run(destroy_after_all, NULL, false);
    body_run(destroy_after_all, NULL, true);
    body_run(hold_and_go_on, NULL, false);
    body_run(hold_and_go_on, NULL, true);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
