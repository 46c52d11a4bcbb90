/*
 * group.c: groups of fibers: errors, limits, cancellation, scopes, and that nothing outlives them.
 */
#include <sched.h>
#include <weft/weft.h>

#include "base/sys.h"
#include "bodies.h"
#include "everywhere.h"
#include "failing.h"
#include "sched/cancel.h"
#include "sched/fiber.h"
#include "seeds.h"

static int poisoned;
static void *const poison = &poisoned;

static weft_group *make(const weft_group_options *options)
{
    weft_group *group;
    CHECK_EQ(weft_group_open(&group, options), 0);
    return group;
}

static int succeed(void *arg)
{
    if (arg != NULL)
        atomic_u32_add_relaxed((atomic_u32 *)arg, 1);
    return 0;
}

static int fail(void *error)
{
    return (int)(intptr_t)error;
}

static void *error_arg(int error)
{
    return (void *)(intptr_t)error;
}

/* Sleeps until it is cancelled. */
static int sleep_on(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_NEVER);
}

static int wait_for_gate(void *gate)
{
    CHECK_EQ(weft_wg_wait(gate), 0);
    return 0;
}

/* Whatever becomes of its context. */
static int wait_firmly(void *gate)
{
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_wg_wait(gate), 0);
    return 0;
}

static void arguments(void)
{
    weft_group *group = poison;
    CHECK_EQ(weft_group_open(NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_open(&group, &(weft_group_options){.limit = -1}), -EINVAL);
    for (int i = 0; i < 4; i++) {
        weft_group_options options = {.limit = 1};
        options.reserved[i] = 1;
        CHECK_EQ(weft_group_open(&group, &options), -EINVAL);
    }
    CHECK_PTR(group, poison);
    CHECK_EQ(weft_group_go(NULL, succeed, NULL), -EINVAL);
    CHECK_EQ(weft_group_try_go(NULL, succeed, NULL), -EINVAL);
    CHECK_EQ(weft_group_wait(NULL), -EINVAL);
    CHECK_EQ(weft_group_wait_until(NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_group_close(NULL), -EINVAL);
    CHECK_EQ(weft_group_running(NULL), 0);
    CHECK_PTR(weft_group_context(NULL), NULL);
    CHECK_EQ(weft_group_scope(NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_leave(), -EINVAL);
    weft_group_cancel(NULL);
    group = make(NULL);
    CHECK_EQ(weft_group_go(group, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_try_go(group, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_running(group), 0);
    CHECK_EQ(weft_group_wait(group), 0);
    CHECK_EQ(weft_group_wait_until(group, WEFT_NOW), 0);
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
            CHECK_EQ(round < 2 ? weft_group_wait(group) : weft_group_close(group), 0);
            for (int i = 0; i < MEMBERS; i++)
                CHECK_EQ(written[i], 1);
        }
    }
    (void)arg;
}

static void wait_until_a_deadline(void *arg)
{
    weft_wg gate;
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    weft_group *group = make(NULL);
    CHECK_EQ(weft_group_go(group, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_group_go(group, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_group_wait_until(group, WEFT_NOW), -ETIMEDOUT);
    int64_t deadline = weft_after(500 * WEFT_US);
    CHECK_EQ(weft_group_wait_until(group, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_group_running(group), 2);
    CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
    weft_wg_done(&gate);
    CHECK_EQ(weft_group_wait_until(group, weft_after(1000 * WEFT_S)), 0);
    CHECK_EQ(weft_group_running(group), 0);
    CHECK_EQ(weft_group_close(group), 0);
    (void)arg;
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
            CHECK_EQ(weft_group_wait(group), -EIO);
            CHECK_EQ(weft_group_running(group), 0);
            CHECK_EQ(weft_context_error(weft_group_context(group)), -ECANCELED);
            /* and no more are started */
            CHECK_EQ(weft_group_go(group, succeed, NULL), -ECANCELED);
            CHECK_EQ(weft_group_try_go(group, succeed, NULL), -ECANCELED);
            weft_group_cancel(group); /* its error is the first */
            CHECK_EQ(weft_group_wait_until(group, WEFT_NOW), -EIO);
            CHECK_EQ(weft_group_close(group), -EIO);
        }
    (void)arg;
}

/* Any number that is not 0 is an error, and is kept as it is. */
static void errors_are_kept_as_they_are(void)
{
    static const int errors[] = {1, -1, 77, -EDEADLK, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        weft_group *group = make(NULL);
        CHECK_EQ(weft_group_go(group, fail, error_arg(errors[i])), 0);
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
    (void)arg;
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
    CHECK_EQ(weft_group_wait(group), -EIO);
    CHECK_EQ(atomic_u32_load_relaxed(&others.ended), 10);
    CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
    CHECK_EQ(weft_group_go(group, succeed, &others.ended), 0);
    CHECK_EQ(weft_group_close(group), -EIO);
    CHECK_EQ(atomic_u32_load_relaxed(&others.ended), 11);
    (void)arg;
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
    (void)arg;
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
        CHECK_EQ(weft_group_wait(group), 0);
        CHECK(atomic_u32_load_relaxed(&load.most) <= (uint32_t)limits[l]);
        /* and as many as that do run at once */
        CHECK_EQ(weft_barrier_init(&load.all, limits[l]), 0);
        for (int i = 0; i < 3 * limits[l]; i++)
            CHECK_EQ(weft_group_go(group, meet_all, NULL), 0);
        CHECK_EQ(weft_group_close(group), 0);
        weft_barrier_destroy(&load.all);
    }
    (void)arg;
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
    CHECK_EQ(weft_group_wait(group), 0);
    CHECK_EQ(weft_group_try_go(group, succeed, NULL), 0);
    CHECK_EQ(weft_group_close(group), 0);
    group = make(NULL);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(weft_group_try_go(group, succeed, NULL), 0);
    CHECK_EQ(weft_group_close(group), 0);
    (void)arg;
}

/* Who waits for a place, and what ends that. */

struct waiting {
    weft_group *group;
    weft_context *context; /* to bind to, or NULL */
    int result;
};

static void go_and_wait(void *arg)
{
    struct waiting *waiting = arg;
    CHECK_EQ(weft_context_bind(waiting->context, NULL), 0);
    waiting->result = weft_group_go(waiting->group, succeed, NULL);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void waiting_for_a_place_ends(void)
{
    for (int thread = 0; thread < 2; thread++)
        for (int cause = 0; cause < 4; cause++) {
            weft_wg gate;
            CHECK_EQ(weft_wg_init(&gate, 1), 0);
            weft_group_options options = {.limit = 1,
                                          .deadline = cause == 2 ? weft_after(WEFT_MS) : 0};
            weft_context *context;
            CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
            struct waiting waiting = {.group = make(&options),
                                      .context = cause == 1 ? context : NULL};
            struct body body = {.function = go_and_wait, .arg = &waiting, .thread = thread};
            int first = weft_group_go(waiting.group, wait_firmly, &gate);
            CHECK(first == 0 || (cause == 2 && first == -ETIMEDOUT)); /* a slow machine */
            body_start(&body);
            if (cause == 0)
                weft_group_cancel(waiting.group);
            else if (cause == 1)
                weft_context_cancel(context);
            else if (cause == 3)
                weft_wg_done(&gate);
            body_join(&body);
            static const int expected[] = {-ECANCELED, -ECANCELED, -ETIMEDOUT, 0};
            CHECK_EQ(waiting.result, expected[cause]);
            if (cause != 3)
                weft_wg_done(&gate);
            CHECK_EQ(weft_group_close(waiting.group), cause == 0 ? -ECANCELED : 0);
            weft_context_close(context);
        }
}

/* The only place becomes free because of the cancellation: so nobody gets it. */

static atomic_u32 too_late;

static void cancel_group(void *group)
{
    weft_group_cancel(group);
}

static void a_cancelled_group_starts_nothing(void)
{
    for (int64_t round = test_scale(2000); round > 0; round--) {
        weft_group *group = make(&(weft_group_options){.limit = 1});
        struct body body = {.function = cancel_group, .arg = group, .thread = round % 16 == 0};
        CHECK_EQ(weft_group_go(group, sleep_on, NULL), 0);
        body_start(&body);
        CHECK_EQ(weft_group_go(group, succeed, &too_late), -ECANCELED);
        body_join(&body);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
    }
    CHECK_EQ(atomic_u32_load_relaxed(&too_late), 0);
}

/* Cancelling. */

static void cancel_all(void *arg)
{
    weft_group *group = make(NULL);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_group_go(group, sleep_on, NULL), 0);
    weft_group_cancel(group);
    CHECK_EQ(weft_group_wait(group), -ECANCELED);
    weft_group_cancel(group);
    CHECK_EQ(weft_group_close(group), -ECANCELED);

    group = make(NULL); /* with nobody in it */
    weft_group_cancel(group);
    CHECK_EQ(weft_group_go(group, succeed, NULL), -ECANCELED);
    CHECK_EQ(weft_group_close(group), -ECANCELED);

    group = make(NULL); /* with keep_going a cancellation is still one */
    CHECK_EQ(weft_group_close(group), 0);
    group = make(&(weft_group_options){.keep_going = 1});
    CHECK_EQ(weft_group_go(group, sleep_on, NULL), 0);
    weft_group_cancel(group);
    CHECK_EQ(weft_group_close(group), -ECANCELED);
    (void)arg;
}

static int check_member(void *group)
{
    CHECK_PTR(weft_context_current(), weft_group_context(group));
    CHECK_EQ(weft_group_wait(group), -EDEADLK);
    CHECK_EQ(weft_group_wait_until(group, WEFT_NOW), -EDEADLK);
    CHECK_EQ(weft_group_close(group), -EDEADLK);
    CHECK_EQ(weft_group_running(group), 1);
    return 0;
}

static void a_member_does_not_wait_for_itself(void)
{
    for (int limit = 0; limit < 2; limit++) {
        weft_group *group = make(&(weft_group_options){.limit = limit});
        CHECK_EQ(weft_group_go(group, check_member, group), 0);
        CHECK_EQ(weft_group_close(group), 0);
    }
}

static void the_deadline(void *arg)
{
    int64_t deadline = weft_after(WEFT_MS);
    weft_group *group = make(&(weft_group_options){.deadline = deadline});
    CHECK_EQ(weft_context_deadline(weft_group_context(group)), deadline);
    int result = weft_group_go(group, sleep_on, NULL);
    CHECK(result == 0 || result == -ETIMEDOUT); /* a slow machine */
    CHECK_EQ(weft_group_wait(group), result == 0 ? -ETIMEDOUT : 0);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_group_running(group), 0);
    CHECK_EQ(weft_group_go(group, succeed, NULL), -ETIMEDOUT);
    CHECK_EQ(weft_group_close(group), result == 0 ? -ETIMEDOUT : 0);
    (void)arg;
}

/* Under another context. */

static void parent_by_option_or_by_binding(void *arg)
{
    for (int by_option = 0; by_option < 2; by_option++) {
        weft_context *context, *other;
        CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
        CHECK_EQ(weft_context_open(&other, NULL, NULL), 0);
        CHECK_EQ(weft_context_bind(by_option ? other : context, NULL), 0);
        weft_group *group = make(&(weft_group_options){.context = by_option ? context : NULL});
        CHECK_EQ(weft_group_go(group, sleep_on, NULL), 0);
        weft_context_cancel(other);
        CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
        weft_context_cancel(context);
        CHECK_EQ(weft_context_error(weft_group_context(group)), -ECANCELED);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        CHECK_PTR(weft_context_current(), by_option ? other : context);

        group = make(NULL); /* under a cancelled one */
        CHECK_EQ(weft_group_go(group, succeed, NULL), -ECANCELED);
        CHECK_EQ(weft_group_close(group), 0);
        CHECK_EQ(weft_context_bind(NULL, NULL), 0);
        weft_context_close(context);
        weft_context_close(other);
    }
    (void)arg;
}

/* The caller's context does not end the wait; it is bound again afterwards. */

struct firm {
    weft_context *context;
    weft_wg gate;
    atomic_u32 ended, waits;
    bool close;
};

static int end_late(void *arg)
{
    struct firm *firm = arg;
    CHECK_EQ(wait_firmly(&firm->gate), 0);
    atomic_u32_store_release(&firm->ended, 1);
    return 0;
}

static void wait_though_cancelled(void *arg)
{
    struct firm *firm = arg;
    CHECK_EQ(weft_context_bind(firm->context, NULL), 0);
    weft_group *group = make(NULL);
    CHECK_EQ(weft_group_go(group, end_late, firm), 0);
    atomic_u32_store_release(&firm->waits, 1);
    CHECK_EQ(firm->close ? weft_group_close(group) : weft_group_wait(group), 0);
    CHECK_EQ(atomic_u32_load_acquire(&firm->ended), 1);
    CHECK_PTR(weft_context_current(), firm->context);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
    if (!firm->close)
        CHECK_EQ(weft_group_close(group), 0);
}

static void waiting_is_not_ended_by_a_context(void)
{
    for (int i = 0; i < 4; i++) {
        struct firm firm = {.close = i / 2};
        CHECK_EQ(weft_context_open(&firm.context, NULL, NULL), 0);
        CHECK_EQ(weft_wg_init(&firm.gate, 1), 0);
        struct body body = {.function = wait_though_cancelled, .arg = &firm, .thread = i % 2};
        body_start(&body);
        await(&firm.waits, 1);
        weft_context_close(firm.context); /* cancels; only the waiter holds it now */
        weft_wg_done(&firm.gate);
        body_join(&body);
    }
}

/* Leaving. */

static struct {
    weft_wg gate, gone;
    weft_context *other;
} leaver;

static int leave_and_live_on(void *error)
{
    CHECK_EQ(weft_group_leave(), 0);
    CHECK_EQ(weft_group_leave(), -EINVAL);
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_wg_wait(&leaver.gate), 0); /* the group is closed by then */
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    weft_wg_done(&leaver.gone);
    return (int)(intptr_t)error;
}

static void leaving(void *arg)
{
    for (int limit = 0; limit < 2; limit++) {
        weft_group *group = make(&(weft_group_options){.limit = limit});
        CHECK_EQ(weft_wg_init(&leaver.gate, 1), 0);
        CHECK_EQ(weft_wg_init(&leaver.gone, 3), 0);
        for (int i = 0; i < 3; i++) /* with the limit each needs the place of the one before */
            CHECK_EQ(weft_group_go(group, leave_and_live_on, error_arg(-EIO)), 0);
        CHECK_EQ(weft_group_wait(group), 0);
        CHECK_EQ(weft_group_running(group), 0);
        weft_group_cancel(group);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        weft_wg_done(&leaver.gate);
        CHECK_EQ(weft_wg_wait(&leaver.gone), 0);
    }
    (void)arg;
}

static int leave_bound_elsewhere(void *group)
{
    CHECK_EQ(weft_context_bind(leaver.other, NULL), 0);
    CHECK_EQ(weft_group_leave(), 0);
    CHECK_PTR(weft_context_current(), leaver.other);
    weft_wg_done(&leaver.gone);
    (void)group;
    return 0;
}

static void leaves_no_group(void *arg)
{
    CHECK_EQ(weft_group_leave(), -EINVAL);
    (void)arg;
}

static void leaving_unbinds_from_the_group_only(void)
{
    weft_group *group = make(NULL);
    CHECK_EQ(weft_context_open(&leaver.other, NULL, NULL), 0);
    CHECK_EQ(weft_wg_init(&leaver.gone, 1), 0);
    CHECK_EQ(weft_group_go(group, leave_bound_elsewhere, group), 0);
    CHECK_EQ(weft_group_close(group), 0);
    CHECK_EQ(weft_wg_wait(&leaver.gone), 0);
    weft_context_close(leaver.other);
    body_run(leaves_no_group, NULL, false);
    body_run(leaves_no_group, NULL, true);
    weft_fiber *fiber; /* one with extras */
    CHECK_EQ(weft_spawn(&fiber, leaves_no_group, NULL, &(weft_spawn_options){.name = "x"}), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

/* Scopes. */

static atomic_u32 scoped;

static int start_some(weft_group *group, void *error)
{
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_group_go(group, succeed, &scoped), 0);
    return (int)(intptr_t)error;
}

static int start_sleepers(weft_group *group, void *error)
{
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_group_go(group, sleep_on, NULL), 0);
    return (int)(intptr_t)error;
}

static int start_sleepers_and_one_that_fails(weft_group *group, void *error)
{
    CHECK_EQ(start_sleepers(group, NULL), 0);
    CHECK_EQ(weft_group_go(group, fail, error), 0);
    return 0;
}

static int never_called(weft_group *group, void *arg)
{
    (void)group;
    (void)arg;
    CHECK(!"called");
    return 0;
}

static void scopes(void *arg)
{
    atomic_u32_store_relaxed(&scoped, 0);
    CHECK_EQ(weft_group_scope(NULL, start_some, NULL), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&scoped), 10);
    CHECK_EQ(weft_group_scope(NULL, start_some, error_arg(-EIO)), -EIO);
    CHECK_EQ(atomic_u32_load_relaxed(&scoped), 20);
    CHECK_EQ(weft_group_scope(NULL, start_sleepers, error_arg(-EIO)), -EIO);
    CHECK_EQ(weft_group_scope(NULL, start_sleepers_and_one_that_fails, error_arg(-EPERM)), -EPERM);
    weft_group_options options = {.limit = -1};
    CHECK_EQ(weft_group_scope(&options, never_called, NULL), -EINVAL);
    (void)arg;
}

/* Groups in groups. */

static atomic_u32 inner_groups; /* with members that sleep */

static int inner_group(void *error)
{
    weft_group *group = make(NULL); /* under the context of the outer one */
    for (int i = 0; i < 3; i++) {
        int result = weft_group_go(group, sleep_on, NULL);
        CHECK(result == 0 || result == -ECANCELED); /* another inner one may have failed */
    }
    atomic_u32_add_relaxed(&inner_groups, 1);
    if (error != NULL)
        CHECK_EQ(weft_group_go(group, fail, error), 0);
    return weft_group_close(group);
}

static void nested(void *arg)
{
    weft_group *outer =
        make(NULL); /* an error of the inner one, handed on, cancels the outer one */
    for (int i = 0; i < 3; i++) {
        int result = weft_group_go(outer, inner_group, i == 1 ? error_arg(-EIO) : NULL);
        CHECK(result == 0 || (i == 2 && result == -ECANCELED));
    }
    CHECK_EQ(weft_group_close(outer), -EIO);

    outer = make(NULL); /* cancelling the outer one cancels the inner ones */
    atomic_u32_store_relaxed(&inner_groups, 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_group_go(outer, inner_group, NULL), 0);
    await(&inner_groups, 3);
    weft_group_cancel(outer);
    CHECK_EQ(weft_group_close(outer), -ECANCELED);
    (void)arg;
}

struct tree {
    weft_group *group;
    int depth;
    atomic_u32 *count;
};

/* Members that start members: all are waited for. */
static int spawn_more(void *arg)
{
    struct tree *tree = arg;
    atomic_u32_add_relaxed(tree->count, 1);
    for (int i = 0; i < 2 && tree->depth > 0; i++) {
        struct tree *branch = malloc(sizeof *branch);
        CHECK(branch != NULL);
        *branch = (struct tree){tree->group, tree->depth - 1, tree->count};
        CHECK_EQ(weft_group_go(tree->group, spawn_more, branch), 0);
    }
    free(tree);
    return 0;
}

static void members_start_members(void *arg)
{
    enum { DEPTH = 9 };
    atomic_u32 count = {0};
    weft_group *group = make(NULL);
    struct tree *root = malloc(sizeof *root);
    CHECK(root != NULL);
    *root = (struct tree){group, DEPTH, &count};
    CHECK_EQ(weft_group_go(group, spawn_more, root), 0);
    CHECK_EQ(weft_group_close(group), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&count), (1 << (DEPTH + 1)) - 1);
    (void)arg;
}

/* Opened and closed again and again: the last member may still be on its way out. */
static void closed_at_once(void *arg)
{
    for (int64_t round = test_scale(3000); round > 0; round--) {
        weft_group *group = make(round % 2 ? NULL : &(weft_group_options){.limit = 2});
        CHECK_EQ(weft_group_go(group, succeed, NULL), 0);
        CHECK_EQ(weft_group_go(group, round % 3 ? succeed : fail, NULL), 0);
        CHECK_EQ(weft_group_close(group), 0);
    }
    (void)arg;
}

/* Failures. */

static atomic_u32 started;

static void attempt_group(void)
{
    weft_group *group = poison;
    int opened = weft_group_open(
        &group, &(weft_group_options){.limit = 1, .deadline = weft_after(1000 * WEFT_S)});
    int went = opened == 0 ? weft_group_go(group, succeed, &started) : 0;
    failing_off();
    failing_check(opened, failing_start);
    failing_check(went, failing_start);
    if (opened != 0) {
        CHECK_PTR(group, poison);
    } else {
        /* The place of one that did not start is free, and nothing is left to wait for. */
        uint32_t expected = went == 0;
        CHECK_EQ(weft_group_wait(group), 0);
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
        CHECK_EQ(weft_group_go(group, succeed, NULL), -EAGAIN); /* by weft_go: a place is free */
    CHECK_EQ(weft_group_running(group), 2);
    CHECK_EQ(weft_context_error(weft_group_context(group)), 0);
    weft_wg_done(&gate);
    CHECK_EQ(weft_group_close(group), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

static void everywhere_alike(void)
{
    everywhere(wait_and_go_on);
    everywhere(wait_until_a_deadline);
    everywhere(first_error_cancels);
    everywhere(keep_going);
    everywhere(never_more_than_the_limit);
    everywhere(try_go_does_not_wait);
    everywhere(cancel_all);
    everywhere(the_deadline);
    everywhere(parent_by_option_or_by_binding);
    everywhere(leaving);
    everywhere(scopes);
    everywhere(nested);
    everywhere(members_start_members);
    everywhere(closed_at_once);
}

/* Fiber-local values end before the group does, and their ends may panic. */
static weft_local_key key;
static atomic_u32 values_ended;

static void end_value(void *value)
{
    weft_yield();
    (void)atomic_u32_add_seq_cst(&values_ended, 1);
    if (value == &key)
        weft_panic("the end of a value");
}

static int set_value(void *arg)
{
    return weft_local_set(key, arg);
}

static void values_end_with_the_group(void)
{
    weft_group *group;
    weft_panic_info info;
    int value;
    CHECK_EQ(weft_local_create(&key, end_value), 0);
    CHECK_EQ(weft_group_open(&group, NULL), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_group_go(group, set_value, &value), 0);
    CHECK_EQ(weft_group_wait(group), 0);
    CHECK_EQ(atomic_u32_load_seq_cst(&values_ended), 5);

    CHECK_EQ(weft_group_go(group, set_value, &key), 0);
    CHECK_EQ(weft_group_wait(group), -EOWNERDEAD);
    CHECK_EQ(atomic_u32_load_seq_cst(&values_ended), 6);
    CHECK_EQ(weft_group_panic(group, &info), 0);
    CHECK_STR(info.message, "the end of a value");
    CHECK_EQ(weft_group_close(group), -EOWNERDEAD);
    CHECK_EQ(weft_local_delete(key), 0);
}

/* The first panic is the group's; those that follow are reported when they come. */
static int panic_with(void *arg)
{
    weft_panic("%s", (const char *)arg);
}

static void panic_twice(void)
{
    static char first[] = "first of two", second[] = "second of two";
    weft_group *group;
    weft_panic_info info;
    weft_group_options options = {.keep_going = 1};
    CHECK_EQ(weft_group_open(&group, &options), 0);
    CHECK_EQ(weft_group_go(group, panic_with, first), 0);
    CHECK_EQ(weft_group_wait(group), -EOWNERDEAD);
    CHECK_EQ(weft_group_go(group, panic_with, second), 0);
    CHECK_EQ(weft_group_wait(group), -EOWNERDEAD);
    CHECK_EQ(weft_group_panic(group, &info), 0);
    CHECK_STR(info.message, first);
    CHECK_EQ(weft_group_close(group), -EOWNERDEAD);
}

static void a_second_panic_is_reported(void)
{
    const char *said = test_stderr_of(panic_twice);
    CHECK(strstr(said, "second of two") != NULL);
    CHECK(strstr(said, "first of two") == NULL);
}

/* A function that has left its group, and panics then: that is nobody's any more, and reported. */
static int leave_and_panic(void *arg)
{
    CHECK_EQ(weft_group_leave(), 0);
    return panic_with(arg);
}

static void panic_outside(void)
{
    static char text[] = "after it left";
    weft_group *group;
    CHECK_EQ(weft_group_open(&group, NULL), 0);
    CHECK_EQ(weft_group_go(group, leave_and_panic, text), 0);
    CHECK_EQ(weft_group_close(group), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void a_panic_after_leaving_is_reported(void)
{
    CHECK(strstr(test_stderr_of(panic_outside), ": after it left\n") != NULL);
}

static void panic_of_no_group(void)
{
    weft_group *group;
    weft_panic_info info;
    CHECK_EQ(weft_group_open(&group, NULL), 0);
    CHECK_EQ(weft_group_panic(NULL, &info), -EINVAL);
    CHECK_EQ(weft_group_panic(group, NULL), -EINVAL);
    CHECK_EQ(weft_group_panic(group, &info), -ENOENT);
    CHECK_EQ(weft_group_close(group), 0);
}

int main(void)
{
    RUN_PLAIN(panic_of_no_group, "nothing waits");
    RUN_PLAIN(a_panic_after_leaving_is_reported, "its reports are read");
    RUN_PLAIN(arguments, "nothing waits");
    RUN_BOTH(everywhere_alike);
    RUN_PLAIN(values_end_with_the_group, "counts what all runs of it have ended");
    RUN_PLAIN(a_second_panic_is_reported, "its reports are read");
    RUN_BOTH(errors_are_kept_as_they_are);
    RUN_BOTH(waiting_for_a_place_ends);
    RUN_BOTH(a_cancelled_group_starts_nothing);
    RUN_BOTH(a_member_does_not_wait_for_itself);
    RUN_BOTH(waiting_is_not_ended_by_a_context);
    RUN_BOTH(leaving_unbinds_from_the_group_only);
    RUN_PLAIN(failures, "stops or configures the runtime");
    RUN_PLAIN(too_many_fibers, "stops or configures the runtime");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
