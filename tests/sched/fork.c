/*
 * fork.c: the child of a process that runs weft: every call fails cleanly or is harmless, none
 * hangs; the parent goes on. A fork of a process that does not run weft can use it.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "bodies.h"
#include "system.h"
#include "test.h"
#include <weft/weft.h>

static struct {
    weft_wg gate, busy;
    weft_fiber *fiber;
    weft_timer *timer;
    weft_local_key key;
    atomic_u32 over;
    atomic_u32 yields;
} parent;

static void nothing(void *arg)
{
    (void)arg;
}

static void count(void *arg)
{
    atomic_u32_add_seq_cst(arg, 1);
}

static void wait_gate(void *arg)
{
    CHECK_EQ(weft_wg_wait(arg), 0);
}

static void be_busy(void *arg)
{
    (void)arg;
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
    weft_config config = {.processors = 3};
    CHECK_EQ(weft_configure(&config), 0);
    atomic_u32_store_relaxed(&parent.over, 0);
    CHECK_EQ(weft_wg_init(&parent.gate, 1), 0);
    CHECK_EQ(weft_wg_init(&parent.busy, 4), 0);
    CHECK_EQ(weft_local_create(&parent.key, NULL), 0);
    CHECK_EQ(weft_timer_open(&parent.timer, nothing, NULL), 0);
    CHECK_EQ(weft_timer_start(parent.timer, WEFT_NOW, 50 * WEFT_US), 0);
    CHECK_EQ(weft_spawn(&parent.fiber, wait_gate, &parent.gate, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_go(be_busy, NULL), 0);
}

/* That it goes on shows by fibers that still move, and by a clean end. */
static void parent_stop(void)
{
    uint32_t before = atomic_u32_load_relaxed(&parent.yields);
    while (atomic_u32_load_acquire(&parent.yields) < before + 10)
        weft_yield();
    atomic_u32_store_release(&parent.over, 1);
    CHECK_EQ(weft_wg_wait(&parent.busy), 0);
    CHECK_EQ(weft_timer_close(parent.timer), 0);
    weft_wg_done(&parent.gate);
    CHECK_EQ(weft_join(parent.fiber), 0);
    CHECK_EQ(weft_local_delete(parent.key), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
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
    weft_wg_done(&parent.gate); /* somebody waits for it, but not here */
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
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a child that hangs goes with the test */
        check_fibers();
        check_time();
        check_rest();
        if (ending == END_EXEC) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        if (ending == END_EXIT)
            _exit(0);
        if (ending == END_KNOWN) /* weft keeps a record of its thread from there on */
            CHECK_EQ(weft_recover(nothing, NULL, NULL), 0);
        return true;
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
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
    weft_fiber *fibers[3];
    int rounds = 3;
    parent_start();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_spawn(&fibers[i], fork_in_fiber, &rounds, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    parent_stop();
}

static void *fork_in_thread(void *arg)
{
    (void)arg;
    (void)fork_once(END_EXIT);
    return NULL;
}

static void fork_from_a_strange_thread(void)
{
    pthread_t thread;
    parent_start();
    CHECK_EQ(pthread_create(&thread, NULL, fork_in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    parent_stop();
}

/* Not in use: before the first time, and after a shut-down. */

static void use_in_child(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        atomic_u32 ran = {0};
        weft_fiber *fiber;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK_EQ(weft_spawn(&fiber, count, &ran, NULL), 0);
        CHECK_EQ(weft_join(fiber), 0);
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&ran), 1);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        _exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

static void a_child_may_use_weft_if_the_parent_does_not(void)
{
    use_in_child();
    atomic_u32 ran = {0};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, count, &ran, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    use_in_child();
    CHECK_EQ(atomic_u32_load_relaxed(&ran), 1);
}

/* Threads that come, go, make keys, start and stop the runtime, while others fork: whatever they
 * hold at that moment, a call in the child must not wait for it. */

static atomic_u32 churn_over;

static void *churn_locals(void *arg)
{
    (void)arg;
    weft_local_key key;
    if (weft_local_create(&key, NULL) == 0) {
        CHECK_EQ(weft_local_set(key, &key), 0); /* the thread becomes known, and is forgotten */
        CHECK_EQ(weft_local_delete(key), 0);
    }
    return NULL;
}

static void *churn_threads(void *arg)
{
    (void)arg;
    while (!atomic_u32_load_acquire(&churn_over)) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, churn_locals, NULL), 0);
        (void)churn_locals(NULL);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    return NULL;
}

static void *churn_runtime(void *arg)
{
    atomic_u32 ran = {0};
    uint32_t rounds = 0;
    (void)arg;
    while (!atomic_u32_load_acquire(&churn_over)) {
        CHECK_EQ(weft_go(count, &ran), 0);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
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
    result = weft_go(count, &ran);
    CHECK(result == 0 || result == -ECHILD);
    bool works = result == 0;
    CHECK_EQ(weft_shutdown(WEFT_NEVER), works ? 0 : -ECHILD);
    CHECK_EQ(atomic_u32_load_relaxed(&ran), works);
}

static void nothing_held_by_others_hangs_the_child(void)
{
    static void *(*const churners[])(void *) = {churn_threads, churn_runtime};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        atomic_u32_store_release(&churn_over, 0);
        CHECK_EQ(pthread_create(&thread, NULL, churners[i], NULL), 0);
        for (int64_t round = test_scale(300); round > 0; round--) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                call_in_child();
                _exit(0);
            }
            int status = 0;
            CHECK_EQ(waitpid(child, &status, 0), child);
            CHECK(WIFEXITED(status));
            CHECK_EQ(WEXITSTATUS(status), 0);
        }
        atomic_u32_store_release(&churn_over, 1);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
}

/* Without handlers of its own weft leaves those of the program alone, in a child as well. */

static void check_handler(void)
{
    struct sigaction action;
    CHECK_EQ(sigaction(SIGSEGV, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_IGN);
}

static void nothing_to_do(void *arg)
{
    (void)arg;
}

static void handlers_are_left_alone(void)
{
    struct sigaction ours = {.sa_handler = SIG_IGN}, before;
    CHECK_EQ(sigaction(SIGSEGV, &ours, &before), 0);
    CHECK_EQ(weft_configure(&(weft_config){.no_fault_report = 1}), 0);
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, nothing_to_do, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    check_handler();
    in_fork(check_handler);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    check_handler();
    CHECK_EQ(weft_configure(NULL), 0);
    CHECK_EQ(sigaction(SIGSEGV, &before, NULL), 0);
}

int main(void)
{
    RUN_PLAIN(a_child_may_use_weft_if_the_parent_does_not, "forks");
    RUN_PLAIN(handlers_are_left_alone, "stops or configures the runtime");
    RUN_PLAIN(fork_from_main, "forks");
    RUN_PLAIN(fork_from_fibers, "forks");
    RUN_PLAIN(fork_from_a_strange_thread, "forks");
    /* The sanitizers and emulators themselves hold locks across a fork. */
    if (WEFT_ASAN || WEFT_TSAN || test_emulated())
        printf("nothing_held_by_others_hangs_the_child left out: sanitizer or emulator\n");
    else
        RUN_PLAIN(nothing_held_by_others_hangs_the_child, "forks");
    return 0;
}
