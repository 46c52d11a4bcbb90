/*
 * group_result.c: what a group keeps of a function it has started: its result, and the copy of its
 * argument.
 *
 * A member is one block of the heap: the function, its argument, how it ended, and the copy, if
 * there is one. It is made only for a copy, or in a group that collects; most functions need none.
 * A function with a member is started as weft__member_call(member), in fibers and in pools alike,
 * so starting it needs no other knowledge of members.
 *
 * Holders. A member is held by the call (until the function has returned, or will never be called)
 * and, in a group that collects, by the group (until that is closed). A function that has left its
 * group may go on after the close, with its copy: so the last holder frees, whichever it is.
 *
 * States. `ended` is 0 until the function ends; then the error is set and `ended` published. A
 * member is made with the error -ECANCELED: one that is skipped or dropped has only to be ended.
 *
 * Records are in chunks that double in size and never move: the position of the highest bit of an
 * index leads to its chunk. A record is added before its function is started, since the function
 * may itself start others, which come later in the order of the calls. If the start fails the
 * record is removed; those behind it, of calls that came later and are under way or over, move up
 * by one.
 *
 * Rejected: an array that grows by being copied, under the latch of the group or with one more
 * protocol to move it; a list, with which reading all results by index takes quadratic time.
 */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/compiler.h"
#include "os/os.h"
#include "sync/group_internal.h"
#include "sync/object_latch.h"

struct member {
    int (*function)(void *);
    void *arg; /* the copy, if there is one */
    atomic_u32 holders;
    atomic_u32 ended;
    int error; /* once it has ended */
    _Alignas(max_align_t) unsigned char copy[];
};

enum {
    CHUNK_FIRST = 32, /* records in the first chunk */
    CHUNKS = 40,      /* so many hold more records than there can be memory for */
};

struct records {
    int64_t count, capacity; /* under the latch of the group, as all here */
    struct member **chunks[CHUNKS];
};

static struct member **slot(const struct records *records, int64_t index)
{
    uint64_t scaled = (uint64_t)index / CHUNK_FIRST + 1;
    int chunk = 63 - __builtin_clzll(scaled);
    int64_t first = CHUNK_FIRST * ((INT64_C(1) << chunk) - 1);
    return &records->chunks[chunk][index - first];
}

/* Adds a chunk, unless another call has done so since `capacity` was read. */
static int grow(weft_group *group, int64_t capacity)
{
    struct records *records = group->records;
    int chunk = 63 - __builtin_clzll((uint64_t)capacity / CHUNK_FIRST + 1);
    int64_t size = (int64_t)CHUNK_FIRST << chunk;
    struct member **made = weft__os_alloc((size_t)size * sizeof(struct member *));
    if (made == NULL)
        return -ENOMEM;
    object_latch_acquire(&group->latch);
    if (records->capacity == capacity) {
        records->chunks[chunk] = made;
        records->capacity += size;
        made = NULL;
    }
    object_latch_release(&group->latch);
    weft__os_free(made);
    return 0;
}

static int append(weft_group *group, struct member *member)
{
    struct records *records = group->records;
    for (;;) {
        object_latch_acquire(&group->latch);
        int64_t capacity = records->capacity;
        bool room = records->count < capacity;
        if (room)
            *slot(records, records->count++) = member;
        object_latch_release(&group->latch);
        if (room)
            return 0;
        int error = grow(group, capacity);
        if (error != 0)
            return error;
    }
}

/* Removes a record. It searches from the end, since the record is one of the last. */
static void remove(weft_group *group, const struct member *member)
{
    struct records *records = group->records;
    object_latch_acquire(&group->latch);
    struct member *behind = NULL;
    for (int64_t i = records->count; i-- > 0;) {
        struct member **here = slot(records, i);
        struct member *one = *here;
        *here = behind;
        if (one == member)
            break;
        behind = one;
    }
    records->count--;
    object_latch_release(&group->latch);
}

/* Members. */

int weft__member_make(struct member **out, weft_group *group, int (*function)(void *), void *arg,
                      size_t size)
{
    size_t whole;
    if (__builtin_add_overflow(size, sizeof(struct member), &whole) || whole > PTRDIFF_MAX)
        return -ENOMEM;
    struct member *member = weft__os_alloc(whole);
    if (member == NULL)
        return -ENOMEM;
    bool collects = group->records != NULL;
    *member = (struct member){
        .function = function, .arg = size != 0 ? member->copy : arg, .error = -ECANCELED};
    atomic_u32_store_relaxed(&member->holders, 1 + collects);
    if (size != 0)
        memcpy(member->copy, arg, size);
    if (collects && append(group, member) != 0) {
        weft__os_free(member);
        return -ENOMEM;
    }
    *out = member;
    return 0;
}

void weft__member_drop(struct member *member)
{
    /* Pairs with itself: the last holder sees what the other did. */
    if (atomic_u32_sub_acq_rel(&member->holders, 1) == 1)
        weft__os_free(member);
}

void weft__member_revoke(weft_group *group, struct member *member)
{
    if (group->records != NULL) {
        remove(group, member);
        weft__member_drop(member);
    }
    weft__member_drop(member);
}

void weft__member_ended(struct member *member, int error)
{
    member->error = error;
    atomic_u32_store_release(&member->ended, 1); /* pairs with weft_group_result */
}

int weft__member_call(void *arg)
{
    const struct member *member = arg;
    return member->function(member->arg);
}

void weft__group_unwrap(int (**function)(void *), void **arg)
{
    if (*function != weft__member_call)
        return;
    const struct member *member = *arg;
    *function = member->function;
    *arg = member->arg;
}

/* Records. */

int weft__records_make(weft_group *group)
{
    group->records = weft__os_alloc_zeroed(sizeof *group->records);
    return group->records != NULL ? 0 : -ENOMEM;
}

/* No function of the group runs, and none is started. */
void weft__records_free(weft_group *group)
{
    struct records *records = group->records;
    if (records == NULL)
        return;
    for (int64_t i = 0; i < records->count; i++)
        weft__member_drop(*slot(records, i));
    for (int i = 0; i < CHUNKS; i++)
        weft__os_free(records->chunks[i]);
    weft__os_free(records);
}

int64_t weft_group_count(weft_group *group)
{
    if (group == NULL || group->records == NULL)
        return 0;
    object_latch_acquire(&group->latch);
    int64_t count = group->records->count;
    object_latch_release(&group->latch);
    return count;
}

int weft_group_result(weft_group *group, int64_t index, int *error, void **arg)
{
    if (group == NULL || group->records == NULL || index < 0)
        return -EINVAL;
    object_latch_acquire(&group->latch);
    const struct member *member =
        index < group->records->count ? *slot(group->records, index) : NULL;
    bool ended = member != NULL && atomic_u32_load_acquire(&member->ended);
    int result = ended ? member->error : 0;
    void *given = ended ? member->arg : NULL;
    object_latch_release(&group->latch);
    if (!ended)
        return member != NULL ? -EBUSY : -ENOENT;
    if (error != NULL)
        *error = result;
    if (arg != NULL)
        *arg = given;
    return 0;
}
