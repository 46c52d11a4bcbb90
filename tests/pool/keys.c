/*
 * keys.c: tasks with a key run one at a time and in order, in a pool that they share with other
 * tasks.
 */
#include <weft/weft.h>

#include "pool/pool.h"
#include "tasks.h"

enum { KEYS = 50, SUBMITTERS = 4 };

/* Shared by the tasks of one key, without a lock, since they run one at a time. */
struct account {
    atomic_u32 inside;
    uint32_t ran;
    uint32_t last[SUBMITTERS];
    uint64_t key;
};

static struct account accounts[KEYS];

static void accounts_open(void)
{
    memset(accounts, 0, sizeof accounts);
    for (uint64_t i = 0; i < KEYS; i++)
        accounts[i].key = i % 2 == 0 ? i + 1 : ~i << 40; /* not only small ones */
}

struct entry {
    struct account *account;
    uint32_t submitter, number;
    bool waits;
};

static void book(void *arg)
{
    const struct entry *entry = arg;
    struct account *account = entry->account;
    CHECK_EQ(atomic_u32_add_seq_cst(&account->inside, 1), 0); /* never two at once */
    CHECK_EQ(entry->number, account->last[entry->submitter] + 1);
    account->last[entry->submitter] = entry->number;
    account->ran++;
    if (entry->waits)
        CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    else if (entry->number % 7 == 0)
        weft_yield();
    atomic_u32_sub_seq_cst(&account->inside, 1);
}

static int submit_entry(weft_pool *pool, struct entry entry)
{
    weft_submit_options options = {.key = entry.account->key, .copy = sizeof entry};
    return weft_pool_submit_with(pool, book, &entry, &options);
}

struct clerk {
    weft_pool *pool;
    uint32_t number;
    int64_t rounds;
    bool waits;
};

static void submit_entries(void *arg)
{
    const struct clerk *clerk = arg;
    for (uint32_t round = 1; round <= clerk->rounds; round++)
        for (int k = 0; k < KEYS; k++)
            CHECK_EQ(submit_entry(
                         clerk->pool,
                         (struct entry){.account = &accounts[k],
                                        .submitter = clerk->number,
                                        .number = round,
                                        .waits = clerk->waits && (round + (uint32_t)k) % 16 == 0}),
                     0);
}

static atomic_u32 strangers;

static void many_submitters(int64_t capacity, int64_t queue, bool waits)
{
    int64_t rounds = test_scale(200);
    accounts_open();
    weft_pool *pool = POOL_OPEN(.capacity = capacity, .queue = queue);
    struct clerk clerks[SUBMITTERS];
    struct body bodies[SUBMITTERS];
    for (int i = 0; i < SUBMITTERS; i++) {
        clerks[i] = (struct clerk){pool, (uint32_t)i, rounds, waits};
        bodies[i] =
            (struct body){.function = submit_entries, .arg = &clerks[i], .thread = i % 2 == 0};
        body_start(&bodies[i]);
    }
    atomic_u32_store_relaxed(&strangers, 0);
    submit_counts(pool, &strangers, rounds); /* among tasks without a key */
    for (int i = 0; i < SUBMITTERS; i++)
        body_join(&bodies[i]);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).completed, rounds * (KEYS * SUBMITTERS + 1));
    for (int k = 0; k < KEYS; k++)
        CHECK_EQ(accounts[k].ran, rounds * SUBMITTERS);
    CHECK_EQ(count_of(&strangers), rounds);
    pool_close(pool);
}

static void in_order_and_one_at_a_time(void)
{
    many_submitters(8, WEFT_UNLIMITED, false);
    many_submitters(8, 5, false);
    many_submitters(1, 0, false);
    many_submitters(64, WEFT_UNLIMITED, true);
    many_submitters(16, 3, true);
}

/* While tasks of one key wait, others go on. */

static void different_keys_in_parallel(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = POOL_OPEN(.capacity = 10, .queue = 100);
    for (uint64_t key = 1; key <= 10; key++)
        for (int i = 0; i < 3; i++)
            SUBMIT_WITH(pool, gate_task, &gate, .key = key);
    await_at_gate(&gate, 10); /* one of each */
    CHECK_FIGURES(pool, IS(running, 10), IS(queued, 20));
    gate_open_and_close(&gate, pool);
    CHECK_EQ(gauge_total(&gate.gauge), 30);
}

static void a_key_that_waits_delays_no_other(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 100);
    for (int i = 0; i < 20; i++)
        SUBMIT_WITH(pool, gate_task, &gate, .key = 7);
    await_at_gate(&gate, 1);
    /* 19 stand before these, and need no place while they wait for the first. */
    for (uint64_t i = 0; i < 20; i++)
        SUBMIT_WITH(pool, count_task, &ran, .key = i % 2 * 8);
    await_count(&ran, 20);
    CHECK_EQ(gauge_total(&gate.gauge), 1);
    CHECK_EQ(pool_waiting(pool), 19);
    gate_open_and_close(&gate, pool);
    CHECK_EQ(gauge_most(&gate.gauge), 1);
    CHECK_EQ(gauge_total(&gate.gauge), 20);
}

/* Tasks that submit to their own key in a full pool stay in order, and none waits for itself. */

struct relay {
    weft_pool *pool;
    int left, ran;
    bool inside;
};

static void hand_on(void *arg)
{
    struct relay *relay = arg;
    CHECK(!relay->inside);
    relay->inside = true;
    relay->ran++;
    if (--relay->left > 0)
        SUBMIT_WITH(relay->pool, hand_on, relay, .key = 5);
    relay->inside = false;
}

static void a_key_may_submit_to_itself(void)
{
    static const int policies[] = {WEFT_BLOCK, WEFT_CALLER_RUNS};
    for (int i = 0; i < 2; i++) {
        weft_pool *pool = POOL_OPEN(.capacity = 1, .when_full = policies[i]);
        struct relay relay = {.pool = pool, .left = 1000};
        SUBMIT_WITH(pool, hand_on, &relay, .key = 5);
        pool_close(pool);
        CHECK_EQ(relay.ran, 1000);
    }
}

static struct journal dropped, ran;

static void note_ran(void *number)
{
    journal_add(&ran, *(const int *)number);
}

static void note_dropped(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == note_ran);
    journal_add(&dropped, *(const int *)arg);
}

static int submit_number(weft_pool *pool, int number, uint64_t key)
{
    return weft_pool_submit_with(pool, note_ran, &number,
                                 &(weft_submit_options){.key = key, .copy = sizeof number});
}

static weft_pool *open_noting(weft_pool_options options)
{
    memset(&ran, 0, sizeof ran);
    memset(&dropped, 0, sizeof dropped);
    options.on_drop = note_dropped;
    return pool_open(options);
}

/* The oldest is dropped, and the next of its key takes its turn. */
static void drop_oldest_keeps_the_order(void *arg)
{
    struct gate gate;
    weft_pool *pool =
        open_noting((weft_pool_options){.capacity = 1, .queue = 6, .when_full = WEFT_DROP_OLDEST});
    gate_shut_and_fill(&gate, pool, 1);
    for (int i = 0; i < 9; i++) /* 0 and 3 and 6 and so on have one key */
        CHECK_EQ(submit_number(pool, i, (uint64_t)i % 3 + 1), 0);
    CHECK_FIGURES(pool, IS(dropped, 3), IS(queued, 6));
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&dropped.length), 3);
    CHECK_EQ(count_of(&ran.length), 6);
    bool seen[9] = {false};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(dropped.entries[i], i);
        seen[dropped.entries[i]] = true;
    }
    int last[3] = {-1, -1, -1};
    for (int i = 0; i < 6; i++) {
        int number = ran.entries[i];
        CHECK(!seen[number]); /* run or dropped */
        seen[number] = true;
        CHECK(number > last[number % 3]);
        last[number % 3] = number;
    }
    pool_close(pool);
}

static void abort_drops_all_of_a_key(void *arg)
{
    struct gate gate;
    weft_pool *pool = open_noting((weft_pool_options){.capacity = 1, .queue = 100});
    gate_shut_and_fill(&gate, pool, 1);
    for (int i = 0; i < 30; i++)
        CHECK_EQ(submit_number(pool, i, (uint64_t)i % 3), 0); /* one third without */
    CHECK_EQ(weft_pool_abort(pool), 30);
    CHECK_EQ(pool_waiting(pool), 0);
    CHECK_EQ(count_of(&dropped.length), 30);
    for (int key = 0; key < 3; key++) { /* each once, and each key in order */
        int last = key - 3;
        for (int i = 0; i < 30; i++)
            if (dropped.entries[i] % 3 == key) {
                CHECK_EQ(dropped.entries[i], last + 3);
                last = dropped.entries[i];
            }
        CHECK_EQ(last, 27 + key);
    }
    CHECK_EQ(submit_number(pool, 99, 1), 0); /* the key is free again */
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran.length), 1);
    CHECK_EQ(ran.entries[0], 99);
}

/* Also tasks behind a running one of their key, whichever key it is. */
static void abort_drops_those_behind_one_that_runs(void *arg)
{
    enum { RUNNING = 20 };
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = open_noting((weft_pool_options){.capacity = RUNNING, .queue = 100});
    for (uint64_t key = 1; key <= RUNNING; key++)
        SUBMIT_WITH(pool, gate_task, &gate, .key = key);
    await_at_gate(&gate, RUNNING);
    for (uint64_t key = 1; key <= RUNNING; key++) {
        CHECK_EQ(submit_number(pool, 0, key), 0);
        CHECK_EQ(weft_pool_abort(pool), 1);
        CHECK_EQ(pool_waiting(pool), 0);
        CHECK_EQ(count_of(&dropped.length), key);
    }
    CHECK_EQ(submit_number(pool, 5, 7), 0);
    CHECK_EQ(count_of(&ran.length), 0);
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran.length), 1);
}

static void drop_oldest_finds_those_behind_one_that_runs(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool =
        open_noting((weft_pool_options){.capacity = 1, .queue = 3, .when_full = WEFT_DROP_OLDEST});
    SUBMIT_WITH(pool, gate_task, &gate, .key = 7);
    await_at_gate(&gate, 1);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(submit_number(pool, i, 7), 0);
    CHECK_EQ(count_of(&dropped.length), 2);
    gate_open_and_close(&gate, pool);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(dropped.entries[i], i);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ran.entries[i], i + 2);
}

struct shared {
    weft_pool *pool;
    weft_task *second;
    struct gauge gauge;
    struct gate gate;
};

static int hold_key(void *arg)
{
    struct shared *shared = arg;
    gauge_enter(&shared->gauge);
    gate_task(&shared->gate);
    gauge_leave(&shared->gauge);
    return 0;
}

static int use_key(void *arg)
{
    struct shared *shared = arg;
    gauge_enter(&shared->gauge);
    gauge_leave(&shared->gauge);
    return 7;
}

static void wait_for_second(void *arg)
{
    struct shared *shared = arg;
    CHECK_EQ(task_result(shared->second), 7);
}

static void mark_and_open(void *arg)
{
    struct shared *shared = arg;
    gate_open(&shared->gate);
}

/* The place that a waiting task lends is not used by a task of the key out of turn. */
static void a_lent_place_keeps_the_order(void)
{
    struct shared shared = {.second = NULL};
    gate_shut(&shared.gate);
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 10);
    weft_task *first = START_WITH(pool, hold_key, &shared, .key = 3);
    await_at_gate(&shared.gate, 1);
    shared.second = START_WITH(pool, use_key, &shared, .key = 3);
    CHECK_EQ(weft_pool_submit(pool, wait_for_second, &shared), 0);
    CHECK_EQ(weft_pool_submit(pool, mark_and_open, &shared), 0); /* in the place of that one */
    CHECK_EQ(task_result(shared.second), 7);
    pool_close(pool);
    CHECK_EQ(gauge_most(&shared.gauge), 1);
    weft_task_release(first);
    weft_task_release(shared.second);
}

static void a_cancelled_one_lets_the_next_go(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 10);
    SUBMIT_WITH(pool, gate_task, &gate, .key = 3);
    await_at_gate(&gate, 1);
    struct shared shared = {.pool = pool};
    weft_task *tasks[3];
    for (int i = 0; i < 3; i++)
        tasks[i] = START_WITH(pool, use_key, &shared, .key = 3);
    CHECK_EQ(weft_task_cancel(tasks[1]), 0);
    gate_open(&gate);
    CHECK_EQ(task_result(tasks[2]), 7);
    CHECK_EQ(task_result(tasks[1]), -ECANCELED);
    CHECK_EQ(task_result(tasks[0]), 7);
    for (int i = 0; i < 3; i++)
        weft_task_release(tasks[i]);
    pool_close(pool);
    CHECK_EQ(gauge_total(&shared.gauge), 2);
}

static void check_no_keys(weft_pool *pool)
{
    CHECK_EQ(pool_waiting(pool), 0);
    latch_acquire(pool->latch);
    CHECK_EQ(pool->key_count, 0);
    for (uint32_t i = 0; i < pool->key_slots; i++)
        CHECK_PTR(pool->keys[i], NULL);
    latch_release(pool->latch);
}

static void nothing_is_left_of_a_key(void *arg)
{
    atomic_u32 counted = {0};
    int64_t count = test_scale(10000);
    weft_pool *pool = POOL_OPEN(.capacity = 8, .queue = 100);
    for (int64_t i = 1; i <= count; i++)
        SUBMIT_WITH(pool, count_task, &counted, .key = (uint64_t)i * 977);
    AWAIT_FIGURE(pool, completed, count);
    check_no_keys(pool);
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (uint64_t i = 1; i <= 100; i++)
        SUBMIT_WITH(pool, count_task, &counted, .key = i / 2 + 1);
    CHECK_EQ(weft_pool_abort(pool), 100);
    check_no_keys(pool);
    pool_close(pool);
    CHECK_EQ(count_of(&counted), count);
}

int main(void)
{
    RUN_BOTH(in_order_and_one_at_a_time);
    RUN_EVERYWHERE(different_keys_in_parallel);
    RUN_EVERYWHERE(a_key_that_waits_delays_no_other);
    RUN_BOTH(a_key_may_submit_to_itself);
    RUN_EVERYWHERE(drop_oldest_keeps_the_order);
    RUN_EVERYWHERE(abort_drops_all_of_a_key);
    RUN_EVERYWHERE(abort_drops_those_behind_one_that_runs);
    RUN_EVERYWHERE(drop_oldest_finds_those_behind_one_that_runs);
    RUN_BOTH(a_lent_place_keeps_the_order);
    RUN_EVERYWHERE(a_cancelled_one_lets_the_next_go);
    RUN_EVERYWHERE(nothing_is_left_of_a_key);
    return 0;
}
