/*
 * main.c: weft-lines: counts cache line transfers of each hot operation, with 1 to 64 processors.
 *
 * docs/design/scaling.md has the table and its interpretation.
 *
 *     weft-lines                     the table: a process for each number of processors
 *     weft-lines OPERATION PROCS     one entry, and the places in the sources
 *
 * Each processor has four drivers: fibers that perform the operation in a loop, on objects of their
 * own. So no processor is idle, and the count shows what weft itself shares. It starts when all
 * drivers have warmed up and stops before the first driver ends.
 */
#include <weft/weft.h>

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lines.h"

enum { WARM = 1000, COUNTED = 1000, YIELD_EVERY = 8, DRIVERS_EACH = 4, MOST_PROCS = 64 };

static void must(int64_t result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "weft-lines: %s: %s\n", what, strerror((int)-result));
    exit(1);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* ---- drivers ---- */

struct driver {
    _Alignas(128) uint64_t carried_out; /* operations performed */
};

static struct {
    const struct operation *operation;
    int drivers;
    bool stop;
    weft_wg done;
} job;

static struct driver drivers[MOST_PROCS * DRIVERS_EACH];

/* True if the driver is to perform another operation. Yields now and then: a fiber that never parks
 * would otherwise be moved at the end of its time slice, which is long under instrumentation. */
static bool again(struct driver *driver)
{
    __atomic_store_n(&driver->carried_out, driver->carried_out + 1, __ATOMIC_RELAXED);
    if (driver->carried_out % YIELD_EVERY == 0)
        weft_yield();
    return !__atomic_load_n(&job.stop, __ATOMIC_RELAXED);
}

/* ---- the operations ---- */

static void yields(struct driver *driver)
{
    while (again(driver))
        weft_yield();
}

static void spawns(struct driver *driver)
{
    while (again(driver)) {
        must(weft_go(nothing, NULL), "weft_go");
        weft_yield();
    }
}

struct pair {
    weft_chan *there, *back;
};

static void answer(void *arg)
{
    struct pair *pair = arg;
    while (weft_chan_receive(pair->there, NULL) == 0)
        must(weft_chan_send(pair->back, NULL), "send");
}

static void wakes(struct driver *driver)
{
    struct pair pair;
    must(weft_chan_make(&pair.there, 0, 0), "weft_chan_make");
    must(weft_chan_make(&pair.back, 0, 0), "weft_chan_make");
    weft_fiber *other;
    must(weft_spawn(&other, answer, &pair, NULL), "weft_spawn");
    while (again(driver)) {
        must(weft_chan_send(pair.there, NULL), "send");
        must(weft_chan_receive(pair.back, NULL), "receive");
    }
    weft_chan_close(pair.there);
    must(weft_join(other), "weft_join");
    weft_chan_destroy(pair.there);
    weft_chan_destroy(pair.back);
}

static void channels(struct driver *driver)
{
    weft_chan *chan;
    must(weft_chan_make(&chan, sizeof(int), 8), "weft_chan_make");
    int i = 0, got;
    while (again(driver)) {
        must(weft_chan_send(chan, &i), "send");
        must(weft_chan_receive(chan, &got), "receive");
    }
    weft_chan_destroy(chan);
}

static void selects(struct driver *driver)
{
    weft_chan *full, *empty;
    must(weft_chan_make(&full, sizeof(int), 1), "weft_chan_make");
    must(weft_chan_make(&empty, sizeof(int), 1), "weft_chan_make");
    int i = 0, got;
    while (again(driver)) {
        must(weft_chan_send(full, &i), "send");
        weft_case cases[] = {{.chan = empty, .op = WEFT_RECEIVE, .element = &got},
                             {.chan = full, .op = WEFT_RECEIVE, .element = &got}};
        must(weft_select(cases, 2), "weft_select");
    }
    weft_chan_destroy(full);
    weft_chan_destroy(empty);
}

static void mutexes(struct driver *driver)
{
    weft_mutex *mutex = calloc(1, sizeof *mutex);
    while (again(driver)) {
        weft_mutex_lock(mutex);
        weft_mutex_unlock(mutex);
    }
    weft_mutex_destroy(mutex);
    free(mutex);
}

static void timers(struct driver *driver)
{
    weft_timer *timer;
    must(weft_timer_open(&timer, nothing, NULL), "weft_timer_open");
    while (again(driver)) {
        must(weft_timer_start(timer, weft_after(WEFT_S), 0), "weft_timer_start");
        weft_timer_stop(timer);
    }
    weft_timer_close(timer);
}

static void sleeps(struct driver *driver)
{
    while (again(driver))
        weft_sleep(20 * WEFT_US);
}

static weft_pool *pool;

static void submits(struct driver *driver)
{
    while (again(driver))
        must(weft_pool_submit(pool, nothing, NULL), "weft_pool_submit");
}

static void open_pair(weft_conn *conns[2])
{
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ? -errno : 0, "socketpair");
    must(weft_conn_from_fd(&conns[0], ends[0]), "weft_conn_from_fd");
    must(weft_conn_from_fd(&conns[1], ends[1]), "weft_conn_from_fd");
}

static void close_pair(weft_conn *conns[2])
{
    weft_conn_close(conns[0]);
    weft_conn_close(conns[1]);
}

static void reads(struct driver *driver)
{
    weft_conn *conns[2];
    open_pair(conns);
    while (again(driver)) {
        char byte = 1;
        must(weft_conn_write(conns[0], &byte, 1, WEFT_NEVER), "weft_conn_write");
        must(weft_conn_read(conns[1], &byte, 1, WEFT_NEVER), "weft_conn_read");
    }
    close_pair(conns);
}

/* The socket is empty when the read begins: the reader parks, and the poller wakes it. */
struct feed {
    weft_conn *conn;
    weft_chan *go;
};

static void feeder(void *arg)
{
    struct feed *feed = arg;
    char byte = 1;
    while (weft_chan_receive(feed->go, NULL) == 0)
        must(weft_conn_write(feed->conn, &byte, 1, WEFT_NEVER), "weft_conn_write");
}

static void read_waits(struct driver *driver)
{
    weft_conn *conns[2];
    open_pair(conns);
    struct feed feed = {.conn = conns[0]};
    must(weft_chan_make(&feed.go, 0, 1), "weft_chan_make");
    weft_fiber *other;
    must(weft_spawn(&other, feeder, &feed, NULL), "weft_spawn");
    while (again(driver)) {
        char byte;
        must(weft_chan_send(feed.go, NULL), "send");
        must(weft_conn_read(conns[1], &byte, 1, WEFT_NEVER), "weft_conn_read");
    }
    weft_chan_close(feed.go);
    must(weft_join(other), "weft_join");
    weft_chan_destroy(feed.go);
    close_pair(conns);
}

static void accepts(struct driver *driver)
{
    weft_listener *listener;
    char name[64];
    snprintf(name, sizeof name, "unix:@weft-lines-%d-%lu", (int)getpid(),
             (unsigned long)weft_fiber_id(weft_self()));
    must(weft_listener_open(&listener, name, NULL), "weft_listener_open");
    while (again(driver)) {
        weft_conn *conns[2];
        must(weft_conn_dial(&conns[0], name, NULL, WEFT_NEVER), "weft_conn_dial");
        must(weft_listener_accept(listener, &conns[1], WEFT_NEVER), "weft_listener_accept");
        close_pair(conns);
    }
    weft_listener_close(listener);
}

static const struct operation {
    const char *name, *what;
    void (*drive)(struct driver *driver);
    bool pooled; /* the operation needs the pool */
} operations[] = {
    {"yield", "weft_yield", yields, false},
    {"spawn", "weft_go, the fiber's run and its end", spawns, false},
    {"wake", "two wakes and parks over unbuffered channels", wakes, false},
    {"channel", "send and receive, buffered", channels, false},
    {"select", "send, then a select of two", selects, false},
    {"mutex", "lock and unlock", mutexes, false},
    {"timer", "start and stop of a timer", timers, false},
    {"sleep", "a sleep of 20 us", sleeps, false},
    {"submit", "submit, run and end of a pool's task", submits, true},
    {"read", "write and read of a socket with data", reads, false},
    {"read_wait", "a read that parks, and its wake", read_waits, false},
    {"accept", "dial, accept and close of both ends", accepts, false},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* ---- one entry ---- */

static void drive(void *arg)
{
    job.operation->drive(arg);
    weft_wg_done(&job.done);
}

static uint64_t carried_out(uint64_t *least)
{
    uint64_t sum = 0;
    *least = UINT64_MAX;
    for (int i = 0; i < job.drivers; i++) {
        uint64_t each = __atomic_load_n(&drivers[i].carried_out, __ATOMIC_RELAXED);
        sum += each;
        *least = each < *least ? each : *least;
    }
    return sum;
}

/* Waits for `sum` operations in all and `each` of every driver. Returns the number performed. */
static uint64_t await(uint64_t sum, uint64_t each)
{
    uint64_t now, least;
    while ((now = carried_out(&least)) < sum || least < each)
        usleep(1000);
    return now;
}

/* Transfers per operation. */
static double measure(const struct operation *operation, int procs, bool report)
{
    char text[16];
    snprintf(text, sizeof text, "%d", procs);
    setenv("WEFT_PROCS", text, 1);
    job.operation = operation;
    job.drivers = procs * DRIVERS_EACH;
    if (operation->pooled)
        must(weft_pool_open(&pool, &(weft_pool_options){.capacity = 10000, .queue = 1000000}),
             "weft_pool_open");
    weft_wg_init(&job.done, job.drivers);
    for (int i = 0; i < job.drivers; i++)
        must(weft_go(drive, &drivers[i]), "weft_go");
    uint64_t warm = await(0, WARM);
    lines_begin();
    uint64_t after = await(warm + (uint64_t)job.drivers * COUNTED, 0);
    uint64_t transfers = lines_end();
    __atomic_store_n(&job.stop, true, __ATOMIC_RELAXED);
    weft_wg_wait(&job.done);
    if (report)
        lines_report(after - warm, 0.0005);
    return (double)transfers / (double)(after - warm);
}

/* ---- the table ---- */

static double measure_apart(const struct operation *operation, int procs)
{
    int ends[2];
    double value = -1;
    must(pipe(ends) ? -errno : 0, "pipe");
    pid_t child = fork();
    must(child < 0 ? -errno : 0, "fork");
    if (child == 0) {
        value = measure(operation, procs, false);
        _exit(write(ends[1], &value, sizeof value) == sizeof value ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &value, sizeof value) != sizeof value)
        value = -1;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return value;
}

static void table(void)
{
    static const int counts[] = {1, 2, 4, 8, 16, 32, 64};
    enum { COUNTS = sizeof counts / sizeof *counts };
    printf("| operation |");
    for (int i = 0; i < COUNTS; i++)
        printf(" %d |", counts[i]);
    printf("\n|---|");
    for (int i = 0; i < COUNTS; i++)
        printf("--:|");
    for (int o = 0; o < OPERATIONS; o++) {
        printf("\n| `%s`: %s |", operations[o].name, operations[o].what);
        for (int i = 0; i < COUNTS; i++) {
            printf(" %.3f |", measure_apart(&operations[o], counts[i]));
            fflush(stdout);
        }
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        table();
        return 0;
    }
    int procs = argc == 3 ? atoi(argv[2]) : 0;
    for (int o = 0; o < OPERATIONS; o++) {
        if (strcmp(argv[1], operations[o].name) == 0 && procs >= 1 && procs <= MOST_PROCS) {
            double each = measure(&operations[o], procs, true);
            printf("%s on %d processors: %.4f transfers\n", argv[1], procs, each);
            return 0;
        }
    }
    fprintf(stderr, "usage: weft-lines [OPERATION PROCS], PROCS from 1 to 64; operations:\n");
    for (int o = 0; o < OPERATIONS; o++)
        fprintf(stderr, "  %-10s %s\n", operations[o].name, operations[o].what);
    return 2;
}
