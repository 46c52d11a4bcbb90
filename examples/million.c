#include <weft/weft.h>
#include <stdio.h>

static void task(void *arg) {
    weft_sleep(10 * WEFT_MS);
    weft_wg_done(arg);
}

int main(void) {
    weft_wg wg;
    weft_wg_init(&wg, 1000000);
    for (int i = 0; i < 1000000; i++)
        if (weft_go(task, &wg) != 0)
            return 1;
    weft_wg_wait(&wg);
    puts("done");
    return 0;
}
