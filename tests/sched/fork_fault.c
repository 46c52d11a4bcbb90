/*
 * fork_fault.c: when weft is loaded there is no memory for its handlers of forks: that is reported,
 * and all else works.
 */
#include "base/compiler.h"
#include "fibers.h"

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

#if !WEFT_TSAN /* which needs the function */
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
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
    run_fiber(count, &ran);
    CHECK_EQ(ran, 1);
    shut_down();
}

int main(void)
{
    if (WEFT_TSAN)
        test_skip("ThreadSanitizer needs handlers of its own");
    RUN_ALL(it_is_said, fibers_run);
    return 0;
}
