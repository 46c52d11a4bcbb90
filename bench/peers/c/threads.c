/*
 * threads.c: a POSIX thread for each task, as the kernel and libc give them; stacks of 64 KB, so
 * that many fit.
 *
 * A channel is a ring with a mutex and two conditions. Where tasks are bounded, a semaphore does
 * it. The cases with 50,000 tasks at once and more are not here: Linux does not let a process have
 * so many threads by default. Nothing is measured twice: there is nothing to warm.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "peer.h"

static pthread_t start_thread(void *(*function)(void *), void *arg)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    PEER_CHECK(pthread_create(&thread, &attributes, function, arg) == 0);
    pthread_attr_destroy(&attributes);
    return thread;
}

static int64_t in_threads(long count, void *(*function)(void *), void *arg)
{
    enum { MOST = 1000 };
    pthread_t threads[MOST];
    PEER_CHECK(count <= MOST);
    int64_t start = peer_now();
    for (long i = 0; i < count; i++)
        threads[i] = start_thread(function, arg);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return peer_now() - start;
}

static void *yield_often(void *arg)
{
    for (long i = *(long *)arg; i > 0; i--)
        sched_yield();
    return NULL;
}

static double measure_yield(struct peer_round *round)
{
    long yields = peer_amount(round, 10 * 1000 * 1000) / round->size;
    int64_t elapsed = in_threads(round->size, yield_often, &yields);
    PEER_PARAMS(round, "threads=%ld yields=%ld", round->size, yields);
    return (double)elapsed / (double)(round->size * yields);
}

enum { BATCH = 100 };

static void *nothing(void *arg)
{
    return arg;
}

static void *spawn_batches(void *arg)
{
    for (long i = *(long *)arg; i > 0; i--)
        in_threads(BATCH, nothing, NULL);
    return NULL;
}

static double measure_spawn(struct peer_round *round)
{
    long batches = peer_amount(round, 500 * 1000) / BATCH / round->processors;
    int64_t elapsed = in_threads(round->processors, spawn_batches, &batches);
    PEER_PARAMS(round, "spawners=%d batch=%d batches=%ld", round->processors, BATCH, batches);
    return (double)elapsed / (double)(round->processors * batches * BATCH);
}

/* A channel. */

struct stream {
    pthread_mutex_t mutex;
    pthread_cond_t not_full, not_empty;
    int64_t elements[128];
    long capacity, used, first, count;
    int64_t sum;
    atomic_int next; /* 0: the sender, 1: the receiver */
};

static void send_all(struct stream *stream)
{
    for (int64_t i = 1; i <= stream->count; i++) {
        pthread_mutex_lock(&stream->mutex);
        while (stream->used == stream->capacity)
            pthread_cond_wait(&stream->not_full, &stream->mutex);
        stream->elements[(stream->first + stream->used++) % stream->capacity] = i;
        pthread_cond_signal(&stream->not_empty);
        pthread_mutex_unlock(&stream->mutex);
    }
}

static void *stream_end(void *arg)
{
    struct stream *stream = arg;
    if (atomic_fetch_add(&stream->next, 1) == 0) {
        send_all(stream);
        return NULL;
    }
    for (long i = 0; i < stream->count; i++) {
        pthread_mutex_lock(&stream->mutex);
        while (stream->used == 0)
            pthread_cond_wait(&stream->not_empty, &stream->mutex);
        stream->sum += stream->elements[stream->first];
        stream->first = (stream->first + 1) % stream->capacity;
        stream->used--;
        pthread_cond_signal(&stream->not_full);
        pthread_mutex_unlock(&stream->mutex);
    }
    return NULL;
}

static double measure_stream(struct peer_round *round)
{
    struct stream stream = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                            .not_full = PTHREAD_COND_INITIALIZER,
                            .not_empty = PTHREAD_COND_INITIALIZER,
                            .capacity = round->size,
                            .count = peer_amount(round, 2 * 1000 * 1000)};
    int64_t elapsed = in_threads(2, stream_end, &stream);
    PEER_CHECK(stream.sum == (int64_t)stream.count * (stream.count + 1) / 2);
    PEER_PARAMS(round, "elements=%ld capacity=%ld", stream.count, stream.capacity);
    return (double)elapsed / (double)stream.count;
}

/* A mutex. */

struct contest {
    pthread_mutex_t mutex;
    long each, counter;
};

static void *add(void *arg)
{
    struct contest *contest = arg;
    for (long i = 0; i < contest->each; i++) {
        pthread_mutex_lock(&contest->mutex);
        contest->counter++;
        pthread_mutex_unlock(&contest->mutex);
    }
    return NULL;
}

static double measure_mutex(struct peer_round *round)
{
    struct contest contest = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                              .each = peer_amount(round, 2 * 1000 * 1000) / round->size};
    int64_t elapsed = in_threads(round->size, add, &contest);
    PEER_CHECK(contest.counter == contest.each * round->size);
    PEER_PARAMS(round, "threads=%ld operations=%ld", round->size, contest.counter);
    return (double)elapsed / (double)contest.counter;
}

/* Bounded tasks. */

enum { CAPACITY = 10000 };
static sem_t room;

static void *leave_room(void *arg)
{
    sem_post(&room);
    return arg;
}

static void *submit(void *arg)
{
    for (long i = *(long *)arg; i > 0; i--) {
        while (sem_wait(&room) != 0)
            continue;
        pthread_detach(start_thread(leave_room, NULL));
    }
    return NULL;
}

static double measure_noop(struct peer_round *round)
{
    long each = peer_amount(round, 1000 * 1000) / round->size;
    sem_init(&room, 0, CAPACITY);
    int64_t start = peer_now();
    in_threads(round->size, submit, &each);
    for (int i = 0; i < CAPACITY; i++)
        while (sem_wait(&room) != 0)
            continue;
    int64_t elapsed = peer_now() - start;
    PEER_PARAMS(round, "from=thread submitters=%ld tasks=%ld capacity=%d", round->size,
                round->size * each, CAPACITY);
    return (double)elapsed / (double)(round->size * each);
}

/* Lateness. */

enum {
    TICKERS = 1000,
    BLOCKERS = 64,
    BLOCKERS_QUICK = 16,
    SAMPLES_MOST = 2000,
    PERIOD = 10 * 1000 * 1000
};
static _Atomic int64_t begin, end; /* of the time that counts; 0 until it is known */
static atomic_long samples;
static double late[TICKERS * SAMPLES_MOST];

static void nap(long milliseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

static void *tick(void *arg)
{
    for (int64_t due = peer_now() + PERIOD;; due += PERIOD) {
        struct timespec time = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
        if (atomic_load(&end) != 0 && due > atomic_load(&end))
            return arg;
        if (atomic_load(&begin) == 0 || due < atomic_load(&begin))
            continue;
        long place = atomic_fetch_add(&samples, 1);
        if (place < TICKERS * SAMPLES_MOST)
            late[place] = (double)(peer_now() - due) / 1e9;
    }
}

static void *block(void *arg)
{
    nap(200);
    return arg;
}

static double measure_lateness(struct peer_round *round)
{
    static pthread_t tickers[TICKERS];
    int blocking = round->quick ? BLOCKERS_QUICK : BLOCKERS;
    for (int i = 0; i < TICKERS; i++)
        tickers[i] = start_thread(tick, NULL);
    nap(50);
    atomic_store(&begin, peer_now());
    in_threads(blocking, block, NULL);
    atomic_store(&end, peer_now());
    for (int i = 0; i < TICKERS; i++)
        pthread_join(tickers[i], NULL);
    long count = atomic_load(&samples);
    count = count < TICKERS * SAMPLES_MOST ? count : TICKERS * SAMPLES_MOST;
    return peer_lateness(round, late, count, TICKERS, blocking, "thread");
}

/* Echo. */

enum { MESSAGE = 64 };

struct echo {
    long connections, messages;
    int listener;
    struct sockaddr_in address;
};

static void *answer(void *arg)
{
    char data[MESSAGE];
    int socket = (int)(intptr_t)arg;
    for (ssize_t got; (got = read(socket, data, sizeof data)) > 0;)
        PEER_CHECK(write(socket, data, (size_t)got) == got);
    close(socket);
    return NULL;
}

static void *serve(void *arg)
{
    struct echo *echo = arg;
    for (long i = 0; i < echo->connections; i++) {
        int one = 1, socket = accept(echo->listener, NULL, NULL);
        PEER_CHECK(socket >= 0);
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_detach(start_thread(answer, (void *)(intptr_t)socket));
    }
    return NULL;
}

static void *ask(void *arg)
{
    struct echo *echo = arg;
    char data[MESSAGE] = "";
    int one = 1, conn = socket(AF_INET, SOCK_STREAM, 0);
    PEER_CHECK(connect(conn, (struct sockaddr *)&echo->address, sizeof echo->address) == 0);
    setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (long i = 0; i < echo->messages; i++) {
        PEER_CHECK(write(conn, data, MESSAGE) == MESSAGE);
        PEER_CHECK(recv(conn, data, MESSAGE, MSG_WAITALL) == MESSAGE);
    }
    close(conn);
    return NULL;
}

static double measure_echo(struct peer_round *round)
{
    struct echo echo = {.connections = round->size,
                        .messages = peer_amount(round, 100000) / round->size,
                        .address = {.sin_family = AF_INET}};
    socklen_t length = sizeof echo.address;
    echo.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    echo.listener = socket(AF_INET, SOCK_STREAM, 0);
    PEER_CHECK(bind(echo.listener, (struct sockaddr *)&echo.address, length) == 0);
    PEER_CHECK(listen(echo.listener, 1024) == 0);
    PEER_CHECK(getsockname(echo.listener, (struct sockaddr *)&echo.address, &length) == 0);
    int64_t start = peer_now();
    pthread_t server = start_thread(serve, &echo);
    in_threads(echo.connections, ask, &echo);
    int64_t elapsed = peer_now() - start;
    pthread_join(server, NULL);
    close(echo.listener);
    PEER_PARAMS(round, "connections=%ld messages=%ld bytes=%d", echo.connections, echo.messages,
                MESSAGE);
    return (double)elapsed / (double)(echo.connections * echo.messages);
}

int main(int argc, char **argv)
{
    static const struct peer_case cases[] = {
        {"yield", "ns/op", measure_yield, 1000, true, false},
        {"spawn", "ns/op", measure_spawn, 0, true, false},
        {"chan_unbuffered", "ns/op", measure_stream, 1, true, false},
        {"chan_buffered", "ns/op", measure_stream, 128, true, false},
        {"mutex", "ns/op", measure_mutex, 8, true, false},
        {"pool_noop", "ns/op", measure_noop, 1, true, false},
        {"pool_noop_many", "ns/op", measure_noop, 8, true, false},
        {"tick_lateness", "s", measure_lateness, 0, true, false},
        {"echo", "ns/op", measure_echo, 100, true, false},
        {NULL, NULL, NULL, 0, false, false},
    };
    char version[64] = "";
    confstr(_CS_GNU_LIBC_VERSION, version, sizeof version);
    for (char *blank = strchr(version, ' '); blank != NULL; blank = strchr(blank, ' '))
        *blank = '-';
    return peer_main(argc, argv, "threads", version, cases, 0);
}
