/*
 * files.c: serves a folder of files: which file a path means. file.c sends it, listing.c lists a
 * folder.
 *
 * Safety does not depend on the path: safe_open.c opens only what lies below the folder. Empty
 * segments, "." and ".." name nothing here, so each file has one name.
 *
 * A file that is not regular is looked at and never opened: opening a FIFO would wake its writer,
 * and opening a device may do anything. So a file is looked at first, then opened, and its kind
 * checked again.
 *
 * The redirect to a folder is relative, "./name/": it stays at this server, and is right behind
 * proxies that cut off a prefix.
 */
#include "http/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "http/file.h"
#include "http/listing.h"
#include "http/parse.h"
#include "http/request.h"
#include "http/sys.h"

/* ---- opening ---- */

static int check_options(const weft_http_files_options *options)
{
    for (size_t i = 0; i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        if (options->reserved[i] != 0)
            return -EINVAL;
    if (options->index != NULL &&
        (options->index[0] == '\0' || strchr(options->index, '/') != NULL))
        return -EINVAL;
    if (options->cache_control != NULL && !weft__http_is_value(options->cache_control))
        return -EINVAL;
    return 0;
}

int weft_http_files_open(weft_http_files **files, const char *folder,
                         const weft_http_files_options *options)
{
    weft_http_files_options given = {0};
    if (files == NULL || folder == NULL)
        return -EINVAL;
    if (options != NULL)
        given = *options;
    if (check_options(&given) != 0)
        return -EINVAL;
    const char *index = given.index != NULL ? given.index : "index.html";
    const char *cache = given.cache_control != NULL ? given.cache_control : "";
    size_t index_size = strlen(index) + 1, cache_size = strlen(cache) + 1;
    weft_http_files *made = weft__http_allocate(sizeof *made + index_size + cache_size);
    if (made == NULL)
        return -ENOMEM;
    int error = weft__http_safe_root_open(&made->root, folder);
    if (error != 0) {
        weft__http_free(made);
        return error;
    }
    made->options = given;
    made->options.index = memcpy(made->texts, index, index_size);
    made->options.cache_control = memcpy(made->texts + index_size, cache, cache_size);
    *files = made;
    return 0;
}

void weft_http_files_close(weft_http_files *files)
{
    if (files == NULL)
        return;
    weft__http_safe_root_close(&files->root);
    weft__http_free(files);
}

/* ---- which file ---- */

int weft__http_files_status(int error)
{
    switch (-error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case EXDEV:
        return 404;
    case EACCES:
    case EPERM:
        return 403;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return 503;
    default:
        return 500;
    }
}

/* Whether all segments are names that may be served. The last may be empty. */
static bool is_servable(const weft_http_files *files, const char *path)
{
    while (*path != '\0') {
        size_t size = strcspn(path, "/");
        bool dots = path[0] == '.' && (size == 1 || (size == 2 && path[1] == '.'));
        if (size == 0 || dots || (path[0] == '.' && !files->options.dot_files))
            return false;
        path += size;
        path += *path == '/';
    }
    return true;
}

/* The kind of what a name leads to, which is not opened. */
static int look(const weft_http_files *files, const char *name, enum file_kind *kind)
{
    struct file_status status;
    int found = weft__http_safe_open(&files->root, name, OPEN_LOOK);
    if (found < 0)
        return found;
    int error = weft__http_file_status(found, &status);
    weft__http_close_fd(found);
    *kind = error == 0 ? status.kind : FILE_UNKNOWN;
    return error;
}

char *weft__http_escape_name(char *to, const char *name)
{
    static const char digits[] = "0123456789ABCDEF";
    *to++ = '.';
    *to++ = '/';
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || strchr("-._~", c) != NULL) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    *to = '\0';
    return to;
}

static const char *last_slash(const weft_http_request *request)
{
    return strrchr(weft_http_path(request), '/');
}

/* Redirects to the same path with a slash at its end. */
static int redirect(weft_http_request *request, weft_http_response *response)
{
    const char *name = last_slash(request);
    const char *query = weft_http_query(request);
    size_t size = strlen(++name), query_size = strlen(query);
    char *location = weft__http_request_allocate(request, 3 * size + query_size + 5);
    if (location == NULL)
        return 503;
    char *end = weft__http_escape_name(location, name);
    *end++ = '/';
    if (query_size > 0)
        *end++ = '?';
    memcpy(end, query, query_size + 1);
    int error = weft_http_redirect(response, 301, location);
    if (error == 0)
        return 0;
    return error == -EMSGSIZE ? 414 : 503;
}

/* Answers for a folder by its index or a listing. `name` has room for the index. */
static int serve_folder(const weft_http_files *files, weft_http_request *request,
                        weft_http_response *response, char *name)
{
    size_t size = strlen(name);
    enum file_kind kind;
    if (size > 0)
        name[size] = '/';
    strcpy(name + size + (size > 0), files->options.index);
    int error = look(files, name, &kind);
    int status = error != 0 ? weft__http_files_status(error) : 404;
    if (error == 0 && kind == FILE_REGULAR)
        return weft__http_file_send(files, request, response, name);
    if (status != 404 || !files->options.list)
        return status;
    name[size] = '\0';
    return weft__http_listing_send(files, request, response, name);
}

static int serve_path(const weft_http_files *files, weft_http_request *request,
                      weft_http_response *response, const char *path)
{
    size_t size = strlen(path);
    bool slash = size == 0 || path[size - 1] == '/';
    enum file_kind kind;
    char *name = weft__http_request_allocate(request, size + 1 + strlen(files->options.index) + 1);
    if (name == NULL)
        return 503;
    memcpy(name, path, size + 1);
    if (size > 0 && slash)
        name[size - 1] = '\0';
    int error = look(files, name, &kind);
    if (error != 0)
        return weft__http_files_status(error);
    if (kind == FILE_FOLDER) {
        /* The whole path counts, since the client sees it: the parameter may be a part of it. */
        bool complete = slash || last_slash(request)[1] == '\0';
        return complete ? serve_folder(files, request, response, name)
                        : redirect(request, response);
    }
    if (kind != FILE_REGULAR || slash)
        return 404;
    return weft__http_file_send(files, request, response, name);
}

void weft_http_files_serve(weft_http_request *request, weft_http_response *response, void *data)
{
    const weft_http_files *files = data;
    const char *method = weft_http_method(request);
    const char *path = weft_http_param(request, "path");
    int status = 404;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        (void)weft_http_set(response, "Allow", "GET, HEAD");
        (void)weft_http_error(response, 405, NULL);
        return;
    }
    if (path == NULL)
        path = weft_http_path(request) + 1; /* behind the slash; "*" has only OPTIONS */
    if (weft_http_set(response, "X-Content-Type-Options", "nosniff") != 0)
        status = 503;
    else if (is_servable(files, path))
        status = serve_path(files, request, response, path);
    if (status != 0)
        (void)weft_http_error(response, status, NULL);
}
