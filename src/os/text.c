/*
 * text.c: a text built piece by piece: os/text.h.
 */
#include "os/text.h"

#include <stdarg.h>
#include <stdio.h>

#include "os/os.h"

void weft__text_add(struct text *text, const char *format, ...)
{
    size_t room = text->size - text->used;
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(text->bytes + text->used, room, format, args);
    va_end(args);
    if (wanted > 0)
        text->used += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

void weft__text_add_code(struct text *text, const char *words, const void *address)
{
    weft__text_add(text, "%s", words);
    text->used += weft__os_address_text(address, text->bytes + text->used, text->size - text->used);
    weft__text_add(text, "\n");
}

void weft__text_write(struct text *text)
{
    weft__os_write_stderr(text->bytes, text->used);
    text->used = 0;
}
