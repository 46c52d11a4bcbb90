/*
 * file.c: the cost of reading a file.
 *
 * An operation is a pread of 4 KB from a file of 4 MB in the page cache, at changing offsets; the
 * figure is wall time divided by the operations of all fibers. "plain" is pread itself, in a fiber;
 * "file" is weft_file_pread, which asks the page cache first; "ring" and "handoff" turn that and
 * the other methods off, so that each read parks its fiber.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/weft.h>

#include "bench.h"

enum { BLOCK = 4096, BLOCKS = 1024 };
enum mode { PLAIN, FILE_NOW, FILE_RING, FILE_HANDOFF };

struct reading {
    enum mode mode;
    int fd;
    int64_t each; /* operations per fiber */
};

static void read_blocks(void *arg)
{
    const struct reading *reading = arg;
    char memory[BLOCK];
    for (int64_t i = 0; i < reading->each; i++) {
        int64_t offset = i * 37 % BLOCKS * BLOCK;
        ssize_t got = reading->mode == PLAIN
                          ? pread(reading->fd, memory, BLOCK, offset)
                          : weft_file_pread(reading->fd, memory, BLOCK, offset, WEFT_NEVER);
        if (got != BLOCK)
            bench_check(-EIO, "pread");
    }
}

static int make_file(void)
{
    static const char block[BLOCK];
    char path[] = "/tmp/weft-bench-XXXXXX";
    int fd = mkstemp(path);
    bench_check(fd >= 0 ? 0 : -errno, "mkstemp");
    unlink(path);
    for (int i = 0; i < BLOCKS; i++)
        if (write(fd, block, BLOCK) != BLOCK)
            bench_check(-EIO, "write");
    return fd;
}

static void measure(struct bench *bench, int64_t size)
{
    static const char *const without[] = {"", "", "file_nowait", "io_uring,file_nowait"};
    int fibers = (int)(size % 1000);
    enum mode mode = (enum mode)(size / 1000);
    bench_check(-setenv("WEFT_WITHOUT", without[mode], 1), "setenv"); /* read when weft starts */
    int64_t operations = bench_amount(bench, mode == FILE_HANDOFF ? 50 * 1000 : 500 * 1000);
    struct reading reading = {.mode = mode, .fd = make_file(), .each = operations / fibers};
    int64_t elapsed = bench_in_fibers(fibers, read_blocks, &reading);
    bench->values[0] = (double)elapsed / (double)(reading.each * fibers);
    bench_params(bench, "fibers=%d operations=%ld", fibers, (long)(reading.each * fibers));
    close(reading.fd);
}

#define CASE(case_name, text, mode, fibers)                                              \
    {                                                                                    \
        .name = case_name, .what = text, .metrics = {{"", "ns/op"}}, .measure = measure, \
        .size = (mode)*1000 + (fibers)                                                   \
    }

const struct bench_case bench_file_cases[] = {
    CASE("pread_plain_1", "pread of 4 KB, cached, by one fiber", PLAIN, 1),
    CASE("pread_file_1", "weft_file_pread of the same", FILE_NOW, 1),
    CASE("pread_ring_1", "the same through the ring", FILE_RING, 1),
    CASE("pread_handoff_1", "the same by hand-off", FILE_HANDOFF, 1),
    CASE("pread_plain_100", "pread of 4 KB, cached, by 100 fibers", PLAIN, 100),
    CASE("pread_file_100", "weft_file_pread of the same", FILE_NOW, 100),
    CASE("pread_ring_100", "the same through the ring", FILE_RING, 100),
    CASE("pread_handoff_100", "the same by hand-off", FILE_HANDOFF, 100),
    {.name = NULL},
};
