/*
 * sys_files.h: the part of the seam (sys.h) for files and folders.
 *
 * Every call returns 0 or what is asked for, or a negative errno value. It may wait for a disk.
 */
#ifndef WEFT_HTTP_SYS_FILES_H
#define WEFT_HTTP_SYS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum file_kind { FILE_UNKNOWN, FILE_REGULAR, FILE_FOLDER, FILE_LINK, FILE_OTHER };

struct file_status {
    enum file_kind kind;
    uint64_t inode;
    int64_t size;
    int64_t modified;    /* in seconds since 1970 */
    int64_t modified_ns; /* and nanoseconds */
};

enum file_open {
    OPEN_LOOK, /* for its status, or as a place to open from: has no effect on the file */
    OPEN_READ, /* never waits for the other end of a FIFO, and takes no controlling terminal */
    OPEN_LIST, /* a folder, to be listed */
};

/* Opens a folder by any path, links included, as a place to open from. */
int weft__http_open_folder(const char *path);
/* Opens what `path` leads to from `folder`; follows links, but never out of the folder. -EXDEV if
 * the path leads out; -EAGAIN if a rename meanwhile made that undecidable; -ENOSYS before
 * Linux 5.6. */
int weft__http_open_beneath(int folder, const char *path, enum file_open how);
/* Opens a name in a folder. OPEN_LOOK opens a link itself; the others return -ELOOP for a link. */
int weft__http_open_in(int folder, const char *name, enum file_open how);
/* Reads the target of a link (OPEN_LOOK) as text. Returns its size; -ENAMETOOLONG if `size` has no
 * room for it and a zero. */
int64_t weft__http_read_link(int link, char *text, size_t size);
int weft__http_file_status(int file, struct file_status *status);

struct file_list;
/* Begins to list a folder (OPEN_LIST). The list owns the descriptor from then on. */
int weft__http_list_open(int folder, struct file_list **list);
/* Gives the next name (not "." and ".."), valid until the next call, and its kind: FILE_UNKNOWN if
 * the system does not say. Returns 1; 0 at the end. */
int weft__http_list_next(struct file_list *list, const char **name, enum file_kind *kind);
void weft__http_list_close(struct file_list *list);

#endif
