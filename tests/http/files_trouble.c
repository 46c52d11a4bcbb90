/*
 * files_trouble.c: a folder that is served while it changes, and without permissions, memory or
 * descriptors.
 */
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "kernel.h"
#include "limit_descriptors.h"
#include "serve_files.h"
#include "system.h"

static int swapping;

static void *swap(void *arg)
{
    char one[TREE_PATH], other[TREE_PATH];
    (void)arg;
    strcpy(one, tree_path("root/swapped"));
    strcpy(other, tree_path("root/swapped_out"));
    while (__atomic_load_n(&swapping, __ATOMIC_ACQUIRE))
        CHECK_EQ(syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, 2 /* exchange */), 0);
    return NULL;
}

static void links_swapped_in_during_requests(void)
{
    pthread_t thread;
    tree_folder("beside");
    tree_file("beside/secret", "secret");
    tree_folder("root/swapped");
    tree_file("root/swapped/secret", "inside");
    tree_link("root/swapped_out", "../beside");
    for (int without_openat2 = 0; without_openat2 < 2; without_openat2++) {
        begin(&plain, "/{path...}");
        files->root.without_openat2 |= without_openat2;
        swapping = 1;
        CHECK_EQ(pthread_create(&thread, NULL, swap, NULL), 0);
        for (int64_t i = test_scale(2000); i > 0; i--) {
            const struct answer *answer = ask("GET", "/swapped/secret", "");
            CHECK(answer->status == 200 || answer->status == 404);
            if (answer->status == 200)
                CHECK_STR(answer->body, "inside");
        }
        __atomic_store_n(&swapping, 0, __ATOMIC_RELEASE);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        end();
    }
}

static int woken;

static void *write_to_fifo(void *arg)
{
    (void)arg;
    int fd = open(tree_path("root/fifo"), O_WRONLY);
    CHECK(fd >= 0);
    __atomic_store_n(&woken, 1, __ATOMIC_RELEASE);
    close(fd);
    return NULL;
}

/* Who waits to write to a FIFO is not woken by requests for it. */
static void fifos_are_not_opened(void)
{
    pthread_t thread;
    tree_fifo("root/fifo");
    begin(&plain, "/{path...}");
    for (int without_openat2 = 0; without_openat2 < 2; without_openat2++) {
        files->root.without_openat2 |= without_openat2;
        woken = 0;
        CHECK_EQ(pthread_create(&thread, NULL, write_to_fifo, NULL), 0);
        for (int i = 0; i < 100; i++)
            expect("/fifo", 404, NULL);
        CHECK_EQ(__atomic_load_n(&woken, __ATOMIC_ACQUIRE), 0);
        int reader = open(tree_path("root/fifo"), O_RDONLY);
        CHECK(reader >= 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        close(reader);
    }
    end();
}

/* Root may read everything, so the test is another user meanwhile. */
static void without_permission(void)
{
    bool is_root = geteuid() == 0;
    tree_file("root/forbidden", "x");
    CHECK_EQ(chmod(tree_path("root/forbidden"), 0), 0);
    CHECK_EQ(chmod(tree_path("root"), 0755), 0);
    begin(&plain, "/{path...}");
    if (is_root && seteuid(65534) != 0) {
        printf("  not as root: %s\n", strerror(errno));
    } else {
        expect("/forbidden", 403, "403 Forbidden\n");
        CHECK_EQ(ask("HEAD", "/forbidden", "")->status, 403);
        expect("/a.txt", 200, "0123456789");
    }
    if (is_root) {
        CHECK_EQ(seteuid(0), 0);
        CHECK_EQ(prctl(PR_SET_DUMPABLE, 1),
                 0); /* which a change of users ends, and leak checkers need */
    }
    end();
}

/* A file that loses its end while it is sent: the client sees that something is missing. */
static void a_file_cut_short(void)
{
    static char request[] = "GET /cut HTTP/1.1\r\nHost: test\r\n\r\n", bytes[65536];
    tree_file("root/cut", "");
    CHECK_EQ(truncate(tree_path("root/cut"), (off_t)64 << 20), 0);
    begin(&plain, "/{path...}");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&asked_at, sizeof asked_at), 0);
    CHECK_EQ(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
    CHECK_EQ(recv(fd, bytes, 100, MSG_WAITALL), 100); /* the length was announced */
    CHECK_EQ(truncate(tree_path("root/cut"), 1), 0);
    int64_t size = 100;
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        size += got;
    CHECK(got == 0 || errno == ECONNRESET);
    CHECK(size < (64 << 20));
    close(fd);
    expect("/a.txt", 200, "0123456789");
    end();
}

/* ---- where something is lacking ---- */

static atomic_u32 kinds_are_hidden;

/* As some file systems do: what an entry is has to be asked of itself. */
struct dirent *readdir(DIR *stream)
{
    int before = errno; /* tells an end from an error */
    void *real = fake_real("readdir");
    errno = before;
    struct dirent *entry = ((struct dirent * (*)(DIR *))(uintptr_t)real)(stream);
    if (entry != NULL && atomic_u32_load_acquire(&kinds_are_hidden) != 0)
        entry->d_type = DT_UNKNOWN;
    return entry;
}

static void lists_without_kinds(void)
{
    weft_http_files_options options = {.list = 1};
    char page[4096];
    tree_folder("root/list");
    tree_folder("root/list/folder");
    tree_file("root/list/file", "");
    tree_fifo("root/list/fifo");
    tree_link("root/list/link", "folder");
    tree_link("root/list/gone", "nowhere");
    begin(&options, "/{path...}");
    const struct answer *answer = ask("GET", "/list/", "");
    CHECK(answer->status == 200 && answer->size < sizeof page);
    CHECK(strstr(answer->body, "folder/</a>") != NULL && strstr(answer->body, "fifo") == NULL);
    strcpy(page, answer->body);
    atomic_u32_store_release(&kinds_are_hidden, 1);
    expect("/list/", 200, page);
    atomic_u32_store_release(&kinds_are_hidden, 0);
    end();
}

static char padding[65536];

/* Leaves so much room for fields as the request says, of the 64 KiB that there is; and the body is
 * begun. */
HANDLER(serve_behind_others)
{
    const char *room = weft_http_header(request, "Room"), *body = weft_http_header(request, "Body");
    if (room != NULL) {
        size_t size = sizeof padding - (size_t)strtol(room, NULL, 10) - sizeof "Padding: \r\n" + 1;
        CHECK_EQ(weft_http_setf(response, "Padding", "%.*s", (int)size, padding), 0);
    }
    if (body != NULL)
        CHECK_EQ(weft_http_write(response, padding, (size_t)strtol(body, NULL, 10)), 0);
    weft_http_files_serve(request, response, data);
}

static void begin_behind_others(const char *cache_control)
{
    weft_http_files_options options = {.cache_control = cache_control};
    CHECK_EQ(weft_http_files_open(&files, tree_path("root"), &options), 0);
    serve_begin(serve_behind_others, files);
}

static void end_behind_others(void)
{
    serve_end();
    weft_http_files_close(files);
}

static const struct asked {
    const char *target, *fields;
    int status, refused;
} asked_without_room[] = {
    {"/a.png", "", 200, 503},
    {"/a.png", "Accept-Encoding: gzip\r\n", 200, 503},
    {"/a.png", "Range: bytes=1-2\r\n", 206, 503},
    {"/a.png", "Range: bytes=1-2,4-5\r\n", 206, 503},
    {"/a.png", "Range: bytes=99-\r\n", 416, 503},
    {"/a.png", "If-None-Match: *\r\n", 304, 503},
    {"/inside?query", "", 301, 414},
    {"/gone", "", 404, 503},
};

static const char *const told[] = {
    "ETag",          "Last-Modified",    "Cache-Control",          "Vary",     "Accept-Ranges",
    "Content-Range", "Content-Encoding", "X-Content-Type-Options", "Location",
};
enum { TOLD = sizeof told / sizeof told[0], NOT_IN_ERRORS = 3 };

/* True if it was answered as ever, else it was refused. */
static bool ask_with_room(const struct asked *request, int room, char (*expected)[128])
{
    char fields[128];
    snprintf(fields, sizeof fields, "Room: %d\r\n%s", room, request->fields);
    const struct answer *answer = ask("GET", request->target, fields);
    bool fits = answer->status == request->status;
    if (!fits && answer->status != 503 && answer->status != request->refused)
        test_fail(__FILE__, __LINE__, "%s, %s: %d", request->target, fields, answer->status);
    if (answer->status == 200)
        CHECK_STR(answer->body, "0123456789");
    for (int i = 0; i < TOLD; i++)
        if (fits && strcmp(field_of(answer, told[i]), expected[i]) != 0)
            test_fail(__FILE__, __LINE__, "%s, %s: %s", request->target, fields, told[i]);
    for (int i = 0; i < NOT_IN_ERRORS; i++) /* no field of a file that is not sent */
        if (!fits)
            CHECK_STR(field_of(answer, told[i]), "");
    return fits;
}

static void ask_with_less_room(const struct asked *request)
{
    static char expected[TOLD][128];
    const struct answer *answer = ask("GET", request->target, request->fields);
    CHECK_EQ(answer->status, request->status);
    for (int i = 0; i < TOLD; i++)
        CHECK(snprintf(expected[i], sizeof expected[i], "%s", field_of(answer, told[i])) < 128);
    bool fits = true;
    for (int room = 500; room >= 0; room -= 10) {
        bool fits_now = ask_with_room(request, room, expected);
        CHECK(room < 500 || fits_now);
        CHECK(fits || !fits_now);
        fits = fits_now;
    }
    CHECK(!fits);
}

/* Every field in turn is the one that has no room, be it longer than the next or not: the answer
 * says that it could not be given. */
static void without_room_for_fields(void)
{
    static const char *const cache_control[] = {"no-store",
                                                "no-transform, must-revalidate, private"};
    tree_folder("root/inside");
    tree_file("root/a.png", "0123456789");
    tree_file("root/a.png.gz", "0123456789");
    for (int i = 0; i < 2; i++) {
        begin_behind_others(cache_control[i]);
        for (size_t k = 0; k < sizeof asked_without_room / sizeof asked_without_room[0]; k++)
            ask_with_less_room(&asked_without_room[k]);
        expect("/a.png", 200, "0123456789");
        end_behind_others();
    }
}

/* A body that others have begun leaves too little of the length for the parts: the client does not
 * take it for whole. */
static void behind_a_body_of_others(void)
{
    static struct answer answer;
    begin_behind_others(NULL);
    if (ask_raw(&answer, "GET /a.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
                         "Range: bytes=1-2,4-5\r\nBody: 200\r\n\r\n"))
        CHECK(strtoul(field_of(&answer, "Content-Length"), NULL, 10) > answer.size);
    /* More than all the parts would be. */
    CHECK_EQ(ask("GET", "/a.txt", "Range: bytes=1-2,4-5\r\nBody: 1000\r\n")->status, 503);
    expect("/a.txt", 200, "0123456789");
    end_behind_others();
}

/* Asks on a connection that stays, and reads the first line. */
static void expect_on(int fd, const char *request, const char *line)
{
    char bytes[4096];
    size_t size = 0;
    CHECK_EQ(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    do {
        ssize_t got = recv(fd, bytes + size, sizeof bytes - 1 - size, 0);
        CHECK(got > 0);
        size += (size_t)got;
        bytes[size] = '\0';
    } while (strstr(bytes, "\r\n\r\n") == NULL);
    *strstr(bytes, "\r\n") = '\0';
    CHECK_STR(bytes, line);
}

/* No descriptor is left for the file: 503, and after that all is well again. */
static void without_descriptors(void)
{
    static const char missing[] = "HEAD /gone HTTP/1.1\r\nHost: test\r\n\r\n";
    static const char there[] = "HEAD /a.txt HTTP/1.1\r\nHost: test\r\n\r\n";
    for (int without_openat2 = 0; without_openat2 < 2; without_openat2++) {
        begin(&plain, "/{path...}");
        files->root.without_openat2 |= without_openat2;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        CHECK_EQ(connect(fd, (struct sockaddr *)&asked_at, sizeof asked_at), 0);
        expect_on(fd, missing, "HTTP/1.1 404 Not Found"); /* it is accepted, and nothing is open */
        int free = dup(0);
        CHECK(free >= 0);
        close(free); /* the lowest that is free: all below are in use */
        rlim_t before = limit_descriptors((rlim_t)free);
        expect_on(fd, there, "HTTP/1.1 503 Service Unavailable");
        limit_descriptors(before);
        expect_on(fd, there, "HTTP/1.1 200 OK");
        close(fd);
        end();
    }
}

int main(void)
{
    memset(padding, 'x', sizeof padding - 1);
    tree_begin();
    tree_folder("root");
    tree_file("root/a.txt", "0123456789");
    RUN_PLAIN(links_swapped_in_during_requests, "the client is a thread");
    RUN_PLAIN(fifos_are_not_opened, "the client is a thread");
    RUN_PLAIN(without_permission, "the client is a thread");
    RUN_PLAIN(a_file_cut_short, "the client is a thread");
    int descriptors = open_descriptors();
    RUN_PLAIN(lists_without_kinds, "the client is a thread");
    RUN_PLAIN(without_room_for_fields, "the client is a thread");
    RUN_PLAIN(behind_a_body_of_others, "the client is a thread");
    RUN_PLAIN(without_descriptors, "the client is a thread");
    CHECK_EQ(open_descriptors(), descriptors);
    tree_end();
    return 0;
}
