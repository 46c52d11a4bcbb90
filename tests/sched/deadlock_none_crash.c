/*
 * deadlock_none_crash.c: no deadlock is reported while a party is left that can wake the others: a
 * thread outside of weft, a timer, a deadline, a fiber that runs or blocks its thread.
 *
 * In each case all else in weft waits for a while, and then goes on.
 */
#include "deadlock.h"

static weft_wg gate;

static void open_gate(void *arg)
{
    weft_wg_done(&gate);
}

/* What the party that is left does before it opens the gate. */

static void read_then_open(void *arg)
{
    block_in_read();
    open_gate(arg);
}

static void become_known_then_open(void *arg)
{
    start_weft();
    read_then_open(arg);
}

static void sleep_then_open(void *arg)
{
    CHECK_EQ(weft_sleep(WHILE_MS * WEFT_MS), 0);
    open_gate(arg);
}

static void run_then_open(void *arg)
{
    int64_t end = weft_after(WHILE_MS * WEFT_MS);
    while (weft_now() < end)
        continue;
    open_gate(arg);
}

static void time_out_then_open(void *arg)
{
    CHECK_EQ(weft_wg_wait_until(&gate, weft_after(WHILE_MS * WEFT_MS)), -ETIMEDOUT);
    open_gate(arg);
}

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool go;
} plain = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static void *read_then_signal(void *arg)
{
    block_in_read();
    pthread_mutex_lock(&plain.mutex);
    plain.go = true;
    pthread_cond_signal(&plain.cond);
    pthread_mutex_unlock(&plain.mutex);
    return arg;
}

static void cond_then_open(void *arg)
{
    pthread_t thread = thread_start(read_then_signal, NULL);
    pthread_mutex_lock(&plain.mutex);
    while (!plain.go)
        pthread_cond_wait(&plain.cond, &plain.mutex);
    pthread_mutex_unlock(&plain.mutex);
    open_gate(arg);
    thread_join(thread);
}

static void join_gated(void)
{
    run_fibers(2, wait_for_group, &gate);
}

static void beside_a_thread(void *function)
{
    struct thread_call call = {(void (*)(void *))(uintptr_t)function, NULL};
    pthread_t thread = thread_start(thread_call, &call);
    join_gated();
    thread_join(thread);
}

static void beside_a_fiber(void *function)
{
    CHECK_EQ(weft_go((void (*)(void *))(uintptr_t)function, NULL), 0);
    join_gated();
}

static void main_outside(void *arg)
{
    weft_fiber *one = spawn(wait_for_group, &gate);
    read_then_open(NULL);
    CHECK_EQ(weft_join(one), 0);
    block_in_read();
}

static void armed_timer(void *arg)
{
    weft_timer *timer = open_timer(open_gate, NULL);
    CHECK_EQ(weft_timer_start(timer, weft_after(WHILE_MS * WEFT_MS), 0), 0);
    join_gated();
    CHECK_EQ(weft_timer_close(timer), 0);
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
}

static void shutdown_with_a_deadline(void *arg)
{
    weft_fiber *fiber = spawn(wait_for_group, &gate);
    CHECK_EQ(weft_shutdown(weft_after(WHILE_MS * WEFT_MS)), -ETIMEDOUT);
    open_gate(NULL);
    CHECK_EQ(weft_join(fiber), 0);
    shut_down();
}

static void shutdown_with_a_sleeper(void *arg)
{
    CHECK_EQ(weft_go(wait_for_group, &gate), 0);
    CHECK_EQ(weft_go(sleep_then_open, NULL), 0);
    shut_down();
}

static const struct one_case {
    void (*run)(void *);
    void (*function)(void *);
} cases[] = {
    {beside_a_thread, read_then_open},
    {beside_a_thread, become_known_then_open},
    {beside_a_thread, cond_then_open},
    {beside_a_thread, time_out_then_open},
    {beside_a_thread, sleep_then_open},
    {beside_a_fiber, sleep_then_open},
    {beside_a_fiber, run_then_open},
    {beside_a_fiber, read_then_open},
    {beside_a_fiber, time_out_then_open},
    {main_outside, NULL},
    {armed_timer, NULL},
    {running_ticker, NULL},
    {context_with_deadline, NULL},
    {shutdown_with_a_deadline, NULL},
    {shutdown_with_a_sleeper, NULL},
};

static void run_with_a_gate(void *arg)
{
    const struct one_case *one = arg;
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    one->run((void *)(uintptr_t)one->function);
}

static void a_party_is_left(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_lives(run_with_a_gate, (void *)(uintptr_t)&cases[i]);
}

int main(void)
{
    RUN(a_party_is_left);
    return 0;
}
