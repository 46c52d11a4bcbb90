/*
 * launch.c: weft-launch: runs a program on some CPUs with a time limit, and reports its peak
 * memory.
 *
 *     weft-launch CPUS SECONDS program arguments...
 *
 * The output of the program passes through; then follows a line `launch RSS_KB`, the peak of its
 * resident memory by wait4. The exit code is that of the program; 124 after the time limit, 125
 * after a signal.
 *
 * A program of its own is needed because ru_maxrss survives an exec: a process starts with the peak
 * of its parent at the fork. A script would add the size of its interpreter; this program adds half
 * a megabyte.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAILED = 2, TIME_IS_UP = 124, SIGNALLED = 125, NOT_STARTED = 127 };

static pid_t child;
static volatile sig_atomic_t late;

static void time_is_up(int signal)
{
    (void)signal;
    late = 1;
    kill(child, SIGKILL);
}

/* Restricts the process to the first `count` of its CPUs. */
static int keep_cpus(int count)
{
    cpu_set_t allowed, kept;
    CPU_ZERO(&kept);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&kept) < count; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &kept);
    return sched_setaffinity(0, sizeof kept, &kept);
}

static void become(char **command)
{
    struct rlimit files;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    execv(command[0], command);
    fprintf(stderr, "weft-launch: %s: %s\n", command[0], strerror(errno));
    _exit(NOT_STARTED);
}

int main(int argc, char **argv)
{
    struct rusage usage;
    int status;
    if (argc < 4 || atoi(argv[1]) < 1 || atoi(argv[2]) < 1) { /* NOLINT(cert-err34-c) */
        fputs("usage: weft-launch CPUS SECONDS program arguments...\n", stderr);
        return FAILED;
    }
    if (keep_cpus(atoi(argv[1])) != 0) { /* NOLINT(cert-err34-c) */
        perror("weft-launch: sched_setaffinity");
        return FAILED;
    }
    child = fork();
    if (child == 0)
        become(argv + 3);
    if (child < 0) {
        perror("weft-launch: fork");
        return FAILED;
    }
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = time_is_up}, NULL);
    alarm((unsigned)atoi(argv[2])); /* NOLINT(cert-err34-c) */
    while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR)
        continue;
    printf("launch %ld\n", usage.ru_maxrss);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    fprintf(stderr, "weft-launch: %s: %s\n", argv[3],
            late ? "its time is up" : strsignal(WTERMSIG(status)));
    return late ? TIME_IS_UP : SIGNALLED;
}
