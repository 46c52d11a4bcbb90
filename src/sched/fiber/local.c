/*
 * local.c: fiber-local storage.
 *
 * A key is a place in every fiber's array of values and a generation, so that a key made anew in
 * the place of a deleted one does not see the values of the old one. The array is allocated when a
 * fiber first sets a value.
 *
 * A key is place + WEFT_LOCAL_KEYS * generation, of which 32 bits are kept: after 2^26 keys made in one
 * place its generations begin again. None is 0, so 0 is no key. Making and deleting keys is under a lock;
 * get and set read the generation without it.
 */
#include "sched/fiber/local.h"

#include <errno.h>
#include <weft/local.h>

#include "base/atomic.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"

enum { DESTRUCTOR_ROUNDS = 4 };
#define GENERATIONS (UINT32_MAX / WEFT_LOCAL_KEYS) /* the last one; then 1 follows */

struct locals {
    struct {
        uint32_t key;
        void *value;
    } entries[WEFT_LOCAL_KEYS];
};

static struct {
    struct lock lock;
    struct {
        atomic_u32 key; /* the key that lives here; 0: none */
        atomic_ptr destructor;
        uint32_t generation;
    } places[WEFT_LOCAL_KEYS];
} keys;

int weft_local_create(weft_local_key *key, void (*destructor)(void *))
{
    if (key == NULL)
        return -EINVAL;
    int result = -EAGAIN;
    lock_acquire(&keys.lock);
    for (uint32_t place = 0; place < WEFT_LOCAL_KEYS && result != 0; place++) {
        if (atomic_u32_load_relaxed(&keys.places[place].key) != 0)
            continue;
        uint32_t generation = keys.places[place].generation % GENERATIONS + 1;
        keys.places[place].generation = generation;
        uint32_t made = place + WEFT_LOCAL_KEYS * generation;
        /* Release: who reads it sees that the key before it is gone; pairs with destroy_values. */
        atomic_ptr_store_release(&keys.places[place].destructor, (void *)(uintptr_t)destructor);
        atomic_u32_store_release(&keys.places[place].key, made); /* pairs with is_key */
        *key = made;
        result = 0;
    }
    lock_release(&keys.lock);
    return result;
}

static bool is_key(weft_local_key key)
{
    return key != 0 && atomic_u32_load_acquire(&keys.places[key % WEFT_LOCAL_KEYS].key) == key;
}

int weft_local_delete(weft_local_key key)
{
    lock_acquire(&keys.lock);
    bool found = is_key(key);
    if (found)
        atomic_u32_store_relaxed(&keys.places[key % WEFT_LOCAL_KEYS].key, 0);
    lock_release(&keys.lock);
    return found ? 0 : -EINVAL;
}

/* Where the caller's values are; NULL if there are none, or without memory. */
static struct locals **locals_self(bool make)
{
    struct thread *thread = thread_self();
    if (thread != NULL && thread->fiber != NULL) {
        struct weft_fiber *fiber = thread->fiber;
        struct extra *extra = make ? weft__fiber_extra(fiber) : fiber_extra(fiber);
        return extra != NULL ? &extra->locals : NULL;
    }
    struct foreign *foreign = (struct foreign *)thread;
    if (foreign == NULL && make)
        foreign = weft__foreign_self();
    return foreign != NULL ? &foreign->locals : NULL;
}

void *weft_local_get(weft_local_key key)
{
    struct locals **locals = locals_self(false);
    uint32_t place = key % WEFT_LOCAL_KEYS;
    if (locals == NULL || *locals == NULL || !is_key(key) || (*locals)->entries[place].key != key)
        return NULL;
    return (*locals)->entries[place].value;
}

int weft_local_set(weft_local_key key, void *value)
{
    if (!is_key(key))
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD; /* it may need memory, and the allocator may be locked for ever there */
    struct locals **locals = locals_self(true);
    if (locals == NULL)
        return -ENOMEM;
    if (*locals == NULL && (*locals = weft__os_alloc_zeroed(sizeof **locals)) == NULL)
        return -ENOMEM;
    uint32_t place = key % WEFT_LOCAL_KEYS;
    (*locals)->entries[place].key = key;
    (*locals)->entries[place].value = value;
    return 0;
}

/* One round of destructors; true if there was any. */
static bool destroy_values(struct locals *locals)
{
    bool any = false;
    for (uint32_t place = 0; place < WEFT_LOCAL_KEYS; place++) {
        void *value = locals->entries[place].value;
        uint32_t key = locals->entries[place].key;
        locals->entries[place].value = NULL;
        if (value == NULL)
            continue;
        void *pointer = atomic_ptr_load_acquire(&keys.places[place].destructor);
        if (!is_key(key)) /* after the load: so the destructor is that of this key */
            continue;
        void (*destructor)(void *) = (void (*)(void *))(uintptr_t)pointer;
        if (destructor == NULL)
            continue;
        destructor(value);
        any = true;
    }
    return any;
}

void weft__locals_end(struct locals **locals)
{
    for (int round = 0; round < DESTRUCTOR_ROUNDS && destroy_values(*locals); round++)
        continue;
    weft__os_free(*locals);
    *locals = NULL;
}

void weft__locals_fork(enum fork_step step)
{
    if (step == FORK_BEFORE)
        lock_acquire(&keys.lock);
    else
        lock_release(&keys.lock);
}
