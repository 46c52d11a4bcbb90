/*
 * object_pool_idle.c: which idle objects an object pool destroys, when, and which it keeps.
 *
 * Tests wait in a semaphore of the operating system for what must happen while the program does
 * nothing. Where time decides what is right, the clock tells whether a try was fast enough to
 * count: a slow machine makes no test fail.
 */
#include <sched.h>
#include <semaphore.h>

#include "base/atomic.h"
#include "everywhere.h"
#include "os/os.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"
#include "seeds.h"
#include "sync/counts.h"
#include <weft/weft.h>

static struct {
    sem_t destroyed;
    int64_t period;
} quiet;

static int quiet_construct(void *object, void *arg)
{
    *(int64_t *)object = 0;
    return 0;
}

/* An object is not destroyed before it has been idle for a period, and only where waiting is
 * allowed. */
static void quiet_destroy(void *object, void *arg)
{
    CHECK(weft_now() >= *(int64_t *)object + quiet.period);
    CHECK(weft_self() != NULL);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    CHECK_EQ(sem_post(&quiet.destroyed), 0);
}

static weft_object_pool *open_quiet(int64_t period)
{
    weft_object_pool *pool;
    quiet.period = period;
    weft_object_pool_options options = {.size = sizeof(int64_t),
                                        .construct = quiet_construct,
                                        .destroy = quiet_destroy,
                                        .idle_period = period};
    CHECK_EQ(sem_init(&quiet.destroyed, 0, 0), 0);
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    return pool;
}

static void put_stamped(weft_object_pool *pool, void *object)
{
    *(int64_t *)object = weft_now();
    weft_object_pool_put(pool, object);
}

static void await_destroyed(int number)
{
    for (int i = 0; i < number; i++)
        while (sem_wait(&quiet.destroyed) != 0)
            CHECK_EQ(errno, EINTR);
}

/* Waits until all objects are counted as destroyed and no timer of the runtime is armed: nothing
 * wakes the process then. A forgotten object shows as the test's timeout. */
static void await_empty(weft_object_pool *pool)
{
    weft_object_pool_counts counts;
    while (counts = counts_of(pool), counts.destroyed < counts.made)
        sched_yield();
    while (weft__timers_next() != WHEEL_EMPTY)
        sched_yield();
}

/* Checks that no timer is armed, for longer than the clock would leave it so if it ran. */
static void check_stays_empty(void)
{
    for (int64_t end = weft_after(4 * quiet.period); weft_now() < end; sched_yield())
        CHECK_EQ(weft__timers_next(), WHEEL_EMPTY);
}

static void use_quiet(void *arg)
{
    enum { OBJECTS = 20 };
    void *objects[OBJECTS];
    weft_object_pool *pool = arg;
    for (int i = 0; i < OBJECTS; i++)
        CHECK_EQ(weft_object_pool_get(pool, &objects[i]), 0);
    for (int i = 0; i < OBJECTS; i++)
        put_stamped(pool, objects[i]);
}

static void idle_objects_are_destroyed(void)
{
    weft_object_pool *pool = open_quiet(2 * WEFT_MS);
    for (uint64_t round = 1; round <= 5; round++) {
        weft_fiber *fiber;
        use_quiet(pool);
        await_destroyed(20);
        await_empty(pool);
        check_counts(pool, 0, 0, 40 * round - 20, 40 * round - 20);
        CHECK_EQ(weft_spawn(&fiber, use_quiet, pool, NULL), 0);
        CHECK_EQ(weft_join(fiber), 0);
        await_destroyed(20);
        await_empty(pool);
        check_counts(pool, 0, 0, 40 * round, 40 * round);
        check_stays_empty();
    }
    CHECK_EQ(weft_object_pool_close(pool), 0);
}

/* The shortest period: the clock stops and starts all the time, and no object is forgotten. */
static void the_clock_starts_again(void)
{
    weft_object_pool *pool = open_quiet(1);
    for (int64_t round = test_scale(2000); round > 0; round--) {
        void *object;
        CHECK_EQ(weft_object_pool_get(pool, &object), 0);
        put_stamped(pool, object);
        if (round % 8 == 0)
            await_empty(pool);
    }
    await_empty(pool);
    CHECK_EQ(weft_object_pool_close(pool), 0);
}

/* An object that has been idle for more than one period, but less than two, is kept in a second
 * stage. The clock decides whether a try was fast enough to count. */
static void the_second_stage_is_used(void)
{
    int64_t period = 20 * WEFT_MS, late;
    do {
        weft_object_pool *pool = open_quiet(period);
        void *object, *again;
        CHECK_EQ(weft_object_pool_get(pool, &object), 0);
        int64_t start = weft_now();
        put_stamped(pool, object);
        CHECK_EQ(weft_sleep(period + period / 2), 0);
        CHECK_EQ(weft_object_pool_get(pool, &again), 0);
        late = weft_now() - (start + 2 * period);
        if (late < 0) {
            CHECK_PTR(again, object);
            CHECK_EQ(counts_of(pool).made, 1);
        }
        put_stamped(pool, again);
        await_destroyed((int)counts_of(pool).made);
        CHECK_EQ(weft_object_pool_close(pool), 0);
    } while (late >= 0);
}

/* An object that is used again and again stays; the objects below it are destroyed. */
static void used_objects_are_kept(void)
{
    enum { OBJECTS = 10 };
    int64_t period = 10 * WEFT_MS;
    weft_object_pool *pool = open_quiet(period);
    void *objects[OBJECTS], *object;
    bool slow = false;
    for (int i = 0; i < OBJECTS; i++)
        CHECK_EQ(weft_object_pool_get(pool, &objects[i]), 0);
    for (int i = 0; i < OBJECTS; i++)
        put_stamped(pool, objects[i]);
    int64_t since = weft_now();
    while (counts_of(pool).destroyed < OBJECTS - 1) {
        CHECK_EQ(weft_object_pool_get(pool, &object), 0);
        slow |= weft_now() - since >= period; /* it may have been destroyed */
        CHECK(slow || object == objects[OBJECTS - 1]);
        since = weft_now();
        put_stamped(pool, object);
        sched_yield();
    }
    uint64_t made = counts_of(pool).made;
    CHECK(slow || made == OBJECTS);
    await_destroyed((int)made);
    CHECK_EQ(weft_object_pool_close(pool), 0);
}

/* On one processor other fibers run while many objects are destroyed. */

static struct {
    atomic_u32 destroyed;
    uint32_t seen, most_between;
} many;

static void many_destroy(void *object, void *arg)
{
    atomic_u32_add_relaxed(&many.destroyed, 1);
}

static void destroy_many(void *arg)
{
    enum { OBJECTS = 2000 };
    static void *objects[OBJECTS];
    weft_object_pool_options options = {.size = 1, .destroy = many_destroy, .idle_period = WEFT_MS};
    weft_object_pool *pool;
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    for (int i = 0; i < OBJECTS; i++)
        CHECK_EQ(weft_object_pool_get(pool, &objects[i]), 0);
    for (int i = 0; i < OBJECTS; i++)
        weft_object_pool_put(pool, objects[i]);
    while (many.seen < OBJECTS) {
        uint32_t destroyed = atomic_u32_load_relaxed(&many.destroyed);
        if (destroyed - many.seen > many.most_between)
            many.most_between = destroyed - many.seen;
        many.seen = destroyed;
        weft_yield();
    }
    CHECK(many.most_between < OBJECTS / 2);
    CHECK_EQ(weft_object_pool_close(pool), 0);
}

static void others_run_while_many_are_destroyed(void)
{
    on_processors(1, destroy_many, NULL);
}

/* By default an object is kept for more than some milliseconds. */
static void the_default_is_not_at_once(void)
{
    weft_object_pool_options options = {.size = 1};
    weft_object_pool *pool;
    void *object, *again;
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    CHECK_EQ(weft_object_pool_get(pool, &object), 0);
    int64_t start = weft_now();
    weft_object_pool_put(pool, object);
    CHECK_EQ(weft_sleep(10 * WEFT_MS), 0);
    CHECK_EQ(weft_object_pool_get(pool, &again), 0);
    CHECK(counts_of(pool).made == 1 || weft_now() - start >= WEFT_S);
    weft_object_pool_put(pool, again);
    CHECK_EQ(weft_object_pool_close(pool), 0);
}

static void for_ever_is_for_ever(void)
{
    weft_object_pool_options options = {.size = 1, .idle_period = WEFT_NEVER};
    weft_object_pool *pool;
    void *object;
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    CHECK_EQ(weft_object_pool_get(pool, &object), 0);
    weft_object_pool_put(pool, object);
    CHECK_EQ(weft__timers_next(), WHEEL_EMPTY);
    check_counts(pool, 1, 0, 1, 0);
    CHECK_EQ(weft_object_pool_close(pool), 0);
}

/* Large objects. */

static int64_t resident(void)
{
    char text[256];
    CHECK(weft__os_read_file("/proc/self/statm", text, sizeof text) > 0);
    const char *second = strchr(text, ' ');
    CHECK(second != NULL);
    return strtoll(second, NULL, 10) * sysconf(_SC_PAGESIZE);
}

/* Gets so many objects and uses `used` bytes of each. After each the heap gets a block that
 * stays. */
static void use_large(weft_object_pool *pool, char **objects, void **stays, int count, size_t used)
{
    void *object;
    for (int i = 0; i < count; i++) {
        CHECK_EQ(weft_object_pool_get(pool, &object), 0);
        objects[i] = object;
        CHECK_EQ(objects[i][0], 0);
        CHECK_EQ(objects[i][used - 1], 0);
        memset(objects[i], 1, used);
        if (stays != NULL)
            CHECK((stays[i] = malloc(64)) != NULL);
    }
}

static void large_objects_leave_no_memory_behind(void)
{
    enum { SIZE = 60000, COUNT = 500 };
    static char *objects[COUNT];
    static void *stays[COUNT];
    weft_object_pool_options options = {.size = SIZE, .idle_period = WEFT_MS};
    weft_object_pool *pool;
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    /* The shadow memory of sanitizers is counted, and stays. */
    int64_t before = resident(), all = (int64_t)SIZE * COUNT;
    int64_t most = WEFT_ASAN || WEFT_TSAN ? 100 * all : all / 4;
    use_large(pool, objects, stays, COUNT, SIZE);
    CHECK(resident() - before > all / 2);
    for (int i = 0; i < COUNT; i++)
        weft_object_pool_put(pool, objects[i]);
    await_empty(pool);
    CHECK(resident() - before < most);

    use_large(pool, objects, NULL, COUNT,
              100); /* the beginning of each: the rest is not resident */
    CHECK(resident() - before < most);
    for (int i = 0; i < COUNT; i++)
        weft_object_pool_put(pool, objects[i]);
    CHECK_EQ(weft_object_pool_close(pool), 0);
    for (int i = 0; i < COUNT; i++)
        free(stays[i]);
}

int main(void)
{
    RUN_PLAIN(idle_objects_are_destroyed, "about real time");
    RUN_PLAIN(the_clock_starts_again, "about real time");
    RUN_PLAIN(the_second_stage_is_used, "about real time");
    RUN_PLAIN(used_objects_are_kept, "about real time");
    RUN_PLAIN(others_run_while_many_are_destroyed, "about real time");
    RUN_PLAIN(large_objects_leave_no_memory_behind, "about real time");
    RUN_BOTH(the_default_is_not_at_once);
    RUN_BOTH(for_ever_is_for_ever);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
