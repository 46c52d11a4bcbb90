/*
 * spawn_stress.c: threads and fibers spawn trees of fibers in every way that there is; each node of
 * each tree runs exactly once.
 */
#include "bodies.h"
#include "seeds.h"

enum { TREES = 4, FANOUT = 4, JOINED_MOST = 400 };

struct tree {
    uint32_t size;
    atomic_u32 left;
    atomic_u32 *runs;
    weft_wg done;
};

struct node {
    struct tree *tree;
    uint32_t number;
};

static void node_run(void *arg);

static void node_spawn(struct tree *tree, uint32_t number, weft_fiber **fiber)
{
    struct node *node = malloc(sizeof *node);
    CHECK(node != NULL);
    *node = (struct node){tree, number};
    if (fiber == NULL && number % 2 == 0) {
        CHECK_EQ(weft_go(node_run, node), 0);
        return;
    }
    weft_spawn_options options = {.name = number % 5 == 0 ? "a node" : NULL,
                                  .stack_size = number % 7 == 0 ? 32 * 1024 : 0};
    CHECK_EQ(weft_spawn(fiber, node_run, node, &options), 0);
}

/* Numbered as a heap is: the children of i are FANOUT * i + 1 and so on. */
static void node_run(void *arg)
{
    struct tree *tree = ((struct node *)arg)->tree;
    uint32_t number = ((struct node *)arg)->number;
    free(arg);
    atomic_u32_add_seq_cst(&tree->runs[number], 1);
    weft_fiber *children[FANOUT];
    uint32_t held = 0;
    for (uint32_t i = 1; i <= FANOUT; i++) {
        uint32_t child = FANOUT * number + i;
        if (child >= tree->size)
            break;
        bool hold = number < JOINED_MOST || child % 3 == 0;
        node_spawn(tree, child, hold ? &children[held++] : NULL);
        if (number % 11 == 0)
            weft_yield();
    }
    for (uint32_t i = 0; i < held; i++) {
        if (number < JOINED_MOST)
            CHECK_EQ(weft_join(children[i]), 0);
        else
            CHECK_EQ(weft_detach(children[i]), 0);
    }
    if (number % 13 == 0)
        CHECK_EQ(weft_sleep(20 * WEFT_US), 0);
    if (atomic_u32_sub_acq_rel(&tree->left, 1) == 1)
        weft_wg_done(&tree->done);
}

static void grow_tree(void *arg)
{
    struct tree *tree = arg;
    CHECK_EQ(weft_wg_init(&tree->done, 1), 0);
    node_spawn(tree, 0, NULL);
    CHECK_EQ(weft_wg_wait(&tree->done), 0);
}

static void storm(int processors)
{
    struct tree trees[TREES];
    struct body bodies[TREES];
    processors_begin(processors);
    for (int i = 0; i < TREES; i++) {
        trees[i] = (struct tree){.size = (uint32_t)test_scale(15000)};
        atomic_u32_store_relaxed(&trees[i].left, trees[i].size);
        trees[i].runs = calloc(trees[i].size, sizeof(atomic_u32));
        CHECK(trees[i].runs != NULL);
        bodies[i] = (struct body){.function = grow_tree, .arg = &trees[i], .thread = i % 2 == 0};
    }
    bodies_run(bodies, TREES);
    processors_end();
    for (int i = 0; i < TREES; i++) {
        CHECK_EQ(atomic_u32_load_acquire(&trees[i].left), 0);
        for (uint32_t j = 0; j < trees[i].size; j++)
            CHECK_EQ(atomic_u32_load_relaxed(&trees[i].runs[j]), 1);
        free(trees[i].runs);
    }
}

static void every_node_runs_once(void)
{
    static const int processors[] = {1, 2, 3, 4, 8, 16};
    if (test_seeded) {
        storm(1);
        return;
    }
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof processors / sizeof processors[0]; i++)
            storm(processors[i]);
}

int main(void)
{
    RUN_BOTH(every_node_runs_once);
    return 0;
}
