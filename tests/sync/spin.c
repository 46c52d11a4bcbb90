/*
 * spin.c: the spin lock, from fibers and from threads. Waiting with one held: misuse_crash.c.
 */
#include "bodies.h"
#include "everywhere.h"
#include "forking.h"

#include "sched/runtime/thread.h"
#include "seeds.h"

/* Misuse; runs before the runtime does, so that children can be forked. */

static weft_spin misused;

static void misuse_aborts(void)
{
    CHECK_EQ(weft_spin_try_lock(NULL), -EINVAL);
    CHECK_ABORTS("weft: weft_spin_lock was given no spin lock", weft_spin_lock(NULL));
    CHECK_ABORTS("weft: weft_spin_unlock was given no spin lock", weft_spin_unlock(NULL));
    CHECK_ABORTS("weft: a spin lock is unlocked that is not locked", weft_spin_unlock(&misused));
}

/* The calls. */

static uint32_t held_here(void)
{
    struct thread *thread = thread_self();
    return thread != NULL ? thread->spins : 0;
}

static void use_alone(void *arg)
{
    weft_spin a = WEFT_SPIN_INIT, b = WEFT_SPIN_INIT;
    CHECK_EQ(held_here(), 0);
    weft_spin_lock(&a);
    CHECK_EQ(held_here(), 1);
    CHECK_EQ(weft_spin_try_lock(&a), -EBUSY);
    CHECK_EQ(held_here(), 1);
    CHECK_EQ(weft_spin_try_lock(&b), 0);
    CHECK_EQ(held_here(), 2);
    weft_spin_unlock(&a);
    CHECK_EQ(held_here(), 1);
    weft_spin_unlock(&b);
    CHECK_EQ(held_here(), 0);
    weft_yield();
}

/* Exclusion, with more bodies than CPUs, so that holders lose theirs. */

enum { BODIES = 6 };

static struct {
    weft_spin spin;
    int64_t count; /* plain: the lock orders it */
} shared;

static void count_up(void *arg)
{
    for (int64_t i = test_scale(50000); i > 0; i--) {
        if (i % 3 != 0)
            weft_spin_lock(&shared.spin);
        else
            while (weft_spin_try_lock(&shared.spin) != 0)
                cpu_relax();
        shared.count++;
        weft_spin_unlock(&shared.spin);
    }
}

static void excludes(void)
{
    for (int threads = 0; threads <= BODIES; threads += BODIES / 2) {
        struct body bodies[BODIES];
        shared.count = 0;
        for (int i = 0; i < BODIES; i++)
            bodies[i] = (struct body){.function = count_up, .thread = i < threads};
        bodies_run(bodies, BODIES);
        CHECK_EQ(shared.count, BODIES * test_scale(50000));
    }
}

static void nothing_at_all(void *arg)
{
}

/* The lock is held while the runtime is shut down, which drops its record of the thread. */
static void held_across_a_shutdown(void)
{
    weft_spin spin = WEFT_SPIN_INIT;
    body_run(nothing_at_all, NULL, false);
    CHECK_EQ(weft_spin_try_lock(&spin), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    weft_spin_unlock(&spin);
    CHECK_EQ(weft_spin_try_lock(&spin), 0);
    weft_spin_unlock(&spin);
}

/* The lock is held for so long that a waiter sleeps in between. */

static weft_spin slow = WEFT_SPIN_INIT;
static atomic_u32 wants;
static int passed;

static void pass(void *arg)
{
    atomic_u32_store_release(&wants, 1);
    weft_spin_lock(&slow);
    passed++;
    weft_spin_unlock(&slow);
}

static void held_for_long(void)
{
    struct body body = {.function = pass, .thread = true};
    atomic_u32_store_relaxed(&wants, 0);
    passed = 0;
    weft_spin_lock(&slow);
    body_start(&body);
    await_plainly(&wants);
    usleep(100 * 1000);
    CHECK_EQ(passed, 0);
    weft_spin_unlock(&slow);
    body_join(&body);
    CHECK_EQ(passed, 1);
}

/* A forked child. */

static void in_child(void)
{
    weft_spin mine = WEFT_SPIN_INIT;
    weft_spin_lock(&mine);
    weft_spin_unlock(&mine);
    CHECK_ABORTS("weft: a spin lock was held when the process was forked",
                 weft_spin_lock(&shared.spin));
}

static void lock_it(void *spin)
{
    weft_spin_lock(spin);
}

static void unlock_it(void *spin)
{
    weft_spin_unlock(spin);
}

static void a_forked_child_does_not_hang(void)
{
    struct fork_lock scene = {.lock = lock_it, .unlock = unlock_it, .object = &shared.spin};
    body_run(use_alone, NULL, false); /* starts the runtime */
    fork_while_held(scene, true, in_child);
}

int main(void)
{
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN_EVERYWHERE(use_alone);
    RUN_BOTH(excludes);
    RUN_PLAIN(held_across_a_shutdown, "stops or configures the runtime");
    RUN_PLAIN(held_for_long, "about plain threads");
    RUN_PLAIN(a_forked_child_does_not_hang, "forks");
    return 0;
}
