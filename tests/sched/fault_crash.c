/*
 * fault.c: a fault names the fiber, its spawn site, its stack and the place; a signal that was sent is none.
 *
 * Each case runs in a child, which is looked at from outside: how it ended, and what it said.
 */
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "dying.h"
#include "faults.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/core/park.h"
#include "sched/core/switch.h"
#include "sched/runtime/thread.h"
#include "system.h"
#include "test.h"
#include <weft/test.h>
#include <weft/weft.h>

static WAIT_KIND(wait_test, .text = "waits in a test");

enum { STACK_SIZE = 32 * 1024, FUNCTION_MOST = 2048 };

/* The number in brackets that follows the text: a code address. */
static uintptr_t address_after(const char *text)
{
    const char *place = strstr(output, text);
    CHECK(place != NULL);
    const char *end = strchr(place, '\n');
    place = strstr(place, "[");
    CHECK(place != NULL && end != NULL && place < end);
    return (uintptr_t)strtoull(place + 1, NULL, 16); /* "(nil)": 0 */
}

/* The child is a fork: its code stands where ours does. */
#define CHECK_IN(address, function)                              \
    do {                                                         \
        uintptr_t address_ = (address);                          \
        CHECK(address_ >= (uintptr_t)(function) &&               \
              address_ < (uintptr_t)(function) + FUNCTION_MOST); \
    } while (0)

static noinline void run_fiber(void (*function)(void *))
{
    weft_spawn_options options = {.name = "the wild one", .stack_size = STACK_SIZE};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

/* Frames of its own on the way, a kilobyte of them. */
static noinline void by_way_of(void (*fault)(void))
{
    volatile char frame[1024];
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (char)i;
    fault();
    frame[1] = frame[0];
}

#define IN_FIBER(fault)                   \
    static void fault##_body(void *arg)   \
    {                                     \
        (void)arg;                        \
        CHECK_EQ(weft_sleep(WEFT_US), 0); \
        by_way_of(fault);                 \
    }                                     \
    static void fault##_in_fiber(void)    \
    {                                     \
        run_fiber(fault##_body);          \
    }

IN_FIBER(fault_null_write)
IN_FIBER(fault_wild_read)
IN_FIBER(fault_null_call)
#if defined(__x86_64__) /* on others a division by zero is no fault */
IN_FIBER(fault_divide)
#endif
IN_FIBER(fault_illegal)
IN_FIBER(fault_bus)
IN_FIBER(fault_smash)

static void check_report(const char *what, void (*body)(void *))
{
    CHECK(said(what));
    CHECK(said("\"the wild one\""));
    CHECK_IN(address_after("was spawned at"), run_fiber);
    CHECK_EQ(address_after("and runs"), (uintptr_t)body);
    const char *use = strstr(output, "it uses ");
    CHECK(use != NULL);
    long used = strtol(use + strlen("it uses "), NULL, 10);
    CHECK(used > 1024 && used < STACK_SIZE);
    CHECK(said("of the 32768 bytes"));
}

static void a_memory_fault_is_reported(void)
{
    check_dies(fault_null_write_in_fiber, SIGSEGV);
    check_report("fault: SIGSEGV at 0x0 (nothing is there) in fiber ", fault_null_write_body);
    CHECK_IN(address_after(" 0: "), fault_null_write);
    CHECK_IN(address_after(" 1: "), by_way_of);
    CHECK(!said("inside weft") && !said("isolates"));
    check_dies(fault_wild_read_in_fiber, SIGSEGV);
    CHECK_IN(address_after(" 0: "), fault_wild_read);
#if defined(__x86_64__)
    check_report("fault: SIGSEGV (of an address that cannot be)", fault_wild_read_body);
#endif
}

static void a_call_of_no_code_shows_its_caller(void)
{
    check_dies(fault_null_call_in_fiber, SIGSEGV);
    CHECK(said("at 0x0"));
    CHECK_EQ(address_after(" 0: "), 0);
    CHECK_IN(address_after(" 1: "), fault_null_call);
    CHECK_IN(address_after(" 2: "), by_way_of);
}

static void other_faults_are_reported(void)
{
    check_dies(fault_illegal_in_fiber, SIGILL);
    check_report("fault: SIGILL at 0x", fault_illegal_body);
    CHECK_IN(address_after(" 0: "), fault_illegal);
    check_dies(fault_bus_in_fiber, SIGBUS);
    check_report("there is no memory behind it", fault_bus_body);
#if defined(__x86_64__)
    check_dies(fault_divide_in_fiber, SIGFPE);
    check_report("division of an integer by zero", fault_divide_body);
    CHECK_IN(address_after(" 0: "), fault_divide);
#endif
}

/* Everything on the stack is overwritten, up to its top and beyond. */
static void a_destroyed_stack_is_reported(void)
{
    check_dies(fault_smash_in_fiber, SIGSEGV);
    CHECK(said("\"the wild one\""));
    CHECK_IN(address_after("was spawned at"), run_fiber);
    CHECK(said("weft:    0: "));
}

static void smash_task(void *arg)
{
    (void)arg;
    fault_smash();
}

/* On one thread, without a monitor: who else comes by the worker, by looking after the pool, may be the first to fault. */
static void smash_in_pool(void)
{
    weft_pool *pool;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    weft__os_fail(OS_THREAD, 2, true);
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = 1, .name = "the wild ones"}),
             0);
    CHECK_EQ(weft_pool_submit(pool, smash_task, NULL), 0);
    for (;;)
        pause(); /* to close it would be the same */
}

/* And with it what a worker of a pool knows of itself, its name included. */
static void a_destroyed_worker_is_reported(void)
{
    check_dies(smash_in_pool, SIGSEGV);
    CHECK(said(" in fiber "));
    CHECK_IN(address_after("was spawned at"), smash_in_pool);
    CHECK(said("weft:    0: "));
}

#if defined(__x86_64__)
/* Calls what is no code, from a frame that is nowhere. If that call returned the process would end as if all were
 * well. */
void fault_lost_call(void);
__asm__(".pushsection .text\n"
        "fault_lost_call:\n"
        ".cfi_startproc\n"
        "pushq %rbp\n"
        "movl $8, %ebp\n"
        ".cfi_def_cfa rbp, 16\n"
        "xorl %eax, %eax\n"
        "callq *%rax\n"
        "xorl %edi, %edi\n"
        "movl $231, %eax\n" /* exit_group */
        "syscall\n"
        ".cfi_endproc\n"
        ".popsection");

IN_FIBER(fault_lost_call)

/* The search for who called it faults as well: the process dies where it would have, none the less. */
static void a_caller_that_is_lost(void)
{
    check_dies(fault_lost_call_in_fiber, SIGSEGV);
    CHECK(said("\"the wild one\""));
    CHECK(said("weft:    0: "));
    CHECK(!said("weft:    1: "));
}
#endif

static void lose_record(void *arg)
{
    (void)arg;
    atomic_ptr_store_relaxed(&weft_self()->extra, (void *)16);
    fault_null_write();
}

static void record_lost(void)
{
    run_fiber(lose_record);
}

/* Its name is unknown then, the rest is not. */
static void a_destroyed_record_is_survived(void)
{
    check_dies(record_lost, SIGSEGV);
    CHECK(said(" \"\"\n"));
    CHECK_IN(address_after("was spawned at"), run_fiber);
    CHECK_IN(address_after(" 0: "), fault_null_write);
}

static void lose_stack(void *arg)
{
    (void)arg;
    weft_self()->stack = NULL;
    fault_null_write();
}

static void stack_lost(void)
{
    run_fiber(lose_stack);
}

static void a_lost_stack_is_survived(void)
{
    check_dies(stack_lost, SIGSEGV);
    CHECK(said("what weft knows of it is destroyed"));
    CHECK_IN(address_after(" 0: "), fault_null_write);
}

/* The loader's list of what is loaded, which names the functions, is destroyed. */
static void lose_names(void *arg)
{
    (void)arg;
    for (struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next)
        map->l_name = (char *)16;
    fault_null_write();
}

static void names_lost(void)
{
    run_fiber(lose_names);
}

static void lost_names_are_survived(void)
{
    check_dies(names_lost, SIGSEGV);
    CHECK(said("what calls it is unknown"));
}

/* On a stack that the program has made itself, below and above that of the fiber. */

static void switch_below(void *arg)
{
    (void)arg;
    CHECK(stack_below < weft__stack_low(weft_self()->stack));
    fault_on_stack(stack_below);
}

static void switch_above(void *arg)
{
    (void)arg;
    CHECK(stack_above > weft__stack_top(weft_self()->stack));
    fault_on_stack(stack_above);
}

static void fault_below(void)
{
    run_fiber(switch_below);
}

static void fault_above(void)
{
    char stack[sizeof stack_below];
    stack_above = stack;
    run_fiber(switch_above);
}

static void another_stack_is_said_to_be_one(void)
{
    check_dies(fault_below, SIGSEGV);
    CHECK(said("is not in its stack"));
    CHECK_IN(address_after(" 0: "), fault_null_write);
    if (test_emulated()) /* its main stack may lie anywhere */
        return;
    check_dies(fault_above, SIGSEGV);
    CHECK(said("is not in its stack"));
}

/* Elsewhere than in a fiber's own code. */

static void nothing(void *arg)
{
    (void)arg;
}

static void on_thread(void)
{
    run_fiber(nothing);
    by_way_of(fault_null_write);
}

static void *fault_on_thread(void *arg)
{
    fault_null_write();
    return arg;
}

/* One that weft has never seen. */
static void on_unknown_thread(void)
{
    pthread_t thread;
    run_fiber(nothing);
    CHECK_EQ(pthread_create(&thread, NULL, fault_on_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void a_thread_is_said_to_be_one(void)
{
    check_dies(on_unknown_thread, SIGSEGV);
    CHECK(said("on a thread that is not weft's"));
    CHECK_IN(address_after(" 0: "), fault_null_write);
    check_dies(on_thread, SIGSEGV);
    CHECK(said("fault: SIGSEGV at 0x0"));
    CHECK(said("on a thread that is not weft's"));
    CHECK(!said("in fiber"));
    CHECK_IN(address_after(" 0: "), fault_null_write);
}

static void unlock_badly(void *arg)
{
    (void)arg;
    fault_null_write();
}

static void park_with(void (*unlock)(void *))
{
    struct waiter own;
    struct thread *thread = runtime_enter(thread_self());
    (void)thread;
    (void)weft__park(weft__waiter_begin(&own), wait_id(&wait_test), unlock, NULL, WEFT_NEVER);
}

static void park_badly(void *arg)
{
    (void)arg;
    park_with(unlock_badly);
}

static void in_machine(void)
{
    run_fiber(park_badly);
}

static void lose_processor(void *arg)
{
    thread_self()->processor = NULL;
    unlock_badly(arg);
}

static void park_without_processor(void *arg)
{
    (void)arg;
    park_with(lose_processor);
}

static void in_machine_without_processor(void)
{
    run_fiber(park_without_processor);
}

static void send_nowhere(void *arg)
{
    weft_chan *chan;
    (void)arg;
    CHECK_EQ(weft_chan_make(&chan, sizeof(long), 1), 0);
    CHECK_EQ(weft_chan_send(chan, (void *)8), 0);
}

static void inside_weft(void)
{
    run_fiber(send_nowhere);
}

static void weft_itself_shows_its_state(void)
{
    check_dies(in_machine, SIGSEGV);
    CHECK(said("in weft's own code, with processor "));
    CHECK(said("weft: the runtime: "));
    CHECK(said(": between two fibers; "));
    check_dies(in_machine_without_processor, SIGSEGV);
    CHECK(said("in weft's own code, without a processor"));
    CHECK(said("weft: the runtime: "));
    check_dies(inside_weft, SIGSEGV);
    CHECK(said("in fiber ") && said(", inside weft"));
}

/* Sent. */

static void kill_in_fiber(void *arg)
{
    (void)arg;
    raise(SIGBUS);
}

static void sent_to_fiber(void)
{
    run_fiber(kill_in_fiber);
}

static void sent_to_process(void)
{
    run_fiber(nothing);
    kill(getpid(), SIGFPE);
    for (;;)
        pause();
}

static void what_is_sent_is_no_fault(void)
{
    check_dies(sent_to_fiber, SIGBUS);
    CHECK(!said("weft:"));
    check_dies(sent_to_process, SIGFPE);
    CHECK(!said("weft:"));
}

/* A test run says its seed, too. */

static void seeded_body(void *arg)
{
    (void)arg;
    fault_illegal();
}

static void in_test_run(void)
{
    CHECK_EQ(weft_test_run(7, seeded_body, NULL), 0);
}

static void a_test_run_says_its_seed(void)
{
    check_dies(in_test_run, SIGILL);
    CHECK(said("seed 7") && said("fault: SIGILL"));
}

static void off(void)
{
    setenv("WEFT_FAULT_REPORT", "0", 1);
    run_fiber(fault_illegal_body);
}

static void it_can_be_turned_off(void)
{
    check_dies(off, SIGILL);
    CHECK(!said("weft:"));
}

int main(void)
{
    RUN(a_memory_fault_is_reported);
    RUN(a_call_of_no_code_shows_its_caller);
    RUN(other_faults_are_reported);
    RUN(a_destroyed_stack_is_reported);
    RUN(a_destroyed_worker_is_reported);
#if defined(__x86_64__)
    RUN(a_caller_that_is_lost);
#endif
    RUN(a_destroyed_record_is_survived);
    if (!WEFT_ASAN) /* which sees what is tried, and ends the process */
        RUN(a_lost_stack_is_survived);
    RUN(lost_names_are_survived);
    RUN(another_stack_is_said_to_be_one);
    RUN(a_thread_is_said_to_be_one);
    RUN(weft_itself_shows_its_state);
    RUN(what_is_sent_is_no_fault);
    RUN(a_test_run_says_its_seed);
    RUN(it_can_be_turned_off);
    return 0;
}
