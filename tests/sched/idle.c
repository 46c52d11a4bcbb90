/*
 * idle.c: an idle process uses no CPU, gives the memory of deep stacks back, and wakes up for each
 * event.
 */
#include "base/compiler.h"
#include "fibers.h"
#include "os/os.h"
#include "stack/stack.h"

static int64_t cpu_time(void)
{
    struct rusage usage;
    CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * WEFT_S +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * WEFT_US;
}

/* Lets the process idle, in which it may use 2 % of a CPU: the sleep is the thing measured. */
static void check_idle(const char *what, int milliseconds)
{
    struct timespec length = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    int64_t before = cpu_time();
    CHECK_EQ(nanosleep(&length, NULL), 0);
    int64_t used = cpu_time() - before;
    printf("    %s: %lld us of CPU in %d ms\n", what, (long long)(used / WEFT_US), milliseconds);
    CHECK(used < milliseconds * WEFT_MS / 50);
}

static struct {
    atomic_u32 fires, rounds;
} waking;

static void count_fire(void *arg)
{
    atomic_u32_add_seq_cst(&waking.fires, 1);
}

/* A thread starts the timer when all machines sleep without a deadline. */
static void fires_out_of_deep_sleep(weft_timer *timer)
{
    uint32_t before = atomic_u32_load_acquire(&waking.fires);
    CHECK_EQ(weft_timer_start(timer, weft_after(2 * WEFT_MS), 0), 0);
    while (atomic_u32_load_acquire(&waking.fires) == before)
        nanosleep(&(struct timespec){0, 100 * 1000}, NULL);
}

static void a_parked_fiber_costs_nothing(void)
{
    weft_wg gate = WEFT_WG_INIT;
    configure(4);
    CHECK_EQ(weft_wg_add(&gate, 1), 0);
    weft_fiber *fiber = spawn(wait_for_group, &gate);
    weft_timer *timer = open_timer(count_fire, NULL);
    CHECK_EQ(weft_timer_start(timer, weft_after(3600 * WEFT_S), 0), 0); /* far away */
    check_idle("one fiber parked, one timer far away", 1000);
    CHECK_EQ(weft_timer_stop(timer), 1);
    weft_wg_done(&gate);
    CHECK_EQ(weft_join(fiber), 0);
    check_idle("no fiber", 500);
    fires_out_of_deep_sleep(timer);
    CHECK_EQ(weft_timer_close(timer), 0);
}

static void tick(void *arg)
{
    for (int64_t ticks = *(int64_t *)arg; ticks > 0; ticks--)
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
}

/* The last deadline there is. A dozing machine takes charge of it when it has run a fiber. */
static void a_deadline_that_never_comes(void)
{
    weft_timer *last = open_timer(count_fire, NULL), *timer = open_timer(count_fire, NULL);
    int64_t ticks = 20; /* until the watcher has looked again */
    CHECK_EQ(weft_timer_start(last, WEFT_NEVER - 1, 0), 0);
    run_fiber(tick, &ticks);
    check_idle("a timer that never fires", 500);
    fires_out_of_deep_sleep(timer);
    CHECK_EQ(weft_timer_close(timer), 0);
    CHECK_EQ(weft_timer_close(last), 0);
}

/* A lone sleeper. */

/* A thread that goes to sleep has been woken before. A watcher that looks every 10 ms adds a tenth
 * of a wake-up, and the ends of the run a few. */
static void a_sleep_wakes_one_thread(void)
{
    struct rusage before, after;
    int64_t ticks = test_scale(500);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 4}), 0);
    CHECK_EQ(getrusage(RUSAGE_SELF, &before), 0);
    run_fiber(tick, &ticks);
    CHECK_EQ(getrusage(RUSAGE_SELF, &after), 0);
    int64_t sleeps = after.ru_nvcsw - before.ru_nvcsw;
    printf("    %lld sleeps of threads for %lld of a fiber\n", (long long)sleeps, (long long)ticks);
    CHECK(sleeps < ticks * 2 + 100);
    shut_down();
}

/* Deep stacks. */

static int64_t resident(void)
{
    char text[256];
    CHECK(weft__os_read_file("/proc/self/statm", text, sizeof text) > 0);
    const char *second = strchr(text, ' ');
    CHECK(second != NULL);
    return strtoll(second, NULL, 10) * sysconf(_SC_PAGESIZE);
}

static struct {
    weft_wg deep, gate;
} burst;

static noinline void go_deep(int levels)
{
    char page[4096];
    __asm__ volatile("" ::"r"(page) : "memory"); /* the compiler keeps its size */
    page[0] = (char)levels;
    if (levels > 1)
        go_deep(levels - 1);
    else {
        weft_wg_done(&burst.deep);
        CHECK_EQ(weft_wg_wait(&burst.gate), 0);
    }
    CHECK_EQ(page[0], (char)levels);
}

static void be_deep(void *arg)
{
    go_deep(7);
}

static void deep_stacks_are_given_back(void)
{
    int64_t fibers = WEFT_TSAN ? 500 : test_scale(10000);
    int64_t before = resident();
    CHECK_EQ(weft_wg_init(&burst.deep, fibers), 0);
    CHECK_EQ(weft_wg_init(&burst.gate, 1), 0);
    go_many(fibers, be_deep, NULL);
    CHECK_EQ(weft_wg_wait(&burst.deep), 0);
    int64_t stacks = fibers * 7 * 4096, most = resident();
    if (!WEFT_ASAN && !WEFT_TSAN)
        CHECK(most - before >= stacks * 9 / 10); /* the kernel counts roughly */
    weft_wg_done(&burst.gate);

    /* The event: the stacks are cold. No call of weft is needed for it. */
    while (weft__stack_figures().cold < (uint64_t)fibers)
        nanosleep(&(struct timespec){0, 5 * 1000 * 1000}, NULL);
    if (!WEFT_ASAN && !WEFT_TSAN) { /* their shadow memory stays */
        while (resident() > most - stacks * 9 / 10)
            nanosleep(&(struct timespec){0, 5 * 1000 * 1000}, NULL);
        printf("    resident: %lld KB before, %lld KB deep, %lld KB after\n",
               (long long)before / 1024, (long long)most / 1024, (long long)resident() / 1024);
    }
    check_idle("after a burst", 500);
}

static void sleep_once(void *arg)
{
    CHECK_EQ(weft_sleep(3 * WEFT_MS), 0);
    atomic_u32_add_seq_cst(&waking.rounds, 1);
}

/* Most likely all machines sleep after this. A wake-up that is lost shows as the time limit of the
 * test. */
static void idle_for_a_while(void)
{
    nanosleep(&(struct timespec){0, 2 * 1000 * 1000}, NULL);
}

static void wakes_from_idle(void)
{
    weft_fiber *fiber;
    uint32_t rounds = (uint32_t)test_scale(30);
    weft_timer *timer = open_timer(count_fire, NULL);
    for (uint32_t round = 1; round <= rounds; round++) {
        weft_wg gate = WEFT_WG_INIT;
        idle_for_a_while(); /* by a thread that spawns */
        CHECK_EQ(weft_wg_add(&gate, 1), 0);
        fiber = spawn(wait_for_group, &gate);
        idle_for_a_while(); /* by a thread that wakes a parked fiber */
        weft_wg_done(&gate);
        CHECK_EQ(weft_join(fiber), 0);
        fiber = spawn(sleep_once, NULL); /* by a sleep of a fiber */
        CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&waking.rounds), round);
        idle_for_a_while(); /* by a timer that a thread starts */
        CHECK_EQ(weft_timer_start(timer, weft_after(2 * WEFT_MS), 0), 0);
        while (atomic_u32_load_acquire(&waking.fires) < round)
            nanosleep(&(struct timespec){0, 100 * 1000}, NULL);
    }
    CHECK_EQ(weft_timer_close(timer), 0);
    shut_down();
}

int main(void)
{
    RUN_ALL_PLAIN("about real time", wakes_from_idle, a_sleep_wakes_one_thread,
                  a_parked_fiber_costs_nothing, a_deadline_that_never_comes,
                  deep_stacks_are_given_back);
    shut_down();
    return 0;
}
