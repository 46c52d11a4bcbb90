/*
 * vain.c: reads in vain: who reads where nothing was there most of the time lets others go first, and is not kept from
 * what is there.
 */
#include "net.h"

#include "base/sys.h"
#include "seeds.h"

enum { VAIN_READS = 16, ASIDE_MOST = 4 }; /* as in socket.c */

static struct {
    struct pair pair;
    uint32_t turns; /* of the other fiber */
    bool stop;
} scene;

static char byte; /* not in a frame: one of the readers is a compact fiber */

static void read_byte(void)
{
    CHECK_EQ(weft_conn_read(scene.pair.near, &byte, 1, WEFT_NEVER), 1);
}

/* What is written to a Unix socket is there at once. The first of the reads waits, so that events of the socket are looked for from
 * then on. */
static void scene_begin(int vain_reads)
{
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ(weft_conn_from_fd(&scene.pair.near, ends[0]), 0);
    CHECK_EQ(weft_conn_from_fd(&scene.pair.far, ends[1]), 0);
    scene.turns = 0;
    scene.stop = false;
    for (int i = 0; i < vain_reads; i++)
        CHECK_EQ(weft_conn_read(scene.pair.near, &byte, 1, i == 0 ? weft_after(1) : WEFT_NOW),
                 -ETIMEDOUT);
}

static void write_late(void *unused)
{
    (void)unused;
    scene.turns++;
    CHECK_EQ(weft_conn_write(scene.pair.far, "a", 1, WEFT_NEVER), 1);
}

/* So many reads were in vain; then one for which another fiber writes when it has its turn takes so many tries. */
static void read_late(int vain_reads, uint32_t tries)
{
    weft_fiber *other;
    scene_begin(vain_reads);
    CHECK_EQ(weft_spawn(&other, write_late, NULL, NULL), 0);
    weft__sys_fail(SYS_READ, UINT32_MAX, false); /* only counts */
    read_byte();
    CHECK_EQ(weft__sys_calls(SYS_READ), tries);
    weft__sys_fail(SYS_READ, 0, false);
    CHECK_EQ(weft_join(other), 0);
    pair_close(scene.pair);
}

static void read_after(void *unused)
{
    (void)unused;
    read_late(VAIN_READS, 1);
}

static void others_go_first(void)
{
    on_one_machine(read_after, NULL);
}

static void read_before(void *unused)
{
    (void)unused;
    read_late(VAIN_READS - 1, 2);
}

static void a_few_in_vain_change_nothing(void)
{
    on_one_machine(read_before, NULL);
}

static void take_turns(void *unused)
{
    (void)unused;
    while (!scene.stop) {
        scene.turns++;
        weft_yield();
    }
}

/* Three bytes come at once, and are known to have come: nothing tells of the second and the third. */
static void three_bytes(void)
{
    int fd = weft_conn_fd(scene.pair.near);
    uint32_t before = weft__descriptor_seen(fd, SYS_READABLE);
    CHECK_EQ(weft_conn_write(scene.pair.far, "abc", 3, WEFT_NEVER), 3);
    while (weft__descriptor_seen(fd, SYS_READABLE) == before)
        weft_yield();
}

static void read_three(void *unused)
{
    weft_fiber *other;
    (void)unused;
    scene_begin(VAIN_READS);
    three_bytes();
    CHECK_EQ(weft_spawn(&other, take_turns, NULL, NULL), 0);
    read_byte();
    CHECK_EQ(scene.turns, 0); /* it had become ready */
    read_byte();
    if (weft_self()->compact)
        CHECK_EQ(scene.turns, 0); /* each turn would move its stack */
    else
        CHECK(scene.turns >= 1 && scene.turns <= ASIDE_MOST);
    uint32_t turns = scene.turns;
    read_byte();
    CHECK_EQ(scene.turns, turns); /* that was not in vain: the count began anew */
    scene.stop = true;
    CHECK_EQ(weft_join(other), 0);
    pair_close(scene.pair);
}

static void what_is_there_is_read(void)
{
    on_one_machine(read_three, NULL);
}

static void compact_reader(void *unused)
{
    weft_fiber *reader;
    (void)unused;
    CHECK_EQ(weft_spawn(&reader, read_three, NULL, &(weft_spawn_options){.compact = 1}), 0);
    CHECK_EQ(weft_join(reader), 0);
}

static void a_compact_fiber_stays(void)
{
    on_one_machine(compact_reader, NULL);
}

static void try_now(void *unused)
{
    weft_fiber *other;
    (void)unused;
    scene_begin(VAIN_READS);
    CHECK_EQ(weft_spawn(&other, take_turns, NULL, NULL), 0);
    CHECK_EQ(weft_conn_read(scene.pair.near, &byte, 1, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(scene.turns, 0);
    scene.stop = true;
    CHECK_EQ(weft_join(other), 0);
    pair_close(scene.pair);
}

static void who_must_not_wait_does_not(void)
{
    on_one_machine(try_now, NULL);
}

/* A thread has nobody to let go first. */
static void threads_read_as_ever(void)
{
    scene_begin(VAIN_READS);
    CHECK_EQ(weft_conn_write(scene.pair.far, "a", 1, WEFT_NEVER), 1);
    read_byte();
    pair_close(scene.pair);
}

int main(void)
{
    RUN_PLAIN(others_go_first, "is about the ring of one processor, in its order");
    RUN_PLAIN(a_few_in_vain_change_nothing, "is about the ring of one processor, in its order");
    RUN_PLAIN(what_is_there_is_read, "is about the ring of one processor, in its order");
    RUN_PLAIN(a_compact_fiber_stays, "is about the ring of one processor, in its order");
    RUN_PLAIN(who_must_not_wait_does_not, "is about the ring of one processor, in its order");
    RUN_BOTH(threads_read_as_ever);
    return 0;
}
