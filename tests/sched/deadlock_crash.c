/*
 * deadlock_crash.c: when no party is left that can wake another, a report names what each fiber and
 * thread waits for, and the process aborts; unless the check is turned off.
 */
#include <sys/time.h>

#include "base/compiler.h"
#include "bodies.h"
#include "deadlock.h"

/* The size of a function, which is larger under AddressSanitizer. */
enum { FUNCTION_MOST = WEFT_ASAN ? 2048 : 256, WAITED_ON = 42 };

static weft_wg never_done = {.word = 0};

static void init_never_done(void)
{
    CHECK_EQ(weft_wg_init(&never_done, 1), 0);
}

static void wait_for_ever(void *arg)
{
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

/* The report about two fibers that wait for each other. */

static weft_chan *ping, *pong;

static noinline void receive_ping(void *arg)
{
    CHECK_EQ(weft_chan_receive(ping, NULL), 0);
    CHECK_EQ(weft_chan_send(pong, NULL), 0);
}

static noinline void receive_pong_late(void *arg)
{
    CHECK_EQ(weft_sleep(300 * WEFT_MS), 0);
    CHECK_EQ(weft_chan_receive(pong, NULL), 0);
    CHECK_EQ(weft_chan_send(ping, NULL), 0);
}

static noinline weft_fiber *spawn_one(void (*function)(void *), const char *name)
{
    return spawn_named(function, NULL, name);
}

static void each_others_channel(void *arg)
{
    ping = make_chan(0, 0);
    pong = make_chan(0, 0);
    weft_fiber *one = spawn_one(receive_ping, "one");
    weft_fiber *other = spawn_one(receive_pong_late, "the other");
    CHECK_EQ(weft_join(one), 0);
    CHECK_EQ(weft_join(other), 0);
}

/* The part of the report about one fiber, up to the next "weft: fiber" or "weft: a". */
static char *part_about(const char *name)
{
    static char part[8192];
    char mark[64];
    snprintf(mark, sizeof mark, "\"%s\" ", name);
    const char *start = strstr(output, mark);
    if (start == NULL)
        test_fail(__FILE__, __LINE__, "nothing about \"%s\" in the report", name);
    const char *ends[] = {strstr(start, "weft: fiber"), strstr(start, "weft: a")};
    const char *end = output + strlen(output);
    for (int i = 0; i < 2; i++)
        if (ends[i] != NULL && ends[i] < end)
            end = ends[i];
    size_t length = (size_t)(end - start);
    CHECK(length < sizeof part);
    memcpy(part, start, length);
    part[length] = '\0';
    return part;
}

/* Whether the text has a code address in the function. The child is a fork: its code has the same
 * addresses. */
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
    CHECK(waited >= 0.2); /* the other fiber slept for 0.3 s; the report uses a coarse clock */
    char *calls = strstr(one, "weft:   and waits in\n");
    CHECK(calls != NULL && strstr(one, "weft:   spawned at ") != NULL);
    CHECK(strstr(one, "weft:   spawned at ") < calls);
    CHECK(has_address_in(calls, (uintptr_t)receive_ping));
    CHECK(!has_address_in(calls, (uintptr_t)receive_pong_late) ||
          (uintptr_t)receive_pong_late < (uintptr_t)receive_ping + FUNCTION_MOST);
    *calls = '\0';
    CHECK(has_address_in(one, (uintptr_t)spawn_one) || has_address_in(one, (uintptr_t)spawn_named));

    char *other = part_about("the other");
    CHECK(strncmp(other, "\"the other\" receives from a channel 0x", 38) == 0);
    CHECK(seconds_in(other) < waited);
    CHECK(has_address_in(other, (uintptr_t)receive_pong_late));
    CHECK_SAID("weft: a thread joins a fiber, for ");
}

/* When the last fiber begins to wait, the machine that watches the clock has maintenance to do: the
 * check for a deadlock is made all the same. */

static void sleep_and_wait(void *arg)
{
    CHECK_EQ(weft_sleep(50 * WEFT_MS), 0);
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

static void soon_after_another_has_ended(void *arg)
{
    init_never_done();
    configure(2);
    weft_fiber *fiber = spawn_named(sleep_and_wait, NULL, "waits");
    for (int i = 0; i < 100; i++)
        CHECK_EQ(weft_join(spawn_named(nothing, NULL, "ends")), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void beside_maintenance(void)
{
    check_reported(soon_after_another_has_ended, NULL);
    CHECK_SAID("\"waits\" waits for a wait group");
}

/* Every kind of wait has a text. */

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

static volatile int returned; /* changed after a call, so that it is no jump */

static void wait_sleep(void *arg)
{
    (void)weft_sleep_until(WEFT_NEVER);
    returned++;
}

static void wait_send(void *arg)
{
    CHECK_EQ(weft_chan_send(objects.chan, NULL), 0);
}

static void wait_select(void *arg)
{
    weft_case one = {.chan = objects.chan, .op = WEFT_SEND};
    CHECK_EQ(weft_select(&one, 1), 0);
}

static void wait_mutex(void *arg)
{
    weft_mutex_lock(&objects.mutex);
    returned++;
}

static void wait_read(void *arg)
{
    weft_rwmutex_read_lock(&objects.read);
    returned++;
}

static void wait_write(void *arg)
{
    weft_rwmutex_write_lock(&objects.write);
    returned++;
}

static void wait_cond(void *arg)
{
    weft_mutex_lock(&objects.cond_mutex);
    CHECK_EQ(weft_cond_wait(&objects.cond, &objects.cond_mutex), 0);
}

static void wait_sem(void *arg)
{
    weft_sem_acquire(&objects.sem, 1);
    returned++;
}

static void wait_barrier(void *arg)
{
    CHECK(weft_barrier_wait(&objects.barrier) >= 0);
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
}

static void wait_join(void *arg)
{
    CHECK_EQ(weft_join(objects.held), 0);
}

static void wait_bound(void *arg)
{
    CHECK_EQ(weft_context_bind(objects.context, NULL), 0);
    CHECK_EQ(weft_wg_wait(&never_done), 0);
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
    objects.chan = make_chan(0, 0);
    weft_mutex_lock(&objects.mutex);
    weft_rwmutex_write_lock(&objects.read);
    weft_rwmutex_write_lock(&objects.write);
    CHECK_EQ(weft_barrier_init(&objects.barrier, 2), 0);
    CHECK_EQ(weft_context_open(&objects.context, NULL, NULL), 0);
    objects.held = spawn_named(wait_for_ever, NULL, "held");
    (void)spawn_named(wait_once, NULL, "the first of the once");
    await(&objects.once_begun, 1);
    weft_fiber *last = NULL;
    for (int i = 0; i < KINDS; i++)
        last = spawn_named(kinds[i].function, NULL, kinds[i].name);
    CHECK_EQ(weft_join(last), 0);
}

static void each_wait_is_named(void)
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

/* The parties of a deadlock. */

static void mutex_twice(void *arg)
{
    weft_mutex_lock(&objects.mutex);
    weft_mutex_lock(&objects.mutex);
}

static void fiber_locks_twice(void *arg)
{
    CHECK_EQ(weft_join(spawn_named(mutex_twice, NULL, "twice")), 0); /* not reached */
}

static void thread_locks_twice(void *arg)
{
    start_weft();
    mutex_twice(arg);
}

/* A debug build reports the second lock before it waits. */
static void a_mutex_locked_twice(void)
{
    void (*const cases[])(void *) = {fiber_locks_twice, thread_locks_twice};
    for (int i = 0; i < 2; i++) {
        int status = run_case(cases[i], NULL);
        test_killed(status, SIGABRT);
        CHECK(said("locks a mutex 0x") || said("has it already"));
    }
}

static void main_waits_for_group(void *arg)
{
    init_never_done();
    start_weft();
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

static void main_shuts_down(void *arg)
{
    init_never_done();
    CHECK_EQ(weft_go(wait_for_ever, NULL), 0);
    shut_down();
}

static void after_a_shutdown(void *arg)
{
    start_weft();
    shut_down();
    start_weft();
    shut_down();
    main_waits_for_group(arg);
}

static void with_stopped_timers(void *arg)
{
    weft_ticker *ticker;
    int64_t time;
    weft_timer *timer = open_timer(nothing, NULL);
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
    (void)spawn_named(wait_for_ever, NULL, "with them");
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

/* The last party that could wake another ends without doing so. */
static void *end_in_silence(void *known)
{
    if (known != NULL)
        start_weft();
    block_in_read();
    return NULL;
}

static void the_last_thread_ends(void *known)
{
    init_never_done();
    pthread_t thread = thread_start(end_in_silence, known);
    CHECK_EQ(pthread_detach(thread), 0);
    (void)spawn_named(wait_for_ever, NULL, "left behind");
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

static void parties_are_counted(void)
{
    check_reported(main_waits_for_group, NULL);
    CHECK_SAID("(fibers: 0, threads: 1)");
    CHECK_SAID("weft: a thread waits for a wait group 0x");
    check_reported(main_shuts_down, NULL);
    CHECK_SAID("(fibers: 1, threads: 1)");
    CHECK_SAID("weft: a thread is in weft_shutdown");
    check_reported(after_a_shutdown, NULL);
    check_reported(with_stopped_timers, NULL);
    check_reported(several_threads, NULL);
    CHECK_SAID("(fibers: 1, threads: 4)");
    (void)part_about("with them");
    for (int known = 0; known < 2; known++) {
        check_reported(the_last_thread_ends, known ? &never_done : NULL);
        (void)part_about("left behind");
    }
}

enum { EQUAL = 1000, NAMES = 300, SHOWN = 256, LINES_MOST = 60 };

static int count_of(const char *text)
{
    int count = 0;
    for (const char *place = output; (place = strstr(place, text)) != NULL; place++)
        count++;
    return count;
}

static void equal_fibers(void *arg)
{
    init_never_done();
    go_many(EQUAL, wait_for_ever, NULL);
    (void)spawn_named(wait_for_ever, NULL, "another name");
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

static void senders(void *arg)
{
    init_never_done();
    go_many(EQUAL, wait_for_ever, NULL);
    objects.chan = make_chan(0, 0);
    go_many(EQUAL, wait_send, NULL);
    main_waits_for_group(arg);
}

static noinline void wait_elsewhere(void *arg)
{
    wait_for_ever(arg);
    returned++;
}

static void wait_in_two_places(void *arg)
{
    if (arg == NULL)
        wait_for_ever(arg);
    else
        wait_elsewhere(NULL);
    returned++;
}

static void two_places(void *arg)
{
    init_never_done();
    for (int i = 0; i < EQUAL; i++)
        CHECK_EQ(weft_go(wait_in_two_places, i % 2 == 0 ? NULL : arg), 0);
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

static void receive_own(void *arg)
{
    CHECK_EQ(weft_chan_receive(arg, NULL), 0);
}

static void own_channels(void *arg)
{
    init_never_done();
    for (int i = 0; i < EQUAL; i++)
        CHECK_EQ(weft_go(receive_own, make_chan(0, 0)), 0);
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

static void equal_fibers_are_shown_once(void)
{
    check_reported(equal_fibers, NULL);
    CHECK_SAID("(fibers: 1001, threads: 1)");
    CHECK_EQ(count_of("weft: fiber "), 2);
    CHECK_EQ(count_of("weft:   and 999 more do the same, the last of them fiber "), 1);
    CHECK(has_address_in(part_about("another name"), (uintptr_t)wait_for_ever));
    CHECK(count_of("\n") < LINES_MOST);
    CHECK_SAID("weft: a thread waits for a wait group"); /* not cut off behind the fibers */

    check_reported(senders, NULL); /* another wait, from the same line */
    CHECK_EQ(count_of("weft: fiber "), 2);
    CHECK_EQ(count_of("weft:   and 999 more do the same, the last of them fiber "), 2);

    check_reported(two_places, &never_done); /* the same wait, from two lines */
    CHECK_EQ(count_of("weft: fiber "), 2);
    CHECK_EQ(count_of("weft:   and 499 more do the same, the last of them fiber "), 2);

    check_reported(own_channels, NULL);
    CHECK_EQ(count_of("weft: fiber "), 1);
    CHECK_EQ(count_of("weft:   and 999 more do the same, not all on one object, "), 1);
}

static void many_names(void *arg)
{
    init_never_done();
    for (int i = 0; i < NAMES; i++) {
        char name[16];
        snprintf(name, sizeof name, "number %d", i);
        (void)spawn_named(wait_for_ever, NULL, name);
    }
    CHECK_EQ(weft_wg_wait(&never_done), 0);
}

static void a_long_report_is_cut(void)
{
    check_reported(many_names, NULL);
    CHECK_SAID("(fibers: 300, threads: 1)");
    CHECK_EQ(count_of("weft: fiber "), SHOWN);
    CHECK_SAID("weft: and 44 fibers more\n");
    CHECK_SAID("weft: a thread waits for a wait group"); /* not cut off behind the fibers */
}

static void on_alarm(int number)
{
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
        test_exited(status, WAITED_ON);
        CHECK(!said("deadlock"));
    }
}

int main(void)
{
    RUN(it_can_be_turned_off);
    if (!reports_come())
        return 0;
    RUN_ALL(two_fibers_and_each_others_channel, beside_maintenance, each_wait_is_named,
            a_mutex_locked_twice, parties_are_counted, equal_fibers_are_shown_once,
            a_long_report_is_cut);
    return 0;
}
