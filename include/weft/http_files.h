/*
 * weft/http_files.h: serves a folder of files. (libweft-http)
 *
 *     weft_http_files *files;
 *     error = weft_http_files_open(&files, "/srv/www", NULL);
 *     error = weft_http_route(router, "GET", "/{path...}", weft_http_files_serve, files);
 *
 * Answers GET and HEAD; other methods are 405. The path is the route's parameter "path", or the
 * request's path if there is none. A folder without a slash behind it is redirected (301) to the
 * same with one; there its index answers, or a list of its files if that option is set, otherwise
 * 404. A file that may not be read is 403; without memory or descriptors the answer is 503.
 *
 * Ranges: one or several, 206, 416, If-Range; more than 16, or ranges that overlap, get the whole
 * file. Conditions: ETag and Last-Modified, with If-None-Match, If-Match, If-Modified-Since and
 * If-Unmodified-Since. The type is that of the name's ending. If a client accepts gzip, and
 * "name.gz" is beside "name" and not older, "name.gz" is sent.
 *
 * Nothing outside of the folder is ever served: not by "..", %2e%2e, %2f or a zero, and not by a
 * symbolic link that leads out, whatever changes in the folder meanwhile. Absolute links count as
 * leading out. Names that begin with a dot are 404, unless the option allows them. Only regular
 * files are served; others (devices, FIFOs) are not even opened.
 *
 * A file that is replaced (rename) while it is sent is sent as it was. If a file is truncated
 * meanwhile, the connection is closed before its end.
 */
#ifndef WEFT_HTTP_FILES_H
#define WEFT_HTTP_FILES_H

#include <weft/base.h>
#include <weft/http.h>

WEFT_BEGIN

typedef struct weft_http_files weft_http_files;

/* Zero means default in every field. */
typedef struct weft_http_files_options {
    const char *index;         /* of a folder: a name. Default "index.html" */
    int list;                  /* not 0: a folder without an index is shown as a list */
    int dot_files;             /* not 0: names that begin with a dot are served */
    const char *cache_control; /* sent as Cache-Control. Default: nothing */
    int no_gzip;               /* not 0: "name.gz" is not looked for */
    uintptr_t reserved[6];     /* must be zero */
} weft_http_files_options;

/* Opens a folder; the options are copied.
 * Returns 0; -EINVAL; -ENOTDIR; -ENOENT, -EACCES and other errors of open; -ENOMEM.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_files_open(weft_http_files **files, const char *folder,
                                                const weft_http_files_options *options);
/* Closes the folder. NULL is fine. Undefined while a server uses it.
 * Contexts: fiber, thread. */
WEFT_API void weft_http_files_close(weft_http_files *files);
/* The handler; `data` of the route is what weft_http_files_open gave. */
WEFT_API void weft_http_files_serve(weft_http_request *request, weft_http_response *response,
                                    void *files);
/* The type of a name by its ending: "text/html; charset=utf-8"; "application/octet-stream" if it is
 * unknown, or the name is NULL. */
WEFT_API const char *weft_http_type(const char *name);

WEFT_END

#endif
