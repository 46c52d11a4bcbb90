/*
 * panic_told.c: a panic that is not recovered is returned to the joiner of the fiber, or to its
 * group, or is reported on stderr; all else that weft runs goes on.
 */
#include "bodies.h"
#include "everywhere.h"
#include "panics.h"
#include "seeds.h"

static void joiners_get_the_panic(void)
{
    weft_fiber *fiber;
    weft_panic_info info;
    weft_spawn_options options = {.name = "albatross"};
    CHECK_EQ(weft_spawn(&fiber, panic_and_wait, TEXT("told"), &options), 0);
    uint64_t id = weft_fiber_id(fiber);
    CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NEVER), -EOWNERDEAD);
    CHECK_STR(info.message, "told");
    CHECK_STR(info.fiber_name, "albatross");
    CHECK_EQ(info.fiber_id, id);
    CHECK((char *)info.spawn_site > (char *)(uintptr_t)joiners_get_the_panic);
    CHECK(info.depth >= 2);
    CHECK_EQ(weft_spawn(&fiber, nothing, NULL, &options), 0);
    CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NEVER), 0);
    CHECK_STR(weft_strerror(-EOWNERDEAD), "it panicked");
}

static void join_plainly(void)
{
    weft_fiber *fiber;
    weft_spawn_options options = {.name = "gull"};
    CHECK_EQ(weft_spawn(&fiber, panic_with, TEXT("not asked for"), &options), 0);
    CHECK_EQ(weft_join(fiber), -EOWNERDEAD);
}

static atomic_u32 ended;

static void panic_after_note(void *arg)
{
    atomic_u32_store_release(&ended, 1);
    weft_panic("detached");
}

static void detach(void)
{
    weft_fiber *fiber = spawn(panic_after_note, NULL);
    await(&ended, 1);
    CHECK_EQ(weft_detach(fiber), 0); /* before or after its end */
    shut_down();                     /* it has ended */
}

static atomic_u32 freed;

static void free_value(void *value)
{
    atomic_u32_add_seq_cst(&freed, 1);
    if (value != NULL && strcmp(value, "panic") == 0)
        weft_panic("destructor");
}

static weft_local_key keys[3];

static void set_values_and_panic(void *arg)
{
    CHECK_EQ(weft_local_set(keys[0], TEXT("a")), 0);
    CHECK_EQ(weft_local_set(keys[1], TEXT("panic")), 0);
    CHECK_EQ(weft_local_set(keys[2], TEXT("c")), 0);
    panic_with(arg);
}

static void go_alone(void)
{
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_local_create(&keys[i], free_value), 0);
    CHECK_EQ(weft_go(set_values_and_panic, TEXT("alone")), 0);
    await(&freed, 3);
    shut_down(); /* the fiber is gone */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_local_delete(keys[i]), 0);
}

static void other_panics_are_reported(void)
{
    const char *text = test_stderr_of(join_plainly);
    CHECK(strstr(text, "weft: panic in fiber ") != NULL);
    CHECK(strstr(text, " \"gull\": not asked for\nweft:   spawned at ") != NULL);
    CHECK(strstr(text, "weft:    0: ") != NULL);
    CHECK(strstr(test_stderr_of(detach), ": detached\n") != NULL);
    text = test_stderr_of(go_alone);
    CHECK(strstr(text, ": alone\n") != NULL);
    CHECK(strstr(text, ": destructor\n") != NULL);
}

static struct {
    weft_wg wg;
    weft_fiber *fibers[100];
} crowd;

static void panic_in_the_crowd(void *arg)
{
    CHECK_EQ(weft_wg_wait(&crowd.wg), 0);
    panic_with(arg);
}

static void many_at_once(void)
{
    CHECK_EQ(weft_wg_init(&crowd.wg, 1), 0);
    spawn_all(crowd.fibers, 100, panic_in_the_crowd, TEXT("x"));
    weft_wg_done(&crowd.wg);
    for (int i = 0; i < 100; i++)
        (void)join_panicked(crowd.fibers[i], "x");
}

/* Groups, timers, onces, object pools. */

static int group_panic(void *arg)
{
    panic_with(arg);
    return 0;
}

static int group_wait(void *arg)
{
    return weft_sleep(WEFT_NEVER);
}

static int scope_body(weft_group *group, void *arg)
{
    CHECK_EQ(weft_group_go(group, group_wait, NULL), 0);
    panic_with(arg);
    return 0;
}

static void scope(void *arg)
{
    int error = weft_group_scope(NULL, scope_body, arg);
    CHECK_EQ(error, 0); /* not reached */
}

static void a_group_gets_the_error(void *arg)
{
    weft_group *group;
    weft_panic_info info;
    CHECK_EQ(weft_group_open(&group, &(weft_group_options){.limit = 2}), 0);
    CHECK_EQ(weft_group_panic(group, &info), -ENOENT);
    CHECK_EQ(weft_group_go(group, group_wait, NULL), 0); /* is cancelled */
    CHECK_EQ(weft_group_go(group, group_panic, TEXT("grouped")), 0);
    CHECK_EQ(group_error(group), -EOWNERDEAD);
    CHECK_EQ(weft_group_panic(group, &info), 0);
    CHECK_STR(info.message, "grouped");
    CHECK_EQ(weft_group_close(group), -EOWNERDEAD);
    CHECK_EQ(weft_recover(scope, TEXT("scoped"), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "scoped");
}

static void close_unasked(void)
{
    weft_group *group;
    CHECK_EQ(weft_group_open(&group, NULL), 0);
    CHECK_EQ(weft_group_go(group, group_panic, TEXT("unasked")), 0);
    CHECK_EQ(weft_group_close(group), -EOWNERDEAD);
}

static void a_group_that_is_not_asked_reports(void)
{
    CHECK(strstr(test_stderr_of(close_unasked), ": unasked\n") != NULL);
}

static struct {
    weft_once once;
    atomic_u32 calls, waiting;
    weft_wg go;
} once;

static void once_function(void *arg)
{
    if (atomic_u32_add_seq_cst(&once.calls, 1) < 2) {
        CHECK_EQ(weft_wg_wait(&once.go), 0);
        weft_panic("not yet");
    }
}

static void once_body(void *arg)
{
    atomic_u32_add_seq_cst(&once.waiting, 1);
    weft_once_do(&once.once, once_function, arg);
}

static void once_caller(void *arg)
{
    int result = weft_recover(once_body, arg, NULL);
    *(int *)arg = result;
}

static void once_is_tried_again(void)
{
    enum { MANY = 8 };
    struct body bodies[MANY];
    int results[MANY], panicked = 0;
    memset(&once, 0, sizeof once);
    CHECK_EQ(weft_wg_init(&once.go, 1), 0);
    for (int i = 0; i < MANY; i++) {
        bodies[i] = (struct body){.function = once_caller, .arg = &results[i], .thread = i % 2};
        body_start(&bodies[i]);
    }
    await(&once.waiting, MANY);
    weft_wg_done(&once.go);
    for (int i = 0; i < MANY; i++) {
        body_join(&bodies[i]);
        panicked += results[i] == -EOWNERDEAD;
    }
    CHECK_EQ(panicked, 2);
    CHECK_EQ(atomic_u32_load_acquire(&once.calls), 3);
    weft_once_do(&once.once, once_function, NULL);
    CHECK_EQ(atomic_u32_load_acquire(&once.calls), 3);
}

static atomic_u32 ticks;

static void tick_and_panic(void *arg)
{
    if (atomic_u32_add_seq_cst(&ticks, 1) < 3) /* more would be a long text */
        panic_with(arg);
}

static void time_and_wait(void)
{
    weft_wg wg = WEFT_WG_INIT;
    weft_timer *timer = open_timer(tick_and_panic, TEXT("timer"));
    CHECK_EQ(weft_timer_start(timer, weft_after(WEFT_US), WEFT_MS), 0);
    yield_until(&ticks, 3);
    CHECK_EQ(weft_timer_close(timer), 0);
    CHECK_EQ(weft_wg_go(&wg, panic_with, TEXT("counted")), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
}

static void timers_and_wait_groups_go_on(void)
{
    const char *text = test_stderr_of(time_and_wait);
    CHECK(strstr(text, ": timer\n") != NULL);
    CHECK(strstr(text, ": counted\n") != NULL);
}

static int construct(void *object, void *arg)
{
    panic_with(arg);
    return 0;
}

static void destroy(void *object, void *arg)
{
    panic_with(arg);
}

static void get_object(void *pool)
{
    void *object;
    CHECK_EQ(weft_object_pool_get(pool, &object), 0);
    weft_object_pool_put(pool, object);
}

static void use_object_pools(void)
{
    weft_object_pool *pool;
    weft_panic_info info;
    weft_object_pool_options options = {.size = 8, .construct = construct, .arg = TEXT("object")};
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    CHECK_EQ(weft_recover(get_object, pool, &info), -EOWNERDEAD);
    CHECK_STR(info.message, "object");
    CHECK_EQ(weft_object_pool_close(pool), 0);
    options.construct = NULL;
    options.destroy = destroy;
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    get_object(pool);
    CHECK_EQ(weft_object_pool_close(pool), 0);
}

static void object_pools_stay_whole(void)
{
    CHECK(strstr(test_stderr_of(use_object_pools), ": object\n") != NULL);
}

/* A mutex stays locked, which a debug build reports. */

static weft_mutex mutex = WEFT_MUTEX_INIT;

static void lock_mutex_and_panic(void *arg)
{
    weft_mutex_lock(&mutex);
    panic_with(arg);
}

static void leave_locked(void)
{
    weft_fiber *fiber = spawn(lock_mutex_and_panic, TEXT("locked"));
    CHECK_EQ(weft_join_panic(fiber, NULL, WEFT_NEVER), -EOWNERDEAD);
    CHECK_EQ(weft_mutex_try_lock(&mutex), -EBUSY);
}

static void a_mutex_stays_locked(void)
{
    const char *text = test_stderr_of(leave_locked);
#ifdef WEFT_DEBUG
    CHECK(strstr(text, "weft: a panic left a lock locked; the panic: locked\n") != NULL);
#else
    CHECK(strstr(text, "lock") == NULL);
#endif
}

int main(void)
{
    RUN_BOTH(joiners_get_the_panic);
    RUN_PLAIN(other_panics_are_reported, "a reported panic fails a run");
    RUN_BOTH(many_at_once);
    RUN_EVERYWHERE(a_group_gets_the_error);
    RUN_PLAIN(a_group_that_is_not_asked_reports, "a reported panic fails a run");
    RUN_BOTH(once_is_tried_again);
    RUN_ALL_PLAIN("a reported panic fails a run", timers_and_wait_groups_go_on,
                  object_pools_stay_whole);
    RUN_PLAIN(a_mutex_stays_locked, "a child process that must die");
    shut_down();
    return 0;
}
