/*
 * group.c: groups of fibers: waiting for them, their errors, their limits, and functions that
 * cannot be started.
 */
#include "everywhere.h"
#include "failing.h"
#include "members.h"
#include "seeds.h"

static int poisoned;
static void *const poison = &poisoned;

static void arguments(void)
{
    weft_group *group = poison;
    CHECK_EQ(weft_group_open(NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_open(&group, &(weft_group_options){.limit = -1}), -EINVAL);
    CHECK_EQ(weft_group_open(&group, &(weft_group_options){.timeout = -1}), -EINVAL);
    for (int i = 0; i < 4; i++) {
        weft_group_options options = {.limit = 1};
        options.reserved[i] = 1;
        CHECK_EQ(weft_group_open(&group, &options), -EINVAL);
    }
    CHECK_PTR(group, poison);
    CHECK_EQ(weft_group_go(NULL, succeed, NULL), -EINVAL);
    CHECK_EQ(weft_group_try_go(NULL, succeed, NULL), -EINVAL);
    CHECK_EQ(weft_group_wait(NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_wait_until(NULL, WEFT_NOW, NULL), -EINVAL);
    CHECK_EQ(weft_group_close(NULL), -EINVAL);
    CHECK_EQ(weft_group_running(NULL), 0);
    CHECK_EQ(weft_group_set_limit(NULL, 1), -EINVAL);
    CHECK_PTR(weft_group_context(NULL), NULL);
    CHECK_EQ(weft_group_scope(NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_leave(), -EINVAL);
    weft_group_cancel(NULL);
    group = make(NULL);
    CHECK_EQ(weft_group_go(group, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_try_go(group, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_set_limit(group, -1), -EINVAL);
    CHECK_EQ(weft_group_running(group), 0);
    CHECK_EQ(weft_group_wait(group, NULL), 0);
    CHECK_EQ(weft_group_wait_until(group, WEFT_NOW, NULL), 0);
    CHECK_EQ(weft_group_close(group), 0);
}

/* Waiting. */

enum { MEMBERS = 100 };

static int write_after_a_while(void *place)
{
    weft_yield();
    CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    *(int *)place = 1; /* plain: the wait orders it */
    return 0;
}

static void wait_and_go_on(void *arg)
{
    static const weft_group_options unlimited, limited = {.limit = 7};
    for (int limit = 0; limit < 2; limit++) {
        weft_group *group = make(limit ? &limited : &unlimited);
        for (int round = 0; round < 3; round++) {
            int written[MEMBERS] = {0};
            for (int i = 0; i < MEMBERS; i++)
                CHECK_EQ(weft_group_go(group, write_after_a_while, &written[i]), 0);
            CHECK_EQ(round < 2 ? group_error(group) : weft_group_close(group), 0);
            for (int i = 0; i < MEMBERS; i++)
                CHECK_EQ(written[i], 1);
        }
    }
}

static void wait_until_a_deadline(void *arg)
{
    weft_wg gate;
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    weft_group *group = make(NULL);
    CHECK_EQ(weft_group_go(group, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_group_go(group, wait_for_gate, &gate), 0);
    int error = 77; /* untouched by an error of the wait itself */
    CHECK_EQ(weft_group_wait_until(group, WEFT_NOW, &error), -ETIMEDOUT);
    int64_t deadline = weft_after(500 * WEFT_US);
    CHECK_EQ(weft_group_wait_until(group, deadline, &error), -ETIMEDOUT);
    CHECK_EQ(error, 77);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_group_running(group), 2);
    CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
    weft_wg_done(&gate);
    CHECK_EQ(weft_group_wait_until(group, weft_after(1000 * WEFT_S), &error), 0);
    CHECK_EQ(error, 0);
    CHECK_EQ(weft_group_running(group), 0);
    CHECK_EQ(weft_group_close(group), 0);
}

/* Errors. */

static void first_error_cancels(void *arg)
{
    for (int limit = 0; limit < 2; limit++)
        for (int late = 0; late < 2; late++) {
            weft_group *group = make(&(weft_group_options){.limit = limit * 1000});
            if (!late)
                CHECK_EQ(weft_group_go(group, fail, error_arg(-EIO)), 0);
            for (int i = 0; i < 10; i++) {
                int result = weft_group_go(group, sleep_on, NULL);
                CHECK(result == 0 || (!late && result == -ECANCELED));
            }
            if (late)
                CHECK_EQ(weft_group_go(group, fail, error_arg(-EIO)), 0);
            CHECK_EQ(group_error(group), -EIO);
            CHECK_EQ(weft_group_running(group), 0);
            CHECK_EQ(weft_context_error(weft_group_context(group)), -ECANCELED);
            /* and no more are started */
            CHECK_EQ(weft_group_go(group, succeed, NULL), -ECANCELED);
            CHECK_EQ(weft_group_try_go(group, succeed, NULL), -ECANCELED);
            weft_group_cancel(group); /* its error is the first */
            int error = 0;
            CHECK_EQ(weft_group_wait_until(group, WEFT_NOW, &error), 0);
            CHECK_EQ(error, -EIO);
            CHECK_EQ(weft_group_close(group), -EIO);
        }
}

/* Any number that is not 0 is an error, and is kept as it is. */
static void errors_are_kept_as_they_are(void)
{
    static const int errors[] = {1, -1, 77, -EDEADLK, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        weft_group *group = make(NULL);
        CHECK_EQ(weft_group_go(group, fail, error_arg(errors[i])), 0);
        CHECK_EQ(group_error(group), errors[i]); /* not taken for an error of the wait */
        CHECK_EQ(weft_group_close(group), errors[i]);
    }
}

static struct {
    weft_wg gate;
    atomic_u32 ended;
} others;

static int wait_and_count(void *arg)
{
    CHECK_EQ(weft_wg_wait(&others.gate), 0);
    CHECK_EQ(weft_sleep(WEFT_US), 0); /* not cancelled */
    atomic_u32_add_relaxed(&others.ended, 1);
    return 0;
}

static int fail_and_open(void *error)
{
    weft_wg_done(&others.gate);
    return (int)(intptr_t)error;
}

static void keep_going(void *arg)
{
    weft_group *group = make(&(weft_group_options){.keep_going = 1});
    atomic_u32_store_relaxed(&others.ended, 0);
    CHECK_EQ(weft_wg_init(&others.gate, 2), 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_group_go(group, wait_and_count, NULL), 0);
    CHECK_EQ(weft_group_go(group, fail_and_open, error_arg(-EIO)), 0);
    while (weft_group_running(group) > 10)
        weft_yield();
    CHECK_EQ(weft_group_go(group, fail_and_open, error_arg(-EPERM)), 0); /* not the first */
    CHECK_EQ(group_error(group), -EIO);
    CHECK_EQ(atomic_u32_load_relaxed(&others.ended), 10);
    CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
    CHECK_EQ(weft_group_go(group, succeed, &others.ended), 0);
    CHECK_EQ(weft_group_close(group), -EIO);
    CHECK_EQ(atomic_u32_load_relaxed(&others.ended), 11);
}

/* The limit. */

static struct {
    atomic_u32 now, most;
    weft_barrier all;
} load;

static int measure(void *arg)
{
    uint32_t now = atomic_u32_add_seq_cst(&load.now, 1) + 1;
    uint32_t most = atomic_u32_load_relaxed(&load.most);
    while (now > most && !atomic_u32_cas_acq_rel(&load.most, &most, now))
        continue;
    weft_yield();
    if ((uintptr_t)arg % 8 == 0)
        CHECK_EQ(weft_sleep(20 * WEFT_US), 0);
    atomic_u32_sub_seq_cst(&load.now, 1);
    return 0;
}

static int meet_all(void *arg)
{
    CHECK(weft_barrier_wait(&load.all) >= 0);
    return 0;
}

static void never_more_than_the_limit(void *arg)
{
    static const int limits[] = {1, 3, 16};
    for (int l = 0; l < 3; l++) {
        weft_group *group = make(&(weft_group_options){.limit = limits[l]});
        atomic_u32_store_relaxed(&load.most, 0);
        for (uintptr_t i = 0; (int64_t)i < test_scale(500); i++) {
            CHECK_EQ(weft_group_go(group, measure, (void *)i), 0);
            CHECK(weft_group_running(group) <= limits[l]);
        }
        CHECK_EQ(group_error(group), 0);
        CHECK(atomic_u32_load_relaxed(&load.most) <= (uint32_t)limits[l]);
        /* as many as the limit allows do run at once */
        CHECK_EQ(weft_barrier_init(&load.all, limits[l]), 0);
        for (int i = 0; i < 3 * limits[l]; i++)
            CHECK_EQ(weft_group_go(group, meet_all, NULL), 0);
        CHECK_EQ(weft_group_close(group), 0);
        weft_barrier_destroy(&load.all);
    }
}

static void try_go_does_not_wait(void *arg)
{
    weft_wg gate;
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    weft_group *group = make(&(weft_group_options){.limit = 2});
    CHECK_EQ(weft_group_try_go(group, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_group_go(group, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_group_try_go(group, wait_for_gate, &gate), -EAGAIN);
    CHECK_EQ(weft_group_running(group), 2);
    weft_wg_done(&gate);
    CHECK_EQ(group_error(group), 0);
    CHECK_EQ(weft_group_try_go(group, succeed, NULL), 0);
    CHECK_EQ(weft_group_close(group), 0);
    group = make(NULL);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(weft_group_try_go(group, succeed, NULL), 0);
    CHECK_EQ(weft_group_close(group), 0);
}

/* Failures. */

static atomic_u32 started;

static void attempt_group(void)
{
    weft_group *group = poison;
    int opened =
        weft_group_open(&group, &(weft_group_options){.limit = 1, .timeout = 1000 * WEFT_S});
    int went = opened == 0 ? weft_group_go(group, succeed, &started) : 0;
    failing_off();
    failing_check(opened, failing_start);
    failing_check(went, failing_start);
    if (opened != 0) {
        CHECK_PTR(group, poison);
    } else {
        /* The place of a function that did not start is free, and no function is left to wait
         * for. */
        uint32_t expected = went == 0;
        CHECK_EQ(group_error(group), 0);
        CHECK_EQ(weft_group_running(group), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&started), expected);
        CHECK_EQ(weft_group_go(group, succeed, &started), 0);
        CHECK_EQ(weft_group_close(group), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&started), expected + 1);
    }
    atomic_u32_store_relaxed(&started, 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void failures(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK(failing_each(attempt_group, 30) > 10);
}

static void too_many_fibers(void)
{
    weft_wg gate;
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(weft_configure(&(weft_config){.max_fibers = 2}), 0);
    weft_group *group = make(&(weft_group_options){.limit = 3});
    CHECK_EQ(weft_group_go(group, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_group_go(group, wait_for_gate, &gate), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_group_go(group, succeed, NULL), -EAGAIN); /* of weft_go: a place is free */
    CHECK_EQ(weft_group_running(group), 2);
    CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
    weft_wg_done(&gate);
    CHECK_EQ(weft_group_close(group), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_EVERYWHERE(wait_and_go_on);
    RUN_EVERYWHERE(wait_until_a_deadline);
    RUN_EVERYWHERE(first_error_cancels);
    RUN_BOTH(errors_are_kept_as_they_are);
    RUN_EVERYWHERE(keep_going);
    RUN_EVERYWHERE(never_more_than_the_limit);
    RUN_EVERYWHERE(try_go_does_not_wait);
    RUN_PLAIN(failures, "stops or configures the runtime");
    RUN_PLAIN(too_many_fibers, "stops or configures the runtime");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
