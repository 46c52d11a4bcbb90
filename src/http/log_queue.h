/*
 * log_queue.h: entries of the access log on their way to the option `log`.
 */
#ifndef WEFT_HTTP_LOG_QUEUE_H
#define WEFT_HTTP_LOG_QUEUE_H

#include <stdint.h>

#include <weft/http.h>

struct log_queue;

/* Starts the fiber that calls `log`. Returns 0; -ENOMEM, or as weft_go. */
int weft__http_log_queue_open(struct log_queue **queue,
                              void (*log)(const weft_http_log_entry *, void *), void *data);
/* Waits until `log` has been called for all entries. NULL is fine. No entry may come any more. */
void weft__http_log_queue_close(struct log_queue *queue);
/* Copies an entry and its texts. Never waits: without memory, or beyond HTTP_LOG_MOST bytes of
 * entries that `log` has not returned from, the entry is dropped and counted. */
void weft__http_log_queue_put(struct log_queue *queue, const weft_http_log_entry *entry);
/* Entries that were dropped. NULL: 0. */
int64_t weft__http_log_queue_dropped(struct log_queue *queue);

/* Some 10,000 entries of an ordinary size. */
enum { HTTP_LOG_MOST = 4 << 20 };

#endif
