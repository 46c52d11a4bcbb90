/*
 * failing_seam.h: calls of libweft-http's seam (src/http/sys.h), and of the libraries that it uses,
 * that fail as a test wants. The linker (--wrap) catches them.
 *
 * Before it is included: `enum call` names the calls, ALLOCATE and RESIZE among them and CALLS at
 * its end, and `calls[call].error` is the result of a failing one.
 */
#ifndef WEFT_TEST_HTTP_FAILING_SEAM_H
#define WEFT_TEST_HTTP_FAILING_SEAM_H

#include <stdatomic.h>

#include "test.h"

static struct {
    atomic_int call;     /* which; CALLS: none */
    atomic_long left;    /* until the one that fails */
    atomic_bool forever; /* and all after it */
    atomic_long hits;
    atomic_long blocks; /* of memory that are out */
} plan = {.call = CALLS};

static void start_failing(enum call call, long number, bool forever)
{
    atomic_store(&plan.hits, 0);
    atomic_store(&plan.left, number);
    atomic_store(&plan.forever, forever);
    atomic_store(&plan.call, (int)call);
}

static void stop_failing(void)
{
    atomic_store(&plan.call, CALLS);
}

static bool fails(enum call call)
{
    if (atomic_load(&plan.call) != (int)call)
        return false;
    long left = atomic_fetch_sub(&plan.left, 1);
    bool hit = left == 1 || (left < 1 && atomic_load(&plan.forever));
    if (hit)
        atomic_fetch_add(&plan.hits, 1);
    return hit;
}

/* A call of any library that returns `failed` when it is its turn. */
#define WRAP_AS(result, name, parameters, call, failed, arguments) \
    result __real_##name parameters;                               \
    result __wrap_##name parameters;                               \
    result __wrap_##name parameters                                \
    {                                                              \
        return fails(call) ? (failed) : __real_##name arguments;   \
    }

/* One of the seam. */
#define WRAP(result, name, parameters, call, arguments) \
    WRAP_AS(result, weft__http_##name, parameters, call, calls[call].error, arguments)

/* Memory, which is counted too. */

void *__real_weft__http_allocate(size_t size);
void *__wrap_weft__http_allocate(size_t size);
void *__wrap_weft__http_allocate(size_t size)
{
    void *memory = fails(ALLOCATE) ? NULL : __real_weft__http_allocate(size);
    if (memory != NULL)
        atomic_fetch_add(&plan.blocks, 1);
    return memory;
}

void *__real_weft__http_resize(void *memory, size_t size);
void *__wrap_weft__http_resize(void *memory, size_t size);
void *__wrap_weft__http_resize(void *memory, size_t size)
{
    void *larger = fails(RESIZE) ? NULL : __real_weft__http_resize(memory, size);
    if (larger != NULL && memory == NULL)
        atomic_fetch_add(&plan.blocks, 1);
    return larger;
}

void __real_weft__http_free(void *memory);
void __wrap_weft__http_free(void *memory);
void __wrap_weft__http_free(void *memory)
{
    if (memory != NULL)
        atomic_fetch_sub(&plan.blocks, 1);
    __real_weft__http_free(memory);
}

#endif
