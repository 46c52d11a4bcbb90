/*
 * log.c: the access log: an entry for each request, and a line of the Combined Log Format for it.
 *
 * Bytes that a client sent cannot forge a line or a field: quotes, backslashes and control
 * characters are escaped.
 */
#include "http/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "http/exchange.h"
#include "http/log_queue.h"
#include "http/sys.h"

void weft__http_log(struct exchange *exchange, int status)
{
    weft_http_request *request = &exchange->request;
    weft_address peer, client;
    weft__http_peer_address(&exchange->connection->peer, &peer);
    weft__http_peer_address(&exchange->client, &client);
    bool known = request->head.method != NULL;
    const char *referer = known ? weft_http_header(request, "Referer") : NULL;
    const char *agent = known ? weft_http_header(request, "User-Agent") : NULL;
    weft_http_log_entry entry = {
        .peer = &peer,
        .client = &client,
        .method = known ? request->head.method : "-",
        .target = known ? request->head.target : "-",
        .referer = referer != NULL ? referer : "",
        .agent = agent != NULL ? agent : "",
        .version = known ? request->head.version : 0,
        .status = status,
        .bytes = exchange->response.sent_body,
        .nanoseconds = exchange->head_size != 0 ? weft_now() - exchange->started : 0,
    };
    weft__http_log_queue_put(exchange->server->log, &entry);
}

void weft__http_log_refusal(struct exchange *exchange, int status)
{
    if (exchange->server->options.log == NULL)
        return;
    if (exchange->head_size == 0)
        weft__http_parse_remains(&exchange->request.head, exchange->in, exchange->in_size);
    exchange->response.sent_body = 0;
    weft__http_log(exchange, status);
}

void weft__http_log_proxy(const struct connection *connection, int status)
{
    struct log_queue *log = connection->acceptor->server->log;
    if (log == NULL)
        return;
    weft_address peer;
    weft__http_peer_address(&connection->peer, &peer);
    weft_http_log_entry entry = {.peer = &peer,
                                 .client = &peer,
                                 .method = "PROXY",
                                 .target = "-",
                                 .referer = "",
                                 .agent = "",
                                 .status = status};
    weft__http_log_queue_put(log, &entry);
}

struct line {
    char *text;
    size_t size, used;
};

static void put(struct line *line, const char *text)
{
    for (; *text != '\0' && line->used + 2 < line->size; text++)
        line->text[line->used++] = *text;
}

/* Writes a client's byte as it is shown. Returns the size. */
static size_t show(char character, char code[8])
{
    unsigned char byte = (unsigned char)character;
    bool plain = byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
    return (size_t)snprintf(code, 8, plain ? "%c" : "\\x%02x", byte);
}

static size_t shown_size(const char *text)
{
    char code[8];
    size_t size = 0;
    for (; *text != '\0'; text++)
        size += show(*text, code);
    return size;
}

/* Puts at most `most` bytes of a text. A text that is cut ends with three dots. */
static void put_safely(struct line *line, const char *text, size_t most)
{
    char code[8];
    bool whole = shown_size(text) <= most;
    size_t room = whole ? most : most > 3 ? most - 3 : 0;
    for (; *text != '\0'; text++) {
        size_t size = show(*text, code);
        if (size > room)
            break;
        room -= size;
        put(line, code);
    }
    if (!whole && most >= 3)
        put(line, "...");
}

/* How many bytes each text may have, if there is not room for all: short ones stay whole, the
 * others share the rest. */
static size_t share_of(const char *const *texts, int count, size_t room)
{
    size_t share = 0;
    for (bool changed = true; changed;) {
        size_t left = room;
        int longer = 0;
        for (int i = 0; i < count; i++) {
            size_t size = shown_size(texts[i]);
            if (size <= share)
                left -= size;
            else
                longer++;
        }
        if (longer == 0)
            return room;
        changed = left / (size_t)longer > share;
        share = left / (size_t)longer;
    }
    return share;
}

/* Puts the host of "tcp:127.0.0.1:80". */
static void put_host(struct line *line, const weft_address *peer)
{
    char text[WEFT_ADDRESS_TEXT];
    if (peer == NULL || peer->size == 0 || weft_address_format(peer, text, sizeof text) != 0) {
        put(line, "-");
        return;
    }
    char *host = strchr(text, ':') + 1, *port = strrchr(text, ':');
    *port = '\0';
    if (*host == '[') {
        host++;
        host[strcspn(host, "]")] = '\0';
    }
    put(line, host);
}

/* [10/Oct/2000:13:55:36 +0000] */
static void put_time(struct line *line)
{
    char date[HTTP_DATE], text[32];
    weft__http_date(weft__http_seconds(), date); /* Sun, 06 Nov 1994 08:49:37 GMT */
    (void)snprintf(text, sizeof text, "[%.2s/%.3s/%.4s:%.8s +0000]", date + 5, date + 8, date + 12,
                   date + 17);
    put(line, text);
}

static const char *or_dash(const char *text)
{
    return *text != '\0' ? text : "-";
}

int weft_http_log_line(const weft_http_log_entry *entry, char *text, size_t size)
{
    static const char between[] = " - - ", quote[] = " \"", next[] = "\" \"", last[] = "\"";
    if (entry == NULL || text == NULL || size < 2)
        return -EINVAL;
    struct line line = {text, size, 0};
    char numbers[64];
    const char *texts[] = {or_dash(entry->method), or_dash(entry->target), or_dash(entry->referer),
                           or_dash(entry->agent)};
    (void)snprintf(numbers, sizeof numbers, " HTTP/%d.%d\" %d %lld \"", entry->version / 10,
                   entry->version % 10, entry->status, (long long)entry->bytes);
    put_host(&line, entry->client != NULL ? entry->client : entry->peer);
    put(&line, between);
    put_time(&line);
    put(&line, quote);
    /* All that follows except the texts, with the line end and the zero. */
    size_t fixed = line.used + 1 + strlen(numbers) + strlen(next) + strlen(last) + 2;
    size_t share = share_of(texts, 4, size > fixed ? size - fixed : 0);
    put_safely(&line, texts[0], share);
    put(&line, " ");
    put_safely(&line, texts[1], share);
    put(&line, numbers);
    put_safely(&line, texts[2], share);
    put(&line, next);
    put_safely(&line, texts[3], share);
    put(&line, last);
    text[line.used++] = '\n';
    text[line.used] = '\0';
    return (int)line.used;
}
