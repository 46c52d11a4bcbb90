/*
 * compact_crash.c: misuse by a compact fiber, as far as weft can see it, ends the program with a
 * report that says what to do instead; an overflow and a deadlock are reported as those of other
 * fibers are.
 */
#include "compact.h"

#include <signal.h>

#include "dying.h"
#include "failing.h"
#include "fibers.h"
#include "sched/fiber/compact.h"
#include "system.h"

static weft_pool *pool;

static int nothing_and_zero(void *arg)
{
    return 0;
}

static void be_compact(void *arg)
{
    void (*function)(void *) = *(void (**)(void *))arg;
    CHECK_EQ(weft_pool_open(&pool, NULL), 0);
    CHECK_EQ(weft_join(compact_spawn(function, NULL)), 0);
}

static void refused(void (*function)(void *), const char *expected)
{
    CHECK_EQ(test_dies(be_compact, (void *)&function, expected), SIGABRT);
}

/* Objects and arguments on the compact stack. */

static enum misuse {
    WAIT,
    MEET,
    ACQUIRE,
    SPAWN,
    GROUP,
    POOL_GROUP,
    WG_GO,
    OWN_WG,
    TIMER,
    SUBMIT,
    SUBMIT_BATCH,
    START_TASK
} misuse;

static void misuse_stack(void *arg)
{
    static weft_wg shared = WEFT_WG_INIT;
    weft_wg wg = WEFT_WG_INIT;
    weft_sem sem = WEFT_SEM_INIT(0);
    weft_barrier barrier;
    weft_group *group;
    weft_task *task;
    int local = 1;
    void *args[] = {NULL, &local};
    switch (misuse) {
    case WAIT:
        CHECK_EQ(weft_wg_add(&wg, 1), 0);
        CHECK_EQ(weft_wg_wait(&wg), 0);
        break;
    case MEET:
        CHECK_EQ(weft_barrier_init(&barrier, 2), 0);
        CHECK_EQ(weft_barrier_wait(&barrier), 0);
        break;
    case ACQUIRE:
        weft_sem_acquire(&sem, 1);
        break;
    case SPAWN:
        CHECK_EQ(weft_go(nothing, &local), 0);
        break;
    case GROUP:
    case POOL_GROUP:
        CHECK_EQ(misuse == GROUP ? weft_group_open(&group, NULL)
                                 : weft_pool_group(&group, pool, NULL),
                 0);
        CHECK_EQ(weft_group_go(group, nothing_and_zero, &local), 0);
        break;
    case WG_GO:
        CHECK_EQ(weft_wg_go(&shared, nothing, &local), 0);
        break;
    case OWN_WG:
        CHECK_EQ(weft_wg_go(&wg, nothing, NULL), 0);
        break;
    case TIMER:
        (void)open_timer(nothing, &local);
        break;
    case SUBMIT:
        CHECK_EQ(weft_pool_submit(pool, nothing, &local), 0);
        break;
    case SUBMIT_BATCH:
        CHECK_EQ(weft_pool_submit_batch(pool, nothing, args, 2, WEFT_NEVER), 0);
        break;
    case START_TASK:
        CHECK_EQ(weft_task_start(&task, pool, nothing_and_zero, &local, NULL), 0);
    }
}

static void objects_and_arguments_on_the_stack(void)
{
    static const char *const texts[] = {
        [WAIT] = "what a fiber waits for is on the compact stack of fiber",
        [MEET] = "what a fiber waits for is on the compact stack of fiber",
        [ACQUIRE] = "have it in the heap or static",
        [SPAWN] = "the argument of a fiber is on the compact stack of fiber",
        [GROUP] = "the argument of a fiber is on the compact stack",
        [POOL_GROUP] = "the argument of a task is on the compact stack",
        [WG_GO] = "the argument of a fiber is on the compact stack",
        [OWN_WG] = "the wait group of a fiber is on the compact stack",
        [TIMER] = "the argument of a timer is on the compact stack",
        [SUBMIT] = "the argument of a task is on the compact stack",
        [SUBMIT_BATCH] = "the argument of a task is on the compact stack",
        [START_TASK] = "copied by the pool (weft_submit_options.copy)",
    };
    for (misuse = WAIT; misuse <= START_TASK; misuse++)
        refused(misuse_stack, texts[misuse]);
}

/* Foreign stacks, on which a library of coroutines may run the fiber. */

static void yield_there(void)
{
    weft_yield();
    weft_yield();
}

static void sleep_there(void)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
}

static void yield_elsewhere(void *arg)
{
    for (int i = 0; i < 3 * HOT_STACKS; i++)
        compact_go(nothing, NULL);
    on_foreign_stack(yield_there);
}

static void sleep_elsewhere(void *arg)
{
    on_foreign_stack(sleep_there);
}

static void foreign_stacks(void)
{
    refused(yield_elsewhere, "on a stack that is not its own");
    refused(sleep_elsewhere, "give the fiber a stack of its own");
}

/* The fiber may use a foreign stack if it is back before it parks. */
static void compute_there(void)
{
    CHECK_EQ(weft_go(nothing, NULL), 0);
}

static void compute_elsewhere(void *arg)
{
    on_foreign_stack(compute_there);
    weft_yield();
    CHECK_EQ(weft_sleep(WEFT_US), 0);
}

static void back_in_time(void *arg)
{
    CHECK_EQ(weft_join(compact_spawn(compute_elsewhere, NULL)), 0);
}

static void foreign_stacks_between_waits(void)
{
    const char *text;
    CHECK_EQ(test_in_child(back_in_time, NULL, &text), 0);
    CHECK_STR(text, "");
}

static noinline int overflow(int depth)
{
    volatile char frame[512];
    frame[0] = (char)depth;
    return depth < 0 ? 0 : overflow(depth + 1) + frame[0];
}

static void overflow_late(void *arg)
{
    weft_yield();
    (void)overflow(1);
}

static void overflow_one(void *arg)
{
    weft_fiber *fiber;
    for (int i = 0; i < 3 * HOT_STACKS; i++)
        compact_go(nothing, NULL);
    CHECK_EQ(weft_spawn(&fiber, overflow_late, NULL,
                        &(weft_spawn_options){.compact = 1, .name = "digger"}),
             0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void an_overflow_is_reported(void)
{
    int signal = test_dies(overflow_one, NULL, "stack overflow in fiber 25 \"digger\"");
    CHECK(signal == SIGSEGV || signal == SIGBUS);
}

static noinline void wait_for_ever(void)
{
    static weft_chan *chan;
    int element;
    if (chan == NULL)
        CHECK_EQ(weft_chan_make(&chan, sizeof element, 0), 0);
    CHECK_EQ(weft_chan_receive(chan, &element), 0);
}

/* Parks at a depth of its own, below words that are no addresses: a fiber that is resumed on the
 * frames of another would not come back. */
static noinline void hang_at(uintptr_t depth)
{
    enum { WORDS = 32 };
    volatile uintptr_t frame[WORDS];
    for (int i = 0; i < WORDS; i++)
        frame[i] = (uintptr_t)0x5a5a << 48 | depth;
    if (depth == 0)
        wait_for_ever();
    else
        hang_at(depth - 1);
    CHECK_EQ(frame[0] & 0xff, depth);
}

static void hang(void *arg)
{
    hang_at((uintptr_t)arg);
}

static void hang_many(void *arg)
{
    for (uintptr_t i = 0; i < 3 * HOT_STACKS; i++)
        compact_go(hang, (void *)(i / HOT_STACKS));
    CHECK_EQ(weft_join(compact_spawn(hang, (void *)3)), 0);
}

/* The report shows where each fiber waits: its frames come back for that. */
static void a_deadlock_is_reported(void)
{
    CHECK_EQ(test_dies(hang_many, NULL, "fiber 25 receives from a channel"), SIGABRT);
}

/* A deadlock while there is no memory to move frames out of the hot stacks: the report names all
 * fibers, and shows the frames that are still there. */

enum { FIBERS = 3 * HOT_STACKS };

static weft_wg never, parked;

static void wait_parked(void *arg)
{
    weft_wg_done(&parked);
    CHECK_EQ(weft_wg_wait(&never), 0);
}

/* New fibers, whose frames need more memory than is kept for them. */
static void wait_deep(void *arg)
{
    compact_below(60, 1, wait_parked, arg);
}

static void deadlock_without_memory(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_wg_init(&never, 1), 0);
    CHECK_EQ(weft_wg_init(&parked, FIBERS), 0);
    for (int i = 0; i < FIBERS; i++)
        compact_go(wait_deep, NULL);
    CHECK_EQ(weft_wg_wait(&parked), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    weft__os_fail(OS_MAP, 1, true);
    for (size_t size = 16 * 1024; size > 0; size /= 2) /* takes what is cached */
        while (weft__stash(size) != NULL)
            continue;
    (void)!weft_wg_wait(&never);
}

/* The report shows equal fibers once, with the number of the others. */
static int fibers_reported(void)
{
    static const char first[] = "weft: fiber ", others[] = "weft:   and ";
    int count = 0;
    for (const char *at = output; (at = strstr(at, first)) != NULL; at++)
        count++;
    for (const char *at = output; (at = strstr(at, others)) != NULL; at++)
        count += atoi(at + sizeof others - 1);
    return count;
}

static void frames_that_cannot_be_moved(void)
{
    check_dies(deadlock_without_memory, SIGABRT);
    CHECK(said("deadlock: "));
    CHECK_EQ(fibers_reported(), FIBERS);
}

int main(void)
{
    if (!weft__compact_works())
        test_skip("compact stacks are private under this tool");
    RUN_ALL(objects_and_arguments_on_the_stack, foreign_stacks, foreign_stacks_between_waits);
    if (WEFT_TSAN)
        printf("an_overflow_is_reported left out: the sanitizer takes the signal\n");
    else
        RUN(an_overflow_is_reported);
    if (WEFT_TSAN || test_emulated())
        printf("deadlocks left out: sanitizer or emulator\n");
    else
        RUN_ALL(a_deadlock_is_reported, frames_that_cannot_be_moved);
    return 0;
}
