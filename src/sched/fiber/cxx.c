/*
 * cxx.c: exceptions of C++ that come to a recover point.
 *
 * weft__personality is the personality routine of the two frames in assembly at which panics end: that of a
 * recover point and the first of a fiber. The unwinder asks it twice:
 *
 *   search      Nobody further in wants the exception: this frame does. The stack is whole, so this is when the
 *               backtrace is taken, and what is deferred is run: on its way here the exception cuts the stack,
 *               and with it the records of clean-ups in frames that the unwinder does nothing for.
 *   clean-up    It has arrived; destructors have run. The exception is caught and ended, as a catch would do,
 *               and a panic with its text lands here.
 *
 * The library needs no C++: what it calls of C++'s runtime are weak references, there if the program has one. A
 * text is made by the program (weft/panic.h has the function for std::exception); without, the name of the type
 * must do.
 *
 * A panic of weft's own does not need this: it passes here only if it is forced by somebody else (pthread_exit
 * in a weft_recover on a thread): then the recover point is taken away.
 */
#include "sched/fiber/cxx.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "os/os.h"
#include "sched/fiber/panic.h"

/* NOLINTBEGIN(bugprone-reserved-identifier): the names are those of the C++ ABI. */
extern void *__cxa_begin_catch(void *) __attribute__((weak));
extern void __cxa_end_catch(void) __attribute__((weak));
extern void *__cxa_current_exception_type(void) __attribute__((weak));
extern struct cxx_state *__cxa_get_globals(void) __attribute__((weak));
extern char *__cxa_demangle(const char *, char *, size_t *, int *) __attribute__((weak));
/* NOLINTEND */

__attribute__((used)) _Unwind_Reason_Code weft__personality(int version, _Unwind_Action actions,
                                                            _Unwind_Exception_Class class,
                                                            struct _Unwind_Exception *exception,
                                                            struct _Unwind_Context *context);

static atomic_ptr describer;

struct cxx_state *weft__cxx_state(void)
{
    static struct cxx_state none;
    return __cxa_get_globals != NULL ? __cxa_get_globals() : &none;
}

void weft_panic_describer(void (*text)(char *, size_t))
{
    atomic_ptr_store_release(&describer, (void *)(uintptr_t)text); /* pairs with describe */
}

/* The name of the type of what is being caught. */
static void name_type(char *text, size_t size)
{
    struct {
        void *table;
        const char *name;
    } *type = NULL; /* as std::type_info is laid out */
    if (__cxa_current_exception_type != NULL)
        type = __cxa_current_exception_type();
    if (type == NULL) {
        snprintf(text, size, "an exception of C++");
        return;
    }
    int status = -1;
    char *name = NULL;
    const char *mangled = type->name + (*type->name == '*'); /* the mark of a type of one file */
    if (__cxa_demangle != NULL)
        name = __cxa_demangle(mangled, NULL, NULL, &status);
    snprintf(text, size, "an exception of C++, of type %s", status == 0 ? name : mangled);
    weft__os_free(name);
}

/* Catches the exception, and ends it. */
static void catch_it(_Unwind_Exception_Class class, struct _Unwind_Exception *exception, char *text,
                     size_t size)
{
    bool cxx = (class >> 8 & 0xffffff) == 0x432b2b; /* "C++", of any maker */
    if (!cxx || __cxa_begin_catch == NULL) {
        snprintf(text, size, "an exception of another language");
        _Unwind_DeleteException(exception);
        return;
    }
    void (*describe)(char *, size_t) =
        (void (*)(char *, size_t))(uintptr_t)atomic_ptr_load_acquire(&describer);
    __cxa_begin_catch(exception);
    if (describe != NULL)
        describe(text, size);
    if (*text == '\0')
        name_type(text, size);
    __cxa_end_catch();
}

/* A clean-up that panics now must not cut the stack on which an exception is under way: its panic ends here, and
 * is kept with that of the exception. */
static void search(struct scope *scope, struct _Unwind_Exception *exception)
{
    struct panic *panic = weft__panic_new(NULL);
    weft_deferred *limit = scope->guard != NULL ? scope->guard->deferred : NULL;
    while (scope->deferred != limit) {
        struct guard guard;
        weft_deferred *record = scope->deferred;
        void (*function)(void *) = record->function;
        scope->deferred = record->next;
        record->function = NULL;
        if (weft__guarded_in(scope, &guard, function, record->arg))
            weft__panic_add_previous(panic, guard.panic);
    }
    weft__panic_throw(scope, panic, exception);
}

_Unwind_Reason_Code weft__personality(int version, _Unwind_Action actions,
                                      _Unwind_Exception_Class class,
                                      struct _Unwind_Exception *exception,
                                      struct _Unwind_Context *context)
{
    (void)version;
    (void)context;
    struct scope *scope = weft__scope_self();
    if (scope == NULL || (scope->guard == NULL && weft_self() == NULL))
        return _URC_CONTINUE_UNWIND; /* a forked child: the recover points are its parent's */
    if (actions & _UA_FORCE_UNWIND) {
        if (scope->guard != NULL) {
            weft__panic_catch_none(scope, scope->guard);
            scope->deferred = scope->guard->deferred;
            scope->panic = scope->guard->outer_panic;
            scope->guard = scope->guard->outer;
        }
        return _URC_CONTINUE_UNWIND;
    }
    if (actions & _UA_SEARCH_PHASE) {
        search(scope, exception);
        return _URC_HANDLER_FOUND;
    }
    must(actions & _UA_HANDLER_FRAME); /* as the search was told */
    char text[WEFT_PANIC_MESSAGE] = "";
    struct panic *panic = weft__panic_catch(scope, exception);
    catch_it(class, exception, text, sizeof text);
    weft__panic_set_message(panic, text);
    weft__panic_add_previous(panic, scope->panic);
    scope->panic = panic;
    weft__panic_land(scope);
}
