/*
 * files_fault.c: routes and files when system calls fail: each call of their seam fails in turn,
 * the first, the second, and so on until the scenario has no more of them. Each answer is right or
 * an error of the server, and nothing is left behind. The calls are caught as in fault.c.
 */
#include <weft/weft.h>

#include "serve_files.h"
#include "system.h"

enum call { ALLOCATE, RESIZE, FOLDER, BENEATH, IN, LINK, STATUS, LIST, NEXT, SEND, CALLS };

static const struct {
    const char *name;
    int error;
} calls[CALLS] = {
    [ALLOCATE] = {"allocate", -ENOMEM},  [RESIZE] = {"resize", -ENOMEM},
    [FOLDER] = {"open_folder", -EMFILE}, [BENEATH] = {"open_beneath", -EMFILE},
    [IN] = {"open_in", -ENFILE},         [LINK] = {"read_link", -EIO},
    [STATUS] = {"file_status", -EIO},    [LIST] = {"list_open", -ENOMEM},
    [NEXT] = {"list_next", -EIO},        [SEND] = {"send_from_file", -EIO},
};

#include "failing_seam.h"

WRAP(int, open_folder, (const char *path), FOLDER, (path))
WRAP(int, open_beneath, (int folder, const char *path, enum file_open how), BENEATH,
     (folder, path, how))
WRAP(int, open_in, (int folder, const char *name, enum file_open how), IN, (folder, name, how))
WRAP(int64_t, read_link, (int link, char *text, size_t size), LINK, (link, text, size))
WRAP(int, file_status, (int file, struct file_status *status), STATUS, (file, status))
WRAP(int, list_open, (int folder, struct file_list **list), LIST, (folder, list))
WRAP(int, list_next, (struct file_list * list, const char **name, enum file_kind *kind), NEXT,
     (list, name, kind))

WRAP(int64_t, send_from_file, (int fd, int file, int64_t offset, size_t size), SEND,
     (fd, file, offset, size))

/* ---- the scenario ---- */

static const struct {
    const char *method, *target, *fields;
    int status;
} requests[] = {
    {"GET", "/files/a.css", "", 200},
    {"GET", "/files/a.css", "Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n", 200},
    {"GET", "/files/a.css", "If-Match: \"x\"\r\nIf-Match: \"y\"\r\n", 412},
    {"GET", "/files/a.css", "Range: bytes=0-1,3-4\r\n", 206},
    {"GET", "/files/folder/", "", 200},
    {"GET", "/files/folder?query", "", 301},
    {"GET", "/files/folder", "Padding: 970\r\n", 301},   /* no room for its Location */
    {"GET", "/files/folder", "Padding: 20000\r\n", 301}, /* a head with memory of its own */
    {"GET", "/files/list/", "", 200},
    {"GET", "/files/list/up", "", 200},
    {"GET", "/files/gone", "", 404},
    {"PUT", "/users/7", "", 405},
    {"OPTIONS", "/users/7", "", 204},
};

static void make_tree(void)
{
    char name[64];
    tree_begin();
    tree_folder("root");
    tree_folder("root/folder");
    tree_folder("root/list");
    tree_file("root/a.css", "0123456789");
    tree_file("root/a.css.gz", "0123456789");
    tree_file("root/folder/index.html", "<p>");
    tree_link("root/list/up", "../a.css");
    for (int i = 0; i < 100; i++) { /* more than fit into the first room for them */
        snprintf(name, sizeof name, "root/list/%d", i);
        tree_file(name, "");
    }
}

HANDLER(say)
{
    weft_http_puts(response, "hello");
}

static char padding_text[20000];

static void pass(weft_http_request *request, weft_http_response *response, weft_http_next *next,
                 void *data)
{
    const char *padding = weft_http_header(request, "Padding");
    (void)data;
    if (padding != NULL) {
        if (weft_http_setf(response, "Padding", "%.*s", atoi(padding), padding_text) != 0) {
            (void)weft_http_error(response, 503, NULL);
            return;
        }
    }
    weft_http_call(next, request, response);
}

static int add_routes(void)
{
    int error = weft_http_use(router, pass, NULL);
    if (error == 0)
        error = weft_http_route(router, "GET", "/users/{id}", say, NULL);
    if (error == 0)
        error = weft_http_route(router, NULL, "/files/{path...}", weft_http_files_serve, files);
    return error;
}

static size_t sizes[sizeof requests / sizeof requests[0]]; /* of the bodies, when nothing fails */

/* The status; 0 if the connection ended without one. `announced`: its Content-Length. */
static int status_of(size_t number, size_t *size, size_t *announced)
{
    static struct answer answer;
    char text[512];
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: test\r\n%sConnection: close\r\n\r\n",
             requests[number].method, requests[number].target, requests[number].fields);
    bool answered = ask_raw(&answer, text);
    *size = answered ? answer.size : 0;
    *announced = answered ? strtoul(field_of(&answer, "Content-Length"), NULL, 10) : 0;
    return answered ? answer.status : 0;
}

static void ask_all(bool may_fail)
{
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        size_t size, announced;
        int status = status_of(i, &size, &announced);
        bool refused = may_fail && (status == 0 || status == 500 || status == 503);
        if (status != requests[i].status && !refused)
            test_fail(__FILE__, __LINE__, "%s %s: %d, not %d", requests[i].method,
                      requests[i].target, status, requests[i].status);
        if (atomic_load(&plan.hits) == 0)
            sizes[i] = size;
        else if (status == requests[i].status && atomic_load(&plan.call) == SEND)
            CHECK(size == sizes[i] ||
                  (size < sizes[i] && announced == sizes[i])); /* seen to be cut off */
        else if (status == requests[i].status)
            CHECK_EQ(size, sizes[i]);
    }
}

static void fail_at(enum call call, long number)
{
    start_failing(call, number, false);
}

static int open_all(bool without_openat2)
{
    weft_http_files_options options = {.list = 1};
    files = NULL;
    router = NULL;
    int error = weft_http_files_open(&files, tree_path("root"), &options);
    if (error == 0)
        files->root.without_openat2 |= without_openat2;
    if (error == 0)
        error = weft_http_router_open(&router);
    return error == 0 ? add_routes() : error;
}

/* A run; whether something failed in it. */
static bool run(enum call call, long number, bool without_openat2)
{
    int descriptors = open_descriptors();
    fail_at(call, number);
    int error = open_all(without_openat2);
    CHECK(error == 0 || error == calls[call].error);
    long hits = atomic_load(&plan.hits);
    CHECK_EQ(hits, error != 0);
    if (error == 0) {
        /* The server's own start is the matter of fault.c. */
        long left = atomic_load(&plan.left);
        stop_failing();
        serve_begin(weft_http_router_serve, router);
        atomic_store(&plan.left, left);
        atomic_store(&plan.call, (int)call);
        ask_all(true);
        hits = atomic_load(&plan.hits);
        stop_failing();
        ask_all(false);
        serve_end();
    }
    stop_failing();
    weft_http_router_close(router);
    weft_http_files_close(files);
    CHECK_EQ(atomic_load(&plan.blocks), 0);
    CHECK_EQ(open_descriptors(), descriptors);
    return hits > 0;
}

static void each_call_fails_once(void)
{
    for (int without_openat2 = 0; without_openat2 < 2; without_openat2++)
        for (int call = 0; call < CALLS; call++) {
            long number = 1;
            while (run(call, number, without_openat2))
                number++;
            printf("    %s%s: %ld\n", calls[call].name, without_openat2 ? " by hand" : "",
                   number - 1);
            /* The scenario makes every call, except those of the other way to open. */
            CHECK(number > 1 || (call == (without_openat2 ? BENEATH : IN)) ||
                  (call == LINK && !without_openat2));
        }
}

int main(void)
{
    memset(padding_text, 'x', sizeof padding_text);
    make_tree();
    CHECK_EQ(weft_go((void (*)(void *))(uintptr_t)weft_yield, NULL),
             0); /* the runtime's descriptors are there */
    (void)run(CALLS, 0, false);
    RUN_PLAIN(each_call_fails_once, "the client is a thread");
    tree_end();
    return 0;
}
