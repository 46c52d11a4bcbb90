/*
 * fiber.c: spawn, join, detach and yield; the stack, name, id and errno of a fiber.
 */
#include "base/compiler.h"
#include "everywhere.h"
#include "fibers.h"
#include "os/failure.h"
#include "os/os.h"
#include "seeds.h"

enum { MANY = 12000 }; /* more than a batch of fiber allocations or ids */

/* Runs until the gate opens. */
static void spawns_from_everywhere(void *arg)
{
    atomic_u32 ran = {0};
    run_fiber(count_up, &ran);
    CHECK_EQ(atomic_u32_load_relaxed(&ran), 1);
    CHECK_EQ(weft_go(count_up, &ran), 0);
    CHECK_EQ(weft_spawn(NULL, count_up, &ran, NULL), 0);
    yield_until(&ran, 3);
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

struct batch {
    uint64_t ids[MANY];
    atomic_u32 ran;
};

static void note_id(void *arg)
{
    *(uint64_t *)arg = weft_fiber_id(weft_self());
}

static void spawn_many(void *arg)
{
    struct batch *batch = arg;
    weft_fiber **fibers = calloc(MANY, sizeof(weft_fiber *));
    uint64_t *own = calloc(MANY, sizeof(uint64_t));
    CHECK(fibers != NULL && own != NULL);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], note_id, &own[i], NULL), 0);
        batch->ids[i] = weft_fiber_id(fibers[i]);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_join(fibers[i]), 0);
        CHECK_EQ(own[i], batch->ids[i]);
    }
    free(fibers);
    free(own);
}

static void check_unique(uint64_t *ids, size_t number)
{
    qsort(ids, number, sizeof *ids, compare_ids);
    CHECK(ids[0] != 0);
    for (size_t i = 1; i < number; i++)
        CHECK(ids[i - 1] != ids[i]);
}

static void ids_are_unique(void)
{
    enum { BATCHES = 3 };
    static struct {
        struct batch batches[BATCHES];
    } all;
    pthread_t threads[BATCHES];
    struct thread_call calls[BATCHES];
    on_processors(1, spawn_many, &all.batches[0]);
    check_unique(all.batches[0].ids, MANY);
    for (int i = 0; i < BATCHES; i++) {
        calls[i] = (struct thread_call){spawn_many, &all.batches[i]};
        threads[i] = thread_start(thread_call, &calls[i]);
    }
    for (int i = 0; i < BATCHES; i++)
        thread_join(threads[i]);
    static uint64_t ids[BATCHES * MANY];
    for (size_t i = 0; i < BATCHES; i++)
        memcpy(&ids[i * MANY], all.batches[i].ids, sizeof all.batches[i].ids);
    check_unique(ids, BATCHES * MANY);
    CHECK_EQ(weft_fiber_id(NULL), 0);
}

/* The spawn must fail, and leave the out-parameter alone. */
static void check_refused(void (*function)(void *), const weft_spawn_options *options, int error)
{
    weft_fiber *poison = (weft_fiber *)(uintptr_t)0xdead, *fiber = poison;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, options), error);
    CHECK_PTR(fiber, poison);
    CHECK_EQ(weft_spawn(NULL, function, NULL, options), error);
}

static void nonsense_is_refused(void *arg)
{
    weft_spawn_options options = {.name = "never"};
    CHECK_EQ(weft_go(NULL, NULL), -EINVAL);
    check_refused(NULL, NULL, -EINVAL);
    check_refused(NULL, &options, -EINVAL);
    options.stack_size = 1;
    check_refused(nothing, &options, -EINVAL);
    options.stack_size = (1 << 14) - 1;
    check_refused(nothing, &options, -EINVAL);
    options.stack_size = ((size_t)1 << 30) + 1;
    check_refused(nothing, &options, -EINVAL);
    options.stack_size = SIZE_MAX;
    check_refused(nothing, &options, -EINVAL);
    for (size_t i = 0; i < sizeof options.reserved / sizeof options.reserved[0]; i++) {
        options = (weft_spawn_options){.reserved = {0}};
        options.reserved[i] = 1;
        check_refused(nothing, &options, -EINVAL);
    }
    CHECK_EQ(weft_join(NULL), -EINVAL);
    CHECK_EQ(weft_join_until(NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_detach(NULL), -EINVAL);
}

#if WEFT_ASAN || WEFT_TSAN
enum { MARGIN = 10 * 1024 };
#else
enum { MARGIN = 3 * 1024 }; /* for what a park at the deepest point takes */
#endif

struct dive {
    uintptr_t top;
    size_t depth; /* bytes to go down */
    uint32_t frames;
};

/* Goes down until that many bytes are used, parks there, and checks on the way up that each frame
 * is as it was left. */
static noinline uint32_t dive(struct dive *to, uint32_t level)
{
    volatile uint32_t frame[32];
    for (uint32_t i = 0; i < 32; i++)
        frame[i] = level + i;
    if (to->top - (uintptr_t)frame + sizeof frame < to->depth) {
        CHECK_EQ(dive(to, level + 1), level + 1);
    } else {
        to->frames = level;
        weft_yield();
        CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
    }
    for (uint32_t i = 0; i < 32; i++)
        CHECK_EQ(frame[i], level + i);
    return frame[0];
}

static void dive_down(void *arg)
{
    struct dive *to = arg;
    volatile char here = 0;
    to->top = (uintptr_t)&here;
    CHECK_EQ(dive(to, 1), 1);
}

static void stacks_are_as_large_as_asked(void)
{
    static const struct {
        size_t asked, given;
    } sizes[] = {{0, 1 << 16},
                 {1 << 14, 1 << 14},
                 {(1 << 14) + 1, 1 << 15},
                 {1 << 20, 1 << 20},
                 {1 << 23, 1 << 23}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].given < 2 * MARGIN)
            continue;
        weft_spawn_options options = {.stack_size = sizes[i].asked};
        struct dive dives[8];
        weft_fiber *fibers[8];
        for (int j = 0; j < 8; j++) {
            dives[j] = (struct dive){.depth = sizes[i].given - MARGIN};
            CHECK_EQ(weft_spawn(&fibers[j], dive_down, &dives[j], &options), 0);
        }
        for (int j = 0; j < 8; j++) {
            CHECK_EQ(weft_join(fibers[j]), 0);
            CHECK(dives[j].frames > 1);
        }
    }
    /* The largest stack works too, since it is address space until it is used. */
    weft_spawn_options options = {.stack_size = (size_t)1 << 30};
    weft_fiber *fiber;
    atomic_u32 ran = {0};
    CHECK_EQ(weft_spawn(&fiber, count_up, &ran, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&ran), 1);
}

struct named {
    const char *expected;
    weft_fiber *self;
};

static void check_name(void *arg)
{
    struct named *named = arg;
    CHECK_STR(weft_fiber_name(weft_self()), named->expected);
    named->self = weft_self();
}

static void names_are_copied(void)
{
    char name[64];
    weft_spawn_options options = {.name = name};
    weft_fiber *fiber;
    struct named named;
    static const char *const cases[][2] = {
        {"", ""},
        {"a", "a"},
        {"0123456789012345678901234567890", "0123456789012345678901234567890"},
        {"01234567890123456789012345678901", "0123456789012345678901234567890"},
        {"0123456789012345678901234567890123456789", "0123456789012345678901234567890"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        named = (struct named){.expected = cases[i][1]};
        snprintf(name, sizeof name, "%s", cases[i][0]);
        CHECK_EQ(weft_spawn(&fiber, check_name, &named, &options), 0);
        memset(name, 'x', sizeof name - 1);
        CHECK_STR(weft_fiber_name(fiber), cases[i][1]);
        CHECK_EQ(weft_join(fiber), 0);
    }
    named = (struct named){.expected = ""};
    run_fiber(check_name, &named);
    CHECK_STR(weft_fiber_name(NULL), "");
}

static void a_fiber_knows_itself(void)
{
    struct named named = {.expected = ""};
    CHECK_PTR(weft_self(), NULL);
    weft_fiber *fiber = spawn(check_name, &named);
    weft_fiber *handle = fiber;
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_PTR(named.self, handle);
    CHECK_PTR(weft_self(), NULL);
}

struct gated {
    weft_wg gate;
    weft_fiber *fiber;
    uint32_t plain; /* written by the fiber, read after the join */
    atomic_u32 written;
};

static void write_at_gate(void *arg)
{
    struct gated *gated = arg;
    CHECK_EQ(weft_wg_wait(&gated->gate), 0);
    gated->plain = 42;
    atomic_u32_store_release(&gated->written, 1); /* its last touch */
}

static void gated_start(struct gated *gated)
{
    *gated = (struct gated){.plain = 0};
    CHECK_EQ(weft_wg_init(&gated->gate, 1), 0);
    CHECK_EQ(weft_spawn(&gated->fiber, write_at_gate, gated, NULL), 0);
}

static void joins_from_everywhere(void *arg)
{
    struct gated gated;

    gated_start(&gated); /* before its end */
    CHECK_EQ(weft_go(done_later, &gated.gate), 0);
    CHECK_EQ(weft_join(gated.fiber), 0);
    CHECK_EQ(gated.plain, 42);

    gated_start(&gated); /* after its end */
    weft_wg_done(&gated.gate);
    int64_t deadline = weft_after(3 * WEFT_MS);
    while (weft_now() < deadline)
        weft_yield();
    CHECK_EQ(weft_join_until(gated.fiber, WEFT_NEVER), 0);
    CHECK_EQ(gated.plain, 42);

    gated_start(&gated); /* with deadlines that pass, then with success */
    CHECK_EQ(weft_join_until(gated.fiber, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_join_until(gated.fiber, INT64_MIN), -ETIMEDOUT);
    deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_join_until(gated.fiber, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(gated.plain, 0);
    weft_wg_done(&gated.gate);
    CHECK_EQ(weft_join_until(gated.fiber, weft_after(3600 * WEFT_S)), 0);
    CHECK_EQ(gated.plain, 42);

    gated_start(&gated); /* asking only, until it has ended */
    weft_wg_done(&gated.gate);
    int result;
    while ((result = weft_join_until(gated.fiber, WEFT_NOW)) == -ETIMEDOUT)
        weft_yield();
    CHECK_EQ(result, 0);
    CHECK_EQ(gated.plain, 42);
}

static void join_self(void *arg)
{
    CHECK_EQ(weft_join(weft_self()), -EDEADLK);
    CHECK_EQ(weft_join_until(weft_self(), WEFT_NOW), -EDEADLK);
}

static void no_fiber_joins_itself(void)
{
    run_fiber(join_self, NULL);
}

static void join_gated(void *arg)
{
    struct gated *gated = arg;
    CHECK_EQ(weft_join(gated->fiber), 0);
    CHECK_EQ(gated->plain, 42);
}

/* Returns when the fiber has a joiner: then a join of ours is refused. */
static void await_joiner(struct gated *gated)
{
    int result;
    while ((result = weft_join_until(gated->fiber, WEFT_NOW)) == -ETIMEDOUT)
        weft_yield();
    CHECK_EQ(result, -EBUSY);
}

static void one_joiner_at_a_time(void)
{
    struct gated gated;

    gated_start(&gated);
    weft_fiber *joiner = spawn(join_gated, &gated);
    await_joiner(&gated);
    CHECK_EQ(weft_join(gated.fiber), -EBUSY);
    CHECK_EQ(weft_join_until(gated.fiber, weft_after(WEFT_S)), -EBUSY);
    CHECK_EQ(weft_detach(gated.fiber), -EBUSY);
    weft_wg_done(&gated.gate);
    CHECK_EQ(weft_join(joiner), 0);

    gated_start(&gated);
    pthread_t thread = thread_start(thread_call, &(struct thread_call){join_gated, &gated});
    await_joiner(&gated);
    CHECK_EQ(weft_join(gated.fiber), -EBUSY);
    weft_wg_done(&gated.gate);
    thread_join(thread);
}

static void detach_all_ways(void *arg)
{
    struct gated gated;
    gated_start(&gated); /* before its end */
    CHECK_EQ(weft_detach(gated.fiber), 0);
    weft_wg_done(&gated.gate);
    yield_until(&gated.written, 1);

    atomic_u32 ran = {0}; /* most likely after it */
    weft_fiber *fiber = spawn(count_up, &ran);
    int64_t deadline = weft_after(2 * WEFT_MS);
    while (!atomic_u32_load_acquire(&ran) || weft_now() < deadline)
        weft_yield();
    CHECK_EQ(weft_detach(fiber), 0);
}

static void detach_many(void *arg)
{
    /* No allocation is lost, or freed twice: the end and the detach race for it. */
    static atomic_u32 ran;
    uint32_t rounds = (uint32_t)test_scale(20000);
    atomic_u32_store_relaxed(&ran, 0);
    for (uint32_t i = 0; i < rounds; i++) {
        weft_fiber *fiber = spawn(count_up, &ran);
        if (i % 3 == 0)
            weft_yield();
        CHECK_EQ(weft_detach(fiber), 0);
    }
    yield_until(&ran, rounds);
}

/* The number of allocations shows it: a fiber allocation that is lost must be made anew. */
static void allocations_are_reused(void)
{
    enum { ROUNDS = 20000, ALLOCATIONS_MOST = 50 };
    atomic_u32 ran = {0};
    weft_fiber *fiber;
    shut_down();
    configure(2);
    weft__os_fail(OS_ALLOC, 0, false); /* only to count_up from here */
    for (uint32_t i = 0; i < ROUNDS; i++) {
        fiber = spawn(count_up, &ran);
        if (i % 3 == 0) /* most likely before its end; after it */
            CHECK_EQ(weft_detach(fiber), 0);
        while (atomic_u32_load_acquire(&ran) <= i)
            weft_yield();
        if (i % 3 == 1)
            CHECK_EQ(weft_detach(fiber), 0);
        else if (i % 3 == 2)
            CHECK_EQ(weft_join(fiber), 0);
    }
    CHECK(weft__os_calls(OS_ALLOC) < ALLOCATIONS_MOST);
    reset_runtime();
}

static void detaches_from_everywhere(void)
{
    everywhere(detach_many);
    for (int i = 0; i < 3; i++)
        everywhere(detach_all_ways);
    processors_end(); /* all detached fibers end, and count as ended */
}

enum { TURNERS = 5, TURNS = 40 };

static struct {
    uint8_t order[TURNERS * TURNS];
    uint32_t length;
} turns;

static void take_turns(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        turns.order[turns.length++] = (uint8_t)(uintptr_t)arg;
        weft_yield();
    }
}

static void spawn_turners(void *arg)
{
    run_each(TURNERS, take_turns);
}

static void yield_goes_round(void)
{
    on_one_machine(spawn_turners, NULL);
    CHECK_EQ(turns.length, TURNERS * TURNS);
    for (uint32_t i = TURNERS; i < turns.length; i++)
        CHECK_EQ(turns.order[i], turns.order[i - TURNERS]);
}

static void yield_alone(void *arg)
{
    atomic_u32 ran = {0};
    for (int i = 0; i < 1000; i++)
        weft_yield(); /* comes back */
    CHECK_EQ(weft_go(count_up, &ran), 0);
    weft_yield();
    CHECK_EQ(atomic_u32_load_relaxed(&ran), 1);
}

static void yield_lets_the_other_run(void)
{
    on_one_machine(yield_alone, NULL);
    weft_yield(); /* on a thread: only returns */
    CHECK_PTR(weft_self(), NULL);
}

/* No call of weft sets errno, not even where it waits or fails. */
static void call_with_errno(void *arg)
{
    struct gated gated;
    set_errno(1234);
    gated_start(&gated);
    CHECK_EQ(get_errno(), 1234);
    CHECK_EQ(weft_join_until(gated.fiber, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(get_errno(), 1234);
    CHECK_EQ(weft_wg_wait_until(&gated.gate, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(get_errno(), 1234);
    CHECK_EQ(weft_go(done_later, &gated.gate), 0);
    CHECK_EQ(weft_join(gated.fiber), 0);
    CHECK_EQ(get_errno(), 1234);
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    CHECK_EQ(get_errno(), 1234);
}

static void errno_is_not_set(void)
{
    everywhere(call_with_errno);
    set_errno(1234);
    shut_down();
    CHECK_EQ(get_errno(), 1234);
}

enum { LIMIT = 10 };

static void check_limit_reached(void *arg)
{
    weft_timer *poison = (weft_timer *)(uintptr_t)0xdead, *timer = poison;
    check_refused(nothing, NULL, -EAGAIN);
    CHECK_EQ(weft_go(nothing, NULL), -EAGAIN);
    CHECK_EQ(weft_timer_open(&timer, nothing, NULL), -EAGAIN);
    CHECK_PTR(timer, poison);
}

static void the_limit_holds(void)
{
    weft_config config = {.max_fibers = LIMIT};
    weft_wg gate = WEFT_WG_INIT;
    weft_fiber *fibers[LIMIT];
    CHECK_EQ(weft_configure(&config), 0);
    for (int round = 0; round < 100; round++) {
        CHECK_EQ(weft_wg_init(&gate, 1), 0);
        spawn_all(fibers, LIMIT - 1, wait_for_group, &gate);
        CHECK_EQ(weft_spawn(&fibers[LIMIT - 1], check_limit_reached, NULL, NULL), 0);
        CHECK_EQ(weft_join(fibers[LIMIT - 1]), 0); /* it was the last fiber of the limit */
        CHECK_EQ(weft_spawn(&fibers[LIMIT - 1], wait_for_group, &gate, NULL), 0);
        check_limit_reached(NULL);
        weft_wg_done(&gate);
        join_all(fibers, LIMIT);
    }
    reset_runtime();
}

int main(void)
{
    RUN_EVERYWHERE(spawns_from_everywhere);
    RUN_PLAIN_EVERYWHERE(nonsense_is_refused, "nothing waits");
    RUN_PLAIN(stacks_are_as_large_as_asked, "too much for many runs");
    RUN_BOTH(names_are_copied);
    RUN_PLAIN(a_fiber_knows_itself, "about plain threads");
    RUN_EVERYWHERE(joins_from_everywhere);
    RUN_BOTH(no_fiber_joins_itself);
    RUN_PLAIN(one_joiner_at_a_time, "about plain threads");
    RUN_BOTH(detaches_from_everywhere);
    RUN_PLAIN(allocations_are_reused, "stops or configures the runtime");
    RUN_PLAIN(ids_are_unique, "holds a processor while others run on another one");
    RUN_ALL_PLAIN("knows who runs next on one processor", yield_goes_round,
                  yield_lets_the_other_run);
    RUN_ALL_PLAIN("stops or configures the runtime", the_limit_holds, errno_is_not_set);
    return 0;
}
