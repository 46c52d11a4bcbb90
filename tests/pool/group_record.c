/*
 * group_record.c: groups over a pool: copied arguments, collected results, functions that are
 * skipped or dropped, and functions that run inside others.
 */
#include <weft/weft.h>

#include "tasks.h"

static int error_of(weft_group *group, int64_t index)
{
    int error = INT32_MIN;
    CHECK_EQ(weft_group_result(group, index, &error, NULL), 0);
    return error;
}

struct square {
    int64_t number, result;
    char filler[300]; /* more than the pool itself copies */
};

static int compute(void *arg)
{
    struct square *own = arg;
    weft_yield();
    own->result = own->number * own->number;
    return own->number % 10 == 3 ? -EDOM : 0;
}

static void copies_and_results(void *arg)
{
    enum { MANY = 100 };
    for (int collect = 0; collect < 2; collect++) {
        weft_pool *pool = POOL_OPEN(.capacity = 3, .queue = 10);
        weft_group *group = group_over(
            pool, &(weft_group_options){.collect = collect, .keep_going = 1, .limit = 7});
        for (int i = 0; i < MANY; i++) {
            struct square square = {.number = i};
            CHECK_EQ(weft_group_go_copy(group, compute, &square, sizeof square), 0);
            memset(&square, 0xff, sizeof square);
        }
        CHECK_EQ(group_error(group), -EDOM);
        CHECK_EQ(weft_group_count(group), collect ? MANY : 0);
        for (int i = 0; i < MANY && collect; i++) {
            void *copy;
            CHECK_EQ(weft_group_result(group, i, NULL, &copy), 0);
            CHECK_EQ(((struct square *)copy)->result, i * i);
            CHECK_EQ(error_of(group, i), i % 10 == 3 ? -EDOM : 0);
        }
        CHECK_EQ(weft_group_close(group), -EDOM);
        pool_close(pool);
    }
}

static int count(void *arg)
{
    count_task(*(void **)arg);
    return 0;
}

/* Functions in the queue are skipped when the group is cancelled, and a go that waits for the pool
 * fails. */

struct late {
    weft_group *group;
    atomic_u32 *ran;
    int result;
};

static void go_late(void *arg)
{
    struct late *late = arg;
    late->result = weft_group_go_copy(late->group, count, &late->ran, sizeof(void *));
}

static void a_cancelled_group_calls_nothing(void)
{
    for (int keep_going = 0; keep_going < 2; keep_going++) {
        struct gate gate;
        gate_shut(&gate);
        atomic_u32 ran = {0}, *counter = &ran;
        weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 3);
        weft_group *group =
            group_over(pool, &(weft_group_options){.collect = 1, .keep_going = keep_going});
        CHECK_EQ(weft_group_go(group, firm_gate_handle, &gate), 0);
        await_at_gate(&gate, 1);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(weft_group_go_copy(group, count, &counter, sizeof(void *)), 0);
        struct late late = {.group = group, .ran = &ran};
        struct body body = {.function = go_late, .arg = &late, .thread = true};
        body_start(&body);
        AWAIT_FIGURE(pool, blocked, 1);
        weft_group_cancel(group);
        gate_open(&gate);
        body_join(&body);
        CHECK_EQ(group_error(group), -ECANCELED);
        uint32_t called = keep_going ? 3 + (late.result == 0) : 0;
        CHECK_EQ(count_of(&ran), called);
        CHECK_EQ(weft_group_count(group), 4 + (late.result == 0));
        for (int i = 1; i < weft_group_count(group); i++)
            CHECK_EQ(error_of(group, i), keep_going ? 0 : -ECANCELED);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        pool_close(pool);
    }
}

/* Dropped ones: recorded as such, and their copies are freed (counted by the sanitizers). */
static void dropped_members(void *arg)
{
    static const int policies[] = {WEFT_DROP_NEWEST, WEFT_DROP_OLDEST};
    for (int i = 0; i < 4; i++) {
        struct gate gate;
        gate_shut(&gate);
        atomic_u32 ran = {0}, *counter = &ran;
        weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 2, .when_full = policies[i % 2]);
        weft_group *group =
            group_over(pool, &(weft_group_options){.collect = i / 2, .keep_going = 1});
        CHECK_EQ(weft_group_go(group, firm_gate_handle, &gate), 0);
        await_at_gate(&gate, 1);
        for (int k = 0; k < 5; k++)
            CHECK_EQ(weft_group_go_copy(group, count, &counter, sizeof(void *)), 0);
        gate_open(&gate);
        CHECK_EQ(group_error(group), -ECANCELED);
        CHECK_EQ(count_of(&ran), 2);
        for (int k = 0; k < 5 && i / 2; k++) {
            bool dropped = i % 2 == 0 ? k >= 2 : k < 3;
            CHECK_EQ(error_of(group, 1 + k), dropped ? -ECANCELED : 0);
        }
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        pool_close(pool);
    }
}

/* A go that waits for the pool gives up; the record of the next one moves up. */

struct applicant {
    weft_group *group;
    weft_context *context; /* NULL: none */
    atomic_u32 *ran;
    int result;
};

static void apply(void *arg)
{
    struct applicant *own = arg;
    CHECK_EQ(weft_context_bind(own->context, NULL), 0);
    own->result = weft_group_go(own->group, count, &own->ran);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void giving_up_before_others(void)
{
    struct gate gate;
    gate_shut(&gate);
    atomic_u32 ran = {0};
    weft_context *context = new_context();
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    weft_group *group = group_over(pool, &(weft_group_options){.collect = 1});
    CHECK_EQ(weft_group_go(group, firm_gate_handle, &gate), 0);
    await_at_gate(&gate, 1);
    struct applicant own[3] = {{.group = group, .context = context, .ran = &ran},
                               {.group = group, .ran = &ran},
                               {.group = group, .ran = &ran}};
    struct body bodies[3];
    for (int i = 0; i < 3; i++) {
        bodies[i] = (struct body){.function = apply, .arg = &own[i], .thread = i == 1};
        body_start(&bodies[i]);
        AWAIT_FIGURE(pool, blocked, i + 1);
    }
    CHECK_EQ(weft_group_count(group), 4);
    weft_context_cancel(context);
    body_join(&bodies[0]);
    CHECK_EQ(own[0].result, -ECANCELED);
    CHECK_EQ(weft_group_count(group), 3);
    gate_open(&gate);
    for (int i = 1; i < 3; i++) {
        body_join(&bodies[i]);
        CHECK_EQ(own[i].result, 0);
    }
    CHECK_EQ(group_error(group), 0);
    CHECK_EQ(count_of(&ran), 2);
    for (int i = 1; i < 3; i++) {
        void *arg;
        CHECK_EQ(weft_group_result(group, i, NULL, &arg), 0);
        CHECK_PTR(arg, &own[i].ran);
    }
    CHECK_EQ(weft_group_close(group), 0);
    pool_close(pool);
    weft_context_close(context);
}

/* on_panic gets the user's function and argument, not the group's wrapper of them. */

static struct {
    void (*function)(void *);
    int number;
    atomic_u32 times;
} told;

static void tell(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
    told.function = function;
    told.number = *(int *)arg;
    atomic_u32_add_seq_cst(&told.times, 1);
}

static int panic_now(void *arg)
{
    weft_panic("%d", *(int *)arg);
}

static void panics_are_told_as_given(void)
{
    int number = 4711;
    memset(&told, 0, sizeof told);
    weft_pool *pool = POOL_OPEN(.capacity = 1, .on_panic = tell);
    weft_group *group = group_over(pool, &(weft_group_options){.collect = 1});
    CHECK_EQ(weft_group_go_copy(group, panic_now, &number, sizeof number), 0);
    CHECK_EQ(group_error(group), -EOWNERDEAD);
    CHECK_EQ(error_of(group, 0), -EOWNERDEAD);
    CHECK_EQ(weft_group_close(group), -EOWNERDEAD);
    pool_close(pool);
    CHECK_EQ(count_of(&told.times), 1);
    CHECK(told.function == (void (*)(void *))(uintptr_t)panic_now);
    CHECK_EQ(told.number, number);
}

/* Functions inside others: in a full pool the caller runs them. */

static struct {
    weft_group *outer, *inner;
    atomic_u32 ran;
    bool leaves;
} nested;

static int inner_function(void *arg)
{
    int error = 77;
    CHECK_EQ(weft_group_wait(nested.inner, &error), -EDEADLK);
    CHECK_EQ(weft_group_wait_until(nested.inner, WEFT_NOW, &error), -EDEADLK);
    if (nested.outer != NULL) { /* it runs inside a function of that */
        CHECK_EQ(weft_group_wait(nested.outer, &error), -EDEADLK);
        CHECK_EQ(weft_group_close(nested.outer), -EDEADLK);
    }
    if (nested.leaves) {
        CHECK_EQ(weft_group_leave(), 0);
        CHECK_EQ(weft_group_leave(), -EINVAL); /* the outer one stays */
        CHECK_EQ(weft_group_wait_until(nested.inner, WEFT_NOW, &error), -ETIMEDOUT);
        if (nested.outer != NULL)
            CHECK_EQ(weft_group_wait(nested.outer, &error), -EDEADLK);
    }
    CHECK_EQ(error, 77);
    count_task(&nested.ran);
    return 0;
}

static int outer_function(void *arg)
{
    CHECK_EQ(weft_group_go(nested.inner, inner_function, NULL), 0);
    CHECK_EQ(weft_group_wait(nested.outer, NULL), -EDEADLK); /* as before */
    return 0;
}

static void inside_others(void *arg)
{
    for (int i = 0; i < 4; i++) {
        struct gate gate;
        gate_shut(&gate);
        weft_pool *pool = POOL_OPEN(.capacity = 1, .when_full = WEFT_CALLER_RUNS);
        nested.outer = NULL;
        nested.inner = group_over(pool, NULL);
        nested.leaves = i / 2;
        atomic_u32_store_relaxed(&nested.ran, 0);
        CHECK_EQ(weft_group_go(nested.inner, firm_gate_handle, &gate), 0);
        await_at_gate(&gate, 1);
        if (i % 2 == 0) {
            CHECK_EQ(weft_group_go(nested.inner, inner_function, NULL), 0); /* in this caller */
        } else {
            CHECK_EQ(weft_group_open(&nested.outer, NULL), 0);
            CHECK_EQ(weft_group_go(nested.outer, outer_function, NULL), 0);
            CHECK_EQ(weft_group_close(nested.outer), 0);
        }
        CHECK_EQ(count_of(&nested.ran), 1);
        CHECK_EQ(weft_group_leave(), -EINVAL); /* nothing is left of it */
        gate_open(&gate);
        CHECK_EQ(weft_group_close(nested.inner), 0);
        pool_close(pool);
    }
}

int main(void)
{
    RUN_EVERYWHERE(copies_and_results);
    RUN_BOTH(a_cancelled_group_calls_nothing);
    RUN_EVERYWHERE(dropped_members);
    RUN_BOTH(giving_up_before_others);
    RUN_BOTH(panics_are_told_as_given);
    RUN_EVERYWHERE(inside_others);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
