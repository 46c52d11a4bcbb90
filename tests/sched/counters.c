/*
 * counters.c: counters that wrap around while the runtime runs (docs/design/counters.md).
 *
 * A test sets them near the wrap: those of a processor from inside the runtime, where a fiber may
 * change them; those that are static in a file by including that file. The library has nothing that
 * exists for this.
 */
#include <sys/socket.h>

#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/fiber/local.c"
#include "sched/poll/descriptor.c"
#include "sched/runtime/thread.h"
#include "seeds.h"
#include "sleeper.h"
#include "sync/lock_order.c"

enum { CROWD = 200 };

/* Sets the processor's counts as if it had given `begun` turns in all, and `fired` turns since a
 * timer last fired. */
static void turns_ago(uint32_t fired, uint32_t begun)
{
    struct thread *thread = runtime_enter(thread_self());
    struct processor *processor = thread->processor;
    CHECK_EQ(ring_length(processor), 0);
    atomic_u32_store_relaxed(&processor->head, begun);
    atomic_u32_store_relaxed(&processor->tail, begun);
    atomic_u32_store_relaxed(&processor->turn, begun);
    processor->due_end = processor->mark = begun - fired;
    runtime_leave(thread);
}

static void sleep_after_turns(void *arg)
{
    static const uint32_t fired[] = {0, 1, UINT32_MAX / 2, UINT32_MAX / 2 + 1, UINT32_MAX};
    static const uint32_t begun[] = {0, UINT32_MAX / 2, UINT32_MAX - CROWD, UINT32_MAX};
    for (size_t i = 0; i < sizeof fired / sizeof *fired; i++) {
        for (size_t k = 0; k < sizeof begun / sizeof *begun; k++) {
            turns_ago(fired[i], begun[k]);
            sleep_beside(CROWD);
        }
    }
}

static void timers_fire_after_any_number_of_turns(void)
{
    configure(1);
    run_fiber(sleep_after_turns, NULL);
}

static void keys_are_never_zero(void)
{
    weft_local_key key, last = 0;
    int value;
    for (int i = 0; i < 4; i++) {
        if (i == 1)
            keys.places[0].generation = UINT32_MAX / WEFT_LOCAL_KEYS - 1;
        CHECK_EQ(weft_local_create(&key, NULL), 0);
        CHECK(key != 0 && key != last);
        CHECK_EQ(key % WEFT_LOCAL_KEYS, 0); /* in the first place, whose keys come nearest to 0 */
        CHECK(weft_local_get(key) == NULL);
        CHECK_EQ(weft_local_set(key, &value), 0);
        CHECK(weft_local_get(key) == &value);
        CHECK_EQ(weft_local_delete(key), 0);
        last = key;
    }
}

/* Descriptors: the generation of a record, and how often the descriptor became ready. */

enum { BYTES = 8 };

static void answer(void *arg)
{
    char byte;
    for (int i = 0; i < BYTES; i++) {
        CHECK_EQ(weft_conn_read(arg, &byte, 1, WEFT_NEVER), 1);
        CHECK_EQ(weft_conn_write(arg, &byte, 1, WEFT_NEVER), 1);
    }
}

static void events_arrive_across_the_wrap(void)
{
    int fds[2];
    char byte = 'a';
    weft_conn *near, *far;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(weft_fd_wait(fds[0], WEFT_WRITABLE, WEFT_NEVER), WEFT_WRITABLE);
    struct descriptor *descriptor = find(fds[0]);
    descriptor->generation = UINT32_MAX - BYTES / 2;
    for (int i = 0; i < BYTES; i++) {
        CHECK_EQ(write(fds[1], &byte, 1), 1);
        CHECK_EQ(weft_fd_wait(fds[0], WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
        CHECK_EQ(read(fds[0], &byte, 1), 1);
    }
    CHECK(descriptor->generation < BYTES);
    CHECK_EQ(weft_conn_from_fd(&near, fds[0]), 0);
    CHECK_EQ(weft_conn_from_fd(&far, fds[1]), 0);
    atomic_u32_store_relaxed(&descriptor->readable, UINT32_MAX - BYTES / 2);
    weft_fiber *fiber = spawn(answer, far);
    for (int i = 0; i < BYTES; i++) {
        CHECK_EQ(weft_conn_write(near, &byte, 1, WEFT_NEVER), 1);
        CHECK_EQ(weft_conn_read(near, &byte, 1, WEFT_NEVER), 1);
    }
    CHECK(atomic_u32_load_relaxed(&descriptor->readable) != UINT32_MAX - BYTES / 2);
    CHECK_EQ(weft_join(fiber), 0);
    weft_conn_close(near);
    weft_conn_close(far);
}

/* The numbers of locks, by which debug builds check the order of locking. */

static void locks_without_numbers_are_not_checked(void)
{
#ifdef WEFT_DEBUG
    static weft_mutex first = WEFT_MUTEX_INIT,
                      others[3] = {WEFT_MUTEX_INIT, WEFT_MUTEX_INIT, WEFT_MUTEX_INIT};
    atomic_u32_store_relaxed(&numbers, 0);
    weft_mutex_lock(&first);
    CHECK_EQ(first.number, 1);
    atomic_u32_store_relaxed(&numbers, UINT32_MAX - 1);
    for (int i = 0; i < 3; i++)
        weft_mutex_lock(&others[i]); /* none is taken for the first */
    CHECK_EQ(others[0].number, UINT32_MAX);
    CHECK_EQ(others[1].number, 0);
    for (int i = 0; i < 3; i++)
        weft_mutex_unlock(&others[i]);
    weft_mutex_unlock(&first);
#endif
}

int main(void)
{
    RUN_PLAIN(timers_fire_after_any_number_of_turns, "sets counters of the one processor");
    RUN_PLAIN(keys_are_never_zero, "sets a counter of the process");
    RUN_PLAIN(events_arrive_across_the_wrap, "sets counters of a descriptor");
    RUN_PLAIN(locks_without_numbers_are_not_checked, "sets a counter of the process");
    return 0;
}
