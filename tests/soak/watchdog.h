/*
 * watchdog.h: aborts the soak when it makes no progress, with a report.
 */
#ifndef WEFT_SOAK_WATCHDOG_H
#define WEFT_SOAK_WATCHDOG_H

#include "soak.h"

void watchdog_start(const struct actor *actors, int count);
void watchdog_stop(void);

#endif
