/*
 * group_cancel.c: groups of fibers that are cancelled, have a deadline, or are under a context:
 * which waits that ends, which it does not, and what is not started any more.
 */
#include "bodies.h"
#include "everywhere.h"
#include "members.h"
#include "seeds.h"

/* A wait for a place, and what ends it. */

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
            weft_group_options options = {.limit = 1, .timeout = cause == 2 ? WEFT_MS : 0};
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
            static const int errors[] = {-ECANCELED, 0, -ETIMEDOUT, 0};
            CHECK_EQ(weft_group_close(waiting.group), errors[cause]);
            weft_context_close(context);
        }
}

/* The only place becomes free because of the cancellation: no caller gets it. */

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
    CHECK_EQ(group_error(group), -ECANCELED);
    weft_group_cancel(group);
    CHECK_EQ(weft_group_close(group), -ECANCELED);

    group = make(NULL); /* without functions */
    weft_group_cancel(group);
    CHECK_EQ(weft_group_go(group, succeed, NULL), -ECANCELED);
    CHECK_EQ(weft_group_close(group), -ECANCELED);

    group = make(NULL); /* keep_going does not change that */
    CHECK_EQ(weft_group_close(group), 0);
    group = make(&(weft_group_options){.keep_going = 1});
    CHECK_EQ(weft_group_go(group, sleep_on, NULL), 0);
    weft_group_cancel(group);
    CHECK_EQ(weft_group_close(group), -ECANCELED);
}

/* A cancellation is the error of the group, also if no function returns it; but the first error
 * stays. */

static int cancel_and_succeed(void *context)
{
    weft_context_cancel(context);
    return 0;
}

static int cancel_and_fail(void *context)
{
    weft_context_cancel(context);
    return -EIO;
}

static int fail_when_cancelled(void *gate)
{
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_wg_wait(gate), 0);
    return -EIO;
}

static void a_cancellation_is_the_error(void *arg)
{
    static int (*const inside[])(void *) = {cancel_and_succeed, cancel_and_fail};
    for (int keep_going = 0; keep_going < 2; keep_going++)
        for (int above = 0; above < 2; above++) {
            for (int i = 0; i < 2; i++) { /* from inside one of its functions */
                weft_context *parent;
                CHECK_EQ(weft_context_open(&parent, NULL, NULL), 0);
                weft_group *group =
                    make(&(weft_group_options){.context = parent, .keep_going = keep_going});
                CHECK_EQ(
                    weft_group_go(group, inside[i], above ? parent : weft_group_context(group)), 0);
                CHECK_EQ(group_error(group), -ECANCELED);
                CHECK_EQ(weft_group_close(group), -ECANCELED);
                weft_context_close(parent);
            }
            /* from outside; the error of a function that comes later is not the first */
            weft_context *parent;
            weft_wg gate;
            CHECK_EQ(weft_wg_init(&gate, 1), 0);
            CHECK_EQ(weft_context_open(&parent, NULL, NULL), 0);
            weft_group *group =
                make(&(weft_group_options){.context = parent, .keep_going = keep_going});
            CHECK_EQ(weft_group_go(group, fail_when_cancelled, &gate), 0);
            weft_context_cancel(above ? parent : weft_group_context(group));
            weft_wg_done(&gate);
            CHECK_EQ(weft_group_close(group), -ECANCELED);
            weft_context_close(parent);

            group = make(&(weft_group_options){
                .keep_going = keep_going}); /* an error before the cancellation */
            CHECK_EQ(weft_group_go(group, fail, error_arg(-EIO)), 0);
            CHECK_EQ(group_error(group), -EIO);
            weft_group_cancel(group);
            CHECK_EQ(weft_group_close(group), -EIO);
        }
}

static int check_member(void *group)
{
    CHECK_PTR(weft_context_current(), weft_group_context(group));
    int error = 77;
    CHECK_EQ(weft_group_wait(group, &error), -EDEADLK);
    CHECK_EQ(error, 77);
    CHECK_EQ(weft_group_wait_until(group, WEFT_NOW, NULL), -EDEADLK);
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

static void the_timeout(void *arg)
{
    int64_t before = weft_after(WEFT_MS);
    weft_group *group = make(&(weft_group_options){.timeout = WEFT_MS});
    int64_t deadline = weft_context_deadline(weft_group_context(group));
    CHECK(deadline >= before && deadline <= weft_after(WEFT_MS));
    int result = weft_group_go(group, sleep_on, NULL);
    CHECK(result == 0 || result == -ETIMEDOUT); /* a slow machine */
    CHECK_EQ(group_error(group), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_group_running(group), 0);
    CHECK_EQ(weft_group_go(group, succeed, NULL), -ETIMEDOUT);
    CHECK_EQ(weft_group_close(group), -ETIMEDOUT);
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
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        CHECK_EQ(weft_context_bind(NULL, NULL), 0);
        weft_context_close(context);
        weft_context_close(other);
    }
}

/* The caller's context does not end the wait; the caller is bound to it again afterwards. */

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
    weft_group *group =
        make(&(weft_group_options){.keep_going = 1}); /* its functions are called in any case */
    CHECK_EQ(weft_group_go(group, end_late, firm), 0);
    atomic_u32_store_release(&firm->waits, 1);
    CHECK_EQ(firm->close ? weft_group_close(group) : group_error(group), -ECANCELED);
    CHECK_EQ(atomic_u32_load_acquire(&firm->ended), 1);
    CHECK_PTR(weft_context_current(), firm->context);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
    if (!firm->close)
        CHECK_EQ(weft_group_close(group), -ECANCELED);
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

/* The first error cancels the other functions at once, in each kind of wait. */

static weft_chan *never;

static int fail_later(void *time)
{
    CHECK_EQ(weft_sleep((int64_t)(intptr_t)time * WEFT_MS), 0);
    return -EIO;
}

static int wait_for_cancel(void *receives)
{
    int error = receives != NULL ? weft_chan_receive(never, NULL) : weft_sleep(WEFT_NEVER);
    CHECK_EQ(error, -ECANCELED);
    return error;
}

static void an_error_ends_all_waits_at_once(void)
{
    enum { MEMBERS = 5 };
    struct prng prng = seeds_prng();
    uint32_t failing = prng_below(&prng, MEMBERS);
    intptr_t time = (intptr_t)prng_below(&prng, 3);
    int64_t start = weft_now();
    weft_group *group = make(NULL);
    CHECK_EQ(weft_chan_make(&never, 0, 0), 0);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        void *receives = prng_below(&prng, 2) ? &never : NULL;
        int error = i == failing ? weft_group_go(group, fail_later, (void *)time)
                                 : weft_group_go(group, wait_for_cancel, receives);
        CHECK(error == 0 || error == -ECANCELED);
    }
    CHECK_EQ(weft_group_close(group), -EIO);
    CHECK(weft_now() - start <= 2 * WEFT_MS); /* in virtual time */
    weft_chan_destroy(never);
}

int main(void)
{
    RUN_BOTH(waiting_for_a_place_ends);
    RUN_BOTH(a_cancelled_group_starts_nothing);
    RUN_EVERYWHERE(cancel_all);
    RUN_EVERYWHERE(a_cancellation_is_the_error);
    RUN_BOTH(a_member_does_not_wait_for_itself);
    RUN_EVERYWHERE(the_timeout);
    RUN_EVERYWHERE(parent_by_option_or_by_binding);
    RUN_BOTH(waiting_is_not_ended_by_a_context);
    RUN_SEEDS_MANY(an_error_ends_all_waits_at_once);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
