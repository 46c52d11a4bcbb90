/*
 * pipeline.c: three stages in a group, connected by channels; the end of one stops the others.
 *
 * The first stage counts. The second computes how many steps a number takes to 1 (halve it if it is
 * even, else triple it and add one). The third looks for a number that takes many steps. No stage
 * knows when to end: the group's context is cancelled, and their waits return -ECANCELED.
 */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum { MANY = 300 };

struct path {
    long start;
    int steps;
};

struct search {
    weft_group *group;
    weft_chan *numbers, *paths;
    long too_large; /* for the second stage: a number that fails; 0: none */
    struct path found;
};

static int steps_to_one(long number)
{
    int steps = 0;
    for (; number != 1; steps++)
        number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    return steps;
}

static int count_up(void *arg)
{
    struct search *search = arg;
    for (long number = 1;; number++) {
        int error = weft_chan_send(search->numbers, &number);
        if (error != 0)
            return error;
    }
}

static int compute(void *arg)
{
    struct search *search = arg;
    for (;;) {
        struct path path;
        int error = weft_chan_receive(search->numbers, &path.start);
        if (error == 0 && path.start == search->too_large)
            error = -ERANGE;
        if (error != 0)
            return error;
        path.steps = steps_to_one(path.start);
        error = weft_chan_send(search->paths, &path);
        if (error != 0)
            return error;
    }
}

static int look(void *arg)
{
    struct search *search = arg;
    struct path path = {0, 0};
    while (path.steps < MANY) {
        int error = weft_chan_receive(search->paths, &path);
        if (error != 0)
            return error;
    }
    search->found = path;
    weft_group_cancel(search->group); /* found */
    return 0;
}

static int start_stages(weft_group *group, void *arg)
{
    struct search *search = arg;
    search->group = group;
    int error = weft_group_go(group, count_up, search);
    if (error == 0)
        error = weft_group_go(group, compute, search);
    if (error == 0)
        error = weft_group_go(group, look, search);
    return error;
}

/* Returns why the search ended: -ECANCELED if it was successful. All stages have ended, so the
 * channels can be destroyed. */
static int run(struct search *search)
{
    int error = weft_chan_make(&search->numbers, sizeof(long), 16);
    if (error != 0)
        return error;
    error = weft_chan_make(&search->paths, sizeof(struct path), 16);
    if (error == 0) {
        error = weft_group_scope(NULL, start_stages, search);
        weft_chan_destroy(search->paths);
    }
    weft_chan_destroy(search->numbers);
    return error;
}

int main(void)
{
    struct search search = {.too_large = 0};
    int error = run(&search);
    printf("%ld takes %d steps (%s)\n", search.found.start, search.found.steps,
           weft_strerror(error));
    long expected = 1;
    while (steps_to_one(expected) < MANY)
        expected++;
    if (error != -ECANCELED || search.found.start != expected ||
        search.found.steps != steps_to_one(expected)) {
        fprintf(stderr, "pipeline: expected %ld\n", expected);
        return 1;
    }

    struct search failing = {.too_large = 1000};
    error = run(&failing);
    printf("with a stage that fails: %s\n", weft_strerror(error));
    if (error != -ERANGE || failing.found.start != 0) {
        fprintf(stderr, "pipeline: expected the error of the stage\n");
        return 1;
    }

    /* Waits for every fiber: it would not return if a stage were left. */
    return weft_shutdown(WEFT_NEVER) == 0 ? 0 : 1;
}
