/*
 * overflow_crash.c: a stack overflow is reported with the name of the fiber; other faults go where
 * they would without weft.
 *
 * Each case runs in a child: the test sees how it died, and what it wrote.
 */
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "dying.h"
#include "faults.h" /* sanitizers leave the signals alone */
#include "fibers.h"

enum { STACK_SIZE = 32 * 1024, USER_STATUS = 42 };

static void overflow(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    fault_overflow();
}

static void null_dereference(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    fault_null_write();
}

static noinline void run_named(void (*function)(void *))
{
    weft_spawn_options options = {.name = "the deep one", .stack_size = STACK_SIZE};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void overflow_in_fiber(void)
{
    run_named(overflow);
}

static void an_overflow_is_reported(void)
{
    char text[128];
    check_dies(overflow_in_fiber, SIGSEGV);
    CHECK(said("stack overflow"));
    CHECK(said("\"the deep one\""));
    snprintf(text, sizeof text, "all %d bytes of its stack are used, and at least ", STACK_SIZE);
    CHECK(said(text));
    CHECK_IN(address_after("was spawned at"), run_named);
    CHECK_EQ(address_after("and runs"), (uintptr_t)overflow);
}

static void overflow_on_default_stack(void)
{
    run_fiber(overflow, NULL);
}

static void an_overflow_without_a_name_is_reported(void)
{
    check_dies(overflow_on_default_stack, SIGSEGV);
    CHECK(said("stack overflow"));
    CHECK(said("\"\""));
}

static void null_in_fiber(void)
{
    run_named(null_dereference);
}

static void null_on_main(void)
{
    run_fiber(nothing, NULL);
    fault_null_write();
}

static void other_faults_are_no_overflow(void)
{
    check_dies(null_in_fiber, SIGSEGV);
    CHECK(!said("stack overflow in fiber"));
    check_dies(null_on_main, SIGSEGV);
    CHECK(!said("stack overflow in fiber"));
}

static void kill_self(void)
{
    run_fiber(nothing, NULL);
    raise(SIGSEGV);
}

static void ignored_before(void)
{
    signal(SIGSEGV, SIG_IGN);
    run_named(null_dereference);
}

static void a_sent_signal_kills_too(void)
{
    check_dies(kill_self, SIGSEGV);
    check_dies(ignored_before, SIGSEGV); /* a fault cannot be ignored */
}

static void say_and_exit(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(1);
    _exit(USER_STATUS);
}

static void user_info(int number, siginfo_t *info, void *context)
{
    say_and_exit(number == SIGSEGV && info->si_addr == NULL ? "user: null\n" : "user: elsewhere\n");
}

static void user_plain(int number)
{
    say_and_exit(number == SIGSEGV ? "user: plain\n" : "user: another signal\n");
}

static void install_info(void)
{
    struct sigaction action = {.sa_sigaction = user_info, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
}

static void info_then_null(void)
{
    install_info();
    run_named(null_dereference);
}

static void info_then_overflow(void)
{
    install_info();
    run_named(overflow);
}

static void plain_then_null(void)
{
    signal(SIGSEGV, user_plain);
    run_named(null_dereference);
}

static void plain_then_null_on_main(void)
{
    signal(SIGSEGV, user_plain);
    null_on_main();
}

/* A handler that repairs what faulted and returns: weft's stays installed. */

static char *page;

static void user_repair(int number, siginfo_t *info, void *context)
{
    if (info->si_addr != page)
        user_info(number, info, context);
    if (mprotect(page, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE) != 0)
        _exit(1);
}

static void touch_page(void *arg)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    page = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int i = 0; i < 3; i++) {
        *(volatile char *)page = (char)(i + 1); /* faults */
        CHECK_EQ(*(volatile char *)page, i + 1);
        CHECK_EQ(mprotect(page, size, PROT_NONE), 0);
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    }
}

static void repair_then_overflow(void)
{
    struct sigaction action = {.sa_sigaction = user_repair, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    run_named(touch_page);
    run_named(overflow);
}

static void later_then_null(void)
{
    run_fiber(nothing, NULL);
    install_info(); /* over weft's */
    run_named(null_dereference);
}

static void a_handler_of_the_program_is_called(void)
{
    static const struct {
        void (*function)(void);
        const char *text;
        bool overflow;
    } cases[] = {{info_then_null, "user: null", false},
                 {info_then_overflow, "user: elsewhere", true},
                 {plain_then_null, "user: plain", false},
                 {plain_then_null_on_main, "user: plain", false},
                 {repair_then_overflow, "user: elsewhere", true},
                 {later_then_null, "user: null", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status = run_case(cases[i].function);
        test_exited(status, USER_STATUS);
        CHECK(said(cases[i].text));
        CHECK_EQ(said("stack overflow in fiber"), cases[i].overflow);
    }
}

static void check_default_action(void)
{
    struct sigaction segv, bus;
    CHECK_EQ(sigaction(SIGSEGV, NULL, &segv), 0);
    CHECK_EQ(sigaction(SIGBUS, NULL, &bus), 0);
    CHECK(segv.sa_handler == SIG_DFL && bus.sa_handler == SIG_DFL);
}

static void off_by_config(void)
{
    weft_config config = {.no_fault_report = 1};
    CHECK_EQ(weft_configure(&config), 0);
    run_fiber(nothing, NULL);
    check_default_action();
    run_named(overflow);
}

static void off_by_environment(void)
{
    setenv("WEFT_FAULT_REPORT", "0", 1);
    run_fiber(nothing, NULL);
    check_default_action();
    run_named(overflow);
}

static void the_report_can_be_turned_off(void)
{
    check_dies(off_by_config, SIGSEGV);
    CHECK(!said("weft:"));
    check_dies(off_by_environment, SIGSEGV);
    CHECK(!said("weft:"));
}

static void restored_after_shutdown(void)
{
    run_fiber(nothing, NULL);
    shut_down();
    check_default_action();
    signal(SIGSEGV, user_plain);
    run_fiber(nothing, NULL);
    shut_down();
    struct sigaction segv;
    CHECK_EQ(sigaction(SIGSEGV, NULL, &segv), 0);
    CHECK(segv.sa_handler == user_plain);
}

static void a_shutdown_puts_the_handlers_back(void)
{
    CHECK_EQ(run_case(restored_after_shutdown), 0);
}

int main(void)
{
    const char *without = getenv("WEFT_WITHOUT");
    if (without != NULL && strstr(without, "guard_pages") != NULL)
        test_skip("without guards no overflow is noticed");
    RUN_ALL(an_overflow_is_reported, an_overflow_without_a_name_is_reported,
            other_faults_are_no_overflow, a_sent_signal_kills_too,
            a_handler_of_the_program_is_called, the_report_can_be_turned_off,
            a_shutdown_puts_the_handlers_back);
    return 0;
}
