/*
 * panic_edge.c: panics, reports and deferred calls at their limits: without memory, with more
 * frames than a report has room for, in a forked child, with an unwinder that refuses, and
 * repeated.
 */
#include <dlfcn.h>
#include <unwind.h>

#include "bodies.h"
#include "dying.h"
#include "everywhere.h"
#include "failing.h"
#include "panics.h"
#include "sched/fiber/panic.h"
#include "seeds.h"

static void count(void *number)
{
    ++*(int *)number;
}

/* Records that were not used, and no record. */

static void no_records(void)
{
    weft_deferred unused = {.function = NULL};
    weft_deferred_run(NULL);
    weft_deferred_drop(NULL);
    weft_deferred_run(&unused);
    weft_deferred_drop(&unused);
}

/* A forked child has no lists of records: a dropped one is not called there, one that is run is. */

static weft_deferred records[2];
static int calls;

static void use_records_in_child(void)
{
    weft_deferred own;
    weft_deferred_drop(&records[0]);
    CHECK(records[0].function == NULL);
    weft_deferred_run(&records[1]);
    CHECK_EQ(calls, 1);
    weft_defer(&own, count, &calls);
    weft_deferred_drop(&own);
    weft_deferred_run(&own);
    CHECK_EQ(calls, 1);
}

static void records_in_a_forked_child(void *arg)
{
    calls = 0;
    weft_defer(&records[1], count, &calls);
    weft_defer(&records[0], count, &calls);
    in_fork(use_records_in_child);
    weft_deferred_run(&records[1]);
    CHECK_EQ(calls, 2);
}

static weft_panic_info shown;

static void show(void)
{
    weft_panic_report(&shown);
}

static void show_without_memory(void)
{
    failing_on(OS_ALLOC, 1, true);
    weft_panic_report(&shown);
    failing_off();
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* A program with a long name, in a deep folder. */

static const char *where; /* NULL: the real one */

int dladdr(const void *address, Dl_info *info)
{
    if (where == NULL) {
        void *real = dlsym(RTLD_NEXT, "dladdr");
        return ((int (*)(const void *, Dl_info *))(uintptr_t)real)(address, info);
    }
    *info = (Dl_info){.dli_fname = where};
    return 1;
}

static void show_from_a_deep_folder(void)
{
    static char deep[1000];
    memset(deep, 'x', sizeof deep - 1);
    memset(&shown, 0, sizeof shown);
    shown.depth = WEFT_PANIC_FRAMES;
    where = deep;
    weft_panic_report(&shown);
    where = NULL;
}

static void a_report_is_cut(void)
{
    const char *text = test_stderr_of(show_from_a_deep_folder);
    size_t size = strlen(text);
    CHECK(size > 11 * 1024 && size < 12 * 1024);
    CHECK_EQ(text[size - 1], '\n');
    CHECK_EQ(lines_of(text), 1 + 12); /* the last line is cut */
}

static void a_report_has_limits(void)
{
    memset(&shown, 0, sizeof shown);
    snprintf(shown.message, sizeof shown.message, "many frames");
    shown.fiber_id = 7;
    shown.depth = 2 * WEFT_PANIC_FRAMES; /* more than there are */
    CHECK_EQ(lines_of(test_stderr_of(show)), 1 + WEFT_PANIC_FRAMES);
    CHECK_STR(test_stderr_of(show_without_memory), "weft: panic in fiber 7: many frames\n");
}

/* A thread for whose record there is no memory. */

static struct panic *kept;

static void *ask_unknown(void *arg)
{
    failing_on(OS_ALLOC, 1, true);
    *(int *)arg = weft_panicking();
    _Unwind_DeleteException(
        &kept->unwind); /* as the end of a catch (...) does: it is not this thread's */
    failing_off();
    return NULL;
}

static void an_unknown_thread_does_not_panic(void)
{
    int panicking = -1;
    kept = weft__panic_new(NULL);
    weft__panic_set_message(kept, "kept");
    thread_join(thread_start(ask_unknown, &panicking));
    CHECK_EQ(panicking, 0);
    weft__panic_give(kept, &shown);
    CHECK_STR(shown.message, "kept");
}

/* A function whose personality routine refuses to be unwound: the panic arrives, and deferred calls
 * are made. */

_Unwind_Reason_Code refuse(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                           struct _Unwind_Exception *exception, struct _Unwind_Context *context);
_Unwind_Reason_Code refuse(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                           struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    return _URC_FATAL_PHASE2_ERROR;
}

void not_unwound(void (*function)(void *), void *arg);
#if defined(__x86_64__)
__asm__(".text\n.globl not_unwound\n.type not_unwound, @function\nnot_unwound:\n"
        ".cfi_startproc\n.cfi_personality 0x9b, refuse_pointer\nendbr64\nsubq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\nmovq %rdi, %rax\nmovq %rsi, %rdi\ncallq *%rax\naddq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size not_unwound, . - not_unwound\n"
        ".data\n.balign 8\nrefuse_pointer: .quad refuse\n.text\n");
#else
__asm__(".text\n.globl not_unwound\n.type not_unwound, %function\nnot_unwound:\n"
        ".cfi_startproc\n.cfi_personality 0x9b, refuse_pointer\nstp x29, x30, [sp, #-16]!\n"
        ".cfi_def_cfa_offset 16\n.cfi_offset 29, -16\n.cfi_offset 30, -8\nmov x2, x0\nmov x0, x1\n"
        "blr x2\nldp x29, x30, [sp], #16\n.cfi_def_cfa_offset 0\nret\n.cfi_endproc\n"
        ".size not_unwound, . - not_unwound\n"
        ".data\n.balign 8\nrefuse_pointer: .xword refuse\n.text\n");
#endif

static void panic_beyond(void *number)
{
    static char text[] = "refused";
    WEFT_DEFER(count, number);
    not_unwound(panic_with, text);
}

static void the_unwinder_gives_up(void *arg)
{
    int number = 0;
    weft_panic_info info;
    CHECK_EQ(weft_recover(panic_beyond, &number, &info), -EOWNERDEAD);
    CHECK_STR(info.message, "refused");
    CHECK_EQ(number, 1);
}

/* The destructor of a fiber-local value panics at each call, and sets the value again so that it is
 * called again. */

static weft_local_key key;
static int destroyed;

static void destroy_badly(void *value)
{
    destroyed++;
    CHECK_EQ(weft_local_set(key, value), 0);
    weft_panic("destructor %d", destroyed);
}

static void set_local(void *arg)
{
    CHECK_EQ(weft_local_set(key, &key), 0);
}

static void end_badly(void)
{
    weft_panic_info info;
    destroyed = 0;
    CHECK_EQ(weft_local_create(&key, destroy_badly), 0);
    weft_fiber *fiber = spawn(set_local, NULL);
    CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NEVER), -EOWNERDEAD);
    CHECK_STR(info.message, "destructor 1");
    CHECK(destroyed > 1 && destroyed < 100);
    CHECK_EQ(weft_local_delete(key), 0);
}

static void destructors_panic_again_and_again(void)
{
    CHECK_EQ(run_case(end_badly), 0);
    CHECK(said("destructors of its fiber-local values panic again and again"));
}

/* A fiber that has panicked is detached before its end: the panic is reported, since no call can
 * return it any more. */

static weft_wg at_end, may_end;

static void wait_at_end(void *value)
{
    weft_wg_done(&at_end);
    CHECK_EQ(weft_wg_wait(&may_end), 0);
}

static void panic_with_local(void *arg)
{
    CHECK_EQ(weft_local_set(key, &key), 0);
    panic_with(arg);
}

static void detach_late(void)
{
    static char text[] = "not asked for";
    weft_panic_info info = {.depth = 77};
    CHECK_EQ(weft_local_create(&key, wait_at_end), 0);
    CHECK_EQ(weft_wg_init(&at_end, 1), 0);
    CHECK_EQ(weft_wg_init(&may_end, 1), 0);
    weft_fiber *fiber = spawn(panic_with_local, text);
    CHECK_EQ(weft_wg_wait(&at_end), 0);
    CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(info.depth, 77);
    CHECK_EQ(weft_detach(fiber), 0);
    weft_wg_done(&may_end);
    shut_down();
    CHECK_EQ(weft_local_delete(key), 0);
}

static void detached_after_the_panic(void)
{
    CHECK(strstr(test_stderr_of(detach_late), ": not asked for\n") != NULL);
}

/* A panic on a thread leaves a lock; panic_told.c has the same on a fiber. */

static weft_mutex mutex = WEFT_MUTEX_INIT;

static void lock_and_panic(void *arg)
{
    weft_mutex_lock(&mutex);
    panic_with(arg);
}

static void leave_locked(void)
{
    static char text[] = "locked";
    CHECK_EQ(weft_recover(lock_and_panic, text, NULL), -EOWNERDEAD);
    weft_mutex_unlock(&mutex);
}

static void a_thread_leaves_a_lock(void)
{
    const char *text = test_stderr_of(leave_locked);
#ifdef WEFT_DEBUG
    CHECK_STR(text, "weft: a panic left a lock locked; the panic: locked\n");
#else
    CHECK_STR(text, "");
#endif
}

int main(void)
{
    RUN_PLAIN(destructors_panic_again_and_again, "a child process");
    RUN_PLAIN(no_records, "nothing to order");
    RUN_PLAIN_ON(records_in_a_forked_child, 1, "forks");
    RUN_ALL_PLAIN("nothing to order", a_report_has_limits, a_report_is_cut);
    RUN_PLAIN(an_unknown_thread_does_not_panic, "lets its own memory fail");
    RUN_EVERYWHERE(the_unwinder_gives_up);
    RUN_PLAIN(detached_after_the_panic, "stops or configures the runtime");
    RUN_PLAIN(a_thread_leaves_a_lock, "looks at stderr");
    shut_down();
    return 0;
}
