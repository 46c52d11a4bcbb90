/*
 * explore.h: a model checker for weft's protocols: runs the real code in every order that matters.
 *
 * A model is a program of weft's own sources, compiled against the atomic.h in tests/model/swap, of
 * the modelled system in system.c, and of scenarios: a few threads, and checks. The threads are
 * contexts on weft's own switch, all in one OS thread. Before each atomic operation, and at system
 * calls, a thread is at a point; there the search decides which thread runs next:
 *
 *  - Depth first, from the beginning each time: an execution is the list of its choices, and the
 *    next one is the same up to the last choice that has an alternative. The world (the data of the
 *    program, and allocated memory) is restored before each execution.
 *  - Bounded: a scenario limits preemptions (switches away from a thread that could continue);
 *    switches where a thread blocks or ends are free. Bugs need few preemptions; their number
 *    decides the cost.
 *  - The search does not continue from a state that it has seen with at least as much of the bounds
 *    left. The state is a hash of 64 bits of the whole world and of all threads: weft's switch
 *    leaves everything that is live on the stack, so the bytes above the stack pointer are
 *    complete. (Dead bytes among them make equal states look different, which costs time and hides
 *    nothing. While a machine runs a fiber the machine's own stack is not hashed: no later choice
 *    depends on it. Two different states with one hash would hide a failure: with a million states
 *    the odds are one in ten million.)
 *
 * Store buffers. A relaxed or release store stays in a buffer of its thread, where only that thread
 * sees it. When another thread reads the place, the store has arrived or not; each such delay
 * counts against a bound. A release store arrives after all earlier stores, a relaxed one in any
 * order except with those to its own place. Everything has arrived after a read-modify-write with
 * release, acq_rel or seq_cst of that thread, after a system call of it, and after a membarrier of
 * any thread. A relaxed or acquire read-modify-write goes to memory and leaves the buffer as it is.
 * That is weaker than x86-64 (which keeps stores in order, and where each read-modify-write empties
 * the buffer) and stronger than C11 and aarch64.
 *
 * Not covered: loads that execute early, and so the effect of an acquire; plain memory, whose
 * stores are visible at once (ThreadSanitizer finds a missing release between two plain stores);
 * failures that need more threads, preemptions or delays than the scenario has; time, except for
 * deadlines that pass or not, as the search chooses; a loop that continues forever through states
 * seen before.
 *
 * A failure is a failed CHECK of a scenario, a failed assertion of weft, an access to freed memory,
 * a crash, or a state in which no thread can run although one has not ended. The schedule is
 * printed.
 *
 * Twins. A check that never failed guards nothing: so each model is also built with a bug in weft's
 * source (tests/model/CMakeLists.txt), and there the search must fail.
 */
#ifndef WEFT_MODEL_EXPLORE_H
#define WEFT_MODEL_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scenario {
    const char *name;
    void (*set_up)(void); /* creates the objects and the threads */
    void (*check)(void);  /* when no thread can run and those that must end have; or NULL */
    int preemptions;      /* bounds of one execution: preemptions, */
    int delays;           /* reads that miss an earlier store, */
    int timeouts;         /* deadlines that pass */
};

/* Runs all scenarios; returns the exit code. `twin`: the name of the bug that one must find, or
 * NULL. */
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

/* Creates a thread, also while others run. `must_end`: it is a failure if the thread does not
 * end. */
void model_thread(const char *name, void (*function)(void *), void *arg, bool must_end);

#define MODEL_CHECK(condition) \
    ((condition) ? (void)0 : model_fail("%s:%d: %s does not hold", __FILE__, __LINE__, #condition))
_Noreturn void model_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For the modelled system. */

/* A point for an operation that is not atomic, shown in the schedule. All stores of the caller have
 * arrived after it. */
void model_call(const char *what, const void *about);
/* Blocks until model_wake with the same key; true: the deadline passed instead. */
bool model_wait(const char *what, const void *key, int64_t deadline);
#define MODEL_NO_DEADLINE INT64_MAX
/* The earliest deadline of the waits that threads are in. */
int64_t model_next_deadline(void);
void model_wake(const char *what, const void *key, int count);
/* Blocks until the word is `value`. */
void model_wait_word(const void *address, uint32_t value);
/* Blocks until the condition holds in memory. For scenarios, not for weft. */
void model_wait_until(bool (*until)(void));
/* All stores of all threads arrive. */
void model_barrier_all(void);
/* While calm the search makes no choices: for the steps that lead to the state under test. */
void model_calm(bool calm);
/* A choice among `count`, all of which are tried. */
int model_choose(int count);
/* Memory that is part of the world and never reused. */
void *model_alloc(size_t size);
void model_free(void *memory);
/* A name for an address, in schedules. */
void model_name(const void *address, const char *name);
/* Machines created from here on must end: see model_thread. */
extern bool model_machines_end;
/* The number of the calling thread, from 0. */
int model_self(void);

#endif
