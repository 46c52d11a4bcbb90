/*
 * config.c: the configuration, the environment and the defaults, and which of them has precedence.
 */
#include "sched/runtime/config.h"

#include "fibers.h"
#include "sched/runtime/cpus.h"

static const char *const variables[] = {"WEFT_PROCS",        "WEFT_STACK_SIZE", "WEFT_MAX_FIBERS",
                                        "WEFT_FAULT_REPORT", "WEFT_CHAOS",      "WEFT_WITHOUT"};

static void clear_environment(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        CHECK_EQ(unsetenv(variables[i]), 0);
}

static const weft_config no_config;
static const weft_config *configured = &no_config;
static struct settings result;

static void make_settings(void)
{
    result = weft__config_resolve(configured);
}

/* Makes the settings with one variable set, and returns what was reported. */
static const char *set_to(const char *name, const char *value)
{
    clear_environment();
    CHECK_EQ(setenv(name, value, 1), 0);
    const char *said = test_stderr_of(make_settings);
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
    configure(3);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ(weft_configure(&bad[i]), -EINVAL);
    for (size_t i = 0; i < sizeof bad[0].reserved / sizeof bad[0].reserved[0]; i++) {
        weft_config config = {.processors = 5};
        config.reserved[i] = 1;
        CHECK_EQ(weft_configure(&config), -EINVAL);
    }
    CHECK_EQ(weft_processors(), 3); /* a call that fails changes nothing */
    CHECK_EQ(weft_configure(NULL), 0);
    clear_environment();
    CHECK_EQ(weft_processors(), weft__cpus(""));
}

static void check_defaults(void)
{
    CHECK_EQ(result.processors, weft__cpus(""));
    CHECK_EQ(result.stack_size, 64 * 1024);
    CHECK_EQ(result.max_fibers, 0);
    CHECK_EQ(result.chaos, 0);
    CHECK(result.fault_report);
}

static void defaults(void)
{
    clear_environment();
    CHECK_STR(test_stderr_of(make_settings), "");
    check_defaults();
    CHECK(result.membarrier && result.guard_install && result.guard_pages && result.epoll_pwait2);
}

static void from_the_environment(void)
{
    CHECK_STR(set_to("WEFT_PROCS", "7"), "");
    CHECK_EQ(result.processors, 7);
    CHECK_STR(set_to("WEFT_PROCS", "256"), "");
    CHECK_EQ(result.processors, 256);
    CHECK_STR(set_to("WEFT_PROCS", ""), "");
    check_defaults();
    CHECK_STR(set_to("WEFT_STACK_SIZE", "128K"), "");
    CHECK_EQ(result.stack_size, 128 * 1024);
    CHECK_STR(set_to("WEFT_STACK_SIZE", "2m"), "");
    CHECK_EQ(result.stack_size, 2 * 1024 * 1024);
    CHECK_STR(set_to("WEFT_STACK_SIZE", "1024M"), "");
    CHECK_EQ(result.stack_size, 1 << 30);
    CHECK_STR(set_to("WEFT_STACK_SIZE", "16384"), "");
    CHECK_EQ(result.stack_size, 16384);
    CHECK_STR(set_to("WEFT_MAX_FIBERS", "1"), "");
    CHECK_EQ(result.max_fibers, 1);
    CHECK_STR(set_to("WEFT_MAX_FIBERS", "3k"), "");
    CHECK_EQ(result.max_fibers, 3072);
    CHECK_STR(set_to("WEFT_CHAOS", "100"), "");
    CHECK_EQ(result.chaos, 100);
    CHECK_STR(set_to("WEFT_FAULT_REPORT", "0"), "");
    CHECK(!result.fault_report);
    CHECK_STR(set_to("WEFT_FAULT_REPORT", "1"), "");
    CHECK(result.fault_report);
    CHECK_STR(set_to("WEFT_FAULT_REPORT", ""), "");
    CHECK(result.fault_report);
}

/* A value that makes no sense is reported in one line, and the default is used. */
static void nonsense_is_reported_and_ignored(void)
{
    static const struct {
        const char *name, *values[12];
    } cases[] = {
        {"WEFT_PROCS",
         {"0", "-1", "257", "two", "2x", " 2", "2 ", "1K", "K", "4294967298",
          "99999999999999999999"}},
        {"WEFT_STACK_SIZE",
         {"16383", "8K", "1025M", "64KB", "1G", "1073741825", "64K-",
          "18446744073709617152" /* 2^64 + 64 KiB */}},
        {"WEFT_MAX_FIBERS",
         {"0", "-5", "many", "18446744073709551617" /* 2^64 + 1 */,
          "17592186044417M" /* 2^64 + 2^20 */, "9007199254740991M"}},
        {"WEFT_CHAOS", {"101"}},
        {"WEFT_FAULT_REPORT", {"perhaps"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (const char *const *value = cases[i].values; *value != NULL; value++) {
            char expected[128];
            const char *said = set_to(cases[i].name, *value);
            snprintf(expected, sizeof expected, "weft: %s=%s is ignored", cases[i].name, *value);
            if (strncmp(said, expected, strlen(expected)) != 0)
                test_fail(__FILE__, __LINE__, "no \"%s\" but \"%s\"", expected, said);
            CHECK_STR(strchr(said, '\n'), "\n");
            check_defaults();
        }
}

static int asked;

static void ask_processors(void)
{
    asked = weft_processors();
}

/* The report comes once, at the start: asking for the number of processors reports nothing. */
static void asking_reports_nothing(void)
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
    const bool *allowed[] = {&result.membarrier, &result.guard_install, &result.guard_many,
                             &result.guard_pages, &result.epoll_pwait2};
    for (int word = 0; word < 5; word++) {
        CHECK_STR(set_to("WEFT_WITHOUT", words[word]), "");
        for (int i = 0; i < 5; i++)
            CHECK_EQ(*allowed[i], i != word);
    }
    CHECK_STR(set_to("WEFT_WITHOUT", "epoll_pwait2,membarrier"), "");
    CHECK(!result.membarrier && result.guard_install && result.guard_pages && !result.epoll_pwait2);
    CHECK_STR(set_to("WEFT_WITHOUT", ",guard_pages,,"), "");
    CHECK(result.membarrier && result.guard_install && !result.guard_pages);
    CHECK_STR(set_to("WEFT_WITHOUT", "guard,membarrier,sleep"),
              "weft: WEFT_WITHOUT: guard is not known\nweft: WEFT_WITHOUT: sleep is not known\n");
    CHECK(!result.membarrier && result.guard_install && result.guard_pages && result.epoll_pwait2);
    /* A long word is cut. */
    char word[100], expected[160];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    snprintf(expected, sizeof expected, "weft: WEFT_WITHOUT: %.64s is not known\n", word);
    CHECK_STR(set_to("WEFT_WITHOUT", word), expected);
}

static void the_configuration_has_precedence(void)
{
    clear_environment();
    setenv("WEFT_PROCS", "nonsense", 1); /* it is not read */
    setenv("WEFT_STACK_SIZE", "128K", 1);
    setenv("WEFT_MAX_FIBERS", "1", 1);
    setenv("WEFT_FAULT_REPORT", "1", 1);
    configured =
        &(weft_config){.processors = 2, .no_fault_report = 1, .stack_size = 32768, .max_fibers = 9};
    CHECK_STR(test_stderr_of(make_settings), "");
    configured = &no_config;
    CHECK_EQ(result.processors, 2);
    CHECK_EQ(result.stack_size, 32768);
    CHECK_EQ(result.max_fibers, 9);
    CHECK(!result.fault_report);
    /* And through the API. */
    setenv("WEFT_PROCS", "4", 1);
    CHECK_EQ(weft_configure(NULL), 0);
    CHECK_EQ(weft_processors(), 4);
    configure(2);
    CHECK_EQ(weft_processors(), 2);
    CHECK_EQ(weft_configure(NULL), 0);
    clear_environment();
}

/* What the runtime does with the settings. */

static void check_limit_of_two(void)
{
    weft_wg gate = WEFT_WG_INIT;
    weft_fiber *poison = (weft_fiber *)&gate, *fibers[2], *third = poison;
    CHECK_EQ(weft_wg_add(&gate, 1), 0);
    spawn_all(fibers, 2, wait_for_group, &gate);
    CHECK_EQ(weft_spawn(&third, wait_for_group, &gate, NULL), -EAGAIN);
    CHECK_PTR(third, poison);
    CHECK_EQ(weft_go(wait_for_group, &gate), -EAGAIN);
    weft_wg_done(&gate);
    join_all(fibers, 2);
    run_fiber(wait_for_group, &gate);
}

static void max_fibers_is_kept(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.max_fibers = 2, .processors = 3}), 0);
    check_limit_of_two();
    CHECK_EQ(weft_processors(), 3);
    /* While the runtime runs its configuration is fixed. */
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), -EBUSY);
    CHECK_EQ(weft_configure(NULL), -EBUSY);
    CHECK_EQ(weft_configure(&(weft_config){.processors = -1}), -EINVAL);
    CHECK_EQ(weft_processors(), 3);
    shut_down();
    CHECK_EQ(weft_processors(), 3); /* still configured */
    check_limit_of_two();
    reset_runtime();
    setenv("WEFT_MAX_FIBERS", "2", 1);
    check_limit_of_two();
    shut_down();
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
    for (int round = 0; round < 2; round++) {
        int done = 0;
        if (round == 0)
            CHECK_EQ(weft_configure(&(weft_config){.stack_size = 1000000}), 0);
        else
            setenv("WEFT_STACK_SIZE", "1M", 1);
        run_fiber(use_much_stack, &done);
        CHECK_EQ(done, 1);
        reset_runtime();
    }
    clear_environment();
}

int main(void)
{
    clear_environment();
    RUN_ALL_PLAIN("stops or configures the runtime", ranges, defaults, from_the_environment,
                  without, the_configuration_has_precedence, max_fibers_is_kept, stack_size_is_kept,
                  nonsense_is_reported_and_ignored, asking_reports_nothing);
    return 0;
}
