/*
 * stack.h: stacks of fibers: get one, put it back, give the memory of unused ones back to the
 * system.
 *
 * A stack is a power of two of address space and a guard below it; only its touched pages are
 * memory. docs/design/stacks.md has the life of a stack.
 */
#ifndef WEFT_STACK_STACK_H
#define WEFT_STACK_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STACK_LOG_MIN = 14,                                /* 16 KiB */
    STACK_LOG_MAX = 30,                                /* 1 GiB */
    STACK_CLASSES = STACK_LOG_MAX - STACK_LOG_MIN + 1, /* one for each power of two */
    STACK_CACHE_MOST = 64,                             /* stacks in the cache of a processor */
};

struct stack {
    struct stack *next; /* in a depot */
    char *base;         /* the lowest byte; the guard is below */
    uint8_t class;
    uint8_t guard; /* the logarithm of its size; 0: none */
    uint8_t color; /* lines of the cache between the top and the front */
    uint8_t front; /* lines of the front; 0 when the stack is got */
    uint32_t valgrind_id;
};

/* The warm stacks of a processor, newest last, all of one class. An array, not a list through the
 * descriptors: the descriptors of stacks of two processors may share a line of the CPU's cache,
 * which each get and put would take from the other CPU. */
struct stack_cache {
    uint32_t count;
    uint8_t class;
    struct stack *free[STACK_CACHE_MOST];
};

/* Chooses the kind of guards (stack_guard.h). Called while no stack exists. */
void weft__stack_start(bool allow_install, bool allow_many, bool allow_mprotect);

/* Unmaps all arenas, except those with a stack in quarantine. Called while no stack is in use. */
void weft__stack_stop(void);

/* The class of stacks of at least `size` bytes; -1 if out of range. */
int weft__stack_class(size_t size);

/* A stack of the class, from the cache if that is of the same class; NULL without memory. `cache`
 * may be NULL. The content is undefined. */
struct stack *weft__stack_get(struct stack_cache *cache, int class);

/* Puts a stack back that is no longer in use. `cache` may be NULL. */
void weft__stack_put(struct stack_cache *cache, struct stack *stack);

/* Takes a stack out of use for as long as the process lives, instead of weft__stack_put: pointers
 * into it may be anywhere. */
void weft__stack_quarantine(struct stack *stack);

/* Moves all stacks of the cache to the depot, where other processors and trimming find them. */
void weft__stack_cache_flush(struct stack_cache *cache);

/* The bytes that a fiber may use: from low to top. */
char *weft__stack_low(const struct stack *stack);
char *weft__stack_top(const struct stack *stack);

/* Where the first frame begins: at the top, or a little below. */
char *weft__stack_start_at(const struct stack *stack);

/* Reserves memory right above the first frame, in the same page, until the stack is put back: the
 * front. Called at most once after a get, before the first frame is made. `size` is at most
 * STACK_FRONT_MOST. */
enum { STACK_FRONT_MOST = 1024 }; /* bytes */
void *weft__stack_front(struct stack *stack, size_t size);

/* Whether the address lies in the guard of this stack. Works in signal handlers. */
bool weft__stack_in_guard(const struct stack *stack, const void *address);

/* Whether the address lies in the memory of any stack, guards included. Works in signal
 * handlers. */
bool weft__stack_anywhere(const void *address);

/* Gives the memory of stacks that were not needed for a period back to the system, a bounded amount
 * in each call. Returns when the next call is due; STACK_TRIM_IDLE if there is nothing to trim.
 * `now` is the time of weft__os_now. One thread at a time. */
#define STACK_TRIM_IDLE INT64_MAX
int64_t weft__stack_trim(int64_t now);

/* Whether a depot holds stacks that a trim would give back in time. */
bool weft__stack_trim_wanted(void);

/* For tests and figures. */
struct stack_figures {
    uint64_t made;        /* carved from arenas */
    uint64_t kept;        /* in a depot, committed or not */
    uint64_t cold;        /* of these, given back to the system */
    uint64_t quarantined; /* since the process began */
};
struct stack_figures weft__stack_figures(void);

#endif
