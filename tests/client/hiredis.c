/*
 * hiredis.c: a C client library without support for weft, used from fibers unchanged.
 *
 * A redis-server is started on a free port of loopback, and stopped at the end. Fifty fibers on two
 * processors wait inside the library for elements that fifty others put there only when the server
 * reports that all of the first wait: all of them must be inside at the same time.
 */
#include "test.h"

#ifndef WEFT_HAVE_HIREDIS

int main(void)
{
    test_skip("libhiredis-dev was not found when this was configured");
}

#else

#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <weft/weft.h>

enum { PAIRS = 50 };

static int port;
static pid_t server;
static int received[PAIRS];

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, size), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void run_server(void)
{
    char number[16];
    snprintf(number, sizeof number, "%d", port);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if a check fails */
    int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDOUT_FILENO);
    execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", number, "--save", "",
           "--appendonly", "no", (char *)NULL);
    _exit(77);
}

static redisContext *connect_once(void)
{
    redisContext *context = redisConnect("127.0.0.1", port);
    CHECK(context != NULL);
    if (context->err == 0)
        return context;
    redisFree(context);
    return NULL;
}

static void start_server(void)
{
    redisContext *context;
    port = free_port();
    fflush(NULL);
    server = fork();
    CHECK(server >= 0);
    if (server == 0)
        run_server();
    while ((context = connect_once()) == NULL) {
        int status = 0;
        if (waitpid(server, &status, WNOHANG) == server)
            test_skip(WIFEXITED(status) && WEXITSTATUS(status) == 77
                          ? "there is no redis-server"
                          : "redis-server did not start");
        usleep(10000);
    }
    redisFree(context);
}

static void stop_server(void)
{
    int status;
    CHECK_EQ(kill(server, SIGTERM), 0);
    CHECK_EQ(waitpid(server, &status, 0), server);
}

static redisContext *connect_to_server(void)
{
    redisContext *context = connect_once();
    CHECK(context != NULL);
    return context;
}

static void take(void *arg)
{
    int self = (int)(intptr_t)arg;
    redisContext *context = connect_to_server();
    redisReply *reply = redisCommand(context, "BLPOP box:%d 0", self);
    CHECK(reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2);
    received[self] = (int)strtol(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    redisFree(context);
}

static void put(void *arg)
{
    int self = (int)(intptr_t)arg;
    redisContext *context = connect_to_server();
    redisReply *reply = redisCommand(context, "LPUSH box:%d %d", self, self * 3);
    CHECK(reply != NULL && reply->type == REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
    reply = redisCommand(context, "GET nothing");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_NIL);
    freeReplyObject(reply);
    redisFree(context);
}

static int clients_that_wait(redisContext *context)
{
    redisReply *reply = redisCommand(context, "INFO clients");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STRING);
    const char *at = strstr(reply->str, "blocked_clients:");
    CHECK(at != NULL);
    int count = (int)strtol(at + strlen("blocked_clients:"), NULL, 10);
    freeReplyObject(reply);
    return count;
}

static void a_hundred_queries_at_once(void)
{
    weft_fiber *readers[PAIRS], *putters[PAIRS];
    weft_config config = {.processors = 2};
    CHECK_EQ(weft_configure(&config), 0);
    redisContext *context = connect_to_server();
    for (intptr_t i = 0; i < PAIRS; i++)
        CHECK_EQ(weft_spawn(&readers[i], take, (void *)i, NULL), 0);
    while (clients_that_wait(context) < PAIRS)
        usleep(1000);
    for (intptr_t i = 0; i < PAIRS; i++)
        CHECK_EQ(weft_spawn(&putters[i], put, (void *)i, NULL), 0);
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_join(readers[i]), 0);
        CHECK_EQ(weft_join(putters[i]), 0);
        CHECK_EQ(received[i], i * 3);
    }
    redisFree(context);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

int main(void)
{
    start_server();
    RUN(a_hundred_queries_at_once);
    stop_server();
    return 0;
}

#endif
