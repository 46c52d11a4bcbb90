/*
 * file_stress.c: thousands of fibers read and write files and wait in pipes on two processors, with
 * deadlines and cancellations, while another fiber ticks.
 */
#include "base/atomic.h"
#include "io/modes.h"

enum { READERS = 4000, SIZE = 1 << 20, BLOCK = 4096 };

static int file;
static atomic_u32 running, ticks, over;

static void reader(void *arg)
{
    char memory[BLOCK];
    uint64_t state = (uint64_t)(uintptr_t)arg * 2654435761u + 1;
    for (int i = 0; i < 5; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int64_t offset = (int64_t)(state >> 33) % (SIZE - BLOCK);
        CHECK_EQ(weft_file_pread(file, memory, BLOCK, offset, WEFT_NEVER), BLOCK);
        check_content(memory, BLOCK, (size_t)offset);
        if (i == 2) { /* the same content again */
            CHECK_EQ(weft_file_pwrite(file, memory, BLOCK, offset, WEFT_NEVER), BLOCK);
            weft_yield();
        }
    }
    atomic_u32_sub_seq_cst(&running, 1);
}

static int ends[2];

static void waiter(void *arg)
{
    char byte;
    for (int i = 0; i < 5; i++) {
        int64_t timeout = (int64_t)((uintptr_t)arg % 7 + 1) * 100 * WEFT_US;
        ssize_t got = weft_file_read(ends[0], &byte, 1, weft_after(timeout));
        CHECK(got == 1 || got == -ETIMEDOUT);
    }
    atomic_u32_sub_seq_cst(&running, 1);
}

static void ticker(void *arg)
{
    while (!atomic_u32_load_acquire(&over)) {
        weft_sleep(100 * WEFT_US);
        atomic_u32_add_seq_cst(&ticks, 1);
    }
    atomic_u32_sub_seq_cst(&running, 1);
}

static void storm(void *arg)
{
    uint32_t count = (uint32_t)test_scale(READERS);
    CHECK_EQ(weft_pipe_make(ends), 0);
    atomic_u32_store_relaxed(&over, 0);
    atomic_u32_store_relaxed(&ticks, 0);
    atomic_u32_store_relaxed(&running, count + count / 10 + 1);
    CHECK_EQ(weft_go(ticker, NULL), 0);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_EQ(weft_go(reader, (void *)(uintptr_t)i), 0);
        if (i % 10 == 0 && i / 10 < count / 10)
            CHECK_EQ(weft_go(waiter, (void *)(uintptr_t)i), 0);
    }
    CHECK_EQ(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0); /* some reads go to the disk */
    while (atomic_u32_load_acquire(&running) > 1) {
        CHECK_EQ(write(ends[1], "x", 1), 1);
        weft_sleep(50 * WEFT_US);
        char drop[64];
        while (weft_file_read(ends[0], drop, sizeof drop, WEFT_NOW) > 0)
            continue;
    }
    CHECK(atomic_u32_load_acquire(&ticks) > 0);
    atomic_u32_store_release(&over, 1);
    while (atomic_u32_load_acquire(&running) > 0)
        weft_yield();
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    file = file_of(SIZE);
    CHECK_EQ(fsync(file), 0);
    in_mode(&modes[0], 2, storm);
    in_mode(&modes[1], 2, storm);
    in_mode(&modes[2], 2, storm);
    close(file);
    return 0;
}
