/*
 * upload.c: bodies of any size in little memory: PUT writes to a file piece by piece, GET sends the
 * file.
 *
 *     PUT /{name}       stores the body; it appears under its name when it is complete
 *     GET /{name}       sends it, without passing through the program
 *
 *     upload folder [address]
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/http_router.h>
#include <weft/weft.h>

/* A name inside the folder: no slash (the route excludes it), no hidden file. */
static int path_of(const char *folder, const char *name, const char *suffix, char path[512])
{
    if (name[0] == '.' || name[0] == '\0' || strchr(name, '%') != NULL)
        return -EINVAL;
    int size = snprintf(path, 512, "%s/%s%s", folder, name, suffix);
    return size < 512 ? 0 : -ENAMETOOLONG;
}

static int64_t copy_body(weft_http_request *request, int file)
{
    char block[16384];
    int64_t got, all = 0;
    while ((got = weft_http_read(request, block, sizeof block)) > 0) {
        if (weft_file_write(file, block, (size_t)got, WEFT_NEVER) != got)
            return -EIO;
        all += got;
    }
    return got < 0 ? got : all;
}

static void put(weft_http_request *request, weft_http_response *response, void *folder)
{
    const char *name = weft_http_param(request, "name");
    char path[512], part[512], suffix[32];
    weft_address peer;
    weft_http_peer(request, &peer);
    snprintf(suffix, sizeof suffix, ".part-%d",
             weft_address_port(&peer)); /* unique while the connection is open */
    if (path_of(folder, name, "", path) != 0 || path_of(folder, name, suffix, part) != 0) {
        weft_http_error(response, 400, "that is no name");
        return;
    }
    weft_http_max_body(request, INT64_MAX);
    int file = weft_file_open(part, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int64_t size = file < 0 ? file : copy_body(request, file);
    if (file >= 0)
        weft_file_close(file);
    if (size >= 0 && weft_file_rename(part, path) == 0) {
        weft_http_status(response, 201);
        weft_http_printf(response, "%lld bytes\n", (long long)size);
        return;
    }
    (void)!weft_file_unlink(part);
    weft_http_error(response, 500, "it could not be stored");
}

static void get(weft_http_request *request, weft_http_response *response, void *folder)
{
    char path[512];
    struct stat status;
    int file = path_of(folder, weft_http_param(request, "name"), "", path);
    if (file == 0)
        file = weft_file_open(path, O_RDONLY, 0);
    if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        weft_http_error(response, 404, NULL);
    } else {
        weft_http_set(response, "Content-Type", "application/octet-stream");
        weft_http_send_file(response, file, 0, status.st_size);
    }
    if (file >= 0)
        weft_file_close(file);
}

static void ready(const char *address)
{
    printf("listening at %s\n", address);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: upload folder [address]\n");
        return 2;
    }
    const char *address = argc > 2 ? argv[2] : "tcp:127.0.0.1:8080";
    weft_http_router *router;
    int error = weft_http_router_open(&router);
    if (error == 0)
        error = weft_http_route(router, "PUT", "/{name}", put, argv[1]);
    if (error == 0)
        error = weft_http_route(router, "GET", "/{name}", get, argv[1]);
    if (error != 0)
        return 1;
    weft_http_options options = {.handler = weft_http_router_serve, .data = router};
    error = weft_http_run(&options, address, ready);
    if (error != 0)
        fprintf(stderr, "%s: %s\n", address, weft_strerror(error));
    weft_http_router_close(router);
    return error != 0;
}
