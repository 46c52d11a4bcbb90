/*
 * ledger.h: the books of the soak: each task, message, timer and event is entered and booked out
 * once.
 *
 * The code that creates one enters it and gets an id, which travels with it. The code that runs it,
 * receives it, drops it or gets an error for it books the id out. When everything has drained the
 * books are balanced: an id that was booked out twice, in two ways, or not at all is reported, with
 * the place that entered it and how often it was booked out in each way.
 *
 * The memory is allocated at the start and does not grow, so that it does not hide growth
 * elsewhere.
 */
#ifndef WEFT_SOAK_LEDGER_H
#define WEFT_SOAK_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum book { BOOK_TASKS, BOOK_MESSAGES, BOOK_TIMERS, BOOK_EVENTS, BOOKS };

/* How an id was booked out: it happened; it was dropped by the rules (dropped, cancelled, stopped);
 * it was refused (an error was returned). */
enum outcome { HAPPENED, DROPPED, REFUSED, OUTCOMES };

struct ledger_sums {
    uint64_t entered, booked_out[OUTCOMES];
};

void ledger_begin(void);
/* False: a book is nearly full, and no more rounds may begin in this phase. */
bool ledger_room(void);
/* `what` is constant text. */
uint64_t ledger_enter(enum book book, const char *what);
void ledger_book_out(uint64_t id, enum outcome outcome);
bool ledger_is_booked_out(uint64_t id);
/* How much was entered and booked out since the process began, for the watchdog. */
uint64_t ledger_progress(void);

/* The sums of the phase. */
struct ledger_sums ledger_sums(enum book book);
const char *ledger_name(enum book book);
/* Prints up to `most` ids of the phase that are not booked out exactly once; returns their
 * number. */
uint64_t ledger_report(unsigned most);
/* Begins a phase. Nothing of the last one is in progress. */
void ledger_clear(void);

#endif
