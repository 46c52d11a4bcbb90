/*
 * timer.c: a function that is called every 10 ms, five times, and a single call later.
 */
#include <stdio.h>
#include <weft/weft.h>

struct beats {
    int count;
    weft_wg five;
};

/* The calls of a timer do not overlap, so the count needs no lock. */
static void beat(void *arg)
{
    struct beats *beats = arg;
    printf("beat %d\n", ++beats->count);
    if (beats->count <= 5)
        weft_wg_done(&beats->five);
}

static void reminder(void *arg)
{
    puts("reminder");
    weft_wg_done(arg);
}

int main(void)
{
    struct beats beats = {.count = 0};
    weft_wg reminded;
    weft_timer *timer, *once;
    weft_wg_init(&beats.five, 5);
    weft_wg_init(&reminded, 1);
    if (weft_timer_open(&timer, beat, &beats) != 0 ||
        weft_timer_open(&once, reminder, &reminded) != 0)
        return 1;

    weft_timer_start(timer, weft_after(10 * WEFT_MS), 10 * WEFT_MS);
    weft_wg_wait(&beats.five);
    weft_timer_stop(timer);

    weft_timer_start(once, weft_after(5 * WEFT_MS), 0);
    weft_wg_wait(&reminded);

    /* Close waits for a call in progress; no call uses the count after it. */
    weft_timer_close(timer);
    weft_timer_close(once);
    printf("%s\n", beats.count >= 5 ? "done" : "too few");
    return beats.count >= 5 ? 0 : 1;
}
