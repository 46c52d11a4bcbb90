/*
 * steal.h: how a processor without fibers gets some from a busy one: see steal.c.
 */
#ifndef WEFT_SCHED_CORE_STEAL_H
#define WEFT_SCHED_CORE_STEAL_H

#define CLAIM_AFTER (10 * WEFT_US) /* in one turn, with fibers waiting: then it is claimed */

struct machine;
struct processor;
struct thread;
struct weft_fiber;

/* Searches for a fiber: in the inject queue, on timers that are due, on other processors. Gives up
 * after 20 us, or later if fibers or a timer are about to come, and returns NULL. The machine
 * counts as spinning. */
struct weft_fiber *weft__steal(struct machine *machine);
/* Claims a processor whose machine is outside the runtime: its private state is the caller's until
 * weft__claim_end. Returns the owner, or NULL if it is inside, already claimed, or has lost the
 * processor. */
struct thread *weft__claim(struct processor *victim);
void weft__claim_end(struct thread *owner);
/* Enters the runtime for a fiber that has crashed: waits until a claim of the processor ends, and
 * leaves all other requests to weft__handle_requests. */
void weft__enter_crashed(struct thread *thread);

/* Inside the runtime: serves the requests that other threads have set on this one. Returns the
 * record of the thread on which the caller continues: a different one if the processor was gone and
 * no other was idle. */
struct thread *weft__handle_requests(struct thread *thread);

#endif
