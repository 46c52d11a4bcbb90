/*
 * partial_head.c: the allocator of partial heads: its blocks, and that their memory goes back to
 * the system.
 */
#include "http/partial_head.h"

#include <stdatomic.h>
#include <sys/resource.h>

#include "http.h"
#include "http/sys.h"
#include "limit_descriptors.h"

/* ---- regions that are mapped, seen by the linker (--wrap) ---- */

static atomic_int regions;
static atomic_bool no_memory;

void *__real_weft__http_map(size_t size);
void *__wrap_weft__http_map(size_t size);
void *__wrap_weft__http_map(size_t size)
{
    if (no_memory)
        return NULL;
    atomic_fetch_add(&regions, 1);
    return __real_weft__http_map(size);
}

void __real_weft__http_unmap(void *memory, size_t size);
void __wrap_weft__http_unmap(void *memory, size_t size);
void __wrap_weft__http_unmap(void *memory, size_t size)
{
    atomic_fetch_sub(&regions, 1);
    __real_weft__http_unmap(memory, size);
}

/* ---- alone ---- */

enum { MANY = 1000 };

/* Of all sizes, each with bytes of its own up to its end, in an order that mixes them. */
static void blocks_do_not_overlap(void)
{
    struct partial_heads *partials = weft__http_partial_heads_open();
    static struct partial_head *had[MANY];
    CHECK(partials != NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            size_t size = (size_t)(i * 7919 % 70000) + 1;
            had[i] = weft__http_partial_head_get(partials, size);
            CHECK(had[i] != NULL);
            had[i]->size = size;
            memset(had[i]->bytes, i % 251, size);
        }
        for (int i = 0; i < MANY; i++) {
            struct partial_head *partial = had[i * 7 % MANY];
            int byte = i * 7 % MANY % 251;
            for (size_t at = 0; at < partial->size; at += partial->size / 3 + 1)
                CHECK_EQ((unsigned char)partial->bytes[at], byte);
            CHECK_EQ((unsigned char)partial->bytes[partial->size - 1], byte);
            weft__http_partial_head_put(partials, partial);
        }
    }
    CHECK(regions <= 5);
    weft__http_partial_head_put(partials, NULL);
    weft__http_partial_heads_close(partials);
    weft__http_partial_heads_close(NULL);
    CHECK_EQ(regions, 0);
}

/* A size at a time: all but one region of each are given back, and that one is used again. */
static void regions_go_back(void)
{
    struct partial_heads *partials = weft__http_partial_heads_open();
    static struct partial_head *had[MANY];
    int kept = 0;
    CHECK(partials != NULL);
    for (size_t size = 1500; size < 32000; size *= 2) {
        int per_region = (1 << 20) / (int)(2048 * (size / 1500));
        for (int i = 0; i < MANY; i++)
            had[i] = weft__http_partial_head_get(partials, size);
        CHECK_EQ(regions, kept + (MANY + per_region - 1) / per_region);
        for (int i = 0; i < MANY; i++)
            weft__http_partial_head_put(partials, had[i]);
        CHECK_EQ(regions, ++kept);
        had[0] = weft__http_partial_head_get(partials, size);
        CHECK_EQ(regions, kept);
        weft__http_partial_head_put(partials, had[0]);
    }
    /* Small ones, and those too large for a region, come from malloc. */
    had[0] = weft__http_partial_head_get(partials, 900);
    had[1] = weft__http_partial_head_get(partials, 33000);
    CHECK_EQ(regions, kept);
    weft__http_partial_head_put(partials, had[0]);
    weft__http_partial_head_put(partials, had[1]);
    weft__http_partial_heads_close(partials);
    CHECK_EQ(regions, 0);
}

static void without_memory_there_is_none(void)
{
    struct partial_heads *partials = weft__http_partial_heads_open();
    no_memory = true;
    CHECK(weft__http_partial_head_get(partials, 10000) == NULL);
    no_memory = false;
    struct partial_head *had = weft__http_partial_head_get(partials, 10000);
    CHECK(had != NULL);
    weft__http_partial_head_put(partials, had);
    weft__http_partial_heads_close(partials);
    CHECK_EQ(regions, 0);
}

/* ---- of a server ---- */

static int64_t resident_kb(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return (int64_t)pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int as_many_as_may_be(int wanted)
{
    int64_t most = ((int64_t)all_descriptors() - 200) / 5 * 2; /* both ends, and a reserve */
    return most < wanted ? (int)most : wanted;
}

/* Heads of 16 KB without their end, of many clients: when the clients have gone, or their requests
 * are answered, the memory has gone too. */
static void a_flood_leaves_nothing(void)
{
    int count = as_many_as_may_be(test_scale(4000));
    static char head[16000];
    int *clients = calloc((size_t)count, sizeof *clients);
    CHECK(clients != NULL);
    weft_http_server *server =
        SERVE(.handler = hello, .header_timeout = 600 * WEFT_S, .idle_timeout = 600 * WEFT_S);
    int start = snprintf(head, sizeof head, "GET / HTTP/1.1\r\n" HOST "X: ");
    memset(head + start, 'x', sizeof head - (size_t)start);
    for (int answered = 0; answered < 2; answered++) {
        int64_t before = resident_kb();
        for (int i = 0; i < count; i++) {
            clients[i] = dial_from(NULL, port_of(server, 0));
            CHECK_EQ(send(clients[i], head, sizeof head, MSG_NOSIGNAL), sizeof head);
        }
        AWAIT(stats_of(server).reading == count);
        AWAIT(atomic_load(&regions) >= count / 64); /* one that has sent nothing counts too */
        int64_t full = resident_kb();
        for (int i = 0; i < count; i++) {
            if (answered)
                CHECK_EQ(send(clients[i], "\r\n\r\n", 4, MSG_NOSIGNAL), 4);
            else
                close(clients[i]);
        }
        AWAIT(answered ? stats_of(server).idle == count : stats_of(server).connections == 0);
        AWAIT(atomic_load(&regions) <= 5);
        int64_t after = resident_kb();
        printf("    %d heads: %lld KB, then %lld\n", count, (long long)(full - before),
               (long long)(after - before));
#ifndef __SANITIZE_THREAD__
        /* A page or more of each is gone. Requests have buffers for a while. */
        CHECK(answered || after < full - count * 4);
#endif
        for (int i = 0; answered && i < count; i++)
            close(clients[i]);
    }
    AWAIT(stats_of(server).connections == 0);
    free(clients);
    end(server);
    CHECK_EQ(regions, 0);
}

/* A connection ends if its head cannot be kept; others do not. */
static void a_server_goes_on(void)
{
    weft_http_server *server = serve(hello);
    char *rest = text_of(5000, 'x');
    struct client client = client_open(server);
    no_memory = true;
    client_send(&client, "GET / HTTP/1.1\r\n" HOST "X: ");
    (void)client_try_send(&client, rest, strlen(rest));
    client_end(&client);
    no_memory = false;
    client = client_open(server);
    client_send(&client, "GET / HTTP/1.1\r\n" HOST "X: ");
    client_send(&client, rest);
    AWAIT(regions == 1);
    ASK(&client, "\r\n\r\n", 200, "hello");
    client_close(&client);
    free(rest);
    end(server);
    CHECK_EQ(regions, 0);
}

int main(void)
{
    RUN(blocks_do_not_overlap);
    RUN(regions_go_back);
    RUN(without_memory_there_is_none);
    RUN(a_server_goes_on);
    RUN(a_flood_leaves_nothing);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
