/*
 * no_fork_handler.c: there is no memory for the functions that are to be called around a fork when weft is loaded:
 * that is said, and all else works.
 */
#include <pthread.h>

#include "base/compiler.h"
#include "test.h"
#include <weft/weft.h>

static FILE *said;
static int before = -1;

/* Before the constructors of weft, which have no priority. */
__attribute__((constructor(101))) static void keep_what_is_said(void)
{
    said = tmpfile();
    before = dup(STDERR_FILENO);
    if (said != NULL)
        dup2(fileno(said), STDERR_FILENO);
}

#if !WEFT_TSAN /* which needs it */
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    (void)prepare, (void)parent, (void)child;
    return ENOMEM;
}
#endif

static void count(void *number)
{
    ++*(int *)number;
}

static void it_is_said(void)
{
    char text[256];
    CHECK(said != NULL && before >= 0);
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    rewind(said);
    text[fread(text, 1, sizeof text - 1, said)] = '\0';
    CHECK_STR(text, "weft: cannot handle forks: no memory\n");
    fclose(said);
    close(before);
}

static void fibers_run(void)
{
    int ran = 0;
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, count, &ran, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(ran, 1);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

int main(void)
{
    if (WEFT_TSAN)
        test_skip("ThreadSanitizer needs handlers of its own");
    RUN(it_is_said);
    RUN(fibers_run);
    return 0;
}
