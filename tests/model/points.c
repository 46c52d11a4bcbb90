/*
 * points.c: the operations of a model's thread: atomics with store buffers, memory, blocking.
 *
 * A thread is at a point before each of them, where the search decides which thread runs. Other
 * choices (whether a store has arrived) are made where they come up.
 *
 * While delays are left every store goes into the buffer of its thread. The choice is made, and the
 * delay counted, when another thread reads the place.
 */
#include <string.h>

#include "base/atomic.h"
#include "explorer.h"
#include "schedule.h"

/* Memory. */

static void check_touch(const void *address)
{
    const char *at = address;
    if (at < explorer->arena || at >= explorer->arena + ARENA_SIZE)
        return;
    for (int i = 0; i < explorer->block_count; i++) {
        struct block *block = &explorer->blocks[i];
        if (at >= block->memory && at < block->memory + block->size && block->freed)
            model_fail("%p is touched, %td bytes into memory that was freed", address,
                       at - block->memory);
    }
}

static uint64_t memory_read(const void *address, size_t size)
{
    check_touch(address);
    return size == 4 ? *(const volatile uint32_t *)address : *(const volatile uint64_t *)address;
}

static void memory_write(struct thread_of_model *by, void *address, size_t size, uint64_t value)
{
    if (memory_read(address, size) == (size == 4 ? (uint32_t)value : value))
        return;
    if (size == 4)
        *(volatile uint32_t *)address = (uint32_t)value;
    else
        *(volatile uint64_t *)address = value;
    explorer->writes++;
    if (by != NULL)
        by->wrote++;
}

/* Store buffers. */

int model__buffered(const struct thread_of_model *thread, const void *address, bool newest)
{
    int found = -1;
    for (int i = 0; i < thread->buffered && (found < 0 || newest); i++)
        if (thread->buffer[i].address == address)
            found = i;
    return found;
}

/* A store arrives, after those that must arrive before it. */
static void arrive(struct thread_of_model *thread, int index)
{
    struct buffered store = thread->buffer[index];
    for (int older = 0; older < index;) {
        int before = thread->buffered;
        if (store.release || thread->buffer[older].address == store.address) {
            arrive(thread, older);
            index -= before - thread->buffered;
            older = 0;
        } else {
            older++;
        }
    }
    memory_write(thread, store.address, store.size, store.value);
    if (schedule_wanted())
        schedule_add(thread->name, "  its store arrives", store.address, store.value, NULL);
    thread->buffered--;
    memmove(&thread->buffer[index], &thread->buffer[index + 1],
            (size_t)(thread->buffered - index) * sizeof store);
}

void model__arrive_all(struct thread_of_model *thread)
{
    while (thread != NULL && thread->buffered > 0)
        arrive(thread, 0);
}

static void arrive_own(struct thread_of_model *self, const void *address)
{
    int index;
    while (self != NULL && (index = model__buffered(self, address, true)) >= 0)
        arrive(self, index);
}

/* Before a read: stores of other threads to the place have arrived, or not yet. */
static void arrive_some(const void *address)
{
    struct explorer *x = explorer;
    for (int i = 0; running() != NULL && i < x->thread_count; i++) {
        struct thread_of_model *other = &x->threads[i];
        for (int index; i != x->current && (index = model__buffered(other, address, false)) >= 0;) {
            if (x->left.delays > 0 && !x->calm && model_choose(2) == 1) {
                x->left.delays--;
                if (schedule_wanted())
                    schedule_add(other->name, "  is not there yet", address,
                                 other->buffer[index].value, NULL);
                break;
            }
            arrive(other, index);
        }
    }
}

void model_barrier_all(void)
{
    for (int i = 0; i < explorer->thread_count; i++)
        model__arrive_all(&explorer->threads[i]);
}

void *model_alloc(size_t size)
{
    struct explorer *x = explorer;
    size_t rounded = (size + 127) & ~(size_t)127;
    if (x->arena_used + rounded > ARENA_SIZE || x->block_count == BLOCKS_MOST)
        model_fail("the model's memory is used up");
    char *memory = x->arena + x->arena_used;
    x->arena_used += rounded;
    x->blocks[x->block_count++] = (struct block){memory, size, false};
    memset(memory, 0, rounded);
    return memory;
}

void model_free(void *memory)
{
    for (int i = 0; i < explorer->block_count; i++) {
        struct block *block = &explorer->blocks[i];
        if (block->memory != memory)
            continue;
        if (block->freed)
            model_fail("%p is freed twice", memory);
        model__arrive_all(running()); /* the stores of this thread only */
        block->freed = true;
        memset(memory, 0xdd, block->size);
        return;
    }
    if (memory != NULL)
        model_fail("%p is freed and was never allocated", memory);
}

/* Points. */

/* Not inlined, so that its frame and saved registers are the same at every point. */
static __attribute__((noinline)) void point(void)
{
    struct thread_of_model *self = running();
    if (self == NULL)
        return;
    explorer->points++;
    if (++explorer->steps > STEPS_MOST)
        model_fail("more than %d steps", STEPS_MOST);
    context_switch(&self->context, &explorer->context);
}

static void begin(void)
{
    struct thread_of_model *self = running();
    point();
    if (self != NULL && self->relaxed) {
        self->relaxed = false;
        self->others_wrote = explorer->writes - self->wrote;
    }
}

void model__show(const char *what, const void *address, uint64_t value, const void *site)
{
    if (schedule_wanted() && running() != NULL)
        schedule_add(running()->name, what, address, value, site);
}

__attribute__((noinline)) uint64_t model_load(const void *address, size_t size,
                                              enum model_order order)
{
    begin();
    struct thread_of_model *self = running();
    int own = self != NULL ? model__buffered(self, address, true) : -1;
    if (own < 0)
        arrive_some(address);
    uint64_t value = own >= 0 ? self->buffer[own].value : memory_read(address, size);
    model__show("load", address, value, __builtin_return_address(0));
    return value;
}

__attribute__((noinline)) void model_store(void *address, size_t size, uint64_t value,
                                           enum model_order order)
{
    begin();
    struct thread_of_model *self = running();
    bool release = order == MODEL_RELEASE;
    check_touch(address);
    model__show("store", address, value, __builtin_return_address(0));
    if (self != NULL && explorer->left.delays > 0) {
        if (self->buffered == BUFFER_MOST)
            arrive(self, 0);
        self->buffer[self->buffered++] = (struct buffered){address, value, (uint32_t)size, release};
        explorer->writes++; /* threads in loops may see it from here on */
        self->wrote++;
        return;
    }
    if (release)
        model__arrive_all(self);
    else
        arrive_own(self, address);
    memory_write(self, address, size, value);
}

static uint64_t changed(uint64_t before, enum model_change change, uint64_t value)
{
    switch (change) {
    case MODEL_ADD:
        return before + value;
    case MODEL_OR:
        return before | value;
    case MODEL_AND:
        return before & value;
    default:
        return value;
    }
}

static void begin_change(const void *address)
{
    begin();
    arrive_own(running(), address);
    arrive_some(address);
}

__attribute__((noinline)) uint64_t model_change(void *address, size_t size,
                                                enum model_change change, uint64_t value,
                                                enum model_order order)
{
    static const char *const names[] = {"exchange", "add", "or", "and"};
    begin_change(address);
    if (order >= MODEL_RELEASE)
        model__arrive_all(running());
    uint64_t before = memory_read(address, size);
    uint64_t after = changed(before, change, value);
    memory_write(running(), address, size, after);
    model__show(names[change], address, after, __builtin_return_address(0));
    return before;
}

__attribute__((noinline)) bool model_cas(void *address, size_t size, uint64_t *expected,
                                         uint64_t desired, enum model_order order)
{
    begin_change(address);
    uint64_t before = memory_read(address, size);
    bool same = before == *expected;
    if (same) {
        if (order >= MODEL_RELEASE)
            model__arrive_all(running());
        memory_write(running(), address, size, desired);
    }
    *expected = before;
    model__show(same ? "cas" : "cas, failed", address, same ? desired : before,
                __builtin_return_address(0));
    return same;
}

/* Blocking operations of the modelled system. */

void model_spin(void)
{
    struct thread_of_model *self = running();
    if (self == NULL || self->relaxed)
        return;
    self->relaxed = true;
    self->status = WAITS_WRITE;
    model__show("spins", NULL, 0, __builtin_return_address(0));
    point();
}

__attribute__((noinline)) void model_call(const char *what, const void *about)
{
    begin();
    model__arrive_all(running());
    model__show(what, about, 0, __builtin_return_address(0));
}

bool model_wait(const char *what, const void *key, int64_t deadline)
{
    struct thread_of_model *self = running();
    if (self == NULL)
        model_fail("%s outside of threads", what);
    model__arrive_all(self);
    self->status = WAITS_WAKE;
    self->key = key;
    self->deadline = deadline;
    self->timed_out = false;
    model__show(what, key, 0, NULL);
    point();
    self->key = NULL;
    return self->timed_out;
}

int64_t model_next_deadline(void)
{
    int64_t next = MODEL_NO_DEADLINE;
    for (int i = 0; i < explorer->thread_count; i++) {
        const struct thread_of_model *one = &explorer->threads[i];
        if (one->status == WAITS_WAKE && one->deadline < next)
            next = one->deadline;
    }
    return next;
}

void model_wake(const char *what, const void *key, int count)
{
    for (int i = 0; i < explorer->thread_count && count > 0; i++) {
        struct thread_of_model *one = &explorer->threads[i];
        if (one->status != WAITS_WAKE || one->key != key)
            continue;
        one->status = READY;
        count--;
        if (schedule_wanted())
            schedule_add(one->name, what, key, 0, NULL);
    }
}

void model_wait_word(const void *address, uint32_t value)
{
    struct thread_of_model *self = running();
    if (self == NULL)
        model_fail("%p is waited for outside of threads", address);
    self->status = WAITS_WORD;
    self->key = address;
    self->value = value;
    point();
    self->key = NULL;
}

void model_wait_until(bool (*until)(void))
{
    struct thread_of_model *self = running();
    model__arrive_all(self);
    self->status = WAITS_UNTIL; /* possibly already true */
    self->until = until;
    point();
}

void model_calm(bool calm)
{
    explorer->calm = calm;
}

void model_name(const void *address, const char *name)
{
    schedule_name(address, name);
}
