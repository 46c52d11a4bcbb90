/*
 * crawler.c: follows the links between the pages of a folder.
 *
 *     crawler [folder]
 *
 * Starts with index.html; each page gets a fiber. At most 64 KiB of pages are in memory at once: a
 * semaphore counts the bytes. A mutex guards the set of known pages, a wait group counts the
 * fibers. Without an argument it creates a small tree of pages in a temporary folder and checks the
 * result.
 */
#include <ftw.h>
#include <limits.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/weft.h>

enum { BYTES_AT_ONCE = 64 * 1024 };

static char root[PATH_MAX];
static weft_wg pages_open = WEFT_WG_INIT;
static weft_sem memory = WEFT_SEM_INIT(BYTES_AT_ONCE);

static weft_mutex mutex = WEFT_MUTEX_INIT; /* guards the following */
static void *seen;                         /* a tree of paths */
static struct {
    long pages, links, broken;
} found;

static void fail(const char *what)
{
    fprintf(stderr, "crawler: %s\n", what);
    exit(1);
}

static char *text(const char *format, ...)
{
    char *result;
    va_list list;
    va_start(list, format);
    if (vasprintf(&result, format, list) < 0)
        fail("no memory");
    va_end(list);
    return result;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The size of the page; -1 if the path has none or leads out of the root. */
static int64_t page_size(const char *path)
{
    struct stat status;
    size_t length = strlen(root);
    if (strncmp(path, root, length) != 0 || path[length] != '/')
        return -1;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
}

static void visit(void *path);

/* Counts a link; starts a fiber for a page that has not been seen. */
static void follow(const char *link)
{
    char *path = realpath(link, NULL);
    int broken = path == NULL || page_size(path) < 0;
    int is_new = 0;

    weft_mutex_lock(&mutex);
    found.links++;
    found.broken += broken;
    if (!broken) {
        char **kept = tsearch(path, &seen, compare);
        if (kept == NULL)
            fail("no memory");
        is_new = *kept == path;
        found.pages += is_new;
    }
    weft_mutex_unlock(&mutex);

    if (!is_new)
        free(path);
    else if (weft_wg_go(&pages_open, visit, path) != 0)
        fail("no fiber to be had");
}

/* Follows each href="...", relative to the folder of the page. */
static void follow_all(const char *page, const char *path)
{
    static const char mark[] = "href=\"";
    int folder = (int)(strrchr(path, '/') - path);
    while ((page = strstr(page, mark)) != NULL) {
        page += sizeof mark - 1;
        char *link = text("%.*s/%.*s", folder, path, (int)strcspn(page, "\""), page);
        follow(link);
        free(link);
    }
}

static void visit(void *arg)
{
    const char *path = arg;
    int64_t size = page_size(path);
    if (size < 0)
        fail(path);

    /* A page larger than the limit takes all units. */
    int64_t share = size + 1 < BYTES_AT_ONCE ? size + 1 : BYTES_AT_ONCE;
    weft_sem_acquire(&memory, share);
    char *page = calloc(1, (size_t)size + 1);
    FILE *file = fopen(path, "r");
    if (page == NULL || file == NULL || fread(page, 1, (size_t)size, file) < (size_t)size)
        fail(path);
    fclose(file);
    follow_all(page, path);
    free(page);
    weft_sem_release(&memory, share);
}

static void crawl(const char *folder)
{
    if (realpath(folder, root) == NULL)
        fail(folder);
    char *start = text("%s/index.html", root);
    follow(start);
    weft_wg_wait(&pages_open);
    printf("%ld pages, %ld links, %ld of them broken\n", found.pages, found.links, found.broken);
    free(start);
    tdestroy(seen, free);
}

/* The generated tree: page n links to pages 2n and 2n + 1 and to the index, every tenth also to a
 * page that does not exist. Even pages are in a folder of their own. Page n has n * 100 extra
 * bytes. */

enum { PAGES = 200 };

static char *page_path(const char *folder, int n)
{
    return text("%s/%s%d.html", folder, n % 2 == 0 ? "even/" : "", n);
}

static long write_page(const char *folder, int n)
{
    const char *up = n % 2 == 0 ? ".." : ".";
    char *path = n == 1 ? text("%s/index.html", folder) : page_path(folder, n);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        fail(path);
    long links = 1;
    fprintf(file, "<a href=\"%s/index.html\">%*s</a>\n", up, n * 100, "");
    for (int to = 2 * n; to <= 2 * n + 1 && to <= PAGES; to++, links++) {
        char *link = page_path(up, to);
        fprintf(file, "<a href=\"%s\">%d</a>\n", link, to);
        free(link);
    }
    if (n % 10 == 0)
        fprintf(file, "<a href=\"nowhere.html\">?</a>\n"), links++;
    if (fclose(file) != 0)
        fail(path);
    free(path);
    return links;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

static void crawl_own(void)
{
    char folder[] = "/tmp/weft-crawler-XXXXXX";
    if (mkdtemp(folder) == NULL)
        fail("no temporary folder");
    char *even = text("%s/even", folder);
    if (mkdir(even, 0700) != 0)
        fail(even);
    free(even);
    long links = 1; /* the link to the start */
    for (int n = 1; n <= PAGES; n++)
        links += write_page(folder, n);

    crawl(folder);
    if (nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
        fail("the temporary folder stays");
    if (found.pages != PAGES || found.links != links || found.broken != PAGES / 10)
        fail(text("expected %d pages, %ld links, %d broken", PAGES, links, PAGES / 10));
    if (weft_sem_available(&memory) != BYTES_AT_ONCE)
        fail("the semaphore has not got everything back");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        crawl(argv[1]);
    else
        crawl_own();
    return 0;
}
