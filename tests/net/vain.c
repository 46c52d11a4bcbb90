/*
 * vain.c: a read after many in vain takes what is there at once: it does not let others go first.
 */
#include "net.h"

#include "os/failure.h"
#include "os/os.h"

enum { VAIN_READS = 100 };

static struct {
    struct pair pair;
    uint32_t turns; /* of the other fiber */
} scene;

static void take_a_turn(void *unused)
{
    scene.turns++;
}

/* What is written to a Unix socket is there at once. The first of the reads waits, so that events of the socket are looked for from
 * then on. */
static void read_behind_another(void *unused)
{
    char byte;
    int ends[2];
    weft_fiber *other;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ(weft_conn_from_fd(&scene.pair.near, ends[0]), 0);
    CHECK_EQ(weft_conn_from_fd(&scene.pair.far, ends[1]), 0);
    for (int i = 0; i < VAIN_READS; i++)
        CHECK_EQ(weft_conn_read(scene.pair.near, &byte, 1, i == 0 ? weft_after(1) : WEFT_NOW),
                 -ETIMEDOUT);
    CHECK_EQ(weft_conn_write(scene.pair.far, "a", 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_spawn(&other, take_a_turn, NULL, NULL), 0);
    CHECK_EQ(weft_conn_read(scene.pair.near, &byte, 1, WEFT_NEVER), 1);
    CHECK_EQ(scene.turns, 0);
    CHECK_EQ(weft_join(other), 0);
    pair_close(scene.pair);
}

/* Without a monitor, the second thread that is started: it could take the processor from its machine. */
static void a_read_of_what_is_there_lets_nobody_go_first(void)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    weft__os_fail(OS_THREAD, 2, true);
    CHECK_EQ(weft_spawn(&fiber, read_behind_another, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    weft__os_fail(OS_THREAD, 0, false);
}

int main(void)
{
    RUN_PLAIN(a_read_of_what_is_there_lets_nobody_go_first, "stops or configures the runtime");
    return 0;
}
