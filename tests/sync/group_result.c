/*
 * group_result.c: groups that collect: the results and arguments of all functions, in order; copied
 * arguments.
 */
#include "bodies.h"
#include "everywhere.h"
#include "failing.h"
#include "members.h"
#include "seeds.h"

static const weft_group_options collecting = {.collect = 1, .keep_going = 1};

static int poisoned;
static void *const poison = &poisoned;

/* The result of a function that has ended. */
static int result_of(weft_group *group, int64_t index, void *arg)
{
    int error = INT32_MIN;
    void *given = poison;
    CHECK_EQ(weft_group_result(group, index, &error, &given), 0);
    CHECK_PTR(given, arg);
    CHECK_EQ(weft_group_result(group, index, NULL, NULL), 0);
    return error;
}

static void arguments(void)
{
    int error = 77, number = 1;
    void *arg = poison;
    weft_group *group = make(NULL);
    CHECK_EQ(weft_group_count(NULL), 0);
    CHECK_EQ(weft_group_result(NULL, 0, &error, &arg), -EINVAL);
    CHECK_EQ(weft_group_go(group, succeed, NULL), 0);
    CHECK_EQ(weft_group_count(group), 0); /* it does not collect */
    CHECK_EQ(weft_group_result(group, 0, &error, &arg), -EINVAL);
    CHECK_EQ(weft_group_go_copy(NULL, succeed, &number, sizeof number), -EINVAL);
    CHECK_EQ(weft_group_go_copy(group, NULL, &number, sizeof number), -EINVAL);
    CHECK_EQ(weft_group_go_copy(group, succeed, NULL, sizeof number), -EINVAL);
    CHECK_EQ(weft_group_go_copy(group, succeed, &number, 0), -EINVAL);
    CHECK_EQ(weft_group_go_copy(group, succeed, &number, SIZE_MAX), -ENOMEM);
    CHECK_EQ(weft_group_go_copy(group, succeed, &number, PTRDIFF_MAX), -ENOMEM);
    CHECK_EQ(weft_group_close(group), 0);
    group = make(&collecting);
    CHECK_EQ(weft_group_result(group, -1, &error, &arg), -EINVAL);
    CHECK_EQ(weft_group_result(group, 0, &error, &arg), -ENOENT);
    CHECK_EQ(weft_group_go(group, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_group_count(group), 0);
    CHECK_EQ(weft_group_close(group), 0);
    CHECK_EQ(error, 77);
    CHECK_PTR(arg, poison);
}

/* Results are in the order of the calls, whatever the order of the ends; more than some chunks
 * hold. */

static int fail_sometimes(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    if (number % 3 == 0)
        weft_yield();
    if (number % 7 == 0)
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    return number % 5 == 0 ? -(int)number : 0;
}

static void results_in_order(void *arg)
{
    enum { MANY = 300 };
    weft_group *group = make(&(weft_group_options){.collect = 1, .keep_going = 1, .limit = 20});
    for (uintptr_t i = 0; i < MANY; i++)
        CHECK_EQ(weft_group_go(group, fail_sometimes, (void *)i), 0);
    CHECK_EQ(weft_group_count(group), MANY);
    CHECK(group_error(group) < 0);
    for (uintptr_t i = 0; i < MANY; i++)
        CHECK_EQ(result_of(group, (int64_t)i, (void *)i), i % 5 == 0 ? -(int)i : 0);
    CHECK_EQ(weft_group_result(group, MANY, NULL, NULL), -ENOENT);
    CHECK(weft_group_close(group) < 0);
}

static int panic_now(void *arg)
{
    weft_panic("%s", (const char *)arg);
}

static int leave_with_error(void *arg)
{
    CHECK_EQ(weft_group_leave(), 0);
    return -EIO; /* ignored: it has left */
}

static void each_way_to_end(void *arg)
{
    static char text[] = "one of all";
    weft_wg gate;
    weft_panic_info info;
    int error = 77;
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    weft_group *group = make(&collecting);
    CHECK_EQ(weft_group_go(group, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_group_go(group, fail, error_arg(-EIO)), 0);
    CHECK_EQ(weft_group_go(group, panic_now, text), 0);
    CHECK_EQ(weft_group_go(group, leave_with_error, &gate), 0);
    CHECK_EQ(weft_group_result(group, 0, &error, NULL), -EBUSY);
    CHECK_EQ(error, 77);
    weft_wg_done(&gate);
    CHECK_EQ(weft_group_wait(group, NULL), 0);
    CHECK_EQ(result_of(group, 0, &gate), 0);
    CHECK_EQ(result_of(group, 1, error_arg(-EIO)), -EIO);
    CHECK_EQ(result_of(group, 2, text), -EOWNERDEAD);
    CHECK_EQ(result_of(group, 3, &gate), 0);
    CHECK_EQ(weft_group_panic(group, &info), 0);
    CHECK(weft_group_close(group) != 0);
}

/* A function that has not begun when the group is cancelled is skipped: on one processor none
 * begins before the caller yields. */

static atomic_u32 called;

static void cancel_before_it_begins(void *arg)
{
    for (int keep_going = 0; keep_going < 2; keep_going++) {
        weft_group *group =
            make(&(weft_group_options){.collect = 1, .keep_going = keep_going, .limit = 100});
        atomic_u32_store_relaxed(&called, 0);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(weft_group_go(group, succeed, &called), 0);
        weft_group_cancel(group);
        CHECK_EQ(group_error(group), -ECANCELED);
        CHECK_EQ(atomic_u32_load_relaxed(&called), keep_going ? 3 : 0);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(result_of(group, i, &called), keep_going ? 0 : -ECANCELED);
        CHECK_EQ(weft_group_count(group), 3); /* a refused function is not recorded */
        CHECK_EQ(weft_group_go(group, succeed, &called), -ECANCELED);
        CHECK_EQ(weft_group_count(group), 3);
        CHECK_EQ(weft_group_close(group), -ECANCELED);
    }
}

static void functions_that_have_not_begun_are_skipped(void)
{
    on_one_machine(cancel_before_it_begins, NULL);
}

/* Members start members, which come later in the order. */

static int start_another(void *arg)
{
    weft_group *group = arg;
    return weft_group_go(group, succeed, NULL);
}

static void the_starter_comes_first(void *arg)
{
    for (int64_t round = test_scale(200); round > 0; round--) {
        weft_group *group = make(&collecting);
        CHECK_EQ(weft_group_go(group, start_another, group), 0);
        CHECK_EQ(weft_group_wait(group, NULL), 0);
        CHECK_EQ(weft_group_count(group), 2);
        CHECK_EQ(result_of(group, 0, group), 0);
        CHECK_EQ(result_of(group, 1, NULL), 0);
        CHECK_EQ(weft_group_close(group), 0);
    }
}

/* Copies. */

struct sum {
    int64_t from, to, result;
    char filler[200]; /* larger than a word */
};

static int add_up(void *arg)
{
    struct sum *sum = arg;
    CHECK_EQ((uintptr_t)arg % _Alignof(max_align_t), 0);
    weft_yield();
    for (int64_t i = sum->from; i < sum->to; i++)
        sum->result += i;
    CHECK_EQ(sum->filler[199], (char)sum->from);
    return 0;
}

/* The original changes as soon as the call has returned. */
static void copied_arguments(void *arg)
{
    for (int collect = 0; collect < 2; collect++) {
        weft_group *group = make(&(weft_group_options){.collect = collect});
        for (int i = 0; i < 50; i++) {
            struct sum sum = {.from = i, .to = i + 3, .filler[199] = (char)i};
            CHECK_EQ(weft_group_go_copy(group, add_up, &sum, sizeof sum), 0);
            memset(&sum, 0xff, sizeof sum);
        }
        CHECK_EQ(group_error(group), 0);
        CHECK_EQ(weft_group_count(group), collect ? 50 : 0);
        for (int i = 0; i < 50 && collect; i++) {
            void *copy;
            CHECK_EQ(weft_group_result(group, i, NULL, &copy), 0);
            CHECK_EQ(((struct sum *)copy)->result, 3 * i + 3);
        }
        CHECK_EQ(weft_group_close(group), 0);
    }
}

/* A function that has left keeps its copy until it returns, though the group is closed by then. */

static struct {
    weft_wg gate, over;
} leaver;

static int leave_and_read(void *arg)
{
    int *number = arg;
    CHECK_EQ(weft_group_leave(), 0);
    CHECK_EQ(weft_wg_wait(&leaver.gate), 0);
    CHECK_EQ(*number, 4711);
    weft_wg_done(&leaver.over);
    return 0;
}

static void a_copy_outlives_the_group(void *arg)
{
    for (int collect = 0; collect < 2; collect++) {
        int number = 4711;
        weft_group *group = make(&(weft_group_options){.collect = collect});
        CHECK_EQ(weft_wg_init(&leaver.gate, 1), 0);
        CHECK_EQ(weft_wg_init(&leaver.over, 1), 0);
        CHECK_EQ(weft_group_go_copy(group, leave_and_read, &number, sizeof number), 0);
        CHECK_EQ(weft_group_close(group), 0);
        weft_wg_done(&leaver.gate);
        CHECK_EQ(weft_wg_wait(&leaver.over), 0);
    }
}

/* Failures: a function that was not started is not recorded; the others keep their order. */

static int succeed_alone(void *arg)
{
    return 0;
}

static void attempt(void)
{
    weft_group *group = poison;
    int opened = weft_group_open(&group, &collecting);
    int went[40], expected = 0, number = 0;
    for (int i = 0; i < 40 && opened == 0; i++, number++)
        went[i] = i % 2 == 0 ? weft_group_go_copy(group, succeed_alone, &number, sizeof number)
                             : weft_group_go(group, succeed, NULL);
    weft_chan *done = poison;
    int asked = opened == 0 ? weft_group_done(group, &done) : 0;
    failing_off();
    failing_check(opened, failing_start);
    failing_check(asked, failing_start);
    if (opened != 0 || asked != 0)
        CHECK_PTR(done, poison);
    for (int i = 0; i < 40 && opened == 0; i++) {
        failing_check(went[i], failing_start);
        if (went[i] != 0)
            continue;
        void *arg;
        while (weft_group_result(group, expected, NULL, &arg) == -EBUSY)
            weft_yield();
        CHECK_EQ(weft_group_result(group, expected, NULL, &arg), 0);
        if (i % 2 == 0)
            CHECK_EQ(*(int *)arg, i);
        else
            CHECK_PTR(arg, NULL);
        expected++;
    }
    if (opened == 0) {
        CHECK_EQ(weft_group_count(group), expected);
        CHECK_EQ(weft_group_close(group), 0);
    }
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void failures(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK(failing_each(attempt, 60) > 10);
}

int main(void)
{
    RUN_BOTH(arguments);
    RUN_EVERYWHERE(results_in_order);
    RUN_EVERYWHERE(each_way_to_end);
    RUN_PLAIN(functions_that_have_not_begun_are_skipped,
              "under a seed any fiber may begin at any time");
    RUN_EVERYWHERE(the_starter_comes_first);
    RUN_EVERYWHERE(copied_arguments);
    RUN_EVERYWHERE(a_copy_outlives_the_group);
    RUN_PLAIN(failures, "stops the runtime");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
