/*
 * locks.c: mutex, readers-writer mutex, condition, semaphore, spin lock, once, barrier and wait
 * group.
 *
 * Fibers and threads share them. They guard plain memory, which is checked inside and added up in
 * the end. The bounded buffer carries messages with ids of the ledger.
 */
#include "soak.h"

enum { TURNS = 96, MEET_EVERY = 16, UNITS = 5, BUFFER = 3, ONCES = 4, CHILDREN = 3 };

struct hall {
    weft_mutex mutex;
    uint64_t guarded, guarded_too; /* equal while the mutex is free */
    weft_rwmutex rwmutex;
    uint64_t left, right; /* equal while no writer has the lock */
    weft_spin spin;
    uint64_t spun;
    weft_sem sem;
    atomic_u32 units;
    weft_mutex buffer_mutex;
    weft_cond not_full, not_empty;
    uint64_t buffer[BUFFER];
    uint32_t buffered;
    weft_once once[ONCES];
    uint64_t once_ids[ONCES];
    weft_barrier barrier;
    atomic_u32 firsts; /* waits of the barrier that returned as the first of a round */
    atomic_u32 locked, written, spins;
};

static void use_mutex(struct hall *hall, struct prng *prng)
{
    int error = 0;
    switch (below(prng, 3)) {
    case 0:
        error = weft_mutex_try_lock(&hall->mutex);
        CHECK(error == 0 || error == -EBUSY);
        break;
    case 1:
        error = weft_mutex_lock_until(&hall->mutex, soak_soon(prng));
        CHECK(error == 0 || error == -ETIMEDOUT);
        break;
    default:
        weft_mutex_lock(&hall->mutex);
    }
    if (error != 0)
        return;
    CHECK_EQ(hall->guarded, hall->guarded_too);
    hall->guarded++;
    soak_pause(prng);
    hall->guarded_too++;
    weft_mutex_unlock(&hall->mutex);
    (void)atomic_u32_add_relaxed(&hall->locked, 1);
}

static void read_both(struct hall *hall, struct prng *prng)
{
    int error = 0;
    if (one_in(prng, 2))
        weft_rwmutex_read_lock(&hall->rwmutex);
    else
        error = one_in(prng, 2) ? weft_rwmutex_try_read_lock(&hall->rwmutex)
                                : weft_rwmutex_read_lock_until(&hall->rwmutex, soak_soon(prng));
    CHECK(error == 0 || error == -EBUSY || error == -ETIMEDOUT);
    if (error != 0)
        return;
    CHECK_EQ(hall->left, hall->right);
    soak_pause(prng);
    CHECK_EQ(hall->left, hall->right);
    weft_rwmutex_read_unlock(&hall->rwmutex);
}

static void write_both(struct hall *hall, struct prng *prng)
{
    int error = 0;
    if (one_in(prng, 2))
        weft_rwmutex_write_lock(&hall->rwmutex);
    else
        error = one_in(prng, 2) ? weft_rwmutex_try_write_lock(&hall->rwmutex)
                                : weft_rwmutex_write_lock_until(&hall->rwmutex, soak_soon(prng));
    CHECK(error == 0 || error == -EBUSY || error == -ETIMEDOUT);
    if (error != 0)
        return;
    CHECK_EQ(hall->left, hall->right);
    hall->left++;
    soak_pause(prng);
    hall->right++;
    weft_rwmutex_write_unlock(&hall->rwmutex);
    (void)atomic_u32_add_relaxed(&hall->written, 1);
}

static void use_spin(struct hall *hall)
{
    weft_spin_lock(&hall->spin);
    hall->spun++;
    weft_spin_unlock(&hall->spin);
    (void)atomic_u32_add_relaxed(&hall->spins, 1);
}

static void use_sem(struct hall *hall, struct prng *prng)
{
    uint32_t units = between(prng, 1, UNITS);
    int error = 0;
    switch (below(prng, 3)) {
    case 0:
        error = weft_sem_try_acquire(&hall->sem, units);
        CHECK(error == 0 || error == -EAGAIN);
        break;
    case 1:
        error = weft_sem_acquire_until(&hall->sem, units, soak_soon(prng));
        CHECK(error == 0 || error == -ETIMEDOUT);
        break;
    default:
        weft_sem_acquire(&hall->sem, units);
    }
    if (error != 0)
        return;
    CHECK(atomic_u32_add_seq_cst(&hall->units, units) + units <= UNITS);
    soak_pause(prng);
    (void)atomic_u32_sub_seq_cst(&hall->units, units);
    weft_sem_release(&hall->sem, units);
}

static void put(struct hall *hall, struct prng *prng)
{
    int64_t deadline = soak_soon(prng);
    uint64_t id = ledger_enter(BOOK_MESSAGES, "bounded buffer");
    weft_mutex_lock(&hall->buffer_mutex);
    int error = 0;
    while (hall->buffered == BUFFER && error == 0)
        error = weft_cond_wait_until(&hall->not_full, &hall->buffer_mutex, deadline);
    CHECK(error == 0 || error == -ETIMEDOUT);
    bool room = hall->buffered < BUFFER;
    if (room)
        hall->buffer[hall->buffered++] = id;
    weft_mutex_unlock(&hall->buffer_mutex);
    if (room)
        weft_cond_signal(&hall->not_empty);
    else
        ledger_book_out(id, REFUSED);
}

static void take(struct hall *hall, struct prng *prng)
{
    int64_t deadline = soak_soon(prng);
    weft_mutex_lock(&hall->buffer_mutex);
    int error = 0;
    while (hall->buffered == 0 && error == 0)
        error = weft_cond_wait_until(&hall->not_empty, &hall->buffer_mutex, deadline);
    CHECK(error == 0 || error == -ETIMEDOUT);
    if (hall->buffered > 0) {
        ledger_book_out(hall->buffer[--hall->buffered], HAPPENED);
        if (one_in(prng, 4))
            weft_cond_broadcast(&hall->not_full);
        else
            weft_cond_signal(&hall->not_full);
    }
    weft_mutex_unlock(&hall->buffer_mutex);
}

static void do_once(void *arg)
{
    ledger_book_out(*(uint64_t *)arg, HAPPENED);
    weft_yield();
}

static void child(void *arg)
{
    ledger_book_out(*(uint64_t *)arg, HAPPENED);
}

static void have_children(void)
{
    weft_wg wg = WEFT_WG_INIT;
    uint64_t ids[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        ids[i] = ledger_enter(BOOK_EVENTS, "child of a wait group");
        CHECK_EQ(weft_wg_go(&wg, child, &ids[i]), 0);
    }
    CHECK_EQ(weft_wg_wait(&wg), 0);
    for (int i = 0; i < CHILDREN; i++)
        CHECK(ledger_is_booked_out(ids[i]));
}

static void meet(struct hall *hall, struct prng *prng)
{
    int first;
    do
        first =
            weft_barrier_wait_until(&hall->barrier, one_in(prng, 2) ? WEFT_NEVER : soak_soon(prng));
    while (first == -ETIMEDOUT);
    CHECK(first == 0 || first == 1);
    (void)atomic_u32_add_relaxed(&hall->firsts, (uint32_t)first);
}

static void member_of_hall(struct member *member)
{
    struct hall *hall = member->shared;
    struct prng *prng = &member->prng;
    for (int turn = 1; turn <= TURNS; turn++) {
        uint32_t which = below(prng, ONCES);
        switch (below(prng, 9)) {
        case 0:
        case 1:
            use_mutex(hall, prng);
            break;
        case 2:
            read_both(hall, prng);
            break;
        case 3:
            write_both(hall, prng);
            break;
        case 4:
            use_spin(hall);
            break;
        case 5:
            use_sem(hall, prng);
            break;
        case 6:
            put(hall, prng);
            break;
        case 7:
            take(hall, prng);
            break;
        default:
            weft_once_do(&hall->once[which], do_once, &hall->once_ids[which]);
            if (one_in(prng, 4))
                have_children();
        }
        if (turn % MEET_EVERY == 0)
            meet(hall, prng);
    }
}

static void check_hall(struct hall *hall)
{
    CHECK_EQ(hall->guarded, atomic_u32_load_relaxed(&hall->locked));
    CHECK_EQ(hall->guarded_too, hall->guarded);
    CHECK_EQ(hall->left, atomic_u32_load_relaxed(&hall->written));
    CHECK_EQ(hall->spun, atomic_u32_load_relaxed(&hall->spins));
    CHECK_EQ(weft_sem_available(&hall->sem), UNITS);
    CHECK_EQ(atomic_u32_load_relaxed(&hall->firsts), TURNS / MEET_EVERY);
    while (hall->buffered > 0)
        ledger_book_out(hall->buffer[--hall->buffered], HAPPENED);
    weft_mutex_destroy(&hall->mutex);
    weft_mutex_destroy(&hall->buffer_mutex);
    weft_rwmutex_destroy(&hall->rwmutex);
    weft_cond_destroy(&hall->not_full);
    weft_cond_destroy(&hall->not_empty);
    weft_sem_destroy(&hall->sem);
    weft_barrier_destroy(&hall->barrier);
}

void locks_round(struct actor *actor)
{
    struct hall hall = {.sem = WEFT_SEM_INIT(UNITS)};
    struct crew crew;
    uint32_t count = between(&actor->prng, 1, CREW_MOST);
    for (int i = 0; i < ONCES; i++)
        hall.once_ids[i] = ledger_enter(BOOK_EVENTS, "once");
    CHECK_EQ(weft_barrier_init(&hall.barrier, count), 0);
    actor->doing = "lets others lock";
    crew_start(&crew, &actor->prng, count, member_of_hall, &hall);
    crew_join(&crew);
    for (int i = 0; i < ONCES; i++)
        weft_once_do(&hall.once[i], do_once, &hall.once_ids[i]);
    check_hall(&hall);
}
