/*
 * sync_fork.c: functions of the program that weft calls fork, and the child goes on from there: it comes back through
 * weft, which must touch nothing that is the parent's. Also a fork while somebody holds what is inside an object.
 *
 * A child that comes to the end of its fiber, or thread, exits with 0.
 */
#include <pthread.h>
#include <weft/test.h>

#include "bodies.h"
#include "dying.h"
#include "everywhere.h"
#include "failing.h"
#include "seeds.h"

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

/* once: somebody waits for it, who is not in the child. */

static weft_once once = WEFT_ONCE_INIT;
static int calls;

static void do_nothing(void *arg)
{
    (void)arg;
}

static void wait_for_once(void *arg)
{
    weft_once_do(&once, do_nothing, arg);
}

static void await_parked(const weft_fiber *fiber)
{
    while (atomic_u32_load_acquire(&fiber->waiter.state) != WAITER_SOLE)
        weft_yield();
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
    (void)arg;
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

/* A group: its figures are the parent's. */

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

/* An object pool: the rest of the objects is destroyed by the parent. */

static int destroyed;

static void fork_and_destroy(void *object, void *arg)
{
    (void)object;
    (void)arg;
    if (destroyed++ == 0)
        fork_and_go_on();
}

static void close_pool(void *arg)
{
    enum { OBJECTS = 5 };
    weft_object_pool *pool;
    void *objects[OBJECTS];
    weft_object_pool_options options = {.size = 8, .destroy = fork_and_destroy};
    (void)arg;
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
    (void)arg;
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
    (void)arg;
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

/* Somebody is inside a semaphore when the process is forked: the child waits for a moment, and goes on. */

static weft_sem sem;

static void use_sem(void)
{
    CHECK_EQ(weft_sem_try_acquire(&sem, 1), 0);
    CHECK_EQ(weft_sem_available(&sem), 1);
}

static void what_is_held_inside_does_not_hang(void)
{
    weft_fiber *fiber; /* the runtime runs */
    CHECK_EQ(weft_spawn(&fiber, do_nothing, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_sem_init(&sem, 2), 0);
    guard_acquire(&sem.latch);
    in_fork(use_sem);
    guard_release(&sem.latch);
    CHECK_EQ(weft_sem_available(&sem), 2);
}

/* What waits for nobody works in the child; a test run does not. */

static void use_alone(void)
{
    weft_barrier alone;
    CHECK_EQ(weft_barrier_init(&alone, 1), 0);
    CHECK_EQ(weft_barrier_wait(&alone), 1);
    weft_barrier_destroy(&alone);
    CHECK_EQ(weft_test_run(1, do_nothing, NULL), -ECHILD);
}

static void fork_in_run(void *arg)
{
    (void)arg;
    in_fork(use_alone);
}

static void what_waits_for_nobody_works(void)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, do_nothing, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    in_fork(use_alone);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_test_run(1, fork_in_run, NULL), 0);
}

/* A clean-up of a panic forks: in the child there is nobody whom the panic could come to. */

static void fork_in_clean_up(void *arg)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        if (arg != NULL)
            failing_on(OS_ALLOC, 1, true); /* nobody can be known there, either */
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

/* One that is left to the end of the way: its record is further out than all frames. */
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
    if (WEFT_ASAN) /* which misses in the child what is the parent's */
        printf("a_destructor_forks left out: sanitizer\n");
    else
        RUN_PLAIN(a_destructor_forks, "forks");
    RUN_PLAIN(what_is_held_inside_does_not_hang, "forks");
    RUN_PLAIN(what_waits_for_nobody_works, "forks");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
