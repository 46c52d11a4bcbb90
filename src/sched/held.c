/*
 * held.c: debug builds: a fiber that parks or yields while it holds a pthread mutex is reported.
 *
 * Its thread runs other fibers then, or it goes on on another thread: the mutex would be held by the wrong one,
 * and a fiber that locks it meanwhile may block the very machine that would have to run the holder.
 *
 * Each fiber counts what it locks (base/sys_mutex.c); the last one locked, and where, is kept for the report. A
 * fiber is reported once for as long as it holds any.
 */
#include "sched/sched.h"

#ifdef WEFT_DEBUG

static void changed(void *mutex, int change, void *site)
{
    struct thread *thread = thread_self();
    struct weft_fiber *fiber = thread != NULL ? thread->fiber : NULL;
    if (fiber == NULL || (change < 0 && fiber->mutexes == 0))
        return;
    fiber->mutexes += (uint32_t)change;
    if (change > 0) {
        fiber->mutex = mutex;
        fiber->mutex_site = site;
    } else if (fiber->mutexes == 0) {
        fiber->mutex_said = false;
    }
}

__attribute__((constructor)) static void listen(void)
{
    weft__sys_mutex_listen(changed);
}

void weft__held_report(struct weft_fiber *fiber, const char *does)
{
    static const char where[] = "weft:   it was locked at ";
    if (fiber->mutex_said)
        return;
    fiber->mutex_said = true;
    weft__warn("fiber %llu \"%s\" %s while it holds the pthread mutex %p: it may go on on another "
               "thread, and "
               "who locks that mutex meanwhile blocks a thread",
               (unsigned long long)fiber->id, weft_fiber_name(fiber), does, fiber->mutex);
    weft__sys_write_stderr(where, sizeof where - 1);
    weft__sys_print_address(fiber->mutex_site);
    weft__sys_print_backtrace();
}

#endif
