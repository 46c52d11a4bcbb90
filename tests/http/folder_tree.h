/*
 * folder_tree.h: trees of files for tests, made in a folder of their own, which is removed at the
 * end.
 */
#ifndef WEFT_TEST_HTTP_FOLDER_TREE_H
#define WEFT_TEST_HTTP_FOLDER_TREE_H

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "test.h"

enum { TREE_PATH = 512 };

/* The folder with everything; "root" in it is served, and what must not be served is beside
 * that. */
static char tree_base[TREE_PATH / 4];

static inline const char *tree_path(const char *name)
{
    static __thread char path[TREE_PATH];
    CHECK(snprintf(path, sizeof path, "%s/%s", tree_base, name) < TREE_PATH);
    return path;
}

static inline void tree_begin(void)
{
    strcpy(tree_base, "/tmp/weft-test-http-XXXXXX");
    CHECK(mkdtemp(tree_base) != NULL);
}

static inline int tree_remove(const char *path, const struct stat *status, int flag,
                              struct FTW *where)
{
    (void)status, (void)flag, (void)where;
    return remove(path);
}

static inline void tree_end(void)
{
    CHECK_EQ(nftw(tree_base, tree_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void tree_folder(const char *name)
{
    CHECK_EQ(mkdir(tree_path(name), 0777), 0);
}

static inline void tree_bytes(const char *name, const void *bytes, size_t size)
{
    int fd = open(tree_path(name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, bytes, size), size);
    close(fd);
}

static inline void tree_file(const char *name, const char *text)
{
    tree_bytes(name, text, strlen(text));
}

static inline void tree_link(const char *name, const char *target)
{
    CHECK_EQ(symlink(target, tree_path(name)), 0);
}

static inline void tree_fifo(const char *name)
{
    CHECK_EQ(mkfifo(tree_path(name), 0666), 0);
}

/* Sets when it was changed. */
static inline void tree_date(const char *name, int64_t seconds, long nanoseconds)
{
    struct timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};
    CHECK_EQ(utimensat(AT_FDCWD, tree_path(name), times, 0), 0);
}

#endif
