/*
 * fork.c: in the child of a process that runs weft every call fails cleanly or is harmless, and
 * none hangs; the parent goes on. The child of a process that does not run weft can use it.
 */
#include <signal.h>
#include <sys/prctl.h>

#include "base/compiler.h"
#include "bodies.h"
#include "fibers.h"
#include "system.h"

static struct {
    weft_wg gate, busy;
    weft_fiber *fiber;
    weft_timer *timer;
    weft_local_key key;
    atomic_u32 over;
    atomic_u32 yields;
} parent;

static void be_busy(void *arg)
{
    while (!atomic_u32_load_acquire(&parent.over)) {
        CHECK_EQ(weft_go(nothing, NULL), 0);
        CHECK_EQ(weft_sleep(20 * WEFT_US), 0);
        weft_yield();
        atomic_u32_add_seq_cst(&parent.yields, 1);
    }
    weft_wg_done(&parent.busy);
}

static void parent_start(void)
{
    configure(3);
    atomic_u32_store_relaxed(&parent.over, 0);
    CHECK_EQ(weft_wg_init(&parent.gate, 1), 0);
    CHECK_EQ(weft_wg_init(&parent.busy, 4), 0);
    CHECK_EQ(weft_local_create(&parent.key, NULL), 0);
    CHECK_EQ(weft_timer_open(&parent.timer, nothing, NULL), 0);
    CHECK_EQ(weft_timer_start(parent.timer, WEFT_NOW, 50 * WEFT_US), 0);
    CHECK_EQ(weft_spawn(&parent.fiber, wait_for_group, &parent.gate, NULL), 0);
    go_many(4, be_busy, NULL);
}

/* The parent goes on: its fibers still yield, and it ends cleanly. */
static void parent_stop(void)
{
    uint32_t before = atomic_u32_load_relaxed(&parent.yields);
    yield_until(&parent.yields, before + 10);
    atomic_u32_store_release(&parent.over, 1);
    CHECK_EQ(weft_wg_wait(&parent.busy), 0);
    CHECK_EQ(weft_timer_close(parent.timer), 0);
    weft_wg_done(&parent.gate);
    CHECK_EQ(weft_join(parent.fiber), 0);
    CHECK_EQ(weft_local_delete(parent.key), 0);
    shut_down();
}

/* In the child: all that the headers have. */

static void check_fibers(void)
{
    weft_fiber *poison = (weft_fiber *)(uintptr_t)0xdead, *fiber = poison;
    CHECK_EQ(weft_go(nothing, NULL), -ECHILD);
    CHECK_EQ(weft_spawn(&fiber, nothing, NULL, NULL), -ECHILD);
    CHECK_EQ(weft_spawn(&fiber, nothing, NULL, &(weft_spawn_options){.name = "x"}), -ECHILD);
    CHECK_PTR(fiber, poison);
    CHECK_EQ(weft_join(parent.fiber), -ECHILD);
    CHECK_EQ(weft_join_until(parent.fiber, WEFT_NOW), -ECHILD);
    CHECK_EQ(weft_join_until(parent.fiber, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_detach(parent.fiber), -ECHILD);
    CHECK_PTR(weft_self(), NULL);
    CHECK(weft_fiber_id(parent.fiber) != 0);
    CHECK_STR(weft_fiber_name(parent.fiber), "");
    weft_yield();
}

static void check_time(void)
{
    weft_timer *poison = (weft_timer *)(uintptr_t)0xdead, *timer = poison;
    CHECK(weft_now() > 0);
    CHECK(weft_after(WEFT_S) > weft_now());
    CHECK_EQ(weft_sleep(0), -ECHILD);
    CHECK_EQ(weft_sleep(WEFT_US), -ECHILD);
    CHECK_EQ(weft_sleep_until(WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_timer_open(&timer, nothing, NULL), -ECHILD);
    CHECK_PTR(timer, poison);
    CHECK_EQ(weft_timer_start(parent.timer, WEFT_NOW, 0), -ECHILD);
    CHECK_EQ(weft_timer_stop(parent.timer), -ECHILD);
    CHECK_EQ(weft_timer_close(parent.timer), -ECHILD);
}

static void check_rest(void)
{
    weft_wg wg = WEFT_WG_INIT;
    weft_local_key key;
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    CHECK_EQ(weft_wg_wait(&wg), -ECHILD);
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(WEFT_MS)), -ECHILD);
    weft_wg_done(&wg);
    CHECK_EQ(weft_wg_wait_until(&wg, WEFT_NOW), 0);
    weft_wg_done(&parent.gate); /* a fiber of the parent waits for it, none here */
    CHECK_EQ(weft_wg_count(&parent.gate), 0);

    CHECK_PTR(weft_local_get(parent.key), NULL);
    CHECK_EQ(weft_local_create(&key, NULL), 0);
    CHECK_EQ(weft_local_set(key, &key), -ECHILD);
    CHECK_PTR(weft_local_get(key), NULL);
    CHECK_EQ(weft_local_delete(key), 0);

    CHECK_EQ(weft_configure(NULL), -ECHILD);
    CHECK(weft_processors() >= 1);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), -ECHILD);
    CHECK_STR(weft_version(), WEFT_VERSION);
    CHECK(weft_strerror(-ECHILD)[0] != '\0');

    struct sigaction action;
    CHECK_EQ(sigaction(SIGSEGV, NULL, &action), 0);
    if (!WEFT_ASAN && !WEFT_TSAN)
        CHECK(action.sa_handler == SIG_DFL);
}

enum ending { END_EXIT, END_EXEC, END_RETURN, END_KNOWN, ENDINGS };

/* True in a child that shall just go on. */
static bool fork_once(enum ending ending)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a child that hangs ends with the test */
        check_fibers();
        check_time();
        check_rest();
        if (ending == END_EXEC) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        if (ending == END_EXIT)
            _exit(0);
        if (ending == END_KNOWN) /* weft knows the thread from here on */
            CHECK_EQ(weft_recover(nothing, NULL, NULL), 0);
        return true;
    }
    test_child_exits(child, 0);
    return false;
}

static void fork_from_main(void)
{
    parent_start();
    for (int i = 0; i < 5; i++) {
        (void)fork_once(END_EXIT);
        (void)fork_once(END_EXEC);
    }
    parent_stop();
}

static void fork_in_fiber(void *arg)
{
    int rounds = *(int *)arg;
    for (int i = 0; i < rounds; i++) {
        for (enum ending ending = 0; ending < ENDINGS; ending++)
            if (fork_once(ending))
                return; /* a child that returns from the fiber's function exits with 0 */
        CHECK(weft_self() != NULL);
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    }
}

static void fork_from_fibers(void)
{
    int rounds = 3;
    parent_start();
    run_fibers(3, fork_in_fiber, &rounds);
    parent_stop();
}

static void fork_in_thread(void *arg)
{
    (void)fork_once(END_EXIT);
}

static void fork_from_a_foreign_thread(void)
{
    parent_start();
    run_thread(fork_in_thread, NULL);
    parent_stop();
}

/* Not in use: before the first time, and after a shut-down. */

static void use_weft(void)
{
    atomic_u32 ran = {0};
    run_fiber(count_up, &ran);
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&ran), 1);
    shut_down();
}

static void a_child_may_use_weft_if_the_parent_does_not(void)
{
    in_fork(use_weft);
    use_weft();
    in_fork(use_weft);
}

/* Threads begin, end, make keys, and start and stop the runtime while others fork: no call in the
 * child waits for what they hold at that moment. */

static atomic_u32 churn_over;

static void churn_locals(void *arg)
{
    weft_local_key key;
    if (weft_local_create(&key, NULL) == 0) {
        CHECK_EQ(weft_local_set(key, &key), 0); /* weft knows the thread, until it ends */
        CHECK_EQ(weft_local_delete(key), 0);
    }
}

static void *churn_threads(void *arg)
{
    while (!atomic_u32_load_acquire(&churn_over)) {
        pthread_t thread = thread_start(thread_call, &(struct thread_call){churn_locals, NULL});
        churn_locals(NULL);
        thread_join(thread);
    }
    return NULL;
}

static void *churn_runtime(void *arg)
{
    atomic_u32 ran = {0};
    uint32_t rounds = 0;
    while (!atomic_u32_load_acquire(&churn_over)) {
        CHECK_EQ(weft_go(count_up, &ran), 0);
        shut_down();
        CHECK_EQ(atomic_u32_load_relaxed(&ran), ++rounds);
    }
    return NULL;
}

static void call_in_child(void)
{
    atomic_u32 ran = {0};
    weft_local_key key;
    CHECK(weft_processors() >= 1);
    CHECK_EQ(weft_local_create(&key, NULL), 0);
    int result = weft_local_set(key, &key);
    CHECK(result == 0 || result == -ECHILD);
    CHECK_EQ(weft_local_delete(key), 0);
    result = weft_go(count_up, &ran);
    CHECK(result == 0 || result == -ECHILD);
    bool works = result == 0;
    CHECK_EQ(weft_shutdown(WEFT_NEVER), works ? 0 : -ECHILD);
    CHECK_EQ(atomic_u32_load_relaxed(&ran), works);
}

static void nothing_held_by_others_hangs_the_child(void)
{
    static void *(*const churners[])(void *) = {churn_threads, churn_runtime};
    for (int i = 0; i < 2; i++) {
        atomic_u32_store_release(&churn_over, 0);
        pthread_t thread = thread_start(churners[i], NULL);
        for (int64_t round = test_scale(300); round > 0; round--)
            in_fork(call_in_child);
        atomic_u32_store_release(&churn_over, 1);
        thread_join(thread);
    }
}

/* With its fault report off, weft leaves the handlers of the program alone, in a child as well. */

static void check_handler(void)
{
    struct sigaction action;
    CHECK_EQ(sigaction(SIGSEGV, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_IGN);
}

static void handlers_are_left_alone(void)
{
    struct sigaction ours = {.sa_handler = SIG_IGN}, before;
    CHECK_EQ(sigaction(SIGSEGV, &ours, &before), 0);
    CHECK_EQ(weft_configure(&(weft_config){.no_fault_report = 1}), 0);
    run_fiber(nothing, NULL);
    check_handler();
    in_fork(check_handler);
    shut_down();
    check_handler();
    CHECK_EQ(weft_configure(NULL), 0);
    CHECK_EQ(sigaction(SIGSEGV, &before, NULL), 0);
}

int main(void)
{
    RUN_PLAIN(a_child_may_use_weft_if_the_parent_does_not, "forks");
    RUN_PLAIN(handlers_are_left_alone, "stops or configures the runtime");
    RUN_ALL_PLAIN("forks", fork_from_main, fork_from_fibers, fork_from_a_foreign_thread);
    /* The sanitizers and emulators themselves hold locks across a fork. */
    if (WEFT_ASAN || WEFT_TSAN || test_emulated())
        printf("nothing_held_by_others_hangs_the_child left out: sanitizer or emulator\n");
    else
        RUN_PLAIN(nothing_held_by_others_hangs_the_child, "forks");
    return 0;
}
