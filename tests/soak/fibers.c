/*
 * fibers.c: joins, contexts, groups, fiber-local values, panics, clean-ups and object pools.
 */
#include "soak.h"

enum { FAMILY = 12, OBJECTS = 16 };

struct kin {
    uint64_t id, clean_up, local;
    uint32_t dice;
    weft_chan *never;      /* without a sender */
    weft_context *context; /* of the wait */
};

static weft_local_key local_key;
static weft_once local_once;

static void forget_local(void *value)
{
    struct kin *kin = value;
    ledger_book_out(kin->local, HAPPENED);
}

static void make_key(void *arg)
{
    CHECK_EQ(weft_local_create(&local_key, forget_local), 0);
}

static void clean_up(void *arg)
{
    struct kin *kin = arg;
    weft_yield();
    ledger_book_out(kin->clean_up, HAPPENED);
}

static void maybe_panic(struct kin *kin, struct prng *prng)
{
    weft_deferred deferred;
    kin->clean_up = ledger_enter(BOOK_EVENTS, "clean-up");
    weft_defer(&deferred, clean_up, kin);
    soak_pause(prng);
    if (one_in(prng, 2))
        weft_panic("planned");
    weft_deferred_run(&deferred);
}

static void maybe_panic_in(void *arg)
{
    struct kin *kin = arg;
    struct prng prng;
    prng_seed(&prng, kin->dice);
    maybe_panic(kin, &prng);
}

/* Joined fibers. */

static void live(void *arg)
{
    struct kin *kin = arg;
    struct prng prng;
    prng_seed(&prng, kin->dice);
    if (one_in(&prng, 4)) {
        kin->local = ledger_enter(BOOK_EVENTS, "fiber-local value");
        CHECK_EQ(weft_local_set(local_key, kin), 0);
    }
    soak_pause(&prng);
    CHECK(weft_local_get(local_key) == (kin->local != 0 ? kin : NULL));
    if (one_in(&prng, 8)) {
        weft_panic_info info;
        int error = weft_recover(maybe_panic_in, kin, &info);
        CHECK(error == 0 || error == -EOWNERDEAD);
    }
    ledger_book_out(kin->id, HAPPENED);
    if (one_in(&prng, 16))
        maybe_panic(kin, &prng);
}

static void joins(struct actor *actor)
{
    struct prng *prng = &actor->prng;
    struct kin kin[FAMILY];
    weft_fiber *fibers[FAMILY];
    actor->doing = "joins fibers";
    weft_once_do(&local_once, make_key, NULL);
    for (int i = 0; i < FAMILY; i++) {
        weft_spawn_options options = {.name = "kin",
                                      .compact = one_in(prng, 2),
                                      .stack_size =
                                          one_in(prng, 4) ? (size_t)16384 << below(prng, 6) : 0};
        kin[i] = (struct kin){.id = ledger_enter(BOOK_EVENTS, "fiber"), .dice = prng_next(prng)};
        CHECK_EQ(weft_spawn(&fibers[i], live, &kin[i], &options), 0);
    }
    for (int i = 0; i < FAMILY; i++) {
        weft_panic_info info;
        int error;
        while ((error = weft_join_panic(fibers[i], &info, soak_soon(prng))) == -ETIMEDOUT)
            continue;
        CHECK(error == 0 || error == -EOWNERDEAD);
        CHECK(ledger_is_booked_out(kin[i].id));
    }
}

/* Contexts: a cancellation ends every wait. */

static void wait_under_context(void *arg)
{
    struct kin *kin = arg;
    struct prng prng;
    weft_sem sem = WEFT_SEM_INIT(0);
    int error;
    prng_seed(&prng, kin->dice);
    switch (below(&prng, 4)) {
    case 0:
        error = weft_sleep(3600 * WEFT_S);
        break;
    case 1:
        error = weft_chan_receive(kin->never, NULL);
        break;
    case 2:
        error = weft_sem_acquire_until(&sem, 1, WEFT_NEVER);
        break;
    default:
        error = weft_select(NULL, 0);
    }
    CHECK(error == -ECANCELED || error == -ETIMEDOUT);
    CHECK_EQ(weft_context_error(kin->context), error);
    ledger_book_out(kin->id, HAPPENED);
}

static void cancels(struct actor *actor)
{
    struct prng *prng = &actor->prng;
    struct kin kin[FAMILY];
    weft_fiber *fibers[FAMILY];
    weft_context *root, *branches[FAMILY];
    weft_chan *never;
    actor->doing = "cancels contexts";
    CHECK_EQ(weft_chan_make(&never, 0, 0), 0);
    CHECK_EQ(weft_context_open(&root, NULL, NULL), 0);
    for (int i = 0; i < FAMILY; i++) {
        weft_context_options options = {.timeout =
                                            one_in(prng, 2) ? below(prng, 1500) * WEFT_US : 0};
        weft_context *parent = i > 0 && one_in(prng, 2) ? branches[below(prng, (uint32_t)i)] : root;
        CHECK_EQ(weft_context_open(&branches[i], parent, &options), 0);
        kin[i] = (struct kin){.id = ledger_enter(BOOK_EVENTS, "wait under a context"),
                              .dice = prng_next(prng),
                              .never = never,
                              .context = branches[i]};
        weft_spawn_options spawn = {.context = branches[i]};
        CHECK_EQ(weft_spawn(&fibers[i], wait_under_context, &kin[i], &spawn), 0);
    }
    soak_pause(prng);
    for (uint32_t i = below(prng, FAMILY); i > 0; i--)
        weft_context_cancel(branches[below(prng, FAMILY)]);
    soak_pause(prng);
    weft_context_cancel(root);
    for (int i = 0; i < FAMILY; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    for (int i = 0; i < FAMILY; i++)
        weft_context_close(branches[i]);
    weft_context_close(root);
    weft_chan_destroy(never);
}

/* Groups of fibers. */

static int in_group(void *arg)
{
    struct kin *kin = arg;
    struct prng prng;
    prng_seed(&prng, kin->dice);
    ledger_book_out(kin->id, HAPPENED);
    soak_pause(&prng);
    if (one_in(&prng, 20))
        return -EPROTO;
    int error = weft_sleep(below(&prng, 200) * WEFT_US);
    return one_in(&prng, 2) ? error : 0;
}

static int group_body(weft_group *group, void *arg)
{
    struct kin *kin = arg;
    for (int i = 0; i < FAMILY; i++) {
        kin[i].id = ledger_enter(BOOK_EVENTS, "fiber of a group");
        int error = kin[i].dice % 3 == 0 ? weft_group_try_go(group, in_group, &kin[i])
                                         : weft_group_go(group, in_group, &kin[i]);
        CHECK(error == 0 || error == -EAGAIN || error == -ECANCELED || error == -ETIMEDOUT);
        if (error != 0)
            ledger_book_out(kin[i].id, REFUSED);
        if (kin[i].dice % 64 == 0)
            weft_group_cancel(group);
    }
    return 0;
}

static void groups(struct actor *actor)
{
    struct kin kin[FAMILY];
    struct prng *prng = &actor->prng;
    weft_group_options options = {.limit = below(prng, 5),
                                  .keep_going = (int)below(prng, 2),
                                  .timeout = one_in(prng, 4) ? below(prng, 300) * WEFT_US : 0};
    actor->doing = "has a group";
    for (int i = 0; i < FAMILY; i++)
        kin[i] = (struct kin){.dice = prng_next(prng)};
    int error = weft_group_scope(&options, group_body, kin);
    CHECK(error == 0 || error == -EPROTO || error == -ECANCELED || error == -ETIMEDOUT);
    for (int i = 0; i < FAMILY; i++) /* skipped functions */
        if (!ledger_is_booked_out(kin[i].id)) {
            CHECK(error != 0 && !options.keep_going);
            ledger_book_out(kin[i].id, DROPPED);
        }
}

/* Object pools. */

static int make_object(void *object, void *arg)
{
    *(uint64_t *)object = ledger_enter(BOOK_EVENTS, "object");
    return 0;
}

static void drop_object(void *object, void *arg)
{
    ledger_book_out(*(uint64_t *)object, HAPPENED);
}

static void borrower(struct member *member)
{
    for (int i = 0; i < OBJECTS; i++) {
        void *object;
        CHECK_EQ(weft_object_pool_get(member->shared, &object), 0);
        soak_pause(&member->prng);
        weft_object_pool_put(member->shared, object);
    }
}

static void objects(struct actor *actor)
{
    weft_object_pool *pool;
    struct crew crew;
    weft_object_pool_options options = {.size = 64,
                                        .construct = make_object,
                                        .destroy = drop_object,
                                        .idle_period = between(&actor->prng, 1, 5) * WEFT_MS};
    actor->doing = "keeps objects";
    CHECK_EQ(weft_object_pool_open(&pool, &options), 0);
    crew_start(&crew, &actor->prng, between(&actor->prng, 1, 5), borrower, pool);
    crew_join(&crew);
    CHECK_EQ(weft_object_pool_close(pool), 0);
}

void fibers_round(struct actor *actor)
{
    static void (*const rounds[])(struct actor *) = {joins, cancels, groups, objects};
    rounds[below(&actor->prng, 4)](actor);
}
