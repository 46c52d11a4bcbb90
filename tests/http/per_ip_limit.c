/*
 * per_ip_limit.c: the limits on connections, requests and streams of an address, without a server.
 */
#include "http/per_ip_limit.h"

#include <arpa/inet.h>

#include "peer_of.h"
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

static struct per_ip_limits *open_limits(int64_t most)
{
    const struct allowance allowances[PER_IP_LIMITS] = {
        {.max = most}, {.max = 2}, {.max = INT64_MAX}};
    struct per_ip_limits *limits = weft__http_per_ip_open(allowances, 1);
    CHECK(limits != NULL);
    return limits;
}

static bool enter(struct per_ip_limits *limits, const struct peer *peer)
{
    return weft__http_per_ip_acquire(limits, PER_IP_CONNECTIONS, peer, 1);
}

static void leave(struct per_ip_limits *limits, const struct peer *peer)
{
    weft__http_per_ip_release(limits, PER_IP_CONNECTIONS, peer, 1);
}

static void an_address_has_so_many(void)
{
    struct per_ip_limits *limits = open_limits(3);
    struct peer one = ipv4(1), other = ipv4(2);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            CHECK(enter(limits, &one));
        CHECK(!enter(limits, &one));
        CHECK(enter(limits, &other));
        leave(limits, &one);
        one.port++; /* of no matter */
        CHECK(enter(limits, &one));
        CHECK(!enter(limits, &one));
        for (int i = 0; i < 3; i++)
            leave(limits, &one);
        leave(limits, &other);
    }
    weft__http_per_ip_close(limits);
}

/* With a limit of one: if a second is refused the two addresses count as one. */
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
        struct per_ip_limits *limits = open_limits(1);
        CHECK(enter(limits, &table[i].one));
        bool welcome = enter(limits, &table[i].other);
        if (welcome == table[i].same)
            test_fail(__FILE__, __LINE__, "row %d", (int)i);
        leave(limits, &table[i].one);
        if (welcome)
            leave(limits, &table[i].other);
        weft__http_per_ip_close(limits);
    }
}

/* As on a Unix socket; or there is no limit. */
static void what_is_not_counted(void)
{
    struct per_ip_limits *limits = open_limits(1);
    struct peer unknown = {.family = 0}, known = ipv4(1);
    for (int i = 0; i < 10; i++) {
        CHECK(enter(limits, &unknown));
        CHECK(enter(NULL, &known));
    }
    for (int i = 0; i < 10; i++) {
        leave(limits, &unknown);
        leave(NULL, &known);
    }
    weft__http_per_ip_close(limits);
    weft__http_per_ip_close(NULL);
}

/* Many more than the table has chains: those in one chain are told apart, whichever of them leaves
 * first. */
static void many_addresses_are_told_apart(void)
{
    enum { EACH = 1000, ALL = 2 * EACH };
    static struct peer peers[ALL];
    struct per_ip_limits *limits = open_limits(2);
    for (uint32_t i = 0; i < EACH; i++) {
        peers[i] = ipv4(i);
        peers[EACH + i] = ipv6(i, 0); /* another kind of the same number */
    }
    for (int i = 0; i < 2 * ALL; i++)
        CHECK(enter(limits, &peers[i % ALL]));
    for (int i = 0; i < ALL; i++)
        CHECK(!enter(limits, &peers[i]));
    for (int i = 0; i < ALL; i++) {
        const struct peer *peer = &peers[i * 617 % ALL];
        leave(limits, peer);
        leave(limits, peer);
        CHECK(enter(limits, peer)); /* at the end of its chain now */
    }
    for (int i = 0; i < ALL; i++) {
        CHECK(enter(limits, &peers[i]));
        CHECK(!enter(limits, &peers[i]));
    }
    for (int i = 2 * ALL - 1; i >= 0; i--)
        leave(limits, &peers[i * 7 % ALL]);
    weft__http_per_ip_close(limits);
}

/* The networks of a /48, and of a /34 by its upper bits, and the hosts of a /18 do not share a
 * chain. With as many addresses as chains, a chain of 24 has a probability below 1e-19. */
static void a_client_does_not_choose_its_chain(void)
{
    enum { ALL = 16384 };
    for (int shift = 0; shift <= 50; shift += 10) {
        const struct allowance allowances[PER_IP_LIMITS] = {{.max = 1}, {.max = 1}, {.max = 1}};
        struct per_ip_limits *limits = weft__http_per_ip_open(allowances, ALL);
        CHECK(limits != NULL);
        for (uint64_t i = 0; i < ALL; i++) {
            struct peer peer = ipv6(i << shift, 0), host = ipv4((uint32_t)(i << (shift % 20)));
            CHECK(enter(limits, shift < 30 ? &host : &peer));
        }
        CHECK(weft__http_per_ip_longest_chain(limits) < 24);
        for (uint64_t i = 0; i < ALL; i++) {
            struct peer peer = ipv6(i << shift, 0), host = ipv4((uint32_t)(i << (shift % 20)));
            leave(limits, shift < 30 ? &host : &peer);
        }
        weft__http_per_ip_close(limits);
    }
}

/* Each kind has its own count, and an address is known as long as it has anything of any kind. */
static void kinds_are_counted_apart(void)
{
    struct per_ip_limits *limits = open_limits(1);
    struct peer peer = ipv4(7);
    for (int round = 0; round < 2; round++) {
        CHECK(enter(limits, &peer));
        for (int i = 0; i < 2; i++)
            CHECK(weft__http_per_ip_acquire(limits, PER_IP_REQUESTS, &peer, 1));
        CHECK(!weft__http_per_ip_acquire(limits, PER_IP_REQUESTS, &peer, 1));
        CHECK(!enter(limits, &peer));
        leave(limits, &peer);
        CHECK(!weft__http_per_ip_acquire(limits, PER_IP_REQUESTS, &peer, 1));
        CHECK(enter(limits, &peer));
        for (int i = 0; i < 2; i++)
            weft__http_per_ip_release(limits, PER_IP_REQUESTS, &peer, 1);
        CHECK(!enter(limits, &peer));
        for (int i = 0; i < 100; i++) /* without a limit nothing is counted */
            CHECK(weft__http_per_ip_acquire(limits, PER_IP_STREAMS, &peer, 1));
        leave(limits, &peer);
    }
    weft__http_per_ip_close(limits);
}

static void near_addresses_can_be_spared(void)
{
    static const struct {
        const char *text;
        bool near;
    } table[] = {
        {"127.0.0.1", true},
        {"127.255.255.255", true},
        {"128.0.0.1", false},
        {"10.0.0.0", true},
        {"11.0.0.0", false},
        {"9.255.255.255", false},
        {"172.16.0.1", true},
        {"172.31.255.255", true},
        {"172.15.0.1", false},
        {"172.32.0.1", false},
        {"192.168.0.1", true},
        {"192.169.0.1", false},
        {"191.168.0.1", false},
        {"169.254.1.1", true},
        {"169.253.1.1", false},
        {"100.64.0.1", true},
        {"100.127.0.1", true},
        {"100.128.0.1", false},
        {"100.63.0.1", false},
        {"203.0.113.1", false},
        {"0.0.0.0", false},
        {"::1", true},
        {"::2", false},
        {"fc00::1", true},
        {"fdff::1", true},
        {"fe00::1", false},
        {"fe80::1", true},
        {"febf::1", true},
        {"fec0::1", false},
        {"2001:db8::1", false},
        {"::ffff:127.0.0.1", true},
        {"::ffff:8.8.8.8", false},
        {"::ffff:192.168.1.1", true},
    };
    const struct allowance sparing[PER_IP_LIMITS] = {{1, true}, {1, true}, {1, true}};
    struct per_ip_limits *limits = weft__http_per_ip_open(sparing, 1);
    CHECK(limits != NULL);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct peer peer = peer_of(table[i].text);
        CHECK(enter(limits, &peer));
        if (weft__http_peer_is_private(&peer) != table[i].near ||
            enter(limits, &peer) != table[i].near)
            test_fail(__FILE__, __LINE__, "%s", table[i].text);
        leave(limits, &peer);
        if (table[i].near)
            leave(limits, &peer);
    }
    weft__http_per_ip_close(limits);
}

int main(void)
{
    RUN_PLAIN(an_address_has_so_many, "nothing here is a fiber");
    RUN_PLAIN(what_counts_as_one_address, "nothing here is a fiber");
    RUN_PLAIN(what_is_not_counted, "nothing here is a fiber");
    RUN_PLAIN(kinds_are_counted_apart, "nothing here is a fiber");
    RUN_PLAIN(near_addresses_can_be_spared, "nothing here is a fiber");
    RUN_PLAIN(many_addresses_are_told_apart, "nothing here is a fiber");
    RUN_PLAIN(a_client_does_not_choose_its_chain, "nothing here is a fiber");
    return 0;
}
