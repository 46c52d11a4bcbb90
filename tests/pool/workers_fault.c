/*
 * workers_fault.c: no worker can be made, from any moment on: existing workers do the work, the
 * rest is done when there is memory again, and no task is lost, run twice, or left.
 */
#include <weft/task.h>

#include "faults.h"
#include "pool/lacking.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fiber_alloc.h"

static void crash_task(void *arg)
{
    fault_null_write();
}

/* Whatever is missing for it, it is not made, and nothing of it is left. */
static void made_in_part(void *arg)
{
    for (int compact = 0; compact < 2; compact++)
        for (uint32_t nth = 1; nth < 20; nth++)
            for (int kind = 0; kind < 2; kind++) {
                weft_pool *pool = POOL_POISON;
                weft_pool_options options = {.capacity = 1,
                                             .prestart = 1,
                                             .isolate_crashes = nth % 2 == 0,
                                             .compact = compact};
                enum weft__os_call call = kind ? OS_MAP : OS_ALLOC;
                weft__os_fail(call, nth / 2 + 1, true);
                int error = weft_pool_open(&pool, &options);
                weft__os_fail(call, 0, false);
                CHECK(error == 0 || error == -ENOMEM);
                CHECK((error == 0) == (pool != POOL_POISON));
                atomic_u32_store_relaxed(&ran, 0);
                if (error != 0)
                    continue;
                CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
                pool_close(pool);
                CHECK_EQ(count_of(&ran), 1);
            }
}

/* After a crash there is no memory for a worker that can be abandoned: the worker ends; the tasks
 * run later. */
static void lack_on_panic(const weft_panic_info *info, void (*function)(void *), void *arg,
                          void *data)
{
    lack(true);
}

static void after_a_crash(void *arg)
{
    if (WEFT_ASAN || WEFT_TSAN) /* their own handlers */
        return;
    weft_pool *pool =
        begin((weft_pool_options){.capacity = 1, .queue = 10, .on_panic = lack_on_panic});
    CHECK_EQ(weft_pool_pause(pool), 0); /* the lack begins when all are queued */
    CHECK_EQ(weft_pool_submit(pool, crash_task, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    AWAIT_FIGURE(pool, crashed, 1);
    AWAIT_FIGURE(pool, workers, 0);
    CHECK_EQ(count_of(&ran), 0);
    lack(false);
    await_count(&ran, 2);
    pool_close(pool);
}

/* Further workers, which would have a processor, cannot be made either. */
static void lack_with_much_to_do(const weft_panic_info *info, void (*function)(void *), void *arg,
                                 void *data)
{
    weft_pool *pool = *(weft_pool **)data;
    CHECK_EQ(weft_pool_pause(pool), 0);
    submit_counts(pool, &ran, 3);
    lack(true);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_idle_processor();
}

static void after_a_crash_of_many(void *arg)
{
    static weft_pool *pool;
    if (WEFT_ASAN || WEFT_TSAN)
        return;
    pool = begin((weft_pool_options){
        .capacity = 3, .queue = 10, .on_panic = lack_with_much_to_do, .data = &pool});
    CHECK_EQ(weft_pool_submit(pool, crash_task, NULL), 0);
    AWAIT_FIGURE(pool, crashed, 1);
    AWAIT_FIGURE(pool, completed, 1);
    AWAIT_FIGURE(pool, workers, 0);
    lack(false);
    await_count(&ran, 3);
    pool_close(pool);
}

/* A worker that was made before any task was bound lacks memory to be bound to a context: the task
 * waits for it. */
static int bound_task(void *arg)
{
    CHECK(weft_context_current() != NULL);
    atomic_u32_add_seq_cst(arg, 1);
    return 0;
}

static void plain_before_bound(void *arg)
{
    atomic_u32_store_relaxed(&ran, 0);
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 4, .keep = 1);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    await_count(&ran, 1);
    CHECK_EQ(weft_pool_pause(pool), 0);
    weft_task *task = start_task(pool, bound_task, &ran);
    lack(true);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_task_wait_until(task, NULL, weft_after(5 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(count_of(&ran), 1);
    lack(false);
    CHECK_EQ(weft_task_wait(task, NULL), 0);
    weft_task_release(task);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 2);
}

static void one_that_cannot_be_made_whole(void)
{
    on_machines(1, plain_before_bound);
    on_machines(2, plain_before_bound);
    on_machines(2, made_in_part);
    on_machines(1, after_a_crash);
    on_machines(2, after_a_crash);
    on_machines(3, after_a_crash_of_many);
}

/* A place is free and there is no worker for it; a submitter in line gives up meanwhile. */
static void give_up_in_line(void *arg)
{
    weft_pool *pool = begin((weft_pool_options){.capacity = 2, .queue = 1});
    gate_fill(&gate, pool, 1);
    CHECK_EQ(weft_pool_pause(pool), 0);
    submit_counts(pool, &ran, 2);
    lack(true);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, weft_after(3 * WEFT_MS)), -ETIMEDOUT);
    lack(false);
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran), 2);
}

/* A task that waits for one of its own pool lends its place. */
static void wait_for_own(void *pool)
{
    weft_task *task = start_task(pool, count_handle, &ran);
    await_idle_processor();
    lack(true);
    CHECK_EQ(weft_task_wait_until(task, NULL, weft_after(20 * WEFT_MS)), -ETIMEDOUT);
    lack(false);
    CHECK_EQ(weft_task_wait(task, NULL), 0);
    weft_task_release(task);
}

static void lent_without_a_worker(void *arg)
{
    weft_pool *pool = begin((weft_pool_options){.capacity = 1, .queue = 4});
    CHECK_EQ(weft_pool_submit(pool, wait_for_own, pool), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 1);
}

static void places_without_a_worker(void)
{
    for (int processors = 1; processors <= 2; processors++) {
        on_machines(processors, give_up_in_line);
        on_machines(processors, lent_without_a_worker);
    }
}

/* A pool that has tasks, and no worker. */

static void handle_later(void *arg)
{
    weft_pool *pool = begin_paused((weft_pool_options){.capacity = 1, .queue = 8});
    weft_task *task = start_task(pool, count_handle, &ran);
    resume_lacking(pool, 0);
    CHECK_EQ(end_task(task), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 1);
}

static void drop_none(void (*function)(void *), void *arg, void *data)
{
    atomic_u32_add_seq_cst(data, 1);
}

/* An abort, also of tasks that wait for another of their key, needs no memory. */
static void abort_lacking(void *arg)
{
    atomic_u32 dropped = {0};
    weft_pool *pool = begin(
        (weft_pool_options){.capacity = 1, .queue = 8, .on_drop = drop_none, .data = &dropped});
    CHECK_EQ(weft_pool_pause(pool), 0);
    weft_submit_options keyed = {.key = 7};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &keyed), 0);
    lack(true);
    int64_t count = weft_pool_abort(pool);
    lack(false);
    CHECK_EQ(count, 3);
    CHECK_EQ(count_of(&dropped), 3);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 0);
}

/* Nor does it need a worker, which cannot be made. */
static void abort_beside(void *arg)
{
    atomic_u32 dropped = {0};
    weft_pool *pool = begin(
        (weft_pool_options){.capacity = 2, .queue = 8, .on_drop = drop_none, .data = &dropped});
    gate_fill(&gate, pool, 1);
    CHECK_EQ(weft_pool_pause(pool), 0);
    submit_counts(pool, &ran, 2);
    lack(true);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_abort(pool), 2);
    lack(false);
    CHECK_EQ(count_of(&dropped), 2);
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran), 0);
}

/* The oldest is dropped for a task that there is no memory for; the next of its key goes on. */
static void drop_lacking(void *arg)
{
    atomic_u32 dropped = {0};
    weft_submit_options keyed = {.key = 7};
    weft_pool *pool = begin((weft_pool_options){.capacity = 1,
                                                .queue = 2,
                                                .when_full = WEFT_DROP_OLDEST,
                                                .on_drop = drop_none,
                                                .data = &dropped});
    gate_fill(&gate, pool, 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &keyed), 0);
    lack(true);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -ENOMEM);
    lack(false);
    CHECK_EQ(count_of(&dropped), 1);
    CHECK_EQ(count_of(&ran), 0);
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran), 1);
}

/* Tasks of a key, one after the other, and others for which there is a place and no worker. */
static void keys_later(void *arg)
{
    weft_submit_options keyed = {.key = 7};
    weft_pool *pool = begin_paused((weft_pool_options){.capacity = 2, .queue = 8});
    for (int i = 0; i < 6; i++)
        CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, i % 2 ? &keyed : NULL), 0);
    resume_lacking(pool, 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 6);
}

/* A panic of one: the worker runs the next of its key at once. */
static void lack_and_panic(void *arg)
{
    lack(true);
    weft_panic("of the first");
}

static void end_of_lack(void *arg)
{
    lack(false);
    count_task(arg);
}

static void keys_after_a_panic(void *arg)
{
    weft_submit_options keyed = {.key = 7};
    weft_pool *pool =
        begin((weft_pool_options){.capacity = 1, .queue = 8, .on_panic = ignore_panic});
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit_with(pool, lack_and_panic, NULL, &keyed), 0);
    CHECK_EQ(weft_pool_submit_with(pool, end_of_lack, &ran, &keyed), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 1);
}

static void tasks_without_a_worker(void)
{
    for (int processors = 1; processors <= 2; processors++) {
        on_machines(processors, handle_later);
        on_machines(processors, abort_lacking);
        on_machines(processors, abort_beside);
        on_machines(processors, drop_lacking);
        on_machines(processors, keys_later);
        on_machines(processors, keys_after_a_panic);
    }
}

/* No memory for the submitter itself. */

static void submit_without_memory(void *pool)
{
    weft_task *task = (weft_task *)(uintptr_t)0xdead;
    lack(true);
    CHECK_EQ(weft_task_start(&task, pool, count_handle, &ran, NULL), -ENOMEM);
    CHECK_PTR(task, (weft_task *)(uintptr_t)0xdead);
    /* It cannot run it, without memory to know that it does. */
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -ENOMEM);
    lack(false);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0); /* runs it */
    CHECK_EQ(count_of(&ran), 1);
}

static void callers_without_memory(void *arg)
{
    weft_fiber *fiber;
    weft_pool *pool = begin((weft_pool_options){.capacity = 1, .when_full = WEFT_CALLER_RUNS});
    gate_fill(&gate, pool, 1);
    CHECK_EQ(weft_spawn(&fiber, submit_without_memory, pool, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    gate_open_and_close(&gate, pool);
}

/* With all that is left of the memory for that in use. */
static void wait_compact(void *pool)
{
    struct taken {
        struct taken *next;
    } *all = NULL, *one;
    lack(true);
    weft__os_fail(OS_MAP, 1, true);
    for (size_t size = 16; size <= 4096; size += 16)
        while ((one = weft__stash(size)) != NULL) {
            one->next = all;
            all = one;
        }
    int error = weft_pool_submit(pool, count_task, &ran);
    weft__os_fail(OS_MAP, 0, false);
    lack(false);
    for (; all != NULL; all = one) {
        one = all->next;
        weft__unstash(all);
    }
    CHECK_EQ(error, -ENOMEM);
}

/* Data that other threads read while a compact fiber waits cannot be on its stack. */
static void compact_without_memory(void *arg)
{
    weft_fiber *fiber;
    weft_pool *pool = begin((weft_pool_options){.capacity = 1});
    gate_fill(&gate, pool, 1);
    weft_spawn_options options = {.compact = 1};
    CHECK_EQ(weft_spawn(&fiber, wait_compact, pool, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(pool_stats(pool).rejected, 1);
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran), 0);
}

static void submitters_without_memory(void)
{
    on_machines(1, callers_without_memory);
    on_machines(2, callers_without_memory);
    if (weft__compact_works())
        on_machines(1, compact_without_memory);
}

/* weft_pool_default tries again at the next call, and returns one pool to concurrent calls. */

static atomic_u32 asking;
static atomic_ptr asked;

static void *ask(void *arg)
{
    void *none = NULL;
    atomic_u32_add_seq_cst(&asking, 1);
    while (count_of(&asking) < 4)
        continue;
    weft_pool *pool = weft_pool_default();
    CHECK(pool != NULL);
    CHECK(atomic_ptr_cas_acq_rel(&asked, &none, pool) || none == pool);
    return NULL;
}

static void ask_together(void *arg)
{
    pthread_t threads[4];
    lack(true);
    CHECK_PTR(weft_pool_default(), NULL);
    lack(false);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, ask, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void the_default_pool(void)
{
    const char *output;
    for (int i = 0; i < 20; i++) /* it is made once in a process */
        CHECK_EQ(test_in_child(ask_together, NULL, &output), 0);
}

/* The replacement of a fiber that may crash is a record and an extra part; one is missing. */

enum { RECORDS_MOST = 100000 };

static void make_replacements(void *arg)
{
    static struct weft_fiber *records[RECORDS_MOST];
    struct weft_fiber *self = weft_self(), *replacement;
    int count = 0;
    (void)runtime_enter(thread_self());
    replacement = weft__fiber_new(thread_self()->fibers); /* so that there is one at hand */
    weft__fiber_free(thread_self()->fibers, replacement);
    weft__os_fail(OS_ALLOC, 1, true);
    weft__os_fail(OS_MAP, 1, true);
    struct weft_fiber *without_extra = weft__fiber_make_replacement(self, count_task, NULL);
    while (count < RECORDS_MOST &&
           (records[count] = weft__fiber_new(thread_self()->fibers)) != NULL)
        count++;
    struct weft_fiber *without_record = weft__fiber_make_replacement(self, count_task, NULL);
    weft__os_fail(OS_ALLOC, 0, false);
    weft__os_fail(OS_MAP, 0, false);
    while (count > 0)
        weft__fiber_free(thread_self()->fibers, records[--count]);
    replacement = weft__fiber_make_replacement(self, count_task, NULL);
    runtime_leave(thread_self());
    CHECK_PTR(without_extra, NULL);
    CHECK_PTR(without_record, NULL);
    CHECK(replacement != NULL);
    weft__fiber_free_any(replacement);
}

static void replacements_of_crashed_fibers_need_memory(void)
{
    on_one_machine(make_replacements, NULL);
}

int main(void)
{
    RUN(the_default_pool); /* before weft runs here: it forks */
    RUN(one_that_cannot_be_made_whole);
    RUN(places_without_a_worker);
    RUN(tasks_without_a_worker);
    RUN(submitters_without_memory);
    RUN(replacements_of_crashed_fibers_need_memory);
    return 0;
}
