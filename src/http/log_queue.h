/*
 * log_queue.h: entries of the access log on their way to the option `log`.
 */
#ifndef WEFT_HTTP_LOG_QUEUE_H
#define WEFT_HTTP_LOG_QUEUE_H

#include <stdint.h>

#include <weft/http.h>

struct log_queue;

/* Starts the fiber that calls `log`. Returns 0; -ENOMEM; or as weft_go. */
int weft__http_log_queue_open(struct log_queue **queue,
                              void (*log)(const weft_http_log_entry *, void *), void *data);
/* Waits until `log` has been called for all entries. No entry may be put any more. NULL is fine. */
void weft__http_log_queue_close(struct log_queue *queue);
/* Copies an entry and its texts. Never waits: the entry is dropped and counted without memory, or
 * if entries that `log` has not returned from take HTTP_LOG_MAX bytes. */
void weft__http_log_queue_put(struct log_queue *queue, const weft_http_log_entry *entry);
/* The number of dropped entries; 0 for NULL. */
int64_t weft__http_log_queue_dropped(struct log_queue *queue);

/* About 10,000 entries of an ordinary size. */
enum { HTTP_LOG_MAX = 4 << 20 };

#endif
