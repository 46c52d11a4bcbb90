/*
 * safe_open.c: opens what lies below a folder, and nothing else; with openat2 and without.
 */
#include "http/safe_open.h"

#include <pthread.h>
#include <sys/syscall.h>

#include "folder_tree.h"
#include "system.h"

static struct safe_root folder;

static void open_root(bool without_openat2)
{
    CHECK_EQ(weft__http_safe_root_open(&folder, tree_path("root")), 0);
    folder.without_openat2 |= without_openat2;
}

/* What a path leads to: the text of a file, "/" for a folder, or the name of the error. */
static const char *found(const char *path, enum file_open how)
{
    static char text[64];
    struct file_status status;
    int fd = weft__http_safe_open(&folder, path, how);
    if (fd < 0)
        return strerrorname_np(-fd);
    CHECK_EQ(weft__http_file_status(fd, &status), 0);
    ssize_t size = 0;
    if (status.kind == FILE_REGULAR && how == OPEN_READ) {
        size = read(fd, text, sizeof text - 1);
        CHECK_EQ(size, status.size);
    }
    text[size] = '\0';
    close(fd);
    if (status.kind == FILE_FOLDER)
        return "/";
    return status.kind == FILE_REGULAR ? text : "other";
}

static void make_chain(int links)
{
    char name[32], target[32] = "a.txt";
    for (int i = 1; i <= links; i++) {
        snprintf(name, sizeof name, "root/chain%d", i);
        tree_link(name, target);
        snprintf(target, sizeof target, "chain%d", i);
    }
}

static void make_tree(void)
{
    char absolute[TREE_PATH];
    tree_begin();
    tree_folder("root");
    tree_folder("root/sub");
    tree_folder("root/sub/deep");
    tree_folder("beside");
    tree_file("secret", "secret");
    tree_file("beside/secret", "secret");
    tree_file("root/a.txt", "A");
    tree_file("root/secret", "inside");
    tree_file("root/sub/b.txt", "B");
    tree_file("root/sub/deep/c.txt", "C");
    tree_file("root/...", "dots");
    tree_fifo("root/fifo");
    tree_link("root/in", "sub/b.txt");
    tree_link("root/sub/up", "../a.txt");
    tree_link("root/sub/round", ".././sub//deep/../b.txt");
    tree_link("root/folder", "sub");
    tree_link("root/sub/deep/home", "../..");
    tree_link("root/through", "folder/deep/c.txt");
    tree_link("root/behind", "folder/../a.txt");
    tree_link("root/out", "../secret");
    tree_link("root/sub/out", "../../secret");
    tree_link("root/far", "../../../../../../../../../../etc/passwd");
    tree_link("root/around", "sub/../../secret");
    tree_link("root/back", "../root/a.txt");
    tree_link("root/parent", "..");
    tree_link("root/beside", "../beside");
    tree_link("root/absolute", "/etc/passwd");
    strcpy(absolute, tree_path("root/a.txt"));
    tree_link("root/absolute_in", absolute);
    tree_link("root/loop", "loop");
    tree_link("root/tick", "tock");
    tree_link("root/tock", "sub/../tick");
    tree_link("root/nowhere", "gone");
    tree_link("root/no_folder", "a.txt/../a.txt");
    make_chain(41);
}

static void what_lies_within_and_nothing_else(void)
{
    static const char *const table[][2] = {
        {"", "/"},
        {".", "/"},
        {"a.txt", "A"},
        {"...", "dots"},
        {"sub", "/"},
        {"sub/b.txt", "B"},
        {"sub//b.txt", "B"},
        {"sub/./b.txt", "B"},
        {"sub/deep/c.txt", "C"},
        {"sub/deep/..", "/"},
        {"sub/../a.txt", "A"},
        {"fifo", "other"},
        {"in", "B"},
        {"sub/up", "A"},
        {"sub/round", "B"},
        {"folder", "/"},
        {"folder/b.txt", "B"},
        {"folder/up", "A"},
        {"folder/deep/home", "/"},
        {"folder/deep/home/a.txt", "A"},
        {"through", "C"},
        {"behind", "A"},
        {"chain1", "A"},
        {"chain40", "A"},
        {"chain41", "ELOOP"},
        {"loop", "ELOOP"},
        {"loop/a", "ELOOP"},
        {"tick", "ELOOP"},
        {"gone", "ENOENT"},
        {"gone/a", "ENOENT"},
        {"nowhere", "ENOENT"},
        {"a.txt/b", "ENOTDIR"},
        {"a.txt/.", "ENOTDIR"},
        {"a.txt/..", "ENOTDIR"},
        {"no_folder", "ENOTDIR"},
        {"fifo/a", "ENOTDIR"},
        /* out */
        {"..", "EXDEV"},
        {"../secret", "EXDEV"},
        {"../root/a.txt", "EXDEV"},
        {"sub/../../secret", "EXDEV"},
        {"/", "EXDEV"},
        {"/etc/passwd", "EXDEV"},
        {"out", "EXDEV"},
        {"sub/out", "EXDEV"},
        {"folder/out", "EXDEV"},
        {"far", "EXDEV"},
        {"around", "EXDEV"},
        {"back", "EXDEV"},
        {"parent", "EXDEV"},
        {"parent/secret", "EXDEV"},
        {"sub/deep/home/../secret", "EXDEV"},
        {"beside/secret", "EXDEV"},
        {"absolute", "EXDEV"},
        {"absolute_in", "EXDEV"},
    };
    for (int without_openat2 = 0; without_openat2 < 2; without_openat2++) {
        open_root(without_openat2);
        int descriptors = open_descriptors();
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
            if (strcmp(found(table[i][0], OPEN_READ), table[i][1]) != 0)
                test_fail(__FILE__, __LINE__, "\"%s\"%s: %s, not %s", table[i][0],
                          without_openat2 ? " by hand" : "", found(table[i][0], OPEN_READ),
                          table[i][1]);
        CHECK_STR(found("sub/up", OPEN_LOOK), "");
        CHECK_STR(found("fifo", OPEN_LOOK), "other");
        CHECK_STR(found("sub", OPEN_LIST), "/");
        CHECK_STR(found("folder/deep/home", OPEN_LIST), "/");
        CHECK_STR(found("a.txt", OPEN_LIST), "ENOTDIR");
        CHECK_STR(found("in", OPEN_LIST), "ENOTDIR");
        CHECK_STR(found("fifo", OPEN_LIST), "ENOTDIR");
        CHECK_EQ(open_descriptors(), descriptors);
        weft__http_safe_root_close(&folder);
    }
}

static void names_that_are_too_long(void)
{
    static char path[8192];
    for (int without_openat2 = 0; without_openat2 < 2; without_openat2++) {
        open_root(without_openat2);
        memset(path, 'x', 300);
        path[300] = '\0';
        CHECK_STR(found(path, OPEN_READ), "ENAMETOOLONG");
        for (int i = 0; i < 4094; i += 2)
            memcpy(path + i, "./", 3);
        CHECK_STR(found(path, OPEN_READ), "/");
        for (int i = 0; i < 8000; i += 2)
            memcpy(path + i, "./", 3);
        CHECK_STR(found(path, OPEN_READ), "ENAMETOOLONG");
        weft__http_safe_root_close(&folder);
    }
}

/* A link in front of itself: the way grows with each round. */
static void a_way_that_grows(void)
{
    char target[1024] = "grows";
    for (int i = 5; i < 1001; i += 2)
        memcpy(target + i, "/.", 3);
    tree_link("root/grows", target);
    open_root(false);
    int descriptors = open_descriptors();
    CHECK_STR(found("grows", OPEN_READ), folder.without_openat2 ? "ENAMETOOLONG" : "ELOOP");
    folder.without_openat2 = true;
    CHECK_STR(found("grows", OPEN_READ), "ENAMETOOLONG");
    CHECK_EQ(open_descriptors(), descriptors);
    weft__http_safe_root_close(&folder);
}

enum { LEVELS = 24, LEVEL_SIZE = 200 };

/* Folders in folders, deeper than a path can say; in every fourth, "jump" leads four down. */
static void make_deep(const char *name, int *levels)
{
    char jump[4 * (LEVEL_SIZE + 1) + 1] = "";
    for (int i = 0; i < 4; i++)
        strcat(strcat(jump, i > 0 ? "/" : ""), name);
    levels[0] = open(tree_path("root"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(levels[0] >= 0);
    for (int i = 0; i < LEVELS; i++) {
        if (i % 4 == 0)
            CHECK_EQ(symlinkat(jump, levels[i], "jump"), 0);
        CHECK_EQ(mkdirat(levels[i], name, 0777), 0);
        levels[i + 1] = openat(levels[i], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(levels[i + 1] >= 0);
    }
}

/* The tree is too deep to be removed by a path. */
static void remove_deep(const char *name, const int *levels)
{
    for (int i = LEVELS; i > 0; i--) {
        close(levels[i]);
        CHECK_EQ(unlinkat(levels[i - 1], name, AT_REMOVEDIR), 0);
        if ((i - 1) % 4 == 0)
            CHECK_EQ(unlinkat(levels[i - 1], "jump", 0), 0);
    }
    close(levels[0]);
}

/* By hand a place is known by its names from the folder on, which must be a path. */
static void a_place_that_is_too_deep(void)
{
    char name[LEVEL_SIZE + 1];
    int levels[LEVELS + 1];
    memset(name, 'd', LEVEL_SIZE);
    name[LEVEL_SIZE] = '\0';
    make_deep(name, levels);
    open_root(true);
    int descriptors = open_descriptors();
    CHECK_STR(found("jump/jump/jump/jump/jump", OPEN_READ), "/");
    CHECK_STR(found("jump/jump/jump/jump/jump/jump/x", OPEN_READ), "ENAMETOOLONG");
    CHECK_EQ(open_descriptors(), descriptors);
    weft__http_safe_root_close(&folder);
    remove_deep(name, levels);
}

static void folders_that_are_none(void)
{
    struct safe_root opened = {.fd = 12345};
    CHECK_EQ(weft__http_safe_root_open(&opened, tree_path("root/a.txt")), -ENOTDIR);
    CHECK_EQ(weft__http_safe_root_open(&opened, tree_path("gone")), -ENOENT);
    CHECK_EQ(opened.fd, 12345);
    /* The folder itself may be named by a link, wherever it leads. */
    CHECK_EQ(weft__http_safe_root_open(&opened, tree_path("root/beside")), 0);
    weft__http_safe_root_close(&opened);
}

/* ---- while others move things ---- */

enum { EXCHANGE = 2 }; /* RENAME_EXCHANGE */

struct mover {
    const char *one, *other;
    unsigned flags;
    int stop;
};

static void move(const char *from, const char *to, unsigned flags)
{
    char path[TREE_PATH];
    strcpy(path, tree_path(from));
    CHECK_EQ(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, tree_path(to), flags), 0);
}

static void *move_about(void *arg)
{
    struct mover *mover = arg;
    while (!__atomic_load_n(&mover->stop, __ATOMIC_ACQUIRE)) {
        move(mover->one, mover->other, mover->flags);
        move(mover->other, mover->one, mover->flags);
    }
    return NULL;
}

/* Whatever is found at the path meanwhile is the text, or nothing; and it is found again when all
 * is quiet. */
static void find_while_moved(struct mover *mover, const char *path, const char *text)
{
    for (int without_openat2 = 0; without_openat2 < 2; without_openat2++) {
        pthread_t thread;
        open_root(without_openat2);
        mover->stop = 0;
        CHECK_EQ(pthread_create(&thread, NULL, move_about, mover), 0);
        for (int64_t i = test_scale(20000); i > 0; i--) {
            const char *got = found(path, OPEN_READ);
            if (strcmp(got, text) != 0 && got[0] != 'E')
                test_fail(__FILE__, __LINE__, "%s%s: %s", path, without_openat2 ? " by hand" : "",
                          got);
        }
        __atomic_store_n(&mover->stop, 1, __ATOMIC_RELEASE);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_STR(found(path, OPEN_READ), text);
        weft__http_safe_root_close(&folder);
    }
}

static void a_folder_swapped_with_a_link(void)
{
    struct mover mover = {"root/swapped", "root/link_out", EXCHANGE, 0};
    tree_folder("root/swapped");
    tree_file("root/swapped/secret", "inside");
    tree_link("root/link_out", "../beside");
    find_while_moved(&mover, "swapped/secret", "inside");
}

static void a_file_swapped_with_a_link(void)
{
    struct mover mover = {"root/file", "root/file_out", EXCHANGE, 0};
    tree_file("root/file", "inside");
    tree_link("root/file_out", "../secret");
    find_while_moved(&mover, "file", "inside");
}

/* What is above a folder that was moved out is outside too. */
static void a_folder_moved_out_while_in_it(void)
{
    struct mover mover = {"root/sub/moved", "beside/moved", 0, 0};
    tree_folder("root/sub/moved");
    tree_link("root/sub/moved/up", "../../secret");
    find_while_moved(&mover, "sub/moved/up", "inside");
}

int main(void)
{
    make_tree();
    RUN_PLAIN(what_lies_within_and_nothing_else, "nothing here is a fiber");
    RUN_PLAIN(names_that_are_too_long, "nothing here is a fiber");
    RUN_PLAIN(a_way_that_grows, "nothing here is a fiber");
    RUN_PLAIN(a_place_that_is_too_deep, "nothing here is a fiber");
    RUN_PLAIN(folders_that_are_none, "nothing here is a fiber");
    RUN_PLAIN(a_folder_swapped_with_a_link, "nothing here is a fiber");
    RUN_PLAIN(a_file_swapped_with_a_link, "nothing here is a fiber");
    RUN_PLAIN(a_folder_moved_out_while_in_it, "nothing here is a fiber");
    tree_end();
    return 0;
}
