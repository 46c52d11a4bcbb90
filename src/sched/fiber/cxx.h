/*
 * cxx.h: what the C++ runtime keeps for each thread, and weft for each fiber: see cxx.c.
 */
#ifndef WEFT_SCHED_FIBER_CXX_H
#define WEFT_SCHED_FIBER_CXX_H

/* What the ABI of C++ keeps for each thread: the exceptions that are being caught, and the number
 * of those in flight. It belongs to the fiber: a switch saves and restores it (switch.h). */
struct cxx_state {
    void *caught;
    unsigned int uncaught;
};

/* Address of the state of the calling thread, for thread.cxx. Never NULL: without C++ it is a
 * constant that is always zero. */
struct cxx_state *weft__cxx_state(void);

#endif
