/*
 * hello.c: the smallest complete server: answers until SIGINT or SIGTERM, then completes open
 * requests.
 *
 *     hello [address]            e.g. tcp:127.0.0.1:8080
 */
#include <stdio.h>
#include <weft/http.h>
#include <weft/weft.h>

static void hello(weft_http_request *request, weft_http_response *response, void *data)
{
    const char *name = weft_http_query_value(request, "name");
    (void)data;
    weft_http_set(response, "Content-Type", "text/plain; charset=utf-8");
    weft_http_printf(response, "hello, %s\n", name != NULL ? name : "world");
}

static void ready(const char *address)
{
    printf("listening at %s\n", address);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *address = argc > 1 ? argv[1] : "tcp:127.0.0.1:8080";
    weft_http_options options = {.handler = hello};
    int error = weft_http_run(&options, address, ready);
    if (error != 0)
        fprintf(stderr, "%s: %s\n", address, weft_strerror(error));
    return error != 0;
}
