/*
 * steal.h: how a processor without fibers gets some from a busy one: see steal.c.
 */
#ifndef WEFT_SCHED_CORE_STEAL_H
#define WEFT_SCHED_CORE_STEAL_H

#define CLAIM_AFTER (10 * WEFT_US) /* for one who does not answer; then it is claimed */

struct machine;
struct processor;
struct thread;
struct weft_fiber;

struct weft_fiber *weft__steal(struct machine *machine);
/* Claims a processor whose machine is outside the runtime: its private state is the caller's until
 * weft__claim_end. Returns the owner, or NULL. */
struct thread *weft__claim(struct processor *victim);
void weft__claim_end(struct thread *owner);
/* Enters the runtime in the place of a fiber that does not: waits for who has claimed the
 * processor, and leaves everything else that is asked for to weft__handle_requests. */
void weft__enter_crashed(struct thread *thread);

/* Does what others ask for. Returns the record of the thread on which the caller goes on:
 * another one if the processor was gone and none idle. */
struct thread *weft__handle_requests(struct thread *thread);

#endif
