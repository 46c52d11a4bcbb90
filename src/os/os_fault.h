/*
 * os_fault.h: faults of the running code: who is told, and what can be done then. See fault_signal.c.
 */
#ifndef WEFT_OS_OS_FAULT_H
#define WEFT_OS_OS_FAULT_H

#include <signal.h>
#include <stdbool.h>

struct weft__os_fault {
    const char *name, *reason; /* of the signal; why it came */
    void *address;             /* that was accessed; or of the instruction that failed */
    bool has_address;          /* the CPU said which */
    bool others; /* the program, or a sanitizer, has a handler of its own, which may repair it */
    void *pc, *sp;
    void *context; /* ucontext_t: where the kernel saved the registers */
};

enum weft__os_verdict {
    FAULT_UNKNOWN,  /* nothing was said: a handler that was there before may know more */
    FAULT_REPORTED, /* the program dies of it, as it would have */
    FAULT_GOES_ON,  /* where weft__os_fault_go says */
};

/* Called in the signal handler. Installed for SIGSEGV, SIGBUS, SIGFPE and SIGILL. */
typedef enum weft__os_verdict (*weft__os_fault_handler)(struct weft__os_fault *fault);
int weft__os_fault_install(weft__os_fault_handler handler);
void weft__os_fault_remove(void);
bool weft__os_fault_handles(int signal);

/* Of a machine: the thread goes on by calling the function, on the stack that ends there, with the signal mask
 * that machines begin with. What the thread did before is forgotten; the function does not return. */
void weft__os_fault_go(struct weft__os_fault *fault, void *stack, void (*function)(void));
const sigset_t *weft__os_machine_mask(void);

/* The call chain, from the instruction that failed on; how many. It may fault itself: see weft__os_try. */
int weft__os_fault_backtrace(struct weft__os_fault *fault, void **frames, int most);

/* Calls function(arg), which may fault: false if it did, or another thread has kept this one from trying for a
 * second. Only what can be left at any point. Works while a handler is installed; else a fault is one. */
bool weft__os_try(void (*function)(void *), void *arg);

#endif
