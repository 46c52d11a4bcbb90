/*
 * fatal.c: warnings, and the end of a broken program: base/assert.h.
 *
 * The text is built on the stack and leaves in one write, so that it works without memory and does
 * not mix with other output.
 */
#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>

#include "os/os.h"

static atomic_ptr shows; /* void (*)(void), or NULL */

static void write_line(const char *format, va_list args)
{
    char text[512] = "weft: ";
    size_t used = 6;
    int wanted = vsnprintf(text + used, sizeof text - used - 1, format, args);
    if (wanted > 0)
        used += (size_t)wanted < sizeof text - used - 1 ? (size_t)wanted : sizeof text - used - 2;
    text[used++] = '\n';
    weft__os_write_stderr(text, used);
}

void weft__warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void weft__fatal_shows(void (*show)(void))
{
    atomic_ptr_store_release(&shows, (void *)(uintptr_t)show);
}

void weft__fatal(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
    weft__os_print_backtrace();
    /* Pairs with weft__fatal_shows. */
    void (*show)(void) = (void (*)(void))(uintptr_t)atomic_ptr_load_acquire(&shows);
    if (show != NULL)
        show();
    weft__os_abort();
}

void weft__assert_failed(const char *condition, const char *file, int line)
{
    fatal("%s:%d: this must hold and does not: %s", file, line, condition);
}
