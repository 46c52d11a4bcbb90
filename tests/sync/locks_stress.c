/*
 * locks.c: all primitives together, fibers and threads in one crowd, deadlines that fall around the
 * wake-ups.
 *
 * A wake-up that is lost shows as the test's timeout; one that comes twice, or a lock that two have,
 * by the checks.
 */
#include "bodies.h"

#include "base/prng.h"
#include "seeds.h"

enum { CROWD = 10 };

/* A deadline that lies a little before or after an event that is about now; or none. */
static int64_t tiny_deadline(struct prng *prng)
{
    if (prng_below(prng, 4) == 0)
        return WEFT_NEVER;
    return weft_now() + prng_below(prng, 12000) - 1000;
}

static void crowd_run(void (*function)(void *), int64_t scale)
{
    struct body bodies[CROWD];
    uint64_t seeds[CROWD];
    printf("  rounds of each: %lld\n", (long long)scale);
    for (int i = 0; i < CROWD; i++) {
        seeds[i] = (uint64_t)i + 1;
        bodies[i] = (struct body){.function = function, .arg = &seeds[i], .thread = i % 3 == 0};
    }
    bodies_run(bodies, CROWD);
}

static void dally(struct prng *prng)
{
    if (prng_below(prng, 8) == 0)
        weft_yield();
    else
        for (uint32_t i = prng_below(prng, 100); i > 0; i--)
            cpu_relax();
}

/* The mutex. */

static struct {
    weft_mutex mutex;
    int64_t inside, count; /* plain: the mutex orders them */
    atomic_i64 got, gave_up;
} ring;

static void mutex_body(void *arg)
{
    struct prng prng;
    prng_seed(&prng, *(uint64_t *)arg);
    for (int64_t i = test_scale(8000); i > 0; i--) {
        int64_t deadline = tiny_deadline(&prng);
        int result = deadline == WEFT_NEVER ? (weft_mutex_lock(&ring.mutex), 0)
                                            : weft_mutex_lock_until(&ring.mutex, deadline);
        if (result != 0) {
            CHECK_EQ(result, -ETIMEDOUT);
            atomic_i64_add_relaxed(&ring.gave_up, 1);
            continue;
        }
        CHECK_EQ(ring.inside++, 0);
        ring.count++;
        dally(&prng);
        ring.inside--;
        weft_mutex_unlock(&ring.mutex);
        atomic_i64_add_relaxed(&ring.got, 1);
    }
}

static void mutex_with_deadlines(void)
{
    crowd_run(mutex_body, test_scale(8000));
    CHECK_EQ(ring.count, atomic_i64_load_relaxed(&ring.got));
    printf("  got it %lld times, gave up %lld times\n", (long long)ring.count,
           (long long)atomic_i64_load_relaxed(&ring.gave_up));
    weft_mutex_destroy(&ring.mutex); /* aborts if anything is left in its word */
}

/* The readers-writer mutex. */

static struct {
    weft_rwmutex rw;
    int64_t a, b;
    atomic_i64 in, gave_up;
} book;

enum { WRITER_WEIGHT = 1000 };

static void rwmutex_body(void *arg)
{
    struct prng prng;
    prng_seed(&prng, *(uint64_t *)arg);
    for (int64_t i = test_scale(8000); i > 0; i--) {
        int64_t deadline = tiny_deadline(&prng);
        bool writes = prng_below(&prng, 4) == 0;
        int result = writes ? weft_rwmutex_write_lock_until(&book.rw, deadline)
                            : weft_rwmutex_read_lock_until(&book.rw, deadline);
        if (result != 0) {
            CHECK_EQ(result, -ETIMEDOUT);
            CHECK(deadline != WEFT_NEVER);
            atomic_i64_add_relaxed(&book.gave_up, 1);
            continue;
        }
        int64_t weight = writes ? WRITER_WEIGHT : 1;
        int64_t before = atomic_i64_add_seq_cst(&book.in, weight);
        CHECK(writes ? before == 0 : before < WRITER_WEIGHT);
        CHECK_EQ(book.a, book.b);
        if (writes)
            book.a++;
        dally(&prng);
        if (writes)
            book.b++;
        atomic_i64_add_seq_cst(&book.in, -weight);
        if (writes)
            weft_rwmutex_write_unlock(&book.rw);
        else
            weft_rwmutex_read_unlock(&book.rw);
    }
}

static void rwmutex_with_deadlines(void)
{
    crowd_run(rwmutex_body, test_scale(8000));
    printf("  gave up %lld times\n", (long long)atomic_i64_load_relaxed(&book.gave_up));
    weft_rwmutex_destroy(&book.rw);
}

/* The semaphore. */

enum { UNITS = 6 };

static struct {
    weft_sem sem;
    atomic_i64 out, gave_up;
} stock;

static void sem_body(void *arg)
{
    struct prng prng;
    prng_seed(&prng, *(uint64_t *)arg);
    for (int64_t i = test_scale(8000); i > 0; i--) {
        int64_t deadline = tiny_deadline(&prng), n = 1 + (int64_t)prng_below(&prng, UNITS);
        int result = weft_sem_acquire_until(&stock.sem, n, deadline);
        if (result != 0) {
            CHECK_EQ(result, -ETIMEDOUT);
            CHECK(deadline != WEFT_NEVER);
            atomic_i64_add_relaxed(&stock.gave_up, 1);
            continue;
        }
        CHECK(atomic_i64_add_seq_cst(&stock.out, n) + n <= UNITS);
        dally(&prng);
        atomic_i64_add_seq_cst(&stock.out, -n);
        weft_sem_release(&stock.sem, n);
    }
}

static void sem_with_deadlines(void)
{
    CHECK_EQ(weft_sem_init(&stock.sem, UNITS), 0);
    crowd_run(sem_body, test_scale(8000));
    printf("  gave up %lld times\n", (long long)atomic_i64_load_relaxed(&stock.gave_up));
    CHECK_EQ(weft_sem_available(&stock.sem), UNITS);
    weft_sem_destroy(&stock.sem);
}

/* The condition variable: tokens that are put one signal each, and got by waiters with deadlines. Every
 * waiter that reports a signal finds what it was signalled for, since nobody takes tokens but by one:
 * so signals are as many as wake-ups, and none for nothing. */

static struct {
    weft_mutex mutex;
    weft_cond cond;
    int64_t waiting;  /* in the list, or claimed and on its way to the mutex */
    int64_t promised; /* signals sent to those */
    int64_t woken, gave_up;
    atomic_u32 over;
} bell;

static void bell_wait(void *arg)
{
    struct prng prng;
    prng_seed(&prng, *(uint64_t *)arg);
    for (int64_t i = test_scale(4000); i > 0; i--) {
        weft_mutex_lock(&bell.mutex);
        bell.waiting++;
        int64_t deadline = tiny_deadline(&prng);
        if (deadline == WEFT_NEVER)
            deadline = weft_after(WEFT_MS);
        int result = weft_cond_wait_until(&bell.cond, &bell.mutex, deadline);
        bell.waiting--;
        CHECK(result == 0 || result == -ETIMEDOUT);
        if (result == 0) {
            bell.woken++;
            CHECK(bell.woken <= bell.promised);
        } else {
            bell.gave_up++;
        }
        weft_mutex_unlock(&bell.mutex);
    }
    atomic_u32_add_seq_cst(&bell.over, 1);
}

static void bell_ring(void *arg)
{
    struct prng prng;
    prng_seed(&prng, *(uint64_t *)arg);
    while (atomic_u32_load_acquire(&bell.over) < CROWD) {
        weft_mutex_lock(&bell.mutex);
        bell.promised++;
        weft_cond_signal(&bell.cond);
        weft_mutex_unlock(&bell.mutex);
        dally(&prng);
    }
}

static void cond_with_deadlines(void)
{
    uint64_t seed = 99;
    memset(&bell, 0, sizeof bell);
    struct body ringer = {.function = bell_ring, .arg = &seed};
    body_start(&ringer);
    crowd_run(bell_wait, test_scale(4000));
    body_join(&ringer);
    printf("  woken %lld times, gave up %lld times\n", (long long)bell.woken,
           (long long)bell.gave_up);
    CHECK_EQ(bell.waiting, 0);
    CHECK_EQ(bell.woken + bell.gave_up, CROWD * test_scale(4000));
    weft_cond_destroy(&bell.cond);
    weft_mutex_destroy(&bell.mutex);
}

/* The barrier: rounds end though parties give up and come back. */

enum { PARTIES = 4 };

static struct {
    weft_barrier barrier;
    atomic_i64 told, passed, gave_up;
    atomic_u32 over;
} gate;

static void gate_body(void *arg)
{
    struct prng prng;
    prng_seed(&prng, *(uint64_t *)arg);
    while (!atomic_u32_load_acquire(&gate.over)) {
        int64_t deadline = tiny_deadline(&prng);
        if (deadline == WEFT_NEVER)
            deadline = weft_after(50 * WEFT_US);
        int result = weft_barrier_wait_until(&gate.barrier, deadline);
        if (result < 0) {
            CHECK_EQ(result, -ETIMEDOUT);
            atomic_i64_add_relaxed(&gate.gave_up, 1);
            dally(&prng);
            continue;
        }
        atomic_i64_add_seq_cst(&gate.passed, 1);
        if (result == 1 && atomic_i64_add_seq_cst(&gate.told, 1) + 1 >= test_scale(4000))
            atomic_u32_store_release(&gate.over, 1);
    }
}

static void barrier_with_deadlines(void)
{
    CHECK_EQ(weft_barrier_init(&gate.barrier, PARTIES), 0);
    crowd_run(gate_body, test_scale(4000));
    printf("  rounds %lld, gave up %lld times\n", (long long)atomic_i64_load_relaxed(&gate.told),
           (long long)atomic_i64_load_relaxed(&gate.gave_up));
    CHECK_EQ(atomic_i64_load_relaxed(&gate.passed), PARTIES * atomic_i64_load_relaxed(&gate.told));
    weft_barrier_destroy(&gate.barrier);
}

/* Objects that come and go: many short-lived ones, each freed by the last who unlocks it. */

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

static void object_body(void *arg)
{
    for (int64_t i = test_scale(300); i > 0; i--) {
        struct body bodies[SHARERS];
        struct object *object = calloc(1, sizeof *object);
        CHECK(object != NULL);
        object->users = object->readers = SHARERS;
        for (int j = 0; j < SHARERS; j++)
            bodies[j] = (struct body){
                .function = object_use, .arg = object, .thread = i % 32 == 0 && j == 0};
        bodies_run(bodies, SHARERS);
    }
    (void)arg;
}

static void freed_by_the_last_user(void)
{
    crowd_run(object_body, test_scale(300));
}

int main(void)
{
    RUN_BOTH(mutex_with_deadlines);
    RUN_BOTH(rwmutex_with_deadlines);
    RUN_BOTH(sem_with_deadlines);
    RUN_BOTH(cond_with_deadlines);
    RUN_BOTH(barrier_with_deadlines);
    RUN_BOTH(freed_by_the_last_user);
    return 0;
}
