/*
 * handoff.h: a processor leaves a machine that is stuck in C code, and the way back: see handoff.c.
 */
#ifndef WEFT_SCHED_CORE_HANDOFF_H
#define WEFT_SCHED_CORE_HANDOFF_H

#include <stdint.h>

struct processor;
struct thread;
struct weft_fiber;

/* Takes a processor away from a machine that is outside the runtime and still in that turn, for
 * another machine. */
enum retaken { RETAKEN, NOT_STUCK, NO_MACHINE };
enum retaken weft__retake(struct processor *processor, uint32_t turn);
/* In a thread that came into the runtime and finds that its processor is gone: as weft__handle_requests. */
struct thread *weft__processor_gone(struct thread *thread);
/* Puts a fiber that came back without a processor into the inject queue. */
void weft__lost_queue(struct weft_fiber *fiber);
/* The fiber will not come back to the runtime: it does not count as lost. */
void weft__lost_no_more(struct weft_fiber *fiber);
/* How many calls of weft_blocking_enter the caller has not undone; and to undo those beyond
 * `to`, which a panic has left. */
uint32_t weft__blocking_depth(void);
void weft__blocking_unwind(uint32_t to);

#endif
