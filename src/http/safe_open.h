/*
 * safe_open.h: opens files below a root folder, and never outside it.
 */
#ifndef WEFT_HTTP_SAFE_OPEN_H
#define WEFT_HTTP_SAFE_OPEN_H

#include <stdbool.h>

#include "http/sys_files.h"

struct safe_root {
    int fd;
    bool without_openat2; /* the kernel has none; a test may set it */
};

/* Returns as weft_http_files_open. */
int weft__http_safe_root_open(struct safe_root *root, const char *path);
void weft__http_safe_root_close(struct safe_root *root);

/* Opens what `path` leads to from the root: "a/b"; "" is the root itself. Follows links that are
 * relative and do not lead out of the root, whatever is moved meanwhile. Returns a descriptor;
 * -EXDEV if the path leads out; -ELOOP after 40 links; or an error of open. */
int weft__http_safe_open(const struct safe_root *root, const char *path, enum file_open how);

#endif
