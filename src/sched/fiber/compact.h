/*
 * compact.h: fibers whose stack is shared, and moves out of it while they are parked. See compact.c.
 */
#ifndef WEFT_SCHED_FIBER_COMPACT_H
#define WEFT_SCHED_FIBER_COMPACT_H

#include <stddef.h>

#include "base/compiler.h"
#include "sched/core/machine.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"

enum {
    HOT_STACKS = 8,       /* hot stacks of a processor, of one size; more while these are blocked */
    PREFETCHED = 4, /* lines of what a fiber keeps that are fetched before it enters */
};

struct hot_stack;

/* What has left a compact fiber's stack, and where it belongs. While the fiber does not run its `stack` is the
 * address of this, with TAG_SAVED added; while it runs, its hot stack knows it. */
struct save_area {
    struct hot_stack *hot; /* NULL: it has not run yet */
    uint32_t
        size; /* what was moved out last: if there is no room for it, the address of a stash stands there */
    uint16_t room;
    uint16_t front; /* bytes before those: weft__compact_front */
    _Alignas(max_align_t) char bytes[];
};
_Static_assert(sizeof(struct save_area) == 16, "each parked fiber has one");

enum { TAG_SAVED = 1 };

static inline bool fiber_has_stack(const struct weft_fiber *fiber)
{
    return likely(((uintptr_t)fiber->stack & TAG_SAVED) == 0 && fiber->stack != NULL);
}

static inline struct save_area *fiber_save_area(const struct weft_fiber *fiber)
{
    return (struct save_area *)(void *)((char *)fiber->stack - TAG_SAVED);
}

/* Whether compact fibers get compact stacks; if not, that is said once. Not under a tool that watches stacks. */
bool weft__compact_works(void);

/* On the machine's stack: puts the fiber on its hot stack, its first one if it is new. NULL: it waits in the line
 * of that stack and will be ready again; or, with *starves, there is no memory. */
struct hot_stack *weft__compact_enter(struct processor *processor, struct weft_fiber *fiber,
                                bool *starves);
/* The fiber's context is saved, or it has ended, or moves; others may use its hot stack. Before anybody can find the
 * fiber. */
void weft__compact_leave(struct hot_stack *hot, struct weft_fiber *fiber, enum action action);

/* Of one that is left: the processor whose hot stack is its own. */
struct processor *weft__compact_home(const struct weft_fiber *fiber);

/* Has the CPU fetch what a ready fiber needs to enter. */
static inline void weft__compact_prefetch(const struct weft_fiber *fiber)
{
    const char *area = (const char *)fiber->stack - TAG_SAVED;
    if (fiber->stack != NULL)
        for (int line = 0; line < PREFETCHED; line++)
            fetch_line(area + line * FETCH_LINE);
}

/* Frees the processor's hot stacks; the runtime stops, and there are no fibers. */
void weft__compact_stop(struct processor *processor);

/* For memory that others look at while the caller is parked: a compact fiber must not have it on its stack. */

static inline bool on_compact(void)
{
    struct thread *thread = thread_self();
    return unlikely(thread != NULL && thread->fiber != NULL && thread->fiber->compact);
}
/* Memory of that kind for a fiber that is not started yet, as long as it lives, beside what it keeps; NULL if there
 * is none. Makes it compact. */
void *weft__compact_front(struct weft_fiber *fiber, size_t size);
/* In a fiber that has a front, inside the runtime: whether it runs on another processor than its own. */
bool weft__compact_is_remote(void *front);
/* The same: makes that processor its own. All that is on its stack is gone, nobody may know of it, and there is nothing that
 * it has deferred: its function is called anew, with errno and the state of floating point as for a new fiber. */
_Noreturn void weft__compact_move(void);
/* Memory that stays where it is; NULL if there is none. */
void *weft__stash(size_t size);
void weft__unstash(void *memory);
/* Where there was none: waits some time for others to give some back. 0; or -ETIMEDOUT, -ECANCELED. Outside the
 * runtime. */
int weft__stash_wait(int64_t deadline);

/* Ends the program if the caller is a compact fiber and the address is on its stack: it is about to be shown to
 * others. `what` and `instead` complete a sentence. */
void weft__compact_refuse(const void *address, const char *what, const char *instead);
static inline void compact_check(const void *address, const char *what, const char *instead)
{
    if (on_compact())
        weft__compact_refuse(address, what, instead);
}

/* For tests and figures. */
struct compact_figures {
    uint64_t moved_out, bytes_out; /* how often, and how much in all */
    uint64_t waited;               /* fibers that found their hot stack in use */
    uint64_t hot_stacks;
};
struct compact_figures weft__compact_figures(void);

#endif
