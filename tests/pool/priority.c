/*
 * priority.c: which of the waiting tasks is taken next, and which is dropped.
 *
 * With a capacity of one, the order in which tasks run is the order in which they are taken.
 */
#include <weft/weft.h>

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

/* A paused pool. */
static weft_pool *open_paused(void)
{
    memset(&journal, 0, sizeof journal);
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = WEFT_UNLIMITED);
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

/* A more important task is next though it comes later. */

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

/* Of the lowest priority, the oldest is dropped. */

static struct journal dropped;

static void note_dropped(void (*function)(void *), void *arg, void *data)
{
    journal_add(&dropped, (int)(intptr_t)arg);
}

static void submit_number(weft_pool *pool, int number, int priority, uint64_t key)
{
    SUBMIT_WITH(pool, note_number, (void *)(intptr_t)number, .priority = priority, .key = key);
}

static void check_journal(const struct journal *of, const int *numbers, uint32_t count)
{
    CHECK_EQ(count_of(&of->length), count);
    for (uint32_t i = 0; i < count; i++)
        CHECK_EQ(of->entries[i], numbers[i]);
}

static void the_oldest_of_the_lowest_is_dropped(void *arg)
{
    static const struct {
        int priority;
        uint64_t key;
    } tasks[] = {{WEFT_HIGH, 0},   {WEFT_LOW, 5},    {WEFT_HIGH, 5}, {WEFT_NORMAL, 0},
                 {WEFT_LOW, 0},    {WEFT_LOW, 5},    {WEFT_HIGH, 6}, {WEFT_NORMAL, 5},
                 {WEFT_NORMAL, 0}, {WEFT_NORMAL, 6}, {WEFT_LOW, 6}};
    static const int expected[] = {1, 4, 5, 10, 3, 7, 8, 9, 0, 2, 6};
    enum { TASKS = sizeof tasks / sizeof tasks[0] };
    memset(&dropped, 0, sizeof dropped);
    memset(&journal, 0, sizeof journal);
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = TASKS - 1,
                                       .when_full = WEFT_DROP_OLDEST, .on_drop = note_dropped);
    for (int i = 0; i < TASKS; i++)
        submit_number(pool, i, tasks[i].priority, tasks[i].key);
    for (int i = 0; i < TASKS; i++) /* tasks of the highest priority: they are dropped last */
        submit_number(pool, 100 + i, WEFT_HIGH, 0);
    check_journal(&dropped, expected, TASKS);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&journal.length), TASKS);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(journal.entries[i], 100 + i);
}

/* Of nine tasks taken one is not high, of ninety one is low, while there are any. */

static void check_shares(void)
{
    int since_other = 0, since_low = 0;
    int others = 0, lows = 0;
    uint32_t length = count_of(&journal.length);
    for (uint32_t i = 0; i < length; i++) {
        others += journal.entries[i] != WEFT_HIGH;
        lows += journal.entries[i] == WEFT_LOW;
    }
    for (uint32_t i = 0; i < length; i++) {
        int priority = journal.entries[i];
        since_other = priority == WEFT_HIGH ? since_other + 1 : 0;
        since_low = priority != WEFT_LOW ? since_low + 1 : 0;
        CHECK(others == 0 || since_other <= 8);
        CHECK(lows == 0 || since_low <= 89);
        others -= priority != WEFT_HIGH;
        lows -= priority == WEFT_LOW;
    }
}

static void each_priority_has_its_share(void *arg)
{
    memset(&journal, 0, sizeof journal);
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = WEFT_UNLIMITED);
    for (int i = 0; i < 1000; i++)
        submit_number(pool, WEFT_HIGH, WEFT_HIGH, 0);
    for (int i = 0; i < 60; i++) {
        if (i % 2) /* plain, and with a record */
            CHECK_EQ(weft_pool_submit(pool, note_number, (void *)(intptr_t)WEFT_NORMAL), 0);
        else
            submit_number(pool, WEFT_NORMAL, WEFT_NORMAL, 3);
    }
    for (int i = 0; i < 10; i++)
        submit_number(pool, WEFT_LOW, WEFT_LOW, 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&journal.length), 1070);
    check_shares();
}

/* The share holds for a task that is submitted while others run. */

static struct {
    weft_pool *pool;
    int64_t begun, submitted_at;
    atomic_u32 over;
    int low;
} share;

static void begin_normal(void *arg)
{
    CHECK(share.begun - share.submitted_at <= (share.low ? 89 : 8));
    atomic_u32_store_release(&share.over, 1);
}

static void begin_high(void *arg)
{
    share.begun++;
    if (share.begun == 200) {
        share.submitted_at = share.begun;
        SUBMIT_WITH(share.pool, begin_normal, NULL, .priority = share.low ? WEFT_LOW : 0);
    }
    if (!count_of(&share.over))
        SUBMIT_WITH(share.pool, begin_high, arg, .priority = WEFT_HIGH);
}

static void a_normal_task_among_high_ones(void *arg)
{
    for (int low = 0; low < 2; low++) {
        memset(&share, 0, sizeof share);
        share.low = low;
        share.pool = POOL_OPEN_PAUSED(.capacity = 1);
        CHECK_EQ(weft_pool_tune_queue(share.pool, 50), 0);
        for (int i = 0; i < 30; i++)
            SUBMIT_WITH(share.pool, begin_high, NULL, .priority = WEFT_HIGH);
        CHECK_EQ(weft_pool_resume(share.pool), 0);
        pool_close(share.pool);
        CHECK_EQ(count_of(&share.over), 1);
    }
}

int main(void)
{
    RUN_EVERYWHERE(high_before_normal_before_low);
    RUN_EVERYWHERE(low_ones_among_normal_ones);
    RUN_EVERYWHERE(first_come_first_served);
    RUN_EVERYWHERE(a_high_one_overtakes_those_that_wait);
    RUN_EVERYWHERE(the_oldest_of_the_lowest_is_dropped);
    RUN_EVERYWHERE(each_priority_has_its_share);
    RUN_EVERYWHERE(a_normal_task_among_high_ones);
    return 0;
}
