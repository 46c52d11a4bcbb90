/*
 * echo_client.c: talks to echo_server over several connections at once, and checks every byte.
 *
 *     echo_client address [connections [messages]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#define TIMEOUT (10 * WEFT_S)

static const char *address;
static long messages = 1000;

/* One connection, as a function of a group: the first error ends all of them. */
static int talk(void *arg)
{
    (void)arg;
    char data[512], back[512];
    weft_conn *conn;
    int error = weft_conn_dial(&conn, address, NULL, weft_after(TIMEOUT));
    if (error != 0)
        return error;
    for (long i = 0; i < messages && error == 0; i++) {
        size_t size = 1 + (size_t)i % sizeof data;
        memset(data, (int)i, size);
        int64_t sent = weft_conn_write(conn, data, size, weft_after(TIMEOUT));
        int64_t got = weft_conn_read_full(conn, back, size, weft_after(TIMEOUT));
        if (sent != (int64_t)size || got != (int64_t)size)
            error = sent < 0 ? (int)sent : got < 0 ? (int)got : -EPIPE;
        else if (memcmp(data, back, size) != 0)
            error = -EBADMSG;
    }
    weft_conn_close(conn);
    return error;
}

int main(int argc, char **argv)
{
    long connections = argc > 2 ? strtol(argv[2], NULL, 10) : 10;
    weft_group *group;
    if (argc < 2 || connections < 1) {
        fprintf(stderr, "usage: echo_client address [connections [messages]]\n");
        return 2;
    }
    address = argv[1];
    if (argc > 3)
        messages = strtol(argv[3], NULL, 10);
    int64_t start = weft_now();
    int error = weft_group_open(&group, NULL);
    if (error != 0)
        return 1;
    for (long i = 0; i < connections && error == 0; i++)
        error = weft_group_go(group, talk, NULL);
    int first = weft_group_close(group); /* waits for all connections */
    if (error != 0 || first != 0) {
        fprintf(stderr, "echo_client: %s\n", weft_strerror(error != 0 ? error : first));
        return 1;
    }
    double seconds = (double)(weft_now() - start) / (double)WEFT_S;
    printf("%ld messages over %ld connections in %.3f s\n", connections * messages, connections,
           seconds);
    return 0;
}
