/*
 * overflow_far_crash.c: frames larger than a guard, which step over it and touch what is far below.
 *
 * Built without probes in large frames (-fno-stack-clash-protection), as many distributions build
 * their libraries. The first fibers have guards that no reasonable frame steps over. With many
 * fibers the later ones have smaller guards, and a frame may land in the stack of another fiber.
 * Where that is noticed, at the next wait or by a fault, the report names the fiber of the frame.
 */
#include <alloca.h>
#include <signal.h>

#include "base/compiler.h"
#include "dying.h"
#include "faults.h" /* sanitizers leave the signals alone */
#include "fibers.h"
#include "sched/fiber/fiber.h"
#include "stack/stack.h"
#include "system.h"

enum { MANY = 600, STACK_SIZE = 64 * 1024 };
enum { MARGIN = 8192 }; /* for the color of a stack, and other frames */

static atomic_ptr innocents[MANY]; /* the address of a local of each */
static weft_chan *never;

static void wait_for_ever(void *arg)
{
    char local = 0;
    atomic_ptr_store_release(arg, &local);
    CHECK_EQ(weft_chan_receive(never, &local), 0);
}

static void start_innocents(int count)
{
    CHECK_EQ(weft_chan_make(&never, 1, 0), 0);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(weft_go(wait_for_ever, &innocents[i]), 0);
        while (atomic_ptr_load_acquire(&innocents[i]) == NULL)
            CHECK_EQ(weft_sleep(WEFT_US), 0);
    }
}

static void run_large(void (*function)(void *))
{
    weft_spawn_options options = {.name = "the large one", .stack_size = STACK_SIZE};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

/* Calls the function below a frame of that size, which is not touched. */
static noinline void call_below(size_t size, void (*function)(volatile char *))
{
    volatile char *frame = alloca(size);
    function(frame);
    __asm__ volatile("" : : "r"(frame) : "memory");
}

static void touch(volatile char *frame)
{
    *frame = 1;
}

/* Yields to another fiber for certain: one of these may run on another processor. */
static void yield(volatile char *frame)
{
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(weft_go(nothing, NULL), 0);
        weft_yield();
    }
}

static void sleep_shortly(volatile char *frame)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
}

/* The first fibers. */

static const size_t sizes[] = {(size_t)8 << 10, (size_t)68 << 10,   (size_t)100 << 10,
                               (size_t)1 << 20, (size_t)4300 << 10, (size_t)7900 << 10};
static size_t frame_size;

static void have_large_frame(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    call_below(frame_size + STACK_SIZE, touch);
}

static void large_frame(void)
{
    start_innocents(20);
    run_large(have_large_frame);
}

static void a_large_frame_hits_the_guard(void)
{
    char text[64];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        frame_size = sizes[i];
        check_dies(large_frame, SIGSEGV);
        CHECK(said("stack overflow in fiber"));
        CHECK(said("\"the large one\""));
        snprintf(text, sizeof text, "all %d bytes of its stack", STACK_SIZE);
        CHECK(said(text));
        const char *more = strstr(output, "at least ");
        CHECK(more != NULL);
        size_t bytes = strtoul(more + strlen("at least "), NULL, 10);
        CHECK(bytes > frame_size - MARGIN && bytes < frame_size + MARGIN);
        CHECK(said("raise stack_size"));
    }
}

/* One of many. */

/* The size of a frame that ends in the stack of another fiber, more than a megabyte below, under
 * the frames of that one. */
static size_t to_a_stack(void)
{
    const char *here = __builtin_frame_address(0), *best = NULL;
    for (int i = 0; i < MANY; i++) {
        const char *local = atomic_ptr_load_acquire(&innocents[i]);
        if (local < here - (1 << 20) && (best == NULL || local > best))
            best = local;
    }
    CHECK(best != NULL);
    return (size_t)(here - best) + 2048;
}

/* The size of a frame that ends in a guard: guards of the arena are as far apart as its stacks. */
static size_t to_a_guard(void)
{
    const char *here = __builtin_frame_address(0);
    const struct stack *stack = weft_self()->stack;
    size_t size = (size_t)(weft__stack_top(stack) - weft__stack_low(stack));
    size_t each = size + ((size_t)1 << stack->guard);
    return (size_t)(here - weft__stack_low(stack)) + ((1 << 20) / each + 1) * each + 2048;
}

static void be_in_stack_and_yield(void *arg)
{
    call_below(to_a_stack(), yield);
}

static void be_in_stack_and_sleep(void *arg)
{
    call_below(to_a_stack(), sleep_shortly);
}

static void touch_null(volatile char *frame)
{
    fault_null_write();
}

static void be_in_stack_and_fault(void *arg)
{
    call_below(to_a_stack(), touch_null);
}

static void be_in_guard(void *arg)
{
    call_below(to_a_guard(), touch);
}

static void (*villain)(void *);

static void run_villain(void)
{
    start_innocents(MANY);
    run_large(villain);
}

static void check_found(void (*function)(void *), int signal)
{
    villain = function;
    check_dies(run_villain, signal);
    CHECK(said("stack overflow in fiber"));
    CHECK(said("\"the large one\""));
    CHECK(said("raise stack_size"));
}

static void frames_in_the_stack_of_another_are_found(void)
{
    check_found(be_in_stack_and_yield, SIGABRT);
    check_found(be_in_stack_and_sleep, SIGABRT);
    check_found(be_in_stack_and_fault, SIGSEGV);
    check_found(be_in_guard, SIGSEGV);
}

/* A fiber may wait on a stack that the program has made. */

static void wait_there(void)
{
    weft_yield();
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    weft_yield();
}

static void go_elsewhere(void *arg)
{
    on_foreign_stack(wait_there);
    weft_yield();
}

static void elsewhere(void)
{
    run_large(go_elsewhere);
    shut_down();
}

static void a_stack_of_the_program_is_allowed(void)
{
    CHECK_EQ(run_case(elsewhere), 0);
    CHECK(!said("weft:")); /* AddressSanitizer may warn of swapcontext */
}

int main(void)
{
    RUN_ALL(a_large_frame_hits_the_guard, frames_in_the_stack_of_another_are_found,
            a_stack_of_the_program_is_allowed);
    return 0;
}
