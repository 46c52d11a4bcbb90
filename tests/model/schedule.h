/*
 * schedule.h: records the schedule of a failed execution and prints it.
 */
#ifndef WEFT_MODEL_SCHEDULE_H
#define WEFT_MODEL_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

void schedule_start(void); /* once, before anything else */
void schedule_name(const void *address, const char *name);
void schedule_begin(void); /* starts recording */
bool schedule_wanted(void);
void schedule_add(const char *thread, const char *what, const void *address, uint64_t value,
                  const void *site);
void schedule_print(void);

#endif
