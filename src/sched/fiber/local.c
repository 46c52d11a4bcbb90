/*
 * local.c: fiber-local storage.
 *
 * A key names a place in every fiber's array of values, and a generation: a key made in the place
 * of a deleted one does not see the values of the old key. The array is allocated when a fiber
 * first sets a value.
 *
 * A key is place + WEFT_LOCAL_KEYS * generation in 32 bits. After 2^26 keys made in one place its
 * generations begin again. None is 0, so 0 is no key.
 *
 * Keys are made and deleted under a lock; get and set read the key of a place without it.
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
#define GENERATIONS (UINT32_MAX / WEFT_LOCAL_KEYS) /* the last one; 1 follows it */

struct locals {
    struct {
        uint32_t key;
        void *value;
    } entries[WEFT_LOCAL_KEYS];
};

static struct {
    struct lock lock;
    struct {
        atomic_u32 key; /* that has this place; 0: none */
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
        /* Release: a reader of this destructor also sees that the former key of the place is gone.
         * Pairs with destroy_values. */
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

/* The address of the caller's pointer to its values. NULL: there is none and `make` is false, or no
 * memory. */
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
        return -ECHILD; /* it may need memory, and there the allocator may be locked for ever */
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

/* Runs one round of destructors; true if it called any. */
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
        if (!is_key(key)) /* read after the destructor: so that is the one of this key */
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
