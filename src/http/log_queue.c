/*
 * log_queue.c: entries of the access log on their way to the option `log`.
 *
 * The function that writes a log may block: on a pipe that is not read, or on a disk. The fibers
 * that answer and refuse requests must not wait for that. So an entry is copied into a list of
 * bounded size, and one fiber takes the list and calls the function for one entry after another. If
 * the list is full the entry is dropped and counted: a client cannot make the log stop the server,
 * and lost entries are known.
 *
 *   put    any fiber: copies the entry, appends it, and wakes the log's fiber if the list was empty
 *   fiber  takes the whole list, calls `log` for each entry and frees it; ends when the list is
 *          empty and `closing` is set
 *
 * `bytes` counts the entries in the list, and those that the fiber has taken and not freed.
 *
 * Rejected: waiting for room, as a log that blocks did before. A ring of bytes: all its memory is
 * there from the start, and an entry would have to be copied out of it again.
 */
#include "http/log_queue.h"

#include <errno.h>
#include <string.h>

#include <weft/fiber.h>
#include <weft/mutex.h>
#include <weft/panic.h>
#include <weft/sem.h>
#include <weft/wg.h>

#include "base/atomic.h"
#include "http/sys.h"

/* Calls of `log` in a row, before other fibers run. */
enum { LOG_TURN = 1024 };

struct queued {
    struct queued *next;
    size_t size; /* with its texts */
    weft_address peer, client;
    weft_http_log_entry entry;
    char texts[]; /* method, target, referer, agent, each with a zero */
};

struct log_queue {
    void (*log)(const weft_http_log_entry *, void *);
    void *data;
    weft_mutex lock; /* guards the list and `closing` */
    struct queued *first, **end;
    bool closing;
    weft_sem filled; /* released when the list becomes non-empty, or is closing */
    weft_wg running; /* the fiber */
    atomic_i64 bytes, dropped;
};

/* ---- putting ---- */

/* Copies a text to `*to`, and advances `*to`. */
static const char *copy_text(char **to, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*to, text, size);
    *to += size;
    return copy;
}

static const weft_address *copy_address(weft_address *to, const weft_address *address)
{
    if (address == NULL)
        return NULL;
    *to = *address;
    return to;
}

static struct queued *copy_of(const weft_http_log_entry *entry, size_t size)
{
    struct queued *queued = weft__http_allocate(size);
    if (queued == NULL)
        return NULL;
    char *to = queued->texts;
    queued->next = NULL;
    queued->size = size;
    queued->entry = *entry;
    queued->entry.peer = copy_address(&queued->peer, entry->peer);
    queued->entry.client = copy_address(&queued->client, entry->client);
    queued->entry.method = copy_text(&to, entry->method);
    queued->entry.target = copy_text(&to, entry->target);
    queued->entry.referer = copy_text(&to, entry->referer);
    queued->entry.agent = copy_text(&to, entry->agent);
    return queued;
}

static void append(struct log_queue *queue, struct queued *queued)
{
    weft_mutex_lock(&queue->lock);
    bool was_empty = queue->first == NULL;
    *queue->end = queued;
    queue->end = &queued->next;
    weft_mutex_unlock(&queue->lock);
    if (was_empty)
        weft_sem_release(&queue->filled, 1);
}

void weft__http_log_queue_put(struct log_queue *queue, const weft_http_log_entry *entry)
{
    size_t size = sizeof(struct queued) + strlen(entry->method) + strlen(entry->target) +
                  strlen(entry->referer) + strlen(entry->agent) + 4;
    struct queued *queued = NULL;
    if (atomic_i64_add_relaxed(&queue->bytes, (int64_t)size) + (int64_t)size <= HTTP_LOG_MAX)
        queued = copy_of(entry, size);
    if (queued != NULL) {
        append(queue, queued);
        return;
    }
    (void)atomic_i64_add_relaxed(&queue->bytes, -(int64_t)size);
    (void)atomic_i64_add_relaxed(&queue->dropped, 1);
}

int64_t weft__http_log_queue_dropped(struct log_queue *queue)
{
    return queue != NULL ? atomic_i64_load_relaxed(&queue->dropped) : 0;
}

/* ---- the fiber ---- */

struct call {
    const struct log_queue *queue;
    const struct queued *queued;
};

static void call_log(void *arg)
{
    const struct call *call = arg;
    call->queue->log(&call->queued->entry, call->queue->data);
}

/* A panic of `log` is reported; the fiber goes on. */
static void log_one(struct log_queue *queue, struct queued *queued)
{
    struct call call = {queue, queued};
    weft_panic_info info;
    if (weft_recover(call_log, &call, &info) == -EOWNERDEAD)
        weft_panic_report(&info);
    (void)atomic_i64_add_relaxed(&queue->bytes, -(int64_t)queued->size);
    weft__http_free(queued);
}

/* Waits for entries and takes them all. Returns false if there are none and none will come. */
static bool take_all(struct log_queue *queue, struct queued **all)
{
    weft_sem_acquire(&queue->filled, 1);
    weft_mutex_lock(&queue->lock);
    *all = queue->first;
    queue->first = NULL;
    queue->end = &queue->first;
    bool more = *all != NULL || !queue->closing;
    weft_mutex_unlock(&queue->lock);
    return more;
}

static void run(void *arg)
{
    struct log_queue *queue = arg;
    struct queued *queued;
    while (take_all(queue, &queued)) {
        for (int count = 1; queued != NULL; count++) {
            struct queued *next = queued->next;
            log_one(queue, queued);
            queued = next;
            if (count % LOG_TURN == 0)
                weft_yield();
        }
    }
    weft_wg_done(&queue->running);
}

/* ---- its life ---- */

int weft__http_log_queue_open(struct log_queue **out,
                              void (*log)(const weft_http_log_entry *, void *), void *data)
{
    struct log_queue *queue = weft__http_allocate(sizeof *queue);
    if (queue == NULL)
        return -ENOMEM;
    memset(queue, 0, sizeof *queue);
    queue->log = log;
    queue->data = data;
    queue->end = &queue->first;
    (void)!weft_wg_add(&queue->running, 1);
    int error = weft_go(run, queue);
    if (error != 0)
        weft__http_free(queue);
    else
        *out = queue;
    return error;
}

void weft__http_log_queue_close(struct log_queue *queue)
{
    if (queue == NULL)
        return;
    weft_mutex_lock(&queue->lock);
    queue->closing = true;
    weft_mutex_unlock(&queue->lock);
    weft_sem_release(&queue->filled, 1);
    (void)weft_wg_wait(&queue->running);
    weft__http_free(queue);
}
