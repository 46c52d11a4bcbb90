/*
 * frames.h: backtrace() and backtrace_symbols_fd() where libc has none (musl), by libgcc's unwinder
 * and dladdr.
 *
 * With glibc these are its own. Like those, the ones here leave their own frame out.
 */
#ifndef WEFT_OS_LINUX_FRAMES_H
#define WEFT_OS_LINUX_FRAMES_H

#include <features.h>

#ifdef __GLIBC__
#include <execinfo.h>
#else
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unwind.h>

#include "base/compiler.h"

struct frame_walk {
    void **frames;
    int count, most, skip;
};

static inline _Unwind_Reason_Code frame_note(struct _Unwind_Context *context, void *arg)
{
    struct frame_walk *walk = arg;
    if (walk->skip > 0) {
        walk->skip--;
        return _URC_NO_REASON;
    }
    uintptr_t address = _Unwind_GetIP(context);
    if (walk->count == walk->most || address == 0)
        return _URC_END_OF_STACK;
    walk->frames[walk->count++] = (void *)address;
    return _URC_NO_REASON;
}

static noinline int backtrace(void **frames, int most)
{
    struct frame_walk walk = {.frames = frames, .most = most, .skip = 1};
    (void)_Unwind_Backtrace(frame_note, &walk);
    return walk.count;
}

static inline void backtrace_symbols_fd(void *const *frames, int count, int fd)
{
    for (int i = 0; i < count; i++) {
        Dl_info found;
        if (dladdr(frames[i], &found) == 0 || found.dli_fname == NULL)
            dprintf(fd, "[%p]\n", frames[i]);
        else if (found.dli_sname != NULL)
            dprintf(fd, "%s(%s+0x%zx)[%p]\n", found.dli_fname, found.dli_sname,
                    (size_t)((char *)frames[i] - (char *)found.dli_saddr), frames[i]);
        else
            dprintf(fd, "%s(+0x%zx)[%p]\n", found.dli_fname,
                    (size_t)((char *)frames[i] - (char *)found.dli_fbase), frames[i]);
    }
}
#endif

#endif
