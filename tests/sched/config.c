/*
 * config.c: the configuration, the environment, the defaults, and which of them wins.
 */
#include "sched/runtime/config.h"

#include <weft/weft.h>

#include "sched/runtime/cpus.h"
#include "test.h"

static const char *const variables[] = {"WEFT_PROCS",        "WEFT_STACK_SIZE", "WEFT_MAX_FIBERS",
                                        "WEFT_FAULT_REPORT", "WEFT_CHAOS",      "WEFT_WITHOUT"};

static void clear_environment(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        CHECK_EQ(unsetenv(variables[i]), 0);
}

static struct settings settled;

static void settle_defaults(void)
{
    settled = weft__config_resolve(&(weft_config){.processors = 0});
}

/* Settles with one variable set, and says what that reported. */
static const char *settle_with(const char *name, const char *value)
{
    clear_environment();
    CHECK_EQ(setenv(name, value, 1), 0);
    const char *said = test_stderr_of(settle_defaults);
    clear_environment();
    return said;
}

static void ranges(void)
{
    static const weft_config good[] = {{.processors = 0},
                                       {.processors = 1},
                                       {.processors = WEFT_PROCS_MAX},
                                       {.no_fault_report = 1},
                                       {.no_fault_report = -1},
                                       {.stack_size = 16384},
                                       {.stack_size = 16385},
                                       {.stack_size = (size_t)1 << 30},
                                       {.max_fibers = 1},
                                       {.max_fibers = INT64_MAX}};
    static const weft_config bad[] = {
        {.processors = -1},        {.processors = WEFT_PROCS_MAX + 1},
        {.processors = INT32_MIN}, {.stack_size = 1},
        {.stack_size = 16383},     {.stack_size = ((size_t)1 << 30) + 1},
        {.stack_size = SIZE_MAX},  {.max_fibers = -1},
        {.max_fibers = INT64_MIN}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK_EQ(weft_configure(&good[i]), 0);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 3}), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ(weft_configure(&bad[i]), -EINVAL);
    for (size_t i = 0; i < sizeof bad[0].reserved / sizeof bad[0].reserved[0]; i++) {
        weft_config config = {.processors = 5};
        config.reserved[i] = 1;
        CHECK_EQ(weft_configure(&config), -EINVAL);
    }
    CHECK_EQ(weft_processors(), 3); /* what failed has changed nothing */
    CHECK_EQ(weft_configure(NULL), 0);
    clear_environment();
    CHECK_EQ(weft_processors(), weft__cpus(""));
}

static void defaults(void)
{
    clear_environment();
    CHECK_STR(test_stderr_of(settle_defaults), "");
    CHECK_EQ(settled.processors, weft__cpus(""));
    CHECK_EQ(settled.stack_size, 64 * 1024);
    CHECK_EQ(settled.max_fibers, 0);
    CHECK_EQ(settled.chaos, 0);
    CHECK(settled.fault_report && settled.membarrier && settled.guard_install);
    CHECK(settled.guard_pages && settled.epoll_pwait2);
}

static void from_the_environment(void)
{
    CHECK_STR(settle_with("WEFT_PROCS", "7"), "");
    CHECK_EQ(settled.processors, 7);
    CHECK_STR(settle_with("WEFT_PROCS", "256"), "");
    CHECK_EQ(settled.processors, 256);
    CHECK_STR(settle_with("WEFT_PROCS", ""), "");
    CHECK_EQ(settled.processors, weft__cpus(""));
    CHECK_STR(settle_with("WEFT_STACK_SIZE", "128K"), "");
    CHECK_EQ(settled.stack_size, 128 * 1024);
    CHECK_STR(settle_with("WEFT_STACK_SIZE", "2m"), "");
    CHECK_EQ(settled.stack_size, 2 * 1024 * 1024);
    CHECK_STR(settle_with("WEFT_STACK_SIZE", "1024M"), "");
    CHECK_EQ(settled.stack_size, 1 << 30);
    CHECK_STR(settle_with("WEFT_STACK_SIZE", "16384"), "");
    CHECK_EQ(settled.stack_size, 16384);
    CHECK_STR(settle_with("WEFT_MAX_FIBERS", "1"), "");
    CHECK_EQ(settled.max_fibers, 1);
    CHECK_STR(settle_with("WEFT_MAX_FIBERS", "3k"), "");
    CHECK_EQ(settled.max_fibers, 3072);
    CHECK_STR(settle_with("WEFT_CHAOS", "100"), "");
    CHECK_EQ(settled.chaos, 100);
    CHECK_STR(settle_with("WEFT_FAULT_REPORT", "0"), "");
    CHECK(!settled.fault_report);
    CHECK_STR(settle_with("WEFT_FAULT_REPORT", "1"), "");
    CHECK(settled.fault_report);
}

/* Settles with a value that makes no sense: that is said in one line, and everything is default. */
static void check_ignored(const char *name, const char *value)
{
    char expected[128];
    const char *said = settle_with(name, value);
    snprintf(expected, sizeof expected, "weft: %s=%s is ignored", name, value);
    if (strncmp(said, expected, strlen(expected)) != 0)
        test_fail(__FILE__, __LINE__, "%s=%s: said \"%s\", settled %d, %zu, %lld", name, value,
                  said, settled.processors, settled.stack_size, (long long)settled.max_fibers);
    CHECK_STR(strchr(said, '\n'), "\n");
    CHECK_EQ(settled.processors, weft__cpus(""));
    CHECK_EQ(settled.stack_size, 64 * 1024);
    CHECK_EQ(settled.max_fibers, 0);
    CHECK(settled.fault_report);
}

static void nonsense_is_reported_and_ignored(void)
{
    static const char *const processors[] = {
        "0", "-1", "257", "two", "2x", " 2", "2 ", "1K", "K", "4294967298", "99999999999999999999"};
    static const char *const sizes[] = {
        "16383", "8K",         "1025M", "64KB",
        "1G",    "1073741825", "64K-",  "18446744073709617152" /* 2^64 + 64 KiB */};
    static const char *const limits[] = {"0", "-5", "many", "18446744073709551617" /* 2^64 + 1 */};
    for (size_t i = 0; i < sizeof processors / sizeof processors[0]; i++)
        check_ignored("WEFT_PROCS", processors[i]);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        check_ignored("WEFT_STACK_SIZE", sizes[i]);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        check_ignored("WEFT_MAX_FIBERS", limits[i]);
}

static void suffixes_do_not_wrap_around(void)
{
    check_ignored("WEFT_MAX_FIBERS", "17592186044417M"); /* 2^64 + 2^20 */
    check_ignored("WEFT_MAX_FIBERS", "9007199254740991M");
    check_ignored("WEFT_CHAOS", "101");
}

static void nonsense_about_fault_reports_is_reported(void)
{
    check_ignored("WEFT_FAULT_REPORT", "perhaps");
    CHECK_STR(settle_with("WEFT_FAULT_REPORT", ""), "");
    CHECK(settled.fault_report);
}

static int asked;

static void ask_processors(void)
{
    asked = weft_processors();
}

/* Who only asks is not told: that is done once, at the start. */
static void asking_says_nothing(void)
{
    clear_environment();
    CHECK_EQ(setenv("WEFT_PROCS", "nonsense", 1), 0);
    CHECK_STR(test_stderr_of(ask_processors), "");
    CHECK_EQ(asked, weft__cpus(""));
    clear_environment();
}

static void without(void)
{
    static const char *const words[] = {"membarrier", "guard_install", "guard_many", "guard_pages",
                                        "epoll_pwait2"};
    const bool *allowed[] = {&settled.membarrier, &settled.guard_install, &settled.guard_many,
                             &settled.guard_pages, &settled.epoll_pwait2};
    for (int word = 0; word < 5; word++) {
        CHECK_STR(settle_with("WEFT_WITHOUT", words[word]), "");
        for (int i = 0; i < 5; i++)
            CHECK_EQ(*allowed[i], i != word);
    }
    CHECK_STR(settle_with("WEFT_WITHOUT", "epoll_pwait2,membarrier"), "");
    CHECK(!settled.membarrier && settled.guard_install && settled.guard_pages &&
          !settled.epoll_pwait2);
    CHECK_STR(settle_with("WEFT_WITHOUT", ",guard_pages,,"), "");
    CHECK(settled.membarrier && settled.guard_install && !settled.guard_pages);
    CHECK_STR(settle_with("WEFT_WITHOUT", "guard,membarrier,sleep"),
              "weft: WEFT_WITHOUT: guard is not known\nweft: WEFT_WITHOUT: sleep is not known\n");
    CHECK(!settled.membarrier && settled.guard_install && settled.guard_pages &&
          settled.epoll_pwait2);
    /* A long one is cut. */
    char word[100], expected[160];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    snprintf(expected, sizeof expected, "weft: WEFT_WITHOUT: %.64s is not known\n", word);
    CHECK_STR(settle_with("WEFT_WITHOUT", word), expected);
}

static void settle_configured(void)
{
    settled = weft__config_resolve(&(weft_config){
        .processors = 2, .no_fault_report = 1, .stack_size = 32768, .max_fibers = 9});
}

static void configuration_beats_the_environment(void)
{
    clear_environment();
    setenv("WEFT_PROCS", "nonsense", 1); /* nobody looks at it */
    setenv("WEFT_STACK_SIZE", "128K", 1);
    setenv("WEFT_MAX_FIBERS", "1", 1);
    setenv("WEFT_FAULT_REPORT", "1", 1);
    CHECK_STR(test_stderr_of(settle_configured), "");
    CHECK_EQ(settled.processors, 2);
    CHECK_EQ(settled.stack_size, 32768);
    CHECK_EQ(settled.max_fibers, 9);
    CHECK(!settled.fault_report);
    /* And through the API. */
    setenv("WEFT_PROCS", "4", 1);
    CHECK_EQ(weft_configure(NULL), 0);
    CHECK_EQ(weft_processors(), 4);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 2}), 0);
    CHECK_EQ(weft_processors(), 2);
    CHECK_EQ(weft_configure(NULL), 0);
    clear_environment();
}

/* What the runtime does with it. */

static void wait_for(void *wg)
{
    CHECK_EQ(weft_wg_wait(wg), 0);
}

static void limit_of_fibers(void)
{
    weft_wg gate = WEFT_WG_INIT;
    weft_fiber *poison = (weft_fiber *)&gate, *fibers[2], *third = poison;
    CHECK_EQ(weft_wg_add(&gate, 1), 0);
    CHECK_EQ(weft_spawn(&fibers[0], wait_for, &gate, NULL), 0);
    CHECK_EQ(weft_spawn(&fibers[1], wait_for, &gate, NULL), 0);
    CHECK_EQ(weft_spawn(&third, wait_for, &gate, NULL), -EAGAIN);
    CHECK_PTR(third, poison);
    CHECK_EQ(weft_go(wait_for, &gate), -EAGAIN);
    weft_wg_done(&gate);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    CHECK_EQ(weft_spawn(&third, wait_for, &gate, NULL), 0);
    CHECK_EQ(weft_join(third), 0);
}

static void max_fibers_is_kept(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.max_fibers = 2, .processors = 3}), 0);
    limit_of_fibers();
    CHECK_EQ(weft_processors(), 3);
    /* Too late now, and nothing changes. */
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), -EBUSY);
    CHECK_EQ(weft_configure(NULL), -EBUSY);
    CHECK_EQ(weft_configure(&(weft_config){.processors = -1}), -EINVAL);
    CHECK_EQ(weft_processors(), 3);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_processors(), 3); /* still configured */
    limit_of_fibers();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
    setenv("WEFT_MAX_FIBERS", "2", 1);
    limit_of_fibers();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    clear_environment();
}

static void use_much_stack(void *arg)
{
    volatile unsigned char deep[700 * 1024];
    for (size_t i = 0; i < sizeof deep; i += 1024)
        deep[i] = 1;
    *(int *)arg = deep[0];
}

static void stack_size_is_kept(void)
{
    weft_fiber *fiber;
    for (int round = 0; round < 2; round++) {
        int done = 0;
        if (round == 0)
            CHECK_EQ(weft_configure(&(weft_config){.stack_size = 1000000}), 0);
        else
            setenv("WEFT_STACK_SIZE", "1M", 1);
        CHECK_EQ(weft_spawn(&fiber, use_much_stack, &done, NULL), 0);
        CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(done, 1);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(weft_configure(NULL), 0);
    }
    clear_environment();
}

int main(void)
{
    clear_environment();
    RUN_PLAIN(ranges, "stops or configures the runtime");
    RUN_PLAIN(defaults, "stops or configures the runtime");
    RUN_PLAIN(from_the_environment, "stops or configures the runtime");
    RUN_PLAIN(without, "stops or configures the runtime");
    RUN_PLAIN(configuration_beats_the_environment, "stops or configures the runtime");
    RUN_PLAIN(max_fibers_is_kept, "stops or configures the runtime");
    RUN_PLAIN(stack_size_is_kept, "stops or configures the runtime");
    RUN_PLAIN(nonsense_is_reported_and_ignored, "stops or configures the runtime");
    RUN_PLAIN(suffixes_do_not_wrap_around, "stops or configures the runtime");
    RUN_PLAIN(nonsense_about_fault_reports_is_reported, "stops or configures the runtime");
    RUN_PLAIN(asking_says_nothing, "stops or configures the runtime");
    return 0;
}
