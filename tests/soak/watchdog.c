/*
 * watchdog.c: a plain thread that uses nothing of weft and looks at the books once a second.
 *
 * If nothing was entered or booked out for LIMIT seconds, something hangs: the watchdog prints what
 * each actor does, which ids are not booked out, and the state of the scheduler, and aborts with a
 * core dump. The limit is much longer than any round takes, also on a loaded machine; scaled runs
 * (WEFT_TEST_SCALE) are on slow machines and have a longer one.
 */
#include "watchdog.h"

#include <time.h>

#include "sched/core/inject.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/runtime/runtime.h"

enum { LIMIT = 30, LIMIT_WHEN_SLOW = 300, NAMED = 10 };

static struct {
    pthread_t thread;
    const struct actor *actors;
    int count;
    atomic_u32 stop;
} dog;

static void say_actors(void)
{
    for (int i = 0; i < dog.count; i++)
        fprintf(stderr, "soak: actor %d (%s), round %llu: %s\n", i, dog.actors[i].name,
                (unsigned long long)dog.actors[i].rounds,
                dog.actors[i].doing != NULL ? dog.actors[i].doing : "has ended");
}

static void say_scheduler(void)
{
    const struct sched *sched = &weft__sched;
    if (!atomic_u32_load_relaxed(&weft__runtime_running)) {
        fprintf(stderr, "soak: the runtime is not running\n");
        return;
    }
    fprintf(stderr, "soak: %u processors, %u idle, %u machines, %u spinning; %u fibers injected\n",
            processors_in_use(), atomic_u32_load_relaxed(&sched->idle_count), sched->machine_count,
            atomic_u32_load_relaxed(&sched->spinning), (unsigned)weft__inject_length());
    for (uint32_t i = 0; i < processor_count(); i++) {
        const struct processor *processor = &sched->processors[i];
        fprintf(stderr, "soak: processor %u: turn %u, %u in its ring%s%s\n", i,
                atomic_u32_load_relaxed(&processor->turn), ring_length(processor),
                atomic_ptr_load_relaxed(&processor->runnext) != NULL ? ", and a next one" : "",
                atomic_ptr_load_relaxed(&processor->owner) == NULL ? ", without a machine" : "");
    }
}

static void *watch(void *arg)
{
    const struct timespec second = {.tv_sec = 1};
    int limit = test_scale(100) < 100 ? LIMIT_WHEN_SLOW : LIMIT, still = 0;
    uint64_t seen = 0;
    while (!atomic_u32_load_relaxed(&dog.stop)) {
        nanosleep(&second, NULL);
        uint64_t progress = ledger_progress();
        still = progress != seen ? 0 : still + 1;
        seen = progress;
        if (still < limit)
            continue;
        fprintf(stderr, "soak: nothing has gone on for %d seconds\n", still);
        soak_say_seed();
        say_actors();
        say_scheduler();
        (void)ledger_report(NAMED);
        abort();
    }
    return arg;
}

void watchdog_start(const struct actor *actors, int count)
{
    dog.actors = actors;
    dog.count = count;
    CHECK_EQ(pthread_create(&dog.thread, NULL, watch, NULL), 0);
}

void watchdog_stop(void)
{
    atomic_u32_store_relaxed(&dog.stop, 1);
    CHECK_EQ(pthread_join(dog.thread, NULL), 0);
}
