/*
 * safe_open.c: opens files below a root folder, and never outside it.
 *
 * Linux 5.6 does it in one call, openat2 with RESOLVE_BENEATH. Where that is missing, or forbidden
 * by a filter, the path is walked name by name, in the same manner:
 *
 *     done   the names of real folders walked so far; `at` is the folder they lead to
 *     left   what is still to be walked; the target of a link is put in front of it
 *
 * Invariant: each descriptor was opened as a name in a folder that was opened in that walk from the
 * root. So what is reached lay below the root when it was opened, whatever is moved or swapped
 * meanwhile. No name is opened through a link, and ".." is never opened at all: it would lead
 * wherever the folder has been moved to. Instead the last name of `done` is dropped, and the others
 * are walked again from the root.
 *
 * Absolute links are refused both ways, also if they lead below the root.
 */
#include "http/safe_open.h"

#include <errno.h>
#include <string.h>

#include "http/sys.h"

enum {
    LINKS = 40,       /* as the kernel */
    PATH_SIZE = 4096, /* bytes, as the kernel: PATH_MAX */
    NAME = 256,
    ATTEMPTS = 100, /* by openat2, while renames go on; then name by name */
    GO_ON = -10000, /* no errno value */
};

/* ---- name by name ---- */

struct walk {
    int root, at;
    int links;
    char done[PATH_SIZE], left[PATH_SIZE];
    char name[NAME], target[PATH_SIZE];
};

static void set_position(struct walk *walk, int at)
{
    if (walk->at != walk->root)
        weft__http_close_fd(walk->at);
    walk->at = at;
}

/* Puts a text and a slash in front of what is left. */
static int put_before(struct walk *walk, const char *text)
{
    size_t size = strlen(text), left = strlen(walk->left);
    if (size + 1 + left >= PATH_SIZE)
        return -ENAMETOOLONG;
    memmove(walk->left + size + 1, walk->left, left + 1);
    memcpy(walk->left, text, size);
    walk->left[size] = '/';
    return 0;
}

/* Takes the next name from what is left. Returns 1; 0 if there is none. */
static int take_name(struct walk *walk)
{
    const char *start = walk->left + strspn(walk->left, "/");
    size_t size = strcspn(start, "/");
    if (size >= NAME)
        return -ENAMETOOLONG;
    memcpy(walk->name, start, size);
    walk->name[size] = '\0';
    memmove(walk->left, start + size, strlen(start + size) + 1);
    return size > 0;
}

static bool is_last(const struct walk *walk)
{
    return walk->left[strspn(walk->left, "/")] == '\0';
}

static int descend(struct walk *walk, int folder)
{
    size_t done = strlen(walk->done), size = strlen(walk->name);
    set_position(walk, folder);
    if (done + 1 + size >= PATH_SIZE)
        return -ENAMETOOLONG;
    walk->done[done] = '/';
    memcpy(walk->done + done + 1, walk->name, size + 1);
    return 0;
}

static int ascend(struct walk *walk)
{
    char *last = strrchr(walk->done, '/');
    if (last == NULL)
        return -EXDEV;
    int here = weft__http_open_in(walk->at, ".", OPEN_LOOK); /* fails for a file */
    if (here < 0)
        return here;
    weft__http_close_fd(here);
    *last = '\0';
    int error = put_before(walk, walk->done);
    walk->done[0] = '\0';
    set_position(walk, walk->root);
    return error;
}

static int follow(struct walk *walk, int link)
{
    int64_t size = weft__http_read_link(link, walk->target, sizeof walk->target);
    if (size < 0)
        return (int)size;
    if (++walk->links > LINKS)
        return -ELOOP;
    if (walk->target[0] == '/')
        return -EXDEV;
    return put_before(walk, walk->target);
}

static int go_on_unless(int error)
{
    return error != 0 ? error : GO_ON;
}

/* Opens the last name, of which `found` is a look. Returns GO_ON if it has become a link since. */
static int open_last(struct walk *walk, int found, enum file_open how)
{
    if (how == OPEN_LOOK)
        return found;
    weft__http_close_fd(found);
    int opened = weft__http_open_in(walk->at, walk->name, how);
    if (opened != -ELOOP)
        return opened;
    if (++walk->links > LINKS)
        return -ELOOP;
    return go_on_unless(put_before(walk, walk->name));
}

/* Descends to the name that was taken, or opens it if it is the last. Returns a descriptor; or
 * GO_ON. */
static int step(struct walk *walk, enum file_open how)
{
    struct file_status status;
    int found = weft__http_open_in(walk->at, walk->name, OPEN_LOOK);
    if (found < 0)
        return found;
    int error = weft__http_file_status(found, &status);
    if (error != 0 || status.kind == FILE_LINK) {
        error = error != 0 ? error : follow(walk, found);
        weft__http_close_fd(found);
        return go_on_unless(error);
    }
    if (is_last(walk))
        return open_last(walk, found, how);
    return go_on_unless(descend(walk, found));
}

static int walk_path(struct walk *walk, enum file_open how)
{
    int result = GO_ON;
    while (result == GO_ON) {
        int taken = take_name(walk);
        if (taken < 0)
            result = taken;
        else if (taken == 0)
            result = weft__http_open_in(walk->at, ".", how);
        else if (strcmp(walk->name, "..") == 0)
            result = go_on_unless(ascend(walk));
        else if (strcmp(walk->name, ".") != 0)
            result = step(walk, how);
    }
    return result;
}

static int walk_from_root(const struct safe_root *root, const char *path, enum file_open how)
{
    size_t size = strlen(path);
    if (size >= PATH_SIZE)
        return -ENAMETOOLONG;
    struct walk *walk = weft__http_allocate(sizeof *walk);
    if (walk == NULL)
        return -ENOMEM;
    walk->root = walk->at = root->fd;
    walk->links = 0;
    walk->done[0] = '\0';
    memcpy(walk->left, path, size + 1);
    int result = walk_path(walk, how);
    set_position(walk, walk->root);
    weft__http_free(walk);
    return result;
}

/* ---- either walk ---- */

int weft__http_safe_open(const struct safe_root *root, const char *path, enum file_open how)
{
    if (path[0] == '/')
        return -EXDEV;
    for (int i = 0; i < ATTEMPTS && !root->without_openat2; i++) {
        int found = weft__http_open_beneath(root->fd, path[0] == '\0' ? "." : path, how);
        if (found != -EAGAIN)
            return found;
    }
    return walk_from_root(root, path, how);
}

int weft__http_safe_root_open(struct safe_root *root, const char *path)
{
    int fd = weft__http_open_folder(path);
    if (fd < 0)
        return fd;
    /* A filter of system calls returns -EPERM for calls it does not know. */
    int tried = weft__http_open_beneath(fd, ".", OPEN_LOOK);
    bool without_openat2 = tried == -ENOSYS || tried == -EPERM || tried == -EINVAL;
    if (tried >= 0)
        weft__http_close_fd(tried);
    if (tried < 0 && !without_openat2) {
        weft__http_close_fd(fd);
        return tried;
    }
    *root = (struct safe_root){fd, without_openat2};
    return 0;
}

void weft__http_safe_root_close(struct safe_root *root)
{
    weft__http_close_fd(root->fd);
}
