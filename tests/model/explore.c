/*
 * explore.c: the threads of a model, and the search (explore.h).
 *
 * The search runs on the stack of main. It resumes a thread, which returns to it at its next point.
 */
#include "explore.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "explorer.h"
#include "schedule.h"

struct explorer *explorer;

int model_self(void)
{
    return explorer->current;
}

/* Ends and failures. */

static _Noreturn void leave_for_good(void)
{
    struct thread_of_model *self = running();
    context_switch(&self->context, &explorer->context);
    __builtin_unreachable();
}

void model_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(explorer->message, sizeof explorer->message, format, args);
    va_end(args);
    explorer->outcome = FAILED;
    if (running() == NULL)
        siglongjmp(explorer->crash, 1);
    leave_for_good();
}

static void on_crash(int signal)
{
    if (explorer->outcome != FAILED)
        snprintf(explorer->message, sizeof explorer->message, "crashed with signal %d", signal);
    explorer->outcome = FAILED;
    siglongjmp(explorer->crash, 1);
}

/* Choices. */

int model_choose(int count)
{
    struct explorer *x = explorer;
    if (count <= 1 || x->outcome != GOES_ON)
        return 0;
    if (x->depth == CHOICES_MOST)
        model_fail("more than %d choices", CHOICES_MOST);
    struct choice *choice = &x->choices[x->depth];
    if (x->depth == x->length)
        *choice = (struct choice){0, (uint8_t)count}, x->length++;
    else if (choice->count != count)
        model_fail("not the same choices the second time: something is not part of the world");
    x->depth++;
    return choice->taken;
}

/* Threads. */

enum { SCRIBBLE = 4096 };

/* Memory of a thread that has ended is marked as freed. */
static __attribute__((noinline)) void scribble(void)
{
    char gone[SCRIBBLE];
    memset(gone, 0xee, sizeof gone);
    __asm__ volatile("" ::"r"(gone) : "memory");
}

static void thread_main(void *arg)
{
    struct thread_of_model *self = arg;
    self->function(self->arg);
    scribble();
    model__arrive_all(self);
    self->status = ENDED;
    model__show("ends", NULL, 0, NULL);
    leave_for_good();
}

void model_thread(const char *name, void (*function)(void *), void *arg, bool must_end)
{
    struct explorer *x = explorer;
    if (x->thread_count == THREADS_MOST)
        model_fail("more than %d threads", THREADS_MOST);
    struct thread_of_model *thread = &x->threads[x->thread_count++];
    char *stack = thread->stack;
    if (stack == NULL)
        stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *thread = (struct thread_of_model){
        .stack = stack, .name = name, .function = function, .arg = arg, .must_end = must_end};
    context_make(&thread->context, stack + STACK_SIZE, thread_main, thread);
}

bool model__can_go_on(const struct thread_of_model *thread)
{
    switch (thread->status) {
    case READY:
        return true;
    case WAITS_WORD:
        if (*(const volatile uint32_t *)thread->key == thread->value)
            return true;
        for (int i = 0; i < explorer->thread_count; i++)
            if (model__buffered(&explorer->threads[i], thread->key, false) >= 0)
                return true;
        return false;
    case WAITS_UNTIL:
        return thread->until();
    case WAITS_WRITE:
        return explorer->writes - thread->wrote != thread->others_wrote;
    default:
        return false;
    }
}

static void resume(const struct option *option)
{
    struct explorer *x = explorer;
    struct thread_of_model *thread = &x->threads[option->thread];
    x->left.preemptions -= option->preempts;
    x->left.timeouts -= option->times_out;
    thread->status = READY;
    thread->timed_out = option->times_out;
    x->current = x->last = option->thread;
    thread_word_set(thread->word);
    context_switch(&x->context, &thread->context);
    thread->word = thread_word();
    thread_word_set(NULL);
    x->current = -1;
}

/* Executions. */

static int list_options(struct option *options)
{
    struct explorer *x = explorer;
    int count = 0;
    bool stays = x->last >= 0 && model__can_go_on(&x->threads[x->last]) &&
                 x->threads[x->last].status != WAITS_WRITE;
    if (stays)
        options[count++] = (struct option){x->last, false, false};
    if (stays && (x->left.preemptions == 0 || x->calm))
        return count;
    for (int i = 0; i < x->thread_count; i++)
        if (!(stays && i == x->last) && model__can_go_on(&x->threads[i]))
            options[count++] = (struct option){i, false, stays};
    if (x->calm && count > 0)
        return 1;
    for (int i = 0; i < x->thread_count; i++)
        if (x->left.timeouts > 0 && x->threads[i].status == WAITS_WAKE &&
            x->threads[i].deadline != MODEL_NO_DEADLINE)
            options[count++] = (struct option){i, true, stays};
    return count;
}

/* No thread can run. */
static void finish(void)
{
    struct explorer *x = explorer;
    for (int i = 0; i < x->thread_count; i++)
        if (x->threads[i].status != ENDED &&
            (x->threads[i].must_end || x->threads[i].status == WAITS_WRITE))
            model_fail("no thread can run, and %s has not ended", x->threads[i].name);
    if (x->scenario->check != NULL)
        x->scenario->check();
    x->outcome = COMPLETE;
}

/* Every runnable thread is in a loop, and nothing has changed for it. The loops may end after
 * enough turns; if this state has occurred before they never will. */
static int list_turning(struct option *options)
{
    struct explorer *x = explorer;
    int count = 0;
    for (int i = 0; i < x->thread_count; i++)
        if (x->threads[i].status == WAITS_WRITE)
            options[count++] = (struct option){i, false, false};
    if (count == 0)
        return 0;
    uint64_t hash = model__hash();
    for (int i = 0; i < x->turn_count; i++)
        if (x->turns[i] == hash)
            return 0;
    if (x->turn_count == TURNS_MOST)
        model_fail("every runnable thread is in a loop");
    x->turns[x->turn_count++] = hash;
    return count;
}

static bool any_buffered(void)
{
    for (int i = 0; i < explorer->thread_count; i++)
        if (explorer->threads[i].buffered > 0)
            return true;
    return false;
}

static void set_up_world(void)
{
    struct explorer *x = explorer;
    memcpy(__data_start, x->world_copy, (size_t)(_end - __data_start));
    x->outcome = GOES_ON;
    x->thread_count = 0;
    x->calm = false;
    x->current = x->last = -1;
    x->left = (struct bounds){x->scenario->preemptions, x->scenario->delays, x->scenario->timeouts};
    x->steps = x->depth = x->turn_count = 0;
    x->writes = 0;
    x->arena_used = 0;
    x->block_count = 0;
    x->executions++;
    thread_word_set(NULL);
}

static void execute(void)
{
    struct explorer *x = explorer;
    int given = x->length;
    set_up_world();
    if (sigsetjmp(x->crash, 1) != 0) {
        x->current = -1;
        return;
    }
    x->scenario->set_up();
    while (x->outcome == GOES_ON) {
        struct option options[OPTIONS_MOST];
        int count = list_options(options);
        if (count == 0 && any_buffered()) {
            model_barrier_all(); /* every store arrives eventually */
        } else if (count == 0) {
            if ((count = list_turning(options)) > 0)
                resume(&options[model_choose(count)]);
            else
                finish();
        } else if (count > 1 && x->depth >= given && model__seen_before()) {
            x->outcome = SEEN_BEFORE;
        } else {
            resume(&options[model_choose(count)]);
        }
    }
}

/* Prepares the next execution; false if there is none. */
static bool next_execution(void)
{
    struct explorer *x = explorer;
    x->length = x->depth; /* a failure may come before all prescribed choices */
    while (x->length > 0 && x->choices[x->length - 1].taken + 1 == x->choices[x->length - 1].count)
        x->length--;
    if (x->length == 0)
        return false;
    x->choices[x->length - 1].taken++;
    return true;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* True if the search found no failure. */
static bool search(const struct scenario *scenario)
{
    struct explorer *x = explorer;
    double start = seconds();
    x->scenario = scenario;
    x->length = 0;
    x->executions = x->points = 0;
    model__states_forget();
    do
        execute();
    while (x->outcome != FAILED && next_execution());
    printf(
        "%s: %s; %d preemptions, %d delays, %d timeouts: %llu executions, %zu states, %llu points, "
        "%.2f s\n",
        scenario->name, x->outcome == FAILED ? "FAILED" : "holds", scenario->preemptions,
        scenario->delays, scenario->timeouts, (unsigned long long)x->executions, x->seen_count,
        (unsigned long long)x->points, seconds() - start);
    if (x->outcome != FAILED)
        return true;
    printf("%s\n", x->message);
    x->length = x->depth;
    schedule_begin();
    execute();
    schedule_print();
    if (x->outcome != FAILED)
        printf("and the same schedule does not fail a second time\n");
    return false;
}

static void begin_world(void)
{
    struct explorer *x = calloc(1, sizeof *x);
    size_t size = (size_t)(_end - __data_start);
    if (x == NULL || (x->world_copy = malloc(size)) == NULL)
        abort();
    x->arena = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (x->arena == MAP_FAILED)
        abort();
    stack_t stack = {.ss_sp = malloc(STACK_SIZE), .ss_size = STACK_SIZE};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
    if (stack.ss_sp == NULL || sigaltstack(&stack, NULL) != 0)
        abort();
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    explorer = x;
    model__states_begin();
    schedule_start();
    setvbuf(stdout, NULL, _IOLBF, 4096);
    memcpy(x->world_copy, __data_start, size);
}

/* Slow builds have narrower bounds: see test_scale in test.h. So has the coverage build: few
 * preemptions reach all lines that a model can reach. */
static int slow(void)
{
#ifdef WEFT_COVERAGE
    return 1;
#endif
    const char *percent = getenv("WEFT_TEST_SCALE");
    return percent != NULL && strtol(percent, NULL, 10) < 50;
}

/* A twin must fail; a schedule with fewer preemptions is easier to read. */
static int search_twin(const struct scenario *scenarios, size_t count, const char *twin)
{
    for (int preemptions = 0, more = 1; more; preemptions++) {
        more = 0;
        for (size_t i = 0; i < count; i++) {
            struct scenario scenario = scenarios[i];
            more |= scenario.preemptions > preemptions;
            if (scenario.preemptions < preemptions)
                continue;
            scenario.preemptions = preemptions;
            if (search(&scenario))
                continue;
            printf("the search has found the bug of the twin %s\n", twin);
            return 0;
        }
    }
    printf("the search has not found the bug of the twin %s\n", twin);
    return 1;
}

int model_main(const struct scenario *scenarios, size_t count, const char *twin)
{
    begin_world();
    if (twin != NULL)
        return search_twin(scenarios, count, twin);
    for (size_t i = 0; i < count; i++) {
        struct scenario scenario = scenarios[i];
        scenario.preemptions -= slow();
        if (!search(&scenario))
            return 1;
    }
    return 0;
}
