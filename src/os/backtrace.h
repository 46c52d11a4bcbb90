/*
 * backtrace.h: call chains, what a code address is called, and whose it is. Rules of all calls:
 * os/os.h.
 *
 * For reports. All allocate nothing; that they work in signal handlers is likely and not certain,
 * since they ask the dynamic linker and the unwinder.
 */
#ifndef WEFT_OS_BACKTRACE_H
#define WEFT_OS_BACKTRACE_H

#include <stdbool.h>
#include <stddef.h>

/* Stores the code addresses of the call chain, the caller's own first: how many, `most` at most. */
int weft__os_backtrace(void **frames, int most);

/* Writes the call chain to stderr, a line for each function; and the line of one address. */
void weft__os_print_backtrace(void);
void weft__os_print_address(void *address);

/* Writes what is known of the address into the text, such as "program(function+0x1c)[0x55d4f3a2]":
 * its length. What does not fit is cut off. */
size_t weft__os_address_text(const void *address, char *text, size_t size);

/* Whether weft's code is at the address; and libc's, false if that is part of the program's
 * file. */
bool weft__os_own_code(const void *address);
bool weft__os_libc_code(const void *address);

#endif
