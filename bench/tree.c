/*
 * tree.c: many small fibers in a tree; each waits for its children.
 *
 * skynet: a fiber starts ten, each of these ten more, down to a million leaves; a leaf sends its
 * number to its parent, every other node the sum of what it received, through an unbuffered channel
 * per node: 1,111,111 fibers and 111,111 channels. The size is the number of leaves.
 *
 * fork_join: the Fibonacci number of 27 by its definition: a joined fiber computes one of the two
 * terms, the caller the other one: 317,810 fibers with almost no work.
 */
#include <errno.h>
#include <weft/weft.h>

#include "bench.h"

enum { BRANCHES = 10, FIBONACCI = 27, FIBONACCI_QUICK = 22 };

struct node {
    weft_chan *parent;
    int64_t number, leaves;
};

static void skynet(void *arg)
{
    struct node *node = arg, children[BRANCHES];
    int64_t sum = node->number, part;
    if (node->leaves > 1) {
        weft_chan *chan;
        bench_check(weft_chan_make(&chan, sizeof(int64_t), 0), "weft_chan_make");
        sum = 0;
        for (int i = 0; i < BRANCHES; i++) {
            int64_t leaves = node->leaves / BRANCHES;
            children[i] = (struct node){chan, node->number + i * leaves, leaves};
            bench_check(weft_go(skynet, &children[i]), "weft_go");
        }
        for (int i = 0; i < BRANCHES; i++) {
            bench_check(weft_chan_receive(chan, &part), "weft_chan_receive");
            sum += part;
        }
        weft_chan_destroy(chan);
    }
    bench_check(weft_chan_send(node->parent, &sum), "weft_chan_send");
}

static void measure_skynet(struct bench *bench, int64_t full)
{
    int64_t leaves = bench_amount(bench, full), sum = 0;
    struct node root = {.leaves = leaves};
    bench_check(weft_chan_make(&root.parent, sizeof(int64_t), 0), "weft_chan_make");
    int64_t start = weft_now();
    bench_check(weft_go(skynet, &root), "weft_go");
    bench_check(weft_chan_receive(root.parent, &sum), "weft_chan_receive");
    bench->values[0] = (double)(weft_now() - start) / (double)WEFT_S;
    bench_check(sum == leaves * (leaves - 1) / 2 ? 0 : -EIO, "the sum");
    weft_chan_destroy(root.parent);
    bench_params(bench, "leaves=%ld branches=%d", (long)leaves, BRANCHES);
}

struct term {
    int64_t n, value;
};

static void fibonacci(void *arg) /* NOLINT(misc-no-recursion) */
{
    struct term *term = arg;
    if (term->n < 2) {
        term->value = term->n;
        return;
    }
    struct term one = {.n = term->n - 1}, two = {.n = term->n - 2};
    weft_fiber *fiber;
    bench_check(weft_spawn(&fiber, fibonacci, &one, NULL), "weft_spawn");
    fibonacci(&two);
    bench_check(weft_join(fiber), "weft_join");
    term->value = one.value + two.value;
}

static int64_t iterated(int64_t n)
{
    int64_t a = 0, b = 1;
    for (; n > 0; n--) {
        int64_t next = a + b;
        a = b;
        b = next;
    }
    return a;
}

static void measure_fibonacci(struct bench *bench, int64_t size)
{
    struct term term = {.n = bench->quick ? FIBONACCI_QUICK : size};
    int64_t start = weft_now();
    bench_in_fiber(fibonacci, &term);
    bench->values[0] = (double)(weft_now() - start) / (double)WEFT_S;
    bench_check(term.value == iterated(term.n) ? 0 : -EIO, "the number");
    bench_params(bench, "fib=%ld cutoff=none", (long)term.n);
}

const struct bench_case bench_tree_cases[] = {
    {.name = "skynet",
     .what = "a tree of fibers with 1,000,000 leaves, ten below each, that sum up over channels",
     .metrics = {{"", "s"}},
     .measure = measure_skynet,
     .size = 1000000,
     .cold = true},
    {.name = "fork_join",
     .what = "the 27th Fibonacci number, a fiber for each call but one",
     .metrics = {{"", "s"}},
     .measure = measure_fibonacci,
     .size = FIBONACCI},
    {.name = NULL},
};
