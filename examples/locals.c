/*
 * locals.c: a value for each fiber, kept while the fiber sleeps and moves between threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { REQUESTS = 3 };

static weft_local_key request_key;
static weft_wg freed; /* counts the calls of the destructor */

struct request {
    long number;
    int steps;
};

static void request_free(void *value)
{
    free(value);
    weft_wg_done(&freed);
}

/* Finds its request without a parameter. */
static void step(void)
{
    struct request *request = weft_local_get(request_key);
    request->steps++;
    weft_sleep(WEFT_MS);
}

static void handle(void *arg)
{
    struct request *request = malloc(sizeof *request);
    if (request == NULL)
        exit(1);
    *request = (struct request){.number = (long)(size_t)arg, .steps = 0};
    if (weft_local_set(request_key, request) != 0)
        exit(1);
    for (long i = 0; i < request->number; i++)
        step();
    printf("request %ld: %d steps\n", request->number, request->steps);
    /* The destructor frees the request when the fiber ends. */
}

int main(void)
{
    weft_wg_init(&freed, REQUESTS);
    if (weft_local_create(&request_key, request_free) != 0)
        return 1;
    for (size_t i = 1; i <= REQUESTS; i++)
        if (weft_go(handle, (void *)i) != 0)
            return 1;
    weft_wg_wait(&freed);
    weft_local_delete(request_key);
    puts("all requests freed");
    return 0;
}
