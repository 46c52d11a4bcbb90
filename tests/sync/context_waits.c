/*
 * context_waits.c: what a context does to each kind of wait, of fibers and of threads.
 */
#include <weft/weft.h>

#include "bodies.h"
#include "contexts.h"
#include "everywhere.h"
#include "sched/core/cancel.h"
#include "sched/fiber/fiber.h"
#include "seeds.h"

/* Waits until so many bound fibers and threads wait in a way that the context can end. */
static void await_open(weft_context *context, int count)
{
    struct canceler *canceler = (struct canceler *)context;
    for (;;) {
        int open = 0;
        latch_acquire(&canceler->latch);
        for (struct bond *bond = canceler->bonds; bond != NULL; bond = bond->next)
            open += bond->waiter != NULL &&
                    atomic_u32_load_acquire(&bond->waiter->state) == WAITER_OPEN;
        latch_release(&canceler->latch);
        if (open == count)
            return;
        weft_yield();
    }
}

/* Every kind of wait. A fixture has one object of each kind, in a state in which its call has to
 * wait. */

struct fixture {
    weft_chan *empty, *full;
    weft_wg wg, hold;
    weft_fiber *held;
    weft_mutex mutex, cond_mutex;
    weft_rwmutex read, write;
    weft_cond cond;
    weft_sem sem;
    weft_barrier barrier;
    weft_group *group;
};

static void hold_on(void *arg)
{
    struct fixture *fixture = arg;
    CHECK_EQ(weft_wg_wait(&fixture->hold), 0);
}

static int hold_in_group(void *arg)
{
    struct fixture *fixture = arg;
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_wg_wait(&fixture->hold), 0);
    return 0;
}

static void fixture_begin(struct fixture *fixture)
{
    static const int element = 1;
    memset(fixture, 0, sizeof *fixture);
    CHECK_EQ(weft_chan_make(&fixture->empty, sizeof(int), 0), 0);
    CHECK_EQ(weft_chan_make(&fixture->full, sizeof(int), 1), 0);
    CHECK_EQ(weft_chan_send(fixture->full, &element), 0);
    CHECK_EQ(weft_wg_init(&fixture->wg, 1), 0);
    CHECK_EQ(weft_wg_init(&fixture->hold, 1), 0);
    CHECK_EQ(weft_spawn(&fixture->held, hold_on, fixture, NULL), 0);
    weft_mutex_lock(&fixture->mutex);
    weft_rwmutex_write_lock(&fixture->read);
    weft_rwmutex_read_lock(&fixture->write);
    CHECK_EQ(weft_barrier_init(&fixture->barrier, 2), 0);
    CHECK_EQ(weft_group_open(&fixture->group, &(weft_group_options){.limit = 1}), 0);
    CHECK_EQ(weft_group_go(fixture->group, hold_in_group, fixture), 0);
}

static void meet(void *arg)
{
    struct fixture *fixture = arg;
    CHECK(weft_barrier_wait(&fixture->barrier) >= 0);
}

/* The waits that were ended have left no trace in the objects. */
static void fixture_end(struct fixture *fixture)
{
    int element = 0;
    CHECK_EQ(weft_chan_try_receive(fixture->empty, &element), -EAGAIN);
    CHECK_EQ(weft_chan_try_send(fixture->empty, &element), -EAGAIN);
    CHECK_EQ(weft_chan_try_receive(fixture->full, &element), 0);
    CHECK_EQ(element, 1);
    CHECK_EQ(weft_chan_try_receive(fixture->full, &element), -EAGAIN);
    weft_chan_destroy(fixture->empty);
    weft_chan_destroy(fixture->full);
    CHECK_EQ(weft_wg_count(&fixture->wg), 1);
    weft_wg_done(&fixture->wg);
    weft_mutex_unlock(&fixture->mutex);
    CHECK_EQ(weft_mutex_try_lock(&fixture->mutex), 0);
    weft_mutex_unlock(&fixture->mutex);
    weft_mutex_destroy(&fixture->mutex);
    weft_rwmutex_write_unlock(&fixture->read);
    weft_rwmutex_read_unlock(&fixture->write);
    CHECK_EQ(weft_rwmutex_try_write_lock(&fixture->read), 0);
    weft_rwmutex_write_unlock(&fixture->read);
    CHECK_EQ(weft_rwmutex_try_read_lock(&fixture->write), 0);
    weft_rwmutex_read_unlock(&fixture->write);
    weft_rwmutex_destroy(&fixture->read);
    weft_rwmutex_destroy(&fixture->write);
    CHECK_EQ(weft_mutex_try_lock(&fixture->cond_mutex), 0);
    weft_mutex_unlock(&fixture->cond_mutex);
    weft_cond_signal(&fixture->cond); /* no waiter is left */
    weft_cond_destroy(&fixture->cond);
    weft_sem_release(&fixture->sem, 3);
    CHECK_EQ(weft_sem_available(&fixture->sem), 3);
    weft_sem_destroy(&fixture->sem);
    struct body bodies[] = {{.function = meet, .arg = fixture}, {.function = meet, .arg = fixture}};
    bodies_run(bodies, 2);
    weft_barrier_destroy(&fixture->barrier);
    CHECK_EQ(weft_join_until(fixture->held, WEFT_NOW), -ETIMEDOUT);
    weft_wg_done(&fixture->hold);
    CHECK_EQ(weft_join(fixture->held), 0);
    CHECK_EQ(weft_group_close(fixture->group), 0);
}

static int sleeping(struct fixture *fixture, int64_t deadline)
{
    return weft_sleep_until(deadline);
}

static int sending(struct fixture *fixture, int64_t deadline)
{
    int element = 2;
    return weft_chan_send_until(fixture->empty, &element, deadline);
}

static int sending_to_full(struct fixture *fixture, int64_t deadline)
{
    int element = 2;
    return weft_chan_send_until(fixture->full, &element, deadline);
}

static int receiving(struct fixture *fixture, int64_t deadline)
{
    int element = 3;
    int result = weft_chan_receive_until(fixture->empty, &element, deadline);
    CHECK_EQ(element, 3);
    return result;
}

static int selecting(struct fixture *fixture, int64_t deadline)
{
    int in = 4, out = 5;
    weft_case cases[] = {{.chan = fixture->empty, .op = WEFT_RECEIVE, .element = &in, .result = 77},
                         {.chan = NULL, .op = WEFT_RECEIVE, .result = 77},
                         {.chan = fixture->full, .op = WEFT_SEND, .element = &out, .result = 77}};
    int result = weft_select_until(cases, 3, deadline);
    CHECK_EQ(in, 4);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(cases[i].result, 77);
    return result;
}

static int selecting_nothing(struct fixture *fixture, int64_t deadline)
{
    return weft_select_until(NULL, 0, deadline);
}

static int waiting(struct fixture *fixture, int64_t deadline)
{
    return weft_wg_wait_until(&fixture->wg, deadline);
}

static int joining(struct fixture *fixture, int64_t deadline)
{
    return weft_join_until(fixture->held, deadline);
}

static int locking(struct fixture *fixture, int64_t deadline)
{
    return weft_mutex_lock_until(&fixture->mutex, deadline);
}

static int read_locking(struct fixture *fixture, int64_t deadline)
{
    return weft_rwmutex_read_lock_until(&fixture->read, deadline);
}

static int write_locking(struct fixture *fixture, int64_t deadline)
{
    return weft_rwmutex_write_lock_until(&fixture->write, deadline);
}

static int waiting_for_condition(struct fixture *fixture, int64_t deadline)
{
    weft_mutex_lock(&fixture->cond_mutex);
    int result = weft_cond_wait_until(&fixture->cond, &fixture->cond_mutex, deadline);
    weft_mutex_unlock(&fixture->cond_mutex); /* aborts if it is not held */
    return result;
}

static int acquiring(struct fixture *fixture, int64_t deadline)
{
    return weft_sem_acquire_until(&fixture->sem, 2, deadline);
}

static int meeting(struct fixture *fixture, int64_t deadline)
{
    return weft_barrier_wait_until(&fixture->barrier, deadline);
}

static int do_nothing(void *arg)
{
    return 0;
}

static int starting_in_group(struct fixture *fixture, int64_t deadline)
{
    (void)deadline; /* the call takes none */
    return weft_group_go(fixture->group, do_nothing, NULL);
}

static const struct kind {
    const char *name;
    int (*wait)(struct fixture *fixture, int64_t deadline);
} kinds[] = {
    {"sleep", sleeping},
    {"send", sending},
    {"send to a full one", sending_to_full},
    {"receive", receiving},
    {"select", selecting},
    {"select without cases", selecting_nothing},
    {"wait group", waiting},
    {"join", joining},
    {"mutex", locking},
    {"read lock", read_locking},
    {"write lock", write_locking},
    {"condition", waiting_for_condition},
    {"semaphore", acquiring},
    {"barrier", meeting},
    {"group", starting_in_group},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct wait {
    struct fixture *fixture;
    const struct kind *kind;
    weft_context *context;
    int64_t deadline;
    int result;
};

static void wait_bound(void *arg)
{
    struct wait *wait = arg;
    CHECK_EQ(weft_context_bind(wait->context, NULL), 0);
    wait->result = wait->kind->wait(wait->fixture, wait->deadline);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void check_result(const struct wait *wait, int expected)
{
    if (wait->result != expected)
        test_fail(__FILE__, __LINE__, "%s: result %d, expected %d", wait->kind->name, wait->result,
                  expected);
}

/* Cancelled while it waits, then before it waits; with and without a deadline of the wait. */
static void cancel_waits(bool thread, int64_t deadline)
{
    struct fixture fixture;
    fixture_begin(&fixture);
    for (int i = 0; i < KINDS; i++) {
        struct wait wait = {&fixture, &kinds[i], make(NULL), deadline, 1};
        struct body body = {.function = wait_bound, .arg = &wait, .thread = thread};
        body_start(&body);
        await_open(wait.context, 1);
        weft_context_cancel(wait.context);
        body_join(&body);
        check_result(&wait, -ECANCELED);
        wait.result = 1;
        body_run(wait_bound, &wait, thread);
        check_result(&wait, -ECANCELED);
        weft_context_close(wait.context);
    }
    fixture_end(&fixture);
}

static void every_wait_is_cancelled(void)
{
    for (int thread = 0; thread < 2; thread++) {
        cancel_waits(thread, WEFT_NEVER);
        cancel_waits(thread, weft_after(1000 * WEFT_S));
    }
}

/* Waits that the deadline of the context ends, or that of a context above it. */
static void every_wait_ends_at_the_deadline(void)
{
    struct fixture fixture;
    fixture_begin(&fixture);
    for (int i = 0; i < KINDS; i++)
        for (int thread = 0; thread < 2; thread++) {
            weft_context *root = make_timed(NULL, WEFT_MS);
            struct wait wait = {&fixture, &kinds[i], make(root), WEFT_NEVER, 1};
            if (thread)
                wait.deadline = weft_after(1000 * WEFT_S);
            body_run(wait_bound, &wait, thread);
            check_result(&wait, -ETIMEDOUT);
            CHECK_EQ(weft_context_error(wait.context), -ETIMEDOUT);
            wait.result = 1;
            body_run(wait_bound, &wait, thread);
            check_result(&wait, -ETIMEDOUT);
            weft_context_close(wait.context);
            weft_context_close(root);
        }
    fixture_end(&fixture);
}

/* The deadline of the wait itself does not change the context. */
static void deadline_of_the_wait(void)
{
    struct fixture fixture;
    fixture_begin(&fixture);
    for (int i = 0; i < KINDS; i++)
        for (int thread = 0; thread < 2; thread++) {
            if (kinds[i].wait == starting_in_group)
                continue;
            struct wait wait = {&fixture, &kinds[i], make(NULL), weft_after(100 * WEFT_US), 1};
            body_run(wait_bound, &wait, thread);
            check_result(&wait, kinds[i].wait == sleeping ? 0 : -ETIMEDOUT);
            CHECK(weft_now() >= wait.deadline);
            CHECK_EQ(weft_context_error(wait.context), 0);
            weft_context_close(wait.context);
        }
    fixture_end(&fixture);
}

/* Many in one context, of all kinds, fibers and threads mixed: more than one batch. */
static void all_waits_at_once(void)
{
    enum { EACH = 5, ALL = EACH * KINDS };
    struct fixture fixture;
    struct wait waits[ALL];
    struct body bodies[ALL];
    fixture_begin(&fixture);
    CHECK_EQ(weft_barrier_init(&fixture.barrier, EACH + 1), 0);
    for (int with_deadline = 0; with_deadline < 2; with_deadline++) {
        weft_context *root = make(NULL), *context = make(root);
        int64_t deadline = with_deadline ? weft_after(1000 * WEFT_S) : WEFT_NEVER;
        int busy = 0;
        for (int i = 0; i < ALL; i++) {
            const struct kind *kind = &kinds[i % KINDS];
            if (kind->wait == joining && i >= KINDS)
                kind = &kinds[0]; /* a fiber has one joiner */
            if (kind->wait == receiving || kind->wait == selecting)
                kind = &kinds[0]; /* a receiver would meet the senders */
            waits[i] = (struct wait){&fixture, kind, context, deadline, 1};
            bodies[i] =
                (struct body){.function = wait_bound, .arg = &waits[i], .thread = i % 4 == 3};
            body_start(&bodies[i]);
            busy++;
        }
        await_open(context, busy);
        weft_context_cancel(root);
        for (int i = 0; i < ALL; i++) {
            body_join(&bodies[i]);
            check_result(&waits[i], -ECANCELED);
        }
        weft_context_close(root);
        weft_context_close(context);
    }
    CHECK_EQ(weft_barrier_init(&fixture.barrier, 2), 0);
    fixture_end(&fixture);
}

/* A cancelled caller still does what needs no waiting. */

static void end_at_once(void *arg)
{
}

static void calls_that_need_no_waiting_succeed(void *arg)
{
    weft_context *context = make(NULL);
    weft_chan *chan;
    weft_wg wg = WEFT_WG_INIT;
    weft_mutex mutex = WEFT_MUTEX_INIT;
    weft_rwmutex rwmutex = WEFT_RWMUTEX_INIT;
    weft_sem sem = WEFT_SEM_INIT(3);
    weft_barrier barrier;
    weft_fiber *fiber, *ended;
    int element = 1;
    CHECK_EQ(weft_chan_make(&chan, sizeof(int), 2), 0);
    CHECK_EQ(weft_barrier_init(&barrier, 1), 0);
    CHECK_EQ(weft_spawn(&ended, end_at_once, NULL, NULL), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_chan_send(chan, &element), 0);
        CHECK_EQ(weft_chan_send_until(chan, &element, weft_after(1000 * WEFT_S)), 0);
        CHECK_EQ(weft_chan_send(chan, &element), -ECANCELED);
        CHECK_EQ(weft_chan_receive(chan, &element), 0);
        weft_case one = {.chan = chan, .op = WEFT_RECEIVE, .element = &element};
        CHECK_EQ(weft_select(&one, 1), 0);
        CHECK_EQ(weft_select(&one, 1), -ECANCELED);
        CHECK_EQ(weft_chan_receive(chan, &element), -ECANCELED);
        CHECK_EQ(weft_wg_wait(&wg), 0);
        CHECK_EQ(weft_mutex_lock_until(&mutex, WEFT_NEVER), 0);
        weft_mutex_unlock(&mutex);
        CHECK_EQ(weft_rwmutex_read_lock_until(&rwmutex, WEFT_NEVER), 0);
        weft_rwmutex_read_unlock(&rwmutex);
        CHECK_EQ(weft_rwmutex_write_lock_until(&rwmutex, WEFT_NEVER), 0);
        weft_rwmutex_write_unlock(&rwmutex);
        CHECK_EQ(weft_sem_acquire_until(&sem, 3, WEFT_NEVER), 0);
        CHECK_EQ(weft_sem_acquire_until(&sem, 1, WEFT_NEVER), -ECANCELED);
        weft_sem_release(&sem, 3);
        CHECK_EQ(weft_barrier_wait(&barrier), 1);
        CHECK_EQ(weft_sleep(0), 0);
        CHECK_EQ(weft_sleep(1000 * WEFT_S), -ECANCELED);
    }
    CHECK_EQ(weft_spawn(&fiber, end_at_once, NULL, NULL), 0); /* not a wait */
    int joined;
    while ((joined = weft_join(ended)) != 0) { /* as soon as it has ended */
        CHECK_EQ(joined, -ECANCELED);
        weft_yield();
    }
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(weft_chan_receive(chan, &element), -ESHUTDOWN);
    weft_chan_destroy(chan);

    /* Clean-up that has to wait. */
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    weft_context_close(context);
}

/* A context does not end the wait of a call that returns void: when it returns, it has
 * succeeded. */

static struct {
    weft_context *context;
    weft_mutex mutex;
    weft_rwmutex rwmutex;
    weft_sem sem;
    weft_once once;
    atomic_u32 released;
    weft_wg gate;
} firm;

static void check_released(void)
{
    CHECK_EQ(atomic_u32_load_acquire(&firm.released), 1);
}

static void lock_firmly(void *arg)
{
    weft_mutex_lock(&firm.mutex);
    check_released();
    weft_mutex_unlock(&firm.mutex);
}

static void read_lock_firmly(void *arg)
{
    weft_rwmutex_read_lock(&firm.rwmutex);
    check_released();
    weft_rwmutex_read_unlock(&firm.rwmutex);
}

static void write_lock_firmly(void *arg)
{
    weft_rwmutex_write_lock(&firm.rwmutex);
    check_released();
    weft_rwmutex_write_unlock(&firm.rwmutex);
}

static void acquire_firmly(void *arg)
{
    weft_sem_acquire(&firm.sem, 1);
    check_released();
    weft_sem_release(&firm.sem, 1);
}

static void slow_once(void *arg)
{
    CHECK_EQ(weft_wg_wait(&firm.gate), 0);
}

static void begin_once(void *arg)
{
    weft_once_do(&firm.once, slow_once, NULL);
}

static void once_firmly(void *arg)
{
    weft_once_do(&firm.once, slow_once, NULL);
    check_released();
}

static void void_waits_are_not_ended(void)
{
    static void (*const functions[])(void *) = {lock_firmly, read_lock_firmly, write_lock_firmly,
                                                acquire_firmly, once_firmly};
    enum { FIRM = sizeof functions / sizeof functions[0] };
    weft_fiber *fibers[2][FIRM], *first;
    memset(&firm, 0, sizeof firm);
    firm.context = make(NULL);
    weft_spawn_options options = {.context = firm.context};
    weft_mutex_lock(&firm.mutex);
    weft_rwmutex_write_lock(&firm.rwmutex);
    CHECK_EQ(weft_wg_init(&firm.gate, 1), 0);
    CHECK_EQ(weft_spawn(&first, begin_once, NULL, NULL), 0);
    await_parked(first);
    for (int i = 0; i < FIRM; i++) {
        CHECK_EQ(weft_spawn(&fibers[0][i], functions[i], NULL, &options), 0);
        await_parked(fibers[0][i]);
    }
    weft_context_cancel(firm.context);
    for (int i = 0; i < FIRM; i++) { /* and calls that come after */
        CHECK_EQ(weft_spawn(&fibers[1][i], functions[i], NULL, &options), 0);
        await_parked(fibers[1][i]);
    }
    atomic_u32_store_release(&firm.released, 1);
    weft_mutex_unlock(&firm.mutex);
    weft_rwmutex_write_unlock(&firm.rwmutex);
    weft_sem_release(&firm.sem, 1);
    weft_wg_done(&firm.gate);
    for (int i = 0; i < 2 * FIRM; i++)
        CHECK_EQ(weft_join(fibers[i % 2][i / 2]), 0);
    CHECK_EQ(weft_join(first), 0);
    weft_context_close(firm.context);
}

/* Closing a timer waits for its call, also if the closer's context is cancelled. */

static struct {
    weft_chan *begun;
    weft_wg gate;
    atomic_u32 over;
} call;

static void slow_call(void *arg)
{
    CHECK_EQ(weft_chan_send(call.begun, NULL), 0);
    CHECK_EQ(weft_wg_wait(&call.gate), 0);
    atomic_u32_store_release(&call.over, 1);
}

static void close_timer(void *timer)
{
    CHECK_EQ(weft_timer_close(timer), 0);
    CHECK_EQ(atomic_u32_load_acquire(&call.over), 1);
}

static void closing_a_timer_is_not_ended(void)
{
    weft_timer *timer;
    weft_fiber *fiber;
    weft_context *context = make(NULL);
    weft_spawn_options options = {.context = context};
    weft_context_cancel(context);
    CHECK_EQ(weft_chan_make(&call.begun, 0, 0), 0);
    CHECK_EQ(weft_wg_init(&call.gate, 1), 0);
    CHECK_EQ(weft_timer_open(&timer, slow_call, NULL), 0);
    CHECK_EQ(weft_timer_start(timer, WEFT_NOW, 0), 0);
    CHECK_EQ(weft_chan_receive(call.begun, NULL), 0);
    CHECK_EQ(weft_spawn(&fiber, close_timer, timer, &options), 0);
    await_parked(fiber);
    weft_wg_done(&call.gate);
    CHECK_EQ(weft_join(fiber), 0);
    weft_chan_destroy(call.begun);
    weft_context_close(context);
}

/* After a cancelled join the handle can be joined. */
static void join_cancelled(void *arg)
{
    weft_fiber *fiber = arg;
    weft_context *context = make(NULL);
    weft_context_cancel(context);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    CHECK_EQ(weft_join(fiber), -ECANCELED);
    CHECK_EQ(weft_join_until(fiber, weft_after(1000 * WEFT_S)), -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    weft_wg_done(&call.gate);
    CHECK_EQ(weft_join(fiber), 0);
}

static void the_handle_survives_a_cancelled_join(void)
{
    for (int thread = 0; thread < 2; thread++) {
        weft_fiber *fiber;
        CHECK_EQ(weft_wg_init(&call.gate, 1), 0);
        CHECK_EQ(weft_chan_make(&call.begun, 0, 1), 0);
        CHECK_EQ(weft_spawn(&fiber, slow_call, NULL, NULL), 0);
        body_run(join_cancelled, fiber, thread);
        weft_chan_destroy(call.begun);
    }
}

int main(void)
{
    RUN_BOTH(every_wait_is_cancelled);
    RUN_BOTH(every_wait_ends_at_the_deadline);
    RUN_BOTH(deadline_of_the_wait);
    RUN_BOTH(all_waits_at_once);
    RUN_EVERYWHERE(calls_that_need_no_waiting_succeed);
    RUN_BOTH(void_waits_are_not_ended);
    RUN_BOTH(closing_a_timer_is_not_ended);
    RUN_BOTH(the_handle_survives_a_cancelled_join);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
