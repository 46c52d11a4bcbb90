/*
 * limiter.c: many clients of a service that accepts 500 requests per second, 20 of them at once.
 *
 * Each client takes an event from the limiter before each request. If its turn is more than 100 ms
 * away the call fails at once, and the client does other work.
 */
#include <stdio.h>
#include <weft/weft.h>

enum { CLIENTS = 100, REQUESTS = 2, RATE = 500, BURST = 20 };

struct service {
    weft_limiter *limiter;
    weft_mutex mutex;
    int sent, refused;
    int64_t begun, ended;
};

static void client(void *arg)
{
    struct service *service = arg;
    for (int i = 0; i < REQUESTS; i++) {
        int error = weft_limiter_take_until(service->limiter, 1, weft_after(100 * WEFT_MS));
        weft_mutex_lock(&service->mutex);
        if (error == 0)
            service->sent++; /* a real client would send its request here */
        else
            service->refused++;
        service->ended = weft_now();
        weft_mutex_unlock(&service->mutex);
    }
}

int main(void)
{
    struct service service = {.begun = weft_now()};
    weft_limiter_options options = {.rate = RATE, .burst = BURST};
    if (weft_limiter_open(&service.limiter, &options) != 0)
        return 1;
    weft_wg clients = WEFT_WG_INIT;
    for (int i = 0; i < CLIENTS; i++)
        if (weft_wg_go(&clients, client, &service) != 0)
            return 1;
    if (weft_wg_wait(&clients) != 0)
        return 1;
    weft_limiter_close(service.limiter);

    int64_t took = service.ended - service.begun;
    printf("%d requests sent, %d refused, in %lld ms\n", service.sent, service.refused,
           (long long)(took / WEFT_MS));
    if (service.sent + service.refused != CLIENTS * REQUESTS ||
        service.sent > BURST + RATE * (took + 1) / WEFT_S) {
        fprintf(stderr, "limiter: more requests than the rate allows\n");
        return 1;
    }
    return 0;
}
