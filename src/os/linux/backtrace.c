/*
 * backtrace.c: call chains, what a code address is called, and whose it is: os/backtrace.h.
 */
#include "os/backtrace.h"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "base/assert.h"
#include "os/linux/frames.h"
#include "os/linux/seam.h"

enum { FRAMES_MOST = 48 };

/* The bounds of the section that base/own_code.h fills, defined by the linker. Each element is the
 * distance from its own address to the address that it means. */
extern const int32_t __start_weft_ranges[] __attribute__((visibility("hidden"), weak));
extern const int32_t __stop_weft_ranges[] __attribute__((visibility("hidden"), weak));

static uintptr_t address_of(const int32_t *distance)
{
    return (uintptr_t)distance + (uintptr_t)(intptr_t)*distance;
}

bool weft__os_own_code(const void *address)
{
    for (const int32_t *range = __start_weft_ranges; range < __stop_weft_ranges; range += 2)
        if ((uintptr_t)address >= address_of(range) && (uintptr_t)address < address_of(range + 1))
            return true;
    return false;
}

bool weft__os_libc_code(const void *address)
{
    Dl_info asked, libc, own;
    return dladdr(address, &asked) != 0 && dladdr((void *)(uintptr_t)getppid, &libc) != 0 &&
           dladdr((void *)(uintptr_t)weft__os_libc_code, &own) != 0 &&
           asked.dli_fbase == libc.dli_fbase && asked.dli_fbase != own.dli_fbase;
}

void weft__os_print_backtrace(void)
{
    void *frames[FRAMES_MOST];
    int count = backtrace(frames, FRAMES_MOST);
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

void weft__os_print_address(void *address)
{
    backtrace_symbols_fd(&address, 1, STDERR_FILENO);
}

int weft__os_backtrace(void **frames, int most)
{
    KEEP_ERRNO;
    return backtrace(frames, most);
}

size_t weft__os_address_text(const void *address, char *text, size_t size)
{
    KEEP_ERRNO;
    Dl_info found = {.dli_fname = NULL};
    int length;
    if (dladdr(address, &found) == 0 || found.dli_fname == NULL)
        length = snprintf(text, size, "[%p]", address);
    else if (found.dli_sname != NULL)
        length = snprintf(text, size, "%s(%s+0x%zx)[%p]", found.dli_fname, found.dli_sname,
                          (size_t)((const char *)address - (const char *)found.dli_saddr), address);
    else
        length = snprintf(text, size, "%s(+0x%zx)[%p]", found.dli_fname,
                          (size_t)((const char *)address - (const char *)found.dli_fbase), address);
    must(length > 0); /* the formats are valid, and no text is longer than an int can say */
    return (size_t)length < size ? (size_t)length : size - 1;
}
