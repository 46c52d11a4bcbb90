/*
 * handoff.h: a processor leaves a machine that is stuck in C code, and the way back. See
 * handoff.c.
 */
#ifndef WEFT_SCHED_CORE_HANDOFF_H
#define WEFT_SCHED_CORE_HANDOFF_H

#include <stdint.h>

struct processor;
struct thread;
struct weft_fiber;

/* Takes a processor from a machine that is outside the runtime and still in `turn`, and assigns it
 * to another machine. NOT_STUCK: the machine is inside, or in a later turn. NO_MACHINE: none could
 * be had; nothing has changed. */
enum retaken { RETAKEN, NOT_STUCK, NO_MACHINE };
enum retaken weft__retake(struct processor *processor, uint32_t turn);
/* Called by a thread that has entered the runtime and finds that its processor is gone. Returns the
 * record of the thread on which the caller continues, as weft__handle_requests does. */
struct thread *weft__processor_gone(struct thread *thread);
/* Puts a fiber that came back without a processor into the inject queue. */
void weft__lost_queue(struct weft_fiber *fiber);
/* Stops counting the fiber as lost: it will not come back to the runtime. */
void weft__lost_no_more(struct weft_fiber *fiber);
/* The number of calls of weft_blocking_enter that the calling fiber has not undone. */
uint32_t weft__blocking_depth(void);
/* Undoes those beyond the first `to`, which a panic has left. */
void weft__blocking_unwind(uint32_t to);

#endif
