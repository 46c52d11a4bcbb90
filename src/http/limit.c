/*
 * limit.c: how many connections, requests, streams and bytes of bodies an address has: a table of
 * those that have any.
 *
 * An IPv4 address counts by itself. Of IPv6 the first 64 bits count, since a client has as many
 * addresses in its network as it likes. An IPv4 address in the form of IPv6 (::ffff:a.b.c.d) is the
 * IPv4 address. The number of entries is bounded by the number of connections. One lock guards the
 * table: it is held for some ten nanoseconds, at the start and at the end of what is counted.
 *
 * The hash is SipHash-1-3 with a random key. A client chooses its addresses: a client with a /48 has
 * 65,536 networks of 64 bits, and must not be able to bring them into one chain, which each accept
 * would search.
 *
 * Rejected: a multiplication by a constant, with a random seed. The upper bits of its input do not
 * reach the bits that choose the chain, whatever the seed, and the last two bytes of a /64 are the
 * upper ones: all of a /48 shared a chain.
 *
 * Near addresses, of this host and of private networks, can be spared: a proxy is there, which asks
 * for all its clients, and from outside nobody comes with such an address.
 */
#include "http/limit.h"

#include <string.h>

#include <weft/mutex.h>

#include "http/sys.h"

struct guest {
    struct guest *next;
    uint64_t key[2];
    int64_t counts[LIMITS];
};

struct limits {
    weft_mutex lock;
    struct allowance allowances[LIMITS];
    uint64_t secret[2];
    uint64_t mask;
    struct guest *chains[];
};

struct limits *weft__http_limits_open(const struct allowance allowances[LIMITS],
                                      int64_t connections)
{
    uint64_t size = 64;
    while (size < 16384 && (int64_t)size < connections)
        size *= 2;
    size_t bytes = sizeof(struct limits) + size * sizeof(struct guest *);
    struct limits *limits = weft__http_allocate(bytes);
    if (limits == NULL)
        return NULL;
    memset(limits, 0, bytes);
    memcpy(limits->allowances, allowances, sizeof limits->allowances);
    limits->secret[0] = weft__http_random();
    limits->secret[1] = weft__http_random();
    limits->mask = size - 1;
    return limits;
}

void weft__http_limits_close(struct limits *limits)
{
    if (limits == NULL)
        return;
    for (uint64_t i = 0; i <= limits->mask; i++)
        must(limits->chains[i] == NULL);
    weft__http_free(limits);
}

/* The four bytes of an IPv4 address, in either form; else NULL. */
static const uint8_t *ipv4_of(const struct peer *peer)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (peer->family == 4)
        return peer->ip;
    return memcmp(peer->ip, mapped, sizeof mapped) == 0 ? peer->ip + sizeof mapped : NULL;
}

bool weft__http_is_near(const struct peer *peer)
{
    static const uint8_t loopback[16] = {[15] = 1};
    const uint8_t *ip = ipv4_of(peer);
    if (ip != NULL)
        return ip[0] == 127 || ip[0] == 10 || (ip[0] == 172 && (ip[1] & 0xf0) == 16) ||
               (ip[0] == 192 && ip[1] == 168) || (ip[0] == 169 && ip[1] == 254) ||
               (ip[0] == 100 && (ip[1] & 0xc0) == 64);
    ip = peer->ip;
    return memcmp(ip, loopback, sizeof loopback) == 0 || (ip[0] & 0xfe) == 0xfc ||
           (ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);
}

static bool is_counted(const struct limits *limits, enum limit limit, const struct peer *peer)
{
    if (limits == NULL || peer->family == 0 || peer->trusted)
        return false;
    const struct allowance *allowance = &limits->allowances[limit];
    return allowance->most < INT64_MAX && !(allowance->spares_near && weft__http_is_near(peer));
}

static void key_of(const struct peer *peer, uint64_t key[2])
{
    uint32_t ipv4;
    const uint8_t *ip = ipv4_of(peer);
    if (ip != NULL) {
        memcpy(&ipv4, ip, sizeof ipv4);
        key[0] = 4;
        key[1] = ipv4;
    } else {
        key[0] = 6 + ((uint64_t)peer->scope << 8);
        memcpy(&key[1], peer->ip, sizeof key[1]);
    }
}

static uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32) + v[3];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3 of the two words of a key (Aumasson and Bernstein, 2012). */
static uint64_t hash_of(const uint64_t secret[2], const uint64_t key[2])
{
    uint64_t v[4] = {secret[0] ^ 0x736f6d6570736575u, secret[1] ^ 0x646f72616e646f6du,
                     secret[0] ^ 0x6c7967656e657261u, secret[1] ^ 0x7465646279746573u};
    const uint64_t words[3] = {key[0], key[1], (uint64_t)16 << 56}; /* the last: 16 bytes in all */
    for (int i = 0; i < 3; i++) {
        v[3] ^= words[i];
        sip_round(v);
        v[0] ^= words[i];
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static struct guest **chain_of(struct limits *limits, const uint64_t key[2])
{
    return &limits->chains[hash_of(limits->secret, key) & limits->mask];
}

int64_t weft__http_limits_longest(struct limits *limits)
{
    int64_t longest = 0;
    weft_mutex_lock(&limits->lock);
    for (uint64_t i = 0; i <= limits->mask; i++) {
        int64_t size = 0;
        for (const struct guest *guest = limits->chains[i]; guest != NULL; guest = guest->next)
            size++;
        longest = size > longest ? size : longest;
    }
    weft_mutex_unlock(&limits->lock);
    return longest;
}

static struct guest **find(struct limits *limits, const uint64_t key[2])
{
    struct guest **at = chain_of(limits, key);
    while (*at != NULL && ((*at)->key[0] != key[0] || (*at)->key[1] != key[1]))
        at = &(*at)->next;
    return at;
}

static bool has_any(const struct guest *guest)
{
    bool any = false;
    for (int i = 0; i < LIMITS; i++)
        any = any || guest->counts[i] > 0;
    return any;
}

static void drop_empty(struct guest **at)
{
    struct guest *guest = *at;
    if (has_any(guest))
        return;
    *at = guest->next;
    weft__http_free(guest);
}

bool weft__http_limits_enter(struct limits *limits, enum limit limit, const struct peer *peer,
                             int64_t by)
{
    if (!is_counted(limits, limit, peer))
        return true;
    uint64_t key[2];
    key_of(peer, key);
    weft_mutex_lock(&limits->lock);
    struct guest **at = find(limits, key);
    if (*at == NULL && (*at = weft__http_allocate(sizeof **at)) != NULL)
        **at = (struct guest){.key = {key[0], key[1]}};
    bool welcome = *at != NULL && (*at)->counts[limit] <= limits->allowances[limit].most - by;
    if (welcome)
        (*at)->counts[limit] += by;
    else if (*at != NULL)
        drop_empty(at);
    weft_mutex_unlock(&limits->lock);
    return welcome;
}

void weft__http_limits_leave(struct limits *limits, enum limit limit, const struct peer *peer,
                             int64_t by)
{
    if (!is_counted(limits, limit, peer))
        return;
    uint64_t key[2];
    key_of(peer, key);
    weft_mutex_lock(&limits->lock);
    struct guest **at = find(limits, key);
    must(*at != NULL && (*at)->counts[limit] >= by);
    (*at)->counts[limit] -= by;
    drop_empty(at);
    weft_mutex_unlock(&limits->lock);
}
