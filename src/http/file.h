/*
 * file.h: a file as a response.
 */
#ifndef WEFT_HTTP_FILE_H
#define WEFT_HTTP_FILE_H

#include <weft/http_files.h>

/* Answers with the file of that name, which was seen to be a regular one. Returns 0, or the status
 * to answer with. */
int weft__http_file_send(const weft_http_files *files, weft_http_request *request,
                         weft_http_response *response, const char *name);

#endif
