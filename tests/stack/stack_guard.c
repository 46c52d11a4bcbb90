/*
 * stack_guard.c: the limit of guards by mprotect, of which each is a mapping: a part of the
 * mappings is left to the program, and then stacks have no guard, which is reported once. And
 * guards in locked memory.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "dying.h"
#include "os/failure.h"
#include "os/os.h"
#include "stack/stack_guard.h"
#include "system.h"

enum { EXIT_UNLOCKED = 3 };

static void the_limit(void)
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
        guarded += stack->guard != 0;
    }
    CHECK_EQ(guarded, most);
}

static void the_limit_is_reached(void)
{
    enum { TOO_MANY = 100000 };
    char text[32] = "";
    (void)weft__os_read_file("/proc/sys/vm/max_map_count", text, sizeof text);
    most = weft__stack_guards_most(text);
    if (most > TOO_MANY || WEFT_ASAN || WEFT_TSAN) {
        printf("  left out: that would take long here\n");
        return;
    }
    CHECK_EQ(run_case(use_them_up), 0);
    CHECK(said("from now on stacks have no guard"));
    CHECK(said("no more mappings"));
}

/* Locked memory. MADV_GUARD_INSTALL refuses it, since it takes pages away. */

static bool lock_memory(int flags)
{
    if (test_emulated())
        printf("  left out: the emulator's memory would be locked too\n");
    else if (mlockall(flags) != 0)
        printf("  left out: no memory can be locked here\n");
    else
        return true;
    return false;
}

/* Gets `count` stacks: each has a guard that works. */
static void check_guards(struct stack_cache *cache, struct stack **stacks, int count)
{
    for (int i = 0; i < count; i++) {
        stacks[i] = weft__stack_get(cache, 0);
        CHECK(stacks[i] != NULL);
    }
    for (int i = 0; i < count; i++) {
        CHECK(stacks[i]->guard != 0);
        CHECK(!weft__os_readable(weft__stack_low(stacks[i]) - 1));
        CHECK(weft__os_readable(weft__stack_low(stacks[i])));
    }
}

enum { BEFORE = 200, AFTER = 200 };

static void lock_before_start(void)
{
    struct stack_cache cache = {.count = 0};
    struct stack *stacks[BEFORE];
    if (!lock_memory(MCL_FUTURE))
        return;
    weft__stack_start(true, true, true);
    check_guards(&cache, stacks, BEFORE);
}

static void lock_after_start(void)
{
    struct stack_cache cache = {.count = 0};
    struct stack *before[BEFORE], *after[AFTER];
    weft__stack_start(true, true, true);
    check_guards(&cache, before, BEFORE);
    if (!lock_memory(MCL_CURRENT | MCL_FUTURE))
        return;
    check_guards(&cache, after, AFTER);
    for (int i = 0; i < BEFORE; i++)
        CHECK(!weft__os_readable(weft__stack_low(before[i]) - 1));
}

static void locked_memory_has_guards(void)
{
    CHECK_EQ(run_case(lock_before_start), 0);
    CHECK(!said("no guard"));
    CHECK_EQ(run_case(lock_after_start), 0);
    CHECK(!said("no guard"));
}

/* In locked memory where mprotect fails too, or is not allowed. The first stacks have wide guards,
 * which need neither. */
static void fail_when_locked(bool allowed)
{
    enum { FIRST = 128, MOST = 5000 };
    weft__stack_start(true, false, allowed);
    for (int i = 0; i < FIRST; i++)
        CHECK(weft__stack_get(NULL, 0)->guard != 0);
    if (weft__stack_guard_kind() != STACK_GUARD_INSTALL || !lock_memory(MCL_FUTURE))
        exit(EXIT_UNLOCKED);
    if (allowed)
        weft__os_fail(OS_GUARD, 2, false);
    for (int i = 0; i < MOST; i++)
        if (weft__stack_get(NULL, 0)->guard == 0)
            return;
    CHECK(!"all have a guard");
}

static void fail_both(void)
{
    fail_when_locked(true);
}

static void fail_the_only_one(void)
{
    fail_when_locked(false);
}

static void the_reason_is_reported(void)
{
    if (WEFT_ASAN || WEFT_TSAN) {
        printf("  left out: sanitizers lock no memory\n");
        return;
    }
    if (run_case(fail_both) == EXIT_UNLOCKED << 8)
        return;
    CHECK(said("memory is locked (mlockall)") && said("no more mappings"));
    CHECK_EQ(run_case(fail_the_only_one), 0);
    CHECK(said("memory is locked (mlockall)") && !said("no more mappings"));
}

int main(void)
{
    RUN_ALL_PLAIN("a child process", locked_memory_has_guards, the_reason_is_reported);
    RUN_PLAIN(the_limit, "nothing to order");
    RUN_PLAIN(the_limit_is_reached, "a child process");
    return 0;
}
