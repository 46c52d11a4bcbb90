/*
 * soak.c: uses all of weft at random and balances the books.
 *
 *     soak [--seconds N] [--phase N] [--seed N] [--chaos PERCENT]
 *
 * The run is cut into phases. In each, actors (soak.h) use pools, channels, locks, fibers, timers,
 * sockets, files, children and signals at random; then everything drains, and the soak checks
 *
 *   books        every task, message, timer and event is booked out exactly once (ledger.h)
 *   descriptors  as many as at the beginning; while the runtime runs, its own in addition
 *   memory       compared over the whole run (measure.h)
 *
 * Every second phase ends with weft_shutdown, and the next begins with another number of
 * processors, with or without forced yields at the calls of weft (WEFT_CHAOS). Otherwise the
 * runtime continues into the next phase, so that the memory that it keeps is checked too.
 *
 * Random choices depend on the seed, which is printed; the timing of threads and of the kernel does
 * not. --chaos sets the percentage for all phases. SIGINT ends the phase, and the soak with its
 * verdict. Each phase prints a line of figures to stdout; errors go to stderr. Exit code 0: no
 * error. 1: an error; a failed check ends the soak at once. Death by SIGABRT: no progress
 * (watchdog.h), or weft itself found an error.
 */
#include <signal.h>
#include <time.h>

#include "measure.h"
#include "soak.h"
#include "watchdog.h"

enum { ACTORS = 15, PHASES_WANTED = 12, PHASE_LEAST = 1, PHASE_MOST = 20, NAMED = 10 };

static const struct {
    const char *name;
    void (*round)(struct actor *actor);
    int count;
} casts[] = {
    {"tasks", tasks_round, 4},   {"channels", channels_round, 2}, {"locks", locks_round, 2},
    {"fibers", fibers_round, 2}, {"timers", timers_round, 2},     {"network", network_round, 2},
    {"system", system_round, 1},
};

static struct {
    uint64_t seed;
    int64_t seconds, phase_seconds;
    int chaos; /* -1: random */
} settings = {.seconds = -1, .chaos = -1};

static struct actor actors[ACTORS];
static struct prng prng;
static atomic_i64 phase_end;
static volatile sig_atomic_t interrupted;
static int64_t soak_end;
static int phase_number, processors, chaos;

static void interrupt(int number)
{
    interrupted = 1;
}

bool soak_goes_on(void)
{
    return !interrupted && weft_now() < atomic_i64_load_relaxed(&phase_end) && ledger_room();
}

void soak_say_seed(void)
{
    fprintf(stderr, "soak: this was phase %d of seed %llu\n", phase_number,
            (unsigned long long)settings.seed);
}

/* Actors. */

static void act(void *arg)
{
    struct actor *actor = arg;
    while (soak_goes_on()) {
        actor->round(actor);
        actor->rounds++;
    }
    actor->doing = NULL;
}

static void *act_on_thread(void *arg)
{
    act(arg);
    return NULL;
}

static void run_actors(void)
{
    weft_fiber *fibers[ACTORS];
    pthread_t threads[ACTORS];
    bool on_thread[ACTORS];
    for (int i = 0; i < ACTORS; i++) {
        weft_spawn_options options = {.name = actors[i].name, .stack_size = 256 * 1024};
        prng_seed(&actors[i].prng, (uint64_t)prng_next(&prng) << 32 | prng_next(&prng));
        on_thread[i] = one_in(&prng, 4);
        if (on_thread[i])
            CHECK_EQ(pthread_create(&threads[i], NULL, act_on_thread, &actors[i]), 0);
        else
            CHECK_EQ(weft_spawn(&fibers[i], act, &actors[i], &options), 0);
    }
    for (int i = 0; i < ACTORS; i++)
        if (on_thread[i])
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        else
            CHECK_EQ(weft_join(fibers[i]), 0);
}

/* Phases. */

/* Runs while the runtime is stopped. */
static void draw_runtime(void)
{
    static const int numbers[] = {0, 1, 2, 4, 8};
    char text[16];
    processors = numbers[below(&prng, sizeof numbers / sizeof numbers[0])];
    chaos = settings.chaos >= 0 ? settings.chaos
            : one_in(&prng, 2)  ? 0
            : one_in(&prng, 3)  ? (int)between(&prng, 1, 99)
                                : 100;
    snprintf(text, sizeof text, "%d", chaos);
    CHECK_EQ(chaos > 0 ? setenv("WEFT_CHAOS", text, 1) : unsetenv("WEFT_CHAOS"), 0);
    CHECK_EQ(weft_configure(&(weft_config){.processors = processors}), 0);
    processors = weft_processors();
}

/* CPU time of the process. */
static int64_t cpu_time(void)
{
    struct timespec time;
    CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time), 0);
    return time.tv_sec * WEFT_S + time.tv_nsec;
}

static void print_phase(int64_t took, int64_t cpu, const struct measure *drained,
                        const struct measure *stopped)
{
    printf("soak: phase %d: %.1f s, %.1f s of CPU, %d processors, chaos %d%%;", phase_number,
           (double)took / (double)WEFT_S, (double)cpu / (double)WEFT_S, processors, chaos);
    for (int book = 0; book < BOOKS; book++) {
        struct ledger_sums sums = ledger_sums((enum book)book);
        printf(" %s %llu = %llu + %llu + %llu;", ledger_name((enum book)book),
               (unsigned long long)sums.entered, (unsigned long long)sums.booked_out[HAPPENED],
               (unsigned long long)sums.booked_out[DROPPED],
               (unsigned long long)sums.booked_out[REFUSED]);
    }
    printf(" resident %.1f MB, heap %.2f MB, %d descriptors, %d threads%s",
           (double)drained->resident / 1e6, (double)drained->heap / 1e6, drained->descriptors,
           drained->threads, stopped != NULL ? "" : "\n");
    if (stopped != NULL)
        printf("; stopped: resident %.1f MB, heap %.3f MB\n", (double)stopped->resident / 1e6,
               (double)stopped->heap / 1e6);
    fflush(stdout);
}

static bool is_over(void)
{
    return interrupted || weft_now() >= soak_end;
}

/* True if there was no error. */
static bool run_phase(void)
{
    int64_t start = weft_now(), cpu = cpu_time();
    int64_t end = start + settings.phase_seconds * WEFT_S;
    struct measure drained, stopped;
    if (phase_number % 2 == 1)
        draw_runtime();
    atomic_i64_store_relaxed(&phase_end, end < soak_end ? end : soak_end);
    run_actors();
    bool well = measure_take(DRAINED, &drained);
    bool stop = phase_number % 2 == 0 || is_over();
    if (stop) {
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        well &= measure_take(STOPPED, &stopped);
    }
    print_phase(weft_now() - start, cpu_time() - cpu, &drained, stop ? &stopped : NULL);
    uint64_t wrong = ledger_report(NAMED);
    if (!well || wrong > 0)
        soak_say_seed();
    ledger_clear();
    return well && wrong == 0;
}

static bool run_phases(void)
{
    bool well;
    soak_end = weft_now() + settings.seconds * WEFT_S;
    do {
        phase_number++;
        well = run_phase();
    } while (well && !is_over());
    return well;
}

/* The command line. */

static void read_arguments(int count, char **arguments)
{
    for (int i = 1; i < count; i += 2) {
        long long number = i + 1 < count ? strtoll(arguments[i + 1], NULL, 0) : -1;
        if (number >= 0 && strcmp(arguments[i], "--seconds") == 0)
            settings.seconds = number;
        else if (number > 0 && strcmp(arguments[i], "--phase") == 0)
            settings.phase_seconds = number;
        else if (number >= 0 && strcmp(arguments[i], "--seed") == 0)
            settings.seed = (uint64_t)number;
        else if (number >= 0 && number <= 100 && strcmp(arguments[i], "--chaos") == 0)
            settings.chaos = (int)number;
        else {
            fprintf(stderr, "usage: soak [--seconds N] [--phase N] [--seed N] [--chaos PERCENT]\n");
            exit(2);
        }
    }
}

static void fix_settings(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (settings.seed == 0)
        settings.seed = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    if (settings.seconds < 0)
        settings.seconds = test_scale(60);
    if (settings.phase_seconds == 0)
        settings.phase_seconds = settings.seconds / PHASES_WANTED;
    if (settings.phase_seconds < PHASE_LEAST)
        settings.phase_seconds = PHASE_LEAST;
    if (settings.phase_seconds > PHASE_MOST)
        settings.phase_seconds = PHASE_MOST;
}

static void cast_actors(void)
{
    int at = 0;
    for (size_t i = 0; i < sizeof casts / sizeof casts[0]; i++)
        for (int j = 0; j < casts[i].count; j++)
            actors[at++] = (struct actor){.name = casts[i].name, .round = casts[i].round};
    CHECK_EQ(at, ACTORS);
}

int main(int count, char **arguments)
{
    read_arguments(count, arguments);
    fix_settings();
    printf(
        "soak: seed %llu, %lld s in phases of %lld s; of each book: entered = happened + dropped "
        "+ refused\n",
        (unsigned long long)settings.seed, (long long)settings.seconds,
        (long long)settings.phase_seconds);
    fflush(stdout);
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    CHECK_EQ(sigaction(SIGINT, &action, NULL), 0);
    prng_seed(&prng, settings.seed);
    ledger_begin();
    measure_begin();
    cast_actors();
    watchdog_start(actors, ACTORS);
    bool well = run_phases();
    watchdog_stop();
    well &= measure_verdict();
    printf("soak: %d phases%s: %s\n", phase_number, interrupted ? ", interrupted" : "",
           well ? "all is well" : "FAILED");
    return well ? 0 : 1;
}
