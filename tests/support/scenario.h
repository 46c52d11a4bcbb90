/*
 * scenario.h: what a program does with weft, run with each call of the system failing in turn.
 *
 *     static void use_chan(void)
 *     {
 *         weft_chan *chan = POISON;
 *         int number = 1;
 *         if (OPENED(weft_chan_make(&chan, sizeof number, 1), chan, -ENOMEM)) {
 *             CHECK_EQ(weft_chan_send(chan, &number), 0);          never fails for lack of anything
 *             weft_chan_destroy(chan);
 *         }
 *     }
 *
 *     static const struct scenario all[] = {{"chan", use_chan}};
 *     ...
 *     scenarios_run(all, 1);
 *
 * A scenario opens, uses and closes. For each call it lists the errors by which it MAY fail: those
 * that its header names. It runs in three places: on a thread with the runtime not started, on a
 * thread new to weft with the runtime running, and in a fiber; there with the first, second, ...
 * call of each kind failing, once and from then on, until it makes no more calls of that kind. If
 * it waits for something that cannot happen while calls fail (a stack for a fiber), the failing
 * ends after a moment.
 *
 * After each run nothing is left in the runtime (it shuts down), all memory, mappings, descriptors
 * and threads are given back, and weft works. The run in which nothing failed must not have seen an
 * error.
 */
#ifndef WEFT_TEST_SCENARIO_H
#define WEFT_TEST_SCENARIO_H

#include <unistd.h>

#include "base/atomic.h"
#include "failing.h"
#include "system.h"

struct scenario {
    const char *name;
    void (*run)(void);
};

enum scenario_place { AT_START, ON_THREAD, IN_FIBER, SCENARIO_PLACES };
static const char *const scenario_places[] = {"at the start", "on a thread", "in a fiber"};

struct scenario_held {
    int64_t memory, maps, descriptors, threads;
};

static struct {
    const struct scenario *scenario;
    enum scenario_place place;
    struct scenario_held before;
    atomic_u32 begun, ended;
    atomic_u32 errors;

    uint32_t step;
    int64_t fail_time; /* how long calls may fail in a run */
    bool whole;        /* the last run ended before that */
} scene;

/* Errors that a call MAY return. */

static inline int64_t may(const char *file, int line, const char *text, int64_t result,
                          const int *allowed)
{
    if (result >= 0)
        return result;
    atomic_u32_add_relaxed(&scene.errors, 1);
    for (; *allowed != 0; allowed++)
        if (result == *allowed)
            return result;
    test_fail(file, line, "%s returned %lld: the header does not name it", text, (long long)result);
}

/* The pointer is read after the call, which is an argument here. */
static inline bool opened(const char *file, int line, const char *text, int64_t result,
                          const void *const *pointer, const int *allowed)
{
    (void)may(file, line, text, result, allowed);
    if ((result >= 0) == (*pointer == (const void *)(uintptr_t)0xdead))
        test_fail(file, line, "%s returned %lld and *out is %p", text, (long long)result, *pointer);
    return result >= 0;
}

/* Errors of weft_go: also those of the start of the runtime, if that may not be started. */
static inline const int *scenario_go(void)
{
    return scene.place == AT_START ? failing_start : failing_spawn;
}

/* The result, which is not negative or is one of the errors. */
#define MAY(call, ...) may(__FILE__, __LINE__, #call, call, (const int[]){__VA_ARGS__, 0})
#define MAY_GO(call) may(__FILE__, __LINE__, #call, call, scenario_go())
/* True if the call succeeded; it must have set the pointer then, and only then. */
#define POISON ((void *)(uintptr_t)0xdead)
#define OPENED(call, pointer, ...)                                                         \
    opened(__FILE__, __LINE__, #call, call, (const void *const *)(const void *)&(pointer), \
           (const int[]){__VA_ARGS__, 0})
#define OPENED_GO(call, pointer)                                                           \
    opened(__FILE__, __LINE__, #call, call, (const void *const *)(const void *)&(pointer), \
           scenario_go())

/* weft works. */

static inline void scenario_add(void *arg)
{
    atomic_u32_add_relaxed(arg, 1);
}

static inline void scenario_send(void *chan)
{
    int number = 7;
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    CHECK_EQ(weft_chan_send(chan, &number), 0);
}

static inline void scenario_usable(void)
{
    weft_fiber *fiber;
    weft_chan *chan;
    weft_pool *pool;
    int number = 0;
    atomic_u32 ran = {0};
    CHECK_EQ(weft_chan_make(&chan, sizeof number, 0), 0);
    CHECK_EQ(weft_spawn(&fiber, scenario_send, chan, NULL), 0);
    CHECK_EQ(weft_chan_receive(chan, &number), 0);
    CHECK_EQ(number, 7);
    CHECK_EQ(weft_join(fiber), 0);
    weft_chan_destroy(chan);
    CHECK_EQ(weft_pool_open(&pool, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, scenario_add, &ran), 0);
    CHECK_EQ(weft_pool_close(pool), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&ran), 1);
}

/* Nothing is left. */

static inline struct scenario_held scenario_holds(void)
{
    return (struct scenario_held){
        .memory = weft__os_live(LIVE_MEMORY),
        .maps = weft__os_live(LIVE_MAPS),
        .descriptors = open_descriptors(),
        .threads = weft__os_thread_count(),
    };
}

/* A thread that was joined may be counted for a moment more; the wait for that is bounded. */
static inline uint32_t scenario_threads(void)
{
    enum { LOOKS_MOST = 20000 };
    for (int i = 0; i < LOOKS_MOST && weft__os_thread_count() > scene.before.threads; i++)
        usleep(500);
    return weft__os_thread_count();
}

static inline void scenario_nothing_left(void)
{
    struct scenario_held now = scenario_holds();
    CHECK_EQ(now.memory, scene.before.memory);
    CHECK_EQ(now.maps, scene.before.maps);
    CHECK_EQ(now.descriptors, scene.before.descriptors);
    if (!test_emulated()) /* an emulator has threads of its own, which come and go */
        CHECK(scenario_threads() <= scene.before.threads);
}

/* One run. */

static inline void scenario_body(void *arg)
{
    if (failing.on)
        weft__os_fail(failing.call, failing.nth, failing.persistent);
    atomic_u32_store_release(&scene.begun, 1);
    scene.scenario->run();
    atomic_u32_store_release(&scene.ended, 1);
}

static inline void *scenario_thread(void *arg)
{
    scenario_body(arg);
    return NULL;
}

static inline bool scenario_await(const atomic_u32 *word, int64_t deadline)
{
    while (!atomic_u32_load_acquire(word)) {
        if (weft__os_now() >= deadline) /* the clock of a test run is virtual */
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 30 * 1000}, NULL);
    }
    return true;
}

/* Runs the scenario with the planned failure, if there is one. */
static inline void scenario_once(void)
{
    weft_fiber *fiber;
    pthread_t thread;
    bool on_thread = scene.place != IN_FIBER;
    atomic_u32_store_relaxed(&scene.begun, 0);
    atomic_u32_store_relaxed(&scene.ended, 0);
    atomic_u32_store_relaxed(&scene.errors, 0);
    if (on_thread)
        CHECK_EQ(pthread_create(&thread, NULL, scenario_thread, NULL), 0);
    else
        CHECK_EQ(weft_spawn(&fiber, scenario_body, NULL, NULL), 0);
    (void)scenario_await(&scene.begun, WEFT_NEVER);
    scene.whole = scenario_await(&scene.ended, weft__os_now() + scene.fail_time);
    failing_off();
    while (!scenario_await(&scene.ended, weft__os_now() + 30 * WEFT_S))
        fprintf(stderr, "still runs: %s %s, %s failing at %u\n", scene.scenario->name,
                scenario_places[scene.place], failing_names[failing.call], failing.nth);
    CHECK_EQ(on_thread ? pthread_join(thread, NULL) : weft_join(fiber), 0);
}

static inline void scenario_start_runtime(void)
{
    weft_fiber *fiber;
    atomic_u32 ran = {0};
    weft_config config = {.processors = 2};
    CHECK_EQ(weft_configure(&config), 0);
    if (scene.place == AT_START)
        return;
    CHECK_EQ(weft_spawn(&fiber, scenario_add, &ran, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static inline void scenario_attempt(void)
{
    weft__os_fail(failing.call, 0, false); /* none at first */
    scenario_start_runtime();
    scenario_once();
    if (scene.whole && failing.calls < failing.nth) /* nothing has failed */
        CHECK_EQ(atomic_u32_load_relaxed(&scene.errors), 0);
    scenario_usable();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    scenario_nothing_left();
}

static inline void scenario_say(void)
{
    fprintf(stderr, "in scenario %s %s, %s failing at %u (%s)\n", scene.scenario->name,
            scenario_places[scene.place], failing_names[failing.call], failing.nth,
            failing.persistent ? "from then on" : "once");
}

/* Fails each call of that kind in turn; in larger steps where everything is slow. */
static inline void scenario_each(enum weft__os_call call, bool persistent)
{
    uint32_t nth = 1, most = 0;
    for (;; nth += scene.step) {
        failing.call = call;
        failing.nth = nth;
        failing.persistent = persistent;
        failing.on = true;
        scenario_attempt();
        if (failing.calls < nth && scene.whole)
            break;
        if (failing.calls < nth) { /* slow, not stuck: again, with more time */
            scene.fail_time *= 2;
            nth -= scene.step;
            continue;
        }
        most = nth;
        CHECK(nth < 5000); /* it does not end */
    }
    if (most > 0)
        printf(" %s %u%s", failing_names[call], most, persistent ? "+" : "");
    fflush(stdout);
}

static inline void scenarios_run(const struct scenario *scenarios, size_t count)
{
    const char *only = getenv("SCENARIO");
    weft__os_live_count();
    test_on_fail = scenario_say;
    scene.step = (uint32_t)(100 / test_scale(100)); /* 1, or more under a sanitizer */
    for (size_t i = 0; i < count; i++)
        for (int place = 0; place < SCENARIO_PLACES; place++) {
            if (only != NULL && strcmp(only, scenarios[i].name) != 0)
                continue;
            scene.scenario = &scenarios[i];
            scene.place = (enum scenario_place)place;
            scene.fail_time = 5 * WEFT_MS;
            printf("%s %s:", scene.scenario->name, scenario_places[place]);
            for (int warm = 0; warm < 2;
                 warm++) { /* what is made only once exists after the first */
                scenario_start_runtime();
                scenario_once();
                CHECK_EQ(atomic_u32_load_relaxed(&scene.errors), 0);
                scenario_usable();
                CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
                if (warm == 0)
                    scene.before = scenario_holds();
                else
                    scenario_nothing_left();
            }
            for (int call = 0; call < OS_CALLS; call++)
                for (int persistent = 0; persistent < 2; persistent++)
                    scenario_each((enum weft__os_call)call, persistent);
            printf("\n");
        }
}

#endif
