/*
 * compact.c: compact fibers, which share hot stacks: after every kind of wait a fiber finds its
 * frames as it left them, at the same addresses; the memory of a parked fiber is small, and goes
 * back to the system.
 */
#include "compact.h"

#include "blocked.h"
#include "everywhere.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/fiber/compact.h"
#include "seeds.h"
#include "stack/slab.h"
#include "system.h"

enum { MANY = 100 }; /* more than there are hot stacks */

static struct {
    weft_wg done;
    weft_chan *there, *back;
    weft_mutex mutex;
    weft_cond cond;
    weft_sem sem;
    weft_rwmutex rwmutex;
    weft_barrier barrier;
    weft_pool *pool;
    int pipes[MANY][2];
    int64_t turn, sum;
} shared;

static bool is_compact(void)
{
    return weft__compact_works();
}

/* Runs `wait` in many compact fibers at once, each at another depth. */

struct one {
    void (*wait)(int number);
    int number;
};
static struct one ones[MANY];

static void wait_as(void *arg)
{
    struct one *one = arg;
    one->wait(one->number);
}

static void be_one(void *arg)
{
    struct one *one = arg;
    compact_below(one->number % 20, (unsigned char)one->number, wait_as, one);
    weft_wg_done(&shared.done);
}

static void in_many(void (*wait)(int number))
{
    CHECK_EQ(weft_wg_init(&shared.done, MANY), 0);
    for (int i = 0; i < MANY; i++) {
        ones[i] = (struct one){wait, i};
        compact_go(be_one, &ones[i]);
    }
    CHECK_EQ(weft_wg_wait(&shared.done), 0);
}

static void yields(int number)
{
    for (int i = 0; i < 20 + number % 7; i++)
        weft_yield();
}

static void sleeps(int number)
{
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_sleep((number % 5 + 1) * 100 * WEFT_US), 0);
}

/* The elements are on compact stacks. */
static void sends(int number)
{
    for (int i = 0; i < 10; i++) {
        int64_t question[3] = {number, i, number * i}, answer[3] = {-1, -1, -1};
        CHECK_EQ(weft_chan_send(shared.there, question), 0);
        CHECK_EQ(weft_chan_receive(shared.back, answer), 0);
        CHECK_EQ(answer[0] * answer[1], answer[2]);
        CHECK_EQ(question[2], number * i);
    }
}

static void echo(void *arg)
{
    int64_t element[3];
    while (weft_chan_receive(shared.there, element) == 0)
        CHECK_EQ(weft_chan_send(shared.back, element), 0);
    weft_wg_done(arg);
}

static void selects(int number)
{
    for (int i = 0; i < 10; i++) {
        int64_t question[3] = {number, i, number * i}, answer[3];
        weft_case ask = {.chan = shared.there, .op = WEFT_SEND, .element = question};
        weft_case hear = {.chan = shared.back, .op = WEFT_RECEIVE, .element = answer};
        for (int done = 0; done < 2;) {
            weft_case cases[] = {ask, hear, {.chan = NULL}};
            int chosen = weft_select(cases, 3);
            CHECK(chosen == 0 || chosen == 1);
            CHECK_EQ(cases[chosen].result, 0);
            if (chosen == 0)
                ask.chan = NULL;
            else
                hear.chan = NULL;
            done++;
        }
        CHECK_EQ(answer[0] * answer[1], answer[2]);
    }
}

/* Elements that are not taken, that have no bytes, or that do not come since the channel closes. */

static void close_both(void *chans)
{
    weft_chan **both = chans;
    int64_t element = 7;
    CHECK_EQ(weft_chan_send(both[0], &element), 0);
    CHECK_EQ(weft_chan_send(both[1], NULL), 0);
    weft_chan_close(both[0]);
    weft_chan_close(both[1]);
}

static void select_without_elements(void *chans)
{
    weft_chan **both = chans;
    int64_t element = 5;
    weft_fiber *other = spawn(close_both, chans);
    weft_case drops = {.chan = both[0], .op = WEFT_RECEIVE};
    CHECK_EQ(weft_select(&drops, 1), 0);
    CHECK_EQ(drops.result, 0);
    weft_case empty = {.chan = both[1], .op = WEFT_RECEIVE, .element = &element};
    CHECK_EQ(weft_select(&empty, 1), 0);
    CHECK_EQ(empty.result, 0);
    weft_case ended = {.chan = both[0], .op = WEFT_RECEIVE, .element = &element};
    CHECK_EQ(weft_select(&ended, 1), 0);
    CHECK_EQ(ended.result, -ESHUTDOWN);
    CHECK_EQ(element, 5);
    CHECK_EQ(weft_join(other), 0);
}

static void wait_for_the_end(void *chan)
{
    int64_t element = 5;
    weft_case ended = {.chan = chan, .op = WEFT_RECEIVE, .element = &element};
    CHECK_EQ(weft_select(&ended, 1), 0);
    CHECK_EQ(ended.result, -ESHUTDOWN);
    CHECK_EQ(element, 5);
}

static void selects_without_elements(void)
{
    weft_chan *both[2], *silent;
    CHECK_EQ(weft_chan_make(&both[0], sizeof(int64_t), 0), 0);
    CHECK_EQ(weft_chan_make(&both[1], 0, 0), 0);
    CHECK_EQ(weft_join(compact_spawn(select_without_elements, both)), 0);
    weft_chan_destroy(both[0]);
    weft_chan_destroy(both[1]);
    CHECK_EQ(weft_chan_make(&silent, sizeof(int64_t), 0), 0);
    weft_fiber *waits = compact_spawn(wait_for_the_end, silent);
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    weft_chan_close(silent);
    CHECK_EQ(weft_join(waits), 0);
    weft_chan_destroy(silent);
}

static void with_echo(void (*wait)(int number), int64_t capacity)
{
    static weft_wg echoes;
    CHECK_EQ(weft_chan_make(&shared.there, 3 * sizeof(int64_t), (size_t)capacity), 0);
    CHECK_EQ(weft_chan_make(&shared.back, 3 * sizeof(int64_t), MANY), 0);
    CHECK_EQ(weft_wg_init(&echoes, 2), 0);
    CHECK_EQ(weft_go(echo, &echoes), 0);
    compact_go(echo, &echoes);
    in_many(wait);
    CHECK_EQ(weft_chan_close(shared.there), 0);
    CHECK_EQ(weft_wg_wait(&echoes), 0);
    weft_chan_destroy(shared.there);
    weft_chan_destroy(shared.back);
}

static void locks(int number)
{
    for (int i = 0; i < 10; i++) {
        weft_mutex_lock(&shared.mutex);
        int64_t before = shared.sum;
        weft_yield();
        shared.sum = before + 1;
        weft_mutex_unlock(&shared.mutex);
        weft_rwmutex_write_lock(&shared.rwmutex);
        before = shared.turn;
        weft_yield();
        shared.turn = before + 1;
        weft_rwmutex_write_unlock(&shared.rwmutex);
        weft_sem_acquire(&shared.sem, 1 + number % 2);
        weft_yield();
        weft_sem_release(&shared.sem, 1 + number % 2);
    }
}

static void takes_turns(int number)
{
    weft_mutex_lock(&shared.mutex);
    while (shared.turn != number)
        CHECK_EQ(weft_cond_wait(&shared.cond, &shared.mutex), 0);
    shared.turn++;
    weft_cond_broadcast(&shared.cond);
    weft_mutex_unlock(&shared.mutex);
    CHECK(weft_barrier_wait(&shared.barrier) >= 0);
}

static void times_out(int number)
{
    int64_t element[3];
    CHECK_EQ(weft_chan_receive_until(shared.there, element, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_sem_acquire_until(&shared.sem, 1000, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_case one = {.chan = shared.there, .op = WEFT_RECEIVE, .element = element};
    CHECK_EQ(weft_select_until(&one, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_fd_wait(shared.pipes[number][0], WEFT_READABLE, weft_after(WEFT_MS)), -ETIMEDOUT);
}

static void reads(int number)
{
    char byte = 0;
    CHECK_EQ(weft_fd_wait(shared.pipes[number][0], WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(read(shared.pipes[number][0], &byte, 1), 1);
    CHECK_EQ(byte, (char)number);
    int next = number + 1;
    char mark = (char)next;
    if (next < MANY)
        CHECK_EQ(write(shared.pipes[next][1], &mark, 1), 1);
}

static void count_copy(void *arg)
{
    CHECK_EQ(*(const int64_t *)arg, 42);
    weft_yield();
    weft_mutex_lock(&shared.mutex);
    shared.sum++;
    weft_mutex_unlock(&shared.mutex);
}

/* The pool is full: the submitter waits, and the argument to be copied is on its stack. */
static void submits(int number)
{
    int64_t arg = 42;
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_pool_submit_with(shared.pool, count_copy, &arg,
                                       &(weft_submit_options){.copy = sizeof arg}),
                 0);
}

static int task(void *arg)
{
    weft_yield();
    return (int)((struct one *)arg - ones) + 1;
}

static void waits_for_tasks(int number)
{
    weft_task *handle;
    int result = 0;
    CHECK_EQ(weft_task_start(&handle, shared.pool, task, &ones[number], NULL), 0);
    CHECK_EQ(weft_task_wait(handle, &result), 0);
    CHECK_EQ(result, number + 1);
    weft_task_release(handle);
}

static void panics(void *arg)
{
    weft_yield();
    weft_panic("%s", (const char *)arg);
}

static void undo(void *arg)
{
    ++*(int *)arg;
}

static void recovers(int number)
{
    static char text[] = "on purpose";
    int undone = 0;
    weft_panic_info info;
    weft_deferred deferred;
    weft_defer(&deferred, undo, &undone);
    weft_yield();
    CHECK_EQ(weft_recover(panics, text, &info), -EOWNERDEAD);
    CHECK_STR(info.message, "on purpose");
    weft_deferred_run(&deferred);
    CHECK_EQ(undone, 1);
}

static void open_pipes(void)
{
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(pipe(shared.pipes[i]), 0);
}

static void close_pipes(void)
{
    for (int i = 0; i < MANY; i++) {
        close(shared.pipes[i][0]);
        close(shared.pipes[i][1]);
    }
}

static void every_wait(void *arg)
{
    shared.sum = shared.turn = 0;
    in_many(yields);
    in_many(sleeps);
    with_echo(sends, 0);
    with_echo(sends, 3);
    with_echo(selects, 0);
    CHECK_EQ(weft_sem_init(&shared.sem, 2), 0);
    in_many(locks);
    CHECK_EQ(shared.sum, MANY * 10);
    CHECK_EQ(shared.turn, MANY * 10);
    shared.turn = 0;
    CHECK_EQ(weft_barrier_init(&shared.barrier, MANY), 0);
    in_many(takes_turns);
    open_pipes();
    CHECK_EQ(weft_chan_make(&shared.there, 3 * sizeof(int64_t), 0), 0);
    in_many(times_out);
    weft_chan_destroy(shared.there);
    CHECK_EQ(write(shared.pipes[0][1], "", 1), 1);
    in_many(reads);
    close_pipes();
    shared.sum = 0;
    for (int isolates = 0; isolates < 2; isolates++) {
        weft_pool_options options = {.capacity = 3, .compact = 1, .isolate_crashes = isolates};
        CHECK_EQ(weft_pool_open(&shared.pool, &options), 0);
        in_many(submits);
        in_many(waits_for_tasks);
        CHECK_EQ(weft_pool_close(shared.pool), 0);
        CHECK_EQ(shared.sum, (isolates + 1) * MANY * 5);
    }
    in_many(recovers);
}

/* As many fibers as there are hot stacks do not move. */

static void yield_often(void *arg)
{
    for (int i = 0; i < 1000; i++)
        weft_yield();
    weft_wg_done(arg);
}

static void few_do_not_move(void *arg)
{
    static weft_wg done;
    uint64_t before = weft__compact_figures().moved_out;
    CHECK_EQ(weft_wg_init(&done, HOT_STACKS), 0);
    for (int i = 0; i < HOT_STACKS; i++)
        compact_go(yield_often, &done);
    CHECK_EQ(weft_wg_wait(&done), 0);
    CHECK_EQ(weft__compact_figures().moved_out, before);
    CHECK_EQ(weft__compact_figures().hot_stacks, HOT_STACKS);
    CHECK_EQ(weft_wg_init(&done, HOT_STACKS + 1), 0);
    for (int i = 0; i < HOT_STACKS + 1; i++)
        compact_go(yield_often, &done);
    CHECK_EQ(weft_wg_wait(&done), 0);
    uint64_t moved = weft__compact_figures().moved_out - before;
    CHECK(moved >= 1000 && moved <= 2 * 1000 + HOT_STACKS + 1); /* two of them share */
    CHECK_EQ(weft__compact_figures().hot_stacks, HOT_STACKS);
}

static void sleep_deep(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    weft_yield();
}

static void go_deep(void *arg)
{
    int number = (int)(uintptr_t)arg;
    for (int round = 0; round < 3; round++) {
        compact_below((number * 37) % (WEFT_TSAN || WEFT_ASAN ? 100 : 400), (unsigned char)number,
                      sleep_deep, NULL);
        compact_below(1, (unsigned char)number, sleep_deep, NULL); /* shallow again */
    }
    weft_wg_done(&shared.done);
}

static void any_depth_is_right(void)
{
    CHECK_EQ(weft_wg_init(&shared.done, MANY), 0);
    for (uintptr_t i = 0; i < MANY; i++)
        compact_go(go_deep, (void *)i);
    CHECK_EQ(weft_wg_wait(&shared.done), 0);
}

/* Fibers with stacks of other sizes, beside those that share. */
static void stack_sizes_mix(void)
{
    CHECK_EQ(weft_wg_init(&shared.done, MANY), 0);
    for (uintptr_t i = 0; i < MANY; i++) {
        weft_spawn_options options = {.compact = i % 3 != 0, .stack_size = (size_t)65536 << i % 4};
        CHECK_EQ(weft_spawn(NULL, go_deep, (void *)i, &options), 0);
    }
    CHECK_EQ(weft_wg_wait(&shared.done), 0);
}

static void wait_at_gate(void *gate)
{
    weft_wg_done(&shared.done);
    CHECK_EQ(weft_wg_wait(gate), 0);
}

static void a_parked_fiber_is_small(void)
{
    static weft_wg gate;
    int64_t count = test_scale(20000);
    weft_fiber **fibers = calloc((size_t)count, sizeof(weft_fiber *));
    CHECK(fibers != NULL);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(weft_wg_init(&shared.done, count), 0);
    for (int64_t i = 0; i < count; i++)
        fibers[i] = compact_spawn(wait_at_gate, &gate);
    CHECK_EQ(weft_wg_wait(&shared.done), 0);
    if (is_compact())
        CHECK(weft__slab_figures().held < (uint64_t)count * 600 + 1000 * 1000);
    weft_wg_done(&gate);
    join_all(fibers, count);
    /* A chunk of each size that was in use stays for the next. */
    CHECK(weft__slab_figures().held <= 20 * 64 * 1024);
    shut_down();
    CHECK_EQ(weft__slab_figures().mapped, 0);
    free(fibers);
}

static void wait_deep_at_gate(void *gate)
{
    compact_below(200, 1, wait_at_gate, gate);
}

/* New fibers begin on the stacks of fibers that went deep. */
static void a_deep_fiber_is_no_measure(void *arg)
{
    enum { DEEP = HOT_STACKS, COUNT = 4 * HOT_STACKS };
    static weft_wg gate;
    weft_fiber *fibers[COUNT];
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(weft_wg_init(&shared.done, COUNT), 0);
    for (int i = 0; i < COUNT; i++)
        fibers[i] = compact_spawn(i < DEEP ? wait_deep_at_gate : wait_at_gate, &gate);
    CHECK_EQ(weft_wg_wait(&shared.done), 0);
    for (int i = DEEP; i < COUNT && is_compact(); i++)
        CHECK(fiber_save_area(fibers[i])->room < 4096);
    weft_wg_done(&gate);
    join_all(fibers, COUNT);
}

struct large {
    char bytes[5000]; /* no slab has pieces of that size */
};

static void receive_without_memory(void *chan)
{
    struct large large;
    weft__os_fail(OS_ALLOC, 1, true);
    weft_wg_done(&shared.done);
    CHECK_EQ(weft_chan_receive(chan, &large), 0);
    CHECK_EQ(large.bytes[sizeof large - 1], 7);
}

/* While memory is lacking the fiber tries again, and each try needs no more of its stack. */
static void a_wait_without_memory_is_tried_again(void)
{
    weft_spawn_options options = {.compact = 1, .stack_size = 16384};
    struct large large;
    weft_fiber *fiber;
    memset(&large, 7, sizeof large);
    weft_chan *chan = make_chan(sizeof large, 0);
    CHECK_EQ(weft_wg_init(&shared.done, 1), 0);
    CHECK_EQ(weft_spawn(&fiber, receive_without_memory, chan, &options), 0);
    CHECK_EQ(weft_wg_wait(&shared.done), 0);
    CHECK_EQ(weft_sleep(200 * WEFT_MS), 0);
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(weft_chan_send(chan, &large), 0);
    CHECK_EQ(weft_join(fiber), 0);
    weft_chan_destroy(chan);
}

/* First shallow, so that little memory is kept for the fiber; then deeper. */
static void deepen(void *arg)
{
    weft_yield();
    compact_below(20, (unsigned char)(uintptr_t)arg, sleep_deep, NULL);
}

static void memory_of_deep_fibers_goes_back(void)
{
    enum { COUNT = 1000 };
    weft_fiber *fibers[COUNT];
    for (uintptr_t i = 0; i < COUNT; i++)
        fibers[i] = compact_spawn(deepen, (void *)i);
    join_all(fibers, COUNT);
    CHECK(weft__slab_figures().held <= 20 * 64 * 1024);
    shut_down();
}

/* A fiber that blocks its thread keeps its hot stack: new fibers begin on other stacks, and those
 * that share it wait and then go on. */

/* It calls nothing of weft while it blocks: it might leave its stack for a moment, and a fiber that
 * begins there would wait for it. */
static void block(void *arg)
{
    block_marked(arg);
    weft_yield();
}

static void blocked_fibers_do_not_hinder_others(void)
{
    enum { BLOCKED = HOT_STACKS + 4 };
    weft_fiber *blockers[BLOCKED], *others[MANY];
    blocked_reset();
    configure(1);
    for (int i = 0; i < BLOCKED; i++)
        blockers[i] = compact_spawn(block, NULL);
    nap_until(&blocked.count, BLOCKED);
    for (int i = 0; i < MANY; i++)
        others[i] = compact_spawn(sleep_deep, NULL);
    join_all(others, MANY);
    blocked_end(blockers, BLOCKED);
    if (is_compact()) {
        CHECK(weft__compact_figures().hot_stacks > HOT_STACKS);
        /* A fiber that begins frees the hot stacks that are not needed. */
        CHECK_EQ(weft_join(compact_spawn(sleep_deep, NULL)), 0);
        CHECK_EQ(weft__compact_figures().hot_stacks, HOT_STACKS);
    }
    reset_runtime();
}

static void wait_cancelled(void *arg)
{
    weft_wg_done(&shared.done);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
}

static void contexts_end_waits(void)
{
    weft_context *context;
    weft_fiber *fibers[MANY];
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    CHECK_EQ(weft_wg_init(&shared.done, MANY), 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(weft_spawn(&fibers[i], wait_cancelled, NULL,
                            &(weft_spawn_options){.compact = 1, .context = context}),
                 0);
    CHECK_EQ(weft_wg_wait(&shared.done), 0);
    weft_context_cancel(context);
    join_all(fibers, MANY);
    weft_context_close(context);
}

static void panic_after_wait(void *arg)
{
    weft_yield();
    weft_panic("compact %d", 7);
}

static void a_panic_ends_the_fiber(void)
{
    for (int i = 0; i < 20; i++)
        (void)join_panicked(compact_spawn(panic_after_wait, NULL), "compact 7");
}

/* Under a tool that watches stacks they are private, which is reported once. */

static void go_compact(void)
{
    CHECK_EQ(weft_join(compact_spawn(sleep_deep, NULL)), 0);
    CHECK_EQ(weft_join(compact_spawn(sleep_deep, NULL)), 0);
}

static void private_stacks_are_reported_once(void)
{
    const char *said = test_stderr_of(go_compact);
    if (is_compact())
        CHECK(strstr(said, "compact") == NULL);
    else
        CHECK(strstr(said, "compact stacks are private here") != NULL);
    shut_down();
}

static void each_wait(void)
{
    every_wait(NULL);
}

int main(void)
{
    RUN_PLAIN(private_stacks_are_reported_once, "the report comes once");
    RUN_BOTH(selects_without_elements);
    RUN_PLAIN_ON(every_wait, 1, "stops or configures the runtime");
    RUN_PLAIN_ON(every_wait, 4, "stops or configures the runtime");
    RUN_SEEDS(each_wait);
    if (is_compact())
        RUN_PLAIN_ON(few_do_not_move, 1, "stops or configures the runtime");
    RUN_ALL_BOTH(any_depth_is_right, stack_sizes_mix, contexts_end_waits, a_panic_ends_the_fiber);
    RUN_PLAIN(a_parked_fiber_is_small, "stops or configures the runtime");
    RUN_PLAIN_ON(a_deep_fiber_is_no_measure, 1, "stops or configures the runtime");
    RUN_PLAIN(a_wait_without_memory_is_tried_again, "the memory fails for some time of the clock");
    RUN_ALL_PLAIN("stops or configures the runtime", memory_of_deep_fibers_goes_back,
                  blocked_fibers_do_not_hinder_others);
    return 0;
}
