/*
 * priority.c: which of the tasks that wait is next.
 *
 * With a capacity of one, the order in which tasks run is the order in which they are taken.
 */
#include <weft/weft.h>

#include "seeds.h"
#include "tasks.h"

static const int priorities[] = {WEFT_HIGH, WEFT_NORMAL, WEFT_LOW};

static struct journal journal;

/* An entry: the priority, and the number among those of that priority. */
static int entry_of(int priority, int number)
{
    return (priority + 1) * 1000 + number;
}

static int priority_of(int entry)
{
    return entry / 1000 - 1;
}

static void note(void *entry)
{
    journal_add(&journal, *(const int *)entry);
}

static void submit(weft_pool *pool, int priority, int number)
{
    int entry = entry_of(priority, number);
    weft_submit_options options = {.priority = priority, .copy = sizeof entry};
    CHECK_EQ(weft_pool_submit_with(pool, note, &entry, &options), 0);
}

/* A pool whose tasks wait. */
static weft_pool *open_paused(void)
{
    memset(&journal, 0, sizeof journal);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = WEFT_UNLIMITED});
    CHECK_EQ(weft_pool_pause(pool), 0);
    return pool;
}

static int run_all(weft_pool *pool)
{
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    return (int)count_of(&journal.length);
}

/* First come, first served, within each. */
static void check_order_within(int length)
{
    int next[3] = {0, 0, 0};
    for (int i = 0; i < length; i++) {
        int priority = priority_of(journal.entries[i]);
        CHECK_EQ(journal.entries[i], entry_of(priority, next[priority + 1]));
        next[priority + 1]++;
    }
}

static void high_before_normal_before_low(void *arg)
{
    weft_pool *pool = open_paused();
    for (int i = 0; i < 6; i++) /* so few that none is passed over for too long */
        for (int k = 2; k >= 0; k--)
            submit(pool, priorities[k], i);
    CHECK_EQ(run_all(pool), 18);
    check_order_within(18);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(priority_of(journal.entries[i]), WEFT_HIGH);
    for (int i = 6; i < 12; i++)
        CHECK_EQ(priority_of(journal.entries[i]), WEFT_NORMAL);
    for (int i = 12; i < 18; i++)
        CHECK_EQ(priority_of(journal.entries[i]), WEFT_LOW);
}

/* Of nine taken one is not high, and of ninety one is low, as long as they wait. */
static void nobody_starves(void *arg)
{
    enum { HIGH = 900, NORMAL = 120, LOW = 30 };
    weft_pool *pool = open_paused();
    for (int i = 0; i < HIGH; i++)
        submit(pool, WEFT_HIGH, i);
    for (int i = 0; i < NORMAL; i++)
        submit(pool, WEFT_NORMAL, i);
    for (int i = 0; i < LOW; i++)
        submit(pool, WEFT_LOW, i);
    int length = run_all(pool);
    CHECK_EQ(length, HIGH + NORMAL + LOW);
    check_order_within(length);
    int left[3] = {LOW, NORMAL, HIGH}, since_not_high = 0, since_low = 0, early_high = 0;
    for (int i = 0; i < length; i++) {
        int priority = priority_of(journal.entries[i]);
        bool others = left[0] + left[1] > 0;
        since_not_high = priority == WEFT_HIGH && others ? since_not_high + 1 : 0;
        since_low = priority != WEFT_LOW && left[0] > 0 ? since_low + 1 : 0;
        CHECK(since_not_high < 9);
        CHECK(since_low < 90);
        early_high += i < 90 && priority == WEFT_HIGH;
        left[priority + 1]--;
    }
    CHECK_EQ(early_high, 80); /* and no more are let by than was said */
}

static void low_ones_among_normal_ones(void *arg)
{
    enum { NORMAL = 300, LOW = 20 };
    weft_pool *pool = open_paused();
    for (int i = 0; i < NORMAL; i++)
        submit(pool, WEFT_NORMAL, i);
    for (int i = 0; i < LOW; i++)
        submit(pool, WEFT_LOW, i);
    int length = run_all(pool);
    CHECK_EQ(length, NORMAL + LOW);
    check_order_within(length);
    int low_left = LOW, since_low = 0, early_low = 0;
    for (int i = 0; i < length; i++) {
        bool low = priority_of(journal.entries[i]) == WEFT_LOW;
        since_low = !low && low_left > 0 ? since_low + 1 : 0;
        CHECK(since_low < 90);
        early_low += low && i < 100;
        low_left -= low;
    }
    CHECK(early_low >= 1 && early_low <= 12);
}

/* First come, first served, over many chunks, with copies and without, and while tasks wait. */

static void note_number(void *number)
{
    journal_add(&journal, (int)(uintptr_t)number);
}

static void note_and_yield(void *number)
{
    note_number(number);
    weft_yield();
    if ((uintptr_t)number % 97 == 0)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
}

static void note_copied(void *number)
{
    note_number(*(void **)number);
}

/* With copied ones among them, or plain ones only, of which more are in a chunk. */
static void come_and_are_served(int priority, bool paused, bool copying)
{
    enum { TASKS = 1000 };
    weft_pool *pool = open_paused();
    if (!paused)
        CHECK_EQ(weft_pool_resume(pool), 0);
    for (uintptr_t i = 0; i < TASKS; i++) {
        void *number = (void *)i;
        bool copies = copying && i % 3 == 0;
        weft_submit_options options = {.priority = priority, .copy = copies ? sizeof number : 0};
        if (copies)
            CHECK_EQ(weft_pool_submit_with(pool, note_copied, &number, &options), 0);
        else
            CHECK_EQ(weft_pool_submit_with(pool, i % 5 == 0 ? note_and_yield : note_number, number,
                                           &options),
                     0);
    }
    CHECK_EQ(run_all(pool), TASKS);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(journal.entries[i], i);
}

static void first_come_first_served(void *arg)
{
    for (int k = 0; k < 3; k++)
        for (int variant = 0; variant < 4; variant++)
            come_and_are_served(priorities[k], variant % 2 != 0, variant / 2 != 0);
}

/* One that comes later is next all the same, if it is more important. */

static weft_pool *current;

static void submit_high(void *arg)
{
    submit(current, WEFT_HIGH, 0);
}

static void a_high_one_overtakes_those_that_wait(void *arg)
{
    enum { TASKS = 50 };
    static const int below[] = {WEFT_NORMAL, WEFT_LOW};
    for (int k = 0; k < 2; k++) {
        weft_pool *pool = current = open_paused();
        weft_submit_options options = {.priority = below[k]};
        CHECK_EQ(weft_pool_submit_with(pool, submit_high, NULL, &options), 0);
        for (int i = 0; i < TASKS; i++)
            submit(pool, below[k], i);
        CHECK_EQ(run_all(pool), TASKS + 1);
        CHECK_EQ(priority_of(journal.entries[0]), WEFT_HIGH);
    }
}

int main(void)
{
    RUN_EVERYWHERE(high_before_normal_before_low);
    RUN_EVERYWHERE(nobody_starves);
    RUN_EVERYWHERE(low_ones_among_normal_ones);
    RUN_EVERYWHERE(first_come_first_served);
    RUN_EVERYWHERE(a_high_one_overtakes_those_that_wait);
    return 0;
}
