/*
 * handoff_stress.c: fibers block, marked and not, compute, wait and wake each other at random on
 * few processors: nothing is lost, nothing runs twice, and errno, fiber-local values and locks stay
 * with their fiber.
 */
#include "bodies.h"
#include "everywhere.h"
#include "fibers.h"

enum { FIBERS = 200, STEPS = 60, WAYS = 9 };

static weft_local_key key;
static weft_chan *chan;
static weft_mutex mutex;
static int64_t counted, received;
static atomic_i64 spawned, ended;

static void *nap_in_function(void *arg)
{
    nap(*(uint32_t *)arg);
    return arg;
}

static void compute(uint32_t microseconds)
{
    int64_t end = weft_now() + microseconds * WEFT_US;
    while (weft_now() < end)
        continue;
}

static void count_ended(void *arg)
{
    nap(50);
    atomic_i64_add_relaxed(&ended, 1);
}

static void step(struct prng *prng)
{
    uint32_t time = prng_below(prng, 300);
    int64_t value = 1;
    switch (prng_below(prng, WAYS)) {
    case 0:
        nap(time);
        break;
    case 1:
        compute(time);
        break;
    case 2:
        CHECK_PTR(weft_blocking(nap_in_function, &time), &time);
        break;
    case 3:
        CHECK_EQ(weft_sleep(time * WEFT_US), 0);
        break;
    case 4:
        CHECK_EQ(weft_chan_send(chan, &value), 0);
        break;
    case 5:
        weft_mutex_lock(&mutex);
        if (time % 8 == 0)
            nap(20); /* others wait for a fiber that may have no processor */
        counted++;
        weft_mutex_unlock(&mutex);
        weft_blocking_enter();
        sched_yield();
        weft_blocking_exit();
        break;
    case 6:
        CHECK_EQ(weft_go(count_ended, NULL), 0);
        atomic_i64_add_relaxed(&spawned, 1);
        break;
    case 7:
        weft_blocking_enter();
        CHECK_EQ(weft_sleep(time / 4 * WEFT_US), 0);
        nap(time / 4);
        weft_blocking_exit();
        break;
    default:
        weft_yield();
    }
}

static void live(void *arg)
{
    struct prng prng = prng_from((uint64_t)(uintptr_t)arg);
    CHECK_EQ(weft_local_set(key, arg), 0);
    weft_fiber *self = weft_self();
    for (int i = 0; i < STEPS; i++) {
        int mark = 1 + (int)prng_below(&prng, 100);
        set_errno(mark);
        step(&prng);
        CHECK(get_errno() == mark || get_errno() == EINTR);
        CHECK_PTR(weft_local_get(key), arg);
        CHECK_PTR(weft_self(), self);
    }
}

static void receive_all(void *arg)
{
    int64_t value;
    while (weft_chan_receive(chan, &value) == 0)
        received += value;
}

static void storm(int processors, int max_machines)
{
    static weft_fiber *fibers[FIBERS];
    int count = (int)test_scale(FIBERS);
    weft_config config = {.processors = processors, .max_machines = max_machines};
    CHECK_EQ(weft_configure(&config), 0);
    CHECK_EQ(weft_chan_make(&chan, sizeof(int64_t), 4), 0);
    counted = received = 0;
    atomic_i64_store_relaxed(&spawned, 0);
    atomic_i64_store_relaxed(&ended, 0);
    weft_fiber *receiver = spawn(receive_all, NULL);
    for (intptr_t i = 0; i < count; i++)
        CHECK_EQ(weft_spawn(&fibers[i], live, (void *)(i + 1), NULL), 0);
    join_all(fibers, count);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(weft_join(receiver), 0);
    shut_down();
    CHECK_EQ(atomic_i64_load_relaxed(&spawned), atomic_i64_load_relaxed(&ended));
    weft_chan_destroy(chan);
}

static void nothing_is_lost(void)
{
    storm(1, 0);
    storm(2, 0);
    storm(4, 0);
    storm(2, 3); /* few machines */
}

int main(void)
{
    CHECK_EQ(weft_local_create(&key, NULL), 0);
    RUN_PLAIN(nothing_is_lost, "threads that block");
    return 0;
}
