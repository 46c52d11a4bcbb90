/*
 * compact.c: compact stacks: fibers that share a few hot stacks.
 *
 * A parked fiber of moderate depth needs 200 to 600 bytes of its stack, and a stack is a page at least. A compact
 * fiber runs on a hot stack, one of a few of its processor's, and belongs to it from its first run to its end (or until it
 * moves, below), since frames hold addresses of each other. When another fiber of that stack is to run, what the one before has
 * there is moved out, into a piece of a slab (stack/slab.c), and moved back to the same addresses before it goes
 * on, whichever processor that is on.
 *
 * A hot stack is used by one fiber at a time, from enter to leave: `busy`, under its latch. Who finds it in use
 * waits in its line; leaving, a fiber makes the first in line ready, which tries again. The stack is not kept for
 * it: a fiber that comes in between is faster than a hand-over.
 *
 *   enter                                    leave
 *   lock; if busy: into the line             its context is saved
 *         else busy = true; unlock           the fiber knows what it keeps (TAG_SAVED), not its stack
 *   move out who is there, move in           lock; busy = false, first in line: ready; unlock
 *   the fiber knows its stack
 *
 * Invariants:
 *  - Whoever is busy with a hot stack, and nobody else, touches its memory, `resident` and the context and what is
 *    kept of the resident. The resident does not run meanwhile, or it is the one who is busy.
 *  - If there is a line, somebody is busy with the stack, or one from the line is ready and will be: nobody in line
 *    is forgotten.
 *  - Leave comes before anybody can find the fiber (sched/core/machine.c): it may run elsewhere, and be moved out by
 *    others, as soon as it is left.
 *  - What a fiber keeps stays where it is until the fiber ends (if it grows deep, the frames go to a stash besides):
 *    who wants to run it finds its hot stack there before it is busy with that.
 *  - What is moved runs from the saved stack pointer to the top of the stack. Nothing is below: the switch is made
 *    in functions that call others, so none of them uses the red zone.
 *  - Nothing is moved out for nothing: the last one stays on the hot stack until another wants it. As many compact
 *    fibers as there are hot stacks cost no copying at all.
 *
 * A fiber that another processor has run, since its own was busy, goes back: its deadline is armed in the wheel of the
 * processor whose hot stack is its own (machine.c). Else after a while half of the fibers would be on the other side, and
 * with each of their turns a hot stack would go from one CPU's cache to the other's and back: 1.4 times the CPU time of
 * tasks that sleep, on two processors.
 *
 * A worker of a pool that another processor has run moves, when it has ended its task: it has nothing on its stack then, and
 * begins anew on a hot stack of the processor that it is on (weft__compact_move). So those that were stolen belong to the
 * thief from their next task on, and processors that made unequally many are alike after a while; else one would
 * lack work for as long as the pool lives, and steal it, one dear turn after the other.
 *
 * Enter and leave run on the machine's own stack. So a compact fiber does not go straight to another fiber, nor another one
 * straight to it (park.c, fiber.c).
 *
 * A fiber that blocks in C code holds its hot stack. New fibers begin on another; when all are blocked one more is
 * made, and goes when nobody belongs to it any more. Those that belong to the blocked one wait.
 *
 * Rejected: a hot stack for each processor, alone (a thief finds it in use nearly always; eight in turn are in the
 * nearest cache too). Moving out at park (half of the copies, where few fibers run in turn, are for nothing).
 * Keeping the stack for the first in line (it stands idle until that one's turn).
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
    struct hot_stack *next;       /* of its processor: a ring */
    struct processor *home; /* that one */
    struct stack *stack;
    struct latch latch;
    bool busy;         /* under the latch, as are these */
    uint32_t fibers;   /* that belong to it */
    struct chain line; /* ready, and wait for it */
    struct weft_fiber
        *resident;     /* whose frames are on it, or NULL; of who is busy with it, as are these */
    struct save_area *area; /* of the one who runs */
    uint32_t typical;  /* what was moved out last: new ones will need as much */
};

/* More than TYPICAL_MOST, less than a piece of a slab, is an exception: who needs it gets a stash. */
enum { FRAMES_AT_FIRST = 512, TYPICAL_MOST = 3072 };
static atomic_u32 typical; /* what was moved out last, anywhere */

bool weft__compact_works(void)
{
    static atomic_u32 said;
    bool works = !WEFT_ASAN && !valgrind_runs();
    if (!works && atomic_u32_exchange_acq_rel(&said, 1) == 0)
        weft__warn(
            "compact stacks are private here: the tool that watches could not tell fibers apart");
    return works;
}

/* Keeping. */

static struct save_area *save_area_make(struct hot_stack *hot, size_t front, size_t size)
{
    size_t room;
    if (size < sizeof(char *))
        size = sizeof(char *); /* of a stash */
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

/* Where the address of the stash is, of one that has so much moved out that there is no room for it. */
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

/* Finds a place for so many bytes: a stash if there is no room for them; false without memory. */
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

/* Moves out whose frames are there; false without memory. */
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

/* Takes it for a new fiber, or finds that nobody needs it. */
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

/* One that nobody needs, of more than there need be: made while others were blocked. */
static void hot_free(struct processor *processor, struct hot_stack *before)
{
    struct hot_stack *hot = before->next;
    before->next = hot->next;
    weft__stack_put(&processor->stacks, hot->stack);
    weft__os_free(hot);
    processor->hot_stacks--;
}

/* The next in turn that is free; NULL if none is. */
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

/* One for a new fiber: one more if there are few, else the next in turn that is free, or one more; NULL without
 * memory. */
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
    struct save_area *area = has_front ? fiber_save_area(fiber) : save_area_make(hot, 0, hot->typical);
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

/* What lies between the saved stack pointer and the top of the hot stack is what others will displace. Of one that a library of
 * coroutines has put on another stack nobody knows where its frames on the hot stack end. */
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
