/*
 * files.h: what the parts of weft/http_files.h share.
 */
#ifndef WEFT_HTTP_FILES_PARTS_H
#define WEFT_HTTP_FILES_PARTS_H

#include <weft/http_files.h>

#include "http/folder.h"

struct weft_http_files {
    struct folder folder;
    weft_http_files_options options; /* the texts are in `texts` */
    char texts[];
};

/* The status for what opening a file may say. */
int weft__http_files_status(int error);

/* ---- file.c ---- */

/* Answers with the file of that name, which was seen to be a regular one.
 * Returns 0; or the status to answer with. */
int weft__http_file_send(const weft_http_files *files, weft_http_request *request,
                         weft_http_response *response, const char *name);

/* ---- list.c ---- */

/* Answers with a list of what can be served in a folder. As above. */
int weft__http_list_send(const weft_http_files *files, weft_http_request *request,
                         weft_http_response *response, const char *folder);

/* Writes a name as a segment of a relative address, with a zero: "./a%20b". `to` has room for three times its size, and 3. Returns
 * where it ends. */
char *weft__http_escape_name(char *to, const char *name);

#endif
