/*
 * chaos.c: with WEFT_CHAOS the calling fiber yields at every call of weft; nothing else changes.
 *
 * On one processor another fiber runs only when the caller waits or yields. So a call that need not
 * wait has yielded if a fiber started just before it has run after it.
 */
#include "everywhere.h"
#include "fibers.h"

static weft_mutex mutex;
static bool marked;

static void mark(void *arg)
{
    marked = true;
}

static void begin_call(void)
{
    CHECK_EQ(weft_go(mark, NULL), 0);
    marked = false;
}

static bool end_call(void)
{
    bool yielded = marked;
    while (!marked)
        weft_yield();
    return yielded;
}

/* Whether another fiber has run during the call. */
#define YIELDS(call) (begin_call(), (void)(call), end_call())
#define YIELDS_EQ(call, result) (begin_call(), CHECK_EQ(call, result), end_call())

enum { CALLS = 15 };

static void call_each(void *arg)
{
    weft_rwmutex rwmutex = WEFT_RWMUTEX_INIT;
    weft_sem sem = WEFT_SEM_INIT(10);
    weft_wg wg = WEFT_WG_INIT;
    weft_once once = WEFT_ONCE_INIT;
    weft_pool *pool;
    int number = 1, *yielded = arg;
    weft_chan *chan = make_chan(sizeof number, 10);
    CHECK_EQ(weft_pool_open(&pool, NULL), 0);
    *yielded += YIELDS(weft_mutex_lock(&mutex));
    *yielded += YIELDS(weft_mutex_unlock(&mutex));
    *yielded += YIELDS_EQ(weft_mutex_try_lock(&mutex), 0);
    *yielded += YIELDS(weft_mutex_unlock(&mutex));
    *yielded += YIELDS(weft_rwmutex_read_lock(&rwmutex));
    *yielded += YIELDS(weft_rwmutex_read_unlock(&rwmutex));
    *yielded += YIELDS(weft_sem_acquire(&sem, 1));
    *yielded += YIELDS(weft_sem_release(&sem, 1));
    *yielded += YIELDS_EQ(weft_wg_add(&wg, 1), 0);
    *yielded += YIELDS(weft_wg_done(&wg));
    *yielded += YIELDS(weft_once_do(&once, nothing, NULL));
    *yielded += YIELDS_EQ(weft_chan_send(chan, &number), 0);
    *yielded += YIELDS_EQ(weft_chan_try_receive(chan, &number), 0);
    *yielded += YIELDS_EQ(weft_pool_submit(pool, nothing, NULL), 0);
    *yielded += YIELDS_EQ(weft_go(nothing, NULL), 0);
    CHECK_EQ(weft_pool_close(pool), 0);
    weft_chan_destroy(chan);
}

/* All of a thousand locks yield, or none, with a probability of less than 10^-90. */
static void lock_often(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        *(int *)arg += YIELDS(weft_mutex_lock(&mutex));
        weft_mutex_unlock(&mutex);
    }
}

static void call_under_spin(void *arg)
{
    weft_spin spin = WEFT_SPIN_INIT;
    begin_call();
    weft_spin_lock(&spin);
    CHECK_EQ(weft_mutex_try_lock(&mutex), 0);
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft_go(nothing, NULL), 0);
    weft_spin_unlock(&spin);
    *(int *)arg += end_call();
}

/* How many calls of the function yielded. */
static int with_chaos(const char *percent, void (*function)(void *))
{
    int yielded = 0;
    CHECK_EQ(setenv("WEFT_CHAOS", percent, 1), 0);
    on_one_machine(function, &yielded);
    CHECK_EQ(unsetenv("WEFT_CHAOS"), 0);
    return yielded;
}

static void calls_yield(void)
{
    CHECK_EQ(with_chaos("", call_each), 0);
    CHECK_EQ(with_chaos("100", call_each), CALLS);
    int some = with_chaos("20", lock_often);
    CHECK(some > 0 && some < 1000);
}

static void a_holder_of_a_spin_lock_does_not_yield(void)
{
    CHECK_EQ(with_chaos("100", call_under_spin), 0);
}

int main(void)
{
    RUN_ALL_PLAIN("stops or configures the runtime", calls_yield,
                  a_holder_of_a_spin_lock_does_not_yield);
    return 0;
}
