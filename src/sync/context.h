/*
 * context.h: what groups need of contexts.
 */
#ifndef WEFT_SYNC_CONTEXT_H
#define WEFT_SYNC_CONTEXT_H

#include <weft/context.h>

#include "sched/cancel.h"

/* One reference more, one less. */
void weft__context_hold(weft_context *context);
void weft__context_drop(weft_context *context);

#endif
