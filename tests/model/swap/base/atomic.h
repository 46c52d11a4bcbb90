/*
 * atomic.h: the atomic operations of the model build, found before src/base/atomic.h.
 *
 * Each operation is a point at which the search may switch to another thread, and goes through the
 * store buffers: see tests/model/explore.h. Operations are always inlined, so that the return
 * address of the explorer's function is the place in weft's source that a schedule shows; except
 * for coverage, which counts branches on the lines that they have in the library.
 */
#ifndef WEFT_BASE_ATOMIC_H
#define WEFT_BASE_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum model_order { MODEL_RELAXED, MODEL_ACQUIRE, MODEL_RELEASE, MODEL_ACQ_REL, MODEL_SEQ_CST };
enum model_change { MODEL_EXCHANGE, MODEL_ADD, MODEL_OR, MODEL_AND };

uint64_t model_load(const void *address, size_t size, enum model_order order);
void model_store(void *address, size_t size, uint64_t value, enum model_order order);
/* Returns the previous value. */
uint64_t model_change(void *address, size_t size, enum model_change change, uint64_t value,
                      enum model_order order);
bool model_cas(void *address, size_t size, uint64_t *expected, uint64_t desired,
               enum model_order order);
/* A turn of a loop that waits for a store of another thread. */
void model_spin(void);

#ifdef WEFT_COVERAGE
#define MODEL_OP static inline __attribute__((__unused__))
#else
#define MODEL_OP static inline __attribute__((__always_inline__, __unused__))
#endif
#define MODEL_WORD(v) ((uint64_t)(uintptr_t)(v))
#define MODEL_VALUE(type, word) ((type)(uintptr_t)(word))

/* clang-format off */
#define MODEL_LOAD(name, type, order, ORDER)                                                      \
    MODEL_OP type name##_load_##order(const name *a)                                              \
    { return MODEL_VALUE(type, model_load(&a->value, sizeof(type), ORDER)); }
#define MODEL_STORE(name, type, order, ORDER)                                                     \
    MODEL_OP void name##_store_##order(name *a, type v)                                           \
    { model_store(&a->value, sizeof(type), MODEL_WORD(v), ORDER); }
#define MODEL_CHANGE(name, type, op, OP, order, ORDER)                                            \
    MODEL_OP type name##_##op##_##order(name *a, type v)                                          \
    { return MODEL_VALUE(type, model_change(&a->value, sizeof(type), OP, MODEL_WORD(v), ORDER)); }
#define MODEL_CAS(name, type, order, ORDER)                                                       \
    MODEL_OP bool name##_cas_##order(name *a, type *expected, type desired)                       \
    { uint64_t word = MODEL_WORD(*expected);                                                      \
      bool done = model_cas(&a->value, sizeof(type), &word, MODEL_WORD(desired), ORDER);          \
      *expected = MODEL_VALUE(type, word);                                                        \
      return done; }

#define WEFT_ATOMIC(name, type)                                                                   \
    typedef struct { type value; } name;                                                          \
    MODEL_LOAD(name, type, relaxed, MODEL_RELAXED)                                                \
    MODEL_LOAD(name, type, acquire, MODEL_ACQUIRE)                                                \
    MODEL_LOAD(name, type, seq_cst, MODEL_SEQ_CST)                                                \
    MODEL_STORE(name, type, relaxed, MODEL_RELAXED)                                               \
    MODEL_STORE(name, type, release, MODEL_RELEASE)                                               \
    MODEL_CHANGE(name, type, exchange, MODEL_EXCHANGE, acquire, MODEL_ACQUIRE)                    \
    MODEL_CHANGE(name, type, exchange, MODEL_EXCHANGE, release, MODEL_RELEASE)                    \
    MODEL_CHANGE(name, type, exchange, MODEL_EXCHANGE, acq_rel, MODEL_ACQ_REL)                    \
    MODEL_CHANGE(name, type, exchange, MODEL_EXCHANGE, seq_cst, MODEL_SEQ_CST)                    \
    MODEL_CAS(name, type, acquire, MODEL_ACQUIRE)                                                 \
    MODEL_CAS(name, type, acq_rel, MODEL_ACQ_REL)                                                 \
    MODEL_CAS(name, type, seq_cst, MODEL_SEQ_CST)

#define WEFT_ATOMIC_NUMBER(name, type)                                                            \
    WEFT_ATOMIC(name, type)                                                                       \
    MODEL_CHANGE(name, type, add, MODEL_ADD, relaxed, MODEL_RELAXED)                              \
    MODEL_CHANGE(name, type, add, MODEL_ADD, acq_rel, MODEL_ACQ_REL)                              \
    MODEL_CHANGE(name, type, add, MODEL_ADD, seq_cst, MODEL_SEQ_CST)                              \
    MODEL_CHANGE(name, type, or, MODEL_OR, relaxed, MODEL_RELAXED)                                \
    MODEL_CHANGE(name, type, or, MODEL_OR, seq_cst, MODEL_SEQ_CST)                                \
    MODEL_CHANGE(name, type, and, MODEL_AND, release, MODEL_RELEASE)                              \
    MODEL_CHANGE(name, type, and, MODEL_AND, acq_rel, MODEL_ACQ_REL)                              \
    MODEL_OP type name##_sub_acq_rel(name *a, type v)                                             \
    { return name##_add_acq_rel(a, (type)-v); }                                                   \
    MODEL_OP type name##_sub_seq_cst(name *a, type v)                                             \
    { return name##_add_seq_cst(a, (type)-v); }                                                   \
    MODEL_OP void name##_add_owner(name *a, type v)                                               \
    { name##_store_relaxed(a, (type)(name##_load_relaxed(a) + v)); }

WEFT_ATOMIC_NUMBER(atomic_u32, uint32_t)
WEFT_ATOMIC_NUMBER(atomic_u64, uint64_t)
WEFT_ATOMIC_NUMBER(atomic_i64, int64_t)
WEFT_ATOMIC(atomic_ptr, void *)
/* clang-format on */

static inline void compiler_barrier(void)
{
    __asm__ volatile("" ::: "memory");
}

#define cpu_relax() model_spin()

#endif
