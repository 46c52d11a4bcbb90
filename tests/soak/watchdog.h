/*
 * watchdog.h: aborts the soak when nothing goes on any more, and says what is known.
 */
#ifndef WEFT_SOAK_WATCHDOG_H
#define WEFT_SOAK_WATCHDOG_H

#include "soak.h"

void watchdog_start(const struct actor *actors, int count);
void watchdog_stop(void);

#endif
