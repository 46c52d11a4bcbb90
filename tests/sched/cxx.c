/*
 * cxx.c: exceptions that reach a recover point, in a program without C++. The test raises them as
 * the runtime of another language would; frame.cxx_panic tests those of C++ itself.
 *
 * Compiled with -fexceptions: variables with the attribute cleanup are cleaned up on the way.
 */
#include <unwind.h>

#include "bodies.h"
#include "everywhere.h"
#include "failing.h"
#include "panics.h"
#include "sched/fiber/panic.h"
#include "seeds.h"

#define ANOTHER_LANGUAGE 0x4f54484552000000u /* "OTHER" */
#define ANOTHER_CXX 0x534f4d45432b2b00u      /* "SOME", "C++" */

void *__cxa_begin_catch(void *) __attribute__((weak)); /* NOLINT(bugprone-reserved-identifier) */

/* Notes that the exception is deleted. */
static void deleted(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception)
{
    free(exception);
    note(TEXT("x"));
}

static struct _Unwind_Exception *latest;

static noinline int raise_as(uint64_t class)
{
    struct _Unwind_Exception *exception = calloc(1, sizeof *exception);
    CHECK(exception != NULL);
    memcpy(&exception->exception_class, &class, sizeof class);
    exception->exception_cleanup = deleted;
    latest = exception;
    int code = (int)_Unwind_RaiseException(exception);
    free(exception); /* it was not caught */
    return code;
}

static noinline void raises(void *arg)
{
    (void)raise_as(ANOTHER_LANGUAGE);
    note(TEXT("!"));
}

static noinline void raises_cxx(void *arg)
{
    (void)raise_as(ANOTHER_CXX);
    note(TEXT("!"));
}

#define OTHER "an exception of another language"
#define WHILE(message) " (while another panic was under way: " message ")"

static void recover(void (*function)(void *), const char *message)
{
    weft_panic_info info;
    CHECK_EQ(weft_recover(function, NULL, &info), -EOWNERDEAD);
    CHECK_STR(info.message, message);
    CHECK_EQ(weft_panicking(), 0);
}

static void recover_some(void *arg)
{
    noted();
    recover(raises, OTHER);
    CHECK_STR(noted(), "x");
    if (__cxa_begin_catch == NULL) { /* a sanitizer may have brought C++ with it */
        recover(raises_cxx, OTHER);
        CHECK_STR(noted(), "x");
    }
}

static void an_exception_becomes_a_panic(void)
{
    everywhere(recover_some);
    (void)join_panicked(spawn(raises, NULL), OTHER);
    CHECK_STR(noted(), "x");
}

/* Clean-ups that panic while an exception is on its way: the message names all of them. */

static noinline void raises_below_panics(void *arg)
{
    static weft_deferred records[2];
    static char one[] = "one", two[] = "two";
    weft_defer(&records[0], panic_with, two);
    weft_defer(&records[1], panic_with, one);
    raises(arg);
}

static void clean_ups_panic(void *arg)
{
    noted();
    recover(raises_below_panics, OTHER WHILE("one") WHILE("two"));
    CHECK_STR(noted(), "x");
}

/* There is no memory for the nth record of a panic: it arrives, and no other record leaks. */
static void recover_without_memory(void *arg)
{
    static const char lost[] = "a panic that there was no memory to keep record of: see stderr";
    static const char *const messages[] = {
        OTHER, /* the panics of the clean-ups are lost */
        OTHER WHILE("%s"),
        OTHER WHILE("one") WHILE("%s"),
    };
    for (uint32_t nth = 1; nth <= 3; nth++) {
        char message[512];
        weft_panic_info info;
        snprintf(message, sizeof message, messages[nth - 1], lost);
        int64_t before = weft__os_live(LIVE_MEMORY);
        failing_on(OS_ALLOC, nth, false);
        int error = weft_recover(raises_below_panics, NULL, &info);
        failing_off();
        CHECK_EQ(error, -EOWNERDEAD);
        CHECK_STR(info.message, message);
        CHECK_EQ(weft__os_live(LIVE_MEMORY), before);
    }
}

static void in_fiber_without_memory(void)
{
    on_one_machine(recover_without_memory, NULL);
}

static void an_exception_arrives_without_memory(void)
{
    const char *said = test_stderr_of(in_fiber_without_memory);
    CHECK(strstr(said, "without memory to keep record of it: one\n") != NULL);
    CHECK(strstr(said, "without memory to keep record of it: two\n") != NULL);
}

/* While an exception is on its way another is raised and caught: the first is not disturbed. */

static void recover_inner(char *unused)
{
    weft_panic_info info;
    failing_on(OS_ALLOC, 1, false);
    int error = weft_recover(raises, NULL, &info);
    failing_off();
    CHECK_EQ(error, -EOWNERDEAD);
    CHECK_STR(info.message, OTHER);
    note(TEXT("i"));
}

static noinline void raises_outer(void *arg)
{
    __attribute__((cleanup(recover_inner), unused)) char variable = 0;
    raises_below_panics(arg);
}

static void check_leaves_nothing(void (*body)(void))
{
    int64_t before = weft__os_live(LIVE_MEMORY);
    body();
    CHECK_EQ(weft__os_live(LIVE_MEMORY), before);
}

static void nest(void)
{
    noted();
    recover(raises_outer, OTHER WHILE("one") WHILE("two"));
    CHECK_STR(noted(), "xix");
}

static void exceptions_nest(void *arg)
{
    check_leaves_nothing(nest);
}

/* A panic in a clean-up replaces the exception, at a moment when the unwinder has found the frame
 * of the recover point already. */

static void panic_on_the_way(char *unused)
{
    weft_panic("on the way");
}

static noinline void raises_and_is_cut(void *arg)
{
    __attribute__((cleanup(panic_on_the_way), unused)) char variable = 0;
    raises(arg);
}

static void cut(void)
{
    noted();
    recover(raises_and_is_cut, "on the way");
    CHECK_STR(noted(), "");
    free(latest); /* a replaced exception is not deleted */
    recover(raises, OTHER);
    CHECK_STR(noted(), "x");
}

static void recover_cut(void *arg)
{
    check_leaves_nothing(cut);
}

static void an_exception_is_cut(void)
{
#ifdef __clang__
    (void)recover_cut; /* clang takes clean-ups as noexcept: the process would abort */
#else
    on_one_machine(recover_cut, NULL);
#endif
}

/* Frames that are unwound for another reason than an exception. */

static void recover_after(char *unused)
{
    CHECK_PTR(weft__scope_self()->guard, NULL); /* the recover point that was passed is gone */
    recover_some(NULL);
    note(TEXT("after"));
}

static void leave_thread(void *arg)
{
    pthread_exit(arg);
}

static void *recover_and_leave(void *arg)
{
    __attribute__((cleanup(recover_after), unused)) char variable = 0;
    CHECK_EQ(weft_recover(leave_thread, arg, NULL), 0);
    note(TEXT("!"));
    return NULL;
}

static void a_thread_leaves_its_recover_point(void)
{
    void *result = NULL;
    static int gave;
    noted();
    pthread_t thread = thread_start(recover_and_leave, &gave);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK_PTR(result, &gave);
#ifdef __GLIBC__
    CHECK_STR(noted(), "after");
#else /* musl's pthread_exit does not unwind the stack */
    CHECK_STR(noted(), "");
#endif
}

static _Unwind_Reason_Code go_on(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                 struct _Unwind_Exception *exception,
                                 struct _Unwind_Context *context, void *arg)
{
    *(bool *)arg |= (actions & _UA_END_OF_STACK) != 0;
    return _URC_NO_REASON;
}

/* Walks to the end of the stack, and comes back: no frame there has a clean-up. */
static void look_at_all_frames(void *arg)
{
    struct _Unwind_Exception exception = {.exception_class = ANOTHER_LANGUAGE};
    (void)_Unwind_ForcedUnwind(&exception, go_on, arg);
    recover_some(NULL);
}

static void the_first_frame_is_passed(void)
{
    bool to_the_end = false;
    on_processors(1, look_at_all_frames, &to_the_end);
    CHECK(to_the_end);
}

/* In a forked child the recover points are those of the parent's fiber: an exception is not
 * caught. */

/* On aarch64 the unwinder of gcc before 14 returns a wrong code; only its return is checked. */
static void raise_in_child(void)
{
    int code = (int)raise_as(ANOTHER_LANGUAGE);
#ifndef __aarch64__
    CHECK_EQ(code, _URC_END_OF_STACK);
#else
    (void)code;
#endif
}

/* Without memory the thread of the child cannot even be known. */
static void raise_in_child_without_memory(void)
{
    failing_on(OS_ALLOC, 1, true);
    raise_in_child();
}

static void a_forked_child_has_no_recover_points(void *arg)
{
    in_fork(raise_in_child);
    in_fork(raise_in_child_without_memory);
}

int main(void)
{
    weft__os_live_count();
    RUN_BOTH(an_exception_becomes_a_panic);
    RUN_EVERYWHERE(clean_ups_panic);
    RUN_PLAIN(an_exception_arrives_without_memory, "looks at stderr, and lets its own memory fail");
    RUN_PLAIN_ONE_MACHINE(exceptions_nest, "lets its own memory fail");
    RUN_PLAIN(an_exception_is_cut, "counts the memory of the process");
    RUN_PLAIN(a_thread_leaves_its_recover_point, "a thread that is left");
    if (WEFT_TSAN) /* which has clean-ups of its own in every frame */
        printf("the_first_frame_is_passed left out: sanitizer\n");
    else
        RUN_BOTH(the_first_frame_is_passed);
    RUN_PLAIN_ON(a_forked_child_has_no_recover_points, 1, "forks");
    shut_down();
    return 0;
}
