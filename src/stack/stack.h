/*
 * stack.h: stacks for fibers: get one, put it back.
 *
 * A stack is a power of two of address space and a guard, of which only the touched pages are
 * memory. See docs/design/stacks.md for the life of a stack.
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
    STACK_CACHE_MOST = 64,                             /* stacks kept by a processor */
};

struct stack {
    struct stack *next; /* on a shelf */
    char *base;         /* the lowest byte; the guard is below */
    uint8_t class;
    uint8_t guard; /* the logarithm of its size; 0: there is none */
    uint8_t color; /* lines between the top and the front */
    uint8_t front; /* lines between that and the first frame; 0 when it is taken */
    uint32_t valgrind_id;
};

/* A processor's own warm stacks, newest last; all of one class. Not linked by their descriptors: those of two processors'
 * stacks may share a line of the CPU's cache, which each get and put would take from the other. */
struct stack_cache {
    uint32_t count;
    uint8_t class;
    struct stack *free[STACK_CACHE_MOST];
};

enum stack_guard {
    STACK_GUARD_INSTALL,  /* MADV_GUARD_INSTALL: any number of stacks */
    STACK_GUARD_MPROTECT, /* a mapping each: up to half of vm.max_map_count */
    STACK_GUARD_NONE,
};

/* Chooses the best guard that works and is allowed, and whether many may be made at once. Called while no stack exists. */
void weft__stack_start(bool allow_install, bool allow_many, bool allow_mprotect);
/* Unmaps everything, but for arenas with stacks in quarantine. Called when no stack is in use. */
void weft__stack_stop(void);

/* The class of stacks of at least `size` bytes; -1 if out of range. */
int weft__stack_class(size_t size);

/* A stack of that class, from the cache if it is of the cache's class; NULL without memory. The
 * cache may be NULL. */
struct stack *weft__stack_get(struct stack_cache *cache, int class);
void weft__stack_put(struct stack_cache *cache, struct stack *stack);
/* Puts it away instead, as it is, for as long as the process lives: pointers into it may be anywhere. */
void weft__stack_quarantine(struct stack *stack);
/* Moves all stacks of the cache to the shelf, where others can use them and trimming finds them. */
void weft__stack_cache_flush(struct stack_cache *cache);

/* The bytes that a fiber may use: from low to top. */
char *weft__stack_low(const struct stack *stack);
char *weft__stack_top(const struct stack *stack);
/* Where the first frame begins: at the top, or a little below. */
char *weft__stack_start_at(const struct stack *stack);
/* Memory right above that, in whole lines, until the stack is put back: before its first frame is made. */
enum { STACK_FRONT_MOST = 1024 }; /* bytes */
void *weft__stack_front(struct stack *stack, size_t size);
/* True if the address lies in the guard of this stack. */
bool weft__stack_in_guard(const struct stack *stack, const void *address);

/* True if the address lies in any memory of stacks, guards included. In signal handlers too. */
bool weft__stack_anywhere(const void *address);

/* Trimming gives the memory of stacks that nobody needed for a period back to the system. Call it
 * when the time that the last call returned has come, one thread at a time; it does a bounded piece
 * of work. */
#define STACK_TRIM_IDLE INT64_MAX
int64_t weft__stack_trim(int64_t now);
/* True if there is something on the shelves that a trim could give back some day. */
bool weft__stack_trim_wanted(void);

/* For tests and figures. */
enum stack_guard weft__stack_guard_kind(void);
/* How many guards mprotect may make; the text is that of vm.max_map_count, or what is no number. */
int64_t weft__stack_guards_most(const char *most_mappings);
struct stack_figures {
    uint64_t made;        /* carved from arenas */
    uint64_t shelved;     /* on the shelves, committed or not */
    uint64_t cold;        /* of these, given back to the system */
    uint64_t quarantined; /* since the process began */
};
struct stack_figures weft__stack_figures(void);

#endif
