/*
 * text.h: a text built piece by piece in memory of the caller's, and written to stderr at once.
 *
 * For reports of a process that is about to die, in signal handlers too: it allocates nothing and
 * takes no lock. What does not fit is cut off.
 */
#ifndef WEFT_OS_TEXT_H
#define WEFT_OS_TEXT_H

#include <stddef.h>

#include "base/compiler.h"

struct text {
    char *bytes;
    size_t size, used;
};

/* Adds what printf would write. Without floating point, whose conversion may allocate. */
void weft__text_add(struct text *text, const char *format, ...) printf_like(2, 3);
/* Adds a line: the words, then a code address, with the name of its function if that is known. */
void weft__text_add_code(struct text *text, const char *words, const void *address);
/* Writes the text to stderr in one write, and empties it. */
void weft__text_write(struct text *text);

#endif
