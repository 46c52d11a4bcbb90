/*
 * files.h: a folder that is served: what files.c, file.c and listing.c share.
 */
#ifndef WEFT_HTTP_FILES_PARTS_H
#define WEFT_HTTP_FILES_PARTS_H

#include <weft/http_files.h>

#include "http/safe_open.h"

struct weft_http_files {
    struct safe_root root;
    weft_http_files_options options; /* the texts are in `texts` */
    char texts[];
};

/* The status for an error of opening a file. */
int weft__http_files_status(int error);
/* Writes a name as a segment of a relative address, with a zero: "./a%20b". `to` has room for three
 * times its size, and 3. Returns the end. */
char *weft__http_escape_name(char *to, const char *name);

#endif
