/*
 * stack_guards.c: guards by mprotect: each is a mapping, and there are not so many. The last part is left to the
 * program; from then on stacks have no guard, and that is said once.
 */
#include "base/compiler.h"
#include "base/sys.h"
#include "dying.h"
#include "stack/stack.h"

static void how_many(void)
{
    CHECK_EQ(weft__stack_guards_most("65530\n"), (65530 - 8192) / 2);
    CHECK_EQ(weft__stack_guards_most("1000\n"), 250);
    CHECK_EQ(weft__stack_guards_most("16384\n"), 16384 / 4);
    CHECK_EQ(weft__stack_guards_most("16386\n"), (16386 - 8192) / 2);
    CHECK_EQ(weft__stack_guards_most(""), weft__stack_guards_most("65530"));
    CHECK_EQ(weft__stack_guards_most("none\n"), weft__stack_guards_most("65530"));
    CHECK_EQ(weft__stack_guards_most("70000 and more"), (70000 - 8192) / 2);
    CHECK_EQ(weft__stack_guards_most("7000x"), 7000 / 4);
    CHECK(weft__stack_guards_most("99999999999999999999999999") > INT32_MAX / 4);
}

static int64_t most;

static void use_them_up(void)
{
    struct stack_cache cache = {.count = 0};
    int64_t guarded = 0;
    weft__stack_start(false, true, true);
    CHECK_EQ(weft__stack_guard_kind(), STACK_GUARD_MPROTECT);
    for (int64_t i = 0; i < most + 5; i++) {
        struct stack *stack = weft__stack_get(&cache, 0);
        CHECK(stack != NULL);
        guarded += stack->guarded;
    }
    CHECK_EQ(guarded, most);
}

static void they_are_used_up(void)
{
    enum { TOO_MANY = 100000 };
    char text[32] = "";
    (void)weft__sys_read_file("/proc/sys/vm/max_map_count", text, sizeof text);
    most = weft__stack_guards_most(text);
    if (most > TOO_MANY || WEFT_ASAN || WEFT_TSAN) {
        printf("  left out: that would take long here\n");
        return;
    }
    CHECK_EQ(run_case(use_them_up), 0);
    CHECK(said("from now on stacks have no guard"));
    CHECK(said("no more mappings"));
}

int main(void)
{
    RUN_PLAIN(how_many, "nothing to order");
    RUN_PLAIN(they_are_used_up, "a child process");
    return 0;
}
