/*
 * blocking.c: C code that blocks its thread, called from fibers, unmarked and marked with
 * weft_blocking.
 *
 * Twenty fibers resolve a name and sync a file, which blocks their threads. Meanwhile other fibers
 * tick, on two processors.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/weft.h>

static weft_wg work = WEFT_WG_INIT;
static int file;

/* Unmarked: weft detects the blocked thread. */
static void resolve(void *arg)
{
    struct addrinfo *found = NULL;
    (void)arg;
    if (getaddrinfo("localhost", "80", NULL, &found) == 0)
        freeaddrinfo(found);
    usleep(20000); /* stands for a slow server */
}

static void *sync_file(void *arg)
{
    return fsync(*(int *)arg) == 0 ? arg : NULL;
}

/* Marked: the processor goes to another thread at once. */
static void save(void *arg)
{
    (void)arg;
    if (write(file, "x", 1) != 1 || weft_blocking(sync_file, &file) == NULL)
        abort();
}

static void tick(void *arg)
{
    int *ticks = arg;
    while (weft_wg_count(&work) > 0 && weft_sleep(WEFT_MS) == 0)
        ++*ticks;
}

int main(void)
{
    weft_config config = {.processors = 2};
    char path[] = "/tmp/weft-example-XXXXXX";
    int ticks = 0;
    weft_fiber *ticker;
    file = mkstemp(path);
    if (file < 0 || weft_configure(&config) != 0)
        return 1;
    for (int i = 0; i < 10; i++)
        if (weft_wg_go(&work, resolve, NULL) != 0 || weft_wg_go(&work, save, NULL) != 0)
            return 1;
    if (weft_spawn(&ticker, tick, &ticks, NULL) != 0 || weft_wg_wait(&work) != 0 ||
        weft_join(ticker) != 0)
        return 1;
    printf("%d ticks while 20 fibers blocked their threads\n", ticks);
    unlink(path);
    return weft_shutdown(WEFT_NEVER);
}
