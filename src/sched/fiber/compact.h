/*
 * compact.h: compact fibers, which share hot stacks and leave them while they are parked: see
 * compact.c.
 */
#ifndef WEFT_SCHED_FIBER_COMPACT_H
#define WEFT_SCHED_FIBER_COMPACT_H

#include <stddef.h>

#include "base/compiler.h"
#include "sched/core/machine.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"

enum {
    HOT_STACKS = 8, /* of a processor and a size class; more while these are busy */
    PREFETCHED = 4, /* cache lines of a save area that are fetched before its fiber enters */
};

struct hot_stack;

/* The frames of a compact fiber while another one uses its hot stack. While the fiber does not run,
 * weft_fiber.stack is the address of its save area plus TAG_SAVED; while it runs,
 * hot_stack.area is. */
struct save_area {
    struct hot_stack *hot; /* that the fiber is bound to; NULL: it has not run yet, or moves */
    uint32_t size;  /* of the frames copied last; above `room`: they are in a stash, whose address
                     * is where the frames would be */
    uint16_t room;  /* for frames, behind the front */
    uint16_t front; /* bytes at the beginning that are the owner's: weft__compact_front */
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

/* Whether compact fibers get compact stacks. Under AddressSanitizer and Valgrind, which watch
 * stacks, they do not: the first call says so on stderr. */
bool weft__compact_works(void);

/* Puts the fiber on its hot stack; a new fiber is bound to one first. On the machine's stack. NULL:
 * the fiber waits in the line of the stack and will be made ready again; or, if *starves, there is
 * no memory. */
struct hot_stack *weft__compact_enter(struct processor *processor, struct weft_fiber *fiber,
                                      bool *starves);
/* Lets other fibers use the hot stack of a fiber whose context is saved, or that has ended, crashed
 * or moves, as `action` says. Must come before the fiber is published anywhere. */
void weft__compact_leave(struct hot_stack *hot, struct weft_fiber *fiber, enum action action);

/* The home of a compact fiber that has left its hot stack: the processor that the stack belongs to;
 * the caller's if that one is retired. */
struct processor *weft__compact_home(const struct weft_fiber *fiber);

/* Has the CPU fetch what a ready fiber needs to enter. */
static inline void weft__compact_prefetch(const struct weft_fiber *fiber)
{
    const char *area = (const char *)fiber->stack - TAG_SAVED;
    if (fiber->stack != NULL)
        for (int line = 0; line < PREFETCHED; line++)
            fetch_line(area + line * FETCH_LINE);
}

/* Frees the processor's hot stacks. Called while the runtime stops and no fiber exists. */
void weft__compact_stop(struct processor *processor);

/* Whether the caller is a compact fiber. Memory that other fibers access while the caller is parked
 * must not be on its stack then. */
static inline bool on_compact(void)
{
    struct thread *thread = thread_self();
    return unlikely(thread != NULL && thread->fiber != NULL && thread->fiber->compact);
}

/* Makes a fiber that is not started yet compact, and gives it a front: `size` bytes of memory that
 * does not move, in front of its saved frames, for as long as the fiber lives. NULL without
 * memory. */
void *weft__compact_front(struct weft_fiber *fiber, size_t size);
/* Whether a fiber with a front runs on a processor other than its home. In that fiber, inside the
 * runtime. */
bool weft__compact_is_remote(void *front);
/* Binds the calling fiber, which has a front, to the processor that it runs on, and calls its
 * function anew, with errno and the floating-point state of a new fiber. In that fiber, inside the
 * runtime. All that is on its stack is lost: no other fiber may refer to it, and nothing may be
 * deferred. */
_Noreturn void weft__compact_move(void);
/* Allocates a stash: memory that a compact fiber can share while it is parked. NULL without
 * memory. */
void *weft__stash(size_t size);
void weft__unstash(void *memory);
/* Called when weft__stash returned NULL: sleeps for a millisecond, in which memory may be given
 * back. Returns 0; -ETIMEDOUT if the deadline has passed or the context of the caller timed out;
 * -ECANCELED. Outside the runtime. */
int weft__stash_wait(int64_t deadline);

/* Aborts if the caller is a compact fiber and the address is on its stack: another fiber would be
 * given an address whose content changes while the caller is parked. `what` and `instead` complete
 * the sentence of the report. */
void weft__compact_refuse(const void *address, const char *what, const char *instead);
static inline void compact_check(const void *address, const char *what, const char *instead)
{
    if (on_compact())
        weft__compact_refuse(address, what, instead);
}

/* Sums over all processors, for tests and benchmarks. */
struct compact_figures {
    uint64_t moved_out, bytes_out; /* copies to save areas, and their bytes */
    uint64_t waited;               /* times that a fiber found its hot stack busy */
    uint64_t hot_stacks;           /* that exist */
};
struct compact_figures weft__compact_figures(void);

#endif
