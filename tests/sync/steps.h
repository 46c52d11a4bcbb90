/*
 * steps.h: runs a function one instruction of the CPU at a time, and does something else between
 * two of them: before an atomic exchange, where it matters what other threads do.
 *
 *     static void add_one(void *wg)
 *     {
 *         CHECK_EQ(weft_wg_add(wg, 1), 0);
 *     }
 *
 *     for (uint32_t at = 1; steps_at(add_one, &wg, at, add_one, &wg); at++)
 *         ...                                         what must hold now
 *
 * So a race that a thread loses once in a million times is lost here for certain: what the other
 * thread does is done before each exchange, in turn. The handler of the signal that the CPU's trap
 * raises after each instruction does it: on the thread of the function, as if the system did not
 * run that thread meanwhile.
 *
 * The function must not block signals (start threads before it), and what comes between must not
 * wait for it. An instruction takes some microseconds.
 */
#ifndef WEFT_TEST_STEPS_H
#define WEFT_TEST_STEPS_H

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include "base/compiler.h"
#include "test.h"

/* Only there: other CPUs have no such trap for programs, and a sanitizer would be interrupted in
 * its own code. */
#if defined(__x86_64__)
#define STEPS_WORK (!WEFT_ASAN && !WEFT_TSAN)
#else
#define STEPS_WORK 0
#endif

/* Called after each instruction, with its number, 1, 2, 3 ..., and with the number of the exchange
 * that comes next, 0 if another instruction does. */
typedef void steps_between(void *arg, uint32_t step, uint32_t exchange);

static struct {
    volatile sig_atomic_t on;
    uint32_t count, exchanges;
    steps_between *between;
    void *arg;
} steps;

#if defined(__x86_64__)
/* xchg, cmpxchg and xadd, with memory. */
static inline bool steps_exchanges(const unsigned char *code)
{
    bool locked = false;
    for (; *code == 0xf0 || *code == 0x66 || (*code & 0xf0) == 0x40; code++)
        locked |= *code == 0xf0;
    if ((*code & 0xfe) == 0x86)
        return code[1] >> 6 != 3;
    return locked && *code == 0x0f && ((code[1] & 0xfe) == 0xb0 || (code[1] & 0xfe) == 0xc0);
}

static inline void steps_trapped(int signal, siginfo_t *info, void *context)
{
    enum { TRAP_FLAG = 0x100 };
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (!steps.on) {
        registers[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    registers[REG_EFL] |= TRAP_FLAG;
    int before = errno;
    bool exchanges = steps_exchanges((const unsigned char *)registers[REG_RIP]);
    steps.exchanges += exchanges;
    steps.between(steps.arg, ++steps.count, exchanges ? steps.exchanges : 0);
    errno = before;
}
#else
static inline void steps_trapped(int signal, siginfo_t *info, void *context)
{
}
#endif

static inline void steps_run(void (*function)(void *), void *arg, steps_between *between,
                             void *between_arg)
{
    struct sigaction own = {.sa_sigaction = steps_trapped, .sa_flags = SA_SIGINFO}, before;
    CHECK_EQ(sigaction(SIGTRAP, &own, &before), 0);
    steps.count = steps.exchanges = 0;
    steps.between = between;
    steps.arg = between_arg;
    steps.on = 1;
    CHECK_EQ(raise(SIGTRAP), 0); /* its handler sets the trap flag */
    function(arg);
    steps.on = 0; /* the next trap clears it */
    CHECK_EQ(sigaction(SIGTRAP, &before, NULL), 0);
}

/* For what comes between: from now on the function runs without traps. */
static inline void steps_enough(void)
{
    steps.on = 0;
}

/* For what comes between: leaves the function for `back`, which sigsetjmp has set with the mask. */
static inline __attribute__((unused, noreturn)) void steps_leave(sigjmp_buf back)
{
    steps.on = 0;
    siglongjmp(back, 1);
}

struct steps_once {
    uint32_t at;
    void (*function)(void *);
    void *arg;
    bool called;
};

static inline void steps_call_once(void *arg, uint32_t step, uint32_t exchange)
{
    struct steps_once *once = arg;
    if (exchange != once->at)
        return;
    once->called = true;
    once->function(once->arg);
    steps_enough();
}

/* Calls `between` before the exchange with that number. False if there are fewer exchanges. */
static inline __attribute__((unused)) bool steps_at(void (*function)(void *), void *arg,
                                                    uint32_t at, void (*between)(void *),
                                                    void *between_arg)
{
    struct steps_once once = {at, between, between_arg, false};
    steps_run(function, arg, steps_call_once, &once);
    return once.called;
}

#endif
