/*
 * crash_output.c: what is said on stderr if the process dies meanwhile: by abort, an illegal instruction or an
 * arithmetic fault, through a sanitizer, or by exit.
 *
 * Signals: the actions that were there before are put back when there is nothing to be said any more, or when
 * something was: then the signal comes again, to whom it would have come. (Where fault_signal.c handles a signal, that
 * has these words said.)
 * A handler of exit cannot be taken back; it is registered once, and has nothing to say most of the time.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/linux/seam.h"
#include "os/os_fault.h"

static const int signals[] = {SIGABRT, SIGILL, SIGFPE};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static struct sigaction before[SIGNALS];
static atomic_ptr words;
static size_t words_size; /* written before `words` */
static pid_t process;     /* a forked child has nothing to say */

/* Only where the program is built with a sanitizer. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

void weft__os_last_words_now(void)
{
    /* Once. Pairs with the release below. */
    const char *text = atomic_ptr_exchange_acq_rel(&words, NULL);
    if (text != NULL && getpid() == process)
        weft__os_write_stderr(text, words_size);
}

static void on_signal(int signal);

/* But for one whose action is another's by now. */
static void put_back(void)
{
    struct sigaction now;
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == on_signal)
            sigaction(signals[i], &before[i], NULL);
}

static void say_and_die(int signal)
{
    weft__os_last_words_now();
    put_back();
    raise(signal); /* comes when the handler has returned */
}

UNCOUNTED static void on_signal(int signal)
{
    say_and_die(signal);
    weft__os_save_coverage();
}

static void register_exit(void)
{
    static bool registered;
    if (!registered)
        registered = atexit(weft__os_last_words_now) == 0;
}

void weft__os_last_words(const char *text, size_t size)
{
    KEEP_ERRNO;
    if (text == NULL) {
        atomic_ptr_store_release(&words, NULL);
        put_back();
    } else {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
        sigemptyset(&action.sa_mask);
        process = getpid();
        words_size = size;
        /* Pairs with the exchange above. */
        atomic_ptr_store_release(&words, (void *)(uintptr_t)text);
        register_exit();
        for (int i = 0; i < SIGNALS; i++)
            if (!weft__os_fault_handles(signals[i]))
                sigaction(signals[i], &action, &before[i]);
    }
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(text != NULL ? weft__os_last_words_now : NULL);
}
