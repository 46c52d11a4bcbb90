/*
 * flood.h: weft-flood, a client that attacks or floods an HTTP server; plain epoll, one thread.
 *
 * A mode is a table of functions that are called for the events of its clients. A client is a
 * sequence of connections: when the server ends one, or it cannot be opened, the next one is
 * opened, until the mode marks the client as done. The program ends at the latest after the given
 * number of seconds.
 */
#ifndef WEFT_FLOOD_H
#define WEFT_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum client_state {
    CLIENT_CLOSED,  /* opens when fewer others are opening */
    CLIENT_OPENING, /* its connect is in progress */
    CLIENT_OPEN,
    CLIENT_DONE, /* stays closed */
};

/* The received part of a response. */
struct answer {
    char head[512]; /* its beginning, until the end of the head; longer heads are an error */
    int head_size;
    int status;        /* 0: the head is incomplete */
    bool whole;        /* the response is complete */
    int64_t body_left; /* -1: until the end of the connection */
    bool closes;       /* the server will close after it */
};

struct client {
    int fd, number;
    enum client_state state;
    bool waits;      /* waits for an answer */
    bool wants_out;  /* is registered for writing */
    bool fresh;      /* probe: a connection for each request */
    int64_t at;      /* when its request was sent, or is due */
    int64_t retry;   /* CLIENT_CLOSED: not before */
    int64_t counter; /* belongs to the mode */
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
    bool raw;           /* the mode reads: `came` is called without data */
    int receive_buffer; /* bytes; 0: the default of the system */
    void (*start)(struct flood *flood);
    void (*opened)(struct flood *flood, struct client *client);
    /* Bytes have arrived; 0 at the end of the stream. */
    void (*came)(struct flood *flood, struct client *client, const char *data, int size);
    void (*can_write)(struct flood *flood, struct client *client);
    /* The connection has ended; it is opened again unless the state is CLIENT_DONE. */
    void (*ended)(struct flood *flood, struct client *client);
    void (*tick)(struct flood *flood); /* every flood->period */
    void (*mark)(struct flood *flood); /* a line was received; may be NULL */
    void (*report)(struct flood *flood);
};

struct flood {
    const struct mode *mode;
    const char *path;
    struct bytes first, piece; /* what is sent first, and then repeatedly */
    long port, connections, requests, seconds, rate, pause;
    bool unread, bodiless; /* reads no answers; answers have no body (HEAD) */
    long most;             /* stream: bytes of pieces on a connection, which stays after that */
    bool half;             /* ends its side of a connection after the first bytes */
    const char *then;      /* tls: the phase after the handshake */
    int epoll;
    struct client *clients;
    struct answer *answers; /* per client; NULL if the mode reads none */
    int64_t period, now, start, deadline;
    bool done;
    int opening;
    long first_closed; /* no client before it is CLIENT_CLOSED */

    /* The counters of all modes. */
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
/* Registers for errors only. */
void client_sleep(struct flood *flood, struct client *client);
/* Sends flood->first as a request; ends the connection if that fails. */
void client_request(struct flood *flood, struct client *client);
/* Ends the client's side of the connection, if flood->half asks for that. */
void client_end_side(struct flood *flood, struct client *client);
/* Sends as much as fits. Returns the number of bytes; -1 if the connection was broken, and is
 * ended. */
long client_send(struct flood *flood, struct client *client, const char *data, long size);
/* Reads up to `size` bytes. Returns as recv. */
long client_read(struct flood *flood, struct client *client, char *data, long size);

void answer_start(struct answer *answer);
/* Consumes bytes of a response. Returns their number; the rest belongs to the next response. */
int answer_take(struct answer *answer, const char *data, int size, bool bodiless);

/* ---- modes.c ---- */

void report_common(struct flood *flood);
void no_tick(struct flood *flood);
void no_write(struct flood *flood, struct client *client);

void histogram_add(struct histogram *histogram, int64_t nanoseconds);
int64_t histogram_quantile(const struct histogram *histogram, double share);
void histogram_clear(struct histogram *histogram);

#endif
