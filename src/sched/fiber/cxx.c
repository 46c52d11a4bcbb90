/*
 * cxx.c: C++ exceptions that reach a recover point become panics.
 *
 * weft__personality is the personality routine of the two assembly frames at which panics end: that
 * of a recover point, and the first frame of a fiber. The unwinder calls it twice:
 *
 *   search      No inner frame handles the exception: this one does. The stack is whole, so now the
 *               backtrace is taken and the deferred clean-ups run. Later would be too late: the
 *               exception cuts the stack on its way, and with it the clean-up records of frames
 *               that the unwinder does nothing for.
 *   clean-up    The exception has arrived; destructors have run. It is caught and ended, as a catch
 *               block would do, and a panic with its text lands here.
 *
 * The library does not need C++. Its references to the C++ runtime are weak: they are there if the
 * program has one. The text of an exception is made by the program (weft/panic.h has the function
 * for std::exception); without that, the message is the name of the type.
 *
 * A panic of weft does not use this routine. A forced unwind passes here only if it was started
 * elsewhere (pthread_exit in a weft_recover on a thread): then the recover point is removed.
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

/* Writes the name of the type of the exception that is being caught. */
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
    const char *mangled =
        type->name + (*type->name == '*'); /* "*" marks a type that is local to one file */
    if (__cxa_demangle != NULL)
        name = __cxa_demangle(mangled, NULL, NULL, &status);
    snprintf(text, size, "an exception of C++, of type %s", status == 0 ? name : mangled);
    weft__os_free(name);
}

/* Catches the exception, writes its text, and ends it. */
static void catch_exception(_Unwind_Exception_Class class, struct _Unwind_Exception *exception,
                            char *text, size_t size)
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

/* Runs the deferred clean-ups in the search phase. A clean-up that panics must not cut the stack on
 * which the exception is in flight: its panic ends in a guard here, and is added to that of the
 * exception. */
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
    catch_exception(class, exception, text, sizeof text);
    weft__panic_set_message(panic, text);
    weft__panic_add_previous(panic, scope->panic);
    scope->panic = panic;
    weft__panic_land(scope);
}
