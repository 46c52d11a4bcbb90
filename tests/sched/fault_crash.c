/*
 * fault_crash.c: a fault is reported with its fiber, the fiber's spawn site and stack, and the
 * place of the fault; a signal that was sent is no fault.
 *
 * Each case runs in a child; the test checks how it ended, and what it wrote.
 */
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "dying.h"
#include "faults.h"
#include "fibers.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/core/park.h"
#include "sched/core/switch.h"
#include "sched/runtime/thread.h"
#include "system.h"
#include <weft/test.h>

static WAIT_KIND(wait_test, .text = "waits in a test");

enum { STACK_SIZE = 32 * 1024 };

static noinline void run_wild(void (*function)(void *))
{
    weft_spawn_options options = {.name = "the wild one", .stack_size = STACK_SIZE};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

/* Faults below a frame of a kilobyte. */
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
        CHECK_EQ(weft_sleep(WEFT_US), 0); \
        by_way_of(fault);                 \
    }

IN_FIBER(fault_null_write)
IN_FIBER(fault_wild_read)
IN_FIBER(fault_null_call)
#if defined(__x86_64__) /* on other CPUs a division by zero is no fault */
IN_FIBER(fault_divide)
#endif
IN_FIBER(fault_illegal)
IN_FIBER(fault_bus)
IN_FIBER(fault_smash)

static void (*wild)(void *);

static void run_in_fiber(void)
{
    run_wild(wild);
}

/* The function, run in a fiber, must end the process by the signal. */
static void check_fiber_dies(void (*function)(void *), int signal)
{
    wild = function;
    check_dies(run_in_fiber, signal);
}

static void check_report(const char *what, void (*body)(void *))
{
    CHECK(said(what));
    CHECK(said("\"the wild one\""));
    CHECK_IN(address_after("was spawned at"), run_wild);
    CHECK_EQ(address_after("and runs"), (uintptr_t)body);
    const char *use = strstr(output, "it uses ");
    CHECK(use != NULL);
    long used = strtol(use + strlen("it uses "), NULL, 10);
    CHECK(used > 1024 && used < STACK_SIZE);
    CHECK(said("of the 32768 bytes"));
}

static void a_memory_fault_is_reported(void)
{
    check_fiber_dies(fault_null_write_body, SIGSEGV);
    check_report("fault: SIGSEGV at 0x0 (nothing is there) in fiber ", fault_null_write_body);
    CHECK_IN(address_after(" 0: "), fault_null_write);
    CHECK_IN(address_after(" 1: "), by_way_of);
    CHECK(!said("inside weft") && !said("isolates"));
    check_fiber_dies(fault_wild_read_body, SIGSEGV);
    CHECK_IN(address_after(" 0: "), fault_wild_read);
#if defined(__x86_64__)
    check_report("fault: SIGSEGV (of an address that cannot be)", fault_wild_read_body);
#endif
}

static void a_call_of_no_code_shows_its_caller(void)
{
    check_fiber_dies(fault_null_call_body, SIGSEGV);
    CHECK(said("at 0x0"));
    CHECK_EQ(address_after(" 0: "), 0);
    CHECK_IN(address_after(" 1: "), fault_null_call);
    CHECK_IN(address_after(" 2: "), by_way_of);
}

static void other_faults_are_reported(void)
{
    check_fiber_dies(fault_illegal_body, SIGILL);
    check_report("fault: SIGILL at 0x", fault_illegal_body);
    CHECK_IN(address_after(" 0: "), fault_illegal);
    check_fiber_dies(fault_bus_body, SIGBUS);
    check_report("there is no memory behind it", fault_bus_body);
#if defined(__x86_64__)
    check_fiber_dies(fault_divide_body, SIGFPE);
    check_report("division of an integer by zero", fault_divide_body);
    CHECK_IN(address_after(" 0: "), fault_divide);
#endif
}

/* The whole stack is overwritten, up to its top and beyond. */
static void a_destroyed_stack_is_reported(void)
{
    check_fiber_dies(fault_smash_body, SIGSEGV);
    CHECK(said("\"the wild one\""));
    CHECK_IN(address_after("was spawned at"), run_wild);
    CHECK(said("weft:    0: "));
}

static void smash_task(void *arg)
{
    fault_smash();
}

/* On one thread, without a monitor: another machine that reads the worker, to look after the pool,
 * could be the first to fault. */
static void smash_in_pool(void)
{
    weft_pool *pool;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    weft__os_fail(OS_THREAD, 2, true);
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = 1, .name = "the wild ones"}),
             0);
    CHECK_EQ(weft_pool_submit(pool, smash_task, NULL), 0);
    for (;;)
        pause(); /* a close would read the worker, too */
}

/* The record of a worker of a pool is on its stack, with its name. */
static void a_destroyed_worker_is_reported(void)
{
    check_dies(smash_in_pool, SIGSEGV);
    CHECK(said(" in fiber "));
    CHECK_IN(address_after("was spawned at"), smash_in_pool);
    CHECK(said("weft:    0: "));
}

#if defined(__x86_64__)
/* Calls address 0 from a frame whose unwind table leads nowhere. If the call returned, the process
 * would exit with success. */
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

/* The search for the caller faults as well: the process dies of the first fault all the same. */
static void a_lost_caller_is_survived(void)
{
    check_fiber_dies(fault_lost_call_body, SIGSEGV);
    CHECK(said("\"the wild one\""));
    CHECK(said("weft:    0: "));
    CHECK(!said("weft:    1: "));
}
#endif

static void lose_record(void *arg)
{
    atomic_ptr_store_relaxed(&weft_self()->extra, (void *)16);
    fault_null_write();
}

/* The name of the fiber is unknown then; the rest is reported. */
static void a_destroyed_record_is_survived(void)
{
    check_fiber_dies(lose_record, SIGSEGV);
    CHECK(said(" \"\"\n"));
    CHECK_IN(address_after("was spawned at"), run_wild);
    CHECK_IN(address_after(" 0: "), fault_null_write);
}

static void lose_stack(void *arg)
{
    weft_self()->stack = NULL;
    fault_null_write();
}

static void a_lost_stack_is_survived(void)
{
    check_fiber_dies(lose_stack, SIGSEGV);
    CHECK(said("what weft knows of it is destroyed"));
    CHECK_IN(address_after(" 0: "), fault_null_write);
}

/* The loader's list of loaded files, which names the functions, is destroyed. */
static void lose_names(void *arg)
{
    for (struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next)
        map->l_name = (char *)16;
    fault_null_write();
}

static void lost_names_are_survived(void)
{
    check_fiber_dies(lose_names, SIGSEGV);
    CHECK(said("what calls it is unknown"));
}

/* A fault on a stack that the program has made, below and above that of the fiber. */

static void switch_below(void *arg)
{
    CHECK(stack_below < weft__stack_low(weft_self()->stack));
    fault_on_stack(stack_below);
}

static void switch_above(void *arg)
{
    CHECK(stack_above > weft__stack_top(weft_self()->stack));
    fault_on_stack(stack_above);
}

static void fault_above(void)
{
    char stack[sizeof stack_below];
    stack_above = stack;
    run_wild(switch_above);
}

static void a_stack_of_the_program_is_reported(void)
{
    check_fiber_dies(switch_below, SIGSEGV);
    CHECK(said("is not in its stack"));
    CHECK_IN(address_after(" 0: "), fault_null_write);
    if (test_emulated()) /* its main stack may lie anywhere */
        return;
    check_dies(fault_above, SIGSEGV);
    CHECK(said("is not in its stack"));
}

/* Faults outside the code of a fiber. */

static void on_thread(void)
{
    run_wild(nothing);
    by_way_of(fault_null_write);
}

static void *fault_on_thread(void *arg)
{
    fault_null_write();
    return arg;
}

/* A thread that has never called weft. */
static void on_unknown_thread(void)
{
    run_wild(nothing);
    thread_join(thread_start(fault_on_thread, NULL));
}

static void a_fault_on_a_thread_is_reported(void)
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
    park_with(unlock_badly);
}

static void lose_processor(void *arg)
{
    thread_self()->processor = NULL;
    unlock_badly(arg);
}

static void park_without_processor(void *arg)
{
    park_with(lose_processor);
}

static void send_nowhere(void *arg)
{
    weft_chan *chan = make_chan(sizeof(long), 1);
    CHECK_EQ(weft_chan_send(chan, (void *)8), 0);
}

static void a_fault_in_weft_shows_the_state(void)
{
    check_fiber_dies(park_badly, SIGSEGV);
    CHECK(said("in weft's own code, with processor "));
    CHECK(said("weft: the runtime: "));
    CHECK(said(": between two fibers; "));
    check_fiber_dies(park_without_processor, SIGSEGV);
    CHECK(said("in weft's own code, without a processor"));
    CHECK(said("weft: the runtime: "));
    check_fiber_dies(send_nowhere, SIGSEGV);
    CHECK(said("in fiber ") && said(", inside weft"));
}

static void kill_in_fiber(void *arg)
{
    raise(SIGBUS);
}

static void sent_to_process(void)
{
    run_wild(nothing);
    kill(getpid(), SIGFPE);
    for (;;)
        pause();
}

static void a_sent_signal_is_no_fault(void)
{
    check_fiber_dies(kill_in_fiber, SIGBUS);
    CHECK(!said("weft:"));
    check_dies(sent_to_process, SIGFPE);
    CHECK(!said("weft:"));
}

/* The report of a test run has its seed. */

static void seeded_body(void *arg)
{
    fault_illegal();
}

static void in_test_run(void)
{
    CHECK_EQ(weft_test_run(7, seeded_body, NULL), 0);
}

static void a_test_run_reports_its_seed(void)
{
    check_dies(in_test_run, SIGILL);
    CHECK(said("seed 7") && said("fault: SIGILL"));
}

static void off(void)
{
    setenv("WEFT_FAULT_REPORT", "0", 1);
    run_wild(fault_illegal_body);
}

static void it_can_be_turned_off(void)
{
    check_dies(off, SIGILL);
    CHECK(!said("weft:"));
}

int main(void)
{
    RUN_ALL(a_memory_fault_is_reported, a_call_of_no_code_shows_its_caller,
            other_faults_are_reported, a_destroyed_stack_is_reported,
            a_destroyed_worker_is_reported);
#if defined(__x86_64__)
    RUN(a_lost_caller_is_survived);
#endif
    RUN(a_destroyed_record_is_survived);
    if (!WEFT_ASAN) /* which notices the access, and ends the process */
        RUN_ALL(a_lost_stack_is_survived, lost_names_are_survived,
                a_stack_of_the_program_is_reported, a_fault_on_a_thread_is_reported,
                a_fault_in_weft_shows_the_state, a_sent_signal_is_no_fault,
                a_test_run_reports_its_seed, it_can_be_turned_off);
    return 0;
}
