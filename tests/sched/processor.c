/*
 * processor.c: the number of processors in use follows the CPUs that the process may use.
 */
#include <dirent.h>

#include "everywhere.h"
#include "fibers.h"
#include "sched/core/processor.h"
#include "sched/runtime/cpus.h"

enum { FIBERS = 40, ROUNDS = 200, CHANGES = 40, CPUS_MOST = 8 };

static atomic_u32 over;

static uint32_t in_use(void)
{
    return atomic_u32_load_relaxed(&weft__sched.in_use);
}

/* Starts a runtime for CPUS_MOST CPUs, of which the process may use `given`. */
static void begin(int given)
{
    shut_down();
    atomic_u32_store_relaxed(&over, 0);
    weft__processors_every = WEFT_MS;
    atomic_u32_store_relaxed(&weft__cpus_given, CPUS_MOST);
    run_fiber(nothing, NULL);
    CHECK_EQ(weft_processors(), CPUS_MOST);
    atomic_u32_store_relaxed(&weft__cpus_given, (uint32_t)given);
}

/* Lets the fibers that wait for `over` end, and shuts down. */
static void end(weft_fiber **fibers, int count)
{
    atomic_u32_store_release(&over, 1);
    join_all(fibers, count);
    shut_down();
    atomic_u32_store_relaxed(&weft__cpus_given, 0);
    weft__processors_every = WEFT_S;
}

static void yields_until_over(void *arg)
{
    yield_until(&over, 1);
}

static void computes_until_over(void *arg)
{
    atomic_u32_store_release((atomic_u32 *)arg, 1);
    spin_until(&over, 1);
}

/* Returns when that many are to be used and are in use; fibers keep all of them busy. */
static void await_in_use(uint32_t count)
{
    while (weft_processors() != (int)count || in_use() != count)
        sched_yield();
}

static void follows_the_number_of_cpus(void)
{
    static const uint32_t counts[] = {1, 3, 2, 8, 1, 8, 2};
    weft_fiber *fibers[FIBERS];
    begin(4);
    spawn_all(fibers, FIBERS, yields_until_over, NULL);
    await_in_use(4);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        atomic_u32_store_relaxed(&weft__cpus_given, counts[i]);
        await_in_use(counts[i]);
    }
    end(fibers, FIBERS);
}

/* Of more CPUs than the runtime has processors for, no more are used. */
static void not_more_than_the_machine_had(void)
{
    weft_fiber *fiber;
    begin(1);
    spawn_all(&fiber, 1, yields_until_over, NULL);
    await_in_use(1);
    atomic_u32_store_relaxed(&weft__cpus_given, 2 * CPUS_MOST);
    await_in_use(CPUS_MOST);
    end(&fiber, 1);
}

/* The only processor in use is always busy: timers of the retired processors fire all the same. */
static atomic_u32 asleep, woken;

static void sleeps(void *arg)
{
    atomic_u32_add_seq_cst(&asleep, 1);
    CHECK_EQ(weft_sleep_until(*(int64_t *)arg), 0);
    atomic_u32_add_seq_cst(&woken, 1);
}

static void timers_of_retired_processors_fire(void)
{
    weft_fiber *sleepers[FIBERS], *yielder;
    int64_t due = weft_after(300 * WEFT_MS);
    begin(CPUS_MOST);
    atomic_u32_store_relaxed(&asleep, 0);
    atomic_u32_store_relaxed(&woken, 0);
    spawn_all(sleepers, FIBERS, sleeps, &due);
    while (atomic_u32_load_acquire(&asleep) != FIBERS)
        sched_yield();
    spawn_all(&yielder, 1, yields_until_over, NULL);
    atomic_u32_store_relaxed(&weft__cpus_given, 1);
    await_in_use(1);
    join_all(sleepers, FIBERS);
    CHECK(weft_now() >= due);
    CHECK_EQ(atomic_u32_load_relaxed(&woken), FIBERS);
    end(&yielder, 1);
}

/* A processor that computes is not waited for: another one is retired. */
static void a_fiber_that_computes_keeps_its_processor(void)
{
    weft_fiber *fibers[3];
    atomic_u32 begun = {0};
    begin(3);
    spawn_all(fibers, 2, yields_until_over, NULL);
    fibers[2] = spawn(computes_until_over, &begun);
    spin_until(&begun, 1);
    await_in_use(3);
    atomic_u32_store_relaxed(&weft__cpus_given, 2);
    await_in_use(2);
    end(fibers, 3);
}

/* Fibers work while the number changes all the time. */

static weft_chan *numbers;

static void sends(void *arg)
{
    for (int64_t i = 0; i < test_scale(ROUNDS); i++) {
        CHECK_EQ(weft_chan_send(numbers, &i), 0);
        if (i % 16 == 0)
            CHECK_EQ(weft_sleep(50 * WEFT_US), 0);
        if (i % 16 == 8) {
            weft_blocking_enter();
            sched_yield();
            weft_blocking_exit();
        }
    }
}

static void receives(void *arg)
{
    int64_t number;
    for (int64_t i = 0; i < test_scale(ROUNDS); i++)
        CHECK_EQ(weft_chan_receive(numbers, &number), 0);
}

static void naps(void *arg)
{
    for (int64_t i = 0; i < test_scale(ROUNDS); i++)
        CHECK_EQ(weft_sleep(i % 5 * 20 * WEFT_US), 0);
}

static void changes_while_fibers_work(void)
{
    static const weft_spawn_options compact = {.compact = 1};
    weft_fiber *senders[FIBERS], *receivers[FIBERS], *nappers[FIBERS];
    begin(CPUS_MOST);
    CHECK_EQ(weft_chan_make(&numbers, sizeof(int64_t), 3), 0);
    spawn_all(senders, FIBERS, sends, NULL);
    spawn_all(receivers, FIBERS, receives, NULL);
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_spawn(&nappers[i], naps, NULL, &compact), 0);
    for (int64_t i = 0; i < test_scale(CHANGES); i++) {
        uint32_t count = (uint32_t)(i * 5 % CPUS_MOST) + 1;
        atomic_u32_store_relaxed(&weft__cpus_given, count);
        CHECK_EQ(weft_sleep(2 * WEFT_MS), 0);
    }
    join_all(senders, FIBERS);
    join_all(receivers, FIBERS);
    join_all(nappers, FIBERS);
    weft_chan_destroy(numbers);
    end(NULL, 0);
}

/* Real affinity: all threads of the process on one CPU, and on all CPUs again. */

static void allow(const cpu_set_t *cpus)
{
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        if (entry->d_name[0] != '.')
            (void)sched_setaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof *cpus, cpus);
    closedir(tasks);
}

static void follows_affinity(void)
{
    cpu_set_t all, one;
    weft_fiber *fibers[FIBERS];
    shut_down();
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    uint32_t count = (uint32_t)weft_processors();
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    weft__processors_every = WEFT_MS;
    atomic_u32_store_relaxed(&over, 0);
    spawn_all(fibers, FIBERS, yields_until_over, NULL);
    await_in_use(count);
    /* A new thread inherits the affinity of its creator, so it is set again and again. */
    while (weft_processors() != 1 || in_use() != 1) {
        allow(&one);
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
    }
    while (weft_processors() != (int)count || in_use() != count) {
        allow(&all);
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
    }
    end(fibers, FIBERS);
}

/* A configured number does not change. */
static void a_fixed_number_stays(void)
{
    weft_fiber *fibers[FIBERS];
    processors_begin(2);
    weft__processors_every = WEFT_MS;
    atomic_u32_store_relaxed(&over, 0);
    atomic_u32_store_relaxed(&weft__cpus_given, 1);
    spawn_all(fibers, FIBERS, yields_until_over, NULL);
    CHECK_EQ(weft_sleep(30 * WEFT_MS), 0);
    CHECK_EQ(weft_processors(), 2);
    CHECK_EQ(in_use(), 2);
    end(fibers, FIBERS);
    processors_end();
}

int main(void)
{
    CHECK_EQ(unsetenv("WEFT_PROCS"), 0);
    RUN_ALL_PLAIN("there is one processor", follows_the_number_of_cpus,
                  not_more_than_the_machine_had, timers_of_retired_processors_fire,
                  a_fiber_that_computes_keeps_its_processor, changes_while_fibers_work,
                  follows_affinity, a_fixed_number_stays);
    return 0;
}
