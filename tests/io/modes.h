/*
 * modes.h: runs a test of files in each of the ways that weft has for them (io/file.c), on a number
 * of processors, and in a fiber.
 */
#ifndef WEFT_TEST_MODES_H
#define WEFT_TEST_MODES_H

#include <fcntl.h>
#include <weft/weft.h>

#include "everywhere.h"
#include "io/ring.h"
#include "test.h"

static const struct mode {
    const char *name, *without;
} modes[] = {
    {"as it comes", ""},
    {"ring", "file_nowait"},
    {"hand-off", "io_uring"},
    {"hand-off only", "io_uring,file_nowait"},
};

static const struct mode *mode;

/* Whether the kernel has io_uring and allows it. */
static inline bool ring_is_there(void)
{
    struct weft__os_ring ring;
    if (weft__os_ring_open(&ring, 4) != 0)
        return false;
    weft__os_ring_close(&ring);
    return true;
}

static inline void in_mode(const struct mode *chosen, int processors, void (*function)(void *))
{
    mode = chosen;
    printf("    %s\n", mode->name);
    fflush(stdout);
    CHECK_EQ(setenv("WEFT_WITHOUT", mode->without, 1), 0);
    on_processors(processors, function, NULL);
    CHECK_EQ(unsetenv("WEFT_WITHOUT"), 0);
}

static inline void in_all_modes(int processors, void (*function)(void *))
{
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        in_mode(&modes[i], processors, function);
}

/* A new unnamed file of `size` bytes; each byte is its offset modulo 251. */
static inline int file_of(size_t size)
{
    char path[] = "weft-test-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(unlink(path), 0);
    char block[4096];
    for (size_t at = 0; at < size;) {
        size_t length = size - at < sizeof block ? size - at : sizeof block;
        for (size_t i = 0; i < length; i++)
            block[i] = (char)((at + i) % 251);
        ssize_t put = write(fd, block, length);
        CHECK(put > 0);
        at += (size_t)put;
    }
    return fd;
}

static inline void check_content(const char *memory, size_t size, size_t offset)
{
    for (size_t i = 0; i < size; i++)
        CHECK_EQ(memory[i], (char)((offset + i) % 251));
}

#endif
