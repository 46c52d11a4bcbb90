/*
 * group_wait.c: the limit of a group while it changes, waits for a place, and channels that are
 * closed when no function runs.
 */
#include "bodies.h"
#include "everywhere.h"
#include "members.h"
#include "seeds.h"
#include "sync/group_internal.h"

/* Applicants that wait for a place, in order. */

enum { WAITERS = 4 };

struct scene {
    weft_group *group;
    weft_wg gates[WAITERS];    /* what the function of each applicant waits for */
    weft_wg held[WAITERS];     /* the same for the functions that hold the places at first */
    atomic_u32 began[WAITERS]; /* by the number of the applicant */
    int result[WAITERS];
    weft_context *context[WAITERS]; /* NULL: none */
};

struct applicant {
    struct scene *scene;
    int number;
};

static int begin_and_wait(void *arg)
{
    struct applicant *own = arg;
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    atomic_u32_store_release(&own->scene->began[own->number], 1);
    CHECK_EQ(weft_wg_wait(&own->scene->gates[own->number]), 0);
    return 0;
}

static void apply(void *arg)
{
    struct applicant *own = arg;
    CHECK_EQ(weft_context_bind(own->scene->context[own->number], NULL), 0);
    own->scene->result[own->number] = weft_group_go(own->scene->group, begin_and_wait, own);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

/* Starts functions that hold places, up to the limit. */
static void scene_begin(struct scene *scene, int holders)
{
    *scene = (struct scene){.group = make(&(weft_group_options){.limit = holders})};
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(weft_wg_init(&scene->gates[i], 1), 0);
        CHECK_EQ(weft_wg_init(&scene->held[i], 1), 0);
        scene->result[i] = 77;
    }
    for (int i = 0; i < holders; i++)
        CHECK_EQ(weft_group_go(scene->group, wait_firmly, &scene->held[i]), 0);
}

/* The applicants come one after the other, so that their order is known. */
static void scene_apply(struct scene *scene, struct applicant *own, struct body *bodies, int count)
{
    for (int i = 0; i < count; i++) {
        own[i] = (struct applicant){scene, i};
        bodies[i] = (struct body){.function = apply, .arg = &own[i], .thread = i % 2 == 1};
        body_start(&bodies[i]);
        await_waiters(&scene->group->latch, &scene->group->place_waiters, i + 1);
    }
}

static void await_began(struct scene *scene, int number)
{
    await(&scene->began[number], 1);
    for (int i = number + 1; i < WAITERS; i++)
        CHECK_EQ(atomic_u32_load_acquire(&scene->began[i]), 0); /* no later one overtook it */
}

static void more_places_are_given_in_order(void)
{
    struct scene scene;
    struct applicant own[WAITERS];
    struct body bodies[WAITERS];
    scene_begin(&scene, 1);
    scene_apply(&scene, own, bodies, WAITERS);
    CHECK_EQ(weft_group_set_limit(scene.group, 2), 0);
    await_began(&scene, 0);
    CHECK_EQ(weft_group_try_go(scene.group, succeed, NULL), -EAGAIN);
    CHECK_EQ(weft_group_set_limit(scene.group, 3), 0);
    await_began(&scene, 1);
    CHECK_EQ(weft_group_running(scene.group), 3);
    CHECK_EQ(weft_group_set_limit(scene.group, 0), 0); /* no limit: all */
    for (int i = 2; i < WAITERS; i++)
        await(&scene.began[i], 1);
    for (int i = 0; i < WAITERS; i++) {
        body_join(&bodies[i]);
        CHECK_EQ(scene.result[i], 0);
        weft_wg_done(&scene.gates[i]);
    }
    weft_wg_done(&scene.held[0]);
    CHECK_EQ(weft_group_close(scene.group), 0);
}

static void await_running(weft_group *group, int64_t count)
{
    while (weft_group_running(group) != count)
        weft_yield();
}

static weft_chan *done_of(weft_group *group)
{
    weft_chan *done = NULL;
    CHECK_EQ(weft_group_done(group, &done), 0);
    CHECK(done != NULL);
    return done;
}

static void fewer_places_start_none_until_fewer_run(void)
{
    struct scene scene;
    struct applicant own[WAITERS];
    struct body bodies[WAITERS];
    scene_begin(&scene, 3);
    scene_apply(&scene, own, bodies, 1);
    weft_chan *done = done_of(scene.group);
    CHECK_EQ(weft_group_set_limit(scene.group, 1), 0);
    for (int i = 0; i < 2; i++) {
        weft_wg_done(&scene.held[i]);
        await_running(scene.group, 2 - i);
        await_waiters(&scene.group->latch, &scene.group->place_waiters, 1);
        CHECK_EQ(atomic_u32_load_acquire(&scene.began[0]), 0);
        CHECK_EQ(weft_group_try_go(scene.group, succeed, NULL), -EAGAIN);
        CHECK_EQ(weft_chan_closed(done), 0); /* some run */
    }
    weft_wg_done(&scene.held[2]);
    await_began(&scene, 0);
    CHECK_EQ(weft_chan_closed(done), 0); /* the place went to the next in line */
    CHECK_EQ(weft_group_running(scene.group), 1);
    body_join(&bodies[0]);
    weft_wg_done(&scene.gates[0]);
    CHECK_EQ(weft_group_close(scene.group), 0);
}

/* A limit for a group that was opened without one. */
static void a_limit_that_comes_later(void *arg)
{
    weft_wg gate;
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    weft_group *group = make(NULL);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_group_try_go(group, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_group_set_limit(group, 3), 0);
    CHECK_EQ(weft_group_try_go(group, wait_for_gate, &gate), -EAGAIN);
    CHECK_EQ(weft_group_set_limit(group, 4), 0);
    CHECK_EQ(weft_group_try_go(group, wait_for_gate, &gate), 0);
    CHECK_EQ(weft_group_try_go(group, wait_for_gate, &gate), -EAGAIN);
    weft_wg_done(&gate);
    CHECK_EQ(weft_group_close(group), 0);
}

/* One in the middle of the line is cancelled: the others keep their order. */
static void leaving_the_line(void)
{
    struct scene scene;
    struct applicant own[WAITERS];
    struct body bodies[WAITERS];
    scene_begin(&scene, 1);
    CHECK_EQ(weft_context_open(&scene.context[1], NULL, NULL), 0);
    scene_apply(&scene, own, bodies, 3);
    weft_context_cancel(scene.context[1]);
    body_join(&bodies[1]);
    CHECK_EQ(scene.result[1], -ECANCELED);
    await_waiters(&scene.group->latch, &scene.group->place_waiters, 2);
    CHECK_EQ(weft_group_set_limit(scene.group, 2), 0);
    await(&scene.began[0], 1);
    CHECK_EQ(atomic_u32_load_acquire(&scene.began[2]), 0);
    CHECK_EQ(weft_group_set_limit(scene.group, 3), 0);
    await(&scene.began[2], 1);
    body_join(&bodies[0]);
    body_join(&bodies[2]);
    for (int i = 0; i < 3; i++)
        weft_wg_done(&scene.gates[i]);
    weft_wg_done(&scene.held[0]);
    CHECK_EQ(weft_group_close(scene.group), 0);
    weft_context_close(scene.context[1]);
}

/* The first applicant has given up, but not left the line yet: the place goes to the next. */
static void a_place_is_not_lost_to_one_that_gave_up(void)
{
    struct scene scene;
    struct applicant own[WAITERS];
    struct body bodies[WAITERS];
    scene_begin(&scene, 1);
    scene_apply(&scene, own, bodies, 2);
    struct waiter *gone = end_first_wait(&scene.group->latch, &scene.group->place_waiters);
    weft_wg_done(&scene.held[0]);
    await(&scene.began[1], 1);
    wake_ended(gone);
    body_join(&bodies[0]);
    body_join(&bodies[1]);
    CHECK_EQ(scene.result[0], -ETIMEDOUT);
    CHECK_EQ(scene.result[1], 0);
    CHECK_EQ(atomic_u32_load_acquire(&scene.began[0]), 0);
    weft_wg_done(&scene.gates[1]);
    CHECK_EQ(weft_group_close(scene.group), 0);
}

/* A cancellation, also from a parent, empties the line; the place that was held goes to no
 * caller. */
static void a_cancellation_empties_the_line(void)
{
    for (int above = 0; above < 2; above++) {
        struct scene scene;
        struct applicant own[WAITERS];
        struct body bodies[WAITERS];
        weft_context *parent;
        CHECK_EQ(weft_context_open(&parent, NULL, NULL), 0);
        CHECK_EQ(weft_context_bind(parent, NULL), 0);
        scene_begin(&scene, 1);
        CHECK_EQ(weft_context_bind(NULL, NULL), 0);
        scene_apply(&scene, own, bodies, WAITERS);
        weft_context_cancel(above ? parent : weft_group_context(scene.group));
        for (int i = 0; i < WAITERS; i++) {
            body_join(&bodies[i]);
            CHECK_EQ(scene.result[i], -ECANCELED);
        }
        weft_wg_done(&scene.held[0]);
        CHECK_EQ(weft_group_set_limit(scene.group, 100), 0);
        CHECK_EQ(group_error(scene.group), -ECANCELED);
        for (int i = 0; i < WAITERS; i++)
            CHECK_EQ(atomic_u32_load_acquire(&scene.began[i]), 0);
        CHECK_EQ(weft_group_close(scene.group), -ECANCELED);
        weft_context_close(parent);
    }
}

/* A limit that changes all the time, while functions are started and callers are cancelled. */

static struct {
    weft_group *group;
    atomic_u32 now, most, ran, stop;
} storm;

static int pass(void *arg)
{
    uint32_t now = atomic_u32_add_seq_cst(&storm.now, 1) + 1;
    uint32_t most = atomic_u32_load_relaxed(&storm.most);
    while (now > most && !atomic_u32_cas_acq_rel(&storm.most, &most, now))
        continue;
    weft_yield();
    atomic_u32_sub_seq_cst(&storm.now, 1);
    atomic_u32_add_relaxed(&storm.ran, 1);
    return 0;
}

static void start_many(void *count)
{
    for (uintptr_t i = 0; i < (uintptr_t)count; i++)
        CHECK_EQ(weft_group_go(storm.group, pass, NULL), 0);
}

static void change_limit(void *arg)
{
    for (int64_t i = 0; atomic_u32_load_acquire(&storm.stop) == 0; i++) {
        CHECK_EQ(weft_group_set_limit(storm.group, 1 + i % 5), 0);
        weft_yield();
    }
}

static void the_limit_changes_all_the_time(void)
{
    enum { STARTERS = 4 };
    struct body starters[STARTERS], changer = {.function = change_limit, .thread = true};
    uintptr_t each = (uintptr_t)test_scale(500);
    memset(&storm, 0, sizeof storm);
    storm.group = make(&(weft_group_options){.limit = 5});
    body_start(&changer);
    for (int i = 0; i < STARTERS; i++)
        starters[i] =
            (struct body){.function = start_many, .arg = (void *)each, .thread = i % 2 == 0};
    bodies_run(starters, STARTERS);
    atomic_u32_store_release(&storm.stop, 1);
    body_join(&changer);
    CHECK_EQ(weft_group_close(storm.group), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&storm.ran), STARTERS * each);
    CHECK(atomic_u32_load_relaxed(&storm.most) <= 5);
}

/* Done channels. */

static void done_arguments(void)
{
    weft_chan *done;
    weft_group *group = make(NULL);
    CHECK_EQ(weft_group_done(NULL, &done), -EINVAL);
    CHECK_EQ(weft_group_done(group, NULL), -EINVAL);
    CHECK_EQ(weft_group_close(group), 0);
}

static void done_is_closed_when_none_runs(void *arg)
{
    weft_wg gates[2];
    weft_group *group = make(NULL);
    weft_chan *before = done_of(group); /* none has run yet */
    CHECK_EQ(weft_chan_closed(before), 1);
    CHECK_PTR(done_of(group), before);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(weft_wg_init(&gates[i], 1), 0);
            CHECK_EQ(weft_group_go(group, wait_for_gate, &gates[i]), 0);
        }
        weft_chan *done = done_of(group);
        CHECK(done != before); /* that stays closed */
        CHECK_EQ(weft_chan_closed(before), 1);
        CHECK_PTR(done_of(group), done);
        weft_wg_done(&gates[0]);
        await_running(group, 1);
        CHECK_EQ(weft_chan_closed(done), 0);
        weft_wg_done(&gates[1]);
        weft_case cases[] = {{.chan = done, .op = WEFT_RECEIVE}};
        CHECK_EQ(weft_select(cases, 1), 0);
        CHECK_EQ(cases[0].result, -ESHUTDOWN);
        /* The wait is over as well. */
        CHECK_EQ(weft_group_wait_until(group, WEFT_NOW, NULL), 0);
        before = done;
    }
    CHECK_EQ(weft_group_close(group), 0);
}

/* The group is closed by a caller that has seen the channel closed, while the last function is on
 * its way out. */
static void closed_as_soon_as_done(void *arg)
{
    for (int64_t round = test_scale(2000); round > 0; round--) {
        weft_group *group = make(NULL);
        CHECK_EQ(weft_group_go(group, succeed, NULL), 0);
        CHECK_EQ(weft_group_go(group, succeed, NULL), 0);
        CHECK_EQ(weft_chan_receive(done_of(group), NULL), -ESHUTDOWN);
        CHECK_EQ(weft_group_close(group), 0);
    }
}

/* Several callers ask for the channel at once, while functions start and end. */
static void ask_for_done(void *group)
{
    for (int64_t i = test_scale(200); i > 0; i--) {
        CHECK_EQ(weft_group_go(group, succeed, NULL), 0);
        CHECK_EQ(weft_chan_receive(done_of(group), NULL), -ESHUTDOWN);
    }
}

static void done_for_several(void)
{
    struct body bodies[4];
    weft_group *group = make(NULL);
    for (int i = 0; i < 4; i++)
        bodies[i] = (struct body){.function = ask_for_done, .arg = group, .thread = i % 2 == 0};
    bodies_run(bodies, 4);
    CHECK_EQ(weft_group_close(group), 0);
}

int main(void)
{
    RUN_BOTH(more_places_are_given_in_order);
    RUN_BOTH(fewer_places_start_none_until_fewer_run);
    RUN_EVERYWHERE(a_limit_that_comes_later);
    RUN_BOTH(leaving_the_line);
    RUN_BOTH(a_place_is_not_lost_to_one_that_gave_up);
    RUN_BOTH(a_cancellation_empties_the_line);
    RUN_BOTH(the_limit_changes_all_the_time);
    RUN_PLAIN(done_arguments, "nothing waits");
    RUN_EVERYWHERE(done_is_closed_when_none_runs);
    RUN_EVERYWHERE(closed_as_soon_as_done);
    RUN_BOTH(done_for_several);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
