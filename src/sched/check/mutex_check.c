/*
 * mutex_check.c: debug builds report a fiber that parks or yields while it holds a pthread mutex.
 *
 * Its thread runs other fibers then, or the fiber goes on on another thread. Either way the mutex
 * is held by the wrong thread, and a fiber that locks it meanwhile may block the very machine that
 * would have to run the holder.
 *
 * Each fiber notes which mutexes it locks (os/linux/mutex_watch.c), and where, in the order of
 * locking; a recursive mutex as often as it is locked. An unlock removes the last note of that
 * mutex. A mutex locked by a call that is not watched has no note, and its unlock removes none.
 * Mutexes beyond MUTEXES_NOTED are only counted: a note cannot be allocated, since the program's
 * own malloc may be what locks. A fiber is reported once for as long as it holds any.
 */
#include "sched/check/mutex_check.h"
#include "base/assert.h"
#include "os/os.h"
#include "os/text.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"

#ifdef WEFT_DEBUG

static void note_lock(struct weft_fiber *fiber, void *mutex, void *site)
{
    if (fiber->mutex_count == MUTEXES_NOTED) {
        fiber->mutexes_other++;
        return;
    }
    fiber->mutexes[fiber->mutex_count].mutex = mutex;
    fiber->mutexes[fiber->mutex_count++].site = site;
}

static void note_unlock(struct weft_fiber *fiber, const void *mutex)
{
    uint32_t place = fiber->mutex_count;
    while (place > 0 && fiber->mutexes[place - 1].mutex != mutex)
        place--;
    if (place == 0) {
        fiber->mutexes_other -= fiber->mutexes_other > 0;
    } else {
        for (; place < fiber->mutex_count; place++)
            fiber->mutexes[place - 1] = fiber->mutexes[place];
        fiber->mutex_count--;
    }
    if (fiber->mutex_count + fiber->mutexes_other == 0)
        fiber->mutex_reported = false;
}

static void changed(void *mutex, int change, void *site)
{
    struct thread *thread = thread_self();
    struct weft_fiber *fiber = thread != NULL ? thread->fiber : NULL;
    if (fiber == NULL)
        return;
    if (change > 0)
        note_lock(fiber, mutex, site);
    else
        note_unlock(fiber, mutex);
}

__attribute__((constructor)) static void listen(void)
{
    weft__os_mutex_listen(changed);
}

/* Writes a line with the mutex and where it was locked. */
static void say_mutex(const void *mutex, void *site)
{
    char bytes[512];
    struct text text = {bytes, sizeof bytes, 0};
    weft__text_add(&text, "weft:   %p was locked at ", mutex);
    weft__text_add_code(&text, "", site);
    weft__text_write(&text);
}

void weft__held_report(struct weft_fiber *fiber, const char *does)
{
    uint32_t count = fiber->mutex_count + fiber->mutexes_other;
    if (fiber->mutex_reported)
        return;
    fiber->mutex_reported = true;
    weft__warn("fiber %llu \"%s\" %s while it holds %s: it may go on on another thread, and "
               "a fiber that locks that mutex meanwhile blocks its thread",
               (unsigned long long)fiber->id, weft_fiber_name(fiber), does,
               count == 1 ? "a pthread mutex" : "pthread mutexes");
    for (uint32_t i = fiber->mutex_count; i > 0; i--)
        say_mutex(fiber->mutexes[i - 1].mutex, fiber->mutexes[i - 1].site);
    if (fiber->mutexes_other > 0)
        weft__warn("  and %u more", fiber->mutexes_other);
    weft__os_print_backtrace();
}

#endif
