/*
 * stderr_pipe.h: reads what the process writes to stderr while it runs.
 */
#ifndef WEFT_TEST_STDERR_PIPE_H
#define WEFT_TEST_STDERR_PIPE_H

#include <fcntl.h>

#include "test.h"

static struct {
    int ends[2], before;
    char text[16384];
    size_t length;
} captured;

static inline void stderr_to_pipe(void)
{
    CHECK_EQ(pipe2(captured.ends, O_NONBLOCK), 0);
    captured.before = dup(STDERR_FILENO);
    CHECK(captured.before >= 0);
    CHECK(dup2(captured.ends[1], STDERR_FILENO) >= 0);
    captured.length = 0;
}

/* Whether the words have been written by now. */
static inline bool has_said(const char *words)
{
    ssize_t size;
    while ((size = read(captured.ends[0], captured.text + captured.length,
                        sizeof captured.text - 1 - captured.length)) > 0)
        captured.length += (size_t)size;
    captured.text[captured.length] = '\0';
    return strstr(captured.text, words) != NULL;
}

static inline void stderr_back(void)
{
    CHECK(dup2(captured.before, STDERR_FILENO) >= 0);
    close(captured.before);
    close(captured.ends[0]);
    close(captured.ends[1]);
    captured.text[captured.length] = '\0';
    fprintf(stderr, "--- said:\n%s---\n", captured.text);
}

#endif
