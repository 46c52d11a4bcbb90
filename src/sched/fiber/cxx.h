/*
 * cxx.h: the state that C++ keeps for each thread: see cxx.c.
 */
#ifndef WEFT_SCHED_FIBER_CXX_H
#define WEFT_SCHED_FIBER_CXX_H

/* What C++ keeps for each thread, as its ABI says: exceptions that are being caught, and how
 * many are on their way. It is the fiber's: see switch.h. */
struct cxx_state {
    void *caught;
    unsigned int uncaught;
};

/* The calling thread's; for thread.cxx. */
struct cxx_state *weft__cxx_state(void);

#endif
