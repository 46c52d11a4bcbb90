/*
 * limit.c: how many connections an address has, without a server.
 */
#include "http/limit.h"

#include "test.h"

static struct peer ipv4(uint32_t number)
{
    struct peer peer = {.family = 4};
    memcpy(peer.ip, &number, sizeof number);
    return peer;
}

static struct peer ipv6(uint64_t network, uint64_t host)
{
    struct peer peer = {.family = 6};
    memcpy(peer.ip, &network, sizeof network);
    memcpy(peer.ip + 8, &host, sizeof host);
    return peer;
}

static struct limits *open_limits(int64_t most)
{
    struct limits *limits = weft__http_limits_open(most, 1);
    CHECK(limits != NULL);
    return limits;
}

static void an_address_has_so_many(void)
{
    struct limits *limits = open_limits(3);
    struct peer one = ipv4(1), other = ipv4(2);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            CHECK(weft__http_limits_enter(limits, &one));
        CHECK(!weft__http_limits_enter(limits, &one));
        CHECK(weft__http_limits_enter(limits, &other));
        weft__http_limits_leave(limits, &one);
        one.port++; /* of no matter */
        CHECK(weft__http_limits_enter(limits, &one));
        CHECK(!weft__http_limits_enter(limits, &one));
        for (int i = 0; i < 3; i++)
            weft__http_limits_leave(limits, &one);
        weft__http_limits_leave(limits, &other);
    }
    weft__http_limits_close(limits);
}

/* With one place: whether a second is let in says whether the two count as one. */
static void what_counts_as_one_address(void)
{
    struct peer unknown = {.family = 0}, link = ipv6(5, 1);
    link.scope = 1;
    struct peer mapped = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 1, [15] = 9}, .family = 6};
    struct peer same = {.ip = {[0] = 1, [3] = 9}, .family = 4};
    struct peer nearly = {.ip = {[10] = 0xff, [11] = 0xfe, [12] = 1, [15] = 9}, .family = 6};
    const struct {
        struct peer one, other;
        bool same;
    } table[] = {
        {ipv4(5), ipv4(5), true},       {ipv4(5), ipv4(6), false},
        {ipv6(5, 1), ipv6(5, 2), true}, {ipv6(5, 1), ipv6(6, 1), false},
        {ipv6(5, 1), link, false},      {ipv4(5), ipv6(5, 0), false},
        {mapped, same, true},           {mapped, mapped, true},
        {nearly, same, false},          {nearly, mapped, false},
        {unknown, ipv4(0), false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct limits *limits = open_limits(1);
        CHECK(weft__http_limits_enter(limits, &table[i].one));
        bool welcome = weft__http_limits_enter(limits, &table[i].other);
        if (welcome == table[i].same)
            test_fail(__FILE__, __LINE__, "row %d", (int)i);
        weft__http_limits_leave(limits, &table[i].one);
        if (welcome)
            weft__http_limits_leave(limits, &table[i].other);
        weft__http_limits_close(limits);
    }
}

/* As on a Unix socket; or there is no limit. */
static void what_is_not_counted(void)
{
    struct limits *limits = open_limits(1);
    struct peer unknown = {.family = 0}, known = ipv4(1);
    for (int i = 0; i < 10; i++) {
        CHECK(weft__http_limits_enter(limits, &unknown));
        CHECK(weft__http_limits_enter(NULL, &known));
    }
    for (int i = 0; i < 10; i++) {
        weft__http_limits_leave(limits, &unknown);
        weft__http_limits_leave(NULL, &known);
    }
    weft__http_limits_close(limits);
    weft__http_limits_close(NULL);
}

/* Many more than the table has chains: those in one chain are told apart, whoever of them leaves first. */
static void many_addresses_are_told_apart(void)
{
    enum { EACH = 1000, ALL = 2 * EACH };
    static struct peer peers[ALL];
    struct limits *limits = open_limits(2);
    for (uint32_t i = 0; i < EACH; i++) {
        peers[i] = ipv4(i);
        peers[EACH + i] = ipv6(i, 0); /* another kind of the same number */
    }
    for (int i = 0; i < 2 * ALL; i++)
        CHECK(weft__http_limits_enter(limits, &peers[i % ALL]));
    for (int i = 0; i < ALL; i++)
        CHECK(!weft__http_limits_enter(limits, &peers[i]));
    for (int i = 0; i < ALL; i++) {
        const struct peer *peer = &peers[i * 617 % ALL];
        weft__http_limits_leave(limits, peer);
        weft__http_limits_leave(limits, peer);
        CHECK(weft__http_limits_enter(limits, peer)); /* at the end of its chain now */
    }
    for (int i = 0; i < ALL; i++) {
        CHECK(weft__http_limits_enter(limits, &peers[i]));
        CHECK(!weft__http_limits_enter(limits, &peers[i]));
    }
    for (int i = 2 * ALL - 1; i >= 0; i--)
        weft__http_limits_leave(limits, &peers[i * 7 % ALL]);
    weft__http_limits_close(limits);
}

int main(void)
{
    RUN_PLAIN(an_address_has_so_many, "nothing here is a fiber");
    RUN_PLAIN(what_counts_as_one_address, "nothing here is a fiber");
    RUN_PLAIN(what_is_not_counted, "nothing here is a fiber");
    RUN_PLAIN(many_addresses_are_told_apart, "nothing here is a fiber");
    return 0;
}
