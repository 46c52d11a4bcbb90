/*
 * join.c: a fiber with a name that is joined with a deadline, and one that is detached.
 */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

static void slow(void *arg)
{
    printf("%s: working\n", weft_fiber_name(weft_self()));
    weft_sleep(50 * WEFT_MS);
    *(int *)arg = 42;
}

static void background(void *arg)
{
    puts("background: detached");
    weft_wg_done(arg);
}

int main(void)
{
    int answer = 0;
    weft_fiber *fiber;
    weft_spawn_options options = {.name = "slow", .stack_size = 256 * 1024};
    int error = weft_spawn(&fiber, slow, &answer, &options);
    if (error != 0) {
        fprintf(stderr, "spawn: %s\n", weft_strerror(error));
        return 1;
    }

    /* Too early: the handle stays valid and can be joined again. */
    int result = weft_join_until(fiber, weft_after(WEFT_MS));
    while (result == -ETIMEDOUT) {
        puts("main: not yet");
        result = weft_join_until(fiber, weft_after(20 * WEFT_MS));
    }
    printf("main: joined, the answer is %d\n", answer);

    /* A handle that is not joined must be detached. The wait group signals the end of the fiber. */
    weft_wg done;
    weft_wg_init(&done, 1);
    if (weft_spawn(&fiber, background, &done, NULL) != 0)
        return 1;
    weft_detach(fiber);
    weft_wg_wait(&done);

    return result == 0 && answer == 42 ? 0 : 1;
}
