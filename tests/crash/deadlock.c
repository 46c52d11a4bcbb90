/*
 * deadlock.c: when nobody can ever wake anybody that is reported, with who waits for what, and the
 * process aborts; and as long as somebody could, nothing is reported.
 *
 * Each case runs in a child, in which weft has not run before. A case that must be reported ends in
 * waiting for ever: if the report does not come, the test runs into its time limit.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "bodies.h"
#include "emulated.h"

/* A function with checks is larger where each access is checked. */
enum { FUNCTION_MOST = WEFT_ASAN ? 2048 : 256, WAITED_ON = 42 };

/* Each child would sleep for a second at its end. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

static const char *output;
static size_t output_size;

/* Runs the case in a child and returns its status; all that it wrote to stderr is in `output`. */
static int run_case(void (*function)(void *), void *arg)
{
    static char *text;
    const char *rest;
    FILE *file = tmpfile();
    CHECK(file != NULL);
    fflush(NULL);
    int before = dup(STDERR_FILENO);
    CHECK(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        function(arg);
        _exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    long size = lseek(fileno(file), 0, SEEK_END);
    CHECK(size >= 0);
    free(text);
    text = calloc(1, (size_t)size + 1);
    CHECK(text != NULL);
    CHECK_EQ(pread(fileno(file), text, (size_t)size, 0), size);
    fclose(file);
    output = text;
    output_size = (size_t)size;
    rest = size > 4000 ? "...\n" : "";
    fprintf(stderr, "--- stderr of the child:\n%.4000s%s---\n", text, rest);
    return status;
}

static bool said(const char *text)
{
    return strstr(output, text) != NULL;
}

static void check_said(int line, const char *text)
{
    if (!said(text))
        test_fail(__FILE__, line, "no \"%s\" in the report", text);
}

#define CHECK_SAID(text) check_said(__LINE__, text)

static void check_reported(void (*function)(void *), void *arg)
{
    int status = run_case(function, arg);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    CHECK_SAID("weft: deadlock: nothing is left that could wake one of those who wait");
    CHECK_SAID(
        "weft: aborting; WEFT_DEADLOCK_CHECK=0 or weft_config.no_deadlock_check waits on instead");
}

static void check_lives(void (*function)(void *), void *arg)
{
    int status = run_case(function, arg);
    CHECK(!said("deadlock"));
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

static weft_fiber *spawn(void (*function)(void *), void *arg, const char *name)
{
    weft_spawn_options options = {.name = name};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, arg, &options), 0);
    return fiber;
}

static weft_chan *make_chan(size_t size)
{
    weft_chan *chan;
    CHECK_EQ(weft_chan_make(&chan, size, 0), 0);
    return chan;
}

static void end_at_once(void *arg)
{
    (void)arg;
}

static void start_weft(void)
{
    CHECK_EQ(weft_join(spawn(end_at_once, NULL, "first")), 0);
}

/* How long somebody who is left takes to act. */
enum { WHILE_MS = 30 };

/* Blocks the thread in a plain read(). */
static void block_in_read(void)
{
    struct itimerspec after = {.it_value = {.tv_nsec = WHILE_MS * 1000000L}};
    uint64_t count;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(timer >= 0);
    CHECK_EQ(timerfd_settime(timer, 0, &after, NULL), 0);
    CHECK_EQ(read(timer, &count, sizeof count), sizeof count);
    close(timer);
}

static weft_wg never_done = {.word = 0};

static void init_never_done(void)
{
    CHECK_EQ(weft_wg_init(&never_done, 1), 0);
}

static void wait_for_ever(void *arg)
{
    CHECK_EQ(weft_wg_wait(&never_done), 0);
    (void)arg;
}

/* What the report says of two fibers that wait for each other. */

static weft_chan *ping, *pong;

static noinline void receive_ping(void *arg)
{
    CHECK_EQ(weft_chan_receive(ping, NULL), 0);
    CHECK_EQ(weft_chan_send(pong, NULL), 0);
    (void)arg;
}

static noinline void receive_pong_late(void *arg)
{
    CHECK_EQ(weft_sleep(300 * WEFT_MS), 0);
    CHECK_EQ(weft_chan_receive(pong, NULL), 0);
    CHECK_EQ(weft_chan_send(ping, NULL), 0);
    (void)arg;
}

static noinline weft_fiber *spawn_one(void (*function)(void *), const char *name)
{
    return spawn(function, NULL, name);
}

static void each_others_channel(void *arg)
{
    ping = make_chan(0);
    pong = make_chan(0);
    weft_fiber *one = spawn_one(receive_ping, "one");
    weft_fiber *other = spawn_one(receive_pong_late, "the other");
    CHECK_EQ(weft_join(one), 0);
    CHECK_EQ(weft_join(other), 0);
    (void)arg;
}

/* The part of the report that is about a fiber, up to the next "weft: fiber" or "weft: a". */
static char *part_about(const char *name)
{
    static char part[8192];
    char mark[64];
    snprintf(mark, sizeof mark, "\"%s\" ", name);
    const char *start = strstr(output, mark);
    if (start == NULL)
        test_fail(__FILE__, __LINE__, "nothing about \"%s\" in the report", name);
    const char *ends[] = {strstr(start, "weft: fiber"), strstr(start, "weft: a")};
    const char *end = output + output_size;
    for (int i = 0; i < 2; i++)
        if (ends[i] != NULL && ends[i] < end)
            end = ends[i];
    size_t length = (size_t)(end - start);
    CHECK(length < sizeof part);
    memcpy(part, start, length);
    part[length] = '\0';
    return part;
}

/* Whether one of the code addresses in the text is in the function. The child is a fork: its
 * code stands where ours does. */
static bool has_address_in(const char *text, uintptr_t function)
{
    for (const char *place = text; (place = strstr(place, "[0x")) != NULL; place++) {
        uintptr_t address = (uintptr_t)strtoull(place + 1, NULL, 16);
        if (address > function && address < function + FUNCTION_MOST)
            return true;
    }
    return false;
}

static double seconds_in(const char *part)
{
    const char *place = strstr(part, ", for ");
    CHECK(place != NULL);
    return strtod(place + 6, NULL);
}

static void two_fibers_and_each_others_channel(void)
{
    check_reported(each_others_channel, NULL);
    CHECK_SAID("(fibers: 2, threads: 1)");
    char *one = part_about("one");
    CHECK(strncmp(one, "\"one\" receives from a channel 0x", 32) == 0);
    double waited = seconds_in(one);
    CHECK(waited >= 0.2); /* the other one slept for 0.3 s, and the clock of this is coarse */
    char *calls = strstr(one, "weft:   and waits in\n");
    CHECK(calls != NULL && strstr(one, "weft:   spawned at ") != NULL);
    CHECK(strstr(one, "weft:   spawned at ") < calls);
    CHECK(has_address_in(calls, (uintptr_t)receive_ping));
    CHECK(!has_address_in(calls, (uintptr_t)receive_pong_late) ||
          (uintptr_t)receive_pong_late < (uintptr_t)receive_ping + FUNCTION_MOST);
    *calls = '\0';
    CHECK(has_address_in(one, (uintptr_t)spawn_one) || has_address_in(one, (uintptr_t)spawn));

    char *other = part_about("the other");
    CHECK(strncmp(other, "\"the other\" receives from a channel 0x", 38) == 0);
    CHECK(seconds_in(other) < waited);
    CHECK(has_address_in(other, (uintptr_t)receive_pong_late));
    CHECK_SAID("weft: a thread joins a fiber, for ");
}

/* Every kind of wait has its words. */

static struct {
    weft_chan *chan;
    weft_mutex mutex, cond_mutex;
    weft_rwmutex read, write;
    weft_cond cond;
    weft_sem sem;
    weft_barrier barrier;
    weft_once once;
    atomic_u32 once_begun;
    weft_fiber *held;
    weft_context *context;
} objects;

static volatile int returned; /* what comes after the call, so that it is no jump */

static void wait_sleep(void *arg)
{
    (void)weft_sleep_until(WEFT_NEVER);
    returned++;
    (void)arg;
}

static void wait_send(void *arg)
{
    CHECK_EQ(weft_chan_send(objects.chan, NULL), 0);
    (void)arg;
}

static void wait_select(void *arg)
{
    weft_case one = {.chan = objects.chan, .op = WEFT_SEND};
    CHECK_EQ(weft_select(&one, 1), 0);
    (void)arg;
}

static void wait_mutex(void *arg)
{
    weft_mutex_lock(&objects.mutex);
    returned++;
    (void)arg;
}

static void wait_read(void *arg)
{
    weft_rwmutex_read_lock(&objects.read);
    returned++;
    (void)arg;
}

static void wait_write(void *arg)
{
    weft_rwmutex_write_lock(&objects.write);
    returned++;
    (void)arg;
}

static void wait_cond(void *arg)
{
    weft_mutex_lock(&objects.cond_mutex);
    CHECK_EQ(weft_cond_wait(&objects.cond, &objects.cond_mutex), 0);
    (void)arg;
}

static void wait_sem(void *arg)
{
    weft_sem_acquire(&objects.sem, 1);
    returned++;
    (void)arg;
}

static void wait_barrier(void *arg)
{
    CHECK(weft_barrier_wait(&objects.barrier) >= 0);
    (void)arg;
}

static void begin_once(void *arg)
{
    atomic_u32_store_release(&objects.once_begun, 1);
    wait_for_ever(arg);
}

static void wait_once(void *arg)
{
    weft_once_do(&objects.once, begin_once, NULL);
    returned++;
    (void)arg;
}

static void wait_join(void *arg)
{
    CHECK_EQ(weft_join(objects.held), 0);
    (void)arg;
}

static void wait_bound(void *arg)
{
    CHECK_EQ(weft_context_bind(objects.context, NULL), 0);
    CHECK_EQ(weft_wg_wait(&never_done), 0);
    (void)arg;
}

static const struct {
    const char *name;
    void (*function)(void *);
    const char *text;
} kinds[] = {
    {"group", wait_for_ever, "waits for a wait group 0x"},
    {"sleep", wait_sleep, "sleeps, for"},
    {"send", wait_send, "sends to a channel 0x"},
    {"select", wait_select, "selects, for"},
    {"mutex", wait_mutex, "locks a mutex 0x"},
    {"read", wait_read, "locks a read-write mutex for reading 0x"},
    {"write", wait_write, "locks a read-write mutex for writing 0x"},
    {"cond", wait_cond, "waits for a condition 0x"},
    {"sem", wait_sem, "acquires a semaphore 0x"},
    {"barrier", wait_barrier, "waits at a barrier 0x"},
    {"once", wait_once, "waits for a once 0x"},
    {"join", wait_join, "joins a fiber, for"},
    {"bound", wait_bound, "waits for a wait group 0x"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void all_kinds(void *arg)
{
    init_never_done();
    objects.chan = make_chan(0);
    weft_mutex_lock(&objects.mutex);
    weft_rwmutex_write_lock(&objects.read);
    weft_rwmutex_write_lock(&objects.write);
    CHECK_EQ(weft_barrier_init(&objects.barrier, 2), 0);
    CHECK_EQ(weft_context_open(&objects.context, NULL, NULL), 0);
    objects.held = spawn(wait_for_ever, NULL, "held");
    (void)spawn(wait_once, NULL, "the first of the once");
    await(&objects.once_begun, 1);
    weft_fiber *last = NULL;
    for (int i = 0; i < KINDS; i++)
        last = spawn(kinds[i].function, NULL, kinds[i].name);
    CHECK_EQ(weft_join(last), 0);
    (void)arg;
}

static void what_they_wait_for(void)
{
    check_reported(all_kinds, NULL);
    CHECK_SAID("threads: 1)");
    for (int i = 0; i < KINDS; i++) {
        const char *part = part_about(kinds[i].name);
        if (strstr(part, kinds[i].text) == NULL)
            test_fail(__FILE__, __LINE__, "no \"%s\" about \"%s\"", kinds[i].text, kinds[i].name);
        CHECK(has_address_in(part, (uintptr_t)kinds[i].function));
    }
}

/* Who is in the deadlock. */

static void mutex_twice(void *arg)
{
    weft_mutex_lock(&objects.mutex);
    weft_mutex_lock(&objects.mutex);
    (void)arg;
}

static void fiber_locks_twice(void *arg)
{
    (void)weft_join(spawn(mutex_twice, NULL, "twice"));
    (void)arg;
}

static void thread_locks_twice(void *arg)
{
    start_weft();
    mutex_twice(arg);
}

/* A debug build says so before it waits. */
static void a_mutex_locked_twice(void)
{
    void (*const cases[])(void *) = {fiber_locks_twice, thread_locks_twice};
    for (int i = 0; i < 2; i++) {
        int status = run_case(cases[i], NULL);
        CHECK(WIFSIGNALED(status));
        CHECK_EQ(WTERMSIG(status), SIGABRT);
        CHECK(said("locks a mutex 0x") || said("has it already"));
    }
}

static void main_waits_for_group(void *arg)
{
    init_never_done();
    start_weft();
    CHECK_EQ(weft_wg_wait(&never_done), 0);
    (void)arg;
}

static void main_shuts_down(void *arg)
{
    init_never_done();
    CHECK_EQ(weft_go(wait_for_ever, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    (void)arg;
}

static void after_a_shutdown(void *arg)
{
    start_weft();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    start_weft();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    main_waits_for_group(arg);
}

static void with_timers_that_rest(void *arg)
{
    weft_timer *timer;
    weft_ticker *ticker;
    int64_t time;
    CHECK_EQ(weft_timer_open(&timer, end_at_once, NULL), 0);
    CHECK_EQ(weft_timer_start(timer, weft_after(1000 * WEFT_S), 0), 0);
    CHECK_EQ(weft_timer_stop(timer), 1);
    CHECK_EQ(weft_ticker_open(&ticker, WEFT_NOW, 10 * WEFT_US), 0);
    CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), &time), 0);
    CHECK_EQ(weft_ticker_stop(ticker), 0);
    main_waits_for_group(arg);
}

static void *thread_waits(void *arg)
{
    if (arg != NULL)
        CHECK_EQ(weft_context_bind(arg, NULL), 0);
    CHECK_EQ(weft_wg_wait(&never_done), 0);
    return NULL;
}

static void several_threads(void *arg)
{
    pthread_t threads[3];
    init_never_done();
    CHECK_EQ(weft_context_open(&objects.context, NULL, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, thread_waits, i == 0 ? objects.context : NULL),
                 0);
    (void)spawn(wait_for_ever, NULL, "with them");
    CHECK_EQ(weft_wg_wait(&never_done), 0);
    (void)arg;
}

/* The last who could have woken somebody ends, and has not. */
static void *end_in_silence(void *known)
{
    if (known != NULL)
        start_weft();
    block_in_read();
    return NULL;
}

static void the_last_thread_ends(void *known)
{
    pthread_t thread;
    init_never_done();
    CHECK_EQ(pthread_create(&thread, NULL, end_in_silence, known), 0);
    CHECK_EQ(pthread_detach(thread), 0);
    (void)spawn(wait_for_ever, NULL, "left behind");
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

static void who_waits(void)
{
    check_reported(main_waits_for_group, NULL);
    CHECK_SAID("(fibers: 0, threads: 1)");
    CHECK_SAID("weft: a thread waits for a wait group 0x");
    check_reported(main_shuts_down, NULL);
    CHECK_SAID("(fibers: 1, threads: 1)");
    CHECK_SAID("weft: a thread is in weft_shutdown");
    check_reported(after_a_shutdown, NULL);
    check_reported(with_timers_that_rest, NULL);
    check_reported(several_threads, NULL);
    CHECK_SAID("(fibers: 1, threads: 4)");
    (void)part_about("with them");
    for (int known = 0; known < 2; known++) {
        check_reported(the_last_thread_ends, known ? &never_done : NULL);
        (void)part_about("left behind");
    }
}

enum { CROWD = 1500, SHOWN = 1000 };

static void crowd(void *arg)
{
    init_never_done();
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(weft_go(wait_for_ever, NULL), 0);
    CHECK_EQ(weft_wg_wait(&never_done), 0);
    (void)arg;
}

static void a_long_report_is_cut(void)
{
    int shown = 0;
    check_reported(crowd, NULL);
    CHECK_SAID("(fibers: 1500, threads: 1)");
    for (const char *place = output; (place = strstr(place, "weft: fiber ")) != NULL; place++)
        shown++;
    CHECK_EQ(shown, SHOWN);
    CHECK_SAID("weft: and 500 fibers more\n");
    CHECK_SAID("weft: a thread waits for a wait group"); /* not lost behind them */
}

/* Turned off. */

static void on_alarm(int number)
{
    (void)number;
    _exit(WAITED_ON);
}

static void exit_in(long microseconds)
{
    struct itimerval timer = {.it_value = {.tv_usec = microseconds}};
    CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void off_by_config(void *arg)
{
    exit_in(100 * 1000);
    CHECK_EQ(weft_configure(&(weft_config){.no_deadlock_check = 1}), 0);
    each_others_channel(arg);
}

static void off_by_environment(void *arg)
{
    exit_in(100 * 1000);
    setenv("WEFT_DEADLOCK_CHECK", "0", 1);
    main_waits_for_group(arg);
}

static void it_can_be_turned_off(void)
{
    void (*const cases[])(void *) = {off_by_config, off_by_environment};
    for (int i = 0; i < 2; i++) {
        int status = run_case(cases[i], NULL);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), WAITED_ON);
        CHECK(!said("deadlock"));
    }
}

/* Somebody is left: nothing may be reported. Each case lasts for a while in which all that is in
 * weft waits, and then goes on. */

static weft_wg gate;

static void wait_for_gate(void *arg)
{
    CHECK_EQ(weft_wg_wait(&gate), 0);
    (void)arg;
}

static void open_gate(void *arg)
{
    weft_wg_done(&gate);
    (void)arg;
}

static void *read_then_open(void *known)
{
    if (known != NULL)
        start_weft();
    block_in_read();
    weft_wg_done(&gate);
    return NULL;
}

static void join_gated(void)
{
    weft_fiber *one = spawn(wait_for_gate, NULL, "gated"), *two = spawn(wait_for_gate, NULL, "too");
    CHECK_EQ(weft_join(one), 0);
    CHECK_EQ(weft_join(two), 0);
}

static void thread_in_read(void *known)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, read_then_open, known), 0);
    join_gated();
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void known_thread_in_read(void *arg)
{
    (void)arg;
    thread_in_read(&gate);
}

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool go;
} plain = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static void *cond_then_open(void *arg)
{
    pthread_mutex_lock(&plain.mutex);
    while (!plain.go)
        pthread_cond_wait(&plain.cond, &plain.mutex);
    pthread_mutex_unlock(&plain.mutex);
    weft_wg_done(&gate);
    return arg;
}

static void *read_then_signal(void *arg)
{
    block_in_read();
    pthread_mutex_lock(&plain.mutex);
    plain.go = true;
    pthread_cond_signal(&plain.cond);
    pthread_mutex_unlock(&plain.mutex);
    return arg;
}

static void thread_in_cond_wait(void *arg)
{
    pthread_t threads[2];
    CHECK_EQ(pthread_create(&threads[0], NULL, cond_then_open, NULL), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, read_then_signal, NULL), 0);
    join_gated();
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    (void)arg;
}

static void main_outside(void *arg)
{
    weft_fiber *one = spawn(wait_for_gate, NULL, "gated");
    block_in_read();
    weft_wg_done(&gate);
    CHECK_EQ(weft_join(one), 0);
    block_in_read();
    (void)arg;
}

static void armed_timer(void *arg)
{
    weft_timer *timer;
    CHECK_EQ(weft_timer_open(&timer, open_gate, NULL), 0);
    CHECK_EQ(weft_timer_start(timer, weft_after(WHILE_MS * WEFT_MS), 0), 0);
    join_gated();
    CHECK_EQ(weft_timer_close(timer), 0);
    (void)arg;
}

static void running_ticker(void *arg)
{
    weft_ticker *ticker;
    int64_t time;
    CHECK_EQ(weft_ticker_open(&ticker, weft_after(WHILE_MS / 3 * WEFT_MS), WHILE_MS / 3 * WEFT_MS),
             0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), &time), 0);
    CHECK_EQ(weft_ticker_close(ticker), 0);
    (void)arg;
}

static void context_with_deadline(void *arg)
{
    weft_context_options options = {.deadline = weft_after(WHILE_MS * WEFT_MS)};
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, NULL, &options), 0);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    CHECK_EQ(weft_wg_wait(&gate), -ETIMEDOUT);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    (void)arg;
}

static void sleep_then_open(void *arg)
{
    CHECK_EQ(weft_sleep(WHILE_MS * WEFT_MS), 0);
    weft_wg_done(&gate);
    (void)arg;
}

static void sleeping_fiber(void *arg)
{
    CHECK_EQ(weft_go(sleep_then_open, NULL), 0);
    join_gated();
    (void)arg;
}

static void run_then_open(void *arg)
{
    int64_t end = weft_after(WHILE_MS * WEFT_MS);
    while (weft_now() < end)
        continue;
    weft_wg_done(&gate);
    (void)arg;
}

static void running_fiber(void *arg)
{
    CHECK_EQ(weft_go(run_then_open, NULL), 0);
    join_gated();
    (void)arg;
}

static void read_in_fiber(void *arg)
{
    block_in_read();
    weft_wg_done(&gate);
    (void)arg;
}

static void fiber_that_blocks(void *arg)
{
    CHECK_EQ(weft_go(read_in_fiber, NULL), 0);
    join_gated();
    (void)arg;
}

static void fiber_with_deadline(void *arg)
{
    CHECK_EQ(weft_wg_wait_until(&gate, weft_after(WHILE_MS * WEFT_MS)), -ETIMEDOUT);
    weft_wg_done(&gate);
    (void)arg;
}

static void deadline_of_a_fiber(void *arg)
{
    CHECK_EQ(weft_go(fiber_with_deadline, NULL), 0);
    join_gated();
    (void)arg;
}

static void *thread_with_deadline(void *arg)
{
    CHECK_EQ(weft_wg_wait_until(&gate, weft_after(WHILE_MS * WEFT_MS)), -ETIMEDOUT);
    weft_wg_done(&gate);
    return arg;
}

static void *thread_that_sleeps(void *arg)
{
    CHECK_EQ(weft_sleep(WHILE_MS * WEFT_MS), 0);
    weft_wg_done(&gate);
    return arg;
}

static void run_beside(void *(*function)(void *))
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, function, NULL), 0);
    join_gated();
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void deadline_of_a_thread(void *arg)
{
    run_beside(thread_with_deadline);
    (void)arg;
}

static void sleep_of_a_thread(void *arg)
{
    run_beside(thread_that_sleeps);
    (void)arg;
}

static void shutdown_with_a_deadline(void *arg)
{
    weft_fiber *fiber = spawn(wait_for_gate, NULL, "gated");
    CHECK_EQ(weft_shutdown(weft_after(WHILE_MS * WEFT_MS)), -ETIMEDOUT);
    weft_wg_done(&gate);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    (void)arg;
}

static void shutdown_with_a_sleeper(void *arg)
{
    (void)spawn(wait_for_gate, NULL, "gated");
    CHECK_EQ(weft_go(sleep_then_open, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    (void)arg;
}

static void begin_with_a_gate(void *function)
{
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    ((void (*)(void *))(uintptr_t)function)(NULL);
}

static void somebody_is_left(void)
{
    static void (*const cases[])(void *) = {
        thread_in_read,    known_thread_in_read,     thread_in_cond_wait,    main_outside,
        armed_timer,       running_ticker,           context_with_deadline,  sleeping_fiber,
        running_fiber,     fiber_that_blocks,        deadline_of_a_fiber,    deadline_of_a_thread,
        sleep_of_a_thread, shutdown_with_a_deadline, shutdown_with_a_sleeper};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_lives(begin_with_a_gate, (void *)(uintptr_t)cases[i]);
}

/* At the last moment: parties that hand one token on, each waiting in weft while it does not
 * have it, so that over and over all wait but for the one that is just being woken. At the end
 * the token is dropped: then, and only then, it is a deadlock. */

enum { PARTIES = 4 };

struct relay {
    uint32_t processors;
    bool thread[PARTIES]; /* else a fiber; main is always the first, and a thread
                         */
    int64_t rounds;
    bool drop; /* at the end, instead of ending in peace */
    bool bound;
};

static struct {
    struct relay plan;
    weft_chan *chans[PARTIES];
    weft_context *context;
} relay;

static void run_party(void *arg)
{
    uintptr_t own = (uintptr_t)arg, next = (own + 1) % PARTIES;
    struct prng prng;
    int64_t token = 0;
    prng_seed(&prng, own + (uint64_t)weft_now());
    if (relay.plan.bound)
        CHECK_EQ(weft_context_bind(relay.context, NULL), 0);
    while (weft_chan_receive(relay.chans[own], &token) == 0) {
        if (own == 0)
            token--;
        if (token <= 0 && relay.plan.drop) {
            CHECK_EQ(weft_chan_receive(relay.chans[own], &token), 0);
            break;
        }
        uint32_t way = prng_below(&prng, 16);
        if (way == 0)
            CHECK_EQ(weft_sleep(1 + prng_below(&prng, 3000)), 0);
        else if (way == 1)
            weft_yield();
        int result = weft_chan_send(relay.chans[next], &token);
        if (token <= 0) {
            CHECK(result == 0 || result == -ESHUTDOWN);
            CHECK_EQ(weft_chan_close(relay.chans[next]), 0);
            break;
        }
        CHECK_EQ(result, 0);
    }
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void begin_relay(void *plan)
{
    relay.plan = *(struct relay *)plan;
    CHECK_EQ(weft_configure(&(weft_config){.processors = (int)relay.plan.processors}), 0);
    CHECK_EQ(weft_context_open(&relay.context, NULL, NULL), 0);
    start_weft();
    struct body bodies[PARTIES];
    for (int i = 0; i < PARTIES; i++)
        CHECK_EQ(weft_chan_make(&relay.chans[i], sizeof(int64_t), 1), 0);
    for (uintptr_t i = 1; i < PARTIES; i++) {
        bodies[i] =
            (struct body){.function = run_party, .arg = (void *)i, .thread = relay.plan.thread[i]};
        body_start(&bodies[i]);
    }
    CHECK_EQ(weft_chan_send(relay.chans[0], &relay.plan.rounds), 0);
    run_party((void *)0);
    for (int i = 1; i < PARTIES; i++)
        body_join(&bodies[i]);
    weft_context_close(relay.context);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void relays(bool drop, int64_t rounds)
{
    for (uint32_t mix = 0; mix < 8; mix++) {
        struct relay plan = {.processors = 1 + mix % 3, .rounds = rounds, .drop = drop};
        for (uint32_t i = 1; i < PARTIES; i++)
            plan.thread[i] = mix >> (i - 1) & 1;
        plan.bound = mix % 3 == 1;
        if (drop)
            check_reported(begin_relay, &plan);
        else
            check_lives(begin_relay, &plan);
    }
}

static void at_the_last_moment(void)
{
    relays(false, test_scale(1500));
}

static void a_deadlock_is_not_missed(void)
{
    for (int64_t i = test_scale(5); i > 0; i--)
        relays(true, 5 * i);
}

/* Threads that are born and die meanwhile. */

static void *open_and_end(void *arg)
{
    weft_wg_done(arg);
    return NULL;
}

static void waits_for_newborn(void *arg)
{
    start_weft();
    for (int64_t round = test_scale(1000); round > 0; round--) {
        weft_wg wg;
        pthread_t thread;
        CHECK_EQ(weft_wg_init(&wg, 1), 0);
        CHECK_EQ(pthread_create(&thread, NULL, open_and_end, &wg), 0);
        CHECK_EQ(weft_wg_wait(&wg), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    (void)arg;
}

/* Shut down while fibers wake each other, or the last one ends. */

static void pass_on(void *arg)
{
    int64_t count;
    while (weft_chan_receive(ping, &count) == 0 && count > 0) {
        count--;
        CHECK_EQ(weft_chan_send(ping, &count), 0);
    }
    (void)weft_chan_close(ping); /* one of them is the first */
    (void)arg;
}

static void shuts_down_while_they_end(void *arg)
{
    for (int64_t round = test_scale(100); round > 0; round--) {
        int64_t count = round % 20;
        CHECK_EQ(weft_chan_make(&ping, sizeof count, 1), 0);
        CHECK_EQ(weft_chan_send(ping, &count), 0);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(weft_go(pass_on, NULL), 0);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        weft_chan_destroy(ping);
    }
    (void)arg;
}

static void births_and_ends(void)
{
    check_lives(waits_for_newborn, NULL);
    check_lives(shuts_down_while_they_end, NULL);
}

int main(void)
{
    RUN(somebody_is_left);
    RUN(at_the_last_moment);
    RUN(births_and_ends);
    RUN(it_can_be_turned_off);
    if (WEFT_TSAN || test_emulated()) {
        printf("skipped: the reports, since there are threads that weft does not know of\n");
        return 0;
    }
    RUN(two_fibers_and_each_others_channel);
    RUN(what_they_wait_for);
    RUN(a_mutex_locked_twice);
    RUN(who_waits);
    RUN(a_long_report_is_cut);
    RUN(a_deadlock_is_not_missed);
    return 0;
}
