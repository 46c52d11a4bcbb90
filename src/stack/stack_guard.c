/*
 * stack_guard.c: guards: what makes an access below a stack fault.
 *
 * A frame larger than the guard steps over it. So guards are as large as they can be for what they
 * cost, which depends on how many stacks of the class there are:
 *
 *   the first GUARD_WIDE_MOST   8 MiB: as much as the stack of the main thread of most programs, so
 *                               what runs there does not step over it. The arena is address space
 *                               without access, in which the stacks are made accessible.
 *   up to FEW_MOST              64 KiB
 *   beyond                      a page (64 KiB on aarch64): each page of a guard takes eight bytes
 *                               of page tables, two hundredths of what a parked fiber costs
 *
 * MADV_GUARD_INSTALL makes a guard without splitting the mapping. mprotect splits it, so guards of
 * that kind end well before vm.max_map_count; from then on stacks are unguarded, which is reported
 * once. Locked memory (mlockall) refuses MADV_GUARD_INSTALL, and may be locked at any time: there
 * each guard is tried by mprotect.
 *
 * A system call for each guard is expensive (1.3 us). Where many stacks are needed, one call makes
 * the guards of several (0.45 us each).
 *
 * No lock: a stack is guarded by the thread that carved it.
 */
#include "stack/stack_guard.h"

#include <errno.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "os/os.h"

enum {
    FEW_MOST = 8192,
    MAPPINGS_DEFAULT = 65530, /* vm.max_map_count where it cannot be read */
    MAPPINGS_LEFT = 8192,     /* to the arenas and to the program */
};

static enum stack_guard guard_kind;
static bool mprotect_allowed;
static uint32_t batch;           /* guards that one call can make */
static atomic_i64 mprotect_left; /* guards that mprotect may still make */
static atomic_u32 warned;        /* that stacks have no guard */

/* Each guard splits a mapping into three, and when vm.max_map_count is reached no mapping can be
 * made at all. */
int64_t weft__stack_guards_most(const char *max_map_count)
{
    int64_t mappings = 0;
    for (const char *at = max_map_count; *at >= '0' && *at <= '9' && mappings < INT32_MAX; at++)
        mappings = mappings * 10 + (*at - '0');
    if (mappings == 0)
        mappings = MAPPINGS_DEFAULT;
    return mappings > 2 * MAPPINGS_LEFT ? (mappings - MAPPINGS_LEFT) / 2 : mappings / 4;
}

static int64_t mprotect_budget(void)
{
    char text[32] = "";
    (void)weft__os_read_file("/proc/sys/vm/max_map_count", text, sizeof text);
    return weft__stack_guards_most(text);
}

static int guard_by_mprotect(char *memory, size_t size)
{
    if (!mprotect_allowed)
        return -EPERM;
    if (atomic_i64_add_relaxed(&mprotect_left, -1) <= 0)
        return -ENOMEM;
    return weft__os_guard_mprotect(memory, size);
}

/* Reports why there is no guard; `install` and `mprotect` are what the attempts returned. */
static void warn_unguarded(int install, int mprotect)
{
    const char *first = "", *second = "";
    if (install == -EINVAL)
        first = "memory is locked (mlockall), where MADV_GUARD_INSTALL fails; ";
    else if (install != -ENOSYS)
        first = "MADV_GUARD_INSTALL failed; ";
    if (mprotect == -ENOMEM)
        second = "no more mappings; see vm.max_map_count";
    else if (mprotect == -EPERM)
        second = install == -ENOSYS ? "guards are turned off" : "mprotect is turned off";
    else
        second = weft__os_strerror(-mprotect);
    weft__warn("from now on stacks have no guard: an overflow will not be noticed (%s%s)", first,
               second);
}

static void make_one(struct stack *stack)
{
    int mprotect = -ENOSYS, install = -ENOSYS;
    size_t size = (size_t)1 << stack->guard;
    char *memory = stack->base - size;
    if (guard_kind == STACK_GUARD_INSTALL)
        install = weft__os_guard_install(memory, size);
    if (install != 0)
        mprotect = guard_by_mprotect(memory, size);
    if (install == 0 || mprotect == 0)
        return;
    stack->guard = 0;
    if (atomic_u32_exchange_acq_rel(&warned, 1) == 0)
        warn_unguarded(install, mprotect);
}

void weft__stack_guard_make(struct stack *first, uint32_t count, size_t stride)
{
    size_t size = (size_t)1 << first->guard;
    if (first->guard == GUARD_WIDE) /* made with the arena */
        return;
    if (count > 1 && weft__os_guard_install_many(first->base - size, stride, size, count) == 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        make_one(&first[i]);
}

void weft__stack_guard_start(bool allow_install, bool allow_many, bool allow_mprotect)
{
    guard_kind = allow_mprotect ? STACK_GUARD_MPROTECT : STACK_GUARD_NONE;
    mprotect_allowed = allow_mprotect;
    batch = 1;
    atomic_u32_store_relaxed(&warned, 0);
    atomic_i64_store_relaxed(&mprotect_left, mprotect_budget());
    if (!allow_install)
        return;
    size_t size = (size_t)1 << GUARD_LEAST;
    char *probe = weft__os_map(2 * size);
    if (probe == NULL)
        return;
    /* Emulators accept any advice and do nothing: see whether the guard is there. */
    if (weft__os_guard_install(probe, size) == 0 && !weft__os_readable(probe)) {
        guard_kind = STACK_GUARD_INSTALL;
        char *second = probe + size;
        if (allow_many && weft__os_guard_install_many(second, 0, size, 1) == 0 &&
            !weft__os_readable(second))
            batch = OS_GUARDS_MOST;
    }
    weft__os_unmap(probe, 2 * size);
}

enum stack_guard weft__stack_guard_kind(void)
{
    return guard_kind;
}

uint32_t weft__stack_guard_batch(void)
{
    return batch;
}

uint8_t weft__stack_guard_choose(uint64_t made)
{
    if (made < GUARD_WIDE_MOST && mprotect_allowed &&
        atomic_i64_load_relaxed(&mprotect_left) > GUARD_WIDE_MOST)
        return GUARD_WIDE;
    uint8_t guard = GUARD_LEAST;
    if (made < FEW_MOST)
        guard = GUARD_FEW; /* the same on aarch64 */
    return guard;
}

char *weft__stack_guard_map_wide(uint32_t count, size_t room)
{
    size_t below = (size_t)1 << GUARD_WIDE, each = below + room;
    char *memory = weft__os_reserve(count * each);
    for (uint32_t i = 0; memory != NULL && i < count; i++)
        if (weft__os_open_reserved(memory + i * each + below, room) != 0) {
            weft__os_unmap(memory, count * each);
            return NULL;
        }
    if (memory != NULL)
        atomic_i64_add_relaxed(&mprotect_left, -(int64_t)count);
    return memory;
}
