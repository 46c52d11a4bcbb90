/*
 * panic_unwind.c: the system's unwinder during a panic: variables with the attribute cleanup in
 * code compiled with -fexceptions (as this file is) are cleaned up; a frame without unwind tables
 * ends the clean-up, but not the panic.
 */
#include "bodies.h"
#include "everywhere.h"
#include "panics.h"
#include "seeds.h"

static void clean_up(const char **name)
{
    note(TEXT(*name));
}

static void clean_up_and_wait(const char **name)
{
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    note(TEXT(*name));
}

static void clean_up_and_panic(const char **name)
{
    note(TEXT(*name));
    weft_panic("clean-up");
}

static void deferred(void *arg)
{
    note(TEXT("d"));
}

#define CLEANS(function, name) \
    __attribute__((cleanup(function), unused)) const char *variable_##function = name

static noinline void inner(void *arg)
{
    CLEANS(clean_up, "i");
    WEFT_DEFER(deferred, NULL);
    if (arg != NULL)
        weft_panic("inner");
    note(TEXT("-"));
}

static noinline void outer(void *arg)
{
    CLEANS(clean_up_and_wait, "o");
    inner(arg);
    note(TEXT("="));
}

static void unwind(void *arg)
{
    noted();
    CHECK_EQ(weft_recover(outer, NULL, NULL), 0);
    CHECK_STR(noted(), "-di=o");
    CHECK_EQ(weft_recover(outer, &journal, NULL), -EOWNERDEAD);
    CHECK_STR(noted(), "dio");
}

static void variables_are_cleaned_up(void)
{
    everywhere(unwind);
    (void)join_panicked(spawn(outer, &journal), "inner");
    CHECK_STR(noted(), "dio");
}

/* A call deferred by a record is made when its frame is unwound, before the clean-ups of the frames
 * further out. */

static weft_deferred records[2];

static noinline void defer_innermost(void *arg)
{
    weft_defer(&records[0], deferred, NULL);
    CLEANS(clean_up, "1");
    weft_panic("%p", arg);
}

static noinline void defer_between(void *arg)
{
    CLEANS(clean_up, "2");
    weft_defer(&records[1], deferred, NULL);
    defer_innermost(arg);
    note(TEXT("!"));
}

static noinline void defer_nothing(void *arg)
{
    CLEANS(clean_up, "3");
    defer_between(arg);
    note(TEXT("!"));
}

static void clean_ups_run_from_the_inside_out(void *arg)
{
    noted();
    CHECK_EQ(weft_recover(defer_nothing, NULL, NULL), -EOWNERDEAD);
    CHECK_STR(noted(), "d1d23");
}

static noinline void outer_panics(void *arg)
{
    CLEANS(clean_up, "a");
    CLEANS(clean_up_and_panic, "b");
    inner(arg);
}

static void unwind_twice(void *arg)
{
    weft_panic_info info;
    noted();
    CHECK_EQ(weft_recover(outer_panics, &journal, &info), -EOWNERDEAD);
    CHECK_STR(noted(), "diba");
    CHECK_STR(info.message, "clean-up (while another panic was under way: inner)");
}

static void a_clean_up_panics(void)
{
#ifdef __clang__
    (void)unwind_twice; /* clang takes clean-ups as noexcept: the process would abort */
#else
    everywhere(unwind_twice);
#endif
}

/* A function without unwind tables, that calls inner(arg). */
void without_tables(void *arg);
void call_inner(void *arg);
void call_inner(void *arg)
{
    inner(arg);
}
#if defined(__x86_64__)
__asm__(".text\n.globl without_tables\n.type without_tables, @function\nwithout_tables:\n"
        "endbr64\nsubq $8, %rsp\ncallq call_inner\naddq $8, %rsp\nret\n"
        ".size without_tables, . - without_tables\n");
#else
__asm__(".text\n.globl without_tables\n.type without_tables, %function\nwithout_tables:\n"
        "stp x29, x30, [sp, #-16]!\nbl call_inner\nldp x29, x30, [sp], #16\nret\n"
        ".size without_tables, . - without_tables\n");
#endif

static noinline void beyond_tables(void *arg)
{
    CLEANS(clean_up, "lost");
    WEFT_DEFER(deferred, NULL);
    without_tables(arg);
}

static void lose_the_way(void *arg)
{
    weft_panic_info info;
    noted();
    CHECK_EQ(weft_recover(beyond_tables, &journal, &info), -EOWNERDEAD);
    CHECK_STR(noted(), "did"); /* deferred calls are made */
    CHECK_STR(info.message, "inner");
}

static void a_panic_arrives_without_tables(void)
{
    everywhere(lose_the_way);
    (void)join_panicked(spawn(beyond_tables, &journal), "inner");
    CHECK_STR(noted(), "did");
}

int main(void)
{
    RUN_BOTH(variables_are_cleaned_up);
    RUN_EVERYWHERE(clean_ups_run_from_the_inside_out);
    RUN_ALL_BOTH(a_clean_up_panics, a_panic_arrives_without_tables);
    shut_down();
    return 0;
}
