/*
 * cxx.c: exceptions that come to a recover point, in a program without C++: they are raised by hand, as another
 * language would. What exceptions of C++ itself become is tested by frame.cxx_panic.
 *
 * Compiled with -fexceptions: variables with the attribute cleanup are cleaned up on the way.
 */
#include <unwind.h>

#include "bodies.h"
#include "everywhere.h"
#include "failing.h"
#include "sched/fiber/panic.h"
#include "seeds.h"

#define ANOTHER_LANGUAGE 0x4f54484552000000u /* "OTHER" */
#define CXX_OF_SOMEBODY 0x534f4d45432b2b00u  /* "SOME", "C++" */

void *__cxa_begin_catch(void *) __attribute__((weak)); /* NOLINT(bugprone-reserved-identifier) */

static char journal[64];

static void note(const char *text)
{
    strncat(journal, text, sizeof journal - strlen(journal) - 1);
}

static const char *noted(void)
{
    static char text[sizeof journal];
    memcpy(text, journal, sizeof text);
    journal[0] = '\0';
    return text;
}

/* One that says when it is deleted; each thing that raises has its own. */
static void deleted(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception)
{
    (void)reason;
    free(exception);
    note("x");
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
    free(exception); /* nobody wants it */
    return code;
}

static noinline void raises(void *arg)
{
    (void)arg;
    (void)raise_as(ANOTHER_LANGUAGE);
    note("!");
}

static noinline void raises_cxx(void *arg)
{
    (void)arg;
    (void)raise_as(CXX_OF_SOMEBODY);
    note("!");
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
    (void)arg;
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
    weft_fiber *fiber;
    weft_panic_info info;
    CHECK_EQ(weft_spawn(&fiber, raises, NULL, NULL), 0);
    CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NEVER), -EOWNERDEAD);
    CHECK_STR(info.message, OTHER);
    CHECK_STR(noted(), "x");
}

/* Clean-ups that panic on its way, and what they have to say. */

static void panic_with(void *text)
{
    weft_panic("%s", (const char *)text);
}

static noinline void raises_below_panics(void *arg)
{
    static weft_deferred records[2];
    static char one[] = "one", two[] = "two";
    weft_defer(&records[0], panic_with, two);
    weft_defer(&records[1], panic_with, one);
    raises(arg);
}

static void recover_panics(void *arg)
{
    (void)arg;
    noted();
    recover(raises_below_panics, OTHER WHILE("one") WHILE("two"));
    CHECK_STR(noted(), "x");
}

static void clean_ups_panic(void)
{
    everywhere(recover_panics);
}

/* The nth record of a panic has no memory: it arrives, and none of the others is left behind. */
static void recover_without_memory(void *arg)
{
    static const char lost[] = "a panic that there was no memory to keep record of: see stderr";
    static const char *const messages[] = {
        OTHER,             /* it cannot keep what came meanwhile */
        OTHER WHILE("%s"), /* nor that */
        OTHER WHILE("one") WHILE("%s"),
    };
    (void)arg;
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

static void one_without_memory_arrives(void)
{
    const char *said = test_stderr_of(in_fiber_without_memory);
    CHECK(strstr(said, "without memory to keep record of it: one\n") != NULL);
    CHECK(strstr(said, "without memory to keep record of it: two\n") != NULL);
}

/* While an exception is on its way another may come and go: the first is not disturbed. */

static void recover_inner(char *unused)
{
    weft_panic_info info;
    (void)unused;
    failing_on(OS_ALLOC, 1, false);
    int error = weft_recover(raises, NULL, &info);
    failing_off();
    CHECK_EQ(error, -EOWNERDEAD);
    CHECK_STR(info.message, OTHER);
    note("i");
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

static void recover_outer(void *arg)
{
    (void)arg;
    check_leaves_nothing(nest);
}

static void exceptions_nest(void)
{
    on_one_machine(recover_outer, NULL);
}

/* A panic in a clean-up, where the frame of the recover point is known already, cuts the exception's way. */

static void panic_on_the_way(char *unused)
{
    (void)unused;
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
    free(latest); /* nobody else does */
    recover(raises, OTHER);
    CHECK_STR(noted(), "x");
}

static void recover_cut(void *arg)
{
    (void)arg;
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

/* Frames that somebody else unwinds. */

static void recover_after(char *unused)
{
    (void)unused;
    CHECK_PTR(weft__scope_self()->guard,
              NULL); /* the recover point that was passed is none any more */
    recover_some(NULL);
    note("after");
}

static void leave_thread(void *arg)
{
    pthread_exit(arg);
}

static void *recover_and_leave(void *arg)
{
    __attribute__((cleanup(recover_after), unused)) char variable = 0;
    CHECK_EQ(weft_recover(leave_thread, arg, NULL), 0);
    note("!");
    return NULL;
}

static void a_thread_leaves_its_recover_point(void)
{
    pthread_t thread;
    void *result = NULL;
    static int gave;
    noted();
    CHECK_EQ(pthread_create(&thread, NULL, recover_and_leave, &gave), 0);
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
    (void)version;
    (void)class;
    (void)exception;
    (void)context;
    *(bool *)arg |= (actions & _UA_END_OF_STACK) != 0;
    return _URC_NO_REASON;
}

/* To the end of the stack and back: nothing there has a clean-up. */
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

/* In a forked child the recover points are those of the parent's fiber: nobody wants the exception. */

/* On aarch64 the unwinder of gcc before 14 gives a wrong value when it comes back: only that it does is known. */
static void raise_in_vain(void)
{
    int code = (int)raise_as(ANOTHER_LANGUAGE);
#ifdef __aarch64__
    (void)code;
#else
    CHECK_EQ(code, _URC_END_OF_STACK);
#endif
}

static void raise_in_child(void *arg)
{
    pid_t *child = arg;
    *child = fork();
    if (*child == 0) {
        raise_in_vain();
        _exit(0);
    }
}

/* Nor can anybody be known there without memory. */
static void raise_in_child_without_memory(void *arg)
{
    pid_t *child = arg;
    *child = fork();
    if (*child == 0) {
        failing_on(OS_ALLOC, 1, true);
        raise_in_vain();
        _exit(0);
    }
}

static void a_forked_child_has_no_recover_points(void)
{
    static void (*const raisers[])(void *) = {raise_in_child, raise_in_child_without_memory};
    for (int i = 0; i < 2; i++) {
        pid_t child = -1;
        int status = 0;
        on_processors(1, raisers[i], &child);
        CHECK(child > 0);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    weft__os_live_count();
    RUN_BOTH(an_exception_becomes_a_panic);
    RUN_BOTH(clean_ups_panic);
    RUN_PLAIN(one_without_memory_arrives, "looks at stderr, and lets its own memory fail");
    RUN_PLAIN(exceptions_nest, "lets its own memory fail");
    RUN_PLAIN(an_exception_is_cut, "counts the memory of the process");
    RUN_PLAIN(a_thread_leaves_its_recover_point, "a thread that is left");
    if (WEFT_TSAN) /* which has clean-ups of its own in every frame */
        printf("the_first_frame_is_passed left out: sanitizer\n");
    else
        RUN_BOTH(the_first_frame_is_passed);
    RUN_PLAIN(a_forked_child_has_no_recover_points, "forks");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
