/*
 * chaos.c: WEFT_CHAOS makes the calling fiber yield at every call of weft, and leaves the rest as it is.
 *
 * With one processor nobody else runs until a fiber waits; so whether a fiber that it has just started has
 * run after a call that need not wait tells whether it yielded there.
 */
#include <stdbool.h>

#include "everywhere.h"

static weft_mutex mutex;
static weft_rwmutex rwmutex;
static weft_sem sem = WEFT_SEM_INIT(10);
static weft_wg wg;
static weft_once once;
static weft_spin spin;
static weft_chan *chan;
static weft_pool *pool;
static bool marked;

static void nothing(void *arg)
{
    (void)arg;
}

static void mark(void *arg)
{
    (void)arg;
    marked = true;
}

static void call_mutex_lock(void)
{
    weft_mutex_lock(&mutex);
}

static void call_mutex_unlock(void)
{
    weft_mutex_unlock(&mutex);
}

static void call_mutex_try_lock(void)
{
    CHECK_EQ(weft_mutex_try_lock(&mutex), 0);
}

static void call_read_lock(void)
{
    weft_rwmutex_read_lock(&rwmutex);
}

static void call_read_unlock(void)
{
    weft_rwmutex_read_unlock(&rwmutex);
}

static void call_sem_acquire(void)
{
    weft_sem_acquire(&sem, 1);
}

static void call_sem_release(void)
{
    weft_sem_release(&sem, 1);
}

static void call_wg_add(void)
{
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
}

static void call_wg_done(void)
{
    weft_wg_done(&wg);
}

static void call_once_do(void)
{
    weft_once_do(&once, nothing, NULL);
}

static void call_send(void)
{
    int number = 1;
    CHECK_EQ(weft_chan_send(chan, &number), 0);
}

static void call_receive(void)
{
    int number;
    CHECK_EQ(weft_chan_try_receive(chan, &number), 0);
}

static void call_submit(void)
{
    CHECK_EQ(weft_pool_submit(pool, nothing, NULL), 0);
}

static void call_spawn(void)
{
    CHECK_EQ(weft_go(nothing, NULL), 0);
}

/* In an order in which each can go ahead at once. */
static void (*const calls[])(void) = {
    call_mutex_lock,  call_mutex_unlock, call_mutex_try_lock, call_mutex_unlock, call_read_lock,
    call_read_unlock, call_sem_acquire,  call_sem_release,    call_wg_add,       call_wg_done,
    call_once_do,     call_send,         call_receive,        call_submit,       call_spawn,
};

/* Whether somebody else has run during the call. */
static bool yields(void (*call)(void))
{
    CHECK_EQ(weft_go(mark, NULL), 0);
    marked = false;
    call();
    bool yielded = marked;
    while (!marked)
        weft_yield();
    return yielded;
}

static void open_things(void)
{
    CHECK_EQ(weft_chan_make(&chan, sizeof(int), 10), 0);
    CHECK_EQ(weft_pool_open(&pool, NULL), 0);
    once = (weft_once)WEFT_ONCE_INIT;
}

static void close_things(void)
{
    CHECK_EQ(weft_pool_close(pool), 0);
    weft_chan_destroy(chan);
}

static void try_all(void *arg)
{
    int yielded = 0, *result = arg;
    open_things();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        yielded += yields(calls[i]);
    close_things();
    *result = yielded;
}

static int with_chaos(const char *percent)
{
    int yielded = -1;
    CHECK_EQ(setenv("WEFT_CHAOS", percent, 1), 0);
    on_one_machine(try_all, &yielded);
    CHECK_EQ(unsetenv("WEFT_CHAOS"), 0);
    return yielded;
}

static void every_call_yields(void)
{
    CHECK_EQ(with_chaos("100"), sizeof calls / sizeof calls[0]);
}

static void none_does_without_it(void)
{
    CHECK_EQ(with_chaos(""), 0);
}

/* A thousand locks; that all of them yield, or none, has a chance that is none. */
static void count_of_many(void *arg)
{
    int *result = arg;
    for (int i = 0; i < 1000; i++) {
        *result += yields(call_mutex_lock);
        weft_mutex_unlock(&mutex);
    }
}

static void some_do(void)
{
    int yielded = 0;
    CHECK_EQ(setenv("WEFT_CHAOS", "20", 1), 0);
    on_one_machine(count_of_many, &yielded);
    CHECK_EQ(unsetenv("WEFT_CHAOS"), 0);
    CHECK(yielded > 0 && yielded < 1000);
}

static void call_under_spin(void)
{
    weft_spin_lock(&spin);
    CHECK_EQ(weft_mutex_try_lock(&mutex), 0);
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft_go(nothing, NULL), 0);
    weft_spin_unlock(&spin);
}

static void hold_spin(void *arg)
{
    bool *yielded = arg;
    *yielded = yields(call_under_spin);
}

static void who_holds_a_spin_lock_does_not(void)
{
    bool yielded = true;
    CHECK_EQ(setenv("WEFT_CHAOS", "100", 1), 0);
    on_one_machine(hold_spin, &yielded);
    CHECK_EQ(unsetenv("WEFT_CHAOS"), 0);
    CHECK(!yielded);
}

int main(void)
{
    CHECK_EQ(unsetenv("WEFT_CHAOS"), 0);
    RUN_PLAIN(none_does_without_it, "stops or configures the runtime");
    RUN_PLAIN(every_call_yields, "stops or configures the runtime");
    RUN_PLAIN(some_do, "stops or configures the runtime");
    RUN_PLAIN(who_holds_a_spin_lock_does_not, "stops or configures the runtime");
    return 0;
}
