/*
 * test.h: the harness of weft's tests: header-only, no framework.
 *
 * A test file is a program: static functions with CHECKs, run in turn by main.
 *
 *     #include "test.h"
 *
 *     static void counts_down(void)
 *     {
 *         weft_wg wg = WEFT_WG_INIT;
 *         CHECK_EQ(weft_wg_add(&wg, 2), 0);
 *         weft_wg_done(&wg);
 *         CHECK_EQ(weft_wg_count(&wg), 1);
 *     }
 *
 *     int main(void)
 *     {
 *         RUN(counts_down);
 *         return 0;
 *     }
 *
 * A CHECK may stand anywhere, in fibers too. The first one that fails prints file, line and values
 * and ends the process at once with exit code 1: handlers of exit() would run on whatever stack the
 * check stands on.
 */
#ifndef WEFT_TESTS_TEST_H
#define WEFT_TESTS_TEST_H

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A running program counts its CPUs now and then, which opens files and allocates. Tests that count
 * descriptors or let the nth allocation fail would meet it: it is off, unless a test sets this. */
extern int64_t test_processors_every __asm__("weft__processors_every") __attribute__((weak));
__attribute__((constructor)) static void test_count_no_cpus(void)
{
    if (&test_processors_every != NULL)
        test_processors_every = INT64_MAX;
}

#define CHECK(condition) \
    ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "CHECK(%s)", #condition))

/* Equal as 64-bit integers; pointers are compared with CHECK_PTR. */
#define CHECK_EQ(a, b) test_check_eq(__FILE__, __LINE__, #a, #b, (int64_t)(a), (int64_t)(b))

#define CHECK_PTR(a, b) test_check_ptr(__FILE__, __LINE__, #a, #b, a, b)

#define CHECK_STR(a, b) test_check_str(__FILE__, __LINE__, #a, #b, a, b)

#define RUN(function) test_run(#function, function)

/* RUN for a test that does not run under seeds too (seeds.h), with the reason. */
#define RUN_PLAIN(function, why) test_run(#function " (not under seeds: " why ")", function)

/* RUN and RUN_PLAIN for several tests, in turn. */
#define RUN_ALL(...) test_run_all(NULL, #__VA_ARGS__, (test_function *const[]){__VA_ARGS__, NULL})
#define RUN_ALL_PLAIN(why, ...) \
    test_run_all(why, #__VA_ARGS__, (test_function *const[]){__VA_ARGS__, NULL})

/* True while a test runs under a seed (seeds.h), in a fiber on the only processor. */
static bool test_seeded;

/* Called by a check that fails, if set, to print what else is known. */
static void (*test_on_fail)(void);

/* The real stderr while test_stderr_of captures it; -1 otherwise. */
static int test_stderr = -1;

/* Writes the captured text to the real stderr, so that a check that fails meanwhile shows. */
static inline void test_stderr_back(void)
{
    char text[4096];
    ssize_t size;
    off_t at = 0;
    for (; (size = pread(STDERR_FILENO, text, sizeof text, at)) > 0; at += size)
        if (write(test_stderr, text, (size_t)size) != size)
            break;
    dup2(test_stderr, STDERR_FILENO);
}

__attribute__((noreturn, format(printf, 3, 4))) static inline void
test_fail(const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (test_stderr >= 0)
        test_stderr_back();
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
    if (test_on_fail != NULL)
        test_on_fail();
    fflush(NULL);
    _exit(1);
}

static inline void test_check_eq(const char *file, int line, const char *a_text, const char *b_text,
                                 int64_t a, int64_t b)
{
    if (a != b)
        test_fail(file, line, "CHECK_EQ(%s, %s): %lld and %lld", a_text, b_text, (long long)a,
                  (long long)b);
}

static inline void test_check_ptr(const char *file, int line, const char *a_text,
                                  const char *b_text, const void *a, const void *b)
{
    if (a != b)
        test_fail(file, line, "CHECK_PTR(%s, %s): %p and %p", a_text, b_text, a, b);
}

static inline void test_check_str(const char *file, int line, const char *a_text,
                                  const char *b_text, const char *a, const char *b)
{
    if (a == NULL || b == NULL ? a != b : strcmp(a, b) != 0)
        test_fail(file, line, "CHECK_STR(%s, %s): \"%s\" and \"%s\"", a_text, b_text,
                  a ? a : "(null)", b ? b : "(null)");
}

static inline void test_title(const char *name)
{
    printf("%s\n", name);
    fflush(stdout);
}

static inline void test_run(const char *name, void (*function)(void))
{
    test_title(name);
    function();
}

typedef void test_function(void);

/* The names are the arguments of a macro, as they stand in the source. */
static inline void test_run_all(const char *why, const char *names, test_function *const *functions)
{
    for (const char *name = names; *functions != NULL; functions++) {
        char title[256];
        int length = (int)strcspn(name, ",");
        snprintf(title, sizeof title, why != NULL ? "%.*s (not under seeds: %s)" : "%.*s", length,
                 name, why);
        test_run(title, *functions);
        name += length;
        name += strspn(name, ", ");
    }
}

/* Ends the test as skipped, and says why. */
__attribute__((noreturn)) static inline void test_skip(const char *reason)
{
    printf("skipped: %s\n", reason);
    fflush(NULL);
    _exit(77);
}

enum { TEST_SEEDS = 20 };

/* n, scaled down where everything is slow: WEFT_TEST_SCALE is a percentage (default 100) that runs
 * under sanitizers, valgrind and emulators set. Under seeds it is divided among them. At least
 * 1. */
static inline int64_t test_scale(int64_t n)
{
    const char *text = getenv("WEFT_TEST_SCALE");
    long percent = text != NULL ? strtol(text, NULL, 10) : 100;
    if (percent <= 0)
        test_fail(__FILE__, __LINE__, "WEFT_TEST_SCALE=%s is no percentage", text);
    int64_t scaled = (int64_t)((double)n * (double)percent / 100.0);
    if (test_seeded)
        scaled /= TEST_SEEDS;
    return scaled > 0 ? scaled : 1;
}

/* A forked child that runs a part of a test, and what it writes to stderr. */
struct test_child {
    pid_t pid;
    int output; /* the end of the pipe that is read */
};

/* Forks; returns true in the child, which has to end by _exit. Since weft does not run in the fork
 * of a process that runs it, use this before the test itself uses weft, or after weft_shutdown. */
static inline bool test_child_begin(struct test_child *child)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    child->pid = fork();
    CHECK(child->pid >= 0);
    if (child->pid == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
    }
    close(ends[1]);
    child->output = ends[0];
    return child->pid == 0;
}

/* The status, as waitpid gives it, must be that of an exit with this code, or of a death by this
 * signal. */
static inline void test_exited(int status, int code)
{
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), code);
}

static inline void test_killed(int status, int signal)
{
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), signal);
}

/* The forked child must exit with this code. */
static inline void test_child_exits(pid_t child, int code)
{
    int status = 0;
    CHECK(child > 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    test_exited(status, code);
}

/* Waits for the end of the child and returns its status as waitpid gives it. *written is what the
 * child wrote to stderr, valid until the next call. */
static inline int test_child_end(const struct test_child *child, const char **written)
{
    /* What does not fit is still read, so that the child does not block on a full pipe. */
    static char output[1 << 20];
    char rest[4096];
    size_t length = 0;
    for (;;) {
        size_t room = sizeof output - 1 - length;
        ssize_t got = room > 0 ? read(child->output, output + length, room)
                               : read(child->output, rest, sizeof rest);
        if (got < 0 && errno == EINTR)
            continue;
        CHECK(got >= 0);
        if (got == 0)
            break;
        if (room > 0)
            length += (size_t)got;
    }
    output[length] = '\0';
    close(child->output);

    int status = 0;
    pid_t waited;
    do
        waited = waitpid(child->pid, &status, 0);
    while (waited < 0 && errno == EINTR);
    CHECK_EQ(waited, child->pid);
    *written = output;
    return status;
}

/* Calls function(arg) in a forked child, which ends when the function returns. Returns and *written
 * as test_child_end. */
static inline int test_in_child(void (*function)(void *), void *arg, const char **written)
{
    struct test_child child;
    if (test_child_begin(&child)) {
        function(arg);
        _exit(0);
    }
    return test_child_end(&child, written);
}

/* The child must die by a signal with `expected` somewhere on its stderr. Returns the signal. */
static inline int test_child_dies(const char *file, int line, const struct test_child *child,
                                  const char *expected)
{
    const char *output;
    int status = test_child_end(child, &output);
    fprintf(stderr, "--- stderr of the child that must die:\n%s---\n", output);
    if (!WIFSIGNALED(status))
        test_fail(file, line, "the child lived on to exit code %d", WEXITSTATUS(status));
    if (strstr(output, expected) == NULL)
        test_fail(file, line, "no \"%s\" on the child's stderr", expected);
    return WTERMSIG(status);
}

/* CHECK_ABORTS("text", statements): the statements, run in a forked child, must end it by SIGABRT
 * with the text on stderr. */
#define CHECK_ABORTS(expected, ...)                                                     \
    do {                                                                                \
        struct test_child test_child_;                                                  \
        if (test_child_begin(&test_child_)) {                                           \
            __VA_ARGS__;                                                                \
            _exit(0);                                                                   \
        }                                                                               \
        CHECK_EQ(test_child_dies(__FILE__, __LINE__, &test_child_, expected), SIGABRT); \
    } while (0)

/* int test_dies(void (*function)(void *), void *arg, const char *expected)
 *
 * Calls function(arg) in a forked child, which must die by a signal with `expected` somewhere on
 * its stderr. Returns the signal. As for test_in_child, weft must not be running. */
#define test_dies(function, arg, expected) test_dies_at(__FILE__, __LINE__, function, arg, expected)

static inline int test_dies_at(const char *file, int line, void (*function)(void *), void *arg,
                               const char *expected)
{
    struct test_child child;
    if (test_child_begin(&child)) {
        function(arg);
        _exit(0);
    }
    return test_child_dies(file, line, &child, expected);
}

/* Runs function and returns what it wrote to stderr, valid until the next call. */
static inline const char *test_stderr_of(void (*function)(void))
{
    static char text[65536];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    CHECK(file != NULL && before >= 0 && test_stderr < 0);
    fflush(stderr);
    CHECK(dup2(fileno(file), STDERR_FILENO) >= 0);
    test_stderr = before;
    function();
    test_stderr = -1;
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

#endif
