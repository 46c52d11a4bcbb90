/*
 * compact.c: compact stacks: many fibers share a few hot stacks.
 *
 * A parked fiber of moderate depth needs 200 to 600 bytes of its stack, but a stack of its own
 * takes at least a page. So a compact fiber runs on a hot stack, one of a few that its processor
 * has. Before another fiber runs there, the frames of the resident are copied to the resident's
 * save area, a piece of a slab (stack/slab.c). They are copied back before that fiber goes on, on
 * whichever processor, and always to the same addresses, because frames hold addresses of each
 * other. For the same reason a fiber is bound to its hot stack from its first run until it ends or
 * moves (see below).
 *
 * One fiber at a time uses a hot stack, from enter to leave. `busy` says so, under the latch of the
 * stack. A fiber that finds the stack busy joins its line. Leave makes the first fiber of the line
 * ready, and that fiber tries again. The stack is not reserved for it: a fiber that arrives in
 * between can use the stack sooner than a hand-over would take.
 *
 *   enter                                    leave
 *   lock; if busy: into the line             the fiber's context is saved
 *         else busy = true; unlock           fiber->stack = its save area (TAG_SAVED)
 *   copy the resident out, the fiber in      lock; busy = false, first in line: ready; unlock
 *   fiber->stack = the hot stack
 *
 * Invariants:
 *  - Between enter and leave the user of a hot stack has exclusive access to its memory, to
 *    `resident`, and to the resident's context and save area. The resident does not run meanwhile,
 *    unless it is the user itself.
 *  - If the line is not empty, either the stack is busy, and leave will take the first of the line;
 *    or a fiber taken from the line is ready and will enter and leave. No fiber in the line is
 *    forgotten.
 *  - Leave comes before the fiber is published in any queue or list (sched/core/machine.c). From
 *    then on another processor may run the fiber, and another fiber may copy it out.
 *  - A save area keeps its address until the fiber ends; frames that do not fit go to a stash as
 *    well. So a machine can read in the save area which hot stack to enter before it has that
 *    stack.
 *  - What is copied runs from the saved stack pointer to the top of the stack. Nothing live is
 *    below: the switch is made in functions that call others, so none of them uses the red zone.
 *  - Copying is lazy: the resident stays until another fiber needs the stack. As many compact
 *    fibers as there are hot stacks cost no copying at all.
 *
 * Timers of a stolen fiber. If a fiber has run on a processor other than its home (the one that its
 * hot stack belongs to), its deadline is armed in the wheel of its home (machine.c), so it goes
 * back. Otherwise half of the fibers would after a while be on the wrong side, and each of their
 * turns would drag a hot stack from one CPU's cache to the other's and back: 1.4 times the CPU time
 * of tasks that sleep, on two processors.
 *
 * Moving. A pool worker that runs on a processor other than its home moves when its task has ended:
 * its stack holds nothing then, and it begins anew on a hot stack of the current processor
 * (weft__compact_move). So stolen workers belong to the thief from their next task on, and
 * processors that made unequal numbers of workers become even. Otherwise one processor would lack
 * work for as long as the pool lives, and steal it, one expensive turn after the other.
 *
 * Enter and leave run on the machine's own stack. So there is no direct switch from or to a compact
 * fiber (park.c, fiber.c).
 *
 * A fiber that blocks in C code holds its hot stack. New fibers begin on another one; if all are
 * busy, one more is made, and freed again when no fiber is bound to it. Fibers that are bound to
 * the blocked stack wait.
 *
 * Rejected:
 *  - One hot stack for each processor: a thief finds it busy nearly always. Eight in turn fit into
 *    the nearest cache too.
 *  - Copying at park: where few fibers take turns, half of the copies are useless.
 *  - Reserving the stack for the first in line: it is idle until that fiber's turn.
 */
#include "sched/fiber/compact.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/valgrind.h"
#include "os/latch.h"
#include "os/os.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/chain.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "stack/slab.h"
#include "stack/stack.h"

struct hot_stack {
    struct hot_stack *next; /* a ring: the hot stacks of one processor */
    struct processor *home; /* that processor */
    struct stack *stack;
    struct latch latch;
    /* Under the latch: */
    bool busy;
    uint32_t fibers;   /* bound to this stack */
    struct chain line; /* fibers that can run as soon as the stack is free */
    /* For the user of the stack only (busy): */
    struct weft_fiber *resident; /* the fiber whose frames are on the stack; NULL: none */
    struct save_area *area;      /* of the fiber that runs */
    uint32_t typical;            /* bytes of the last copy out: the guess for a new fiber */
};

/* A copy of more than TYPICAL_MOST bytes, which is less than a piece of a slab, counts as an
 * exception: save areas are not made larger for it, and such frames go to a stash. */
enum { FRAMES_AT_FIRST = 512, TYPICAL_MOST = 3072 };
static atomic_u32 typical; /* bytes of the last copy out on any hot stack */

bool weft__compact_works(void)
{
    static atomic_u32 warned;
    bool works = !WEFT_ASAN && !valgrind_runs();
    if (!works && atomic_u32_exchange_acq_rel(&warned, 1) == 0)
        weft__warn(
            "compact stacks are private here: the tool that watches could not tell fibers apart");
    return works;
}

/* Save areas. */

static struct save_area *save_area_make(struct hot_stack *hot, size_t front, size_t size)
{
    size_t room;
    if (size < sizeof(char *))
        size = sizeof(char *); /* room for the address of a stash */
    struct save_area *area = weft__slab_get(sizeof *area + front + size, &room);
    if (unlikely(area == NULL))
        return NULL;
    must(room <= UINT16_MAX);
    area->hot = hot;
    area->size = 0;
    area->room = (uint16_t)(room - sizeof *area - front);
    area->front = (uint16_t)front;
    return area;
}

/* In an area whose frames did not fit: where the address of their stash is. */
static char **save_area_stash(struct save_area *area)
{
    return (char **)(void *)(area->bytes + area->front);
}

static bool save_area_overflows(const struct save_area *area)
{
    return unlikely(area->size > area->room);
}

static void save_area_free(struct save_area *area)
{
    if (save_area_overflows(area))
        weft__unstash(*save_area_stash(area));
    weft__slab_put(area, sizeof *area + area->front + area->room);
}

static struct stack *tagged(struct save_area *area)
{
    return (struct stack *)(void *)((char *)area + TAG_SAVED);
}

static char *save_area_bytes(struct save_area *area)
{
    return save_area_overflows(area) ? *save_area_stash(area) : area->bytes + area->front;
}

/* Finds a place for `size` bytes: the area if they fit, else a stash. False without memory. */
static noinline bool save_area_fit(struct save_area *area, size_t size)
{
    char *more = size > area->room ? weft__stash(size) : NULL;
    if (size > area->room && more == NULL)
        return false;
    if (save_area_overflows(area))
        weft__unstash(*save_area_stash(area));
    if (more != NULL)
        *save_area_stash(area) = more;
    return true;
}

/* Copies the resident to its save area. False without memory. */
static bool move_out(struct processor *processor, struct hot_stack *hot)
{
    struct weft_fiber *fiber = hot->resident;
    struct save_area *area = fiber_save_area(fiber);
    char *from = fiber->context.sp;
    size_t size = (size_t)(weft__stack_start_at(hot->stack) - from);
    if ((unlikely(size > area->room) || save_area_overflows(area)) && !save_area_fit(area, size))
        return false;
    area->size = (uint32_t)size;
    memcpy(save_area_bytes(area), from, size);
    hot->typical = size < TYPICAL_MOST ? (uint32_t)size : TYPICAL_MOST;
    if (unlikely(atomic_u32_load_relaxed(&typical) != hot->typical))
        atomic_u32_store_relaxed(&typical, hot->typical);
    hot->resident = NULL;
    atomic_u64_add_owner(&processor->moved_out, 1);
    atomic_u64_add_owner(&processor->bytes_out, size);
    return true;
}

/* Hot stacks. */

static struct hot_stack *hot_make(struct processor *processor, int class)
{
    struct hot_stack *hot = weft__os_alloc_zeroed(sizeof *hot);
    if (hot == NULL)
        return NULL;
    hot->stack = weft__stack_get(&processor->stacks, class);
    if (hot->stack == NULL) {
        weft__os_free(hot);
        return NULL;
    }
    if (processor->hot == NULL)
        processor->hot = hot;
    hot->next = processor->hot->next != NULL ? processor->hot->next : processor->hot;
    processor->hot->next = hot;
    processor->hot_stacks++;
    hot->home = processor;
    hot->busy = true;
    hot->fibers = 1;
    return hot;
}

/* Takes the stack for a new fiber, unless it is busy. *unused: no other fiber is bound to it. */
static bool hot_try(struct hot_stack *hot, bool *unused)
{
    latch_acquire(&hot->latch);
    bool got = !hot->busy;
    *unused = got && hot->fibers == 0;
    if (got) {
        hot->busy = true;
        hot->fibers++;
    }
    latch_release(&hot->latch);
    return got;
}

/* Frees the stack after `before`: a surplus one that was made while others were blocked, and that
 * no fiber is bound to. */
static void hot_free(struct processor *processor, struct hot_stack *before)
{
    struct hot_stack *hot = before->next;
    before->next = hot->next;
    weft__stack_put(&processor->stacks, hot->stack);
    weft__os_free(hot);
    processor->hot_stacks--;
}

/* The next stack in the ring that is free, taken; NULL if none is. Frees surplus stacks on its
 * way. */
static struct hot_stack *hot_find(struct processor *processor, int class, uint32_t of_class)
{
    for (uint32_t left = processor->hot_stacks; left > 0; left--) {
        bool unused;
        struct hot_stack *before = processor->hot, *hot = before->next;
        if (hot->stack->class != class || !hot_try(hot, &unused)) {
            processor->hot = hot;
        } else if (unused && of_class > HOT_STACKS) {
            hot_free(processor, before);
            of_class--;
        } else {
            processor->hot = hot;
            return hot;
        }
    }
    return NULL;
}

/* Chooses and takes a stack for a new fiber: makes one if the processor has fewer than HOT_STACKS
 * of the class, else takes the next free one, else makes one more. NULL without memory. */
static struct hot_stack *hot_choose(struct processor *processor, int class)
{
    uint32_t of_class = 0;
    struct hot_stack *hot = processor->hot;
    for (uint32_t i = 0; i < processor->hot_stacks; i++, hot = hot->next)
        of_class += hot->stack->class == class;
    hot = of_class < HOT_STACKS ? hot_make(processor, class) : NULL;
    if (hot == NULL)
        hot = hot_find(processor, class, of_class);
    return hot != NULL || of_class < HOT_STACKS ? hot : hot_make(processor, class);
}

static bool hot_take(struct hot_stack *hot, struct weft_fiber *fiber)
{
    latch_acquire(&hot->latch);
    bool got = !hot->busy;
    hot->busy = true;
    if (unlikely(!got))
        chain_add(&hot->line, fiber);
    latch_release(&hot->latch);
    return got;
}

static void hot_release(struct hot_stack *hot, bool forget)
{
    latch_acquire(&hot->latch);
    hot->busy = false;
    hot->fibers -= forget;
    struct weft_fiber *next = chain_take(&hot->line);
    latch_release(&hot->latch);
    if (unlikely(next != NULL))
        weft__ready(next, false);
}

/* Entering and leaving. */

static struct hot_stack *begin(struct processor *processor, struct weft_fiber *fiber)
{
    struct hot_stack *hot = hot_choose(processor, fiber->stack_class);
    if (hot == NULL)
        return NULL;
    bool has_front = fiber->stack != NULL;
    struct save_area *area =
        has_front ? fiber_save_area(fiber) : save_area_make(hot, 0, hot->typical);
    if (area == NULL || (hot->resident != NULL && !move_out(processor, hot))) {
        if (area != NULL && !has_front)
            save_area_free(area);
        hot_release(hot, true);
        return NULL;
    }
    area->hot = hot;
    hot->resident = fiber;
    hot->area = area;
    fiber->stack = hot->stack;
    weft__machine_begin(fiber);
    return hot;
}

struct hot_stack *weft__compact_enter(struct processor *processor, struct weft_fiber *fiber,
                                      bool *starves)
{
    *starves = false;
    if (unlikely(fiber->stack == NULL || fiber_save_area(fiber)->hot == NULL)) {
        struct hot_stack *hot = begin(processor, fiber);
        *starves = hot == NULL;
        return hot;
    }
    struct save_area *area = fiber_save_area(fiber);
    struct hot_stack *hot = area->hot;
    if (unlikely(!hot_take(hot, fiber))) {
        atomic_u64_add_owner(&processor->waited, 1);
        return NULL;
    }
    if (hot->resident != fiber) {
        if (hot->resident != NULL && unlikely(!move_out(processor, hot))) {
            hot_release(hot, false);
            *starves = true;
            return NULL;
        }
        memcpy(fiber->context.sp, save_area_bytes(area), area->size);
        hot->resident = fiber;
    }
    hot->area = area;
    fiber->stack = hot->stack;
    return hot;
}

/* The next user of the hot stack will displace what lies between the saved stack pointer and the
 * top. If a coroutine library has switched the fiber to a stack of its own, the stack pointer does
 * not say where the frames on the hot stack end. */
static void check_frames(const struct hot_stack *hot, const struct weft_fiber *fiber)
{
    const char *sp = fiber->context.sp;
    if (unlikely(sp < weft__stack_low(hot->stack) || sp > weft__stack_start_at(hot->stack)))
        fatal(
            "fiber %llu \"%s\", whose stack is compact, waits or yields on a stack that is not its "
            "own (ucontext, Boost.Context): go back to its own before, or give the fiber a stack "
            "of its own",
            (unsigned long long)fiber->id, weft_fiber_name(fiber));
}

void weft__compact_leave(struct hot_stack *hot, struct weft_fiber *fiber, enum action action)
{
    bool ended = action == ACTION_END || action == ACTION_CRASH;
    bool belongs = !ended && action != ACTION_MOVE;
    if (likely(belongs))
        check_frames(hot, fiber);
    fiber->stack = ended ? NULL : tagged(hot->area);
    if (unlikely(!belongs)) {
        if (ended)
            save_area_free(hot->area);
        else
            hot->area->hot = NULL;
        hot->resident = NULL;
    }
    hot_release(hot, !belongs);
}

bool weft__compact_is_remote(void *front)
{
    const struct save_area *area = container_of(front, struct save_area, bytes);
    return area->hot->home != thread_self()->processor;
}

void weft__compact_move(void)
{
    weft__machine_switch((struct machine *)thread_self(), ACTION_MOVE);
    must(!"a fiber was resumed where it has left");
}

struct processor *weft__compact_home(const struct weft_fiber *fiber)
{
    struct processor *home = fiber_save_area(fiber)->hot->home;
    return likely(!atomic_u32_load_relaxed(&home->retired)) ? home : thread_self()->processor;
}

void weft__compact_stop(struct processor *processor)
{
    for (; processor->hot_stacks > 0; processor->hot_stacks--) {
        struct hot_stack *hot = processor->hot->next;
        processor->hot->next = hot->next;
        if (processor->hot_stacks > 1)
            must(hot != processor->hot);
        weft__os_free(hot);
    }
    processor->hot = NULL;
}

/* Stashes. */

void *weft__compact_front(struct weft_fiber *fiber, size_t size)
{
    size = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    uint32_t frames = atomic_u32_load_relaxed(&typical);
    struct save_area *area = save_area_make(NULL, size, frames != 0 ? frames : FRAMES_AT_FIRST);
    if (area == NULL)
        return NULL;
    fiber->compact = true;
    fiber->stack = tagged(area);
    return area->bytes;
}

struct stash {
    size_t room;
    _Alignas(max_align_t) char bytes[];
};

void *weft__stash(size_t size)
{
    size_t room;
    struct stash *stash = weft__slab_get(sizeof *stash + size, &room);
    if (stash == NULL)
        return NULL;
    stash->room = room;
    return stash->bytes;
}

void weft__unstash(void *memory)
{
    struct stash *stash = container_of(memory, struct stash, bytes);
    weft__slab_put(stash, stash->room);
}

int weft__stash_wait(int64_t deadline)
{
    int error = deadline > weft_now() ? weft_sleep(WEFT_MS) : -ETIMEDOUT;
    return error;
}

noinline void weft__compact_refuse(const void *address, const char *what, const char *instead)
{
    const struct stack *stack = thread_self()->fiber->stack;
    const char *byte = address;
    if (byte >= weft__stack_low(stack) && byte < weft__stack_top(stack))
        fatal("%s is on the compact stack of fiber %llu \"%s\", which others use while it waits: "
              "%s, or give "
              "the fiber a stack of its own",
              what, (unsigned long long)thread_self()->fiber->id,
              weft_fiber_name(thread_self()->fiber), instead);
}

struct compact_figures weft__compact_figures(void)
{
    struct compact_figures figures = {0, 0, 0, 0};
    for (uint32_t i = 0; i < processor_count(); i++) {
        const struct processor *processor = &weft__sched.processors[i];
        figures.moved_out += atomic_u64_load_relaxed(&processor->moved_out);
        figures.bytes_out += atomic_u64_load_relaxed(&processor->bytes_out);
        figures.waited += atomic_u64_load_relaxed(&processor->waited);
        figures.hot_stacks += processor->hot_stacks;
    }
    return figures;
}
