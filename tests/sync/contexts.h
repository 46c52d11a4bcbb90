/*
 * contexts.h: for tests of contexts: makes contexts, with and without a timeout.
 */
#ifndef WEFT_TEST_CONTEXTS_H
#define WEFT_TEST_CONTEXTS_H

#include <weft/weft.h>

#include "test.h"

static inline weft_context *make_timed(weft_context *parent, int64_t timeout)
{
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, parent, &(weft_context_options){.timeout = timeout}), 0);
    return context;
}

static inline weft_context *make(weft_context *parent)
{
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, parent, NULL), 0);
    return context;
}

#endif
