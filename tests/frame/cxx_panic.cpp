/*
 * cxx_panic.cpp: panics and exceptions in a C++ program.
 *
 * Destructors run, exceptions that leave a task become panics, catch (...) catches a panic.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <weft/weft.h>

#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))

[[noreturn]] static void fail(int line, const char *what)
{
    std::fprintf(stderr, "cxx_panic.cpp:%d: failed: %s\n", line, what);
    std::_Exit(1);
}

static std::string journal;

static std::string noted()
{
    std::string text;
    text.swap(journal);
    return text;
}

struct Noter {
    explicit Noter(const char *name) : name(name)
    {
    }
    ~Noter()
    {
        journal += name;
    }
    const char *name;
};

struct Waiter {
    ~Waiter()
    {
        for (int i = 0; i < 10; i++)
            CHECK(weft_sleep(10 * WEFT_US) == 0);
        journal += "w";
    }
};

static void note(void *text)
{
    journal += static_cast<const char *>(text);
}

static char d[] = "d", e[] = "e";

/* The ways in which a task ends. */

static void panics(void *)
{
    Noter a("a");
    Waiter waiter;
    WEFT_DEFER(note, d);
    weft_panic("panic %d", 1);
}

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

static void throws_exception(void *)
{
    Noter a("a");
    throw Error("what it says");
}

static void throws_int(void *)
{
    Noter a("a");
    throw 7;
}

static void throws_text(void *)
{
    throw "a text";
}

static void throws_with_deferred(void *)
{
    weft_deferred record;
    Noter a("a");
    weft_defer(&record, note, e); /* like C code that the exception passes */
    throw Error("passes");
}

static void swallows(void *)
{
    try {
        panics(nullptr);
    } catch (...) {
        journal += "c";
    }
    CHECK(!weft_panicking());
    CHECK(std::uncaught_exceptions() == 0);
    journal += "+";
}

static void throws_on(void *)
{
    try {
        panics(nullptr);
    } catch (const std::exception &) {
        journal += "?";
    } catch (...) {
        journal += "c";
        throw;
    }
}

static void panics_in_catch(void *)
{
    try {
        throw Error("caught");
    } catch (const Error &) {
        Noter a("a");
        weft_panic("in catch");
    }
}

static void panics_in_catch_all(void *)
{
    try {
        weft_panic("one");
    } catch (...) {
        Noter a("a");
        weft_panic("two");
    }
}

/* A function without unwind tables: frames beyond it are not cleaned up, their catch blocks do not
 * end. */
extern "C" void without_tables(void (*function)());
#if defined(__x86_64__)
__asm__(".text\n.globl without_tables\n.type without_tables, @function\nwithout_tables:\n"
        "endbr64\nsubq $8, %rsp\ncallq *%rdi\naddq $8, %rsp\nret\n"
        ".size without_tables, . - without_tables\n");
#else
__asm__(".text\n.globl without_tables\n.type without_tables, %function\nwithout_tables:\n"
        "stp x29, x30, [sp, #-16]!\nblr x0\nldp x29, x30, [sp], #16\nret\n"
        ".size without_tables, . - without_tables\n");
#endif

static void panics_plainly()
{
    weft_panic("lost in catch");
}

static void lost_in_catch(void *)
{
    try {
        throw Error("caught");
    } catch (const Error &) {
        without_tables(panics_plainly);
    }
}

/* Exceptions without a text are reported by type. */

namespace
{
struct Hidden {
};
} // namespace

static void throws_hidden(void *)
{
    throw Hidden();
}

static std::string recover(void (*function)(void *))
{
    weft_panic_info info;
    int error = weft_recover(function, nullptr, &info);
    CHECK(error == -EOWNERDEAD);
    CHECK(std::uncaught_exceptions() == 0 && !std::current_exception());
    return info.message;
}

static void recovers(void *)
{
    noted();
    CHECK(recover(panics) == "panic 1");
    CHECK(noted() == "dwa");
    CHECK(recover(throws_exception) == "what it says");
    CHECK(noted() == "a");
    CHECK(recover(throws_int) == "an exception of C++, of type int");
    CHECK(noted() == "a");
    CHECK(recover(throws_text) == "a text");
    CHECK(recover(throws_with_deferred) == "passes");
    CHECK(noted() == "ea");
    CHECK(weft_recover(swallows, nullptr, nullptr) == 0);
    CHECK(noted() == "dwac+");
    CHECK(recover(throws_on) == "panic 1");
    CHECK(noted() == "dwac");
    CHECK(recover(panics_in_catch) == "in catch");
    CHECK(noted() == "a");
    CHECK(recover(panics_in_catch_all) == "two (while another panic was under way: one)");
    CHECK(noted() == "a");
    if (!SANITIZED) /* the exception is not freed, which a sanitizer reports */
        CHECK(recover(lost_in_catch) == "lost in catch");
    CHECK(recover(throws_hidden) == "an exception of C++, of type (anonymous namespace)::Hidden");
    try {
        throw Error("still works");
    } catch (const std::exception &exception) {
        CHECK(std::strcmp(exception.what(), "still works") == 0);
    }
}

/* The exceptions being caught belong to the fiber, on every thread. */

struct Sleeper {
    ~Sleeper()
    {
        for (int i = 0; i < 5; i++) {
            weft_yield();
            CHECK(std::uncaught_exceptions() == 1);
            CHECK(weft_sleep(WEFT_US) == 0);
        }
    }
};

static void parks_in_catch(void *arg)
{
    std::string own = std::to_string(*static_cast<int *>(arg));
    for (int i = 0; i < 20; i++) {
        CHECK(std::uncaught_exceptions() == 0 && !std::current_exception());
        try {
            try {
                Sleeper sleeper;
                throw Error(own);
            } catch (const Error &error) {
                weft_yield();
                CHECK(own == error.what());
                CHECK(weft_sleep(WEFT_US) == 0);
                throw;
            }
        } catch (const std::exception &exception) {
            CHECK(weft_sleep(WEFT_US) == 0);
            CHECK(own == exception.what());
        }
    }
}

static void many_park_in_catch()
{
    const int many = 50;
    weft_fiber *fibers[many];
    int numbers[many];
    for (int i = 0; i < many; i++) {
        numbers[i] = i;
        CHECK(weft_spawn(&fibers[i], parks_in_catch, &numbers[i], nullptr) == 0);
    }
    for (weft_fiber *fiber : fibers)
        CHECK(weft_join(fiber) == 0);
}

/* An exception that reaches the first frame of a fiber. */
static std::string joined(void (*function)(void *))
{
    weft_fiber *fiber;
    weft_panic_info info;
    CHECK(weft_spawn(&fiber, function, nullptr, nullptr) == 0);
    CHECK(weft_join_panic(fiber, &info, WEFT_NEVER) == -EOWNERDEAD);
    CHECK(info.depth > 0);
    return info.message;
}

static int throws_in_group(void *)
{
    throws_exception(nullptr);
    return 0;
}

/* Without a describer the report has the type. */
static void without_describer()
{
    weft_panic_describer(nullptr);
    CHECK(recover(throws_exception) == "an exception of C++, of type Error");
    noted();
    weft_panic_describer(weft_describer::text);
    CHECK(recover(throws_exception) == "what it says");
    noted();
}

/* A task that faults in a catch block is abandoned: the next task on its thread catches nothing. */

static int *volatile nowhere;

static void fault()
{
    *static_cast<volatile int *>(nowhere) = 1;
}

static void faults_in_catch(void *)
{
    try {
        throw Error("caught");
    } catch (const Error &) {
        fault();
    }
}

struct Faulty {
    ~Faulty()
    {
        fault();
    }
};

static void faults_while_unwinding(void *)
{
    try {
        Faulty faulty;
        throw Error("on its way");
    } catch (const Error &) {
        journal += "!";
    }
}

static void catches_nothing(void *)
{
    CHECK(std::uncaught_exceptions() == 0 && !std::current_exception());
    journal += "n";
}

static void abandons_what_is_caught()
{
    weft_pool *pool;
    weft_pool_options options = {};
    options.isolate_crashes = 1;
    options.capacity = 1;
    options.queue = 4;
    CHECK(weft_shutdown(WEFT_NEVER) == 0);
    weft_config config = {};
    config.processors = 1;
    config.max_machines = 1;
    CHECK(weft_configure(&config) == 0);
    CHECK(weft_pool_open(&pool, &options) == 0);
    CHECK(weft_pool_submit(pool, faults_in_catch, nullptr) == 0);
    CHECK(weft_pool_submit(pool, catches_nothing, nullptr) == 0);
    CHECK(weft_pool_submit(pool, faults_while_unwinding, nullptr) == 0);
    CHECK(weft_pool_submit(pool, catches_nothing, nullptr) == 0);
    CHECK(weft_pool_close(pool) == 0);
    CHECK(noted() == "nn");
    CHECK(weft_shutdown(WEFT_NEVER) == 0);
    CHECK(weft_configure(nullptr) == 0);
}

int main()
{
    if (!SANITIZED) /* sanitizers do not isolate crashes */
        abandons_what_is_caught();
    recovers(nullptr);
    without_describer();
    weft_fiber *fiber;
    CHECK(weft_spawn(&fiber, recovers, nullptr, nullptr) == 0);
    CHECK(weft_join(fiber) == 0);
    for (int i = 0; i < 100; i++) {
        CHECK(joined(panics) == "panic 1");
        CHECK(noted() == "dwa");
        CHECK(joined(throws_exception) == "what it says");
        CHECK(noted() == "a");
        CHECK(joined(throws_with_deferred) == "passes");
        CHECK(noted() == "ea");
    }
    many_park_in_catch();
    weft_group *group;
    weft_panic_info info;
    CHECK(weft_group_open(&group, nullptr) == 0);
    CHECK(weft_group_go(group, throws_in_group, nullptr) == 0);
    int error = 0;
    CHECK(weft_group_wait(group, &error) == 0 && error == -EOWNERDEAD);
    CHECK(weft_group_panic(group, &info) == 0);
    CHECK(std::strcmp(info.message, "what it says") == 0);
    CHECK(weft_group_close(group) == -EOWNERDEAD);
    CHECK(weft_shutdown(WEFT_NEVER) == 0);
    return 0;
}
