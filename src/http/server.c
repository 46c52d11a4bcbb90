/*
 * server.c: a server's life: open, listen, stop, close; and its figures.
 *
 * Each part is made by one function and undone by another, which may also be called if the part was
 * not made: so a failed open and a close share free_server.
 *
 * The stop has two phases:
 *
 *   1. `stopping` is set and every acceptor woken. Each takes the listeners out of its set, closes
 *      what waits, and leaves the wait group `accepting`; then the listeners are closed. Streams,
 *      which would go on for ever, are cancelled by their context. The other requests go on, and
 *      each response closes its connection. An acceptor ends when it has no connection left, and
 *      leaves `running`.
 *   2. At the deadline `cut` is set, the context of all requests is cancelled and the busy
 *      connections are shut down, so every wait in a handler ends. The acceptors end as the
 *      handlers return.
 */
#include <errno.h>
#include <string.h>

#include <weft/fiber.h>
#include <weft/runtime.h>

#include "http/exchange.h"
#include "http/log_queue.h"
#include "http/networks.h"
#include "http/partial_head.h"
#include "http/per_ip_limit.h"
#include "http/sys.h"
#include "http/tls.h"

/* ---- options ---- */

/* Connections, requests or streams that an address may have by default, however low the total. */
enum { LEAST_SHARE = 64 };

static void set_default(int64_t *option, int64_t value)
{
    if (*option == 0)
        *option = value;
}

static void not_found(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)request;
    (void)data;
    (void)weft_http_error(response, 404, NULL);
}

static bool in_range(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

static bool set_options(weft_http_options *options)
{
    for (size_t i = 0; i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        if (options->reserved[i] != 0)
            return false;
    set_default(&options->max_workers, 1000);
    set_default(&options->queue, 1000);
    set_default(&options->max_streams, 10000);
    set_default(&options->queue_timeout, 30 * WEFT_S);
    set_default(&options->max_connections, 100000);
    set_default(&options->header_timeout, 10 * WEFT_S);
    set_default(&options->idle_timeout, 60 * WEFT_S);
    set_default(&options->body_timeout, 30 * WEFT_S);
    set_default(&options->write_timeout, 30 * WEFT_S);
    set_default(&options->min_body_rate, 500);
    set_default(&options->min_send_rate, 500);
    set_default(&options->rate_grace, 10 * WEFT_S);
    set_default(&options->max_body, 8 << 20);
    set_default(&options->max_body_memory, 1 << 30);
    if (options->handler == NULL)
        options->handler = not_found;
    if (options->retry_after == 0)
        options->retry_after = 1;
    if (options->max_header == 0)
        options->max_header = 16384;
    if (options->max_fields == 0)
        options->max_fields = 100;
    if (options->acceptors == 0)
        options->acceptors = weft_processors();
    return in_range(options->max_workers, 1, 10000000) && in_range(options->queue, -1, 100000000) &&
           in_range(options->max_streams, -1, 100000000) &&
           in_range(options->max_connections, 1, 100000000) &&
           in_range(options->descriptor_reserve, 0, 100000000) &&
           in_range(options->max_per_ip, 0, INT64_MAX) &&
           in_range(options->max_requests_per_ip, 0, INT64_MAX) &&
           in_range(options->max_streams_per_ip, 0, INT64_MAX) &&
           in_range(options->retry_after, 1, 86400) && options->header_timeout > 0 &&
           options->idle_timeout > 0 && options->body_timeout > 0 && options->write_timeout > 0 &&
           options->queue_timeout > 0 && in_range(options->min_body_rate, -1, 1000000000) &&
           in_range(options->min_send_rate, -1, 1000000000) && options->rate_grace > 0 &&
           options->forwarded >= WEFT_HTTP_FORWARDED_IGNORED &&
           options->forwarded <= WEFT_HTTP_FORWARDED &&
           (options->forwarded == WEFT_HTTP_FORWARDED_IGNORED ||
            options->trusted_proxies != NULL) &&
           in_range((int64_t)options->max_header, 256, 1 << 20) &&
           in_range(options->max_fields, 1, 1000) && options->max_body > 0 &&
           options->max_body_memory > 0 && in_range(options->acceptors, 1, 1000) &&
           (options->name == NULL ||
            (weft__http_is_value(options->name) && strlen(options->name) < 256));
}

/* The option max_connections, or less if there are not so many descriptors. */
static int64_t bound_connections(const weft_http_options *options)
{
    int64_t most = options->max_connections, reserve = options->descriptor_reserve;
    int64_t wanted = most + (reserve != 0 ? reserve : most / 7 + 32); /* an eighth of the sum */
    int64_t limit = weft__http_descriptors(options->keep_limit != 0 ? 0 : wanted);
    if (reserve == 0)
        reserve = limit / 8 > 32 ? limit / 8 : 32;
    if (limit - reserve < most)
        most = limit - reserve;
    return most > 0 ? most : 1;
}

/* ---- parts ---- */

/* Each request binds its worker to a context. A worker that was bound once can be bound again
 * without memory. */
static int bind_worker(void **state, void *data)
{
    weft_http_server *server = data;
    (void)state;
    int error = weft_context_bind(server->context, NULL);
    return error == 0 ? weft_context_bind(NULL, NULL) : error;
}

static int open_pools(weft_http_server *server)
{
    const weft_http_options *options = &server->options;
    weft_object_pool_options exchanges = {.size = weft__http_exchange_size(options),
                                          .construct = weft__http_exchange_construct,
                                          .arg = server};
    weft_pool_options pool = {.name = "http",
                              .capacity = options->max_workers,
                              .queue = options->queue < 0 ? 0 : options->queue,
                              .function = weft__http_exchange_run,
                              .stack_size = options->stack_size,
                              .on_worker_start = bind_worker,
                              .on_panic = weft__http_exchange_crashed,
                              .isolate_crashes = options->isolate_crashes,
                              .data = server};
    weft_context_options own = {.key = server, .value = server};
    int error = weft_context_open(&server->context, NULL, &own);
    if (error == 0)
        error = weft_context_open(&server->streams, server->context, NULL);
    if (error == 0)
        error = weft_object_pool_open(&server->exchanges, &exchanges);
    if (error == 0)
        error = weft_pool_open(&server->pool, &pool);
    return error;
}

static void close_pools(weft_http_server *server)
{
    if (server->pool != NULL)
        (void)weft_pool_close(server->pool);
    if (server->exchanges != NULL)
        (void)!weft_object_pool_close(server->exchanges);
    weft_context_close(server->streams);
    weft_context_close(server->context);
}

/* What an address may have of `all`, by the option or by default. */
static struct allowance allow(int64_t option, int64_t all)
{
    if (option != 0)
        return (struct allowance){.max = option};
    return (struct allowance){.max = all / 4 > LEAST_SHARE ? all / 4 : LEAST_SHARE,
                              .exempts_private = true};
}

/* The parts that options other than plain numbers ask for. */
static int open_options(weft_http_server *server)
{
    const weft_http_options *options = &server->options;
    if (options->name != NULL) {
        size_t size = strlen(options->name) + 1;
        server->name = weft__http_allocate(size);
        if (server->name == NULL)
            return -ENOMEM;
        memcpy(server->name, options->name, size);
    }
    const struct allowance allowances[PER_IP_LIMITS] = {
        [PER_IP_CONNECTIONS] = allow(options->max_per_ip, server->connection_limit),
        [PER_IP_REQUESTS] = allow(options->max_requests_per_ip, options->max_workers),
        [PER_IP_STREAMS] = allow(options->max_streams_per_ip, options->max_streams),
        [PER_IP_BODY_BYTES] = {options->max_body_memory / 4, options->max_requests_per_ip == 0},
    };
    server->per_ip_limits = weft__http_per_ip_open(allowances, server->connection_limit);
    if (server->per_ip_limits == NULL)
        return -ENOMEM;
    int error = 0;
    if (options->trusted_proxies != NULL)
        error = weft__http_networks_open(&server->networks, options->trusted_proxies);
    if (error == 0 && options->log != NULL)
        error = weft__http_log_queue_open(&server->log, options->log, options->data);
    return error;
}

static int open_acceptors(weft_http_server *server)
{
    size_t size = (size_t)server->options.acceptors * sizeof(struct acceptor);
    server->acceptors = weft__http_allocate(size);
    if (server->acceptors == NULL)
        return -ENOMEM;
    memset(server->acceptors, 0, size);
    for (; server->acceptor_count < server->options.acceptors; server->acceptor_count++) {
        int error = weft__http_acceptor_open(&server->acceptors[server->acceptor_count], server);
        if (error != 0)
            return error;
    }
    weft__http_descriptor_table_reserve(server->acceptors[0].set, server->connection_limit);
    return 0;
}

static void free_server(weft_http_server *server)
{
    close_pools(server);
    weft__http_log_queue_close(server->log);
    for (int i = 0; i < server->acceptor_count; i++)
        weft__http_acceptor_close(&server->acceptors[i]);
    weft__http_free(server->acceptors);
    weft__http_per_ip_close(server->per_ip_limits);
    weft__http_partial_heads_close(server->partial_heads);
    weft__http_networks_close(server->networks);
    weft__http_free(server->name);
    weft__http_free(server);
}

/* Starts the acceptors. On failure those that run are stopped before it returns. */
static int start_acceptors(weft_http_server *server)
{
    for (int i = 0; i < server->acceptor_count; i++) {
        (void)!weft_wg_add(&server->accepting, 1);
        (void)!weft_wg_add(&server->running, 1);
        int error = weft_go(weft__http_acceptor_run, &server->acceptors[i]);
        if (error != 0) {
            weft_context *before;
            weft_wg_done(&server->accepting);
            weft_wg_done(&server->running);
            (void)weft_context_bind(NULL, &before); /* the wait must not be cancelled */
            (void)!weft_http_stop(server, WEFT_NOW);
            (void)weft_wg_wait(&server->running);
            (void)weft_context_bind(before, NULL);
            return error;
        }
    }
    return 0;
}

int weft_http_open(weft_http_server **out, const weft_http_options *options)
{
    if (out == NULL)
        return -EINVAL;
    weft_http_server *server = weft__http_allocate(sizeof *server);
    if (server == NULL)
        return -ENOMEM;
    memset(server, 0, sizeof *server);
    if (options != NULL)
        server->options = *options;
    int error = set_options(&server->options) ? 0 : -EINVAL;
    if (error == 0) {
        server->connection_limit = bound_connections(&server->options);
        server->partial_heads = weft__http_partial_heads_open();
        error = server->partial_heads != NULL ? open_options(server) : -ENOMEM;
    }
    if (error == 0)
        error = open_pools(server);
    if (error == 0)
        error = open_acceptors(server);
    if (error == 0)
        error = start_acceptors(server);
    if (error != 0) {
        free_server(server);
        return error;
    }
    *out = server;
    return 0;
}

/* ---- listening ---- */

static int listen_at(weft_http_server *server, const char *address, const weft_net_options *options,
                     struct tls_keys *keys, bool proxy)
{
    weft_listener *opened;
    int error = weft_listener_open(&opened, address, options);
    if (error != 0)
        return error;
    int fd = weft_listener_fd(opened);
    if (options == NULL || options->nagle == 0)
        (void)weft__http_no_delay(fd); /* a Unix socket refuses both, and needs neither */
    (void)weft__http_limit_unsent(fd);
    weft_mutex_lock(&server->lock);
    if (atomic_u32_load_relaxed(&server->stopping) != 0)
        error = -ESHUTDOWN;
    else if (server->listener_count == HTTP_LISTENERS)
        error = -ENOSPC;
    struct listener *listener = &server->listeners[server->listener_count];
    int added = 0;
    if (error == 0) {
        *listener = (struct listener){WATCHED_LISTENER, fd, opened, keys, proxy};
        while (added < server->acceptor_count && error == 0) {
            error = weft__http_set_add_shared(server->acceptors[added].set, fd, listener);
            added += error == 0;
        }
    }
    if (error == 0)
        server->listener_count++;
    for (; error != 0 && added > 0; added--)
        weft__http_set_remove(server->acceptors[added - 1].set, fd);
    weft_mutex_unlock(&server->lock);
    if (error != 0)
        weft_listener_close(opened);
    return error;
}

static bool are_valid(const weft_http_server *server, const weft_http_listen_options *options)
{
    for (size_t i = 0; i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        if (options->reserved[i] != 0)
            return false;
    return options->proxy == 0 || server->networks != NULL;
}

int weft_http_listen_with(weft_http_server *server, const char *address,
                          const weft_http_listen_options *options)
{
    static const weft_http_listen_options none;
    struct tls_keys *keys = NULL;
    if (options == NULL)
        options = &none;
    if (server == NULL || !are_valid(server, options))
        return -EINVAL;
    int error = options->tls != NULL ? weft__http_tls_keys_open(&keys, options->tls) : 0;
    if (error != 0)
        return error;
    error = listen_at(server, address, options->net, keys, options->proxy != 0);
    if (error != 0)
        weft__http_tls_keys_close(keys);
    return error;
}

int weft_http_listen(weft_http_server *server, const char *address, const weft_net_options *options)
{
    return weft_http_listen_with(server, address, &(weft_http_listen_options){.net = options});
}

int weft_http_listen_tls(weft_http_server *server, const char *address,
                         const weft_net_options *options, const weft_http_tls *tls)
{
    if (tls == NULL)
        return -EINVAL;
    return weft_http_listen_with(server, address,
                                 &(weft_http_listen_options){.net = options, .tls = tls});
}

int weft_http_local(weft_http_server *server, int number, weft_address *address)
{
    if (server == NULL || address == NULL)
        return -EINVAL;
    weft_mutex_lock(&server->lock);
    int error =
        number >= 0 && number < server->listener_count && server->listeners[number].listener != NULL
            ? weft_listener_local(server->listeners[number].listener, address)
            : -ENOENT;
    weft_mutex_unlock(&server->lock);
    return error;
}

/* ---- stopping ---- */

static void wake_all(weft_http_server *server)
{
    for (int i = 0; i < server->acceptor_count; i++)
        weft__http_wakeup_send(server->acceptors[i].wakeup);
}

static void close_listeners(weft_http_server *server)
{
    weft_mutex_lock(&server->lock);
    for (int i = 0; i < server->listener_count; i++) {
        weft_listener_close(server->listeners[i].listener);
        server->listeners[i].listener = NULL;
    }
    weft_mutex_unlock(&server->lock);
}

static void close_keys(weft_http_server *server)
{
    for (int i = 0; i < server->listener_count; i++)
        weft__http_tls_keys_close(server->listeners[i].keys);
}

/* Whether workers have connections. Once the acceptors have seen a stop, they get no more. */
static bool has_work(weft_http_server *server)
{
    bool any = false;
    for (int i = 0; i < server->acceptor_count && !any; i++) {
        weft_mutex_lock(&server->acceptors[i].lock);
        any = server->acceptors[i].lists[LIST_BUSY].first != NULL;
        weft_mutex_unlock(&server->acceptors[i].lock);
    }
    return any;
}

/* Ends all requests. */
static void cut_off(weft_http_server *server)
{
    atomic_u32_store_release(&server->cut, 1);
    weft_context_cancel(server->context);
    for (int i = 0; i < server->acceptor_count; i++) {
        struct acceptor *acceptor = &server->acceptors[i];
        weft_mutex_lock(&acceptor->lock);
        struct connection *connection = acceptor->lists[LIST_BUSY].first;
        for (; connection != NULL; connection = connection->next)
            weft__http_cut(connection->fd);
        weft_mutex_unlock(&acceptor->lock);
    }
}

int weft_http_stop(weft_http_server *server, int64_t deadline)
{
    if (server == NULL)
        return -EINVAL;
    weft_context *before = weft_context_current();
    if (weft_context_value(before, server) == server)
        return -EDEADLK;
    atomic_u32_store_release(&server->stopping, 1);
    weft_context_cancel(server->streams);
    wake_all(server);
    (void)weft_context_bind(NULL, &before); /* short, and must not be cancelled */
    (void)weft_wg_wait(&server->accepting);
    close_listeners(server);
    (void)weft_context_bind(before, NULL);
    int error = weft_wg_wait_until(&server->running, deadline);
    if (error == 0)
        return 0;
    if (has_work(server)) {
        cut_off(server);
        return error;
    }
    /* All requests were answered: only the acceptors have not ended. */
    (void)weft_context_bind(NULL, NULL);
    (void)weft_wg_wait(&server->running);
    (void)weft_context_bind(before, NULL);
    return 0;
}

void weft_http_close(weft_http_server *server)
{
    if (server == NULL)
        return;
    weft_context *before;
    (void)weft_context_bind(NULL, &before);
    (void)!weft_http_stop(server, WEFT_NOW);
    (void)weft_wg_wait(&server->running);
    close_keys(server);
    free_server(server);
    (void)weft_context_bind(before, NULL);
}

/* ---- figures ---- */

int weft_http_stats_get(weft_http_server *server, weft_http_stats *stats)
{
    weft_pool_stats pool;
    if (server == NULL || stats == NULL)
        return -EINVAL;
    int error = weft_pool_stats_get(server->pool, &pool);
    if (error != 0) /* a forked child: no thread of it would release the locks below */
        return error;
    int64_t busy = 0;
    memset(stats, 0, sizeof *stats);
    for (int i = 0; i < server->acceptor_count; i++) {
        struct acceptor *acceptor = &server->acceptors[i];
        weft_mutex_lock(&acceptor->lock);
        stats->idle += acceptor->lists[LIST_IDLE].count;
        stats->reading += acceptor->lists[LIST_READING].count;
        busy += acceptor->lists[LIST_BUSY].count;
        weft_mutex_unlock(&acceptor->lock);
    }
    stats->queued = pool.queued;
    weft_mutex_lock(&server->lent_lock);
    stats->streams = server->lent_places;
    weft_mutex_unlock(&server->lent_lock);
    stats->connections = atomic_i64_load_relaxed(&server->connections);
    stats->running = busy > pool.queued ? busy - pool.queued : 0;
    stats->accepted = atomic_i64_load_relaxed(&server->accepted);
    stats->requests = atomic_i64_load_relaxed(&server->requests);
    stats->refused = atomic_i64_load_relaxed(&server->refused);
    stats->bad = atomic_i64_load_relaxed(&server->bad);
    stats->timed_out = atomic_i64_load_relaxed(&server->timed_out);
    stats->panicked = atomic_i64_load_relaxed(&server->panicked);
    stats->accept_errors = atomic_i64_load_relaxed(&server->accept_errors);
    stats->evicted = atomic_i64_load_relaxed(&server->evicted);
    stats->log_dropped = weft__http_log_queue_dropped(server->log);
    return 0;
}
