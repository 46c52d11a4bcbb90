/*
 * lock_order.c: finds locks that are taken in an order that can deadlock.
 *
 * Two things are recorded: the locks that each fiber and thread holds, in a list of its own; and,
 * for all together, a graph of which lock was ever wanted while which other was held. A call that
 * may wait for a lock adds an edge to it from each lock that the caller holds. An edge that would
 * close a cycle is the bug, whether or not this run deadlocks:
 *
 *     one fiber:        lock a, lock b      a -> b
 *     another fiber:    lock b, lock a      b -> a closes the cycle
 *
 * A lock that is taken without waiting adds no edges, since a try cannot deadlock; once taken it
 * counts as held. A lock that is held for reading counts like any other: a waiting writer holds new
 * readers back, so cycles of readers can deadlock too.
 *
 * Memory is bounded, static, and there in debug builds only. When there is no room for another
 * number, edge or held lock, a warning says so once and checking stops. Destroying a lock frees its
 * edges.
 *
 * Locking. A list of held locks is used by its fiber or thread alone; the rest is under
 * `order.lock`. A forked child, in which that may be held for ever, is not checked.
 */
#include "sync/lock_order.h"

#ifdef WEFT_DEBUG

#include "base/assert.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"

enum {
    EDGES = 1 << 14,   /* pairs of locks, of which one was wanted while the other was held */
    BUCKETS = 1 << 12, /* of edges, by the lock that was held */
    HELD = 1 << 15,    /* locks held at a time, by all fibers and threads */
    NONE = 0,
};

/* `to` was wanted at to_site by a caller that held `from`, taken at from_site. Index 0 of the array
 * is not used: it is NONE. */
struct edge {
    uint32_t from, to;
    const void *from_lock, *to_lock;
    void *from_site, *to_site;
    uint32_t next;     /* in the bucket of `from`, or in the free list */
    uint32_t seen;     /* the last search that visited it */
    uint32_t previous; /* in that search: the edge that led here */
};

struct held {
    struct held *next;
    uint32_t number;
    const void *lock;
    void *site;
};

static atomic_u32 numbers;
static atomic_u32 stopped;

static struct {
    struct lock lock;
    struct edge edges[EDGES];
    uint32_t buckets[BUCKETS];
    uint32_t edges_used, edges_free, edges_live;
    uint32_t queue[EDGES];
    uint32_t searches;
    struct held held[HELD];
    uint32_t held_used;
    struct held *held_free;
} order;

static void stop_checking(const char *what)
{
    if (atomic_u32_exchange_acq_rel(&stopped, 1) == 0)
        weft__warn("the order of locks is not checked from here on: too many %s", what);
}

/* The number of a lock, which gets one if it has none. 0 if all are used: numbers are not used
 * twice, since a report would take one lock for the other. */
static uint32_t number_of(uint32_t *number)
{
    atomic_u32 *word = (atomic_u32 *)(void *)number;
    uint32_t now = atomic_u32_load_relaxed(word);
    if (now != 0)
        return now;
    uint32_t used = atomic_u32_load_relaxed(&numbers);
    do {
        if (used == UINT32_MAX) {
            stop_checking("locks");
            return 0;
        }
    } while (!atomic_u32_cas_acq_rel(&numbers, &used, used + 1));
    return atomic_u32_cas_acq_rel(word, &now, used + 1) ? used + 1 : now;
}

static uint32_t *bucket_of(uint32_t number)
{
    return &order.buckets[number * 2654435761u % BUCKETS];
}

/* The graph; under the lock. */

static bool edge_known(uint32_t from, uint32_t to)
{
    for (uint32_t i = *bucket_of(from); i != NONE; i = order.edges[i].next)
        if (order.edges[i].from == from && order.edges[i].to == to)
            return true;
    return false;
}

static uint32_t edge_new(void)
{
    uint32_t i = order.edges_free;
    if (i != NONE)
        order.edges_free = order.edges[i].next;
    else if (order.edges_used + 1 < EDGES)
        i = ++order.edges_used;
    return i;
}

static void edge_add(const struct held *held, uint32_t to, const void *lock, void *site)
{
    uint32_t i = edge_new();
    if (i == NONE) {
        stop_checking("pairs of locks");
        return;
    }
    uint32_t *bucket = bucket_of(held->number);
    order.edges[i] = (struct edge){.from = held->number,
                                   .to = to,
                                   .from_lock = held->lock,
                                   .to_lock = lock,
                                   .from_site = held->site,
                                   .to_site = site,
                                   .next = *bucket};
    *bucket = i;
    order.edges_live++;
}

/* Appends all edges from `from` that this search has not visited to its queue. */
static uint32_t search_from(uint32_t from, uint32_t before, uint32_t end)
{
    for (uint32_t i = *bucket_of(from); i != NONE; i = order.edges[i].next) {
        struct edge *edge = &order.edges[i];
        if (edge->from != from || edge->seen == order.searches)
            continue;
        edge->seen = order.searches;
        edge->previous = before;
        order.queue[end++] = i;
    }
    return end;
}

/* The last edge of the shortest path from a lock to another, linked backwards by `previous`; NONE
 * if there is no path. */
static uint32_t shortest_path(uint32_t from, uint32_t to)
{
    order.searches++;
    uint32_t end = search_from(from, NONE, 0);
    for (uint32_t begin = 0; begin < end; begin++) {
        uint32_t i = order.queue[begin];
        if (order.edges[i].to == to)
            return i;
        end = search_from(order.edges[i].to, i, end);
    }
    return NONE;
}

/* The report. */

static void print_edge(const struct held *held, const void *lock, void *site)
{
    weft__warn("lock %p, taken here:", held->lock);
    weft__os_print_address(held->site);
    weft__warn("was held when lock %p was wanted here:", lock);
    weft__os_print_address(site);
}

_Noreturn static void report(const struct held *held, const void *lock, void *site, uint32_t last)
{
    weft__warn("locks are taken in an order that can deadlock; now:");
    print_edge(held, lock, site);
    weft__warn("and before, the last step first:");
    for (uint32_t i = last; i != NONE; i = order.edges[i].previous) {
        const struct edge *edge = &order.edges[i];
        struct held then = {.lock = edge->from_lock, .site = edge->from_site};
        print_edge(&then, edge->to_lock, edge->to_site);
    }
    fatal("lock order: locks %p and %p are each wanted by one that holds the other", held->lock,
          lock);
}

_Noreturn static void report_relock(const struct held *held, void *site)
{
    weft__warn("lock %p, taken here:", held->lock);
    weft__os_print_address(held->site);
    weft__warn("is wanted once more here:");
    weft__os_print_address(site);
    fatal("a lock is taken by one that has it already: it can wait for itself");
}

void weft__lock_order_wanted(const void *lock, uint32_t *number, void *site)
{
    if (atomic_u32_load_relaxed(&stopped) || weft__runtime_forked())
        return;
    void **list = weft__held_locks();
    if (list == NULL || *list == NULL)
        return;
    uint32_t to = number_of(number);
    if (to == 0)
        return;
    lock_acquire(&order.lock);
    for (const struct held *held = *list; held != NULL; held = held->next) {
        if (held->number == to)
            report_relock(held, site);
        if (edge_known(held->number, to))
            continue;
        uint32_t last = shortest_path(to, held->number);
        if (last != NONE)
            report(held, lock, site, last);
        edge_add(held, to, lock, site);
    }
    lock_release(&order.lock);
}

/* The locks that the caller holds. */

static struct held *held_new(void)
{
    struct held *held = order.held_free;
    if (held != NULL)
        order.held_free = held->next;
    else if (order.held_used < HELD)
        held = &order.held[order.held_used++];
    return held;
}

void weft__lock_order_taken(const void *lock, uint32_t *number, void *site)
{
    if (atomic_u32_load_relaxed(&stopped) || weft__runtime_forked())
        return;
    void **list = weft__held_locks();
    uint32_t own = list != NULL ? number_of(number) : 0;
    if (own == 0)
        return;
    lock_acquire(&order.lock);
    struct held *held = held_new();
    lock_release(&order.lock);
    if (held == NULL) {
        stop_checking("locks held at a time");
        return;
    }
    *held = (struct held){.next = *list, .number = own, .lock = lock, .site = site};
    *list = held;
}

void weft__lock_order_released(const uint32_t *number)
{
    void **list = weft__runtime_forked() ? NULL : weft__held_locks();
    if (list == NULL || *list == NULL)
        return;
    uint32_t wanted = atomic_u32_load_relaxed((const atomic_u32 *)(const void *)number);
    struct held *before = NULL;
    for (struct held *held = *list; held != NULL; before = held, held = held->next) {
        if (held->number != wanted)
            continue;
        if (before != NULL)
            before->next = held->next;
        else
            *list = held->next;
        lock_acquire(&order.lock);
        held->next = order.held_free;
        order.held_free = held;
        lock_release(&order.lock);
        return;
    }
}

void weft__lock_order_forget(uint32_t *number)
{
    uint32_t gone = *number;
    if (gone == 0 || weft__runtime_forked())
        return;
    lock_acquire(&order.lock);
    for (uint32_t bucket = 0; order.edges_live > 0 && bucket < BUCKETS; bucket++) {
        uint32_t *link = &order.buckets[bucket];
        while (*link != NONE) {
            uint32_t i = *link;
            struct edge *edge = &order.edges[i];
            if (edge->from != gone && edge->to != gone) {
                link = &edge->next;
                continue;
            }
            *link = edge->next;
            edge->next = order.edges_free;
            order.edges_free = i;
            order.edges_live--;
        }
    }
    lock_release(&order.lock);
}

#else

typedef int weft__lock_order_is_empty; /* a file of C must not be empty */

#endif
