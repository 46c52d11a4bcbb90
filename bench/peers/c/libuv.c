/*
 * libuv.c: libuv: an event loop with callbacks, and its thread pool for what blocks.
 *
 * The thread pool gets as many threads as there are processors, by the environment variable of its
 * manual; in tick_lateness it keeps its default of four. uv_queue_work is for the loop's own
 * thread, so there is no case with many submitters. Timers tick in milliseconds. The echo has a
 * loop for the server and one, on another thread, for the clients.
 */
#include <uv.h>

#include "peer.h"

/* The thread pool. */

static long completed;

static void nothing(uv_work_t *work)
{
    (void)work;
}

static void after_nothing(uv_work_t *work, int status)
{
    (void)status;
    completed++;
    free(work);
}

/* All are queued, then the loop runs until all are done: the queue has no bound. */
static double measure_noop(struct peer_round *round)
{
    long tasks = peer_amount(round, 1000 * 1000);
    char threads[16];
    snprintf(threads, sizeof threads, "%d", round->processors);
    setenv("UV_THREADPOOL_SIZE", threads, 1);
    completed = 0;
    int64_t start = peer_now();
    for (long i = 0; i < tasks; i++) {
        uv_work_t *work = malloc(sizeof *work);
        PEER_CHECK(work != NULL);
        PEER_CHECK(uv_queue_work(uv_default_loop(), work, nothing, after_nothing) == 0);
    }
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    int64_t elapsed = peer_now() - start;
    PEER_CHECK(completed == tasks);
    PEER_PARAMS(round, "from=thread submitters=1 tasks=%ld capacity=none", tasks);
    return (double)elapsed / (double)tasks;
}

/* Timers. */

static void fired(uv_timer_t *timer)
{
    (void)timer;
    completed++;
}

static double measure_timers(struct peer_round *round)
{
    long count = peer_amount(round, round->size);
    uint64_t ahead = round->quick ? 200 : 1000, state = 88172645463325252u;
    uv_timer_t *timers = calloc((size_t)count, sizeof *timers);
    PEER_CHECK(timers != NULL);
    int64_t before = peer_processor_time();
    for (long i = 0; i < count; i++) {
        PEER_CHECK(uv_timer_init(uv_default_loop(), &timers[i]) == 0);
        PEER_CHECK(uv_timer_start(&timers[i], fired, ahead + peer_random(&state) % ahead, 0) == 0);
    }
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    int64_t used = peer_processor_time() - before;
    PEER_CHECK(completed == count);
    PEER_PARAMS(round, "timers=%ld due=%ld..%ldms time=cpu", count, (long)ahead, (long)(2 * ahead));
    round->processors = 1;
    return (double)used / (double)count;
}

/* Lateness. */

enum { TICKERS = 1000, PERIOD_MS = 10, BLOCKERS = 64, BLOCKERS_QUICK = 16, SAMPLES_MOST = 4000000 };

static struct {
    uv_timer_t tickers[TICKERS];
    int64_t due[TICKERS];
    uv_work_t blockers[BLOCKERS];
    long samples;
    int blocking, blocked; /* how many are to block, and do */
    double *late;
} ticks;

static void tick(uv_timer_t *timer);

/* By the schedule: the repeat of a timer would count from when it fired. */
static void arm(uv_timer_t *timer, int64_t due)
{
    uv_update_time(timer->loop);
    int64_t left = due - peer_now();
    uv_timer_start(timer, tick, left > 0 ? (uint64_t)(left + 999999) / 1000000 : 0, 0);
}

static void tick(uv_timer_t *timer)
{
    int64_t *due = &ticks.due[timer - ticks.tickers];
    if (ticks.samples < SAMPLES_MOST)
        ticks.late[ticks.samples++] = (double)(peer_now() - *due) / 1e9;
    *due += PERIOD_MS * INT64_C(1000000);
    arm(timer, *due);
}

static void block(uv_work_t *work)
{
    (void)work;
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000000}, NULL);
}

static void unblocked(uv_work_t *work, int status)
{
    (void)status;
    if (--ticks.blocked == 0)
        uv_stop(work->loop);
}

static void begin_blocking(uv_timer_t *timer)
{
    ticks.samples = 0;
    ticks.blocked = ticks.blocking;
    for (int i = 0; i < ticks.blocking; i++)
        PEER_CHECK(uv_queue_work(timer->loop, &ticks.blockers[i], block, unblocked) == 0);
}

static double measure_lateness(struct peer_round *round)
{
    uv_timer_t beginning;
    uv_loop_t *loop = uv_default_loop();
    ticks.blocking = round->quick ? BLOCKERS_QUICK : BLOCKERS;
    ticks.late = calloc(SAMPLES_MOST, sizeof *ticks.late);
    PEER_CHECK(ticks.late != NULL);
    for (int i = 0; i < TICKERS; i++) {
        uv_timer_init(loop, &ticks.tickers[i]);
        ticks.due[i] = peer_now() + PERIOD_MS * INT64_C(1000000);
        arm(&ticks.tickers[i], ticks.due[i]);
    }
    uv_timer_init(loop, &beginning);
    uv_timer_start(&beginning, begin_blocking, 50, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    return peer_lateness(round, ticks.late, ticks.samples, TICKERS, ticks.blocking,
                         "uv_queue_work");
}

/* Echo. */

enum { MESSAGE = 64 };

struct end {
    uv_tcp_t tcp;
    uv_connect_t connect;
    char data[MESSAGE];
    long left; /* messages of a client */
    size_t got;
};

static struct {
    long connections, messages;
    struct sockaddr_in address;
    uv_sem_t listening;
} echo;

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct end *end = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(end->data + end->got, (unsigned)(MESSAGE - end->got));
}

static void closed(uv_handle_t *handle)
{
    free(handle->data);
}

struct message {
    uv_write_t write; /* first */
    char data[MESSAGE];
};

static void written(uv_write_t *write, int status)
{
    PEER_CHECK(status == 0);
    free(write);
}

static void send_message(struct end *end, size_t size)
{
    struct message *message = malloc(sizeof *message);
    PEER_CHECK(message != NULL);
    memcpy(message->data, end->data, size);
    uv_buf_t buffer = uv_buf_init(message->data, (unsigned)size);
    PEER_CHECK(uv_write(&message->write, (uv_stream_t *)&end->tcp, &buffer, 1, written) == 0);
}

static void server_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    (void)buffer;
    if (got < 0)
        uv_close((uv_handle_t *)stream, closed);
    else if (got > 0)
        send_message(stream->data, (size_t)got);
}

static void client_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct end *end = stream->data;
    (void)buffer;
    PEER_CHECK(got >= 0);
    end->got += (size_t)got;
    if (end->got < MESSAGE)
        return;
    end->got = 0;
    if (--end->left > 0)
        send_message(end, MESSAGE);
    else
        uv_close((uv_handle_t *)stream, closed);
}

static struct end *new_end(uv_loop_t *loop)
{
    struct end *end = calloc(1, sizeof *end);
    PEER_CHECK(end != NULL && uv_tcp_init(loop, &end->tcp) == 0);
    end->tcp.data = end;
    return end;
}

static void accepted(uv_stream_t *listener, int status)
{
    struct end *end = new_end(listener->loop);
    PEER_CHECK(status == 0 && uv_accept(listener, (uv_stream_t *)&end->tcp) == 0);
    uv_tcp_nodelay(&end->tcp, 1);
    uv_read_start((uv_stream_t *)&end->tcp, give_buffer, server_read);
    if (--echo.connections == 0)
        uv_close((uv_handle_t *)listener, NULL);
}

static void serve(void *arg)
{
    uv_loop_t loop;
    uv_tcp_t listener;
    int length = sizeof echo.address;
    (void)arg;
    uv_loop_init(&loop);
    uv_tcp_init(&loop, &listener);
    uv_ip4_addr("127.0.0.1", 0, &echo.address);
    PEER_CHECK(uv_tcp_bind(&listener, (struct sockaddr *)&echo.address, 0) == 0);
    PEER_CHECK(uv_listen((uv_stream_t *)&listener, 1024, accepted) == 0);
    PEER_CHECK(uv_tcp_getsockname(&listener, (struct sockaddr *)&echo.address, &length) == 0);
    uv_sem_post(&echo.listening);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

static void connected(uv_connect_t *connect, int status)
{
    struct end *end = connect->handle->data;
    PEER_CHECK(status == 0);
    uv_tcp_nodelay(&end->tcp, 1);
    uv_read_start((uv_stream_t *)&end->tcp, give_buffer, client_read);
    end->left = echo.messages;
    send_message(end, MESSAGE);
}

static double measure_echo(struct peer_round *round)
{
    uv_thread_t server;
    uv_loop_t *loop = uv_default_loop();
    echo.connections = round->size;
    echo.messages = peer_amount(round, 100000) / round->size;
    uv_sem_init(&echo.listening, 0);
    int64_t start = peer_now();
    uv_thread_create(&server, serve, NULL);
    uv_sem_wait(&echo.listening);
    for (long i = 0; i < round->size; i++) {
        struct end *end = new_end(loop);
        PEER_CHECK(uv_tcp_connect(&end->connect, &end->tcp, (struct sockaddr *)&echo.address,
                                  connected) == 0);
    }
    uv_run(loop, UV_RUN_DEFAULT);
    int64_t elapsed = peer_now() - start;
    uv_thread_join(&server);
    PEER_PARAMS(round, "connections=%ld messages=%ld bytes=%d", round->size, echo.messages,
                MESSAGE);
    return (double)elapsed / (double)(round->size * echo.messages);
}

int main(int argc, char **argv)
{
    static const struct peer_case cases[] = {
        {"pool_noop", "ns/op", measure_noop, 1, false, false},
        {"timers", "ns/op", measure_timers, 1000000, true, false},
        {"tick_lateness", "s", measure_lateness, 0, true, false},
        {"echo", "ns/op", measure_echo, 100, false, false},
        {NULL, NULL, NULL, 0, false, false},
    };
    return peer_main(argc, argv, "libuv", uv_version_string(), cases, 0);
}
