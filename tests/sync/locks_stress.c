/*
 * locks_stress.c: all locks, semaphores, barriers and conditions under stress: fibers and threads,
 * deadlines that pass at about the time of the wake-ups, and contexts that are cancelled
 * (cancelling.h).
 *
 * A lost wake-up shows as the test's timeout; a doubled one, or a lock with two owners, fails a
 * check.
 */
#include "cancelling.h"

static int64_t rounds_of(int64_t rounds)
{
    return test_seeded ? 4 : test_scale(rounds);
}

/* Each scene with and without contexts. */
static void run_both(const char *name, void (*work)(struct worker *), int64_t rounds)
{
    run(name, false, work, rounds);
    run(name, true, work, rounds);
}

/* Mutex. */

static struct {
    weft_mutex mutex;
    int64_t inside, count; /* plain: the mutex orders them */
} counted;

static int lock(struct worker *worker, int64_t deadline)
{
    if (deadline != WEFT_NEVER || chance(worker, 2))
        return weft_mutex_lock_until(&counted.mutex, deadline);
    weft_mutex_lock(&counted.mutex);
    return 0;
}

static void mutex_work(struct worker *worker)
{
    for (int64_t i = 0; i < stage.rounds;) {
        if (chance(worker, 3)) {
            int tried = weft_mutex_try_lock(&counted.mutex);
            CHECK(tried == 0 || tried == -EBUSY);
            if (tried != 0)
                continue;
        } else if (wait_bound(worker, lock) < 0) {
            continue;
        }
        i++;
        CHECK_EQ(counted.inside++, 0);
        int64_t count = counted.count;
        dally(worker);
        counted.count = count + 1;
        CHECK_EQ(--counted.inside, 0);
        weft_mutex_unlock(&counted.mutex);
    }
}

static void mutex(void)
{
    int64_t rounds = rounds_of(1500);
    memset(&counted, 0, sizeof counted);
    run_both("mutex", mutex_work, rounds);
    CHECK_EQ(counted.count, 2 * WORKERS * rounds);
    weft_mutex_destroy(&counted.mutex); /* aborts if anything is left in its word */
}

/* Readers-writer mutex. */

enum { WRITER_WEIGHT = 1000 };

static struct {
    weft_rwmutex rw;
    int64_t a, b; /* plain: the mutex orders them */
    atomic_i64 in;
} book;

static int read_lock(struct worker *worker, int64_t deadline)
{
    if (deadline != WEFT_NEVER || chance(worker, 2))
        return weft_rwmutex_read_lock_until(&book.rw, deadline);
    weft_rwmutex_read_lock(&book.rw);
    return 0;
}

static int write_lock(struct worker *worker, int64_t deadline)
{
    if (deadline != WEFT_NEVER || chance(worker, 2))
        return weft_rwmutex_write_lock_until(&book.rw, deadline);
    weft_rwmutex_write_lock(&book.rw);
    return 0;
}

static void rwmutex_work(struct worker *worker)
{
    for (int64_t i = 0; i < stage.rounds;) {
        bool writes = chance(worker, 3);
        if (wait_bound(worker, writes ? write_lock : read_lock) < 0)
            continue;
        int64_t weight = writes ? WRITER_WEIGHT : 1;
        int64_t before = atomic_i64_add_seq_cst(&book.in, weight);
        CHECK(writes ? before == 0 : before < WRITER_WEIGHT);
        CHECK_EQ(book.a, book.b);
        i += writes;
        if (writes)
            book.a++;
        dally(worker);
        if (writes)
            book.b++;
        CHECK_EQ(book.a, book.b);
        before = atomic_i64_add_seq_cst(&book.in, -weight);
        CHECK(writes ? before == WRITER_WEIGHT : before < WRITER_WEIGHT);
        if (writes)
            weft_rwmutex_write_unlock(&book.rw);
        else
            weft_rwmutex_read_unlock(&book.rw);
    }
}

static void rwmutex(void)
{
    int64_t rounds = rounds_of(400);
    memset(&book, 0, sizeof book);
    run_both("readers-writer mutex", rwmutex_work, rounds);
    CHECK_EQ(book.a, 2 * WORKERS * rounds);
    weft_rwmutex_destroy(&book.rw);
}

/* Semaphore: never more units are out than there are, and all are back at the end. */

enum { UNITS = 4 };

static struct {
    weft_sem sem;
    atomic_i64 out;
    int64_t wanted[WORKERS];
} units;

static int acquire(struct worker *worker, int64_t deadline)
{
    if (deadline != WEFT_NEVER || chance(worker, 2))
        return weft_sem_acquire_until(&units.sem, units.wanted[worker->index], deadline);
    weft_sem_acquire(&units.sem, units.wanted[worker->index]);
    return 0;
}

static void sem_work(struct worker *worker)
{
    for (int64_t i = 0; i < stage.rounds;) {
        int64_t wanted = 1 + (int64_t)prng_below(&worker->prng, UNITS);
        units.wanted[worker->index] = wanted;
        if (wait_bound(worker, acquire) < 0)
            continue;
        i++;
        CHECK(atomic_i64_add_seq_cst(&units.out, wanted) + wanted <= UNITS);
        dally(worker);
        atomic_i64_add_seq_cst(&units.out, -wanted);
        weft_sem_release(&units.sem, wanted);
    }
}

static void semaphore(void)
{
    CHECK_EQ(weft_sem_init(&units.sem, UNITS), 0);
    run_both("semaphore", sem_work, rounds_of(800));
    CHECK_EQ(weft_sem_available(&units.sem), UNITS);
    CHECK_EQ(weft_sem_try_acquire(&units.sem, UNITS), 0);
    weft_sem_destroy(&units.sem);
}

/* Condition: a store of bounded size. Even workers put tokens in, odd ones take them. Some that
 * take have no deadline or context: they would wait for ever if a waiter that gives up lost a
 * signal. */

enum { ROOM = 2 };

static struct {
    weft_mutex mutex;
    weft_cond not_empty, not_full;
    int64_t tokens, taken, made;
} store;

static int await_token(struct worker *worker, int64_t deadline)
{
    int result = 0;
    weft_mutex_lock(&store.mutex);
    while (store.tokens == 0 && result == 0)
        result = weft_cond_wait_until(&store.not_empty, &store.mutex, deadline);
    if (result == 0) { /* else a token stays, and another waiter gets its signal */
        store.tokens--;
        store.taken++;
        weft_cond_signal(&store.not_full);
    }
    weft_mutex_unlock(&store.mutex);
    return result;
}

static void make_tokens(struct worker *worker)
{
    for (int64_t i = 0; i < stage.rounds; i++) {
        weft_mutex_lock(&store.mutex);
        while (store.tokens == ROOM)
            CHECK_EQ(weft_cond_wait(&store.not_full, &store.mutex), 0);
        CHECK(++store.tokens <= ROOM);
        store.made++;
        weft_mutex_unlock(&store.mutex);
        weft_cond_signal(&store.not_empty);
        if (chance(worker, 8)) /* so that workers wait for tokens */
            CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    }
}

static void cond_work(struct worker *worker)
{
    if (worker->index % 2 == 0) {
        make_tokens(worker);
        return;
    }
    bool firm = worker->index == 1 || worker->index == WORKERS - 1;
    for (int64_t i = 0; i < stage.rounds;)
        i += (firm ? await_token(worker, WEFT_NEVER) : wait_bound(worker, await_token)) == 0;
}

static void condition(void)
{
    int64_t rounds = rounds_of(1000);
    memset(&store, 0, sizeof store);
    run_both("condition", cond_work, rounds);
    CHECK_EQ(store.tokens, 0);
    CHECK_EQ(store.taken, WORKERS / 2 * rounds * 2);
    CHECK_EQ(store.made, store.taken);
    weft_cond_destroy(&store.not_empty);
    weft_cond_destroy(&store.not_full);
    weft_mutex_destroy(&store.mutex);
}

/* Wake-ups are as many as signals that had a waiter: none is spurious. */

static struct {
    weft_mutex mutex;
    weft_cond cond;
    int64_t signals, woken;
    atomic_u32 over;
} spurious;

static int wait_for_signal(struct worker *worker, int64_t deadline)
{
    if (deadline == WEFT_NEVER)
        deadline = weft_after(WEFT_MS);
    weft_mutex_lock(&spurious.mutex);
    int result = weft_cond_wait_until(&spurious.cond, &spurious.mutex, deadline);
    spurious.woken += result == 0;
    CHECK(spurious.woken <= spurious.signals);
    weft_mutex_unlock(&spurious.mutex);
    if (result == -ETIMEDOUT) /* the deadline may be that of the context */
        CHECK(weft_now() >= deadline || weft_context_error(weft_context_current()) != 0);
    return result == -ETIMEDOUT ? 0 : result;
}

static void signal_work(struct worker *worker)
{
    if (worker->index != 0) {
        for (int64_t i = 0; i < stage.rounds; i++)
            (void)wait_bound(worker, wait_for_signal);
        atomic_u32_add_seq_cst(&spurious.over, 1);
        return;
    }
    while (atomic_u32_load_acquire(&spurious.over) < WORKERS - 1) {
        weft_mutex_lock(&spurious.mutex);
        spurious.signals++;
        weft_cond_signal(&spurious.cond);
        weft_mutex_unlock(&spurious.mutex);
        dally(worker);
        if (test_seeded)
            CHECK_EQ(weft_sleep(WEFT_US), 0);
    }
}

static void no_spurious_wake_up(void)
{
    for (int contexts = 0; contexts < 2; contexts++) {
        memset(&spurious, 0, sizeof spurious);
        run("signals", contexts, signal_work, rounds_of(2000));
        weft_cond_destroy(&spurious.cond);
        weft_mutex_destroy(&spurious.mutex);
    }
}

/* Barrier: an arrival that was ended does not count, and rounds end though parties give up and come
 * back. */

static struct {
    weft_barrier barrier;
    atomic_u32 last;
    atomic_u32 rounds[WORKERS];
} meeting;

static int meet(struct worker *worker, int64_t deadline)
{
    if (!chance(worker, 8)) /* few give up, or a round would hardly ever end */
        deadline = WEFT_NEVER;
    return weft_barrier_wait_until(&meeting.barrier, deadline);
}

static void barrier_work(struct worker *worker)
{
    for (uint32_t round = 1; round <= stage.rounds; round++) {
        int result;
        atomic_u32_store_release(&meeting.rounds[worker->index], round);
        while ((result = wait_bound(worker, meet)) < 0)
            continue;
        CHECK(result == 0 || result == 1);
        atomic_u32_add_relaxed(&meeting.last, (uint32_t)result);
        for (int i = 0; i < WORKERS; i++)
            CHECK(atomic_u32_load_acquire(&meeting.rounds[i]) >= round);
    }
}

static void barrier(void)
{
    int64_t rounds = rounds_of(200);
    for (int contexts = 0; contexts < 2; contexts++) {
        CHECK_EQ(weft_barrier_init(&meeting.barrier, WORKERS), 0);
        atomic_u32_store_relaxed(&meeting.last, 0);
        for (int i = 0; i < WORKERS; i++)
            atomic_u32_store_relaxed(&meeting.rounds[i], 0);
        run("barrier", contexts, barrier_work, rounds);
        CHECK_EQ(atomic_u32_load_relaxed(&meeting.last), rounds);
        weft_barrier_destroy(&meeting.barrier);
    }
}

/* With more workers than parties, any of them make up a round. */

enum { PARTIES = 4 };

static struct {
    weft_barrier barrier;
    atomic_i64 last, passed;
    atomic_u32 over;
} crossing;

static int cross(struct worker *worker, int64_t deadline)
{
    if (deadline == WEFT_NEVER) /* no other party may be left */
        deadline = weft_after(50 * WEFT_US);
    int result = weft_barrier_wait_until(&crossing.barrier, deadline);
    if (result >= 0)
        atomic_i64_add_seq_cst(&crossing.passed, 1);
    if (result == 1 && atomic_i64_add_seq_cst(&crossing.last, 1) + 1 >= stage.rounds)
        atomic_u32_store_release(&crossing.over, 1);
    return result == -ETIMEDOUT ? 0 : result;
}

static void crossing_work(struct worker *worker)
{
    while (!atomic_u32_load_acquire(&crossing.over)) {
        (void)wait_bound(worker, cross);
        dally(worker);
    }
}

static void barrier_of_some(void)
{
    for (int contexts = 0; contexts < 2; contexts++) {
        memset(&crossing, 0, sizeof crossing);
        CHECK_EQ(weft_barrier_init(&crossing.barrier, PARTIES), 0);
        run("barrier of some", contexts, crossing_work, rounds_of(1000));
        CHECK_EQ(atomic_i64_load_relaxed(&crossing.passed),
                 PARTIES * atomic_i64_load_relaxed(&crossing.last));
        weft_barrier_destroy(&crossing.barrier);
    }
}

/* Many short-lived objects, each freed by the last caller that unlocks it. */

enum { SHARERS = 3 };

struct object {
    weft_mutex mutex;
    weft_rwmutex rw;
    int users, readers;
};

static void object_use(void *arg)
{
    struct object *object = arg;
    weft_rwmutex_read_lock(&object->rw);
    weft_rwmutex_read_unlock(&object->rw);
    weft_rwmutex_write_lock(&object->rw);
    object->readers--;
    weft_rwmutex_write_unlock(&object->rw);
    weft_mutex_lock(&object->mutex);
    bool last = --object->users == 0;
    weft_mutex_unlock(&object->mutex);
    if (last) {
        CHECK_EQ(object->readers, 0);
        free(object);
    }
}

static void object_work(struct worker *worker)
{
    for (int64_t i = stage.rounds; i > 0; i--) {
        struct body bodies[SHARERS];
        struct object *object = calloc(1, sizeof *object);
        CHECK(object != NULL);
        object->users = object->readers = SHARERS;
        for (int j = 0; j < SHARERS; j++)
            bodies[j] = (struct body){
                .function = object_use, .arg = object, .thread = i % 32 == 0 && j == 0};
        bodies_run(bodies, SHARERS);
    }
}

static void freed_by_the_last_user(void)
{
    run("objects", false, object_work, rounds_of(300));
}

/* A request at the head gives up: smaller ones behind it, and readers that a writer holds back, are
 * admitted at once. The holder of the rest waits for that. */

static void wants_all(struct worker *worker)
{
    CHECK_EQ(weft_sem_acquire_until(&units.sem, UNITS, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_rwmutex_write_lock_until(&book.rw, weft_after(WEFT_MS)), -ETIMEDOUT);
}

static void wants_little(struct worker *worker)
{
    dally(worker);
    weft_sem_acquire(&units.sem, 1);
    weft_rwmutex_read_lock(&book.rw);
    weft_rwmutex_read_unlock(&book.rw);
    weft_sem_release(&units.sem, 1);
}

static void all_or_little(struct worker *worker)
{
    if (worker->index % 4 == 0)
        wants_all(worker);
    else
        wants_little(worker);
}

static void giving_up_lets_others_in(void)
{
    memset(&book, 0, sizeof book);
    CHECK_EQ(weft_sem_init(&units.sem, UNITS), 0);
    weft_sem_acquire(&units.sem, 1);
    weft_rwmutex_read_lock(&book.rw);
    run("all or little", false, all_or_little, 1);
    weft_rwmutex_read_unlock(&book.rw);
    weft_sem_release(&units.sem, 1);
    weft_rwmutex_destroy(&book.rw);
    weft_sem_destroy(&units.sem);
}

static void scenes(void)
{
    RUN(mutex);
    RUN(rwmutex);
    RUN(semaphore);
    RUN(condition);
    RUN(no_spurious_wake_up);
    RUN(barrier);
    RUN(barrier_of_some);
    RUN(freed_by_the_last_user);
    RUN(giving_up_lets_others_in);
}

int main(void)
{
    run_with_processors(scenes);
    RUN_SEEDS_MANY(mutex);
    RUN_SEEDS_MANY(rwmutex);
    RUN_SEEDS_MANY(semaphore);
    RUN_SEEDS_MANY(condition);
    RUN_SEEDS_MANY(no_spurious_wake_up);
    RUN_SEEDS_MANY(barrier);
    RUN_SEEDS_MANY(barrier_of_some);
    RUN_SEEDS_MANY(freed_by_the_last_user);
    RUN_SEEDS_MANY(giving_up_lets_others_in);
    return 0;
}
