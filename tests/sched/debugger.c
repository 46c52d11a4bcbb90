/*
 * debugger.c: gdb shows the call chain of a fiber, from a breakpoint in it to its entry, after it
 * has parked and moved to another thread.
 */
#include "base/compiler.h"
#include "everywhere.h"
#include "fibers.h"
#include "system.h"

noinline void debugger_stops_here(void);
noinline void debugger_middle(void);
void debugger_fiber(void *arg);

noinline void debugger_stops_here(void)
{
    __asm__ volatile("" ::: "memory");
}

noinline void debugger_middle(void)
{
    debugger_stops_here();
    __asm__ volatile("" ::: "memory"); /* not a tail call */
}

void debugger_fiber(void *arg)
{
    weft_yield();
    CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
    test_hop();
    debugger_middle();
    test_hop();
}

static int be_debugged(void)
{
    configure(2);
    run_fiber(debugger_fiber, NULL);
    shut_down();
    return 0;
}

static char output[65536];

static void run_gdb(const char *program)
{
    char command[4096];
    snprintf(command, sizeof command,
             "gdb -nx -batch -iex 'set debuginfod enabled off' -ex 'set pagination off' -ex 'set "
             "language c' "
             "-ex 'break debugger_stops_here' -ex run -ex bt -ex kill "
             "--args '%s' be-debugged 2>&1 < /dev/null",
             program);
    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): a fixed command */
    CHECK(pipe != NULL);
    size_t length = fread(output, 1, sizeof output - 1, pipe);
    output[length] = '\0';
    pclose(pipe);
    printf("%s---\n", output);
}

/* The last line that begins as a frame does. */
static const char *last_frame(void)
{
    const char *last = NULL;
    for (const char *line = output; line != NULL; line = strchr(line, '\n')) {
        line += line != output;
        if (line[0] == '#')
            last = line;
    }
    return last;
}

static void gdb_shows_the_whole_chain(void)
{
    char program[2048];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    CHECK(length > 0);
    program[length] = '\0';
    run_gdb(program);
    if (strstr(output, "Operation not permitted") != NULL)
        test_skip("gdb may not trace here");
    CHECK(strstr(output, "debugger_stops_here") != NULL);
    CHECK(strstr(output, "in debugger_middle") != NULL);
    CHECK(strstr(output, "in debugger_fiber") != NULL);
    CHECK(strstr(output, "corrupt stack") == NULL);
    CHECK(strstr(output, "Backtrace stopped") == NULL);
    const char *last = last_frame();
    CHECK(last != NULL);
    /* Without debug information gdb may take the two underscores for those of Ada, and show a dot.
     */
    const char *entry = strstr(last, "context_entry");
    CHECK(entry != NULL && memchr(last, '\n', (size_t)(entry - last)) == NULL);
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "be-debugged") == 0)
        return be_debugged();
    if (WEFT_ASAN || WEFT_TSAN)
        test_skip("the sanitizers have frames and threads of their own");
    if (test_emulated())
        test_skip("the gdb of the machine cannot run an emulated program");
    /* NOLINTNEXTLINE(cert-env33-c): a fixed command */
    if (system("gdb --version > /dev/null 2>&1") != 0)
        test_skip("no gdb");
    RUN_PLAIN(gdb_shows_the_whole_chain, "gdb looks at a child process");
    return 0;
}
