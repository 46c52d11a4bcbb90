/*
 * select.c: waits for the first of several channel operations.
 *
 * The fast path reads all channels without their latches, chooses one at random among the cases
 * that look ready, and attempts it under that one latch. Most selects end here.
 *
 * The slow path takes all latches, in the order of their addresses, each once, however often its
 * channel occurs in the cases. Now no channel can change. If a case is ready, it is done. Else a
 * wait is added to the line of each case, and the caller parks with all latches; the park releases
 * them when the caller may be woken. From then on the first party to claim the one waiter of the
 * caller decides the case.
 *
 * The end. The party that claimed the waiter has done the operation, noted the result in the wait
 * of its case, and taken all waits of this select on its own channel out of the lines; that channel
 * may be gone by now. The caller takes its waits on the other channels out itself, under each latch
 * in turn.
 *
 * The park releases the latches by arrays on the caller's stack. They must not go before it is
 * done. To take each of the other latches once proves that those are released, and that of the
 * winner's channel was, since the winner had it; the last access to the arrays is before the last
 * release.
 *
 * A select that gave up (deadline, context) takes its waits out of all channels. No operation was
 * done, since no party has claimed its waiter.
 */
#include <weft/select.h>

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "os/latch.h"
#include "os/os.h"
#include "sched/core/park.h"
#include "sched/core/processor.h"
#include "sched/fiber/compact.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/chan.h"

static WAIT_KIND(wait_select, .text = "selects", .anonymous = true);

enum { CASES_ON_STACK = 16 }; /* a select with more cases that waits takes memory from the heap */

struct selection {
    weft_case *cases;
    int count;
    struct chan_wait *waits; /* one for each case */
    int *order;              /* the enabled cases, by the addresses of their channels */
    int enabled;
    struct prng *prng;
};

/* The order of locking. */

static weft_chan *chan_at(const struct selection *select, int position)
{
    return select->cases[select->order[position]].chan;
}

/* True if the case at this position is the first one with its channel. */
static bool is_first(const struct selection *select, int position)
{
    return position == 0 || chan_at(select, position - 1) != chan_at(select, position);
}

/* True if the case at this position is the last one with its channel. */
static bool is_last(const struct selection *select, int position)
{
    return position + 1 == select->enabled ||
           chan_at(select, position + 1) != chan_at(select, position);
}

static bool is_below(const struct selection *select, int a, int b)
{
    return (uintptr_t)chan_at(select, a) < (uintptr_t)chan_at(select, b);
}

static void swap(struct selection *select, int a, int b)
{
    int one = select->order[a];
    select->order[a] = select->order[b];
    select->order[b] = one;
}

static void sift_down(struct selection *select, int root, int count)
{
    for (int child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && is_below(select, child, child + 1))
            child++;
        if (!is_below(select, root, child))
            return;
        swap(select, root, child);
    }
}

/* A heap sort: it needs no memory, and has no bad case. */
static void order_cases(struct selection *select)
{
    select->enabled = 0;
    for (int i = 0; i < select->count; i++)
        if (select->cases[i].chan != NULL)
            select->order[select->enabled++] = i;
    for (int root = select->enabled / 2; root-- > 0;)
        sift_down(select, root, select->enabled);
    for (int last = select->enabled; last-- > 1;) {
        swap(select, 0, last);
        sift_down(select, 0, last);
    }
}

static void lock_all(struct selection *select)
{
    for (int i = 0; i < select->enabled; i++)
        if (is_first(select, i))
            latch_acquire(&chan_at(select, i)->latch);
}

/* Releases all latches. After the last release the selection may be gone. */
static void unlock_all(void *arg)
{
    struct selection *select = arg;
    for (int i = select->enabled; i-- > 0;)
        if (is_first(select, i))
            latch_release(&chan_at(select, i)->latch);
}

/* Choosing. */

/* Chooses one of the cases that look ready, each with the same probability; -1 if none does. */
static int choose(struct selection *select)
{
    int chosen = -1;
    uint32_t ready = 0;
    for (int i = 0; i < select->count; i++) {
        const weft_case *one = &select->cases[i];
        if (one->chan == NULL || !chan_ready(one->chan, one->op))
            continue;
        if (++ready == 1 || prng_below(select->prng, ready) == 0)
            chosen = i;
    }
    return chosen;
}

/* Attempts a case, under its channel's latch. */
static bool attempt(struct selection *select, int chosen, struct waiter **wake)
{
    weft_case *one = &select->cases[chosen];
    int error = weft__chan_attempt(one->chan, one->op, one->element, wake);
    if (error == -EAGAIN)
        return false;
    one->result = error;
    return true;
}

/* The fast path: at most one latch. -EAGAIN: no case was done. */
static int select_quickly(struct selection *select)
{
    struct waiter *wake;
    int chosen = choose(select);
    if (chosen < 0)
        return -EAGAIN;
    weft_chan *chan = select->cases[chosen].chan;
    latch_acquire(&chan->latch);
    bool done = attempt(select, chosen, &wake);
    latch_release(&chan->latch);
    if (!done)
        return -EAGAIN;
    if (wake != NULL)
        weft__wake(wake);
    return chosen;
}

/* Waiting. */

static void enlist_all(struct selection *select, struct waiter *waiter)
{
    for (int i = 0; i < select->count; i++)
        select->waits[i] = (struct chan_wait){
            .waiter = waiter, .element = select->cases[i].element, .result = CHAN_WAITS};
    for (int i = 0, first = 0; i < select->enabled; i++) {
        int index = select->order[i];
        if (is_first(select, i))
            first = index;
        int next = is_last(select, i) ? first : select->order[i + 1];
        select->waits[index].sibling = &select->waits[next];
        weft__chan_enlist(select->cases[index].chan, select->cases[index].op,
                          &select->waits[index]);
    }
}

/* The case that the waker has done. */
static int find_done(struct selection *select)
{
    int i = 0;
    while (select->waits[i].result == CHAN_WAITS) {
        i++;
        must(i < select->count); /* the waker has done one */
    }
    return i;
}

/* Takes the waits out of the lines of all channels, except one. */
static void delist_all(struct selection *select, const weft_chan *except)
{
    for (int i = 0; i < select->enabled; i++) {
        weft_chan *chan = chan_at(select, i);
        if (chan == except)
            continue;
        if (is_first(select, i))
            latch_acquire(&chan->latch);
        weft__chan_delist(&select->waits[select->order[i]]);
        if (is_last(select, i))
            latch_release(&chan->latch);
    }
}

/* Waits in all lines. All latches are held, and released. */
static int wait_in_lines(struct selection *select, int64_t deadline)
{
    struct waiter own, *waiter = weft__waiter_begin(&own);
    enlist_all(select, waiter);
    /* Without a case no latch keeps the selection in place until the park has unlocked it. */
    int error = weft__park(waiter, wait_id(&wait_select) | WAIT_SHARED,
                           select->enabled > 0 ? unlock_all : NULL, select, deadline);
    if (wait_gave_up(error)) {
        delist_all(select, NULL);
        return error;
    }
    int chosen = find_done(select);
    select->cases[chosen].result = select->waits[chosen].result;
    delist_all(select, select->cases[chosen].chan);
    return chosen;
}

static int select_locked(struct selection *select, int64_t deadline)
{
    struct waiter *wake;
    order_cases(select);
    lock_all(select);
    for (int chosen; (chosen = choose(select)) >= 0;) {
        if (!attempt(select, chosen, &wake))
            continue; /* all waits there had given up, and are out of the line now */
        unlock_all(select);
        if (wake != NULL)
            weft__wake(wake);
        return chosen;
    }
    if (deadline > WEFT_NOW)
        return wait_in_lines(select, deadline);
    unlock_all(select);
    return -EAGAIN;
}

/* What the select of a compact fiber needs while it waits. Other parties access it, so it is not on
 * the stack, but in the stash, with copies of the elements behind it. */
struct stashed_selection {
    struct selection selection;
    size_t *sizes; /* of the elements: a channel may be gone after the wait */
};

static size_t element_size(const weft_case *one)
{
    return one->chan != NULL && one->element != NULL ? one->chan->element_size : 0;
}

static struct stashed_selection *stash_selection(const struct selection *select)
{
    size_t count = (size_t)select->count;
    size_t size =
        sizeof(struct stashed_selection) +
        count * (sizeof(weft_case) + sizeof(struct chan_wait) + sizeof(size_t) + sizeof(int));
    for (size_t i = 0; i < count; i++)
        size += element_size(&select->cases[i]);
    struct stashed_selection *stashed = weft__stash(size);
    if (stashed == NULL)
        return NULL;
    stashed->selection = *select;
    stashed->selection.cases = (weft_case *)(stashed + 1);
    stashed->selection.waits = (struct chan_wait *)(stashed->selection.cases + count);
    stashed->sizes = (size_t *)(stashed->selection.waits + count);
    stashed->selection.order = (int *)(stashed->sizes + count);
    char *bytes = (char *)(stashed->selection.order + count);
    for (size_t i = 0; i < count; i++) {
        weft_case *one = &stashed->selection.cases[i];
        *one = select->cases[i];
        stashed->sizes[i] = element_size(one);
        if (one->op == WEFT_SEND && stashed->sizes[i] != 0)
            memcpy(bytes, one->element, stashed->sizes[i]);
        if (one->element != NULL)
            one->element = bytes;
        bytes += stashed->sizes[i];
    }
    return stashed;
}

static noinline int select_on_compact(struct selection *select, int64_t deadline)
{
    struct stashed_selection *stashed = stash_selection(select);
    if (stashed == NULL)
        return -ENOMEM;
    int chosen = select_locked(&stashed->selection, deadline);
    if (chosen >= 0) {
        weft_case *one = &select->cases[chosen];
        const weft_case *done = &stashed->selection.cases[chosen];
        one->result = done->result;
        if (one->op == WEFT_RECEIVE && one->result == 0 && stashed->sizes[chosen] != 0)
            memcpy(one->element, done->element, stashed->sizes[chosen]);
    }
    weft__unstash(stashed);
    return chosen;
}

static int select_waiting(struct selection *select, int64_t deadline)
{
    if (on_compact())
        return select_on_compact(select, deadline);
    if (select->count <= CASES_ON_STACK) {
        struct chan_wait waits[CASES_ON_STACK];
        int order[CASES_ON_STACK];
        struct selection small = *select;
        small.waits = waits;
        small.order = order;
        return select_locked(&small, deadline);
    }
    size_t each = sizeof *select->waits + sizeof *select->order;
    select->waits = weft__os_alloc((size_t)select->count * each);
    if (select->waits == NULL)
        return -ENOMEM;
    select->order = (int *)(select->waits + select->count);
    int chosen = select_locked(select, deadline);
    weft__os_free(select->waits);
    return chosen;
}

/* A seed for a call by a thread, which has no generator of its own: the next number of a sequence,
 * mixed (splitmix64). */
static uint64_t seed_of_thread(void)
{
    static atomic_u64 calls;
    uint64_t x = atomic_u64_add_relaxed(&calls, 0x9e3779b97f4a7c15u) ^ weft__os_ticks();
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The caller is inside the runtime if it is a fiber. */
static int select_any(weft_case *cases, int count, int64_t deadline)
{
    struct thread *thread = thread_self();
    struct prng own;
    struct selection select = {.cases = cases, .count = count, .prng = &own};
    if (thread != NULL && thread->processor != NULL)
        select.prng = &thread->processor->prng;
    else
        prng_seed(&own, seed_of_thread());
    int chosen = select_quickly(&select);
    if (chosen >= 0 || (deadline <= WEFT_NOW && count <= 1))
        return chosen;
    return select_waiting(&select, deadline);
}

static bool valid(const weft_case *cases, int count)
{
    if (count < 0 || (cases == NULL && count > 0))
        return false;
    for (int i = 0; i < count; i++) {
        const weft_case *one = &cases[i];
        if (one->chan == NULL)
            continue;
        if (one->op != WEFT_RECEIVE && one->op != WEFT_SEND)
            return false;
        if (one->op == WEFT_SEND && one->element == NULL && one->chan->element_size != 0)
            return false;
    }
    return true;
}

static int select_checked(weft_case *cases, int count, int64_t deadline)
{
    if (!valid(cases, count))
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    bool fiber = enter_if_fiber();
    int chosen = select_any(cases, count, deadline);
    leave_if_fiber(fiber);
    return chosen;
}

int weft_select(weft_case *cases, int count)
{
    return select_checked(cases, count, WEFT_NEVER);
}

int weft_select_until(weft_case *cases, int count, int64_t deadline)
{
    int chosen = select_checked(cases, count, deadline);
    return chosen == -EAGAIN ? -ETIMEDOUT : chosen;
}

int weft_select_try(weft_case *cases, int count)
{
    return select_checked(cases, count, WEFT_NOW);
}
