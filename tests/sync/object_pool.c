/*
 * object_pool.c: the object pool: what get gives, from fibers and threads, and what close destroys.
 * The destruction of idle objects is in object_pool_idle.c.
 *
 * Objects count themselves: constructed and destroyed are compared at the end of each test.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdalign.h>

#include "bodies.h"
#include "counts.h"
#include "everywhere.h"
#include "failing.h"
#include "seeds.h"
#include <weft/weft.h>

#define LONG (3600 * WEFT_S) /* an idle period that does not end in a test */

struct thing {
    uint64_t magic;
    uint64_t number;
    char text[40];
};

#define MAGIC 0x746f6f6c73u

static struct {
    atomic_u32 constructed, destroyed;
    atomic_u32 fail; /* the error that the next construct returns, negated */
} things;

static int thing_construct(void *object, void *arg)
{
    struct thing *thing = object;
    CHECK_PTR(arg, &things);
    CHECK_EQ(thing->magic, 0);
    int fail = (int)atomic_u32_exchange_acq_rel(&things.fail, 0);
    if (fail != 0)
        return -fail;
    thing->magic = MAGIC;
    thing->number = atomic_u32_add_seq_cst(&things.constructed, 1);
    return 0;
}

static void thing_destroy(void *object, void *arg)
{
    struct thing *thing = object;
    CHECK_PTR(arg, &things);
    CHECK_EQ(thing->magic, MAGIC);
    thing->magic = 0;
    atomic_u32_add_seq_cst(&things.destroyed, 1);
}

static weft_object_pool_options thing_options(int64_t idle_period)
{
    return (weft_object_pool_options){.size = sizeof(struct thing),
                                      .construct = thing_construct,
                                      .destroy = thing_destroy,
                                      .arg = &things,
                                      .idle_period = idle_period};
}

static weft_object_pool *open_things(int64_t idle_period)
{
    weft_object_pool *pool;
    weft_object_pool_options options = thing_options(idle_period);
    atomic_u32_store_relaxed(&things.constructed, 0);
    atomic_u32_store_relaxed(&things.destroyed, 0);
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    return pool;
}

static void close_things(weft_object_pool *pool, uint32_t constructed)
{
    CHECK_EQ(weft_object_pool_close(pool), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&things.constructed), constructed);
    CHECK_EQ(atomic_u32_load_relaxed(&things.destroyed), constructed);
}

static struct thing *get(weft_object_pool *pool)
{
    void *object = NULL;
    CHECK_EQ(weft_object_pool_get(pool, &object), 0);
    CHECK(object != NULL);
    return object;
}

/* Misuse; runs before the runtime does, so that children can be forked. */

static void put_twice(void *arg)
{
    weft_object_pool *pool = open_things(0);
    struct thing *thing = get(pool);
    weft_object_pool_put(pool, thing);
    weft_object_pool_put(pool, thing);
}

static void misuse_of_put_aborts(void)
{
    static const char text[] = "weft: weft_object_pool_put was given an object that is not out";
    int something;
    CHECK_ABORTS("weft: weft_object_pool_put was given no object",
                 weft_object_pool_put(open_things(0), NULL));
    CHECK_ABORTS("weft: weft_object_pool_put was given no pool",
                 weft_object_pool_put(NULL, &something));
    CHECK_ABORTS(text, put_twice(NULL));
    CHECK_ABORTS(text, body_run(put_twice, NULL, false));
    CHECK_ABORTS(text, weft_object_pool_put(open_things(0), get(open_things(0))));
}

static void check_arguments(void *arg)
{
    weft_object_pool *poison = (weft_object_pool *)(uintptr_t)0xdead, *pool = poison;
    weft_object_pool_options options = thing_options(0);
    weft_object_pool_counts counts;
    CHECK_EQ(weft_object_pool_open(NULL, &options), -EINVAL);
    CHECK_EQ(weft_object_pool_open(&pool, NULL), -EINVAL);
    options.size = 0;
    CHECK_EQ(weft_object_pool_open(&pool, &options), -EINVAL);
    options.size = SIZE_MAX;
    CHECK_EQ(weft_object_pool_open(&pool, &options), -EINVAL);
    options = thing_options(-1);
    CHECK_EQ(weft_object_pool_open(&pool, &options), -EINVAL);
    for (int i = 0; i < 6; i++) {
        options = thing_options(0);
        options.reserved[i] = 1;
        CHECK_EQ(weft_object_pool_open(&pool, &options), -EINVAL);
    }
    CHECK_PTR(pool, poison);

    pool = open_things(LONG);
    void *object = poison;
    CHECK_EQ(weft_object_pool_get(NULL, &object), -EINVAL);
    CHECK_PTR(object, poison);
    CHECK_EQ(weft_object_pool_get(pool, NULL), -EINVAL);
    CHECK_EQ(weft_object_pool_close(NULL), -EINVAL);
    CHECK_EQ(weft_object_pool_count(NULL, &counts), -EINVAL);
    CHECK_EQ(weft_object_pool_count(pool, NULL), -EINVAL);
    check_counts(pool, 0, 0, 0, 0);
    close_things(pool, 0);
}

static void invalid_options_are_refused(void)
{
    everywhere(check_arguments);
}

/* Get and put. */

static void objects_are_reused(void *arg)
{
    enum { MANY = 1000 };
    static struct thing *all[MANY];
    weft_object_pool *pool = open_things(LONG);
    struct thing *first = get(pool), *second = get(pool);
    CHECK(first != second);
    check_counts(pool, 0, 2, 2, 0);
    memcpy(first->text, "as it was left", 15);
    weft_object_pool_put(pool, second);
    weft_object_pool_put(pool, first);
    check_counts(pool, 2, 0, 2, 0);
    CHECK_PTR(get(pool), first); /* last in, first out */
    CHECK_STR(first->text, "as it was left");
    CHECK_PTR(get(pool), second);
    weft_object_pool_put(pool, first);
    weft_object_pool_put(pool, second);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++)
            all[i] = get(pool);
        check_counts(pool, 0, MANY, MANY, 0);
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(all[i]->magic, MAGIC); /* set by construct, and only there */
            all[i]->number = (uint64_t)i;
        }
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(all[i]->number, i); /* no other get had it */
            weft_object_pool_put(pool, all[i]);
        }
    }
    check_counts(pool, MANY, 0, MANY, 0);
    close_things(pool, MANY);
}

static void objects_need_no_functions(void *arg)
{
    static const char zeros[300];
    for (size_t size = 1; size <= sizeof zeros; size += 13) {
        weft_object_pool_options options = {.size = size};
        weft_object_pool *pool;
        void *objects[5];
        CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
        for (int i = 0; i < 5; i++) {
            CHECK_EQ(weft_object_pool_get(pool, &objects[i]), 0);
            CHECK_EQ((uintptr_t)objects[i] % alignof(max_align_t), 0);
            CHECK_EQ(memcmp(objects[i], zeros, size), 0);
            memset(objects[i], 0xff, size);
        }
        for (int i = 0; i < 5; i++)
            weft_object_pool_put(pool, objects[i]);
        CHECK_EQ(weft_object_pool_close(pool), 0);
    }
}

/* Failures. */

static void a_failed_construct_returns_its_error(void *arg)
{
    weft_object_pool *pool = open_things(LONG);
    int poison, *object = &poison;
    atomic_u32_store_relaxed(&things.fail, EMFILE);
    CHECK_EQ(weft_object_pool_get(pool, (void **)&object), -EMFILE);
    CHECK_PTR(object, &poison);
    check_counts(pool, 0, 0, 0, 0);
    weft_object_pool_put(pool, get(pool));
    atomic_u32_store_relaxed(&things.fail, EMFILE);
    weft_object_pool_put(pool, get(pool)); /* one is kept: construct is not called */
    CHECK_EQ(atomic_u32_exchange_acq_rel(&things.fail, 0), EMFILE);
    close_things(pool, 1);
}

static void check_no_memory(void *arg)
{
    weft_object_pool *pool = open_things(LONG);
    int poison, *object = &poison;
    failing_on(OS_ALLOC, 1, true);
    int result = weft_object_pool_get(pool, (void **)&object);
    failing_off();
    CHECK_EQ(result, -ENOMEM);
    CHECK_PTR(object, &poison);
    struct thing *thing = get(pool);
    failing_on(OS_ALLOC, 1, true);
    weft_object_pool_put(pool, thing); /* a put cannot fail */
    result = weft_object_pool_get(pool, (void **)&object);
    failing_off();
    CHECK_EQ(result, 0);
    CHECK_PTR(object, thing);
    weft_object_pool_put(pool, object);
    close_things(pool, 1);
}

/* A large object has a mapping of its own. */
static void check_no_mapping(void *arg)
{
    weft_object_pool_options options = {.size = 100000, .idle_period = LONG};
    weft_object_pool *pool;
    int poison, *object = &poison;
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    failing_on(OS_MAP, 1, true);
    int result = weft_object_pool_get(pool, (void **)&object);
    failing_off();
    CHECK_EQ(result, -ENOMEM);
    CHECK_PTR(object, &poison);
    CHECK_EQ(weft_object_pool_get(pool, (void **)&object), 0);
    weft_object_pool_put(pool, object);
    CHECK_EQ(weft_object_pool_close(pool), 0);
}

static void without_memory_get_says_so(void)
{
    everywhere(check_no_memory);
    everywhere(check_no_mapping);
}

static void open_failing(void)
{
    weft_object_pool *poison = (weft_object_pool *)(uintptr_t)0xdead, *pool = poison;
    weft_object_pool_options options = thing_options(0);
    int result = weft_object_pool_open(&pool, &options);
    failing_off();
    failing_check(result, failing_start);
    CHECK((result == 0) == (pool != poison));
    if (result == 0)
        CHECK_EQ(weft_object_pool_close(pool), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* nothing is left */
}

static void open_fails_cleanly(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK(failing_each(open_failing, 20) > 0);
}

/* Close. */

static void close_waits_for_no_one(void *arg)
{
    weft_object_pool *pool = open_things(LONG);
    struct thing *one = get(pool), *other = get(pool);
    weft_object_pool_put(pool, one);
    CHECK_EQ(weft_object_pool_close(pool), -EBUSY);
    check_counts(pool, 1, 1, 2, 0);
    CHECK_EQ(atomic_u32_load_relaxed(&things.destroyed), 0);
    CHECK_PTR(get(pool), one); /* the pool is still open */
    weft_object_pool_put(pool, one);
    weft_object_pool_put(pool, other);
    close_things(pool, 2);

    pool = open_things(LONG); /* nothing kept, so far */
    one = get(pool);
    CHECK_EQ(weft_object_pool_close(pool), -EBUSY);
    weft_object_pool_put(pool, one);
    close_things(pool, 1);
}

static void shutdown_sees_the_pool(void)
{
    weft_object_pool *pool = open_things(0);
    CHECK_EQ(weft_shutdown(WEFT_NOW), -ETIMEDOUT);
    close_things(pool, 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Stealing. */

static struct {
    weft_object_pool *pool;
    struct thing *things[100];
    uint32_t count;
    atomic_u32 put, taken;
} theft;

/* Keeps its processor until others have taken what it put. */
static void put_and_hold(void *arg)
{
    for (uint32_t i = 0; i < theft.count; i++)
        theft.things[i] = get(theft.pool);
    for (uint32_t i = 0; i < theft.count; i++)
        weft_object_pool_put(theft.pool, theft.things[i]);
    atomic_u32_store_release(&theft.put, 1);
    while (!atomic_u32_load_acquire(&theft.taken))
        sched_yield();
}

static void take_all(void *arg)
{
    while (!atomic_u32_load_acquire(&theft.put))
        sched_yield();
    for (uint32_t i = 0; i < theft.count; i++)
        theft.things[i] = get(theft.pool);
    check_counts(theft.pool, 0, theft.count, theft.count, 0);
    for (uint32_t i = 0; i < theft.count; i++)
        weft_object_pool_put(theft.pool, theft.things[i]);
    atomic_u32_store_release(&theft.taken, 1);
}

static void steal_among_fibers(void *arg)
{
    weft_fiber *holder, *getter;
    for (theft.count = 1; theft.count <= 100; theft.count += 33) {
        theft.pool = open_things(LONG);
        atomic_u32_store_relaxed(&theft.put, 0);
        atomic_u32_store_relaxed(&theft.taken, 0);
        CHECK_EQ(weft_spawn(&holder, put_and_hold, NULL, NULL), 0);
        CHECK_EQ(weft_spawn(&getter, take_all, NULL, NULL), 0);
        CHECK_EQ(weft_join(holder), 0);
        CHECK_EQ(weft_join(getter), 0);
        close_things(theft.pool, theft.count);
    }
}

static void steal_with_a_thread(void (*in_fiber)(void *), void (*in_thread)(void *))
{
    weft_fiber *fiber;
    for (theft.count = 1; theft.count <= 100; theft.count += 33) {
        theft.pool = open_things(LONG);
        atomic_u32_store_relaxed(&theft.put, 0);
        atomic_u32_store_relaxed(&theft.taken, 0);
        CHECK_EQ(weft_spawn(&fiber, in_fiber, NULL, NULL), 0);
        in_thread(NULL);
        CHECK_EQ(weft_join(fiber), 0);
        close_things(theft.pool, theft.count);
    }
}

static void others_objects_come_before_new_ones(void)
{
    on_processors(2, steal_among_fibers, NULL);
    steal_with_a_thread(put_and_hold, take_all);
    steal_with_a_thread(take_all, put_and_hold);
}

/* After a theft the owner goes on, and owns its shard alone again after a while. */
static void owner_goes_on(void *arg)
{
    enum { PAIRS = 1000 };
    put_and_hold(NULL);
    struct thing *thing = get(theft.pool);
    for (int i = 0; i < PAIRS; i++) {
        weft_object_pool_put(theft.pool, thing);
        CHECK_PTR(get(theft.pool), thing);
    }
    weft_object_pool_put(theft.pool, thing);
}

static void the_owner_goes_on_after_a_theft(void)
{
    steal_with_a_thread(owner_goes_on, take_all);
}

/* Functions of objects that wait, and use the pool. */

static struct {
    weft_object_pool *pool;
    sem_t begun;
    weft_wg gate;
    atomic_u32 constructed, destroyed;
} nested;

static int nested_construct(void *object, void *arg)
{
    void *other;
    weft_yield();
    if (atomic_u32_add_seq_cst(&nested.constructed, 1) < 5) {
        CHECK_EQ(weft_object_pool_get(nested.pool, &other), 0);
        CHECK_EQ(weft_sleep(WEFT_US), 0);
        weft_object_pool_put(nested.pool, other);
    }
    return 0;
}

static void nested_destroy(void *object, void *arg)
{
    /* The first two take one from the pool, or make it, and put it back. */
    if (atomic_u32_add_seq_cst(&nested.destroyed, 1) < 2) {
        void *other;
        CHECK_EQ(weft_object_pool_get(nested.pool, &other), 0);
        weft_yield();
        weft_object_pool_put(nested.pool, other);
    }
}

static void check_nested(void *idle_period)
{
    weft_object_pool_options options = {.size = 1,
                                        .construct = nested_construct,
                                        .destroy = nested_destroy,
                                        .idle_period = *(int64_t *)idle_period};
    void *object;
    atomic_u32_store_relaxed(&nested.constructed, 0);
    atomic_u32_store_relaxed(&nested.destroyed, 0);
    CHECK_EQ(weft_object_pool_open(&nested.pool, &options), 0);
    CHECK_EQ(weft_object_pool_get(nested.pool, &object), 0);
    weft_object_pool_put(nested.pool, object);
    while (options.idle_period != LONG && counts_of(nested.pool).destroyed < 5)
        weft_yield();
    CHECK_EQ(weft_object_pool_close(nested.pool), 0); /* not before all these have been destroyed */
    CHECK_EQ(atomic_u32_load_relaxed(&nested.constructed),
             atomic_u32_load_relaxed(&nested.destroyed));
}

static void functions_may_use_the_pool(void)
{
    static int64_t periods[] = {LONG, WEFT_MS};
    for (int i = 0; i < 2; i++) {
        weft_fiber *fiber;
        check_nested(&periods[i]);
        CHECK_EQ(weft_spawn(&fiber, check_nested, &periods[i], NULL), 0);
        CHECK_EQ(weft_join(fiber), 0);
    }
}

static void slow_destroy(void *object, void *arg)
{
    CHECK_EQ(sem_post(&nested.begun), 0);
    CHECK_EQ(weft_wg_wait(&nested.gate), 0);
    weft_yield();
    atomic_u32_add_seq_cst(&nested.destroyed, 1);
}

static void open_gate(void *arg)
{
    weft_wg_done(&nested.gate);
}

/* Close waits for a destroy that has begun; until then others may use the pool. */
static void close_waits_for_destroy(void)
{
    weft_object_pool_options options = {.size = 1, .destroy = slow_destroy, .idle_period = WEFT_US};
    weft_object_pool *pool;
    void *object;
    CHECK_EQ(sem_init(&nested.begun, 0, 0), 0);
    CHECK_EQ(weft_wg_init(&nested.gate, 1), 0);
    atomic_u32_store_relaxed(&nested.destroyed, 0);
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    CHECK_EQ(weft_object_pool_get(pool, &object), 0);
    weft_object_pool_put(pool, object);
    while (sem_wait(&nested.begun) != 0)
        continue;
    CHECK_EQ(weft_object_pool_get(pool, &object), 0);
    CHECK_EQ(weft_object_pool_close(pool), -EBUSY);
    weft_object_pool_put(pool, object);
    CHECK_EQ(weft_go(open_gate, NULL), 0);
    CHECK_EQ(weft_object_pool_close(pool), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&nested.destroyed), 2);
}

/* A forked child. */

static struct {
    weft_object_pool *pool;
    struct thing *thing;
} forked;

static void check_child(void)
{
    weft_object_pool *pool = forked.pool;
    struct thing *thing = forked.thing;
    weft_object_pool *poison = (weft_object_pool *)(uintptr_t)0xdead, *other = poison;
    weft_object_pool_options options = thing_options(0);
    void *object = poison;
    CHECK_EQ(weft_object_pool_open(&other, &options), -ECHILD);
    CHECK_PTR(other, poison);
    CHECK_EQ(weft_object_pool_get(pool, &object), -ECHILD);
    CHECK_PTR(object, poison);
    weft_object_pool_put(pool, thing);
    CHECK_EQ(thing->magic, MAGIC);
    CHECK_EQ(weft_object_pool_close(pool), -ECHILD);
    check_counts(pool, 1, 1, 2, 0);
}

static void fork_with_a_pool(void *arg)
{
    weft_object_pool *pool = open_things(LONG);
    struct thing *thing = get(pool);
    weft_object_pool_put(pool, get(pool));
    forked.pool = pool;
    forked.thing = thing;
    in_fork(check_child);
    weft_object_pool_put(pool, thing);
    close_things(pool, 2);
}

static void a_forked_child_is_refused(void)
{
    everywhere(fork_with_a_pool);
}

int main(void)
{
    RUN_PLAIN(misuse_of_put_aborts, "a child process that must die");
    RUN_PLAIN(invalid_options_are_refused, "nothing waits");
    RUN_EVERYWHERE(objects_are_reused);
    RUN_EVERYWHERE(objects_need_no_functions);
    RUN_EVERYWHERE(a_failed_construct_returns_its_error);
    RUN_BOTH(without_memory_get_says_so);
    RUN_PLAIN(open_fails_cleanly, "stops or configures the runtime");
    RUN_EVERYWHERE(close_waits_for_no_one);
    RUN_PLAIN(shutdown_sees_the_pool, "stops or configures the runtime");
    RUN_PLAIN(others_objects_come_before_new_ones,
              "holds a processor while others run on another one");
    RUN_PLAIN(the_owner_goes_on_after_a_theft, "holds a processor while others run on another one");
    RUN_BOTH(functions_may_use_the_pool);
    RUN_PLAIN(close_waits_for_destroy, "blocks its thread in between");
    RUN_PLAIN(a_forked_child_is_refused, "forks");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
