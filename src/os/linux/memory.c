/*
 * memory.c: the heap, mappings, guard pages: os/memory.h.
 */
#include "os/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/linux/seam.h"
#include "os/poll.h"

/* Names that older headers lack. */
#ifndef MADV_GUARD_INSTALL /* Linux 6.13 */
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef PIDFD_SELF /* the calling process, without a descriptor */
#define PIDFD_SELF (-10000)
#endif

static void *counted(void *memory)
{
    if (memory != NULL)
        weft__live(LIVE_MEMORY, 1);
    return memory;
}

void *weft__os_alloc(size_t size)
{
    KEEP_ERRNO;
    return weft__failure_due(OS_ALLOC) ? NULL : counted(malloc(size));
}

bool weft__os_alloc_fails(void)
{
    return weft__failure_due(OS_ALLOC);
}

void *weft__os_alloc_zeroed(size_t size)
{
    KEEP_ERRNO;
    return weft__failure_due(OS_ALLOC) ? NULL : counted(calloc(1, size));
}

void *weft__os_alloc_aligned(size_t alignment, size_t size)
{
    KEEP_ERRNO;
    void *memory;
    if (weft__failure_due(OS_ALLOC) || posix_memalign(&memory, alignment, size) != 0)
        return NULL;
    return counted(memory);
}

void weft__os_free(void *memory)
{
    KEEP_ERRNO;
    if (memory != NULL)
        weft__live(LIVE_MEMORY, -1);
    free(memory);
}

size_t weft__os_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void *map(size_t size, int protection)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_MAP))
        return NULL;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(NULL, size, protection, flags, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    weft__live(LIVE_MAPS, 1);
    return memory;
}

void *weft__os_map(size_t size)
{
    return map(size, PROT_READ | PROT_WRITE);
}

void *weft__os_reserve(size_t size)
{
    return map(size, PROT_NONE);
}

int weft__os_open_reserved(void *memory, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_GUARD))
        return -ENOMEM;
    return mprotect(memory, size, PROT_READ | PROT_WRITE) == 0 ? 0 : weft__os_error();
}

void weft__os_unmap(void *memory, size_t size)
{
    KEEP_ERRNO;
    weft__live(LIVE_MAPS, -1);
    munmap(memory, size);
}

int weft__os_guard_install(void *memory, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_GUARD))
        return -ENOMEM;
    return madvise(memory, size, MADV_GUARD_INSTALL) == 0 ? 0 : weft__os_error();
}

int weft__os_guard_install_many(char *first, size_t stride, size_t size, uint32_t count)
{
    KEEP_ERRNO;
    struct iovec ranges[OS_GUARDS_MOST];
    if (weft__failure_due(OS_GUARD))
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        ranges[i] = (struct iovec){first + i * stride, size};
    long done = syscall(SYS_process_madvise, PIDFD_SELF, ranges, count, MADV_GUARD_INSTALL, 0);
    if (done < 0)
        return weft__os_error();
    return (size_t)done == count * size ? 0 : -EAGAIN;
}

bool weft__os_readable(const void *memory)
{
    KEEP_ERRNO;
    int fd = weft__os_eventfd();
    if (fd < 0)
        return true;
    /* The kernel reads the bytes, and returns EFAULT where this code would get a signal. */
    bool readable = write(fd, memory, sizeof(uint64_t)) >= 0 || weft__os_error() != -EFAULT;
    close(fd);
    return readable;
}

int weft__os_guard_mprotect(void *memory, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_GUARD))
        return -ENOMEM;
    return mprotect(memory, size, PROT_NONE) == 0 ? 0 : weft__os_error();
}

int weft__os_decommit(void *memory, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_DECOMMIT))
        return -EAGAIN;
    return madvise(memory, size, MADV_DONTNEED) == 0 ? 0 : weft__os_error();
}

void weft__os_populate(void *memory, size_t size)
{
    KEEP_ERRNO;
    size_t before = (uintptr_t)memory % weft__os_page_size();
    (void)madvise((char *)memory - before, before + size, MADV_POPULATE_WRITE);
}

void weft__os_huge_pages(void *memory, size_t size)
{
    KEEP_ERRNO;
    (void)madvise(memory, size, MADV_HUGEPAGE); /* a kernel without huge pages refuses */
}

void weft__os_no_huge_pages(void *memory, size_t size)
{
    KEEP_ERRNO;
    (void)madvise(memory, size, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses */
}
