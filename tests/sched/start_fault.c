/*
 * start.c: the first call of weft, with everything failing that it needs: an error as documented
 * and nothing started, or success and the fiber runs; and the next try works.
 */
#include "base/atomic.h"
#include "failing.h"

static atomic_u32 ran;
static uint32_t expected;

static void count(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&ran, 1);
}

static void finish(void)
{
    CHECK_EQ(weft_go(count, NULL), 0);
    expected++;
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), expected);
}

static void go(void)
{
    int result = weft_go(count, NULL);
    failing_off();
    failing_check(result, failing_start);
    expected += result == 0;
    finish();
}

static void go_twice(void)
{
    int first = weft_go(count, NULL), second = weft_go(count, NULL);
    failing_off();
    failing_check(first, failing_start);
    failing_check(second, failing_start);
    expected += (uint32_t)(first == 0) + (second == 0);
    finish();
}

static void spawn(void)
{
    weft_spawn_options options = {.name = "named", .stack_size = 256 * 1024};
    weft_fiber *poison = (weft_fiber *)(uintptr_t)0xdead, *fiber = poison;
    int result = weft_spawn(&fiber, count, NULL, &options);
    failing_off();
    failing_check(result, failing_start);
    if (result == 0) {
        CHECK_STR(weft_fiber_name(fiber), "named");
        CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(atomic_u32_load_acquire(&ran), ++expected);
    } else {
        CHECK_PTR(fiber, poison);
    }
    finish();
}

static void open_timer(void)
{
    weft_timer *poison = (weft_timer *)(uintptr_t)0xdead, *timer = poison;
    int result = weft_timer_open(&timer, count, NULL);
    failing_off();
    failing_check(result, failing_start);
    if (result == 0) {
        expected++;
        CHECK_EQ(weft_timer_start(timer, WEFT_NOW, 0), 0);
        while (atomic_u32_load_acquire(&ran) < expected)
            weft_yield();
        CHECK_EQ(weft_timer_close(timer), 0);
    } else {
        CHECK_PTR(timer, poison);
    }
    finish();
}

static void the_first_go_may_fail(void)
{
    CHECK(failing_each(go, 20) > 10);
    CHECK(failing_each(go_twice, 20) > 10);
}

static void the_first_spawn_may_fail(void)
{
    CHECK(failing_each(spawn, 20) > 10);
}

static void the_first_timer_may_fail(void)
{
    CHECK(failing_each(open_timer, 20) > 10);
}

int main(void)
{
    RUN(the_first_go_may_fail);
    RUN(the_first_spawn_may_fail);
    RUN(the_first_timer_may_fail);
    return 0;
}
