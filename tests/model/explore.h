/*
 * explore.h: a model checker for weft's protocols: runs the real code in every order that matters.
 *
 * A model is a program of weft's own sources, compiled against the atomic.h in tests/model/swap, of the
 * modelled system in system.c, and of scenarios: a few threads, and what must hold. The threads are
 * contexts on weft's own switch, all in one OS thread. Before each atomic operation, and where the system
 * is called, a thread stands at a point; the search decides there who goes on:
 *
 *  - Depth first, from the beginning each time: an execution is the list of its choices, and the next one
 *    is the same up to the last choice that has an alternative. The world (the data of the program, and
 *    what was allocated) is put back before each.
 *  - Bounded: no more than so many preemptions (a switch away from a thread that could go on); switches
 *    where a thread blocks or ends are free. Bugs need few preemptions; their number decides the cost.
 *  - A state seen before, with as much of the bounds left, is not gone on from. The state is a hash of 64
 *    bits of the whole world, and of all threads: weft's switch leaves everything that is live on the
 *    stack, so what is above the stack pointer is all there is. (Dead bytes in it make equal states look
 *    different, which costs time and hides nothing. Of a machine that runs a fiber the machine's own stack
 *    is not hashed: nothing that is chosen later stands there. Two different states with one hash would hide
 *    something: with a million states the odds are one in ten million.)
 *
 * Store buffers. A relaxed or release store stays in a buffer of its thread, where only that one sees it.
 * When another reads the place it has arrived, or not yet: each such delay takes one of a bound. A
 * release arrives after all that were stored before it, a relaxed one in any order but with those to its own
 * place. Everything has arrived after a read-modify-write with release, acq_rel or seq_cst of that thread,
 * after a system call of it, and after a membarrier of anyone. A relaxed or acquire read-modify-write goes to memory and
 * leaves the buffer as it is. That is weaker than x86-64 (which keeps stores in order, and where each
 * read-modify-write empties the buffer) and stronger than C11 and aarch64.
 *
 * What it cannot see: loads that are done earlier than they stand, and what an acquire is for; plain
 * memory, which is taken to be there at once (a missing release between two plain stores is for
 * ThreadSanitizer to find); what needs more threads, preemptions or delays than the scenario has; time,
 * but for deadlines that pass or not, as the search chooses; a loop that goes on for ever through states
 * seen before.
 *
 * A failure is a CHECK of a scenario that does not hold, an assertion of weft, a touch of freed memory, a
 * crash, or nobody who can go on although a thread has not ended. The schedule is printed.
 *
 * Twins. A check that never failed is worth little: so each model is also built with one line of weft's
 * source broken (tests/model/CMakeLists.txt), and there the search must fail.
 */
#ifndef WEFT_MODEL_EXPLORE_H
#define WEFT_MODEL_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scenario {
    const char *name;
    void (*set_up)(void); /* makes what there is, and the threads */
    void (*check)(void);  /* when nobody can go on, and all that must end have ended; or NULL */
    int preemptions;      /* how many there may be; of each, in one execution */
    int delays;           /* reads that miss what was stored before */
    int timeouts;         /* deadlines that pass */
};

/* Runs them all; what main returns. `twin`: the name of the bug that one must find, or NULL. */
int model_main(const struct scenario *scenarios, size_t count, const char *twin);

#ifdef MODEL_TWIN
#define MODEL_MAIN(scenarios)                                                              \
    int main(void)                                                                         \
    {                                                                                      \
        return model_main(scenarios, sizeof(scenarios) / sizeof *(scenarios), MODEL_TWIN); \
    }
#else
#define MODEL_MAIN(scenarios)                                                        \
    int main(void)                                                                   \
    {                                                                                \
        return model_main(scenarios, sizeof(scenarios) / sizeof *(scenarios), NULL); \
    }
#endif

/* A new thread; also while others run. `must_end`: if it does not, that is a failure. */
void model_thread(const char *name, void (*function)(void *), void *arg, bool must_end);

#define MODEL_CHECK(condition) \
    ((condition) ? (void)0 : model_fail("%s:%d: %s does not hold", __FILE__, __LINE__, #condition))
_Noreturn void model_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For the modelled system. */

/* A point with nothing to it, for what is no atomic: it shows in the schedule. All stores of the caller
 * have arrived after it. */
void model_call(const char *what, const void *about);
/* Blocks until model_wake for the same key; true: the deadline passed instead. */
bool model_wait(const char *what, const void *key, bool deadline);
void model_wake(const char *what, const void *key, int count);
/* Blocks until the word is `value`. */
void model_wait_word(const void *address, uint32_t value);
/* Blocks until that is so, as it is in memory. For what is of the scenario, not of
 * weft. */
void model_wait_until(bool (*until)(void));
/* All stores of all threads have arrived. */
void model_barrier_all(void);
/* While it is calm nothing is chosen: for what only leads to the state that a scenario is about. */
void model_calm(bool calm);
/* One of so many, all of which are tried. */
int model_choose(int count);
/* Memory that is part of the world; never given twice. */
void *model_alloc(size_t size);
void model_free(void *memory);
/* A name for an address, in schedules. */
void model_name(const void *address, const char *name);
/* Machines that are made from here on must end: see model_thread. */
extern bool model_machines_end;
/* The number of the calling thread, from 0. */
int model_self(void);

#endif
