/*
 * descriptors.h: how many descriptors the process has open, for tests that must leave none.
 */
#ifndef WEFT_TEST_DESCRIPTORS_H
#define WEFT_TEST_DESCRIPTORS_H

#include <dirent.h>

#include "test.h"

static inline int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

#endif
