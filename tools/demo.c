/*
 * demo.c: weft-demo: a million sleeping tasks on a pool, as fibers, and on plain threads.
 *
 * The part with threads is scaled down so that it ends. Each part runs in a child process, so that
 * its peak memory is its own. The parent only watches: it shares a page of counters with the child,
 * draws a progress bar if stdout is a terminal, and restores the terminal in any case.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <weft/weft.h>

enum { TASKS_MOST = 1000000000, THREADS_MOST = 1000, THREAD_ROUNDS = 10, BAR_MOST = 50 };
enum { CAPACITY_DEFAULT = 50000 };
#define SLEEP_MOST (3600 * WEFT_S)
#define REDRAW (50 * WEFT_MS)

struct work {
    int64_t tasks;
    int64_t sleep;    /* ns */
    int64_t capacity; /* of the pool */
};

/* Shared between parent and child. */
static struct counters {
    _Atomic int64_t finished;
    _Atomic int64_t alive;      /* at the last start */
    _Atomic int64_t most_alive; /* at once */
    int64_t workers;            /* most at once: of the pool, or fibers or threads alive */
    int64_t elapsed;            /* ns */
    int processors;
    int threads; /* of the process, main included */
} * counters;

struct part {
    struct counters counters;
    long peak_kb;
};

/* Numbers for output. Eight texts can be in use at the same time. */

static char *text_buffer(void)
{
    static char texts[8][64];
    static unsigned turn;
    return texts[turn++ % 8];
}

static const char *grouped(int64_t number)
{
    char digits[32], *text = text_buffer(), *out = text;
    int length = snprintf(digits, sizeof digits, "%" PRId64, number);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return text;
}

static const char *duration(double ns)
{
    char *text = text_buffer();
    if (ns < 10e6 && ns != 0)
        snprintf(text, 64, "%.3g ms", ns / 1e6);
    else if (ns < 1e9)
        snprintf(text, 64, "%.0f ms", ns / 1e6);
    else
        snprintf(text, 64, ns < 100e9 ? "%.2f s" : "%.0f s", ns / 1e9);
    return text;
}

static const char *megabytes(long kilobytes)
{
    char *text = text_buffer();
    snprintf(text, 64, "%.1f MB", (double)kilobytes / 1024);
    return text;
}

/* The children. */

/* Notes that `started` tasks have been started. Called after each start: only a start raises the
 * number alive, so no peak is missed. */
static void note_alive(int64_t started)
{
    int64_t alive = started - atomic_load_explicit(&counters->finished, memory_order_relaxed);
    atomic_store_explicit(&counters->alive, alive, memory_order_relaxed);
    if (alive > atomic_load_explicit(&counters->most_alive, memory_order_relaxed))
        atomic_store_explicit(&counters->most_alive, alive, memory_order_relaxed);
}

static int own_threads(void)
{
    char line[128];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "Threads:", 8) == 0)
            count = (int)strtol(line + 8, NULL, 10);
    if (file != NULL)
        fclose(file);
    return count;
}

static int64_t task_sleep;

static void pool_task(void *arg)
{
    (void)arg;
    weft_sleep(task_sleep);
    atomic_fetch_add_explicit(&counters->finished, 1, memory_order_relaxed);
}

static int submit_all(weft_pool *pool, int64_t tasks)
{
    for (int64_t i = 0; i < tasks; i++) {
        int error = weft_pool_submit(pool, pool_task, NULL);
        if (error != 0) {
            fprintf(stderr, "weft-demo: task %s: %s\n", grouped(i + 1), weft_strerror(error));
            return error;
        }
        note_alive(i + 1);
    }
    return 0;
}

static int run_pool(const struct work *work)
{
    weft_pool *pool;
    weft_pool_stats stats;
    task_sleep = work->sleep;
    int64_t start = weft_now();
    int error = weft_pool_open(&pool, &(weft_pool_options){.capacity = work->capacity});
    if (error != 0) {
        fprintf(stderr, "weft-demo: pool: %s\n", weft_strerror(error));
        return 1;
    }
    error = submit_all(pool, work->tasks);
    if (weft_pool_stop(pool, WEFT_NEVER) != 0 || weft_pool_stats_get(pool, &stats) != 0 ||
        weft_pool_close(pool) != 0 || error != 0)
        return 1;
    counters->elapsed = weft_now() - start;
    counters->processors = weft_processors();
    counters->threads = own_threads();
    counters->workers = stats.most_workers;
    return 0;
}

static weft_wg all_done;

static void fiber_task(void *arg)
{
    pool_task(arg);
    weft_wg_done(&all_done);
}

static int run_fibers(const struct work *work)
{
    task_sleep = work->sleep;
    weft_wg_init(&all_done, work->tasks);
    int64_t start = weft_now();
    for (int64_t i = 0; i < work->tasks; i++) {
        int error = weft_go(fiber_task, NULL);
        if (error != 0) {
            fprintf(stderr, "weft-demo: fiber %s: %s\n", grouped(i + 1), weft_strerror(error));
            return 1;
        }
        note_alive(i + 1);
    }
    weft_wg_wait(&all_done);
    counters->elapsed = weft_now() - start;
    counters->processors = weft_processors();
    counters->threads = own_threads();
    counters->workers = counters->most_alive;
    return 0;
}

static sem_t places; /* bounds the threads alive */

static void *thread_task(void *arg)
{
    (void)arg;
    struct timespec left = {.tv_sec = task_sleep / WEFT_S, .tv_nsec = task_sleep % WEFT_S};
    while (nanosleep(&left, &left) != 0)
        continue;
    atomic_fetch_add_explicit(&counters->finished, 1, memory_order_relaxed);
    sem_post(&places);
    return NULL;
}

static void take_place(void)
{
    while (sem_wait(&places) != 0)
        continue;
}

static int start_thread(void)
{
    pthread_t thread;
    take_place();
    int error = pthread_create(&thread, NULL, thread_task, NULL);
    if (error == 0)
        pthread_detach(thread);
    return error;
}

/* A thread for each task, THREADS_MOST at once. */
static int run_threads(const struct work *work)
{
    task_sleep = work->sleep;
    sem_init(&places, 0, THREADS_MOST);
    int64_t start = weft_now();
    for (int64_t i = 0; i < work->tasks; i++) {
        int error = start_thread();
        if (error != 0) {
            fprintf(stderr, "weft-demo: thread %s: %s\n", grouped(i + 1), strerror(error));
            return 1;
        }
        note_alive(i + 1);
    }
    for (int i = 0; i < THREADS_MOST; i++)
        take_place();
    counters->elapsed = weft_now() - start;
    counters->threads = (int)counters->most_alive + 1;
    counters->workers = counters->most_alive;
    return 0;
}

/* The terminal. */

static bool live; /* a bar is being drawn */

static void put(const char *text, size_t length)
{
    fflush(stdout);
    while (length > 0) {
        ssize_t put = write(STDOUT_FILENO, text, length);
        if (put <= 0 && errno != EINTR)
            return;
        if (put > 0) {
            text += put;
            length -= (size_t)put;
        }
    }
}

static void bar_begin(void)
{
    static const char hide_cursor[] = "\x1b[?25l";
    const char *terminal = getenv("TERM");
    live = isatty(STDOUT_FILENO) && (terminal == NULL || strcmp(terminal, "dumb") != 0);
    if (live)
        put(hide_cursor, sizeof hide_cursor - 1);
}

static void bar_end(void)
{
    static const char clear_line_show_cursor[] = "\r\x1b[K\x1b[?25h";
    if (live)
        put(clear_line_show_cursor, sizeof clear_line_show_cursor - 1);
    live = false;
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* One write for each picture, over the previous one, so that nothing flickers. */
static void bar_draw(const char *title, const struct work *work)
{
    char figures[96], line[256];
    int64_t finished = counters->finished;
    int percent = (int)(100 * finished / work->tasks);
    int digits = (int)strlen(grouped(work->tasks));
    snprintf(figures, sizeof figures, " %3d%%  %*s done, %*s alive", percent, digits,
             grouped(finished), digits, grouped(finished < work->tasks ? counters->alive : 0));
    int width = columns() - (int)strlen(title) - (int)strlen(figures) - 6;
    if (width > BAR_MOST)
        width = BAR_MOST;
    int length = snprintf(line, sizeof line, "\r%s", title);
    if (width >= 10) {
        int filled = width * percent / 100;
        length +=
            snprintf(line + length, sizeof line - (size_t)length, "  [%.*s%*s]", filled,
                     "##################################################", width - filled, "");
    }
    length += snprintf(line + length, sizeof line - (size_t)length, "%s\x1b[K", figures);
    put(line, (size_t)length);
}

/* The parent. */

static void forget(void)
{
    memset(counters, 0, sizeof *counters);
}

static pid_t start_child(int (*run)(const struct work *), const struct work *work,
                         const sigset_t *mask)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    _exit(run(work));
}

/* After SIGINT or SIGTERM. */
static void leave(pid_t child, int signal)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    bar_end();
    exit(128 + signal);
}

/* Watches the child until it ends; its wait status. */
static int watch(pid_t child, const char *title, const struct work *work, struct rusage *usage)
{
    static const struct timespec redraw = {.tv_nsec = REDRAW};
    int status;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGCHLD);
    bar_begin();
    while (wait4(child, &status, WNOHANG, usage) != child) {
        if (live)
            bar_draw(title, work);
        int signal = sigtimedwait(&signals, NULL, live ? &redraw : NULL);
        if (signal == SIGINT || signal == SIGTERM)
            leave(child, signal);
    }
    bar_end();
    return status;
}

static bool run_part(struct part *part, int (*run)(const struct work *), const char *title,
                     const struct work *work, const sigset_t *mask)
{
    struct rusage usage;
    forget();
    pid_t child = start_child(run, work, mask);
    if (child < 0) {
        perror("weft-demo: fork");
        return false;
    }
    int status = watch(child, title, work, &usage);
    if (WIFSIGNALED(status))
        fprintf(stderr, "weft-demo: %s: %s\n", title, strsignal(WTERMSIG(status)));
    *part = (struct part){.counters = *counters, .peak_kb = usage.ru_maxrss};
    return status == 0;
}

/* The part of the work that threads complete in about a second: up to ten rounds of
 * THREADS_MOST. */
static struct work scale_down(struct work work)
{
    int64_t rounds = WEFT_S / (work.sleep + 1);
    if (rounds < 1)
        rounds = 1;
    if (rounds > THREAD_ROUNDS)
        rounds = THREAD_ROUNDS;
    if (work.tasks > rounds * THREADS_MOST)
        work.tasks = rounds * THREADS_MOST;
    return work;
}

enum { PARTS = 3, COLUMNS = PARTS + 1 }; /* the last column: threads, extrapolated */

/* Prints no trailing blanks for empty columns. */
static void row(const char *name, const char *const columns[COLUMNS])
{
    int filled = COLUMNS;
    while (filled > 0 && *columns[filled - 1] == '\0')
        filled--;
    printf("  %-17s", name);
    for (int i = 0; i < filled; i++)
        printf(" %14s", columns[i]);
    putchar('\n');
}

#define ROW(name, ...) row((name), (const char *const[COLUMNS]){__VA_ARGS__})

static void print_heads(const struct work *work, bool whole)
{
    char of[64];
    snprintf(of, sizeof of, "of %s", grouped(work->capacity));
    ROW("", "weft pool", "weft fibers", "plain threads", whole ? "" : "plain threads");
    ROW("", of, "one a task", whole ? "one a task" : "scaled down", whole ? "" : "extrapolated");
}

static void print_table(const struct work *work, const struct part parts[PARTS],
                        const struct work *scaled)
{
    const struct counters *pool = &parts[0].counters, *fibers = &parts[1].counters,
                          *threads = &parts[2].counters;
    double factor = (double)work->tasks / (double)scaled->tasks;
    bool whole = scaled->tasks == work->tasks;
    print_heads(work, whole);
    ROW("tasks", grouped(work->tasks), grouped(work->tasks), grouped(scaled->tasks),
        whole ? "" : grouped(work->tasks));
    ROW("workers, at most", grouped(pool->workers), grouped(fibers->workers),
        grouped(threads->workers), "");
    ROW("threads with main", grouped(pool->threads), grouped(fibers->threads),
        grouped(threads->threads), "");
    ROW("time", duration((double)pool->elapsed), duration((double)fibers->elapsed),
        duration((double)threads->elapsed),
        whole ? "" : duration((double)threads->elapsed * factor));
    ROW("peak memory", megabytes(parts[0].peak_kb), megabytes(parts[1].peak_kb),
        megabytes(parts[2].peak_kb), "");
    printf(
        "\n%s %s. A task runs in a worker of the pool, in a fiber of its own, or in a thread of\n"
        "its own, at most %s threads at once",
        grouped(pool->processors), pool->processors == 1 ? "processor" : "processors",
        grouped(THREADS_MOST));
    if (!whole)
        printf("; the last column is the third x %.4g", factor);
    puts(".");
}

/* Options. */

static const char usage_text[] =
    "usage: weft-demo [--tasks N] [--sleep DURATION] [--capacity N]\n"
    "Runs N tasks that sleep: on a pool, each in a fiber of its own, and a part of them on plain\n"
    "threads.\n"
    "  --tasks N          number of tasks (default 1000000)\n"
    "  --capacity N       of the pool: tasks at the same time (default 50000)\n"
    "  --sleep DURATION   of each task, in ms or with a unit: 500us, 10ms, 2s (default 10ms)\n"
    "  --help             print this\n";

static int bad_input(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "weft-demo: --%s %s: expected %s (see --help)\n", option, text, wanted);
    return 2;
}

static bool parse_number(const char *text, int64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *number >= 1 && *number <= TASKS_MOST;
}

static bool parse_sleep(const char *text, int64_t *sleep)
{
    char *unit;
    double value = strtod(text, &unit);
    if (unit == text || !(value >= 0))
        return false;
    if (strcmp(unit, "") == 0 || strcmp(unit, "ms") == 0)
        value *= (double)WEFT_MS;
    else if (strcmp(unit, "us") == 0)
        value *= (double)WEFT_US;
    else if (strcmp(unit, "s") == 0)
        value *= (double)WEFT_S;
    else
        return false;
    if (value > (double)SLEEP_MOST)
        return false;
    *sleep = (int64_t)value;
    return true;
}

/* -1 to go on, or the exit code. */
static int parse(int argc, char **argv, struct work *work)
{
    static const struct option longs[] = {
        {"tasks", required_argument, NULL, 't'},
        {"sleep", required_argument, NULL, 's'},
        {"capacity", required_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage_text, stdout);
            return 0;
        }
        if (option == '?') {
            fputs(usage_text, stderr);
            return 2;
        }
        if (option == 't' && !parse_number(optarg, &work->tasks))
            return bad_input("tasks", optarg, "a number from 1 to 1000000000");
        if (option == 'c' && !parse_number(optarg, &work->capacity))
            return bad_input("capacity", optarg, "a number from 1 to 1000000000");
        if (option == 's' && !parse_sleep(optarg, &work->sleep))
            return bad_input("sleep", optarg, "a duration from 0 to one hour, as 500us, 10ms, 2s");
    }
    if (optind < argc) {
        fprintf(stderr, "weft-demo: unknown argument %s\n%s", argv[optind], usage_text);
        return 2;
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct work work = {.tasks = 1000000, .sleep = 10 * WEFT_MS, .capacity = CAPACITY_DEFAULT};
    struct part parts[PARTS];
    int code = parse(argc, argv, &work);
    if (code >= 0)
        return code;
    struct work scaled = scale_down(work);
    counters =
        mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counters == MAP_FAILED) {
        perror("weft-demo: mmap");
        return 1;
    }
    /* Blocked, and taken by sigtimedwait in watch. */
    sigset_t watched, mask;
    sigemptyset(&watched);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGCHLD);
    sigprocmask(SIG_BLOCK, &watched, &mask);

    printf("weft %s: %s %s, %s of sleep each\n\n", weft_version(), grouped(work.tasks),
           work.tasks == 1 ? "task" : "tasks", duration((double)work.sleep));
    if (!run_part(&parts[0], run_pool, "pool   ", &work, &mask) ||
        !run_part(&parts[1], run_fibers, "fibers ", &work, &mask) ||
        !run_part(&parts[2], run_threads, "threads", &scaled, &mask))
        return 1;
    print_table(&work, parts, &scaled);
    return 0;
}
