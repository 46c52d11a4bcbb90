/*
 * mutex_watch.h: which pthread mutexes the program locks (debug builds). Rules of all calls:
 * os/os.h.
 */
#ifndef WEFT_OS_MUTEX_WATCH_H
#define WEFT_OS_MUTEX_WATCH_H

/* Has the function called after each lock (change 1) and each unlock (-1) of a pthread mutex by the
 * program, in the thread that did it, with the address of the call. NULL ends that. Without effect
 * in release builds, with sanitizers, and for programs that link the shared library. */
void weft__os_mutex_listen(void (*function)(void *mutex, int change, void *site));

#endif
