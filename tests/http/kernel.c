/*
 * kernel.c: the seam of libweft-http (src/http/sys.h) when the kernel refuses a call, or a signal
 * comes: interrupted calls are repeated, errors are passed on. And the end of the process after a
 * failed must().
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/sendfile.h>

#include <weft/weft.h>

#include "http.h"
#include "http/per_ip_limit.h"
#include "http/sys.h"
#include "kernel.h"
#include "os/os.h"
#include "system.h"

FAKE(int, epoll_create1, (int flags), (flags))
FAKE(int, epoll_wait, (int set, struct epoll_event *events, int most, int timeout),
     (set, events, most, timeout))
FAKE(int, eventfd, (unsigned int count, int flags), (count, flags))
FAKE(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
FAKE(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
FAKE(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
FAKE(ssize_t, sendfile, (int to, int from, off_t *offset, size_t size), (to, from, offset, size))
FAKE(ssize_t, pread, (int file, void *data, size_t size, off_t offset), (file, data, size, offset))
FAKE(ssize_t, getrandom, (void *data, size_t size, unsigned int flags), (data, size, flags))

/* A pair of sockets, and a file of three bytes. */

static int pair[2], file;

static void open_files(void)
{
    char name[] = "/tmp/weft-http-kernel-XXXXXX";
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    file = mkstemp(name);
    CHECK(file >= 0);
    unlink(name);
    CHECK_EQ(write(file, "abc", 3), 3);
}

static void close_files(void)
{
    close(pair[0]), close(pair[1]), close(file);
}

static void interrupted_calls_begin_again(void)
{
    struct iovec pieces[2] = {{.iov_base = (char[]){'a', 'b'}, .iov_len = 2},
                              {.iov_base = (char[]){'c'}, .iov_len = 1}};
    char got[4] = "";
    open_files();
    for (int way = 0; way < 3; way++) {
        KERNEL_SAYS(send, EINTR, 2);
        KERNEL_SAYS(sendmsg, EINTR, 2);
        KERNEL_SAYS(sendfile, EINTR, 2);
        int64_t sent = way == 0   ? weft__http_send(pair[0], pieces, 1)
                       : way == 1 ? weft__http_send(pair[0], pieces, 2)
                                  : weft__http_send_from_file(pair[0], file, 0, 3);
        CHECK_EQ(sent, way == 0 ? 2 : 3);
        memset(got, 0, sizeof got);
        KERNEL_SAYS(recv, EINTR, 2);
        CHECK_EQ(weft__http_receive(pair[1], got, 3), sent);
        KERNEL_SAID(recv);
        CHECK_STR(got, way == 0 ? "ab" : "abc");
    }
    KERNEL_SAYS(send, 0, 0);
    KERNEL_SAYS(sendmsg, 0, 0);
    KERNEL_SAYS(sendfile, 0, 0);
    memset(got, 0, sizeof got);
    KERNEL_SAYS(pread, EINTR, 2);
    CHECK_EQ(weft__http_read_file(file, got, 2, 1), 2);
    KERNEL_SAID(pread);
    CHECK_STR(got, "bc");
    close_files();
}

static void errors_are_passed_on(void)
{
    struct iovec piece = {.iov_base = (char[]){'a'}, .iov_len = 1};
    struct http_event event;
    char byte;
    CHECK_EQ(weft__http_receive(-1, &byte, 1), -EBADF);
    CHECK_EQ(weft__http_send(-1, &piece, 1), -EBADF);
    CHECK_EQ(weft__http_send_from_file(-1, -1, 0, 1), -EBADF);
    CHECK_EQ(weft__http_read_file(-1, &byte, 1, 0), -EBADF);
    CHECK_EQ(weft__http_set_look(-1, &event, 1), -EBADF);
    CHECK_EQ(weft__http_set_add(-1, 0, NULL), -EBADF);
}

/* The event comes the next time. */
static void a_look_that_is_interrupted(void)
{
    struct http_event event;
    int set = weft__http_set_open(), wakeup = weft__http_wakeup_open();
    CHECK(set >= 0 && wakeup >= 0);
    CHECK_EQ(weft__http_set_add_shared(set, wakeup, &event), 0);
    weft__http_wakeup_send(wakeup);
    KERNEL_SAYS(epoll_wait, EINTR, 1);
    CHECK_EQ(weft__http_set_look(set, &event, 1), 0);
    KERNEL_SAID(epoll_wait);
    CHECK_EQ(weft__http_set_look(set, &event, 1), 1);
    CHECK_PTR(event.what, &event);
    CHECK_EQ(event.events, HTTP_READABLE);
    weft__http_wakeup_clear(wakeup);
    CHECK_EQ(weft__http_set_look(set, &event, 1), 0);
    close(set), close(wakeup);
}

/* A signal that was there before a file is sent is not taken away with that of the sending. */
static void a_broken_pipe_that_was_pending_stays(void)
{
    sigset_t broken_pipe, before, pending;
    open_files();
    CHECK_EQ(shutdown(pair[1], SHUT_RDWR), 0);
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &broken_pipe, &before), 0);
    for (int raised = 0; raised < 2; raised++) {
        if (raised)
            CHECK_EQ(raise(SIGPIPE), 0);
        CHECK_EQ(weft__http_send_from_file(pair[0], file, 0, 3), -EPIPE);
        CHECK_EQ(sigpending(&pending), 0);
        CHECK_EQ(sigismember(&pending, SIGPIPE), raised);
    }
    CHECK_EQ(sigtimedwait(&broken_pipe, NULL, &(struct timespec){0, 0}), SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    close_files();
}

/* Without the kernel's chance there is the clock's. */
static void chance_without_the_kernel(void)
{
    KERNEL_SAYS(getrandom, ENOSYS, KERNEL_ALWAYS);
    uint64_t first = weft__http_random(), second;
    do
        second = weft__http_random();
    while (second == first); /* the clock may stand still for a moment */
    KERNEL_SAYS(getrandom, 0, 0);
}

/* No descriptors: the open returns that, and closes what it had. */
static void a_server_without_descriptors(void)
{
    weft_http_server *server = NULL;
    weft_http_options options = {.acceptors = 3};
    CHECK_EQ(weft_http_open(&server, &options), 0); /* what the runtime needs is there */
    weft_http_close(server);
    server = NULL;
    int before = open_descriptors();
    for (uint32_t acceptor = 0; acceptor < 3; acceptor++) {
        KERNEL_SAYS_AFTER(epoll_create1, acceptor, ENFILE, 1);
        CHECK_EQ(weft_http_open(&server, &options), -ENFILE);
        KERNEL_SAID(epoll_create1);
        KERNEL_SAYS_AFTER(eventfd, acceptor, EMFILE, 1);
        CHECK_EQ(weft_http_open(&server, &options), -EMFILE);
        KERNEL_SAID(eventfd);
    }
    CHECK_PTR(server, NULL);
    CHECK_EQ(open_descriptors(), before);
}

/* A failed must() reports its place before the process ends. Such an end writes no coverage data,
 * so it is saved first. */
static void save_coverage(int number)
{
    (void)number;
    weft__os_save_coverage();
}

static void close_limits_in_use(void *arg)
{
    struct peer peer = {.family = 4, .ip = {127, 0, 0, 1}};
    const struct allowance one[PER_IP_LIMITS] = {{.max = 1}, {.max = 1}, {.max = 1}};
    struct per_ip_limits *limits = weft__http_per_ip_open(one, 10);
    (void)arg;
    CHECK(limits != NULL);
    CHECK_EQ(sigaction(SIGABRT, &(struct sigaction){.sa_handler = save_coverage}, NULL), 0);
    CHECK(weft__http_per_ip_acquire(limits, PER_IP_CONNECTIONS, &peer, 1));
    weft__http_per_ip_close(limits);
}

static void what_must_hold(void)
{
    CHECK_EQ(test_dies(close_limits_in_use, NULL, "weft-http: "), SIGABRT);
    CHECK_EQ(test_dies(close_limits_in_use, NULL, "per_ip_limit.c:"), SIGABRT);
    CHECK_EQ(test_dies(close_limits_in_use, NULL, ": this must hold: limits->chains[i] == NULL"),
             SIGABRT);
}

/* Figures in a forked child, where no thread may be left to release the locks. */
static void ask_in_child(void *server)
{
    weft_http_stats stats = {.idle = 4711};
    CHECK_EQ(weft_http_stats_get(server, &stats), -ECHILD);
    CHECK_EQ(stats.idle, 4711);
}

static void figures_in_a_forked_child(void)
{
    weft_http_server *server = serve(NULL);
    const char *written;
    CHECK_EQ(test_in_child(ask_in_child, server, &written), 0);
    CHECK_STR(written, "");
    end(server);
}

int main(void)
{
    RUN(what_must_hold);
    RUN(interrupted_calls_begin_again);
    RUN(errors_are_passed_on);
    RUN(a_look_that_is_interrupted);
    RUN(a_broken_pipe_that_was_pending_stays);
    RUN(chance_without_the_kernel);
    RUN(a_server_without_descriptors);
    RUN(figures_in_a_forked_child);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
