/*
 * compact_waits.c: a compact fiber has what others see of its waits elsewhere than on its stack. There is no memory
 * for that: waits that can tell tell, those that cannot are made later, and none is lost.
 */
#include "compact.h"

#include "everywhere.h"
#include "failing.h"
#include "sched/fiber/compact.h"
#include "sched/poll/descriptor.h"
#include <weft/fd.h>

/* Takes all memory that stashes are made of, until give_back. */

enum { TAKEN_MOST = 1 << 16 };
static void *taken[TAKEN_MOST];
static int taken_count;

static void take_all(void)
{
    weft__os_fail(OS_ALLOC, 1, true);
    weft__os_fail(OS_MAP, 1, true);
    for (size_t size = 16 * 1024; size > 0; size /= 2)
        for (void *one; (one = weft__stash(size)) != NULL;) {
            CHECK(taken_count < TAKEN_MOST);
            taken[taken_count++] = one;
        }
}

static void give_back(void)
{
    weft__os_fail(OS_ALLOC, 0, false);
    weft__os_fail(OS_MAP, 0, false);
    while (taken_count > 0)
        weft__unstash(taken[--taken_count]);
}

static void on_compact_fiber(void (*function)(void *))
{
    if (!weft__compact_works())
        test_skip("there are no compact stacks here");
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_join(compact_spawn(function, NULL)), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Waits with a deadline, and those whose calls can fail for lack of memory. */

static struct {
    weft_sem sem;
    weft_chan *chan;
    weft_context *context;
    int pipe[2];
    int64_t element;
} shared;

static void waits_that_tell(void *arg)
{
    weft_case one = {.chan = shared.chan, .op = WEFT_RECEIVE, .element = &shared.element};
    (void)arg;
    CHECK_EQ(weft_fd_wait(shared.pipe[0], WEFT_READABLE, weft_after(WEFT_MS)), -ETIMEDOUT);
    take_all();
    CHECK_EQ(weft_sem_acquire_until(&shared.sem, 1, weft_after(3 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_chan_receive_until(shared.chan, &shared.element, weft_after(3 * WEFT_MS)),
             -ETIMEDOUT);
    CHECK_EQ(weft_select_until(&one, 1, weft_after(3 * WEFT_MS)), -ENOMEM);
    CHECK_EQ(weft_fd_wait(shared.pipe[0], WEFT_READABLE, weft_after(3 * WEFT_MS)), -ENOMEM);
    CHECK_EQ(weft__descriptor_wait(shared.pipe[0], WEFT_READABLE, 0, weft_after(3 * WEFT_MS)),
             -ENOMEM);
    give_back();
    CHECK_EQ(weft_fd_wait(shared.pipe[0], WEFT_READABLE, weft_after(3 * WEFT_MS)), -ETIMEDOUT);
}

static void begin(void)
{
    CHECK_EQ(weft_sem_init(&shared.sem, 0), 0);
    CHECK_EQ(weft_chan_make(&shared.chan, sizeof shared.element, 0), 0);
}

static void errors_are_told(void)
{
    begin();
    CHECK_EQ(pipe(shared.pipe), 0);
    on_compact_fiber(waits_that_tell);
    close(shared.pipe[0]);
    close(shared.pipe[1]);
    weft_chan_destroy(shared.chan);
}

/* What is waited for comes meanwhile. */

static void sends(void *arg)
{
    int64_t element = 42;
    (void)arg;
    CHECK_EQ(weft_chan_send(shared.chan, &element), 0);
}

static void receives_later(void *arg)
{
    weft_fiber *sender;
    (void)arg;
    shared.element = 0;
    CHECK_EQ(weft_spawn(&sender, sends, NULL, NULL), 0); /* not before this one waits */
    take_all();
    CHECK_EQ(weft_chan_receive(shared.chan, &shared.element), 0);
    give_back();
    CHECK_EQ(shared.element, 42);
    CHECK_EQ(weft_join(sender), 0);
}

static void a_message_is_not_lost(void)
{
    begin();
    on_compact_fiber(receives_later);
    weft_chan_destroy(shared.chan);
    /* One that is left there, and its sender gone on. */
    CHECK_EQ(weft_chan_make(&shared.chan, sizeof shared.element, 1), 0);
    on_compact_fiber(receives_later);
    weft_chan_destroy(shared.chan);
}

/* One that cannot tell, and cannot sleep either: its context is cancelled. */

static void releases(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++)
        weft_yield();
    weft_sem_release(&shared.sem, 1);
}

static void acquires_cancelled(void *arg)
{
    weft_fiber *other;
    int64_t element;
    (void)arg;
    CHECK_EQ(weft_context_bind(shared.context, NULL), 0);
    CHECK_EQ(weft_spawn(&other, releases, NULL, NULL), 0);
    take_all();
    weft_context_cancel(shared.context);
    CHECK_EQ(weft_sem_acquire_until(&shared.sem, 1, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_chan_receive(shared.chan, &element), -ECANCELED);
    weft_sem_acquire(&shared.sem, 1); /* which no context ends */
    give_back();
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_sem_available(&shared.sem), 0);
    CHECK_EQ(weft_join(other), 0);
}

static void a_cancelled_one_acquires(void)
{
    begin();
    CHECK_EQ(weft_context_open(&shared.context, NULL, NULL), 0);
    on_compact_fiber(acquires_cancelled);
    weft_context_close(shared.context);
    weft_chan_destroy(shared.chan);
}

int main(void)
{
    RUN(errors_are_told);
    RUN(a_message_is_not_lost);
    RUN(a_cancelled_one_acquires);
    return 0;
}
