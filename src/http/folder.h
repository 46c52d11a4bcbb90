/*
 * folder.h: opens what lies in a folder, and never anything else.
 */
#ifndef WEFT_HTTP_FOLDER_H
#define WEFT_HTTP_FOLDER_H

#include <stdbool.h>

#include "http/sys_files.h"

struct folder {
    int fd;
    bool by_hand; /* the kernel has no openat2; a test may set it */
};

/* As weft_http_files_open. */
int weft__http_folder_open(struct folder *folder, const char *path);
void weft__http_folder_close(struct folder *folder);

/* Opens what `path` leads to from the folder: "a/b", "" is the folder itself. Links are followed as long as they are relative
 * and do not lead out of it, whatever is moved meanwhile.
 * Returns a descriptor; -EXDEV if it leads out; -ELOOP after 40 links; what open may say. */
int weft__http_folder_find(const struct folder *folder, const char *path, enum file_open how);

#endif
