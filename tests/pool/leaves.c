/*
 * leaves.c: a task leaves no state to the next task of its worker: no context, fiber-locals,
 * deferred calls, errno or marked blocking.
 */
#include <weft/weft.h>

#include "sched/core/handoff.h"
#include "tasks.h"

/* How a task comes to the pool. */
enum kind { PLAIN, KEYED, COPIED, HANDLE, MEMBER, KINDS };

static struct {
    weft_pool *pool;
    weft_context *bound;    /* by a task */
    weft_context *at_start; /* by on_worker_start; NULL: none */
    weft_local_key key;
    bool panics;
    const weft_fiber *worker; /* that had the mess */
    atomic_u32 ended;         /* values of fiber-locals, by their destructor */
    atomic_u32 cleaned;       /* deferred calls */
    atomic_u32 left, looked, starts;
    weft_deferred deferred;
} mess;

static void leave_mess(void)
{
    CHECK_EQ(weft_context_bind(mess.bound, NULL), 0);
    CHECK_EQ(weft_local_set(mess.key, &mess.ended), 0);
    weft_defer(&mess.deferred, count_task, &mess.cleaned);
    weft_blocking_enter();
    weft_blocking_enter();
    mess.worker = weft_self();
    atomic_u32_add_seq_cst(&mess.left, 1);
    set_errno(EXFULL);
    if (mess.panics)
        weft_panic("it leaves a mess");
}

/* Of a task with a handle, or of a group: it is bound to a context of its own. */
static void find_nothing(bool has_context)
{
    CHECK_EQ(get_errno(), 0); /* before anything else changes it */
    CHECK_PTR(weft_self(), mess.worker);
    weft_context *context = weft_context_current();
    if (has_context)
        CHECK(context != NULL && context != mess.bound && context != mess.at_start);
    else
        CHECK_PTR(context, mess.at_start);
    CHECK_PTR(weft_local_get(mess.key), NULL);
    uint32_t left = count_of(&mess.left);
    CHECK_EQ(count_of(&mess.ended), left);
    CHECK_EQ(count_of(&mess.cleaned), left);
    CHECK_EQ(weft_sleep(WEFT_US),
             0); /* it is not bound to a context that has ended, and can wait */
    CHECK_EQ(weft__blocking_depth(), 0); /* a weft_blocking_exit of its own would be one too many */
    atomic_u32_add_seq_cst(&mess.looked, 1);
}

static void leave_plain(void *arg)
{
    leave_mess();
}

static int leave_result(void *arg)
{
    leave_mess();
    return 0;
}

static void find_plain(void *arg)
{
    find_nothing(false);
}

static int find_result(void *arg)
{
    find_nothing(true);
    return 0;
}

/* A handle or a group, to be waited for and freed. */
struct submitted {
    weft_task *task;
    weft_group *group;
};

static struct submitted submit_kind(enum kind kind, void (*plain)(void *), int (*result)(void *))
{
    struct submitted submitted = {.task = NULL};
    weft_submit_options options = {.key = kind == KEYED, .copy = kind == COPIED ? 8 : 0};
    uint64_t bytes = 0;
    if (kind <= COPIED)
        CHECK_EQ(weft_pool_submit_with(mess.pool, plain, &bytes, &options), 0);
    if (kind == HANDLE)
        submitted.task = start_task(mess.pool, result, NULL);
    if (kind == MEMBER) {
        CHECK_EQ(weft_pool_group(&submitted.group, mess.pool, NULL), 0);
        CHECK_EQ(weft_group_go(submitted.group, result, NULL), 0);
    }
    return submitted;
}

static void await_submitted(struct submitted submitted)
{
    if (submitted.task != NULL)
        CHECK_EQ(weft_task_wait(submitted.task, NULL), 0);
    weft_task_release(submitted.task);
    if (submitted.group != NULL)
        (void)weft_group_close(submitted.group);
    CHECK_EQ(weft_pool_wait(mess.pool, WEFT_NEVER), 0);
}

static int start_worker(void **state, void *data)
{
    if (mess.at_start != NULL)
        CHECK_EQ(weft_context_bind(mess.at_start, NULL), 0);
    CHECK_EQ(weft_local_set(mess.key, &mess.starts), 0); /* ends when this returns */
    set_errno(EXFULL);
    return 0;
}

static void mess_open(bool binds_at_start)
{
    memset(&mess, 0, sizeof mess);
    CHECK_EQ(weft_local_create(&mess.key, count_task), 0);
    mess.bound = new_context();
    if (binds_at_start)
        mess.at_start = new_context();
    mess.pool = POOL_OPEN(.capacity = 1, .queue = WEFT_UNLIMITED, .expiry = WEFT_NEVER,
                          .on_worker_start = start_worker, .on_panic = ignore_panic);
}

static void mess_close(void)
{
    pool_close(mess.pool);
    CHECK(count_of(&mess.starts) >= 1);
    weft_context_close(mess.bound);
    weft_context_close(mess.at_start);
    CHECK_EQ(weft_local_delete(mess.key), 0);
}

/* A task of each kind after one of each kind, that returned or panicked. */
static void nothing_is_left(void *arg)
{
    for (int binds = 0; binds < 2; binds++) {
        mess_open(binds);
        for (int i = 0; i < 2 * KINDS * KINDS; i++) {
            mess.panics = i >= KINDS * KINDS;
            CHECK_EQ(weft_pool_pause(mess.pool), 0); /* so that one worker runs both */
            struct submitted first = submit_kind((enum kind)(i % KINDS), leave_plain, leave_result);
            struct submitted second =
                submit_kind((enum kind)(i / KINDS % KINDS), find_plain, find_result);
            CHECK_EQ(weft_pool_resume(mess.pool), 0);
            await_submitted(second);
            await_submitted(first);
            CHECK_EQ(count_of(&mess.looked), i + 1);
        }
        mess_close();
    }
}

/* A context that has been cancelled, and is gone, before the next task begins. */
static void a_cancelled_context_is_not_left(void *arg)
{
    mess_open(false);
    weft_context_cancel(mess.bound);
    for (uint32_t i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_pause(mess.pool), 0);
        CHECK_EQ(weft_pool_submit(mess.pool, leave_plain, NULL), 0);
        CHECK_EQ(weft_pool_submit(mess.pool, find_plain, NULL), 0);
        CHECK_EQ(weft_pool_resume(mess.pool), 0);
        CHECK_EQ(weft_pool_wait(mess.pool, WEFT_NEVER), 0);
        CHECK_EQ(count_of(&mess.looked), i + 1);
    }
    mess_close();
}

/* Deferred calls and fiber-locals of a task have ended when weft_pool_wait returns. */
static void all_has_ended_with_the_task(void *arg)
{
    for (int kind = 0; kind < KINDS; kind++) {
        mess_open(false);
        await_submitted(submit_kind((enum kind)kind, leave_plain, leave_result));
        CHECK_EQ(count_of(&mess.left), 1);
        CHECK_EQ(count_of(&mess.ended), 1);
        CHECK_EQ(count_of(&mess.cleaned), 1);
        mess_close();
    }
}

int main(void)
{
    RUN_EVERYWHERE(nothing_is_left);
    RUN_EVERYWHERE(a_cancelled_context_is_not_left);
    RUN_EVERYWHERE(all_has_ended_with_the_task);
    return 0;
}
