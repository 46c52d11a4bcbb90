/*
 * echo_server.c: sends back what it receives, with a fiber for each connection.
 *
 *     echo_server [address]        e.g. tcp:127.0.0.1:7000, tcp::7000, unix:/tmp/echo.sock
 *
 * Without an address it takes a free port of 127.0.0.1. It prints its address. On SIGINT or SIGTERM
 * it accepts no more connections and gives the existing ones a second to end.
 */
#include <signal.h>
#include <stdio.h>
#include <weft/weft.h>

#define IDLE (60 * WEFT_S)

static weft_wg connections = WEFT_WG_INIT;

static void echo(void *arg)
{
    weft_conn *conn = arg;
    char data[4096];
    int64_t got;
    while ((got = weft_conn_read(conn, data, sizeof data, weft_after(IDLE))) > 0)
        if (weft_conn_write(conn, data, (size_t)got, weft_after(IDLE)) != got)
            break;
    weft_conn_close(conn);
}

static void serve(void *arg)
{
    weft_listener *listener = arg;
    weft_conn *conn;
    int error;
    while ((error = weft_listener_accept(listener, &conn, WEFT_NEVER)) == 0)
        if (weft_wg_go(&connections, echo, conn) != 0)
            weft_conn_close(conn); /* no memory for another fiber; existing connections go on */
    if (error != -ESHUTDOWN)
        fprintf(stderr, "echo_server: accept: %s\n", weft_strerror(error));
    weft_listener_close(listener);
}

int main(int argc, char **argv)
{
    static const int ends[] = {SIGINT, SIGTERM};
    const char *wanted = argc > 1 ? argv[1] : "tcp:127.0.0.1:0";
    char text[WEFT_ADDRESS_TEXT];
    weft_listener *listener;
    weft_address address;
    weft_fiber *server;
    weft_signal *stop;
    int number;
    int error = weft_signal_open(&stop, ends, 2, 1);
    if (error == 0)
        error = weft_listener_open(&listener, wanted, NULL);
    if (error != 0) {
        fprintf(stderr, "echo_server: %s: %s\n", wanted, weft_strerror(error));
        return 1;
    }
    weft_listener *shared = weft_listener_share(listener); /* closed by serve */
    if (weft_listener_local(listener, &address) != 0 ||
        weft_address_format(&address, text, sizeof text) != 0 ||
        weft_spawn(&server, serve, shared, NULL) != 0)
        return 1; /* the process ends, and with it what is open */
    printf("%s\n", text);
    fflush(stdout);

    if (weft_chan_receive(weft_signal_chan(stop), &number) != 0)
        return 1;
    weft_listener_close(listener); /* the server's accept returns */
    if (weft_join(server) != 0)
        return 1;
    if (weft_wg_wait_until(&connections, weft_after(WEFT_S)) != 0)
        fprintf(stderr, "echo_server: some did not end\n");
    weft_signal_close(stop);
    return 0;
}
