/*
 * object_pool_stress.c: many fibers and threads get and put objects, hand them to each other and
 * hold them across waits, while the clock of the pool ticks as fast as it can. An object has one
 * user at a time, which sees what the last one wrote, and each object that was made is destroyed
 * once.
 */
#include "base/prng.h"
#include "bodies.h"
#include "seeds.h"

enum { HOLD_MOST = 6, FIBERS = 24, THREADS = 4, BOXES = 16 };

struct object {
    uint64_t alive;
    atomic_u32 users;
    uint64_t uses; /* plain: the pool orders it */
};

#define ALIVE 0x616c697665u

static struct {
    weft_object_pool *pool;
    atomic_u64 constructed, destroyed;
    atomic_ptr boxes[BOXES]; /* objects on their way to another user */
    int64_t steps;
} storm;

static int construct(void *memory, void *arg)
{
    struct object *object = memory;
    CHECK_EQ(object->alive, 0);
    object->alive = ALIVE;
    if (atomic_u64_add_relaxed(&storm.constructed, 1) % 16 == 0)
        weft_yield();
    return 0;
}

static void destroy(void *memory, void *arg)
{
    struct object *object = memory;
    CHECK_EQ(object->alive, ALIVE);
    CHECK_EQ(atomic_u32_load_relaxed(&object->users), 0);
    object->alive = object->uses = 0;
    if (atomic_u64_add_relaxed(&storm.destroyed, 1) % 16 == 0)
        weft_yield();
}

static struct object *take(void)
{
    void *memory;
    CHECK_EQ(weft_object_pool_get(storm.pool, &memory), 0);
    struct object *object = memory;
    CHECK_EQ(object->alive, ALIVE);
    CHECK_EQ(atomic_u32_add_relaxed(&object->users, 1), 0);
    object->uses++;
    return object;
}

static void give(struct object *object)
{
    object->uses++;
    CHECK_EQ(object->alive, ALIVE);
    CHECK_EQ(atomic_u32_add_relaxed(&object->users, (uint32_t)-1), 1);
    weft_object_pool_put(storm.pool, object);
}

static void swap_box(struct object **object, uint32_t box)
{
    *object = atomic_ptr_exchange_acq_rel(&storm.boxes[box], *object);
}

static void wait_a_little(struct prng *prng)
{
    switch (prng_below(prng, 16)) {
    case 0:
        CHECK_EQ(weft_sleep(prng_below(prng, 50) * WEFT_US), 0);
        break;
    case 1:
    case 2:
        weft_yield();
        break;
    default:
        break;
    }
}

static void member(void *seed)
{
    struct object *held[HOLD_MOST] = {NULL};
    struct prng prng;
    prng_seed(&prng, (uintptr_t)seed);
    for (int64_t step = storm.steps; step > 0; step--) {
        struct object **place = &held[prng_below(&prng, HOLD_MOST)];
        if (prng_below(&prng, 8) == 0) {
            swap_box(place, prng_below(&prng, BOXES));
        } else if (*place == NULL) {
            *place = take();
        } else {
            give(*place);
            *place = NULL;
        }
        wait_a_little(&prng);
    }
    for (int i = 0; i < HOLD_MOST; i++)
        if (held[i] != NULL)
            give(held[i]);
}

static void run(int processors, int64_t idle_period)
{
    struct body bodies[THREADS + FIBERS];
    weft_object_pool_options options = {.size = sizeof(struct object),
                                        .construct = construct,
                                        .destroy = destroy,
                                        .idle_period = idle_period};
    processors_begin(processors);
    CHECK_EQ(weft_object_pool_open(&storm.pool, &options), 0);
    atomic_u64_store_relaxed(&storm.constructed, 0);
    atomic_u64_store_relaxed(&storm.destroyed, 0);
    storm.steps = test_scale(2500);
    for (uintptr_t i = 0; i < THREADS + FIBERS; i++) {
        uintptr_t seed = i < THREADS ? 1000 + i : i - THREADS + (uintptr_t)processors * 100;
        bodies[i] = (struct body){.function = member, .arg = (void *)seed, .thread = i < THREADS};
    }
    bodies_run(bodies, THREADS + FIBERS);
    for (uint32_t i = 0; i < BOXES; i++) {
        struct object *left = NULL;
        swap_box(&left, i);
        if (left != NULL)
            give(left);
    }
    CHECK_EQ(weft_object_pool_close(storm.pool), 0);
    uint64_t constructed = atomic_u64_load_relaxed(&storm.constructed);
    CHECK_EQ(atomic_u64_load_relaxed(&storm.destroyed), constructed);
    /* Without a tick as many are made as are out at once, except for those that thefts move. */
    if (idle_period == WEFT_NEVER)
        CHECK(constructed <= 2 * (BOXES + (FIBERS + THREADS) * HOLD_MOST));
    processors_end();
}

static void one_user_at_a_time(void)
{
    for (int processors = 1; processors <= (test_seeded ? 1 : 8); processors *= 2)
        run(processors, WEFT_NEVER);
}

static void one_user_at_a_time_while_it_ticks(void)
{
    for (int processors = 1; processors <= (test_seeded ? 1 : 8); processors *= 2) {
        run(processors, 1);
        run(processors, 100 * WEFT_US);
    }
}

int main(void)
{
    RUN_BOTH(one_user_at_a_time);
    RUN_BOTH(one_user_at_a_time_while_it_ticks);
    return 0;
}
