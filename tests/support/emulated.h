/*
 * emulated.h: whether the test runs in an emulator of another CPU, which has limits of its own.
 */
#ifndef WEFT_TEST_EMULATED_H
#define WEFT_TEST_EMULATED_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The kernel names the CPU it runs on (since Linux 6.1). */
static inline bool test_emulated(void)
{
#if defined(__x86_64__)
    const char *built_for = "x86_64";
#else
    const char *built_for = "aarch64";
#endif
    char arch[64] = "";
    FILE *file = fopen("/proc/sys/kernel/arch", "r");
    if (file == NULL)
        return false;
    bool known = fscanf(file, "%63s", arch) == 1;
    fclose(file);
    return known && strcmp(arch, built_for) != 0;
}

#endif
