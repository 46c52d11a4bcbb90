/*
 * weft/panic.h: panics: a bad task ends, and the others go on.
 *
 *     static void parse(void *text) { ... weft_panic("line %d makes no sense", line); ... }
 *
 *     weft_panic_info info;
 *     if (weft_recover(parse, text, &info) == -EOWNERDEAD)
 *         puts(info.message);
 *
 * A panic ends the calls in progress, innermost first, up to the nearest recover point. That is a
 * weft_recover, the edge of a task of a pool (weft/pool.h) or of a function of a group, or the
 * first function of the fiber. There the panic is over. Without a weft_recover it ends the fiber,
 * not the process, and
 *
 *   - a join of the fiber returns -EOWNERDEAD (weft_join_panic also describes the panic);
 *   - a group gets -EOWNERDEAD as its error, if that is its first (weft_group_panic);
 *   - a pool calls its on_panic, and a task with a handle ends with -EOWNERDEAD (weft_task_panic);
 *   - if the panic is not described to any caller or handler in one of these ways, a report is
 *     written to stderr, in one write.
 *
 * If there is no memory to describe a panic, its message is written to stderr at once, and
 * weft_panic_info says only that.
 *
 * On a plain thread, outside of any weft_recover, a panic is reported and the process aborts. The
 * same happens in a forked child: recover points from before the fork do not exist there.
 *
 * Clean-ups. They run while a panic goes up, innermost first:
 *
 *   - deferred functions (WEFT_DEFER, weft_defer): always, also in plain C;
 *   - destructors of C++, and variables with the attribute cleanup in C compiled with -fexceptions:
 *     by the system's unwinder, as far as it can unwind. From a function without unwind tables on
 *     (C compiled with -fno-asynchronous-unwind-tables, hand-written assembly) those up to the
 *     recover point are skipped; the panic arrives all the same.
 *
 * A clean-up may use every call of weft, and wait. If it panics itself, that panic replaces the
 * first, the remaining clean-ups run, and the message holds both. (A destructor must not panic: it
 * is noexcept. Nor must a variable with the attribute cleanup in code that clang compiled, which
 * treats it as noexcept. There the process ends.)
 *
 * Locks. A panic unlocks nothing by itself: have a clean-up do that. A weft_mutex that no clean-up
 * has unlocked stays locked (debug builds report it). A weft_spin that is still held when the panic
 * arrives is reported and the process aborts, since other callers would spin for ever.
 *
 * C++. An exception that leaves the first function of a fiber, or that arrives at a recover point,
 * becomes a panic with what() as its message. A panic has no type that a catch block could name,
 * but `catch (...)` catches it. Unless it is rethrown (`throw;`) the panic is over there, as with
 * weft_recover. (Do not panic inside a catch block: the C++ runtime cannot have a second exception
 * of another language, or one inside another, and ends the process.) A panic, like an exception,
 * must not leave a function that is noexcept, such as a destructor: that is std::terminate. When an
 * exception arrives at a recover point, what C code deferred runs before the destructors. C code
 * that uses WEFT_DEFER must be compiled with -fexceptions if an exception is to pass it on its way
 * to a catch block of the program.
 *
 * A longjmp out of a weft_recover, or over a deferred function, is undefined.
 */
#ifndef WEFT_PANIC_H
#define WEFT_PANIC_H

#include <weft/base.h>
#include <weft/fiber.h>

WEFT_BEGIN

#define WEFT_PANIC_MESSAGE 512 /* bytes of a message with its zero; a longer one is cut */
#define WEFT_PANIC_FRAMES 32   /* frames of a backtrace at most */

/* The description of a panic. No pointer in it needs to be freed. */
typedef struct weft_panic_info {
    char message[WEFT_PANIC_MESSAGE];   /* with those of panics that this one replaced */
    char fiber_name[32];                /* "": the fiber has none, or it was a thread */
    uint64_t fiber_id;                  /* 0: a thread */
    void *spawn_site;                   /* code address at which the fiber was spawned; or NULL */
    int depth;                          /* entries of the backtrace */
    void *backtrace[WEFT_PANIC_FRAMES]; /* code addresses, that of the panic first */
    uintptr_t reserved[4];
} weft_panic_info;

/* Panics with a message, formatted as by printf. Does not return.
 * Contexts: fiber, thread.
 * Undefined: in a signal handler. */
WEFT_API __attribute__((noreturn, format(printf, 1, 2))) void weft_panic(const char *format, ...);

/* Calls function(arg) as a recover point. If it panics, *info gets the description of the panic,
 * unless info is NULL.
 * Returns 0 if the function returned; -EOWNERDEAD if it panicked, or a C++ exception left it;
 * -EINVAL if function is NULL; -ENOMEM if there is no memory to register the calling thread (never
 * in a fiber). On the last two the function was not called. (EOWNERDEAD is the system's error for a
 * lock whose owner died. weft uses it for panics only.)
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_recover(void (*function)(void *), void *arg, weft_panic_info *info);

/* 1 while a panic of the caller is in flight, that is, in a clean-up that it runs; else 0.
 * Contexts: fiber, thread. */
WEFT_API int weft_panicking(void);

/* Writes the report that weft itself writes of a panic to stderr, in one write: for handlers. NULL
 * is allowed.
 * Contexts: fiber, thread. */
WEFT_API void weft_panic_report(const weft_panic_info *info);

/* Joins the fiber as weft_join_until does. If a panic has ended it, *info gets the description of
 * the panic, unless info is NULL, and nothing is written to stderr.
 * Returns as weft_join_until.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_join_panic(weft_fiber *fiber, weft_panic_info *info,
                                           int64_t deadline);

/* Clean-ups. */

/* A deferred function. The fields are weft's own. */
typedef struct weft_deferred {
    struct weft_deferred *next;
    void (*function)(void *);
    void *arg;
    uintptr_t where;
} weft_deferred;

/* Defers function(arg): it is called once, when a panic passes, when weft_deferred_run is called
 * for the record, or when the enclosing recover point or fiber ends, whichever is first. The
 * function that was deferred last is called first. The record must exist until then. WEFT_DEFER is
 * the form for a block. A NULL record or function, and a thread that there is no memory to
 * register, are reported, and the process aborts.
 * Contexts: fiber, thread; on a thread, within a weft_recover or with weft_deferred_run to
 * follow. */
WEFT_API void weft_defer(weft_deferred *record, void (*function)(void *), void *arg);

/* Calls the deferred function of the record, unless it was called already; before it, those that
 * the caller deferred after it. A record that the caller did not defer under its current recover
 * point is reported, and the process aborts. NULL is allowed.
 * Contexts: the fiber or thread that deferred it. */
WEFT_API void weft_deferred_run(weft_deferred *record);

/* Forgets the deferred function of the record, uncalled, unless it was called already. A record
 * that the caller did not defer under its current recover point is reported, and the process
 * aborts. NULL is allowed.
 * Contexts: the fiber or thread that deferred it. */
WEFT_API void weft_deferred_drop(weft_deferred *record);

/* Sets the function that writes the text of the C++ exception being caught. A C++ program that
 * includes this header with exceptions enabled has set it. NULL: the message is the name of the
 * type.
 * Contexts: fiber, thread, before an exception is thrown. */
WEFT_API void weft_panic_describer(void (*text)(char *buffer, size_t size));

WEFT_END

#define WEFT_DEFERRED_NAME_(number) weft_deferred_##number
#define WEFT_DEFER_AS_(number, function, arg) \
    WEFT_DEFER_NAMED_(WEFT_DEFERRED_NAME_(number), function, arg)

/* WEFT_DEFER(function, arg); as a statement in a block: function(arg) is called when the block is
 * left by its end, return, break, goto or panic; not by longjmp. */
#define WEFT_DEFER(function, arg) WEFT_DEFER_AS_(__COUNTER__, function, arg)

#ifdef __cplusplus
#define WEFT_DEFER_NAMED_(name, function, arg) ::weft_scope_guard name(function, arg)

class weft_scope_guard
{
  public:
    weft_scope_guard(void (*function)(void *), void *arg)
    {
        weft_defer(&record_, function, arg);
    }
    ~weft_scope_guard()
    {
        weft_deferred_run(&record_);
    }

  private:
    weft_scope_guard(const weft_scope_guard &);
    weft_scope_guard &operator=(const weft_scope_guard &);
    weft_deferred record_;
};
#else
#define WEFT_DEFER_NAMED_(name, function, arg)                      \
    __attribute__((cleanup(weft_deferred_run))) weft_deferred name; \
    weft_defer(&name, function, arg)
#endif

#if defined(__cplusplus) && defined(__cpp_exceptions)

#include <exception>

/* The describer of C++ programs: what() of std::exception, and text that is thrown. */
struct weft_describer {
    static void text(char *buffer, size_t size)
    {
        try {
            throw;
        } catch (const std::exception &exception) {
            copy(buffer, size, exception.what());
        } catch (const char *string) {
            copy(buffer, size, string);
        } catch (...) {
        }
    }
    static void copy(char *to, size_t size, const char *from)
    {
        size_t i = 0;
        for (; i + 1 < size && from[i] != '\0'; i++)
            to[i] = from[i];
        to[i] = '\0';
    }
    weft_describer()
    {
        weft_panic_describer(text);
    }
};

static const weft_describer weft_describer_is_set;

#endif

#endif
