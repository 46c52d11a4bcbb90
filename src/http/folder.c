/*
 * folder.c: the way to a file that never leaves its folder.
 *
 * Linux 5.6 does it all in one call, openat2 with RESOLVE_BENEATH. Where that is missing, or forbidden by a filter, the
 * way is walked by hand, name by name, in the same manner:
 *
 *     done   the names of real folders walked so far; `at` is the one that they lead to
 *     left   what is still to be walked; a link found puts what it holds in front of it
 *
 * No name is opened through a link, and ".." is never opened at all: it would lead wherever the folder has been moved to. Instead
 * the last name of `done` is dropped, and the rest walked again from the beginning. So whatever is moved or swapped
 * meanwhile, each descriptor was opened as a name in one that was opened so from the root: what is reached lay in
 * the folder when it was opened.
 *
 * Absolute links are refused by both, also if they lead into the folder.
 */
#include "http/folder.h"

#include <errno.h>
#include <string.h>

#include "http/sys.h"

enum {
    LINKS = 40, /* as the kernel */
    WAY = 4096, /* bytes, as the kernel: PATH_MAX */
    NAME = 256,
    ATTEMPTS = 100, /* of the kernel while things are moved; then by hand */
    MORE = -10000,  /* to walk; no errno value */
};

/* ---- by hand ---- */

struct way {
    int root, at;
    int links;
    char done[WAY], left[WAY];
    char name[NAME], target[WAY];
};

static void stand_at(struct way *way, int at)
{
    if (way->at != way->root)
        weft__http_close_fd(way->at);
    way->at = at;
}

/* Puts a text and a slash in front of what is left. */
static int put_before(struct way *way, const char *text)
{
    size_t size = strlen(text), left = strlen(way->left);
    if (size + 1 + left >= WAY)
        return -ENAMETOOLONG;
    memmove(way->left + size + 1, way->left, left + 1);
    memcpy(way->left, text, size);
    way->left[size] = '/';
    return 0;
}

/* Takes the next name from what is left. 1; 0 if there is none. */
static int take_name(struct way *way)
{
    const char *start = way->left + strspn(way->left, "/");
    size_t size = strcspn(start, "/");
    if (size >= NAME)
        return -ENAMETOOLONG;
    memcpy(way->name, start, size);
    way->name[size] = '\0';
    memmove(way->left, start + size, strlen(start + size) + 1);
    return size > 0;
}

static bool is_last(const struct way *way)
{
    return way->left[strspn(way->left, "/")] == '\0';
}

static int go_down(struct way *way, int folder)
{
    size_t done = strlen(way->done), size = strlen(way->name);
    stand_at(way, folder);
    if (done + 1 + size >= WAY)
        return -ENAMETOOLONG;
    way->done[done] = '/';
    memcpy(way->done + done + 1, way->name, size + 1);
    return 0;
}

static int go_up(struct way *way)
{
    char *last = strrchr(way->done, '/');
    if (last == NULL)
        return -EXDEV;
    int here = weft__http_open_in(way->at, ".", OPEN_LOOK); /* ".." of a file is none */
    if (here < 0)
        return here;
    weft__http_close_fd(here);
    *last = '\0';
    int error = put_before(way, way->done);
    way->done[0] = '\0';
    stand_at(way, way->root);
    return error;
}

static int follow(struct way *way, int link)
{
    int64_t size = weft__http_read_link(link, way->target, sizeof way->target);
    if (size < 0)
        return (int)size;
    if (++way->links > LINKS)
        return -ELOOP;
    if (way->target[0] == '/')
        return -EXDEV;
    return put_before(way, way->target);
}

static int more_unless(int error)
{
    return error != 0 ? error : MORE;
}

/* Opens the last name, which was looked at as `found`. MORE if it has become a link since. */
static int open_last(struct way *way, int found, enum file_open how)
{
    if (how == OPEN_LOOK)
        return found;
    weft__http_close_fd(found);
    int opened = weft__http_open_in(way->at, way->name, how);
    if (opened != -ELOOP)
        return opened;
    if (++way->links > LINKS)
        return -ELOOP;
    return more_unless(put_before(way, way->name));
}

/* Goes to the name that was taken, or opens it if it is the last. A descriptor; or MORE. */
static int step(struct way *way, enum file_open how)
{
    struct file_status status;
    int found = weft__http_open_in(way->at, way->name, OPEN_LOOK);
    if (found < 0)
        return found;
    int error = weft__http_file_status(found, &status);
    if (error != 0 || status.kind == FILE_LINK) {
        error = error != 0 ? error : follow(way, found);
        weft__http_close_fd(found);
        return more_unless(error);
    }
    if (is_last(way))
        return open_last(way, found, how);
    return more_unless(go_down(way, found));
}

static int walk(struct way *way, enum file_open how)
{
    int result = MORE;
    while (result == MORE) {
        int taken = take_name(way);
        if (taken < 0)
            result = taken;
        else if (taken == 0)
            result = weft__http_open_in(way->at, ".", how);
        else if (strcmp(way->name, "..") == 0)
            result = more_unless(go_up(way));
        else if (strcmp(way->name, ".") != 0)
            result = step(way, how);
    }
    return result;
}

static int find_by_hand(const struct folder *folder, const char *path, enum file_open how)
{
    size_t size = strlen(path);
    if (size >= WAY)
        return -ENAMETOOLONG;
    struct way *way = weft__http_allocate(sizeof *way);
    if (way == NULL)
        return -ENOMEM;
    way->root = way->at = folder->fd;
    way->links = 0;
    way->done[0] = '\0';
    memcpy(way->left, path, size + 1);
    int result = walk(way, how);
    stand_at(way, way->root);
    weft__http_free(way);
    return result;
}

/* ---- either way ---- */

int weft__http_folder_find(const struct folder *folder, const char *path, enum file_open how)
{
    if (path[0] == '/')
        return -EXDEV;
    for (int i = 0; i < ATTEMPTS && !folder->by_hand; i++) {
        int found = weft__http_open_beneath(folder->fd, path[0] == '\0' ? "." : path, how);
        if (found != -EAGAIN)
            return found;
    }
    return find_by_hand(folder, path, how);
}

int weft__http_folder_open(struct folder *folder, const char *path)
{
    int fd = weft__http_open_folder(path);
    if (fd < 0)
        return fd;
    /* A filter of system calls says -EPERM to what it does not know. */
    int tried = weft__http_open_beneath(fd, ".", OPEN_LOOK);
    bool by_hand = tried == -ENOSYS || tried == -EPERM || tried == -EINVAL;
    if (tried >= 0)
        weft__http_close_fd(tried);
    if (tried < 0 && !by_hand) {
        weft__http_close_fd(fd);
        return tried;
    }
    *folder = (struct folder){fd, by_hand};
    return 0;
}

void weft__http_folder_close(struct folder *folder)
{
    weft__http_close_fd(folder->fd);
}
