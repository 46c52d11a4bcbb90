/*
 * dial.c: connecting to an address, or to the first of several that answers.
 *
 * One address. The socket is non-blocking; the kernel returns that the connect is in progress, and
 * makes the socket writable when it is decided. A wake-up alone decides nothing: the kernel is
 * asked, and if it does not know yet the wait goes on. A connect to a Unix socket whose listener
 * has a full backlog is not "in progress": there is no event to wait for, so it is tried again
 * after a pause.
 *
 * Several addresses of a name are raced (RFC 8305, "happy eyeballs"):
 *
 *   order       as the resolver sorts them (RFC 6724), but the families take turns
 *   begin       the next one when the last has been in progress for ATTEMPT_DELAY, or one has
 *               failed
 *   end         the first that is connected wins, the others are closed; without a winner, the
 *               error of the last that failed
 *
 * The attempts are sockets in an epoll set, and the caller waits for the set: no fibers, so nothing
 * outlives the call, and a thread can do it as well. The set is opened when a second attempt is in
 * progress. Without a descriptor for the set, or for another attempt, the caller waits for the
 * oldest attempt and looks at the others every ATTEMPT_DELAY.
 *
 * From a fixed port (options->local) only one socket can be bound at a time: the next attempt
 * begins when the one before has failed.
 *
 * The resolution delay of RFC 8305 has no place here: getaddrinfo asks for both families at the
 * same time and answers once. Rejected: two lookups, one for each family. They would tolerate a
 * name server that is silent for one family, but hold two threads for each dial and lose the
 * system's order across families.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "net/conn.h"
#include "sched/core/cancel.h"

enum { ADDRESSES_MOST = 16 };

#define PAUSE_FIRST (200 * WEFT_US)
#define PAUSE_MOST (20 * WEFT_MS)
#define ATTEMPT_DELAY (250 * WEFT_MS) /* RFC 8305, section 8 */

/* ---- one address ---- */

static int64_t try_connected(int fd, void *unused)
{
    (void)unused;
    return weft__os_connected(fd);
}

static int connect_to(struct socket *socket, const weft_address *address, int64_t deadline)
{
    for (int64_t pause = PAUSE_FIRST;; pause = pause < PAUSE_MOST ? pause * 2 : pause) {
        int error = weft__os_connect(socket->fd, address->bytes, address->size);
        if (error == -EINPROGRESS)
            return (int)weft__socket_repeat(socket, OS_WRITABLE, try_connected, NULL, deadline);
        if (error != -EAGAIN)
            return error;
        int64_t until = weft_after(pause);
        if (deadline < until)
            return -ETIMEDOUT;
        error = weft_sleep_until(until);
        if (error != 0)
            return error;
    }
}

/* Makes an unconnected connection, bound to `local` if that is not NULL. */
static int make(weft_conn **conn, const weft_address *address, const weft_net_options *options,
                const weft_address *local)
{
    int fd = weft__socket_open(address, options);
    if (fd < 0)
        return fd;
    int error = local != NULL ? weft__socket_bind(fd, local) : 0;
    bool bound = local != NULL && error == 0;
    if (error == 0)
        error = weft__conn_make(conn, fd, address->type);
    if (error == 0)
        return 0;
    weft__os_close(fd);
    if (bound)
        weft__socket_unbind(local, NULL);
    return error;
}

static int dial_one(weft_conn **conn, const weft_address *address, const weft_net_options *options,
                    const weft_address *local, int64_t deadline)
{
    weft_conn *made;
    int error = make(&made, address, options, local);
    if (error != 0)
        return error;
    error = connect_to(&made->socket, address, deadline);
    if (error == 0) {
        *conn = made;
        return 0;
    }
    weft_conn_close(made);
    if (local != NULL)
        weft__socket_unbind(local, NULL);
    return error;
}

/* ---- several ---- */

struct race {
    const weft_address *addresses;
    int count, next; /* attempts at the first `next` addresses have begun */
    const weft_net_options *options;
    const weft_address *local;
    weft_conn *attempts[ADDRESSES_MOST]; /* in progress, the oldest first */
    int in_progress;
    int64_t next_at; /* when the next attempt may begin beside them */
    int set;         /* epoll set of the attempts in progress; -1: none */
    int error;       /* of the last attempt that failed */
};

static void alternate(weft_address *addresses, int count)
{
    weft_address sorted[ADDRESSES_MOST];
    sa_family_t first = weft__address_family(&addresses[0]);
    int at[2] = {0, 0}; /* where the search goes on, for the first family and for others */
    for (int made = 0, other = 0; made < count; other = !other) {
        int *i = &at[other];
        while (*i < count && (weft__address_family(&addresses[*i]) != first) != other)
            ++*i;
        if (*i < count)
            sorted[made++] = addresses[(*i)++];
    }
    memcpy(addresses, sorted, (size_t)count * sizeof sorted[0]);
}

static void race_close_set(struct race *race)
{
    if (race->set >= 0)
        weft__os_close(race->set);
    race->set = -1;
}

static void race_watch(struct race *race, const weft_conn *attempt)
{
    if (race->set >= 0 && weft__os_poll_add(race->set, attempt->socket.fd, OS_WRITABLE, 0) != 0)
        race_close_set(race);
}

static void race_open_set(struct race *race)
{
    race->set = weft__os_poll_open();
    for (int i = 0; i < race->in_progress; i++)
        race_watch(race, race->attempts[i]);
}

/* Begins the next attempt: the connection if it is connected at once, else NULL. */
static weft_conn *race_begin(struct race *race)
{
    const weft_address *address = &race->addresses[race->next++];
    weft_conn *made;
    int error = make(&made, address, race->options, race->local);
    if (error == 0) {
        error = weft__os_connect(made->socket.fd, address->bytes, address->size);
        if (error == 0)
            return made;
        if (error == -EINPROGRESS) {
            race->attempts[race->in_progress++] = made;
            race_watch(race, made);
            race->next_at = weft_after(ATTEMPT_DELAY);
            return NULL;
        }
        weft_conn_close(made);
    }
    race->error = error;
    race->next_at = 0;
    return NULL;
}

/* Takes the decided attempts off the list: the one that is connected, or NULL. */
static weft_conn *race_look(struct race *race)
{
    weft_conn *winner = NULL;
    int left = 0;
    for (int i = 0; i < race->in_progress; i++) {
        weft_conn *attempt = race->attempts[i];
        int error = winner == NULL ? weft__os_connected(attempt->socket.fd) : -EAGAIN;
        if (error == 0) {
            winner = attempt;
        } else if (error == -EAGAIN) {
            race->attempts[left++] = attempt;
        } else {
            weft_conn_close(attempt);
            race->error = error;
            race->next_at = 0;
        }
    }
    race->in_progress = left;
    return winner;
}

/* When the next attempt has to begin. */
static int64_t race_next_at(const struct race *race)
{
    if (race->next == race->count)
        return WEFT_NEVER;
    if (race->in_progress == 0)
        return 0;
    bool fixed_port = race->local != NULL && weft_address_port(race->local) != 0;
    return fixed_port ? WEFT_NEVER : race->next_at;
}

/* Waits until an attempt may be decided, or the next has to begin: 0, or why the wait ends. */
static int race_wait(struct race *race, int64_t deadline)
{
    int64_t next_at = race_next_at(race), until = next_at < deadline ? next_at : deadline;
    int fd = race->attempts[0]->socket.fd, events = WEFT_WRITABLE;
    if (race->in_progress > 1 && race->set < 0)
        race_open_set(race);
    if (race->set >= 0) {
        fd = race->set;
        events = WEFT_READABLE;
    } else if (race->in_progress > 1 && weft_after(ATTEMPT_DELAY) < until) {
        until = weft_after(ATTEMPT_DELAY);
    }
    int ready = weft_fd_wait(fd, events, until);
    if (ready == -ETIMEDOUT && until < deadline && weft__cancelled() == 0)
        return 0;
    return ready > 0 ? 0 : ready;
}

static int race_run(struct race *race, weft_conn **conn, int64_t deadline)
{
    weft_conn *winner = NULL;
    int error = 0;
    while (error == 0 && (winner = race_look(race)) == NULL) {
        if (race_next_at(race) <= weft_now()) {
            if ((winner = race_begin(race)) != NULL)
                break;
        } else if (race->in_progress > 0) {
            error = race_wait(race, deadline);
        } else {
            error = race->error;
        }
    }
    for (int i = 0; i < race->in_progress; i++)
        weft_conn_close(race->attempts[i]);
    race_close_set(race);
    if (winner != NULL)
        *conn = winner;
    return error;
}

int weft_conn_dial(weft_conn **conn, const char *address, const weft_net_options *options,
                   int64_t deadline)
{
    static const weft_net_options defaults;
    weft_address found[ADDRESSES_MOST], local = {0};
    if (conn == NULL || address == NULL)
        return -EINVAL;
    if (options == NULL)
        options = &defaults;
    int error = weft__net_options_check(options);
    if (error == 0 && options->local != NULL)
        error = weft_address_parse(&local, options->local);
    if (error != 0)
        return error;
    int count = weft__socket_look_up(address, found, ADDRESSES_MOST, deadline);
    if (count < 0)
        return count;
    if (options->local != NULL && local.type != found[0].type)
        return -EINVAL;
    const weft_address *from = options->local != NULL ? &local : NULL;
    if (count == 1)
        return dial_one(conn, &found[0], options, from, deadline);
    alternate(found, count);
    struct race race = {
        .addresses = found, .count = count, .options = options, .local = from, .set = -1};
    return race_run(&race, conn, deadline);
}
