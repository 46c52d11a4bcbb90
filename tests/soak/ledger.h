/*
 * ledger.h: the books of the soak: each task, message, timer and event is entered once and settled once.
 *
 * Who makes one enters it and gets an id, which travels with it. Whoever runs it, receives it, drops it or is
 * refused it settles the id. When all is drained the books are balanced: an id that was settled twice, in
 * two ways, or not at all is named, with who entered it and how often which way it was settled.
 *
 * The memory is there from the start and does not grow, so that it does not hide growth elsewhere.
 */
#ifndef WEFT_SOAK_LEDGER_H
#define WEFT_SOAK_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum book { BOOK_TASKS, BOOK_MESSAGES, BOOK_TIMERS, BOOK_EVENTS, BOOKS };

/* How an id was settled: it happened; it was let go by the rules (dropped, cancelled, stopped); it was never
 * taken (an error was returned). */
enum outcome { HAPPENED, DROPPED, REFUSED, OUTCOMES };

struct ledger_sums {
    uint64_t entered, settled[OUTCOMES];
};

void ledger_begin(void);
/* False: a book is nearly full, and no more rounds should begin in this phase. */
bool ledger_room(void);
/* `what` must be constant text. */
uint64_t ledger_enter(enum book book, const char *what);
void ledger_settle(uint64_t id, enum outcome outcome);
bool ledger_settled(uint64_t id);
/* How much was entered and settled since the process began, for those who watch that it goes on. */
uint64_t ledger_progress(void);

/* The sums of the phase. */
struct ledger_sums ledger_sums(enum book book);
const char *ledger_name(enum book book);
/* Names up to `most` ids of the phase that are not settled exactly once; how many there are. */
uint64_t ledger_report(unsigned most);
/* A new phase. Nothing of the last one is under way any more. */
void ledger_clear(void);

#endif
