/*
 * weft/panic.h: panics: one bad task does not take the others down.
 *
 *     static void parse(void *text) { ... weft_panic("line %d makes no sense", line); ... }
 *
 *     weft_panic_info info;
 *     if (weft_recover(parse, text, &info) == -EOWNERDEAD)
 *         puts(info.message);
 *
 * A panic ends the calls that are under way, the innermost first, up to the nearest recover point: a
 * weft_recover, the edge of a task of a pool (weft/pool.h) or of a function of a group, or the first function
 * of the fiber. There the panic is over. Without a weft_recover it ends the fiber, not the process, and
 *
 *   - who joins the fiber gets -EOWNERDEAD (weft_join_panic also tells what it was);
 *   - a group gets -EOWNERDEAD as its error, if it is the first (weft_group_panic);
 *   - a pool calls its on_panic, and a task with a handle ends with -EOWNERDEAD (weft_task_panic);
 *   - if nobody of these asks what it was, a report is written to stderr, in one piece.
 *
 * If there is no memory to keep record of a panic, its message is written to stderr at once, and who asks is told
 * that.
 *
 * On a plain thread outside of any weft_recover a panic is reported, and the process aborts; as in a forked child.
 *
 * Clean-ups run on the way, innermost first:
 *
 *   - what was deferred (WEFT_DEFER, weft_defer): always, in plain C;
 *   - destructors of C++, and variables with the attribute cleanup in C that was compiled with -fexceptions:
 *     by the system's unwinder, as long as it finds its way. If it comes to a function without unwind tables
 *     (C code built with -fno-asynchronous-unwind-tables, hand-written assembly) the ones from there to the
 *     recover point do not run; the panic arrives all the same.
 *
 * A clean-up may use every call of weft, and wait. If it panics itself, that panic takes the place of the
 * first, what is left of the clean-ups runs, and the message holds both. (A destructor must not, it is noexcept;
 * nor a variable with the attribute cleanup in code that clang compiled, which takes it as that: there the
 * process ends.)
 *
 * Locks. A panic unlocks nothing by itself: have a clean-up do it. A weft_mutex that no clean-up unlocked stays
 * locked (debug builds say so). A weft_spin that is still held when the panic arrives is reported, and the
 * process aborts, since others would spin for ever.
 *
 * C++. An exception that leaves the first function of a fiber, or that comes to a recover point, becomes a panic
 * with what() as its message. A panic is not an exception of a type that could be named, but `catch (...)`
 * catches it: if it is not thrown on (`throw;`) the panic is over there, as with weft_recover. (Not in a catch
 * block: the runtime of C++ cannot have a second exception of another language, or one inside another, and
 * ends the process.) A panic, like an
 * exception, must not leave a function that is noexcept, such as a destructor: that is std::terminate. What
 * was deferred by C code runs before the destructors then, and C code that an exception is to pass, on its way
 * to a catch of the program's own, must be compiled with -fexceptions if it uses WEFT_DEFER.
 *
 * setjmp and longjmp: undefined if a longjmp jumps out of a weft_recover, or over what was deferred.
 */
#ifndef WEFT_PANIC_H
#define WEFT_PANIC_H

#include <weft/base.h>
#include <weft/fiber.h>

WEFT_BEGIN

#define WEFT_PANIC_MESSAGE 512 /* bytes of a message, with its end; what is longer is cut */
#define WEFT_PANIC_FRAMES 32

/* What is known of a panic; no pointer in it needs to be freed. */
typedef struct weft_panic_info {
    char message[WEFT_PANIC_MESSAGE]; /* of a panic in a clean-up: with that of the one before it */
    char fiber_name[32];              /* "": it has none, or it was a thread */
    uint64_t fiber_id;                /* 0: a thread */
    void *spawn_site;                 /* a code address: where the fiber was spawned; or NULL */
    int depth;                        /* entries of the backtrace */
    void *backtrace[WEFT_PANIC_FRAMES]; /* code addresses, that of the panic first */
    uintptr_t reserved[4];
} weft_panic_info;

/* Panics with a message, as printf makes it. Does not return.
 * Contexts: fiber, thread. Undefined: in a signal handler. */
WEFT_API __attribute__((noreturn, format(printf, 1, 2))) void weft_panic(const char *format, ...);

/* Calls function(arg) as a recover point. *info, if info is not NULL, gets what is known of the panic.
 * Returns 0 if the function returned; -EOWNERDEAD if it panicked, or an exception of C++ left it; -EINVAL if
 * function is NULL; -ENOMEM if there is no memory to keep record of the calling thread (in a fiber, never).
 * On the last two nothing was called.
 * (EOWNERDEAD is what the system says of a lock whose owner died with it, and nothing else in weft uses it.)
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_recover(void (*function)(void *), void *arg, weft_panic_info *info);

/* 1 while a panic of the caller is on its way to its recover point: in a clean-up that it runs; else 0.
 * Contexts: fiber, thread. */
WEFT_API int weft_panicking(void);

/* Writes the report that weft itself would write, in one write: for handlers. NULL is fine.
 * Contexts: fiber, thread. */
WEFT_API void weft_panic_report(const weft_panic_info *info);

/* Joins (weft/fiber.h) until the deadline; *info, if info is not NULL, gets what is known of the panic that
 * ended the fiber.
 * Returns as weft_join_until; on -EOWNERDEAD the handle is freed, too, and nothing is reported.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_join_panic(weft_fiber *fiber, weft_panic_info *info,
                                           int64_t deadline);

/* Clean-ups. */

/* A clean-up that waits; the fields are weft's own. */
typedef struct weft_deferred {
    struct weft_deferred *next;
    void (*function)(void *);
    void *arg;
    uintptr_t where;
} weft_deferred;

/* Has function(arg) called when a panic comes by, and else when weft_deferred_run is called for the record, or
 * at last when the recover point or the fiber it is in ends. The one that was deferred last is called first.
 * The record must stay until then. WEFT_DEFER is the easier form, for what ends with its block.
 * A NULL record or function is a bug of the program, is reported, and the process aborts; as on a thread that
 * weft has no memory to keep record of.
 * Contexts: fiber, thread; on a thread, within a weft_recover or with weft_deferred_run to follow. */
WEFT_API void weft_defer(weft_deferred *record, void (*function)(void *), void *arg);

/* Calls it now, if it was not called yet; and those that were deferred after it in the same fiber or thread
 * before it. weft_deferred_drop forgets it instead, uncalled, if it was not called yet.
 * Contexts: the fiber or thread that deferred it. */
WEFT_API void weft_deferred_run(weft_deferred *record);
WEFT_API void weft_deferred_drop(weft_deferred *record);

/* Sets what makes a text of the exception of C++ that is being caught; C++ programs that include this header
 * with exceptions turned on have set it. Text is NULL to turn it off: then the message is the type's name.
 * Contexts: fiber, thread, before anything is thrown. */
WEFT_API void weft_panic_describer(void (*text)(char *buffer, size_t size));

WEFT_END

#define WEFT_DEFERRED_NAME_(number) weft_deferred_##number
#define WEFT_DEFER_AS_(number, function, arg) \
    WEFT_DEFER_NAMED_(WEFT_DEFERRED_NAME_(number), function, arg)

/* WEFT_DEFER(function, arg); as a statement in a block: function(arg) is called when the block is left, in any
 * way but longjmp: by its end, return, break, goto, panic. */
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

/* Knows what() of std::exception, and text that is thrown. */
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
