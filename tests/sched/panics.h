/*
 * panics.h: a panic with a text, and clean-ups that note that they ran.
 */
#ifndef WEFT_TEST_PANICS_H
#define WEFT_TEST_PANICS_H

#include "fibers.h"

#define TEXT(text) ((void *)(uintptr_t)(text)) /* as an argument */

/* The notes, in order. */
static struct {
    char text[256];
} journal;

static inline void note(void *text)
{
    strncat(journal.text, text, sizeof journal.text - strlen(journal.text) - 1);
}

static inline const char *noted(void)
{
    static char text[sizeof journal.text];
    memcpy(text, journal.text, sizeof text);
    journal.text[0] = '\0';
    return text;
}

static inline void panic_with(void *text)
{
    weft_panic("%s", (const char *)text);
}

/* A clean-up that parks during a panic; it may go on on another thread. */
static inline void wait_long(void *arg)
{
    CHECK_EQ(weft_panicking(), 1);
    for (int i = 0; i < 20; i++) {
        weft_yield();
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    }
    CHECK_EQ(weft_panicking(), 1);
    note(TEXT("w"));
}

static inline void panic_and_wait(void *arg)
{
    WEFT_DEFER(note, TEXT("x"));
    WEFT_DEFER(wait_long, NULL);
    panic_with(arg);
}

#endif
