/*
 * line.h: a FIFO list that any member may leave: submitters that wait, idle workers.
 *
 * The links are part of the members. All calls are made under the lock of the line's owner.
 */
#ifndef WEFT_BASE_LINE_H
#define WEFT_BASE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

struct link {
    struct link *next, *previous;
};

struct line {
    struct link *first, *last;
    int64_t length;
};

static inline void line_add(struct line *line, struct link *link)
{
    link->next = NULL;
    link->previous = line->last;
    if (line->last != NULL)
        line->last->next = link;
    else
        line->first = link;
    line->last = link;
    line->length++;
}

static inline void line_add_first(struct line *line, struct link *link)
{
    link->previous = NULL;
    link->next = line->first;
    if (line->first != NULL)
        line->first->previous = link;
    else
        line->last = link;
    line->first = link;
    line->length++;
}

/* Leaves the line, in which it stands. */
static inline void line_leave(struct line *line, struct link *link)
{
    should(link->previous != NULL || line->first == link);
    should(link->next != NULL || line->last == link);
    if (link->previous != NULL)
        link->previous->next = link->next;
    else
        line->first = link->next;
    if (link->next != NULL)
        link->next->previous = link->previous;
    else
        line->last = link->previous;
    line->length--;
}

#endif
