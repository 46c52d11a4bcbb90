/*
 * lock_model.c: the lock that spins, then sleeps (os/lock.c). The other models take it for granted.
 *
 * What must hold: one holder at a time, and no thread sleeps for ever.
 */
#include "os/lock.c"

#include "explore.h"

enum { THREADS = 3 };

static struct lock lock;
static atomic_u32 work;
static int holders, done;

static void run(void *arg)
{
    lock_acquire(&lock);
    MODEL_CHECK(++holders == 1);
    atomic_u32_store_relaxed(&work, atomic_u32_load_relaxed(&work) + 1);
    holders--;
    done++;
    lock_release(&lock);
}

static void set_up(int threads)
{
    static const char *const names[THREADS] = {"one", "two", "three"};
    for (int i = 0; i < threads; i++)
        model_thread(names[i], run, NULL, true);
    model_name(&lock, "lock");
    model_name(&work, "work");
}

static void two(void)
{
    set_up(2);
}

static void three(void)
{
    set_up(THREADS);
}

static void all_was_done(void)
{
    MODEL_CHECK(work.value == (uint32_t)done && lock.state.value == 0);
}

static const struct scenario scenarios[] = {
    {"two threads", two, all_was_done, 6, 2, 0},
    {"three threads", three, all_was_done, 4, 1, 0},
};

MODEL_MAIN(scenarios)
