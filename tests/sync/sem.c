/*
 * sem.c: the counting semaphore, from fibers and from threads.
 */
#include "bodies.h"
#include "everywhere.h"

#include "os/failure.h"
#include "os/os.h"
#include "seeds.h"
#include "sync/sem.h"

/* Waits until so many requests wait. */
static void await_requests(weft_sem *sem, int count)
{
    for (int now = -1; now != count; weft_yield()) {
        now = 0;
        object_latch_acquire(&sem->latch);
        for (const struct request *one = sem->first; one != NULL; one = one->next)
            now++;
        object_latch_release(&sem->latch);
    }
}

/* Ends the wait of the first request as the clock would (end_first_wait in bodies.h). */
static struct waiter *end_first_request(weft_sem *sem)
{
    object_latch_acquire(&sem->latch);
    struct waiter *waiter = ((struct request *)sem->first)->waiter;
    CHECK(waiter_claim(waiter, -ETIMEDOUT));
    object_latch_release(&sem->latch);
    return waiter;
}

/* Misuse; runs before the runtime does, so that children can be forked. */

static void arguments(void)
{
    weft_sem sem, poison;
    memset(&sem, 0x55, sizeof sem);
    poison = sem;
    CHECK_EQ(weft_sem_init(NULL, 0), -EINVAL);
    CHECK_EQ(weft_sem_init(&sem, -1), -EINVAL);
    CHECK_EQ(memcmp((const char *)&sem, (const char *)&poison, sizeof sem), 0);
    CHECK_EQ(weft_sem_init(&sem, 1), 0);
    CHECK_EQ(weft_sem_acquire_until(NULL, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_sem_acquire_until(&sem, 0, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_sem_acquire_until(&sem, -1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_sem_try_acquire(NULL, 1), -EINVAL);
    CHECK_EQ(weft_sem_try_acquire(&sem, 0), -EINVAL);
    CHECK_EQ(weft_sem_available(NULL), 0);
    CHECK_EQ(weft_sem_available(&sem), 1);
}

static void acquire_one(void *sem)
{
    weft_sem_acquire(sem, 1);
}

static void destroy_awaited(void)
{
    weft_sem sem = WEFT_SEM_INIT(0);
    struct body body = {.function = acquire_one, .arg = &sem};
    body_start(&body);
    await_requests(&sem, 1);
    weft_sem_destroy(&sem);
}

static void misuse_aborts(void)
{
    weft_sem full = WEFT_SEM_INIT(WEFT_SEM_MAX);
    CHECK_ABORTS("weft: weft_sem_acquire was given no semaphore", weft_sem_acquire(NULL, 1));
    CHECK_ABORTS("weft: weft_sem_acquire was given no semaphore, or asked for less",
                 weft_sem_acquire(&full, -1));
    CHECK_ABORTS("weft: weft_sem_release was given no semaphore", weft_sem_release(NULL, 1));
    CHECK_ABORTS("weft: weft_sem_release was given no semaphore, or less",
                 weft_sem_release(&full, 0));
    CHECK_ABORTS("weft: a semaphore was released above WEFT_SEM_MAX", weft_sem_release(&full, 1));
    CHECK_ABORTS("weft: a semaphore is destroyed that a caller waits for", destroy_awaited());
}

/* The calls. */

static void alone(void *arg)
{
    weft_sem sem = WEFT_SEM_INIT(3);
    set_errno(77);
    CHECK_EQ(weft_sem_available(&sem), 3);
    weft_sem_acquire(&sem, 2);
    CHECK_EQ(weft_sem_try_acquire(&sem, 2), -EAGAIN);
    CHECK_EQ(weft_sem_acquire_until(&sem, 2, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_sem_available(&sem), 1);
    int64_t deadline = weft_after(300 * WEFT_US);
    CHECK_EQ(weft_sem_acquire_until(&sem, 2, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_sem_acquire_until(&sem, 2, 1), -ETIMEDOUT);
    CHECK_EQ(weft_sem_try_acquire(&sem, 1), 0);
    CHECK_EQ(weft_sem_available(&sem), 0);
    weft_sem_release(&sem, 7);
    CHECK_EQ(weft_sem_acquire_until(&sem, 7, weft_after(WEFT_S)), 0);
    CHECK_EQ(get_errno(), 77);
    weft_sem_destroy(&sem);
}

/* Order: each customer notes when it has its units. */

enum { MOST = 8 };

static struct {
    weft_sem sem;
    atomic_u32 served;
    int order[MOST];
} queue;

struct customer {
    int number;
    int64_t n, deadline;
    int result;
};

static void acquire_in_line(void *arg)
{
    struct customer *self = arg;
    self->result = 0;
    if (self->deadline != 0)
        self->result = weft_sem_acquire_until(&queue.sem, self->n, self->deadline);
    else
        weft_sem_acquire(&queue.sem, self->n);
    if (self->result == 0)
        queue.order[atomic_u32_add_seq_cst(&queue.served, 1)] = self->number;
}

/* Starts the customers one after another. */
static void queue_up(struct customer *customers, struct body *bodies, int count, int threads)
{
    atomic_u32_store_relaxed(&queue.served, 0);
    for (int i = 0; i < count; i++) {
        customers[i].number = i;
        bodies[i] = (struct body){
            .function = acquire_in_line, .arg = &customers[i], .thread = threads >> i & 1};
        body_start(&bodies[i]);
        await_requests(&queue.sem, i + 1);
    }
}

static void first_come_first_served(void)
{
    for (int threads = 0; threads < 16; threads += 5) {
        struct customer customers[4] = {{.n = 1}, {.n = 5}, {.n = 2}, {.n = 1}};
        struct body bodies[4];
        CHECK_EQ(weft_sem_init(&queue.sem, 0), 0);
        queue_up(customers, bodies, 4, threads);
        int64_t total = 0;
        for (int i = 0; i < 4; i++) {
            /* One unit less than the next customer needs: it does not get them, nor do those behind
             * it. */
            if (customers[i].n > 1)
                weft_sem_release(&queue.sem, customers[i].n - 1);
            await_requests(&queue.sem, 4 - i);
            CHECK_EQ(atomic_u32_load_acquire(&queue.served), i);
            CHECK_EQ(weft_sem_try_acquire(&queue.sem, 1), -EAGAIN);
            weft_sem_release(&queue.sem, 1);
            body_join(&bodies[i]);
            CHECK_EQ(queue.order[i], i);
            total += customers[i].n;
        }
        CHECK_EQ(total, 9);
        CHECK_EQ(weft_sem_available(&queue.sem), 0);
        weft_sem_destroy(&queue.sem);
    }
}

static void one_release_serves_many(void)
{
    struct customer customers[MOST];
    struct body bodies[MOST];
    CHECK_EQ(weft_sem_init(&queue.sem, 0), 0);
    for (int i = 0; i < MOST; i++)
        customers[i] = (struct customer){.n = i + 1};
    queue_up(customers, bodies, MOST, 0x5a);
    weft_sem_release(&queue.sem, MOST * (MOST + 1) / 2 + 3);
    for (int i = 0; i < MOST; i++)
        body_join(&bodies[i]);
    CHECK_EQ(weft_sem_available(&queue.sem), 3);
    weft_sem_destroy(&queue.sem);
}

/* A large request at the head gives up: small ones behind it, which fit, are granted without a
 * release. */
static void giving_up_lets_others_on(void)
{
    for (int threads = 0; threads < 8; threads++) {
        struct customer customers[3] = {{.n = 10}, {.n = 1}, {.n = 2}};
        struct body bodies[3];
        CHECK_EQ(weft_sem_init(&queue.sem, 3), 0);
        /* Long enough for all to wait; if it is not, the requests behind never wait, which is
         * fine. */
        customers[0].deadline = weft_after(2 * WEFT_MS);
        atomic_u32_store_relaxed(&queue.served, 0);
        for (int i = 0; i < 3; i++) {
            customers[i].number = i;
            bodies[i] = (struct body){
                .function = acquire_in_line, .arg = &customers[i], .thread = threads >> i & 1};
            body_start(&bodies[i]);
        }
        for (int i = 0; i < 3; i++)
            body_join(&bodies[i]);
        CHECK_EQ(customers[0].result, -ETIMEDOUT);
        CHECK_EQ(atomic_u32_load_acquire(&queue.served), 2);
        CHECK_EQ(weft_sem_available(&queue.sem), 0);
        weft_sem_destroy(&queue.sem);
    }
}

/* The head gives up after all wait. */
static void giving_up_in_the_queue_lets_others_on(void)
{
    struct customer customers[3] = {
        {.n = 10, .deadline = weft_after(1000 * WEFT_S)}, {.n = 1}, {.n = 2}};
    struct body bodies[3];
    CHECK_EQ(weft_sem_init(&queue.sem, 3), 0);
    queue_up(customers, bodies, 3, 1);
    CHECK_EQ(atomic_u32_load_acquire(&queue.served), 0);
    wake_ended(end_first_request(&queue.sem));
    for (int i = 0; i < 3; i++)
        body_join(&bodies[i]);
    CHECK_EQ(customers[0].result, -ETIMEDOUT);
    CHECK_EQ(atomic_u32_load_acquire(&queue.served), 2);
    weft_sem_destroy(&queue.sem);
}

/* A release after the first request has given up, and before it has left, goes to the next one. */
static void a_release_passes_over_one_that_gave_up(void)
{
    struct customer customers[2] = {{.n = 1, .deadline = weft_after(1000 * WEFT_S)}, {.n = 2}};
    struct body bodies[2];
    CHECK_EQ(weft_sem_init(&queue.sem, 0), 0);
    queue_up(customers, bodies, 2, 1);
    struct waiter *first = end_first_request(&queue.sem);
    weft_sem_release(&queue.sem, 2);
    body_join(&bodies[1]);
    wake_ended(first);
    body_join(&bodies[0]);
    CHECK_EQ(customers[0].result, -ETIMEDOUT);
    weft_sem_destroy(&queue.sem);
}

/* A request for more units than there are, and perhaps ever will be, waits; so do the requests
 * behind it, though there are enough units for them. */
static void an_impossible_request_waits(void)
{
    struct customer customer = {.n = 10, .deadline = weft_after(1000 * WEFT_S)};
    struct body body;
    CHECK_EQ(weft_sem_init(&queue.sem, 3), 0);
    CHECK_EQ(weft_sem_try_acquire(&queue.sem, 10), -EAGAIN);
    queue_up(&customer, &body, 1, 0);
    CHECK_EQ(weft_sem_available(&queue.sem), 3);
    CHECK_EQ(weft_sem_try_acquire(&queue.sem, 1), -EAGAIN);
    CHECK_EQ(weft_sem_acquire_until(&queue.sem, 1, weft_after(100 * WEFT_US)), -ETIMEDOUT);
    weft_sem_release(&queue.sem, 7);
    body_join(&body);
    CHECK_EQ(customer.result, 0);
    CHECK_EQ(weft_sem_available(&queue.sem), 0);
    weft_sem_destroy(&queue.sem);
}

/* Never more units are out than there are. */

static struct {
    weft_sem sem;
    atomic_i64 out;
} bound;

enum { UNITS = 5 };

static void take_and_give(void *arg)
{
    int64_t self = *(int64_t *)arg;
    for (int64_t i = test_scale(5000); i > 0; i--) {
        int64_t n = (self + i) % UNITS + 1;
        weft_sem_acquire(&bound.sem, n);
        CHECK(atomic_i64_add_seq_cst(&bound.out, n) + n <= UNITS);
        if (i % 8 == 0)
            weft_yield();
        atomic_i64_add_seq_cst(&bound.out, -n);
        weft_sem_release(&bound.sem, n);
    }
}

static void bounds(void)
{
    struct body bodies[MOST];
    int64_t numbers[MOST];
    CHECK_EQ(weft_sem_init(&bound.sem, UNITS), 0);
    for (int i = 0; i < MOST; i++) {
        numbers[i] = i;
        bodies[i] =
            (struct body){.function = take_and_give, .arg = &numbers[i], .thread = i % 3 == 0};
    }
    bodies_run(bodies, MOST);
    CHECK_EQ(weft_sem_available(&bound.sem), UNITS);
    weft_sem_destroy(&bound.sem);
}

/* The end: the caller that acquired the last unit may free the semaphore. */

static void release_one(void *sem)
{
    weft_sem_release(sem, 1);
}

static void not_touched_after_release(void)
{
    for (int64_t round = test_scale(3000); round > 0; round--) {
        weft_sem sem = WEFT_SEM_INIT(0);
        struct body body = {.function = release_one, .arg = &sem, .thread = round % 16 == 0};
        body_start(&body);
        weft_sem_acquire(&sem, 1);
        scrap(&sem, sizeof sem);
        body_join(&body);
        check_scrapped(&sem, sizeof sem);
    }
}

static void waiting_needs_no_memory(void)
{
    weft_sem sem = WEFT_SEM_INIT(0);
    struct body body = {.function = acquire_one, .arg = &sem, .thread = true};
    weft__os_fail(OS_ALLOC, 1, true);
    body_start(&body);
    await_requests(&sem, 1);
    weft_sem_release(&sem, 1);
    body_join(&body);
    weft__os_fail(OS_ALLOC, 0, false);
}

/* A forked child. */

static weft_sem awaited = WEFT_SEM_INIT(0);

static void in_child(void)
{
    CHECK_EQ(weft_sem_acquire_until(&awaited, 1, WEFT_NEVER), -ECHILD);
    CHECK_ABORTS("weft: a semaphore cannot be waited for in a forked child", acquire_one(&awaited));
    weft_sem_release(&awaited, 2); /* its waiter is in the parent */
    weft_sem_acquire(&awaited, 2);
    awaited.latch = 1; /* as if held by a thread of the parent */
    weft_sem_release(&awaited, 1);
    CHECK_EQ(weft_sem_try_acquire(&awaited, 1), 0);
    weft_sem_destroy(&awaited);
}

static void a_forked_child_does_not_hang(void)
{
    struct body body = {.function = acquire_one, .arg = &awaited};
    body_start(&body);
    await_requests(&awaited, 1);
    in_fork(in_child);
    weft_sem_release(&awaited, 1);
    body_join(&body);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN_EVERYWHERE(alone);
    RUN_BOTH(first_come_first_served);
    RUN_BOTH(one_release_serves_many);
    RUN_BOTH(giving_up_lets_others_on);
    RUN_BOTH(giving_up_in_the_queue_lets_others_on);
    RUN_BOTH(a_release_passes_over_one_that_gave_up);
    RUN_BOTH(an_impossible_request_waits);
    RUN_BOTH(bounds);
    RUN_BOTH(not_touched_after_release);
    RUN_PLAIN(waiting_needs_no_memory, "a fiber cannot start without memory");
    RUN_PLAIN(a_forked_child_does_not_hang, "forks");
    return 0;
}
