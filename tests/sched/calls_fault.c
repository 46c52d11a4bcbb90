/*
 * calls_fault.c: fibers, time, timers, fiber-local storage, panics, blocking code, the runtime and
 * test runs, with each system call that they make failing in turn (scenario.h).
 */
#include <weft/test.h>

#include "fibers.h"
#include "scenario.h"

static atomic_u32 ran;
static uint32_t started;

static void count(void *arg)
{
    CHECK(weft_fiber_id(weft_self()) != 0);
    weft_yield();
    atomic_u32_add_seq_cst(&ran, 1);
}

static void begin(void)
{
    atomic_u32_store_relaxed(&ran, 0);
    started = 0;
}

/* Each fiber that was started runs, and runs once. */
static void await_started(void)
{
    while (atomic_u32_load_acquire(&ran) < started)
        (void)weft_sleep(10 * WEFT_US);
    CHECK_EQ(atomic_u32_load_acquire(&ran), started);
}

static void use_fiber(void)
{
    weft_spawn_options options = {.name = "named", .stack_size = 256 * 1024};
    begin();
    for (int i = 0; i < 3; i++)
        started += MAY_GO(weft_go(count, NULL)) == 0;
    for (int i = 0; i < 3; i++) {
        weft_fiber *fiber = POISON;
        if (!OPENED_GO(weft_spawn(&fiber, count, NULL, i == 0 ? &options : NULL), fiber))
            continue;
        started++;
        CHECK_STR(weft_fiber_name(fiber), i == 0 ? "named" : "");
        if (i == 0)
            CHECK_EQ(weft_join(fiber), 0);
        else if (i == 1)
            CHECK_EQ(weft_join_until(fiber, WEFT_NEVER), 0);
        else
            CHECK_EQ(weft_detach(fiber), 0);
    }
    await_started();
}

static void use_time(void)
{
    int64_t before = weft_now();
    CHECK_EQ(weft_sleep(50 * WEFT_US), 0);
    CHECK_EQ(weft_sleep_until(weft_after(50 * WEFT_US)), 0);
    CHECK(weft_now() - before >= 100 * WEFT_US);
}

static void use_timer(void)
{
    for (int i = 0; i < 2; i++) {
        weft_timer *timer = POISON;
        begin();
        if (!OPENED_GO(weft_timer_open(&timer, count, NULL), timer))
            continue;
        CHECK_EQ(weft_timer_start(timer, weft_after(3600 * WEFT_S), 0), 0);
        CHECK_EQ(weft_timer_stop(timer), 1);
        CHECK_EQ(weft_timer_start(timer, WEFT_NOW, 0), 0);
        started = 1;
        await_started();
        CHECK_EQ(weft_timer_close(timer), 0);
    }
}

static weft_local_key key;

static void destroy(void *value)
{
    CHECK_PTR(value, &key);
    atomic_u32_add_seq_cst(&ran, 1);
}

static void set_local(void *arg)
{
    uint32_t *set = arg;
    bool works = MAY(weft_local_set(key, &key), -ENOMEM) == 0;
    CHECK_PTR(weft_local_get(key), works ? &key : NULL);
    *set += works;
}

static void use_local(void)
{
    weft_fiber *fiber = POISON;
    begin();
    CHECK_EQ(weft_local_create(&key, destroy), 0);
    run_thread(set_local, &started);
    CHECK_EQ(atomic_u32_load_acquire(&ran), started);
    if (OPENED_GO(weft_spawn(&fiber, set_local, &started, NULL), fiber))
        CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), started);
    CHECK_EQ(weft_local_delete(key), 0);
}

static void clean(void *arg)
{
    CHECK_EQ(weft_panicking(), 1);
    atomic_u32_add_seq_cst(&ran, 1);
}

static void never(void *arg)
{
    CHECK(!"it was dropped");
}

static void fall(void *arg)
{
    weft_deferred first, second, third;
    weft_defer(&first, clean, arg);
    weft_defer(&second, never, arg);
    weft_deferred_drop(&second);
    weft_defer(&third, count, arg);
    if (weft_self() != NULL)
        weft_deferred_run(&third);
    else
        weft_deferred_drop(&third);
    weft_panic("line %d", 42);
}

/* Without memory for its record a panic still arrives, and its message is on stderr. */
static void check_message(const weft_panic_info *info)
{
    if (strstr(info->message, "no memory") == NULL)
        CHECK_STR(info->message, "line 42");
    else
        atomic_u32_add_relaxed(&scene.errors, 1);
}

static void use_panic(void)
{
    weft_panic_info info = {.depth = -1};
    weft_fiber *fiber = POISON;
    weft_panic_describer(NULL);
    begin();
    weft_panic_report(NULL);
    int64_t result = weft_recover(fall, NULL, &info);
    if (result != -EOWNERDEAD)
        (void)MAY(result, -ENOMEM);
    CHECK_EQ(info.depth == -1, result != -EOWNERDEAD);
    if (result == -EOWNERDEAD)
        check_message(&info);
    started += result == -EOWNERDEAD ? weft_self() != NULL ? 2 : 1 : 0;
    CHECK_EQ(atomic_u32_load_acquire(&ran), started);
    if (OPENED_GO(weft_spawn(&fiber, fall, NULL, NULL), fiber)) {
        info.message[0] = '\0';
        CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NEVER), -EOWNERDEAD);
        check_message(&info);
        started += 2;
    }
    CHECK_EQ(atomic_u32_load_acquire(&ran), started);
}

static void *block(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000}, NULL);
    return arg;
}

static void block_fiber(void *arg)
{
    weft_blocking_enter();
    (void)block(arg);
    weft_blocking_exit();
    CHECK_PTR(weft_blocking(block, &ran), &ran);
    (void)block(arg); /* unmarked */
    atomic_u32_add_seq_cst(&ran, 1);
}

static void use_blocking(void)
{
    begin();
    for (int i = 0; i < 4; i++)
        started += MAY_GO(weft_go(block_fiber, NULL)) == 0;
    for (int i = 0; i < 4; i++)
        started += MAY_GO(weft_go(count, NULL)) == 0;
    if (weft_self() == NULL)
        block_fiber(NULL); /* a thread gives nothing up */
    else
        atomic_u32_add_seq_cst(&ran, 1);
    started++;
    await_started();
}

static void use_runtime(void)
{
    begin();
    if (weft_self() != NULL) {
        CHECK_EQ(weft_processors(), 2);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), -EDEADLK);
        return;
    }
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
    CHECK(weft_processors() >= 1);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 3}), 0);
    CHECK_EQ(weft_processors(), 3);
    for (int i = 0; i < 2; i++)
        started += MAY(weft_go(count, NULL), -ENOMEM, -EAGAIN, -EMFILE, -ENFILE, -ENOSPC) == 0;
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), started);
}

static void seeded(void *arg)
{
    uint64_t seed = 0;
    uint32_t *spawned = arg;
    weft_fiber *fiber;
    CHECK_EQ(weft_test_seed(&seed), 0);
    *spawned += 1;
    CHECK_EQ(weft_sleep(3600 * WEFT_S), 0);
    int result = weft_spawn(&fiber, count, NULL, NULL);
    failing_check(result, failing_spawn);
    if (result == 0) {
        started++;
        CHECK_EQ(weft_join(fiber), 0);
    } else {
        atomic_u32_add_relaxed(&scene.errors, 1);
    }
    CHECK(seed >= 5);
}

static void use_test(void)
{
    uint32_t spawned = 0;
    weft_test_options options = {.first = 6, .seeds = 2};
    begin();
    if (weft_self() != NULL) {
        CHECK_EQ(weft_test_run(5, seeded, &spawned), -EBUSY);
        return;
    }
    int64_t result =
        MAY(weft_test_run(5, seeded, &spawned), -ENOMEM, -EAGAIN, -EMFILE, -ENFILE, -ENOSPC);
    CHECK_EQ(spawned, result == 0);
    result = MAY(weft_test_seeds(&options, seeded, &spawned), -ENOMEM, -EAGAIN, -EMFILE, -ENFILE,
                 -ENOSPC);
    if (result == 0)
        CHECK(spawned >= 2);
    CHECK_EQ(atomic_u32_load_acquire(&ran), started);
}

int main(void)
{
    static const struct scenario all[] = {
        {"fiber", use_fiber},     {"time", use_time},   {"timer", use_timer},
        {"local", use_local},     {"panic", use_panic}, {"blocking", use_blocking},
        {"runtime", use_runtime}, {"test", use_test},
    };
    scenarios_run(all, sizeof all / sizeof all[0]);
    return 0;
}
