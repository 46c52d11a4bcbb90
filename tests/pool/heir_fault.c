/*
 * heir_fault.c: the replacement of a fiber that may crash is made beforehand, and may lack memory.
 */
#include "everywhere.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/runtime/thread.h"

/* A replacement is a record and an extra part; one of them is missing. */

enum { RECORDS_MOST = 100000 };

static void nothing(void *arg)
{
}

static void make_replacements(void *arg)
{
    static struct weft_fiber *records[RECORDS_MOST];
    struct weft_fiber *self = weft_self(), *replacement;
    int count = 0;
    (void)runtime_enter(thread_self());
    replacement = weft__fiber_new(thread_self()->fibers); /* so that there is one at hand */
    weft__fiber_free(thread_self()->fibers, replacement);
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
    replacement = weft__fiber_make_replacement(self, nothing, NULL);
    runtime_leave(thread_self());
    CHECK_PTR(without_extra, NULL);
    CHECK_PTR(without_record, NULL);
    CHECK(replacement != NULL);
    weft__fiber_free_any(replacement);
}

static void replacements_need_memory(void)
{
    on_one_machine(make_replacements, NULL);
}

int main(void)
{
    RUN(replacements_need_memory);
    return 0;
}
