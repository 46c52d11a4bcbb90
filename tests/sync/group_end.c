/*
 * group_end.c: what a group of fibers waits for, and what leaves it before its end: members that
 * leave, scopes, groups in groups, members that start members, fiber-local values, panics.
 */
#include "bodies.h"
#include "everywhere.h"
#include "members.h"
#include "seeds.h"

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
        for (int i = 0; i < 3; i++) /* with the limit each needs the place of the last */
            CHECK_EQ(weft_group_go(group, leave_and_live_on, error_arg(-EIO)), 0);
        CHECK_EQ(group_error(group), 0);
        CHECK_EQ(weft_group_running(group), 0);
        weft_group_cancel(group);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
        weft_wg_done(&leaver.gate);
        CHECK_EQ(weft_wg_wait(&leaver.gone), 0);
    }
}

static int leave_bound_elsewhere(void *group)
{
    CHECK_EQ(weft_context_bind(leaver.other, NULL), 0);
    CHECK_EQ(weft_group_leave(), 0);
    CHECK_PTR(weft_context_current(), leaver.other);
    weft_wg_done(&leaver.gone);
    return 0;
}

static void leaves_no_group(void *arg)
{
    CHECK_EQ(weft_group_leave(), -EINVAL);
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
    weft_fiber *fiber; /* a fiber with extras */
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
    CHECK(!"called");
    return 0;
}

static void scopes(void *arg)
{
    atomic_u32_store_relaxed(&scoped, 0);
    CHECK_EQ(weft_group_scope(NULL, start_some, NULL), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&scoped), 10);
    CHECK_EQ(weft_group_scope(NULL, start_some, error_arg(-EIO)), -EIO);
    CHECK(atomic_u32_load_relaxed(&scoped) <= 20); /* what had not begun was skipped */
    CHECK_EQ(weft_group_scope(NULL, start_sleepers, error_arg(-EIO)), -EIO);
    CHECK_EQ(weft_group_scope(NULL, start_sleepers_and_one_that_fails, error_arg(-EPERM)), -EPERM);
    weft_group_options options = {.limit = -1};
    CHECK_EQ(weft_group_scope(&options, never_called, NULL), -EINVAL);
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
        make(NULL); /* an error of the inner group that is returned cancels the outer one */
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
    CHECK_EQ(group_error(group), 0);
    CHECK_EQ(atomic_u32_load_seq_cst(&values_ended), 5);

    CHECK_EQ(weft_group_go(group, set_value, &key), 0);
    CHECK_EQ(group_error(group), -EOWNERDEAD);
    CHECK_EQ(atomic_u32_load_seq_cst(&values_ended), 6);
    CHECK_EQ(weft_group_panic(group, &info), 0);
    CHECK_STR(info.message, "the end of a value");
    CHECK_EQ(weft_group_close(group), -EOWNERDEAD);
    CHECK_EQ(weft_local_delete(key), 0);
}

/* The group keeps the first panic; later ones are reported at once. */
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
    CHECK_EQ(group_error(group), -EOWNERDEAD);
    CHECK_EQ(weft_group_go(group, panic_with, second), 0);
    CHECK_EQ(group_error(group), -EOWNERDEAD);
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

/* A function panics after it has left its group: the panic has no owner and is reported. */
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
    RUN_EVERYWHERE(leaving);
    RUN_BOTH(leaving_unbinds_from_the_group_only);
    RUN_EVERYWHERE(scopes);
    RUN_EVERYWHERE(nested);
    RUN_EVERYWHERE(members_start_members);
    RUN_EVERYWHERE(closed_at_once);
    RUN_PLAIN(values_end_with_the_group, "counts what all runs of it have ended");
    RUN_PLAIN(a_second_panic_is_reported, "its reports are read");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
