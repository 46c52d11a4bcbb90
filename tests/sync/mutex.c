/*
 * mutex.c: the mutex, from fibers and from threads.
 */
#include "bodies.h"
#include "dying.h"
#include "everywhere.h"
#include "failing.h"
#include "forking.h"
#include "seeds.h"

enum { FREE = 0, QUEUE = 2, WAITERS = 4 }; /* the word of a mutex: src/sync/mutex.c */

static uint32_t word_of(weft_mutex *mutex)
{
    return atomic_u32_load_relaxed((atomic_u32 *)(void *)&mutex->word);
}

static void await_a_waiter(weft_mutex *mutex)
{
    while (!(word_of(mutex) & WAITERS))
        weft_yield();
}

/* Misuse; runs before the runtime does, so that children can be forked. */

static weft_mutex misused;

static void arguments(void)
{
    CHECK_EQ(weft_mutex_lock_until(NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_mutex_try_lock(NULL), -EINVAL);
}

static void lock_twice(void *arg)
{
    weft_mutex_lock(&misused);
    weft_mutex_lock(&misused);
}

static void unlock_misused(void *arg)
{
    weft_mutex_unlock(&misused);
}

static void unlock_twice(void *arg)
{
    weft_mutex_lock(&misused);
    weft_mutex_unlock(&misused);
    weft_mutex_unlock(&misused);
}

static void unlock_of_another(void *thread)
{
    weft_mutex_lock(&misused);
    body_run(unlock_misused, NULL, *(bool *)thread);
}

static void misuse_aborts(void)
{
    static const char unlocked[] = "weft: a mutex is unlocked that is not locked";
    CHECK_ABORTS("weft: weft_mutex_lock was given no mutex", weft_mutex_lock(NULL));
    CHECK_ABORTS("weft: weft_mutex_unlock was given no mutex", weft_mutex_unlock(NULL));
    CHECK_ABORTS("weft: weft_mutex_destroy was given no mutex", weft_mutex_destroy(NULL));
    CHECK_ABORTS(unlocked, unlock_twice(NULL));
    CHECK_ABORTS(unlocked, body_run(unlock_twice, NULL, false));
    CHECK_ABORTS("weft: a mutex is destroyed that is locked", weft_mutex_lock(&misused);
                 weft_mutex_destroy(&misused));
}

static void debug_builds_check_the_owner(void)
{
#ifdef WEFT_DEBUG
    static const char another[] = "unlocked by another than the one that locked it";
    static const char twice[] = "locked by the one that has it already";
    for (int thread = 0; thread < 2; thread++) {
        bool as_thread = thread;
        CHECK_ABORTS(another, unlock_of_another(&as_thread));
        CHECK_ABORTS(another, body_run(unlock_of_another, &as_thread, false));
    }
    CHECK_ABORTS(twice, lock_twice(NULL));
    CHECK_ABORTS(twice, body_run(lock_twice, NULL, false));
    CHECK_ABORTS(twice, weft_mutex_lock(&misused);
                 (void)!weft_mutex_lock_until(&misused, WEFT_NEVER));
#else
    (void)lock_twice;
    (void)unlock_of_another;
    printf("  left out: not a debug build\n");
#endif
}

/* Without a second CPU, or if the number of CPUs is not known, a waiter does not spin. */

static void lock_and_unlock(void *mutex)
{
    weft_mutex_lock(mutex);
    weft_mutex_unlock(mutex);
}

static void contend(void)
{
    weft_mutex contended = WEFT_MUTEX_INIT;
    struct body body = {.function = lock_and_unlock, .arg = &contended, .thread = true};
    weft_mutex_lock(&contended);
    body_start(&body);
    await_a_waiter(&contended);
    weft_mutex_unlock(&contended);
    body_join(&body);
    CHECK_EQ(contended.spin, 0);
}

static void with_one_cpu(void)
{
    stay_on_one_cpu();
    contend();
}

static void with_unknown_cpus(void)
{
    failing_on(OS_ALLOC, 1, true);
    contend();
    failing_off();
}

static void no_spinning_on_one_cpu(void)
{
    CHECK_EQ(run_case(with_one_cpu), 0);
    CHECK_EQ(run_case(with_unknown_cpus), 0);
}

/* The calls. */

static void use_alone(void *arg)
{
    static weft_mutex zeroed;
    weft_mutex mutex = WEFT_MUTEX_INIT;
    CHECK_EQ(memcmp(&zeroed, &mutex, sizeof mutex), 0);
    set_errno(77);
    for (int i = 0; i < 3; i++) {
        weft_mutex_lock(&mutex);
        CHECK_EQ(weft_mutex_try_lock(&mutex), -EBUSY);
        CHECK_EQ(weft_mutex_lock_until(&mutex, WEFT_NOW), -ETIMEDOUT);
        CHECK_EQ(weft_mutex_lock_until(&mutex, -5), -ETIMEDOUT);
        weft_mutex_unlock(&mutex);
        CHECK_EQ(weft_mutex_try_lock(&mutex), 0);
        weft_mutex_unlock(&mutex);
        CHECK_EQ(weft_mutex_lock_until(&mutex, WEFT_NOW), 0);
        weft_mutex_unlock(&mutex);
        CHECK_EQ(weft_mutex_lock_until(&mutex, WEFT_NEVER), 0);
        weft_mutex_unlock(&mutex);
        CHECK_EQ(word_of(&mutex), FREE);
    }
    weft_mutex_destroy(&mutex);
    CHECK_EQ(memcmp(&zeroed, &mutex, sizeof mutex), 0);
    CHECK_EQ(get_errno(), 77);
}

/* Exclusion. */

enum { BODIES = 6 };

static struct {
    weft_mutex mutex;
    int64_t count; /* plain: the mutex orders it */
    int inside;
} shared;

static void count_up(void *arg)
{
    for (int64_t i = test_scale(20000); i > 0; i--) {
        if (i % 3 != 0)
            weft_mutex_lock(&shared.mutex);
        else
            CHECK_EQ(weft_mutex_lock_until(&shared.mutex, weft_after(1000 * WEFT_S)), 0);
        CHECK_EQ(shared.inside++, 0);
        shared.count++;
        if (i % 64 == 0)
            weft_yield(); /* another body finds it locked, and queues */
        shared.inside--;
        weft_mutex_unlock(&shared.mutex);
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
        CHECK_EQ(shared.count, BODIES * test_scale(20000));
        CHECK_EQ(word_of(&shared.mutex), FREE);
    }
    weft_mutex_destroy(&shared.mutex);
}

/* Two threads that try to lock. */

static struct {
    weft_mutex mutex;
    int64_t taken; /* plain: the mutex orders it */
    atomic_u32 ready;
} tried;

static void try_often(void *arg)
{
    int64_t *count = arg;
    atomic_u32_add_seq_cst(&tried.ready, 1);
    while (atomic_u32_load_acquire(&tried.ready) < 2)
        cpu_relax();
    for (int64_t i = test_scale(200000); i > 0; i--) {
        if (weft_mutex_try_lock(&tried.mutex) != 0)
            continue;
        ++*count;
        ++tried.taken;
        weft_mutex_unlock(&tried.mutex);
    }
}

static void two_try(void)
{
    int64_t counts[2] = {0, 0};
    struct body bodies[2];
    memset(&tried, 0, sizeof tried);
    for (int i = 0; i < 2; i++)
        bodies[i] = (struct body){.function = try_often, .arg = &counts[i], .thread = true};
    bodies_run(bodies, 2);
    CHECK_EQ(tried.taken, counts[0] + counts[1]);
}

/* Deadlines. */

static weft_mutex held;

static void give_up(void *arg)
{
    for (int i = 0; i < 3; i++) {
        int64_t deadline = weft_after(300 * WEFT_US);
        CHECK_EQ(weft_mutex_lock_until(&held, deadline), -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
    }
    CHECK_EQ(weft_mutex_lock_until(&held, 1), -ETIMEDOUT); /* in the past, and not WEFT_NOW */
}

static void hold_against(void *arg)
{
    for (int thread = 0; thread < 2; thread++) {
        weft_mutex_lock(&held);
        body_run(give_up, NULL, thread);
        CHECK(!(word_of(&held) & WAITERS)); /* the waiter has left no trace */
        weft_mutex_unlock(&held);
        CHECK_EQ(word_of(&held), FREE);
        body_run(lock_and_unlock, &held, thread);
    }
}

/* A waiter with deadlines gives up again and again, beside one without: that one gets the mutex. */

static atomic_u32 enough;

static void give_up_often(void *arg)
{
    while (!atomic_u32_load_acquire(&enough))
        give_up(arg);
}

static void giving_up_harms_no_other(void)
{
    for (int kinds = 0; kinds < 4; kinds++) {
        struct body staying = {.function = lock_and_unlock, .arg = &held, .thread = kinds & 1};
        struct body leaving = {.function = give_up_often, .thread = kinds & 2};
        atomic_u32_store_relaxed(&enough, 0);
        weft_mutex_lock(&held);
        body_start(&leaving);
        await_a_waiter(&held);
        body_start(&staying);
        atomic_u32_store_release(&enough, 1);
        body_join(&leaving);
        await_a_waiter(&held);
        weft_mutex_unlock(&held);
        body_join(&staying);
        CHECK_EQ(word_of(&held), FREE);
    }
}

/* An unlock after the first waiter has given up, and before it has left, wakes the next one. */

static void queue_lock(weft_mutex *mutex)
{
    while (atomic_u32_or_seq_cst((atomic_u32 *)(void *)&mutex->word, QUEUE) & QUEUE)
        weft_yield();
}

static void queue_unlock(weft_mutex *mutex)
{
    atomic_u32_and_release((atomic_u32 *)(void *)&mutex->word, ~(uint32_t)QUEUE);
}

static void await_queue(weft_mutex *mutex, int count)
{
    for (int length = -1; length != count;) {
        queue_lock(mutex);
        length = list_length(&mutex->waiters);
        queue_unlock(mutex);
        weft_yield();
    }
}

static void lock_late(void *arg)
{
    CHECK_EQ(weft_mutex_lock_until(&held, weft_after(1000 * WEFT_S)), -ETIMEDOUT);
}

static void an_unlock_passes_over_one_that_gave_up(void)
{
    struct body first = {.function = lock_late, .thread = true};
    struct body second = {.function = lock_and_unlock, .arg = &held};
    weft_mutex_lock(&held);
    body_start(&first);
    await_queue(&held, 1);
    body_start(&second);
    await_queue(&held, 2);
    queue_lock(&held);
    struct waiter *waiter = held.waiters;
    CHECK(waiter_claim(waiter, -ETIMEDOUT)); /* as the clock does */
    queue_unlock(&held);
    weft_mutex_unlock(&held);
    body_join(&second);
    wake_ended(waiter);
    body_join(&first);
    CHECK_EQ(word_of(&held), FREE);
}

static void waiting_needs_no_memory(void)
{
    struct body body = {.function = lock_and_unlock, .arg = &held, .thread = true};
    weft_mutex_lock(&held);
    weft__os_fail(OS_ALLOC, 1, true);
    body_start(&body);
    await_a_waiter(&held);
    weft_mutex_unlock(&held);
    body_join(&body);
    weft__os_fail(OS_ALLOC, 0, false);
}

/* Starvation. On one processor the hog's yield is the only time at which others run, and then the
 * hog has the mutex: without starvation mode no other fiber ever gets it. */

enum { STARVED = 3, ROUNDS_AT_MOST = 1000 };

static struct {
    weft_mutex mutex;
    atomic_u32 waiting, served;
    int order[STARVED];
    int64_t since[STARVED], waited[STARVED];
} hog;

static void be_starved(void *arg)
{
    int self = *(int *)arg;
    hog.since[self] = weft_now();
    atomic_u32_add_seq_cst(&hog.waiting, 1);
    weft_mutex_lock(&hog.mutex);
    hog.waited[self] = weft_now() - hog.since[self];
    hog.order[atomic_u32_add_seq_cst(&hog.served, 1)] = self;
    weft_mutex_unlock(&hog.mutex);
}

static void be_a_hog(void *arg)
{
    static int numbers[STARVED] = {0, 1, 2};
    weft_fiber *fibers[STARVED];
    weft_mutex_lock(&hog.mutex);
    for (int i = 0; i < STARVED; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], be_starved, &numbers[i], NULL), 0);
        while (atomic_u32_load_relaxed(&hog.waiting) != (uint32_t)i + 1)
            weft_yield(); /* in this order */
    }
    int64_t rounds = 0, overdue = 0;
    while (atomic_u32_load_relaxed(&hog.served) < STARVED) {
        weft_mutex_unlock(&hog.mutex);
        weft_mutex_lock(&hog.mutex);
        weft_yield();
        rounds++;
        if (weft_now() > hog.since[STARVED - 1] + WEFT_MS)
            CHECK(overdue++ < ROUNDS_AT_MOST);
    }
    weft_mutex_unlock(&hog.mutex);
    for (int i = 0; i < STARVED; i++) {
        CHECK_EQ(weft_join(fibers[i]), 0);
        CHECK_EQ(hog.order[i], i);
        printf("  waiter %d was served after %lld us\n", i, (long long)(hog.waited[i] / WEFT_US));
    }
    printf("  while the hog had it %lld times, %lld of them after 1 ms\n", (long long)rounds,
           (long long)overdue);
    CHECK_EQ(word_of(&hog.mutex), FREE);
}

static void no_waiter_starves(void)
{
    on_processors(1, be_a_hog, NULL);
}

/* Starvation of threads, for the figure: threads get the mutex by luck as well. */

static atomic_u32 thread_served;

static void hog_in_thread(void *arg)
{
    atomic_u32 *rounds = arg;
    while (!atomic_u32_load_relaxed(&thread_served)) {
        weft_mutex_lock(&held);
        int64_t until = weft_now() + 20 * WEFT_US;
        while (weft_now() < until)
            cpu_relax();
        weft_mutex_unlock(&held);
        atomic_u32_add_relaxed(rounds, 1);
    }
}

static void threads_do_not_starve(void)
{
    atomic_u32 rounds = {0};
    struct body body = {.function = hog_in_thread, .arg = &rounds, .thread = true};
    atomic_u32_store_relaxed(&thread_served, 0);
    body_start(&body);
    int64_t longest = 0;
    for (int64_t i = test_scale(50); i > 0; i--) {
        uint32_t before = atomic_u32_load_relaxed(&rounds);
        while (atomic_u32_load_relaxed(&rounds) == before)
            weft_yield();
        int64_t since = weft_now();
        weft_mutex_lock(&held);
        int64_t waited = weft_now() - since;
        longest = waited > longest ? waited : longest;
        weft_mutex_unlock(&held);
    }
    atomic_u32_store_relaxed(&thread_served, 1);
    body_join(&body);
    printf("  longest wait %lld us, the hog had it %u times\n", (long long)(longest / WEFT_US),
           atomic_u32_load_relaxed(&rounds));
    CHECK_EQ(word_of(&held), FREE);
}

/* The end of a mutex: the last user frees it right after its unlock. */

struct counted {
    weft_mutex mutex;
    int users; /* under the mutex */
};

static void use_and_drop(void *arg)
{
    struct counted *object = arg;
    for (int i = 0; i < 3; i++) {
        weft_mutex_lock(&object->mutex);
        weft_mutex_unlock(&object->mutex);
    }
    weft_mutex_lock(&object->mutex);
    bool last = --object->users == 0;
    weft_mutex_unlock(&object->mutex);
    if (last)
        scrap(object, sizeof *object);
}

static void not_touched_after_unlock(void)
{
    for (int64_t round = test_scale(2000); round > 0; round--) {
        struct counted object = {WEFT_MUTEX_INIT, 4};
        struct body bodies[4];
        for (int i = 0; i < 4; i++)
            bodies[i] = (struct body){
                .function = use_and_drop, .arg = &object, .thread = round % 16 == 0 && i % 2};
        bodies_run(bodies, 4);
        check_scrapped(&object, sizeof object);
    }
}

/* The other user tries again and again, so that the unlock finds it in the list, or just out of
 * it. */

static void ask_and_drop(void *arg)
{
    struct counted *object = arg;
    while (weft_mutex_lock_until(&object->mutex, 1) != 0) /* in the past, but not WEFT_NOW */
        ;
    bool last = --object->users == 0;
    weft_mutex_unlock(&object->mutex);
    if (last)
        scrap(object, sizeof *object);
}

static void not_touched_after_unlock_and_deadline(void)
{
    for (int64_t round = test_scale(600); round > 0; round--) {
        struct counted object = {WEFT_MUTEX_INIT, 2};
        struct body body = {.function = ask_and_drop, .arg = &object, .thread = round % 16 == 0};
        weft_mutex_lock(&object.mutex);
        body_start(&body);
        await_a_waiter(&object.mutex);
        for (int64_t i = round % 100; i > 0; i--)
            cpu_relax();
        object.users--;
        weft_mutex_unlock(&object.mutex);
        body_join(&body);
        check_scrapped(&object, sizeof object);
    }
}

/* A forked child. */

static weft_mutex mine, others;

static void in_child(void)
{
    CHECK_EQ(weft_mutex_try_lock(&others), -EBUSY);
    CHECK_EQ(weft_mutex_lock_until(&others, weft_after(WEFT_S)), -ECHILD);
    CHECK_EQ(weft_mutex_lock_until(&others, WEFT_NEVER), -ECHILD);
    weft_mutex_unlock(&mine); /* its waiter is in the parent */
    weft_mutex_lock(&mine);
    weft_mutex_unlock(&mine);
    weft_mutex_destroy(&mine);
    CHECK_ABORTS("weft: a mutex was locked when the process was forked", weft_mutex_lock(&others));
}

static void lock_it(void *mutex)
{
    weft_mutex_lock(mutex);
}

static void unlock_it(void *mutex)
{
    weft_mutex_unlock(mutex);
}

static void a_forked_child_does_not_hang(void)
{
    struct fork_lock scene = {.lock = lock_it, .unlock = unlock_it, .object = &others};
    for (int thread = 0; thread < 2; thread++) {
        struct body waiter = {.function = lock_and_unlock, .arg = &mine};
        weft_mutex_lock(&mine);
        body_start(&waiter);
        await_a_waiter(&mine);
        fork_while_held(scene, thread, in_child);
        weft_mutex_unlock(&mine);
        body_join(&waiter);
    }
}

/* A waiter was woken, and has not run yet, when its mutex is taken again. */
static weft_mutex taken;

static void use_taken_in_child(void)
{
    CHECK_EQ(weft_mutex_lock_until(&taken, weft_after(WEFT_S)), -ECHILD);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_mutex_try_lock(&taken), -EBUSY);
        weft_mutex_unlock(&taken);
        weft_mutex_lock(&taken);
    }
    weft_mutex_unlock(&taken);
    weft_mutex_destroy(&taken);
}

static void fork_while_one_is_woken(void *arg)
{
    struct body waiter = {.function = lock_and_unlock, .arg = &taken}, waiters[] = {waiter, waiter};
    weft_mutex_lock(&taken);
    for (int i = 0; i < 2; i++)
        body_start(&waiters[i]);
    for (int i = 0; i < 10; i++)
        weft_yield(); /* both have run */
    weft_mutex_unlock(&taken);
    weft_mutex_lock(&taken);
    in_fork(use_taken_in_child);
    weft_mutex_unlock(&taken);
    for (int i = 0; i < 2; i++)
        body_join(&waiters[i]);
}

static void a_forked_child_does_not_wait_for_one_that_is_woken(void)
{
    on_one_machine(fork_while_one_is_woken, NULL);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN_PLAIN(debug_builds_check_the_owner, "a child process that must die");
    RUN_PLAIN(no_spinning_on_one_cpu, "a child process");
    RUN_EVERYWHERE(use_alone);
    RUN_BOTH(excludes);
    RUN_PLAIN(two_try, "about plain threads");
    RUN_EVERYWHERE(hold_against);
    RUN_BOTH(giving_up_harms_no_other);
    RUN_BOTH(an_unlock_passes_over_one_that_gave_up);
    RUN_PLAIN(waiting_needs_no_memory, "a fiber cannot start without memory");
    RUN_PLAIN(no_waiter_starves, "holds a processor while others run on another one");
    RUN_PLAIN(threads_do_not_starve, "about plain threads");
    RUN_BOTH(not_touched_after_unlock);
    RUN_BOTH(not_touched_after_unlock_and_deadline);
    RUN_PLAIN(a_forked_child_does_not_hang, "forks");
    RUN_PLAIN(a_forked_child_does_not_wait_for_one_that_is_woken, "forks");
    return 0;
}
