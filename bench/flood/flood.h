/*
 * flood.h: weft-flood, a client that does to an HTTP server what attackers and crowds do; plain epoll, one thread.
 *
 * A mode is a table of functions that are called for the events of its clients. A client is one connection after the
 * other: when the server ends one, or it does not come about, the next is opened, until the mode says that it is done.
 * Everything ends at the latest when the given seconds are over.
 */
#ifndef WEFT_FLOOD_H
#define WEFT_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum client_state {
    CLIENT_CLOSED,  /* will be opened, when others are not too many at it */
    CLIENT_OPENING, /* its connect is under way */
    CLIENT_OPEN,
    CLIENT_DONE, /* stays closed */
};

/* What has come of a response. */
struct answer {
    char head
        [512]; /* its beginning, until the end of the head was found; longer ones are not understood */
    int head_size;
    int status;        /* 0: the head is not whole */
    bool whole;        /* to its end */
    int64_t body_left; /* -1: until the end of the connection */
    bool closes;       /* the server will close after it */
};

struct client {
    int fd, number;
    enum client_state state;
    bool waits;      /* for an answer */
    bool wants_out;  /* is told when it can write */
    bool fresh;      /* probe: a connection for each request */
    int64_t at;      /* when its request went off, or is due */
    int64_t retry;   /* CLIENT_CLOSED: not before */
    int64_t counter; /* the mode's */
    void *session;   /* tls: SSL */
    struct answer *answer;
};

struct bytes {
    char *data;
    long size;
};

struct histogram {
    int64_t counts[64 * 16];
    int64_t total, most;
};

struct flood;

struct mode {
    const char *name;
    bool answers;       /* its clients read answers */
    bool raw;           /* reads for itself: `came` is called without data */
    int receive_buffer; /* bytes; 0: what the system gives */
    void (*start)(struct flood *flood);
    void (*opened)(struct flood *flood, struct client *client);
    /* Bytes came; 0 at the end. */
    void (*came)(struct flood *flood, struct client *client, const char *data, int size);
    void (*can_write)(struct flood *flood, struct client *client);
    /* The connection is gone; it will be opened again unless the state says CLIENT_DONE. */
    void (*ended)(struct flood *flood, struct client *client);
    void (*tick)(struct flood *flood); /* every flood->period */
    void (*mark)(struct flood *flood); /* a line came in; may be NULL */
    void (*report)(struct flood *flood);
};

struct flood {
    const struct mode *mode;
    const char *path;
    struct bytes first, piece; /* what is sent, and then again and again */
    long port, connections, requests, seconds, rate, pause;
    bool deaf, bodiless; /* reads no answers; answers have no body (HEAD) */
    const char *then;    /* tls: what follows the handshake */
    int epoll;
    struct client *clients;
    struct answer *answers; /* of each; NULL if the mode reads none */
    int64_t period, now, start, deadline;
    bool done;
    int opening;
    long first_closed; /* no client before it is CLIENT_CLOSED */

    /* What is counted for all modes. */
    int64_t opened, failed_to_open, closed_by_server, bytes_sent, bytes_received;
    int64_t sent, answered, statuses[600], cut;
    struct histogram latency;
};

extern const struct mode mode_idle, mode_burst, mode_hold, mode_stream, mode_reset, mode_touch,
    mode_reader, mode_tls, mode_probe;

int64_t flood_clock(void); /* nanoseconds, the clock of the driver: CLOCK_MONOTONIC */
void flood_run(struct flood *flood);
void client_end(struct flood *flood, struct client *client, bool by_server);
void client_want_out(struct flood *flood, struct client *client, bool wants);
/* Is told of nothing, only of the end by an error. */
void client_sleep(struct flood *flood, struct client *client);
/* Sends flood->first as a request; the connection is ended if that is not possible. */
void client_request(struct flood *flood, struct client *client);
/* Sends what fits. Returns the number of bytes; -1 if the connection is broken, and ended. */
long client_send(struct flood *flood, struct client *client, const char *data, long size);
/* Reads up to `size` bytes. Returns as recv. */
long client_read(struct flood *flood, struct client *client, char *data, long size);

void answer_start(struct answer *answer);
/* Takes bytes of a response; the number of them: the rest is of the next one. */
int answer_take(struct answer *answer, const char *data, int size, bool bodiless);

/* ---- modes.c ---- */

void report_common(struct flood *flood);
void no_tick(struct flood *flood);
void no_write(struct flood *flood, struct client *client);

void histogram_add(struct histogram *histogram, int64_t nanoseconds);
int64_t histogram_quantile(const struct histogram *histogram, double share);
void histogram_clear(struct histogram *histogram);

#endif
