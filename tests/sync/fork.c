/*
 * fork.c: the calls of this floor in a forked child, and functions of the program that fork.
 *
 * If a function that weft calls forks, the child goes on from there: it returns through weft, which
 * must not access what belongs to the parent. A child that comes to the end of its fiber or thread
 * exits with 0. Other tests fork while the latch of an object is held.
 */
#include <pthread.h>
#include <weft/test.h>

#include "bodies.h"
#include "dying.h"
#include "everywhere.h"
#include "failing.h"
#include "seeds.h"
#include "system.h"

static pid_t parent_of_all;

static bool in_child(void)
{
    return getpid() != parent_of_all;
}

/* Forks, and in the parent waits until the child has ended well. */
static void fork_and_go_on(void)
{
    parent_of_all = getpid();
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        return;
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

/* once: its waiter is not in the child. */

static weft_once once = WEFT_ONCE_INIT;
static int calls;

static void do_nothing(void *arg)
{
}

static void wait_for_once(void *arg)
{
    weft_once_do(&once, do_nothing, arg);
}

static void fork_once(void *arg)
{
    weft_fiber **other = arg;
    calls++;
    CHECK_EQ(weft_spawn(other, wait_for_once, NULL, NULL), 0);
    await_parked(*other);
    fork_and_go_on();
}

static void do_once(void *arg)
{
    weft_fiber *other;
    calls = 0;
    weft_once_do(&once, fork_once, &other);
    weft_once_do(&once, fork_once, &other); /* it is done, in the child too */
    CHECK_EQ(calls, 1);
    if (in_child())
        return;
    CHECK_EQ(weft_join(other), 0);
}

static void once_is_done_in_both(void)
{
    once = (weft_once)WEFT_ONCE_INIT;
    on_processors(1, do_once, NULL);
}

/* A group: the child does not count in it. */

static int fork_in_group(void *arg)
{
    fork_and_go_on();
    return in_child() ? -EIO : *(int *)arg;
}

static void a_function_of_a_group_forks(void)
{
    weft_group *group;
    int error = -E2BIG;
    CHECK_EQ(weft_group_open(&group, NULL), 0);
    CHECK_EQ(weft_group_go(group, fork_in_group, &error), 0);
    CHECK_EQ(group_error(group), -E2BIG);
    CHECK_EQ(weft_group_close(group), -E2BIG);
}

/* An object pool: the parent destroys the rest of the objects. */

static int destroyed;

static void fork_and_destroy(void *object, void *arg)
{
    if (destroyed++ == 0)
        fork_and_go_on();
}

static void close_pool(void *arg)
{
    enum { OBJECTS = 5 };
    weft_object_pool *pool;
    void *objects[OBJECTS];
    weft_object_pool_options options = {.size = 8, .destroy = fork_and_destroy};
    destroyed = 0;
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    for (int i = 0; i < OBJECTS; i++)
        CHECK_EQ(weft_object_pool_get(pool, &objects[i]), 0);
    for (int i = 0; i < OBJECTS; i++)
        weft_object_pool_put(pool, objects[i]);
    int error = weft_object_pool_close(pool);
    CHECK_EQ(destroyed, in_child() ? 1 : OBJECTS);
    CHECK(in_child() || error == 0);
}

static void destroying_an_object_forks(void)
{
    on_processors(1, close_pool, NULL);
}

/* A timer. */

static atomic_u32 fired;

static void fork_in_timer(void *arg)
{
    fork_and_go_on();
    if (!in_child())
        atomic_u32_add_seq_cst(&fired, 1);
}

static void a_timer_forks(void)
{
    weft_timer *timer;
    atomic_u32_store_relaxed(&fired, 0);
    CHECK_EQ(weft_timer_open(&timer, fork_in_timer, NULL), 0);
    CHECK_EQ(weft_timer_start(timer, WEFT_NOW, 0), 0);
    await(&fired, 1);
    CHECK_EQ(weft_timer_close(timer), 0);
}

/* A fiber with a context, which it is bound to when it ends. */

static void fork_bound(void *arg)
{
    CHECK(weft_context_current() != NULL);
    fork_and_go_on();
}

static void a_bound_fiber_forks(void)
{
    weft_fiber *fiber;
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    CHECK_EQ(weft_spawn(&fiber, fork_bound, NULL, &(weft_spawn_options){.context = context}), 0);
    CHECK_EQ(weft_join(fiber), 0);
    weft_context_close(context);
}

/* The destructor of a thread's value, at the end of the thread. */

static atomic_u32 ended;

static void fork_at_end(void *value)
{
    CHECK_PTR(value, &ended);
    fork_and_go_on();
    if (!in_child())
        atomic_u32_store_release(&ended, 1);
}

static void *set_and_end(void *key)
{
    CHECK_EQ(weft_local_set(*(weft_local_key *)key, &ended), 0);
    return NULL;
}

static void a_destructor_forks(void)
{
    pthread_t thread;
    weft_local_key key;
    atomic_u32_store_relaxed(&ended, 0);
    CHECK_EQ(weft_local_create(&key, fork_at_end), 0);
    CHECK_EQ(pthread_create(&thread, NULL, set_and_end, &key), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ended), 1);
    CHECK_EQ(weft_local_delete(key), 0);
}

/* A thread that the child does not have holds the latch of an object when the process is forked:
 * the child waits for a moment, and goes on. */

static weft_sem sem;

static void run_runtime(void)
{
    body_run(do_nothing, NULL, false);
}

static void use_sem(void)
{
    CHECK_EQ(weft_sem_try_acquire(&sem, 1), 0);
    CHECK_EQ(weft_sem_available(&sem), 1);
}

static void a_held_latch_does_not_hang(void)
{
    run_runtime();
    CHECK_EQ(weft_sem_init(&sem, 2), 0);
    object_latch_acquire(&sem.latch);
    in_fork(use_sem);
    object_latch_release(&sem.latch);
    CHECK_EQ(weft_sem_available(&sem), 2);
}

/* The child waits for a latch that is held by a thread of its own. */

static atomic_u32 held;

static void *hold_for_a_moment(void *arg)
{
    object_latch_acquire(&sem.latch);
    atomic_u32_store_release(&held, 1);
    usleep(300);
    object_latch_release(&sem.latch);
    return arg;
}

static void wait_for_thread(void)
{
    pthread_t thread;
    CHECK_EQ(weft_sem_init(&sem, 1), 0);
    CHECK_EQ(pthread_create(&thread, NULL, hold_for_a_moment, NULL), 0);
    await(&held, 1);
    CHECK_EQ(weft_sem_try_acquire(&sem, 1), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_sem_available(&sem), 0);
}

static void a_thread_of_a_child_is_waited_for(void)
{
    run_runtime();
    in_fork(wait_for_thread);
}

/* A latch that is free at the second try. */
static void find_it_free(void)
{
    uint32_t latch = 0;
    struct rusage before, after;
    CHECK_EQ(getrusage(RUSAGE_THREAD, &before), 0);
    weft__object_latch_slow(object_latch_of(&latch));
    CHECK_EQ(getrusage(RUSAGE_THREAD, &after), 0);
    CHECK_EQ(latch, 1);
    CHECK(after.ru_nvcsw - before.ru_nvcsw < 50); /* it has not slept until it would give up */
}

static void a_free_latch_is_taken_at_once(void)
{
    run_runtime();
    in_fork(find_it_free);
}

/* Contexts, groups and tickers of the parent are used in the child, and new ones made. What the
 * child does changes nothing in the parent. */

static int poisoned;
static void *const poison = &poisoned;

static weft_context *context;
static weft_group *group;
static weft_ticker *ticker;

static int sleep_on(void *arg)
{
    return weft_sleep_until(WEFT_NEVER);
}

static void contexts_in_child(void)
{
    weft_context *made = poison;
    weft_chan *done = poison;
    CHECK_EQ(weft_context_open(&made, NULL, NULL), -ECHILD);
    CHECK_EQ(weft_context_bind(context, &made), -ECHILD);
    CHECK_PTR(made, poison);
    CHECK_EQ(weft_context_done(context, &done), -ECHILD);
    CHECK_PTR(done, poison);
    CHECK_EQ(weft_context_error(context), 0);
    weft_context_cancel(context);
    weft_context_close(context);
}

static void groups_in_child(void)
{
    weft_group *made = poison;
    CHECK_EQ(weft_group_open(&made, NULL), -ECHILD);
    CHECK_PTR(made, poison);
    CHECK_EQ(weft_group_go(group, sleep_on, NULL), -ECHILD);
    CHECK_EQ(weft_group_try_go(group, sleep_on, NULL), -ECHILD);
    int error = 77, number = 0;
    weft_chan *done = poison;
    CHECK_EQ(weft_group_go_copy(group, sleep_on, &number, sizeof number), -ECHILD);
    CHECK_EQ(weft_group_wait(group, &error), -ECHILD);
    CHECK_EQ(error, 77);
    CHECK_EQ(weft_group_set_limit(group, 1), -ECHILD);
    CHECK_EQ(weft_group_done(group, &done), -ECHILD);
    CHECK_PTR(done, poison);
    CHECK_EQ(weft_group_close(group), -ECHILD);
    weft_group_cancel(group);
}

static void tickers_in_child(void)
{
    weft_ticker *made = poison;
    CHECK_EQ(weft_ticker_open(&made, WEFT_NOW, 0), -ECHILD);
    CHECK_PTR(made, poison);
    CHECK_EQ(weft_ticker_reset(ticker, WEFT_NOW, 0), -ECHILD);
    CHECK_EQ(weft_ticker_stop(ticker), -ECHILD);
    CHECK_EQ(weft_ticker_close(ticker), -ECHILD);
}

static void objects_of_the_parent(void)
{
    weft_context_options options = {.timeout = 1000 * WEFT_S};
    CHECK_EQ(weft_context_open(&context, NULL, &options), 0);
    CHECK_EQ(weft_group_open(&group, NULL), 0);
    CHECK_EQ(weft_group_go(group, sleep_on, NULL), 0);
    CHECK_EQ(weft_ticker_open(&ticker, WEFT_NEVER, 0), 0);
    in_fork(contexts_in_child);
    in_fork(groups_in_child);
    in_fork(tickers_in_child);
    CHECK_EQ(weft_context_error(context), 0);
    weft_context_close(context);
    CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
    weft_group_cancel(group);
    CHECK_EQ(weft_group_close(group), -ECANCELED);
    CHECK_EQ(weft_ticker_reset(ticker, WEFT_NOW, 0), 0);
    CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), NULL), 0);
    CHECK_EQ(weft_ticker_close(ticker), 0);
}

/* In the child, calls that need not wait succeed, calls that would have to wait return -ECHILD, and
 * a test run is refused. */

static void use_alone(void)
{
    weft_barrier alone;
    weft_wg wg = WEFT_WG_INIT;
    CHECK_EQ(weft_barrier_init(&alone, 1), 0);
    CHECK_EQ(weft_barrier_wait(&alone), 1);
    weft_barrier_destroy(&alone);
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    CHECK_EQ(weft_wg_wait(&wg), -ECHILD);
    CHECK_EQ(weft_wg_wait_until(&wg, WEFT_NOW), -ECHILD);
    weft_wg_done(&wg);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(weft_test_run(1, do_nothing, NULL), -ECHILD);
}

static void fork_in_run(void *arg)
{
    in_fork(use_alone);
}

static void calls_that_wait_for_no_other_work(void)
{
    run_runtime();
    in_fork(use_alone);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_test_run(1, fork_in_run, NULL), 0);
}

/* A clean-up of a panic forks: in the child the panic has no joiner to come to. */

static void fork_in_clean_up(void *arg)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        if (arg != NULL)
            failing_on(OS_ALLOC, 1, true); /* the thread cannot get a record, either */
        return;
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
}

static void panic_with_clean_up(void *arg)
{
    WEFT_DEFER(fork_in_clean_up, arg);
    weft_panic("of the parent");
}

static void recover_from(void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    weft_panic_info info;
    CHECK_EQ(weft_spawn(&fiber, function, arg, NULL), 0);
    CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NEVER), -EOWNERDEAD);
    CHECK_STR(info.message, "of the parent");
}

static void with_memory(void)
{
    recover_from(panic_with_clean_up, NULL);
}

static void without_memory(void)
{
    recover_from(panic_with_clean_up, &once);
}

static weft_deferred record;

/* The clean-up that runs last: its record is further out than all frames. */
static void panic_with_record(void *arg)
{
    weft_defer(&record, fork_in_clean_up, arg);
    record.where = UINTPTR_MAX;
    weft_panic("of the parent");
}

static void at_the_end(void)
{
    recover_from(panic_with_record, NULL);
}

static void a_clean_up_forks(void)
{
    static void (*const cases[])(void) = {with_memory, without_memory, at_the_end};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(run_case(cases[i]), 0);
        CHECK(said("in the child the panic goes nowhere: of the parent"));
    }
}

int main(void)
{
    RUN_PLAIN(a_clean_up_forks, "forks");
    RUN_PLAIN(once_is_done_in_both, "forks");
    RUN_PLAIN(a_function_of_a_group_forks, "forks");
    RUN_PLAIN(destroying_an_object_forks, "forks");
    RUN_PLAIN(a_timer_forks, "forks");
    RUN_PLAIN(a_bound_fiber_forks, "forks");
    if (WEFT_ASAN) /* it reports what the parent owns as leaks of the child */
        printf("a_destructor_forks left out: sanitizer\n");
    else
        RUN_PLAIN(a_destructor_forks, "forks");
    RUN_PLAIN(a_held_latch_does_not_hang, "forks");
    RUN_PLAIN(a_free_latch_is_taken_at_once, "forks");
    if (WEFT_ASAN || WEFT_TSAN || test_emulated())
        printf("a_thread_of_a_child_is_waited_for left out: a sanitizer, and an emulator, has no "
               "threads there\n");
    else
        RUN_PLAIN(a_thread_of_a_child_is_waited_for, "forks");
    RUN_PLAIN(objects_of_the_parent, "forks");
    RUN_PLAIN(calls_that_wait_for_no_other_work, "forks");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
