/*
 * listing.h: the listing of a folder as a response.
 */
#ifndef WEFT_HTTP_LISTING_H
#define WEFT_HTTP_LISTING_H

#include <weft/http_files.h>

/* Answers with a list of what can be served in a folder. Returns 0, or the status to answer
 * with. */
int weft__http_listing_send(const weft_http_files *files, weft_http_request *request,
                            weft_http_response *response, const char *folder);

#endif
