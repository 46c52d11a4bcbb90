/*
 * explorer.h: the interface between the files of the explorer.
 *
 *   explore.c   the threads and the search
 *   points.c    operations of a thread: atomics, store buffers, memory, blocking
 *   states.c    states, and the table of seen ones
 *   schedule.c  prints an execution
 *
 * The explorer's own state is in separate memory, behind one pointer. All other data of the program
 * is the world, which is copied once at the start, restored before each execution, and hashed at
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
    void *word; /* the thread-local word */
    const char *name;
    void (*function)(void *);
    void *arg;
    bool must_end;
    enum status status;
    const void *key; /* of its wait */
    bool (*until)(void);
    uint32_t value;
    int64_t deadline; /* of its wait; MODEL_NO_DEADLINE: none */
    bool timed_out;
    bool relaxed;                 /* it has turned in a loop, without another operation since */
    uint64_t wrote, others_wrote; /* changes of memory: by it, and by others when its loop began */
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
    uint64_t turns[TURNS_MOST]; /* states in which every runnable thread was in a loop */
    int turn_count;
    char message[512];
    /* The search. */
    struct choice choices[CHOICES_MOST];
    int depth, length; /* the position of this execution; the number of prescribed choices */
    uint64_t *seen;    /* a table of states; 0: free */
    int8_t *seen_left; /* preemptions left in that state */
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

/* The index of the oldest or newest store to that place in the thread's buffer; -1: none. */
int model__buffered(const struct thread_of_model *thread, const void *address, bool newest);
void model__arrive_all(struct thread_of_model *thread);
/* Adds a line to the schedule, if one is recorded. */
void model__show(const char *what, const void *address, uint64_t value, const void *site);

/* states.c */

void model__states_begin(void);
void model__states_forget(void);
/* A hash of the world and of all threads. */
uint64_t model__hash(void);
/* Whether this state was seen with at least as much of the bounds left; records it if not. */
bool model__seen_before(void);

#endif
