/*
 * state_threads.c: State Threads: threads of its own on one thread of the system, whatever the
 * number of processors; the parameters say processors=1.
 *
 * It has no call to yield: st_usleep(0) is how its users do it. A bounded pool is a count and a
 * condition. Stacks have its default size, 64 KB; where there are very many threads, 16 KB.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <st.h>
#include <sys/socket.h>

#include "peer.h"

enum { DEFAULT_STACK = 0, SMALL_STACK = 16 * 1024 };

static void initialise(void)
{
    static bool done;
    if (!done)
        PEER_CHECK(st_set_eventsys(ST_EVENTSYS_ALT) == 0 && st_init() == 0); /* epoll */
    done = true;
}

static int64_t in_threads(long count, void *(*function)(void *), void *arg)
{
    st_thread_t *threads = calloc((size_t)count, sizeof(st_thread_t));
    PEER_CHECK(threads != NULL);
    int64_t start = peer_now();
    for (long i = 0; i < count; i++)
        PEER_CHECK((threads[i] = st_thread_create(function, arg, 1, DEFAULT_STACK)) != NULL);
    for (long i = 0; i < count; i++)
        st_thread_join(threads[i], NULL);
    int64_t elapsed = peer_now() - start;
    free(threads);
    return elapsed;
}

static void *yield_often(void *arg)
{
    for (long i = *(long *)arg; i > 0; i--)
        st_usleep(0);
    return NULL;
}

static double measure_yield(struct peer_round *round)
{
    long yields = peer_amount(round, 10 * 1000 * 1000) / round->size;
    initialise();
    int64_t elapsed = in_threads(round->size, yield_often, &yields);
    PEER_PARAMS(round, "fibers=%ld yields=%ld by=st_usleep(0)", round->size, yields);
    return (double)elapsed / (double)(round->size * yields);
}

enum { BATCH = 100 };

static void *nothing(void *arg)
{
    return arg;
}

static double measure_spawn(struct peer_round *round)
{
    long batches = peer_amount(round, 500 * 1000) / BATCH;
    initialise();
    int64_t start = peer_now();
    for (long i = 0; i < batches; i++)
        in_threads(BATCH, nothing, NULL);
    PEER_PARAMS(round, "spawners=1 batch=%d batches=%ld", BATCH, batches);
    return (double)(peer_now() - start) / (double)(batches * BATCH);
}

struct contest {
    st_mutex_t mutex;
    long each, counter;
};

static void *add(void *arg)
{
    struct contest *contest = arg;
    for (long i = 0; i < contest->each; i++) {
        st_mutex_lock(contest->mutex);
        contest->counter++;
        st_mutex_unlock(contest->mutex);
    }
    return NULL;
}

static double measure_mutex(struct peer_round *round)
{
    initialise();
    struct contest contest = {.mutex = st_mutex_new(),
                              .each = peer_amount(round, 2 * 1000 * 1000) / round->size};
    int64_t elapsed = in_threads(round->size, add, &contest);
    PEER_CHECK(contest.counter == contest.each * round->size);
    st_mutex_destroy(contest.mutex);
    PEER_PARAMS(round, "fibers=%ld operations=%ld", round->size, contest.counter);
    return (double)elapsed / (double)contest.counter;
}

/* A flood of sleeps. */

static struct {
    long inside, ran;
    st_cond_t left;
} pool;

static void *sleep_10ms(void *arg)
{
    st_usleep(10000);
    pool.inside--;
    pool.ran++;
    st_cond_signal(pool.left);
    return arg;
}

static double measure_pool_sleep(struct peer_round *round)
{
    enum { CAPACITY = 50000 };
    long tasks = peer_amount(round, round->size);
    initialise();
    pool.left = st_cond_new();
    int64_t start = peer_now();
    for (long i = 0; i < tasks; i++) {
        while (pool.inside == CAPACITY)
            st_cond_wait(pool.left);
        pool.inside++;
        PEER_CHECK(st_thread_create(sleep_10ms, NULL, 0, SMALL_STACK) != NULL);
    }
    while (pool.inside > 0)
        st_cond_wait(pool.left);
    int64_t elapsed = peer_now() - start;
    PEER_CHECK(pool.ran == tasks);
    PEER_PARAMS(round, "tasks=%ld sleep=10ms capacity=%d stack=16KB", tasks, CAPACITY);
    return (double)elapsed / 1e9;
}

static struct {
    long arrived;
    st_cond_t gate;
} crowd;

static void *park(void *arg)
{
    crowd.arrived++;
    st_cond_wait(crowd.gate);
    return arg;
}

static double measure_parked(struct peer_round *round)
{
    long count = peer_amount(round, round->size);
    initialise();
    crowd.gate = st_cond_new();
    double before = peer_resident();
    for (long i = 0; i < count; i++)
        PEER_CHECK(st_thread_create(park, NULL, 0, SMALL_STACK) != NULL);
    while (crowd.arrived < count)
        st_usleep(0);
    PEER_PARAMS(round, "fibers=%ld stack=16KB", count);
    return (peer_resident() - before) / (double)count;
}

/* Echo. */

enum { MESSAGE = 64 };

static struct {
    long connections, messages;
    struct sockaddr_in address;
    st_netfd_t listener;
} echo;

static void *answer(void *arg)
{
    st_netfd_t conn = arg;
    char data[MESSAGE];
    for (ssize_t got; (got = st_read(conn, data, sizeof data, ST_UTIME_NO_TIMEOUT)) > 0;)
        PEER_CHECK(st_write(conn, data, (size_t)got, ST_UTIME_NO_TIMEOUT) == got);
    st_netfd_close(conn);
    return NULL;
}

static void *serve(void *arg)
{
    for (long i = 0; i < echo.connections; i++) {
        st_netfd_t conn = st_accept(echo.listener, NULL, NULL, ST_UTIME_NO_TIMEOUT);
        PEER_CHECK(conn != NULL);
        PEER_CHECK(st_thread_create(answer, conn, 0, DEFAULT_STACK) != NULL);
    }
    return arg;
}

static void *ask(void *arg)
{
    char data[MESSAGE] = "";
    st_netfd_t conn = st_netfd_open_socket(socket(AF_INET, SOCK_STREAM, 0));
    PEER_CHECK(conn != NULL);
    PEER_CHECK(st_connect(conn, (struct sockaddr *)&echo.address, sizeof echo.address,
                          ST_UTIME_NO_TIMEOUT) == 0);
    for (long i = 0; i < echo.messages; i++) {
        PEER_CHECK(st_write(conn, data, MESSAGE, ST_UTIME_NO_TIMEOUT) == MESSAGE);
        PEER_CHECK(st_read_fully(conn, data, MESSAGE, ST_UTIME_NO_TIMEOUT) == MESSAGE);
    }
    st_netfd_close(conn);
    return arg;
}

static double measure_echo(struct peer_round *round)
{
    socklen_t length = sizeof echo.address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    initialise();
    echo.connections = round->size;
    echo.messages = peer_amount(round, 100000) / round->size;
    memset(&echo.address, 0, sizeof echo.address);
    echo.address.sin_family = AF_INET;
    echo.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    PEER_CHECK(bind(listener, (struct sockaddr *)&echo.address, length) == 0);
    PEER_CHECK(listen(listener, 1024) == 0);
    PEER_CHECK(getsockname(listener, (struct sockaddr *)&echo.address, &length) == 0);
    PEER_CHECK((echo.listener = st_netfd_open_socket(listener)) != NULL);
    int64_t start = peer_now();
    PEER_CHECK(st_thread_create(serve, NULL, 0, DEFAULT_STACK) != NULL);
    in_threads(echo.connections, ask, NULL);
    int64_t elapsed = peer_now() - start;
    st_netfd_close(echo.listener);
    PEER_PARAMS(round, "connections=%ld messages=%ld bytes=%d", echo.connections, echo.messages,
                MESSAGE);
    return (double)elapsed / (double)(echo.connections * echo.messages);
}

int main(int argc, char **argv)
{
    static const struct peer_case cases[] = {
        {"yield_one", "ns/op", measure_yield, 1000, false, false},
        {"spawn", "ns/op", measure_spawn, 0, false, false},
        {"mutex", "ns/op", measure_mutex, 8, false, false},
        {"pool_sleep", "s", measure_pool_sleep, 1000000, true, false},
        {"pool_sleep_100k", "s", measure_pool_sleep, 100000, true, false},
        {"pool_sleep_10m", "s", measure_pool_sleep, 10000000, true, false},
        {"parked", "bytes", measure_parked, 1000000, true, false},
        {"echo", "ns/op", measure_echo, 100, false, false},
        {NULL, NULL, NULL, 0, false, false},
    };
    return peer_main(argc, argv, "state-threads", PEER_VERSION, cases, 1);
}
