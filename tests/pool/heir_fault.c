/*
 * heir.c: the fiber that goes on in the place of one that crashed is made beforehand, and may lack memory.
 */
#include "everywhere.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/runtime/thread.h"

/* An heir is a record and what is extra; one of them is missing. */

enum { RECORDS_MOST = 100000 };

static void nothing(void *arg)
{
}

static void make_heirs(void *arg)
{
    static struct weft_fiber *records[RECORDS_MOST];
    struct weft_fiber *self = weft_self(), *heir;
    int count = 0;
    (void)runtime_enter(thread_self());
    heir = weft__fiber_new(thread_self()->fibers); /* so that there is one at hand */
    weft__fiber_free(thread_self()->fibers, heir);
    weft__os_fail(OS_ALLOC, 1, true);
    weft__os_fail(OS_MAP, 1, true);
    struct weft_fiber *without_extra = weft__fiber_make_replacement(self, nothing, NULL);
    while (count < RECORDS_MOST &&
           (records[count] = weft__fiber_new(thread_self()->fibers)) != NULL)
        count++;
    struct weft_fiber *without_record = weft__fiber_make_replacement(self, nothing, NULL);
    weft__os_fail(OS_ALLOC, 0, false);
    weft__os_fail(OS_MAP, 0, false);
    while (count > 0)
        weft__fiber_free(thread_self()->fibers, records[--count]);
    heir = weft__fiber_make_replacement(self, nothing, NULL);
    runtime_leave(thread_self());
    CHECK_PTR(without_extra, NULL);
    CHECK_PTR(without_record, NULL);
    CHECK(heir != NULL);
    weft__fiber_free_any(heir);
}

static void heirs_need_memory(void)
{
    on_one_machine(make_heirs, NULL);
}

int main(void)
{
    RUN(heirs_need_memory);
    return 0;
}
