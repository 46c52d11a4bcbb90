/*
 * fault.h: faults of the running code, and what can be done then. Rules of all calls: os/os.h.
 *
 * Handled are SIGSEGV, SIGBUS, SIGFPE and SIGILL that the CPU raised. One that was sent (kill,
 * raise) is no fault: it does what it would do without weft.
 */
#ifndef WEFT_OS_FAULT_H
#define WEFT_OS_FAULT_H

#include <stdbool.h>

struct weft__os_fault {
    const char *name, *reason; /* of the signal; why it was raised */
    void *address;             /* that was accessed; or of the instruction that failed */
    bool has_address;          /* the CPU said which */
    bool others;   /* the program, or a sanitizer, has a handler of its own, which may repair it */
    void *pc, *sp; /* of the code that faulted */
    void *context; /* ucontext_t: where the kernel saved the registers */
};

enum weft__os_verdict {
    FAULT_UNKNOWN,  /* not weft's business: the action that was there before gets the signal */
    FAULT_REPORTED, /* a report is written: the process dies as it would have without weft */
    FAULT_GOES_ON,  /* the thread goes on where weft__os_fault_go says */
};

/* Has the handler called for each fault, in signal context, on the fault stack of its thread. Notes
 * the actions that were there. */
typedef enum weft__os_verdict (*weft__os_fault_handler)(struct weft__os_fault *fault);
int weft__os_fault_install(weft__os_fault_handler handler);

/* Puts the noted actions back. Where the program has installed another since, that may call ours:
 * both stay, and ours does what the noted action does. */
void weft__os_fault_remove(void);

/* Whether our action for the signal is installed. */
bool weft__os_fault_handles(int signal);

/* The fault stack of the calling thread, which is needed where the fault is that of its stack. A
 * thread without one runs the handler on the stack that it has. [OS_ALLOC] */
int weft__os_fault_stack_enter(void **stack);
void weft__os_fault_stack_leave(void *stack);

/* In the handler, of a fault on a thread that runs fibers: lets the thread go on by a call of the
 * function on the stack that ends at `stack`, with the signal mask of such threads. What it did
 * before is forgotten. The function does not return. The handler then returns FAULT_GOES_ON. */
void weft__os_fault_go(struct weft__os_fault *fault, void *stack, void (*function)(void));

/* In the handler: stores the code addresses of the call chain from the instruction that failed on:
 * how many. It reads what the fault may have destroyed, so it may fault itself: see
 * weft__os_try. */
int weft__os_fault_backtrace(struct weft__os_fault *fault, void **frames, int most);

/* Calls function(arg), which may fault: false if it did, and it was left at that point. Also false,
 * without a call, if another thread has been in here for a second. A fault ends the process as ever
 * while no handler is installed. */
bool weft__os_try(void (*function)(void *), void *arg);

#endif
