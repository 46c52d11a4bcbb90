/*
 * listing.c: the listing of a folder as a page: what can be served, and nothing else. Names are
 * escaped, in addresses and in text.
 *
 * Once a piece of the page could not be sent, no later piece is, and each later call returns the
 * error again. So one check after each entry is enough.
 *
 * A folder of 20,000 entries takes 16 ms of a processor. So others go first after TURN entries of
 * each step. Without that, 10 clients that listed such a folder delayed others by 22 ms (median).
 */
#include "http/listing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/time.h>

#include "http/files.h"
#include "http/request.h"
#include "http/sys.h"

/* Entries of a step, collecting, ordering or writing, before others go first: 40 us of work. */
enum { TURN = 128 };

struct entry {
    size_t name; /* its offset in the texts */
    bool folder;
};

struct entries {
    struct entry *all;
    size_t count, room;
    char *texts;
    size_t size, texts_room;
    size_t longest;
};

static void yield_after_turn(size_t done)
{
    if (done % TURN == 0)
        (void)weft_sleep(1); /* if it was cancelled the next wait returns the error */
}

/* ---- collecting ---- */

static void *grown(void *memory, size_t *room, size_t needed, size_t unit)
{
    size_t more = *room == 0 ? 64 : *room;
    while (more < needed)
        more *= 2;
    void *larger = weft__http_resize(memory, more * unit);
    if (larger != NULL)
        *room = more;
    return larger;
}

static int add_entry(struct entries *entries, const char *name, bool folder)
{
    size_t size = strlen(name) + 1;
    if (entries->count == entries->room) {
        void *all = grown(entries->all, &entries->room, entries->count + 1, sizeof entries->all[0]);
        if (all == NULL)
            return -ENOMEM;
        entries->all = all;
    }
    if (entries->texts_room - entries->size < size) {
        void *texts = grown(entries->texts, &entries->texts_room, entries->size + size, 1);
        if (texts == NULL)
            return -ENOMEM;
        entries->texts = texts;
    }
    memcpy(entries->texts + entries->size, name, size);
    entries->all[entries->count++] = (struct entry){entries->size, folder};
    entries->size += size;
    entries->longest = size > entries->longest ? size : entries->longest;
    return 0;
}

static void free_entries(struct entries *entries)
{
    weft__http_free(entries->all);
    weft__http_free(entries->texts);
}

/* The kind of what a link leads to, or of an entry whose kind the folder does not show. */
static int look_at(const weft_http_files *files, const char *folder, const char *name,
                   enum file_kind *kind)
{
    struct file_status status = {.kind = FILE_OTHER};
    size_t size = strlen(folder), name_size = strlen(name);
    char *path = weft__http_allocate(size + 1 + name_size + 1);
    if (path == NULL)
        return -ENOMEM;
    memcpy(path, folder, size + 1);
    if (size > 0)
        path[size++] = '/';
    memcpy(path + size, name, name_size + 1);
    int found = weft__http_safe_open(&files->root, path, OPEN_LOOK);
    weft__http_free(path);
    int error = found < 0 ? found : weft__http_file_status(found, &status);
    if (found >= 0)
        weft__http_close_fd(found);
    *kind = status.kind;
    /* A link that leads nowhere, or to what may not be opened, is not listed. */
    return error == 0 || weft__http_files_status(error) < 500 ? 0 : error;
}

static int collect(const weft_http_files *files, const char *folder, struct entries *entries)
{
    struct file_list *list;
    const char *name;
    enum file_kind kind;
    size_t seen = 0;
    int fd = weft__http_safe_open(&files->root, folder, OPEN_LIST);
    if (fd < 0)
        return fd;
    int more = weft__http_list_open(fd, &list);
    if (more != 0) {
        weft__http_close_fd(fd);
        return more;
    }
    while ((more = weft__http_list_next(list, &name, &kind)) > 0) {
        yield_after_turn(++seen);
        if (name[0] == '.' && !files->options.dot_files)
            continue;
        if (kind == FILE_LINK || kind == FILE_UNKNOWN)
            more = look_at(files, folder, name, &kind);
        if (more >= 0 && (kind == FILE_REGULAR || kind == FILE_FOLDER))
            more = add_entry(entries, name, kind == FILE_FOLDER);
        if (more < 0)
            break;
    }
    weft__http_list_close(list);
    return more;
}

/* ---- order ---- */

static bool is_before(const struct entries *entries, const struct entry *a, const struct entry *b)
{
    if (a->folder != b->folder)
        return a->folder;
    return strcmp(entries->texts + a->name, entries->texts + b->name) < 0;
}

static void sink(const struct entries *entries, size_t at, size_t count)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        struct entry *all = entries->all, moved;
        if (child + 1 < count && is_before(entries, &all[child], &all[child + 1]))
            child++;
        if (!is_before(entries, &all[at], &all[child]))
            return;
        moved = all[at];
        all[at] = all[child];
        all[child] = moved;
    }
}

/* A heap sort: qsort may allocate memory, and its comparison gets no pointer to the texts. */
static void sort(const struct entries *entries)
{
    for (size_t i = entries->count / 2; i > 0; i--) {
        sink(entries, i - 1, entries->count);
        yield_after_turn(i);
    }
    for (size_t count = entries->count; count > 1; count--) {
        struct entry last = entries->all[count - 1];
        entries->all[count - 1] = entries->all[0];
        entries->all[0] = last;
        sink(entries, 0, count - 1);
        yield_after_turn(count);
    }
}

/* ---- the page ---- */

static void put_text(weft_http_response *response, const char *text)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "&<>\"'");
        (void)weft_http_write(response, text, plain);
        text += plain;
        if (*text != '\0')
            (void)weft_http_printf(response, "&#%d;", *text++);
    }
}

/* `address` has room for the longest name. */
static int put_entry(weft_http_response *response, const char *name, bool folder, char *address)
{
    const char *slash = folder ? "/" : "";
    weft__http_escape_name(address, name);
    (void)weft_http_puts(response, "<li><a href=\"");
    (void)weft_http_puts(response, address);
    (void)weft_http_printf(response, "%s\">", slash);
    put_text(response, name);
    return weft_http_printf(response, "%s</a>\n", slash);
}

static void put_page(weft_http_request *request, weft_http_response *response, bool is_root,
                     const struct entries *entries, char *address)
{
    const char *path = weft_http_path(request);
    int error = 0;
    (void)weft_http_puts(response, "<!doctype html>\n<html lang=\"en\">\n"
                                   "<meta charset=\"utf-8\">\n<title>");
    put_text(response, path);
    (void)weft_http_puts(response, "</title>\n<h1>");
    put_text(response, path);
    (void)weft_http_puts(response, "</h1>\n<ul>\n");
    if (!is_root)
        (void)weft_http_puts(response, "<li><a href=\"../\">../</a>\n");
    for (size_t i = 0; i < entries->count && error == 0; i++) {
        const struct entry *entry = &entries->all[i];
        error = put_entry(response, entries->texts + entry->name, entry->folder, address);
        yield_after_turn(i + 1);
    }
    (void)weft_http_puts(response, "</ul>\n</html>\n");
}

int weft__http_listing_send(const weft_http_files *files, weft_http_request *request,
                            weft_http_response *response, const char *folder)
{
    struct entries entries = {0};
    int error = collect(files, folder, &entries);
    char *address = NULL;
    if (error == 0) {
        address = weft__http_request_allocate(request, 3 * entries.longest + 3);
        error = address != NULL ? 0 : -ENOMEM;
    }
    if (error == 0)
        error = weft_http_set(response, "Content-Type", "text/html; charset=utf-8");
    if (error == 0) {
        sort(&entries);
        put_page(request, response, folder[0] == '\0', &entries, address);
    }
    free_entries(&entries);
    return error == 0 ? 0 : weft__http_files_status(error);
}
