/*
 * memory.h: the heap, mappings, and guard pages. Rules of all calls: os/os.h.
 *
 * Addresses and sizes of mappings and of parts of them are multiples of weft__os_page_size(),
 * except where a call says otherwise. Each part lies in one mapping, which the caller owns.
 */
#ifndef WEFT_OS_MEMORY_H
#define WEFT_OS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the heap ---- */

/* Memory aligned for any type; NULL if there is none. [OS_ALLOC] */
void *weft__os_alloc(size_t size);

/* weft__os_alloc, with every byte zero. [OS_ALLOC] */
void *weft__os_alloc_zeroed(size_t size);

/* weft__os_alloc at a multiple of `alignment`: a power of two, at least sizeof(void *).
 * [OS_ALLOC] */
void *weft__os_alloc_aligned(size_t alignment, size_t size);

/* Frees what the three calls above returned; NULL is allowed. */
void weft__os_free(void *memory);

/* Counts as an allocation without making one; true if a test has that one fail. For an allocator
 * above the seam that serves from memory it holds already. [OS_ALLOC] */
bool weft__os_alloc_fails(void);

/* ---- mappings ---- */

/* The unit of address space and of protection: a power of two. */
size_t weft__os_page_size(void);

/* A new mapping: readable, writable, zero. A page becomes memory when it is first touched; no swap
 * is set aside. NULL if there is no room. [OS_MAP] */
void *weft__os_map(size_t size);

/* A new mapping that faults when touched, and for which nothing is set aside: address space only.
 * NULL if there is no room. [OS_MAP] */
void *weft__os_reserve(size_t size);

/* Makes a part of a reservation memory as weft__os_map gives it. [OS_GUARD] */
int weft__os_open_reserved(void *memory, size_t size);

/* Ends a mapping or reservation, as a whole: `memory` and `size` are those of its beginning. */
void weft__os_unmap(void *memory, size_t size);

/* Gives the pages back to the system. The mapping stays, and reads as zero. [OS_DECOMMIT] */
int weft__os_decommit(void *memory, size_t size);

/* Makes all pages memory in one call, for what is about to be touched. A hint: without it (before
 * Linux 5.14) each first touch does that. Any address and size. */
void weft__os_populate(void *memory, size_t size);

/* Hints that the part is worth huge pages, and that it is not. */
void weft__os_huge_pages(void *memory, size_t size);
void weft__os_no_huge_pages(void *memory, size_t size);

/* True if the 8 bytes at the address can be read; true also where the system cannot tell. Never
 * faults. Works in signal handlers. */
bool weft__os_readable(const void *memory);

/* ---- guards ---- */

/* A guard is a part of a mapping that faults when touched, until the mapping ends. There are two
 * kinds.
 *
 * weft__os_guard_install costs no mapping, so there may be any number. -EINVAL or -ENOSYS where the
 * system does not have it (Linux before 6.13), or has it not for this memory (locked memory).
 * [OS_GUARD] */
int weft__os_guard_install(void *memory, size_t size);

/* weft__os_guard_install for `count` parts of `size` bytes, each `stride` after the one before, in
 * one call; `count` is at most OS_GUARDS_MOST. On failure some of them may be guards. [OS_GUARD] */
enum { OS_GUARDS_MOST = 16 };
int weft__os_guard_install_many(char *first, size_t stride, size_t size, uint32_t count);

/* A guard by page protection. It may split the mapping in two or three, of which a system allows a
 * limited number (vm.max_map_count); -ENOMEM beyond that. [OS_GUARD] */
int weft__os_guard_mprotect(void *memory, size_t size);

#endif
