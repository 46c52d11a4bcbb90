/*
 * tls_idle.c: memory of idle connections with TLS: before their first byte, and after a request.
 * docs/http.md has the figures, which bench/http measures with 10,000 of them.
 *
 * The clients are another process; the test counts this process's memory from malloc.
 */
#include <malloc.h>
#include <signal.h>

#include "tls_server.h"

/* Bounds for one: twice, and a little more than, what a release build takes. */
enum { SILENT_MOST = 500, IDLE_MOST = 16000 };

static int64_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

/* As the client's process: so many connections, each with a request if `asking`, kept until the
 * other end of the pipe is closed. What a session needs here is freed: only its socket stays. */
static _Noreturn void be_clients(int port, int count, bool asking, int until, int version)
{
    char byte;
    for (int i = 0; i < count; i++) {
        int fd = dial(port);
        if (asking) {
            struct client client =
                client_open(clients, fd, (struct client_options){.version = version});
            CHECK_EQ(client_handshake(&client), 0);
            ask(&client, GET("/"));
            expect_hello(&client);
            client_close(&client, false);
        }
    }
    while (read(until, &byte, 1) < 0 && errno == EINTR)
        ;
    _exit(0);
}

struct others {
    pid_t pid;
    int until;
};

static struct others start_clients(int port, int count, bool asking, int version)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char version_text[20], port_text[20], count_text[20], until[20];
        close(ends[1]);
        snprintf(port_text, sizeof port_text, "%d", port);
        snprintf(count_text, sizeof count_text, "%d", count);
        snprintf(until, sizeof until, "%d", ends[0]);
        snprintf(version_text, sizeof version_text, "%d", version);
        /* A process of its own: a runtime does not go on in a forked child. */
        execl("/proc/self/exe", "clients", port_text, count_text, asking ? "1" : "0", until,
              version_text, certificates_folder, (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    return (struct others){pid, ends[1]};
}

static void end_clients(struct others others)
{
    int status;
    close(others.until);
    CHECK_EQ(waitpid(others.pid, &status, 0), others.pid);
    CHECK_EQ(status, 0);
}

static void run_clients(weft_http_server *server, int port, int count, bool asking, int version)
{
    struct others others = start_clients(port, count, asking, version);
    AWAIT(stats_of(server).connections == count);
    AWAIT(asking ? stats_of(server).idle == count : true);
    end_clients(others);
    AWAIT(stats_of(server).connections == 0);
}

/* Bytes that one of so many takes. */
static int64_t memory_of_one(int count, bool asking, int version)
{
    int port;
    weft_http_server *server =
        serve_tls((weft_http_options){.handler = hello, .acceptors = 1}, &port);
    run_clients(server, port, 20, true, version); /* what is made once */
    int64_t before = allocated();
    struct others others = start_clients(port, count, asking, version);
    AWAIT(stats_of(server).connections == count);
    AWAIT(asking ? stats_of(server).idle == count : true);
    int64_t each = (allocated() - before) / count;
    end_clients(others);
    AWAIT(stats_of(server).connections == 0);
    end(server);
    return each;
}

static void silent_ones_are_small(void)
{
    int64_t each = memory_of_one(500, false, 0);
    printf("    %lld bytes\n", (long long)each);
    CHECK(each < SILENT_MOST);
}

static void idle_ones_have_no_buffers(void)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (int i = 0; i < 2; i++) {
        int64_t each = memory_of_one(test_scale(200), true, versions[i]);
        printf("    %lld bytes\n", (long long)each);
        CHECK(each < IDLE_MOST);
    }
}

int main(int count, char **arguments)
{
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR); /* the client's own */
    if (count == 7) {
        memcpy(certificates_folder, arguments[6], sizeof certificates_folder);
        clients = client_context();
        be_clients(atoi(arguments[1]), atoi(arguments[2]), arguments[3][0] == '1',
                   atoi(arguments[4]), atoi(arguments[5]));
    }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("mallinfo2 says nothing of a sanitizer's malloc");
#endif
    struct mallinfo2 info = mallinfo2();
    void *probe = malloc(10000);
    bool counts = probe != NULL && mallinfo2().uordblks >= info.uordblks + 10000;
    free(probe);
    if (!counts)
        test_skip("malloc is not glibc's");
    certificates_make();
    RUN(silent_ones_are_small);
    RUN(idle_ones_have_no_buffers);
    certificates_remove();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
