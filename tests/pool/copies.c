/*
 * copies.c: a copied argument belongs to the task: it stays where it is while the task runs,
 * on_drop and on_panic may read it, and it is freed however the task ends.
 */
#include "isolates.h"
#include "os/failure.h"
#include "os/os.h"
#include "tasks.h"

enum { TASKS = 60, PATTERN = 0x5a };

struct bytes {
    unsigned char all[WEFT_COPY_MAX];
};

static atomic_u32 ran, told;

static void fall(void *arg);
static void crash(void *arg);

static void look_at(const void *arg)
{
    const struct bytes *bytes = arg;
    for (size_t i = 0; i < sizeof *bytes; i++)
        CHECK_EQ(bytes->all[i], PATTERN);
}

static int offer(weft_pool *pool, void (*function)(void *), weft_submit_options options)
{
    struct bytes bytes;
    memset(&bytes, PATTERN, sizeof bytes);
    options.copy = sizeof bytes;
    int error = weft_pool_submit_with(pool, function, &bytes, &options);
    memset(&bytes, 0, sizeof bytes);
    return error;
}

/* With and without keys, of all priorities. */
static void offer_many(weft_pool *pool, void (*function)(void *))
{
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(offer(pool, function,
                       (weft_submit_options){.priority = i % 3 - 1, .key = (uint64_t)(i % 4)}),
                 0);
}

static void on_drop(void (*function)(void *), void *arg, void *data)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    look_at(arg);
    atomic_u32_add_seq_cst(&told, 1);
}

static void on_panic(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    if (function == fall || function == crash) /* else it is a group's */
        look_at(arg);
    atomic_u32_add_seq_cst(&told, 1);
}

static weft_pool *open_with(weft_pool_options options)
{
    options.on_drop = on_drop;
    options.on_panic = on_panic;
    options.compact = compact;
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&told, 0);
    return pool_open(options);
}

static void close_and_check(weft_pool *pool, uint32_t have_run, uint32_t were_told)
{
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    (void)pool_stats(pool);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), have_run);
    CHECK_EQ(count_of(&told), were_told);
}

/* The ways in which a task ends. */

struct later {
    weft_deferred record;
    const void *arg;
};

static void look_later(void *arg)
{
    struct later *later = arg;
    look_at(later->arg);
    free(later);
}

/* A deferred call is part of the task. */
static void defer_look(const void *arg)
{
    struct later *later = malloc(sizeof *later);
    CHECK(later != NULL);
    later->arg = arg;
    weft_defer(&later->record, look_later, later);
}

static void run(void *arg)
{
    defer_look(arg);
    CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    look_at(arg);
    atomic_u32_add_seq_cst(&ran, 1);
}

static void fall(void *arg)
{
    defer_look(arg);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    look_at(arg);
    atomic_u32_add_seq_cst(&ran, 1);
    weft_panic("fell");
}

static void crash(void *arg)
{
    look_at(arg);
    atomic_u32_add_seq_cst(&ran, 1);
    fault_null_write();
}

static void ends(void *arg)
{
    weft_pool *pool = open_with((weft_pool_options){.capacity = 5, .queue = WEFT_UNLIMITED});
    offer_many(pool, run);
    close_and_check(pool, TASKS, 0);
}

static void panics(void *arg)
{
    weft_pool *pool = open_with((weft_pool_options){.capacity = 5, .queue = WEFT_UNLIMITED});
    offer_many(pool, fall);
    close_and_check(pool, TASKS, TASKS);
}

static void is_aborted(void *arg)
{
    weft_pool *pool = open_with((weft_pool_options){.capacity = 5, .queue = WEFT_UNLIMITED});
    CHECK_EQ(weft_pool_pause(pool), 0);
    offer_many(pool, run);
    CHECK_EQ(weft_pool_abort(pool), TASKS);
    CHECK_EQ(weft_pool_resume(pool), 0);
    close_and_check(pool, 0, TASKS);
}

static void is_dropped(void *arg)
{
    for (int when_full = WEFT_DROP_NEWEST; when_full <= WEFT_DROP_OLDEST; when_full++) {
        weft_pool *pool =
            open_with((weft_pool_options){.capacity = 1, .queue = 9, .when_full = when_full});
        CHECK_EQ(weft_pool_pause(pool), 0);
        offer_many(pool, run);
        CHECK_EQ(weft_pool_resume(pool), 0);
        close_and_check(pool, 10, TASKS - 10);
    }
}

/* By the submitter, since the pool is full. */
static void is_called(void *arg)
{
    for (int falls = 0; falls < 2; falls++) {
        static struct gate gate;
        weft_pool *pool =
            open_with((weft_pool_options){.capacity = 1, .when_full = WEFT_CALLER_RUNS});
        gate_shut_and_fill(&gate, pool, 1);
        for (int i = 0; i < TASKS; i++)
            CHECK_EQ(offer(pool, falls ? fall : run, (weft_submit_options){0}), 0);
        gate_open(&gate);
        close_and_check(pool, TASKS, falls ? TASKS : 0);
    }
}

/* It was never admitted. */
static void is_refused(void *arg)
{
    for (int waits = 0; waits < 2; waits++) {
        weft_pool *pool = open_with((weft_pool_options){
            .capacity = 1, .queue = 1, .when_full = waits ? WEFT_BLOCK : WEFT_REJECT});
        CHECK_EQ(weft_pool_pause(pool), 0);
        for (int i = 0; i < 5; i++)
            CHECK_EQ(offer(pool, run, (weft_submit_options){.timeout = 20 * WEFT_US}),
                     i < 2 ? 0 : (waits ? -ETIMEDOUT : -EAGAIN));
        CHECK_EQ(weft_pool_resume(pool), 0);
        close_and_check(pool, 2, 0);
    }
}

/* A group's. */

static int member(void *arg)
{
    atomic_u32_add_seq_cst(arg, 1);
    return weft_sleep(WEFT_US);
}

static int falling_member(void *arg)
{
    (void)member(arg);
    weft_panic("fell");
}

static void is_of_a_group(void *arg)
{
    enum { GO, FALLS, CANCELLED, ABORTED, WAYS };
    for (int way = 0; way < WAYS; way++) {
        weft_pool *pool = open_with((weft_pool_options){.capacity = 2, .queue = WEFT_UNLIMITED});
        weft_group *group = group_over(pool, NULL);
        CHECK_EQ(weft_pool_pause(pool), 0);
        for (int i = 0; i < TASKS; i++)
            CHECK_EQ(weft_group_go(group, way == FALLS ? falling_member : member, &ran), 0);
        if (way == CANCELLED)
            weft_group_cancel(group);
        if (way == ABORTED)
            CHECK_EQ(weft_pool_abort(pool), TASKS);
        CHECK_EQ(weft_pool_resume(pool), 0);
        weft_panic_info info;
        int error = group_error(group);
        CHECK_EQ(error, way == GO ? 0 : way == FALLS ? -EOWNERDEAD : -ECANCELED);
        CHECK_EQ(weft_group_panic(group, &info), way == FALLS ? 0 : -ENOENT);
        CHECK_EQ(weft_group_close(group), error);
        pool_close(pool);
    }
}

struct late {
    weft_pool *pool;
    int error;
};

static void offer_late(void *arg)
{
    struct late *late = arg;
    late->error = offer(late->pool, run, (weft_submit_options){0});
}

/* The nth allocation of a submit fails: it was never there. */
static void fails_at(weft_pool *pool, uint32_t nth, weft_submit_options options)
{
    weft_pool_stats before = pool_stats(pool);
    int64_t held = weft__os_live(LIVE_MEMORY);
    weft__os_fail(OS_ALLOC, nth, false);
    int error = offer(pool, run, options);
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(error, -ENOMEM);
    CHECK_EQ(weft__os_live(LIVE_MEMORY), held);
    weft_pool_stats after = pool_stats(pool);
    CHECK_EQ(memcmp(&before, &after, sizeof before), 0);
}

static void has_no_memory(void *arg)
{
    weft_pool *pool = open_with((weft_pool_options){.capacity = 1, .queue = 5});
    CHECK_EQ(weft_pool_pause(pool), 0);
    fails_at(pool, 1, (weft_submit_options){0}); /* the record with the copy */
    CHECK_EQ(offer(pool, run, (weft_submit_options){0}), 0);
    fails_at(pool, 1, (weft_submit_options){0});
    fails_at(pool, 1, (weft_submit_options){.key = 7});
    CHECK_EQ(offer(pool, run, (weft_submit_options){.key = 7}), 0);
    fails_at(pool, 1, (weft_submit_options){.key = 7});
    while (offer(pool, run, (weft_submit_options){.timeout = 20 * WEFT_US}) == 0)
        continue;
    /* In line it has its record already, and needs no memory when its turn comes. */
    weft_fiber *fiber;
    struct late late = {pool, 1};
    CHECK_EQ(weft_spawn(&fiber, offer_late, &late, NULL), 0);
    AWAIT_FIGURE(pool, blocked, 1);
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_pool_tune(pool, 2), 0);
    CHECK_EQ(weft_join(fiber), 0);
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(late.error, 0);
    CHECK_EQ(pool_stats(pool).submitted, 7);
    CHECK_EQ(weft_pool_resume(pool), 0);
    close_and_check(pool, 7, 0);
}

/* The first run makes what is kept. `alone`: on one machine, since the start of another could take
 * the allocation that is to fail. */
static void leaves_nothing_if(bool alone, void (*body)(void *))
{
    for (compact = 0; compact < 2; compact++) {
        int64_t held = 0;
        for (int i = 0; i < 3; i++) {
            if (alone)
                on_one_machine(body, NULL);
            else
                on_processors(i > 0 ? 2 : 1, body, NULL);
            if (i > 1)
                CHECK_EQ(weft__os_live(LIVE_MEMORY), held);
            held = weft__os_live(LIVE_MEMORY);
        }
    }
}

static void leaves_nothing(void (*body)(void *))
{
    leaves_nothing_if(false, body);
}

static void nothing_is_left_of_one_that_ran(void)
{
    leaves_nothing(ends);
    leaves_nothing(panics);
    leaves_nothing(is_called);
    leaves_nothing(is_of_a_group);
}

static void nothing_is_left_of_one_that_did_not(void)
{
    leaves_nothing(is_aborted);
    leaves_nothing(is_dropped);
    leaves_nothing(is_refused);
    leaves_nothing_if(true, has_no_memory);
}

/* The record of a crashed fiber is kept, so the memory is compared with that of crashes without a
 * copy. */
static void crashes(void *copied)
{
    enum { CRASHES = 4 };
    static struct bytes bytes;
    memset(&bytes, PATTERN, sizeof bytes);
    weft_pool *pool =
        open_with((weft_pool_options){.capacity = 1, .queue = CRASHES, .isolate_crashes = 1});
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < CRASHES; i++) {
        weft_submit_options options = {.key = (uint64_t)(i % 2),
                                       .copy = copied != NULL ? sizeof bytes : 0};
        CHECK_EQ(weft_pool_submit_with(pool, crash, &bytes, &options), 0);
    }
    CHECK_EQ(weft_pool_resume(pool), 0);
    close_and_check(pool, CRASHES, CRASHES);
}

static int64_t left_by_crashes(void *copied)
{
    on_processors(1, crashes, copied);
    int64_t held = weft__os_live(LIVE_MEMORY);
    on_processors(1, crashes, copied);
    return weft__os_live(LIVE_MEMORY) - held;
}

static void nothing_is_left_of_one_that_crashed(void)
{
    if (WEFT_ASAN || WEFT_TSAN) /* their own handlers */
        return;
    for (compact = 0; compact < 2; compact++)
        CHECK_EQ(left_by_crashes(&compact), left_by_crashes(NULL));
}

int main(void)
{
    weft__os_live_count();
    RUN_PLAIN(nothing_is_left_of_one_that_ran, "stops or configures the runtime");
    RUN_PLAIN(nothing_is_left_of_one_that_did_not, "stops or configures the runtime");
    RUN_PLAIN(nothing_is_left_of_one_that_crashed, "stops or configures the runtime");
    return 0;
}
