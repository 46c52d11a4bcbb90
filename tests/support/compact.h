/*
 * compact.h: compact fibers for tests, and frames that check their content.
 */
#ifndef WEFT_TEST_COMPACT_H
#define WEFT_TEST_COMPACT_H

#include <string.h>
#include <weft/weft.h>

#include "base/compiler.h"
#include "test.h"

enum { COMPACT_FRAME = 64 };

/* Calls function(arg) below `depth` frames of more than COMPACT_FRAME bytes, whose content it
 * checks afterwards. */
static noinline __attribute__((unused)) void compact_below(int depth, unsigned char mark,
                                                           void (*function)(void *), void *arg)
{
    volatile unsigned char frame[COMPACT_FRAME];
    volatile unsigned char *at = frame;
    for (int i = 0; i < COMPACT_FRAME; i++)
        frame[i] = (unsigned char)(mark + depth + i);
    if (depth > 0)
        compact_below(depth - 1, mark, function, arg);
    else
        function(arg);
    CHECK(at == frame);
    for (int i = 0; i < COMPACT_FRAME; i++)
        CHECK_EQ(frame[i], (unsigned char)(mark + depth + i));
}

static inline weft_fiber *compact_spawn(void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, arg, &(weft_spawn_options){.compact = 1}), 0);
    return fiber;
}

static inline void compact_go(void (*function)(void *), void *arg)
{
    CHECK_EQ(weft_spawn(NULL, function, arg, &(weft_spawn_options){.compact = 1}), 0);
}

#endif
