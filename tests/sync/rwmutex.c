/*
 * rwmutex.c: the readers-writer mutex, from fibers and from threads.
 */
#include "bodies.h"
#include "everywhere.h"
#include "forking.h"
#include "seeds.h"

/* Misuse; runs before the runtime does, so that children can be forked. */

static weft_rwmutex misused;

static void arguments(void)
{
    CHECK_EQ(weft_rwmutex_read_lock_until(NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_rwmutex_write_lock_until(NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_rwmutex_try_read_lock(NULL), -EINVAL);
    CHECK_EQ(weft_rwmutex_try_write_lock(NULL), -EINVAL);
}

static void write_unlock_misused(void *arg)
{
    weft_rwmutex_write_unlock(&misused);
}

static void misuse_aborts(void)
{
    static const char reading[] = "unlocked for reading that is not locked for it";
    static const char writing[] = "unlocked for writing that is not locked for it";
    CHECK_ABORTS("was given no mutex", weft_rwmutex_read_lock(NULL));
    CHECK_ABORTS("was given no mutex", weft_rwmutex_write_lock(NULL));
    CHECK_ABORTS(reading, weft_rwmutex_read_unlock(&misused));
    CHECK_ABORTS(writing, weft_rwmutex_write_unlock(&misused));
    CHECK_ABORTS(reading, weft_rwmutex_write_lock(&misused); weft_rwmutex_read_unlock(&misused));
    CHECK_ABORTS(writing, weft_rwmutex_read_lock(&misused); weft_rwmutex_write_unlock(&misused));
    CHECK_ABORTS("weft: a readers-writer mutex is destroyed that is locked",
                 weft_rwmutex_read_lock(&misused);
                 weft_rwmutex_destroy(&misused));
}

static void write_misused(void *arg)
{
    weft_rwmutex_write_lock(&misused);
}

/* The second unlock meets a mutex that was handed to a writer, which has not run yet. */
static void unlock_twice(void *arg)
{
    weft_fiber *writer;
    weft_rwmutex_write_lock(&misused);
    CHECK_EQ(weft_spawn(&writer, write_misused, arg, NULL), 0);
    await_waiters(&misused.latch, &misused.writers, 1);
    weft_rwmutex_write_unlock(&misused);
    weft_rwmutex_write_unlock(&misused);
}

static void debug_builds_check_the_owner(void)
{
#ifdef WEFT_DEBUG
    static const char another[] = "unlocked by another than its writer";
    CHECK_ABORTS("a readers-writer mutex is locked by its writer", write_misused(NULL);
                 write_misused(NULL));
    CHECK_ABORTS("a lock is taken by one that has it already", weft_rwmutex_read_lock(&misused);
                 weft_rwmutex_read_lock(&misused));
    CHECK_ABORTS(another, write_misused(NULL); body_run(write_unlock_misused, NULL, true));
    CHECK_ABORTS(another, on_one_machine(unlock_twice, NULL));
#else
    (void)unlock_twice;
    (void)write_unlock_misused;
    printf("  left out: not a debug build\n");
#endif
}

/* The calls. */

static void alone(void *arg)
{
    static const weft_rwmutex zeroed;
    weft_rwmutex rw = WEFT_RWMUTEX_INIT;
    CHECK_EQ(memcmp(&zeroed, &rw, sizeof rw), 0);
    set_errno(77);
    weft_rwmutex_read_lock(&rw);
    CHECK_EQ(weft_rwmutex_try_read_lock(&rw), 0);
    CHECK_EQ(weft_rwmutex_read_lock_until(&rw, WEFT_NOW), 0);
    CHECK_EQ(weft_rwmutex_try_write_lock(&rw), -EBUSY);
    CHECK_EQ(weft_rwmutex_write_lock_until(&rw, WEFT_NOW), -ETIMEDOUT);
    for (int i = 0; i < 3; i++)
        weft_rwmutex_read_unlock(&rw);
    weft_rwmutex_write_lock(&rw);
    CHECK_EQ(weft_rwmutex_try_read_lock(&rw), -EBUSY);
    CHECK_EQ(weft_rwmutex_try_write_lock(&rw), -EBUSY);
    CHECK_EQ(weft_rwmutex_read_lock_until(&rw, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_rwmutex_write_lock_until(&rw, WEFT_NOW), -ETIMEDOUT);
    weft_rwmutex_write_unlock(&rw);
    CHECK_EQ(weft_rwmutex_try_write_lock(&rw), 0);
    weft_rwmutex_write_unlock(&rw);
    CHECK_EQ(weft_rwmutex_write_lock_until(&rw, weft_after(WEFT_S)), 0);
    weft_rwmutex_write_unlock(&rw);
    CHECK_EQ(weft_rwmutex_read_lock_until(&rw, weft_after(WEFT_S)), 0);
    weft_rwmutex_read_unlock(&rw);
    CHECK_EQ(get_errno(), 77);
    weft_rwmutex_destroy(&rw);
    CHECK_EQ(memcmp(&zeroed, &rw, sizeof rw), 0);
}

/* Exclusion. */

enum { BODIES = 8 };

static struct {
    weft_rwmutex rw;
    int64_t a, b; /* plain: the mutex orders them */
    atomic_u32 together;
} shared;

static void read_or_write(void *arg)
{
    for (int64_t i = test_scale(4000); i > 0; i--) {
        if (i % 5 == 0) {
            weft_rwmutex_write_lock(&shared.rw);
            CHECK_EQ(atomic_u32_add_seq_cst(&shared.together, 1000), 0);
            shared.a++;
            if (i % 3 == 0)
                weft_yield();
            shared.b++;
            atomic_u32_sub_seq_cst(&shared.together, 1000);
            weft_rwmutex_write_unlock(&shared.rw);
        } else {
            weft_rwmutex_read_lock(&shared.rw);
            CHECK(atomic_u32_add_seq_cst(&shared.together, 1) < BODIES);
            if (i % 7 == 0)
                weft_yield();
            CHECK_EQ(shared.a, shared.b);
            atomic_u32_sub_seq_cst(&shared.together, 1);
            weft_rwmutex_read_unlock(&shared.rw);
        }
    }
}

static void excludes(void)
{
    for (int threads = 0; threads <= BODIES; threads += BODIES / 2) {
        struct body bodies[BODIES];
        shared.a = shared.b = 0;
        for (int i = 0; i < BODIES; i++)
            bodies[i] = (struct body){.function = read_or_write, .thread = i < threads};
        bodies_run(bodies, BODIES);
        CHECK_EQ(shared.a, BODIES * (test_scale(4000) / 5));
    }
    weft_rwmutex_destroy(&shared.rw);
}

/* Turns. Each party notes when it got in, and stays until it is released. */

static struct {
    weft_rwmutex rw;
} turn;

struct party {
    bool writes;
    int64_t deadline;
    int result;
    atomic_u32 in, go;
};

static void take_part(void *arg)
{
    struct party *self = arg;
    int64_t deadline = self->deadline != 0 ? self->deadline : WEFT_NEVER;
    self->result = self->writes ? weft_rwmutex_write_lock_until(&turn.rw, deadline)
                                : weft_rwmutex_read_lock_until(&turn.rw, deadline);
    atomic_u32_store_release(&self->in, 1);
    if (self->result != 0)
        return;
    await(&self->go, 1);
    if (self->writes)
        weft_rwmutex_write_unlock(&turn.rw);
    else
        weft_rwmutex_read_unlock(&turn.rw);
}

static void party_start(struct party *party, struct body *body, bool thread)
{
    *body = (struct body){.function = take_part, .arg = party, .thread = thread};
    body_start(body);
}

static void await_readers(int count)
{
    await_waiters(&turn.rw.latch, &turn.rw.readers, count);
}

static void await_writers(int count)
{
    await_waiters(&turn.rw.latch, &turn.rw.writers, count);
}

static void release(struct party *party, struct body *body)
{
    await(&party->in, 1);
    CHECK_EQ(party->result, 0);
    atomic_u32_store_release(&party->go, 1);
    body_join(body);
}

/* A reader has the mutex; writer, reader, writer, reader wait in this order. The first writer holds
 * the readers back; after it both readers enter, before the second writer. */
static void writers_and_readers_take_turns(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct party v[5] = {{.writes = false},
                             {.writes = true},
                             {.writes = false},
                             {.writes = true},
                             {.writes = false}};
        struct body bodies[5];
        party_start(&v[0], &bodies[0], thread);
        await(&v[0].in, 1);
        party_start(&v[1], &bodies[1], !thread);
        await_writers(1);
        CHECK_EQ(weft_rwmutex_try_read_lock(&turn.rw), -EBUSY);
        party_start(&v[2], &bodies[2], thread);
        await_readers(1);
        party_start(&v[3], &bodies[3], thread);
        await_writers(2);
        party_start(&v[4], &bodies[4], !thread);
        await_readers(2);
        release(&v[0], &bodies[0]);
        await(&v[1].in, 1);
        await_readers(2);
        await_writers(1);
        release(&v[1], &bodies[1]);
        await(&v[2].in, 1);
        await(&v[4].in, 1);
        await_writers(1);
        CHECK_EQ(atomic_u32_load_acquire(&v[3].in), 0);
        release(&v[2], &bodies[2]);
        CHECK_EQ(atomic_u32_load_acquire(&v[3].in), 0);
        release(&v[4], &bodies[4]);
        release(&v[3], &bodies[3]);
        weft_rwmutex_destroy(&turn.rw);
    }
}

static void a_writer_that_gives_up_lets_readers_on(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct party reader = {.writes = false}, held_back = {.writes = false};
        struct party writer = {.writes = true, .deadline = weft_after(2 * WEFT_MS)};
        struct body bodies[3];
        party_start(&reader, &bodies[0], thread);
        await(&reader.in, 1);
        party_start(&writer, &bodies[1], thread);
        party_start(&held_back, &bodies[2], !thread);
        body_join(&bodies[1]);
        CHECK_EQ(writer.result, -ETIMEDOUT);
        await(&held_back.in, 1); /* the first reader still has it */
        release(&held_back, &bodies[2]);
        release(&reader, &bodies[0]);
        weft_rwmutex_destroy(&turn.rw);
    }
}

/* The reader is held back: it waits in the list. */
static void a_reader_that_was_held_back_goes_on(void)
{
    struct party reader = {.writes = false}, held_back = {.writes = false};
    struct party writer = {.writes = true, .deadline = weft_after(1000 * WEFT_S)};
    struct body bodies[3];
    party_start(&reader, &bodies[0], false);
    await(&reader.in, 1);
    party_start(&writer, &bodies[1], true);
    await_writers(1);
    party_start(&held_back, &bodies[2], false);
    await_readers(1);
    wake_ended(end_first_wait(&turn.rw.latch, &turn.rw.writers));
    body_join(&bodies[1]);
    CHECK_EQ(writer.result, -ETIMEDOUT);
    release(&held_back, &bodies[2]);
    release(&reader, &bodies[0]);
    weft_rwmutex_destroy(&turn.rw);
}

/* An unlock after the first writer in the list has given up, and before it has left, admits the
 * next waiter, a writer or a reader. */
static void an_unlock_passes_over_one_that_gave_up(void)
{
    for (int writes = 0; writes < 2; writes++) {
        struct party next = {.writes = writes};
        struct party writer = {.writes = true, .deadline = weft_after(1000 * WEFT_S)};
        struct body bodies[2];
        CHECK_EQ(weft_rwmutex_try_read_lock(&turn.rw), 0);
        party_start(&writer, &bodies[0], true);
        await_writers(1);
        party_start(&next, &bodies[1], false);
        if (writes)
            await_writers(2);
        else
            await_readers(1);
        struct waiter *first = end_first_wait(&turn.rw.latch, &turn.rw.writers);
        weft_rwmutex_read_unlock(&turn.rw);
        release(&next, &bodies[1]);
        wake_ended(first);
        body_join(&bodies[0]);
        CHECK_EQ(writer.result, -ETIMEDOUT);
        weft_rwmutex_destroy(&turn.rw);
    }
}

/* Deadlines of both kinds, against both kinds. */
static void deadlines(void)
{
    for (int kinds = 0; kinds < 8; kinds++) {
        struct party holder = {.writes = kinds & 1 || !(kinds & 2)};
        struct party waiter = {.writes = kinds & 2, .deadline = weft_after(300 * WEFT_US)};
        struct body bodies[2];
        party_start(&holder, &bodies[0], kinds & 4);
        await(&holder.in, 1);
        party_start(&waiter, &bodies[1], !(kinds & 4));
        body_join(&bodies[1]);
        CHECK_EQ(waiter.result, -ETIMEDOUT);
        CHECK(weft_now() >= waiter.deadline);
        release(&holder, &bodies[0]);
        weft_rwmutex_destroy(&turn.rw); /* no waiter is left in a list */
    }
}

/* The end: the last user frees it right after its unlock. */

struct counted {
    weft_rwmutex rw;
    int users; /* under the mutex */
};

static void use_and_drop(void *arg)
{
    struct counted *object = arg;
    weft_rwmutex_read_lock(&object->rw);
    weft_rwmutex_read_unlock(&object->rw);
    weft_rwmutex_write_lock(&object->rw);
    bool last = --object->users == 0;
    weft_rwmutex_write_unlock(&object->rw);
    if (last)
        scrap(object, sizeof *object);
}

static void not_touched_after_unlock(void)
{
    for (int64_t round = test_scale(1500); round > 0; round--) {
        struct counted object = {WEFT_RWMUTEX_INIT, 4};
        struct body bodies[4];
        for (int i = 0; i < 4; i++)
            bodies[i] = (struct body){
                .function = use_and_drop, .arg = &object, .thread = round % 16 == 0 && i % 2};
        bodies_run(bodies, 4);
        check_scrapped(&object, sizeof object);
    }
}

/* A forked child. */

static weft_rwmutex others;

static void in_child(void)
{
    CHECK_EQ(weft_rwmutex_read_lock_until(&others, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_rwmutex_write_lock_until(&others, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_rwmutex_try_read_lock(&others), -EBUSY);
    CHECK_ABORTS("was locked when the process was forked", weft_rwmutex_read_lock(&others));
    weft_rwmutex_write_unlock(&turn.rw); /* its waiters are in the parent */
    weft_rwmutex_read_lock(&turn.rw);
    weft_rwmutex_read_unlock(&turn.rw);
    weft_rwmutex_destroy(&turn.rw);
}

static void lock_it(void *rwmutex)
{
    weft_rwmutex_write_lock(rwmutex);
}

static void unlock_it(void *rwmutex)
{
    weft_rwmutex_write_unlock(rwmutex);
}

static void a_forked_child_does_not_hang(void)
{
    struct fork_lock scene = {.lock = lock_it, .unlock = unlock_it, .object = &others};
    for (int thread = 0; thread < 2; thread++) {
        struct party parties[2] = {{.writes = false}, {.writes = true}};
        struct body bodies[2];
        weft_rwmutex_write_lock(&turn.rw);
        for (int i = 0; i < 2; i++)
            party_start(&parties[i], &bodies[i], false);
        await_readers(1);
        await_writers(1);
        fork_while_held(scene, thread, in_child);
        weft_rwmutex_write_unlock(&turn.rw);
        for (int i = 0; i < 2; i++)
            release(&parties[i], &bodies[i]);
    }
}

static weft_rwmutex written;

static void unlock_in_child(void)
{
    weft_rwmutex_write_unlock(&written);
    weft_rwmutex_write_lock(&written);
    weft_rwmutex_write_unlock(&written);
    weft_rwmutex_destroy(&written);
}

static void write_and_fork(void *arg)
{
    weft_rwmutex_write_lock(&written);
    in_fork(unlock_in_child);
    weft_rwmutex_write_unlock(&written);
}

static void a_fiber_unlocks_in_its_child(void)
{
    on_one_machine(write_and_fork, NULL);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN_PLAIN(debug_builds_check_the_owner, "a child process that must die");
    RUN_EVERYWHERE(alone);
    RUN_BOTH(excludes);
    RUN_BOTH(writers_and_readers_take_turns);
    RUN_BOTH(a_writer_that_gives_up_lets_readers_on);
    RUN_BOTH(a_reader_that_was_held_back_goes_on);
    RUN_PLAIN(an_unlock_passes_over_one_that_gave_up, "ends a thread's wait by hand");
    RUN_BOTH(deadlines);
    RUN_BOTH(not_touched_after_unlock);
    RUN_PLAIN(a_forked_child_does_not_hang, "forks");
    RUN_PLAIN(a_fiber_unlocks_in_its_child, "forks");
    return 0;
}
