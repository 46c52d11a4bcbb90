/*
 * explorer.h: what the files of the explorer share.
 *
 *   explore.c   the threads and the search
 *   points.c    what a thread does: atomic operations, store buffers, memory, what the system is made of
 *   states.c    states, and which of them were seen
 *   schedule.c  how an execution is printed
 *
 * The explorer keeps its own state in memory of its own, found by one pointer: all other data of the
 * program is the world, which is copied once at the start, put back before each execution, and hashed at
 * each choice between threads.
 */
#ifndef WEFT_MODEL_EXPLORER_H
#define WEFT_MODEL_EXPLORER_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/stack_switch.h"
#include "explore.h"

enum {
    THREADS_MOST = 8,
    BUFFER_MOST = 8,
    STACK_SIZE = 64 << 10,
    ARENA_SIZE = 128 << 10,
    BLOCKS_MOST = 64,
    CHOICES_MOST = 4096,
    STEPS_MOST = 20000,
    OPTIONS_MOST = 2 * THREADS_MOST,
    TURNS_MOST = 256,
};

enum status { READY, WAITS_WAKE, WAITS_WORD, WAITS_WRITE, WAITS_UNTIL, ENDED };

struct buffered {
    void *address;
    uint64_t value;
    uint32_t size;
    bool release;
};

struct thread_of_model {
    struct context context;
    char *stack;
    void *word; /* the thread-local one */
    const char *name;
    void (*function)(void *);
    void *arg;
    bool must_end;
    enum status status;
    const void *key; /* what it waits for */
    bool (*until)(void);
    uint32_t value;
    bool deadline, timed_out;
    bool relaxed;                 /* it has turned in a loop, and done nothing since */
    uint64_t wrote, others_wrote; /* changes of memory: by it; by others when its loop began */
    int buffered;
    struct buffered buffer[BUFFER_MOST];
};

struct choice {
    uint8_t taken, count;
};

struct option {
    int thread;
    bool times_out, preempts;
};

struct block {
    char *memory;
    size_t size;
    bool freed;
};

enum outcome { GOES_ON, COMPLETE, SEEN_BEFORE, FAILED };

struct bounds {
    int preemptions, delays, timeouts;
};

struct explorer {
    const struct scenario *scenario;
    /* The execution. */
    enum outcome outcome;
    struct context context; /* of the search */
    sigjmp_buf crash;
    struct thread_of_model threads[THREADS_MOST];
    int thread_count, current, last; /* current: -1 outside of threads */
    struct bounds left;
    bool calm;
    uint64_t writes;
    int steps;
    uint64_t turns[TURNS_MOST]; /* states in which all who could go on were in loops */
    int turn_count;
    char message[512];
    /* The search. */
    struct choice choices[CHOICES_MOST];
    int depth, length; /* where this execution is; how many choices are given */
    uint64_t *seen;    /* a table of states; 0: free */
    int8_t *seen_left; /* preemptions that were left there */
    size_t seen_size, seen_count;
    uint64_t executions, points;
    /* The world. */
    char *world_copy;
    char *arena;
    size_t arena_used;
    struct block blocks[BLOCKS_MOST];
    int block_count;
};

extern struct explorer *explorer;
extern char __data_start[], _end[]; /* of the program, from the linker */

/* NULL outside of threads. */
static inline struct thread_of_model *running(void)
{
    return explorer->current >= 0 ? &explorer->threads[explorer->current] : NULL;
}

/* explore.c */

bool model__can_go_on(const struct thread_of_model *thread);

/* points.c */

/* Where in the thread's buffer a store to that place is, the oldest or the newest; -1: there is none. */
int model__buffered(const struct thread_of_model *thread, const void *address, bool newest);
void model__arrive_all(struct thread_of_model *thread);
/* Adds a line to the schedule, if one is wanted. */
void model__show(const char *what, const void *address, uint64_t value, const void *site);

/* states.c */

void model__states_begin(void);
void model__states_forget(void);
/* A hash of the world and of all threads. */
uint64_t model__hash(void);
/* Whether this state was seen with no less of the bounds left; it is noted if not. */
bool model__seen_before(void);

#endif
