/*
 * early_answer.c: answers that are given before the body of the request has come, to clients that
 * send all of it before they read: they get the answer, however much they send.
 */
#include <signal.h>
#include <spawn.h>
#include <weft/runtime.h>

#include "http.h"
#include "system.h"

enum { BODY = 8 << 20 }; /* more than the sockets hold, and more than is thrown away in a turn */

/* /large: does not read, and answers 200; /small: finds the body too large. */
HANDLER(answer_early)
{
    char *body;
    size_t size;
    if (strcmp(weft_http_path(request), "/large") == 0)
        CHECK_EQ(weft_http_puts(response, "no, thanks"), 0);
    else
        CHECK_EQ(weft_http_read_all(request, &body, &size), -EFBIG);
}

static weft_http_server *serve_early(void)
{
    return SERVE(.handler = answer_early, .max_body = 1000);
}

static void send_all_then_read(const char *head, int status)
{
    weft_http_server *server = serve_early();
    char *body = text_of(BODY, 'x');
    for (int round = 0; round < 5; round++) {
        struct client client = client_asks(server, head);
        client_send_bytes(&client, body, BODY); /* it is not reset */
        EXPECT(&client, status, NULL);
        client_end(&client);
    }
    free(body);
    end(server);
}

static void an_answer_without_reading(void)
{
    send_all_then_read("POST /large HTTP/1.1\r\n" HOST "Content-Length: 8388608\r\n\r\n", 200);
}

static void a_body_too_large(void)
{
    send_all_then_read("POST /small HTTP/1.1\r\n" HOST "Content-Length: 8388608\r\n\r\n", 413);
}

static void a_bad_head(void)
{
    send_all_then_read("POST /small HTTP/1.1\r\n" HOST "Content-Length: x\r\n\r\n", 400);
}

/* A client that we did not write, and which is like that. */
static void python(void)
{
    static const char script[] =
        "import http.client, sys\n"
        "for path, status in ('/large', 200), ('/small', 413):\n"
        "    for i in range(5):\n"
        "        client = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n"
        "        client.request('POST', path, b'x' * 8388608)\n"
        "        answer = client.getresponse()\n"
        "        answer.read()\n"
        "        assert answer.status == status, answer.status\n"
        "        client.close()\n";
    char port[20];
    int status = 0;
    pid_t child;
    weft_http_server *server = serve_early();
    (void)snprintf(port, sizeof port, "%d", port_of(server, 0));
    const char *arguments[] = {"python3", "-c", script, port, NULL};
    char *given[5];
    memcpy(given, arguments, sizeof given);
    int error = posix_spawnp(&child, "python3", NULL, NULL, given, environ);
    if (error == 0) {
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
    } else {
        CHECK_EQ(error, ENOENT);
        printf("there is no python3 here: left out\n");
    }
    end(server);
}

int main(void)
{
    int before = open_descriptors();
    RUN(an_answer_without_reading);
    RUN(a_body_too_large);
    RUN(a_bad_head);
    RUN(python);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    return 0;
}
