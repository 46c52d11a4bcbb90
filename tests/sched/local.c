/*
 * local.c: fiber-local storage: values, keys, destructors, in fibers and in threads.
 */
#include "fibers.h"
#include "os/failure.h"
#include "os/os.h"
#include "seeds.h"

enum { FIBERS = 100, ROUNDS_MOST = 4 };

static weft_local_key make(void (*destructor)(void *))
{
    weft_local_key key;
    CHECK_EQ(weft_local_create(&key, destructor), 0);
    return key;
}

static void no_such_key(void)
{
    int value;
    weft_local_key key = make(NULL), never[] = {0, 1, WEFT_LOCAL_KEYS - 1, UINT32_MAX, key + 1};
    CHECK_EQ(weft_local_create(NULL, NULL), -EINVAL);
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        CHECK_PTR(weft_local_get(never[i]), NULL);
        CHECK_EQ(weft_local_set(never[i], &value), -EINVAL);
        CHECK_EQ(weft_local_delete(never[i]), -EINVAL);
    }
    CHECK_EQ(weft_local_delete(key), 0);
    CHECK_EQ(weft_local_delete(key), -EINVAL);
    CHECK_EQ(weft_local_set(key, &value), -EINVAL);
    CHECK_PTR(weft_local_get(key), NULL);
}

static void only_so_many_keys(void)
{
    weft_local_key keys[WEFT_LOCAL_KEYS], poison = 12345;
    for (int i = 0; i < WEFT_LOCAL_KEYS; i++) {
        keys[i] = make(NULL);
        for (int j = 0; j < i; j++)
            CHECK(keys[i] != keys[j]);
    }
    CHECK_EQ(weft_local_create(&poison, NULL), -EAGAIN);
    CHECK_EQ(poison, 12345);
    CHECK_EQ(weft_local_delete(keys[17]), 0);
    weft_local_key again = make(NULL);
    CHECK(again != keys[17]);
    keys[17] = again;
    CHECK_EQ(weft_local_create(&poison, NULL), -EAGAIN);
    /* Each has a value of its own. */
    for (int i = 0; i < WEFT_LOCAL_KEYS; i++)
        CHECK_EQ(weft_local_set(keys[i], &keys[i]), 0);
    for (int i = 0; i < WEFT_LOCAL_KEYS; i++)
        CHECK_PTR(weft_local_get(keys[i]), &keys[i]);
    for (int i = 0; i < WEFT_LOCAL_KEYS; i++)
        CHECK_EQ(weft_local_delete(keys[i]), 0);
}

/* Memory. Runs while weft has no threads whose calls could fail instead. */

static void set_without_memory(void *nth)
{
    int value;
    weft_local_key key = make(NULL);
    weft__os_fail(OS_ALLOC, *(uint32_t *)nth, false);
    CHECK_EQ(weft_local_set(key, &value), -ENOMEM);
    CHECK_EQ(weft__os_calls(OS_ALLOC), *(uint32_t *)nth);
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_PTR(weft_local_get(key), NULL);
    CHECK_EQ(weft_local_set(key, &value), 0);
    CHECK_PTR(weft_local_get(key), &value);
    CHECK_EQ(weft_local_delete(key), 0);
}

static void set_without_any_memory(void *arg)
{
    int value;
    weft_local_key key = make(NULL);
    weft__os_fail(OS_ALLOC, 1, true);
    int error = weft_local_set(key, &value);
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(error, -ENOMEM);
    CHECK_PTR(weft_local_get(key), NULL);
    CHECK_EQ(weft_local_set(key, &value), 0);
    CHECK_PTR(weft_local_get(key), &value);
    CHECK_EQ(weft_local_delete(key), 0);
}

static void no_memory(void)
{
    for (uint32_t nth = 1; nth <= 2; nth++) /* the thread's record, then its values */
        run_thread(set_without_memory, &nth);
    run_fiber(set_without_any_memory, NULL);
}

static weft_local_key shared_key;
static atomic_u32 destroyed;

static void keep_own_value(void *arg)
{
    int mine = 0;
    CHECK_PTR(weft_local_get(shared_key), NULL);
    CHECK_EQ(weft_local_set(shared_key, &mine), 0);
    for (int i = 0; i < 50; i++) {
        if (weft_self() != NULL && i % 10 == 0)
            CHECK_EQ(weft_sleep(10 * WEFT_US), 0); /* it may continue on another thread */
        weft_yield();
        CHECK_PTR(weft_local_get(shared_key), &mine);
    }
    int *again = &mine + 1;
    CHECK_EQ(weft_local_set(shared_key, again), 0);
    CHECK_PTR(weft_local_get(shared_key), again);
    CHECK_EQ(weft_local_set(shared_key, NULL), 0);
    CHECK_PTR(weft_local_get(shared_key), NULL);
}

static void each_has_its_own(void)
{
    weft_fiber *fibers[FIBERS];
    int value;
    shared_key = make(NULL);
    CHECK_EQ(weft_local_set(shared_key, &value), 0);
    spawn_all(fibers, FIBERS, keep_own_value, NULL);
    for (int i = 0; i < 4; i++)
        run_thread(keep_own_value, NULL);
    join_all(fibers, FIBERS);
    CHECK_PTR(weft_local_get(shared_key), &value);
    CHECK_EQ(weft_local_delete(shared_key), 0);
}

struct owner {
    weft_fiber *fiber;
    pthread_t thread;
    int calls;
};

static void destroy_owner(void *value)
{
    struct owner *owner = value;
    CHECK_PTR(weft_self(), owner->fiber);
    if (owner->fiber == NULL)
        CHECK(pthread_equal(pthread_self(), owner->thread));
    CHECK_PTR(weft_local_get(shared_key), NULL);
    weft_yield(); /* a destructor may park */
    owner->calls++;
    atomic_u32_add_relaxed(&destroyed, 1);
}

static void own(void *arg)
{
    struct owner *owner = arg;
    owner->fiber = weft_self();
    owner->thread = pthread_self();
    CHECK_EQ(weft_local_set(shared_key, owner), 0);
    weft_yield();
    CHECK_EQ(owner->calls, 0);
}

static void own_nothing(void *arg)
{
    own(arg);
    CHECK_EQ(weft_local_set(shared_key, NULL), 0);
}

static void destructors_run_at_the_end(void)
{
    void (*const run[])(void (*)(void *), void *) = {run_fiber, run_thread};
    shared_key = make(destroy_owner);
    for (int i = 0; i < 2; i++) {
        struct owner owner = {.calls = 0};
        run[i](own, &owner);
        CHECK_EQ(owner.calls, 1);
        CHECK_EQ(owner.fiber != NULL, i == 0);
        owner = (struct owner){.calls = 0};
        run[i](own_nothing, &owner);
        CHECK_EQ(owner.calls, 0);
    }
    CHECK_EQ(weft_local_delete(shared_key), 0);
}

static void destructors_of_many(void)
{
    weft_fiber *fibers[FIBERS];
    static struct owner owners[FIBERS];
    shared_key = make(destroy_owner);
    for (int64_t round = 0; round < test_scale(50); round++) {
        memset(owners, 0, sizeof owners);
        atomic_u32_store_relaxed(&destroyed, 0);
        for (int i = 0; i < FIBERS; i++)
            CHECK_EQ(weft_spawn(&fibers[i], own, &owners[i], NULL), 0);
        for (int i = 0; i < FIBERS; i++) {
            CHECK_EQ(weft_join(fibers[i]), 0);
            CHECK_EQ(owners[i].calls, 1);
        }
        CHECK_EQ(atomic_u32_load_relaxed(&destroyed), FIBERS);
    }
    CHECK_EQ(weft_local_delete(shared_key), 0);
}

static weft_local_key first_key, second_key;
static int first_calls, second_calls, sets_again;

static void destroy_first(void *value)
{
    first_calls++;
    if (first_calls <= sets_again)
        CHECK_EQ(weft_local_set(first_key, value), 0);
}

/* The key stands before the first one, or after it: in both cases the value set for the other is
 * destroyed. */
static void destroy_second(void *value)
{
    second_calls++;
    CHECK_EQ(weft_local_set(first_key, value), 0);
}

static void set_first(void *arg)
{
    CHECK_EQ(weft_local_set(first_key, arg), 0);
}

static void set_second(void *arg)
{
    CHECK_EQ(weft_local_set(second_key, arg), 0);
}

static void rounds_of_destructors(void)
{
    void (*const run[])(void (*)(void *), void *) = {run_fiber, run_thread};
    int value;
    for (int i = 0; i < 2; i++) {
        first_key = make(destroy_first);
        for (sets_again = 0; sets_again < 10; sets_again++) {
            first_calls = 0;
            run[i](set_first, &value);
            CHECK_EQ(first_calls, sets_again < ROUNDS_MOST ? sets_again + 1 : ROUNDS_MOST);
        }
        CHECK_EQ(weft_local_delete(first_key), 0);
        sets_again = 0;
        for (int order = 0; order < 2; order++) {
            weft_local_key *keys[] = {&first_key, &second_key};
            void (*const destructors[])(void *) = {destroy_first, destroy_second};
            for (int n = 0; n < 2; n++)
                *keys[(n + order) % 2] = make(destructors[(n + order) % 2]);
            first_calls = second_calls = 0;
            run[i](set_second, &value);
            CHECK_EQ(second_calls, 1);
            CHECK_EQ(first_calls, 1);
            CHECK_EQ(weft_local_delete(first_key), 0);
            CHECK_EQ(weft_local_delete(second_key), 0);
        }
    }
}

static void delete_and_make_anew(void *value)
{
    weft_local_key old = make(destroy_first);
    CHECK_EQ(weft_local_set(old, value), 0);
    CHECK_EQ(weft_local_delete(old), 0);
    first_key = make(destroy_first);
    CHECK_EQ(first_key % WEFT_LOCAL_KEYS, old % WEFT_LOCAL_KEYS); /* in the place of the old one */
    CHECK(first_key != old);
    CHECK_PTR(weft_local_get(first_key), NULL);
    CHECK_PTR(weft_local_get(old), NULL);
    CHECK_EQ(weft_local_set(old, value), -EINVAL);
}

static void deleted_values_are_forgotten(void)
{
    void (*const run[])(void (*)(void *), void *) = {run_fiber, run_thread};
    int value;
    sets_again = 0;
    for (int i = 0; i < 2; i++) {
        first_calls = 0;
        run[i](delete_and_make_anew, &value);
        CHECK_EQ(first_calls, 0); /* neither for the old key nor for the new one */
        run[i](set_first, &value);
        CHECK_EQ(first_calls, 1);
        CHECK_EQ(weft_local_delete(first_key), 0);
    }
    /* Many generations in one place. */
    weft_local_key before = 0;
    for (int i = 0; i < 1000; i++) {
        weft_local_key key = make(NULL);
        CHECK(key != before);
        CHECK_PTR(weft_local_get(key), NULL);
        CHECK_EQ(weft_local_set(key, &value), 0);
        CHECK_EQ(weft_local_delete(key), 0);
        before = key;
    }
}

/* A fiber allocation that is used again brings no values along. */
static void no_value_is_inherited(void)
{
    int value;
    first_key = make(NULL);
    for (int i = 0; i < 10; i++) {
        run_fiber(set_first, &value);
        shared_key = first_key;
        run_fiber(keep_own_value, NULL); /* begins with NULL */
    }
    CHECK_EQ(weft_local_delete(first_key), 0);
}

int main(void)
{
    RUN_ALL_PLAIN("nothing waits", no_such_key, only_so_many_keys);
    RUN_BOTH(no_memory);
    RUN_PLAIN(each_has_its_own, "about plain threads");
    RUN_ALL_BOTH(destructors_run_at_the_end, destructors_of_many, rounds_of_destructors,
                 deleted_values_are_forgotten, no_value_is_inherited);
    shut_down();
    return 0;
}
