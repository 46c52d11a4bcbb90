/*
 * listing.c: listings of folders when the system shows no kinds, or the client goes away. files.c
 * has the page itself, files_fault.c the calls that fail.
 */
#include <weft/fiber.h>

#include "everywhere.h"
#include "serve_files.h"
#include "system.h"

enum call { ALLOCATE, RESIZE, SEND, CALLS };

static const struct {
    int error;
} calls[CALLS] = {[SEND] = {-EPIPE}};

#include "failing_seam.h"

WRAP(int64_t, send, (int fd, const struct iovec *pieces, int count), SEND, (fd, pieces, count))

/* As on file systems whose folders have names only. */
static atomic_bool kinds_hidden;

static void count_turns(bool more);

int __real_weft__http_list_next(struct file_list *list, const char **name, enum file_kind *kind);
int __wrap_weft__http_list_next(struct file_list *list, const char **name, enum file_kind *kind);
int __wrap_weft__http_list_next(struct file_list *list, const char **name, enum file_kind *kind)
{
    int more = __real_weft__http_list_next(list, name, kind);
    count_turns(more > 0);
    if (more > 0 && atomic_load(&kinds_hidden))
        *kind = FILE_UNKNOWN;
    return more;
}

static const weft_http_files_options listed = {.list = 1};

#define PAGE_OF(path, entries)                                                    \
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>" path \
    "</title>\n<h1>" path "</h1>\n<ul>\n" entries "</ul>\n</html>\n"
#define ENTRY(name) "<li><a href=\"./" name "\">" name "</a>\n"

static const char top[] =
    PAGE_OF("/", ENTRY("folder/") ENTRY("link/") ENTRY("many/") ENTRY("a.txt") ENTRY("to_a"));
static const char below[] =
    PAGE_OF("/folder/", "<li><a href=\"../\">../</a>\n" ENTRY("deep/") ENTRY("b.txt") ENTRY("up"));

static void make_tree(void)
{
    char name[256];
    tree_begin();
    tree_folder("root");
    tree_folder("root/folder");
    tree_folder("root/folder/deep");
    tree_folder("root/many");
    tree_folder("root/.git");
    tree_file("secret", "secret");
    tree_file("root/a.txt", "");
    tree_file("root/.hidden", "");
    tree_file("root/folder/b.txt", "");
    tree_fifo("root/fifo");
    tree_link("root/link", "folder");
    tree_link("root/to_a", "a.txt");
    tree_link("root/out", "../secret");
    tree_link("root/gone", "nowhere");
    tree_link("root/folder/up", "../a.txt");
    for (int i = 0; i < 200; i++) { /* a page of several sends */
        snprintf(name, sizeof name, "root/many/%0150d", i);
        tree_file(name, "");
    }
}

/* Links are looked at from the top as well: nothing is before their names there. */
static void the_folder_at_the_top(void)
{
    begin(&listed, "/{path...}");
    expect("/", 200, top);
    expect("/folder/", 200, below);
    end();
}

static void hidden_names_if_wanted(void)
{
    weft_http_files_options options = {.list = 1, .dot_files = 1};
    begin(&options, "/{path...}");
    expect("/", 200,
           PAGE_OF("/", ENTRY(".git/") ENTRY("folder/") ENTRY("link/") ENTRY("many/")
                            ENTRY(".hidden") ENTRY("a.txt") ENTRY("to_a")));
    end();
}

static void folders_that_know_names_only(void)
{
    begin(&listed, "/{path...}");
    atomic_store(&kinds_hidden, true);
    expect("/", 200, top);
    expect("/folder/", 200, below);
    atomic_store(&kinds_hidden, false);
    end();
}

/* Each send fails in turn: what came is the beginning of the page, and can be told from the
 * whole. */
static void a_client_that_goes_away(void)
{
    static const char request[] = "GET /many/ HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    static struct answer whole, part;
    long number = 1;
    begin(&listed, "/{path...}");
    CHECK(ask_raw(&whole, request));
    CHECK_EQ(whole.status, 200);
    CHECK(strstr(whole.body, "</html>\n") != NULL);
    for (;; number++) {
        start_failing(SEND, number, false);
        bool answered = ask_raw(&part, request);
        stop_failing();
        if (atomic_load(&plan.hits) == 0) {
            CHECK(answered && part.size == whole.size);
            break;
        }
        if (answered) {
            CHECK(part.size < whole.size && memcmp(part.body, whole.body, part.size) == 0);
            CHECK(strstr(part.body, "\r\n0\r\n\r\n") == NULL);
        }
        expect("/folder/", 200, below);
    }
    CHECK(number > 2);
    end();
}

/* ---- a large folder lets others go on ---- */

/* After 128 entries the handler sleeps. A fiber whose sleep is over at once may run up to 32 times
 * before others do. */
enum { LARGE = 6400, IN_A_ROW_MAX = 40 * 128 };

static struct {
    atomic_bool over;
    atomic_uint at;       /* turns of a fiber that is always ready */
    unsigned begun;       /* when the latest entry was collected */
    int without, longest; /* entries that were collected without a turn of others */
} turns;

static void count_turns(bool more)
{
    unsigned at = atomic_load(&turns.at);
    turns.without = more && at == turns.begun ? turns.without + 1 : 0;
    turns.longest = turns.without > turns.longest ? turns.without : turns.longest;
    turns.begun = at;
}

static void take_turns(void *arg)
{
    (void)arg;
    for (; !atomic_load(&turns.over); weft_yield())
        atomic_fetch_add(&turns.at, 1);
}

HANDLER(list_and_count)
{
    (void)data;
    turns.longest = 0;
    weft_http_files_serve(request, response, files);
    CHECK(turns.longest <= IN_A_ROW_MAX);
}

/* HEAD: nothing is sent, so the handler never waits. */
static void a_large_folder_lets_others_go_on(void)
{
    char name[32];
    weft_fiber *other;
    tree_folder("root/large");
    for (int i = 0; i < LARGE; i++) {
        snprintf(name, sizeof name, "root/large/%04d", i);
        tree_file(name, "");
    }
    processors_begin(1);
    /* One machine: the processor is not taken from a handler that computes for long. */
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_http_files_open(&files, tree_path("root"), &listed), 0);
    CHECK_EQ(weft_http_router_open(&router), 0);
    CHECK_EQ(weft_http_route(router, NULL, "/{path...}", list_and_count, NULL), 0);
    serve_begin(weft_http_router_serve, router);
    CHECK_EQ(weft_spawn(&other, take_turns, NULL, NULL), 0);
    CHECK_EQ(ask("HEAD", "/large/", "")->status, 200);
    atomic_store(&turns.over, true);
    CHECK_EQ(weft_join(other), 0);
    end();
    processors_end();
}

int main(void)
{
    make_tree();
    RUN_PLAIN(the_folder_at_the_top, "the client is a thread");
    int descriptors = open_descriptors();
    RUN_PLAIN(hidden_names_if_wanted, "the client is a thread");
    RUN_PLAIN(folders_that_know_names_only, "the client is a thread");
    RUN_PLAIN(a_client_that_goes_away, "the client is a thread");
    CHECK_EQ(open_descriptors(), descriptors);
    RUN_PLAIN(a_large_folder_lets_others_go_on, "the client is a thread");
    CHECK_EQ(atomic_load(&plan.blocks), 0);
    tree_end();
    return 0;
}
