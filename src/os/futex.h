/*
 * futex.h: waiting for a word in memory. Rules of all calls: os/os.h.
 */
#ifndef WEFT_OS_FUTEX_H
#define WEFT_OS_FUTEX_H

#include <stdint.h>

#include "base/atomic.h"

/* Blocks the thread while *word == expected. The comparison and the beginning of the wait are one
 * step: a change of the word followed by a wake is never missed. Returns 0 after a wake, and at
 * times for no reason; -EAGAIN if the word differs at the beginning; -ETIMEDOUT at the deadline. */
int weft__os_futex_wait(atomic_u32 *word, uint32_t expected, int64_t deadline);

/* Ends the waits of up to `count` threads for that word. The word may belong to memory that is
 * freed meanwhile: it is not read. */
void weft__os_futex_wake(atomic_u32 *word, int count);

#endif
