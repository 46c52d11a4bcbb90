/*
 * panic.c: panics, recover points, and what is deferred, in plain C: in fibers and on threads.
 */
#include <fenv.h>

#include "bodies.h"
#include "everywhere.h"
#include "failing.h"
#include "seeds.h"

#define TEXT(text) ((void *)(uintptr_t)(text)) /* as an argument */

/* What happened, in order. */
static struct {
    char text[256];
} journal;

static void note(void *text)
{
    strncat(journal.text, text, sizeof journal.text - strlen(journal.text) - 1);
}

static const char *noted(void)
{
    static char text[sizeof journal.text];
    memcpy(text, journal.text, sizeof text);
    journal.text[0] = '\0';
    return text;
}

static void nothing(void *arg)
{
    (void)arg;
}

static void panic_with(void *text)
{
    weft_panic("%s", (const char *)text);
}

/* Recover points. */

static void recovers(void *arg)
{
    (void)arg;
    weft_panic_info info;
    memset(&info, 0x55, sizeof info);
    CHECK_EQ(weft_recover(nothing, NULL, &info), 0);
    CHECK_EQ(info.depth, 0x55555555); /* untouched */
    CHECK_EQ(weft_recover(NULL, NULL, &info), -EINVAL);
    CHECK_EQ(weft_recover(panic_with, TEXT("bad"), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "bad");
    CHECK_EQ(info.fiber_id, weft_fiber_id(weft_self()));
    CHECK(info.depth > 0);
    CHECK((char *)info.backtrace[0] > (char *)(uintptr_t)panic_with);
    CHECK((char *)info.backtrace[0] < (char *)(uintptr_t)panic_with + 200);
    CHECK_EQ(weft_recover(panic_with, TEXT("again"), NULL), -EOWNERDEAD);
    CHECK_EQ(weft_panicking(), 0);
}

static void a_panic_ends_at_the_recover_point(void)
{
    everywhere(recovers);
}

static void cut_message(void)
{
    char text[2 * WEFT_PANIC_MESSAGE];
    weft_panic_info info;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    CHECK_EQ(weft_recover(panic_with, text, &info), -EOWNERDEAD);
    CHECK_EQ(strlen(info.message), WEFT_PANIC_MESSAGE - 1);
}

static void recover_inner(void *arg)
{
    weft_panic_info info;
    CHECK_EQ(weft_recover(panic_with, TEXT("inner"), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "inner");
    if (arg != NULL)
        weft_panic("outer");
}

static void nest(void *arg)
{
    weft_panic_info info;
    (void)arg;
    CHECK_EQ(weft_recover(recover_inner, NULL, &info), 0);
    CHECK_EQ(weft_recover(recover_inner, TEXT(""), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "outer");
}

static void recover_points_nest(void)
{
    everywhere(nest);
}

/* What a call keeps, a call that a panic ends keeps, too. */

static void spoil_rounding(void *arg)
{
    (void)arg;
    fesetround(FE_TOWARDZERO);
    weft_panic("rounding");
}

static void keep_registers(void *arg)
{
    (void)arg;
    volatile uint64_t seed = 12345;
    uint64_t a = seed, b = a * 3, c = b ^ 77, d = c + a, e = d * 5, f = e ^ b, g = f + c;
    double x = (double)seed / 7, y = x * 3;
    CHECK_EQ(weft_recover(spoil_rounding, NULL, NULL), -EOWNERDEAD);
    CHECK_EQ(a + b + c + d + e + f + g, seed + b + c + d + e + f + g);
    CHECK_EQ(b, seed * 3);
    CHECK_EQ(g, ((((((seed * 3) ^ 77) + seed) * 5) ^ (seed * 3)) + ((seed * 3) ^ 77)));
    CHECK(y == (double)seed / 7 * 3);
    CHECK_EQ(fegetround(), FE_TONEAREST);
}

static void registers_are_kept(void)
{
    everywhere(keep_registers);
}

/* What is deferred. */

static void defer_three(void *arg)
{
    WEFT_DEFER(note, TEXT("1"));
    WEFT_DEFER(note, TEXT("2"));
    {
        WEFT_DEFER(note, TEXT("3"));
        note(TEXT("("));
    }
    note(TEXT(")"));
    if (arg != NULL)
        weft_panic("four");
}

static void middle(void *arg)
{
    WEFT_DEFER(note, TEXT("m"));
    defer_three(arg);
    note(TEXT("-"));
}

static void defer(void *arg)
{
    (void)arg;
    noted();
    middle(NULL);
    CHECK_STR(noted(), "(3)21-m");
    CHECK_EQ(weft_recover(middle, TEXT(""), NULL), -EOWNERDEAD);
    CHECK_STR(noted(), "(3)21m");
}

static void deferred_runs_when_the_block_is_left(void)
{
    everywhere(defer);
}

static weft_deferred records[3];

static void defer_records(void *arg)
{
    weft_defer(&records[0], note, TEXT("a"));
    weft_defer(&records[1], note, TEXT("b"));
    weft_defer(&records[2], note, TEXT("c"));
    if (strcmp(arg, "drop") == 0) {
        weft_deferred_drop(&records[1]);
        weft_deferred_drop(&records[1]);
    }
    if (strcmp(arg, "run") == 0) {
        weft_deferred_run(&records[1]);
        weft_deferred_run(&records[1]);
        note(TEXT("|"));
    }
    if (strcmp(arg, "panic") == 0)
        weft_panic("panic");
}

static void defer_by_record(void *arg)
{
    (void)arg;
    noted();
    CHECK_EQ(weft_recover(defer_records, TEXT("return"), NULL), 0);
    CHECK_STR(noted(), "cba");
    CHECK_EQ(weft_recover(defer_records, TEXT("panic"), NULL), -EOWNERDEAD);
    CHECK_STR(noted(), "cba");
    CHECK_EQ(weft_recover(defer_records, TEXT("drop"), NULL), 0);
    CHECK_STR(noted(), "ca");
    CHECK_EQ(weft_recover(defer_records, TEXT("run"), NULL), 0);
    CHECK_STR(noted(), "cb|a");
}

static void records_run_when_the_recover_point_ends(void)
{
    everywhere(defer_by_record);
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, defer_records, TEXT("return"), NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_STR(noted(), "cba"); /* or the fiber */
}

/* A clean-up that waits, in the middle of a panic; it may go on on another thread. */
static void wait_long(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_panicking(), 1);
    for (int i = 0; i < 20; i++) {
        weft_yield();
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    }
    CHECK_EQ(weft_panicking(), 1);
    note(TEXT("w"));
}

static void panic_and_wait(void *arg)
{
    WEFT_DEFER(note, TEXT("x"));
    WEFT_DEFER(wait_long, NULL);
    panic_with(arg);
}

static void wait_in_cleanup(void *arg)
{
    (void)arg;
    noted();
    CHECK_EQ(weft_recover(panic_and_wait, TEXT("slow"), NULL), -EOWNERDEAD);
    CHECK_STR(noted(), "wx");
}

static void a_clean_up_may_wait(void)
{
    everywhere(wait_in_cleanup);
}

/* Panics in clean-ups. */

static void panic_twice(void *arg)
{
    (void)arg;
    WEFT_DEFER(note, TEXT("last"));
    WEFT_DEFER(panic_with, TEXT("third"));
    WEFT_DEFER(note, TEXT("first "));
    WEFT_DEFER(panic_with, TEXT("second"));
    weft_panic("first");
}

static void recover_in_cleanup(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_panicking(), 1);
    recover_inner(NULL);
    CHECK_EQ(weft_panicking(), 1);
}

static void panic_with_calm_cleanup(void *arg)
{
    WEFT_DEFER(recover_in_cleanup, NULL);
    panic_with(arg);
}

static void double_panic(void *arg)
{
    weft_panic_info info;
    (void)arg;
    noted();
    CHECK_EQ(weft_recover(panic_twice, NULL, &info), -EOWNERDEAD);
    CHECK_STR(noted(), "first last");
    CHECK_STR(info.message,
              "third (while another panic was under way: second) (while another panic was "
              "under way: first)");
    CHECK_EQ(weft_recover(panic_with_calm_cleanup, TEXT("goes on"), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "goes on");
}

static void panic_at_the_end(void *arg)
{
    (void)arg;
    static weft_deferred record;
    weft_defer(&record, panic_with, TEXT("too late"));
}

static void a_panic_in_a_clean_up_has_both_messages(void)
{
    everywhere(double_panic);
    weft_panic_info info;
    CHECK_EQ(weft_recover(panic_at_the_end, NULL, &info), -EOWNERDEAD);
    CHECK_STR(info.message, "too late");
}

/* The end of a fiber. */

static void joiners_are_told(void)
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
    CHECK((char *)info.spawn_site > (char *)(uintptr_t)joiners_are_told);
    CHECK(info.depth >= 2);
    CHECK_EQ(weft_spawn(&fiber, nothing, NULL, &options), 0);
    CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NEVER), 0);
    CHECK_STR(weft_strerror(-EOWNERDEAD), "it panicked");
}

static void join_plainly(void)
{
    weft_fiber *fiber;
    weft_spawn_options options = {.name = "gull"};
    CHECK_EQ(weft_spawn(&fiber, panic_with, TEXT("nobody asks"), &options), 0);
    CHECK_EQ(weft_join(fiber), -EOWNERDEAD);
}

static atomic_u32 ended;

static void panic_after_note(void *arg)
{
    (void)arg;
    atomic_u32_store_release(&ended, 1);
    weft_panic("detached");
}

static void detach(void)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, panic_after_note, NULL, NULL), 0);
    await(&ended, 1);
    CHECK_EQ(weft_detach(fiber), 0);        /* before or after its end */
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* it has ended */
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
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* the fiber is gone */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_local_delete(keys[i]), 0);
}

static void what_nobody_asks_for_is_reported(void)
{
    const char *text = test_stderr_of(join_plainly);
    CHECK(strstr(text, "weft: panic in fiber ") != NULL);
    CHECK(strstr(text, " \"gull\": nobody asks\nweft:   spawned at ") != NULL);
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
    for (int i = 0; i < 100; i++)
        CHECK_EQ(weft_spawn(&crowd.fibers[i], panic_in_the_crowd, TEXT("x"), NULL), 0);
    weft_wg_done(&crowd.wg);
    for (int i = 0; i < 100; i++) {
        weft_panic_info info;
        CHECK_EQ(weft_join_panic(crowd.fibers[i], &info, WEFT_NEVER), -EOWNERDEAD);
        CHECK_STR(info.message, "x");
    }
}

/* The others. */

static int group_panic(void *arg)
{
    panic_with(arg);
    return 0;
}

static int group_wait(void *arg)
{
    (void)arg;
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

static void panic_in_group(void *arg)
{
    weft_group *group;
    weft_panic_info info;
    (void)arg;
    CHECK_EQ(weft_group_open(&group, &(weft_group_options){.limit = 2}), 0);
    CHECK_EQ(weft_group_panic(group, &info), -ENOENT);
    CHECK_EQ(weft_group_go(group, group_wait, NULL), 0); /* is cancelled */
    CHECK_EQ(weft_group_go(group, group_panic, TEXT("grouped")), 0);
    CHECK_EQ(weft_group_wait(group), -EOWNERDEAD);
    CHECK_EQ(weft_group_panic(group, &info), 0);
    CHECK_STR(info.message, "grouped");
    CHECK_EQ(weft_group_close(group), -EOWNERDEAD);
    CHECK_EQ(weft_recover(scope, TEXT("scoped"), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "scoped");
}

static void a_group_gets_the_error(void)
{
    everywhere(panic_in_group);
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
    (void)arg;
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
    if (atomic_u32_add_seq_cst(&ticks, 1) <
        3) /* not for as long as others have no turn: that is a long text */
        panic_with(arg);
}

static void time_and_wait(void)
{
    weft_timer *timer;
    weft_wg wg = WEFT_WG_INIT;
    CHECK_EQ(weft_timer_open(&timer, tick_and_panic, TEXT("timer")), 0);
    CHECK_EQ(weft_timer_start(timer, weft_after(WEFT_US), WEFT_MS), 0);
    while (atomic_u32_load_acquire(&ticks) < 3)
        weft_yield();
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
    (void)object;
    panic_with(arg);
    return 0;
}

static void destroy(void *object, void *arg)
{
    (void)object;
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

/* Without memory a panic still arrives. */

static void panic_without_memory(void *arg)
{
    weft_panic_info info;
    (void)arg;
    failing_on(SYS_ALLOC, 1, true);
    int error = weft_recover(panic_twice, NULL, &info);
    int again = weft_recover(panic_with, TEXT("again"), NULL);
    failing_off();
    CHECK_EQ(error, -EOWNERDEAD);
    CHECK_EQ(again, -EOWNERDEAD);
    CHECK(strstr(info.message, "no memory") != NULL);
    CHECK_EQ(weft_panicking(), 0);
}

static void in_fiber_without_memory(void)
{
    noted();
    on_processors(2, panic_without_memory, NULL);
    CHECK_STR(noted(), "first last");
}

static void a_panic_needs_no_memory(void)
{
    const char *text = test_stderr_of(in_fiber_without_memory);
    CHECK(strstr(text, "without memory to keep record of it: first\n") != NULL);
    CHECK(strstr(text, "without memory to keep record of it: third\n") != NULL);
}

/* Deaths; before the runtime runs. */

static void defer_nothing(void *arg)
{
    weft_defer(arg, NULL, NULL);
}

static weft_spin spin = WEFT_SPIN_INIT;

static void lock_and_panic(void *arg)
{
    weft_spin_lock(&spin);
    panic_with(arg);
}

static void recover_spin(void *arg)
{
    CHECK_EQ(weft_recover(lock_and_panic, arg, NULL), -EOWNERDEAD);
}

static void unlock(void *arg)
{
    weft_spin_unlock(arg);
}

static void lock_and_clean_up(void *arg)
{
    WEFT_DEFER(unlock, &spin);
    lock_and_panic(arg);
}

static void deaths(void)
{
    test_dies(panic_with, TEXT("on main"), "weft: panic: on main\n");
    test_dies(panic_with, TEXT("on main"), "weft: aborting: the panic is on a thread");
    test_dies(recover_spin, TEXT("spinning"), "a panic left a weft_spin locked");
    test_dies(defer_nothing, NULL, "weft_defer was given no record");
}

static void a_clean_up_unlocks(void)
{
    CHECK_EQ(weft_recover(lock_and_clean_up, TEXT("spin"), NULL), -EOWNERDEAD);
    CHECK_EQ(weft_spin_try_lock(&spin), 0);
    weft_spin_unlock(&spin);
}

/* A mutex stays locked, and a debug build says so. */

static weft_mutex mutex = WEFT_MUTEX_INIT;

static void lock_mutex_and_panic(void *arg)
{
    weft_mutex_lock(&mutex);
    panic_with(arg);
}

static void leave_locked(void)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, lock_mutex_and_panic, TEXT("locked"), NULL), 0);
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

/* A child of a fiber leaves its blocks as any code does. */

static void fork_in_block(void *arg)
{
    int status;
    WEFT_DEFER(note, TEXT("outer"));
    {
        WEFT_DEFER(note, TEXT("inner "));
        *(pid_t *)arg = fork();
    }
    if (*(pid_t *)arg == 0) {
        {
            WEFT_DEFER(note, TEXT("new "));
        }
        _exit(strcmp(noted(), "inner new ") == 0 ? 0 : 1);
    }
    CHECK_EQ(waitpid(*(pid_t *)arg, &status, 0), *(pid_t *)arg);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_forked_child_cleans_up(void)
{
    weft_fiber *fiber;
    pid_t child;
    noted();
    CHECK_EQ(weft_spawn(&fiber, fork_in_block, &child, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_STR(noted(), "inner outer");
}

int main(void)
{
    RUN_PLAIN(deaths, "a child process that must die");
    RUN_BOTH(a_panic_ends_at_the_recover_point);
    RUN_BOTH(cut_message);
    RUN_BOTH(recover_points_nest);
    RUN_BOTH(registers_are_kept);
    RUN_BOTH(deferred_runs_when_the_block_is_left);
    RUN_BOTH(records_run_when_the_recover_point_ends);
    RUN_BOTH(a_clean_up_may_wait);
    RUN_BOTH(a_panic_in_a_clean_up_has_both_messages);
    RUN_BOTH(a_clean_up_unlocks);
    RUN_BOTH(joiners_are_told);
    RUN_PLAIN(what_nobody_asks_for_is_reported, "a panic that nobody recovers fails a run");
    RUN_BOTH(many_at_once);
    RUN_BOTH(a_group_gets_the_error);
    RUN_PLAIN(a_group_that_is_not_asked_reports, "a panic that nobody recovers fails a run");
    RUN_BOTH(once_is_tried_again);
    RUN_PLAIN(timers_and_wait_groups_go_on, "a panic that nobody recovers fails a run");
    RUN_PLAIN(object_pools_stay_whole, "a panic that nobody recovers fails a run");
    RUN_BOTH(a_panic_needs_no_memory);
    RUN_PLAIN(a_mutex_stays_locked, "a child process that must die");
    RUN_PLAIN(a_forked_child_cleans_up, "forks");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
