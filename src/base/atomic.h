/*
 * atomic.h: all atomic operations of weft.
 *
 * Each operation carries its memory order in its name, so that a reader can review the ordering
 * where it is used, and each use says in a short note what it pairs with. There is no bare fence:
 * ThreadSanitizer cannot see one. Where a store must be ordered before a later load (Dekker's
 * pattern), either both sides use a seq_cst read-modify-write, or the rare side pays for both with
 * the asymmetric barrier in os/membarrier.h.
 *
 * Types are structs, so that no atomic is ever read or written by accident. Models replace this
 * header by one with the same operations (tests/model/swap/base/atomic.h).
 */
#ifndef WEFT_BASE_ATOMIC_H
#define WEFT_BASE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#define WEFT_ATOMIC(name, type)                                                                   \
    typedef struct { type value; } name;                                                          \
    static inline type name##_load_relaxed(const name *a)                                         \
    { return __atomic_load_n(&a->value, __ATOMIC_RELAXED); }                                      \
    static inline type name##_load_acquire(const name *a)                                         \
    { return __atomic_load_n(&a->value, __ATOMIC_ACQUIRE); }                                      \
    static inline type name##_load_seq_cst(const name *a)                                         \
    { return __atomic_load_n(&a->value, __ATOMIC_SEQ_CST); }                                      \
    static inline void name##_store_relaxed(name *a, type v)                                      \
    { __atomic_store_n(&a->value, v, __ATOMIC_RELAXED); }                                         \
    static inline void name##_store_release(name *a, type v)                                      \
    { __atomic_store_n(&a->value, v, __ATOMIC_RELEASE); }                                         \
    static inline type name##_exchange_acquire(name *a, type v)                                   \
    { return __atomic_exchange_n(&a->value, v, __ATOMIC_ACQUIRE); }                               \
    static inline type name##_exchange_release(name *a, type v)                                   \
    { return __atomic_exchange_n(&a->value, v, __ATOMIC_RELEASE); }                               \
    static inline type name##_exchange_acq_rel(name *a, type v)                                   \
    { return __atomic_exchange_n(&a->value, v, __ATOMIC_ACQ_REL); }                               \
    static inline type name##_exchange_seq_cst(name *a, type v)                                   \
    { return __atomic_exchange_n(&a->value, v, __ATOMIC_SEQ_CST); }                               \
    static inline bool name##_cas_acquire(name *a, type *expected, type desired)                  \
    { return __atomic_compare_exchange_n(&a->value, expected, desired, false,                     \
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); }                   \
    static inline bool name##_cas_acq_rel(name *a, type *expected, type desired)                  \
    { return __atomic_compare_exchange_n(&a->value, expected, desired, false,                     \
                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); }                   \
    static inline bool name##_cas_seq_cst(name *a, type *expected, type desired)                  \
    { return __atomic_compare_exchange_n(&a->value, expected, desired, false,                     \
                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); }

/* Operations of numbers only. */
#define WEFT_ATOMIC_NUMBER(name, type)                                                            \
    WEFT_ATOMIC(name, type)                                                                       \
    static inline type name##_add_relaxed(name *a, type v)                                        \
    { return __atomic_fetch_add(&a->value, v, __ATOMIC_RELAXED); }                                \
    static inline type name##_add_acq_rel(name *a, type v)                                        \
    { return __atomic_fetch_add(&a->value, v, __ATOMIC_ACQ_REL); }                                \
    static inline type name##_add_seq_cst(name *a, type v)                                        \
    { return __atomic_fetch_add(&a->value, v, __ATOMIC_SEQ_CST); }                                \
    static inline type name##_sub_acq_rel(name *a, type v)                                        \
    { return __atomic_fetch_sub(&a->value, v, __ATOMIC_ACQ_REL); }                                \
    static inline type name##_sub_seq_cst(name *a, type v)                                        \
    { return __atomic_fetch_sub(&a->value, v, __ATOMIC_SEQ_CST); }                                \
    static inline type name##_or_relaxed(name *a, type v)                                         \
    { return __atomic_fetch_or(&a->value, v, __ATOMIC_RELAXED); }                                 \
    static inline type name##_or_seq_cst(name *a, type v)                                         \
    { return __atomic_fetch_or(&a->value, v, __ATOMIC_SEQ_CST); }                                 \
    static inline type name##_and_release(name *a, type v)                                        \
    { return __atomic_fetch_and(&a->value, v, __ATOMIC_RELEASE); }                                \
    static inline type name##_and_acq_rel(name *a, type v)                                        \
    { return __atomic_fetch_and(&a->value, v, __ATOMIC_ACQ_REL); }                                \
    /* An add by the only writer: a plain add, which other threads may read meanwhile. */         \
    static inline void name##_add_owner(name *a, type v)                                          \
    { __atomic_store_n(&a->value, __atomic_load_n(&a->value, __ATOMIC_RELAXED) + v,               \
                       __ATOMIC_RELAXED); }

WEFT_ATOMIC_NUMBER(atomic_u32, uint32_t)
WEFT_ATOMIC_NUMBER(atomic_u64, uint64_t)
WEFT_ATOMIC_NUMBER(atomic_i64, int64_t)
WEFT_ATOMIC(atomic_ptr, void *)
/* clang-format on */

/* Keeps the compiler from moving memory accesses across this point; the CPU still may. */
static inline void compiler_barrier(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Tells the CPU that this is a spin loop. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __asm__ volatile("pause");
#else
    __asm__ volatile("yield");
#endif
}

#endif
