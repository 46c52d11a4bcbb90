/*
 * once.c: functions that run once, from fibers and from threads.
 */
#include <sched.h>

#include "bodies.h"
#include "everywhere.h"
#include "seeds.h"

/* Misuse; runs before the runtime does, so that children can be forked. */

static weft_once misused = WEFT_ONCE_INIT;

static void nothing(void *arg)
{
}

static void again(void *arg)
{
    weft_once_do(&misused, again, arg);
}

static void misuse_aborts(void)
{
    static const char none[] = "weft: weft_once_do was given no weft_once or no function";
    static const char inside[] = "weft: weft_once_do was called from inside the function that it";
    CHECK_ABORTS(none, weft_once_do(NULL, nothing, NULL));
    CHECK_ABORTS(none, weft_once_do(&misused, NULL, NULL));
    CHECK_ABORTS(inside, again(NULL));
    CHECK_ABORTS(inside, body_run(again, NULL, false));
}

/* Once. */

enum { BODIES = 8 };

static struct {
    weft_once once;
    atomic_u32 calls, begun;
    int value; /* plain: the once orders it */
    bool wait_for_all;
} one;

static void call(void *arg)
{
    atomic_u32_add_seq_cst(&one.calls, 1);
    if (one.wait_for_all) {
        await(&one.begun, BODIES);
        for (int i = 0; i < 10; i++)
            weft_yield(); /* most of the others wait by now */
    }
    one.value = *(int *)arg;
}

static void do_once(void *arg)
{
    set_errno(77);
    atomic_u32_add_seq_cst(&one.begun, 1);
    weft_once_do(&one.once, call, arg);
    CHECK_EQ(one.value, 7);
    weft_once_do(&one.once, call, arg);
    CHECK_EQ(get_errno(), 77);
}

static void one_calls_all_wait(void)
{
    int seven = 7;
    for (int64_t round = test_scale(300); round > 0; round--) {
        struct body bodies[BODIES];
        memset(&one, 0, sizeof one);
        one.wait_for_all = round % 2;
        for (int i = 0; i < BODIES; i++)
            bodies[i] = (struct body){
                .function = do_once, .arg = &seven, .thread = round % 4 == 0 && i % 2 == 0};
        bodies_run(bodies, BODIES);
        CHECK_EQ(atomic_u32_load_relaxed(&one.calls), 1);
    }
}

/* A once inside another is no recursion. */

static weft_once outer, inner;

static void call_inner(void *arg)
{
    weft_once_do(&inner, nothing, arg);
}

static void may_be_nested(void *arg)
{
    outer = inner = (weft_once)WEFT_ONCE_INIT;
    weft_once_do(&outer, call_inner, arg);
    weft_once_do(&outer, again, arg); /* done: not called */
}

/* A caller that finds the latch of the list held waits for its release. */

enum { RUNNING = 1, DONE = 2, QUEUE = 4, WAITERS = 8 }; /* the word of a once: src/sync/once.c */

static void call_beside_latch(void *arg)
{
    atomic_u32_add_seq_cst(&one.begun, 1);
    weft_once_do(&one.once, nothing, NULL);
    atomic_u32_add_seq_cst(&one.begun, 1);
}

static void a_latched_list_is_waited_for(void)
{
    struct body body = {.function = call_beside_latch, .thread = true};
    atomic_u32 *word = (atomic_u32 *)(void *)&one.once.word;
    memset(&one, 0, sizeof one);
    atomic_u32_store_release(word, RUNNING | QUEUE);
    body_start(&body);
    await(&one.begun, 1);
    for (int i = 0; i < 1000; i++) {
        sched_yield();
        CHECK_EQ(atomic_u32_load_acquire(&one.begun), 1);
    }
    atomic_u32_store_release(word, DONE);
    body_join(&body);
    CHECK_EQ(atomic_u32_load_acquire(&one.begun), 2);
}

/* The end: a caller that sees it done may free it. */

static void do_nothing_once(void *once)
{
    weft_once_do(once, nothing, NULL);
}

struct runner {
    weft_once once;
    atomic_u32 stage;
};

static void stay(void *stage)
{
    atomic_u32_store_release(stage, 1);
    await(stage, 2);
}

static void run_once(void *arg)
{
    struct runner *runner = arg;
    weft_once_do(&runner->once, stay, &runner->stage);
}

static void not_touched_when_done(void)
{
    for (int64_t round = test_scale(200); round > 0; round--) {
        struct runner runner = {WEFT_ONCE_INIT, {0}};
        const atomic_u32 *word = (const atomic_u32 *)(const void *)&runner.once.word;
        struct body first = {.function = run_once, .arg = &runner, .thread = round % 16 == 0};
        struct body second = {
            .function = do_nothing_once, .arg = &runner.once, .thread = round % 16 == 8};
        body_start(&first);
        await(&runner.stage, 1);
        body_start(&second);
        while (!(atomic_u32_load_acquire(word) & WAITERS))
            weft_yield();
        atomic_u32_store_release(&runner.stage, 2);
        while (atomic_u32_load_acquire(word) != DONE)
            if (test_seeded)
                weft_yield();
            else
                cpu_relax();
        scrap(&runner.once, sizeof runner.once);
        body_join(&first);
        body_join(&second);
        check_scrapped(&runner.once, sizeof runner.once);
    }
}

/* A forked child. */

static weft_once under_way;

static void stay_once(void *arg)
{
    weft_once_do(&under_way, stay, arg);
}

static void in_child(void)
{
    weft_once once = WEFT_ONCE_INIT;
    do_nothing_once(&once);
    do_nothing_once(&once);
    CHECK_ABORTS("weft: weft_once_do was under way when the process", do_nothing_once(&under_way));
}

static void a_forked_child_does_not_hang(void)
{
    atomic_u32 stage = {0};
    struct body body = {.function = stay_once, .arg = &stage};
    body_start(&body);
    await(&stage, 1);
    in_fork(in_child);
    atomic_u32_store_release(&stage, 2);
    body_join(&body);
}

int main(void)
{
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN(one_calls_all_wait);
    RUN_SEEDS_MANY(one_calls_all_wait);
    RUN_EVERYWHERE(may_be_nested);
    RUN_PLAIN(a_latched_list_is_waited_for, "about plain threads");
    RUN_BOTH(not_touched_when_done);
    RUN_PLAIN(a_forked_child_does_not_hang, "forks");
    return 0;
}
