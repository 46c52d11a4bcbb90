/*
 * states.c: the states of a model, and the table of seen ones.
 *
 * A state is identified by a hash of 64 bits of the world and of all threads: their stacks, their
 * store buffers, and what they wait for. The search continues from a seen state if more of any
 * bound is left than at all earlier visits.
 */
#include <stdlib.h>
#include <string.h>

#include "explorer.h"

enum { SEEN_FIRST = 1 << 16 };

static uint64_t mix(uint64_t hash, const void *memory, size_t size)
{
    const char *at = memory;
    uint64_t a = hash, b = ~hash, words[2];
    for (; size >= sizeof words; at += sizeof words, size -= sizeof words) {
        memcpy(words, at, sizeof words);
        a = (a ^ words[0]) * 0x9e3779b97f4a7c15u;
        b = (b ^ words[1]) * 0xc2b2ae3d27d4eb4fu;
        a ^= a >> 29;
        b ^= b >> 31;
    }
    words[0] = words[1] = 0;
    memcpy(words, at, size);
    a = (a ^ words[0] ^ (b << 23 | b >> 41)) * 0x9e3779b97f4a7c15u;
    a = (a ^ words[1] ^ a >> 32) * 0xc2b2ae3d27d4eb4fu;
    return a ^ a >> 29;
}

/* Deadlines that are nearer to each other are the same to a scenario. */
enum { DEADLINE_GRAIN = 10000000 };

static uint64_t hash_thread(uint64_t hash, const struct thread_of_model *thread)
{
    uint64_t facts[] = {thread->status,
                        (uintptr_t)thread->key,
                        thread->value,
                        (uint64_t)(thread->deadline / DEADLINE_GRAIN),
                        (uintptr_t)thread->context.sp,
                        (uintptr_t)thread->context.pc,
                        (uintptr_t)thread->word,
                        (uint64_t)thread->relaxed,
                        thread->status == WAITS_WRITE && model__can_go_on(thread),
                        (uintptr_t)thread->context.fp};
    hash = mix(hash, facts, sizeof facts);
    for (int i = 0; i < thread->buffered; i++) {
        const struct buffered *store = &thread->buffer[i];
        uint64_t one[] = {(uintptr_t)store->address, store->value, store->release};
        hash = mix(hash, one, sizeof one);
    }
    if (thread->status == ENDED)
        return hash;
    /* Threads that run fibers may be on a stack of the arena, which is hashed as a whole. */
    const char *low = (const char *)thread->context.sp;
    const char *high = thread->stack + STACK_SIZE;
    bool own = low >= thread->stack && low < high;
    return own ? mix(hash, low, (size_t)(high - low)) : hash;
}

uint64_t model__hash(void)
{
    struct explorer *x = explorer;
    uint64_t hash = (uint64_t)x->last + 1;
    hash = mix(hash, __data_start, (size_t)(_end - __data_start));
    hash = mix(hash, x->arena, x->arena_used);
    for (int i = 0; i < x->thread_count; i++)
        hash = hash_thread(hash, &x->threads[i]);
    return hash;
}

static size_t seen_at(uint64_t key)
{
    size_t at = key & (explorer->seen_size - 1);
    while (explorer->seen[at] != 0 && explorer->seen[at] != key)
        at = (at + 1) & (explorer->seen_size - 1);
    return at;
}

static void seen_grow(void)
{
    struct explorer *x = explorer;
    uint64_t *keys = x->seen;
    int8_t *left = x->seen_left;
    size_t size = x->seen_size;
    x->seen_size = size * 2;
    x->seen = calloc(x->seen_size, sizeof *x->seen);
    x->seen_left = calloc(x->seen_size, sizeof *x->seen_left);
    if (x->seen == NULL || x->seen_left == NULL)
        abort();
    for (size_t i = 0; i < size; i++)
        if (keys[i] != 0) {
            size_t at = seen_at(keys[i]);
            x->seen[at] = keys[i];
            x->seen_left[at] = left[i];
        }
    free(keys);
    free(left);
}

static uint64_t key_of(uint64_t hash, int delays, int timeouts)
{
    uint64_t bounds[] = {(uint64_t)delays, (uint64_t)timeouts};
    uint64_t key = mix(hash, bounds, sizeof bounds);
    return key != 0 ? key : 1;
}

bool model__seen_before(void)
{
    struct explorer *x = explorer;
    uint64_t hash = model__hash();
    for (int delays = x->left.delays; delays <= x->scenario->delays; delays++)
        for (int timeouts = x->left.timeouts; timeouts <= x->scenario->timeouts; timeouts++) {
            size_t at = seen_at(key_of(hash, delays, timeouts));
            if (x->seen[at] != 0 && x->seen_left[at] >= x->left.preemptions)
                return true;
        }
    size_t at = seen_at(key_of(hash, x->left.delays, x->left.timeouts));
    if (x->seen[at] == 0)
        x->seen_count++;
    x->seen[at] = key_of(hash, x->left.delays, x->left.timeouts);
    x->seen_left[at] = (int8_t)x->left.preemptions;
    if (x->seen_count * 2 > x->seen_size)
        seen_grow();
    return false;
}

void model__states_begin(void)
{
    struct explorer *x = explorer;
    x->seen_size = SEEN_FIRST;
    x->seen = calloc(x->seen_size, sizeof *x->seen);
    x->seen_left = calloc(x->seen_size, sizeof *x->seen_left);
    if (x->seen == NULL || x->seen_left == NULL)
        abort();
}

void model__states_forget(void)
{
    explorer->seen_count = 0;
    memset(explorer->seen, 0, explorer->seen_size * sizeof *explorer->seen);
}
