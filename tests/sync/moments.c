/*
 * sync_moments.c: moments that a schedule rarely has, made by hand: somebody is inside an object while others come;
 * or by threads that meet often enough.
 */
#include <pthread.h>
#include <sched.h>

#include "bodies.h"
#include "dying.h"
#include "everywhere.h"
#include "failing.h"
#include "system.h"

/* The bits of the words, as wg.c and once.c have them. */
enum {
    WG_LOCK = 1,
    WG_WAITERS = 2,
    WG_COUNT_SHIFT = 32,
    ONCE_RUNNING = 1,
    ONCE_DONE = 2,
    ONCE_QUEUE = 4
};

/* Wait groups. */

static weft_wg wg;
static atomic_u32 waited;

static atomic_u64 *wg_word(void)
{
    return (atomic_u64 *)(void *)&wg.word;
}

static void *wait_for_wg(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_wg_wait(&wg), 0);
    atomic_u32_store_release(&waited, 1);
    return NULL;
}

static void *take_one(void *arg)
{
    (void)arg;
    weft_wg_done(&wg);
    return NULL;
}

static pthread_t start_waiter(int64_t count)
{
    pthread_t waiter;
    CHECK_EQ(weft_wg_init(&wg, count), 0);
    atomic_u32_store_relaxed(&waited, 0);
    CHECK_EQ(pthread_create(&waiter, NULL, wait_for_wg, NULL), 0);
    while (!(atomic_u64_load_acquire(wg_word()) & WG_WAITERS))
        sched_yield();
    return waiter;
}

static void hold_wg(void)
{
    for (;;) {
        uint64_t before = atomic_u64_load_relaxed(wg_word()) & ~(uint64_t)WG_LOCK;
        if (atomic_u64_cas_acquire(wg_word(), &before, before | WG_LOCK))
            return;
        sched_yield();
    }
}

/* The count comes to zero, and is raised again before those who wait are woken: they wait on. */
static void raised_before_the_waking(void)
{
    pthread_t waiter = start_waiter(1), other;
    hold_wg();
    CHECK_EQ(pthread_create(&other, NULL, take_one, NULL), 0);
    while (atomic_u64_load_acquire(wg_word()) >> WG_COUNT_SHIFT != 0)
        sched_yield();
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    atomic_u64_and_release(wg_word(), ~(uint64_t)WG_LOCK);
    CHECK_EQ(pthread_join(other, NULL), 0);
    CHECK(atomic_u64_load_acquire(wg_word()) & WG_WAITERS);
    CHECK_EQ(atomic_u32_load_acquire(&waited), 0);
    weft_wg_done(&wg);
    CHECK_EQ(pthread_join(waiter, NULL), 0);
}

/* What is taken away by a negative number wakes as well. */
static void taken_away_at_once(void)
{
    pthread_t waiter = start_waiter(5);
    CHECK_EQ(weft_wg_add(&wg, -4), 0);
    CHECK_EQ(atomic_u32_load_acquire(&waited), 0);
    CHECK_EQ(weft_wg_add(&wg, -1), 0);
    CHECK_EQ(pthread_join(waiter, NULL), 0);
}

/* The count is zero, and those who waited are yet to be told: who only asks finds it done. */
static void asked_before_the_waking(void)
{
    CHECK_EQ(weft_wg_init(&wg, 0), 0);
    atomic_u64_store_release(wg_word(), WG_WAITERS);
    CHECK_EQ(weft_wg_wait_until(&wg, WEFT_NOW), 0);
}

/* A once that runs, and whose line somebody holds. */

static weft_once once;
static atomic_u32 came;

static void nothing(void *arg)
{
    (void)arg;
}

static void *do_once(void *arg)
{
    atomic_u32_store_release(&came, 1);
    weft_once_do(&once, nothing, arg);
    atomic_u32_store_release(&came, 2);
    return NULL;
}

static void a_line_is_held(void)
{
    pthread_t thread;
    atomic_u32 *word = (atomic_u32 *)(void *)&once.word;
    once = (weft_once)WEFT_ONCE_INIT;
    atomic_u32_store_release(word, ONCE_RUNNING | ONCE_QUEUE);
    atomic_u32_store_relaxed(&came, 0);
    CHECK_EQ(pthread_create(&thread, NULL, do_once, NULL), 0);
    while (atomic_u32_load_acquire(&came) == 0)
        sched_yield();
    for (int i = 0; i < 1000; i++) {
        sched_yield();
        CHECK_EQ(atomic_u32_load_acquire(&came), 1);
    }
    atomic_u32_store_release(word, ONCE_DONE);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(atomic_u32_load_acquire(&came), 2);
}

/* Two threads that meet. */

enum { ROUNDS = 200000 };
static weft_mutex tried;
static int64_t both[2];
static atomic_u32 ready;

static void meet(void)
{
    atomic_u32_add_seq_cst(&ready, 1);
    while (atomic_u32_load_acquire(&ready) < 2)
        cpu_relax();
}

static void *try_often(void *arg)
{
    int64_t *count = arg;
    meet();
    for (int64_t i = test_scale(ROUNDS); i > 0; i--) {
        if (weft_mutex_try_lock(&tried) != 0)
            continue;
        ++*count;
        ++both[1];
        weft_mutex_unlock(&tried);
    }
    return NULL;
}

static void *add_often(void *arg)
{
    (void)arg;
    meet();
    for (int64_t i = test_scale(ROUNDS); i > 0; i--) {
        CHECK_EQ(weft_wg_add(&wg, 2), 0);
        CHECK_EQ(weft_wg_add(&wg, -1), 0);
    }
    return NULL;
}

static void run_two(void *(*function)(void *), void *first, void *second)
{
    pthread_t threads[2];
    atomic_u32_store_relaxed(&ready, 0);
    CHECK_EQ(pthread_create(&threads[0], NULL, function, first), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, function, second), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void two_try(void)
{
    int64_t counts[2] = {0, 0};
    tried = (weft_mutex)WEFT_MUTEX_INIT;
    both[1] = 0;
    run_two(try_often, &counts[0], &counts[1]);
    CHECK_EQ(both[1], counts[0] + counts[1]);
}

static void two_add(void)
{
    CHECK_EQ(weft_wg_init(&wg, 0), 0);
    run_two(add_often, NULL, NULL);
    CHECK_EQ(weft_wg_count(&wg), 2 * test_scale(ROUNDS));
}

/* A mutex on a machine with one CPU, or of which that is not known: nobody spins for it. */

static weft_mutex contended;

static void *lock_contended(void *arg)
{
    (void)arg;
    weft_mutex_lock(&contended);
    weft_mutex_unlock(&contended);
    return NULL;
}

static void contend(void)
{
    pthread_t thread;
    const atomic_u32 *word = (const atomic_u32 *)(const void *)&contended.word;
    weft_mutex_lock(&contended);
    uint32_t locked = atomic_u32_load_acquire(word);
    CHECK_EQ(pthread_create(&thread, NULL, lock_contended, NULL), 0);
    while (atomic_u32_load_acquire(word) == locked) /* until it is seen that somebody waits */
        sched_yield();
    weft_mutex_unlock(&contended);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(contended.spin, 0);
}

static void with_one_cpu(void)
{
    cpu_set_t allowed, one;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    contend();
}

static void with_unknown_cpus(void)
{
    failing_on(OS_ALLOC, 1, true);
    contend();
    failing_off();
}

static void nobody_spins_alone(void)
{
    CHECK_EQ(run_case(with_one_cpu), 0);
    CHECK_EQ(run_case(with_unknown_cpus), 0);
}

/* A forked child may have threads of its own: what one of them holds it gives back. */

static weft_sem sem;
static atomic_u32 inside;

static void *hold_for_a_moment(void *arg)
{
    guard_acquire(&sem.latch);
    atomic_u32_store_release(&inside, 1);
    usleep(300);
    guard_release(&sem.latch);
    return arg;
}

static void wait_for_thread(void)
{
    pthread_t thread;
    CHECK_EQ(weft_sem_init(&sem, 1), 0);
    CHECK_EQ(pthread_create(&thread, NULL, hold_for_a_moment, NULL), 0);
    await(&inside, 1);
    CHECK_EQ(weft_sem_try_acquire(&sem, 1), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_sem_available(&sem), 0);
}

/* Just when it is looked at again. */
static void find_it_given_back(void)
{
    uint32_t guard = 0;
    struct rusage before, after;
    CHECK_EQ(getrusage(RUSAGE_THREAD, &before), 0);
    weft__guard_slow(guard_of(&guard));
    CHECK_EQ(getrusage(RUSAGE_THREAD, &after), 0);
    CHECK_EQ(guard, 1);
    CHECK(after.ru_nvcsw - before.ru_nvcsw < 50); /* it has not napped until it gave up */
}

static void a_guard_is_given_back_in_a_child(void)
{
    body_run(nothing, NULL, false); /* the runtime runs */
    in_fork(find_it_given_back);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void a_thread_of_a_child_is_waited_for(void)
{
    body_run(nothing, NULL, false); /* the runtime runs */
    in_fork(wait_for_thread);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

int main(void)
{
    RUN_PLAIN(nobody_spins_alone, "a child process");
    RUN_PLAIN(raised_before_the_waking, "about plain threads");
    RUN_PLAIN(taken_away_at_once, "about plain threads");
    RUN_PLAIN(asked_before_the_waking, "nothing to order");
    RUN_PLAIN(a_line_is_held, "about plain threads");
    RUN_PLAIN(two_try, "about plain threads");
    RUN_PLAIN(two_add, "about plain threads");
    RUN_PLAIN(a_guard_is_given_back_in_a_child, "forks");
    if (WEFT_ASAN || WEFT_TSAN || test_emulated())
        printf("a_thread_of_a_child_is_waited_for left out: a sanitizer, and an emulator, has no "
               "threads there\n");
    else
        RUN_PLAIN(a_thread_of_a_child_is_waited_for, "forks");
    return 0;
}
