/*
 * context.c: contexts: the tree, deadlines, values, the done channel, binding and lifetime. What a
 * cancellation does to a wait is in context_waits.c.
 */
#include <sched.h>
#include <weft/weft.h>

#include "bodies.h"
#include "contexts.h"
#include "everywhere.h"
#include "failing.h"
#include "os/failure.h"
#include "os/os.h"
#include "seeds.h"

/* Waits until the context is cancelled by another party. */
static void await_error(const weft_context *context, int error)
{
    while (weft_context_error(context) == 0)
        weft_yield();
    CHECK_EQ(weft_context_error(context), error);
}

/* Arguments. */

static int poisoned;
static void *const poison = &poisoned;

static void arguments(void)
{
    weft_context *context = poison, *before = poison;
    weft_chan *done = poison;
    CHECK_EQ(weft_context_open(NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_context_open(&context, NULL, &(weft_context_options){.timeout = -1}), -EINVAL);
    for (int i = 0; i < 5; i++) {
        weft_context_options options = {.timeout = 0};
        options.reserved[i] = 1;
        CHECK_EQ(weft_context_open(&context, NULL, &options), -EINVAL);
        CHECK_PTR(context, poison);
    }
    weft_context_cancel(NULL);
    weft_context_close(NULL);
    CHECK_EQ(weft_context_error(NULL), 0);
    CHECK_EQ(weft_context_deadline(NULL), WEFT_NEVER);
    CHECK_PTR(weft_context_value(NULL, poison), NULL);
    CHECK_EQ(weft_context_done(NULL, &done), -EINVAL);
    CHECK_PTR(done, poison);
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_context_bind(NULL, &before), 0);
    CHECK_PTR(before, NULL);

    context = make(NULL);
    CHECK_EQ(weft_context_done(context, NULL), -EINVAL);
    CHECK_EQ(weft_context_error(context), 0);
    CHECK_EQ(weft_context_deadline(context), WEFT_NEVER);
    CHECK_PTR(weft_context_value(context, NULL), NULL);
    weft_context_close(context);
}

/* The tree. */

/*        root
 *       /    \
 *   left      right
 *   /  \          \
 *  a    b          c
 */
static void down_not_up_or_sideways(void)
{
    weft_context *root = make(NULL), *left = make(root), *right = make(root);
    weft_context *a = make(left), *b = make(left), *c = make(right), *other = make(NULL);
    weft_context_cancel(a);
    CHECK_EQ(weft_context_error(a), -ECANCELED);
    CHECK_EQ(weft_context_error(b), 0);
    CHECK_EQ(weft_context_error(left), 0);
    CHECK_EQ(weft_context_error(root), 0);
    weft_context_cancel(a);
    CHECK_EQ(weft_context_error(a), -ECANCELED);
    weft_context_cancel(left);
    CHECK_EQ(weft_context_error(left), -ECANCELED);
    CHECK_EQ(weft_context_error(b), -ECANCELED);
    CHECK_EQ(weft_context_error(right), 0);
    CHECK_EQ(weft_context_error(c), 0);
    CHECK_EQ(weft_context_error(root), 0);
    weft_context_cancel(root);
    CHECK_EQ(weft_context_error(root), -ECANCELED);
    CHECK_EQ(weft_context_error(right), -ECANCELED);
    CHECK_EQ(weft_context_error(c), -ECANCELED);
    CHECK_EQ(weft_context_error(other), 0);
    weft_context *all[] = {root, left, right, a, b, c, other};
    for (int i = 0; i < 7; i++)
        weft_context_close(all[i]);
}

static void closing_cancels_what_is_below(void)
{
    weft_context *root = make(NULL), *child = make(root), *grandchild = make(child);
    weft_context *sibling = make(root);
    weft_context_close(child);
    CHECK_EQ(weft_context_error(grandchild), -ECANCELED);
    CHECK_EQ(weft_context_error(sibling), 0);
    CHECK_EQ(weft_context_error(root), 0);
    weft_context_close(root);
    CHECK_EQ(weft_context_error(sibling), -ECANCELED);
    weft_context_close(sibling);
    weft_context_close(grandchild);
}

static void born_cancelled(void)
{
    weft_context *root = make(NULL), *late = make_timed(NULL, 1);
    weft_chan *done;
    weft_context_cancel(root);
    await_error(late, -ETIMEDOUT);
    weft_context *child = make(root), *timed = make_timed(root, 1000 * WEFT_S);
    weft_context *child_of_late = make(late);
    CHECK_EQ(weft_context_error(child), -ECANCELED);
    CHECK_EQ(weft_context_error(timed), -ECANCELED);
    CHECK_EQ(weft_context_error(child_of_late), -ETIMEDOUT);
    weft_context_cancel(child_of_late); /* the first reason stays */
    CHECK_EQ(weft_context_error(child_of_late), -ETIMEDOUT);
    CHECK_EQ(weft_context_done(child, &done), 0);
    CHECK_EQ(weft_chan_receive(done, NULL), -ESHUTDOWN);
    weft_context_close(child_of_late);
    weft_context_close(timed);
    weft_context_close(child);
    weft_context_close(late);
    weft_context_close(root);
}

enum { DEEP = 100000, WIDE = 10000 };

/* On a stack of 16 KiB no walk of the tree can be a recursion. The chain is closed from the top,
 * from the bottom, or from the middle to both ends. */
static void deep_chain(void *arg)
{
    int64_t depth = test_scale(DEEP);
    uintptr_t order = (uintptr_t)arg;
    weft_context **chain = malloc((size_t)depth * sizeof(void *));
    CHECK(chain != NULL);
    for (int64_t i = 0; i < depth; i++)
        chain[i] = make(i > 0 ? chain[i - 1] : NULL);
    CHECK_EQ(weft_context_error(chain[depth - 1]), 0);
    weft_context_cancel(chain[depth / 2]);
    CHECK_EQ(weft_context_error(chain[0]), 0);
    CHECK_EQ(weft_context_error(chain[depth - 1]), -ECANCELED);
    weft_context_cancel(chain[0]);
    CHECK_EQ(weft_context_error(chain[0]), -ECANCELED);
    for (int64_t i = 0; i < depth; i++) {
        int64_t at = order == 0 ? i : order == 1 ? depth - 1 - i : (i + depth / 2) % depth;
        weft_context_close(chain[at]);
    }
    free(chain);
}

static void deep_chains_need_no_stack(void)
{
    weft_spawn_options options = {.stack_size = 16 * 1024};
    for (uintptr_t order = 0; order < 3; order++) {
        weft_fiber *fiber;
        CHECK_EQ(weft_spawn(&fiber, deep_chain, (void *)order, &options), 0);
        CHECK_EQ(weft_join(fiber), 0);
    }
}

static void wide_tree(void)
{
    int64_t width = test_scale(WIDE);
    weft_context **children = malloc((size_t)width * sizeof(void *));
    CHECK(children != NULL);
    weft_context *root = make(NULL);
    for (int64_t i = 0; i < width; i++)
        children[i] = make(root);
    for (int64_t i = 0; i < width; i += 3) /* from anywhere in the parent's list */
        weft_context_close(children[i]);
    for (int64_t i = 0; i < width; i++)
        if (i % 3 != 0)
            CHECK_EQ(weft_context_error(children[i]), 0);
    weft_context_cancel(root);
    for (int64_t i = 0; i < width; i++)
        if (i % 3 != 0) {
            CHECK_EQ(weft_context_error(children[i]), -ECANCELED);
            weft_context_close(children[i]);
        }
    weft_context_close(root);
    free(children);
}

/* Timeouts. */

static void timeout_of_its_own(void *arg)
{
    int64_t before = weft_after(WEFT_MS);
    weft_context *context = make_timed(NULL, WEFT_MS), *child = make(context);
    int64_t deadline = weft_context_deadline(context);
    CHECK(deadline >= before && deadline <= weft_after(WEFT_MS)); /* counted from the call */
    CHECK_EQ(weft_context_deadline(child), deadline);
    await_error(child, -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_context_error(context), -ETIMEDOUT);
    weft_context_cancel(context); /* after the timeout, which stays the reason */
    CHECK_EQ(weft_context_error(context), -ETIMEDOUT);
    weft_context_close(context);
    CHECK_EQ(weft_context_error(child), -ETIMEDOUT);
    weft_context_close(child);
}

static void the_earliest_deadline_counts(void)
{
    int64_t soon = 100 * WEFT_S, late = 100000 * WEFT_S;
    weft_context *root = make_timed(NULL, soon);
    weft_context *later = make_timed(root, late), *plain = make(later);
    weft_context *other = make_timed(NULL, late), *sooner = make_timed(other, soon);
    CHECK_EQ(weft_context_deadline(later), weft_context_deadline(root));
    CHECK_EQ(weft_context_deadline(plain), weft_context_deadline(root));
    CHECK(weft_context_deadline(other) > weft_after(late / 2));
    CHECK(weft_context_deadline(sooner) < weft_after(late / 2));
    weft_context *all[] = {plain, later, root, sooner, other};
    for (int i = 0; i < 5; i++)
        weft_context_close(all[i]);

    /* The child's cancels the child alone; the parent's both. */
    root = make_timed(NULL, late);
    weft_context *child = make_timed(root, WEFT_MS);
    await_error(child, -ETIMEDOUT);
    CHECK_EQ(weft_context_error(root), 0);
    weft_context_close(child);
    weft_context_close(root);
    root = make_timed(NULL, WEFT_MS);
    child = make_timed(root, late);
    await_error(child, -ETIMEDOUT);
    weft_context_close(child);
    weft_context_close(root);
}

static void the_shortest_and_the_longest(void)
{
    weft_context *one = make_timed(NULL, WEFT_NS), *never = make_timed(NULL, WEFT_NEVER);
    await_error(one, -ETIMEDOUT);
    CHECK_EQ(weft_context_error(never), 0);
    CHECK_EQ(weft_context_deadline(never), WEFT_NEVER);
    weft_context_close(never);
    weft_context_close(one);
}

static void cancelled_before_its_deadline(void)
{
    weft_context *context = make_timed(NULL, WEFT_MS);
    weft_context *twin = make_timed(NULL, WEFT_MS);
    weft_context_cancel(context);
    int reason = weft_context_error(context);
    CHECK(reason == -ECANCELED || reason == -ETIMEDOUT); /* a slow machine may be late */
    await_error(twin, -ETIMEDOUT);
    CHECK_EQ(weft_context_error(context), reason);
    weft_context_close(twin);
    weft_context_close(context);
}

/* A timer that fires while its context is closed. */
static void closed_while_it_expires(void *arg)
{
    for (int64_t round = test_scale(2000); round > 0; round--) {
        weft_context *context = make_timed(NULL, round % 64 * 500);
        weft_context *child = make(context);
        weft_context_close(context);
        int reason = weft_context_error(child);
        CHECK(reason == -ECANCELED || reason == -ETIMEDOUT);
        weft_context_close(child);
    }
}

/* Values. */

static void values(void)
{
    static const char color_key, shape_key, other_key;
    char red, round, blue;
    weft_context *root, *child, *plain, *grandchild;
    CHECK_EQ(
        weft_context_open(&root, NULL, &(weft_context_options){.key = &color_key, .value = &red}),
        0);
    CHECK_EQ(weft_context_open(&child, root,
                               &(weft_context_options){.key = &shape_key, .value = &round}),
             0);
    plain = make(child);
    CHECK_EQ(weft_context_open(&grandchild, plain,
                               &(weft_context_options){.key = &color_key, .value = &blue}),
             0);
    CHECK_PTR(weft_context_value(root, &color_key), &red);
    CHECK_PTR(weft_context_value(root, &shape_key), NULL);
    CHECK_PTR(weft_context_value(child, &color_key), &red);
    CHECK_PTR(weft_context_value(plain, &shape_key), &round);
    CHECK_PTR(weft_context_value(grandchild, &color_key), &blue); /* the nearest */
    CHECK_PTR(weft_context_value(grandchild, &shape_key), &round);
    CHECK_PTR(weft_context_value(grandchild, &other_key), NULL);
    CHECK_PTR(weft_context_value(grandchild, NULL), NULL);

    /* Values exist as long as a context below does. */
    weft_context_close(root);
    weft_context_close(child);
    weft_context_close(plain);
    CHECK_PTR(weft_context_value(grandchild, &shape_key), &round);
    weft_context_close(grandchild);
}

/* The done channel. */

static void select_done(void *arg)
{
    weft_context *context = arg;
    weft_chan *work, *done = poison;
    CHECK_EQ(weft_chan_make(&work, sizeof(int), 1), 0);
    CHECK_EQ(weft_context_done(context, &done), 0);
    int element = 7;
    weft_case cases[] = {{.chan = work, .op = WEFT_RECEIVE, .element = &element},
                         {.chan = done, .op = WEFT_RECEIVE}};
    CHECK_EQ(weft_select(cases, 2), 1);
    CHECK_EQ(cases[1].result, -ESHUTDOWN);
    CHECK_EQ(element, 7);
    CHECK(weft_context_error(context) != 0);
    weft_chan_destroy(work);
}

static void the_done_channel(void)
{
    for (int thread = 0; thread < 2; thread++) {
        weft_context *context = make(NULL), *child = make(context);
        weft_chan *done, *again;
        CHECK_EQ(weft_context_done(context, &done), 0);
        CHECK_EQ(weft_context_done(context, &again), 0);
        CHECK_PTR(done, again);
        CHECK_EQ(weft_chan_try_receive(done, NULL), -EAGAIN);
        struct body bodies[] = {{.function = select_done, .arg = context, .thread = thread},
                                {.function = select_done, .arg = child, .thread = thread}};
        body_start(&bodies[0]);
        body_start(&bodies[1]);
        weft_context_cancel(context);
        body_join(&bodies[0]);
        body_join(&bodies[1]);
        CHECK_EQ(weft_chan_closed(done), 1);
        CHECK_EQ(weft_chan_receive(done, NULL), -ESHUTDOWN);
        CHECK_EQ(weft_context_done(child, &done), 0); /* asked for again afterwards */
        CHECK_EQ(weft_chan_try_receive(done, NULL), -ESHUTDOWN);
        weft_context_close(child);
        weft_context_close(context);
    }
    weft_context *late = make_timed(NULL, WEFT_MS);
    body_run(select_done, late, false);
    CHECK_EQ(weft_context_error(late), -ETIMEDOUT);
    weft_context_close(late);
}

/* The done channel is asked for while the context is cancelled: it is closed, whichever was
 * first. */
static void ask_for_done(void *context)
{
    weft_chan *done;
    CHECK_EQ(weft_context_done(context, &done), 0);
    CHECK_EQ(weft_chan_receive(done, NULL), -ESHUTDOWN);
}

static void done_asked_for_while_cancelling(void)
{
    for (int64_t round = test_scale(2000); round > 0; round--) {
        weft_context *root = make(NULL), *child = make(root);
        struct body body = {.function = ask_for_done, .arg = child};
        body_start(&body);
        if (round % 2 == 0)
            sched_yield();
        weft_context_cancel(root);
        body_join(&body);
        weft_context_close(root);
        weft_context_close(child);
    }
}

/* Binding. */

static void bind_and_unbind(void *arg)
{
    weft_context *one = make(NULL), *two = make(one), *before = poison;
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_context_bind(one, &before), 0);
    CHECK_PTR(before, NULL);
    CHECK_PTR(weft_context_current(), one);
    CHECK_EQ(weft_context_bind(two, &before), 0);
    CHECK_PTR(before, one);
    CHECK_PTR(weft_context_current(), two);
    CHECK_EQ(weft_context_bind(two, &before), 0); /* again the same */
    CHECK_PTR(before, two);
    CHECK_EQ(weft_context_bind(NULL, &before), 0);
    CHECK_PTR(before, two);
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_context_bind(before, NULL), 0);
    CHECK_PTR(weft_context_current(), two);

    /* The binding of now counts, not an earlier one. */
    weft_context_cancel(two);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
    CHECK_EQ(weft_context_bind(one, NULL), 0);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    weft_context_cancel(one);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
    CHECK_EQ(weft_sleep_until(WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    weft_context_close(two);
    weft_context_close(one);
}

static void check_unbound(void *arg)
{
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
}

static void check_bound_to(void *context)
{
    CHECK_PTR(weft_context_current(), context);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    body_run(check_unbound, NULL, false); /* not inherited */
    body_run(check_unbound, NULL, true);
    CHECK_PTR(weft_context_current(), context);
}

static void check_cancelled_from_the_start(void *context)
{
    CHECK_PTR(weft_context_current(), context);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
}

static void the_spawn_option(void)
{
    weft_context *context = make(NULL);
    weft_spawn_options options = {.context = context, .name = "bound"};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, check_bound_to, context, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_spawn(&fiber, check_cancelled_from_the_start, context, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
    weft_context_close(context);
    body_run(check_unbound, NULL, false); /* in a fiber whose record was used before */
}

static struct {
    weft_context *context;
    weft_chan *calls;
} bound_timer;

static void bind_in_timer(void *arg)
{
    CHECK_PTR(weft_context_current(), NULL); /* also in the second call */
    CHECK_EQ(weft_context_bind(bound_timer.context, NULL), 0);
    CHECK_EQ(weft_chan_send(bound_timer.calls, NULL), 0);
}

static void a_timer_is_bound_for_one_call(void)
{
    weft_timer *timer;
    bound_timer.context = make(NULL);
    CHECK_EQ(weft_chan_make(&bound_timer.calls, 0, 1), 0);
    CHECK_EQ(weft_timer_open(&timer, bind_in_timer, NULL), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_timer_start(timer, WEFT_NOW, 0), 0);
        CHECK_EQ(weft_chan_receive(bound_timer.calls, NULL), 0);
    }
    CHECK_EQ(weft_timer_close(timer), 0);
    weft_chan_destroy(bound_timer.calls);
    weft_context_close(bound_timer.context);
}

/* Lifetime. */

struct tenant {
    weft_context *context;
    weft_chan *ready;
    const void *key;
    void *value;
};

/* A fiber is bound to a context whose handle is closed meanwhile. */
static void live_in_closed_context(void *arg)
{
    struct tenant *tenant = arg;
    CHECK_EQ(weft_context_bind(tenant->context, NULL), 0);
    CHECK_EQ(weft_chan_send(tenant->ready, NULL), 0);
    CHECK_EQ(weft_sleep_until(WEFT_NEVER), -ECANCELED);
    weft_context *mine = weft_context_current(), *below;
    CHECK_PTR(mine, tenant->context);
    CHECK_EQ(weft_context_error(mine), -ECANCELED);
    CHECK_PTR(weft_context_value(mine, tenant->key), tenant->value);
    CHECK_EQ(weft_context_open(&below, mine, NULL), 0);
    CHECK_EQ(weft_context_error(below), -ECANCELED);
    CHECK_EQ(weft_context_bind(below, NULL), 0);
    CHECK_PTR(weft_context_value(below, tenant->key), tenant->value);
    weft_context_close(below);
    /* and ends bound: the last reference to both goes with it */
}

static void closed_while_others_live_in_it(void)
{
    static const char key;
    enum { TENANTS = 4 };
    for (int with_deadline = 0; with_deadline < 2; with_deadline++) {
        weft_context_options options = {.key = &key, .value = poison};
        if (with_deadline)
            options.timeout = 1000 * WEFT_S;
        struct tenant tenant = {.key = &key, .value = poison};
        struct body bodies[TENANTS];
        CHECK_EQ(weft_context_open(&tenant.context, NULL, &options), 0);
        weft_context *child = make(tenant.context);
        weft_chan *done;
        CHECK_EQ(weft_context_done(tenant.context, &done), 0);
        CHECK_EQ(weft_chan_make(&tenant.ready, 0, TENANTS), 0);
        for (int i = 0; i < TENANTS; i++) {
            bodies[i] =
                (struct body){.function = live_in_closed_context, .arg = &tenant, .thread = i % 2};
            body_start(&bodies[i]);
        }
        for (int i = 0; i < TENANTS; i++)
            CHECK_EQ(weft_chan_receive(tenant.ready, NULL), 0);
        weft_context_close(tenant.context);
        for (int i = 0; i < TENANTS; i++)
            body_join(&bodies[i]);
        CHECK_EQ(weft_context_error(child), -ECANCELED);
        CHECK_PTR(weft_context_value(child, &key), poison);
        weft_context_close(child);
        weft_chan_destroy(tenant.ready);
    }
}

/* A bound fiber closes the handle itself. */
static void close_own(void *arg)
{
    weft_context *context = make_timed(NULL, 1000 * WEFT_S);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    weft_context_close(context);
    CHECK_EQ(weft_context_error(weft_context_current()), -ECANCELED);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
}

static void a_bound_thread_outlives_the_runtime(void)
{
    weft_context *context = make(NULL);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_PTR(weft_context_current(), context);
    weft_context_cancel(context);
    CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    body_run(check_unbound, NULL, false);
}

/* Without memory. */

static void end_at_once(void *arg)
{
}

static void attempt_open(void)
{
    weft_context *context = poison;
    weft_context_options options = {.timeout = 1000 * WEFT_S};
    int result = weft_context_open(&context, NULL, &options);
    failing_off();
    failing_check(result, failing_start);
    if (result != 0)
        CHECK_PTR(context, poison);
    else
        weft_context_close(context);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void opening_fails_cleanly(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK(failing_each(attempt_open, 20) > 5);
}

static void bind_without_memory(void *arg)
{
    weft_context *context = arg, *before = poison;
    weft__os_fail(OS_ALLOC, 1, true);
    int result = weft_context_bind(context, &before);
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(result, -ENOMEM);
    CHECK_PTR(before, poison);
    CHECK_PTR(weft_context_current(), NULL);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_context_bind(NULL, &before), 0); /* never for lack of memory */
    CHECK_PTR(before, context);
    CHECK_EQ(weft_context_bind(context, NULL), 0); /* its bond is there */
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void without_memory(void)
{
    weft_context *context = make(NULL), *child = poison;
    weft_chan *done = poison;
    weft_fiber *fiber = poison;
    body_run(end_at_once, NULL, false); /* the runtime runs, with spare records */
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_context_open(&child, context, NULL), -ENOMEM);
    CHECK_EQ(weft_context_done(context, &done), -ENOMEM);
    int result = weft_spawn(&fiber, end_at_once, NULL, &(weft_spawn_options){.context = context});
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_EQ(result, -ENOMEM);
    CHECK_PTR(child, poison);
    CHECK_PTR(done, poison);
    CHECK_PTR(fiber, poison);
    weft_context_cancel(context); /* the failures left nothing in it */
    CHECK_EQ(weft_context_done(context, &done), 0);
    CHECK_EQ(weft_chan_closed(done), 1);
    weft_context_close(context);
}

static void binding_without_memory(void)
{
    weft_context *context = make(NULL);
    body_run(bind_without_memory, context, false);
    body_run(bind_without_memory, context, true);
    weft_context_close(context);
}

static void waiting_bound_needs_no_memory(void)
{
    weft_context *context = make(NULL);
    weft_wg wg = WEFT_WG_INIT;
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_wg_wait_until(&wg, weft_after(WEFT_US)), -ETIMEDOUT);
    weft_context_cancel(context);
    CHECK_EQ(weft_wg_wait(&wg), -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    weft__os_fail(OS_ALLOC, 0, false);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_BOTH(down_not_up_or_sideways);
    RUN_BOTH(closing_cancels_what_is_below);
    RUN_BOTH(born_cancelled);
    RUN_PLAIN(deep_chains_need_no_stack, "too much for many runs");
    RUN_BOTH(wide_tree);
    RUN_BOTH(the_earliest_deadline_counts);
    RUN_BOTH(the_shortest_and_the_longest);
    RUN_BOTH(cancelled_before_its_deadline);
    RUN_PLAIN(values, "nothing waits");
    RUN_BOTH(the_done_channel);
    RUN_BOTH(done_asked_for_while_cancelling);
    RUN_BOTH(the_spawn_option);
    RUN_BOTH(a_timer_is_bound_for_one_call);
    RUN_BOTH(closed_while_others_live_in_it);
    RUN_PLAIN(a_bound_thread_outlives_the_runtime, "stops or configures the runtime");
    RUN_EVERYWHERE(timeout_of_its_own);
    RUN_EVERYWHERE(bind_and_unbind);
    RUN_EVERYWHERE(close_own);
    RUN_EVERYWHERE(closed_while_it_expires);
    RUN_PLAIN(opening_fails_cleanly, "stops or configures the runtime");
    RUN_BOTH(without_memory);
    RUN_BOTH(binding_without_memory);
    RUN_BOTH(waiting_bound_needs_no_memory);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
