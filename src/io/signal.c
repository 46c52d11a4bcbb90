/*
 * signal.c: signals as channels: weft/signal.h.
 *
 * The signal handler writes the number of the signal, a byte, into a pipe. A fiber, the forwarder,
 * reads the pipe and sends each number to the channels of the handles that have it open. The
 * forwarder and its pipe exist while any signal is open:
 *
 *     first open    makes a pipe and a forwarder; handlers write into the pipe
 *     last close    removes the handlers, and tells the forwarder to end: it sets `ending` and
 *                   writes a byte 0 to wake the forwarder (if the pipe is full, the forwarder is
 *                   awake). The forwarder closes the pipe. Without memory for the byte, the writing
 *                   end is closed, which alone would not be enough: a forked child may have it open
 *                   too.
 *
 * A later open makes a new pipe and a new forwarder, whether or not the old one has ended.
 *
 * A handler may be anywhere between reading the descriptor and writing to it when the last handle
 * closes on another thread. So handlers count themselves, and the close waits until none is
 * running:
 *
 *     handler   running + 1; fd = pipe; if there is one: write; running - 1
 *     close     pipe = none; wait until running = 0
 *
 * All seq_cst: the handler sees that there is no pipe, or the close sees that the handler runs. The
 * handler never waits (the pipe is non-blocking: if it is full, that arrival is dropped), so the
 * close waits for microseconds. A handler that interrupts the closing thread itself is over when
 * that thread goes on.
 *
 * Numbers that an ending forwarder reads are dropped: no handle has them open.
 *
 * Fork. The child inherits the handlers and the pipe, but the pipe is the parent's. The handler
 * compares the process; in the child it puts the former action back and raises the signal again.
 *
 * Rejected: signalfd (the signals would have to be blocked in all threads, also those that weft
 * does not know); a fiber per handle (a signal to n channels is one wake-up this way).
 *
 * Lock order: `mutex`, then the latch of a channel. The mutex is a weft_mutex: under it the runtime
 * is entered, where a fiber may have to wait for a processor.
 */
#include <errno.h>
#include <weft/fiber.h>
#include <weft/mutex.h>
#include <weft/pipe.h>
#include <weft/signal.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "os/os.h"
#include "sched/runtime/runtime.h"

enum { BATCH = 64, WORDS = (OS_SIGNALS_MOST + 63) / 64 };

struct weft_signal {
    struct weft_signal *next, **link;
    weft_chan *chan;
    uint64_t numbers[WORDS]; /* a bit for each signal */
};

struct forwarder {
    int ends[2];
    bool ending; /* under the mutex; after its last release the forwarder frees this struct */
};

static struct {
    weft_mutex mutex;
    struct weft_signal *first;
    uint32_t users[OS_SIGNALS_MOST]; /* handles that have it open */
    struct forwarder *forwarder;

    /* For the handler. */
    atomic_i64 pipe;    /* descriptor + 1; 0: none */
    atomic_i64 owner;   /* the process */
    atomic_u32 running; /* handlers at work */
} signals;

static bool has(const struct weft_signal *signal, int number)
{
    return signal->numbers[number / 64] >> (number % 64) & 1;
}

static void handler(int number)
{
    /* seq_cst: see the opening comment. */
    atomic_u32_add_seq_cst(&signals.running, 1);
    int64_t pipe = atomic_i64_load_seq_cst(&signals.pipe);
    if (atomic_i64_load_relaxed(&signals.owner) != weft__os_getpid()) {
        weft__os_signal_as_before(number);
    } else if (pipe != 0) {
        unsigned char byte = (unsigned char)number;
        /* If the pipe is full, or without memory, this arrival is dropped. */
        (void)weft__os_fd_write((int)pipe - 1, &byte, 1);
    }
    atomic_u32_sub_seq_cst(&signals.running, 1);
}

/* The forwarder. */

static void forward(int number)
{
    for (struct weft_signal *signal = signals.first; signal != NULL; signal = signal->next)
        if (has(signal, number)) {
            int full = weft_chan_try_send(signal->chan, &number);
            (void)full; /* if so, this arrival is dropped */
        }
}

static void forwarder_main(void *arg)
{
    struct forwarder *forwarder = arg;
    unsigned char numbers[BATCH];
    bool ends = false;
    while (!ends) {
        ssize_t count = weft_pipe_read(forwarder->ends[0], numbers, BATCH, WEFT_NEVER);
        if (count < 0)
            (void)weft_sleep(WEFT_MS); /* no memory for a wait: look again later */
        weft_mutex_lock(&signals.mutex);
        ends = forwarder->ending;
        for (ssize_t i = 0; i < count && !ends; i++) {
            should(numbers[i] != 0); /* the byte 0 is written only with `ending` set */
            forward(numbers[i]);
        }
        weft_mutex_unlock(&signals.mutex);
    }
    weft__os_close(forwarder->ends[0]);
    if (forwarder->ends[1] >= 0)
        weft__os_close(forwarder->ends[1]);
    weft__os_free(forwarder);
}

/* Starts a forwarder, if there is none. Under the mutex. */
static int start_forwarder(void)
{
    if (signals.forwarder != NULL)
        return 0;
    struct forwarder *forwarder = weft__os_alloc_zeroed(sizeof *forwarder);
    if (forwarder == NULL)
        return -ENOMEM;
    int error = weft_pipe_make(forwarder->ends);
    if (error == 0) {
        error = weft_go(forwarder_main, forwarder);
        if (error != 0) {
            weft__os_close(forwarder->ends[0]);
            weft__os_close(forwarder->ends[1]);
        }
    }
    if (error != 0) {
        weft__os_free(forwarder);
        return error;
    }
    signals.forwarder = forwarder;
    atomic_i64_store_relaxed(&signals.owner, weft__os_getpid());
    atomic_i64_exchange_seq_cst(&signals.pipe, forwarder->ends[1] + 1);
    return 0;
}

/* Tells the forwarder to end. Under the mutex, while no signal is caught. */
static void stop_forwarder(void)
{
    static const unsigned char end = 0;
    struct forwarder *forwarder = signals.forwarder;
    signals.forwarder = NULL;
    atomic_i64_exchange_seq_cst(&signals.pipe, 0);
    while (atomic_u32_load_seq_cst(&signals.running) != 0)
        weft__os_yield();
    ssize_t put = weft__os_fd_write(forwarder->ends[1], &end, 1);
    if (put < 0 && put != -EAGAIN) { /* without memory: the end of the pipe wakes it */
        weft__os_close(forwarder->ends[1]);
        forwarder->ends[1] = -1;
    }
    forwarder->ending = true;
}

/* Handles. Under the mutex. */

static void release(struct weft_signal *signal)
{
    for (int number = 1; number < OS_SIGNALS_MOST; number++)
        if (has(signal, number) && --signals.users[number] == 0)
            weft__os_signal_restore(number, handler);
}

/* Catches all of its signals, or none. */
static int catch_all(struct weft_signal *signal)
{
    struct weft_signal caught = {.next = NULL};
    for (int number = 1; number < OS_SIGNALS_MOST; number++) {
        if (!has(signal, number))
            continue;
        int error = signals.users[number] == 0 ? weft__os_signal_catch(number, handler) : 0;
        if (error != 0) {
            release(&caught);
            return error;
        }
        signals.users[number]++;
        caught.numbers[number / 64] |= (uint64_t)1 << (number % 64);
    }
    return 0;
}

static int enlist(struct weft_signal *signal)
{
    weft_mutex_lock(&signals.mutex);
    int error = start_forwarder();
    if (error == 0)
        error = catch_all(signal);
    if (error == 0) {
        signal->next = signals.first;
        signal->link = &signals.first;
        if (signal->next != NULL)
            signal->next->link = &signal->next;
        signals.first = signal;
    } else if (signals.forwarder != NULL && signals.first == NULL) {
        stop_forwarder();
    }
    weft_mutex_unlock(&signals.mutex);
    return error;
}

int weft_signal_open(weft_signal **out, const int *numbers, size_t count, size_t capacity)
{
    if (out == NULL || numbers == NULL || count == 0)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    struct weft_signal *signal = weft__os_alloc_zeroed(sizeof *signal);
    if (signal == NULL)
        return -ENOMEM;
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++)
        if (weft__os_signal_allowed(numbers[i]))
            signal->numbers[numbers[i] / 64] |= (uint64_t)1 << (numbers[i] % 64);
        else
            error = -EINVAL;
    if (error == 0)
        error = weft_chan_make(&signal->chan, sizeof(int), capacity > 0 ? capacity : 1);
    if (error == 0)
        error = enlist(signal);
    if (error != 0) {
        weft_chan_destroy(signal->chan);
        weft__os_free(signal);
        return error;
    }
    *out = signal;
    return 0;
}

weft_chan *weft_signal_chan(weft_signal *signal)
{
    return signal != NULL ? signal->chan : NULL;
}

int weft_signal_close(weft_signal *signal)
{
    if (signal == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    weft_mutex_lock(&signals.mutex);
    *signal->link = signal->next;
    if (signal->next != NULL)
        signal->next->link = signal->link;
    release(signal);
    if (signals.first == NULL)
        stop_forwarder();
    weft_mutex_unlock(&signals.mutex);
    weft_chan_destroy(signal->chan);
    weft__os_free(signal);
    return 0;
}
