/*
 * file.c: a file as a response: whole or in parts, plain or as its compressed neighbour, or only
 * the answer that the client has it already. range.c decides which.
 *
 * All of the answer is about the descriptor that was opened: a file that is replaced meanwhile is
 * sent as it was. A file that is truncated meanwhile ends the connection, since its length was
 * announced.
 */
#include "http/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/date.h"
#include "http/files.h"
#include "http/range.h"
#include "http/request.h"
#include "http/response.h"
#include "http/sys.h"

enum { TAG = 64, BOUNDARY = 40, PART_HEAD = 512 };

struct file {
    int fd;
    struct file_status status;
    bool gzip; /* the compressed neighbour */
    const char *type;
    char tag[TAG], date[HTTP_DATE];
    int64_t modified; /* never later than now */
};

/* ---- opening ---- */

/* Opens a regular file to be read. `seen`: a look has shown that it is one. */
static int open_regular(const weft_http_files *files, const char *name, bool seen,
                        struct file *file)
{
    struct file_status status;
    int fd = -1, error = 0;
    for (int step = seen ? 1 : 0; step < 2 && error == 0; step++) {
        if (fd >= 0)
            weft__http_close_fd(fd);
        fd = weft__http_safe_open(&files->root, name, step == 0 ? OPEN_LOOK : OPEN_READ);
        if (fd < 0)
            return fd;
        error = weft__http_file_status(fd, &status);
        if (error == 0 && status.kind != FILE_REGULAR)
            error = -ENOENT;
    }
    if (error != 0) {
        weft__http_close_fd(fd);
        return error;
    }
    file->fd = fd;
    file->status = status;
    return 0;
}

static bool is_older(const struct file_status *one, const struct file_status *other)
{
    if (one->modified != other->modified)
        return one->modified < other->modified;
    return one->modified_ns < other->modified_ns;
}

/* Replaces the file by "name.gz", if there is one that can be opened and is not older. */
static void take_neighbour(const weft_http_files *files, weft_http_request *request,
                           const char *name, struct file *file)
{
    size_t size = strlen(name);
    struct file neighbour;
    char *longer = weft__http_request_allocate(request, size + sizeof ".gz");
    if (longer == NULL)
        return;
    memcpy(longer, name, size);
    memcpy(longer + size, ".gz", sizeof ".gz");
    if (open_regular(files, longer, false, &neighbour) != 0)
        return;
    if (is_older(&neighbour.status, &file->status)) {
        weft__http_close_fd(neighbour.fd);
        return;
    }
    weft__http_close_fd(file->fd);
    file->fd = neighbour.fd;
    file->status = neighbour.status;
    file->gzip = true;
}

/* ---- fields ---- */

static int next_value(const weft_http_request *request, const char *name, int *number,
                      const char **value)
{
    const char *found;
    while (weft_http_header_at(request, (*number)++, &found, value) == 0)
        if (strcasecmp(found, name) == 0)
            return 0;
    return -ENOENT;
}

/* The values of all fields of that name as one list; NULL if there are none. */
static const char *joined(weft_http_request *request, const char *name, int *error)
{
    const char *value, *only = NULL;
    size_t size = 0;
    int count = 0, number = 0;
    while (next_value(request, name, &number, &value) == 0) {
        only = value;
        size += strlen(value) + 1;
        count++;
    }
    if (count < 2)
        return only;
    char *list = weft__http_request_allocate(request, size);
    if (list == NULL) {
        *error = -ENOMEM;
        return NULL;
    }
    char *end = list;
    for (number = 0; next_value(request, name, &number, &value) == 0;) {
        size_t length = strlen(value);
        memcpy(end, value, length);
        end[length] = ',';
        end += length + 1;
    }
    end[-1] = '\0';
    return list;
}

static int read_conditions(weft_http_request *request, struct conditions *conditions)
{
    int error = 0;
    *conditions = (struct conditions){
        .match = joined(request, "If-Match", &error),
        .none_match = joined(request, "If-None-Match", &error),
        .modified_since = weft_http_header(request, "If-Modified-Since"),
        .unmodified_since = weft_http_header(request, "If-Unmodified-Since"),
        .range = weft_http_header(request, "If-Range"),
    };
    return error;
}

static void describe(struct file *file, int64_t now)
{
    const struct file_status *status = &file->status;
    file->modified = status->modified < now ? status->modified : now;
    weft__http_date(file->modified, file->date);
    (void)snprintf(file->tag, sizeof file->tag,
                   "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 ".%" PRIx64 "\"", status->inode,
                   (uint64_t)status->size, (uint64_t)status->modified,
                   (uint64_t)status->modified_ns);
}

/* The fields that 200, 206 and 304 have in common. */
static int set_fields(const weft_http_files *files, weft_http_response *response,
                      const struct file *file)
{
    int error = weft_http_set(response, "ETag", file->tag);
    if (error == 0)
        error = weft_http_set(response, "Last-Modified", file->date);
    if (error == 0 && files->options.cache_control[0] != '\0')
        error = weft_http_set(response, "Cache-Control", files->options.cache_control);
    return error;
}

static int set_body_fields(weft_http_response *response, const struct file *file, const char *type,
                           int64_t length)
{
    int error = weft_http_set(response, "Content-Type", type);
    if (error == 0)
        error = weft_http_set(response, "Accept-Ranges", "bytes");
    if (error == 0 && file->gzip)
        error = weft_http_set(response, "Content-Encoding", "gzip");
    if (error == 0)
        error = weft_http_setf(response, "Content-Length", "%" PRId64, length);
    return error;
}

/* For an error after the fields were set: a cache would keep it as long as the file. */
static void take_back_fields(weft_http_response *response)
{
    static const char *const names[] = {"ETag", "Last-Modified", "Cache-Control",
                                        "Content-Encoding", "Content-Range"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        weft__http_unset(response, names[i]);
}

/* ---- sending ---- */

/* The head is on its way from here on: an error ends the connection. */
static void send_bytes(weft_http_response *response, const struct file *file,
                       const struct range *range)
{
    if (!weft__http_is_head(response))
        (void)weft_http_send_file(response, file->fd, range->first, range->size);
}

static int send_whole(weft_http_response *response, const struct file *file)
{
    struct range all = {0, file->status.size};
    int error = set_body_fields(response, file, file->type, all.size);
    if (error == 0)
        send_bytes(response, file, &all);
    return error;
}

static int send_range(weft_http_response *response, const struct file *file,
                      const struct range *range)
{
    int error = weft_http_setf(response, "Content-Range", "bytes %" PRId64 "-%" PRId64 "/%" PRId64,
                               range->first, range->first + range->size - 1, file->status.size);
    if (error == 0)
        error = set_body_fields(response, file, file->type, range->size);
    if (error != 0)
        return error;
    weft_http_status(response, 206);
    send_bytes(response, file, range);
    return 0;
}

static int write_part_head(char *text, const char *boundary, const struct file *file,
                           const struct range *range)
{
    return snprintf(text, PART_HEAD,
                    "\r\n--%s\r\nContent-Type: %s\r\n"
                    "Content-Range: bytes %" PRId64 "-%" PRId64 "/%" PRId64 "\r\n\r\n",
                    boundary, file->type, range->first, range->first + range->size - 1,
                    file->status.size);
}

static int send_ranges(weft_http_response *response, const struct file *file,
                       const struct range *ranges, int count)
{
    char boundary[BOUNDARY], type[BOUNDARY + 64], text[PART_HEAD];
    (void)snprintf(boundary, sizeof boundary, "%016" PRIx64 "%016" PRIx64, weft__http_random(),
                   weft__http_random());
    (void)snprintf(type, sizeof type, "multipart/byteranges; boundary=%s", boundary);
    int64_t length = (int64_t)(sizeof "\r\n--" - 1 + strlen(boundary) + sizeof "--\r\n" - 1);
    for (int i = 0; i < count; i++)
        length += write_part_head(text, boundary, file, &ranges[i]) + ranges[i].size;
    int error = set_body_fields(response, file, type, length);
    if (error != 0)
        return error;
    weft_http_status(response, 206);
    for (int i = 0; i < count && error == 0; i++) {
        int size = write_part_head(text, boundary, file, &ranges[i]);
        error = weft_http_write(response, text, (size_t)size);
        if (error == 0)
            error = weft_http_send_file(response, file->fd, ranges[i].first, ranges[i].size);
    }
    if (error == 0)
        (void)weft_http_printf(response, "\r\n--%s--\r\n", boundary);
    return 0;
}

static int send_asked(const weft_http_files *files, weft_http_request *request,
                      weft_http_response *response, const struct file *file, bool use_range)
{
    struct range ranges[HTTP_RANGES];
    const char *value = NULL, *another;
    int number = 0, count = 0, error;
    /* A Range of HEAD has no meaning, and two fields contradict each other. */
    if (use_range && !weft__http_is_head(response) &&
        next_value(request, "Range", &number, &value) == 0 &&
        next_value(request, "Range", &number, &another) != 0)
        count = weft__http_ranges(value, file->status.size, ranges);
    if (count == -ERANGE) {
        error = weft_http_setf(response, "Content-Range", "bytes */%" PRId64, file->status.size);
        return error != 0 ? error : -ERANGE;
    }
    error = set_fields(files, response, file);
    if (error != 0)
        return error;
    if (count == 0)
        return send_whole(response, file);
    return count == 1 ? send_range(response, file, ranges)
                      : send_ranges(response, file, ranges, count);
}

/* Returns 0, or the status to answer with. */
static int answer(const weft_http_files *files, weft_http_request *request,
                  weft_http_response *response, struct file *file)
{
    struct conditions conditions;
    int64_t now = weft__http_seconds();
    describe(file, now);
    struct validators validators = {file->tag, file->modified, now};
    if (read_conditions(request, &conditions) != 0)
        return 503;
    int status = weft__http_conditions(&conditions, &validators);
    if (status == 412)
        return 412;
    if (status == 304) {
        weft_http_status(response, 304);
        return set_fields(files, response, file) != 0 ? 503 : 0;
    }
    bool use_range = weft__http_if_range(&conditions, &validators);
    int error = send_asked(files, request, response, file, use_range);
    if (error == -ERANGE)
        return 416;
    return error != 0 ? 503 : 0;
}

int weft__http_file_send(const weft_http_files *files, weft_http_request *request,
                         weft_http_response *response, const char *name)
{
    struct file file = {.type = weft_http_type(name)};
    int no_memory = 0, error = open_regular(files, name, true, &file);
    if (error != 0)
        return weft__http_files_status(error);
    int status = 0;
    if (!files->options.no_gzip) {
        const char *codings = joined(request, "Accept-Encoding", &no_memory);
        if (weft_http_set(response, "Vary", "Accept-Encoding") != 0)
            status = 503;
        else if (weft__http_takes_gzip(codings))
            take_neighbour(files, request, name, &file);
    }
    if (status == 0)
        status = answer(files, request, response, &file);
    if (status == 503)
        take_back_fields(response);
    weft__http_close_fd(file.fd);
    return status;
}
