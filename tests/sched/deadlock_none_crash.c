/*
 * deadlock_none.c: as long as somebody is left who could wake somebody no deadlock is reported: a thread outside of
 * weft, a timer, a deadline, a fiber that runs or blocks its thread.
 *
 * Each case lasts for a while in which all that is in weft waits, and then goes on.
 */
#include <pthread.h>

#include "deadlock.h"

static weft_wg gate;

static void wait_for_gate(void *arg)
{
    CHECK_EQ(weft_wg_wait(&gate), 0);
    (void)arg;
}

static void open_gate(void *arg)
{
    weft_wg_done(&gate);
    (void)arg;
}

static void *read_then_open(void *known)
{
    if (known != NULL)
        start_weft();
    block_in_read();
    weft_wg_done(&gate);
    return NULL;
}

static void join_gated(void)
{
    weft_fiber *one = spawn(wait_for_gate, NULL, "gated"), *two = spawn(wait_for_gate, NULL, "too");
    CHECK_EQ(weft_join(one), 0);
    CHECK_EQ(weft_join(two), 0);
}

static void thread_in_read(void *known)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, read_then_open, known), 0);
    join_gated();
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void known_thread_in_read(void *arg)
{
    (void)arg;
    thread_in_read(&gate);
}

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool go;
} plain = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static void *cond_then_open(void *arg)
{
    pthread_mutex_lock(&plain.mutex);
    while (!plain.go)
        pthread_cond_wait(&plain.cond, &plain.mutex);
    pthread_mutex_unlock(&plain.mutex);
    weft_wg_done(&gate);
    return arg;
}

static void *read_then_signal(void *arg)
{
    block_in_read();
    pthread_mutex_lock(&plain.mutex);
    plain.go = true;
    pthread_cond_signal(&plain.cond);
    pthread_mutex_unlock(&plain.mutex);
    return arg;
}

static void thread_in_cond_wait(void *arg)
{
    pthread_t threads[2];
    CHECK_EQ(pthread_create(&threads[0], NULL, cond_then_open, NULL), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, read_then_signal, NULL), 0);
    join_gated();
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    (void)arg;
}

static void main_outside(void *arg)
{
    weft_fiber *one = spawn(wait_for_gate, NULL, "gated");
    block_in_read();
    weft_wg_done(&gate);
    CHECK_EQ(weft_join(one), 0);
    block_in_read();
    (void)arg;
}

static void armed_timer(void *arg)
{
    weft_timer *timer;
    CHECK_EQ(weft_timer_open(&timer, open_gate, NULL), 0);
    CHECK_EQ(weft_timer_start(timer, weft_after(WHILE_MS * WEFT_MS), 0), 0);
    join_gated();
    CHECK_EQ(weft_timer_close(timer), 0);
    (void)arg;
}

static void running_ticker(void *arg)
{
    weft_ticker *ticker;
    int64_t time;
    CHECK_EQ(weft_ticker_open(&ticker, weft_after(WHILE_MS / 3 * WEFT_MS), WHILE_MS / 3 * WEFT_MS),
             0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), &time), 0);
    CHECK_EQ(weft_ticker_close(ticker), 0);
    (void)arg;
}

static void context_with_deadline(void *arg)
{
    weft_context_options options = {.timeout = WHILE_MS * WEFT_MS};
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, NULL, &options), 0);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    CHECK_EQ(weft_wg_wait(&gate), -ETIMEDOUT);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    (void)arg;
}

static void sleep_then_open(void *arg)
{
    CHECK_EQ(weft_sleep(WHILE_MS * WEFT_MS), 0);
    weft_wg_done(&gate);
    (void)arg;
}

static void sleeping_fiber(void *arg)
{
    CHECK_EQ(weft_go(sleep_then_open, NULL), 0);
    join_gated();
    (void)arg;
}

static void run_then_open(void *arg)
{
    int64_t end = weft_after(WHILE_MS * WEFT_MS);
    while (weft_now() < end)
        continue;
    weft_wg_done(&gate);
    (void)arg;
}

static void running_fiber(void *arg)
{
    CHECK_EQ(weft_go(run_then_open, NULL), 0);
    join_gated();
    (void)arg;
}

static void read_in_fiber(void *arg)
{
    block_in_read();
    weft_wg_done(&gate);
    (void)arg;
}

static void fiber_that_blocks(void *arg)
{
    CHECK_EQ(weft_go(read_in_fiber, NULL), 0);
    join_gated();
    (void)arg;
}

static void fiber_with_deadline(void *arg)
{
    CHECK_EQ(weft_wg_wait_until(&gate, weft_after(WHILE_MS * WEFT_MS)), -ETIMEDOUT);
    weft_wg_done(&gate);
    (void)arg;
}

static void deadline_of_a_fiber(void *arg)
{
    CHECK_EQ(weft_go(fiber_with_deadline, NULL), 0);
    join_gated();
    (void)arg;
}

static void *thread_with_deadline(void *arg)
{
    CHECK_EQ(weft_wg_wait_until(&gate, weft_after(WHILE_MS * WEFT_MS)), -ETIMEDOUT);
    weft_wg_done(&gate);
    return arg;
}

static void *thread_that_sleeps(void *arg)
{
    CHECK_EQ(weft_sleep(WHILE_MS * WEFT_MS), 0);
    weft_wg_done(&gate);
    return arg;
}

static void run_beside(void *(*function)(void *))
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, function, NULL), 0);
    join_gated();
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void deadline_of_a_thread(void *arg)
{
    run_beside(thread_with_deadline);
    (void)arg;
}

static void sleep_of_a_thread(void *arg)
{
    run_beside(thread_that_sleeps);
    (void)arg;
}

static void shutdown_with_a_deadline(void *arg)
{
    weft_fiber *fiber = spawn(wait_for_gate, NULL, "gated");
    CHECK_EQ(weft_shutdown(weft_after(WHILE_MS * WEFT_MS)), -ETIMEDOUT);
    weft_wg_done(&gate);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    (void)arg;
}

static void shutdown_with_a_sleeper(void *arg)
{
    (void)spawn(wait_for_gate, NULL, "gated");
    CHECK_EQ(weft_go(sleep_then_open, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    (void)arg;
}

static void begin_with_a_gate(void *function)
{
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    ((void (*)(void *))(uintptr_t)function)(NULL);
}

static void somebody_is_left(void)
{
    static void (*const cases[])(void *) = {
        thread_in_read,    known_thread_in_read,     thread_in_cond_wait,    main_outside,
        armed_timer,       running_ticker,           context_with_deadline,  sleeping_fiber,
        running_fiber,     fiber_that_blocks,        deadline_of_a_fiber,    deadline_of_a_thread,
        sleep_of_a_thread, shutdown_with_a_deadline, shutdown_with_a_sleeper};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_lives(begin_with_a_gate, (void *)(uintptr_t)cases[i]);
}

int main(void)
{
    RUN(somebody_is_left);
    return 0;
}
