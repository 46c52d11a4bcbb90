/*
 * context.h: what groups and pools need of contexts.
 */
#ifndef WEFT_SYNC_CONTEXT_H
#define WEFT_SYNC_CONTEXT_H

#include <weft/context.h>

#include "sched/core/cancel.h"

/* Takes a reference. */
void weft__context_hold(weft_context *context);
/* Drops a reference; the last one frees the context. */
void weft__context_drop(weft_context *context);

/* Makes `owner` part of a context that was just opened. `cancelled(owner)` is called once by the
 * cancellation, after the reason is set, unless the context was cancelled before this call.
 * `freed(owner)` is called when the last reference to the context is gone: until then a
 * cancellation may be on its way to the owner. */
void weft__context_own(weft_context *context, void *owner, void (*cancelled)(void *owner),
                       void (*freed)(void *owner));

/* Cancels a context with the error of another one: -ECANCELED or -ETIMEDOUT. */
void weft__context_cancel(weft_context *context, int error);

/* Sets the deadline of a context that was opened with a timeout and has no children. */
void weft__context_expire_at(weft_context *context, int64_t deadline);

#endif
