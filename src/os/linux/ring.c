/*
 * ring.c: io_uring by its system calls: set-up, the two rings in shared memory, submit: os/ring.h.
 *
 * The features of Linux 5.7 are required: one mapping for both rings, completions that are never
 * dropped, reads at the position of the file, and waiting for pipes and sockets by poll instead of
 * in a kernel thread. An older io_uring counts as none.
 *
 * Memory order. Completions: the kernel stores their tail with release and loads our head with
 * acquire. Submissions: the roles change. The kernel reads submissions during the system call only,
 * so the release of their tail is enough.
 */
#include "os/ring.h"
#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/seam.h"
#include "os/memory.h"

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#endif

#define FEATURES_NEEDED \
    (IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS | IORING_FEAT_FAST_POLL)
#define LENGTH_MOST 0x7ffff000 /* that the kernel reads or writes in one call */

static atomic_u32 *shared(uint32_t *word)
{
    return (atomic_u32 *)(void *)word;
}

static void *map(int fd, size_t size, int64_t offset)
{
    if (weft__failure_due(OS_MAP))
        return NULL;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
    if (memory == MAP_FAILED)
        return NULL;
    weft__live(LIVE_MAPS, 1);
    return memory;
}

static int map_rings(struct weft__os_ring *ring, const struct io_uring_params *parameters)
{
    const struct io_sqring_offsets *submit = &parameters->sq_off;
    const struct io_cqring_offsets *complete = &parameters->cq_off;
    size_t submit_size = submit->array + parameters->sq_entries * sizeof(uint32_t);
    size_t complete_size = complete->cqes + parameters->cq_entries * sizeof(struct io_uring_cqe);
    ring->memory_size = submit_size > complete_size ? submit_size : complete_size;
    ring->entries_size = parameters->sq_entries * sizeof(struct io_uring_sqe);
    ring->memory = map(ring->fd, ring->memory_size, IORING_OFF_SQ_RING);
    ring->entries = map(ring->fd, ring->entries_size, IORING_OFF_SQES);
    if (ring->memory == NULL || ring->entries == NULL)
        return -ENOMEM;
    char *base = ring->memory;
    ring->submit_head = (uint32_t *)(void *)(base + submit->head);
    ring->submit_tail = (uint32_t *)(void *)(base + submit->tail);
    ring->submit_array = (uint32_t *)(void *)(base + submit->array);
    ring->submit_mask = parameters->sq_entries - 1;
    ring->complete_head = (uint32_t *)(void *)(base + complete->head);
    ring->complete_tail = (uint32_t *)(void *)(base + complete->tail);
    ring->completions = base + complete->cqes;
    ring->complete_mask = parameters->cq_entries - 1;
    ring->capacity = parameters->cq_entries / 2 - 1;
    for (uint32_t i = 0; i < parameters->sq_entries; i++)
        ring->submit_array[i] = i;
    return 0;
}

int weft__os_ring_open(struct weft__os_ring *out, uint32_t entries)
{
    KEEP_ERRNO;
    struct io_uring_params parameters;
    memset(&parameters, 0, sizeof parameters);
    parameters.flags = IORING_SETUP_CQSIZE;
    /* More than twice the operations in flight: each may have a cancellation. */
    parameters.cq_entries = 4 * entries;
    if (weft__failure_due(OS_RING))
        return -ENOMEM;
    long fd = syscall(SYS_io_uring_setup, entries, &parameters);
    if (fd < 0)
        return weft__os_error();
    struct weft__os_ring ring = {.fd = (int)fd};
    int error = (parameters.features & FEATURES_NEEDED) == FEATURES_NEEDED
                    ? map_rings(&ring, &parameters)
                    : -ENOSYS;
    if (error != 0) {
        weft__os_ring_close(&ring);
        return error;
    }
    *out = ring;
    return 0;
}

void weft__os_ring_close(struct weft__os_ring *ring)
{
    KEEP_ERRNO;
    if (ring->memory != NULL)
        weft__os_unmap(ring->memory, ring->memory_size);
    if (ring->entries != NULL)
        weft__os_unmap(ring->entries, ring->entries_size);
    close(ring->fd);
    *ring = (struct weft__os_ring){.fd = -1};
}

/* The next free entry, or NULL. */
static struct io_uring_sqe *entry_begin(struct weft__os_ring *ring)
{
    /* Pairs with the kernel's release after it has read an entry. */
    uint32_t head = atomic_u32_load_acquire(shared(ring->submit_head));
    uint32_t tail = *ring->submit_tail;
    if (tail - head > ring->submit_mask)
        return NULL;
    struct io_uring_sqe *entry = (struct io_uring_sqe *)ring->entries + (tail & ring->submit_mask);
    memset(entry, 0, sizeof *entry);
    return entry;
}

static void entry_end(struct weft__os_ring *ring)
{
    ring->pushed++;
    atomic_u32_store_release(shared(ring->submit_tail), *ring->submit_tail + 1);
}

bool weft__os_ring_push(struct weft__os_ring *ring, const struct weft__os_io *io, uint64_t tag)
{
    static const uint8_t codes[] = {
        [IO_READ] = IORING_OP_READ,   [IO_WRITE] = IORING_OP_WRITE,
        [IO_READV] = IORING_OP_READV, [IO_WRITEV] = IORING_OP_WRITEV,
        [IO_SYNC] = IORING_OP_FSYNC,  [IO_DATASYNC] = IORING_OP_FSYNC,
    };
    struct io_uring_sqe *entry = entry_begin(ring);
    if (entry == NULL)
        return false;
    entry->opcode = codes[io->kind];
    entry->fd = io->fd;
    entry->addr = (uint64_t)(uintptr_t)io->memory;
    entry->len = (uint32_t)(io->length < LENGTH_MOST ? io->length : LENGTH_MOST);
    entry->off = (uint64_t)io->offset;
    entry->user_data = tag;
    if (io->kind == IO_SYNC || io->kind == IO_DATASYNC) {
        entry->fsync_flags = io->kind == IO_DATASYNC ? IORING_FSYNC_DATASYNC : 0;
        entry->addr = entry->len = 0;
        entry->off = 0;
    }
    entry_end(ring);
    return true;
}

bool weft__os_ring_push_cancel(struct weft__os_ring *ring, uint64_t which, uint64_t tag)
{
    struct io_uring_sqe *entry = entry_begin(ring);
    if (entry == NULL)
        return false;
    entry->opcode = IORING_OP_ASYNC_CANCEL;
    entry->fd = -1;
    entry->addr = which;
    entry->user_data = tag;
    entry_end(ring);
    return true;
}

bool weft__os_ring_push_empty(struct weft__os_ring *ring, uint64_t tag)
{
    struct io_uring_sqe *entry = entry_begin(ring);
    if (entry == NULL)
        return false;
    entry->opcode = IORING_OP_NOP;
    entry->fd = -1;
    entry->user_data = tag;
    entry_end(ring);
    return true;
}

int weft__os_ring_submit(struct weft__os_ring *ring)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_RING))
        return -EAGAIN;
    for (;;) {
        long taken = syscall(SYS_io_uring_enter, ring->fd, ring->pushed, 0, 0, NULL, 0);
        if (taken >= 0) {
            ring->pushed -= (uint32_t)taken;
            return (int)taken;
        }
        int error = weft__os_error();
        if (error != -EINTR)
            return error;
    }
}

bool weft__os_ring_unpush(struct weft__os_ring *ring, uint64_t *tag)
{
    if (ring->pushed == 0)
        return false;
    ring->pushed--;
    uint32_t tail = *ring->submit_tail - 1;
    *tag = ((struct io_uring_sqe *)ring->entries)[tail & ring->submit_mask].user_data;
    atomic_u32_store_release(shared(ring->submit_tail), tail);
    return true;
}

bool weft__os_ring_pop(struct weft__os_ring *ring, uint64_t *tag, int32_t *result)
{
    uint32_t head = *ring->complete_head;
    /* Pairs with the kernel's release after it has written a completion. */
    if (head == atomic_u32_load_acquire(shared(ring->complete_tail)))
        return false;
    const struct io_uring_cqe *entry =
        (const struct io_uring_cqe *)ring->completions + (head & ring->complete_mask);
    *tag = entry->user_data;
    *result = entry->res >= 0 && weft__failure_due(OS_FILE) ? -EIO : entry->res;
    /* Pairs with the kernel's acquire: the completion is read before its slot is free. */
    atomic_u32_store_release(shared(ring->complete_head), head + 1);
    return true;
}
