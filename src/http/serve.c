/*
 * serve.c: a server in one call, from open to close, which a signal ends.
 */
#include <weft/chan.h>
#include <weft/http.h>
#include <weft/signal.h>

#include "http/sys.h"

#define GRACE (10 * WEFT_S)

static int report_address(weft_http_server *server, void (*ready)(const char *address))
{
    weft_address local;
    char text[WEFT_ADDRESS_TEXT];
    int error = weft_http_local(server, 0, &local);
    if (error == 0)
        error = weft_address_format(&local, text, sizeof text);
    if (error == 0 && ready != NULL)
        ready(text);
    return error;
}

int weft_http_run(const weft_http_options *options, const char *address,
                  void (*ready)(const char *address))
{
    weft_http_server *server = NULL;
    weft_signal *end;
    int number;
    /* The signals first: `ready` may cause one. */
    int error = weft_signal_open(&end, weft__http_ends, 2, 1);
    if (error != 0)
        return error;
    error = weft_http_open(&server, options);
    if (error == 0)
        error = weft_http_listen(server, address, NULL);
    if (error == 0)
        error = report_address(server, ready);
    if (error == 0)
        error = weft_chan_receive(weft_signal_chan(end), &number);
    if (error == 0)
        error = weft_http_stop(server, weft_after(GRACE));
    weft_http_close(server);
    (void)weft_signal_close(end);
    return error;
}
