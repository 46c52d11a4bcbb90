/*
 * crash_limits.c: faults that a pool that isolates crashes does not isolate: the program dies and
 * prints the reason. And faults without such a pool.
 *
 * Each case runs in a child: weft does not run here.
 */
#include <signal.h>

#include "isolates.h"
#include "system.h"

static weft_pool *isolating;

static void submit_and_stop(void *function)
{
    weft_pool_options options = {ISOLATES, .max_crashes = 2, .capacity = 1,
                                 .when_full = WEFT_CALLER_RUNS};
    isolating = pool_open(options);
    CHECK_EQ(weft_pool_submit(isolating, (void (*)(void *))(uintptr_t)function, NULL), 0);
    CHECK_EQ(weft_pool_stop(isolating, WEFT_NEVER), 0);
}

static void send_nowhere(void *arg)
{
    weft_chan *chan;
    CHECK_EQ(weft_chan_make(&chan, sizeof(long), 1), 0);
    CHECK_EQ(weft_chan_send(chan, (void *)8), 0);
}

/* A call of weft that takes a latch without entering the runtime. */
static void figures_nowhere(void *arg)
{
    CHECK_EQ(weft_pool_stats_get(isolating, (weft_pool_stats *)8), 0);
}

static void hold_spin(void *arg)
{
    static weft_spin spin;
    weft_spin_lock(&spin);
    fault_null_write();
}

static void abort_task(void *arg)
{
    abort();
}

static void raise_task(void *arg)
{
    raise(SIGSEGV);
}

static void null_task(void *arg)
{
    fault_null_write();
}

static void run_in_place(void *arg)
{
    CHECK_EQ(weft_pool_submit(isolating, null_task, NULL), 0); /* the pool is full */
}

static void crash_in_handler(const weft_panic_info *info, void (*function)(void *), void *arg,
                             void *data)
{
    fault_null_write();
}

static void bad_handler(void *arg)
{
    weft_pool_options options = {ISOLATES, .on_panic = crash_in_handler};
    weft_pool *pool = pool_open(options);
    CHECK_EQ(weft_pool_submit(pool, null_task, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
}

static int panic_function(void *arg)
{
    weft_panic("the handler will crash");
}

static void bad_handler_of_panic(void *arg)
{
    weft_pool_options options = {ISOLATES, .on_panic = crash_in_handler};
    weft_pool *pool = pool_open(options);
    weft_task *task = start_task(pool, panic_function, NULL);
    CHECK_EQ(task_result(task), -EOWNERDEAD);
}

/* Its lock is never released: a deadlock, which is detected. */
static void wait_for_crashed(void *arg)
{
    static weft_mutex mutex;
    weft_pool *pool = POOL_OPEN(ISOLATES);
    CHECK_EQ(weft_pool_submit(pool, lock_and_crash, &mutex), 0);
    CHECK_EQ(weft_pool_close(pool), 0);
    weft_mutex_lock(&mutex);
}

static void too_many(void *arg)
{
    submit_and_stop((void *)(uintptr_t)null_task);
    CHECK_EQ(weft_pool_reopen(isolating), 0);
    CHECK_EQ(weft_pool_submit(isolating, null_task, NULL), 0);
    CHECK_EQ(weft_pool_stop(isolating, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(isolating).crashed, 2);
    CHECK_EQ(weft_pool_reopen(isolating), 0);
    CHECK_EQ(weft_pool_submit(isolating, null_task, NULL), 0);
    CHECK_EQ(weft_pool_stop(isolating, WEFT_NEVER), 0);
}

static void plain_pool(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    CHECK_EQ(weft_pool_submit(pool, null_task, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
}

static void user_handler(int signal)
{
    static const char text[] = "the program's handler\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    signal = SIGKILL;
    raise(signal);
}

static void with_handler(void *arg)
{
    signal(SIGSEGV, user_handler);
    submit_and_stop((void *)(uintptr_t)null_task);
}

static void what_it_held_is_a_deadlock(void)
{
    if (!test_emulated()) /* an emulator has threads that weft does not know of */
        CHECK_EQ(test_dies(wait_for_crashed, NULL, "deadlock: "), SIGABRT);
}

static void the_rest_is_not_isolated(void)
{
    static const struct {
        void (*function)(void *);
        void (*task)(void *);
        const char *text;
        int signal;
    } cases[] = {
        {submit_and_stop, send_nowhere, "not this one: it is in weft's code", SIGSEGV},
        {submit_and_stop, figures_nowhere, "not this one: it is in weft's code", SIGSEGV},
        {submit_and_stop, hold_spin, "not this one: a weft_spin is held", SIGSEGV},
        {submit_and_stop, abort_task, "", SIGABRT},
        {submit_and_stop, raise_task, "", SIGSEGV},
        {submit_and_stop, run_in_place, "not this one: it is not in the code of a task", SIGSEGV},
        {bad_handler, NULL, "SIGSEGV", SIGSEGV},
        {bad_handler_of_panic, NULL, "not this one: it is not in the code of a task", SIGSEGV},
        {too_many, NULL, "not this one: there have been as many", SIGSEGV},
        {plain_pool, NULL, "fault: SIGSEGV", SIGSEGV},
        {with_handler, NULL, "the program's handler", SIGKILL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_EQ(test_dies(cases[i].function, (void *)(uintptr_t)cases[i].task, cases[i].text),
                 cases[i].signal);
}

static void without_handlers(void *arg)
{
    weft_pool *pool = POOL_POISON;
    weft_config config = {.no_fault_report = 1};
    CHECK_EQ(weft_configure(&config), 0);
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){ISOLATES}), -ENOTSUP);
    CHECK_PTR(pool, POOL_POISON);
}

static void options_are_checked(void)
{
    const char *output;
    weft_pool *pool = POOL_POISON;
    weft_pool_options options = {ISOLATES, .max_crashes = -1};
    CHECK_EQ(weft_pool_open(&pool, &options), -EINVAL);
    CHECK_PTR(pool, POOL_POISON);
    CHECK_EQ(test_in_child(without_handlers, NULL, &output), 0);
}

int main(void)
{
    isolates_or_skip();
    RUN_PLAIN(the_rest_is_not_isolated, "a crash fails a test run");
    RUN_PLAIN(what_it_held_is_a_deadlock, "a crash fails a test run");
    RUN_PLAIN(options_are_checked, "a crash fails a test run");
    return 0;
}
